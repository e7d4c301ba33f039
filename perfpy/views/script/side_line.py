"""The line of a side-band record, before it is placed among the lines of samples."""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple
from perfpy.views.script.texts.time_text import time_text


class SideLine(NamedTuple):
    """A line before the samples that are delivered after it.

    Attributes:
        key, offset, kind: of the record; kind is its type
        time: its time stamp, for relative times
        start, rest: its text before and after the time field
    """

    key: int
    offset: int
    kind: int
    time: int
    start: bytes
    rest: bytes
    has_time: bool


def whole(line: SideLine, shown_time: int, *, ns: bool) -> bytes:
    """Return the line with its time field, if it has one."""
    return line.start + (time_text(shown_time, ns=ns) if line.has_time else b"") + line.rest
