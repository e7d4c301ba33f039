"""The known memory of a process: the copies of its stack in samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEVEN: Final = np.uint64(7)
_LOG_OF_WORD: Final = np.uint64(3)
_BITS: Final = np.uint64(64)


class StackMemory:
    """The stacks of some samples, one in each row.

    A copy's last word is used, as perf does with libdw; with libunwind perf ignores it, and loses its callers.

    Args:
        data: bytes of all copies, each at a multiple of 8.
        starts: of each copy in `data`.
        sizes: of each copy, in bytes.
        base: the address of each copy's first byte.
        word: bytes of an address.
        endian: of the copies.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        base: NDArray[np.uint64],
        *,
        word: int,
        endian: str,
    ) -> None:
        self._words: NDArray[Any] = data[: len(data) & ~7].view(endian + "u8")
        self._starts = starts.astype(np.uint64)
        fits = sizes >= word
        self._base = base
        # The last offset of a word.
        self._last = np.where(fits, sizes - word, 0).astype(np.uint64)
        self._none = None if bool(fits.all()) else ~fits
        self._word = word
        self._is_big = endian == ">"

    def load(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the word at each row's address (0 if it is unknown), and whether it is known."""
        offset = addresses - self._base[rows]
        is_readable = offset <= self._last[rows]
        if self._none is not None:
            is_readable &= ~self._none[rows]
        if is_readable.all():
            return self._copied_words(self._starts[rows] + offset), is_readable
        if self._none is None:  # stands in for words outside the copies
            offset *= is_readable
            return self._copied_words(self._starts[rows] + offset) * is_readable, is_readable
        values = np.zeros(len(rows), np.uint64)
        values[is_readable] = self._copied_words((self._starts[rows] + offset)[is_readable])
        return values, is_readable

    def is_above(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether a word at each address would be beyond the end of the row's copy, not before its beginning."""
        above: NDArray[np.bool_] = (addresses >= self._base[rows]) & (addresses - self._base[rows] > self._last[rows])
        return above

    def _copied_words(self, position: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the words at positions of the buffer."""
        index = (position >> _LOG_OF_WORD).view(np.int64)
        shift = position & _SEVEN
        if self._word == 8 and not shift.any():
            whole: NDArray[np.uint64] = self._words.take(index).astype(np.uint64, copy=False)
            return whole
        first = self._words.take(index).astype(np.uint64, copy=False)
        after = self._words.take(np.minimum(index + 1, len(self._words) - 1)).astype(np.uint64, copy=False)
        return self._shifted_words(first, after, shift * np.uint64(8))

    def _shifted_words(self, first: NDArray[np.uint64], after: NDArray[np.uint64], bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the words that begin in one word and may end in the next."""
        rest = np.where(bits == 0, np.uint64(0), _BITS - bits)
        if self._is_big:
            joined = np.where(bits == 0, first, first << bits | after >> rest)
            return joined >> np.uint64(64 - 8 * self._word)
        joined = np.where(bits == 0, first, first >> bits | after << rest)
        return joined & np.uint64((1 << 8 * self._word) - 1)
