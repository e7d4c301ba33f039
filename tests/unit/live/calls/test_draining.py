"""The thread that empties ring buffers: while it is resumed, and with errors for the other thread."""

from __future__ import annotations

import os
import threading
import time

import pytest

from perfpy.live.calls import draining
from perfpy.live.calls.draining import DrainingThread


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
    monkeypatch.setattr(draining, "_set_priority", lambda thread, priority: priorities.append((thread, priority)))
    monkeypatch.setattr(draining, "_LONG", 0.0)
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
