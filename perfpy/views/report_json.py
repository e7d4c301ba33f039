"""A report as JSON.

What enters: a Report. What leaves: one JSON object. It is made for programs,
and stable: fields may be added, those below stay.

    {"format": "perfpy-report", "version": 1,
     "lost": samples that the kernel dropped,
     "events": [                          one object a table
       {"events": [{"name", "samples", "period"}],    one, or the members of an event group
        "sort": [names of the sort keys],
        "rows": [
          {"overhead": percent of the table's period,
           "period": n, "samples": n,
           "children": n, "overhead_children": percent,    in reports with callers
           "members": [{"period", "samples", "overhead"}],  in event groups
           "keys": {"comm": text, ...},
           "calls": [node, ...]}]}]}                    in reports with callchains

A node is {"functions": [names, as far as there is only one way],
"period", "samples", "overhead", "calls": [node, ...]}. Numbers are exact
integers, percentages are not rounded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.calltree import CallNode
    from perfpy.analysis.histogram import Histogram, Row
    from perfpy.analysis.reporting import Report

VERSION = 1


def report_json(report: Report) -> Iterator[str]:
    """The text, in pieces: a report may have many rows."""
    yield json.dumps({"format": "perfpy-report", "version": VERSION, "lost": report.lost})[:-1] + ', "events": ['
    separator = "\n"
    for histogram in report.histograms:
        yield separator + json.dumps(_head(histogram))[:-1] + ', "rows": ['
        comma = "\n "
        for entry, row in zip(histogram.shown().tolist(), histogram.rows(), strict=True):
            yield comma + json.dumps(row_dict(histogram, entry, row))
            comma = ",\n "
        yield "]}"
        separator = ",\n"
    yield "]}\n"


def report_dict(report: Report) -> dict[str, Any]:
    """The same as values."""
    document: dict[str, Any] = json.loads("".join(report_json(report)))
    return document


def _head(histogram: Histogram) -> dict[str, Any]:
    events = [{"name": total.event.name, "samples": total.samples, "period": total.period} for total in histogram.events]
    return {"events": events, "sort": [key.name for key in histogram.layout.keys]}


def row_dict(histogram: Histogram, entry: int, row: Row) -> dict[str, Any]:
    """One row as values."""
    found: dict[str, Any] = {
        "overhead": histogram.percent("period", entry),
        "period": row.values["period"][0],
        "samples": row.values["samples"][0],
    }
    if "children" in row.values:
        found |= {"overhead_children": histogram.percent("children", entry), "children": row.values["children"][0]}
    if len(histogram.events) > 1:
        found["members"] = [
            {"period": row.values["period"][m], "samples": row.values["samples"][m], "overhead": histogram.percent("period", entry, m)}
            for m in range(len(histogram.events))
        ]
    found["keys"] = row.texts
    if histogram.trees is not None:
        found["calls"] = _nodes(histogram, histogram.calls(entry))
    return found


def _nodes(histogram: Histogram, nodes: list[CallNode]) -> list[dict[str, Any]]:
    """Call nodes as values, without recursion: trees are as deep as stacks."""
    top: list[dict[str, Any]] = []
    work = [(nodes, top)]
    while work:
        siblings, found = work.pop()
        for node in siblings:
            below: list[dict[str, Any]] = []
            found.append(_node(histogram, node, below))
            work.append((node.children, below))
    return top


def _node(histogram: Histogram, node: CallNode, below: list[dict[str, Any]]) -> dict[str, Any]:
    assert histogram.trees is not None
    names = [histogram.trees.frame_name(frame) for frame in node.frames]
    share = histogram.share(node.period)
    return {"functions": names, "period": node.period, "samples": node.count, "overhead": share, "calls": below}
