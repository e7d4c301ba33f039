"""The one replay: what fork, exec, comm and exit do, and that all who follow tasks say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_FORK_EXEC
from perfpy.perfdata.records.side_band import SideRecord
from perfpy.symbols.task_states import NO_PARENT, ProcessSpaces, TaskNames, ThreadComms, copies_parent
from perfpy.views.task_tree import tasks_of
from tests.builders.timeline import comm, fork, mmap, timeline

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_only_a_new_process_of_a_running_parent_copies_its_mappings() -> None:
    assert copies_parent(6, 5, 0)
    assert not copies_parent(5, 5, 0)
    assert not copies_parent(6, 5, MISC_FORK_EXEC)


def test_a_thread_inherits_its_parents_name() -> None:
    comms = ThreadComms("idle")
    comms.living[5] = "make"
    assert comms.fork(6, 5) == "make"
    assert comms.living == {0: "idle", 5: "make", 6: "make"}


def test_the_child_of_an_unnamed_thread_is_unnamed_even_if_its_tid_had_a_name() -> None:
    comms = ThreadComms("idle")
    comms.living[6] = "old"
    assert comms.fork(6, 5) is None
    assert dict(comms.last()) == {0: "idle"}


def test_an_exited_thread_is_remembered_by_its_last_name() -> None:
    comms = ThreadComms("idle")
    comms.living[5] = "make"
    comms.exit(5)
    comms.exit(77)
    assert comms.living == {0: "idle"}
    assert dict(comms.last()) == {0: "idle", 5: "make"}


def test_thread_numbers_are_signed_or_not() -> None:
    names = TaskNames()
    names.apply(records.Comm(0, 0xFFFFFFFF, 0xFFFFFFFF, "none"))
    assert (names.name(-1), names.name(0xFFFFFFFF), names.name(-2), names.name(0)) == ("none", "none", ":-2", "swapper")


def test_a_process_starts_with_a_copy_and_has_one_space_for_all_threads() -> None:
    spaces = ProcessSpaces()
    parent = spaces.of(5, rank=1)
    spaces.fork(6, 6, 5, 0, rank=2)
    spaces.fork(6, 7, 6, 0, rank=3)
    spaces.fork(8, 8, 6, MISC_FORK_EXEC, rank=4)
    assert spaces.pid[1:] == [5, 6, 8]
    assert spaces.since[1:] == [1, 2, 4]
    assert spaces.parent[1:] == [NO_PARENT, parent, NO_PARENT]
    assert spaces.of(6) == 2


def test_a_number_used_again_is_a_process_without_mappings() -> None:
    spaces = ProcessSpaces()
    before = spaces.of(5)
    spaces.forget(5)
    assert spaces.of(5) != before
    assert spaces.parent[-1] == NO_PARENT


def test_a_process_ends_with_its_last_thread() -> None:
    spaces = ProcessSpaces(with_exits=True)
    first = spaces.of(5)
    spaces.fork(5, 6, 5, 0)
    spaces.exit(5, 5, rank=3)
    assert spaces.of(5) == first
    spaces.exit(5, 6, rank=4)
    assert spaces.of(5) != first
    assert spaces.since[-1] == 4


NAMED = [comm(10, "shell"), fork(11, 10), fork(12, 11), comm(12, "cc"), fork(12, 12, 14, 12)]
UNNAMED = [fork(6, 5), fork(7, 6)]
REUSED = [*NAMED, fork(12, 99), fork(13, 12)]


@pytest.mark.parametrize("history", [NAMED, UNNAMED, REUSED], ids=["named", "unnamed", "reused"])
def test_samples_script_lines_and_the_tree_agree_on_names(history: Sequence[records.Comm | records.Fork]) -> None:
    columns = timeline(*((1, record) for record in history))
    lines = TaskNames()
    for record in history:
        lines.apply(record)
    tree = {task.tid: task.comm for task in tasks_of(SideRecord(record, 1, 0) for record in history)}
    tids = list(tree)
    numbers = columns.comm_ids(np.array(tids, np.uint32), np.full(len(tids), 2, np.uint64)).tolist()
    assert [columns.comms[number] for number in numbers] == list(tree.values())
    assert [lines.name(tid) for tid in tids] == list(tree.values())
    assert [columns.last_comm(tid) for tid in tids] == list(tree.values())


def test_a_process_whose_number_a_thread_of_another_took_has_lost_its_mappings() -> None:
    history = [comm(1, "init"), fork(12, 1), mmap(12, 0x1000, 0x1000, "/a"), fork(1, 1, 12, 1), fork(12, 12, 3, 12)]
    tasks = {task.tid: task for task in tasks_of(SideRecord(record, 1, 0) for record in history)}
    assert (tasks[12].pid, tasks[12].comm, tasks[3].mappings) == (12, ":12", [])
