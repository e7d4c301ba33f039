"""Records that wait to be printed: compressed, in their order, bounded in memory, and on disk beyond that."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.tools.trace import record_queue
from perfpy.tools.trace import record_queue as waiting_files
from perfpy.tools.trace.record_queue import DrainingThread, ReadRecords, RecordQueue, WaitingFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pieces(count: int) -> list[ReadRecords]:
    made = random.Random(7)
    return [ReadRecords(made.randbytes(made.randrange(3000)), bytes(made.randrange(900)), number) for number in range(count)]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[WaitingFiles]:
    files = WaitingFiles((str(tmp_path),))
    yield files
    files.close()


def is_full(queue: RecordQueue) -> bool:
    """Return the property anew, which mypy takes for a constant."""
    return queue.is_full


def test_records_come_out_as_they_went_in():
    read = [ReadRecords(b"first" * 100, b"", 0), ReadRecords(b"second" * 1000, b"text" * 9, 1), ReadRecords(b"", b"", 2), *pieces(5)]
    queue = RecordQueue()
    for one in read:
        queue.append(one)

    assert len(queue) == 8
    assert [queue.pop() for _ in read] == read
    assert (queue._kept, queue._waiting, queue.taken) == (0, 0, 8)


def test_short_readings_are_taken_together():
    queue = RecordQueue()
    for number in range(5):
        queue.append(ReadRecords(b"%d" % number * 100, b"t%d" % number, number))

    assert queue.pop_some(250) == ReadRecords(b"0" * 100 + b"1" * 100, b"t0t1", 1)
    assert queue.pop_some(1) == ReadRecords(b"2" * 100, b"t2", 2)
    assert queue.pop_some(1 << 20).until == 4


def test_records_beyond_the_memory_wait_on_disk_in_their_order(monkeypatch: pytest.MonkeyPatch, files: WaitingFiles, tmp_path: Path):
    monkeypatch.setattr(record_queue, "_MOST_KEPT", 10_000)
    monkeypatch.setattr(waiting_files, "_FILE_SIZE", 20_000)
    queue, read = RecordQueue(files), pieces(120)
    for one in read[:80]:
        queue.append(one)
    assert queue._kept <= 10_000
    assert len(files._files) > 2
    taken = [queue.pop() for _ in range(40)]
    for one in read[80:]:
        queue.append(one)
        taken.append(queue.pop())

    assert taken + [queue.pop() for _ in range(40)] == read
    assert (queue._kept, queue._waiting, files.size, len(files._files)) == (0, 0, 0, 0)
    assert not list(tmp_path.iterdir())
    assert not queue.is_full


@pytest.mark.parametrize("limit", ["no folder", "the limit", "a full disk"])
def test_without_room_on_disk_the_queue_is_full(monkeypatch: pytest.MonkeyPatch, files: WaitingFiles, limit: str):
    monkeypatch.setattr(record_queue, "_MOST_KEPT", 10_000)
    if limit == "no folder":
        files._folders = ("/proc/none", "")
    elif limit == "the limit":
        monkeypatch.setattr(waiting_files, "_MOST", 20_000)
    else:
        monkeypatch.setattr(os, "pwrite", lambda _fd, data, _offset: len(data) // 2)
    queue, read = RecordQueue(files), list[ReadRecords]()
    while not is_full(queue):
        read.append(ReadRecords(os.urandom(3000), b"", len(read)))
        queue.append(read[-1])

    assert len(read) == (10 if limit == "the limit" else 4)
    assert queue.was_full
    assert [queue.pop() for _ in read] == read
    assert not is_full(queue)
    assert queue.was_full


def test_the_files_take_a_share_of_the_free_space_only(monkeypatch: pytest.MonkeyPatch, files: WaitingFiles):
    monkeypatch.setattr(waiting_files, "_SHARE", 1 << 60)
    assert files.append(b"x") is None
    files.close()
    monkeypatch.setattr(waiting_files, "_SHARE", 4)
    assert files.append(b"x") is not None


def test_a_queue_is_full_if_printing_would_take_too_long(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_queue, "_MOST_WAITING", 1_000_000)
    queue = RecordQueue()
    queue.append(ReadRecords(b"", b"", 0))
    queue.append(ReadRecords(b"x" * 1_100_000, b"", 1))
    assert is_full(queue)


# The thread that empties ring buffers: while it is resumed, and with errors for the other thread.


def wait_for(reached: threading.Event) -> None:
    assert reached.wait(10)


def test_it_reads_only_while_it_is_resumed() -> None:
    threads: list[int] = []
    reached = threading.Event()

    def read() -> float:
        threads.append(threading.get_native_id())
        reached.set()
        return 0.0

    with DrainingThread(read) as thread:
        time.sleep(0.06)
        assert not threads
        thread.resume()
        wait_for(reached)
        thread.pause()
        time.sleep(0.04)
        count = len(threads)
        time.sleep(0.06)
        assert len(threads) == count
        reached.clear()
        thread.resume()
        wait_for(reached)
    assert threading.get_native_id() not in threads


def test_it_reads_on_in_a_pause_while_the_ring_buffers_are_busy() -> None:
    fullness = [0.5]
    reached = threading.Event()

    def read() -> float:
        reached.set()
        return fullness[0]

    with DrainingThread(read) as thread:
        thread.resume()
        for _ in range(2):
            reached.clear()
            wait_for(reached)
            thread.pause()
        assert not thread._paused.is_set()
        fullness[0] = 0.0
        reached.clear()
        wait_for(reached)
        while thread._fullness:
            time.sleep(0.001)
        thread.pause()
        assert thread._paused.is_set()


def test_an_error_of_a_reading_is_raised_by_the_other_thread() -> None:
    failed = threading.Event()

    def read() -> float:
        failed.set()
        raise OSError("gone")

    with DrainingThread(read) as thread:
        thread.resume()
        wait_for(failed)
        thread._thread.join(10)
        with pytest.raises(OSError, match="gone"):
            thread.pause()


def test_full_ring_buffers_raise_the_priority_of_the_printing_thread_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    priorities: list[tuple[int, int]] = []
    monkeypatch.setattr(record_queue, "_set_priority", lambda thread, priority: priorities.append((thread, priority)))
    monkeypatch.setattr(record_queue, "_LONG", 0.0)
    fullness = iter((0.05, 0.9, 0.8, 0.05))
    done = threading.Event()

    def read() -> float:
        number = next(fullness, None)
        if number is None:
            done.set()
            return 0.0
        return number

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with DrainingThread(read) as thread:
        thread.resume()
        wait_for(done)
    own = threading.get_native_id()
    assert [priority for number, priority in priorities if number == own] == [-20, usual]
