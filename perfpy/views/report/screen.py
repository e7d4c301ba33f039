"""Show a report on a terminal: answers first, within the window.

From top to bottom: the verdict, what was recorded and how accurate it is, ten rows of CPU time, five of waits, the hottest
path, and the next commands. With details, tables are longer, and kinds of code, files, commands and functions follow each.
Long lists in names of functions are omitted by default, and names are shortened in narrow windows; numbers never are.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from perfpy.abi.framing import cut_comm
from perfpy.abi.perfpy_encodings import PYTHON_MARK, READY, is_called_c_function, module_of_c_function
from perfpy.analysis.locations import ROLE_BITS
from perfpy.analysis.report.report import lacks_stacks, quality_notes
from perfpy.analysis.sample_view import is_clock, is_off_cpu
from perfpy.analysis.sort_key import Mode
from perfpy.analysis.verdict.call_sites import Statements
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, NAMES, OWN, RUNTIME
from perfpy.analysis.verdict.functions import sampled_functions
from perfpy.errors import plural
from perfpy.symbols.interning import sum_by
from perfpy.untrusted.files import PYTHON_IMAGE
from perfpy.untrusted.text import visible
from perfpy.views.pieces import share_style
from perfpy.views.readable import at_a_glance, event_name, short_path, source_file
from perfpy.views.report.screen_table import (
    NO_NOTES,
    OF_FUNCTIONS,
    OF_OTHERS,
    RowLine,
    RowNotes,
    ScreenColumns,
    call_lines,
    call_names,
    file_name,
    fit_text,
    fitted_path,
    rows_table,
    shares_table,
)
from perfpy.views.report.text import TextOptions, event_title
from perfpy.views.verdict.sentence import FEW_SAMPLES, library_function, name_in_sentence, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.report.call_trees import CallNode, Trees
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram, KeyValues
    from perfpy.analysis.verdict.functions import SampledFunctions, Share
    from perfpy.analysis.verdict.processes import ProcessRow
    from perfpy.views.recorded import Recorded
    from perfpy.views.verdict.sentence import Sentence


_CALL_ROWS: Final = 20
_ROWS: Final = 10
_ROWS_OF_WAITS: Final = 5  # beside CPU time
_LEAST_ROWS: Final = 4
_LEAST_ROWS_OF_WAITS: Final = 2
_DETAILED_ROWS: Final = 20  # with details, for each of several tables
_MOST_ROWS: Final = 40  # with details, for a single table
_ALL: Final = 1 << 62
_PATH: Final = 4  # stretches
_LEAST_PATH: Final = 2
_DETAILED_PATH: Final = 8
_SHARES: Final = 5  # files, functions ... in lists
_MOST_PROCESSES: Final = 6
_FEW: Final = 10  # with fewer samples, CPU time is left out beside waits: it says nothing
_OF_WAITS: Final = ("longest wait",)  # rules of sentences on waits
_OF_TREES: Final = ("hot tree",)  # rules of sentences on functions with all that they call
_NEXT: Final = "next: report "
_MATTERS: Final = 0.5  # percent; smaller shares are omitted
_MATTERS_READY: Final = 0.1  # of the waits: a busy machine
_MOST_CALLS: Final = 0.5  # of a function's samples: its caller is named without a share
_RARE_CALLER: Final = 0.1  # callers with fewer are not named
_MOSTLY_CALLS: Final = 0.6  # of the samples that are charged to a function: those of the one that it mostly calls
_ALL_PASS: Final = 90.0  # percent: functions with larger shares distinguish nothing
_TABLE_FRAME: Final = 3  # lines around the rows: a blank line, the title, and the names of columns
_END: Final = 5  # lines: a blank line, the next commands, the prompt; before the report, the two commands of `perfpy ./program`


class ScreenOptions(NamedTuple):
    """Options of the screen.

    Attributes:
        text: names and limits.
        own_first: sort rows by own share, without callees.
        every_row: show all rows above the limit.
        details: long tables, and lists below each.
        fills_window: show as many rows as fit.
        tree: the first row's calls as a tree.
        browser: whether --tui can be suggested.
        lines_after: lines that follow on the same screen.
        verdict: the sentences that come first.
        processes: those of a service, which come after the header.
    """

    text: TextOptions = TextOptions()
    own_first: bool = False
    every_row: bool = False
    details: bool = False
    fills_window: bool = False
    tree: bool = False
    browser: bool = False
    lines_after: int = 0
    verdict: Sequence[Sentence] = ()
    processes: Sequence[ProcessRow] = ()


class _Part(NamedTuple):
    """A part below the rows: title, content, and number of lines."""

    title: str
    content: Table | Text
    lines: int


class _Rows(NamedTuple):
    """The rows of one table.

    Attributes:
        histogram: the table.
        functions: its functions, None for reports without functions.
        charged: entry -> the percentage that is charged to its function; empty if that is the own share.
        entries: the rows, sorted.
        mattering: how many of them matter; at least some.
        measure: what they are sorted by, and what bars show.
        without_callees: leave out shares with callees.
    """

    histogram: Histogram
    functions: SampledFunctions | None
    charged: Mapping[int, float]
    entries: Int64
    mattering: int
    measure: str
    without_callees: bool


class _Size(NamedTuple):
    """The number of rows of each table, and of lines for the calls below the first one, 0 for none."""

    rows: Sequence[int]
    calls: int


def show_report(report: Report, recording: Recorded, console: Console, options: ScreenOptions) -> None:
    """Print the header and the tables."""
    tables = [_rows(report, histogram, options) for histogram in _tables(report, options)]
    lines = console.height - show_verdict(options.verdict, console)
    lines -= _show_header(report, recording, console, options, [table.histogram for table in tables]) + options.lines_after
    has_details = options.details or options.every_row
    if options.processes:
        processes = _processes(options, console.width)
        _show_part(processes, console)
        lines -= processes.lines + 2
    calls = [] if has_details or not tables else [_calls(tables[0], console.width, options, size) for size in (_LEAST_PATH, _PATH)]
    size = _size(tables, lines, [0 if part is None else part.lines for part in calls], options)
    hidden = 0
    for table, rows in zip(tables, size.rows, strict=True):
        displayed = table.entries[:rows].tolist()
        hidden += len(table.entries) - len(displayed)
        _show_table(report, table, displayed, console, options)
        parts = _parts(table, console.width, options) if has_details else []
        for part in parts:
            _show_part(part, console)
    if size.calls and (path := _calls(tables[0], console.width, options, size.calls)):
        _show_part(path, console)
    _show_next(console, options, hidden)


def _tables(report: Report, options: ScreenOptions) -> list[Histogram]:
    """Return the tables with samples: the waits first if the verdict begins with one, and not if they have no stacks.

    Without details, CPU time is left out beside waits if it has so few samples that it says nothing.
    """
    tables = [histogram for histogram in report.histograms if histogram.leader.samples]
    if not options.every_row:
        tables = [histogram for histogram in tables if not lacks_stacks(histogram)] or tables
    if begins_with_wait(options.verdict):
        tables.sort(key=lambda histogram: not is_off_cpu(histogram.leader.event))
        if not (options.details or options.every_row):
            tables = [table for table in tables if is_off_cpu(table.leader.event) or table.leader.samples >= _FEW]
    return tables


def _rows(report: Report, histogram: Histogram, options: ScreenOptions) -> _Rows:
    """Return the rows of a table above the limits.

    Sorted by own shares, functions of own code count with the library and kernel code that they call, as in the headline. If the
    headline names one with all that it calls, that is the first row.
    """
    has_callees = "children" in histogram.entries.measures
    measure = "children" if has_callees and not options.own_first else "period"
    functions = functions_of(report, histogram)
    tree = next((one.names.get("function", "") for one in options.verdict if one.rule in _OF_TREES), "")
    has_charged = options.own_first and has_callees and not tree and functions is not None
    charged = charged_percents(report, histogram, functions) if has_charged and functions is not None else {}
    rows = histogram.visible_entries()
    shares = histogram.percents(measure, rows)
    has_one_command = _has_one_command(_commands(histogram))
    is_first = np.zeros(len(rows), np.bool_)
    if tree and functions is not None and has_one_command and not is_off_cpu(histogram.leader.event):
        numbers = _symbols(histogram, rows.tolist(), every=True).values()
        is_first = np.array([number >= 0 and functions.name(number) == tree for number in numbers], np.bool_)
    if measure == "period" and has_callees:
        order, shares = by_charged(shares, rows, charged, is_first)
        rows, shares, is_first = rows[order], shares[order], is_first[order]
    is_above = shares >= options.text.percent_limit
    if options.own_first and not options.every_row:  # functions that only call others are in the path, and in --stdio
        is_above &= (shares > 0) | is_first
    mattering = int((shares[is_above] >= _MATTERS).sum() + is_first.sum())
    without_callees = options.own_first and (bool(charged and not options.details) or not has_one_command)
    return _Rows(histogram, functions, charged, rows[is_above], max(mattering, _ROWS_OF_WAITS), measure, without_callees)


def by_charged(
    shares: NDArray[np.float64], rows: Int64, charged: Mapping[int, float], is_first: NDArray[np.bool_] | bool = False
) -> tuple[Int64, NDArray[np.float64]]:
    """Return the order of rows by their own share or that which is charged to them, and the larger of both for each row."""
    with_libraries = np.array([charged.get(entry, 0.0) for entry in rows.tolist()])
    larger = np.maximum(shares, with_libraries)
    return np.lexsort((-with_libraries, -larger, np.broadcast_to(~np.asarray(is_first), len(rows)))), larger


def _size(tables: Sequence[_Rows], lines: int, calls: Sequence[int], options: ScreenOptions) -> _Size:
    """Return how much of the tables and of the calls below them fits into some lines. calls: their least and usual number of lines."""
    if options.every_row:
        return _Size([_ALL] * len(tables), 0)
    if options.details:
        return _Size([_MOST_ROWS if len(tables) == 1 else _DETAILED_ROWS] * len(tables), 0)
    of_waits = [is_off_cpu(table.histogram.leader.event) and len(tables) > 1 for table in tables]
    wanted = [_ALL if options.fills_window else _ROWS_OF_WAITS if is_wait else _ROWS for is_wait in of_waits]
    wanted = [min(rows, table.mattering, len(table.entries)) for rows, table in zip(wanted, tables, strict=True)]
    least = [min(rows, _LEAST_ROWS_OF_WAITS if is_wait else _LEAST_ROWS) for rows, is_wait in zip(wanted, of_waits, strict=True)]
    free = lines - _END - _TABLE_FRAME * len(tables)
    fewest, usual = calls or (0, 0)
    drawn = max(min(usual, free - sum(wanted) - 2), fewest) if fewest and free - sum(least) >= fewest + 2 else 0
    room = free - (drawn + 2 if drawn else 0)
    rows = [*wanted]
    while sum(rows) > room and rows > least:
        shrinking = max((index for index in range(len(rows)) if rows[index] > least[index]), key=lambda index: rows[index])
        rows[shrinking] -= max(1, min(sum(rows) - room, rows[shrinking] - max(least[shrinking], _ROWS)))
    return _Size(rows, drawn)


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


def _show_header(report: Report, recording: Recorded, console: Console, options: ScreenOptions, tables: Sequence[Histogram]) -> int:
    """Print the recording and its quality, and return the number of lines."""
    path, command = visible(recording.path), visible(recording.title) if recording.title != recording.path else ""
    title = fit_text(path, console.width)
    beside = fit_text(command, max(console.width - cell_len(title) - 2, 0))
    console.print(Text.assemble((title, "bold"), (f"  {beside}" if beside else "", "dim")))
    environment = "  ".join([f"{report.samples:,} {plural(report.samples, 'sample')}", *map(visible, recording.environment)])
    console.print(Text(fit_text(environment, console.width)), style="dim")
    tells_few = any(sentence.rule == FEW_SAMPLES for sentence in options.verdict)
    notes = [
        line
        for note in quality_notes(report, few=not tells_few, tables=tables, unnamed=not options.lines_after)
        for line in wrap(f"! {visible(note)}", console.width, subsequent_indent="  ")
    ]
    for line in notes:
        console.print(Text(line), style="magenta")
    return 2 + len(notes)


def _show_table(report: Report, table: _Rows, displayed: Sequence[int], console: Console, options: ScreenOptions) -> None:
    """Print one event's table."""
    histogram, text = table.histogram, options.text
    columns = ScreenColumns(
        *(histogram, displayed, table.measure, text),
        own_first=options.own_first,
        without_callees=table.without_callees,
        charged=table.charged,
        lines=row_lines(report, histogram, table.functions, displayed),
        calls=row_calls(histogram, table.functions, displayed) if table.charged else None,
        outer=row_outer_functions(histogram, table.functions, displayed),
    )
    samples = sum(event.samples for event in histogram.events)
    event = histogram.leader.event
    of_clock = " (CPU time and waits)" if event.has_waits else " (CPU time)"
    of_what = "" if len(histogram.events) > 1 else " (waits)" if is_off_cpu(event) else of_clock if is_clock(event) else ""
    title = f"{of_what}  {samples:,} {plural(samples, 'sample')}{_ready_text(table.functions) if is_off_cpu(event) else ''}"
    name = fit_text(visible(event_name(event_title(histogram, skip_empty=True))), console.width)
    before = "; these rows: "
    for common in columns.common:
        if cell_len(f"{name}{title}{before}{common}") <= console.width:
            title, before = f"{title}{before}{common}", ", "
    console.print()
    console.print(Text.assemble((name, "bold"), fit_text(title, console.width - cell_len(name), OF_OTHERS)))
    notes = row_notes(report, histogram, table.functions, displayed, at_a_glance if text.short_names else str)
    console.print(rows_table(columns, displayed, console.width, notes))


def _ready_text(functions: SampledFunctions | None) -> str:
    """Return for which share of the waits the threads could run, and waited for a CPU; "" if it does not matter."""
    states = functions.rows.dimensions.get("state") if functions is not None else None
    if functions is None or states is None or not functions.period:
        return ""
    share = int(functions.rows.period[states == READY].sum()) / functions.period
    return f", {percent(share)} of the time for a CPU" if share >= _MATTERS_READY else ""


def _show_part(part: _Part, console: Console) -> None:
    console.print(Text(f"\n{part.title}", style="bold"))
    console.print(part.content)


def _processes(options: ScreenOptions, width: int) -> _Part:
    """Return the processes of a service: share, name and hottest own function."""
    rows = options.processes if options.details or options.every_row else options.processes[:_MOST_PROCESSES]
    hidden = len(options.processes) - len(rows)
    names = [visible(row.text) for row in rows]
    column = min(max(map(cell_len, names), default=0), width // 2)
    lines = []
    for row, name in zip(rows, names, strict=True):
        left = fit_text(name, column, OF_OTHERS)
        function = visible((at_a_glance if options.text.short_names else str)(row.function)) if row.in_function >= _RARE_CALLER else ""
        beside = f"{100 * row.in_function:3.0f} % in {function}" if function else ""
        room = width - column - len("100.00%") - 4
        line = Text.assemble((f"{100 * row.share:6.2f}%", share_style(100 * row.share)), f"  {left}{' ' * (column - cell_len(left))}  ")
        lines.append(line.append(fit_text(beside, max(room, 0)), "dim"))
    if hidden:
        lines.append(Text(f"{'':7}  {hidden} more {plural(hidden, 'process', 'processes')} (-v)", style="dim"))
    return _Part("CPU time by process", Text("\n").join(lines), len(lines))


def _parts(table: _Rows, width: int, options: ScreenOptions) -> list[_Part]:
    """Return the parts below the rows of a table with details."""
    histogram, half = table.histogram, width // 2 - 1
    functions = _functions(histogram, at_a_glance if options.text.short_names else str, width)
    files = hottest_by("dso", histogram) if len(histogram.layout.keys) > 1 else []
    commands = _commands(histogram)
    of_one_command = _has_one_command(commands)
    categories = hottest_categories(table.functions) if table.functions is not None else []
    has_categories = of_one_command and sum(share >= _MATTERS for share, _ in categories) > 1
    of_files = _shares("hottest files", files, half if has_categories or not of_one_command else width)
    left, beside = ("kinds of code", categories) if has_categories else ("hottest commands", commands)
    of_left = _shares(left, beside, half) if has_categories or not of_one_command else None
    calls = _calls(table, width, options, _DETAILED_PATH)
    return [part for part in (_side_by_side(of_left, of_files, half), functions, calls) if part is not None]


def _calls(table: _Rows, width: int, options: ScreenOptions, most: int) -> _Part | None:
    """Return the calls of the first row as a tree, or the hottest path of a table in at most this number of lines."""
    histogram, name = table.histogram, at_a_glance if options.text.short_names else str
    if options.tree:
        return _tree(histogram, table.entries[:1].tolist(), options.text)
    path = hottest_path(histogram, name, None if options.details else table.functions)
    if path is None:
        return None
    room = width - len("100.00%") - 2
    stretches = path.within(most)
    lines = [Text.assemble((f"{stretch.share:6.2f}%", share_style(stretch.share)), f"  {stretch.text(room)}") for stretch in stretches]
    return _Part(path.title, Text("\n").join(lines), len(lines))


def _commands(histogram: Histogram) -> list[tuple[float, str]]:
    """Return the shares of commands; empty for a table of commands."""
    return hottest_by("comm", histogram) if len(histogram.layout.keys) > 1 else []


def _has_one_command(commands: Sequence[tuple[float, str]]) -> bool:
    """Whether at most one command matters: rows of several commands split a function's callers, so shares with callees mislead."""
    return sum(share >= _MATTERS for share, _ in commands) < 2


def _functions(histogram: Histogram, name: Callable[[str], str], width: int) -> _Part | None:
    """Return the program's own functions, between its start and the hot functions."""
    title, shares = "scripts and jitted code", hottest_made(histogram, name)
    if not shares:
        title, shares = hottest_of_program(histogram, name)
    distinguishing = _distinguishing(shares)
    displayed = shares if len(distinguishing) < _SHARES else distinguishing
    names = [(function.share, function.name) for function in displayed]
    return _shares(f"hottest functions of {title}, including callees", names, width, OF_FUNCTIONS)


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


def _shares(title: str, shares: Sequence[tuple[float, str]], width: int, head: float = OF_OTHERS) -> _Part | None:
    """Return names with their shares, without small ones."""
    shares_to_draw = [(share, name) for share, name in shares if share >= _MATTERS][:_SHARES]
    return _Part(title, shares_table(shares_to_draw, width, head=head), len(shares_to_draw)) if shares_to_draw else None


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
    """Print the commands that show more, on one line."""
    rows = f"{hidden:,} more {plural(hidden, 'row')}" if hidden else ""
    has_details = options.details or options.every_row
    ways = [] if has_details else [f"-v ({', '.join(filter(None, [rows, 'kinds of code', 'files']))})"]
    ways += ["--tui (browse)"] if options.browser else []
    ways += ["--html (flame graph)", f"--stdio ({rows})" if has_details and rows else "--stdio (perf's text)"]
    while len(ways) > 1 and len(", ".join(ways)) + len(_NEXT) > console.width:
        ways.pop()
    if len(ways[0]) + len(_NEXT) > console.width:
        ways = [ways[0].partition(" (")[0]]
    console.print()
    console.print(Text(_NEXT + ", ".join(ways)), style="dim")


def hottest_categories(functions: SampledFunctions) -> list[tuple[float, str]]:
    """Return the share of each kind of code in percent, sorted by share. Libraries that are compiled into a program are in its file."""
    shares = [*zip(functions.by_category(), NAMES, strict=True)]
    if compiled := functions.in_libraries_of_programs():
        shares[LIBRARY] = (shares[LIBRARY][0] - compiled, NAMES[LIBRARY])
        shares.append((compiled, f"{NAMES[LIBRARY]} in the program"))
    return sorted(((100 * share, name) for share, name in shares if share), reverse=True)


# Summaries beside the rows: the hottest files, commands and functions, and the hottest path of calls.


#: files of code generated while the program ran
_MADE: Final = re.compile(r"\[JIT\]|/perf-\d+\.map|jitted-\d+")
_ADDRESS: Final = re.compile("0x[0-9a-f]+|0")  # names of frames without a symbol
_UNKNOWN: Final = "[unknown]"
_MOST_MADE: Final = 100
_LEVEL: Final = len("[.] ")
#: functions of C, of the C++ and Rust standard libraries, of Go's runtime
_OF_LIBRARIES: Final = re.compile(r"_|(?:<&?|operator )?(?:std|core|alloc|hashbrown|__\w+)::|runtime[./]|operator (?:new|delete)")
_SCHEDULER: Final = ("__schedule", "schedule")  # functions of waiting threads
_OF_FUNCTION: Final = ("dso", "symbol")
_PYTHON_CODE: Final = ("Python", PYTHON_IMAGE)  # dsos of Python functions: their source files are shown instead
_SMALL_PROGRAM: Final = 5.0  # percent, with callees
_SMALL_PATH: Final = 10.0  # percent of its first function
_SMALL: Final = 0.1  # of the path's first share: smaller shares are not followed


class Stretch(NamedTuple):
    """Functions that call each other, and the share of the last of them."""

    names: tuple[str, ...]
    share: float
    arrow: str

    def text(self, width: int) -> str:
        """Return the functions, shortened to a number of columns."""
        return fitted_path(self.names, self.arrow, width)


class HottestPath(NamedTuple):
    """The callee with the largest share at each stretch, and a title."""

    title: str
    stretches: list[Stretch]

    def within(self, most: int) -> list[Stretch]:
        """Return at most `most` stretches: the first, the last, and those before the largest losses.

        The others are merged into the stretch after them.
        """
        inner = range(1, len(self.stretches) - 1)
        lost = sorted(inner, key=lambda index: self.stretches[index].share - self.stretches[index - 1].share)
        boundaries = {0, len(self.stretches) - 1, *lost[: max(most - 2, 0)]}
        stretches: list[Stretch] = []
        names: tuple[str, ...] = ()
        for index, stretch in enumerate(self.stretches):
            names += stretch.names
            if index in boundaries:
                stretches.append(stretch._replace(names=names))
                names = ()
        return stretches


def hottest_by(key: str, histogram: Histogram) -> list[tuple[float, str]]:
    """Return the share of each file (key dso), command (comm) ..., sorted by share; nothing for reports without the key."""
    if key not in histogram.keys:
        return []
    entries = histogram.visible_entries()
    values = histogram.keys[key]
    _, first, groups = np.unique(values.same(entries), return_index=True, return_inverse=True)
    periods = sum_by(groups, histogram.entries.measures["period"][entries, 0], len(first)).tolist()
    texts = histogram.texts(key, entries[first])
    shares = dict[str, float]()
    for number, (period, text) in enumerate(zip(periods, texts, strict=True)):
        is_python = key == "dso" and text.strip() in _PYTHON_CODE
        of_files = _source_files(histogram, entries[groups == number], text) if is_python else {file_name(text): period}
        for name, part in of_files.items():
            shares[name] = shares.get(name, 0.0) + histogram.share(part)
    return sorted(((share, name) for name, share in shares.items()), reverse=True)


def _source_files(histogram: Histogram, entries: Int64, image: str) -> dict[str, int]:
    """Return the source files of Python functions, and the period of each; image: the file in place of unknown ones."""
    periods = histogram.entries.measures["period"][entries, 0].tolist()
    names = histogram.texts("symbol", entries) if "symbol" in histogram.keys else [""] * len(periods)
    files: dict[str, int] = {}
    for text, period in zip(names, periods, strict=True):
        function = text[_LEVEL:].strip()
        path = source_file(function)
        if is_called_c_function(function):
            name = f"{visible(module_of_c_function(function))} (C)"
        else:
            name = visible(short_path(path)) if path else file_name(image)
        files[name] = files.get(name, 0) + period
    return files


class NamedShare(NamedTuple):
    """A function: its share in percent including callees, its name, and its own share."""

    share: float
    name: str
    own: float


def hottest_made(histogram: Histogram, name: Callable[[str], str]) -> list[NamedShare]:
    """Return functions of runtimes that generate code (Python, Node.js ...), including callees, sorted by share.

    Their own time is in the interpreter, so they are not among the hottest by own share. Nothing for reports without callers.
    """
    files = {number for number, text in _files(histogram).items() if _MADE.search(text)}
    return [function._replace(name=visible(name(function.name))) for function in _with_callees(histogram, files)]


def hottest_of_program(histogram: Histogram, name: Callable[[str], str]) -> tuple[str, list[NamedShare]]:
    """Return the program's file, named like its command, and its functions, including callees, sorted by share.

    Functions of the language's own library, which compilers put into the same file, are skipped. If there are several programs, the one
    with the largest share, unless that is small, as of a shell that only starts the program. Nothing for reports without callers, files
    or commands.
    """
    if "comm" not in histogram.keys:
        return "", []
    commands = {text.strip() for text in histogram.texts("comm", _first_of_each(histogram.keys["comm"], histogram.visible_entries()))}
    by_file = [
        (text, [hot for hot in _with_callees(histogram, {number}) if not _OF_LIBRARIES.match(at_a_glance(hot.name))])
        for number, text in _files(histogram).items()
        if cut_comm(text.strip().rpartition("/")[2]) in commands
    ]
    file, shares = max(by_file, key=lambda item: item[1][:1], default=("", []))
    if not shares or shares[0].share < _SMALL_PROGRAM:
        return "", []
    return file_name(file), [function._replace(name=visible(name(function.name))) for function in shares]


def _files(histogram: Histogram) -> dict[int, str]:
    """Return the files of the shown rows, by the number that their rows share; nothing for reports without files, functions or callers."""
    if "children" not in histogram.entries.measures or not {"dso", "symbol"} <= set(histogram.keys):
        return {}
    files = histogram.keys["dso"]
    entries = _first_of_each(files, histogram.visible_entries())
    return dict(zip(files.same(entries).tolist(), histogram.texts("dso", entries), strict=True))


def _with_callees(histogram: Histogram, files: Collection[int]) -> list[NamedShare]:
    """Return the functions of some files with the shares including callees; each once, even if it has several rows."""
    if not files:
        return []
    entries = histogram.visible_entries()
    entries = _rows_with_symbol(histogram, entries[np.isin(histogram.keys["dso"].same(entries), np.array([*files]))])
    if not len(entries):
        return []
    # rows of other keys divide the samples: their shares add up
    by_place = any(key.of_location and key.name not in _OF_FUNCTION for key in histogram.layout.keys)
    rows = np.arange(len(entries)) if by_place else histogram.keys["symbol"].same(entries)
    _, first, groups = np.unique(rows, return_index=True, return_inverse=True)
    measures = histogram.entries.measures
    periods, own = (sum_by(groups, measures[name][entries, 0], len(first)) for name in ("children", "period"))
    order = np.lexsort((first, -periods))[:_MOST_MADE]
    texts = histogram.texts("symbol", entries[first[order]])
    shares, own_shares = ([histogram.share(period) for period in column[order].tolist()] for column in (periods, own))
    return [NamedShare(share, text[_LEVEL:], alone) for share, text, alone in zip(shares, texts, own_shares, strict=True)]


def _first_of_each(values: KeyValues, entries: Int64) -> Int64:
    """Return one of the entries for each value."""
    return entries[np.unique(values.same(entries), return_index=True)[1]]


def hottest_path(histogram: Histogram, name: Callable[[str], str], functions: SampledFunctions | None = None) -> HottestPath | None:
    """Return the calls below the first row with a name outside the idle task; below the first row if none has; None without call trees.

    Functions that all threads call in the end, such as the kernel's scheduler, sort before the functions where threads begin: a row counts
    if chains begin with it, or if its share is mostly its own.

    Args:
        histogram: the table.
        name: converts a function's name to its display name.
        functions: those of the table, to leave out what is neither own code nor the end of the path.
    """
    trees, graph = histogram.trees, histogram.options.chains.call_graph
    rows = histogram.visible_entries()
    if trees is None or graph is None or not len(rows):
        return None
    entry, title = _start_row(histogram, rows)
    arrow = " → " if graph.order == "caller" else " ← "
    followed, nodes = [], histogram.calls(entry, alone=True)
    least = _SMALL * histogram.weight(entry)
    while nodes:
        node = max(nodes, key=_period)
        if node.period < least:
            break
        followed.append((node.period, node.frames))
        nodes = node.children
    stretches = []
    if graph.order == "caller":
        followed = _drop_scheduler(trees, followed)
        followed = followed if functions is None else _own_stretches(trees, followed, functions)
    for period, frames in followed:
        callees = [_UNKNOWN if _ADDRESS.fullmatch(text) else text for text in call_names(trees, frames, name)]
        names = tuple(visible(text) for text, _ in groupby(callees))
        stretches.append(Stretch(names, histogram.share(period), arrow))
    every_name = [text for stretch in stretches for text in stretch.names]
    if 2 * every_name.count(_UNKNOWN) > len(every_name) or stretches[0].share < _SMALL_PATH:
        return None
    return HottestPath(title if graph.order == "caller" else f"{title}, to its callers", stretches)


def _drop_scheduler(trees: Trees, followed: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """Return the stretches of a path without kernel functions that only lead to the scheduler."""
    if not followed or trees.frame_name(followed[-1][1][-1]) not in _SCHEDULER:
        return followed
    in_program = [(period, [frame for frame in frames if not trees.in_kernel(frame)]) for period, frames in followed]
    return [stretch for stretch in in_program if stretch[1]] or followed


def _own_stretches(trees: Trees, followed: list[tuple[int, list[int]]], functions: SampledFunctions) -> list[tuple[int, list[int]]]:
    """Return the stretches of a path with functions of own code and the last function only; all if no function is own code."""
    frames = [frame for _, stretch in followed for frame in stretch]
    own = {frame for frame in frames if _is_own(trees.symbol(frame), functions)}
    whole = [frame for frame in frames if trees.symbol(frame) < 0 or not functions.is_inlined(trees.symbol(frame))]
    kept = {*own, *whole[-1:]}
    stretches = [(period, [frame for frame in stretch if frame in kept]) for period, stretch in followed]
    return [stretch for stretch in stretches if stretch[1]] if own else followed


def _is_own(symbol: int, functions: SampledFunctions) -> bool:
    return symbol >= 0 and bool(functions.category_of[symbol] == OWN)


def _start_row(histogram: Histogram, rows: Int64) -> tuple[int, str]:
    """Return the row whose calls are followed, and the title."""
    title = "hottest path of the waits" if is_off_cpu(histogram.leader.event) else "hottest path"
    busy = rows[histogram.joined.tids[rows] != 0]
    if len(busy) and busy[0] != rows[0]:
        title += " outside the idle task"
    rows = busy if len(busy) else rows
    candidates = _rows_with_symbol(histogram, rows) if any(key.of_location for key in histogram.layout.keys) else rows
    if len(candidates) and candidates[0] != rows[0]:
        title += ", of functions with names"
    rows = candidates if len(candidates) else rows
    begins = rows[_have_whole_chains(histogram, rows)]
    return int(begins[0] if len(begins) else rows[0]), title


def _have_whole_chains(histogram: Histogram, rows: Int64) -> NDArray[np.bool_]:
    """Return which rows have whole chains below them."""
    measures, trees = histogram.entries.measures, histogram.trees
    if "children" not in measures or trees is None:
        return np.ones(len(rows), np.bool_)
    begins: NDArray[np.bool_] = trees.outermost(rows) | (2 * measures["period"][rows, 0] >= measures["children"][rows, 0])
    return begins


def _rows_with_symbol(histogram: Histogram, rows: Int64) -> Int64:
    """Return the rows in functions with known names."""
    named_rows: Int64 = rows[histogram.locations.symbol[histogram.entries.location[rows] >> ROLE_BITS] >= 0]
    return named_rows


def _period(node: CallNode) -> int:
    return node.period


# The functions in rows: their category as a style, their hottest caller, and their hottest source line.


#: styles that are legible on dark and on light terminals
CATEGORY_STYLES: Final = {OWN: "bold", LIBRARY: "", INTERPRETER: "dim", RUNTIME: "dim", KERNEL: "dim"}


def functions_of(report: Report, histogram: Histogram) -> SampledFunctions | None:
    """Return the functions of a table's samples; None for reports without functions, or of branches or memory accesses."""
    is_ordinary = report.options.columns.mode is Mode.NORMAL and "frame" in report.folded.dimensions
    return sampled_functions(report, histogram) if is_ordinary and "symbol" in histogram.keys else None


def row_notes(
    report: Report, histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int], name: Callable[[str], str]
) -> RowNotes:
    """Return the styles and the hottest callers of the functions in some rows, in rows of commands those of the command."""
    if functions is None:
        return NO_NOTES
    commands, of_rows = _commands_of(report, histogram, functions)
    callers = functions.hottest_callers_by(of_rows)
    of_entries = _symbols(histogram, entries)
    styles = {entry: CATEGORY_STYLES.get(int(functions.category_of[symbol]), "") for entry, symbol in of_entries.items()}
    found = {entry: callers.get((symbol, int(commands[histogram.entries.row[entry]]))) for entry, symbol in of_entries.items()}
    notes = {entry: caller_text(caller, name) for entry, caller in found.items() if caller is not None and caller.name}
    return RowNotes(styles, notes, functions.has_own_callers)


def _commands_of(report: Report, histogram: Histogram, functions: SampledFunctions) -> tuple[Int64, Int64]:
    """Return the number of the command of each row of the report, and of each sample of the functions; 0 in tables without commands."""
    dimension = next((getattr(key, "dimension", "") for key in histogram.layout.keys if key.name == "comm"), "")
    if dimension not in functions.rows.dimensions:
        return np.zeros(len(report.folded), np.int64), np.zeros(len(functions.rows), np.int64)
    return report.folded.dimensions[dimension].astype(np.int64), functions.rows.dimensions[dimension].astype(np.int64)


def caller_text(caller: Share, name: Callable[[str], str]) -> str:
    """Return the function that calls another one in most of its samples, with its share if that is small; "" for a rare caller."""
    share = "" if caller.share >= _MOST_CALLS else f" ({100 * caller.share:.0f} %)"
    return "" if caller.share < _RARE_CALLER else f"{visible(name(caller.name))}{share}"


def row_lines(report: Report, histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int]) -> dict[int, RowLine]:
    """Return the line at which the program's own functions in some rows have most samples, and at which C functions were called by
    Python, as far as lines are known; in rows of commands, with the samples of the command.
    """
    if functions is None:
        return {}
    statements = Statements(report, histogram.leader.event.index)
    if statements.functions is None:
        return {}
    lines: dict[int, RowLine] = {}
    commands, of_rows = _commands_of(report, histogram, statements.functions)
    for entry, symbol in _symbols(histogram, entries).items():
        is_c_function = is_called_c_function(functions.name(symbol))
        if not is_c_function and functions.category_of[symbol] != OWN:
            continue
        among = of_rows == commands[histogram.entries.row[entry]]
        line = statements.own_line(symbol, among) if is_c_function else statements.line(symbol, among=among)
        if line is not None and not statements.is_inlined(symbol, line.source_line):
            lines[entry] = RowLine(*line.source_line, histogram.share(line.period), line.lines if is_c_function else 0)
    return lines


def row_calls(histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int]) -> dict[int, str]:
    """Return the function of a library that each of the program's own Python functions mostly calls, as rows name it."""
    if functions is None:
        return {}
    own = {entry: symbol for entry, symbol in _symbols(histogram, entries).items() if functions.category_of[symbol] == OWN}
    calls = {entry: functions.calls_of(symbol) for entry, symbol in own.items() if functions.name(symbol).startswith(PYTHON_MARK)}
    names = {entry: library_function(shares, _MOSTLY_CALLS) for entry, shares in calls.items()}
    return {entry: name for entry, name in names.items() if name}


def row_outer_functions(histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int]) -> dict[int, str]:
    """Return the function into which those of some rows are inlined, as sentences name it, if it is in a library or several rows have
    the same function: sentences name sin(), and the samples are in code that is inlined there.
    """
    if functions is None:
        return {}
    symbols, outer = histogram.locations.symbols, dict[int, int]()
    for entry, symbol in zip(entries, histogram.locations.symbol[histogram.entries.location[entries] >> ROLE_BITS].tolist(), strict=True):
        if symbol >= 0 and symbols.is_inlined(symbol):
            outer[entry] = symbols.outer(symbol)
    of_entries = _symbols(histogram, [*outer])
    times = Counter(of_entries.values())
    return {
        entry: visible(name_in_sentence(symbols.name(outer[entry])))
        for entry, symbol in of_entries.items()
        if times[symbol] > 1 or functions.category_of[outer[entry]] != OWN
    }


def charged_percents(report: Report, histogram: Histogram, functions: SampledFunctions) -> dict[int, float]:
    """Return the percentage that is charged to each row of a function of own code.

    Nothing if that is the own percentage everywhere, in tables of several events, and in those with sort keys that divide functions.
    """
    sample_keys = [key for key in histogram.layout.keys if not key.of_location]
    rows = histogram.visible_entries()
    first, of_rows, of_samples = histogram.entries.row[rows], np.zeros(len(rows), np.int64), np.zeros(len(functions.leaf), np.int64)
    folded, dimensions = report.folded.dimensions, functions.rows.dimensions
    is_by_function = {key.name for key in histogram.layout.keys if key.of_location} <= {*_OF_FUNCTION}
    if len(histogram.events) > 1 or not is_by_function or not all(key.dimension in dimensions for key in sample_keys):
        return {}
    for key in sample_keys:
        span = int(folded[key.dimension].max(initial=0)) + 1
        of_rows, of_samples = of_rows * span + folded[key.dimension][first], of_samples * span + dimensions[key.dimension]
    periods = functions.charged_by(of_samples)
    groups = dict(zip(rows.tolist(), of_rows.tolist(), strict=True))
    charged = {entry: periods.pop((symbol, groups[entry]), 0) for entry, symbol in _symbols(histogram, rows.tolist()).items()}
    own = histogram.entries.measures["period"][:, 0]
    if all(period <= own[entry] for entry, period in charged.items()):
        return {}
    return {entry: histogram.share(period) for entry, period in charged.items() if period}


def _symbols(histogram: Histogram, entries: Sequence[int], *, every: bool = False) -> dict[int, int]:
    """Return the numbers of the functions in some rows; every: also -1 for rows of unnamed code."""
    symbols = histogram.locations.symbol[histogram.entries.location[entries] >> ROLE_BITS]
    of_symbols = histogram.locations.functions
    symbols = np.where(symbols >= 0, of_symbols[symbols], symbols).tolist() if len(of_symbols) else symbols.tolist()
    return {entry: symbol for entry, symbol in zip(entries, symbols, strict=True) if every or symbol >= 0}
