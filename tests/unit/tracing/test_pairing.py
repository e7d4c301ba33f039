"""Entries and returns of system calls are paired by thread, also across batches."""

from __future__ import annotations

import numpy as np

from perfpy.tracing.pairing import NO_ROW, Pairing
from tests.builders.call_events import CallEventList

EXIT_GROUP = 231


def pairing() -> Pairing:
    return Pairing(np.array([EXIT_GROUP]))


def test_a_return_finds_the_entry_of_its_thread():
    events = CallEventList().enter(1, 0).enter(2, 1).exit(1, 0).exit(2, 1).events()

    assert pairing().pair(events).entry.tolist() == [NO_ROW, NO_ROW, 0, 1]


def test_the_next_entry_of_any_thread_interrupts_an_entry():
    events = CallEventList().enter(1, 0).enter(2, 1).exit(1, 0).exit(2, 1).events()

    assert pairing().pair(events).interrupter.tolist() == [1, NO_ROW, NO_ROW, NO_ROW]


def test_a_return_before_the_next_entry_leaves_an_entry_whole():
    paired = pairing().pair(CallEventList().call(1, 0).call(2, 1).events())

    assert not paired.was_interrupted.any()


def test_another_event_interrupts_an_entry():
    events = CallEventList().enter(1, 0).other(1).exit(1, 0).events()

    assert pairing().pair(events).interrupter.tolist() == [1, NO_ROW, NO_ROW]


def test_a_return_without_entry_has_none():
    assert pairing().pair(CallEventList().exit(1, 0).events()).entry.tolist() == [NO_ROW]


def test_an_entry_waits_for_its_return_in_the_next_batch():
    pairs, calls = pairing(), CallEventList()
    pairs.pair(calls.enter(1, 0, 7).events())

    paired = pairs.pair(calls.exit(1, 0).events())

    assert (paired.carried, paired.entry.tolist(), paired.events.arguments[0, 0]) == (1, [NO_ROW, 0], 7)


def test_an_entry_of_the_last_batch_is_interrupted_once():
    pairs, calls = pairing(), CallEventList()
    pairs.pair(calls.enter(1, 0).events())

    second = pairs.pair(calls.call(2, 1).events())
    third = pairs.pair(calls.call(2, 1).exit(1, 0).events())

    assert second.interrupter.tolist() == [1, NO_ROW, NO_ROW]
    assert third.interrupter.tolist() == [NO_ROW] * 4
    assert third.was_interrupted.tolist() == [True, False, False, False]


def test_a_call_that_does_not_return_is_not_kept():
    pairs, calls = pairing(), CallEventList()
    pairs.pair(calls.enter(1, EXIT_GROUP).events())

    assert pairs.pair(calls.exit(1, 0).events()).carried == 0


def test_batches_of_any_size_give_the_same_pairs():
    calls = CallEventList()
    for number in range(60):
        calls.enter(number % 7, number)
        calls.exit((number * 3) % 7, number)
    events = calls.events()
    whole = pairing().pair(events)

    for size in (1, 2, 5, 13):
        pairs, durations, interrupted = pairing(), [], 0
        for start in range(0, events.size, size):
            paired = pairs.pair(events.take(slice(start, start + size)))
            rows = np.flatnonzero(paired.entry != NO_ROW)
            durations += (paired.events.time[rows] - paired.events.time[paired.entry[rows]]).tolist()
            interrupted += int(np.count_nonzero(paired.interrupter != NO_ROW))
        rows = np.flatnonzero(whole.entry != NO_ROW)
        assert durations == (events.time[rows] - events.time[whole.entry[rows]]).tolist()
        assert interrupted == np.count_nonzero(whole.interrupter != NO_ROW)
