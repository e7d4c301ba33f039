"""Columns of a report's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.sortkeys.names import sort_key
from perfpy.untrusted.terminal import Terminal, escape_of
from perfpy.views.report.column_text import KeyColumnText, TextOptions
from perfpy.views.report.table_text import _filled

if TYPE_CHECKING:
    from perfpy.analysis.report.histogram import Histogram


class NoRows:
    """A histogram of which only the headings are wanted."""


def heading(width: int) -> str:
    rows: Histogram = NoRows()  # type: ignore[assignment]
    return KeyColumnText(sort_key("symbol"), rows, TextOptions(), width).header()


def test_headings_are_as_wide_as_their_columns():
    assert heading(40) == f"{'Symbol':40}"


def test_headings_above_very_long_names_end_where_perf_has_no_more_room():
    """C++ functions have such names; perf sets a heading in 1024 bytes, the last of them 0."""
    assert heading(1100) == f"{'Symbol':1023}"


def test_coloured_numbers_are_filled_beside_shorter_ones() -> None:
    """A colour for a terminal begins with a character that no encoding has: its column is set without one."""
    cells = [f"{escape_of(Terminal.__new__(Terminal))}[31m 12.00%\x1b[m", " 0.10%"]
    assert _filled(cells, 9, numbers=True) == [cells[0], " 0.10%   "]
