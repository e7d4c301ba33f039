"""Entries and returns of system calls are paired by thread, also across batches."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.abi.columns import Columns
from perfpy.tools.trace.calls import NO_CALL, NO_ROW, OTHER, CallColumns, FollowedComms, GroupedValues, Pairing, call_events
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


# Tests of samples of system calls as columns.


def test_samples_without_a_thread_are_of_none() -> None:
    """Damaged attributes may leave an instruction's address alone."""
    columns = CallColumns({}, "<").extend(Columns(2, {"ip": np.array([1, 2], np.uint64)}), np.zeros(2, np.int32), np.zeros(2, np.uint64))
    events = call_events(columns, np.zeros(2, np.uint64))
    assert (events.tid.tolist(), events.pid.tolist(), events.cpu.tolist()) == ([-1, -1],) * 3
    assert (events.kind.tolist(), events.number.tolist()) == ([OTHER] * 2, [NO_CALL] * 2)


# Comms of threads are followed over time.


def comms_of(names: FollowedComms, *rows: tuple[int, int]) -> list[str]:
    tids, keys = zip(*rows, strict=True)
    return [names.comms[number] for number in names.comm_ids(np.array(tids, np.int32), np.array(keys, np.uint64)).tolist()]


def test_a_comm_holds_from_its_key_on():
    names = FollowedComms()
    names.name(1, "sh")
    names.name(1, "ls", key=100)

    assert comms_of(names, (1, 99), (1, 100), (1, 101)) == ["sh", "ls", "ls"]


def test_a_new_thread_has_the_comm_of_its_parent():
    names = FollowedComms()
    names.name(1, "sh")
    names.fork(1, 2, key=10)

    assert comms_of(names, (2, 11)) == ["sh"]


def test_a_thread_loses_its_comm_at_its_end():
    names = FollowedComms()
    names.name(1, "sh")
    names.end(1, key=10)

    assert comms_of(names, (1, 9), (1, 10)) == ["sh", ":1"]


def test_the_comm_of_an_unknown_thread_is_read_once():
    tids_read: list[int] = []

    def read_comm(tid: int) -> str:
        tids_read.append(tid)
        return "cat"

    names = FollowedComms(read_comm)

    assert comms_of(names, (7, 1), (7, 2), (7, 3)) == ["cat"] * 3
    assert tids_read == [7]


def test_changes_are_forgotten_with_their_batch():
    names = FollowedComms()
    names.name(1, "sh", key=10)
    names.begin_batch()

    assert comms_of(names, (1, 5)) == ["sh"]


def test_many_threads_that_change_are_as_quick_as_one():
    names = FollowedComms()
    names.name(1, "init")
    for tid in range(2, 3000):
        names.fork(1, tid, key=tid)
        names.name(tid, "sh", key=tid + 5)
    rows = [(tid, tid + 4 + tid % 2) for tid in range(2, 3000)]

    assert comms_of(names, *rows) == [("init", "sh")[tid % 2] for tid in range(2, 3000)]


# Places of values within groups, beside a search of each group alone.


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_are_those_of_each_group_alone(side):
    random = np.random.default_rng(1)
    groups, values = random.integers(0, 20, 500) * 7, random.integers(0, 50, 500)
    wanted_groups, wanted = random.integers(-1, 25, 400) * 7, random.integers(-5, 60, 400)
    grouped = GroupedValues(groups, values)
    found = grouped.find(wanted_groups, wanted, side)

    for index, (group, value) in enumerate(zip(wanted_groups.tolist(), wanted.tolist(), strict=True)):
        own = np.sort(values[groups == group])
        begin, end, position = int(found.begin[index]), int(found.end[index]), int(found.position[index])
        assert end - begin == len(own)
        if len(own):
            assert values[grouped.order[begin:end]].tolist() == own.tolist()
            assert position - begin == np.searchsorted(own, value, side)


def test_equal_values_keep_their_order_and_large_keys_are_exact():
    keys = np.array([2**63 + 1, 2**63, 2**63 + 1], np.uint64)
    grouped = GroupedValues(np.array([4, 4, 4]), keys)

    assert grouped.order.tolist() == [1, 0, 2]
    assert grouped.find(np.array([4]), keys[:1]).position.tolist() == [1]


def test_nothing_is_found_among_no_values():
    found = GroupedValues(np.zeros(0, np.int64), np.zeros(0, np.int64)).find(np.array([1]), np.array([1]))

    assert (found.begin.tolist(), found.end.tolist()) == ([0], [0])
