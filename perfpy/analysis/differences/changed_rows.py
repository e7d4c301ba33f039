"""Rows whose cost changed between two recordings of the same work, beyond sampling noise.

Both the cost and its share of the total are tested, because either may matter: a function that takes as long
as before has a smaller share of a program that takes longer, and in a system-wide recording of
twice the time all functions take twice as much. One level
holds for all tests of a table (perfpy.analysis.differences.proportions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.analysis.differences.proportions import LEVEL, amount_chance, chance, correct_for_many_tests

if TYPE_CHECKING:
    from perfpy.analysis.differences.difference import Difference, Part


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
