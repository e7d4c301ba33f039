"""Two groups' tables of one event, laid beside each other: what each row has in each host.

What enters: both groups' histograms, whose last key is the recording. What leaves: GroupChanges.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.analysis.report.group_changes import ComparedRows, GroupChanges, GroupRow, GroupSide
from perfpy.analysis.report.host_differences import Units, share_changes
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram

    Floats = NDArray[np.float64]
    Names = tuple[str | None, ...]

#: the key that tells recordings apart
RECORDING: Final = "recording"
#: rows of fewer samples in all are not looked at for a change
_LEAST_SAMPLES: Final = 10
#: rows times hosts that are looked at: the rows with most
_MOST_CELLS: Final = 20_000_000


class GroupTable(NamedTuple):
    """One event's table of a group. unit_of: path of a recording -> what it is one observation of; name: (key, text) -> by what
    rows are the same; rates: how many of the event each unit has a second, empty where that is not known.
    """

    histogram: Histogram
    unit_of: Callable[[str], str]
    name: Callable[[str, str], str]
    rates: Mapping[str, float]

    @property
    def keys(self) -> list[str]:
        """All but the recording."""
        return [key.name for key in self.histogram.layout.keys if key.name != RECORDING]


def group_changes(before: GroupTable, after: GroupTable, unit: str, *, equal: bool) -> GroupChanges:
    """What changed in one event. unit: what is one observation; equal: each of them counts the same, not by its events."""
    hosts, cells = _Hosts(), _Cells()
    sides = _added(before, hosts, cells, after=False), _added(after, hosts, cells, after=True)
    compared = _compared(hosts, cells, equal=equal)
    found = compared._replace(rate=_rate(before.rates, after.rates))
    return GroupChanges(before.histogram.leader.event.name, before.keys, unit, sides, found)


class _Hosts:
    """The units of both groups: which host each is of, on which side, its period and samples."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._host: list[int] = []
        self._after: list[bool] = []
        self._period: list[float] = []
        self._samples: list[float] = []

    def __len__(self) -> int:
        return len(self._host)

    def add(self, names: Iterable[str], period: Iterable[float], samples: Iterable[float], *, after: bool) -> None:
        """Units of one group."""
        numbers = [self._number_of.setdefault(name, len(self._number_of)) for name in names]
        self._host += numbers
        self._after += [after] * len(numbers)
        self._period += period
        self._samples += samples

    @property
    def period(self) -> Floats:
        """All that each has."""
        return np.array(self._period)

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The units of the hosts that are in both groups: before, and after."""
        numbers, after, host = np.arange(len(self)), np.array(self._after, np.bool_), np.array(self._host, np.int64)
        _, first, second = np.intersect1d(host[~after], host[after], return_indices=True)
        return numbers[~after][first], numbers[after][second]

    def units(self, *, equal: bool) -> Units:
        """What is compared. A host that is in both groups has one weight: what hosts do is compared, not which of them did most."""
        after = np.array(self._after, np.bool_)
        weight: Floats = np.ones(len(self)) if equal else self.period
        # of one mean in both groups, however many units these have: labels are dealt anew, and weights stay with units
        weight /= np.where(after, weight[after].mean(), weight[~after].mean())
        first, second = self.pairs
        weight[first] = weight[second] = (weight[first] + weight[second]) / 2
        return Units(weight, np.array(self._samples), np.array(self._host, np.int64), after)


class _Cells:
    """What rows have in units, a part after the other."""

    def __init__(self) -> None:
        self._number_of: dict[Names, int] = {}
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]] = []

    def add(self, names: Iterable[Names], unit: NDArray[np.int64], period: Floats, samples: Floats) -> None:
        """Some more, each of a row and a unit."""
        rows = np.array([self._number_of.setdefault(one, len(self._number_of)) for one in names], np.int64)
        self._parts.append((rows, unit, period, samples))

    @property
    def names(self) -> list[Names]:
        """The rows."""
        return list(self._number_of)

    def columns(self) -> Iterator[NDArray[Any]]:
        """Row, unit, period and samples."""
        return (np.concatenate(parts) for parts in zip(*self._parts, strict=True))


def _added(table: GroupTable, hosts: _Hosts, cells: _Cells, *, after: bool) -> GroupSide:
    """A group's units and rows, now with the others."""
    histogram = table.histogram
    entries = histogram.order
    recording = histogram.keys[RECORDING]
    paths, number = np.unique(recording.number[entries], return_inverse=True)
    own: dict[str, int] = {}
    unit_of = [own.setdefault(table.unit_of(recording.column.text(path)), len(own)) for path in paths.tolist()]
    unit = np.array(unit_of, np.int64)[number.ravel()]
    period, samples = (histogram.entries.measures[name][entries, 0].astype(np.float64) for name in ("period", "samples"))
    shown = ~histogram.filtered[entries]
    counted = shown if histogram.options.rows.relative_percentages else np.ones(len(entries), np.bool_)
    periods, counts = (np.bincount(unit[counted], values[counted], len(own)) for values in (period, samples))
    some = periods > 0  # of others there are no shares
    names = [name for name, is_some in zip(own, some.tolist(), strict=True) if is_some]
    index = len(hosts) + np.cumsum(some) - 1
    hosts.add(names, periods[some].tolist(), counts[some].tolist(), after=after)
    shown &= some[unit]
    cells.add(_names(table, entries[shown]), index[unit[shown]], period[shown], samples[shown])
    return GroupSide(names, len(paths), int(counts.sum()), int(periods.sum()))


def _compared(hosts: _Hosts, cells: _Cells, *, equal: bool) -> ComparedRows:
    """All rows, those first whose shares changed most."""
    row, unit, period, count = cells.columns()
    units, names = hosts.units(equal=equal), cells.names
    size, share = len(names), period / hosts.period[unit]
    weighted = share * units.weight[unit]
    sides = [np.bincount(row[of[unit]], weighted[of[unit]], size) / units.weight[of].sum() for of in (~units.after, units.after)]
    order = np.argsort(-np.maximum(*sides), kind="stable")
    most = max(_MOST_CELLS // len(hosts), 1)
    chosen = np.sort(order[:most])
    index = np.full(size, -1, np.int64)
    index[chosen] = np.arange(len(chosen))
    kept = index[row] >= 0
    shares = np.zeros((len(chosen), len(hosts)))
    np.add.at(shares, (index[row[kept]], unit[kept]), share[kept])
    tested = np.bincount(row, count, size)[chosen] >= _LEAST_SAMPLES
    rows, test = _tested(shares, units, hosts, tested, [names[number] for number in chosen.tolist()])
    told = {
        one.names: tuple(shares[number, side].tolist() for side in (~units.after, units.after))
        for number, one in enumerate(rows)
        if one.has_changed
    }
    for number in order[most:].tolist():
        rows.append(GroupRow(names[number], float(sides[0][number]), float(sides[1][number]), math.nan, math.nan, None, None, None, 0, 0))
    return ComparedRows(sorted(rows, key=lambda one: -abs(one.change)), test, len(hosts.pairs[0]), told, None)


def _tested(shares: Floats, units: Units, hosts: _Hosts, tested: NDArray[np.bool_], names: list[Names]) -> tuple[list[GroupRow], str]:
    """Rows by their shares in units, and how they were tested."""
    found = share_changes(shares, units, tested)
    spreads = (_deviation(shares[:, side]) for side in (~units.after, units.after))
    first, second = hosts.pairs
    rose, fell = ((sign * (shares[:, second] - shares[:, first]) > 0).sum(axis=1).tolist() for sign in (1, -1))
    known = (map(_known, column.tolist()) for column in (found.low, found.high, found.chance))
    columns = (column.tolist() for column in (found.before, found.after, *spreads))
    return [GroupRow(*values) for values in zip(names, *columns, *known, rose, fell, strict=True)], found.test


def _rate(before: Mapping[str, float], after: Mapping[str, float]) -> GroupRow | None:
    """How much of the event there is a second, each host counting the same."""
    if not (before and after):
        return None
    hosts = _Hosts()
    for rates, is_after in ((before, False), (after, True)):
        hosts.add(rates, [1.0] * len(rates), [math.inf] * len(rates), after=is_after)
    shares = np.array([[*before.values(), *after.values()]])
    rows, _ = _tested(shares, hosts.units(equal=True), hosts, np.ones(1, np.bool_), [()])
    return rows[0]


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
