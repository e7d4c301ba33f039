"""Repeat a recorded load with threads: each task runs, waits for wakeups and wakes others, as in the recording.

A run takes as much CPU time as the recorded one. It computes hashes, for which Python releases its lock, so that threads run on all CPUs.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.analysis.sched.replay_plan import RUN, SLEEP
from perfpy.errors import PerfError
from perfpy.views.sched.replay_text import Calibration, Repetition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_THREADS: Final = 4096
LONGEST: Final = 3600  #: seconds of CPU time of all tasks; more are the result of a clock that jumped
_TRIALS: Final = 10
_TEST: Final = 1_000_000  # nanoseconds
_SHORT_SLEEP: Final = 10_000  # nanoseconds
_STACK: Final = 256 << 10  # bytes of a thread
_LARGE, _SMALL = bytes(1 << 16), bytes(1 << 12)  # some 100 and 10 microseconds of hashing
_LONG: Final = 500_000  # nanoseconds


class TaskLoad(NamedTuple):
    """The events of one task: its kinds and values (perfpy.analysis.sched.replay_plan)."""

    kinds: Sequence[int]
    values: Sequence[int]


def calibrate() -> Calibration:
    """Measure the precision of runs and sleeps."""
    run = min(_elapsed(lambda: None) for _ in range(_TRIALS))
    sleep = min(_elapsed(lambda: time.sleep(_SHORT_SLEEP / 1e9)) for _ in range(_TRIALS)) - _SHORT_SLEEP
    return Calibration(run, max(sleep, 0), _elapsed(lambda: _run(_TEST)), _elapsed(lambda: time.sleep(_TEST / 1e9)))


def _elapsed(function: Callable[[], object]) -> int:
    begin = time.perf_counter_ns()
    function()
    return time.perf_counter_ns() - begin


def replay_once(loads: Sequence[TaskLoad], wakeup_count: int) -> Repetition:
    """Repeat the load once. Raises PerfError if there are too many tasks for threads, or too much CPU time.

    Args:
        loads: the tasks. Those without runs and wakeups get no thread.
        wakeup_count: the number of sleeps that wait.
    """
    total = sum(value for load in loads for kind, value in zip(load.kinds, load.values, strict=True) if kind == RUN)
    if total > LONGEST * 10**9:
        hours = total / 3.6e12
        raise PerfError(f"sched replay: the load has {hours:.3g} hours of CPU time; at most {LONGEST // 3600} are replayed; record less")
    active = [load for load in loads if any(kind != SLEEP for kind in load.kinds)]
    if len(active) > MOST_THREADS:
        raise PerfError(f"sched replay: the recording has {len(active)} active tasks; at most {MOST_THREADS} are replayed; record less")
    wakeups = [threading.Lock() for _ in range(wakeup_count)]
    for lock in wakeups:
        lock.acquire()
    gate = threading.Lock()
    gate.acquire()
    size = threading.stack_size(_STACK)
    try:
        threads = [threading.Thread(target=_replay_task, args=(load, wakeups, gate), daemon=True) for load in active]
        for thread in threads:
            thread.start()
    except RuntimeError:
        raise PerfError("sched replay: the system refuses more threads; raise the limit (ulimit -u), or record less") from None
    finally:
        threading.stack_size(size)
    begin, cpu = time.perf_counter_ns(), time.process_time_ns()
    gate.release()
    for thread in threads:
        thread.join()
    return Repetition(time.perf_counter_ns() - begin, time.process_time_ns() - cpu)


def _replay_task(load: TaskLoad, wakeups: Sequence[threading.Lock], gate: threading.Lock) -> None:
    with gate:  # the threads start one after the other as soon as all exist
        pass
    for kind, value in zip(load.kinds, load.values, strict=True):
        if kind == RUN:
            _run(value)
        elif value >= 0:
            lock = wakeups[value]
            if kind == SLEEP:
                lock.acquire()
            else:
                lock.release()


def _run(nanoseconds: int) -> None:
    """Use CPU time."""
    clock = time.thread_time_ns
    end = clock() + nanoseconds
    while (remaining := end - clock()) > 0:
        hashlib.sha256(_LARGE if remaining > _LONG else _SMALL)
