"""A report as JSON.

Input: a Report. Output: one JSON object. It is made for programs,
and stable: fields may be added, those below stay.

    {"format": "perfpy-report", "version": 1,
     "lost": samples that the kernel dropped,
     "processes": [                       of a service with several workers: all with samples; name: "" if not known
       {"pid", "name": "gunicorn: worker 2", "period", "overhead", "function": the hottest one of its own code}],
     "events": [                          one object a table
       {"events": [{"name", "samples", "period"}],    one, or the members of an event group; of clocks, and of
                                                       time off the CPU, "seconds", too, here and in rows
        "sort": [names of the sort keys],
        "rows": [
          {"overhead": percent of the table's period,
           "period": n, "samples": n,
           "children": n, "overhead_children": percent,    in reports with callers
           "latency": percent, "latency_children": percent,  with --latency: shares of the wall clock
           "members": [{"period", "samples", "overhead"}],  in event groups
           "keys": {"comm": text, ...},
           "calls": [node, ...]}]}]}                    in reports with callchains

A node is {"functions": [names, as far as there is only one way],
"period", "samples", "overhead", "calls": [node, ...]}. Numbers are exact
integers, percentages are not rounded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perfpy.analysis.report.report import head_values, row_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.verdict.processes import ProcessRow

VERSION = 1


def report_json(report: Report, service: Callable[[], Sequence[ProcessRow]] | None = None) -> Iterator[str]:
    """Yield the text in parts: a report may have many rows. service: returns the processes of a service."""
    head = {"format": "perfpy-report", "version": VERSION, "lost": report.lost}
    processes = [
        {"pid": row.pid, "name": row.name, "period": row.period, "overhead": 100 * row.share, "function": row.function}
        for row in (service() if service else ())
    ]
    yield json.dumps(head | ({"processes": processes} if processes else {}))[:-1] + ', "events": ['
    separator = "\n"
    for histogram in report.histograms:
        yield separator + json.dumps(head_values(histogram))[:-1] + ', "rows": ['
        comma = "\n "
        for row in histogram.rows():
            yield comma + json.dumps(row_values(histogram, row))
            comma = ",\n "
        yield "]}"
        separator = ",\n"
    yield "]}\n"
