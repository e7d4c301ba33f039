"""Records that wait to be printed: compressed, in their order, and bounded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.live.calls import record_queue
from perfpy.live.calls.record_queue import RecordQueue

if TYPE_CHECKING:
    import pytest


def test_records_come_out_as_they_went_in():
    pieces = [b"first" * 100, b"second" * 1000, os.urandom(1000), b""]
    queue = RecordQueue()
    for number, piece in enumerate(pieces):
        queue.append(piece, number)

    assert len(queue) == 4
    assert [queue.pop() for _ in pieces] == [(piece, number) for number, piece in enumerate(pieces)]
    assert (queue._kept, queue._waiting) == (0, 0)


def is_full(queue: RecordQueue) -> bool:
    """Return the property anew, which mypy takes for a constant."""
    return queue.is_full


def test_it_is_full_by_the_memory_that_it_takes_or_by_the_time_to_print_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record_queue, "_MOST_KEPT", 10_000)
    monkeypatch.setattr(record_queue, "_MOST_WAITING", 1_000_000)
    queue = RecordQueue()
    queue.append(b"", 0)
    queue.append(b"x" * 900_000, 1)
    assert queue._zstd is None or not is_full(queue)

    queue.append(os.urandom(11_000), 2)
    assert is_full(queue)
    queue.pop()
    queue.pop()
    queue.pop()
    assert not is_full(queue)

    queue.append(b"", 0)
    queue.append(b"x" * 1_100_000, 1)
    assert is_full(queue)
