"""The histograms of two or more recordings side by side; the first one is the baseline, and rows are in perf diff's order.

Addresses differ between builds, so rows are paired by the names
of functions (all without a name, of one file, are one
row) and by the texts of other keys. A row shows the first of its entries in
the order of perf's tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from perfpy.analysis.differences.proportions import chance, correct_for_many_tests
from perfpy.analysis.report.histogram import insertion_order
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

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

        See perfpy.analysis.differences.proportions. A recording without the row has no samples there.
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
    chosen = histogram.order
    parts: dict[tuple[str | None, ...], Part] = {}
    for entry in chosen[insertion_order(chosen, histogram.layout, histogram.keys)].tolist():
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
