"""`perfpy why`: what each thread does at each time."""

from __future__ import annotations

import os
import tempfile
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER
from perfpy.abi.system_calls import numbers_by_name
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.errors import UsageError
from perfpy.kernel.procfs import ThreadState
from perfpy.scheduling.segments import BLOCKED, READY, RUNNING, SegmentIndex, Segments, SwitchColumns, WakeupColumns, make_segments
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.tools.why import activities, explanation, watched_threads
from perfpy.tools.why.activities import Meaning, PythonLines, StackMeanings, chains_of_locks, with_similar_stacks
from perfpy.tools.why.explanation import ThreadTimes, explain
from perfpy.tools.why.tasks import PAGE_FAULT, RecordedTasks, StartedCommand
from perfpy.tools.why.tasks import RUNNING as TASK_RUNNING
from perfpy.tools.why.text import why_lines
from perfpy.tools.why.watched_threads import ThreadWatch, WatchedWait, watched_lines, watched_verdict
from tests.builders.many_threads import recording_of_switches
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.tools.why.explanation import Explanation


# Callchains tell the reason of a wait, the function, the kind of lock and the system call.


PROGRAM, LIBC, KERNEL = Dso("/opt/app/app"), Dso("/usr/lib/libc.so.6"), Dso("[kernel.kallsyms]", DsoKind.KERNEL)
FILES = {"app": 0, "libc": 1, "kernel": 2, "python": 3}


def meaning(*frames: str) -> Meaning:
    """Return the meaning of a callchain, innermost first; frames: FILE:FUNCTION."""
    return meanings_of(*frames).meanings[0]


def function_of(*frames: str) -> str:
    """Return the function that the meaning of a callchain names."""
    meanings = meanings_of(*frames)
    return meanings.functions[meanings.meanings[0].function]


def meanings_of(*frames: str) -> StackMeanings:
    """Return the meanings of one callchain."""
    parts = [frame.partition(":") for frame in frames]
    names = [name for _, _, name in parts]
    table = SimpleNamespace(
        symbol=np.arange(len(frames)), dso=np.array([FILES[file] for file, _, _ in parts]), ip=np.arange(len(frames), dtype=np.uint64)
    )
    symbolizer = SimpleNamespace(
        frames=table,
        symbols=SimpleNamespace(name=lambda symbol: names[symbol]),
        expand=lambda frames, counts: (frames, counts),
        dsos=[PROGRAM, LIBC, KERNEL, Dso("/usr/bin/python3.11")],
        resolve=lambda: None,
        frame_ids=lambda pid, ip, key, modes, counts: np.arange(len(frames), dtype=np.int32),
        fold_interpreters=lambda ids, counts: (ids, counts),
    )
    meanings = StackMeanings(symbolizer)  # type: ignore[arg-type]
    chain = Ragged(np.arange(1, len(frames) + 1, dtype=np.uint64), np.array([0, len(frames)]))
    meanings.add(chain, np.array([1]), np.array([1], np.uint64))
    meanings.resolve()
    return meanings


FUTEX = ("kernel:schedule", "kernel:futex_wait", "kernel:do_futex", "kernel:__x64_sys_futex")


@pytest.mark.parametrize(
    ("frames", "reason", "lock", "call"),
    [
        ((*FUTEX, "libc:__GI___lll_lock_wait", "libc:pthread_mutex_lock@@GLIBC_2.2.5", "app:push"), reasons.LOCK, "mutex", "futex"),
        (
            (*FUTEX, "libc:pthread_cond_timedwait", "python:", "python:_PyEval_EvalFrameDefault", "app:main"),
            reasons.GIL,
            "condition",
            "futex",
        ),
        ((*FUTEX, "libc:__new_sem_wait_slow64", "python:", "python:PyObject_Call", "app:main"), reasons.FUTEX, "lock", "futex"),
        ((*FUTEX, "libc:pthread_rwlock_rdlock", "app:find"), reasons.LOCK, "rwlock", "futex"),
        ((*FUTEX, "libc:__pthread_clockjoin_ex", "app:main"), reasons.JOIN, "", "futex"),
        ((*FUTEX, "app:own_lock"), reasons.FUTEX, "", "futex"),
        (("kernel:io_schedule", "kernel:folio_wait_bit", "kernel:__x64_sys_fsync", "libc:fsync", "app:save"), reasons.DISK, "", "fsync"),
        (("kernel:io_schedule", "kernel:filemap_fault", "kernel:exc_page_fault", "app:load"), PAGE_FAULT, "", ""),
        (("kernel:do_epoll_wait", "kernel:__x64_sys_epoll_wait", "app:ProcSleep", "app:update"), reasons.ROW_LOCK, "", "epoll_wait"),
        (("kernel:do_nanosleep", "kernel:__x64_sys_clock_nanosleep", "libc:usleep", "app:nap"), reasons.SLEEP, "", "clock_nanosleep"),
        (("app:main",), reasons.OTHER, "", ""),
    ],
)
def test_functions_determine_the_reason(frames, reason, lock, call):
    meaning_of = meaning(*frames)
    assert (meaning_of.reason, meaning_of.lock, meaning_of.call) == (reason, lock, call)
    assert meaning_of.is_own


@pytest.mark.parametrize(
    ("frames", "lock"),
    [
        (("os::PlatformEvent::park()", "ObjectMonitor::enter(JavaThread*)", "void Ledger.post()"), "monitor"),
        (("Parker::park(bool, long)", "void java.util.concurrent.locks.ReentrantLock.lock()", "void Ledger.post()"), "lock"),
        (("runtime.notesleep", "runtime.stopm", "runtime.mcall"), ""),
    ],
)
def test_the_address_at_which_a_runtime_parks_a_thread_is_no_lock(frames: tuple[str, ...], lock: str):
    meaning_of = meaning(*FUTEX, "libc:pthread_cond_wait", *(f"app:{frame}" for frame in frames))
    assert (meaning_of.lock, meaning_of.is_parked) == (lock, True)
    assert not meaning(*FUTEX, "libc:pthread_cond_wait", "app:take_job").is_parked


def test_the_innermost_own_function_is_named():
    assert function_of(*FUTEX, "libc:__lll_lock_wait", "app:push", "app:main") == "push"


def test_without_own_code_the_library_function_is_named_without_its_internal_prefix():
    assert function_of("kernel:schedule", "kernel:do_wait", "libc:__GI___wait4") == "__wait4"


@pytest.mark.parametrize("name", ["pthread_spin_lock", "my_spin_lock", "SpinLock::lock", "_raw_spin_lock_irqsave", "s_lock"])
def test_spinning_is_recognized_by_name(name):
    assert meaning(f"app:{name}", "app:main").is_spin


@pytest.mark.parametrize("name", ["spin_lock_init", "spin_locked", "spinner", "unlock"])
def test_other_functions_do_not_spin(name):
    assert not meaning(f"app:{name}", "app:main").is_spin


# Waits of Python code are named by the function that the program calls, and the line of the call.


LIBRARY = "/usr/lib/python3.11"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """The call of a callchain, innermost first; (name, line) of each frame."""

    def find(*frames: tuple[str, int]) -> str:
        names = [name for name, _ in frames]
        dso = Dso("/tmp/perf-7.map", DsoKind.JIT)
        ids = np.arange(len(frames))
        table = SimpleNamespace(symbol=ids, dso=np.zeros(len(frames), np.int64))
        symbolizer: Any = SimpleNamespace(frames=table, symbols=SimpleNamespace(name=names.__getitem__), dsos=[dso])

        def code_lines(numbers: Sequence[int]) -> SimpleNamespace:
            return SimpleNamespace(line=np.array([frames[number][1] for number in numbers]))

        monkeypatch.setattr(activities, "lines_of", lambda _: SimpleNamespace(code_lines=code_lines))
        calls = PythonLines(symbolizer)
        calls.resolve(ids.astype(np.int32))
        return calls.of(ids.tolist())

    return find


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([("futex_wait", 0), ("py::update:/srv/worker.py", 9), ("py::main:/srv/worker.py", 30)], "py::update:/srv/worker.py:9"),
        (
            [(f"py::Condition.wait:{LIBRARY}/threading.py", 327), (f"py::Queue.get:{LIBRARY}/queue.py", 171), ("py::eat:/srv/w.py", 4)],
            "py::Queue.get:/srv/w.py:4",
        ),
        ([(f"py::run:{LIBRARY}/subprocess.py", 548), ("py::main:/srv/w.py", 30)], "py::subprocess.run:/srv/w.py:30"),
        ([(f"py::loads:{LIBRARY}/json/__init__.py", 3), ("py::main:/srv/w.py", 30)], "py::json.loads:/srv/w.py:30"),
        ([("py::_find_and_load:<frozen importlib._bootstrap>", 1178), ("py::<module>:/srv/w.py", 1)], "py::<module>:/srv/w.py:1"),
        ([(f"py::Thread.run:{LIBRARY}/threading.py", 975)], f"py::Thread.run:{LIBRARY}/threading.py:975"),
        ([("py::[GIL held by count, thread 7]", 0), ("py::main:/srv/w.py", 3)], "py::main:/srv/w.py:3"),
        ([("py::main:/srv/w.py", 0)], "py::main:/srv/w.py"),
        ([("main", 3)], ""),
        ([], ""),
    ],
)
def test_the_called_function_and_the_line_of_the_own_code(call: Any, frames: list[tuple[str, int]], name: str):
    assert call(*frames) == name


def test_each_lock_has_one_callchain():
    chains = [np.array([1], np.int32), np.array([2], np.int32)]
    locks = chains_of_locks(np.array([7, 0, 7, 9], np.uint64), np.array([1, 0, 0, -1]), chains)
    assert {lock: frames.tolist() for lock, frames in locks.items()} == {7: [2]}


# The time of each thread, divided into running, ready and blocked.


READY_STATE, SLEEP, DEAD = 0, 1, 0x20


def segments(
    switches: list[tuple[int, ...]], wakeups: Sequence[tuple[int, ...]] = (), begin: int = 0, end: int = 100
) -> dict[int, list[tuple[int, int, int]]]:
    """Return thread -> (kind, begin, end). Switches: (order, time, cpu, prev, state, next); wakeups: (order, time, thread, is new)."""
    order, time, cpu, prev, state, following = (np.array(column, np.int64) for column in zip(*switches, strict=True))
    rows = [np.array(column, np.int64) for column in zip(*wakeups, strict=True)] or [np.zeros(0, np.int64)] * 4
    segments_of = make_segments(
        SwitchColumns(time, order, cpu, prev, following, state), WakeupColumns(rows[1], rows[0], rows[2], rows[3] > 0), begin, end
    )
    table: dict[int, list[tuple[int, int, int]]] = {}
    for tid, first, last, kind in zip(*(column.tolist() for column in segments_of[:4]), strict=True):
        table.setdefault(tid, []).append((kind, first, last))
    return table


def test_a_wait_ends_with_the_wakeup_and_the_thread_is_ready_until_it_runs():
    segments_of = segments([(1, 10, 0, 5, SLEEP, 0), (3, 40, 0, 0, READY_STATE, 5), (4, 60, 0, 5, DEAD, 0)], [(2, 30, 5, 0)])
    assert segments_of == {5: [(RUNNING, 0, 10), (BLOCKED, 10, 30), (READY, 30, 40), (RUNNING, 40, 60)]}


def test_a_preempted_thread_is_ready():
    segments_of = segments([(1, 10, 0, 5, READY_STATE, 6), (2, 30, 0, 6, SLEEP, 5)])
    assert segments_of[5] == [(RUNNING, 0, 10), (READY, 10, 30), (RUNNING, 30, 100)]


def test_only_the_first_wakeup_of_a_blocked_thread_counts():
    segments_of = segments(
        [(1, 10, 0, 5, SLEEP, 0), (5, 50, 0, 0, READY_STATE, 5)], [(0, 5, 5, 0), (2, 20, 5, 0), (3, 30, 5, 0), (6, 60, 5, 0)]
    )
    assert segments_of[5] == [(BLOCKED, 0, 5), (READY, 5, 10), (BLOCKED, 10, 20), (READY, 20, 50), (RUNNING, 50, 100)]


def test_a_new_thread_begins_with_its_first_wakeup():
    segments_of = segments([(2, 40, 1, 0, READY_STATE, 7), (3, 60, 1, 7, DEAD, 0)], [(1, 30, 7, 1)])
    assert segments_of == {7: [(READY, 30, 40), (RUNNING, 40, 60)]}


def test_a_number_that_a_second_thread_gets_does_not_join_both():
    segments_of = segments([(1, 10, 0, 7, DEAD, 0), (3, 40, 1, 0, READY_STATE, 7)], [(2, 30, 7, 1)])
    assert segments_of[7] == [(RUNNING, 0, 10), (READY, 30, 40), (RUNNING, 40, 100)]


def test_without_wakeups_a_wait_lasts_until_the_thread_runs():
    assert segments([(1, 10, 0, 5, SLEEP, 0), (2, 40, 0, 0, READY_STATE, 5)])[5][1:] == [(BLOCKED, 10, 40), (RUNNING, 40, 100)]


def test_times_that_go_back_make_no_negative_durations():
    segments_of = segments([(1, 50, 0, 5, SLEEP, 0), (3, 20, 0, 0, READY_STATE, 5), (4, 90, 0, 5, SLEEP, 0)], [(2, 10, 5, 0)])
    assert all(first <= last for rows in segments_of.values() for _, first, last in rows)


def test_the_idle_thread_has_no_segments():
    assert 0 not in segments([(1, 10, 0, 5, SLEEP, 0), (2, 40, 0, 0, READY_STATE, 5)])


def test_the_index_finds_the_segments_of_a_window():
    group, begin, end = np.array([1, 1, 1, 2]), np.array([0, 10, 20, 5]), np.array([10, 20, 30, 50])
    index = SegmentIndex(group, begin, end)
    first, count = index.overlapping(np.array([1, 2, 3]), np.array([12, 6, 0]), np.array([25, 7, 99]))
    spans = [set(range(start, start + length)) for start, length in zip(first.tolist(), count.tolist(), strict=True)]
    assert {1, 2} <= spans[0] <= {0, 1, 2}
    assert spans[1] == {3}
    assert spans[2] == set()


def test_the_index_holds_many_threads_over_long_times():
    threads = 50_000
    group = np.repeat(np.arange(threads), 2)
    begin = np.tile(np.array([0, 10**15]), threads)
    index = SegmentIndex(group, begin, begin + 10**15)
    first, count = index.overlapping(np.array([threads - 1]), np.array([10**15 + 5]), np.array([10**15 + 6]))
    assert 2 * threads - 1 in range(int(first[0]), int(first[0] + count[0]))


# Recordings with many threads, jumping clocks and missing events are explained, within bounds.


def explained(data: bytes, *pids: int, started: StartedCommand | None = None) -> Explanation:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with perfpy.open(file) as recording:
            return explain(recording.data, recording.symbolizer(), pids, started)


def test_the_thread_that_woke_another_one_is_followed():
    explanation = explained(recording_of_switches(3, 30), 101)
    cause = explanation.path.causes()[0]
    assert explanation.path.largest("wakers", cause.nodes)[0] == 100


def test_times_of_threads_add_up():
    explanation = explained(recording_of_switches(5, 60, one_process=True), 100)
    assert len(explanation.threads) == 5
    assert all(sum(thread.columns.values()) == thread.wall for thread in explanation.threads)


@pytest.mark.parametrize("time_of", [lambda turn: 10**10 + (turn * 1000 if turn % 7 else -turn * 10**6), lambda turn: turn << 52])
def test_clocks_that_jump_make_no_negative_times(time_of):
    explanation = explained(recording_of_switches(5, 200, time_of=time_of, one_process=True), 100)
    assert all(value >= 0 for thread in explanation.threads for value in thread.columns.values())
    assert all(cause.time >= 0 for cause in explanation.path.causes())


@pytest.mark.parametrize(
    ("waits", "main"),
    [
        ({100: reasons.JOIN, 101: reasons.QUEUE, 102: reasons.CONDITION, 103: reasons.CLIENT}, 103),
        ({100: reasons.JOIN, 101: reasons.QUEUE, 102: reasons.CONDITION}, 102),
        ({100: reasons.QUEUE, 101: reasons.QUEUE}, 100),
        ({100: reasons.EVENTS, 101: reasons.CLIENT}, 100),
        ({100: reasons.JOIN, 101: reasons.EVENTS, 102: reasons.LOCK}, 102),
        ({100: reasons.LOCK, 101: reasons.CLIENT}, 100),
    ],
)
def test_of_idle_threads_the_one_whose_wait_tells_most_is_explained(waits: dict[int, int], main: int):
    tids = np.array(list(waits), np.int64)
    times = np.zeros(len(tids), np.int64)
    blocked = Segments(tids, times, times + 1000, np.full(len(tids), BLOCKED, np.int8), times - 1, times - 1, times - 1)
    activities_of: Any = SimpleNamespace(segments=blocked, kind=np.array(list(waits.values())), waker=times - 1)
    tasks = RecordedTasks(dict.fromkeys(waits, 100), {}, [], {})
    assert explanation._main_thread(activities_of, tasks, 100, {100}) == main


def test_without_wakeups_waits_have_no_waker():
    explanation = explained(recording_of_switches(3, 30, with_wakeups=False), 101)
    assert explanation.path.largest("wakers", explanation.path.causes()[0].nodes) == (-1, 0)


def test_a_process_without_switches_is_named():
    """It is stopped, waits or runs all the time."""
    with pytest.raises(
        UsageError, match=r"task-104 \(104\) has no context switch in this recording: it ran, waited or was stopped all the time"
    ):
        explained(recording_of_switches(5, 2, named=True), 104)


def test_three_thousand_threads_of_one_process_take_little_time():
    data = recording_of_switches(3_000, 6_000, one_process=True)
    begin = time.process_time()
    explanation = explained(data, 100)
    lines = list(why_lines(explanation))
    assert time.process_time() - begin < 5
    assert len(explanation.threads) == 3_000
    assert len(lines) < 100


def test_the_started_command_is_explained_also_if_its_exec_was_lost():
    """Its time begins when the recorder, which is thread 100 here, lets it begin."""
    explanation = explained(recording_of_switches(3, 30), started=StartedCommand(100, 101, "./program"))
    assert (explanation.main, explanation.comm(101)) == (101, "program")
    assert explanation.elapsed < explained(recording_of_switches(3, 30), 101).elapsed


def test_a_recorded_command_without_exec_is_found_by_its_name_in_switches():
    explanation = explained(recording_of_switches(4, 30, commands=("sh", "other", "program")))
    assert (explanation.main, explanation.comm(102)) == (102, "program")


def test_a_command_whose_switches_were_all_lost_is_named():
    data = recording_of_switches(3, 30, lost=5)
    with pytest.raises(UsageError, match=r"no switch of program \(999\), 5 events lost; record again on a less busy machine"):
        explained(data, started=StartedCommand(100, 999, "./program"))


def test_a_recording_without_switches_is_refused_with_the_line_to_type():
    with pytest.raises(UsageError, match="perfpy why -o FILE -- COMMAND"):
        explained(simple_recording().file())


def test_a_process_that_was_not_recorded_is_refused():
    with pytest.raises(UsageError, match="no process 99999 in this recording"):
        explained(recording_of_switches(3, 30), 99999)


# States of threads become times: the kernel's own for running and queueing, the rest divided among the waits that were seen.


CALLS = numbers_by_name(os.uname().machine)
MS = 1_000_000


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch):
    """A watch of process 5, whose threads are in given states at given times, in milliseconds."""

    def make(*moments: tuple[int, dict[int, ThreadState]], target: str = "") -> ThreadWatch:
        times: Iterator[int] = iter([])
        now: dict[int, ThreadState] = {}
        monkeypatch.setattr("perfpy.tools.why.watched_threads.time.monotonic_ns", lambda: next(times))
        monkeypatch.setattr(watched_threads, "read_state", lambda pid, tid: now.get(tid))
        monkeypatch.setattr(watched_threads, "children_of", lambda pid, tids: [])
        monkeypatch.setattr(watched_threads, "target_of", lambda pid, descriptor: target)
        monkeypatch.setattr("perfpy.tools.why.watched_threads.ProcFs.threads", lambda self, pid: sorted(now))
        watch = ThreadWatch([5])
        for at, states in moments:
            times, now = iter([at * MS, at * MS]), states
            watch.look()
        return watch

    return make


def state(letter: str, call: str = "", *arguments: int, ran: int = 0, queued: int = 0) -> ThreadState:
    number = CALLS[call] if call else None
    return ThreadState("worker", letter, ran * MS, queued * MS, number, arguments)


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
def test_the_time_off_the_cpu_is_divided_among_the_waits_that_were_seen(watched):
    moments = [(0, {5: state("R")}), (10, {5: state("S", "clock_nanosleep")}), (20, {5: state("S", "wait4")})]
    watch = watched(*moments, (100, {5: state("R", ran=40, queued=20)}))
    (thread,) = watch.times()
    assert {name: time // MS for name, time in thread.columns.items() if time} == {"running": 40, "runnable": 20, "sleep": 20, "child": 20}
    assert thread.wall == 100 * MS


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
@pytest.mark.parametrize(
    ("seen", "target", "expected"),
    [
        (state("S", "read", 3), "pipe:[77]", reasons.PIPE),
        (state("S", "read", 3), "socket:[77]", reasons.NETWORK),
        (state("D", "read", 3), "/data/file", reasons.DISK),
        (state("S", "read", 0), "/dev/pts/3", reasons.TERMINAL),
        (state("D", "fsync", 3), "", reasons.DISK),
        (state("S", "futex", 0x1000, 0x80, 2), "", reasons.LOCK),
        (state("S", "futex", 0x1000, 0x189, 0), "", reasons.FUTEX),
        (state("S", "futex", 0x1000, 0x109, 5), "", reasons.JOIN),
        (ThreadState("worker", "D", 0, 0, -1, ()), "", PAGE_FAULT),
    ],
)
def test_the_system_call_tells_the_reason(watched, seen, target, expected):
    watch = watched((0, {5: seen}), (10, {5: seen}), target=target)
    assert [wait.kind for wait in watch.waits(5)] == [expected]


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
def test_ended_threads_keep_their_times(watched):
    watch = watched((0, {5: state("S", "wait4"), 6: state("R")}), (10, {5: state("S", "wait4"), 6: state("R", ran=10)}), (20, {}))
    assert {thread.tid: thread.wall // MS for thread in watch.times()} == {5: 10, 6: 10}


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
def test_threads_that_the_main_thread_waits_for_are_considered_in_its_place(watched):
    first = {5: state("S", "futex", 0x99, 0x109, 6), 6: state("S", "futex", 0x1000, 0x80, 2)}
    watch = watched((0, first), (100, first))
    threads = watch.times()
    waits = {
        one.tid: [WatchedWait(one.tid, wait.kind, wait.call, wait.lock, time) for wait, time in watch.waits(one.tid).items()]
        for one in threads
    }
    assert watched_verdict(5, threads, waits, {}) == ["worker (6) waits 100 % of 0.1 s for a lock (futex 0x1000)."]
    assert any(line.startswith("worker (6)") for line in watched_lines(5, threads, waits, {}, all_threads=False))


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
def test_programs_that_run_are_said_to_run(watched):
    watch = watched((0, {5: state("R")}), (100, {5: state("R", ran=90, queued=10)}))
    waits = {5: [WatchedWait(5, TASK_RUNNING, "", 0, 90 * MS), WatchedWait(5, reasons.CPU, "", 0, 10 * MS)]}
    assert watched_verdict(5, watch.times(), waits, {})[0] == "worker (5) runs 90 % of 0.1 s."


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
def test_a_process_that_ended_at_once_has_a_verdict():
    assert watched_verdict(5, [], {}, {}) == ["The process ended before it was looked at."]


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
def test_the_program_that_a_shell_waits_for_is_considered_in_its_place():
    names = {5: "sh", 6: "make", 7: "app"}
    threads = [ThreadTimes(tid, tid, comm, 100_000_000, {}) for tid, comm in names.items()]
    waits = {tid: [WatchedWait(tid, reasons.CHILD, "wait4", 0, 95_000_000)] for tid in (5, 6)}
    waits[7] = [WatchedWait(7, reasons.SLEEP, "clock_nanosleep", 0, 90_000_000)]
    assert watched_verdict(5, threads, waits, {6: 5, 7: 6}) == ["app (7) sleeps 90 % of 0.1 s; sh waits for make, which waits for app."]
    assert watched_verdict(5, threads, waits, {6: 5, 5: 6}) == [
        "make (6) waits 95 % of 0.1 s for a child process (wait4); sh waits for make."
    ]


@pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")
@pytest.mark.parametrize(("kind", "children"), [(reasons.EVENTS, (6,)), (reasons.OTHER, (6,)), (reasons.CHILD, (6, 7))])
def test_a_service_with_children_is_not_said_to_wait_for_one(kind: int, children: tuple[int, ...]):
    threads = [ThreadTimes(5, 5, "service", 100_000_000, {}), *(ThreadTimes(tid, tid, "helper", 100_000_000, {}) for tid in children)]
    waits = {5: [WatchedWait(5, kind, "", 0, 95_000_000)]}
    assert watched_verdict(5, threads, waits, dict.fromkeys(children, 5))[0].startswith("service (5) waits")


def ragged(rows: list[list[int]]) -> Ragged:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Ragged(np.array([value for row in rows for value in row], np.uint64), offsets)


def completed(rows: list[tuple[int, list[int]]]) -> list[list[int]]:
    given = with_similar_stacks(ragged([chain for _, chain in rows]), np.array([tid for tid, _ in rows]))
    return [given.values[begin:end].tolist() for begin, end in pairwise(given.offsets.tolist())]


def test_waits_without_a_user_stack_get_that_of_the_same_kernel_functions():
    """On busy machines some switches have a user stack: one thread's, in the same functions."""
    one, other = [1, 2, CONTEXT_USER, 50], [3, 4, CONTEXT_USER, 60]
    rows = [(7, [1, 2]), (7, one), (7, [1, 2]), (7, [3]), (8, [1, 2]), (7, other), (7, [3, 4]), (7, [])]
    assert completed(rows) == [one, one, one, [3], [1, 2], other, other, []]


def test_waits_of_a_thread_with_several_ways_to_the_same_kernel_functions_stay_without_a_place():
    """The stack of another wait would tell a wait in the wrong line; one stack in ten may differ."""
    one, other = [1, 2, CONTEXT_USER, 50], [1, 2, CONTEXT_USER, 60]
    mixed = [(7, one), (7, [1, 2]), (7, other), (7, one)]
    assert completed(mixed) == [chain for _, chain in mixed]
    usual = [(7, one)] * 9 + [(7, other), (7, [1, 2])]
    assert completed(usual)[-2:] == [other, one]


def test_chains_are_the_same_where_nothing_is_to_complete():
    """Recordings without user stacks keep their chains."""
    same = ragged([[1, 2], [1, 2]])
    assert with_similar_stacks(same, np.array([7, 7])) is same
