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

Differences between groups of recordings as JSON: one object, stable for programs. New fields may be added, these stay:

    {"format": "perfpy-group-diff", "version": 1, "unit": "host" | "recording",
     "failed": [{"file", "reason"}, ...],
     "events": [
       {"name", "test": "permutation" | "student" | null,    null: a group has one host only
        "rate": {"groups": [{"mean", "deviation"}, ...], "change", "interval", "chance", "significant"} or null,
            the event per second and host; for time in seconds
        "in_both": number of hosts in both groups,
        "groups": [{"recordings", "samples", "period", "units": [host, ...]}, the same for after],
        "sort": [names of the sort keys],
        "rows": [
          {"keys": {"dso": text or null, ...},
           "groups": [{"overhead", "deviation"}, the same for after],
           "change", "interval": [low, high] or null, "chance", "significant", "rose", "fell",
           "units": [[overhead of each host before], [after]]}]}]}    of significant rows

Percentages are not rounded; unknown values are null. "deviation" is the standard deviation between hosts; "interval" the 95 %
confidence interval of the change; "chance" the probability that unchanged hosts show as much in any row, and "significant" whether
that is below 0.05.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.differences import LEVEL
from perfpy.analysis.report.report import seconds_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfpy.analysis.differences import Difference, DifferenceRow
    from perfpy.analysis.group_differences import GroupChanges, GroupRow, GroupSide


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


def groups_json(changes_of_events: Sequence[GroupChanges], failed: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield the text, in pieces.

    Args:
        changes_of_events: the changes of each event.
        failed: path and reason of each recording that could not be read.
    """
    head = {
        "format": "perfpy-group-diff",
        "version": VERSION,
        "unit": changes_of_events[0].unit if changes_of_events else None,
        "failed": [{"file": path, "reason": reason} for path, reason in failed],
    }
    yield json.dumps({**head, "events": [_group_event(changes) for changes in changes_of_events]}, indent=1)
    yield "\n"


def _group_event(changes: GroupChanges) -> dict[str, Any]:
    return {
        "name": changes.event,
        "test": changes.test or None,
        "rate": _rate(changes.rate) if changes.rate is not None else None,
        "in_both": changes.in_both,
        "groups": [_side(side) for side in (changes.before, changes.after)],
        "sort": changes.keys,
        "rows": [_group_row(changes, row) for row in changes],
    }


def _side(side: GroupSide) -> dict[str, Any]:
    return {"recordings": side.recordings, "samples": side.samples, "period": side.period, "units": side.units}


def _rate(rate: GroupRow) -> dict[str, Any]:
    sides = ((rate.before, rate.deviation_before), (rate.after, rate.deviation_after))
    return {
        "groups": [{"mean": mean, "deviation": None if math.isnan(spread) else spread} for mean, spread in sides],
        "change": rate.change,
        "interval": None if rate.low is None or rate.high is None else [rate.low, rate.high],
        "chance": rate.chance,
        "significant": rate.has_changed,
    }


def _group_row(changes: GroupChanges, row: GroupRow) -> dict[str, Any]:
    sides = ((row.before, row.deviation_before), (row.after, row.deviation_after))
    fields = {
        "keys": dict(zip(changes.keys, row.names, strict=True)),
        "groups": [{"overhead": 100 * share, "deviation": None if math.isnan(spread) else 100 * spread} for share, spread in sides],
        "change": 100 * row.change,
        "interval": None if row.low is None or row.high is None else [100 * row.low, 100 * row.high],
        "chance": row.chance,
        "significant": row.has_changed,
        "rose": row.rose,
        "fell": row.fell,
    }
    if shares := changes.shares.get(row.names):
        fields["units"] = [[100 * share for share in side] for side in shares]
    return fields
