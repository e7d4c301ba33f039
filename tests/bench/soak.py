"""Counters for a long time: python tests/bench/soak.py [--scale PART]

Opens and closes 10,000 counters, tells 1,000 overflows a second for 10 s by
three counters on two signals beside asyncio and forks, counts 200 threads, and
ends with counters open. It fails where a descriptor or memory leaks, an overflow
is lost or told twice, or something waits forever; a line says what each part did.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import faulthandler
import mmap
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import perfpy
from perfpy.abi.flags import PerfType

CYCLES = 10_000
SECONDS = 10.0
EACH_SECOND = 1000
THREADS = 200
PAGES = 50
LEAK = 4096  # KiB: what the allocator may keep
WRITES = 2  # HW_BREAKPOINT_W
PATIENCE = 300


def main() -> None:
    """All parts, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="do this part of it (0.05: a twentieth)")
    scale = parser.parse_args().scale
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    open_and_close(round(CYCLES * scale))
    asyncio.run(hear_overflows(SECONDS * scale))
    count_threads(max(round(THREADS * scale), 2))
    leave_open()
    faulthandler.cancel_dump_traceback_later()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def open_and_close(cycles: int) -> None:
    """Alone, in groups, with a ring, by with and by being forgotten."""
    one_cycle(0)
    one_cycle(5)
    before, memory = descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(cycles):
        one_cycle(number)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert descriptors() == before, f"{descriptors() - before} descriptors more than before"
    assert grown <= LEAK, f"{grown} KiB more than before"
    print(f"{cycles} cycles of open, read, close: no descriptor left, {grown} KiB more")


def one_cycle(number: int) -> None:
    with perfpy.Counter(FAULTS) as counter:
        assert counter.read().enabled is not None
        if number % 5 == 0:
            counter.ring(1)
            list(counter.ring())
            counter.read_user()
    if number % 5 == 0:
        with perfpy.CounterGroup([FAULTS, FAULTS]) as group:
            assert len(group.read()) == 2
        with perfpy.count("page-faults:u"):
            pass


FAULTS = perfpy.EventAttr(type=PerfType.SOFTWARE, config=2, exclude_kernel=1, read_format=3)


class Word:
    """A word of memory, a counter of the writes to it, and what was told of them."""

    def __init__(self, signum: int) -> None:
        self.cell = ctypes.c_int64(0)
        address = ctypes.addressof(self.cell)
        attr = perfpy.EventAttr(
            type=PerfType.BREAKPOINT, bp_type=WRITES, config1=address, config2=8, exclude_kernel=1, sample_period=1, read_format=3
        )
        self.counter = perfpy.Counter(attr, event="writes")
        self.written = self.told = 0
        self.counter.on_overflow(self.tell, signum=signum)

    def tell(self, counter: perfpy.Counter) -> None:
        assert counter is self.counter
        self.told += 1

    async def write(self, seconds: float, each_second: float) -> None:
        """At an even pace, on this thread."""
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < seconds:
            while self.written < elapsed * each_second:
                self.cell.value = self.written
                self.written += 1
            await asyncio.sleep(0.002)


async def hear_overflows(seconds: float) -> None:
    """Three counters on two signals, while there are forks and a program that waits for others."""
    words = [Word(signum) for signum in (signal.SIGRTMAX - 1, signal.SIGRTMAX - 1, signal.SIGRTMIN + 2)]
    task = asyncio.gather(*(word.write(seconds, EACH_SECOND / len(words)) for word in words))
    forks = 0
    while not task.done():
        child = os.fork()
        if child == 0:
            end_of_child()
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            await asyncio.sleep(0.005)
        forks += 1
        await asyncio.sleep(0.05)
    await task
    deadline = time.monotonic() + 30
    while any(word.told < word.written for word in words) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    handled, written = [word.told for word in words], [word.written for word in words]
    assert handled == written, f"told of {handled} overflows of {written}"
    for word in words:
        assert word.counter.read().value == word.written, "overflows of writes that were not counted"
        word.counter.close()
    print(f"{sum(handled)} overflows of three counters on two signals in {seconds:g} s, beside {forks} forks: each told once")


def end_of_child() -> None:
    """What a child does: counters of its own."""
    with perfpy.Counter(FAULTS) as counter:
        counter.on_overflow(print)
        os._exit(0 if counter.read().enabled else 1)


def count_threads(number: int) -> None:
    """Each with counters of its own, and all together."""

    @perfpy.counted("page-faults:u")
    def touch() -> None:
        with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(PAGES):
                memory[page * mmap.PAGESIZE] = 1

    before = descriptors()
    threads = [threading.Thread(target=touch) for _ in range(number)]
    with perfpy.count("page-faults:u") as counts:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    own, everything = touch.counts["page-faults:u"].value or 0, counts["page-faults:u"].value or 0
    assert touch.calls == number
    assert number * PAGES <= own <= everything, f"{own} faults in threads, {everything} in all, of {number * PAGES} pages"
    # (the thread that told of overflows may have ended meanwhile, with its descriptor)
    assert descriptors() <= before, f"{descriptors() - before} descriptors more than before"
    print(f"{number} threads counted: {own} faults of {number * PAGES} pages, {everything} with all that is around")


def leave_open() -> None:
    """The program ends with counters that tell."""
    for _ in range(3):
        counter = perfpy.Counter(FAULTS.copy(sample_period=1))
        counter.on_overflow(lambda _: None)
        LEFT.append(counter)


LEFT: list[perfpy.Counter] = []

if __name__ == "__main__":
    main()
