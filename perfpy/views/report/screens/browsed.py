"""The model of the interactive report, without a screen: the current table, its rows, and the calls below a row.

perfpy.views.report.screens.browser shows it. Texts are made for visible rows only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from rich.text import Text

from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.analysis.samples.wait_events import is_off_cpu
from perfpy.plurals import plural
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.screens.call_lines import RECURSIVE
from perfpy.views.report.screens.fitting import fit_text
from perfpy.views.report.screens.screen_table import ScreenColumns
from perfpy.views.report.share_colour import style
from perfpy.views.report.text import event_title, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.call_trees.call_tree import CallNode, Int64
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

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
        full_names: show names of functions with all arguments.
        own_first: sort rows by own share at the start.
        waits_first: begin with the event of waits.

    Raises:
        ValueError: The report has no samples.
    """

    def __init__(self, report: Report, *, full_names: bool = False, own_first: bool = False, waits_first: bool = False) -> None:
        self.report = report
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
        if self.own_first:
            entries = histogram.by_own(entries)
        if self.relative:
            histogram = _of_rows(histogram, entries.tolist())
        self._columns = self._columns_of(histogram, entries)
        self._most = float(histogram.percents(self._measure, entries).max()) if len(entries) else 0.0
        if self.least:
            entries = entries[self.histogram.percents(self._measure, entries) >= self.least]
        rows: list[int] = entries.tolist()
        return rows

    @property
    def _measure(self) -> str:
        """The measure that determines the colours of rows."""
        return "children" if "children" in self.histogram.entries.measures and not self.own_first else "period"

    def _columns_of(self, histogram: Histogram, rows: Int64) -> ScreenColumns:
        options = TextOptions(short_names=not self.full_names)
        looked_at = rows[:_LOOKED_AT].tolist()
        return ScreenColumns(
            histogram, looked_at, self._measure, options, own_first=self.own_first, every_key=len(looked_at) < len(rows) or not looked_at
        )

    def title(self, rows: Sequence[int]) -> str:
        """Return the event, the number of samples, and the filters."""
        histogram = self.histogram
        samples = histogram.leader.samples
        text = f"{visible(event_title(histogram, skip_empty=True))}: {samples:,} {plural(samples, 'sample')}"
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
        return Text.assemble((f"{share:>{_SHARE}}", style(line.share or 0.0)), f"  {name}")

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
