"""`perfpy top`: what reads the ring buffers and keeps the windows."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy import cli
from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, BranchSample, PerfType, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.abi.records import Lost, Mmap2
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.sort_key import Mode
from perfpy.capture.off_cpu_events import WaitPlan
from perfpy.capture.record_options import RecordOptions
from perfpy.capture.session import output
from perfpy.errors import OutputFailedError
from perfpy.fleet.folding import FoldingRequest, fold_recording
from perfpy.fleet.merging import MergedProfile
from perfpy.kernel.procfs import read_wait
from perfpy.live.window import LiveWindow
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.records.delivery import RawRecords
from perfpy.perfdata.writer import FileWriter
from perfpy.scheduling.intervals import INTERVAL, Intervals
from perfpy.scheduling.transitions import OUT, STACK, TRANSITION, Transitions
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.top import monitor as module
from perfpy.tools.top import reading
from perfpy.tools.top.monitor import LiveMonitor, LiveWaits, add_window, clip, fade, waiting_threads, without_idle
from perfpy.tools.top.reading import Retained, RingReader, RingRecords, without_samples, write_snapshot
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.perfdata import USUAL as USUAL_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from perfpy.analysis.report.report import Report
    from perfpy.fleet.portable_profile import PortableProfile
    from perfpy.perfdata.records.delivery import OrderedChunk


# Reports of a live view from records of any kind, without a kernel.


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


# The records between two updates: nothing is lost below the limit; beyond it only samples are.


class Rings:
    """Ring buffers that return prepared records, one piece per read."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [*pieces]

        self.rates: list[float] = []

    def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def change_rate(self, share: float) -> None:
        self.rates.append(share)


class Spool:
    """Notes the calls of the reader."""

    def __init__(self) -> None:
        self.calls = ""

    def look(self, records: bytes) -> None:
        self.calls += f"look {len(records)}, "

    def close_piece(self) -> None:
        self.calls += "close, "

    def release_pieces(self) -> None:
        self.calls += "release, "


def reader(*pieces: bytes, **options: Any) -> RingReader:
    return RingReader(Rings(pieces), **options)  # type: ignore[arg-type]


def samples(count: int) -> bytes:
    builder = PerfDataBuilder()
    for moment in range(count):
        builder.sample(ip=0x1000, pid=5, tid=5, time=moment, period=1)
    return bytes(builder.body)


LOST = bytes(PerfDataBuilder().record(Lost(0, 1, 42)).body)


def test_a_reading_has_all_records_since_the_last_one() -> None:
    live = reader(samples(2), LOST, samples(1))
    live.drain()
    assert live.take().records == samples(2) + LOST
    assert live.take(last=True)[1:] == (samples(1), b"", 0, True)
    assert live.take().records == b""


def test_beyond_the_limit_samples_are_dropped_and_counted() -> None:
    live = reader(samples(3), samples(4) + LOST + samples(2), samples(1), most=len(samples(4)))
    live.drain()
    taken = live.take()
    assert (taken.records, taken.dropped) == (samples(3) + LOST, 6)
    assert live.take()[1:4] == (samples(1), b"", 0)  # there is memory again


def test_records_without_samples_keep_their_order() -> None:
    assert without_samples(b"") == (b"", 0)
    assert without_samples(LOST + samples(1) + LOST) == (LOST + LOST, 1)


def test_the_other_process_sees_two_pieces_per_reading() -> None:
    """Records are complete only when all ring buffers were read once more."""
    spool = Spool()
    taken = reader(LOST, samples(1), spooled=spool).take()
    assert (taken.records, taken.further) == (LOST, samples(1))
    assert re.sub(r"\d+", "N", spool.calls) == "release, look N, close, look N, close, "


def test_no_more_waits_for_conversion_than_one_takes_in_an_interval() -> None:
    """A conversion of a megabyte takes 4 s: in an interval of 2 s, half a megabyte would be done; the least is a megabyte."""
    live, megabyte = reader(samples(100), samples(100), spooled=Spool()), 1 << 20
    for size, seconds, most in ((8 * megabyte, 4, 4), (megabyte, 4, 1), (8 * megabyte, 1, 2), (8 * megabyte, 1, 4), (9, 1e9, 4)):
        live.adapt(size, seconds, 2.0)
        assert live._most == most * megabyte


def test_on_a_busy_machine_less_waits_for_an_update_and_later_more_again() -> None:
    live, megabyte = reader(most=16 << 20), 1 << 20
    for size, seconds, most in ((8 * megabyte, 2, 8), (8 * megabyte, 20, 4), (4 * megabyte, 1, 8), (8 * megabyte, 0.1, 16), (9, 1e9, 16)):
        live.adapt(size, seconds, 2.0)
        assert live._most == most * megabyte


def test_samples_from_before_the_start_are_forgotten() -> None:
    live = reader(samples(2) + LOST, samples(1))
    live.drain()
    live.forget_samples()
    assert live.take()[1:4] == (LOST + samples(1), b"", 0)


def test_mappings_are_dropped_beyond_the_limit_of_the_side_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can map 65,530 files with names of 4 kB, again and again."""
    mapping = bytes(PerfDataBuilder().record(Mmap2(2, 5, 5, 0x1000, 0x1000, 0, 8, 1, 7, 0, 5, 2, "/" + "x" * 4000, b"")).body)
    monkeypatch.setattr(reading, "_MOST_SIDE_BAND", 2 * len(mapping))
    live = reader(mapping, mapping, mapping + LOST + mapping, most=len(LOST))
    live.drain()
    live.drain()
    assert live.take()[1:4] == (2 * mapping + LOST, b"", 2)


def test_the_rate_falls_while_most_samples_are_dropped_and_rises_again() -> None:
    """There is room for six samples: two of them are kept, then three of nine, three of ten, and so on."""
    rings = Rings([samples(count) for kept in (2, 3) for count in (kept, 7)] + [samples(1), samples(1), samples(1)])
    live = RingReader(rings, most=len(samples(6)), adapts_rate=True)  # type: ignore[arg-type]
    for reads in (2, 2, 1, 1, 1):
        for _ in range(reads):
            live.drain()
        live.take()
    assert rings.rates == [0.5, 0.25, 0.5, 1.0]


# The key w of top: the last minute as a perf.data, and what stays if the disk is full.


SAMPLE = b"\t\0\0\0\1\0\x28\0" + bytes(32)


def save(path: Path) -> int:
    retained = Retained(60)
    retained.add(1, 2, SAMPLE * 100)
    counters = SimpleNamespace(events=["cpu-clock"], ids=lambda _: (1,))
    rings = SimpleNamespace(recorded=(counters, [usual_attr()]), tracing_data=bytes)
    features = SimpleNamespace(collect=lambda **_: {})
    return write_snapshot(str(path), rings, RawRecords.concat([]), retained, features, {})  # type: ignore[arg-type]


def names(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes()[:8] for path in folder.iterdir()}


def test_an_existing_recording_is_kept_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "perf.data").write_bytes(b"earlier")
    assert save(tmp_path / "perf.data") > len(SAMPLE) * 100
    assert names(tmp_path) == {"perf.data": b"PERFILE2", "perf.data.old": b"earlier"}
    assert cli.run(["evlist", "-i", str(tmp_path / "perf.data")]) == 0
    assert capfd.readouterr().out


@pytest.mark.parametrize("method", ["begin", "write", "finish"])
def test_a_failed_attempt_gives_the_recording_its_name_back(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second attempt would otherwise replace perf.data.old by the cut file of the first."""

    def fail(*_: object) -> None:
        raise OutputFailedError("perf.data", "No space left on device")

    monkeypatch.setattr(FileWriter, method, fail)
    (tmp_path / "perf.data").write_bytes(b"earlier")
    for _ in range(2):
        with pytest.raises(OutputFailedError, match="No space left on device"):
            save(tmp_path / "perf.data")
        assert names(tmp_path) == {"perf.data": b"earlier"}


def test_a_file_that_cannot_be_created_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(output, "create_named", fail)
    (tmp_path / "perf.data").write_bytes(b"earlier")
    with pytest.raises(OutputFailedError, match="Too many open files"):
        save(tmp_path / "perf.data")
    assert names(tmp_path) == {"perf.data": b"earlier"}
