"""perfpy.watch(): samples of running events, in order, until whoever is watched ends; what is not taken in time is counted."""

from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi.records import Comm
from perfpy.errors import UnknownEventError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

# waits for a line, so that it does nothing before it is watched
PROGRAM = """
import sys, threading, mmap
sys.stdin.readline()
def touch():
    pages = mmap.mmap(-1, 300 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(300): pages[page * mmap.PAGESIZE] = 1
thread = threading.Thread(target=touch)
thread.start(); thread.join()
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", PROGRAM], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def go(program: subprocess.Popen[bytes]) -> None:
    assert program.stdin is not None
    program.stdin.write(b"\n")
    program.stdin.close()


def touch(pages: int) -> None:
    """Cause so many page faults."""
    area = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        area[page * mmap.PAGESIZE] = 1
    area.close()


def test_samples_come_in_order_until_the_program_ends(program: subprocess.Popen[bytes]) -> None:
    with perfpy.watch("page-faults:u", pid=program.pid, period=1, duration=60) as stream:
        go(program)
        samples = [*stream]
    assert program.wait() == 0
    times = [sample.time for sample in samples]
    assert times == sorted(times)
    assert {sample.pid for sample in samples} == {program.pid}
    assert len({sample.tid for sample in samples}) == 2, "threads that are started meanwhile are watched, too"
    assert len(samples) >= 300
    assert stream.lost == 0
    assert {sample.event for sample in samples} == {"page-faults:u"}
    assert dict(samples[0].fields) == {}
    with pytest.raises(KeyError, match="it is not a tracepoint"):
        samples[0]["next_comm"]


def test_it_ends_after_its_duration_and_when_it_is_closed() -> None:
    began = time.monotonic()
    with subprocess.Popen(["sleep", "60"]) as idle:
        for _ in perfpy.watch("page-faults:u", pid=idle.pid, period=1, duration=0.2):
            pass  # its start may be among it
        idle.kill()
    assert time.monotonic() - began >= 0.2
    with perfpy.watch("page-faults:u", pid=os.getpid(), period=1) as stream:
        touch(50)
        assert next(stream).event == "page-faults:u"
    assert next(stream, None) is None


def test_late_readers_lose_counted_samples_without_growing_memory() -> None:
    with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=60) as stream:
        for _ in range(10):
            touch(20_000)
        for count, _ in enumerate(stream):
            if count % 1000 == 0:
                touch(1)  # what was lost is told with the next sample that finds room
            if stream.lost and count > 5000:
                break
    assert stream.lost > 0


def test_asyncio_waits_for_others(program: subprocess.Popen[bytes]) -> None:
    async def both() -> tuple[int, int]:
        turns = 0

        async def beside() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        task = asyncio.create_task(beside())
        result = 0
        with perfpy.watch("page-faults:u", pid=program.pid, period=1, duration=60) as stream:
            go(program)
            async for _ in stream:
                result += 1
        task.cancel()
        return result, turns

    result, turns = asyncio.run(both())
    assert result >= 300
    assert turns > 2


def test_other_records_come_on_request(program: subprocess.Popen[bytes]) -> None:
    with perfpy.watch("page-faults:u", pid=program.pid, period=1, duration=60) as stream:
        go(program)
        kinds = {type(record).__name__ for record in stream.with_records()}
    assert {"LiveSample", "Fork", "Exit"} <= kinds


@pytest.mark.system_wide
def test_a_tracepoint_has_its_fields() -> None:
    with subprocess.Popen(["sleep", "60"]) as child, perfpy.watch("sched:sched_process_exit", pid=child.pid, duration=30) as stream:
        child.kill()
        sample = next(stream)
    assert (sample["comm"], sample["pid"], sample.comm, sample.pid) == ("sleep", child.pid, "sleep", child.pid)
    assert "sched:sched_process_exit" in repr(sample)
    assert "sleep" in repr(sample)
    with pytest.raises(KeyError, match=r"it has common_type, .*comm"):
        sample["colour"]


@pytest.mark.system_wide
def test_a_filter_chooses() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        chosen = perfpy.watch("sched:sched_process_exit", system_wide=True, filter=f"pid == {child.pid}", duration=30)
        with chosen as stream, subprocess.Popen(["true"]) as other:
            other.wait()
            child.kill()
            sample = next(stream)
    assert sample["pid"] == child.pid


def test_nothing_stays_open() -> None:
    before = set(os.listdir("/proc/self/fd"))
    stream = perfpy.watch("page-faults:u", pid=os.getpid(), period=1)
    assert len(os.listdir("/proc/self/fd")) > len(before)
    del stream
    assert set(os.listdir("/proc/self/fd")) == before


def test_wrong_uses_are_reported() -> None:
    with pytest.raises(UsageError, match="no events to watch"):
        perfpy.watch(pid=1)
    with pytest.raises(UsageError, match="no target; give pid"):
        perfpy.watch("page-faults:u")
    with pytest.raises(UsageError, match="can be counted"):
        perfpy.watch("duration_time", pid=os.getpid())
    with pytest.raises(UsageError, match="greater than 0"):
        perfpy.watch("page-faults:u", pid=os.getpid(), duration=0)
    with pytest.raises(UnknownEventError):
        perfpy.watch("page-fault", pid=os.getpid())


def test_comm_records_rename(program: subprocess.Popen[bytes]) -> None:
    """A record of a new name changes what later samples say."""
    script = "import ctypes, sys, mmap; sys.stdin.readline(); ctypes.CDLL(None).prctl(15, b'renamed', 0, 0, 0)\n"
    script += (
        "pages = mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor at in range(0, 1 << 22, 4096): pages[at] = 1"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE) as renaming:
        with perfpy.watch("page-faults:u", pid=renaming.pid, period=1, duration=60) as stream:
            go(renaming)
            events = [*stream.with_records()]
        assert renaming.wait() == 0
    names = [record.comm for record in events if isinstance(record, Comm)]
    last = [sample.comm for sample in events if isinstance(sample, perfpy.LiveSample)][-1]
    assert (names, last) == (["renamed"], "renamed")
