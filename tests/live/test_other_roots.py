"""Programs below chroot: their own files are used, not those of the host with the same path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

PROGRAM = """
#include <stdlib.h>
#include <time.h>
volatile unsigned sink;
__attribute__((noinline)) void %(name)s_inner(void) { for (int i = 0; i < 2000; i++) sink += i; }
__attribute__((noinline)) void %(name)s(void) { for (int i = 0; i < 10; i++) %(name)s_inner(); sink++; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 5) %(name)s(); return 0; }
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program, and a folder in which another program has the same path."""
    if os.geteuid() or not shutil.which("gcc") or not shutil.which("chroot"):
        pytest.skip("needs root, gcc and chroot")
    folder = tmp_path_factory.mktemp("roots")
    host, root = folder / "busy", folder / "root"
    inside = root / str(host)[1:]
    inside.parent.mkdir(parents=True)
    for name, path, more in (("of_host", host, ""), ("of_root", inside, "int unused(int a) { return a * 3; }\n")):
        source = folder / f"{name}.c"
        source.write_text(more + PROGRAM % {"name": name})
        build = ["gcc", "-O1", "-static", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", str(path), str(source)]
        if subprocess.run(build, capture_output=True, timeout=60, check=False).returncode:
            pytest.skip("no static C library")
    return host, root


@pytest.mark.parametrize("options", [[], ["--unwind"]], ids=["plain", "unwind"])
def test_two_files_with_one_path_are_distinct(programs: tuple[Path, Path], tmp_path: Path, options: list[str]):
    host, root = programs
    command = ["sh", "-c", f"{host}; chroot {root} {host}"]
    environment = {**os.environ, "HOME": str(tmp_path)}  # the build-id cache keeps the files
    words = ["record", "-q", *options, "-F", "999", "-e", "cpu-clock:u", "-o", "perf.data", "--", *command]
    run([*PERFPY, *words], env=environment, cwd=tmp_path, check=True)
    line = [*PERFPY, "script", "-i", "perf.data", "-F", "ip,sym,dso", "--no-inline"]
    lines = run(line, env=environment, cwd=tmp_path, check=True).stdout.decode()
    counts = [len(re.findall(rf"\b{name}_inner\b", lines)) for name in ("of_host", "of_root")]
    assert min(counts) > 50, lines[:1000]
    if options:  # only the right file leads to the callers
        assert len(re.findall(r" of_root_inner .*\n.* of_root .*\n.* main ", lines)) > 50, lines[:1000]
