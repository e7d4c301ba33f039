"""The columns of a report: a `SortKey` that rows are grouped by, or an `OutputField` of numbers."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from perfpy.analysis.sortkeys.key_columns import Column


class ColumnCell(Enum):
    """The alignment of texts in a column."""

    LEFT = "left"  # truncated and padded to the width
    PADDED = "padded"  # padded to the width
    RIGHT = "right"  # padded on the left
    CUT = "cut"  # truncated to the width, not padded
    LOOSE = "loose"  # neither
    RIGHT_CUT = "right cut"  # truncated to the width and padded on the left, like the header
    THREAD = "thread"  # PID:COMM, the comm truncated and padded


class Mode(Enum):
    """The unit of a row's counts: samples, branches or memory accesses. It decides which keys exist."""

    NORMAL = "normal"
    BRANCH = "branch"
    MEMORY = "memory"


class SortKey(NamedTuple):
    """A column that rows are grouped by.

    Attributes:
        name: as in -s.
        header: of the column.
        dimension: of samples (perfpy.analysis.samples.dimensions), or "location" for sampled
            addresses and, in callchains, callers.
        column: makes the KeyColumn.
        cell: the alignment.
        least: the least width.
        by_comm: the column's width beyond the longest comm of a thread.
        late: perf makes the texts when it first compares two samples, and measures only these.
        event: the only event whose rows have it.
    """

    name: str
    header: str
    dimension: str
    column: Column
    cell: ColumnCell = ColumnCell.LEFT
    least: int = 0
    mode: Mode = Mode.NORMAL
    by_comm: int | None = None
    late: bool = False
    event: int | None = None

    @property
    def of_location(self) -> bool:
        """Whether it describes the location, so that callers have their own."""
        return self.dimension == "location"


class Unit(Enum):
    """The unit of a metric."""

    PERCENT = "percent"
    NUMBER = "number"
    AVERAGE = "average"
    SECONDS = "seconds"  # of events whose periods are ns


class OutputField(NamedTuple):
    """A column of numbers: its sum and format."""

    name: str
    header: str
    value: str
    unit: Unit
    width: int
