"""Columns of fixed width for a million lines: durations, times and names, as pieces of lines (perfpy.views.script.pieces)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.symbols.interning import number_values
from perfpy.untrusted.text import one_line_bytes
from perfpy.views.script.pieces import Coded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import TaskColumn
    from perfpy.views.script.pieces import Piece

NAME_WIDTH: Final = 30  #: of a task's name
_DIGITS: Final = np.array([b"%03d" % i for i in range(1000)], "S3")
# Columns of four bytes are copied as numbers. Each of these is written over the last byte of the one before.
_DURATION: Final = np.dtype({"names": ["high", "low", "micros"], "formats": ["u4"] * 3, "offsets": [0, 3, 7], "itemsize": 11})
_HIGH: Final = np.array([b"    ", *(b"%3d " % i for i in range(1, 1000))], "S4").view("u4")
_LOW: Final = np.array([*(b"%3d." % i for i in range(1000)), *(b"%03d." % i for i in range(1000))], "S4").view("u4")
_MICROS: Final = np.array([b"%03d " % i for i in range(1000)], "S4").view("u4")
_MICROSECONDS: Final = 1_000_000  # of a second
_MILLION: Final = 1_000_000
_LOW_HALF: Final = 0xFFFFFFFF


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
    micros, millis = micros.astype(np.int32), millis.astype(np.int32)
    high = millis // 1000
    low = millis - high * 1000
    rows = np.empty(len(millis), _DURATION)
    rows["high"] = _HIGH[high]
    rows["low"] = _LOW[np.where(high > 0, low + 1000, low)]
    rows["micros"] = _MICROS[micros - millis * 1000]
    return rows.view(f"S{rows.dtype.itemsize}")


def start_piece(time: NDArray[np.int64], cpu: NDArray[np.int64]) -> list[Piece]:
    """Return the time and CPU at the start of a line: `    6377.372915 [0000] `."""
    micros = time // 1000
    seconds, rest = micros // _MICROSECONDS, micros % _MICROSECONDS
    return [
        _coded(seconds, lambda second: b"%8d." % second),
        *micros_pieces(rest),
        _coded(cpu, lambda number: b" [%04d] " % number),
    ]


def micros_pieces(micros: NDArray[np.int64]) -> list[Piece]:
    """Return microseconds below a second as six digits."""
    numbers = micros.astype(np.int32)
    millis = numbers // 1000
    return [_DIGITS[millis], _DIGITS[numbers - millis * 1000]]


def _coded(values: NDArray[np.int64], text: Callable[[int], bytes]) -> Piece:
    """Return the texts of numbers, each made once."""
    distinct, codes = number_values(values)
    return Coded(codes, [text(value) for value in distinct.tolist()])


class TaskColumnTexts:
    """The names of tasks: COMM[TID], or COMM[TID/PID] for other threads than the first one."""

    def __init__(self, comms: Sequence[str]) -> None:
        self._comms = comms

    def coded(self, tasks: TaskColumn) -> Coded:
        """Return the names of a column."""
        threads, thread_numbers = number_values(tasks.tid << np.int64(32) | (tasks.pid & np.int64(_LOW_HALF)))
        both, codes = number_values(thread_numbers.astype(np.int64) << np.int64(32) | tasks.comm)
        thread = threads[both >> np.int64(32)]
        tid, pid, comm = thread >> np.int64(32), thread.astype(np.int32), both & np.int64(_LOW_HALF)
        return Coded(codes, list(map(self.text, comm.tolist(), tid.tolist(), pid.tolist())))

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
