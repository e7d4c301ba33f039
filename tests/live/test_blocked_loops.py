"""record --python finds the callback that blocks an event loop of asyncio, on the CPU or asleep."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

PROGRAM = """
import asyncio, time
def crunch(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(i * i for i in range(500))
async def slow():
    for _ in range(3):
        crunch(0.3)
        await asyncio.sleep(0.02)
    time.sleep(0.4)
async def quick():
    for _ in range(100):
        crunch(0.002)
        await asyncio.sleep(0.001)
async def main(): await asyncio.gather(slow(), quick())
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "version", [pytest.param("3.8", marks=pytest.mark.thorough), pytest.param("3.12", marks=pytest.mark.thorough), "3.13"]
)
def test_a_blocking_callback_is_counted_and_named(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM)
    line = [*PERFPY, "record", "--python", "--off-cpu", "-F", "499", "-o", "perf.data", "--", python, "program.py"]
    recorded = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True).stderr
    note = re.search(r"blocked the event loop for over 100 ms (\d+) times?, for ([\d,]+) ms or longer by (\S+)", recorded)
    assert note, recorded
    assert 3 <= int(note[1]) <= 3 + 30, "a busy machine can make turns of short callbacks long"
    assert int(note[2].replace(",", "")) >= 250
    chains = re.split(r"\n\n+", output_of([*PERFPY, "script", "-F", "ip,sym"], cwd=tmp_path))
    marked = [chain for chain in chains if "[event loop blocked for over 100 ms]" in chain]
    assert len(marked) > 50
    assert all(re.search(r"py::(?:Handle\.)?_run:(?s:.*)\n.*\[event loop blocked.*\n.*_run_once:", chain) for chain in marked)
    assert sum("py::slow:" in chain for chain in marked) > 0.8 * len(marked)
    verdict = output_of([*PERFPY, "report", "--verdict"], cwd=tmp_path)
    assert "Long callbacks blocked the event loop for at least" in verdict
