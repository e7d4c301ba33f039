"""Time stamps as text, a column at a time: fixed-width pieces such as b" 4314.819916: ", right-aligned as in perf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.views.script.pieces import Piece

_SECOND: Final = 1_000_000_000
_DIGITS: Final = np.array([b"%03d" % i for i in range(1000)], "S3")


def time_text(time: int, *, ns: bool) -> bytes:
    """Return a time stamp as `perf script` prints it, with colon and blank."""
    seconds, rest = divmod(time, _SECOND)
    if ns:
        return b"%5d.%09d: " % (seconds, rest)
    return b"%5d.%06d: " % (seconds, rest // 1000)


def time_piece(times: NDArray[np.uint64], *, ns: bool) -> Piece:
    """Return the time stamps of samples."""
    if not len(times):
        return []
    seconds = times // np.uint64(_SECOND)
    rest = (times - seconds * np.uint64(_SECOND)).astype(np.int64)
    distinct_seconds, which = _distinct(seconds)
    texts = [b"%5d." % second for second in distinct_seconds]
    if len({len(text) for text in texts}) != 1:
        return [time_text(time, ns=ns) for time in times.tolist()]
    fields: list[tuple[str, Any]] = [("seconds", np.array(texts)[which])]
    millis = rest // 1_000_000
    rest -= millis * 1_000_000
    micros = rest // 1000
    fields += [("millis", _DIGITS[millis]), ("micros", _DIGITS[micros])]
    if ns:
        fields.append(("nanos", _DIGITS[rest - micros * 1000]))
    fields.append(("end", np.bytes_(b": ")))
    rows = np.empty(len(times), np.dtype([(name, column.dtype) for name, column in fields]))
    for name, column in fields:
        rows[name] = column
    return rows.view(f"S{rows.dtype.itemsize}")


def _distinct(seconds: NDArray[np.uint64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct seconds, and the index of each value among them."""
    low, high = int(seconds.min()), int(seconds.max())
    if high - low < 1 << 16:
        return list(range(low, high + 1)), (seconds - np.uint64(low)).astype(np.int64)
    distinct_seconds, which = np.unique(seconds, return_inverse=True)
    return distinct_seconds.tolist(), which.ravel()


class RelativeTimes:
    """Times of --reltime and --deltatime: since the first printed line, or since the previous one."""

    def __init__(self, *, delta: bool) -> None:
        self._delta = delta
        self._first = 0
        self._previous = 0

    def printed_times(self, times: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the values to print for the next times, in printing order."""
        if not len(times):
            return times
        if not self._delta:
            if self._first:
                return times - np.uint64(self._first)
            nonzero = np.flatnonzero(times)
            if not len(nonzero):
                return times
            self._first = int(times[nonzero[0]])
            relative = times - np.uint64(self._first)
            relative[: nonzero[0]] = 0  # no previous time
            return relative
        before = np.concatenate([np.array([self._previous], np.uint64), times[:-1]])
        self._previous = int(times[-1])
        return np.where(before > 0, times - before, np.uint64(0))
