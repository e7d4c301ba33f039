"""What the interactive report shows, without a screen: which table, which of its rows, what is under a row.

What enters: a Report, and what the person at the keys wants next. What leaves:
lines of text for a window of some width. perfpy.views.report.browser puts them
on a screen. However many rows there are, only those that are seen are made into text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from rich.text import Text

from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.call_lines import RECURSIVE
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.fitting import fitted
from perfpy.views.report.screen_table import ScreenColumns
from perfpy.views.report.share_colour import style
from perfpy.views.report.text import event_title, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.report.call_tree import CallNode, Int64
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

#: rows whose texts decide how wide columns are, and whether one says anything
_LOOKED_AT: Final = 5000
#: how the files of the kernel begin that a row may name
_KERNEL: Final = "[kernel."
#: what a thread is called, the most exact first
_THREAD_KEYS: Final = ("pid", "comm")
_SHARE: Final = len("100.00%")


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
    return histogram.with_totals(events, histogram.options._replace(rows=histogram.options.rows._replace(relative_percentages=True)))


class CallLine(NamedTuple):
    """One function of a call tree.

    share: of the table (None: the same as of the one before it); below: the calls; whole: its whole name, as it is shown;
    function: as it is.
    """

    name: str
    share: float | None
    below: Sequence[CallNode]
    whole: str
    function: str


class BrowsedReport:
    """A report, the table that is looked at, and the filters that led there.

    full_names: whether names of functions are shown with all their arguments.
    Raises ValueError for a report without samples.
    """

    def __init__(self, report: Report, *, full_names: bool = False) -> None:
        self.report = report
        self.full_names = full_names
        self._tables = [histogram for histogram in report.histograms if histogram.leader.samples]
        if not self._tables:
            raise ValueError("a report without samples has nothing to browse")
        self._index = 0
        self.relative = False  # whether shares are of what the filters leave
        self.own_first = False  # whether rows are sorted by what is their own, without what they call
        self.filters: list[Filter] = []
        self.least = 0.0  # percent; rows below it are left out
        self.rows()

    @property
    def histogram(self) -> Histogram:
        """The table that is shown."""
        return self._tables[self._index]

    def turn(self, step: int) -> None:
        """Go on to another event's table; the filters stay."""
        self._index = (self._index + step) % len(self._tables)

    def rows(self) -> list[int]:
        """The entries that the filters leave, in order; lines are those of the rows asked for last."""
        histogram, kept = self.histogram, self.histogram.shown()
        for wanted in self.filters:
            if wanted.key in histogram.keys:
                kept = kept[[wanted.keeps(text) for text in histogram.texts(wanted.key, kept)]]
        if self.own_first:
            kept = histogram.by_own(kept)
        if self.relative:
            histogram = _of_rows(histogram, kept.tolist())
        self._columns = self._columns_of(histogram, kept)
        self._most = float(histogram.percents(self._measure, kept).max()) if len(kept) else 0.0
        if self.least:
            kept = kept[self.histogram.percents(self._measure, kept) >= self.least]
        rows: list[int] = kept.tolist()
        return rows

    @property
    def _measure(self) -> str:
        """What colours rows."""
        return "children" if "children" in self.histogram.entries.measures and not self.own_first else "period"

    def _columns_of(self, histogram: Histogram, rows: Int64) -> ScreenColumns:
        options = TextOptions(short_names=not self.full_names)
        looked_at = rows[:_LOOKED_AT].tolist()
        return ScreenColumns(
            histogram, looked_at, self._measure, options, own_first=self.own_first, every_key=len(looked_at) < len(rows) or not looked_at
        )

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
        return text + "".join(f"  {common}" for common in self._columns.common)

    @property
    def common(self) -> list[str]:
        """What all rows have in common, which has no column."""
        return self._columns.common

    def heading(self, width: int) -> str:
        """The names of the columns, within so many columns of the window."""
        return self._columns.heading(self._columns.fit(width))

    def line(self, entry: int, width: int) -> Text:
        """A row's text, set in columns of that window."""
        return self._columns.line(entry, self._columns.fit(width), self._most)

    def call_line(self, line: CallLine, width: int) -> Text:
        """The text of a line of calls."""
        share = f"{line.share:.2f}%" if line.share is not None else ""
        name = fitted(line.name, max(width - _SHARE - 2, 1))
        return Text.assemble((f"{share:>{_SHARE}}", style(line.share or 0.0)), f"  {name}")

    def whole(self, shown: int | CallLine) -> str:
        """The names that a row, or a line of calls, shows, uncut."""
        if isinstance(shown, CallLine):
            return shown.whole
        return "  ".join(visible(text.strip()) for text in (self.histogram.text(key, shown) for key in self._columns.names))

    def function(self, shown: int | CallLine) -> str:
        """The function of a row or of a line of calls; "" where there is none."""
        if isinstance(shown, CallLine):
            return shown.function
        return self.histogram.locations.name(self.histogram.location(shown) >> ROLE_BITS) if "symbol" in self.histogram.keys else ""

    def percent(self, entry: int) -> float:
        """What decides a row's colour."""
        histogram = self.histogram
        return histogram.share(histogram.weight(entry))

    @property
    def has_calls(self) -> bool:
        """Whether there is anything under rows."""
        return self.histogram.trees is not None

    def calls_under(self, entry: int, *, alone: bool = True) -> list[CallNode]:
        """The calls under a row; alone: it is not one of very many that are asked for."""
        return self.histogram.calls(entry, alone=alone)

    def calls(self, nodes: Sequence[CallNode]) -> list[CallLine]:
        """The lines of some calls: where there is but one way on, functions follow each other."""
        trees, lines = self.histogram.trees, []
        name = str if self.full_names else at_a_glance
        assert trees is not None  # there are no call nodes without
        for node in nodes:
            last = len(node.frames) - 1
            for number, frame in enumerate(node.frames):
                share = None if number else self.histogram.share(node.period)
                whole = trees.frame_name(frame)
                shown = name(whole) + RECURSIVE if trees.is_recursive(frame) else name(whole)
                lines.append(CallLine(visible(shown), share, node.children if number == last else (), visible(whole), whole))
        return lines

    def sort_by_own(self) -> None:
        """Sort the rows by what is their own, or again by what they and their callees have."""
        self.own_first = not self.own_first

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
            shown = self._columns.names
            self.filters.append(Filter("symbol" if "symbol" in self.histogram.keys else shown[-1], part, part=True))

    def back(self) -> bool:
        """Drop the last filter; False if there is none."""
        if not self.filters:
            return False
        self.filters.pop()
        return True

    def find(self, part: str, rows: Sequence[int], start: int) -> int | None:
        """The position of the first row from `start` on, and around, of which some name has this part, whatever its case."""
        entries = np.array([*rows[start:], *rows[:start]], np.int64)
        wanted = part.lower()
        texts = [self.histogram.texts(key, entries) for key in self._columns.names] if len(entries) else []
        step = next((step for step, names in enumerate(zip(*texts, strict=True)) if any(wanted in name.lower() for name in names)), None)
        return None if step is None else (start + step) % len(rows)
