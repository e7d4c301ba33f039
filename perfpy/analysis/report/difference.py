"""What changed between recordings: their histograms side by side.

What enters: reports of two or more recordings, the first of them the baseline.
What leaves: a `Difference` for each event of the baseline, its rows in perf
diff's order.

Addresses differ between builds, so that rows are paired by what they are
called: by the names of functions (all that have none, of one file, are one
row) and by the texts of other keys. A row shows the first of its entries in
the order of perf's tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from perfpy.analysis.report.histogram import insertion_order
from perfpy.analysis.report.proportions import chance, corrected
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

    Order: TypeAlias = tuple[object, ...]
    Naming: TypeAlias = Callable[[int, str, str], str]

_UNKNOWN_FILE = "[unknown]"


@dataclass(frozen=True)
class Compute:
    """What is computed of a row's old and new period.

    kind: delta, delta-abs (points of the share), ratio (new to old) or wdiff
    (the second weight times the new, less the first times the old).
    """

    kind: str = "delta-abs"
    weights: tuple[int, int] = (1, 1)

    @property
    def of_shares(self) -> bool:
        """Whether shares are compared, which are known of rows that the baseline lacks, too."""
        return self.kind in ("delta", "delta-abs")


@dataclass(slots=True)
class Part:
    """One row in one recording: its first entry there, and the sums of all that it is made of."""

    entry: int
    period: int
    samples: int
    filtered: bool


@dataclass
class DifferenceRow:
    """One row: what it is called, key by key (None: a function without a name), and its part in each recording."""

    names: tuple[str | None, ...]
    parts: list[Part | None]

    @property
    def shown(self) -> tuple[int, Part]:
        """The recording and the part whose texts are shown: the first that has it."""
        return next((index, part) for index, part in enumerate(self.parts) if part is not None)

    @property
    def is_new(self) -> bool:
        """Whether the baseline lacks it."""
        return self.parts[0] is None

    @property
    def is_paired(self) -> bool:
        """Whether it is in another recording than the baseline."""
        return any(self.parts[1:])

    @property
    def base_period(self) -> int:
        """Its period in the baseline, 0 where that lacks it."""
        return self.parts[0].period if self.parts[0] else 0


@dataclass
class Difference:
    """All rows of one event.

    histograms: of each recording, None where it lacks the event; totals: what
    100 % is, of each, for what is computed; base_total: for the baseline's own column
    (with -b, of the rows that are left).
    """

    event: str
    histograms: list[Histogram | None]
    compute: Compute
    totals: list[int]
    base_total: int
    changes: list[DifferenceRow]

    @property
    def others(self) -> range:
        """The recordings that are compared with the baseline."""
        return range(1, len(self.histograms))

    def baseline(self, change: DifferenceRow) -> float:
        """A row's share of the baseline, in percent."""
        return 100.0 * change.base_period / self.base_total if self.base_total else 0.0

    def value(self, change: DifferenceRow, index: int) -> float | None:
        """What is computed of a row for a recording, None where that lacks it; delta-abs keeps the sign.

        Of a baseline without samples shares are nan.
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
        """A period in percent of a recording; nan of a recording without samples."""
        return period * 100.0 / self.totals[index] if self.totals[index] else math.nan

    def samples(self, index: int) -> int:
        """How many samples 100 % of a recording are."""
        histogram = self.histograms[index]
        if histogram is None:
            return 0
        return histogram.leader.shown_samples if histogram.options.rows.relative_percentages else histogram.leader.samples

    @cached_property
    def noise(self) -> list[list[float]]:
        """For each row and each of the other recordings: how probable it is that sampling alone shows such a change.

        In any row of the table, that is: see perfpy.analysis.report.proportions. A
        row that a recording lacks has no samples there.
        """
        tests = [chance(*self._counts(change, 0), *self._counts(change, index)) for change in self.changes for index in self.others]
        found = iter(corrected(tests))
        return [[next(found) for _ in self.others] for _ in self.changes]

    def _counts(self, change: DifferenceRow, index: int) -> tuple[int, int]:
        part, total = change.parts[index], self.samples(index)
        # rows that others joined may hold samples that a filter excludes
        return (min(part.samples, total) if part else 0), total

    def order(self, change: DifferenceRow, first: int) -> Order:
        """What rows are sorted by, ascending: a chosen recording's value, the baseline, all values, the names."""
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
    """Names in the order of their bytes, numbers in theirs; files without a name first, functions without one last."""
    if name is None:
        return (3, 0, b"")
    if name == _UNKNOWN_FILE:
        return (0, 0, b"")
    number = name.strip()
    return (1, int(number), b"") if number.isdecimal() else (2, 0, name.encode(errors="surrogateescape"))


def differences(
    reports: Sequence[Report], compute: Compute, *, baseline_only: bool = False, order: int = 1, naming: Naming | None = None
) -> Iterator[Difference]:
    """The events of the first report beside the same ones of the others.

    baseline_only: without rows that only one recording, or only others than the
    baseline have; order: the recording whose values decide the order of rows, 0 for the baseline;
    naming: (recording, key, what it is called there) -> by what rows are paired; None: as they are called.
    """
    told: set[Histogram] = set()
    for base in reports[0].histograms:
        histograms = [base, *(_same_event(base, report) for report in reports[1:])]
        yield _difference(histograms, compute, _changes(histograms, told, naming), baseline_only=baseline_only, order=order)
        told.update(histogram for histogram in histograms if histogram is not None)


def _same_event(base: Histogram, report: Report) -> Histogram | None:
    """The table of the same event: of several that count the same thing the one of the same name, else the first."""
    wanted = base.leader.event
    alike = [
        histogram
        for histogram in report.histograms
        if (histogram.leader.event.attr.type, histogram.leader.event.attr.config) == (wanted.attr.type, wanted.attr.config)
    ]
    return next((histogram for histogram in alike if histogram.leader.event.name == wanted.name), alike[0] if alike else None)


def _changes(histograms: list[Histogram | None], told: set[Histogram], naming: Naming | None) -> list[DifferenceRow]:
    """The rows of all recordings; of tables that an earlier event was compared with (told) those that the baseline has, too."""
    changes: dict[tuple[str | None, ...], DifferenceRow] = {}
    for index, histogram in enumerate(histograms):
        if histogram is None:
            continue
        for names, part in _parts(histogram, index, naming).items():
            if histogram in told and names not in changes:
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
        base_total = sum(change.base_period for change in rows if not (relative and change.shown[1].filtered))
    totals = [_total(histogram) if histogram else 0 for histogram in histograms]
    found = Difference(base.leader.event.name, histograms, compute, totals, base_total, [])
    found.changes = sorted((row for row in rows if not row.shown[1].filtered), key=lambda row: found.order(row, order))
    return found


def _total(histogram: Histogram) -> int:
    """What shares that are compared are of: of the samples that filters leave, whatever their rows are joined with."""
    return histogram.leader.kept_period if histogram.options.rows.relative_percentages else histogram.leader.period


def _parts(histogram: Histogram, index: int, naming: Naming | None) -> dict[tuple[str | None, ...], Part]:
    """The rows of a histogram by their names, those of equal names joined."""
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
        known = parts.get(names)
        if known is None:
            parts[names] = Part(entry, period, samples, bool(histogram.filtered[entry]))
        else:
            known.period += period
            known.samples += samples
    return parts
