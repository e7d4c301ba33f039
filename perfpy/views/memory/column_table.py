"""Tables of right-aligned columns, with a line of headings over several columns: those of perf c2c."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SEPARATOR = "  "


class AlignedColumn(NamedTuple):
    """One column.

    Attributes:
        heading: its name.
        width: of its texts.
        above: a heading over this and the following columns, as wide as they are.
        span: the number of columns below `above`; 1: aligned like the column.
        left: whether texts are aligned on the left.
        loose: whether texts are not padded.
    """

    heading: str
    width: int
    above: str = ""
    span: int = 1
    left: bool = False
    loose: bool = False


def heading_lines(columns: Sequence[AlignedColumn]) -> Iterator[str]:
    """Yield the lines above a table."""
    yield "#"
    yield "# " + _SEPARATOR.join(_above(columns))
    yield "# " + _SEPARATOR.join(f"{column.heading:>{column.width}}" for column in columns)
    yield "# " + _SEPARATOR.join("." * column.width for column in columns)
    yield "#"


def row_line(columns: Sequence[AlignedColumn], cells: Sequence[str]) -> str:
    """Return a row."""
    return _SEPARATOR + _SEPARATOR.join(map(_padded, columns, cells))


def row_lines(columns: Sequence[AlignedColumn], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of columns of texts."""
    padded = [[_padded(column, cell) for cell in texts] for column, texts in zip(columns, cells, strict=True)]
    for row in zip(*padded, strict=True):
        yield _SEPARATOR + _SEPARATOR.join(row)


def _padded(column: AlignedColumn, cell: str) -> str:
    if column.loose:
        return cell
    return cell.ljust(column.width) if column.left else cell.rjust(column.width)


def _above(columns: Sequence[AlignedColumn]) -> Iterator[str]:
    hidden = 0
    for column in columns:
        if hidden:
            hidden -= 1
            continue
        hidden = column.span - 1
        yield column.above if hidden else f"{column.above:>{column.width}}"
