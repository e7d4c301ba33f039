"""States of threads become times: the kernel's own for running and queueing, the rest divided among the waits that were seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.system_calls import numbers_by_name
from perfpy.analysis.verdict import waits as reasons
from perfpy.kernel.procfs import ThreadState
from perfpy.tools.why import watched_threads
from perfpy.tools.why.explanation import ThreadTimes
from perfpy.tools.why.tasks import PAGE_FAULT, RUNNING
from perfpy.tools.why.watched_threads import ThreadWatch, WatchedWait, watched_lines, watched_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = numbers_by_name(os.uname().machine)
MS = 1_000_000
pytestmark = pytest.mark.skipif(not CALLS, reason="no table of this machine's calls")


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


def test_the_time_off_the_cpu_is_divided_among_the_waits_that_were_seen(watched):
    moments = [(0, {5: state("R")}), (10, {5: state("S", "clock_nanosleep")}), (20, {5: state("S", "wait4")})]
    watch = watched(*moments, (100, {5: state("R", ran=40, queued=20)}))
    (thread,) = watch.times()
    assert {name: time // MS for name, time in thread.columns.items() if time} == {"running": 40, "runnable": 20, "sleep": 20, "child": 20}
    assert thread.wall == 100 * MS


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


def test_ended_threads_keep_their_times(watched):
    watch = watched((0, {5: state("S", "wait4"), 6: state("R")}), (10, {5: state("S", "wait4"), 6: state("R", ran=10)}), (20, {}))
    assert {thread.tid: thread.wall // MS for thread in watch.times()} == {5: 10, 6: 10}


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


def test_programs_that_run_are_said_to_run(watched):
    watch = watched((0, {5: state("R")}), (100, {5: state("R", ran=90, queued=10)}))
    waits = {5: [WatchedWait(5, RUNNING, "", 0, 90 * MS), WatchedWait(5, reasons.CPU, "", 0, 10 * MS)]}
    assert watched_verdict(5, watch.times(), waits, {})[0] == "worker (5) runs 90 % of 0.1 s."


def test_a_process_that_ended_at_once_has_a_verdict():
    assert watched_verdict(5, [], {}, {}) == ["The process ended before it was looked at."]


def test_the_program_that_a_shell_waits_for_is_considered_in_its_place():
    names = {5: "sh", 6: "make", 7: "app"}
    threads = [ThreadTimes(tid, tid, comm, 100_000_000, {}) for tid, comm in names.items()]
    waits = {tid: [WatchedWait(tid, reasons.CHILD, "wait4", 0, 95_000_000)] for tid in (5, 6)}
    waits[7] = [WatchedWait(7, reasons.SLEEP, "clock_nanosleep", 0, 90_000_000)]
    assert watched_verdict(5, threads, waits, {6: 5, 7: 6}) == ["app (7) sleeps 90 % of 0.1 s; sh waits for make, which waits for app."]
    assert watched_verdict(5, threads, waits, {6: 5, 5: 6}) == [
        "make (6) waits 95 % of 0.1 s for a child process (wait4); sh waits for make."
    ]


@pytest.mark.parametrize(("kind", "children"), [(reasons.EVENTS, (6,)), (reasons.OTHER, (6,)), (reasons.CHILD, (6, 7))])
def test_a_service_with_children_is_not_said_to_wait_for_one(kind: int, children: tuple[int, ...]):
    threads = [ThreadTimes(5, 5, "service", 100_000_000, {}), *(ThreadTimes(tid, tid, "helper", 100_000_000, {}) for tid in children)]
    waits = {5: [WatchedWait(5, kind, "", 0, 95_000_000)]}
    assert watched_verdict(5, threads, waits, dict.fromkeys(children, 5))[0].startswith("service (5) waits")
