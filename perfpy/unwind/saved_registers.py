"""The callers' registers, besides the stack pointer and the return address.

Each step records where callees saved them. Values are read only when a frame depends on them, which most never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.unwind.known_callers import ELSEWHERE, KEPT, SAMPLED

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]
    Load = Callable[[Rows, Values], tuple[Values, NDArray[np.bool_]]]


class SavedRegisters:
    """The registers of chains, one chain in each row.

    Args:
        sampled: each register's values at the samples.

    Attributes:
        locations: the address of each register, or SAMPLED, or ELSEWHERE: then the value is known from a rare rule.
    """

    def __init__(self, sampled: list[Values], rows: int) -> None:
        self._sampled = sampled
        self.locations = [np.full(rows, SAMPLED) for _ in sampled]
        self._values: list[Values] = [np.zeros(rows, np.uint64) for _ in sampled]

    def keep(self, rows: Rows) -> None:
        """Keep only these rows."""
        self.locations = [values[rows] for values in self.locations]
        self._values = [values[rows] for values in self._values]

    def add(self, locations: list[Values]) -> None:
        """Add rows, in which no register is ELSEWHERE."""
        self.locations = [np.concatenate(both) for both in zip(self.locations, locations, strict=True)]
        none = np.zeros(len(locations[0]) if locations else 0, np.uint64)
        self._values = [np.concatenate([values, none]) for values in self._values]

    def values(self, number: int, rows: Rows, samples: Rows, load: Load) -> Values:
        """Return a register of some rows; 0 for unreadable values.

        Args:
            number: of the register.
            rows: the chains.
            samples: the samples of these chains.
            load: reads words at addresses of samples.
        """
        locations = self.locations[number][rows]
        values = np.where(locations == SAMPLED, self._sampled[number][samples], self._values[number][rows])
        saved = rows_where(locations < KEPT)
        if len(saved):
            values[saved] = load(samples[saved], locations[saved])[0]
        return values

    def move(self, moved: list[tuple[Values, Values | None]]) -> None:
        """Move to the callers: the new place of each register (KEPT: unchanged), and the values of those that are ELSEWHERE."""
        for number, (locations, values) in enumerate(moved):
            self.locations[number] = np.where(locations == KEPT, self.locations[number], locations)
            if values is not None:
                self._values[number] = np.where(locations == ELSEWHERE, values, self._values[number])

    @property
    def are_saved(self) -> NDArray[np.bool_] | None:
        """Return which rows have all registers in places that other chains can use; None for all."""
        mask: NDArray[np.bool_] | None = None
        for locations in self.locations:
            lost = locations == ELSEWHERE
            if lost.any():
                mask = ~lost if mask is None else mask & ~lost
        return mask
