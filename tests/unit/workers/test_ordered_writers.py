"""Parts made by other processes, which write them themselves: in order, whole, and told where they are not."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import PerfError
from perfpy.workers.ordered_writers import OrderedWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def written(
    path: Path, parts: Sequence[int], make: Callable[[int], int], count: int, give: Callable[[int], None] = lambda _: None
) -> list[int]:
    """Each part's number is written, and the process that wrote it is what comes back."""
    with path.open("wb", 0) as file:

        def write(made: int) -> int:
            give(made)
            file.write(b"%d\n" % made)
            return os.getpid()

        with OrderedWriters(parts, make, write, count) as workers:
            return list(workers.results())


def test_results_are_written_in_the_order_of_the_parts(tmp_path: Path):
    def make(part: int) -> int:
        time.sleep(0.02 * (3 - part % 3))
        return part * part

    pids = written(tmp_path / "out", range(7), make, 3)
    assert (tmp_path / "out").read_text().split() == [str(part * part) for part in range(7)]
    assert len(set(pids)) == 3
    assert os.getpid() not in pids


def test_missing_parts_of_a_process_are_computed_by_the_parent(tmp_path: Path):
    here = os.getpid()

    def make(part: int) -> int:
        if part == 2 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    pids = written(tmp_path / "out", [1, 2, 3, 4], make, 2)
    assert (tmp_path / "out").read_text().split() == ["1", "2", "3", "4"]
    assert [pid == here for pid in pids] == [False, True, False, True]


def test_an_incomplete_write_is_reported(tmp_path: Path):
    here = os.getpid()

    def give(made: int) -> None:
        if made == 2 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(PerfError, match="killed while it wrote"):
        written(tmp_path / "out", [1, 2, 3, 4], lambda part: part, 2, give)
    assert (tmp_path / "out").read_text().split() == ["1"]


def test_errors_are_raised_in_the_parent(tmp_path: Path):
    def make(part: int) -> int:
        if part == 2:
            raise LookupError("part 2")
        return part

    with pytest.raises(LookupError, match="part 2"):
        written(tmp_path / "out", [1, 2], make, 2)
    assert (tmp_path / "out").read_text().split() == ["1"]
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space left"):
            written(tmp_path.__class__("/dev/full"), [1, 2], lambda part: part, 2)


def test_a_broken_pipe_is_raised():
    reading, writing = os.pipe()
    os.close(reading)

    def write(made: int) -> int:
        return os.write(writing, b"%d" % made)

    with pytest.raises(BrokenPipeError), OrderedWriters([1, 2], lambda part: part, write, 2) as workers:
        list(workers.results())
    os.close(writing)


def test_abandoned_results_leave_no_process():
    with OrderedWriters([1, 2], lambda part: part, lambda part: part, 2) as workers:
        pids, files = list(workers._pids), len(os.listdir("/proc/self/fd"))
    assert len(pids) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == files - 6
