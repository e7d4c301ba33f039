"""Tests of the columns of a report's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.sortkeys.names import sort_key
from perfpy.analysis.sortkeys.sort_key import ColumnCell
from perfpy.untrusted.terminal import Terminal, escape_of
from perfpy.views.report.column_text import KeyColumnText, TextOptions, _set, _set_function
from perfpy.views.report.table_text import _pad_column

if TYPE_CHECKING:
    from perfpy.analysis.report.histogram import Histogram


class NoRows:
    """A histogram with headings only."""


def heading(width: int) -> str:
    rows: Histogram = NoRows()  # type: ignore[assignment]
    return KeyColumnText(sort_key("symbol"), rows, TextOptions(), width).header()


def test_headings_are_as_wide_as_their_columns():
    assert heading(40) == f"{'Symbol':40}"


def test_headings_above_very_long_names_end_like_perfs():
    """C++ functions have such names; perf writes a heading into 1024 bytes, including a final 0."""
    assert heading(1100) == f"{'Symbol':1023}"


def test_coloured_numbers_are_padded_beside_shorter_ones() -> None:
    """Colours begin with a character that no encoding has: columns are padded without it."""
    cells = [f"{escape_of(Terminal.__new__(Terminal))}[31m 12.00%\x1b[m", " 0.10%"]
    assert _pad_column(cells, 9, numbers=True) == [cells[0], " 0.10%   "]


@pytest.mark.parametrize(
    ("cell", "width", "output"),
    [
        (ColumnCell.CUT, 12, b"comm=w\xc3\xb6rker"),
        (ColumnCell.CUT, 7, b"comm=w\xc3"),
        (ColumnCell.CUT, 40, b"comm=w\xc3\xb6rker-0"),
        (ColumnCell.RIGHT_CUT, 12, b"comm=w\xc3\xb6rker"),
        (ColumnCell.RIGHT_CUT, 16, b"  comm=w\xc3\xb6rker-0"),
        (ColumnCell.RIGHT, 16, b"  comm=w\xc3\xb6rker-0"),
    ],
)
def test_columns_are_truncated_and_padded_by_bytes(cell: ColumnCell, width: int, output: bytes) -> None:
    """Like C's precision and width: a name may end within a character."""
    assert _set("comm=w\u00f6rker-0", cell, width).encode(errors="surrogateescape") == output


@pytest.mark.parametrize(
    ("cell", "width", "output"),
    [
        (ColumnCell.CUT, 9, "[.] inner (inlined)"),
        (ColumnCell.CUT, 7, "[.] inn (inlined)"),
        (ColumnCell.LEFT, 9, "[.] inner (inlined)"),
        (ColumnCell.LEFT, 21, "[.] inner (inlined)  "),
    ],
)
def test_inlined_is_shown_in_narrow_columns(cell: ColumnCell, width: int, output: str) -> None:
    """perf truncates only the name."""
    assert _set_function("[.] inner (inlined)", cell, width) == output
