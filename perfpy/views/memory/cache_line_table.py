"""The table of cache lines: perf c2c report's "Shared Data Cache Line Table"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.memory.c2c_statistics import title
from perfpy.views.memory.column_table import AlignedColumn, heading_lines, row_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.memory.cache_lines import CacheLines

_NUMBER: Final = 7
_WIDE: Final = 8
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
    from perfpy.abi.cpu_list import cpu_list_text

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
