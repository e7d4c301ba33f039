"""What the interactive report shows, without a screen: which table, which of its rows, what is under a row.

What enters: a Report, and what the person at the keys wants next. What leaves:
lines of text with the numbers that colour them. perfpy.views.report.browser
puts them on a screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.table_text import HistogramText, row_line
from perfpy.views.report.text import event_title, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.report.call_tree import CallNode
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

#: more rows than anybody walks through; a filter brings the others up
MOST_ROWS: Final = 2000
#: how the files of the kernel begin that a row may name
_KERNEL: Final = "[kernel."
#: what a thread is called, the most exact first
_THREAD_KEYS: Final = ("pid", "comm")


class Filter(NamedTuple):
    """Rows are kept whose text for a sort key is this one, or (for part) has this part, whatever its case."""

    key: str
    text: str
    part: bool = False

    def keeps(self, text: str) -> bool:
        """Whether a row with this text stays."""
        return self.text.lower() in text.lower() if self.part else text == self.text

    def __str__(self) -> str:
        return visible(f"{self.key} *{self.text}*" if self.part else f"{self.key} {self.text.strip()}")


def _of_rows(histogram: Histogram, rows: list[int]) -> Histogram:
    """The same table, 100 % being what some of its rows have."""
    totals = histogram.entries.measures["period"][rows].sum(axis=0).tolist()
    events = [event._replace(shown_period=period) for event, period in zip(histogram.events, totals, strict=False)]
    return histogram.with_totals(events, histogram.options._replace(relative_percentages=True))


class CallLine(NamedTuple):
    """One function of a call tree: its share of the table (None: the same as the one before it), and the calls below."""

    name: str
    share: float | None
    below: Sequence[CallNode]


class BrowsedReport:
    """A report, the table that is looked at, and the filters that led there.

    whole_names: whether names of functions are shown with all their arguments.
    Raises ValueError for a report without samples.
    """

    def __init__(self, report: Report, *, whole_names: bool = False) -> None:
        self.report = report
        self.whole_names = whole_names
        self._tables = [histogram for histogram in report.histograms if histogram.leader.samples]
        if not self._tables:
            raise ValueError("a report without samples has nothing to browse")
        self._texts: dict[tuple[int, bool], HistogramText] = {}
        self._index = 0
        self.relative = False  # whether shares are of what the filters leave
        self._text = self._text_of_all()
        self.filters: list[Filter] = []
        self.least = 0.0  # percent; rows below it are left out

    @property
    def histogram(self) -> Histogram:
        """The table that is shown."""
        return self._tables[self._index]

    def _text_of_all(self) -> HistogramText:
        """The table's rows as text, whatever the filters leave."""
        key = self._index, self.whole_names
        if key not in self._texts:
            self._texts[key] = self._as_text(self.histogram)
        return self._texts[key]

    def _as_text(self, histogram: Histogram) -> HistogramText:
        return HistogramText(histogram, TextOptions(short_names=not self.whole_names))

    def turn(self, step: int) -> None:
        """Go on to another event's table; the filters stay."""
        self._index = (self._index + step) % len(self._tables)

    def rows(self) -> list[int]:
        """The entries that the filters leave, in order; lines are those of the rows asked for last."""
        histogram = self.histogram
        kept: list[int] = histogram.shown().tolist()
        for wanted in self.filters:
            if wanted.key in histogram.keys:
                kept = [entry for entry in kept if wanted.keeps(histogram.text(wanted.key, entry))]
        self._text = self._as_text(_of_rows(histogram, kept)) if self.relative else self._text_of_all()
        return [entry for entry in kept if self.percent(entry) >= self.least] if self.least else kept

    def title(self, rows: Sequence[int]) -> str:
        """The event, and what of it the rows are."""
        histogram = self.histogram
        text = f"{visible(event_title(histogram, skip_empty=True))}: {histogram.leader.samples:,} samples"
        if len(self._tables) > 1:
            text += f"  ({self._index + 1} of {len(self._tables)} events)"
        if self.filters:
            share = sum(histogram.percent("period", entry) for entry in rows)
            text += f"  only {', '.join(map(str, self.filters))}: {share:.2f}%"
        if self.relative:
            text += "  shares of these rows"
        if self.least:
            text += f"  from {self.least:g}% on"
        if len(rows) > MOST_ROWS:
            text += f"  (the first {MOST_ROWS:,} of {len(rows):,} rows)"
        return text

    def heading(self) -> str:
        """The names of the columns."""
        columns = self._text.columns
        return row_line([column.header() for column in columns], [0] * len(columns), None)

    def line(self, entry: int) -> str:
        """A row's text, set in columns."""
        columns = self._text.columns
        cells = [column.cell(entry) for column in columns]
        return visible(row_line(cells, [column.width for column in columns], None).rstrip())

    def percent(self, entry: int) -> float:
        """What decides a row's colour."""
        histogram = self.histogram
        return histogram.share(histogram.weight(entry))

    @property
    def has_calls(self) -> bool:
        """Whether there is anything under rows."""
        return self.histogram.trees is not None

    def calls(self, nodes: Sequence[CallNode]) -> list[CallLine]:
        """The lines of some calls: where there is but one way on, functions follow each other."""
        trees, lines = self.histogram.trees, []
        name = str if self.whole_names else at_a_glance
        assert trees is not None  # there are no call nodes without
        for node in nodes:
            last = len(node.frames) - 1
            for number, frame in enumerate(node.frames):
                share = None if number else self.histogram.share(node.period)
                lines.append(CallLine(visible(name(trees.frame_name(frame))), share, node.children if number == last else ()))
        return lines

    def zoom(self, key: str, entry: int) -> bool:
        """Keep the rows that have this row's text, or, zoomed in already, all again; False without such a column."""
        if key not in self.histogram.keys:
            return False
        known = [wanted for wanted in self.filters if wanted.key == key and not wanted.part]
        if known:
            self.filters.remove(known[0])
        else:
            self.filters.append(Filter(key, self.histogram.text(key, entry)))
        return True

    def zoom_kernel(self) -> bool:
        """Keep the rows of the kernel, or, zoomed in already, all again; False without a column of files, or rows of the kernel."""
        histogram = self.histogram
        if "dso" not in histogram.keys:
            return False
        kernel = next((entry for entry in histogram.shown().tolist() if histogram.text("dso", entry).startswith(_KERNEL)), None)
        return kernel is not None and self.zoom("dso", kernel)

    def sort_by(self, member: int) -> bool:
        """Sort the rows by one event of the table's group; False if it has not so many."""
        if not 0 <= member < len(self.histogram.events):
            return False
        self.histogram.sort_by(member)
        return True

    def plain(self) -> Iterator[str]:
        """The table as plain text, without the rows that are left out for being too small."""
        return table_lines(self.histogram, TextOptions(percent_limit=self.least))

    def zoom_thread(self, entry: int) -> bool:
        """Keep the rows of this row's thread, or, where rows are not by thread, command."""
        key = next((key for key in _THREAD_KEYS if key in self.histogram.keys), "comm")
        return self.zoom(key, entry)

    def keep_symbols(self, part: str) -> None:
        """Keep the rows with this part in the function's name; with none, of all names."""
        self.filters = [wanted for wanted in self.filters if not wanted.part]
        if part:
            self.filters.append(Filter("symbol", part, part=True))

    def back(self) -> bool:
        """Drop the last filter; False if there is none."""
        if not self.filters:
            return False
        self.filters.pop()
        return True

    def find(self, part: str, rows: Sequence[int], start: int) -> int | None:
        """The position of the first row from `start` on, and around, whose line, or whole name, has this part, whatever its case."""
        wanted, names = part.lower(), "symbol" in self.histogram.keys
        for step in range(len(rows)):
            position = (start + step) % len(rows)
            row = rows[position]
            if wanted in self.line(row).lower() or (names and wanted in self.histogram.text("symbol", row).lower()):
                return position
        return None
