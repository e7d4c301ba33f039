"""Entries and returns are paired to calls, with their time off the CPU."""

from __future__ import annotations

import numpy as np

from perfpy.analysis.function_calls import CallSamples, FunctionCalls, duration_bins, nearest_rank, pair_calls


def events(*rows: tuple[int, int, int]) -> CallSamples:
    tid, time, pointer = zip(*rows, strict=True) if rows else ((), (), ())
    return CallSamples(np.array(tid, np.int64), np.array(time, np.int64), np.array(pointer, np.uint64))


def durations(calls: FunctionCalls) -> list[tuple[int, int, int]]:
    return list(zip(calls.tid.tolist(), calls.start.tolist(), calls.duration.tolist(), strict=True))


def test_calls_of_threads_are_distinguished() -> None:
    calls = pair_calls(events((1, 10, 100), (2, 20, 100)), events((1, 50, 108), (2, 30, 108)))
    assert durations(calls) == [(2, 20, 10), (1, 10, 40)]
    assert calls.entry.tolist() == [1, 0]
    assert calls.exit.tolist() == [1, 0]


def test_nested_calls_end_inside_of_their_callers() -> None:
    calls = pair_calls(events((1, 10, 100), (1, 20, 60)), events((1, 30, 68), (1, 50, 108)))
    assert durations(calls) == [(1, 20, 10), (1, 10, 40)]


def test_a_call_that_is_left_by_longjmp_is_dropped() -> None:
    calls = pair_calls(events((1, 10, 100), (1, 20, 20)), events((1, 50, 108)))
    assert durations(calls) == [(1, 10, 40)]


def test_a_return_without_an_entry_is_dropped_and_an_open_call_is_counted() -> None:
    calls = pair_calls(events((1, 60, 100)), events((1, 50, 108)))
    assert durations(calls) == []
    assert calls.open_count == 1
    assert durations(pair_calls(events(), events())) == []


def test_time_off_the_cpu_counts_inside_the_call_only() -> None:
    switches = [(1, 5, True), (1, 12, False), (1, 20, True), (1, 25, False), (2, 26, True), (1, 45, True), (1, 70, False), (3, 1, False)]
    calls = pair_calls(events((1, 10, 100)), events((1, 50, 108)), switches)
    assert calls.off_cpu.tolist() == [2 + 5 + 5]


def test_percentiles_are_nearest_ranks() -> None:
    values = np.arange(1, 101)
    assert [nearest_rank(values, share) for share in (0.5, 0.99, 0.999, 0.001)] == [50, 99, 100, 1]
    assert nearest_rank(values[:0], 0.5) == 0


def test_bins_double() -> None:
    assert duration_bins(np.array([1, 2, 3, 9])) == [(1, 2, 1), (2, 4, 2), (4, 8, 0), (8, 16, 1)]
    assert duration_bins(np.array([], np.int64)) == []
