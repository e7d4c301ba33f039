"""Search ordered values within groups: np.searchsorted for many groups at once, for example the times of each thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Found(NamedTuple):
    """The places of values among those of their groups, as positions in GroupedValues.order.

    Attributes:
        position: int64[n], where the value would be inserted.
        begin, end: int64[n], the first position of the group, and the one after its last; equal for unknown groups.
    """

    position: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


class GroupedValues:
    """Values in groups.

    Args:
        groups: int64[n].
        values: of the groups, one dtype.

    Attributes:
        order: the rows by group and value; equal values keep their order.
    """

    def __init__(self, groups: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.order = np.lexsort((values, groups))
        self._values = np.sort(values)
        ordered = groups[self.order]
        is_first = np.ones(len(ordered), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        self._begins = np.append(is_first.nonzero()[0], len(ordered))
        self._groups = ordered[is_first]
        self._span = len(ordered) + 1
        self._ranks = (np.cumsum(is_first) - 1) * self._span + np.searchsorted(self._values, values[self.order])

    def find(self, groups: NDArray[np.int64], values: NDArray[Any], side: Literal["left", "right"] = "left") -> Found:
        """Return the place of each value within its group. side: "left" before equal values, "right" after them.

        >>> found = GroupedValues(np.array([7, 3, 7]), np.array([10, 20, 30])).find(np.array([7, 3, 5]), np.array([30, 30, 30]))
        >>> [column.tolist() for column in found]
        [[2, 1, 1], [1, 0, 1], [3, 1, 1]]
        """
        number = np.searchsorted(self._groups, groups)
        is_known = number < len(self._groups)
        is_known[is_known] = self._groups[number[is_known]] == groups[is_known]
        position = np.searchsorted(self._ranks, number * self._span + np.searchsorted(self._values, values, side))
        begin = self._begins[number]
        return Found(position, begin, np.where(is_known, self._begins[np.minimum(number + 1, len(self._groups))], begin))
