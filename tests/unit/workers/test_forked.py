"""Parts done by other processes: their results in order, and nothing of them left, however this one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from perfpy.workers.forked import ForkedWorkers, can_fork
from perfpy.workers.jobs import available_cores, jobs_for

DEADLINE = 30
ENDLESS = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from perfpy.workers.forked import ForkedWorkers

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
    monkeypatch.setattr("perfpy.workers.jobs.can_fork", lambda: True)
    assert jobs_for(requested, size, 100) == jobs


def test_a_process_with_threads_does_not_fork():
    code = "import threading, time; from perfpy.workers.forked import can_fork; print(can_fork());"
    code += "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); print(can_fork())"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["True", "False"]
    assert isinstance(can_fork(), bool)
