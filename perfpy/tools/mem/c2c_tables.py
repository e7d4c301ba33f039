"""The accesses of each cache line: perf c2c report's "Shared Cache Line Distribution Pareto"."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.cpu_list import cpu_list_text
from perfpy.tools.mem.accesses import KindCounts
from perfpy.tools.mem.cache_lines import displayed, group_rows
from perfpy.untrusted.text import byte_width, padded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sort_key import KeyColumn
    from perfpy.tools.mem.accesses import Accesses, MemoryNodes
    from perfpy.tools.mem.cache_lines import AccessRows, CacheLines


_RULE: Final = "  " + "-" * 70
_NUMBER: Final = 7
_WIDE: Final = 8
_STORES: Final = ("store_l1", "store_l1_miss", "store_unknown")
_LONGEST_NAME: Final = 30  # of functions, with the level, and of source lines
_NODE_WIDTH: Final = 20  # of a node with shares
_NODE_HEADINGS: Final = ("Node", "Node{cpus %hitms %stores}", "Node{cpu list}")
_PEER_HEADING: Final = "Node{cpus %peers %stores}"


class RowNames(NamedTuple):
    """The names of rows, over the distinct frames of their code.

    Attributes:
        symbol, dso, source: the columns; source is None if lines are not shown.
        number: int64[rows], the row's place in them.
        address: uint64[rows], of the code.
        comm: returns the name of a thread.
    """

    symbol: KeyColumn
    dso: KeyColumn
    source: KeyColumn | None
    number: NDArray[np.int64]
    address: NDArray[np.uint64]
    comm: Callable[[int], str]


class RowStyle(NamedTuple):
    """Options for rows.

    Attributes:
        display: tot, lcl, rmt or peer.
        fields: of --coalesce.
        node_info: how often -N was given: nodes; with shares; with CPUs.
        full_symbols: whether long symbols are not cut.
    """

    display: str
    fields: Sequence[str]
    node_info: int
    full_symbols: bool


def row_tables(
    rows: AccessRows, lines: CacheLines, chosen: Sequence[int], names: RowNames, nodes: MemoryNodes, style: RowStyle
) -> Iterator[str]:
    """Yield a table for each chosen line."""
    yield ""
    yield from title("      Shared Cache Line Distribution Pareto      ")
    if not chosen:
        yield "#"
        return
    tables = _Tables(rows, lines, chosen, names, nodes, style)
    yield from heading_lines(tables.columns(0))
    starts = np.searchsorted(rows.line[rows.order], np.arange(len(chosen) + 1))
    for rank in range(len(chosen)):
        yield from tables.lines_of(rank, rows.order[starts[rank] : starts[rank + 1]])


class _Tables:
    def __init__(
        self, rows: AccessRows, lines: CacheLines, chosen: Sequence[int], names: RowNames, nodes: MemoryNodes, style: RowStyle
    ) -> None:
        self._rows = rows
        self._lines = lines
        self._chosen = chosen
        self._names = names
        self._nodes = nodes
        self._style = style
        starts = np.searchsorted(rows.line, np.arange(len(chosen) + 1)).tolist()  # rows ascend by line
        self._rows_of_line = [np.arange(begin, end) for begin, end in pairwise(starts)]
        self._row_nodes = _RowNodes(rows, nodes, style)
        self._means = rows.mean_weights()
        self._records = rows.counts.records

    def columns(self, rank: int) -> list[AlignedColumn]:
        """Return the columns of a line's table; hidden rows widen them, too."""
        style, fields = self._style, self._style.fields
        is_peer = style.display == "peer"
        first = "-- Peer Snoop --" if is_peer else "----- HITM -----"
        columns = [
            AlignedColumn("Num", 5),
            AlignedColumn("Rmt" if is_peer else "RmtHitm", _NUMBER, first, 2),
            AlignedColumn("Lcl" if is_peer else "LclHitm", _NUMBER),
            AlignedColumn("L1 Hit", _NUMBER, "------- Store Refs ------", 3),
            AlignedColumn("L1 Miss", _NUMBER),
            AlignedColumn("N/A", _NUMBER),
            AlignedColumn("Offset", 18, "--------- Data address ---------", 3),
            AlignedColumn("Node", 4),
            AlignedColumn("PA cnt", 6),
        ]
        columns += [AlignedColumn("Pid", _NUMBER)] if "pid" in fields else []
        columns += [AlignedColumn("Tid", self._thread_width(rank), left=True)] if "tid" in fields else []
        columns += [AlignedColumn("Code address", 18)] if "iaddr" in fields else []
        kind = "peer" if is_peer else "hitm"
        columns += [
            AlignedColumn(f"rmt {kind}", _WIDE, "---------- cycles ----------", 3),
            AlignedColumn(f"lcl {kind}", _WIDE),
            AlignedColumn("load", _WIDE),
        ]
        columns += [AlignedColumn("records", _NUMBER, "Total"), AlignedColumn("cnt", _WIDE, "cpu")]
        columns += self._name_columns(rank)
        info = min(style.node_info, 2)
        columns.append(AlignedColumn(_PEER_HEADING if is_peer and info == 1 else _NODE_HEADINGS[info], 4, loose=True))
        return columns

    def _name_columns(self, rank: int) -> list[AlignedColumn]:
        names, fields = self._names, self._style.fields
        numbers = distinct(names.number[self._rows_of_line[rank]])
        columns = []
        if "iaddr" in fields:
            columns.append(AlignedColumn("Symbol", self._name_width(names.symbol, numbers, "Symbol"), left=True))
        if "iaddr" in fields or "dso" in fields:
            columns.append(AlignedColumn("Object", names.dso.width_of(numbers), "Shared", left=True))
        if "iaddr" in fields and names.source is not None:
            columns.append(AlignedColumn("Source:Line", self._name_width(names.source, numbers, "Source:Line"), left=True))
        return columns

    def _name_width(self, names: KeyColumn, numbers: NDArray[np.int64], heading: str) -> int:
        width = max(names.width_of(numbers), len(heading))
        return width if self._style.full_symbols else min(width, _LONGEST_NAME)

    def _thread_width(self, rank: int) -> int:
        rows = self._rows_of_line[rank]
        threads = distinct(self._rows.accesses.tid[self._rows.first[rows]]).tolist()
        return max(8 + byte_width(self._names.comm(thread)) for thread in threads)

    def lines_of(self, rank: int, order: NDArray[np.int64]) -> Iterator[str]:
        """Yield the heading of a line and its rows."""
        line, counts = self._chosen[rank], self._lines.counts
        columns = self.columns(rank)
        totals = [int(counts[name][line]) for name in self._counters()]
        if rank:
            yield ""
        yield _RULE
        yield row_line(columns[:7], [str(rank), *map(str, totals), f"0x{self._lines.address[line]:x}"])
        yield _RULE
        visible_rows = order[self._rows.is_shown[order]]
        if len(visible_rows):
            yield from row_lines(columns, self._cells(visible_rows, totals))

    def _counters(self) -> tuple[str, ...]:
        kinds = ("remote_peer", "local_peer") if self._style.display == "peer" else ("remote_hitm", "local_hitm")
        return (*kinds, *_STORES)

    def _cells(self, order: NDArray[np.int64], totals: Sequence[int]) -> list[list[str]]:
        """Return the columns of rows as texts."""
        rows, names, fields = self._rows, self._names, self._style.fields
        accesses, listed = rows.first[order], order.tolist()
        cells = [[""] * len(order)]
        cells += [_percents(rows.counts[name][order], total) for name, total in zip(self._counters(), totals, strict=True)]
        cells.append([f"0x{offset:x}" for offset in rows.offset[order].tolist()])
        nodes = [rows.memory_nodes[row] for row in listed]
        text_of_nodes = {some: node_text(some) for some in set(nodes)}
        cells.append([text_of_nodes[some] for some in nodes])
        cells.append(_numbers(rows.physical[order]))
        cells += [_numbers(rows.accesses.pid[accesses])] if "pid" in fields else []
        if "tid" in fields:
            cells.append([f"{thread:>7}:{names.comm(thread)}" for thread in rows.accesses.tid[accesses].tolist()])
        numbers = names.number[order]
        cells += [[f"0x{address:x}" for address in names.address[order].tolist()]] if "iaddr" in fields else []
        means = self._means[2:4] if self._style.display == "peer" else self._means[:2]
        cells += [[f"{cycles:.0f}" for cycles in mean[order].tolist()] for mean in (*means, self._means[4])]
        cells += [_numbers(self._records[order]), [str(len(rows.cpus[row])) for row in listed]]
        cells += [self._texts(names.symbol, numbers)] if "iaddr" in fields else []
        cells += [names.dso.texts_of(numbers)] if "iaddr" in fields or "dso" in fields else []
        cells += [self._texts(names.source, numbers)] if "iaddr" in fields and names.source is not None else []
        return [*cells, [self._row_nodes.text(row) for row in listed]]

    def _texts(self, names: KeyColumn, numbers: NDArray[np.int64]) -> list[str]:
        length = None if self._style.full_symbols else _LONGEST_NAME
        return [text[:length] for text in names.texts_of(numbers)]


class _RowNodes:
    """The nodes whose CPUs made the accesses of each row."""

    def __init__(self, rows: AccessRows, nodes: MemoryNodes, style: RowStyle) -> None:
        self._rows = rows
        self._style = style
        self._nodes = nodes
        self._shares: dict[tuple[int, int], tuple[int, int]] = {}
        self._texts: dict[tuple[int, ...], str] = {}
        self._totals = displayed(rows.counts, style.display), rows.counts["store"]
        if style.node_info == 1:
            self._count_shares()

    def _count_shares(self) -> None:
        """Count the accesses of each row and node that --display counts, and stores."""
        accesses = self._rows.accesses
        node = self._nodes.of_cpus(accesses.cpu).astype(np.int64)
        group, first = group_rows([self._rows.group, node])
        counts = KindCounts(accesses.kinds, group, len(first))
        keys = zip(self._rows.group[first].tolist(), node[first].tolist(), strict=True)
        numbers = zip(displayed(counts, self._style.display).tolist(), counts["store"].tolist(), strict=True)
        self._shares = dict(zip(keys, numbers, strict=True))

    def text(self, row: int) -> str:
        """Return the nodes of a row."""
        cpus = self._rows.cpus[row]
        if self._style.node_info == 1:
            by_node = self._by_node(cpus)
            return " ".join(self._share_text(row, number, by_node.get(number, [])) for number in range(self._nodes.count))
        if cpus not in self._texts:
            by_node = self._by_node(cpus)
            lists = (f"{{{cpu_list_text(own)}}}" if self._style.node_info else "" for own in by_node.values())
            self._texts[cpus] = " ".join(f"{number:2d}{own}" for number, own in zip(by_node, lists, strict=True))
        return self._texts[cpus]

    def _by_node(self, cpus: Sequence[int]) -> dict[int, list[int]]:
        """Return CPUs by their nodes."""
        by_node: dict[int, list[int]] = {}
        for cpu, number in zip(cpus, self._nodes.of_cpus(np.array(cpus, np.int32)).tolist(), strict=True):
            if number >= 0:
                by_node.setdefault(number, []).append(cpu)
        return dict(sorted(by_node.items()))

    def _share_text(self, row: int, number: int, cpus: Sequence[int]) -> str:
        if not cpus:
            return " " * _NODE_WIDTH
        parts = self._shares[row, number]
        shares = (
            f"{100.0 * part / int(total[row]):5.1f}%" if total[row] else f"{'n/a':>6}"
            for part, total in zip(parts, self._totals, strict=True)
        )
        return f"{number:2d}{{{len(cpus):2d} {' '.join(shares)}}}"


def _percents(parts: NDArray[np.int64], whole: int) -> list[str]:
    texts = {part: f"{100.0 * part / whole if whole else 0.0:.2f}%" for part in set(parts.tolist())}
    return [texts[part] for part in parts.tolist()]


def _numbers(values: NDArray[np.generic]) -> list[str]:
    return [str(value) for value in values.tolist()]


_STATISTICS_RULE: Final = "=" * 49
_WIDTH: Final = 10
_ALL: Final = (
    ("Locked Load/Store Operations", ("locks",)),
    ("Load Operations", ("load",)),
    ("Loads - uncacheable", ("load_uncached",)),
    ("Loads - IO", ("load_io",)),
    ("Loads - Miss", ("load_miss",)),
    ("Loads - no mapping", ("load_no_address",)),
    ("Load Fill Buffer Hit", ("load_fill_buffer",)),
    ("Load L1D hit", ("load_l1",)),
    ("Load L2D hit", ("load_l2",)),
    ("Load LLC hit", ("load_llc", "local_hitm")),
    ("Load Local HITM", ("local_hitm",)),
    ("Load Remote HITM", ("remote_hitm",)),
    ("Load Remote HIT", ("remote_hit",)),
    ("Load Local DRAM", ("local_dram",)),
    ("Load Remote DRAM", ("remote_dram",)),
    ("Load MESI State Exclusive", ("exclusive",)),
    ("Load MESI State Shared", ("shared",)),
    ("Load LLC Misses", ("local_dram", "remote_dram", "remote_hit", "remote_hitm")),
    ("Load access blocked by data", ("blocked_data",)),
    ("Load access blocked by address", ("blocked_address",)),
    ("Load HIT Local Peer", ("local_peer",)),
    ("Load HIT Remote Peer", ("remote_peer",)),
)
_MISSES: Final = (
    ("LLC Misses to Local DRAM", "local_dram"),
    ("LLC Misses to Remote DRAM", "remote_dram"),
    ("LLC Misses to Remote cache (HIT)", "remote_hit"),
    ("LLC Misses to Remote cache (HITM)", "remote_hitm"),
)
_STORE_STATISTICS: Final = (
    ("Store Operations", ("store",)),
    ("Store - uncacheable", ("store_uncached",)),
    ("Store - no mapping", ("store_no_address",)),
    ("Store L1D Hit", ("store_l1",)),
    ("Store L1D Miss", ("store_l1_miss",)),
    ("Store No available memory level", ("store_unknown",)),
    ("No Page Map Rejects", ("unmapped",)),
    ("Unable to parse data source", ("unparsed",)),
)
_OF_LINES: Final = (
    ("Fill Buffer Hits on shared lines", ("load_fill_buffer",)),
    ("L1D hits on shared lines", ("load_l1",)),
    ("L2D hits on shared lines", ("load_l2",)),
    ("LLC hits on shared lines", ("load_llc", "local_hitm")),
    ("Load hits on peer cache or nodes", ("local_peer", "remote_peer")),
    ("Locked Access on shared lines", ("locks",)),
    ("Blocked Access on shared lines", ("blocked_data", "blocked_address")),
    ("Store HITs on shared lines", ("store",)),
    ("Store L1D hits on shared lines", ("store_l1",)),
    ("Store No available memory level", ("store_unknown",)),
)
DISPLAYS: Final = {"lcl": "Local HITMs", "rmt": "Remote HITMs", "tot": "Total HITMs", "peer": "Peer Snoop"}


def statistics_lines(accesses: Accesses, lines: CacheLines) -> Iterator[str]:
    """Yield the statistics of all accesses and of shared lines."""
    total = KindCounts(accesses.kinds, np.zeros(len(accesses.kinds), np.int64), 1)
    yield from title("            Trace Event Information              ")
    yield _number("Total records", len(accesses.kinds))
    yield from (_number(label, int(total.sum_of(*names)[0])) for label, names in _ALL)
    misses = int(total.sum_of("local_dram", "remote_dram", "remote_hit", "remote_hitm")[0])
    yield from (_line(label, f" {_percent(int(total[name][0]), misses):>{_WIDTH}}%") for label, name in _MISSES)
    yield from (_number(label, int(total.sum_of(*names)[0])) for label, names in _STORE_STATISTICS)
    yield ""
    yield from _shared_lines(lines)


def _shared_lines(lines: CacheLines) -> Iterator[str]:
    shared, counts = lines.shared(), lines.counts

    def total(values: NDArray[np.int64]) -> int:
        return int(values[shared].sum())

    yield from title("    Global Shared Cache Line Event Information   ")
    yield _number("Total Shared Cache Lines", int(shared.sum()))
    yield _number("Load HITs on shared lines", total(counts["load"]))
    yield from (_number(label, total(counts.sum_of(*names))) for label, names in _OF_LINES)
    yield _number("Total Merged records", total(counts.hitm + counts["store"]))


def settings_lines(events: Sequence[str], display: str, fields: Sequence[str]) -> Iterator[str]:
    """Yield the events and the settings of the tables below."""
    yield ""
    yield from title("                 c2c details                     ")
    for number, event in enumerate(events):
        yield _line("" if number else "Events", f" {event}")
    yield _line("Cachelines sort on", f" {DISPLAYS[display]}")
    yield _line("Cacheline data grouping", f" {','.join(('offset', *fields))}")


def title(text: str) -> Iterator[str]:
    """Yield a heading between two rules."""
    yield from (_STATISTICS_RULE, text, _STATISTICS_RULE)


def _number(label: str, value: int) -> str:
    return _line(label, f" {value:>{_WIDTH}}")


def _line(label: str, value: str) -> str:
    return f"  {label:<34}:{value}"


def _percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.1f}" if whole else "-nan"


_SHARES: Final = {"tot": ("Tot", "Hitm"), "lcl": ("Lcl", "Hitm"), "rmt": ("Rmt", "Hitm"), "peer": ("Peer", "Snoop")}


def cache_line_table(lines: CacheLines, chosen: Sequence[int], display: str) -> Iterator[str]:
    """Yield the table of chosen lines."""
    yield ""
    yield from title("           Shared Data Cache Line Table          ")
    columns = _columns(display, is_double=lines.size > 64)
    yield from heading_lines(columns)
    values = [values.tolist() for values in _values(lines, display)]
    for index, line in enumerate(chosen):
        share = f"{lines.share(display, line):.2f}%"
        numbers = (str(column[line]) for column in values)
        identity = (str(index), f"0x{lines.address[line]:x}", node_text(lines.memory_nodes[line]), str(lines.physical[line]))
        yield row_line(columns, [*identity, share, *numbers])


def node_text(nodes: Sequence[int]) -> str:
    """Return nodes as a list of ranges, "N/A" without any."""
    return cpu_list_text(nodes) if nodes else "N/A"


def _values(lines: CacheLines, display: str) -> Iterator[NDArray[np.int64]]:
    counts = lines.counts
    if display == "peer":
        yield from (counts.peer, counts["local_peer"], counts["remote_peer"])
    else:
        yield from (counts.hitm, counts["local_hitm"], counts["remote_hitm"])
    yield from (counts.records, counts.loads, counts["store"])
    for name in ("store_l1", "store_l1_miss", "store_unknown", "load_fill_buffer", "load_l1", "load_l2", "load_llc", "local_hitm"):
        yield counts[name]
    for name in ("remote_hit", "remote_hitm", "local_dram", "remote_dram"):
        yield counts[name]


def _columns(display: str, *, is_double: bool) -> list[AlignedColumn]:
    share, kind = _SHARES[display]
    first = [
        AlignedColumn("Index", 5),
        AlignedColumn("Address", 18, "------- Double-Cacheline -------" if is_double else "----------- Cacheline ----------", 3),
        AlignedColumn("Node", 4),
        AlignedColumn("PA cnt", 6),
        AlignedColumn(kind, _NUMBER, share),
    ]
    if display == "peer":
        loads = [
            AlignedColumn("Total", _NUMBER, "------- Load Peer -------", 3),
            AlignedColumn("Local", _NUMBER),
            AlignedColumn("Remote", _NUMBER),
        ]
    else:
        loads = [
            AlignedColumn("Total", _NUMBER, "------- Load Hitm -------", 3),
            AlignedColumn("LclHitm", _NUMBER),
            AlignedColumn("RmtHitm", _NUMBER),
        ]
    totals = [AlignedColumn(name, _NUMBER, "Total") for name in ("records", "Loads", "Stores")]
    rest = [
        AlignedColumn("L1Hit", _NUMBER, "--------- Stores --------", 3),
        AlignedColumn("L1Miss", _NUMBER),
        AlignedColumn("N/A", _NUMBER),
        AlignedColumn("FB", _NUMBER, "----- Core Load Hit -----", 3),
        AlignedColumn("L1", _NUMBER),
        AlignedColumn("L2", _NUMBER),
        AlignedColumn("LclHit", _WIDE, "- LLC Load Hit --", 2),
        AlignedColumn("LclHitm", _NUMBER),
        AlignedColumn("RmtHit", _WIDE, "- RMT Load Hit --", 2),
        AlignedColumn("RmtHitm", _NUMBER),
        AlignedColumn("Lcl", _WIDE, "--- Load Dram ----", 2),
        AlignedColumn("Rmt", _WIDE),
    ]
    return [*first, *loads, *totals, *rest]


_SEPARATOR = "  "


class AlignedColumn(NamedTuple):
    """One column.

    Attributes:
        heading: its name.
        width: of its texts.
        above: a heading over this and the following columns, as wide as they are.
        span: the number of columns below `above`; 1: aligned like the column.
        left: whether texts are aligned on the left.
        loose: whether texts are not padded.
    """

    heading: str
    width: int
    above: str = ""
    span: int = 1
    left: bool = False
    loose: bool = False


def heading_lines(columns: Sequence[AlignedColumn]) -> Iterator[str]:
    """Yield the lines above a table."""
    yield "#"
    yield "# " + _SEPARATOR.join(_above(columns))
    yield "# " + _SEPARATOR.join(f"{column.heading:>{column.width}}" for column in columns)
    yield "# " + _SEPARATOR.join("." * column.width for column in columns)
    yield "#"


def row_line(columns: Sequence[AlignedColumn], cells: Sequence[str]) -> str:
    """Return a row."""
    return _SEPARATOR + _SEPARATOR.join(map(_padded, columns, cells))


def row_lines(columns: Sequence[AlignedColumn], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of columns of texts."""
    form = _SEPARATOR + _SEPARATOR.join(map(_form, columns))
    texts = [[padded(cell, column.width) for cell in of] if column.left else of for column, of in zip(columns, cells, strict=True)]
    return (form % row for row in zip(*texts, strict=True))


def _form(column: AlignedColumn) -> str:
    return "%s" if column.loose or column.left else f"%{column.width}s"


def _padded(column: AlignedColumn, cell: str) -> str:
    if column.loose:
        return cell
    return padded(cell, column.width) if column.left else cell.rjust(column.width)


def _above(columns: Sequence[AlignedColumn]) -> Iterator[str]:
    hidden = 0
    for column in columns:
        if hidden:
            hidden -= 1
            continue
        hidden = column.span - 1
        yield column.above if hidden else f"{column.above:>{column.width}}"
