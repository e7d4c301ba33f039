"""`perfpy report --tui`: an interactive report with the keys of perf's browser.

A textual application shows the rows of a table, with their calls folded
below. perfpy.views.report.browser is the model, perfpy.views.report.browser shows the rows;
this module has the rest of the screen, and the keys.
"""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from perfpy.analysis.locations import ROLE_BITS
from perfpy.analysis.report.report import quality_notes
from perfpy.analysis.sample_view import is_off_cpu
from perfpy.errors import PerfError, plural
from perfpy.untrusted.destinations import create_new
from perfpy.untrusted.text import lines as one_line_each
from perfpy.untrusted.text import visible
from perfpy.views.cursor_list import CursorList
from perfpy.views.pieces import share_style
from perfpy.views.readable import at_a_glance, event_name
from perfpy.views.report.screen import begins_with_wait, by_charged, charged_percents, functions_of
from perfpy.views.report.screen_table import RECURSIVE, ScreenColumns, fit_text
from perfpy.views.report.text import TextOptions, event_title, table_lines
from perfpy.views.verdict.sentence import FEW_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Click
    from textual.screen import Screen

    from perfpy.analysis.report.call_trees import CallNode, Int64
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.perfdata.events import FileEvent
    from perfpy.views.verdict.sentence import Sentence


_QUESTIONS: Final = {
    "filter": "filter by name; Enter keeps the filter, Esc removes it",
    "search": "search for",
    "limit": "least percentage of rows",
}
_LEAST_HEIGHT: Final = 15  # lines of a window that also shows full names
_KEYS: Final = (
    ("up, down, Home, End", "move"),
    ("Page up, Page down", "move by a screen (Space: down)"),
    ("Enter, +, right", "open or close the calls below a row, or show code"),
    ("a", "the function's code with samples"),
    ("-", "close the calls"),
    ("e, c; E, C", "open or close all below a row; below all rows"),
    ("t, d, k, S", "only this thread, file, kernel, socket; again: all"),
    ("/", "filter by name"),
    ("s", "sort by Self; again: by Children"),
    ("L", "least percentage of rows"),
    ("F", "shares of all rows, or of the filtered rows"),
    ("0 to 9", "sort by the n-th event of a group"),
    ("Ctrl+F, F3", "search the rows, next match"),
    ("Esc, left", "remove the last filter"),
    ("Tab, n; Shift+Tab, p", "next event, previous event"),
    ("H", "show or hide column names"),
    ("V", "full function names, or without long arguments"),
    ("i", "header of the recording"),
    ("P", "write the table to perf.hist.N"),
    ("h, ?, F1", "these keys"),
    ("q, Ctrl+C", "quit"),
)


class Box(ModalScreen[None]):
    """Some lines above the rest of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,h,i,question_mark,f1,enter", "dismiss", "Close")]
    CSS = """
    Box { align: center middle; }
    #box { width: auto; max-width: 100%; height: auto; max-height: 100%; padding: 0 1; border: round $primary; background: $panel; }
    #lines { width: auto; }
    """

    def __init__(self, lines: Iterable[str]) -> None:
        super().__init__()
        self._lines = [visible(line.expandtabs()) for line in lines]

    def compose(self) -> ComposeResult:
        """Yield one box, which scrolls."""
        with VerticalScroll(id="box"):
            yield Static(Text("\n".join(self._lines)), id="lines")


class KeyHelp(Box):
    """The list of keys."""

    def __init__(self) -> None:
        width = max(len(keys) for keys, _ in _KEYS)
        super().__init__(f"{keys:<{width}}  {meaning}" for keys, meaning in _KEYS)


class ReportBrowser(App[None]):
    """A tree of rows: the callers or callees of each row are below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,h,f1", "help", "Keys"),
        Binding("enter,plus,right", "toggle_row", "Calls"),
        Binding("a", "annotate", "Code"),
        Binding("slash", "ask('filter')", "Filter"),
        Binding("s", "sort_by_own", "Self"),
        Binding("t", "zoom_thread", "Thread"),
        Binding("d", "zoom_dso", "File"),
        Binding("tab", "turn(1)", "Event", priority=True),  # the widget must not take the key
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("i", "environment", show=False),
        Binding("H", "headings", show=False),
        Binding("V", "full_names", show=False),
        Binding("P", "write", show=False),
        Binding("ctrl+f", "ask('search')", show=False, priority=True),
        Binding("f3", "search_on", show=False),
        Binding("k", "zoom_kernel", show=False),
        Binding("S", "zoom_socket", show=False),
        Binding("L", "ask('limit')", show=False),
        Binding("F", "shares", show=False),
        *(Binding(str(number), f"sort_by({number})", show=False) for number in range(10)),
        Binding("escape,left", "unzoom", show=False),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
        Binding("n", "turn(1)", show=False),
        Binding("p", "turn(-1)", show=False),
        Binding("minus", "close_row", show=False),
        Binding("e", "expand", show=False),
        Binding("c", "collapse", show=False),
        Binding("E", "expand_all", show=False),
        Binding("C", "collapse_all", show=False),
    ]
    CSS = """
    #ask { display: none; height: 3; }
    #ask.shown { display: block; }
    #verdict, #title, #notes { height: auto; }
    #verdict { text-style: bold; }
    #notes { color: $warning; }
    #heading { height: 1; color: $text-muted; }
    #whole { height: 2; color: $text-muted; }
    """
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        report: Report,
        header: Callable[[], Iterable[str]] = tuple,
        *,
        full_names: bool = False,
        code: Callable[[FileEvent, str], Screen[None]] | None = None,
        verdict: Sequence[Sentence] = (),
        own_first: bool = False,
        process_names: Mapping[int, str] | None = None,
    ) -> None:
        """Set up the application.

        Args:
            report: the report to show.
            header: returns the lines of the recording's header.
            full_names: show full names of functions.
            code: makes the screen of a function.
            verdict: the sentences above the rows.
            own_first: sort rows by own share at the start.
            process_names: of TextOptions.
        """
        super().__init__()
        self._verdict = verdict
        waits_first = begins_with_wait(verdict)
        self.model = BrowsedReport(report, process_names, full_names=full_names, own_first=own_first, waits_first=waits_first)
        self._header = header
        self._code = code
        self._rows: list[int] = []
        self._input_purpose = ""  # the purpose of the input line
        self._search_text = ""
        self._filters_before: list[Filter] = []

    def compose(self) -> ComposeResult:
        """Yield title, rows, input line and keys."""
        if self._verdict:
            yield Static(Text("\n".join(sentence.text for sentence in self._verdict)), id="verdict")
        yield Static(id="title")
        few = not any(sentence.rule == FEW_SAMPLES for sentence in self._verdict)
        notes = [f"! {visible(note)}" for note in quality_notes(self.model.report, few=few)]
        if notes:
            yield Static(Text("\n".join(notes)), id="notes")
        yield Static(id="heading")
        yield RowList(self.model, "rows")
        yield Static(id="whole")
        yield Input(id="ask")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first table."""
        self.fill()
        self.table.focus()

    def on_resize(self) -> None:
        """Fit the columns to the window."""
        self._show_heading()

    @property
    def table(self) -> RowList:
        """The list of rows."""
        return self.query_one("#rows", RowList)

    def fill(self) -> None:
        """Show the rows of the model."""
        self._rows = self.model.rows()
        self.table.show(self._rows)
        self.query_one("#title", Static).update(Text(self.model.title(self._rows), "bold"))
        self._show_heading()

    def _show_heading(self) -> None:
        before = "  " * self.model.has_calls
        width = self.size.width - len(before) - self.table.styles.scrollbar_size_vertical
        self.query_one("#heading", Static).update(Text(before + self.model.heading(width)))

    def on_row_list_moved(self) -> None:
        """Show the full names of the current line below the rows, on at most two lines."""
        table = self.table
        line = self.query_one("#whole", Static)
        line.display = self.size.height >= _LEAST_HEIGHT
        line.update(Text(self.model.whole(table.lines[table.cursor].data) if table.lines else ""))

    def action_toggle_row(self) -> None:
        """Open or close the current line; if it has no calls, show its code."""
        if self.model.has_calls:
            self.table.toggle()
        else:
            self.action_annotate()

    def action_annotate(self) -> None:
        """Show the code of the current function."""
        table = self.table
        name = self.model.function(table.lines[table.cursor].data) if table.lines else ""
        if not name or self._code is None:
            self.notify("no function in this row" if self._code else "no code available")
            return
        self.notify(f"reading the code of {visible(name)}", timeout=2)
        self.run_worker(lambda: self._read_code(name), thread=True, exclusive=True)

    def _read_code(self, name: str) -> None:
        """Read the code in another thread, which takes a second for a million samples."""
        assert self._code is not None
        try:
            screen = self._code(self.model.histogram.leader.event, name)
        except PerfError as reason:
            self.call_from_thread(self.notify, visible(f"no code of {reason}"), severity="warning")
        else:
            self.call_from_thread(self.push_screen, screen)

    def action_close_row(self) -> None:
        """Close the current line."""
        self.table.close_at(self.table.cursor)

    def action_expand(self) -> None:
        """Open everything below the row."""
        self.table.open_row()

    def action_collapse(self) -> None:
        """Close the row."""
        self.table.close_row()

    def action_expand_all(self) -> None:
        """Open everything below all rows."""
        self.table.open_all(0, len(self.table.lines))

    def action_collapse_all(self) -> None:
        """Close all rows."""
        self.table.close_all()

    def action_sort_by_own(self) -> None:
        """Toggle sorting by own share or by share with callees."""
        self.model.sort_by_own()
        self.fill()

    def action_zoom_thread(self) -> None:
        """Toggle the filter for this row's thread."""
        self._show_zoom(self.model.zoom_thread, "no column of threads or commands; add one with --sort comm,...")

    def action_zoom_dso(self) -> None:
        """Toggle the filter for this row's file."""
        self._show_zoom(lambda entry: self.model.zoom("dso", entry), "no column of files; add one with --sort dso,...")

    def action_zoom_kernel(self) -> None:
        """Toggle the filter for the kernel."""
        self._show_zoom(lambda _entry: self.model.zoom_kernel(), "no rows of the kernel, or no column of files")

    def action_zoom_socket(self) -> None:
        """Toggle the filter for this row's socket."""
        self._show_zoom(lambda entry: self.model.zoom("socket", entry), "no column of sockets; add one with --sort socket,...")

    def action_shares(self) -> None:
        """Toggle shares relative to the filtered rows."""
        self.model.relative = not self.model.relative
        self.fill()

    def action_full_names(self) -> None:
        """Toggle full names of functions."""
        self.model.full_names = not self.model.full_names
        self.fill()

    def action_sort_by(self, member: int) -> None:
        """Sort by one event of a group."""
        if self.model.sort_by(member):
            self.fill()
        else:
            self.notify(f"no event {member} in this group")

    def _show_zoom(self, zoom: Callable[[int], bool], problem: str) -> None:
        entry = self.table.entry
        if entry is None:
            return
        if zoom(entry):
            self.fill()
        else:
            self.notify(problem)

    def action_unzoom(self) -> None:
        """Remove the last filter, or leave the input line."""
        ask = self.query_one("#ask", Input)
        if ask.has_class("shown"):
            ask.remove_class("shown")
            self.table.focus()
            if self._input_purpose == "filter":
                self.model.filters = self._filters_before
                self.fill()
        elif self.model.back():
            self.fill()

    def action_turn(self, step: int) -> None:
        """Show the table of another event."""
        self.model.turn(step)
        self.fill()

    def action_ask(self, purpose: str) -> None:
        """Show the input line."""
        self._input_purpose, self._filters_before = purpose, [*self.model.filters]
        ask = self.query_one("#ask", Input)
        ask.value = ""
        ask.placeholder = _QUESTIONS[purpose]
        ask.add_class("shown")
        ask.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while a name is typed."""
        if self._input_purpose == "filter" and event.input.has_class("shown"):
            self.model.keep_symbols(event.value)
            self.fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the typed line."""
        event.input.remove_class("shown")
        self.table.focus()
        if self._input_purpose == "limit":
            self._limit(event.value)
        elif self._input_purpose == "search":
            self._search_text = event.value
            self._search(0)

    def _limit(self, text: str) -> None:
        try:
            self.model.least = float(text.strip().removesuffix("%") or 0)
        except ValueError:
            self.notify(f"{text!r} is not a percentage")
        self.fill()

    def action_search_on(self) -> None:
        """Go to the next row that matches the search."""
        self._search(1)

    def _search(self, ahead: int) -> None:
        """Go to the first matching row from the cursor, or after it with ahead=1."""
        entry, table = self.table.entry, self.table
        start = self._rows.index(entry) + ahead if entry is not None else 0
        position = self.model.find(self._search_text, self._rows, start % max(len(self._rows), 1)) if self._search_text else None
        if position is None:
            self.notify(f"no match for {self._search_text!r}" if self._search_text else "nothing to search for; type Ctrl+F")
        else:
            table.move_to(next(number for number, line in enumerate(table.lines) if line.data == self._rows[position]))

    def action_help(self) -> None:
        """Show the list of keys."""
        self.push_screen(KeyHelp())

    def action_environment(self) -> None:
        """Show the recording's header."""
        self.push_screen(Box(self._header()))

    def action_headings(self) -> None:
        """Toggle the names of the columns."""
        heading = self.query_one("#heading", Static)
        heading.display = not heading.display

    def action_write(self) -> None:
        """Write the table to the first file perf.hist.N that does not exist."""
        path = next(name for name in map("perf.hist.{}".format, count()) if not os.path.lexists(name))
        try:
            with open(create_new(path), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(one_line_each(self.model.plain()))
        except OSError as error:
            self.notify(f"cannot write {path}: {error.strerror}", severity="error")
        else:
            self.notify(f"wrote {path}")


# The model of the interactive report, without a screen: the current table, its rows, and the calls below a row.
#
# perfpy.views.report.browser shows it. Texts are made for visible rows only.


#: rows that determine the widths of columns, and whether a column is shown
_LOOKED_AT: Final = 5000
#: prefix of the names of kernel files
_KERNEL: Final = "[kernel."
#: sort keys by thread, the most exact first
_THREAD_KEYS: Final = ("pid", "comm")
_SHARE: Final = len("100.00%")


class Filter(NamedTuple):
    """Keep rows whose text for a sort key equals this text; with part: contains it, ignoring case."""

    key: str
    text: str
    part: bool = False

    def keeps(self, text: str) -> bool:
        """Return whether to keep a row with this text."""
        return self.text.lower() in text.lower() if self.part else text == self.text

    def __str__(self) -> str:
        return visible(f"{self.key} *{self.text}*" if self.part else f"{self.key} {self.text.strip()}")


def _of_rows(histogram: Histogram, rows: list[int]) -> Histogram:
    """Return the same table, with some of its rows as 100 %."""
    totals = histogram.entries.measures["period"][rows].sum(axis=0).tolist()
    events = [event._replace(shown_period=period) for event, period in zip(histogram.events, totals, strict=False)]
    return histogram.with_totals(events, histogram.options._replace(rows=histogram.options.rows._replace(relative_percentages=True)))


class CallLine(NamedTuple):
    """A line of a call tree.

    Attributes:
        share: percent of the table (None: the same as the line before).
        below: the calls below.
        whole: the full name, as displayed.
        function: the full name, unchanged.
    """

    name: str
    share: float | None
    below: Sequence[CallNode]
    whole: str
    function: str


class BrowsedReport:
    """A report, its current table, and the current filters.

    Args:
        process_names: of TextOptions.
        full_names: show names of functions with all arguments.
        own_first: sort rows by own share at the start.
        waits_first: begin with the event of waits.

    Raises:
        ValueError: The report has no samples.
    """

    def __init__(
        self,
        report: Report,
        process_names: Mapping[int, str] | None = None,
        *,
        full_names: bool = False,
        own_first: bool = False,
        waits_first: bool = False,
    ) -> None:
        self.report = report
        self._process_names = process_names
        self.full_names = full_names
        self._tables = [histogram for histogram in report.histograms if histogram.leader.samples]
        if waits_first:
            self._tables.sort(key=lambda histogram: not is_off_cpu(histogram.leader.event))
        if not self._tables:
            raise ValueError("a report without samples has no rows to browse")
        self._index = 0
        self.relative = False  # whether shares are relative to the filtered rows
        self.own_first = own_first  # whether rows are sorted by their own share, without callees
        self.filters: list[Filter] = []
        self.least = 0.0  # percent; smaller rows are skipped
        self._charged_of: dict[int, dict[int, float]] = {}  # by table: entry -> percentage that is charged to it
        self.rows()

    @property
    def histogram(self) -> Histogram:
        """The current table."""
        return self._tables[self._index]

    def turn(self, step: int) -> None:
        """Move to the table of another event; filters are kept."""
        self._index = (self._index + step) % len(self._tables)

    def rows(self) -> list[int]:
        """Return the filtered entries, in order; line() sets columns for the rows returned last."""
        histogram, entries = self.histogram, self.histogram.visible_entries()
        for row_filter in self.filters:
            if row_filter.key in histogram.keys:
                entries = entries[[row_filter.keeps(text) for text in histogram.texts(row_filter.key, entries)]]
        if self.relative:
            histogram = _of_rows(histogram, entries.tolist())
        charged = self._charged(histogram)
        order, shares = by_charged(histogram.percents(self._measure, entries), entries, charged)
        if self.own_first:
            entries, shares = entries[order], shares[order]
        self._columns = self._columns_of(histogram, entries, charged)
        self._most = float(shares.max(initial=0.0))
        if self.least:
            entries = entries[shares >= self.least]
        rows: list[int] = entries.tolist()
        return rows

    @property
    def _measure(self) -> str:
        """The measure that determines the colours of rows."""
        return "children" if "children" in self.histogram.entries.measures and not self.own_first else "period"

    def _charged(self, histogram: Histogram) -> dict[int, float]:
        """Return the percentage that is charged to each row, as on the screen; empty if rows are sorted with all callees."""
        if not self.own_first or "children" not in histogram.entries.measures:
            return {}
        if self._index not in self._charged_of:
            functions = functions_of(self.report, self.histogram)
            self._charged_of[self._index] = charged_percents(self.report, self.histogram, functions) if functions is not None else {}
        whole = self.histogram.total() / max(histogram.total(), 1)
        return {entry: share * whole for entry, share in self._charged_of[self._index].items()}

    def _columns_of(self, histogram: Histogram, rows: Int64, charged: dict[int, float]) -> ScreenColumns:
        options = TextOptions(short_names=not self.full_names, process_names=self._process_names)
        looked_at = rows[:_LOOKED_AT].tolist()
        return ScreenColumns(
            *(histogram, looked_at, self._measure, options),
            own_first=self.own_first,
            every_key=len(looked_at) < len(rows) or not looked_at,
            charged=charged,
        )

    def title(self, rows: Sequence[int]) -> str:
        """Return the event, the number of samples, and the filters."""
        histogram = self.histogram
        samples = histogram.leader.samples
        text = f"{visible(event_name(event_title(histogram, skip_empty=True)))}: {samples:,} {plural(samples, 'sample')}"
        if len(self._tables) > 1:
            text += f"  ({self._index + 1} of {len(self._tables)} events)"
        if self.filters:
            share = sum(histogram.percent("period", entry) for entry in rows)
            text += f"  only {', '.join(map(str, self.filters))}: {share:.2f}%"
        if self.relative:
            text += "  shares of these rows"
        if self.least:
            text += f"  from {self.least:g}% on"
        return text + "".join(f"  {common}" for common in self._columns.common)

    @property
    def common(self) -> list[str]:
        """The columns that are equal in all rows, and therefore are not shown."""
        return self._columns.common

    def heading(self, width: int) -> str:
        """Return the names of the columns for a window of this width."""
        return self._columns.heading(self._columns.fit(width))

    def line(self, entry: int, width: int) -> Text:
        """Return a row as text, for a window of this width."""
        return self._columns.line(entry, self._columns.fit(width), self._most)

    def call_line(self, line: CallLine, width: int) -> Text:
        """Return a line of calls as text."""
        share = f"{line.share:.2f}%" if line.share is not None else ""
        name = fit_text(line.name, max(width - _SHARE - 2, 1))
        return Text.assemble((f"{share:>{_SHARE}}", share_style(line.share or 0.0)), f"  {name}")

    def whole(self, row: int | CallLine) -> str:
        """Return the full names of a row, or of a line of calls."""
        if isinstance(row, CallLine):
            return row.whole
        return "  ".join(visible(text.strip()) for text in (self.histogram.text(key, row) for key in self._columns.names))

    def function(self, row: int | CallLine) -> str:
        """Return the function of a row or of a line of calls; "" if there is none."""
        if isinstance(row, CallLine):
            return row.function
        return self.histogram.locations.name(self.histogram.location(row) >> ROLE_BITS) if "symbol" in self.histogram.keys else ""

    def percent(self, entry: int) -> float:
        """Return the share that determines a row's colour."""
        histogram = self.histogram
        return histogram.share(histogram.weight(entry))

    @property
    def has_calls(self) -> bool:
        """Whether rows have calls."""
        return self.histogram.trees is not None

    def calls_under(self, entry: int, *, alone: bool = True) -> list[CallNode]:
        """Return the calls below a row; alone: False if very many rows are requested."""
        return self.histogram.calls(entry, alone=alone)

    def calls(self, nodes: Sequence[CallNode]) -> list[CallLine]:
        """Return the lines of some calls; functions with a single callee share a line with it."""
        trees, lines = self.histogram.trees, []
        name = str if self.full_names else at_a_glance
        assert trees is not None  # call nodes imply trees
        for node in nodes:
            last = len(node.frames) - 1
            for number, frame in enumerate(node.frames):
                share = None if number else self.histogram.share(node.period)
                whole = trees.frame_name(frame)
                label = name(whole) + RECURSIVE if trees.is_recursive(frame) else name(whole)
                lines.append(CallLine(visible(label), share, node.children if number == last else (), visible(whole), whole))
        return lines

    def sort_by_own(self) -> None:
        """Toggle sorting by own share or by share with callees."""
        self.own_first = not self.own_first

    def zoom(self, key: str, entry: int) -> bool:
        """Toggle the filter for this row's text; return False if there is no column for the key."""
        if key not in self.histogram.keys:
            return False
        current = [row_filter for row_filter in self.filters if row_filter.key == key and not row_filter.part]
        if current:
            self.filters.remove(current[0])
        else:
            self.filters.append(Filter(key, self.histogram.text(key, entry)))
        return True

    def zoom_kernel(self) -> bool:
        """Toggle the filter for the kernel; return False without a column of files, or without rows of the kernel."""
        histogram = self.histogram
        if "dso" not in histogram.keys:
            return False
        kernel = next((entry for entry in histogram.visible_entries().tolist() if histogram.text("dso", entry).startswith(_KERNEL)), None)
        return kernel is not None and self.zoom("dso", kernel)

    def sort_by(self, member: int) -> bool:
        """Sort the rows by one event of the table's group; return False if there is no such event."""
        if not 0 <= member < len(self.histogram.events):
            return False
        self.histogram.sort_by(member)
        return True

    def plain(self) -> Iterator[str]:
        """Yield the table as plain text, without rows below the limit."""
        return table_lines(self.histogram, TextOptions(percent_limit=self.least))

    def zoom_thread(self, entry: int) -> bool:
        """Toggle the filter for this row's thread; for its command if rows are not by thread."""
        key = next((key for key in _THREAD_KEYS if key in self.histogram.keys), "comm")
        return self.zoom(key, entry)

    def keep_symbols(self, part: str) -> None:
        """Keep rows with this part in the function's name; "" removes the filter."""
        self.filters = [row_filter for row_filter in self.filters if not row_filter.part]
        if part:
            names = self._columns.names
            self.filters.append(Filter("symbol" if "symbol" in self.histogram.keys else names[-1], part, part=True))

    def back(self) -> bool:
        """Remove the last filter; return False if there is none."""
        if not self.filters:
            return False
        self.filters.pop()
        return True

    def find(self, part: str, rows: Sequence[int], start: int) -> int | None:
        """Return the position of the next row from `start`, cyclically, with this part in a name, ignoring case."""
        entries = np.array([*rows[start:], *rows[:start]], np.int64)
        lowered = part.lower()
        texts = [self.histogram.texts(key, entries) for key in self._columns.names] if len(entries) else []
        step = next((step for step, names in enumerate(zip(*texts, strict=True)) if any(lowered in name.lower() for name in names)), None)
        return None if step is None else (start + step) % len(rows)


# The rows of a browsed report on a textual screen, with the open calls below them.
#
# Lines are made when they become visible, so a
# report of a hundred thousand rows opens as fast as one of ten.


#: limit of lines when opening everything
_MOST_LINES: Final = 20_000
#: rows opened together at most without making the trees of all rows
_FEW: Final = 4
_INDENT: Final = 2
_OPEN, _CLOSED, _LEAF = "▼ ", "▶ ", "  "


class Line:
    """A row, or a line of calls below one; data: the entry, or the line of calls."""

    __slots__ = ("data", "depth", "is_open")

    def __init__(self, data: int | CallLine, depth: int) -> None:
        self.data = data
        self.depth = depth
        self.is_open = False


class RowList(CursorList):
    """Rows and open calls; `lines` has all of them."""

    class Moved(Message):
        """The cursor is on another line."""

    def __init__(self, model: BrowsedReport, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self.lines: list[Line] = []

    def show(self, rows: Sequence[int]) -> None:
        """Show these rows, all closed."""
        self.lines = [Line(entry, 0) for entry in rows]
        self._update()
        self.move_to(0)

    def _update(self) -> None:
        self.virtual_size = Size(0, len(self.lines))
        self.refresh()

    # -- visible lines --------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of lines, including those of open rows."""
        return len(self.lines)

    def text(self, number: int, width: int) -> Text:
        """Return a line as text, for a window of this width."""
        line, model = self.lines[number], self._model
        mark = (_OPEN if line.is_open else _CLOSED) if self._leads_on(line) else _LEAF
        if isinstance(line.data, int):
            mark = mark if model.has_calls else ""
            return Text(mark).append_text(model.line(line.data, width - len(mark)))
        start = " " * (_INDENT * line.depth) + mark
        return Text(start).append_text(model.call_line(line.data, width - len(start)))

    def _leads_on(self, line: Line) -> bool:
        return self._model.has_calls if isinstance(line.data, int) else bool(line.data.below)

    # -- the cursor -----------------------------------------------------------

    def move_to(self, number: int) -> None:
        """Put the cursor on a line, and post a message."""
        super().move_to(number)
        self.post_message(self.Moved())

    def on_click(self, event: Click) -> None:
        """Put the cursor on a line; a second click opens or closes it."""
        number = event.y + self.scroll_offset.y
        if number < len(self.lines):
            if number == self.cursor:
                self.toggle()
            self.move_to(number)

    @property
    def row(self) -> int | None:
        """The line number of the cursor's row, which is above its calls."""
        number = self.cursor
        while 0 < number < len(self.lines) and self.lines[number].depth:
            number -= 1
        return number if self.lines else None

    @property
    def entry(self) -> int | None:
        """The entry of the cursor's row."""
        row = self.row
        data = self.lines[row].data if row is not None else None
        return data if isinstance(data, int) else None

    # -- opening and closing --------------------------------------------------

    def toggle(self) -> None:
        """Open or close the current line."""
        if not self.lines or not self._leads_on(self.lines[self.cursor]):
            return
        if self.lines[self.cursor].is_open:
            self.close_at(self.cursor)
        else:
            self.lines[self.cursor + 1 : self.cursor + 1] = self._below(self.lines[self.cursor])
            self._update()

    def _below(self, line: Line, *, alone: bool = True) -> list[Line]:
        """Open a line, and return the lines below it."""
        line.is_open = True
        nodes = self._model.calls_under(line.data, alone=alone) if isinstance(line.data, int) else line.data.below
        return [Line(call, line.depth + 1) for call in self._model.calls(nodes)]

    def _end(self, number: int) -> int:
        """Return the number of the first line after those below a line."""
        end = number + 1
        while end < len(self.lines) and self.lines[end].depth > self.lines[number].depth:
            end += 1
        return end

    def close_at(self, number: int) -> None:
        """Close a line."""
        if number < len(self.lines):
            del self.lines[number + 1 : self._end(number)]
            self.lines[number].is_open = False
            self._update()

    def open_all(self, first: int, last: int) -> None:
        """Open these lines and everything below them, up to a limit."""
        lines: list[Line] = []
        rest = self.lines[last:]
        work, added = self.lines[first:last][::-1], 0
        alone = sum(not line.depth for line in work) <= _FEW
        while work:
            line = work.pop()
            lines.append(line)
            if not line.is_open and added < _MOST_LINES and self._leads_on(line):
                below = self._below(line, alone=alone)
                added += len(below)
                work.extend(reversed(below))
        self.lines = [*self.lines[:first], *lines, *rest]
        self._update()

    def open_row(self) -> None:
        """Open everything below the current row."""
        if (row := self.row) is not None:
            self.open_all(row, self._end(row))

    def close_row(self) -> None:
        """Close the current row, and move the cursor to it."""
        if (row := self.row) is not None:
            self.close_at(row)
            self.move_to(row)

    def close_all(self) -> None:
        """Close all rows."""
        entry = self.entry
        self.lines = [line for line in self.lines if not line.depth]
        for line in self.lines:
            line.is_open = False
        self._update()
        self.move_to(next((number for number, line in enumerate(self.lines) if line.data == entry), 0))
