"""The beginnings of lines: time, CPU and duration, made by numpy where they have the usual width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import rows_where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Texts = NDArray[np.object_]

_MILLISECOND: Final = 1e6  # nanoseconds
_MICROSECOND: Final = 1000
_TIE: Final = 500
_LONGEST_EXACT: Final = 10**16  # nanoseconds: the error of a double is smaller than one of them
_WIDEST: Final = 10**6  # milliseconds with the width of the column
_MOST_TEXTS: Final = 1 << 16  # milliseconds of one batch that are made to text once
_LONG: Final = 100_000  # microseconds: a duration that is wider than usual
_THOUSAND: Final = np.array([b"%03d" % number for number in range(1000)], "S3")
_HUNDRED: Final = np.array([b"%2d." % number for number in range(100)], "S3")
_NO_TIME: Final = b"         ? "
NO_DURATION: Final = b"(         ): "


def _microseconds(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return times in ns as the microseconds that C prints with %.3f of milliseconds: ties are decided by the double."""
    whole: NDArray[np.int64] = (times + _TIE) // _MICROSECOND
    for row in rows_where(times % _MICROSECOND == _TIE).tolist():
        whole[row] = int((b"%.3f" % (int(times[row]) / _MILLISECOND)).replace(b".", b""))
    return whole


def _joined(columns: Sequence[NDArray[np.bytes_] | bytes], count: int) -> Texts:
    """Return the columns' texts, which have no trailing NULs, side by side."""
    arrays: list[Any] = [np.asarray(column) for column in columns]
    rows = np.empty(count, np.dtype([(f"f{index}", column.dtype) for index, column in enumerate(arrays)]))
    for index, column in enumerate(arrays):
        rows[f"f{index}"] = column
    texts: Texts = rows.view(f"S{rows.dtype.itemsize}").astype(object)
    return texts


def _time_columns(times: NDArray[np.int64]) -> list[NDArray[np.bytes_] | bytes] | None:
    """Return "%10.3f " of times, each text as wide as the others; None if they differ in width."""
    low, high = int(times.min()), int(times.max())
    if low < 0 or high >= _LONGEST_EXACT:
        return None
    micros = _microseconds(times)
    millis = micros // _MICROSECOND
    first, last = int(millis.min()), int(millis.max())
    if last - first >= _MOST_TEXTS or (last >= _WIDEST and len(str(first)) != len(str(last))):
        return None
    texts = np.array([b"%6d." % number for number in range(first, last + 1)])
    return [texts[millis - first], _THOUSAND[micros - millis * _MICROSECOND], b" "]


def line_heads(
    times: NDArray[np.int64],
    durations: NDArray[np.int64] | None,
    cpus: NDArray[np.int32] | None,
    unknown: NDArray[np.bool_] | None = None,
    *,
    without: bytes = NO_DURATION,
) -> Texts:
    """Return the beginnings of lines.

    Args:
        times: ns since the first event.
        durations: ns; None for lines without one.
        cpus: to print; None for none.
        unknown: the lines whose time and duration are unknown.
        without: the text in place of durations.
    """
    columns = _time_columns(times) if len(times) and (durations is None or _are_usual(durations)) else None
    heads = _slow_heads(times, durations, cpus, without) if columns is None else _usual_heads(columns, times, durations, cpus, without)
    for row in () if unknown is None else rows_where(unknown).tolist():
        heads[row] = _NO_TIME + (b"" if cpus is None else b"[%03d] " % cpus[row]) + NO_DURATION
    return heads


def _are_usual(durations: NDArray[np.int64]) -> bool:
    return int(durations.min()) >= 0 and int(durations.max()) < _LONGEST_EXACT


def _usual_heads(
    columns: list[NDArray[np.bytes_] | bytes],
    times: NDArray[np.int64],
    durations: NDArray[np.int64] | None,
    cpus: NDArray[np.int32] | None,
    without: bytes,
) -> Texts:
    if cpus is not None:
        if len(cpus) and not 0 <= int(cpus.min()) <= int(cpus.max()) < len(_THOUSAND):
            return _slow_heads(times, durations, cpus, without)
        columns += [b"[", _THOUSAND[cpus], b"] "]
    if durations is None:
        return _joined([*columns, without] if without else columns, len(times))
    micros = _microseconds(durations)
    short = np.minimum(micros, _LONG - 1)
    whole = short // _MICROSECOND
    heads = _joined([*columns, b"(", _HUNDRED[whole], _THOUSAND[short - whole * _MICROSECOND], b" ms): "], len(times))
    wide = rows_where(micros >= _LONG)
    if len(wide):
        heads[wide] = _slow_heads(times[wide], durations[wide], None if cpus is None else cpus[wide], without)
    return heads


def _slow_heads(times: NDArray[np.int64], durations: NDArray[np.int64] | None, cpus: NDArray[np.int32] | None, without: bytes) -> Texts:
    """Return heads of any width, a line at a time."""
    parts = [map(b"%10.3f ".__mod__, (times / _MILLISECOND).tolist())]
    if cpus is not None:
        parts.append(map(b"[%03d] ".__mod__, cpus.tolist()))
    if durations is None:
        parts.append(map(without.__add__, [b""] * len(times)))
    else:
        parts.append(map(b"(%6.3f ms): ".__mod__, (durations / _MILLISECOND).tolist()))
    heads = np.empty(len(times), object)
    heads[:] = list(map(b"".join, zip(*parts, strict=True)))
    return heads
