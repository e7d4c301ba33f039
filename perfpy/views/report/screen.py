"""A report for the person at the terminal: the answers first, within the window.

What enters: a Report and its recording. What leaves: text through a rich
console: what was recorded and how far to trust it, the hottest rows, the
hottest files, the hottest path, and what to type next. Of one event, so much of each that
nothing scrolls away; of several, as much as is of use. Long lists in names of functions are left out
unless asked for, and names are cut where the window is too narrow for them; numbers never are.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from perfpy.analysis.report.quality import quality_notes
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.call_lines import call_lines
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.fitting import OF_FUNCTIONS, OF_OTHERS, fitted
from perfpy.views.report.hottest import HottestPath, NamedShare, hottest_by, hottest_made, hottest_of_program, hottest_path
from perfpy.views.report.screen_table import ScreenColumns, rows_table, shares_table
from perfpy.views.report.share_colour import style
from perfpy.views.report.text import event_title

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.views.recorded import Recorded

_CALL_ROWS: Final = 20
_MOST_ROWS: Final = 40
_LEAST_ROWS: Final = 5
_ROWS: Final = 12  # of each of several tables
_ALL: Final = 1 << 62
_USUAL: Final = 22  # lines of a window below the header
_TALL: Final = 30
#: files and steps of the path that are shown: in low windows, in usual ones, in tall ones
_SIZES: Final = ((2, 3), (3, 4), (5, 8))
_NEXT: Final = "next: report "
_MATTERS: Final = 0.5  # percent
_ALL_PASS: Final = 90.0  # percent: functions that nearly everything goes through say less than those that tell it apart
_FRAME: Final = 6  # lines around the rows: the title, the names of the columns, what is next, blank ones, the prompt


class ScreenOptions(NamedTuple):
    """What is wanted of the screen.

    text: names and limits; own_first: rows by what is their own, not their callees'; every_row:
    those above the limit, however long the screen; tree: the first row's calls as a tree.
    browser: whether there is one to go on with; lines_after: what follows on the same screen.
    """

    text: TextOptions = TextOptions()
    own_first: bool = False
    every_row: bool = False
    tree: bool = False
    browser: bool = False
    lines_after: int = 0


class _Part(NamedTuple):
    """Something below the rows: its title, what is shown, and how many lines that is."""

    title: str
    shown: Table | Text
    lines: int


class _Limits(NamedTuple):
    """How many lines each part may have; rows: None: what is left of `lines`."""

    lines: int
    rows: int | None
    files: int
    path: int

    def rows_beside(self, parts: Sequence[_Part]) -> int:
        """How many rows there is room for."""
        if self.rows is not None:
            return self.rows
        return max(_LEAST_ROWS, min(_MOST_ROWS, self._left_by(parts)))

    def _left_by(self, parts: Sequence[_Part]) -> int:
        return self.lines - _FRAME - sum(part.lines + 2 for part in parts)

    def fitting(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts without those before the last, where rows and parts do not fit together."""
        kept = [*parts]
        while len(kept) > 1 and self.rows is None and self._left_by(kept) < _LEAST_ROWS:
            del kept[-2]
        return kept


def show_report(report: Report, recording: Recorded, console: Console, options: ScreenOptions) -> None:
    """Print the header and the tables."""
    lines = console.height - _show_header(report, recording, console) - options.lines_after
    tables = [histogram for histogram in report.histograms if histogram.leader.samples]
    rows = _ALL if options.every_row else None if len(tables) == 1 else _ROWS
    limits = _Limits(lines, rows, *_SIZES[(lines >= _USUAL) + (lines >= _TALL)])
    left_out = [_show_table(histogram, console, options, limits) for histogram in tables]
    _show_next(console, options, sum(left_out))


def _show_header(report: Report, recording: Recorded, console: Console) -> int:
    """What was recorded, and how far to trust it; the number of lines."""
    path, command = visible(recording.path), visible(recording.title) if recording.title != recording.path else ""
    program, _, arguments = command.partition(" ")
    command = f"{program.rpartition('/')[2]} {arguments}"
    shown = fitted(path, console.width)
    beside = fitted(command, max(console.width - cell_len(shown) - 2, 0))
    console.print(Text.assemble((shown, "bold"), (f"  {beside}" if beside else "", "dim")))
    environment = "  ".join([f"{report.samples:,} samples", *map(visible, recording.environment)])
    console.print(Text(fitted(environment, console.width)), style="dim")
    notes = [line for note in quality_notes(report) for line in wrap(f"! {visible(note)}", console.width, subsequent_indent="  ")]
    for line in notes:
        console.print(Text(line), style="yellow")
    return 2 + len(notes)


def _show_table(histogram: Histogram, console: Console, options: ScreenOptions, limits: _Limits) -> int:
    """One event's table and what goes with it; how many rows are not shown."""
    text = options.text
    inclusive = "children" in histogram.entries.measures
    measure = "children" if inclusive and not options.own_first else "period"
    rows = histogram.by_own(histogram.shown()) if inclusive and options.own_first else histogram.shown()
    kept = rows[histogram.percents(measure, rows) >= text.percent_limit].tolist()
    parts = limits.fitting(_parts(histogram, kept[:1], console.width, options, limits))
    shown = kept[: limits.rows_beside(parts)]
    columns = ScreenColumns(histogram, shown, measure, text, own_first=options.own_first)
    samples = sum(event.samples for event in histogram.events)
    title = f"  {samples:,} samples"
    name = fitted(visible(event_title(histogram, skip_empty=True)), console.width)
    for before, common in zip(["; here: ", *[", "] * len(columns.common)], columns.common, strict=False):
        title += f"{before}{common}" if cell_len(f"{name}{title}{before}{common}") <= console.width else ""
    console.print()
    console.print(Text.assemble((name, "bold"), fitted(title, console.width - cell_len(name), OF_OTHERS)))
    console.print(rows_table(columns, shown, console.width))
    for part in parts:
        console.print(Text(f"\n{part.title}", style="bold"))
        console.print(part.shown)
    return len(kept) - len(shown)


def _parts(histogram: Histogram, first: Sequence[int], width: int, options: ScreenOptions, limits: _Limits) -> list[_Part]:
    """What is shown below the rows."""
    name = at_a_glance if options.text.short_names else str
    functions = _functions(histogram, name, width, limits)
    files, commands = (hottest_by(key, histogram) if len(histogram.layout.keys) > 1 else [] for key in ("dso", "comm"))
    of_one_command = sum(share >= _MATTERS for share, _ in commands) < 2
    half = width // 2 - 1
    of_files = _shares("hottest files", files, width if of_one_command else half, limits)
    of_commands = None if of_one_command else _shares("hottest commands", commands, half, limits)
    calls = _tree(histogram, first, options.text) if options.tree else _path(hottest_path(histogram, name), width, limits)
    return [part for part in (functions, _side_by_side(of_commands, of_files, half), calls) if part is not None]


def _functions(histogram: Histogram, name: Callable[[str], str], width: int, limits: _Limits) -> _Part | None:
    """The person's own functions: what stands between where the program begins and where the time goes."""
    title, shares = "scripts and jitted code", hottest_made(histogram, name)
    if not shares:
        title, shares = hottest_of_program(histogram, name)
    telling = _telling(shares)
    kept = shares if len(telling) < limits.files else telling
    named = [(function.share, function.name) for function in kept]
    return _shares(f"hottest functions of {title}, with what they call", named, width, limits, OF_FUNCTIONS)


def _telling(functions: Sequence[NamedShare]) -> list[NamedShare]:
    """Drop the functions that only lead to the work: nearly everything goes through them, and next to nothing is their own.

    Where they lead to no function that does the work itself, the last of them stays: there the work divides.
    """
    through = [function for function in functions if function.share >= _ALL_PASS]
    leading = [function for function in through if function.own < _MATTERS]
    dropped = leading[:-1] if leading == through else leading
    return [function for function in functions if function not in dropped]


def _side_by_side(left: _Part | None, right: _Part | None, width: int) -> _Part | None:
    """Two parts beside each other, each so many columns wide."""
    if left is None or right is None:
        return left or right
    both = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    both.add_column(width=width)
    both.add_column(width=width)
    both.add_row(left.shown, right.shown)
    return _Part(f"{left.title:<{width + 2}}{right.title}", both, max(left.lines, right.lines))


def _shares(title: str, shares: Sequence[tuple[float, str]], width: int, limits: _Limits, head: float = OF_OTHERS) -> _Part | None:
    """Names with their shares, as far as they matter."""
    shown = [(share, name) for share, name in shares if share >= _MATTERS][: limits.files]
    return _Part(title, shares_table(shown, width, head=head), len(shown)) if shown else None


def _path(path: HottestPath | None, width: int, limits: _Limits) -> _Part | None:
    if path is None:
        return None
    stretches = path.within(limits.path)
    room = width - len("100.00%") - 2
    lines = [Text.assemble((f"{stretch.share:6.2f}%", style(stretch.share)), f"  {stretch.text(room)}") for stretch in stretches]
    return _Part(path.title, Text("\n").join(lines), len(lines))


def _tree(histogram: Histogram, entries: Sequence[int], options: TextOptions) -> _Part | None:
    """The call tree of the first row."""
    lines = (
        call_lines(histogram, entries[0], at_a_glance if options.short_names else str) if histogram.trees is not None and entries else []
    )
    if not lines:
        return None
    shown = [Text(line, overflow="ellipsis", no_wrap=True) for line in lines[:_CALL_ROWS]]
    if len(lines) > _CALL_ROWS:
        shown.append(Text(f"... {len(lines) - _CALL_ROWS:,} more lines; --stdio shows all", style="dim"))
    return _Part("calls of the first row", Text("\n", no_wrap=True, overflow="ellipsis").join(shown), len(shown))


def _show_next(console: Console, options: ScreenOptions, left_out: int) -> None:
    """One line: where to go from here."""
    ways = ["--tui (browse)"] if options.browser else []
    ways += ["--html (flame graph)", f"--stdio ({left_out:,} more rows)" if left_out else "--stdio (perf's text)"]
    while len(ways) > 1 and len(", ".join(ways)) + len(_NEXT) > console.width:
        ways.pop()
    console.print()
    console.print(Text(_NEXT + ", ".join(ways)), style="dim")
