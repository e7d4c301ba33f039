"""How sort keys group, order and word the numbers of their sources: what all of them are made of.

What enters: the distinct numbers of one source (see perfpy.analysis.samples.dimensions)
and what is known of the recording (`KeyTexts`). What leaves: a `KeyColumn`: for
every number a rank that is equal for numbers of one row, a rank that orders
rows, and the text. Ranks ascend in the order in which perf shows rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from perfpy.analysis.samples.locations import name_ranks, ranks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts

Text = Callable[[int], str]


def no_width(_number: int) -> int:
    """The width of a text that does not widen its column."""
    return 0


class KeyColumn(NamedTuple):
    """One sort key over the distinct numbers of its source.

    same: equal ranks are one row; their order is that of perf's tree of
    entries, which decides between rows that are equal in everything shown.
    order: the order of rows. text(i): what is printed for number i; wide(i):
    the width that it asks for its column. per_sample: numbers that are printed
    times the samples of the row, instead of a text. compare(i, j): perf's own
    comparison, below 0 if i comes first, where it is no order and ranks are
    but the next best; unnamed: which numbers make it so. texts, widest: what
    text says of each of many numbers, and the most that wide says of them,
    where there is a faster way than one by one.
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
        """What is printed for each of some numbers."""
        if self.texts is not None:
            return self.texts(numbers)
        listed = numbers.tolist()
        made = {number: self.text(number) for number in set(listed)}
        return [made[number] for number in listed]

    def width_of(self, numbers: Int64) -> int:
        """The width that some different numbers ask for their column."""
        return self.widest(numbers) if self.widest is not None else max(map(self.wide, numbers.tolist()), default=0)


#: a sort key: the distinct numbers of its source as a column
Column: TypeAlias = "Callable[[KeyTexts, Int64], KeyColumn]"


def byte_width(text: str) -> int:
    """The length of a text as C's strlen has it."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))


def by_number(values: Int64, text: Text, *, falling: bool = False) -> KeyColumn:
    """A key that compares the numbers themselves; falling: the larger first."""
    rank = ranks(-values if falling else values)
    return KeyColumn(rank, rank, text)


def by_text(texts: list[str], *, wide: bool = True) -> KeyColumn:
    """A key of texts, in the order of their bytes; wide: whether they widen the column."""
    rank = name_ranks(texts)
    return KeyColumn(rank, rank, lambda i: texts[i], (lambda i: byte_width(texts[i])) if wide else no_width)


def number(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """A number; larger ones first."""
    return by_number(values, lambda i: str(int(values[i])), falling=True)


def summed_number(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """A number, times the samples of the row."""
    return number(_texts, values)._replace(per_sample=values)
