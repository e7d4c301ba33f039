"""The rules of the marker perf_budget: limits of a test's costs, and a `Verdict` for each.

This module counts nothing and does not depend on pytest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.counts.comparison import HIGHER, LOWER, compare_amounts
from perfpy.counts.spread import median
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: runs where a baseline is to be compared with: fewer could not tell
RUNS_TO_COMPARE: Final = 5
TOLERANCE: Final = 0.05
_FAULTS: Final = re.compile(r"(?:^|[/=])(?:page-|minor-|major-)?faults\b|page_fault")
#: what a test whose runs become the baseline may cost
NEW_BASELINE: Final = "the new baseline"


class Budget(NamedTuple):
    """What one event may come to in a test.

    event: as -e takes it; at_most: in the unit in which it is printed
    (task-clock: msec), None: as much as the baseline says; repeat: how many
    runs are counted; tolerance: what is no matter beside a baseline, as a part of it.
    """

    event: str
    at_most: float | None = None
    repeat: int = RUNS_TO_COMPARE
    tolerance: float = TOLERANCE


class Verdict(NamedTuple):
    """How a test stands to a budget.

    amount: the median of its runs; allowed: a text that says what it may be;
    complaint: why that is too much, "" where it is not.
    """

    amount: float
    allowed: str
    complaint: str = ""


def budget(event: str, *, at_most: float | None = None, repeat: int | None = None, tolerance: float = TOLERANCE) -> Budget:
    """A budget as the marker has it. Raises UsageError."""
    if repeat is None:
        repeat = RUNS_TO_COMPARE if at_most is None else 1
    for name, value in (("at_most", at_most), ("repeat", repeat), ("tolerance", tolerance)):
        if value is not None and not isinstance(value, (int, float)):
            raise UsageError(f"perf_budget('{event}'): {name} is a number, in the unit in which the event is printed; not {value!r}")
    if repeat < 1 or tolerance < 0 or (at_most is not None and at_most < 0):
        raise UsageError(f"perf_budget('{event}'): at_most and tolerance are 0 or more, and repeat is at least 1")
    if at_most is None and _FAULTS.search(event):
        raise UsageError(
            f"perf_budget('{event}'): no baseline for page faults, because later runs reuse the memory of the first; set at_most"
        )
    return Budget(event, at_most, repeat, tolerance)


def judge(wanted: Budget, amounts: Sequence[float], unit: str, baseline: Sequence[float] | None) -> Verdict:
    """Whether these runs keep to the budget. baseline: those of another day, () where there are none; None: make these the baseline."""
    amount = median(amounts)
    if wanted.at_most is not None:
        allowed = f"at most {shown(wanted.at_most, unit)}"
        if amount <= wanted.at_most:
            return Verdict(amount, allowed)
        return Verdict(amount, allowed, f"{wanted.event} is {shown(amount, unit)}{_of_runs(amounts, unit)}, {allowed} is allowed")
    if baseline is None:
        return Verdict(amount, NEW_BASELINE)
    if not baseline:
        return Verdict(amount, "no baseline yet")
    return _beside_baseline(wanted, amounts, unit, baseline)


def _beside_baseline(wanted: Budget, amounts: Sequence[float], unit: str, baseline: Sequence[float]) -> Verdict:
    compared = compare_amounts(wanted.event, unit, baseline, amounts, least_change=wanted.tolerance)
    before = shown(compared.a.median, unit)
    if compared.verdict == LOWER:
        return Verdict(compared.b.median, f"as {before}, now less")
    if compared.verdict != HIGHER:
        return Verdict(compared.b.median, f"as {before}")
    much = "" if compared.change.estimate is None else f"{compared.change.estimate:.1%} "
    now = f"{shown(compared.b.median, unit)}{_of_runs(amounts, unit)} against {before}{_of_runs(baseline, unit)}"
    complaint = f"{wanted.event} is {much}higher than its baseline: {now}; --perf-update makes this the baseline"
    return Verdict(compared.b.median, f"as {before}", complaint)


def _of_runs(amounts: Sequence[float], unit: str) -> str:
    if len(amounts) < 2:
        return ""
    return f" ({len(amounts)} runs, {shown(min(amounts), unit)} to {shown(max(amounts), unit)})"


def shown(amount: float, unit: str) -> str:
    """A number as the table has it."""
    return f"{amount:,.2f} {unit}" if unit else f"{amount:,.0f}"
