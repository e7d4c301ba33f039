"""Differences between recordings as JSON: one object, stable for programs. New fields may be added, these stay:

    {"format": "perfpy-diff", "version": 1, "files": [path, ...],
     "compute": "delta" | "delta-abs" | "ratio" | "wdiff", "weights": [old, new],
     "events": [
       {"name", "files": [{"samples", "period"} or null, ...],   null: without the event; for time "seconds", too
        "sort": [names of the sort keys],
        "rows": [
          {"keys": {"dso": text, ...},
           "files": [{"period", "samples", "overhead"} or null, ...],
           "changes": [{"value", "chance", "significant"}, ...]}]}]}

"changes" has an object for each file but the first: the computed value (null
if the file lacks the row, or the first file has no samples), the probability that sampling alone shows this
change in any row, and whether that is below 0.05. Percentages are not rounded.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.differences.proportions import LEVEL
from perfpy.analysis.report.values import seconds_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfpy.analysis.differences.difference import Difference, DifferenceRow

VERSION: Final = 1


def difference_json(differences: Iterable[Difference], paths: Sequence[str]) -> Iterator[str]:
    """Yield the text, in pieces."""
    events = [(difference, _event(difference)) for difference in differences]
    compute = events[0][0].compute if events else None
    head = {
        "format": "perfpy-diff",
        "version": VERSION,
        "files": list(paths),
        "compute": compute.kind if compute else None,
        "weights": compute.weights if compute else None,
    }
    yield json.dumps({**head, "events": [event for _, event in events]}, indent=1)
    yield "\n"


def _event(difference: Difference) -> dict[str, Any]:
    base = difference.histograms[0]
    assert base is not None
    leaders = [histogram.leader if histogram else None for histogram in difference.histograms]
    return {
        "name": difference.event,
        "files": [
            {"samples": leader.samples, "period": leader.period, **seconds_value(leader.event, leader.period)} if leader else None
            for leader in leaders
        ],
        "sort": [key.name for key in base.layout.keys],
        "rows": [_row(difference, change, chances) for change, chances in zip(difference.changes, difference.noise, strict=True)],
    }


def _row(difference: Difference, change: DifferenceRow, chances: Sequence[float]) -> dict[str, Any]:
    index, texts = change.displayed_part
    histogram = difference.histograms[index]
    assert histogram is not None
    values = [difference.value(change, other) for other in difference.others]
    return {
        "keys": {key: histogram.text(key, texts.entry) for key in histogram.keys},
        "files": [
            {"period": part.period, "samples": part.samples, "overhead": difference.percent(part.period, number)} if part else None
            for number, part in enumerate(change.parts)
        ],
        "changes": [
            {"value": None if value is None or math.isnan(value) else value, "chance": chance, "significant": chance < LEVEL}
            for value, chance in zip(values, chances, strict=True)
        ],
    }
