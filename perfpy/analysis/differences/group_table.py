"""Compare the tables of one event in two groups: each row's share in each host. The tables' last key is the recording."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.analysis.differences.group_changes import ComparedRows, GroupChanges, GroupRow, GroupSide
from perfpy.analysis.differences.host_differences import Units, share_changes
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram

    Floats = NDArray[np.float64]
    Names = tuple[str | None, ...]

#: the sort key of recordings
RECORDING: Final = "recording"
#: rows with fewer samples are not tested
_LEAST_SAMPLES: Final = 10
#: rows times hosts to test: the largest rows
_MOST_CELLS: Final = 20_000_000


class GroupTable(NamedTuple):
    """One event's table of a group.

    Attributes:
        histogram: the table.
        unit_of: path of a recording -> unit of observation.
        name: (key, text) -> name that identifies rows.
        rates: the event per second in each unit, empty if unknown.
    """

    histogram: Histogram
    unit_of: Callable[[str], str]
    name: Callable[[str, str], str]
    rates: Mapping[str, float]

    @property
    def keys(self) -> list[str]:
        """The keys except the recording."""
        return [key.name for key in self.histogram.layout.keys if key.name != RECORDING]


def group_changes(before: GroupTable, after: GroupTable, unit: str, *, equal: bool) -> GroupChanges:
    """Return the changes of one event. unit: of observation; equal: units have equal weights, not by their events."""
    hosts, cells = _Hosts(), _Cells()
    sides = _add_group(before, hosts, cells, after=False), _add_group(after, hosts, cells, after=True)
    compared = _compare_rows(hosts, cells, equal=equal)
    result = compared._replace(rate=_rate(before.rates, after.rates))
    return GroupChanges(before.histogram.leader.event.name, before.keys, unit, sides, result)


class _Hosts:
    """The units of both groups: the host, side, period and samples of each."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._host: list[int] = []
        self._after: list[bool] = []
        self._period: list[float] = []
        self._samples: list[float] = []

    def __len__(self) -> int:
        return len(self._host)

    def add(self, names: Iterable[str], period: Iterable[float], samples: Iterable[float], *, after: bool) -> None:
        """Add units of one group."""
        numbers = [self._number_of.setdefault(name, len(self._number_of)) for name in names]
        self._host += numbers
        self._after += [after] * len(numbers)
        self._period += period
        self._samples += samples

    @property
    def period(self) -> Floats:
        """The total period of each unit."""
        return np.array(self._period)

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The units of hosts in both groups: before, and after."""
        numbers, after, host = np.arange(len(self)), np.array(self._after, np.bool_), np.array(self._host, np.int64)
        _, first, second = np.intersect1d(host[~after], host[after], return_indices=True)
        return numbers[~after][first], numbers[after][second]

    def units(self, *, equal: bool) -> Units:
        """Return the units to compare. A host in both groups has one weight: shares are compared, not the amounts of work."""
        after = np.array(self._after, np.bool_)
        weight: Floats = np.ones(len(self)) if equal else self.period
        # both groups have the same mean weight: permutations relabel units, which keep their weights
        weight /= np.where(after, weight[after].mean(), weight[~after].mean())
        first, second = self.pairs
        weight[first] = weight[second] = (weight[first] + weight[second]) / 2
        return Units(weight, np.array(self._samples), np.array(self._host, np.int64), after)


class _Cells:
    """The period and samples of rows in units, part by part."""

    def __init__(self) -> None:
        self._number_of: dict[Names, int] = {}
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]] = []

    def add(self, names: Iterable[Names], unit: NDArray[np.int64], period: Floats, samples: Floats) -> None:
        """Add cells, each of a row and a unit."""
        rows = np.array([self._number_of.setdefault(one, len(self._number_of)) for one in names], np.int64)
        self._parts.append((rows, unit, period, samples))

    @property
    def names(self) -> list[Names]:
        """The names of the rows."""
        return list(self._number_of)

    def columns(self) -> Iterator[NDArray[Any]]:
        """Return row, unit, period and samples as columns."""
        return (np.concatenate(parts) for parts in zip(*self._parts, strict=True))


def _add_group(table: GroupTable, hosts: _Hosts, cells: _Cells, *, after: bool) -> GroupSide:
    """Add a group's units and rows."""
    histogram = table.histogram
    entries = histogram.order
    recording = histogram.keys[RECORDING]
    paths, number = np.unique(recording.number[entries], return_inverse=True)
    numbers: dict[str, int] = {}
    unit_of = [numbers.setdefault(table.unit_of(recording.column.text(path)), len(numbers)) for path in paths.tolist()]
    unit = np.array(unit_of, np.int64)[number.ravel()]
    period, samples = (histogram.entries.measures[name][entries, 0].astype(np.float64) for name in ("period", "samples"))
    is_visible = ~histogram.joined.filtered[entries]
    counted = is_visible if histogram.options.rows.relative_percentages else np.ones(len(entries), np.bool_)
    periods, counts = (np.bincount(unit[counted], values[counted], len(numbers)) for values in (period, samples))
    has_samples = periods > 0  # units without samples have no shares
    names = [name for name, is_some in zip(numbers, has_samples.tolist(), strict=True) if is_some]
    index = len(hosts) + np.cumsum(has_samples) - 1
    hosts.add(names, periods[has_samples].tolist(), counts[has_samples].tolist(), after=after)
    is_visible &= has_samples[unit]
    cells.add(_names(table, entries[is_visible]), index[unit[is_visible]], period[is_visible], samples[is_visible])
    return GroupSide(names, len(paths), int(counts.sum()), int(periods.sum()))


def _compare_rows(hosts: _Hosts, cells: _Cells, *, equal: bool) -> ComparedRows:
    """Compare all rows, sorted by the change of shares."""
    row, unit, period, count = cells.columns()
    units, names = hosts.units(equal=equal), cells.names
    size, share = len(names), period / hosts.period[unit]
    weighted = share * units.weight[unit]
    sides = [np.bincount(row[of[unit]], weighted[of[unit]], size) / units.weight[of].sum() for of in (~units.after, units.after)]
    order = np.argsort(-np.maximum(*sides), kind="stable")
    most = max(_MOST_CELLS // len(hosts), 1)
    tested_rows = np.sort(order[:most])
    index = np.full(size, -1, np.int64)
    index[tested_rows] = np.arange(len(tested_rows))
    is_tested = index[row] >= 0
    shares = np.zeros((len(tested_rows), len(hosts)))
    np.add.at(shares, (index[row[is_tested]], unit[is_tested]), share[is_tested])
    tested = np.bincount(row, count, size)[tested_rows] >= _LEAST_SAMPLES
    rows, test = _test_rows(shares, units, hosts, tested, [names[number] for number in tested_rows.tolist()])
    unit_shares = {
        one.names: tuple(shares[number, side].tolist() for side in (~units.after, units.after))
        for number, one in enumerate(rows)
        if one.has_changed
    }
    for number in order[most:].tolist():
        rows.append(GroupRow(names[number], float(sides[0][number]), float(sides[1][number]), math.nan, math.nan, None, None, None, 0, 0))
    return ComparedRows(sorted(rows, key=lambda one: -abs(one.change)), test, len(hosts.pairs[0]), unit_shares, None)


def _test_rows(shares: Floats, units: Units, hosts: _Hosts, tested: NDArray[np.bool_], names: list[Names]) -> tuple[list[GroupRow], str]:
    """Test rows by their shares in units; return them, and the name of the test."""
    changes = share_changes(shares, units, tested)
    spreads = (_deviation(shares[:, side]) for side in (~units.after, units.after))
    first, second = hosts.pairs
    rose, fell = ((sign * (shares[:, second] - shares[:, first]) > 0).sum(axis=1).tolist() for sign in (1, -1))
    optional = (map(_value_or_none, column.tolist()) for column in (changes.low, changes.high, changes.chance))
    columns = (column.tolist() for column in (changes.before, changes.after, *spreads))
    return [GroupRow(*values) for values in zip(names, *columns, *optional, rose, fell, strict=True)], changes.test


def _rate(before: Mapping[str, float], after: Mapping[str, float]) -> GroupRow | None:
    """Compare the events per second, with equal weights of hosts."""
    if not (before and after):
        return None
    hosts = _Hosts()
    for rates, is_after in ((before, False), (after, True)):
        hosts.add(rates, [1.0] * len(rates), [math.inf] * len(rates), after=is_after)
    shares = np.array([[*before.values(), *after.values()]])
    rows, _ = _test_rows(shares, hosts.units(equal=True), hosts, np.ones(1, np.bool_), [()])
    return rows[0]


def _names(table: GroupTable, entries: NDArray[np.int64]) -> Iterator[Names]:
    """Yield the names of each entry's row for each key; None: a function without a name."""
    return zip(*(_names_of_rows(table, key, entries) for key in table.keys), strict=True)


def _names_of_rows(table: GroupTable, key: str, entries: NDArray[np.int64]) -> list[str | None]:
    histogram = table.histogram
    if key == "symbol":
        frames, number = np.unique(histogram.entries.location[entries] >> ROLE_BITS, return_inverse=True)
        texts: list[str] = [histogram.locations.name(frame) for frame in frames.tolist()]
        names = [table.name(key, text) if text else None for text in texts]
        return [names[index] for index in number.ravel().tolist()]
    name_of: dict[str, str] = {}
    row_names: list[str | None] = []
    for text in histogram.texts(key, entries):
        if text not in name_of:
            name_of[text] = table.name(key, text)
        row_names.append(name_of[text])
    return row_names


def _deviation(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation between units; nan for one unit."""
    deviations: NDArray[np.float64] = shares.std(axis=1, ddof=1) if shares.shape[1] > 1 else np.full(len(shares), np.nan)
    return deviations


def _value_or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
