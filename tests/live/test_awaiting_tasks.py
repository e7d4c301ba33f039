"""record --python: the coroutines that await an asyncio task are callers of its functions, and only the right ones."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

#: each crunch function runs in tasks that one coroutine awaits; the tasks have each other's addresses, and a turn of the loop runs several
PROGRAM = """
import asyncio, time
def crunch_one(n):
    for i in range(n): i * i
def crunch_two(n):
    for i in range(n): i * i
async def child(crunch):
    await asyncio.sleep(0)
    crunch(20000)
async def wait_one(): await asyncio.create_task(child(crunch_one))
async def wait_two():
    if hasattr(asyncio, "TaskGroup"):
        async with asyncio.TaskGroup() as group: group.create_task(child(crunch_two))
    else: await asyncio.gather(child(crunch_two))
async def handle():
    while time.process_time() < 0.5:
        await wait_one()
        await wait_two()
async def main():
    await asyncio.gather(*(handle() for _ in range(3)))
asyncio.run(main())
"""


RARE = [pytest.param(version, marks=pytest.mark.thorough) for version in ("3.9", "3.10", "3.11", "3.13", "3.15")]


@pytest.mark.parametrize("version", ["3.12", "3.14", "3.8", *RARE])
def test_awaiting_coroutines_are_callers_of_tasks(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM)
    record = [*PERFPY, "record", "-q", "--python", "-F", "999", "-e", "task-clock", "-o", "perf.data", python, "program.py"]
    subprocess.run(record, cwd=tmp_path, timeout=100, check=True)
    text = output_of([*PERFPY, "script", "-F", "ip,sym", "--fold-interpreters", "--no-inline"], cwd=tmp_path)
    pairs: Counter[tuple[str, ...]] = Counter()
    for block in text.split("\n\n"):
        names = [word.split(":")[2] for line in block.splitlines() for word in line.split() if word.startswith("py::")]
        if names and names[0].startswith("crunch_") and "[awaited" in names:
            pairs[names[0].removeprefix("crunch_"), *(name.removeprefix("wait_") for name in names if name.startswith("wait_"))] += 1
    assert pairs["one", "one"] > 5, text[:5000]
    assert pairs["two", "two"] > 5
    assert len(pairs) == 2, pairs
