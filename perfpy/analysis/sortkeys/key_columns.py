"""The columns of sort keys: for the distinct numbers of a dimension, ranks and texts.

A `KeyColumn` has for every number (perfpy.analysis.samples.dimensions) a rank that is equal for numbers of one row, a rank that
sorts rows, and the text. Ranks ascend in the order in which perf shows rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from perfpy.abi.startup import NamedTuple
from perfpy.analysis.samples.locations import name_ranks, ranks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts

Text = Callable[[int], str]


def no_width(_number: int) -> int:
    """Return the width of a text that does not widen its column."""
    return 0


class KeyColumn(NamedTuple):
    """One sort key over the distinct numbers of its dimension.

    Attributes:
        same: equal ranks share a row; their order is that of perf's tree of
            entries, which sorts rows that are equal in all columns.
        order: the order of rows.
        text: returns the text of number i.
        wide: returns the width that number i needs in its column.
        per_sample: numbers to print times the samples of the row, instead of a text.
        compare: perf's comparison of numbers i and j, negative if i comes first, if it is not transitive and ranks only approximate it.
        unnamed: marks the numbers that make it so.
        texts, widest: faster versions of `text` and `wide` for many numbers.
    """

    same: Int64
    order: Int64
    text: Text
    wide: Callable[[int], int] = no_width
    per_sample: Int64 | None = None
    compare: Callable[[int, int], int] | None = None
    unnamed: NDArray[np.bool_] | None = None
    texts: Callable[[Int64], list[str]] | None = None
    widest: Callable[[Int64], int] | None = None

    def texts_of(self, numbers: Int64) -> list[str]:
        """Return the texts of some numbers."""
        if self.texts is not None:
            return self.texts(numbers)
        listed = numbers.tolist()
        text_of = {number: self.text(number) for number in set(listed)}
        return [text_of[number] for number in listed]

    def width_of(self, numbers: Int64) -> int:
        """Return the column width for some distinct numbers."""
        return self.widest(numbers) if self.widest is not None else max(map(self.wide, numbers.tolist()), default=0)


#: a sort key: the distinct numbers of its dimension -> a column
Column: TypeAlias = "Callable[[KeyTexts, Int64], KeyColumn]"


def byte_width(text: str) -> int:
    """Return the length of a text as C's strlen does."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))


def by_number(values: Int64, text: Text, *, falling: bool = False) -> KeyColumn:
    """Return a column that compares the numbers themselves; falling: larger first."""
    rank = ranks(-values if falling else values)
    return KeyColumn(rank, rank, text)


def by_text(texts: list[str], *, wide: bool = True) -> KeyColumn:
    """Return a column of texts, sorted by bytes; wide: whether they widen the column."""
    rank = name_ranks(texts)
    return KeyColumn(rank, rank, lambda i: texts[i], (lambda i: byte_width(texts[i])) if wide else no_width)


def number(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return a column of numbers; larger ones first."""
    return by_number(values, lambda i: str(int(values[i])), falling=True)


def summed_number(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return a column of numbers, times the samples of the row."""
    return number(_texts, values)._replace(per_sample=values)
