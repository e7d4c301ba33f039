"""The columns of a report's tables as text: numbers with their units, and keys padded to their widths.

Cells are perf 6.12's; function names may be shortened for screens.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.startup import NamedTuple
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.samples.wait_events import NANOSECONDS_A_SECOND, is_time
from perfpy.analysis.sortkeys.key_columns import byte_width
from perfpy.analysis.sortkeys.sort_key import ColumnCell, OutputField, SortKey, Unit
from perfpy.views.report.share_colour import colour_share

if TYPE_CHECKING:
    from perfpy.analysis.call_trees.call_tree import Int64
    from perfpy.analysis.report.histogram import Histogram

_LONGEST_HEADER: Final = 1023  # the size of perf's buffer in bytes
#: keys whose texts are function names, possibly with a prefix like [.]
_FUNCTIONS: Final = ("symbol", "symbol_from", "symbol_to", "parent")
_INLINED: Final = " (inlined)"
_LEVEL: Final = len("[.] ")


class TextOptions(NamedTuple):
    """Options of text output.

    Attributes:
        separator: perf's -t, None for aligned columns.
        widths: -w.
        quiet: only rows.
        percent_limit: smaller rows are skipped.
        times: the text of --time.
        socket: of --socket-filter.
        colour: the beginning of escape sequences, "" for none; in columns
            only of aligned text, as in perf.
        short_names: shorten function names for screens.
        most_rows: the most rows of a table; 0 for all.
        most_columns: rows are truncated to this width; 0 for no limit.
    """

    separator: str | None = None
    widths: tuple[int, ...] = ()
    quiet: bool = False
    percent_limit: float = 0.0
    times: str = ""
    skip_empty: bool = True
    memory_order: str = ""
    socket: int = -1
    colour: str = ""
    short_names: bool = False
    most_rows: int = 0
    most_columns: int = 0


_PERFS: Final = TextOptions()


def key_texts(key: str, histogram: Histogram, entries: Int64, options: TextOptions) -> list[str]:
    """Return the texts of a key in some entries' rows; function names are shortened if requested."""
    texts = histogram.texts(key, entries)
    return list(map(_short, texts)) if options.short_names and key in _FUNCTIONS else texts


def _short(text: str) -> str:
    """Shorten a function name after its level, like [.] for user code."""
    from perfpy.views.readable import at_a_glance  # only screens need it

    return text[:_LEVEL] + at_a_glance(text[_LEVEL:]) if text.startswith("[") and text[_LEVEL - 2 : _LEVEL] == "] " else at_a_glance(text)


def metric_header(metric: OutputField, histogram: Histogram) -> str:
    """Return the name of a column of numbers: "Self" beside shares with callers."""
    columns = histogram.options.columns
    if not columns.children or (columns.fields is not None and not columns.fields.startswith("+")):
        return metric.header
    return {"overhead": "Self", LATENCY: "Self Latency"}.get(metric.name, metric.header)


class MetricColumnText:
    """A column of numbers, one for each member of the event group."""

    def __init__(self, metric: OutputField, histogram: Histogram, options: TextOptions, user_width: int) -> None:
        self.entry = metric
        self._histogram = histogram
        self._name = metric_header(metric, histogram)
        self._members = [
            number for number, event in enumerate(histogram.events) if event.samples or not options.skip_empty or len(histogram.events) == 1
        ]
        own = user_width or max(metric.width, len(self._name) if metric.value == LATENCY else 0)
        grouped = histogram.options.rows.group is not False
        self.width = max(own, len(self._members) * metric.width if grouped else 0, len(self._name))
        self._own = own
        self._colour = "" if options.separator else options.colour
        self._number_width = 1 if options.separator else own - (2 if metric.unit is Unit.PERCENT else 1)

    def header(self) -> str:
        """Return the column's name, padded to its width."""
        return f"{self._name:>{self.width}}"

    def cell(self, entry: int) -> str:
        """Return the numbers of an entry."""
        return self.cells(np.array([entry]))[0]

    def cells(self, entries: Int64) -> list[str]:
        """Return the numbers of each of some entries."""
        if self.entry.value not in self._histogram.entries.measures:
            return [f" {'N/A':>{self._own - 1}}"] * len(entries)  # for groups of any size
        members = [self._numbers(entries, member) for member in self._members]
        return members[0] if len(members) == 1 else list(map("".join, zip(*members, strict=True)))

    def _numbers(self, entries: Int64, member: int) -> list[str]:
        metric, histogram, width = self.entry, self._histogram, self._number_width
        if metric.unit is Unit.PERCENT:
            percents = histogram.percents(metric.value, entries, member).tolist()
            cell_texts = {percent: f" {percent:{width}.2f}%" for percent in set(percents)}  # many entries have equal percentages
            texts = [cell_texts[percent] for percent in percents]
            return list(map(colour_share, percents, texts, repeat(self._colour))) if self._colour else texts
        if metric.unit is Unit.NUMBER:
            return [f" {value:{width}d}" for value in histogram.entries.measures[metric.value][entries, member].tolist()]
        if metric.unit is Unit.SECONDS:
            return [f" {text:>{width}}" for text in seconds(histogram, metric, entries, member)]
        return [f" {histogram.mean(metric.value, entry, member):{width}.1f}" for entry in entries.tolist()]


def seconds(histogram: Histogram, metric: OutputField, entries: Int64, member: int = 0) -> list[str]:
    """Return sums of ns in seconds; N/A for events that count something else."""
    if not is_time(histogram.events[member].event):
        return ["N/A"] * len(entries)
    return [f"{value / NANOSECONDS_A_SECOND:.6f}" for value in histogram.entries.measures[metric.value][entries, member].tolist()]


class KeyColumnText:
    """A column of texts."""

    def __init__(self, key: SortKey, histogram: Histogram, options: TextOptions, width: int) -> None:
        self.entry = key
        self._histogram = histogram
        self._options = options
        self.width = width

    def header(self) -> str:
        """Return the column's name, padded to its width."""
        if self.entry.cell is ColumnCell.RIGHT_CUT:
            return _set(self.entry.header, ColumnCell.RIGHT_CUT, self.width)
        return _padded_to(self.entry.header, min(self.width, _LONGEST_HEADER))

    def cell(self, entry: int) -> str:
        """Return the text of an entry, padded for the column."""
        return self.cells(np.array([entry]))[0]

    def cells(self, entries: Int64) -> list[str]:
        """Return the texts of some entries, padded for the column."""
        texts, separator = key_texts(self.entry.name, self._histogram, entries, self._options), self._options.separator
        if separator:
            texts = [text.replace(separator[0], ".") for text in texts]
        values = self._histogram.keys[self.entry.name]
        if values.column.unnamed is None:
            cell_of = {text: _set(text, self.entry.cell, self.width) for text in set(texts)}
            return [cell_of[text] for text in texts]
        for index in np.flatnonzero(~values.column.unnamed[values.number[entries]]).tolist():  # addresses are not shortened
            texts[index] = _set_function(texts[index], self.entry.cell, self.width)
        return texts


def _set_function(text: str, cell: ColumnCell, width: int) -> str:
    """Pad like `_set`, but keep " (inlined)"."""
    if not text.endswith(_INLINED):
        return _set(text, cell, width)
    name = _truncate_bytes(text.removesuffix(_INLINED), width) + _INLINED
    return name if cell is ColumnCell.CUT else name + " " * (width - byte_width(name))


def _set(text: str, cell: ColumnCell, width: int) -> str:
    if cell is ColumnCell.LOOSE:
        return text
    if cell is ColumnCell.CUT:
        return _truncate_bytes(text, width)
    if cell is ColumnCell.PADDED:
        return text + " " * (width - byte_width(text))
    if cell is ColumnCell.RIGHT_CUT:
        truncated = _truncate_bytes(text, width)
        return " " * (width - byte_width(truncated)) + truncated
    if cell is ColumnCell.RIGHT:
        return " " * (width - byte_width(text)) + text
    if cell is ColumnCell.THREAD:
        number, comm = text[:8], text[8:]
        return number + _padded_to(comm, max(7, width) - 8)
    return _padded_to(text, width)


def _padded_to(text: str, width: int) -> str:
    """Truncate and pad to a width in bytes."""
    truncated = _truncate_bytes(text, max(width, 0))
    return truncated + " " * (width - byte_width(truncated))


def _truncate_bytes(text: str, width: int) -> str:
    """Truncate to a number of bytes like C's precision, possibly within a character."""
    return text[:width] if text.isascii() else text.encode(errors="surrogateescape")[:width].decode(errors="surrogateescape")


class KeyWidths:
    """The widths required by some entries of a table."""

    def __init__(self, histogram: Histogram, entries: Int64 | list[int], options: TextOptions = _PERFS) -> None:
        self._histogram = histogram
        self._entries = entries
        self._options = options

    def of(self, key: SortKey) -> int:
        """Return the greatest of the widths of header and texts, and the minimum."""
        return max(len(key.header), key.least, self._requested_width(key))

    def _requested_width(self, key: SortKey) -> int:
        histogram = self._histogram
        if key.by_comm is not None:
            longest = max(map(byte_width, histogram.last_comms()), default=0)
            return longest + key.by_comm if longest else 0
        if key.late and histogram.leader.samples == 1:
            return 0
        if self._options.short_names and key.name in _FUNCTIONS:
            return max(map(byte_width, key_texts(key.name, histogram, np.asarray(self._entries), self._options)), default=0)
        values = histogram.keys[key.name]
        return values.column.width_of(distinct(values.number[self._entries]))
