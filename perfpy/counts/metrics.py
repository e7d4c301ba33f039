"""Metrics: formulas over the counts of one CPU, task or sum of these, shown as ratios beside the count of their first event.

What enters: a formula, the events that its names stand for, facts about the
machine. What leaves: a Ratio for each of these.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from perfpy.counts.ratios import Ratio

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from perfpy.counts.formulas import Formula
    from perfpy.counts.ratios import Neighbours


_Key = TypeVar("_Key", bound="Hashable")


class Metric:
    """One metric as it is measured.

    name; formula; events: name in the formula -> the event counted for it;
    literals: #name -> value; scale and unit: the result times `scale` is in `unit`.
    """

    def __init__(
        self,
        name: str,
        formula: Formula,
        events: Mapping[str, object],
        *,
        literals: Mapping[str, float] | None = None,
        scale: float = 1.0,
        unit: str = "",
    ) -> None:
        self.name = f"{unit}  {name}" if unit else name
        self._formula = formula
        self._events = events
        self._literals = literals or {}
        self._scale = scale
        self._format = "%8.1f" if unit else "%8.2f"

    def of(self, counterparts: Mapping[Any, object]) -> Metric:
        """The same metric of other events, which stand for its own."""
        other = copy(self)
        other._events = {name: counterparts[event] for name, event in self._events.items()}  # noqa: SLF001  # its own kind
        return other

    def ratio(self, near: Neighbours) -> Ratio:
        """The metric of one CPU, task or sum; without a value where an event has no count."""
        values = dict(self._literals)
        for name, event in self._events.items():
            values[name] = near.count(event)
        result = self._formula.evaluate(values) * self._scale
        return Ratio(None if math.isnan(result) else result, self.name, self._format)


def of_counterparts(metrics: Mapping[Any, Sequence[Metric]], counterparts: Mapping[Any, _Key]) -> dict[_Key, list[Metric]]:
    """Metrics by event -> the same of the events that stand for these; without those of events that nothing stands for."""
    return {counterparts[event]: [metric.of(counterparts) for metric in its] for event, its in metrics.items() if event in counterparts}
