"""Copied strings of system calls are bounded, because tasks that are not traced produce them, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.live.calls import call_strings
from perfpy.live.calls.call_strings import CallStrings, CopiedText

if TYPE_CHECKING:
    import pytest


def strings() -> CallStrings:
    """Without programs."""
    call_strings = object.__new__(CallStrings)
    call_strings._waiting, call_strings._bytes = [], 0
    return call_strings


def texts(times: range, size: int) -> list[CopiedText]:
    return [CopiedText(time, 7, 2, 0, at_return=False, data=b"x" * size) for time in times]


def test_strings_are_bounded_by_their_number_and_their_length(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_strings, "_MOST_WAITING", 100)
    monkeypatch.setattr(call_strings, "_MOST_BYTES", 1000)
    made = strings()
    made.add(texts(range(200), 1))
    assert [one.time for one in made._waiting] == list(range(100, 200))
    made.add(texts(range(200, 203), 400))
    assert [one.time for one in made._waiting] == [201, 202]
    assert made._bytes == 800
