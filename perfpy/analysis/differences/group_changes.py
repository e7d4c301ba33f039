"""The changes between two groups of recordings, as values: hosts before and hosts after.

Changes are measured against the spread between hosts, not that of samples
(perfpy.analysis.differences.host_differences).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from perfpy.analysis.differences.proportions import LEVEL
from perfpy.data_frames import ConvertibleTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Names = tuple[str | None, ...]

_UNNAMED: Final = "[unknown]"


class GroupSide(NamedTuple):
    """One of the groups.

    Attributes:
        units: its hosts, or recordings, with samples.
        recordings: their number.
        samples, period: totals.
    """

    units: list[str]
    recordings: int
    samples: int
    period: int


class GroupRow(NamedTuple):
    """One row of the comparison. A host in both groups has the same weight in both.

    Attributes:
        names: for each key.
        before, after: the shares, of 1.
        deviation_before, deviation_after: standard deviations between hosts.
        low, high: the 95 % confidence interval of the change; None with too few hosts.
        chance: the probability that unchanged hosts show as much in any row; None if unknown.
        rose, fell: the number of hosts in both groups whose share rose, or fell.
    """

    names: tuple[str | None, ...]
    before: float
    after: float
    deviation_before: float
    deviation_after: float
    low: float | None
    high: float | None
    chance: float | None
    rose: int
    fell: int

    @property
    def change(self) -> float:
        """The change of the share (0.01: a point)."""
        return self.after - self.before

    @property
    def has_changed(self) -> bool:
        """Whether the change exceeds the spread between hosts."""
        return self.chance is not None and self.chance < LEVEL


class ComparedRows(NamedTuple):
    """The result of a comparison: all rows; test, in_both, shares, rate: see GroupChanges."""

    rows: list[GroupRow]
    test: str
    in_both: int
    shares: dict[Names, tuple[list[float], ...]]
    rate: GroupRow | None


class GroupChanges(ConvertibleTable):
    """The changes of one event: a sequence of GroupRow, sorted by the change of shares.

    Attributes:
        event: its name.
        keys: of the rows' names.
        before, after: the GroupSides.
        unit: the unit of observation, "host" or "recording".
        in_both: the number of units in both groups, each compared with itself.
        test: "permutation", "student" with few hosts, or "" if a group has one only.
        shares: names of a changed row -> its share in each unit, before and after.
        rate: the event per second and host (for time: seconds, i.e. busy CPUs), compared in the same way; None if unknown, or if the
            weight is not time.

    >>> import perfpy, shutil
    >>> after = shutil.copy("perf.data", "after.data")
    >>> (changes,) = perfpy.diff(perfpy.open_many("perf.data"), perfpy.open_many(after), by="comm")
    >>> changes.event, changes.before.units, [(row.names, row.change, row.chance) for row in changes]
    ('cpu-clock:u', ['perf.data'], [(('busy',), 0.0, None)])
    """

    def __init__(self, event: str, keys: Sequence[str], unit: str, sides: tuple[GroupSide, GroupSide], compared: ComparedRows) -> None:
        self.event, self.keys, self.unit = event, list(keys), unit
        self.before, self.after = sides
        self.rows, self.test, self.in_both, self.shares, self.rate = compared

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[GroupRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> GroupRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[GroupRow]: ...
    def __getitem__(self, index: int | slice) -> GroupRow | list[GroupRow]:
        return self.rows[index]

    def above(self, by: float = 0.0) -> list[GroupRow]:
        """Return the rows whose share rose beyond the spread of hosts, and by more than `by` (0.02: two points)."""
        return [row for row in self.rows if row.has_changed and row.change > by]

    def name(self, row: GroupRow) -> str:
        """Return a row's names as one text."""
        return " ".join(name or _UNNAMED for name in row.names)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rows as columns: each key, the fields of GroupRow, "change" and "has_changed"."""
        columns: dict[str, list[Any]] = {key: [row.names[index] for row in self.rows] for index, key in enumerate(self.keys)}
        fields = [*(name for name in GroupRow._fields if name != "names"), "change", "has_changed"]
        return columns | {name: [getattr(row, name) for row in self.rows] for name in fields}

    def __repr__(self) -> str:
        changed = sum(row.has_changed for row in self.rows)
        sides = f"{len(self.before.units)} -> {len(self.after.units)} {self.unit}s"
        return f"<GroupChanges of {self.event}: {sides}, {changed} of {len(self)} rows changed>"
