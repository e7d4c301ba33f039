"""Show a report on a terminal: answers first, within the window.

From top to bottom: what was recorded and how accurate it is, the hottest rows, the
hottest files, the hottest path, and the next commands. A report of one event fits into the
window; several events take more lines. Long lists in names of functions are omitted by
default, and names are shortened in narrow windows; numbers never are.
"""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from perfpy.analysis.report.quality import lacks_stacks, quality_notes
from perfpy.analysis.samples.wait_events import is_off_cpu
from perfpy.analysis.verdict.categories import NAMES
from perfpy.plurals import plural
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.screens.call_lines import call_lines
from perfpy.views.report.screens.fitting import OF_FUNCTIONS, OF_OTHERS, fit_text
from perfpy.views.report.screens.hottest import HottestPath, NamedShare, hottest_by, hottest_made, hottest_of_program, hottest_path
from perfpy.views.report.screens.row_functions import functions_of, row_lines, row_notes
from perfpy.views.report.screens.screen_table import ScreenColumns, rows_table, shares_table
from perfpy.views.report.share_colour import style
from perfpy.views.report.text import event_title
from perfpy.views.verdict.sentence import FEW_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.verdict.functions import SampledFunctions
    from perfpy.views.recorded import Recorded
    from perfpy.views.verdict.sentence import Sentence


_CALL_ROWS: Final = 20
_MOST_ROWS: Final = 40
_LEAST_ROWS: Final = 5
_ROWS: Final = 12  # for each of several tables
_ALL: Final = 1 << 62
_USUAL: Final = 22  # lines of an ordinary window below the header
_TALL: Final = 30
#: numbers of files and of stretches of the path in low, ordinary and tall windows
_SIZES: Final = ((2, 3), (3, 4), (5, 8))
_OF_WAITS: Final = ("longest wait",)  # rules of sentences on waits
_NEXT: Final = "next: report "
_MATTERS: Final = 0.5  # percent; smaller shares are omitted
_ALL_PASS: Final = 90.0  # percent: functions with larger shares distinguish nothing
_FRAME: Final = 6  # lines around the rows: title, column names, next commands, blank lines, prompt


class ScreenOptions(NamedTuple):
    """Options of the screen.

    Attributes:
        text: names and limits.
        own_first: sort rows by own share, without callees.
        every_row: show all rows above the limit.
        tree: the first row's calls as a tree.
        browser: whether --tui can be suggested.
        lines_after: lines that follow on the same screen.
        verdict: the sentences that come first.
    """

    text: TextOptions = TextOptions()
    own_first: bool = False
    every_row: bool = False
    tree: bool = False
    browser: bool = False
    lines_after: int = 0
    verdict: Sequence[Sentence] = ()


class _Part(NamedTuple):
    """A part below the rows: title, content, and number of lines."""

    title: str
    content: Table | Text
    lines: int


class _Limits(NamedTuple):
    """Limits of each part in lines; rows: None for the rest of `lines`."""

    lines: int
    rows: int | None
    files: int
    path: int

    def rows_beside(self, parts: Sequence[_Part]) -> int:
        """Return the number of rows that fit."""
        if self.rows is not None:
            return self.rows
        return max(_LEAST_ROWS, min(_MOST_ROWS, self._left_by(parts)))

    def _left_by(self, parts: Sequence[_Part]) -> int:
        return self.lines - _FRAME - sum(part.lines + 2 for part in parts)

    def fitting(self, parts: Sequence[_Part]) -> list[_Part]:
        """Return the parts; those before the last are dropped until rows and parts fit, and at last this one."""
        fitting_parts = [*parts]
        while fitting_parts and self.rows is None and self._left_by(fitting_parts) < _LEAST_ROWS:
            del fitting_parts[max(len(fitting_parts) - 2, 0)]
        return fitting_parts


def show_report(report: Report, recording: Recorded, console: Console, options: ScreenOptions) -> None:
    """Print the header and the tables."""
    lines = (
        console.height - show_verdict(options.verdict, console) - _show_header(report, recording, console, options) - options.lines_after
    )
    tables = _tables(report, options)
    rows = _ALL if options.every_row else None if len(tables) == 1 else _ROWS
    limits = _Limits(lines, rows, *_SIZES[(lines >= _USUAL) + (lines >= _TALL)])
    hidden = [_show_table(report, histogram, console, options, limits) for histogram in tables]
    _show_next(console, options, sum(hidden))


def _tables(report: Report, options: ScreenOptions) -> list[Histogram]:
    """Return the tables with samples: the waits first if the verdict begins with one, and not if they have no stacks."""
    tables = [histogram for histogram in report.histograms if histogram.leader.samples]
    if not options.every_row:
        tables = [histogram for histogram in tables if not lacks_stacks(histogram)] or tables
    if begins_with_wait(options.verdict):
        tables.sort(key=lambda histogram: not is_off_cpu(histogram.leader.event))
    return tables


def begins_with_wait(verdict: Sequence[Sentence]) -> bool:
    """Whether the first sentence is on waits."""
    return bool(verdict) and verdict[0].rule in _OF_WAITS


def show_verdict(verdict: Sequence[Sentence], console: Console) -> int:
    """Print the sentences, and return the number of lines; names of functions are shortened rather than wrapped apart."""
    if not verdict:
        return 0
    lines = [line for sentence in verdict for line in wrap(sentence.text, console.width, break_long_words=True, break_on_hyphens=False)]
    for line in lines:
        console.print(Text(line), style="bold")
    console.print()
    return len(lines) + 1


def _show_header(report: Report, recording: Recorded, console: Console, options: ScreenOptions) -> int:
    """Print the recording and its quality, and return the number of lines."""
    path, command = visible(recording.path), visible(recording.title) if recording.title != recording.path else ""
    program, _, arguments = command.partition(" ")
    command = f"{program.rpartition('/')[2]} {arguments}"
    title = fit_text(path, console.width)
    beside = fit_text(command, max(console.width - cell_len(title) - 2, 0))
    console.print(Text.assemble((title, "bold"), (f"  {beside}" if beside else "", "dim")))
    environment = "  ".join([f"{report.samples:,} {plural(report.samples, 'sample')}", *map(visible, recording.environment)])
    console.print(Text(fit_text(environment, console.width)), style="dim")
    tells_few = any(sentence.rule == FEW_SAMPLES for sentence in options.verdict)
    notes = [
        line
        for note in quality_notes(report, few=not tells_few)
        for line in wrap(f"! {visible(note)}", console.width, subsequent_indent="  ")
    ]
    for line in notes:
        console.print(Text(line), style="magenta")
    return 2 + len(notes)


def _show_table(report: Report, histogram: Histogram, console: Console, options: ScreenOptions, limits: _Limits) -> int:
    """Print one event's table and parts, and return the number of hidden rows."""
    text = options.text
    inclusive = "children" in histogram.entries.measures
    measure = "children" if inclusive and not options.own_first else "period"
    rows = histogram.by_own(histogram.visible_entries()) if inclusive and options.own_first else histogram.visible_entries()
    above_limit = rows[histogram.percents(measure, rows) >= text.percent_limit]
    if options.own_first and not options.every_row:  # functions that only call others are in the path, and in --stdio
        with_samples = above_limit[histogram.entries.measures["period"][above_limit, 0] > 0]
    else:
        with_samples = above_limit
    functions = functions_of(report, histogram)
    parts = limits.fitting(_parts(histogram, functions, with_samples[:1].tolist(), console.width, options, limits))
    displayed = with_samples[: limits.rows_beside(parts)].tolist()
    without_callees = options.own_first and not _has_one_command(_commands(histogram))
    lines = row_lines(report, histogram, functions, displayed)
    columns = ScreenColumns(histogram, displayed, measure, text, own_first=options.own_first, without_callees=without_callees, lines=lines)
    samples = sum(event.samples for event in histogram.events)
    title = f"  {samples:,} {plural(samples, 'sample')}"
    name = fit_text(visible(event_title(histogram, skip_empty=True)), console.width)
    for before, common in zip(["; these rows: ", *[", "] * len(columns.common)], columns.common, strict=False):
        title += f"{before}{common}" if cell_len(f"{name}{title}{before}{common}") <= console.width else ""
    console.print()
    console.print(Text.assemble((name, "bold"), fit_text(title, console.width - cell_len(name), OF_OTHERS)))
    notes = row_notes(histogram, functions, displayed, at_a_glance if text.short_names else str)
    console.print(rows_table(columns, displayed, console.width, notes))
    for part in parts:
        console.print(Text(f"\n{part.title}", style="bold"))
        console.print(part.content)
    return len(with_samples) - len(displayed)


def _parts(
    histogram: Histogram, sampled: SampledFunctions | None, first: Sequence[int], width: int, options: ScreenOptions, limits: _Limits
) -> list[_Part]:
    """Return the parts below the rows."""
    name = at_a_glance if options.text.short_names else str
    functions = _functions(histogram, name, width, limits)
    files = hottest_by("dso", histogram) if len(histogram.layout.keys) > 1 else []
    commands = _commands(histogram)
    of_one_command = _has_one_command(commands)
    half = width // 2 - 1
    categories = hottest_categories(sampled) if sampled is not None else []
    has_categories = of_one_command and sum(share >= _MATTERS for share, _ in categories) > 1
    of_files = _shares("hottest files", files, half if has_categories or not of_one_command else width, limits)
    left, beside = ("kinds of code", categories) if has_categories else ("hottest commands", commands)
    of_left = _shares(left, beside, half, limits) if has_categories or not of_one_command else None
    calls = _tree(histogram, first, options.text) if options.tree else _path(hottest_path(histogram, name), width, limits)
    return [part for part in (_side_by_side(of_left, of_files, half), functions, calls) if part is not None]


def _commands(histogram: Histogram) -> list[tuple[float, str]]:
    """Return the shares of commands; empty for a table of commands."""
    return hottest_by("comm", histogram) if len(histogram.layout.keys) > 1 else []


def _has_one_command(commands: Sequence[tuple[float, str]]) -> bool:
    """Whether at most one command matters: rows of several commands split a function's callers, so shares with callees mislead."""
    return sum(share >= _MATTERS for share, _ in commands) < 2


def _functions(histogram: Histogram, name: Callable[[str], str], width: int, limits: _Limits) -> _Part | None:
    """Return the program's own functions, between its start and the hot functions."""
    title, shares = "scripts and jitted code", hottest_made(histogram, name)
    if not shares:
        title, shares = hottest_of_program(histogram, name)
    distinguishing = _distinguishing(shares)
    displayed = shares if len(distinguishing) < limits.files else distinguishing
    names = [(function.share, function.name) for function in displayed]
    return _shares(f"hottest functions of {title}, including callees", names, width, limits, OF_FUNCTIONS)


def _distinguishing(functions: Sequence[NamedShare]) -> list[NamedShare]:
    """Drop functions that only lead to the work: nearly all samples go through them, and they have next to none of their own.

    If all of them only lead to others, the last is kept, where the work divides.
    """
    through = [function for function in functions if function.share >= _ALL_PASS]
    leading = [function for function in through if function.own < _MATTERS]
    dropped = leading[:-1] if leading == through else leading
    return [function for function in functions if function not in dropped]


def _side_by_side(first: _Part | None, second: _Part | None, width: int) -> _Part | None:
    """Return two parts side by side, each of this width."""
    if first is None or second is None:
        return first or second
    both = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    both.add_column(width=width)
    both.add_column(width=width)
    both.add_row(first.content, second.content)
    return _Part(f"{first.title:<{width + 2}}{second.title}", both, max(first.lines, second.lines))


def _shares(title: str, shares: Sequence[tuple[float, str]], width: int, limits: _Limits, head: float = OF_OTHERS) -> _Part | None:
    """Return names with their shares, without small ones."""
    shares_to_draw = [(share, name) for share, name in shares if share >= _MATTERS][: limits.files]
    return _Part(title, shares_table(shares_to_draw, width, head=head), len(shares_to_draw)) if shares_to_draw else None


def _path(path: HottestPath | None, width: int, limits: _Limits) -> _Part | None:
    if path is None:
        return None
    stretches = path.within(limits.path)
    room = width - len("100.00%") - 2
    lines = [Text.assemble((f"{stretch.share:6.2f}%", style(stretch.share)), f"  {stretch.text(room)}") for stretch in stretches]
    return _Part(path.title, Text("\n").join(lines), len(lines))


def _tree(histogram: Histogram, entries: Sequence[int], options: TextOptions) -> _Part | None:
    """Return the call tree of the first row."""
    lines = (
        call_lines(histogram, entries[0], at_a_glance if options.short_names else str) if histogram.trees is not None and entries else []
    )
    if not lines:
        return None
    texts = [Text(line, overflow="ellipsis", no_wrap=True) for line in lines[:_CALL_ROWS]]
    if len(lines) > _CALL_ROWS:
        texts.append(Text(f"... {len(lines) - _CALL_ROWS:,} more lines; --stdio shows all", style="dim"))
    return _Part("calls of the first row", Text("\n", no_wrap=True, overflow="ellipsis").join(texts), len(texts))


def _show_next(console: Console, options: ScreenOptions, hidden: int) -> None:
    """Print the next commands on one line."""
    ways = ["--tui (browse)"] if options.browser else []
    ways += ["--html (flame graph)", f"--stdio ({hidden:,} more rows)" if hidden else "--stdio (perf's text)"]
    while len(ways) > 1 and len(", ".join(ways)) + len(_NEXT) > console.width:
        ways.pop()
    console.print()
    console.print(Text(_NEXT + ", ".join(ways)), style="dim")


def hottest_categories(functions: SampledFunctions) -> list[tuple[float, str]]:
    """Return the share of each kind of code in percent, sorted by share."""
    shares = zip(functions.by_category(), NAMES, strict=True)
    return sorted(((100 * share, name) for share, name in shares if share), reverse=True)
