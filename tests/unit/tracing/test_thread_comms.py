"""Comms of threads are followed over time."""

from __future__ import annotations

import numpy as np

from perfpy.tracing.thread_comms import FollowedComms


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
