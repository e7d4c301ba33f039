"""Calls, errors and times are added up by thread and call."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.tracing.pairing import Pairing
from perfpy.tracing.totals import CallTotals, ThreadRows, Totals
from tests.builders.call_events import CallEventList


def totals_of(calls: CallEventList, *, batch: int = 1000) -> Totals:
    totals, pairs, events = Totals(), Pairing(np.zeros(0, np.int64)), calls.events()
    for start in range(0, events.size, batch):
        totals.add(pairs.pair(events.take(slice(start, start + batch))))
    return totals


def durations(*times: int, result: int = 0) -> CallEventList:
    calls = CallEventList()
    for time in times:
        calls.enter(1, 0).exit(1, 0, result, after=time)
    return calls


def test_times_of_a_call_are_added():
    (call,) = totals_of(durations(1000, 3000)).by_thread()[1]

    assert (call.calls, call.total, call.least, call.most, call.mean) == (2, 4000, 1000, 3000, 2000)


def test_the_relative_error_is_that_of_the_mean():
    totals = totals_of(durations(1000, 3000))

    for rows in (totals.thread_rows(), ThreadRows.of_all_threads(totals.of_all())):
        assert rows.relative_errors().tolist() == pytest.approx([50.0])


def test_single_calls_and_calls_without_time_have_no_relative_error():
    for calls in (durations(1000), durations(0, 0)):
        assert totals_of(calls).thread_rows().relative_errors().tolist() == [0]


@pytest.mark.parametrize("batch", [1, 2, 3, 1000])
def test_batches_of_any_size_give_the_same_sums(batch):
    times = [100 * (number * 37 % 101 + 1) for number in range(50)]
    (call,) = totals_of(durations(*times), batch=batch).by_thread()[1]

    assert (call.calls, call.total) == (50, sum(times))
    assert call.squares == pytest.approx(np.var(times) * 50)


def test_negative_error_numbers_are_errors():
    (call,) = totals_of(durations(1000, 1000, result=-2)).by_thread()[1]

    assert (call.errors, call.errnos) == (2, {2: 2})


def test_large_negative_results_are_no_errors():
    (call,) = totals_of(durations(1000, result=-4096)).by_thread()[1]

    assert call.errors == 0


def test_a_return_without_entry_counts_with_no_time():
    (call,) = totals_of(CallEventList().exit(1, 59)).by_thread()[1]

    assert (call.number, call.calls, call.total) == (59, 1, 0)


def test_calls_of_all_threads_are_added():
    calls = CallEventList().call(1, 0).call(2, 0).call(2, 1)

    assert [(call.number, call.calls) for call in sorted(totals_of(calls).of_all(), key=lambda call: call.number)] == [(0, 2), (1, 1)]


def test_percentiles_are_within_three_percent():
    times = np.random.default_rng(1).lognormal(10, 2, 2000).astype(int) + 1
    (call,) = totals_of(durations(*times.tolist())).by_thread()[1]

    for share in (0.5, 0.9, 0.99):
        assert call.percentile(share) == pytest.approx(np.quantile(times, share, method="inverted_cdf"), rel=0.03)


def test_sums_of_two_parts_equal_the_whole():
    one, two = (totals_of(durations(*times)).by_thread()[1][0] for times in ((100, 200, 900), (50, 4000)))
    whole = totals_of(durations(100, 200, 900, 50, 4000)).by_thread()[1][0]
    joined: CallTotals = one.plus(two)

    assert joined._replace(squares=0.0) == whole._replace(squares=0.0)
    assert joined.squares == pytest.approx(whole.squares)
