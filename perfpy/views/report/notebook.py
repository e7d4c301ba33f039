"""A report as text and HTML at Python's prompt and in notebooks.

Names in HTML are escaped.
"""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from perfpy.errors import plural
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram


_ROWS: Final = 20
_NAME: Final = 60
_CELL: Final = "padding:0 .6em;white-space:pre"


def report_text(report: Report) -> str:
    """Return the title and the first rows as text."""
    tables = [histogram for histogram in report.histograms if histogram.leader.samples]
    lines = [
        f"<Report of {report.samples} {plural(report.samples, 'sample')}: {_count(sum(len(table.visible_entries()) for table in tables))}>"
    ]
    for table in tables:
        lines.append(f"{_title(table)}: {table.leader.samples} {plural(table.leader.samples, 'sample')}")
        for percents, names in _cells(table):
            lines.append("  ".join([*(f"{percent:6.2f}%" for percent in percents), *names]).rstrip())
        lines += _rest(table)
    return "\n".join(lines)


def report_html(report: Report) -> str:
    """Return an HTML table for each event, to embed in a page."""
    return "".join(_html(table) for table in report.histograms if table.leader.samples)


def _html(table: Histogram) -> str:
    heads = [*_shares(table), *table.keys]
    rows = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL};text-align:right">{percent:.2f}%</td>' for percent in percents)
        + "".join(f'<td style="{_CELL};text-align:left">{escape(name)}</td>' for name in names)
        + "</tr>"
        for percents, names in _cells(table)
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    caption = f"{_title(table)}: {table.leader.samples} {plural(table.leader.samples, 'sample')}"
    rest = "".join(f"<p>{escape(line)}</p>" for line in _rest(table))
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def _cells(table: Histogram) -> Iterator[tuple[list[float], list[str]]]:
    """Yield the first rows: shares, and names of one line each."""
    shares = _shares(table)
    for row in islice(table.rows(), _ROWS):
        names = [visible(text.strip()) for text in row.texts.values()]
        yield [table.percent(metric, row.entry) for metric in shares.values()], [_shorten(name) for name in names]


def _shares(table: Histogram) -> dict[str, str]:
    """Return the headers of shares, and their measures."""
    with_callers = {"children": "children"} if "children" in table.entries.measures else {}
    return {**with_callers, ("self" if with_callers else "overhead"): "period"}


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 + 1 :]}"


def _title(table: Histogram) -> str:
    return visible(table.group.title or table.leader.event.name)


def _rest(table: Histogram) -> list[str]:
    more = len(table.visible_entries()) - _ROWS
    return [f"... and {_count(more)} more"] if more > 0 else []


def _count(rows: int) -> str:
    return f"{rows} {plural(rows, 'row')}"
