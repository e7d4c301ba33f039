"""Hash rows of numbers as 64-bit numbers: rows of several columns, and ragged rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Ragged, Slices
from perfpy.analysis.samples.task_dimensions import MIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_BASE: Final = 0xD1342543DE82EF95
_HALF: Final = np.uint64(32)
_FIRST_POWERS: Final = 1 << 10
_BLOCK: Final = 1 << 15  # words of rows processed together


class _Powers:
    """The powers of an odd number modulo 2^64, and of its inverse."""

    def __init__(self, base: int) -> None:
        self._bases = base, pow(base, -1, 1 << 64)
        self._powers = [np.zeros(0, np.uint64)] * 2

    def upto(self, size: int) -> list[NDArray[np.uint64]]:
        """Return at least the first `size` powers of both."""
        if size > len(self._powers[0]):
            size = max(_FIRST_POWERS, 1 << (size - 1).bit_length())
            self._powers = [np.multiply.accumulate(np.full(size, base, np.uint64)) for base in self._bases]
        return self._powers


_powers = _Powers(_BASE)


def combine_columns(columns: Sequence[NDArray[np.generic]]) -> NDArray[np.uint64]:
    """Combine several columns of integers into one number a row; rows that differ in any column get different numbers."""
    powers = _powers.upto(len(columns) + 1)[0]
    total, product = np.zeros((2, len(columns[0])), np.uint64)
    for column, power in zip(columns, powers[1:], strict=False):
        if column.any():
            np.multiply(column.view(np.uint64) if column.dtype == np.int64 else column.astype(np.uint64), power, out=product)
            total += product
    return total


def row_fingerprints(rows: Ragged | Slices) -> NDArray[np.uint64]:
    """Return a hash of each row's elements.

    It is a polynomial of the elements, computed over all words at once, or over as many as the processor's
    cache holds: the sum from the row's begin to its end, divided by the power at its begin.
    """
    if isinstance(rows, Slices) and not (rows.words.dtype.isnative and rows.ascend):
        rows = rows.gather()
    if isinstance(rows, Slices):
        values, starts, lengths = rows.words, rows.starts, rows.lengths
    else:
        values, starts, lengths = rows.values, rows.offsets[:-1], rows.lengths
    ends = starts + lengths
    borders = _borders(starts)
    size = max((int(ends[end - 1] - starts[begin]) for begin, end in pairwise(borders)), default=0)
    powers, inverses = _powers.upto(size + 1)
    running, terms, hashes = np.zeros(size + 1, np.uint64), np.empty(size, np.uint64), np.empty(len(starts), np.uint64)
    for begin, end in pairwise(borders):
        first = starts[begin]
        count = int(ends[end - 1] - first)
        np.multiply(values[first : first + count], powers[:count], out=terms[:count])
        np.cumsum(terms[:count], out=running[1 : count + 1])  # overflow wraps around, and the differences stay correct
        froms = starts[begin:end] - first
        hashes[begin:end] = (running.take(ends[begin:end] - first) - running.take(froms)) * inverses.take(froms)
    hashes += lengths.astype(np.uint64) * MIX
    # combine_columns() also sums powers: these must not cancel
    return (hashes ^ hashes >> _HALF) * MIX


def _borders(starts: NDArray[np.int64]) -> list[int]:
    """Return the first row of each block of rows, and the number of rows."""
    if not len(starts):
        return [0]
    inner = starts.searchsorted(np.arange(int(starts[0]) + _BLOCK, int(starts[-1]) + 1, _BLOCK)).tolist()
    return [0, *dict.fromkeys(inner), len(starts)]
