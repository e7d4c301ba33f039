"""Tests that perf reads recordings of record --unwind, with its own callchains of the same stacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("perf"), reason="needs perf"),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here"),
]

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
volatile unsigned long sink;
static int compare(const void *one, const void *other) { sink++; return *(const int *)one - *(const int *)other; }
__attribute__((noinline)) void sort(int depth)
{
    int numbers[500];
    for (int i = 0; i < 500; i++) numbers[i] = (i * 7919) % 1009;
    if (depth) sort(depth - 1); else qsort(numbers, 500, sizeof *numbers, compare);
    sink += numbers[depth];
}
int main(void) { for (int i = 0; i < 30000; i++) sort(i % 3); return 0; }
"""


def record(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "perfpy", "record", "-q", "-N", "-o", "perf.data", "-e", "task-clock", "-F", "500", *words]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True, timeout=120)


def chains(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the time of each sample -> its addresses, as perf script prints them."""
    process = subprocess.run(
        ["perf", "script", "-i", name, "-F", "time,ip", "--no-inline"], cwd=folder, capture_output=True, text=True, check=True, timeout=120
    )
    results: dict[str, list[str]] = {}
    for block in process.stdout.split("\n\n"):
        lines = [line.strip() for line in block.split("\n") if line.strip()]
        if lines:
            results[lines[0]] = [line for line in lines[1:] if line != "ffffffffffffffff"]  # perf's word for a caller that is lost
    return results


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "sorts.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-o", folder / "sorts", folder / "sorts.c"], check=True, timeout=60)
    return str(folder / "sorts")


@pytest.mark.parametrize("words", [(), ("-z0",), ("--call-graph", "dwarf,16384")])
def test_callchains_equal_perfs_of_the_stacks(tmp_path, program, words):
    record(tmp_path, "--unwind", "--keep-stacks", *words, "--", program)
    plain, raw = chains(tmp_path, "perf.data"), chains(tmp_path, "perf.data.stacks")
    assert plain.keys() == raw.keys()
    assert len(raw) > 100
    same = sum(plain[time] == raw[time] for time in raw)
    assert same >= 0.99 * len(raw)


def test_perf_reports_the_callers(tmp_path, program):
    record(tmp_path, "--unwind", "--", program)
    process = subprocess.run(
        ["perf", "report", "--stdio", "--children", "-g", "none", "-s", "sym"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    children = {line.split()[-1]: float(line.split()[0].rstrip("%")) for line in process.stdout.splitlines() if "%" in line}
    assert children["main"] > 90
    assert children["sort"] > 80
