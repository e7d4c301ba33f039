"""Numbers of paths, kept between runs: what they stand for here is not what they stand for there.

What enters: keys, and who finds a row of numbers for each, the first of which is that of a path in `Paths`. What leaves: such
rows, also of keys that another run asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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


class KeptPaths:
    """Rows of numbers, the first of which is that of a path. kept: what other runs found; paths: those of this one."""

    def __init__(self, kept: KeptAnswers, paths: Paths) -> None:
        self._kept, self._paths = kept, paths
        self._here: list[int] = []  # of each text that is kept, the number of its path
        self._there: dict[int, int] = {}  # of paths, the number among the texts

    def rows(self, keys: NDArray[np.uint64], look: Callable[[NDArray[np.uint64]], Rows]) -> Rows:
        """A row for each key: what is known of it, else what `look` says."""

        def looked(fresh: NDArray[np.uint64]) -> AddressRows:
            rows = look(fresh)
            rows[:, 0] = [self._kept_as(number) for number in rows[:, 0].tolist()]
            return AddressRows(np.ones(len(rows), np.int64), rows)

        rows = self._kept.find(keys, looked).rows
        self._learn()
        rows[:, 0] = [self._here[number] if number >= 0 else -1 for number in rows[:, 0].tolist()]
        return rows

    def _learn(self) -> None:
        """Number the paths of texts that have come."""
        for text in self._kept.texts[len(self._here) :]:
            number = self._paths.number(text.decode("utf-8", "surrogateescape"))
            self._there.setdefault(number, len(self._here))
            self._here.append(number)

    def _kept_as(self, number: int) -> int:
        """The number of a path among the texts; -1 for none."""
        if number < 0:
            return -1
        self._learn()
        if number not in self._there:
            self._kept.texts.append(self._paths.texts[number].encode("utf-8", "surrogateescape"))
            self._learn()
        return self._there[number]
