"""Numbers of paths, kept between runs: what they stand for here is not what they stand for there.

What enters: keys, and who finds a row of numbers for each, the first of which is that of a path in `Paths`. What leaves: such
rows, also of keys that another run asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.debuginfo.kept_answers import AddressRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.debuginfo.kept_answers import KeptAnswers

    Rows = NDArray[np.int64]


class Paths:
    """Paths by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, path: str) -> int:
        """The number of a path."""
        number = self._numbers.setdefault(path, len(self.texts))
        if number == len(self.texts):
            self.texts.append(path)
        return number


def rows_kept(kept: KeptAnswers, paths: Paths, keys: NDArray[np.uint64], look: Callable[[NDArray[np.uint64]], Rows]) -> Rows:
    """A row for each key: what is known of it, else what `look` says."""

    def looked(fresh: NDArray[np.uint64]) -> AddressRows:
        rows = look(fresh)
        met = distinct(rows[:, 0])
        kept_as = _numbers_in(kept, [paths.texts[number] if number >= 0 else None for number in met.tolist()])
        rows[:, 0] = kept_as[np.searchsorted(met, rows[:, 0])]
        return AddressRows(np.ones(len(rows), np.int64), rows)

    rows = kept.find(keys, looked).rows
    here = np.array([paths.number(text.decode("utf-8", "surrogateescape")) for text in kept.texts] + [-1], np.int64)
    rows[:, 0] = here[rows[:, 0]]
    return rows


def _numbers_in(kept: KeptAnswers, paths: list[str | None]) -> Rows:
    """The numbers of paths among the texts that are kept; -1 for None."""
    known = {text: number for number, text in enumerate(kept.texts)}
    numbers = []
    for path in paths:
        text = b"" if path is None else path.encode("utf-8", "surrogateescape")
        numbers.append(-1 if path is None else known.setdefault(text, len(known)))
        if len(known) > len(kept.texts):
            kept.texts.append(text)
    return np.array(numbers, np.int64)
