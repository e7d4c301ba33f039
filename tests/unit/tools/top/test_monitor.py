"""Reports of a live view from records of any kind, without a kernel."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, BranchSample, PerfType, SampleType, SoftwareId
from perfpy.abi.recorded_marks import OFF_CPU_EVENT
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.sort_key import Mode
from perfpy.capture.off_cpu import WaitPlan
from perfpy.capture.record_options import RecordOptions
from perfpy.fleet.folding import FoldingRequest, fold_recording
from perfpy.fleet.merging import MergedProfile
from perfpy.kernel.procfs import read_wait
from perfpy.live.window import LiveWindow
from perfpy.perfdata.events import FileEvent
from perfpy.scheduling.intervals import INTERVAL, Intervals
from perfpy.scheduling.transitions import OUT, STACK, TRANSITION, Transitions
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.top import monitor as module
from perfpy.tools.top.monitor import LiveMonitor, LiveWaits, add_window, clip, fade, waiting_threads, without_idle
from perfpy.tools.top.reading import RingRecords
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.perfdata import USUAL as USUAL_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfpy.analysis.report.report import Report
    from perfpy.fleet.portable_profile import PortableProfile
    from perfpy.perfdata.records.delivery import OrderedChunk


def monitor(attr: EventAttr, options: ReportOptions, monkeypatch: pytest.MonkeyPatch, **more: Any) -> LiveMonitor:
    monkeypatch.setattr(module, "RecordedFeatures", lambda *_words: None)
    rings: Any = SimpleNamespace(
        options=RecordOptions(),
        waits=None,
        features={},
        counters=None,
        recorded=(None, [attr]),
        tracing_data=lambda: b"",
        events=lambda _tracing: [FileEvent(attr, (), "cycles:u", 0)],
        read=lambda: b"",
    )
    return LiveMonitor(rings, options, SymbolOptions(cache=False), **more)


def report(live: LiveMonitor, *pieces: PerfDataBuilder, dropped: int = 0) -> Report:
    """Return the last report of some intervals of a second."""
    updates = [live.update(RingRecords(number + 1, bytes(piece.body), b"", dropped, False)) for number, piece in enumerate(pieces)]
    return updates[-1].report


def rows(shown: Report) -> dict[tuple[str, ...], int]:
    table = shown.histograms[0]
    return {tuple(text.strip() for text in row.texts.values()): row.period for row in table.top(100)}


def test_branches_are_rows_of_their_sources_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    attr = usual_attr(USUAL | SampleType.BRANCH_STACK, type=0, branch_sample_type=BranchSample.ANY | BranchSample.USER)
    options = ReportOptions(columns=ColumnOptions(sort=None, mode=Mode.BRANCH))
    live = monitor(attr, options, monkeypatch)
    piece = PerfDataBuilder(attrs=[attr])
    for _ in range(2):
        branches = [(0x400010, 0x400020, 0), (0x400030, 0x400010, 0), (0x400010, 0x400020, 0)]
        piece.sample(misc=2, ip=0x400020, pid=40, tid=40, time=0, period=1, branch_stack=branches)
    shown = report(live, piece)
    keys = list(shown.histograms[0].keys)
    assert "symbol_from" in keys
    assert "symbol_to" in keys
    counts = {(key[keys.index("symbol_from")][-8:], key[keys.index("symbol_to")][-8:]): period for key, period in rows(shown).items()}
    assert counts == {("00400010", "00400020"): 4, ("00400030", "00400010"): 2}


def test_earlier_intervals_fade_and_dropped_samples_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    attr = usual_attr(USUAL)
    live = monitor(attr, ReportOptions(columns=ColumnOptions(sort="pid")), monkeypatch)
    first = PerfDataBuilder(attrs=[attr]).record(records.Comm(0, 40, 40, "work", None))
    for _ in range(8):
        first.sample(ip=1, pid=40, tid=40, time=0, period=1)
    second = PerfDataBuilder(attrs=[attr]).sample(ip=1, pid=41, tid=41, time=0, period=1)
    assert rows(report(live, first, second)) == {("40:work",): 7, ("41::41",): 1}
    update = live.update(RingRecords(3, b"", b"", 5, False))
    assert (update.rates.dropped, update.rates.total_dropped) == (5, 5)


# Rows of earlier windows fade by an eighth per interval, and leave nothing behind.


KERNEL_MARK, USER_MARK = -128, -512


def profile_of(path: Path, rows: dict[int, int], sort: str = "comm,symbol") -> PortableProfile:
    """Return the profile of samples: address -> period, each with a caller."""
    builder = PerfDataBuilder(attrs=[usual_attr(USUAL_FIELDS | perfpy.SampleType.CALLCHAIN)])
    for moment, (ip, period) in enumerate(rows.items(), 1):
        chain = [USER_MARK & (1 << 64) - 1, ip, 0x9000]
        builder.sample(ip=ip, pid=ip, tid=ip, time=moment, period=period, misc=2, callchain=chain)
    path.write_bytes(builder.file())
    options = ReportOptions(columns=ColumnOptions(sort=sort), chains=ChainOptions(CallGraph()))
    profile = fold_recording(str(path), FoldingRequest(lambda _recording: (options, None)))
    assert profile is not None
    return profile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.data"


def test_an_interval_leaves_seven_eighths_rounded_down(path: Path) -> None:
    faded = fade(profile_of(path, {0x1000: 800, 0x2000: 15}))
    assert sorted(faded.folded.period.tolist()) == [13, 700]


def test_a_row_without_weight_disappears_with_all_that_it_used(path: Path) -> None:
    profile = profile_of(path, {0x1000: 800, 0x2000: 1, 0x3000: 1})
    faded = fade(profile)
    assert faded.folded.period.tolist() == [700]
    assert len(faded.comms) == 1 < len(profile.comms)
    assert len(faded.chain_lengths) == 1 < len(profile.chain_lengths)
    assert len(faded.frames["ip"]) == 2 < len(profile.frames["ip"])
    assert len(faded.last_comms) == 1 < len(profile.last_comms)


def test_a_faded_profile_still_reports(path: Path) -> None:
    merged = MergedProfile(fade(profile_of(path, {0x1000: 800, 0x2000: 1})))
    assert merged.folded.period.tolist() == [700]
    assert [hex(ip) for ip in merged.symbolizer.frames.ip.tolist()] == ["0x1000", "0x9000"]


def test_everything_fades_in_the_end(path: Path) -> None:
    profile = profile_of(path, {0x1000: 1_000_000, 0x2000: 5})
    for _ in range(150):
        profile = fade(profile)
    assert (len(profile.folded), len(profile.frames["ip"]), len(profile.dsos), profile.comms) == (0, 0, 0, [])


def test_a_window_adds_to_the_rest(path: Path) -> None:
    history = profile_of(path, {0x1000: 800, 0x2000: 80})
    window = profile_of(path, {0x1000: 100, 0x3000: 8})
    periods = add_window(history, window).folded.period.tolist()
    assert sorted(periods) == [8, 70, 800]


def test_without_history_the_window_is_all(path: Path) -> None:
    window = profile_of(path, {0x1000: 100})
    assert add_window(None, window) is window


def test_many_rows_are_limited_to_the_heaviest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.tools.top.monitor._MOST_ROWS", 3)
    faded = fade(profile_of(path, {0x1000 * number: 80 * number for number in range(1, 8)}))
    assert sorted(faded.folded.period.tolist()) == [350, 420, 490]


# Waits in a live view: each interval has its part of every wait, whether it ended or not.


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
