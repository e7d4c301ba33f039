"""The kept memory that the reader computes from the followed allocations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from perfpy.capture.memory_growth import growth
from perfpy.capture.memory_growth.programs import INTERVAL, AllocationMaps
from perfpy.capture.python_frames.current_stacks import CurrentFrame

KEEP = (CurrentFrame("keep", "app.py", 5),)


def test_stacks_beyond_the_limit_are_kept_without_functions() -> None:
    python = SimpleNamespace(layout=SimpleNamespace(version=(3, 12)))
    procfs = SimpleNamespace(command_line=lambda _pid: "python app.py")
    watched = growth._WatchedProgram(cast("Any", procfs), 7, cast("Any", python), AllocationMaps(3, 4, 5, 6, 7))
    watched._stacks = {b"named": KEEP, b"of C": ()}
    watched._allocations = [(1, 100_000, b"named"), (2, 70_000, b"of C"), (3, 10, b"beyond"), (4, 50_000, b"further")]
    result = watched.growth(0, 1000, INTERVAL)
    assert result.unnamed == INTERVAL + 50_000
    assert {one.frames: one.bytes for one in result.retained} == {KEEP: 100_000, (): 70_000 + INTERVAL + 50_000}
