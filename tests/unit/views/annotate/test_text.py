"""The order of source files in annotate --by-line."""

from __future__ import annotations

import pytest

from perfpy.analysis.source_files import SourceFile, SourceLine, SourceShares
from perfpy.views.annotate.text import SourceStyle, is_own_source, source_lines


def of_file(path: str, percent: float) -> SourceFile:
    return SourceFile(path, percent, percent, [SourceLine(1, percent, percent, 1)])


def test_own_files_come_before_those_that_all_calls_pass_through() -> None:
    files = [of_file("./csu/libc-start.c", 99.0), of_file("<frozen runpy>", 98.0), of_file("b.py", 40.0), of_file("/home/a/c.c", 20.0)]
    lines = [*source_lines(SourceShares("cycles", 10, files, {}, with_calls=True), SourceStyle())]
    assert [line.split()[0] for line in lines if "file not found" in line] == ["b.py", "/home/a/c.c", "./csu/libc-start.c", "<frozen"]


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/usr/lib/python3.11/runpy.py", False),
        ("/root/.pyenv/versions/3.11.7/lib/python3.11/json/decoder.py", False),
        ("/srv/app/.venv/lib/python3.12/site-packages/flask/app.py", False),
        ("node:internal/modules/cjs/loader", False),
        ("/usr/local/go/src/runtime/proc.go", False),
        ("/rustc/90b35a6/library/std/src/rt.rs", False),
        ("../sysdeps/x86_64/start.S", False),
        ("/srv/app/lib/handlers.py", True),
        ("/home/a/node/server.js", True),
    ],
)
def test_files_of_runtimes_and_packages_are_known_by_their_paths(path: str, is_own: bool) -> None:
    assert is_own_source(path) == is_own
