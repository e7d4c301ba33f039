"""What a column of a report is: a `SortKey` that rows are grouped by, or an `OutputField` of numbers."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from perfpy.analysis.sortkeys.key_columns import Column


class ColumnCell(Enum):
    """How the text of a column is set within the column's width."""

    LEFT = "left"  # cut and filled to the width
    RIGHT = "right"  # filled from the left
    CUT = "cut"  # cut to the width, not filled
    LOOSE = "loose"  # neither
    RIGHT_CUT = "right cut"  # cut to the width and filled from the left, as the header is
    THREAD = "thread"  # PID:COMM, the comm cut and filled


class Mode(Enum):
    """What a row stands for; decides which keys there are."""

    NORMAL = "normal"
    BRANCH = "branch"
    MEMORY = "memory"


class SortKey(NamedTuple):
    """A column that rows are grouped by.

    dimension: what it reads of each sample (perfpy.analysis.samples.dimensions), or "location"
    for where the sample was, in callchains too; least: the least width;
    by_comm: the column is as wide as the longest comm of a thread, plus this;
    late: perf makes
    the texts when it first compares two samples, and measures only what is made.
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
    """What a metric's number is."""

    PERCENT = "percent"
    NUMBER = "number"
    AVERAGE = "average"
    SECONDS = "seconds"  # of events whose periods are ns


class OutputField(NamedTuple):
    """A column of numbers: which sum it shows, and how."""

    name: str
    header: str
    value: str
    unit: Unit
    width: int
