"""What changed between two recordings of the same work, and what the noise of sampling explains.

What enters: a Difference of two recordings. What leaves: its totals, and a ChangedRow for each row:
its cost before and after, and whether the cost, or its share of all, has changed.

Both are tested, as either may be what matters: a function that takes as long
as before has a smaller share of a program that takes longer, and of a system
that was watched for twice the time all have taken twice as much. One level
holds for all tests of a table (perfpy.analysis.report.proportions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.analysis.report.proportions import LEVEL, amount_chance, chance, corrected

if TYPE_CHECKING:
    from perfpy.analysis.report.difference import Difference, Part


class Amount(NamedTuple):
    """Samples and what they stand for."""

    samples: int = 0
    period: int = 0


class ChangedRow(NamedTuple):
    """One row: its names, what it has in both, and whether that differs by more than noise: as an amount, as a share."""

    names: tuple[str | None, ...]
    before: Amount
    after: Amount
    by_amount: bool
    by_share: bool

    @property
    def change(self) -> int:
        """By how much its cost changed."""
        return self.after.period - self.before.period

    @property
    def has_changed(self) -> bool:
        """Whether noise does not explain it."""
        return self.by_amount or self.by_share


def totals(found: Difference) -> tuple[Amount, Amount]:
    """What the filters leave of both recordings."""
    leaders = [histogram.leader if histogram else None for histogram in found.histograms[:2]]
    before, after = (Amount(leader.kept_samples, leader.kept_period) if leader else Amount() for leader in leaders)
    return before, after


def changed_rows(found: Difference) -> list[ChangedRow]:
    """All rows, those first whose costs changed most."""
    before, after = totals(found)
    share = baseline_share(before, after)
    parts = [(_amount(row.parts[0]), _amount(row.parts[1])) for row in found.changes]
    tests = [amount_chance(old.samples, new.samples, share) for old, new in parts]
    tests += [
        chance(min(old.samples, before.samples), before.samples, min(new.samples, after.samples), after.samples) for old, new in parts
    ]
    verdicts = [p < LEVEL for p in corrected(tests)]
    rows = [
        ChangedRow(row.names, old, new, by_amount, by_share)
        for row, (old, new), by_amount, by_share in zip(found.changes, parts, verdicts, verdicts[len(parts) :], strict=False)
    ]
    return sorted(rows, key=lambda row: -abs(row.change))


def _amount(part: Part | None) -> Amount:
    return Amount(part.samples, part.period) if part else Amount()


def baseline_share(before: Amount, after: Amount) -> float:
    """How probable it is that a sample is of the baseline, if both cost the same: less where each stands for more."""
    each = [amount.period / amount.samples if amount.samples else 0 for amount in (before, after)]
    return each[1] / (each[0] + each[1]) if all(each) else 0.5


def has_grown_or_shrunk(before: Amount, after: Amount) -> bool:
    """Whether the amounts of two recordings differ by more than noise."""
    return amount_chance(before.samples, after.samples, baseline_share(before, after)).p < LEVEL
