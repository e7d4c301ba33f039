"""record --self-contained: a report on a machine that has none of the files says the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = """
#include <stdlib.h>
#include <time.h>
volatile unsigned sink;
__attribute__((noinline)) void innermost(void) { for (int i = 0; i < 2000; i++) sink += i; }
__attribute__((noinline)) void between(void) { for (int i = 0; i < 10; i++) innermost(); sink++; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 4) between(); return 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("no gcc in PATH")
    folder = tmp_path_factory.mktemp("program")
    (folder / "busy.c").write_text(PROGRAM)
    build: list[str | Path] = [
        "gcc",
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
        "-o",
        folder / "busy",
        folder / "busy.c",
    ]
    subprocess.run(build, check=True, timeout=60)
    return folder / "busy"


def perfpy(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "perfpy", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=True)


def script(folder: Path, *words: object) -> str:
    return perfpy(folder, "script", "-F", "comm,ip,sym,dso", *words).stdout


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["--self-contained", "-g"], ["--no-inline"]),  # lines and inlined calls stay where the debug information is
        (["--self-contained", "--call-graph", "dwarf,4096", "-F", "500"], ["--no-inline"]),
        (["--self-contained=binaries", "-g"], []),
        (["--self-contained", "-z", "-B"], []),
    ],
    ids=["names", "unwound elsewhere", "binaries", "compressed, without build-ids"],
)
def test_a_machine_without_the_files_prints_the_same(tmp_path, program, options, output):
    errors = perfpy(tmp_path, "record", "-N", "-o", "perf.data", "-e", "task-clock", *options, "--", program).stderr
    assert "--self-contained stored the" in errors
    (tmp_path / "empty").mkdir()
    here, elsewhere = script(tmp_path, *output), script(tmp_path, *output, "--symfs", tmp_path / "empty")
    assert here == elsewhere
    assert "innermost" in elsewhere


@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")
def test_perf_reads_the_file(tmp_path, program):
    perfpy(tmp_path, "record", "-N", "-o", "perf.data", "-e", "task-clock", "--self-contained", "--", program)
    process = subprocess.run(["perf", "script", "-i", "perf.data"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "innermost" in process.stdout


def test_a_file_that_goes_on_elsewhere_is_refused(tmp_path, program):
    for line in (["-o", "-"], ["-o", "perf.data", "--switch-output=1s"]):
        with pytest.raises(subprocess.CalledProcessError) as failed:
            perfpy(tmp_path, "record", *line, "--self-contained", "--", program)
        assert failed.value.returncode == 129
        assert "--self-contained" in failed.value.stderr
