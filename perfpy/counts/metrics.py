"""Metrics: formulas over the counts of one CPU, task or aggregate, printed as ratios beside their first event."""

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
    """One measured metric.

    Args:
        events: name in the formula -> the event counted for it
        literals: #name -> value
        scale, unit: the result times `scale` is in `unit`
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
        """Return this metric over the counterparts of its events."""
        other = copy(self)
        other._events = {name: counterparts[event] for name, event in self._events.items()}  # noqa: SLF001  # an instance of this class
        return other

    def ratio(self, near: Neighbours) -> Ratio:
        """Return the metric for one CPU, task or aggregate; without a value if an event has no count."""
        values = dict(self._literals)
        for name, event in self._events.items():
            values[name] = near.count(event)
        result = self._formula.evaluate(values) * self._scale
        return Ratio(None if math.isnan(result) else result, self.name, self._format)


def of_counterparts(metrics: Mapping[Any, Sequence[Metric]], counterparts: Mapping[Any, _Key]) -> dict[_Key, list[Metric]]:
    """Return the metrics of the events' counterparts, without events that have none."""
    return {counterparts[event]: [metric.of(counterparts) for metric in its] for event, its in metrics.items() if event in counterparts}
