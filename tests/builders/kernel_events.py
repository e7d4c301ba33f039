"""Recordings of the kernel's work, locks and memory with known times, which perf was asked about (tests/golden/kernel/answers.txt)."""

from __future__ import annotations

from typing import Final

from tests.builders.tracepoint_events import POINTS, EventRecording

WORK: Final = tuple(name for name in POINTS if name.startswith(("irq:", "workqueue:")))
SWITCH: Final = "sched:sched_switch"
_STEP: Final = 1_234_567  # nanoseconds
_FLAGS: Final = (0xCC0, 0x820, 0x40DC0)  # of requests for memory


def recording_of_work() -> bytes:
    """Return interrupts, soft interrupts and works on two CPUs, and switches; some have no counterpart."""
    recording = EventRecording([*WORK, SWITCH], comms={100: "alpha", 101: "beta"})
    time, count = 10**9, 0

    def add(name: str, *values: int | bytes, cpu: int, tid: int) -> None:
        nonlocal time, count
        count += 1
        time += _STEP * (1 + count % 5)
        recording.event(name, time, *values, cpu=cpu, tid=tid)

    def switch(before: int, after: int, cpu: int) -> None:
        add(SWITCH, b"task-%d" % before, before, 120, 1, b"task-%d" % after, after, 120, cpu=cpu, tid=before)

    for cpu in (1, 0):
        switch(0, 100, cpu)
        for work in (0x30, 0x10):
            for phase in ("activate_work", "execute_start", "execute_end"):
                add(f"workqueue:workqueue_{phase}", work, 0xFFFF_0000 + work, cpu=cpu, tid=100)
        switch(100, 101, cpu)
        for vector in (1, 9, 11):
            for phase in ("raise", "raise", "entry", "exit")[cpu:]:
                add(f"irq:softirq_{phase}", vector, cpu=cpu, tid=101)
        switch(101, 0, cpu)
        for irq, name in ((7, b"eth0"), (5, b"a-handler-with-a-name-of-many-letters")):
            add("irq:irq_handler_entry", irq, name, cpu=cpu, tid=0)
            add("irq:irq_handler_exit", irq, 1, cpu=cpu, tid=0)
        add("irq:irq_handler_exit", 6, 1, cpu=cpu, tid=0)
        switch(0, 100, cpu)
    return recording.file()


def recording_of_allocations() -> bytes:
    """Return objects and pages that are allocated and freed on two CPUs; some are freed twice, elsewhere, or never."""
    names = [name for name in POINTS if name.startswith("kmem:")]
    recording = EventRecording(names, comms={100: "alpha"}, with_chains=True)
    time = 10**9

    def add(name: str, *values: int | bytes, cpu: int = 0) -> None:
        nonlocal time
        time += _STEP
        recording.event(f"kmem:{name}", time, *values, cpu=cpu, chain=(0x7000,))

    for turn in range(24):
        site, address, size = 0x1000 + turn % 5 * 0x10, 0xFFFF_8000 + turn % 7 * 0x100, 24 + turn % 4 * 20
        add(
            "kmalloc" if turn % 2 else "kmem_cache_alloc",
            site,
            address,
            size,
            -(-size // 32) * 32,
            _FLAGS[turn % 3],
            turn % 3 - 1,
            cpu=turn % 2,
        )
        if turn % 3:
            add("kfree" if turn % 2 else "kmem_cache_free", site + 1, address, cpu=turn // 3 % 2)
        if turn % 11 == 0:
            add("kfree", site + 2, address)
        add("mm_page_alloc", 0x500 + turn // 2, turn // 2 % 4, _FLAGS[turn % 3], turn % 5, cpu=turn % 2)
        if turn % 2 == 0 or turn % 3:
            add("mm_page_free", 0x500 + turn // 2, turn // 2 % 4)
        elif turn % 9 == 0:
            add("mm_page_free", 0x900 + turn, 3)
    add("mm_page_alloc", (1 << 64) - 1, 5, _FLAGS[0], 0)
    return recording.file()


def recording_of_locks() -> bytes:
    """Return waits of three threads for three locks; some are woken by the holder, and one does not end."""
    names = ["lock:contention_begin", "lock:contention_end", "sched:sched_waking"]
    recording = EventRecording(names, comms={100: "alpha", 101: "beta", 102: "gamma"}, with_chains=True)
    time = 10**9
    for turn in range(30):
        tid, lock, flags = 100 + turn % 3, 0xFFFF_8000 + turn % 4 * 0x40, (1, 2, 4, 32)[turn % 4]
        recording.event("lock:contention_begin", time, lock, flags, tid=tid, chain=(0x7000 + turn % 2,))
        if turn % 4:
            recording.event("sched:sched_waking", time + 500, b"", tid, 120, 0, tid=100 + (turn + 1) % 3, chain=(0x7000,))
        time += _STEP * (1 + turn % 5)
        if turn != 17:
            recording.event("lock:contention_end", time, lock, 0, tid=tid, chain=(0x7000,))
    return recording.file()
