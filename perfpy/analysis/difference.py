"""What changed between recordings: their histograms side by side, and which changes sampling noise does not explain.

What enters: reports of two or more recordings, the first of them the baseline.
What leaves: `Difference` values, one per event that all have. Rows are the
same if their texts are: addresses differ from one recording to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perfpy.analysis.histogram import Histogram
    from perfpy.analysis.reporting import Report

# the probability with which a recording compared with itself shows no mark at all
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Share:
    """One row in one recording: period and samples, and those of all rows together."""

    period: int
    samples: int
    total_period: int
    total_samples: int

    @property
    def percent(self) -> float:
        """The row's share of the period."""
        return 100.0 * self.period / self.total_period if self.total_period else 0.0

    @property
    def variance(self) -> float:
        """Of the percentage, from counting samples alone."""
        if not self.total_samples:
            return 0.0
        share = self.samples / self.total_samples
        return 1e4 * share * (1 - share) / self.total_samples


@dataclass(frozen=True)
class Change:
    """One row: its texts, and its share in each recording (None where it is not)."""

    texts: tuple[str, ...]
    shares: tuple[Share | None, ...]

    def delta(self, other: int) -> float | None:
        """Points that the share grew by; None where a recording lacks the row."""
        before, after = self.shares[0], self.shares[other]
        return None if before is None or after is None else after.percent - before.percent

    def ratio(self, other: int) -> float | None:
        """How many times the baseline's period."""
        before, after = self.shares[0], self.shares[other]
        return None if before is None or after is None or not before.period else after.period / before.period

    def weighted(self, other: int, weights: tuple[int, int]) -> float | None:
        """perf's weighted difference: the second weight times the new period, less the first times the baseline's."""
        before, after = self.shares[0], self.shares[other]
        return None if before is None or after is None else after.period * weights[1] - before.period * weights[0]

    def is_sure(self, other: int, deviations: float) -> bool:
        """Whether the share changed by more than so many standard deviations of sampling noise.

        A row that one recording lacks counts there as no samples.
        """
        before, after = self.shares[0], self.shares[other]
        change = (after.percent if after else 0.0) - (before.percent if before else 0.0)
        noise = math.sqrt((before.variance if before else 0.0) + (after.variance if after else 0.0))
        return abs(change) > deviations * noise


@dataclass(frozen=True)
class Difference:
    """All rows of one event; keys: names of the sort keys."""

    event: str
    keys: tuple[str, ...]
    histograms: tuple[Histogram, ...]
    changes: list[Change]

    @property
    def deviations(self) -> float:
        """How many standard deviations a change must have so that noise alone marks none of all the rows."""
        return NormalDist().inv_cdf(1 - (1 - _CONFIDENCE) / 2 / max(len(self.changes), 1))


Measure = Callable[[Change], "float | None"]


def differences(reports: Sequence[Report], measure: Measure, *, baseline_only: bool = False) -> list[Difference]:
    """The events that all reports have; rows in order of `measure`, the largest first, rows without one last."""
    found = []
    for histogram in reports[0].histograms:
        name = histogram.leader.event.name
        same = [next((h for h in report.histograms if h.leader.event.name == name), None) for report in reports]
        histograms = tuple(h for h in same if h is not None)
        if len(histograms) == len(reports):
            found.append(_difference(name, histograms, measure, baseline_only=baseline_only))
    return found


def _difference(name: str, histograms: tuple[Histogram, ...], measure: Measure, *, baseline_only: bool) -> Difference:
    keys = tuple(key.name for key in histograms[0].layout.keys)
    tables = [_shares(histogram, keys) for histogram in histograms]
    rows = dict.fromkeys(tables[0] if baseline_only else (texts for table in tables for texts in table))
    changes = [Change(texts, tuple(table.get(texts) for table in tables)) for texts in rows]

    def order(change: Change) -> tuple[bool, float, float, tuple[str, ...]]:
        value, before = measure(change), change.shares[0]
        return value is None, -(value or 0.0), -(before.percent if before else 0.0), change.texts

    return Difference(name, keys, histograms, sorted(changes, key=order))


def _shares(histogram: Histogram, keys: tuple[str, ...]) -> dict[tuple[str, ...], Share]:
    """Texts -> share; rows with equal texts are added up."""
    total = histogram.leader
    found: dict[tuple[str, ...], Share] = {}
    for row in histogram.rows():
        texts = tuple(row.texts[key] for key in keys)
        period, samples = row.values["period"][0], row.values["samples"][0]
        known = found.get(texts)
        if known is not None:
            period, samples = period + known.period, samples + known.samples
        found[texts] = Share(period, samples, total.period, total.samples)
    return found
