"""What changed between two groups of recordings, as values: of hosts before and hosts after.

What enters: both groups' tables, whose last key is the recording. What leaves: a GroupChanges for each event that both have, whose
rows are GroupRows, those first whose shares changed most. What a change is more than is the spread between hosts, not that of samples
(perfpy.analysis.report.group_test).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import numpy as np

from perfpy.analysis.report.group_test import Units, share_changes
from perfpy.analysis.report.proportions import LEVEL
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram

    Floats = NDArray[np.float64]
    Names = tuple[str | None, ...]

#: the key that tells recordings apart
RECORDING: Final = "recording"
_UNNAMED: Final = "[unknown]"
#: rows of fewer samples in all are not looked at for a change
_LEAST_SAMPLES: Final = 10
#: rows times hosts that are looked at: the rows with most
_MOST_CELLS: Final = 20_000_000


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


class GroupChanges:
    """What changed in one event: a sequence of GroupRow, those first whose shares changed most.

    event: its name; keys: what the rows' names are; before, after: the GroupSides; unit: "host" or "recording", what is one
    observation; in_both: how many of these are in both groups, each compared with itself; test: how chances were found,
    "permutation", or "student" where there are few hosts, "" where one group has a single one; shares: names of a row that changed ->
    its share in each unit before, and after.

    >>> import perfpy, shutil
    >>> after = shutil.copy("perf.data", "after.data")
    >>> (changes,) = perfpy.diff(perfpy.open_many("perf.data"), perfpy.open_many(after), by="comm")
    >>> changes.event, changes.before.units, [(row.names, row.change, row.chance) for row in changes]
    ('cpu-clock:u', ['perf.data'], [(('busy',), 0.0, None)])
    """

    def __init__(self, event: str, keys: Sequence[str], unit: str, sides: tuple[GroupSide, GroupSide], table: _UnitTable) -> None:
        self.event, self.keys, self.unit = event, list(keys), unit
        self.before, self.after = sides
        self.in_both = len(table.pairs[0])
        self.rows, self.test, self.shares = table.compared()

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


class GroupTable(NamedTuple):
    """One event's table of a group. unit_of: path of a recording -> what it is one observation of; name: (key, text) -> by what
    rows are the same.
    """

    histogram: Histogram
    unit_of: Callable[[str], str]
    name: Callable[[str, str], str]

    @property
    def keys(self) -> list[str]:
        """All but the recording."""
        return [key.name for key in self.histogram.layout.keys if key.name != RECORDING]


def group_changes(before: GroupTable, after: GroupTable, unit: str, *, equal: bool) -> GroupChanges:
    """What changed in one event. unit: what is one observation; equal: each of them counts the same, not by its events."""
    table = _UnitTable(equal=equal)
    sides = table.add(before, after=False), table.add(after, after=True)
    return GroupChanges(before.histogram.leader.event.name, before.keys, unit, sides, table)


class _Cells(NamedTuple):
    """Some rows' parts in some units, one after the other."""

    row: NDArray[np.int64]
    unit: NDArray[np.int64]
    period: NDArray[np.float64]
    samples: NDArray[np.float64]


class _UnitTable:
    """All rows in all units."""

    def __init__(self, *, equal: bool) -> None:
        self._equal = equal
        self._names: dict[Names, int] = {}
        self._cells: list[_Cells] = []
        self._hosts: dict[str, int] = {}
        self._host: list[int] = []
        self._after: list[bool] = []
        self._period: list[float] = []
        self._samples: list[float] = []

    def add(self, table: GroupTable, *, after: bool) -> GroupSide:
        """A group's rows."""
        histogram = table.histogram
        entries = histogram.order
        recording = histogram.keys[RECORDING]
        paths, number = np.unique(recording.number[entries], return_inverse=True)
        own: dict[str, int] = {}
        unit_of = [own.setdefault(table.unit_of(recording.column.text(path)), len(own)) for path in paths.tolist()]
        unit = np.array(unit_of, np.int64)[number.ravel()]
        period, samples = (histogram.entries.measures[name][entries, 0].astype(np.float64) for name in ("period", "samples"))
        shown = ~histogram.filtered[entries]
        counted = shown if histogram.options.relative_percentages else np.ones(len(entries), np.bool_)
        periods, counts = (np.bincount(unit[counted], values[counted], len(own)) for values in (period, samples))
        names = [name for name, total in zip(own, periods.tolist(), strict=True) if total > 0]  # of others there are no shares
        index = len(self._host) + np.cumsum(periods > 0) - 1
        self._host += [self._hosts.setdefault(name, len(self._hosts)) for name in names]
        self._after += [after] * len(names)
        self._period += periods[periods > 0].tolist()
        self._samples += counts[periods > 0].tolist()
        shown &= periods[unit] > 0
        rows = np.array([self._names.setdefault(one, len(self._names)) for one in _names(table, entries[shown])], np.int64)
        self._cells.append(_Cells(rows, index[unit[shown]], period[shown], samples[shown]))
        return GroupSide(names, len(paths), int(counts.sum()), int(periods.sum()))

    @property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The units of the hosts that are in both groups: before, and after."""
        units = np.arange(len(self._host))
        after = np.array(self._after, np.bool_)
        host = np.array(self._host, np.int64)
        _, first, second = np.intersect1d(host[~after], host[after], return_indices=True)
        return units[~after][first], units[after][second]

    def compared(self) -> tuple[list[GroupRow], str, dict[Names, tuple[list[float], list[float]]]]:
        """All rows, those first whose shares changed most; how they were tested; and the shares in units of those that changed."""
        names, weight = list(self._names), self._weights()
        shares, samples, chosen, rest = self._shares(weight)
        units = Units(weight, np.array(self._samples), np.array(self._host, np.int64), np.array(self._after, np.bool_))
        found = share_changes(shares, units, samples >= _LEAST_SAMPLES)
        spreads = [_deviation(shares[:, side]) for side in (~units.after, units.after)]
        first, second = self.pairs
        rose, fell = ((sign * (shares[:, second] - shares[:, first]) > 0).sum(axis=1).tolist() for sign in (1, -1))
        known = (map(_known, column.tolist()) for column in (found.low, found.high, found.chance))
        columns = (column.tolist() for column in (found.before, found.after, *spreads))
        rows = [GroupRow(names[number], *told) for number, *told in zip(chosen.tolist(), *columns, *known, rose, fell, strict=True)]
        rows += [GroupRow(names[number], before, after, math.nan, math.nan, None, None, None, 0, 0) for number, before, after in rest]
        told = {
            row.names: (shares[index, ~units.after].tolist(), shares[index, units.after].tolist())
            for index, row in enumerate(rows[: len(chosen)])
            if row.has_changed
        }
        return sorted(rows, key=lambda row: -abs(row.change)), found.test, told

    def _weights(self) -> Floats:
        """How much each unit counts in its group; the same before and after, where it is in both: what hosts do is compared, not which
        of them did most.
        """
        after = np.array(self._after, np.bool_)
        weight: Floats = np.ones(len(after)) if self._equal else np.array(self._period)
        weight /= np.where(after, weight[after].sum(), weight[~after].sum())
        first, second = self.pairs
        weight[first] = weight[second] = (weight[first] + weight[second]) / 2
        return weight

    def _shares(self, weight: Floats) -> tuple[Floats, Floats, NDArray[np.int64], list[tuple[int, float, float]]]:
        """Shares of rows in units, how many samples rows have in all, which rows these are; of the others their number and shares."""
        row, unit, period, count = (np.concatenate(parts) for parts in zip(*self._cells, strict=True))
        size, after = len(self._names), np.array(self._after, np.bool_)
        share = period / np.array(self._period)[unit]
        samples = np.bincount(row, count, size).astype(np.float64)
        weighted = share * weight[unit]
        sides = [np.bincount(row[of[unit]], weighted[of[unit]], size) / weight[of].sum() for of in (~after, after)]
        most = max(_MOST_CELLS // len(after), 1)
        order = np.argsort(-np.maximum(*sides), kind="stable")
        chosen: NDArray[np.int64] = np.sort(order[:most])
        index: NDArray[np.int64] = np.full(size, -1, np.int64)
        index[chosen] = np.arange(len(chosen))
        kept = index[row] >= 0
        shares = np.zeros((len(chosen), len(after)))
        np.add.at(shares, (index[row[kept]], unit[kept]), share[kept])
        rest = [(number, float(sides[0][number]), float(sides[1][number])) for number in order[most:].tolist()]
        return shares, samples[chosen], chosen, rest


def _names(table: GroupTable, entries: NDArray[np.int64]) -> Iterator[Names]:
    """What each entry's row is called, key by key; None: a function without a name."""
    return zip(*(_named(table, key, entries) for key in table.keys), strict=True)


def _named(table: GroupTable, key: str, entries: NDArray[np.int64]) -> list[str | None]:
    histogram = table.histogram
    if key == "symbol":
        frames, number = np.unique(histogram.entries.location[entries] >> ROLE_BITS, return_inverse=True)
        texts: list[str] = [histogram.locations.name(frame) for frame in frames.tolist()]
        made = [table.name(key, text) if text else None for text in texts]
        return [made[index] for index in number.ravel().tolist()]
    known: dict[str, str] = {}
    found: list[str | None] = []
    for text in histogram.texts(key, entries):
        if text not in known:
            known[text] = table.name(key, text)
        found.append(known[text])
    return found


def _deviation(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation between units; nan of one."""
    found: NDArray[np.float64] = shares.std(axis=1, ddof=1) if shares.shape[1] > 1 else np.full(len(shares), np.nan)
    return found


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
