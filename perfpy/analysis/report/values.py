"""A report as plain values: dicts, lists, strings and numbers. perfpy.views.report.json describes their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.samples.wait_events import NANOSECONDS_A_SECOND, is_time

if TYPE_CHECKING:
    from perfpy.analysis.call_trees.call_tree import CallNode
    from perfpy.analysis.report.histogram import Histogram, ReportRow
    from perfpy.perfdata.container.events import FileEvent


def histogram_values(histogram: Histogram) -> dict[str, Any]:
    """Return one table: its head and all rows."""
    rows = [row_values(histogram, row) for row in histogram.rows()]
    return head_values(histogram) | {"rows": rows}


def head_values(histogram: Histogram) -> dict[str, Any]:
    """Return a table's events and sort keys."""
    events = [
        {"name": total.event.name, "samples": total.samples, "period": total.period, **seconds_value(total.event, total.period)}
        for total in histogram.events
    ]
    return {"events": events, "sort": [key.name for key in histogram.layout.keys]}


def seconds_value(event: FileEvent, period: int) -> dict[str, float]:
    """Return a period in seconds, for an event that measures time."""
    return {"seconds": period / NANOSECONDS_A_SECOND} if is_time(event) else {}


def row_values(histogram: Histogram, row: ReportRow) -> dict[str, Any]:
    """Return one row."""
    entry = row.entry
    values: dict[str, Any] = {
        "overhead": histogram.percent("period", entry),
        "period": row.values["period"][0],
        "samples": row.values["samples"][0],
        **seconds_value(histogram.events[0].event, row.values["period"][0]),
    }
    if "children" in row.values:
        values |= {"overhead_children": histogram.percent("children", entry), "children": row.values["children"][0]}
    values |= {name: histogram.percent(name, entry) for name in (LATENCY, f"{LATENCY}_children") if name in row.values}
    if len(histogram.events) > 1:
        values["members"] = [
            {"period": row.values["period"][m], "samples": row.values["samples"][m], "overhead": histogram.percent("period", entry, m)}
            for m in range(len(histogram.events))
        ]
    values["keys"] = row.texts
    if histogram.trees is not None:
        values["calls"] = _nodes(histogram, histogram.calls(entry))
    return values


def _nodes(histogram: Histogram, nodes: list[CallNode]) -> list[dict[str, Any]]:
    """Return call nodes without recursion: trees are as deep as stacks."""
    top: list[dict[str, Any]] = []
    work = [(nodes, top)]
    while work:
        siblings, values = work.pop()
        for node in siblings:
            below: list[dict[str, Any]] = []
            values.append(_node(histogram, node, below))
            work.append((node.children, below))
    return top


def _node(histogram: Histogram, node: CallNode, below: list[dict[str, Any]]) -> dict[str, Any]:
    assert histogram.trees is not None
    names = [histogram.trees.frame_name(frame) for frame in node.frames]
    share = histogram.share(node.period)
    return {"functions": names, "period": node.period, "samples": node.count, "overhead": share, "calls": below}
