"""Reports of a live view from records of any kind, without a kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from perfpy.abi import records
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import ReportOptions
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.capture.record_options import RecordOptions
from perfpy.live import monitor as module
from perfpy.live.monitor import LiveMonitor
from perfpy.live.reading import RingRecords
from perfpy.perfdata.container.events import FileEvent
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    import pytest

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.report.report import Report


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
    for time in (1, 2):
        branches = [(0x400010, 0x400020, 0), (0x400030, 0x400010, 0), (0x400010, 0x400020, 0)]
        piece.sample(misc=2, ip=0x400020, pid=40, tid=40, time=0, period=1, branch_stack=branches)
        del time
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
