"""What changed between two groups of recordings, as values: of hosts before and hosts after.

What enters: what was compared of an event. What leaves: a GroupChanges, whose rows are GroupRows, those first whose shares
changed most. What a change is more than is the spread between hosts, not that of samples
(perfpy.analysis.report.host_differences).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from perfpy.analysis.report.proportions import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Names = tuple[str | None, ...]

_UNNAMED: Final = "[unknown]"


class GroupSide(NamedTuple):
    """One of the groups. units: its hosts, or recordings, that have samples; recordings: how many; samples, period: of all."""

    units: list[str]
    recordings: int
    samples: int
    period: int


class GroupRow(NamedTuple):
    """One row: its names, its share of all (1 is everything) before and after, each with its standard deviation between hosts.
    A host that is in both groups counts the same before and after.

    low, high: the interval that holds the true change of 95 of 100 such rows, None where there are too few hosts; chance: the
    probability that hosts alone, unchanged, show as much in any row; None where that cannot be told. rose, fell: of the hosts that
    are in both groups, in how many its share did.
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
        """By how much of everything its share changed (0.01: a point)."""
        return self.after - self.before

    @property
    def has_changed(self) -> bool:
        """Whether the spread between hosts does not explain it."""
        return self.chance is not None and self.chance < LEVEL


class ComparedRows(NamedTuple):
    """What was found: all rows; test, in_both, shares, rate: see GroupChanges."""

    rows: list[GroupRow]
    test: str
    in_both: int
    shares: dict[Names, tuple[list[float], ...]]
    rate: GroupRow | None


class GroupChanges:
    """What changed in one event: a sequence of GroupRow, those first whose shares changed most.

    event: its name; keys: what the rows' names are; before, after: the GroupSides; unit: "host" or "recording", what is one
    observation; in_both: how many of these are in both groups, each compared with itself; test: how chances were found,
    "permutation", or "student" where there are few hosts, "" where one group has a single one; shares: names of a row that changed ->
    its share in each unit before, and after; rate: how much of the event a host has each second (of time: seconds, which is how
    many CPUs it keeps busy), compared in the same way; None where that is not known, or not asked for (weights of samples, equal ones).

    >>> import perfpy, shutil
    >>> after = shutil.copy("perf.data", "after.data")
    >>> (changes,) = perfpy.diff(perfpy.open_many("perf.data"), perfpy.open_many(after), by="comm")
    >>> changes.event, changes.before.units, [(row.names, row.change, row.chance) for row in changes]
    ('cpu-clock:u', ['perf.data'], [(('busy',), 0.0, None)])
    """

    def __init__(self, event: str, keys: Sequence[str], unit: str, sides: tuple[GroupSide, GroupSide], found: ComparedRows) -> None:
        self.event, self.keys, self.unit = event, list(keys), unit
        self.before, self.after = sides
        self.rows, self.test, self.in_both, self.shares, self.rate = found

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
        """The rows whose share rose, by more than hosts differ, and by more than a part of everything (0.02: two points)."""
        return [row for row in self.rows if row.has_changed and row.change > by]

    def name(self, row: GroupRow) -> str:
        """What a row is called, in one text."""
        return " ".join(name or _UNNAMED for name in row.names)

    def to_columns(self) -> dict[str, list[Any]]:
        """The rows as columns: each key, the fields of GroupRow, "change" and "has_changed"."""
        found: dict[str, list[Any]] = {key: [row.names[index] for row in self.rows] for index, key in enumerate(self.keys)}
        fields = [*(name for name in GroupRow._fields if name != "names"), "change", "has_changed"]
        return found | {name: [getattr(row, name) for row in self.rows] for name in fields}

    def to_pandas(self) -> Any:
        """to_columns() as a pandas.DataFrame. Needs pandas."""
        import pandas

        return pandas.DataFrame(self.to_columns())

    def __repr__(self) -> str:
        changed = sum(row.has_changed for row in self.rows)
        sides = f"{len(self.before.units)} -> {len(self.after.units)} {self.unit}s"
        return f"<GroupChanges of {self.event}: {sides}, {changed} of {len(self)} rows changed>"
