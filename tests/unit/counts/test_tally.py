"""Which lines a printing of counts has."""

from __future__ import annotations

from perfpy.abi.attr import EventAttr
from perfpy.counts.aggregation import CountedEvent, CounterCell, Grouping, aggregate
from perfpy.counts.tally import Tally

THREADS = Grouping.by_thread([("first", 4), ("gone", 5), ("last", 6)])


def tally(cells: list[CounterCell]) -> Tally:
    events = [CountedEvent("faults", EventAttr()), CountedEvent("duration_time", EventAttr(), tool="duration_time")]
    rows = {events[0]: aggregate(events[0], cells, THREADS), events[1]: aggregate(events[1], [CounterCell(0, 0, 9, 9, 9)], THREADS)}
    return Tally(events, rows, THREADS, wall_ns=1)


def test_a_thread_that_had_ended_before_it_was_opened_has_no_line() -> None:
    """A thread that was counted and did nothing has one."""
    result = tally([CounterCell(-1, 0, 3, 1, 1), CounterCell(-1, 2, 0, 0, 0)])
    assert [line.row.aggregate_id.comm for line in result.lines() if line.row.event.name == "faults"] == ["first", "last"]
    assert [aggregate_id.comm for aggregate_id, _ in result.lines_by_aggregate()] == ["first", "last"]


def test_threads_of_events_that_cannot_be_counted_keep_their_lines() -> None:
    """Nothing was counted at all, and the lines say why."""
    assert [line.row.aggregate_id.comm for line in tally([]).lines() if line.row.event.name == "faults"] == ["first", "gone", "last"]
