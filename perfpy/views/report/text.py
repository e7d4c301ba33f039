"""perf report --stdio, byte for byte.

The layout is perf 6.12's: comment lines about the events, a header whose dots show
the columns' widths, a line for each row, and its call tree below.
"""

from __future__ import annotations

import time
from itertools import repeat, starmap

import numpy as np

from perfpy.abi.columns import distinct, first_of_each
from perfpy.abi.flags import BRANCH_TYPES
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol
from perfpy.abi.records import Read
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.locations import SourceTexts
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND, is_time
from perfpy.analysis.sort_key import ColumnCell, OutputField, SortKey, Unit
from perfpy.untrusted.text import byte_width
from perfpy.views.pieces import Coded, Joiner, colour_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.abi.attr import Reading
    from perfpy.analysis.report.branch_blocks import Block, BlockTable
    from perfpy.analysis.report.call_trees import Int64
    from perfpy.analysis.report.hierarchy import Hierarchy
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.pieces import Piece
    from perfpy.views.recorded import Recorded
    from perfpy.views.report.callchain_text import ChainWriter
    from perfpy.views.script.code import BranchCounters


HEADER_HINT = "# To display the perf.data header info, please use --header/--header-only options.\n#"


def report_lines(report: Report, options: TextOptions, *, many_at_once: bool = False) -> Iterator[str]:
    """Yield all lines of the report, without line ends; many_at_once: join thousands of rows, which takes less time."""
    if not options.quiet:
        yield from ("#", f"# Total Lost Samples: {report.lost}", "#")
    widths = FieldWidths(report.histograms)
    for histogram in report.histograms:
        if options.skip_empty and not histogram.leader.samples:
            continue
        if not options.quiet:
            yield from _summary(histogram, options)
        yield from table_lines(histogram, options, widths, many_at_once=many_at_once)
        yield from ("", "")
    if not options.quiet:
        yield from ("#", f"# ({tip()})", "#")


def table_lines(
    histogram: Histogram, options: TextOptions, widths: FieldWidths | None = None, *, many_at_once: bool = False
) -> Iterator[str]:
    """Return the lines of one table; with -H, levels of rows, if these have keys. widths: of fields, for all tables of the report."""
    if histogram.options.rows.hierarchy:
        from perfpy.analysis.report.hierarchy import has_no_level, levels_of, make_hierarchy

        if (levels := levels_of(histogram)) or has_no_level(histogram):
            return HierarchyText(make_hierarchy(histogram, levels), options).lines()
    return HistogramText(histogram, options, widths).lines(many_at_once=many_at_once)


def _summary(histogram: Histogram, options: TextOptions) -> Iterator[str]:
    relative = histogram.options.rows.relative_percentages
    samples = sum(event.shown_samples if relative else event.samples for event in histogram.events)
    period = sum(event.shown_period if relative else event.period for event in histogram.events)
    if histogram.options.rows.hierarchy:
        from perfpy.analysis.report.hierarchy import has_no_level

        period = 0 if has_no_level(histogram) else period
    plural = "s" if histogram.group.is_group else ""
    times = f" (time slices: {options.times})" if options.times else ""
    title = event_title(histogram, skip_empty=options.skip_empty)
    yield f"# Samples: {short_number(samples)} of event{plural} '{title}'{times}"
    if options.memory_order:
        yield f"# Total weight : {period}"
        yield f"# Sort order   : {options.memory_order}"
    else:
        yield f"# Event count (approx.): {period}"
    if options.socket >= 0:
        yield f"# Processor Socket: {options.socket}"
    yield "#"


def event_title(histogram: Histogram, *, skip_empty: bool) -> str:
    """Return the event's name, or the names of its group (optionally only of those with samples)."""
    if len(histogram.events) == 1:
        return histogram.leader.event.name
    names = ", ".join(event.event.name for event in histogram.events if event.samples or not skip_empty)
    return f"{histogram.group.title} {{ {names} }}" if histogram.group.title else names


def short_number(number: int) -> str:
    """Return 12K for 12345, as perf counts samples."""
    for unit in " KMGT":
        if number <= 1000 or unit == "T":
            return f"{number}{unit}"
        number //= 1000
    return str(number)


_INDENT = 3
_MOST_DOTS = 207  # limit of the keys' common column


class HierarchyText:
    """One table as text."""

    def __init__(self, hierarchy: Hierarchy, options: TextOptions) -> None:
        self._hierarchy = hierarchy
        self._options = options
        self._table = HistogramText(hierarchy.nodes, options._replace(widths=()))  # perf has no -w here
        self._numbers = [column for column in self._table.columns if isinstance(column, MetricColumnText)]
        cells = {column.entry.name: column for column in self._table.columns if isinstance(column, KeyColumnText)}
        self._levels = [[cells[key.name] for key in level] for level in hierarchy.levels]

    def lines(self) -> Iterator[str]:
        """Yield header, rows and call trees."""
        if not self._options.quiet:
            yield from self._header()
        nodes, depth, leaf = self._hierarchy.nodes, self._hierarchy.depth, self._hierarchy.leaf
        writer = chain_writer(self._hierarchy.source, self._options)
        visible = nodes.visible_entries()
        order, reach = visible.tolist(), nodes.reach(visible, self._options.percent_limit).tolist()
        for index, node in enumerate(order):
            if not reach[index]:
                continue
            yield self._row(node, int(depth[node]))
            if leaf[node] >= 0:
                if writer is not None:
                    yield from writer.lines_of(self._hierarchy.source, int(leaf[node]))
            elif not reach[index + 1]:
                yield self._nothing(int(depth[node]))

    def _header(self) -> Iterator[str]:
        separator = self._options.separator
        space = 0 if separator else (len(self._levels) - 1) * _INDENT
        names = " / ".join("+".join(column.header().strip() for column in level) for level in self._levels)
        yield "# " + " " * space + "".join(column.header() + (separator or GAP) for column in self._numbers) + names
        widths = [depth * _INDENT + sum(column.width + 1 for column in level) - 1 for depth, level in enumerate(self._levels)]
        dots = (separator or "..").join("." * column.width for column in self._numbers)
        yield "# " + "." * space + dots + (separator or GAP) + "." * min(max([len(names), *widths]), _MOST_DOTS)
        yield "#"

    def _row(self, node: int, depth: int) -> str:
        separator = self._options.separator
        cells = [column.cell(node) for column in self._numbers]
        if separator:  # perf pads numbers to their columns even here
            numbers = separator.join(cell.ljust(column.width) for cell, column in zip(cells, self._numbers, strict=True))
        else:
            numbers = "".join(GAP + cell for cell in cells)
        space = "" if separator else " " * ((len(self._levels) - 1) * _INDENT)
        texts = "".join((separator or GAP) + column.cell(node).lstrip() for column in self._levels[depth])
        return " " * (depth * _INDENT) + numbers + space + texts

    def _nothing(self, depth: int) -> str:
        """Return the line for rows whose children are all below the limit."""
        indent = 0 if self._options.separator else (len(self._levels) + depth) * _INDENT
        width = sum(column.width for column in self._numbers) + len(GAP) * (len(self._numbers) - 1) + 4
        return " " * (indent + width) + f"no entry >= {self._options.percent_limit:.2f}%"


# One table of a report as perf 6.12's text: heading, rows, and call trees below them.


GAP = "  "
_ROWS_AT_ONCE = 4096


class Column(Protocol):
    """A column of a heading."""

    width: int

    def header(self) -> str:
        """Return the column's name, padded to its width."""


def heading(columns: Sequence[Column], separator: str | None) -> Iterator[str]:
    """Yield the lines above a table: names, and dots that show the widths."""
    yield "# " + (separator or GAP).join(column.header() for column in columns)
    if separator is None:
        yield "# " + GAP.join("." * column.width for column in columns)
        yield "#"


def row_line(cells: Sequence[str], widths: Sequence[int], separator: str | None) -> str:
    """Return a row of a table, its cells padded to the columns' widths."""
    filled = map(_pad, cells, widths)
    return separator.join(filled) if separator else GAP + GAP.join(filled)


def _pad(cell: str, width: int) -> str:
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - byte_width(cell))


def chain_writer(histogram: Histogram, options: TextOptions) -> ChainWriter | None:
    """Return the writer of call trees; None without call trees."""
    trees, graph = histogram.trees, histogram.options.chains.call_graph
    if trees is None or graph is None:
        return None
    from perfpy.views.report.callchain_text import ChainWriter  # most reports are flat

    columns = histogram.options.columns
    named_already = columns.fields is None and (columns.sort or "").startswith("sym")
    return ChainWriter(graph, trees.frame_name, separator=options.separator or ";", skip_first=named_already, colour=options.colour)


class HistogramText:
    """One table as text. widths: of fields, which columns of several tables have."""

    def __init__(self, histogram: Histogram, options: TextOptions, widths: FieldWidths | None = None) -> None:
        self._histogram = histogram
        self._options = options
        event = histogram.leader.event.index
        fields = [entry for entry in histogram.layout.fields if isinstance(entry, OutputField) or entry.event in (None, event)]
        entries = [entry for entry in fields if entry.name not in histogram.layout.hidden]
        self._last = histogram.layout.fields[-1]
        visible = histogram.visible_entries()
        wide = KeyWidths(histogram, visible[: options.most_rows] if options.most_rows else visible, options)
        self.columns = [
            MetricColumnText(entry, histogram, options, self._user_width(entry))
            if isinstance(entry, OutputField)
            else KeyColumnText(entry, histogram, options, self._user_width(entry) or _key_width(entry, wide, widths))
            for entry in entries
        ]

    def _user_width(self, entry: SortKey | OutputField) -> int:
        index = self._histogram.layout.fields.index(entry)
        return self._options.widths[index] if index < len(self._options.widths) else 0

    def lines(self, *, many_at_once: bool = False) -> Iterator[str]:
        """Yield header, rows and call trees; many_at_once: join the rows between trees, and the lines of each tree."""
        if not self._options.quiet:
            yield from heading(self.columns, self._options.separator)
        writer = chain_writer(self._histogram, self._options)
        histogram, trees = self._histogram, self._histogram.trees
        measure = "children" if "children" in histogram.entries.measures else "period"
        visible = histogram.visible_entries()
        visible = visible[histogram.reach(visible, self._options.percent_limit, measure)]
        if self._options.most_rows:
            visible = visible[: self._options.most_rows]
        joiner = Joiner()
        for first in range(0, len(visible), _ROWS_AT_ONCE):
            entries = visible[first : first + _ROWS_AT_ONCE]
            rows = self._rows(entries, joiner, joined=many_at_once and not self._options.most_columns)
            if writer is None or trees is None:
                yield from rows(0, len(entries))
                continue
            printed = 0
            for index in np.flatnonzero(trees.have_calls(entries)).tolist():  # most rows of long tables have none
                yield from rows(printed, index + 1)
                printed = index + 1
                calls = writer.lines_of(histogram, int(entries[index]))
                if not many_at_once:
                    yield from calls
                elif lines := list(calls):
                    yield "\n".join(lines)
            yield from rows(printed, len(entries))

    def _rows(self, entries: Int64, joiner: Joiner, *, joined: bool) -> Callable[[int, int], list[str]]:
        """Return a function that returns the rows from one of some entries to another; joined: in one text."""
        separator = self._options.separator
        pieces: list[Piece] = []
        for column in self.columns:
            pieces.append(_encoded(GAP if not separator else separator if pieces else ""))
            pieces.append(column.piece(entries, 0 if column.entry is self._last else column.width))
        rows = joiner.join([*pieces, b"\n"], len(entries))
        if not joined:
            lines = [_decoded(line)[: self._options.most_columns or None] for line in rows.lines()]
            return lambda begin, end: lines[begin:end]
        return lambda begin, end: [_decoded(b"".join(rows.slice(begin, end)))] if begin < end else []


def _encoded(cell: str) -> bytes:
    """Return a cell as bytes; it may have characters of no encoding, with which colours begin."""
    return cell.encode(errors="surrogatepass")


def _decoded(lines: bytes) -> str:
    """Return lines of encoded cells without the last line end."""
    return lines[:-1].decode(errors="surrogatepass")


def _piece_of(cells: list[str], width: int, *, numbers: bool) -> NDArray[np.bytes_] | list[bytes]:
    """Return cells as a part of rows, padded to a width; escape sequences of colours count like in perf."""
    if min(map(len, cells)) < width:
        is_plain = numbers or "".join(cells).isascii()
        cells = [cell.ljust(width) for cell in cells] if is_plain else [_pad(cell, width) for cell in cells]
    size, text = len(cells[0]), "".join(cells)
    if text.isascii() and size and set(map(len, cells)) == {size} and "\0" not in text:
        return np.frombuffer(text.encode(), f"S{size}")
    return list(map(_encoded, cells))


# The columns of a report's tables as text: numbers with their units, and keys padded to their widths.
#
# Cells are perf 6.12's; function names may be shortened for screens.


_LONGEST_HEADER: Final = 1023  # the size of perf's buffer in bytes
#: keys whose texts are function names, possibly with a prefix like [.]
_FUNCTIONS: Final = ("symbol", "symbol_from", "symbol_to", "parent")
_INLINED: Final = " (inlined)"
_SPACES: Final = 3  # before the digits of a socket
_LEVEL: Final = len("[.] ")
_MOST_KEPT: Final = 1 << 16  # texts of a column
OF_PROCESSES: Final = ("pid", "tgid")  #: sort keys of threads and processes


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
        process_names: process -> its name by its command line, in place of the comm; None as perf.
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
    process_names: Mapping[int, str] | None = None


_PERFS: Final = TextOptions()


def key_texts(key: str, histogram: Histogram, entries: Int64, options: TextOptions) -> list[str]:
    """Return the texts of a key in some entries' rows; function names are shortened, and processes named, if requested."""
    texts = histogram.texts(key, entries)
    if key in OF_PROCESSES and options.process_names:
        return [name_process(text, options.process_names) for text in texts]
    return list(map(_short, texts)) if options.short_names and key in _FUNCTIONS else texts


def name_process(text: str, names: Mapping[int, str]) -> str:
    """Return the text of a process, "17:python3", with its name: "17:gunicorn: worker 2". Only the first threads of processes have one."""
    number = text.partition(":")[0]
    name = names.get(int(number)) if number.strip().isdecimal() else None
    return text if name is None else f"{number}:{name}"


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

    def piece(self, entries: Int64, width: int) -> Piece:
        """Return the numbers of some entries, padded to a width."""
        return _piece_of(self.cells(entries), width, numbers=True)

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
            values = histogram.entries.measures[metric.value][entries, member].tolist()
            text_of = {value: f" {value:{width}d}" for value in set(values)}
            return [text_of[value] for value in values]
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
        self._texts: list[bytes] = []
        self._codes = np.zeros(0, np.int64)  #: of numbers of the key: their texts, -1 for those without one

    def header(self) -> str:
        """Return the column's name, padded to its width."""
        if self.entry.cell is ColumnCell.RIGHT_CUT:
            return _set(self.entry.header, ColumnCell.RIGHT_CUT, self.width)
        return _padded_to(self.entry.header, min(self.width, _LONGEST_HEADER))

    def cell(self, entry: int) -> str:
        """Return the text of an entry, padded for the column."""
        return self.cells(np.array([entry]))[0]

    def piece(self, entries: Int64, width: int) -> Piece:
        """Return the texts of some entries, padded to a width; those of few distinct values are made once."""
        values = self._histogram.keys[self.entry.name]
        if values.column.per_sample is not None or len(values.column.same) > _MOST_KEPT:
            return _piece_of(self.cells(entries), width, numbers=False)
        numbers = values.number[entries]
        if not len(self._codes):
            self._codes = np.full(len(values.column.same), -1, np.int64)
        missing = np.flatnonzero(self._codes[numbers] < 0)
        if len(missing):
            new = np.sort(missing[first_of_each(numbers[missing])])  # rows in their order: a text can depend on those before it
            self._codes[numbers[new]] = len(self._texts) + np.arange(len(new))
            cells = self.cells(entries[new])
            self._texts += [_encoded(_pad(cell, width)) for cell in cells]
        return Coded(self._codes[numbers], self._texts)

    def cells(self, entries: Int64) -> list[str]:
        """Return the texts of some entries, padded for the column."""
        texts, separator = key_texts(self.entry.name, self._histogram, entries, self._options), self._options.separator
        if separator:
            texts = [text.replace(separator[0], ".") for text in texts]
        values = self._histogram.keys[self.entry.name]
        if values.column.unnamed is None:
            cell_of = {text: _set(text, self.entry.cell, self.width) for text in set(texts)}
            return [cell_of[text] for text in texts]
        unnamed = values.column.unnamed[values.number[entries]]
        for index in np.flatnonzero(~unnamed).tolist():  # addresses are not shortened
            texts[index] = _set_function(texts[index], self.entry.cell, self.width)
        for index in np.flatnonzero(unnamed).tolist() if self.entry.cell is ColumnCell.OFFSET else ():
            texts[index] = _with_digits(texts[index], self.width)
        return texts


def _with_digits(text: str, width: int) -> str:
    """Return a mode and an address, which has the digits that the width leaves beside the mode, or more if it needs them."""
    mode, _, address = text.partition(" ")
    prefix = "0x" if address.startswith("0x") else ""
    return f"{mode} {prefix}{address.removeprefix('0x').lstrip('0').zfill(width - len(mode) - 1)}"


def _set_function(text: str, cell: ColumnCell, width: int) -> str:
    """Pad like `_set`, but keep " (inlined)"."""
    if not text.endswith(_INLINED):
        return _set(text, cell, width)
    name = _truncate_bytes(text.removesuffix(_INLINED), width) + _INLINED
    return name if cell is ColumnCell.CUT else name + " " * (width - byte_width(name))


def _set(text: str, cell: ColumnCell, width: int) -> str:
    if cell in (ColumnCell.LOOSE, ColumnCell.OFFSET):
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
    if cell in (ColumnCell.DIGITS, ColumnCell.SPACED_DIGITS):
        return f"{_number_of_digits(int(text), width if cell is ColumnCell.DIGITS else width - _SPACES):>{width}}"
    if cell is ColumnCell.THREAD:
        number, comm = text[:8], text[8:]
        return number + _padded_to(comm, max(7, width) - 8)
    return _padded_to(text, width)


def _number_of_digits(number: int, digits: int) -> str:
    """Format a number with at least some digits, like C's precision, which 0 has no digits at, and which is ignored below."""
    if not number and not digits:
        return ""
    return f"{'-' if number < 0 else ''}{abs(number):0{max(digits, 1)}d}"


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
        """Return the greatest of the widths of header and texts, and the minimum; perf applies that of most keys to rows."""
        least = key.least if len(self._entries) or key.event is not None else 0
        return max(len(key.header), least, self.longest_text(key))

    def longest_text(self, key: SortKey) -> int:
        """Return the greatest of the widths of the texts."""
        histogram = self._histogram
        if key.by_comm is not None:
            longest = max(map(byte_width, histogram.last_comms()), default=0)
            return longest + key.by_comm if longest else 0
        # One sample is compared with nothing, but with its own callers if they get rows.
        is_alone = histogram.leader.samples == 1 and "children" not in histogram.entries.measures
        if key.late and is_alone:
            return 0
        if self._options.short_names and key.name in _FUNCTIONS:
            return max(map(byte_width, key_texts(key.name, histogram, np.asarray(self._entries), self._options)), default=0)
        values = histogram.keys[key.name]
        longest = values.column.width_of(distinct(values.number[self._entries]))
        if key.event is not None and is_alone:  # perf takes the size of dynamic data, with the NUL, from rows that it compares
            return 0 if key.raw else min(longest, max(map(byte_width, histogram.texts(key.name, np.asarray(self._entries))), default=0))
        return longest


class FieldWidths:
    """The widths of tracepoints' fields: of the longest text in the tables of all tracepoints with a field, as in perf."""

    def __init__(self, tables: Sequence[Histogram]) -> None:
        self._widths: dict[str, int] = {}
        self._columns: dict[str, list[tuple[Histogram, SortKey]]] = {}
        for table in tables:
            event = table.leader.event.index
            for key in table.layout.keys:
                if key.event == event and not key.raw:
                    self._columns.setdefault(key.header, []).append((table, key))

    def of(self, key: SortKey) -> int:
        """Return the width of a key's column; 0 for keys that are no fields, -1 if the texts do not widen it."""
        if key.event is None or key.raw:
            return 0
        if key.header not in self._widths:
            widths = list(starmap(_text_width, self._columns.get(key.header, ())))
            self._widths[key.header] = -1 if -1 in widths else max(widths, default=0)
        return self._widths[key.header]


def _key_width(key: SortKey, wide: KeyWidths, widths: FieldWidths | None) -> int:
    shared = widths.of(key) if widths is not None else 0
    return max(wide.of(key), shared) if shared >= 0 else max(len(key.header), key.least)


def _text_width(table: Histogram, key: SortKey) -> int:
    """Return the width of a field's longest text in one table; see FieldWidths.of()."""
    every = np.arange(len(table.entries))  # perf reads those of hidden rows, too
    longest = max(map(byte_width, table.texts(key.name, every)), default=0)
    return min(longest, KeyWidths(table, every).longest_text(key))


# A line of advice at the end of a report, another one each time.


_TIPS: Final = (
    "Tip: see where callers spend their time: perfpy report -g caller",
    "Tip: a flame graph in one HTML file: perfpy report --flamegraph",
    "Tip: hide small rows: perfpy report --percent-limit 1",
    "Tip: one line per thread: perfpy report --sort pid,comm",
    "Tip: what changed between two recordings: perfpy diff perf.data.old perf.data",
    "Tip: samples as lines of text: perfpy script",
    "Tip: the same report as data: perfpy report --json",
    "Tip: record callchains with -g, and see who calls the hot functions",
    "Tip: only one command of a system-wide recording: perfpy report --comms NAME",
    "Tip: only a part of the time: perfpy report --time 10%-20%",
)


def tip() -> str:
    """Return one of the tips."""
    return _TIPS[time.monotonic_ns() % len(_TIPS)]  # importing random would take a millisecond


def branch_kind_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield perf's lines about the types of branches; none without types. counts: by type, of branch_kinds()."""
    total = sum(counts.get(name, 0) for name in BRANCH_TYPES)
    if not total:
        return
    yield from ("", "#", "# Branch Statistics:", "#")
    yield from (f"{name:>8}: {100 * count / total:5.1f}%" for name, count in counts.items())


# perf report --total-cycles, byte for byte: a line for each block of code between two branches.


_COLUMNS: Final = (
    ("Sampled Cycles%", 15), ("Sampled Cycles", 14), ("Avg Cycles%", 11), ("Avg Cycles", 10), ("[Program Block Range]", 70),
    ("Shared Object", 20),
)  # fmt: skip


def block_lines(
    tables: Sequence[BlockTable],
    lost: int,
    symbolizer: Symbolizer,
    counters: BranchCounters | None = None,
    style: TextOptions = _PERFS,
    *,
    verbose: bool = False,
    full_paths: bool = False,
) -> Iterator[str]:
    """Yield all lines of the report, without line ends.

    Args:
        counters: those of branch records, None without
        style: its `quiet` leaves out the numbers of samples and the tip
        verbose: show counts as numbers, as perf does if quiet, too
        full_paths: whether source files are shown with their folders
    """
    columns = (*_COLUMNS[:4], ("Branch Counter", 30), *_COLUMNS[4:]) if counters else _COLUMNS
    yield from () if style.quiet else ("#", f"# Total Lost Samples: {lost}", "#")
    sources = SourceTexts(symbolizer, full_paths=full_paths)
    times = f" (time slices: {style.times})" if style.times else ""
    for table in tables:
        if not table.branches:
            continue
        if not style.quiet:
            yield f"# Samples: {short_number(table.branches)} of event{'s' if table.is_group else ''} '{table.title}'{times}"
            yield f"# Event count (approx.): {table.branches}"
            yield "#"
        if counters:
            yield from (*counters.legend.decode("utf-8", "surrogateescape").splitlines(), "#")
        yield "# " + "  ".join(f"{name:>{width}}" for name, width in columns)
        yield "# " + "  ".join("." * width for _, width in columns)
        yield "#"
        for block in table.blocks:
            cells = _cells(table, block, sources, symbolizer)
            if counters:
                cells = (*cells[:4], counters.column(block.mean_counts, block.most, numbers=verbose or style.quiet), *cells[4:])
            yield "  " + "  ".join(f"{text:>{width}}" for text, (_, width) in zip(cells, columns, strict=True))
    yield from () if style.quiet else ("#", f"# ({tip()})", "#")


def _cells(table: BlockTable, block: Block, sources: SourceTexts, symbolizer: Symbolizer) -> tuple[str, ...]:
    return (
        f"{100 * block.cycles / table.cycles:.2f}%",
        _number(block.cycles),
        f"{100 * block.mean / table.means:.2f}%",
        _number(block.mean),
        _range(block, sources),
        symbolizer.dsos[symbolizer.symbols.dso(block.symbol)].short_name,
    )


def _range(block: Block, sources: SourceTexts) -> str:
    lines = sources.lines(np.array([block.first, block.last]))
    if any(line == "??:0" for line in lines):
        return f"[{block.start:7x} -> {block.end:7x}]"
    return f"[{lines[0]} -> {lines[1]}]"


def _number(count: int) -> str:
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    return f"{count / 1000:.1f}K" if count >= 1000 else str(count)


# `report -T`: the counts of each thread, for recordings made with `record -s`.
#
# The counts come from READ records; damaged ones are skipped. Lines are perf's.


def thread_count_lines(recording: Recorded) -> Iterator[str]:
    """Yield a table: a line for each thread, a column for each event."""
    event_of = {number: event for event in recording.events for number in event.ids}
    counts: dict[tuple[int, int], dict[int, int]] = {}
    for side in recording.side_band():
        record = side.record
        if not isinstance(record, Read):
            continue
        of_thread = counts.setdefault((record.pid, record.tid), {})
        for reading in _readings(record, recording):
            event = event_of.get(reading.id or 0, recording.events[0])
            of_thread[event.index] = of_thread.get(event.index, 0) + reading.value
    indexes = list(dict.fromkeys(index for of_thread in counts.values() for index in of_thread))
    names = {index: recording.events[index].name for index in indexes}
    pid_width = max([3, *(len(str(pid)) for pid, _ in counts)])
    tid_width = max([3, *(len(str(tid)) for _, tid in counts)])
    widths = {index: max([len(names[index]), *(len(str(of_thread.get(index, 0))) for of_thread in counts.values())]) for index in indexes}
    yield f"# {'PID':>{pid_width}}  {'TID':>{tid_width}}" + "".join(f"  {names[index]:>{widths[index]}}" for index in indexes)
    for (pid, tid), of_thread in counts.items():
        numbers = "".join(f"  {of_thread.get(index, 0):>{widths[index]}}" for index in indexes)
        yield f"  {pid:>{pid_width}}  {tid:>{tid_width}}{numbers}"


def _readings(record: Read, recording: Recorded) -> list[Reading]:
    from perfpy.abi.attr import decode_read

    try:
        return decode_read(record.values, recording.events[0].attr.read_format, recording.data.endian)
    except (ValueError, IndexError):
        return []
