"""Overflows are told to whom they concern, each once, and end nobody."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import perfpy
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType
from perfpy.errors import UsageError

pytestmark = pytest.mark.live

WRITES = 2  # HW_BREAKPOINT_W
DEADLINE = 30.0


class Word:
    """A word of memory, and counters of the writes to it: so many overflows as writes, exactly."""

    def __init__(self) -> None:
        self.cell = ctypes.c_int64(0)

    def counter(self, period: int = 1, **fields: int) -> perfpy.Counter:
        attr = EventAttr(
            type=PerfType.BREAKPOINT,
            bp_type=WRITES,
            config1=ctypes.addressof(self.cell),
            config2=8,
            exclude_kernel=1,
            sample_period=period,
            **fields,
        )
        return perfpy.Counter(attr, event="mem:write")

    def write(self, times: int) -> None:
        for number in range(times):
            self.cell.value = number


def until(done) -> bool:
    """Whether it came about, which another thread sees to."""
    end = time.monotonic() + DEADLINE
    while not done() and time.monotonic() < end:
        time.sleep(0.001)
    return bool(done())


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_each_overflow_is_a_call():
    word = Word()
    calls: list[perfpy.Counter] = []
    with word.counter() as counter:
        counter.on_overflow(calls.append)
        word.write(500)
        assert until(lambda: len(calls) == 500)
        assert set(map(id, calls)) == {id(counter)}
        counter.on_overflow(None)
        word.write(10)
        time.sleep(0.05)
    assert len(calls) == 500


def test_counters_on_one_signal_are_distinguished():
    words = [Word() for _ in range(3)]
    calls: dict[int, int] = {}
    counters = [word.counter() for word in words]
    for number, counter in enumerate(counters):
        counter.on_overflow(lambda counter: calls.update({counter.fd: calls.get(counter.fd, 0) + 1}), signum=signal.SIGRTMIN + number % 2)
    for times, word in zip((10, 20, 30), words, strict=True):
        word.write(times)
    expected = {counter.fd: times for times, counter in zip((10, 20, 30), counters, strict=True)}
    assert until(lambda: calls == expected)
    counters[0].close()  # the others go on
    words[2].write(5)
    assert until(lambda: calls[counters[2].fd] == 35)
    for counter in counters:
        counter.close()


def test_it_stands_still_while_the_handler_runs():
    calls: list[int] = []
    go_on = threading.Event()

    def handler(counter: perfpy.Counter) -> None:
        calls.append(counter.read().value)
        go_on.wait(DEADLINE)

    # (the kernel does not let a breakpoint go on by refresh)
    with perfpy.Counter.open("page-faults:u", sample_period=1, disabled=1) as counter:
        counter.on_overflow(handler, refresh=1)
        touch(1)
        assert until(lambda: calls)
        touch(100)
        assert counter.read().value == 1
        go_on.set()
        assert until(lambda: touch(1) and len(calls) > 1)


def touch(pages: int) -> int:
    """So many page faults, in fresh memory."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for i in range(pages):
            memory[i * mmap.PAGESIZE] = 1
    return pages


def test_a_reused_descriptor_gets_its_own_overflows_only():
    word, other = Word(), Word()
    calls: list[perfpy.Counter] = []
    for _ in range(50):
        first = word.counter()
        first.on_overflow(lambda _: time.sleep(0.001))
        word.write(20)
        fd = first.fd
        first.close()
        with other.counter() as second:
            assert second.fd == fd
            second.on_overflow(calls.append)
            word.write(3)
    time.sleep(0.05)
    assert not calls


def test_no_handler_of_the_program_is_touched():
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    with Word().counter() as counter:
        counter.on_overflow(print)
        assert [signal.getsignal(number) for number in signal.valid_signals()] == before


def test_a_signal_that_is_not_queued_is_refused():
    with Word().counter() as counter, pytest.raises(UsageError, match="real-time signal"):
        counter.on_overflow(print, signum=signal.SIGUSR1)


def test_the_thread_ends_with_the_last_counter():
    with Word().counter() as counter:
        counter.on_overflow(print)
        assert "perfpy overflows" in {thread.name for thread in threading.enumerate()}
    assert until(lambda: "perfpy overflows" not in {thread.name for thread in threading.enumerate()})


def test_a_handler_that_fails_is_reported_and_does_no_harm(monkeypatch: pytest.MonkeyPatch):
    word = Word()
    calls: list[perfpy.Counter] = []
    failures: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def handler(counter: perfpy.Counter) -> None:
        calls.append(counter)
        raise RuntimeError("mine")

    with word.counter() as counter:
        counter.on_overflow(handler)
        word.write(3)
        assert until(lambda: len(calls) == 3)
    assert {str(one.exc_value) for one in failures} == {"mine"}


PROGRAM = """
import ctypes, os, perfpy, signal, sys, time
attr = perfpy.EventAttr(type=1, config=1, sample_period=100_000, disabled=0)
counters = [perfpy.Counter(attr, event="task-clock") for _ in range(3)]
calls = []
for counter in counters:
    counter.on_overflow(calls.append, refresh={refresh})
end = time.monotonic() + 0.3
while time.monotonic() < end:
    sum(range(1000))
{then}
"""


@pytest.mark.parametrize("refresh", [0, 1])
@pytest.mark.parametrize(
    "then", ["", "sys.exit(0)", "os._exit(0)", "[counter.close() for counter in counters]", "del counter, counters", "raise SystemExit"]
)
@pytest.mark.kernel_too
def test_a_program_that_ends_with_open_counters_ends_well(refresh: int, then: str):
    result = run(PROGRAM.format(refresh=refresh, then=then))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.kernel_too
def test_a_fork_leaves_the_parents_counters_alone():
    program = PROGRAM.format(refresh=0, then="") + (
        "import warnings; warnings.simplefilter('ignore')\n"  # Python 3.12 and later: fork beside the thread that hands out overflows
        "if os.fork() == 0:\n"
        "    for counter in counters: counter.close()\n"
        "    own = perfpy.Counter(attr, event='own'); heard = []\n"
        "    own.on_overflow(heard.append)\n"
        "    end = time.monotonic() + 20\n"
        "    while not heard and time.monotonic() < end: sum(range(1000))\n"
        "    sys.exit(0 if heard and set(heard) == {own} else 3)\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
        "before, end = len(calls), time.monotonic() + 20\n"
        "while len(calls) < before + 3 and time.monotonic() < end: sum(range(1000))\n"
        "assert len(calls) >= before + 3\n"
    )
    result = run(program)
    assert (result.returncode, result.stderr) == (0, "")
    assert os.getpid()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_move_to_a_cpu_that_the_counter_lacks_is_a_call():
    """And a move back is none. The CPUs stand for those of one kind of core."""
    allowed, forbidden, *_ = sorted(os.sched_getaffinity(0))
    everywhere = os.sched_getaffinity(0)
    calls: list[tuple[perfpy.Counter, int]] = []
    with perfpy.Counter.open("task-clock") as counter:
        with pytest.raises(UsageError, match="no CPU is forbidden"):
            counter.on_forbidden_cpu(lambda *call: calls.append(call))
        try:
            os.sched_setaffinity(0, {allowed})
            counter.cpus = (allowed,)
            counter.on_forbidden_cpu(lambda *call: calls.append(call))
            for _ in range(3):
                os.sched_setaffinity(0, {forbidden})
                os.sched_setaffinity(0, {allowed})
            assert until(lambda: len(calls) == 3)
            counter.on_forbidden_cpu(None)
            os.sched_setaffinity(0, {forbidden})
        finally:
            os.sched_setaffinity(0, everywhere)
        time.sleep(0.05)
        assert calls == [(counter, forbidden)] * 3
