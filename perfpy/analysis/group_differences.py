"""The changes between two groups of recordings, as values: hosts before and hosts after.

Changes are measured against the spread between hosts, not that of samples
(perfpy.analysis.group_differences).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import numpy as np

from perfpy.abi.columns import ConvertibleTable
from perfpy.analysis.differences import LEVEL
from perfpy.analysis.locations import ROLE_BITS
from perfpy.counts.comparison import student_cdf, student_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.report.tables import Histogram

    Names = tuple[str | None, ...]
    Floats = NDArray[np.float64]


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


# Compare the tables of one event in two groups: each row's share in each host. The tables' last key is the recording.


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


# Test whether a row's share differs between two groups of hosts by more than hosts differ anyway.
#
# Random is not only where samples fall, but which hosts were observed: their loads differ by far more than samples
# explain, and a test of all samples together would mark most rows of two groups without any change. So a host is one
# observation, however many samples it has. The statistic is the difference of the shares by its standard error: the sum of
# squares of each host's contribution to the difference (the cluster-robust estimate; Liang and Zeger 1986), with one term for a
# host in both groups. It is at least the uncertainty due to the number of samples. The probability is that of the greatest
# statistic of all rows under permutation of the labels (Westfall and Young 1993, step-down maxT): before and after are swapped within a
# host in both groups, and permuted among the others. That assumes nothing about how hosts differ, and holds for a table as a whole:
# without
# any change, at most 5 of 100 tables have a mark. With too few hosts for a permutation of that rarity, Student's
# distribution is used, with Holm's correction for the number of rows.


#: the number of random permutations, fewer for large tables; the same ones each time
_DEALS: Final = 1999
_LEAST_DEALS: Final = 399
#: rows times units times permutations that take some seconds
_MOST_STEPS: Final = 10_000_000_000
_SEED: Final = 6
#: rows tested together
_ROWS_AT_ONCE: Final = 512
# statistics that differ by less are equal except for rounding
_SAME: Final = 1 - 1e-9


class Units(NamedTuple):
    """The units of observation: a host before or after, or a recording.

    Attributes:
        weight: of each.
        samples: of each.
        host: equal for the two units of one host.
        after: marks units of the second group.
    """

    weight: Floats
    samples: Floats
    host: NDArray[np.int64]
    after: NDArray[np.bool_]


class ShareChanges(NamedTuple):
    """The changes, with an entry for each row.

    Attributes:
        before, after: shares, of 1.
        low, high: the 95 % confidence interval of their difference; nan with too few hosts.
        chance: the probability that hosts alone show as much in any row; nan also for rows that are not tested.
        test: "permutation", "student", or "" with too few hosts.
    """

    before: Floats
    after: Floats
    low: Floats
    high: Floats
    chance: Floats
    test: str


def share_changes(shares: Floats, units: Units, tested: NDArray[np.bool_]) -> ShareChanges:
    """Return the change of each row. shares: of rows (first axis) in units; tested: marks the rows to test."""
    design = Design(units)
    observed = _Deal(design, units.after.astype(np.float64)[:, None])
    before, after, error, statistic = (np.zeros(len(shares)) for _ in range(4))
    chance, freedom = np.full(len(shares), np.nan), np.ones(len(shares), np.int64)
    for rows in _blocks(len(shares)):
        compared = observed.of(shares[rows])
        before[rows], after[rows], error[rows] = (column[:, 0] for column in (compared.before, compared.after, compared.error))
        statistic[rows], freedom[rows] = compared.statistic[:, 0], design.freedom(compared.parts[:, :, 0])
    reach = error * np.array([_reach(number) for number in freedom.tolist()])
    difference = after - before
    chosen = np.flatnonzero(tested)
    test = ("permutation" if design.can_tell else "student") if _is_enough(units) else ""
    if test == "permutation" and len(chosen):
        chance[chosen] = _by_deals(shares, chosen, statistic[chosen], design)
    elif test and len(chosen):
        chance[chosen] = _by_student(statistic[chosen], freedom[chosen])
    elif not test:
        reach[:] = np.nan
    return ShareChanges(before, after, difference - reach, difference + reach, chance, test)


def _is_enough(units: Units) -> bool:
    """Whether both groups have a spread."""
    return min(int(units.after.sum()), int((~units.after).sum())) > 1


def _blocks(size: int) -> Iterator[slice]:
    return (slice(begin, begin + _ROWS_AT_ONCE) for begin in range(0, size, _ROWS_AT_ONCE))


class Design:
    """The permutations of labels: within hosts in both groups, and among the other units."""

    def __init__(self, units: Units) -> None:
        self.units = units
        order = np.argsort(units.host, kind="stable")
        twice = np.flatnonzero(units.host[order][1:] == units.host[order][:-1])
        self.pairs = np.stack([order[twice], order[twice + 1]])  # units of one host
        self.alone = np.setdiff1d(np.arange(len(units.host)), self.pairs)

    @cached_property
    def size(self) -> int:
        """The number of permutations."""
        return int(2 ** self.pairs.shape[1] * math.comb(len(self.alone), int(self.units.after[self.alone].sum())))

    @property
    def can_tell(self) -> bool:
        """Whether the rarest permutation is rare enough; swapping all labels gives the same statistic, if that is a permutation, too."""
        mirrored = 2 * int(self.units.after[self.alone].sum()) == len(self.alone)
        return (1 + mirrored) / self.size <= LEVEL

    def freedom(self, parts: Floats) -> NDArray[np.int64]:
        """Return the degrees of freedom of errors by their parts (Satterthwaite 1946)."""
        after = int(self.units.after[self.alone].sum())
        counts = self.pairs.shape[1], len(self.alone) - after, after
        total = parts.sum(axis=0)
        spent = sum(part**2 / max(count - 1, 1) for part, count in zip(parts, counts, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            degrees = np.where(total > 0, total**2 / spent, max(sum(max(count - 1, 0) for count in counts), 1))
        return np.maximum(np.floor(degrees + 1e-9), 1).astype(np.int64)

    def deals(self, rows: int) -> Floats:
        """Return labels (1: after), a column per permutation: all, or random ones; the first column is the observed one."""
        most = min(_DEALS, max(_LEAST_DEALS, _MOST_STEPS // (rows * len(self.units.host))))
        return self._all() if self.size <= _DEALS + 1 else self._random(most)

    def _all(self) -> Floats:
        after, pairs = self.units.after, self.pairs.shape[1]
        own = np.flatnonzero(after[self.alone])
        chosen = combinations(range(len(self.alone)), len(own))
        dealt = np.array(list(chosen), np.int64).reshape(math.comb(len(self.alone), len(own)), len(own))
        others = np.zeros((len(self.alone), len(dealt)))
        others[dealt.T, np.arange(len(dealt))] = 1.0
        others = np.roll(others, -int(np.flatnonzero((dealt == own).all(axis=1))[0]), axis=1)
        swapped = (np.arange(1 << pairs) >> np.arange(pairs)[:, None] & 1).astype(np.bool_)
        labels = np.empty((len(after), self.size))
        labels[self.alone] = np.tile(others, 1 << pairs)
        for unit in self.pairs:
            labels[unit] = np.repeat(np.where(swapped, ~after[unit][:, None], after[unit][:, None]), len(dealt), axis=1)
        return labels

    def _random(self, count: int) -> Floats:
        random = np.random.default_rng(_SEED)
        after = self.units.after.astype(np.float64)
        labels = np.repeat(after[:, None], count + 1, axis=1)
        labels[self.alone, 1:] = random.permuted(labels[self.alone, 1:], axis=0)
        swap = random.integers(0, 2, (self.pairs.shape[1], count)).astype(np.bool_)
        for unit in self.pairs:
            labels[unit, 1:] = np.where(swap, 1 - labels[unit, 1:], labels[unit, 1:])
        return labels


class _Compared(NamedTuple):
    """The comparison of rows under permutations; parts: squares of the error due to hosts in both groups, only before, only after."""

    before: Floats
    after: Floats
    error: Floats
    statistic: Floats
    parts: Floats


class _Deal:
    """Shares and their differences for columns of labels (1: after)."""

    def __init__(self, design: Design, labels: Floats) -> None:
        units = design.units
        self._weight, self._labels = units.weight, labels
        self._first, self._second = design.pairs
        self._alone = design.alone
        self._total_weights = (units.weight @ (1 - labels), units.weight @ labels)
        open_part = units.weight**2 / np.maximum(units.samples, 1)
        self._open = (open_part @ (1 - labels)) / self._total_weights[0] ** 2 + (open_part @ labels) / self._total_weights[1] ** 2

    def of(self, shares: Floats) -> _Compared:
        """Compare each row (first axis) under each permutation."""
        amounts = shares * self._weight
        after = amounts @ self._labels
        before = (amounts.sum(axis=1)[:, None] - after) / self._total_weights[0]
        after /= self._total_weights[1]
        parts = np.stack([self._of_pairs(amounts, before, after), *self._of_others(amounts, before, after)])
        share = (amounts.sum(axis=1) / self._weight.sum())[:, None]
        least = np.clip(share * (1 - share), 0, None) * self._open
        error = np.sqrt(np.maximum(parts.sum(axis=0), least))
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(error > 0, np.abs(after - before) / error, 0.0)
        return _Compared(before, after, error, statistic, parts)

    def _of_others(self, amounts: Floats, before: Floats, after: Floats) -> tuple[Floats, Floats]:
        """Return the sums of squares of (x - w S) / W over units of hosts in one group, before and after."""
        if not len(self._alone):
            return np.zeros_like(before), np.zeros_like(before)
        x, w, label = amounts[:, self._alone], self._weight[self._alone], self._labels[self._alone]
        upper = [values @ label for values in (x * x, x * w, w * w)]
        lower = [values.sum(axis=-1, keepdims=True) - part for values, part in zip((x * x, x * w, w * w), upper, strict=True)]
        count = label.sum(axis=0)
        first, second = (
            np.clip(squares - 2 * share * mixed + share**2 * weights, 0, None) / total**2 * _widen(units)
            for share, total, units, (squares, mixed, weights) in (
                (before, self._total_weights[0], len(label) - count, lower),
                (after, self._total_weights[1], count, upper),
            )
        )
        return first, second

    def _of_pairs(self, amounts: Floats, before: Floats, after: Floats) -> Floats:
        """Return the sum of squares of (y - w S') / W' - (x - v S) / W over hosts in both groups; x, v before, y, w after."""
        if not len(self._first):
            return np.zeros_like(before)
        x, y = amounts[:, self._first], amounts[:, self._second]
        v, w = self._weight[self._first], self._weight[self._second]
        label = self._labels[self._second]  # 1: the second of the pair is after, as observed; else before

        def dealt(first: Floats, second: Floats) -> tuple[Floats, Floats]:
            """Return the sums over pairs of `first` if labelled so and of `second` if swapped; and the reverse."""
            moved = (first - second) @ label
            return moved + second.sum(axis=-1, keepdims=True), first.sum(axis=-1, keepdims=True) - moved

        lower, upper = self._total_weights
        (xx, yy), (xv, yw), (vv, ww), (yv, xw) = dealt(x * x, y * y), dealt(x * v, y * w), dealt(v * v, w * w), dealt(y * v, x * w)
        in_before = xx - 2 * before * xv + before**2 * vv
        in_after = yy - 2 * after * yw + after**2 * ww
        # (y - w S')(x - v S): x y and v w do not change with the labels
        both = (x * y).sum(axis=1)[:, None] - before * yv - after * xw + before * after * (v @ w)
        squares: Floats = in_before / lower**2 + in_after / upper**2 - 2 * both / (lower * upper)
        return np.clip(squares, 0, None) * _widen(np.full(label.shape[1], len(self._first)))


def _widen(count: Floats) -> Floats:
    """Return n / (n - 1): the mean that units are compared with is made of them."""
    factors: Floats = count / np.maximum(count - 1, 0.5)
    return factors


@lru_cache(4096)
def _reach(freedom: int) -> float:
    return student_quantile((1 + (1 - LEVEL)) / 2, freedom)


def _by_deals(shares: Floats, chosen: NDArray[np.int64], statistic: Floats, design: Design) -> Floats:
    """Return the share of permutations in which the greatest statistic of the row and all below it is at least as great."""
    deal = _Deal(design, design.deals(len(chosen)))
    order = np.argsort(statistic, kind="stable")
    greatest: Floats = np.zeros(0)
    counted = np.empty(len(chosen))
    for rows in _blocks(len(order)):
        statistics = deal.of(shares[chosen[order[rows]]]).statistic
        if len(greatest):
            statistics[0] = np.maximum(statistics[0], greatest)
        statistics = np.maximum.accumulate(statistics, axis=0)
        greatest = statistics[-1]
        counted[rows] = (statistics >= statistic[order[rows], None] * _SAME).mean(axis=1)
    # a greater statistic never has a greater probability
    result = np.empty(len(chosen))
    result[order] = np.maximum.accumulate(counted[::-1])[::-1]
    return result


def _by_student(statistic: Floats, freedom: NDArray[np.int64]) -> Floats:
    """Return two-sided probabilities by Student's distribution, with Holm's correction for the number of rows."""
    alone = np.array([2 * (1 - student_cdf(value, number)) for value, number in zip(statistic.tolist(), freedom.tolist(), strict=True)])
    order = np.argsort(alone, kind="stable")
    adjusted = np.minimum(np.maximum.accumulate(alone[order] * np.arange(len(order), 0, -1)), 1.0)
    result = np.empty(len(order))
    result[order] = adjusted
    return result
