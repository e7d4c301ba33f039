"""Running tasks and their states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_FORK_EXEC
from perfpy.abi.records import Comm, Exit, Fork, Mmap2, SampleId, copies_parent
from perfpy.live.window import LiveWindow
from perfpy.perfdata.events import FileEvent
from perfpy.symbols import live_tasks
from perfpy.symbols.dso import DsoTable
from perfpy.symbols.live_tasks import LiveTasks
from perfpy.symbols.tasks import NO_PARENT, ProcessSpaces, TaskNames, ThreadComms
from perfpy.views.recording_summary import tasks_of
from tests.builders.perfdata import PerfDataBuilder, usual_attr
from tests.builders.timeline import comm, fork, mmap, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from perfpy.perfdata.records.delivery import RawRecords


# The side-band of a live view: address spaces of sampled processes, without records of tasks that ended.


READ_EXECUTE = 5
USER = 2


def window() -> LiveWindow:
    return LiveWindow([FileEvent(usual_attr(), (), "cpu-clock:u", 0)], {})


def live_tasks_of(builder: PerfDataBuilder, alive: Collection[int] = (), maps: RawRecords | None = None) -> LiveTasks:
    live = window()
    tasks = LiveTasks(live.table, lambda _pid: maps, lambda tid: tid in alive)
    tasks.add(live.begin(bytes(builder.body)))
    return tasks


def at(pid: int, tid: int, time: int) -> SampleId:
    return SampleId(pid=pid, tid=tid, time=time)


def exec_(builder: PerfDataBuilder, pid: int, time: int, maps: int = 1) -> None:
    builder.record(Comm(0, pid, pid, f"program{pid}", at(pid, pid, time)))
    for number in range(maps):
        start = 0x400000 + number * 0x10000
        builder.record(
            Mmap2(USER, pid, pid, start, 0x1000, 0, 8, 1, 77, 0, READ_EXECUTE, 2, f"/bin/p{pid}-{number}", b"", at(pid, pid, time))
        )


def end(builder: PerfDataBuilder, pid: int, tid: int, time: int) -> None:
    builder.record(Exit(0, pid, 1, tid, 1, time, at(pid, tid, time)))


def record_fork(builder: PerfDataBuilder, pid: int, parent: int, time: int, tid: int = 0) -> None:
    builder.record(Fork(0, pid, parent, tid or pid, parent, time, at(parent, parent, time)))


def mapped(tasks: LiveTasks, pid: int) -> list[str]:
    dsos = DsoTable()
    timeline = tasks.timeline(np.array([pid], np.uint32), dsos)
    view = timeline.views(np.array([pid]), np.array([1 << 30], np.int32))
    space = int(timeline.view_space[int(view[0])])
    names = []
    while space >= 0:
        names += [dsos.dsos[number].name for number in timeline.spaces.dsos(space)]
        space = timeline.spaces.parent(space)
    return sorted(set(names))


def test_a_child_has_the_mappings_that_it_inherited() -> None:
    builder = PerfDataBuilder()
    exec_(builder, 10, 1)
    exec_(builder, 30, 2)
    record_fork(builder, 11, 10, 3)
    assert mapped(live_tasks_of(builder), 11) == ["/bin/p10-0"]


def test_processes_without_samples_are_not_replayed() -> None:
    builder = PerfDataBuilder()
    for pid in range(10, 20):
        exec_(builder, pid, pid)
    dsos = DsoTable()
    live_tasks_of(builder).timeline(np.array([12], np.uint32), dsos)
    assert [dso.name for dso in dsos.dsos] == ["/bin/p12-0"]


def test_ended_processes_are_forgotten_and_living_ones_are_not() -> None:
    builder = PerfDataBuilder()
    for pid in range(100, 3100):
        exec_(builder, pid, pid)
        if pid != 200:
            end(builder, pid, pid, pid)
    tasks = live_tasks_of(builder, alive={200})
    before = len(tasks)
    tasks.forget(5000)
    assert before > 8000
    assert len(tasks) == 2  # the comm and the mapping of the living one
    assert mapped(tasks, 200) == ["/bin/p200-0"]


def test_a_process_that_ended_after_the_last_sample_is_still_known() -> None:
    builder = PerfDataBuilder()
    for pid in range(100, 3100):
        exec_(builder, pid, pid)
        end(builder, pid, pid, pid)
    tasks = live_tasks_of(builder)
    tasks.forget(3000)
    assert mapped(tasks, 3050) == ["/bin/p3050-0"]
    assert mapped(tasks, 150) == []


def test_an_ended_parent_keeps_the_mappings_of_its_living_child() -> None:
    builder = PerfDataBuilder()
    exec_(builder, 10, 1)
    record_fork(builder, 11, 10, 2)
    end(builder, 10, 10, 3)
    for pid in range(100, 3100):
        exec_(builder, pid, 10)
        end(builder, pid, pid, 11)
    tasks = live_tasks_of(builder, alive={11})
    tasks.forget(5000)
    assert mapped(tasks, 11) == ["/bin/p10-0"]


def test_threads_that_come_and_go_leave_nothing() -> None:
    builder = PerfDataBuilder()
    exec_(builder, 10, 1)
    for tid in range(100, 3100):
        record_fork(builder, 10, 10, tid, tid)
        end(builder, 10, tid, tid)
    tasks = live_tasks_of(builder, alive={10})
    tasks.forget(5000)
    assert len(tasks) == 2


def test_tasks_without_a_parent_come_before_those_of_the_first_task() -> None:
    records = [fork(1, 0), fork(3, 1), comm(2, "stranger"), comm(1, "init")]
    assert [(task.tid, task.level) for task in tasks_of(records)] == [(0, 0), (2, 1), (1, 1), (3, 2)]


def test_mappings_that_are_gone_are_replaced_by_the_present_ones() -> None:
    builder, now = PerfDataBuilder(), PerfDataBuilder()
    exec_(builder, 10, 1, maps=5000)
    exec_(now, 10, 1, maps=1)
    maps = live_tasks_of(now).records()
    tasks = live_tasks_of(builder, alive={10}, maps=maps)
    tasks.forget(5000)
    assert len(tasks) <= 4


def test_few_records_are_left_alone() -> None:
    builder = PerfDataBuilder()
    exec_(builder, 10, 1)
    end(builder, 10, 10, 2)
    tasks = live_tasks_of(builder)
    tasks.forget(5000)
    assert len(tasks) == 3


def sizes_of(generations: Callable[[int], PerfDataBuilder], count: int = 12, alive: Collection[int] = ()) -> list[int]:
    """The number of records after each generation of ten seconds. A generation's samples are read before the next one begins."""
    live = window()
    tasks = LiveTasks(live.table, lambda _pid: None, lambda tid: tid in alive)
    sizes = []
    for number in range(count):
        tasks.add(live.begin(bytes(generations(number).body)))
        tasks.forget(10 * number)
        sizes.append(len(tasks))
    return sizes


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few records be worth forgetting."""
    monkeypatch.setattr(live_tasks, "_WORTH_FORGETTING", 200)
    monkeypatch.setattr(live_tasks, "_MOST_ANCESTORS", 100)


def is_level(sizes: list[int]) -> bool:
    return max(sizes[6:]) <= max(sizes[:6])


@pytest.mark.usefixtures("few")
def test_processes_whose_end_was_lost_are_forgotten() -> None:
    def generation(number: int) -> PerfDataBuilder:
        builder = PerfDataBuilder()
        for pid in range(50):
            exec_(builder, 100 + 50 * number + pid, 10 * number + 1)
        return builder

    assert is_level(sizes_of(generation))


@pytest.mark.usefixtures("few")
def test_a_process_that_executes_one_program_after_the_other_has_the_last_one() -> None:
    def generation(number: int) -> PerfDataBuilder:
        builder = PerfDataBuilder()
        for time in range(40):
            at_exec = at(10, 10, 10 * number)
            builder.record(Comm(MISC_COMM_EXEC, 10, 10, f"program{time}", at_exec))
            builder.record(Mmap2(USER, 10, 10, 0x400000, 0x1000, 0, 8, 1, 77, 0, READ_EXECUTE, 2, f"/bin/p{time}", b"", at_exec))
        return builder

    assert is_level(sizes_of(generation, alive={10}))


@pytest.mark.usefixtures("few")
def test_a_thread_that_renames_itself_all_the_time_has_its_last_name() -> None:
    def generation(number: int) -> PerfDataBuilder:
        builder = PerfDataBuilder()
        for name in range(90):
            builder.record(Comm(0, 10, 11, f"job {name}", at(10, 11, 10 * number)))
        return builder

    assert is_level(sizes_of(generation, alive={10, 11}))


def test_what_a_child_inherited_survives_its_parents_next_program() -> None:
    builder = PerfDataBuilder()
    exec_(builder, 10, 1)
    record_fork(builder, 11, 10, 2)
    builder.record(Comm(MISC_COMM_EXEC, 10, 10, "next", at(10, 10, 3)))
    for pid in range(100, 3100):
        exec_(builder, pid, 10)
        end(builder, pid, pid, 11)
    tasks = live_tasks_of(builder, alive={10, 11})
    tasks.forget(5000)
    assert mapped(tasks, 11) == ["/bin/p10-0"]


def test_a_program_needs_nothing_from_the_ended_process_that_started_it() -> None:
    builder = PerfDataBuilder()
    exec_(builder, 10, 1)
    record_fork(builder, 11, 10, 2)
    builder.record(Comm(MISC_COMM_EXEC, 11, 11, "program", at(11, 11, 3)))
    end(builder, 10, 10, 4)
    for pid in range(100, 3100):
        exec_(builder, pid, 10)
        end(builder, pid, pid, 11)
    tasks = live_tasks_of(builder, alive={11})
    tasks.forget(5000)
    assert len(tasks) == 1


@pytest.mark.usefixtures("few")
def test_a_process_of_the_hundredth_generation_has_its_present_mappings() -> None:
    builder, now = PerfDataBuilder(), PerfDataBuilder()
    exec_(builder, 10, 1)
    for pid in range(11, 311):
        record_fork(builder, pid, pid - 1, pid)
        end(builder, pid - 1, pid - 1, pid)
    exec_(now, 310, 1)
    tasks = live_tasks_of(builder, alive={310}, maps=live_tasks_of(now).records())
    tasks.forget(5000)
    assert len(tasks) == 2
    assert mapped(tasks, 310) == ["/bin/p310-0"]


def test_very_long_names_are_replaced_by_the_present_mappings_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have 65,530 mappings with names of 4 kB."""
    monkeypatch.setattr(live_tasks, "_WORTH_FORGETTING", 10)
    monkeypatch.setattr(live_tasks, "MOST_MAP_BYTES", 20 * 100)
    builder, present = PerfDataBuilder(), PerfDataBuilder()
    exec_(builder, 10, 1, maps=50)
    exec_(present, 10, 2, maps=30)
    tasks = live_tasks_of(builder, {10}, live_tasks_of(present).records())
    tasks.forget(10)
    assert len(mapped(tasks, 10)) == 30


# The one replay: what fork, exec, comm and exit do, and that all who follow tasks say the same.


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
    tree = {task.tid: task.comm for task in tasks_of(history)}
    tids = list(tree)
    numbers = columns.comm_ids(np.array(tids, np.uint32), np.full(len(tids), 2, np.uint64)).tolist()
    assert [columns.comms[number] for number in numbers] == list(tree.values())
    assert [lines.name(tid) for tid in tids] == list(tree.values())
    assert [columns.last_comm(tid) for tid in tids] == list(tree.values())


def test_a_process_whose_number_a_thread_of_another_took_has_lost_its_mappings() -> None:
    history = [comm(1, "init"), fork(12, 1), mmap(12, 0x1000, 0x1000, "/a"), fork(1, 1, 12, 1), fork(12, 12, 3, 12)]
    tasks = {task.tid: task for task in tasks_of(history)}
    assert (tasks[12].pid, tasks[12].comm, tasks[3].mappings) == (12, ":12", [])
