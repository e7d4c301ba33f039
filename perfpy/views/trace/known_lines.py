"""The texts of lines that occur again: each distinct one is made once.

Lines are known by a 64-bit key: a sum of the line's numbers, 32 bits at a time, each multiplied by a random odd number, so that nobody can
choose arguments whose line is taken for another one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Growing, rows_where
from perfpy.symbols.interning import IdTable
from perfpy.untrusted.text import one_line_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_MOST_LINES: Final = 1 << 17  # that are kept
_MOST_NUMBERS: Final = 32  # columns that decide a text
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


class LineKeys:
    """Computes the keys of lines."""

    def __init__(self) -> None:
        self._factors = np.frombuffer(os.urandom(16 * _MOST_NUMBERS), np.uint64) | np.uint64(1)

    def keys(self, numbers: Sequence[NDArray[np.uint64] | int]) -> NDArray[np.uint64]:
        """Return the key of each line. numbers: the columns of numbers that decide the text; a number stands for a whole column."""
        key = np.zeros(1, np.uint64)
        for index, column in enumerate(numbers):
            low, high = self._factors[2 * index], self._factors[2 * index + 1]
            if isinstance(column, int):
                key = key + np.full(1, column, np.uint64) * low
            else:
                key = key + (column & _LOW) * low
                if int(column.max(initial=0)) > int(_LOW):
                    key += (column >> _HALF) * high
        return key


class KnownLines:
    """The texts of lines by their keys, as bytes with a line feed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all texts."""
        self._table = IdTable()
        self._texts = Growing(object)

    def texts(
        self, keys: NDArray[np.uint64], varies: NDArray[np.bool_], make: Callable[[NDArray[np.intp]], list[str]]
    ) -> NDArray[np.object_]:
        """Return the text of each line.

        Args:
            keys: of the lines.
            varies: the lines whose text depends on more than the key.
            make: returns the texts of some lines.
        """
        if len(self._texts.values) > _MOST_LINES:
            self.forget()
        texts = np.empty(len(keys), object)
        varying = rows_where(varies)
        if len(varying):
            texts[varying] = _as_lines(make(varying))
        same = rows_where(~varies) if len(varying) else np.arange(len(keys))
        if len(same):
            ids, new = self._table.ids_and_new(keys[same])
            if len(new):
                made = np.empty(len(new), object)
                made[:] = _as_lines(make(same[new]))
                self._texts.append(made)
            texts[same] = self._texts.values[ids]
        return texts


def _as_lines(texts: list[str]) -> list[bytes]:
    """Return the texts as bytes, each with one line feed at its end."""
    data = "\n".join([*texts, ""]).encode("utf-8", "surrogateescape")
    if b"\r" not in data:
        lines = data.splitlines(keepends=True)
        if len(lines) == len(texts):
            return lines
    return [one_line_bytes(text.encode("utf-8", "surrogateescape")) + b"\n" for text in texts]
