"""Tests of run times and delays of kernel work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.tools.kwork.works import ENTRY, EXIT, RAISE, WorkEvents, find_intervals, make_history, make_rows, sorted_rows, total_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_PHASES = {"R": RAISE, "E": ENTRY, "X": EXIT}


def events_of(text: str, times: Sequence[int] | None = None, numbers: Sequence[int] | None = None) -> WorkEvents:
    """Return events of one CPU and kind: a letter for each, R, E or X."""
    count = len(text)
    zeros, words = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    return WorkEvents(
        kind=zeros, phase=np.array([_PHASES[letter] for letter in text], np.int64), cpu=zeros, tid=zeros,
        number=np.array(numbers or [0] * count, np.uint64), function=words, name=np.full(count, "", object),
        time=np.array(times or range(count), np.int64), key=words,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "runs", "skipped"),
    [
        ("REX", [(1, 2)], (0, 0, 0)),
        ("REEX", [(2, 3)], (0, 1, 0)),
        ("EXX", [(0, 1)], (0, 0, 1)),
        ("XEXE", [(1, 2)], (0, 1, 1)),
        ("", [], (0, 0, 0)),
    ],
)
def test_a_run_is_an_entry_with_the_exit_that_follows(text, runs, skipped):
    events = events_of(text)
    intervals = find_intervals(events, events.work_numbers(), ENTRY, EXIT)
    assert list(zip(intervals.begin.tolist(), intervals.end.tolist(), strict=True)) == runs
    assert intervals.skipped == skipped


def test_a_delay_begins_at_the_last_request():
    events = events_of("RRXEX", times=[0, 10, 15, 30, 40])
    intervals = find_intervals(events, events.work_numbers(), RAISE, ENTRY)
    assert (intervals.begin.tolist(), intervals.end.tolist(), intervals.skipped) == ([1], [3], (1, 0, 0))


def test_the_history_has_a_delay_only_for_the_entry_after_a_request():
    events = events_of("REEXEX", times=[0, 1, 3, 6, 10, 15])
    history = make_history(events, events.work_numbers())
    assert (history.begin.tolist(), history.end.tolist(), history.delay.tolist()) == ([2, 4], [3, 5], [-1, -1])
    complete = events_of("REX", times=[0, 7, 9])
    assert make_history(complete, complete.work_numbers()).delay.tolist() == [7]


def test_times_that_go_back_give_no_negative_durations():
    events = events_of("REX", times=[30, 20, 10])
    work = events.work_numbers()
    (row,) = make_rows(events, work, find_intervals(events, work, ENTRY, EXIT))
    assert (row.total, row.longest) == (0, 0)
    assert make_history(events, work).delay.tolist() == [0]


def test_equal_rows_stand_in_the_order_of_the_highest_number():
    events = events_of("EXEXEX", numbers=[3, 3, 9, 9, 1, 1])
    work = events.work_numbers()
    rows = make_rows(events, work, find_intervals(events, work, ENTRY, EXIT))
    assert [row.number for row in sorted_rows(rows, ["runtime"])] == [9, 3, 1]


def test_the_longest_run_is_the_first_of_equal_ones():
    events = events_of("EXEXEX", times=[0, 5, 10, 19, 20, 29])
    work = events.work_numbers()
    (row,) = make_rows(events, work, find_intervals(events, work, ENTRY, EXIT))
    assert (row.intervals, row.total, row.longest, row.begin, row.end, row.average) == (3, 23, 9, 10, 19, 7)


def test_the_time_between_times_far_apart_does_not_overflow():
    events = events_of("REX", times=[-(1 << 62) - 1, 0, 1 << 62])
    assert total_of([], events).span == (1 << 63) + 1
