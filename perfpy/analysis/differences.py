"""The histograms of two or more recordings side by side; the first one is the baseline, and rows are in perf diff's order.

Addresses differ between builds, so rows are paired by the names
of functions (all without a name, of one file, are one
row) and by the texts of other keys. A row shows the first of its entries in
the order of perf's tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from perfpy.abi.columns import ConvertibleTable
from perfpy.abi.framing import cut_comm
from perfpy.analysis.locations import ROLE_BITS
from perfpy.analysis.report.tables import insertion_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.analysis.stacks import Function, Stacks
    from perfpy.symbols.files.debug_files import SymbolOptions

    Order: TypeAlias = tuple[object, ...]
    Naming: TypeAlias = Callable[[int, str, str], str]


_UNKNOWN_FILE = "[unknown]"
_MOST_DIGITS = 20  # of a 64-bit number; a longer name is text: Python refuses to read 4,301 digits


@dataclass(frozen=True)
class Compute:
    """The computation of a row's value from its old and new period.

    Attributes:
        kind: delta, delta-abs (points of the share), ratio (new to old) or wdiff
            (the second weight times the new, less the first times the old).
        weights: of wdiff.
    """

    kind: str = "delta-abs"
    weights: tuple[int, int] = (1, 1)

    @property
    def of_shares(self) -> bool:
        """Whether shares are compared, which also exist for rows missing in the baseline."""
        return self.kind in ("delta", "delta-abs")


@dataclass(slots=True)
class Part:
    """One row in one recording: its first entry there, and the sums of all its entries."""

    entry: int
    period: int
    samples: int
    filtered: bool


@dataclass
class DifferenceRow:
    """One row: its name for each key (None: a function without a name), and its part in each recording."""

    names: tuple[str | None, ...]
    parts: list[Part | None]

    @property
    def displayed_part(self) -> tuple[int, Part]:
        """The recording and the part whose texts are shown: the first that exists."""
        return next((index, part) for index, part in enumerate(self.parts) if part is not None)

    @property
    def is_new(self) -> bool:
        """Whether the baseline lacks the row."""
        return self.parts[0] is None

    @property
    def is_paired(self) -> bool:
        """Whether another recording than the baseline has the row."""
        return any(self.parts[1:])

    @property
    def base_period(self) -> int:
        """The period in the baseline, 0 if it lacks the row."""
        return self.parts[0].period if self.parts[0] else 0


@dataclass
class Difference:
    """All rows of one event.

    Attributes:
        histograms: of each recording, None without the event.
        totals: 100 % of each recording, for the computation.
        base_total: 100 % of the baseline's column (with -b, of the remaining rows).
    """

    event: str
    histograms: list[Histogram | None]
    compute: Compute
    totals: list[int]
    base_total: int
    changes: list[DifferenceRow]

    @property
    def others(self) -> range:
        """The recordings compared with the baseline."""
        return range(1, len(self.histograms))

    def baseline(self, change: DifferenceRow) -> float:
        """Return a row's share of the baseline, in percent."""
        return 100.0 * change.base_period / self.base_total if self.base_total else 0.0

    def value(self, change: DifferenceRow, index: int) -> float | None:
        """Return a row's computed value for a recording, None if that lacks it; delta-abs keeps the sign.

        Shares of a baseline without samples are nan.
        """
        part = change.parts[index]
        if part is None:
            return None
        if self.compute.of_shares:
            return self.percent(part.period, index) - self.percent(change.base_period, 0)
        if self.compute.kind == "ratio":
            return part.period / (change.base_period or 1)
        old, new = self.compute.weights
        return part.period * new - change.base_period * old

    def percent(self, period: int, index: int) -> float:
        """Return a period in percent of a recording; nan without samples."""
        return period * 100.0 / self.totals[index] if self.totals[index] else math.nan

    def samples(self, index: int) -> int:
        """Return the number of samples that are 100 % of a recording."""
        histogram = self.histograms[index]
        if histogram is None:
            return 0
        return histogram.leader.shown_samples if histogram.options.rows.relative_percentages else histogram.leader.samples

    @cached_property
    def noise(self) -> list[list[float]]:
        """For each row and each other recording, the probability that sampling alone shows this change in any row.

        See perfpy.analysis.differences. A recording without the row has no samples there.
        """
        tests = [chance(*self._counts(change, 0), *self._counts(change, index)) for change in self.changes for index in self.others]
        probabilities = iter(correct_for_many_tests(tests))
        return [[next(probabilities) for _ in self.others] for _ in self.changes]

    def _counts(self, change: DifferenceRow, index: int) -> tuple[int, int]:
        part, total = change.parts[index], self.samples(index)
        # joined rows may contain samples that a filter excludes
        return (min(part.samples, total) if part else 0), total

    def order(self, change: DifferenceRow, first: int) -> Order:
        """Return a row's sort key, ascending: a chosen recording's value, the baseline, all values, the names."""
        chosen = self._rank(change, first, new_last=not self.compute.of_shares) if first else ()
        values = [item for index in self.others for item in (not change.is_paired, *self._rank(change, index, new_last=False))]
        return (*chosen, -change.base_period, *values, *map(_name_rank, change.names))

    def _rank(self, change: DifferenceRow, index: int, *, new_last: bool) -> Order:
        value = self.value(change, index)
        if value is None:
            return (True, False, 0.0)
        if new_last and change.is_new:
            return (False, True, 0.0)
        if math.isnan(value):
            return (False, False, 0.0)
        return (False, False, -abs(value) if self.compute.kind == "delta-abs" else -value)


def _name_rank(name: str | None) -> Order:
    """Return the sort key of a name: by bytes, or by value if a number; files without a name first, functions without one last."""
    if name is None:
        return (3, 0, b"")
    if name == _UNKNOWN_FILE:
        return (0, 0, b"")
    number = name.strip()
    if number.isdecimal() and len(number) <= _MOST_DIGITS:
        return (1, int(number), b"")
    return (2, 0, name.encode(errors="surrogateescape"))


def differences(
    reports: Sequence[Report], compute: Compute, *, baseline_only: bool = False, order: int = 1, naming: Naming | None = None
) -> Iterator[Difference]:
    """Yield the events of the first report with the same events of the others.

    Args:
        reports: the baseline first.
        compute: the computation.
        baseline_only: skip rows that only one recording has, or only others than the baseline.
        order: the recording whose values sort the rows, 0 for the baseline.
        naming: (recording, key, name) -> name to pair rows by; None for the names themselves.
    """
    compared: set[Histogram] = set()
    for base in reports[0].histograms:
        histograms = [base, *(_same_event(base, report) for report in reports[1:])]
        yield _difference(histograms, compute, _changes(histograms, compared, naming), baseline_only=baseline_only, order=order)
        compared.update(histogram for histogram in histograms if histogram is not None)


def _same_event(base: Histogram, report: Report) -> Histogram | None:
    """Return the table of the same event: among those of equal config the one of the same name, else the first."""
    base_event = base.leader.event
    alike = [
        histogram
        for histogram in report.histograms
        if (histogram.leader.event.attr.type, histogram.leader.event.attr.config) == (base_event.attr.type, base_event.attr.config)
    ]
    return next((histogram for histogram in alike if histogram.leader.event.name == base_event.name), alike[0] if alike else None)


def _changes(histograms: list[Histogram | None], compared: set[Histogram], naming: Naming | None) -> list[DifferenceRow]:
    """Return the rows of all recordings; of tables compared with an earlier event, only rows that the baseline has, too."""
    changes: dict[tuple[str | None, ...], DifferenceRow] = {}
    for index, histogram in enumerate(histograms):
        if histogram is None:
            continue
        for names, part in _parts(histogram, index, naming).items():
            if histogram in compared and names not in changes:
                continue
            change = changes.setdefault(names, DifferenceRow(names, [None] * len(histograms)))
            change.parts[index] = part
    return list(changes.values())


def _difference(
    histograms: list[Histogram | None], compute: Compute, rows: list[DifferenceRow], *, baseline_only: bool, order: int
) -> Difference:
    base = histograms[0]
    assert base is not None
    base_total = base.total()
    if baseline_only:
        rows = [change for change in rows if change.is_paired and not change.is_new]
        relative = base.options.rows.relative_percentages
        base_total = sum(change.base_period for change in rows if not (relative and change.displayed_part[1].filtered))
    totals = [_total(histogram) if histogram else 0 for histogram in histograms]
    difference = Difference(base.leader.event.name, histograms, compute, totals, base_total, [])
    difference.changes = sorted((row for row in rows if not row.displayed_part[1].filtered), key=lambda row: difference.order(row, order))
    return difference


def _total(histogram: Histogram) -> int:
    """Return 100 % of the compared shares: the samples after filters, however rows are joined."""
    return histogram.leader.kept_period if histogram.options.rows.relative_percentages else histogram.leader.period


def _parts(histogram: Histogram, index: int, naming: Naming | None) -> dict[tuple[str | None, ...], Part]:
    """Return the rows of a histogram by name, rows of equal names joined."""
    keys = [key.name for key in histogram.layout.keys]
    locations = histogram.locations
    chosen = np.sort(histogram.order)  # entries are numbered in the order in which perf inserts them
    parts: dict[tuple[str | None, ...], Part] = {}
    for entry in chosen[insertion_order(chosen, histogram.layout, histogram.keys, joins_commands=False)].tolist():
        frame = histogram.location(entry) >> ROLE_BITS
        names = tuple((locations.name(frame) or None) if key == "symbol" else histogram.text(key, entry) for key in keys)
        if naming:
            names = tuple(name and naming(index, key, name) for key, name in zip(keys, names, strict=True))
        period, samples = histogram.value("period", entry), histogram.value("samples", entry)
        part = parts.get(names)
        if part is None:
            parts[names] = Part(entry, period, samples, bool(histogram.joined.filtered[entry]))
        else:
            part.period += period
            part.samples += samples
    return parts


# Rows whose cost changed between two recordings of the same work, beyond sampling noise.
#
# Both the cost and its share of the total are tested, because either may matter: a function that takes as long
# as before has a smaller share of a program that takes longer, and in a system-wide recording of
# twice the time all functions take twice as much. One level
# holds for all tests of a table (perfpy.analysis.differences).


class Amount(NamedTuple):
    """Samples and the sum of their periods."""

    samples: int = 0
    period: int = 0


class ChangedRow(NamedTuple):
    """One row: its names, its amounts, and whether amount and share differ by more than noise."""

    names: tuple[str | None, ...]
    before: Amount
    after: Amount
    by_amount: bool
    by_share: bool

    @property
    def change(self) -> int:
        """The change of the cost."""
        return self.after.period - self.before.period

    @property
    def has_changed(self) -> bool:
        """Whether the change exceeds noise."""
        return self.by_amount or self.by_share

    def exceeds(self, limit: float) -> bool:
        """Whether the row costs more than before, beyond noise, and by more than a limit of periods (diff --fail-above)."""
        return self.by_amount and self.change > limit


def totals(difference: Difference) -> tuple[Amount, Amount]:
    """Return the filtered totals of both recordings."""
    leaders = [histogram.leader if histogram else None for histogram in difference.histograms[:2]]
    before, after = (Amount(leader.kept_samples, leader.kept_period) if leader else Amount() for leader in leaders)
    return before, after


def changed_rows(difference: Difference) -> list[ChangedRow]:
    """Return all rows, sorted by the change of their costs."""
    before, after = totals(difference)
    share = baseline_share(before, after)
    parts = [(_amount(row.parts[0]), _amount(row.parts[1])) for row in difference.changes]
    tests = [amount_chance(old.samples, new.samples, share) for old, new in parts]
    tests += [
        chance(min(old.samples, before.samples), before.samples, min(new.samples, after.samples), after.samples) for old, new in parts
    ]
    verdicts = [p < LEVEL for p in correct_for_many_tests(tests)]
    rows = [
        ChangedRow(row.names, old, new, by_amount, by_share)
        for row, (old, new), by_amount, by_share in zip(difference.changes, parts, verdicts, verdicts[len(parts) :], strict=False)
    ]
    return sorted(rows, key=lambda row: -abs(row.change))


def _amount(part: Part | None) -> Amount:
    return Amount(part.samples, part.period) if part else Amount()


def baseline_share(before: Amount, after: Amount) -> float:
    """Return the probability that a sample is of the baseline if both cost the same: lower if its samples stand for more."""
    each = [amount.period / amount.samples if amount.samples else 0 for amount in (before, after)]
    return each[1] / (each[0] + each[1]) if all(each) else 0.5


def has_grown_or_shrunk(before: Amount, after: Amount) -> bool:
    """Whether the amounts of two recordings differ by more than noise."""
    return amount_chance(before.samples, after.samples, baseline_share(before, after)).p < LEVEL


# Test whether a row's share differs between two recordings by more than sampling noise.
#
# The test is Fisher's exact one on the 2x2 table (on the row or not, before or
# after). It uses sample *counts*: what is random is where samples fall, and the
# period is only each sample's weight. It is exact because most rows of
# a profile have a handful of samples, for which the normal approximation marks far
# too many; above some thousand samples both agree, and the
# approximation is used.
#
# A table has hundreds of rows, and one in twenty of them would be marked by
# chance. The level is therefore divided by the number of tests, so that
# without any change at most 5 of 100 tables have a mark. Only tests
# that can be significant at all count (Tarone 1990):
# a row with three samples cannot, however they fall, and must not reduce
# the power for the others.


#: the probability that a table without any change has a mark
LEVEL: Final = 0.05
#: samples on a row from which on the normal approximation is used
_MANY: Final = 4000
# probabilities that differ by less are equal except for rounding
_SAME: Final = 1 + 1e-7


class Chance(NamedTuple):
    """p: the probability that sampling alone shows this difference, or a larger one; least: the smallest possible p for these samples."""

    p: float
    least: float


@cache
def chance(before: int, n: int, after: int, m: int) -> Chance:
    """Return the two-sided probability of `before` of n and `after` of m samples if both have one share."""
    together = before + after
    if not together or not n or not m or together == n + m:
        return Chance(1.0, 1.0)
    if together > _MANY:
        return Chance(_normal(before, n, after, m), 0.0)
    low = max(0, together - m)
    return _two_sided(_hypergeometric(low, min(together, n), together, n, m), before - low)


def _two_sided(odds: NDArray[np.float64], count: int) -> Chance:
    """Sum the outcomes at most as probable as the observed one; and the least probable ones."""
    own = odds[count] * _SAME
    least = odds.min() * _SAME
    return Chance(min(1.0, float(odds[odds <= own].sum())), min(1.0, float(odds[odds <= least].sum())))


@cache
def amount_chance(before: int, after: int, share: float) -> Chance:
    """Return the two-sided probability of `before` among all samples, if each is from before with probability `share`.

    The test compares amounts, not parts of a whole: `share` follows from what a sample
    stands for in each recording, 1/2 if that is equal. (Przyborowski and Wilenski 1940: two Poisson counts.)
    """
    together = before + after
    if not together or not 0 < share < 1:
        return Chance(1.0, 1.0)
    if together > _MANY:
        deviation = math.sqrt(together * share * (1 - share))
        return Chance(math.erfc(abs(before - together * share) / deviation / math.sqrt(2)), 0.0)
    x = np.arange(together, dtype=np.float64)
    odds = _odds(np.log(together - x) - np.log(x + 1) + math.log(share / (1 - share)))
    return _two_sided(odds, before)


def _hypergeometric(low: int, high: int, together: int, n: int, m: int) -> NDArray[np.float64]:
    """Return the probabilities that low ... high of the samples are among the n, from the ratios of neighbours."""
    x = np.arange(low, high, dtype=np.float64)
    ratios = np.log(together - x) + np.log(n - x) - np.log(x + 1) - np.log(m - together + x + 1)
    return _odds(ratios)


def _odds(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities from the logarithms of the ratios of neighbours."""
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    odds: NDArray[np.float64] = np.exp(logs - logs.max())
    odds /= odds.sum()
    return odds


def _normal(before: int, n: int, after: int, m: int) -> float:
    share = (before + after) / (n + m)
    deviation = math.sqrt(share * (1 - share) * (1 / n + 1 / m))
    return math.erfc(abs(before / n - after / m) / deviation / math.sqrt(2))


def number_of_tests(chances: Sequence[Chance], level: float = LEVEL) -> int:
    """Return the divisor of the level: the number of tests that can be significant at the divided level."""
    least = np.sort(np.array([each.least for each in chances]))
    for divisor in range(1, len(least) + 1):
        if np.searchsorted(least, level / divisor, side="right") <= divisor:
            return divisor
    return max(len(least), 1)


def correct_for_many_tests(chances: Sequence[Chance], level: float = LEVEL) -> list[float]:
    """Return for each test the probability that a table without changes shows as much in any row; 1 if it cannot be significant."""
    tests = number_of_tests(chances, level)
    return [min(1.0, each.p * tests) if each.least <= level / tests else 1.0 for each in chances]


# The changes between two recordings as values: for programs, and for limits.


_UNNAMED = "[unknown]"


class RecordingChanges(ConvertibleTable):
    """The changes of one event: a sequence of ChangedRow, sorted by the change of costs.

    Attributes:
        event: its name.
        keys: of the rows' names.
        before, after: the Amounts (samples, period) of everything.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as before, perfpy.open("perf.data") as after:
    ...     (changes,) = perfpy.diff(before, after, by="comm")
    >>> changes.event, [(row.names, row.has_changed) for row in changes]
    ('cpu-clock:u', [(('busy',), False)])
    """

    def __init__(self, difference: Difference) -> None:
        self._difference = difference
        self.event = difference.event
        base = difference.histograms[0]
        self.keys = [key.name for key in base.layout.keys] if base else []
        self.before: Amount
        self.after: Amount
        self.before, self.after = totals(difference)

    @cached_property
    def rows(self) -> list[ChangedRow]:
        """All rows."""
        return changed_rows(self._difference)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[ChangedRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> ChangedRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ChangedRow]: ...
    def __getitem__(self, index: int | slice) -> ChangedRow | list[ChangedRow]:
        return self.rows[index]

    def above(self, by: float = 0.0) -> list[ChangedRow]:
        """Return the rows that cost more than before, beyond noise, and by more than `by` of the total before (0.02: 2 %)."""
        return [row for row in self.rows if row.exceeds(by * self.before.period)]

    def name(self, row: ChangedRow) -> str:
        """Return a row's names as one text."""
        return " ".join(name or _UNNAMED for name in row.names)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the rows as columns: each key, the periods and samples "before" and "after", "change", and whether it exceeds noise."""
        columns: dict[str, list[Any]] = {key: [row.names[index] for row in self.rows] for index, key in enumerate(self.keys)}
        columns |= {
            "before": [row.before.period for row in self.rows],
            "after": [row.after.period for row in self.rows],
            "change": [row.change for row in self.rows],
            "samples_before": [row.before.samples for row in self.rows],
            "samples_after": [row.after.samples for row in self.rows],
            "has_changed": [row.has_changed for row in self.rows],
        }
        return columns

    def __repr__(self) -> str:
        changed = sum(row.has_changed for row in self.rows)
        return f"<RecordingChanges of {self.event}: {self.before.period} -> {self.after.period}, {changed} of {len(self)} rows changed>"


def recording_changes(before: Report, after: Report, naming: Naming) -> list[RecordingChanges]:
    """Return the changes of each event that both reports have."""
    compared = differences([before, after], Compute(), naming=naming)
    return [RecordingChanges(one) for one in compared if all(histogram is not None for histogram in one.histograms)]


def names_for_both(
    before: Mapping[str, int], after: Mapping[str, int], *, ignore_comm: bool | None = None, full_names: bool = False
) -> Naming:
    """Return common names for both recordings; before, after: the periods of their commands (Counterparts)."""
    from perfpy.symbols.demangling.short_names import without_instance

    parts = Counterparts.of(before, after, ignore=ignore_comm)

    def name(index: int, key: str, text: str) -> str:
        text = text.strip()
        if key == "symbol":
            return text if full_names else without_instance(text)
        return parts.command(index, text) if key == "comm" else parts.file(index, text) if key == "dso" else text

    return name


# The type of recordings, and of groups of recordings, that perfpy.diff compares; for type checkers.


#: the changes of one event
Changes = TypeVar("Changes")


class Comparable(Protocol[Changes]):
    """A Recording, or Recordings."""

    def changes(self, after: Any, by: str | Sequence[str] = ..., *, symbols: SymbolOptions | None = ...) -> list[Changes]:
        """Return the changes to `after`, for each event that both have."""


# Match names that differ between two recordings of the same program: it was renamed, or built elsewhere.
#
# Counterparts gives the command and the program's file one name in both: `old → new`.


#: the share that makes one command the only one; the program's starter has a few samples, too
_NEARLY_ALL: Final = 0.95
_ARROW: Final = " \N{RIGHTWARDS ARROW} "


def main_command(periods: Mapping[str, int]) -> str:
    """Return the only command of a recording; "" if there are several."""
    most = max(periods, key=lambda name: periods[name], default="")
    return most if most and periods[most] >= _NEARLY_ALL * sum(periods.values()) else ""


class Counterparts(NamedTuple):
    """The only command of each of two recordings.

    Attributes:
        mains: "" for several commands.
        together: the common name if the names of all commands are ignored.
    """

    mains: tuple[str, str] = ("", "")
    together: str = ""

    @classmethod
    def of(cls, before: Mapping[str, int], after: Mapping[str, int], *, ignore: bool | None) -> Counterparts:
        """Match the commands by their periods. ignore: ignore commands' names; None: unless each recording has one."""
        if ignore is False:
            return cls()
        mains = main_command(before), main_command(after)
        matched = mains if all(mains) else ("", "")
        return cls(matched, (_join_command(matched) or "all commands") if ignore else "")

    def command(self, index: int, name: str) -> str:
        """Return the common name of a command of one of the recordings."""
        return self.together or (_join_command(self.mains) if name and name == self.mains[index] else name)

    def file(self, index: int, name: str) -> str:
        """Return the common name of a file: a program's name begins with its command, which may be truncated."""
        main = self.mains[index]
        return _join_command(self.mains) if main and cut_comm(name) == main else name


def _join_command(names: tuple[str, str]) -> str:
    before, after = names
    return before if before == after else f"{before}{_ARROW}{after}"


# Match the stacks of two recordings: equal functions get equal names.
#
# The command and the program's file get one name (perfpy.analysis.differences), instances of one
# template become one function, and recursive calls are merged:
# their depth differs from run to run, and would split everything above.


def match_names(
    before: Sequence[Stacks], after: Sequence[Stacks], *, ignore_comm: bool | None = None, name: Callable[[str], str] = str
) -> tuple[list[Stacks], list[Stacks]]:
    """Return both with matched names. ignore_comm: see Counterparts; name: returns the name by which a function is compared."""
    parts = Counterparts.of(_commands(before), _commands(after), ignore=ignore_comm)
    first, second = ([_rename(one, index, parts, name) for one in stacks] for index, stacks in enumerate((before, after)))
    return first, second


def _commands(parts: Sequence[Stacks]) -> dict[str, int]:
    """Return the weight of each command, of the first event."""
    if not parts:
        return {}
    weights = np.bincount(parts[0].comm, weights=parts[0].weight.astype(np.float64), minlength=len(parts[0].comms))
    weights_of: dict[str, int] = {}
    for comm, weight in zip(parts[0].comms, weights.tolist(), strict=True):
        weights_of[comm] = weights_of.get(comm, 0) + int(weight)
    return weights_of


def _rename(stacks: Stacks, index: int, parts: Counterparts, name: Callable[[str], str]) -> Stacks:
    functions = [_matched_function(function, index, parts, name) for function in stacks.functions]
    numbers: dict[Function, int] = {}
    alike = np.array([numbers.setdefault(function, len(numbers)) for function in functions], np.int32)
    frames, offsets = _without_recursion(stacks.frames, stacks.offsets, alike)
    comms = [parts.command(index, comm) for comm in stacks.comms]
    return replace(stacks, functions=functions, comms=comms, frames=frames, offsets=offsets)


def _matched_function(function: Function, index: int, parts: Counterparts, name: Callable[[str], str]) -> Function:
    return function._replace(name=name(function.name), dso=parts.file(index, function.dso))


def _without_recursion(
    frames: NDArray[np.integer[Any]], offsets: NDArray[np.int64], alike: NDArray[np.int32]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
    """Drop all but the innermost of adjacent frames of one function; alike: function -> equal numbers for equal ones."""
    if not len(frames):
        return frames, offsets
    mask = np.diff(alike[frames], prepend=-1) != 0
    starts = offsets[:-1]
    mask[starts[starts < len(frames)]] = True
    before = np.concatenate([[0], np.cumsum(mask)])
    return frames[mask], before[offsets].astype(np.int64)
