"""Summaries beside the rows of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.entries.options import ReportOptions
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screens.hottest import hottest_by
from tests.builders.sampled_program import Stack, sampled_program

if TYPE_CHECKING:
    from pathlib import Path


def hottest_files(folder: Path, *stacks: Stack, by: str = "dso,symbol") -> list[tuple[float, str]]:
    path = sampled_program(folder, stacks)
    symbols = SymbolOptions(cache=False, symfs=str(folder), kallsyms=str(folder / "kallsyms"))
    with Recording(str(path)) as recording:
        options = ReportOptions()._replace(columns=ReportOptions().columns._replace(sort=by))
        (histogram,) = recording.report(options=options, symbols=symbols).histograms
        return [(round(share, 1), name) for share, name in hottest_by("dso", histogram)]


PYTHON = [
    Stack(("py::parse:/srv/app.py@jitted-0-1.so",), 40),
    Stack(("py::load:/srv/app.py@jitted-0-1.so",), 20),
    Stack(("py::loads:/usr/lib/python3/json/__init__.py@jitted-0-1.so",), 30),
    Stack(("memcpy@libc.so.6",), 10),
]


def test_python_functions_count_for_their_source_files(tmp_path: Path) -> None:
    assert hottest_files(tmp_path, *PYTHON) == [(60.0, "app.py"), (30.0, "json/__init__.py"), (10.0, "libc.so.6")]


def test_without_functions_python_is_one_file(tmp_path: Path) -> None:
    shares = hottest_files(tmp_path, *PYTHON, by="comm,dso")
    assert [share for share, _ in shares] == [90.0, 10.0]
    assert "app.py" not in dict(shares).values()


def test_hostile_names_of_source_files_are_visible(tmp_path: Path) -> None:
    ((_, name),) = hottest_files(tmp_path, Stack(("py::f:/srv/a\x1b[2J.py@jitted-0-1.so",), 9))
    assert name == "a^[[2J.py"
