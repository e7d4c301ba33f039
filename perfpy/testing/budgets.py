"""The rules of the marker perf_budget: limits of a test's costs, their baselines, and a `Verdict` for each.

The baselines are costs at an earlier time, in a JSON file beside the tests: {machine: {test: {event: [amount of each run, ...]}}}. Only
entries of similar machines count. This module counts nothing and does not depend on pytest.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from perfpy.counts.comparison import HIGHER, LOWER, compare_amounts
from perfpy.counts.spread import median
from perfpy.errors import UsageError
from perfpy.kernel.hardware.cpu_identity import cpu_identity
from perfpy.untrusted.files import read_named
from perfpy.untrusted.result_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence


_LARGEST: Final = 64 << 20
Amounts: TypeAlias = "dict[str, dict[str, list[float]]]"


def this_machine() -> str:
    """Return the name of the environment that counts depend on: the CPU and the Python version."""
    python = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    return " ".join(filter(None, (os.uname().machine, cpu_identity(), python)))


class Baselines:
    """The baselines of this machine. New ones are stored by write()."""

    def __init__(self, path: str, machine: str = "") -> None:
        self._path = path
        self._machine = machine or this_machine()
        self._all = _read(path)
        self._new: Amounts = {}

    def of(self, test: str, event: str) -> list[float]:
        """Return the amounts of a test's baseline runs, empty without a baseline."""
        return self._all.get(self._machine, {}).get(test, {}).get(event, [])

    def take(self, test: str, event: str, amounts: Sequence[float]) -> None:
        """Make these runs the baseline."""
        self._new.setdefault(test, {})[event] = list(amounts)

    def write(self) -> int:
        """Write new baselines to the file; return the number of tests. Other tests and machines keep theirs."""
        if self._new:
            self._all.setdefault(self._machine, {}).update(self._new)
            write_whole(self._path, f"{json.dumps(self._all, indent=1, sort_keys=True)}\n".encode())
        return len(self._new)


def _read(path: str) -> dict[str, Amounts]:
    try:
        content = json.loads(read_named(path, limit=_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot read the baselines of tests: {error}") from None
    if not _is_well_formed(content):
        raise UsageError(f"{path}: no baselines; expected machine, test and event with a list of numbers")
    machines: dict[str, Amounts] = content
    return machines


def _is_well_formed(content: object) -> bool:
    layer = [content]
    for _ in range(3):
        if not all(isinstance(value, dict) for value in layer):
            return False
        layer = [inner for value in layer if isinstance(value, dict) for inner in value.values()]
    return all(isinstance(value, list) and all(isinstance(number, int | float) for number in value) for value in layer)


#: runs for a comparison with a baseline; fewer would show no significant change
RUNS_TO_COMPARE: Final = 5
TOLERANCE: Final = 0.05
_SMALL: Final = 0.1  # below, two decimals say little
_FAULTS: Final = re.compile(r"(?:^|[/=])(?:page-|minor-|major-)?faults\b|page_fault")
#: the limit shown for runs that become the baseline
NEW_BASELINE: Final = "the new baseline"


class Budget(NamedTuple):
    """The limit of one event in a test.

    Attributes:
        event: in the syntax of -e.
        at_most: in the printed unit (task-clock: msec); None: compare with the baseline.
        repeat: number of counted runs.
        tolerance: accepted increase over the baseline, as a fraction.
    """

    event: str
    at_most: float | None = None
    repeat: int = RUNS_TO_COMPARE
    tolerance: float = TOLERANCE


class Verdict(NamedTuple):
    """The result of a test against a budget.

    Attributes:
        amount: the median of the runs.
        allowed: a text with the limit.
        complaint: why the amount is too high, "" if it is not.
    """

    amount: float
    allowed: str
    complaint: str = ""


def budget(event: str, *, at_most: float | None = None, repeat: int | None = None, tolerance: float = TOLERANCE) -> Budget:
    """Return the budget of a marker's arguments. Raises UsageError."""
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


def judge(budget: Budget, amounts: Sequence[float], unit: str, baseline: Sequence[float] | None) -> Verdict:
    """Judge runs by a budget.

    `baseline`: the earlier runs, () without a baseline; None: these runs become the baseline.
    """
    amount = median(amounts)
    if budget.at_most is not None:
        allowed = f"at most {format_amount(budget.at_most, unit)}"
        if amount <= budget.at_most:
            return Verdict(amount, allowed)
        return Verdict(
            amount, allowed, f"{budget.event} is {format_amount(amount, unit)}{_describe_runs(amounts, unit)}, {allowed} is allowed"
        )
    if baseline is None:
        return Verdict(amount, NEW_BASELINE)
    if not baseline:
        return Verdict(amount, "no baseline yet")
    return _compare_with_baseline(budget, amounts, unit, baseline)


def _compare_with_baseline(budget: Budget, amounts: Sequence[float], unit: str, baseline: Sequence[float]) -> Verdict:
    comparison = compare_amounts(budget.event, unit, baseline, amounts, least_change=budget.tolerance)
    before = format_amount(comparison.a.median, unit)
    if comparison.verdict == LOWER:
        return Verdict(comparison.b.median, f"as {before}, now less")
    if comparison.verdict != HIGHER:
        return Verdict(comparison.b.median, f"as {before}")
    increase = "" if comparison.change.estimate is None else f"{comparison.change.estimate:.1%} "
    now = f"{format_amount(comparison.b.median, unit)}{_describe_runs(amounts, unit)} against {before}{_describe_runs(baseline, unit)}"
    complaint = f"{budget.event} is {increase}higher than its baseline: {now}; --perf-update makes this the baseline"
    return Verdict(comparison.b.median, f"as {before}", complaint)


def _describe_runs(amounts: Sequence[float], unit: str) -> str:
    if len(amounts) < 2:
        return ""
    return f" ({len(amounts)} runs, {format_amount(min(amounts), unit)} to {format_amount(max(amounts), unit)})"


def format_amount(amount: float, unit: str) -> str:
    """Format an amount for the table; small ones with three significant digits."""
    usual = f"{amount:,.2f}" if unit else f"{amount:,.0f}"
    number = f"{amount:.3g}" if 0 < abs(amount) < (_SMALL if unit else 1) else usual
    return f"{number} {unit}" if unit else number
