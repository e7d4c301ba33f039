"""Run a test function under counters, as often as its budgets require."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from perfpy.capture.counting.region import Region
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from perfpy.counts.named_counts import Count
    from perfpy.testing.budgets import Budget


class Cost(NamedTuple):
    """The amounts of a test's runs for one event. `why_not`: the reason if it was not counted."""

    event: str
    unit: str
    amounts: list[float]
    why_not: str = ""


class MeasuredTest:
    """A function whose calls are counted.

    For several counted runs, an uncounted one comes first, which excludes one-time costs (imports, caches). Raises PerfError for unknown
    events.
    """

    def __init__(self, function: Callable[..., Any], budgets: Sequence[Budget]) -> None:
        self._function = function
        self._events = list(dict.fromkeys(budget.event for budget in budgets))
        self._repeat = max(budget.repeat for budget in budgets)
        self._region = Region(*self._events, net=True)
        if len(self._region.overhead()) != len(self._events):
            raise UsageError(f"one event a marker: {', '.join(self._events)}")
        self._runs: list[list[Count]] = []

    @property
    def why_not(self) -> str:
        """The reason if the machine counts none of the events, otherwise ""."""
        counts = self._region.overhead().values()
        return next(iter(counts)).why_not if all(count.value is None for count in counts) else ""

    def as_function(self) -> Callable[..., Any]:
        """Return the function for pytest to call."""

        @functools.wraps(self._function)
        def measured(*args: Any, **kwargs: Any) -> Any:
            if self._repeat > 1:
                self._function(*args, **kwargs)
            for _ in range(self._repeat):
                with self._region:
                    result = self._function(*args, **kwargs)
                self._runs.append(list(self._region.values()))
            return result

        return measured

    def costs(self) -> list[Cost]:
        """Return the cost of each event, in the order of the budgets."""
        costs = []
        for event, counts in zip(self._events, zip(*self._runs, strict=True), strict=False):
            amounts = [count.amount for count in counts if count.amount is not None]
            why_not = next((count.why_not for count in counts if count.value is None), "")
            costs.append(Cost(event, counts[0].unit, [] if why_not else amounts, why_not))
        return costs
