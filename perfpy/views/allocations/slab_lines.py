"""Tables of the slab allocator's objects, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.allocations.slab import SlabRow, SlabTotals

RULE: Final = "-" * 105
_NAME_WIDTH: Final = 34


def slab_lines(rows: Sequence[SlabRow], title: str, label: Callable[[SlabRow], str], *, has_more: bool) -> Iterator[str]:
    """Yield one table.

    Args:
        rows: sorted.
        title: of the first column.
        label: the text of a row's first column.
        has_more: whether rows were left out.
    """
    yield RULE
    yield f" {title:<{_NAME_WIDTH}} | Total_alloc/Per | Total_req/Per   | Hit      | Ping-pong | Frag"
    yield RULE
    for row in rows:
        allocated = f"{row.allocated:9d}/{row.allocated // row.hits:<5d}"
        requested = f"{row.requested:9d}/{row.requested // row.hits:<5d}"
        counts = f"{row.hits:8d} | {row.ping_pongs:9d} | {row.fragmentation:6.3f}%"
        yield f" {label(row):<{_NAME_WIDTH}} | {allocated} | {requested} | {counts}"
    if has_more:
        yield f" ...{'':{_NAME_WIDTH - 3}} | ...             | ...             | ...      | ...       | ...   "
    yield RULE


def slab_summary(totals: SlabTotals) -> Iterator[str]:
    """Yield the sums."""
    wasted = totals.allocated - totals.requested
    yield from ("", "SUMMARY (SLAB allocator)", "=" * 24)
    yield f"Total bytes requested: {totals.requested}"
    yield f"Total bytes allocated: {totals.allocated}"
    yield f"Total bytes freed:     {totals.freed}"
    if totals.allocated > totals.freed:
        yield f"Net total bytes allocated: {totals.allocated - totals.freed}"
    yield f"Total bytes wasted on internal fragmentation: {wasted}"
    yield f"Internal fragmentation: {100 * wasted / totals.allocated if totals.allocated else 0.0:.6f}%"
    yield f"Cross CPU allocations: {totals.cross_node}/{totals.allocations}"
