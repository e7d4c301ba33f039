"""Parts done by other processes: their results in order, and nothing of them left, however this one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.errors import PerfError
from perfpy.workers import ForkedWorkers, OrderedWriters, available_cores, can_fork, jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


DEADLINE = 30
ENDLESS = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from perfpy.workers import ForkedWorkers

def work(part):
    os.write(1, b"%d\\n" % os.getpid())
    while True:
        time.sleep(60)

with ForkedWorkers([1, 2], work, 2) as workers:
    os.write(1, b"begun\\n")
    for result in workers.results():
        pass
"""


def results(parts, work, count):
    with ForkedWorkers(parts, work, count) as workers:
        return list(workers.results())


def test_results_come_in_the_order_of_the_parts():
    def work(part):
        time.sleep(0.02 * (3 - part % 3))
        return part * part

    assert results(range(7), work, 3) == [part * part for part in range(7)]


def test_parts_run_in_other_processes():
    assert os.getpid() not in results([1, 2], lambda _part: os.getpid(), 2)


def test_arrays_round_trip():
    """More bytes than a pipe holds; and none at all."""
    arrays: list[Any] = [np.arange(1_000_000), np.zeros(0, np.uint8), np.arange(5, dtype=np.int32)[::2]]
    (result,) = results([0], lambda _part: arrays, 1)
    assert [array.tolist() for array in result] == [array.tolist() for array in arrays]
    assert [array.dtype for array in result] == [array.dtype for array in arrays]


def test_missing_parts_of_a_killed_process_run_in_the_parent():
    here = os.getpid()

    def work(part):
        if part == 2 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    assert results([1, 2, 3, 4], work, 2) == [1, 2, 3, 4]


def test_an_error_is_raised_in_the_parent():
    def work(part):
        if part == 2:
            raise LookupError("part 2")
        return part

    with ForkedWorkers([1, 2], work, 2) as workers:
        results = workers.results()
        assert next(results) == 1
        with pytest.raises(LookupError, match="part 2"):
            next(results)


def test_abandoned_results_leave_no_process():
    with ForkedWorkers([1, 2], lambda _part: os.getpid(), 2) as workers:
        pids = list(workers._pids)
    assert len(pids) == 2
    assert not any(map(is_alive, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_this_one(number):
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(3)]
        pids = [int(line) for line in lines if line != "begun"]
        process.send_signal(number)
        try:
            process.wait(DEADLINE)
        finally:
            process.kill()
    assert len(pids) == 2
    deadline = time.monotonic() + DEADLINE
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, pids))


def is_alive(pid):
    """Whether a process runs: one that has ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("requested", "size", "jobs"),
    [(1, 10**9, 1), (4, 199, 1), (4, 200, 2), (4, 350, 3), (4, 10**9, 4), (0, 10**9, available_cores()), (0, 0, 1)],
)
def test_small_tasks_get_fewer_processes(requested, size, jobs, monkeypatch):
    monkeypatch.setattr("perfpy.workers.can_fork", lambda: True)
    assert jobs_for(requested, size, 100) == jobs


def test_a_process_with_threads_does_not_fork():
    code = "import threading, time; from perfpy.workers import can_fork; print(can_fork());"
    code += "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); print(can_fork())"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["True", "False"]
    assert isinstance(can_fork(), bool)


# Parts made by other processes, which write them themselves: in order, whole, and told where they are not.


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


def test_abandoned_results_leave_no_process_of_ordered_writers():
    with OrderedWriters([1, 2], lambda part: part, lambda part: part, 2) as workers:
        pids, files = list(workers._pids), len(os.listdir("/proc/self/fd"))
    assert len(pids) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == files - 6


# Freed memory that stays in the process.


PROGRAM = """
import resource
import numpy as np
from perfpy.workers import keep_freed_memory
keep_freed_memory()
def faults():
    np.ones(1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faults()
print(faults() - faults())
"""


def test_kept_memory_is_used_again_without_page_faults():
    """An array of 8 MB has 2,048 pages."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert abs(int(done.stdout)) < 500
