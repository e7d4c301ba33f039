"""Columns of fixed width for a million lines: durations, times and names, as pieces of lines (perfpy.views.script.pieces)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.untrusted.text import one_line_bytes
from perfpy.views.script.pieces import Coded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import TaskColumn
    from perfpy.views.script.pieces import Piece

NAME_WIDTH: Final = 30  #: of a task's name
_DIGITS: Final = np.array([b"%03d" % i for i in range(1000)], "S3")
_PADDED: Final = np.array([b"%3d" % i for i in range(1000)], "S3")
_MICROSECONDS: Final = 1_000_000  # of a second
_MILLION: Final = 1_000_000


def milliseconds(nanoseconds: int, width: int) -> str:
    """Return a duration in milliseconds, truncated to microseconds, with a trailing blank.

    >>> milliseconds(1234567, 6)
    '     1.234 '
    """
    return f"{nanoseconds // _MILLION:{width}d}.{nanoseconds % _MILLION // 1000:03d} "


def duration_piece(nanoseconds: NDArray[np.int64]) -> Piece:
    """Return durations as milliseconds with three decimals: a column of 11 characters, the last one a blank."""
    micros = nanoseconds // 1000
    millis = micros // 1000
    if not len(millis) or int(millis.max()) >= _MILLION or int(millis.min()) < 0:
        return [milliseconds(value, 6).encode() for value in nanoseconds.tolist()]
    high, low = millis // 1000, millis % 1000
    rows = np.empty(len(millis), np.dtype([("high", "S3"), ("low", "S3"), ("point", "S1"), ("micros", "S3"), ("end", "S1")]))
    rows["point"], rows["end"] = b".", b" "
    rows["high"] = np.where(high > 0, _PADDED[high], b"   ")
    rows["low"] = np.where(high > 0, _DIGITS[low], _PADDED[low])
    rows["micros"] = _DIGITS[micros % 1000]
    return rows.view(f"S{rows.dtype.itemsize}")


def start_piece(time: NDArray[np.int64], cpu: NDArray[np.int64]) -> list[Piece]:
    """Return the time and CPU at the start of a line: `    6377.372915 [0000] `."""
    micros = time // 1000
    seconds, rest = micros // _MICROSECONDS, micros % _MICROSECONDS
    return [
        _coded(seconds, lambda second: b"%8d." % second),
        _DIGITS[rest // 1000],
        _DIGITS[rest % 1000],
        _coded(cpu, lambda number: b" [%04d] " % number),
    ]


def _coded(values: NDArray[np.int64], text: Callable[[int], bytes]) -> Piece:
    """Return the texts of numbers, each made once."""
    distinct, codes = np.unique(values, return_inverse=True)
    return Coded(codes.ravel(), [text(value) for value in distinct.tolist()])


class TaskColumnTexts:
    """The names of tasks: COMM[TID], or COMM[TID/PID] for other threads than the first one."""

    def __init__(self, comms: Sequence[str]) -> None:
        self._comms = comms

    def coded(self, tasks: TaskColumn) -> Coded:
        """Return the names of a column."""
        key = np.empty(len(tasks.tid), np.dtype([("comm", "i8"), ("tid", "i8"), ("pid", "i8")]))
        key["comm"], key["tid"], key["pid"] = tasks.comm, tasks.tid, tasks.pid
        mixed = tasks.comm * np.int64(0x9E3779B1) ^ tasks.tid << np.int64(24) ^ tasks.pid
        order = np.argsort(mixed, kind="stable")
        fresh = np.ones(len(order), bool)
        fresh[1:] = key[order[1:]] != key[order[:-1]]
        codes = np.empty(len(order), np.int64)
        codes[order] = np.cumsum(fresh) - 1
        return Coded(codes, [self.text(comm, tid, pid) for comm, tid, pid in key[order[fresh]].tolist()])

    def text(self, comm: int, tid: int, pid: int) -> bytes:
        """Return one name."""
        name = one_line_bytes(self._comms[comm].encode("utf-8", "surrogateescape"))
        if pid == 0 or (pid == -1 and tid != pid):
            return name
        return b"%s[%d]" % (name, tid) if tid == pid else b"%s[%d/%d]" % (name, tid, pid)


def padded(names: Coded, width: int) -> Coded:
    """Return names padded on the right."""
    return Coded(names.codes, [text.ljust(width) for text in names.texts])


def longest(names: Coded) -> int:
    """Return the length of the longest name."""
    return max(map(len, names.texts), default=0)
