"""Each copied string or structure is matched with its call; those without a call yet take bounded memory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.tools.trace import call_strings
from perfpy.tools.trace.call_strings import HEAD, CopiedTexts, WaitingTexts, wanted_calls
from perfpy.tools.trace.calls import ENTER, EXIT, CallEvents

if TYPE_CHECKING:
    import pytest

OPENAT, STAT = 257, 4
DISCARDED = 1 << 30


def ring(*texts: tuple[int, int, int, int, int, bytes], flags: int = 0) -> bytes:
    """Return records of a ring buffer: time, thread, number, argument, whether at return, data."""
    records = [HEAD.pack(time, tid, tid, *rest) + data for time, tid, *rest, data in texts]
    return b"".join(struct.pack("=II", len(one) | flags, 0) + one + bytes(-len(one) % 8) for one in records)


def events(*rows: tuple[int, int, int, int]) -> CallEvents:
    """Return events: time, thread, kind, number."""
    times, tids, kinds, numbers = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    columns: list[Any] = [kinds.astype(np.uint8), tids.astype(np.int32), tids.astype(np.int32), np.zeros(count, np.int32)]
    columns += [times.astype(np.int64), times.astype(np.uint64), numbers.astype(np.int64), np.zeros((count, 6), np.uint64)]
    columns += [np.zeros(count, np.int64), np.arange(count)]
    return CallEvents(*columns)


def test_records_become_columns_and_their_own_bytes_again():
    data = ring((10, 7, OPENAT, 1, 0, b"/etc/passwd\0")) + ring((11, 7, 0, 0, 0, b"x"), flags=DISCARDED)
    data += ring((2**40, 2**22, 299, 5, 1, b"")) + struct.pack("=II8x", 8, 0)  # too short for a head
    texts = CopiedTexts.decode(data)

    assert (texts.size, texts.time.tolist(), texts.tid.tolist()) == (2, [10, 2**40], [7, 2**22])
    assert (texts.number.tolist(), texts.argument.tolist(), texts.at_return.tolist()) == ([OPENAT, 299], [1, 5], [0, 1])
    assert list(texts.pieces()) == [(OPENAT, 1, b"/etc/passwd\0"), (299, 5, b"")]
    assert CopiedTexts.decode(b"").size == 0


def test_a_text_belongs_to_the_next_entry_of_its_thread_or_at_the_return_to_the_last_one():
    waiting = WaitingTexts("x86_64")
    waiting.add(
        ring(
            (9, 7, OPENAT, 1, 0, b"a\0"),
            (10, 8, OPENAT, 1, 0, b"b\0rest"),
            (29, 7, OPENAT, 1, 1, b"late\0"),  # unreadable at the entry of row 3
            (35, 7, OPENAT, 1, 0, b"other call\0"),
            (40, 9, OPENAT, 1, 0, b"no entry\0"),
            (90, 7, OPENAT, 1, 0, b"next batch\0"),
        )
    )
    batch = events(
        (10, 7, ENTER, OPENAT),
        (11, 8, ENTER, OPENAT),
        (20, 7, EXIT, OPENAT),
        (25, 7, ENTER, OPENAT),
        (30, 7, EXIT, OPENAT),
        (36, 7, ENTER, 3),
    )

    assert waiting.of(batch) == {0: {1: "a"}, 1: {1: "b"}, 3: {1: "late"}}
    assert waiting.of(events((91, 7, ENTER, OPENAT))) == {0: {1: "next batch"}}
    assert waiting.of(events((99, 7, ENTER, OPENAT))) == {}


def test_waiting_texts_are_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_strings, "_MOST_BYTES", 1000)
    waiting = WaitingTexts("x86_64")
    for time in range(10):
        waiting.add(ring((time, 7, OPENAT, 1, 0, b"x" * 400)))
    assert [texts.time.tolist() for texts in waiting._waiting] == [[8], [9]]


def test_only_strings_of_calls_that_count_are_copied():
    assert {OPENAT, STAT} <= set(wanted_calls("x86_64"))
    assert set(wanted_calls("x86_64", frozenset((OPENAT, 39)))) == {OPENAT}
