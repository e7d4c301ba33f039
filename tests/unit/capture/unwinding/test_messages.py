"""Messages between the two processes are complete, wherever the pipe splits them."""

from __future__ import annotations

import pytest

from perfpy.capture.unwinding import messages
from perfpy.capture.unwinding.spool import Extent

EXTENTS = [Extent(0, 1 << 40, 7), Extent(1, 5, 1 << 33)]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_requests_come_through(step):
    sent = messages.request(messages.PIECE, EXTENTS) + messages.request(messages.END)
    incoming, result = messages.Incoming(), []
    for start in range(0, len(sent), step):
        incoming.add(sent[start : start + step])
        result += list(incoming.requests())
    assert result == [(messages.PIECE, EXTENTS), (messages.END, [])]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_answers_come_through(step):
    sent = messages.answer(messages.RECORDS, b"x" * 100) + messages.answer(messages.FINISHED)
    incoming, result = messages.Incoming(), []
    for start in range(0, len(sent), step):
        incoming.add(sent[start : start + step])
        result += list(incoming.answers())
    assert result == [(messages.RECORDS, b"x" * 100), (messages.FINISHED, b"")]
