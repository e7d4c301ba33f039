"""Waits in a live view: each interval has its part of every wait, whether it ended or not."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, PerfType, SampleType, SoftwareId
from perfpy.abi.waits import OFF_CPU_EVENT
from perfpy.capture.off_cpu.sources import WaitPlan
from perfpy.kernel.thread_states import read_wait
from perfpy.live.waits import LiveWaits, clip, waiting_threads, without_idle
from perfpy.live.window import LiveWindow
from perfpy.perfdata.container.events import FileEvent
from perfpy.scheduling.intervals import INTERVAL, Intervals
from perfpy.scheduling.transitions import OUT, STACK, TRANSITION, Transitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.records.delivery.keys import OrderedChunk

USER = int(CONTEXT_USER)
KERNEL_ONLY, WITH_USER = 0, 1
SECOND = 1_000_000_000


@contextlib.contextmanager
def waiting() -> Iterator[int]:
    """Run a thread that waits; yield its number once it does."""
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait)
    thread.start()
    while read_wait(os.getpid(), thread.native_id or 0)[0] == "R":
        time.sleep(0.001)
    try:
        yield thread.native_id or 0
    finally:
        ends.set()
        thread.join()


def waits(*given: tuple[int, int, str, int]) -> Intervals:
    """(end, duration, state, stack)."""
    rows = np.zeros(len(given), INTERVAL)
    for row, (end, duration, state, stack) in zip(rows, given, strict=True):
        row["end"], row["duration"], row["state"], row["stack"] = end, duration, ord(state), stack
    return Intervals(rows, Ragged(np.array([9, USER, 5], np.uint64), np.array([0, 1, 3])))


def test_waits_are_cut_at_the_begin_of_the_interval() -> None:
    clipped = clip(waits((100, 30, "S", 1), (100, 80, "S", 1), (40, 30, "S", 1)), 50)
    assert clipped.rows["duration"].tolist() == [30, 50]


def test_kernel_threads_that_sleep_wait_for_work() -> None:
    arguments = [(9, 1, "S", KERNEL_ONLY), (9, 2, "I", KERNEL_ONLY), (9, 3, "D", KERNEL_ONLY), (9, 4, "S", WITH_USER), (9, 5, "S", -1)]
    assert without_idle(waits(*arguments)).rows["duration"].tolist() == [3, 4, 5]


def test_threads_that_wait_already_are_known_by_their_state() -> None:
    """Their address is the one at which they entered the kernel."""
    with waiting() as tid:
        threads = waiting_threads([(os.getpid(), tid), (os.getpid(), 1 << 30)], 7, own=-1)
    assert threads.rows["kind"].tolist() == [STACK, OUT]
    assert set(threads.rows["tid"].tolist()) == {tid}
    assert set(map(chr, threads.rows["detail"].tolist())) <= set("SD")
    chain = threads.stacks[0].tolist()
    assert chain == [] or (chain[0] == USER and 0 < chain[1] < 1 << 63)


def test_own_threads_are_left_out() -> None:
    assert not len(waiting_threads([(os.getpid(), os.getpid())], 7, own=os.getpid()).rows)


def events() -> list[FileEvent]:
    usual = SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD
    attr = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT, sample_type=int(usual), sample_id_all=1)
    return [FileEvent(attr, (3,), OFF_CPU_EVENT, 0)]


def nothing(window: LiveWindow) -> OrderedChunk:
    return window.order_records(np.zeros(0, np.uint8))


def test_a_wait_without_end_has_samples_in_each_interval() -> None:
    """No record arrives; the samples have the length of the interval, and leave nothing for the next one."""
    event_list: list[Any] = events()
    live = LiveWaits(WaitPlan(0, -1, -1, None, None, SECOND, without_kernel=False), event_list, own=-1)
    window = LiveWindow(event_list, {})
    with waiting() as tid:
        live.begin([(os.getpid(), tid)], 5 * SECOND)
    for until in (7, 8, 12):
        window.begin(live.of_interval(nothing(window), until * SECOND))
        (batch,) = window.batches()
        assert batch.columns["period"].tolist() == [{7: 2, 8: 1, 12: 4}[until] * SECOND]
        assert batch.columns["tid"].tolist() == [tid]


def test_threads_whose_end_was_lost_wait_no_longer() -> None:
    """Each generation of threads leaves the CPU, and nothing tells that it has ended."""
    event_list: list[Any] = events()
    live = LiveWaits(WaitPlan(0, -1, -1, None, None, SECOND, without_kernel=False), event_list, own=-1)
    window, sizes = LiveWindow(event_list, {}), []
    for number in range(8):
        rows = np.zeros(50, TRANSITION)
        rows["time"], rows["kind"], rows["cpu"], rows["stack"] = 100 * number * SECOND, OUT, -1, -1
        rows["tid"] = rows["pid"] = (1 << 30) + 50 * number + np.arange(50)
        live._pairing.take_ended(100 * number * SECOND, Transitions(rows, Ragged.empty(0, np.uint64)))
        live.of_interval(nothing(window), (100 * number + 50) * SECOND)
        sizes.append(len(live._pairing.waiting_threads()))
    assert max(sizes) <= 100
