"""The accesses of each cache line: perf c2c report's "Shared Cache Line Distribution Pareto"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.cpu_list import cpu_list_text
from perfpy.analysis.memory.access_kinds import KindCounts
from perfpy.analysis.memory.cache_lines import displayed, group_rows
from perfpy.views.memory.c2c_statistics import title
from perfpy.views.memory.cache_line_table import node_text
from perfpy.views.memory.column_table import AlignedColumn, heading_lines, row_line, row_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.memory.accesses import MemoryNodes
    from perfpy.analysis.memory.cache_lines import CacheLines
    from perfpy.analysis.memory.line_rows import AccessRows
    from perfpy.analysis.sortkeys.key_columns import KeyColumn

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
        self._rows_of_line = self._divided()
        self._row_nodes = _RowNodes(rows, nodes, style)
        self._means = rows.mean_weights()
        self._records = rows.counts.records
        self._node_texts: dict[tuple[int, ...], str] = {}

    def _divided(self) -> list[NDArray[np.int64]]:
        starts = np.searchsorted(self._rows.line, np.arange(len(self._chosen) + 1))  # rows ascend by line
        return [np.arange(begin, end) for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]

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
        numbers = np.unique(names.number[self._rows_of_line[rank]])
        columns = []
        if "iaddr" in fields:
            columns.append(AlignedColumn("Symbol", self._name_width(names.symbol, numbers, "Symbol"), left=True))
        if "iaddr" in fields or "dso" in fields:
            columns.append(AlignedColumn("Object", max(names.dso.width_of(numbers), len("Shared")), "Shared", left=True))
        if "iaddr" in fields and names.source is not None:
            columns.append(AlignedColumn("Source:Line", self._name_width(names.source, numbers, "Source:Line"), left=True))
        return columns

    def _name_width(self, names: KeyColumn, numbers: NDArray[np.int64], heading: str) -> int:
        width = max(names.width_of(numbers), len(heading))
        return width if self._style.full_symbols else min(width, _LONGEST_NAME)

    def _thread_width(self, rank: int) -> int:
        rows = self._rows_of_line[rank]
        threads = np.unique(self._rows.accesses.tid[self._rows.first[rows]]).tolist()
        return max(8 + len(self._names.comm(thread)) for thread in threads)

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
        cells.append([self._nodes_text(rows.memory_nodes[row]) for row in listed])
        cells.append(_numbers(rows.physical[order]))
        cells += [_numbers(rows.accesses.pid[accesses])] if "pid" in fields else []
        if "tid" in fields:
            cells.append([f"{thread:>7}:{names.comm(thread)}" for thread in rows.accesses.tid[accesses].tolist()])
        numbers = names.number[order].tolist()
        cells += [[f"0x{address:x}" for address in names.address[order].tolist()]] if "iaddr" in fields else []
        means = self._means[2:4] if self._style.display == "peer" else self._means[:2]
        cells += [_numbers(mean[order]) for mean in (*means, self._means[4])]
        cells += [_numbers(self._records[order]), [str(len(rows.cpus[row])) for row in listed]]
        cells += [self._texts(names.symbol, numbers)] if "iaddr" in fields else []
        cells += [[names.dso.text(number) for number in numbers]] if "iaddr" in fields or "dso" in fields else []
        cells += [self._texts(names.source, numbers)] if "iaddr" in fields and names.source is not None else []
        return [*cells, [self._row_nodes.text(row) for row in listed]]

    def _nodes_text(self, nodes: tuple[int, ...]) -> str:
        if nodes not in self._node_texts:
            self._node_texts[nodes] = node_text(nodes)
        return self._node_texts[nodes]

    def _texts(self, names: KeyColumn, numbers: Sequence[int]) -> list[str]:
        return [self._shorten(names.text(number)) for number in numbers]

    def _shorten(self, text: str) -> str:
        return text if self._style.full_symbols else text[:_LONGEST_NAME]


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
    return [f"{100.0 * part / whole if whole else 0.0:.2f}%" for part in parts.tolist()]


def _numbers(values: NDArray[np.generic]) -> list[str]:
    return [str(value) for value in values.tolist()]
