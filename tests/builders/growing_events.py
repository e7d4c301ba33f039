"""Recordings of tracepoints and memory accesses of which one thing grows: threads, work, locks, allocations, cache lines.

Input: a number. Output: the files of a folder, perf.data among them, as in tests.builders.growing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders.memory_accesses import HIT, L3, LOAD, SNOOP_HITM, access, access_recording, data_src
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from tests.builders.growing import Files

_STEP = 10_000  # nanoseconds between events
_SWITCH, _WAKEUP, _WAKING = "sched:sched_switch", "sched:sched_wakeup", "sched:sched_waking"
_ENTER, _EXIT = "syscalls:sys_enter_read", "syscalls:sys_exit_read"
_BEGIN, _END = "lock:contention_begin", "lock:contention_end"
_START, _DONE = "workqueue:workqueue_execute_start", "workqueue:workqueue_execute_end"


def _files(recording: EventRecording) -> Files:
    return {"perf.data": recording.file()}


def threads(count: int) -> Files:
    """Threads that wake each other in turn; each runs twice."""
    comms = {100 + number: f"t{number}" for number in range(count)}
    recording = EventRecording([_SWITCH, _WAKEUP, _WAKING], comms=comms, with_chains=True)
    time = 10**9
    for turn in range(2 * count):
        tid, following = 100 + turn % count, 100 + (turn + 1) % count
        time += _STEP
        name, next_name = b"t%d" % (tid - 100), b"t%d" % (following - 100)
        recording.event(_WAKING, time, next_name, following, 120, 0, tid=tid, chain=(0x7000,))
        recording.event(_WAKEUP, time + 100, next_name, following, 120, 0, tid=tid, chain=(0x7000,))
        recording.event(_SWITCH, time + 200, name, tid, 120, 1, next_name, following, 120, tid=tid, chain=(0x7000 + turn % 7,))
    return _files(recording)


def switches(count: int) -> Files:
    """Two threads that take turns on each of two CPUs."""
    recording = EventRecording([_SWITCH, _WAKEUP], comms={100: "a", 101: "b", 102: "c", 103: "d"})
    time = 10**9
    for turn in range(count):
        cpu = turn % 2
        tid, following = 100 + 2 * cpu + turn // 2 % 2, 100 + 2 * cpu + (turn // 2 + 1) % 2
        time += _STEP
        recording.event(_WAKEUP, time, b"x", following, 120, cpu, tid=tid, cpu=cpu)
        recording.event(_SWITCH, time + 200, b"x", tid, 120, 1, b"x", following, 120, tid=tid, cpu=cpu)
    return _files(recording)


def system_calls(count: int) -> Files:
    """Threads with a system call each, all of which are in it at once."""
    comms = {100 + number: f"t{number}" for number in range(count)}
    recording = EventRecording([_ENTER, _EXIT], comms=comms)
    for number in range(count):
        recording.event(_ENTER, 10**9 + number * 100, 0, number % 900, 0x1000, 10, tid=100 + number)
    for number in range(count):
        recording.event(_EXIT, 2 * 10**9 + number * 100, 0, 10, tid=100 + number)
    return _files(recording)


def locks(count: int) -> Files:
    """Locks with a waiter each; they are all waited for at once."""
    recording = EventRecording([_BEGIN, _END, _WAKING], comms={100 + n: f"t{n}" for n in range(count)}, with_chains=True)
    for number in range(count):
        lock, chain = 0xFFFF_8000_0000 + 64 * number, (0x7000 + number,)
        recording.event(_BEGIN, 10**9 + number * 100, lock, 2, tid=100 + number, chain=chain)
    for number in range(count):
        recording.event(_END, 2 * 10**9 + number * 100, 0xFFFF_8000_0000 + 64 * number, 0, tid=100 + number, chain=(0x7000,))
    return _files(recording)


def works(count: int) -> Files:
    """Functions of the kernel's work queues that run once each, within one another's time on two CPUs."""
    recording = EventRecording([_START, _DONE], comms={100: "worker"})
    for number in range(count):
        function, begin = 0xFFFF_0000 + number * 16, 10**9 + number * _STEP
        recording.event(_START, begin, 0x1000 + number, function, cpu=number % 2)
        recording.event(_DONE, begin + 500, 0x1000 + number, function, cpu=number % 2)
    return _files(recording)


def allocations(count: int) -> Files:
    """Objects and pages that are allocated by different callers, and freed after the last is allocated."""
    names = ["kmem:kmalloc", "kmem:kfree", "kmem:mm_page_alloc", "kmem:mm_page_free"]
    recording = EventRecording(names, comms={100: "a"}, with_chains=True)
    time = 10**9
    for number in range(count):
        recording.event(names[0], time + number * 100, 0x1000 + number, 0xFFFF_8000_0000 + number * 64, 24, 32, 0xCC0, 0, chain=(0x7000,))
        recording.event(names[2], time + number * 100 + 50, 0x500 + number, 0, 0xCC0, 0, chain=(0x7000 + number,))
    for number in range(count):
        recording.event(names[1], 2 * time + number * 100, 0x1000, 0xFFFF_8000_0000 + number * 64, chain=(0x7000,))
        recording.event(names[3], 2 * time + number * 100 + 50, 0x500 + number, 0, chain=(0x7000,))
    return _files(recording)


def cache_lines(count: int) -> Files:
    """Cache lines that two threads modify."""
    built, word = access_recording(), data_src(LOAD, HIT | L3, SNOOP_HITM)
    for number in range(count):
        for cpu in (0, 5):
            address = 0x600000 + 64 * number
            access(built, word, time=100 + 2 * number, ip=0x400000 + number % 1000, tid=10 + cpu, cpu=cpu, addr=address, phys_addr=address)
    return {"perf.data": built.file()}
