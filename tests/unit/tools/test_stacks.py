"""The text of stacks: a heading for each thread with what it waits for, deadlocks first."""

from __future__ import annotations

import os
import subprocess

import pytest

from perfpy.capture import sleeping_threads
from perfpy.capture.python_frames import current_stacks
from perfpy.capture.python_frames.current_stacks import ProcessStacks, ThreadStack
from perfpy.capture.runtimes.hotspot_monitors import JavaFrame, JavaStack
from perfpy.capture.wait_targets import WaitTarget
from perfpy.errors import PerfError, UsageError
from perfpy.interpreters.frames import CurrentFrame
from perfpy.kernel.procfs import ProcFs
from perfpy.perfdata.kept_files import ObservedFrame, ObservedState
from perfpy.tools import stacks
from perfpy.tools.stacks import CurrentProcess, CurrentThread, NativeFrame, process_lines

PYTHON = ThreadStack(7, "python3", "MainThread", "sleeping", "futex_do_wait", True, False, [CurrentFrame("get", "/srv/a.py", 4)])
FRAMES = [NativeFrame("read", "", 0, "libc.so.6"), NativeFrame("main", "/src/a.c", 9, "a"), NativeFrame("_start", "", 0, "a")]


def thread(tid: int, target: WaitTarget | None = None, state: str = "sleeping", **fields) -> CurrentThread:
    return CurrentThread(tid, "work", state, target or WaitTarget(), "", None, ())._replace(**fields)


def lines(*threads: CurrentThread, missing: str = "") -> list[str]:
    return [line for line in process_lines(CurrentProcess(1, "./a", "", list(threads), missing)) if line]


def mutex(holder: int, lock: int = 0x10) -> WaitTarget:
    return WaitTarget("futex", lock=lock, holder=holder)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (WaitTarget(), "sleeping"),
        (WaitTarget("pause"), "sleeping in pause()"),
        (WaitTarget("read", "a pipe"), "sleeping in read() on a pipe"),
        (WaitTarget("read", "/tmp/\x1b[2J"), "sleeping in read() on /tmp/^[[2J"),
        (WaitTarget("futex", thread=9), "sleeping in futex() for the end of thread 9"),
        (mutex(0), "sleeping in futex() for the mutex at 0x10"),
        (mutex(8), "sleeping in futex() for the mutex at 0x10, held by thread 8"),
    ],
)
def test_headings_say_what_a_thread_waits_for(target, text):
    assert lines(thread(7, target))[1] == f"Thread 7 (work): {text}"


def test_running_threads_wait_for_nothing():
    assert lines(thread(7, WaitTarget("read"), "running"))[1] == "Thread 7 (work): running"


def test_a_thread_that_a_timer_wakes_for_a_moment_is_told_as_its_stack_was_read(monkeypatch: pytest.MonkeyPatch):
    with subprocess.Popen(["sleep", "60"]) as child:
        stack = PYTHON._replace(tid=child.pid, wait="poll_schedule_timeout")
        read = ProcessStacks(child.pid, "", "3.11", [stack], 0)
        monkeypatch.setattr(current_stacks, "process_stacks", lambda *_, **__: read)
        monkeypatch.setattr(sleeping_threads, "sleepers", lambda *_: iter(()))  # it runs whenever the kernel is asked
        try:
            (process,) = stacks.read_processes([child.pid])
        finally:
            child.kill()
    assert process.threads[0].state == "sleeping"
    assert stacks.waiting_text(process.threads[0]) == "poll_schedule_timeout"


def test_python_threads_have_their_name_and_functions():
    doubt = " (it ran during the reading: its stack may be of two moments)"
    heading = f"Thread 7 (MainThread): sleeping in futex_do_wait, holds the GIL{doubt}"
    assert lines(thread(7, python=PYTHON))[1:] == [heading, "    get (/srv/a.py:4)"]


def test_native_threads_have_lines_or_files_and_no_start():
    assert lines(thread(7, frames=FRAMES))[2:] == ["    read (libc.so.6)", "    main (a.c:9)"]
    assert lines(thread(7, frames=FRAMES[2:]))[2:] == ["    _start (a)"]


def test_circles_are_deadlocks_each_told_once():
    threads = [thread(1, mutex(2)), thread(2, mutex(3, 0x20)), thread(3, mutex(2)), thread(4, mutex(5)), thread(5), thread(6, mutex(6))]
    told = [line.strip() for line in lines(*threads) if "Deadlock" in line]
    assert told == [
        "Deadlock: thread 2 waits for the mutex at 0x20, which thread 3 holds; thread 3 waits for the mutex at 0x10, which thread 2 holds.",
        "Deadlock: thread 6 waits for the mutex at 0x10, which thread 6 holds.",
    ]


def monitor(holder: int, of_class: str = "java.lang.Object") -> WaitTarget:
    return WaitTarget("futex", lock=0x10, holder=holder, monitor=of_class)


def test_monitors_are_named_by_class_and_deadlocks_by_method():
    frames = [NativeFrame("ObjectMonitor::enter(JavaThread*)", "", 0, "libjvm.so"), NativeFrame("void java.lang.A.run()", "", 0, "")]
    threads = [
        thread(tid, monitor(3 - tid), frames=[*frames, NativeFrame(f"void Bank.{name}(int)", "", 0, "")])
        for tid, name in ((1, "debit"), (2, "credit"))
    ]
    told = lines(*threads)
    held = "the monitor of java.lang.Object at 0x10"
    assert told[1].strip() == (
        f"Deadlock: thread 1, in Bank.debit(), waits for {held}, which thread 2 holds; thread 2, in Bank.credit(), waits for {held}, "
        "which thread 1 holds."
    )
    assert told[2] == f"Thread 1 (work): sleeping in futex() for {held}, held by thread 2"
    assert "\x1b" not in "".join(lines(thread(1, monitor(0, "\x1b[2J"))))


def java(name: str, lock: int = 0, *, enters: bool = False, holds: int = 0, of_class: str = "Shop") -> JavaStack:
    return JavaStack(0, name, [JavaFrame("jdk.internal.misc.Unsafe.park", "", 0)], lock, of_class, enters, {holds})


def test_locks_of_java_have_the_holder_that_the_jvm_tells():
    lock = "java.util.concurrent.locks.ReentrantLock$NonfairSync"
    threads = {1: java("main", 0x20, holds=0x10, of_class=lock), 2: java("shipper", 0x10, enters=True, holds=0x20), 3: java("idle", 0x30)}
    targets = {tid: stacks._java_target(tid, threads, WaitTarget("futex", lock=5, holder=7)) for tid in threads}
    assert [(target.lock, target.holder) for target in targets.values()] == [(0x20, 2), (0x10, 1), (0, 7)]
    frames = [NativeFrame("java.util.A.lock", "A.java", 3, "JVM"), NativeFrame("Shop.ship", "Shop.java", 7, "JVM")]
    told = lines(*(thread(tid, targets[tid], frames=frames, name=one.name) for tid, one in threads.items() if tid < 3))
    assert told[1].strip() == (
        "Deadlock: thread 1 (main), in Shop.ship() (Shop.java:7), waits for the java.util.concurrent.locks.ReentrantLock at 0x20, which "
        "thread 2 holds; thread 2 (shipper), in Shop.ship() (Shop.java:7), waits for the monitor of Shop at 0x10, which thread 1 holds."
    )


def test_other_waits_of_java_have_the_method_of_its_library_or_the_descriptor():
    assert stacks._java_target(1, {1: java("a", 9)}, WaitTarget("futex")) == WaitTarget("jdk.internal.misc.Unsafe.park", "Shop")
    socket = WaitTarget("read", "127.0.0.1:80")
    assert stacks._java_target(1, {1: java("a", 9, holds=9)}, socket) is socket


def test_threads_that_java_starts_for_itself_are_counted():
    of_library = [
        NativeFrame("java.lang.Object.wait", "", 0, "JVM"),
        NativeFrame("java.lang.ref.Finalizer.run", "Finalizer.java", 1, "JVM"),
    ]
    of_pool = [of_library[0], NativeFrame("java.lang.Thread.run", "Thread.java", 840, "JVM")]
    shown = lines(thread(1), thread(2, frames=of_library, name="Finalizer"), thread(3, frames=of_pool, name="pool-1"))
    assert [line.strip("\n") for line in shown if not line.startswith(" ")][1:] == [
        "Thread 3 (pool-1): sleeping",
        "2 more threads of the runtime: 1 (work), 2 (Finalizer)",
    ]


def test_threads_with_equal_stacks_share_one():
    shown = lines(*(thread(tid, WaitTarget("accept"), frames=FRAMES) for tid in range(1, 10)))
    named = ", ".join(f"{tid} (work)" for tid in range(1, 7))
    assert shown[1:] == [f"9 threads: sleeping in accept(): {named} and 3 more", "    read (libc.so.6)", "    main (a.c:9)"]
    assert sum(line.startswith("Thread") for line in lines(*(thread(tid, frames=FRAMES) for tid in (1, 2)))) == 2


def goroutine(reason: str, *functions: str, seen: int = 1, began: tuple[str, ...] = ()) -> ObservedState:
    of = [ObservedFrame(name, "/src/a.go", 7) for name in functions]
    return ObservedState(1, "go", 1, seen, reason, of, [ObservedFrame(name, "/src/a.go", 9) for name in began])


def test_goroutines_are_listed_as_go_does():
    states = [
        goroutine("chan receive", "runtime.gopark", "main.work", "main.f", "runtime.goexit", seen=4, began=("main.x", "main.main")),
        goroutine("running", began=("runtime.main",)),
        goroutine("GC sweep wait", "runtime.gopark", "runtime.bgsweep", seen=2, began=("runtime.bgsweep", "runtime.gcenable")),
    ]
    shown = [line for line in process_lines(CurrentProcess(1, "./a", "", [thread(1)], "", states)) if line]
    assert [line.strip("\n") for line in shown[1:]] == [
        "4 goroutines: chan receive",
        "    main.work (a.go:7)",
        "    main.f (a.go:7)",
        "    started in main.main (a.go:9)",
        "1 goroutine: running",
        "2 more goroutines of the runtime",
        "1 more thread of the runtime: 1 (work)",
    ]


def test_processes_that_end_meanwhile_are_left_out_unless_they_are_required(monkeypatch: pytest.MonkeyPatch):
    def record(tids, locks, *, is_native):
        if 2 in tids:
            raise PerfError("cannot open event 'task-clock': no process or thread 2")
        return dict.fromkeys(tids, FRAMES), {}

    monkeypatch.setattr(stacks, "_recorded_stacks", record)
    monkeypatch.setattr(stacks, "_has_ended", lambda pid, _: pid == 2)
    unread = [stacks._Unread(CurrentProcess(pid, "a", "", [thread(pid)], ""), [pid], True, True) for pid in (1, 2, 3)]
    read = list(stacks._with_recorded_stacks(unread, ProcFs(), {1}, is_native=True))
    assert [(process.pid, process.threads[0].frames) for process in read] == [(1, FRAMES), (3, FRAMES)]
    with pytest.raises(PerfError, match="process 2 has ended"):
        list(stacks._with_recorded_stacks(unread, ProcFs(), {2}, is_native=True))


def test_threads_of_locks_are_the_waiting_and_their_holders():
    threads = [thread(1, mutex(2)), thread(2), thread(3, WaitTarget("read")), thread(4, mutex(0))]
    assert [one.tid for one in stacks.threads_of_locks(threads)] == [1, 2, 4]


def test_what_is_missing_is_said_last():
    assert lines(thread(7), missing="1 more thread without Python functions: no")[-1].endswith("functions: no")


@pytest.mark.parametrize("words", [("x",), ("0",), ("1,",), ("99999999999",)])
def test_words_that_are_no_processes_are_refused(words):
    with pytest.raises(UsageError, match="expected process ids"):
        stacks.run(stacks.StacksCommandOptions(words=words))


@pytest.mark.parametrize(("zombies", "text"), [(1, "1 child has ended, and it has not waited for it"), (31, "31 children have ended")])
def test_children_that_nobody_waited_for_are_told(zombies: int, text: str) -> None:
    lines = [*process_lines(CurrentProcess(1, "./a", "", [thread(1)], "", (), zombies))]
    assert lines[1].startswith(text)
    assert lines[1].endswith("(zombies)")


def test_zombies_are_counted() -> None:
    with subprocess.Popen(["true"]) as process:
        assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        tids = [int(tid) for tid in os.listdir("/proc/self/task")]
        assert stacks._count_zombies(os.getpid(), tids) >= 1
