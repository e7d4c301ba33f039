"""Two groups of recordings side by side: a table for each event; on a terminal only the rows that changed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.analysis.differences import LEVEL
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console

    from perfpy.analysis.group_differences import GroupChanges, GroupRow, GroupSide
    from perfpy.analysis.stacks import Stacks

_MOST: Final = 40
_WHOLE: Final = 1000  # numbers from here on have no decimals
_MOST_SAID: Final = 12  # on the page
_NO_NAME: Final = "[unknown]"
_HEADERS: Final = {"dso": "Shared Object", "symbol": "Symbol", "comm": "Command"}
_LEAST_CHANCE: Final = 0.0001
_TESTS: Final = {
    "permutation": "# Chance: probability that unchanged {unit}s differ as much in any row (permutation test). *: less than {level:.0f}%",
    "student": "# Chance: probability that unchanged {unit}s differ as much in any row (t test: few {unit}s). *: less than {level:.0f}%",
    "": "# Chance: unknown, as each group needs two {unit}s to measure the spread of {unit}s",
}


def _points(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.2f}"


def _signed_percent(value: float | None) -> str:
    return "" if value is None else f"{round(100 * value, 2) + 0.0:+.2f}"  # no -0.00


def _chance(row: GroupRow) -> str:
    if row.chance is None:
        return "  "
    percent = f"{100 * row.chance:.2f}%" if row.chance >= _LEAST_CHANCE else f"<{100 * _LEAST_CHANCE:.2f}%"
    return f"{percent} {'*' if row.has_changed else ' '}"


class _Column(NamedTuple):
    header: str
    width: int
    cell: Callable[[GroupRow], str]


_COLUMNS: Final = (
    _Column("Before", 8, lambda row: f"{100 * row.before:.2f}%"),
    _Column("+/-", 7, lambda row: _points(row.deviation_before)),
    _Column("After", 9, lambda row: f"{100 * row.after:.2f}%"),
    _Column("+/-", 7, lambda row: _points(row.deviation_after)),
    _Column("Change", 10, lambda row: f"{_signed_percent(row.change)}%"),
    _Column("From", 9, lambda row: _signed_percent(row.low)),
    _Column("To", 9, lambda row: _signed_percent(row.high)),
    _Column("Chance", 11, _chance),
    _Column("Up", 5, lambda row: str(row.rose)),
    _Column("Down", 5, lambda row: str(row.fell)),
)
_OF_PAIRS: Final = ("Up", "Down")


def group_lines(changes_of_events: Sequence[GroupChanges], *, separator: str | None = None, quiet: bool = False) -> Iterator[str]:
    """Yield all lines of all rows, without line ends. separator: between columns, which are then not aligned."""
    for number, changes in enumerate(changes_of_events):
        if not quiet:
            yield from [""] if number else []
            yield from _heading_lines(changes)
        table = _GroupColumns(changes)
        if separator is not None:
            yield from (separator.join(cells) for cells in table.cells())
            continue
        if not quiet:
            yield from table.heading()
        yield from map(table.line, changes)


def show_groups(changes_of_events: Sequence[GroupChanges], console: Console, *, everything: bool = False) -> None:
    """Print the changed rows, or all, to a terminal."""
    for number, changes in enumerate(changes_of_events):
        table = _GroupColumns(changes)
        rows = changes.rows if everything else [row for row in changes if row.has_changed][:_MOST]
        for line in [*([""] if number else []), *_heading_lines(changes), *(table.heading() if rows else ())]:
            _print(console, line.removeprefix("#").removeprefix(" "), "dim")
        for row in rows:
            _print(console, table.line(row), ("red" if row.change > 0 else "green") if row.has_changed else "")
        if rest := len(changes) - len(rows):
            none = f"no row changed beyond the spread of {changes.unit}s; " if changes.test and not rows else ""
            _print(console, f"{none}{rest:,} {'more ' if rows else ''}row{'s' if rest > 1 else ''}; --all shows them", "dim")


def _print(console: Console, line: str, style: str) -> None:
    from rich.text import Text

    console.print(Text(line, style=style), overflow="ellipsis", no_wrap=True)


class _GroupColumns:
    """The columns of one event's rows."""

    def __init__(self, changes: GroupChanges) -> None:
        self._changes = changes
        self._columns = [column for column in _COLUMNS if changes.in_both or column.header not in _OF_PAIRS]
        self._headers = [_HEADERS.get(key, key) for key in changes.keys]
        texts = zip(*(map(_text, row.names) for row in changes), strict=True)
        self._widths = [max(len(header), *map(len, column)) for header, column in zip(self._headers, texts, strict=True)]

    def cells(self) -> Iterator[list[str]]:
        """Yield headers and rows, not aligned."""
        yield [f"# {self._columns[0].header}", *(column.header for column in self._columns[1:]), *self._headers]
        for row in self._changes:
            yield [*(column.cell(row).strip() for column in self._columns), *map(_text, row.names)]

    def heading(self) -> Iterator[str]:
        """Yield the lines above the rows."""
        numbers = "".join(f"{column.header:>{column.width}}" for column in self._columns)
        yield f"#{numbers[1:]}  {self._align(self._headers)}"
        yield f"#{' '.join('.' * (column.width - 1) for column in self._columns)}  {'  '.join('.' * width for width in self._widths)}"
        yield "#"

    def line(self, row: GroupRow) -> str:
        """Return a row's line."""
        numbers = "".join(f"{column.cell(row):>{column.width}}" for column in self._columns)
        return f"{numbers}  {self._align(map(_text, row.names))}"

    def _align(self, texts: Iterable[str]) -> str:
        return "  ".join(f"{text:{width}}" for text, width in zip(texts, self._widths, strict=True)).rstrip()


def _text(name: str | None) -> str:
    return visible(name or _NO_NAME)


def change_in_words(changes: GroupChanges, row: GroupRow) -> str:
    """Return a changed row as one phrase."""
    reach = "" if row.low is None or row.high is None else f" ({100 * row.low:+.2f} to {100 * row.high:+.2f})"
    return f"{changes.name(row)}: {100 * row.before:.2f}% before, {100 * row.after:.2f}% after, {100 * row.change:+.2f} points{reach}"


def group_page(before: Sequence[Stacks], after: Sequence[Stacks], names: Sequence[str], changes_of_events: Sequence[GroupChanges]) -> str:
    """Return the page of both groups' stacks, with the changed rows as texts above. names: of the groups."""
    from perfpy.views.page.page import PageText, render

    comparisons = [
        f"{word} {name}: {side_in_words(side, changes.unit)}"
        for changes in changes_of_events[:1]
        for word, name, side in zip(("before", "after"), names, (changes.before, changes.after), strict=True)
    ]
    text = PageText(" \N{RIGHTWARDS ARROW} ".join(names), comparisons, list(_verdict(changes_of_events)))
    return render(before, text, after=after, starred={changes.event: dict(_marks(changes)) for changes in changes_of_events})


def _marks(changes: GroupChanges) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield (name, file) of each changed function, and its text."""
    if not {"dso", "symbol"} <= {*changes.keys}:
        return
    for row in changes:
        names = dict(zip(changes.keys, row.names, strict=True))
        if row.has_changed and names["symbol"]:
            yield (names["symbol"], names["dso"] or ""), f"beyond the spread of {changes.unit}s: {change_in_words(changes, row)}"


def _verdict(changes_of_events: Sequence[GroupChanges]) -> Iterator[str]:
    for changes in changes_of_events:
        changed = [row for row in changes if row.has_changed]
        if not changes.test:
            yield f"{changes.event}: each group needs two {changes.unit}s to measure the spread of {changes.unit}s"
            continue
        yield f"{changes.event}: {_number(len(changed), 'row')} of {len(changes):,} changed beyond the spread of {changes.unit}s"
        yield from (change_in_words(changes, row) for row in changed[:_MOST_SAID])
        if len(changed) > _MOST_SAID:
            yield f"and {len(changed) - _MOST_SAID:,} more; perfpy diff lists them"


def side_in_words(side: GroupSide, unit: str) -> str:
    """Return the size of a group as text."""
    hosts = "" if unit == "recording" else f"{_number(len(side.units), unit)}, "
    return f"{hosts}{_number(side.recordings, 'recording')}, {_number(side.samples, 'sample')}"


def _heading_lines(changes: GroupChanges) -> Iterator[str]:
    unit = changes.unit
    yield from (f"# Event '{visible(changes.event)}'", "#")
    yield f"# Before: {side_in_words(changes.before, unit)}"
    yield f"# After: {side_in_words(changes.after, unit)}"
    if changes.in_both:
        yield f"# {_number(changes.in_both, unit)} {'is' if changes.in_both == 1 else 'are'} in both groups: compared with themselves"
    if changes.rate is not None:
        yield f"# {_rate_in_words(changes.rate)}"
    yield f"# +/-: standard deviation between {unit}s. From, To: hold the true change of 95 in 100 rows"
    yield _TESTS[changes.test].format(unit=unit, level=100 * LEVEL)
    yield "#"


def _rate_in_words(rate: GroupRow) -> str:
    """Return the rates of the event per second as text."""
    sides = (
        f"{_amount(mean)} +/- {_amount(spread)}"
        for mean, spread in ((rate.before, rate.deviation_before), (rate.after, rate.deviation_after))
    )
    words = "Each second: {} before, {} after".format(*sides)
    if not rate.before or rate.low is None or rate.high is None or rate.chance is None:
        return words
    parts = [100 * value / rate.before for value in (rate.change, rate.low, rate.high)]
    return f"{words}, {parts[0]:+.2f}% (from {parts[1]:+.2f}% to {parts[2]:+.2f}%), chance {_chance(rate).strip()}"


def _amount(value: float) -> str:
    """Format seconds per second, or events."""
    return "?" if math.isnan(value) else f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
