"""The text of stacks: a heading for each thread with what it waits for, deadlocks first."""

from __future__ import annotations

import pytest

from perfpy.capture.python_frames.current_stacks import CurrentFrame, ThreadStack
from perfpy.capture.wait_targets import WaitTarget
from perfpy.errors import UsageError
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


def test_threads_of_locks_are_the_waiting_and_their_holders():
    threads = [thread(1, mutex(2)), thread(2), thread(3, WaitTarget("read")), thread(4, mutex(0))]
    assert [one.tid for one in stacks.threads_of_locks(threads)] == [1, 2, 4]


def test_what_is_missing_is_said_last():
    assert lines(thread(7), missing="1 more thread without Python functions: no")[-1].endswith("functions: no")


@pytest.mark.parametrize("words", [("x",), ("0",), ("1,",), ("99999999999",)])
def test_words_that_are_no_processes_are_refused(words):
    with pytest.raises(UsageError, match="expected process ids"):
        stacks.run(stacks.StacksCommandOptions(words=words))
