"""Tables of pages, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.allocations.pages import MIGRATE_TYPES, ORDERS
from perfpy.views.allocations.flag_names import shorten_flags
from perfpy.views.allocations.slab_lines import RULE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.allocations.pages import PageEvents, PageRow

_KILOBYTE: Final = 1024
#: perf's names of migrate types by number; kernels since 4.4 have MOVABLE as 1 and RECLAIMABLE as 2
_TYPES: Final = ("UNMOVABL", "RECLAIM", "MOVABLE", "RESERVED", "CMA/ISLT")
_TYPE_TITLES: Final = ("Unmovable", "Reclaimable", "Movable", "Reserved", "CMA/Isolated")
_UNKNOWN_TYPE: Final = "UNKNOWN"
_FLAGS_TITLE: Final = "GFP flags"


def flag_lines(names: Mapping[int, str]) -> Iterator[str]:
    """Yield the legend of the flags. names: the long names by number."""
    width = flags_width(names)
    yield from ("#", "# GFP flags", "# ---------")
    for flags, name in sorted(names.items()):
        yield f"# {flags:08x}: {shorten_flags(name):>{width}}: {name}"


def flags_width(names: Mapping[int, str]) -> int:
    """Return the width of the column of flags."""
    return max((len(shorten_flags(name)) for name in names.values()), default=0)


def page_lines(
    rows: Sequence[PageRow], names: Mapping[int, str], site_of: Callable[[PageRow], str], *, by_page: bool, is_live: bool, has_more: bool
) -> Iterator[str]:
    """Yield one table.

    Args:
        rows: sorted.
        names: the long names of flags by number.
        site_of: the text of a row's call site.
        by_page: whether each row is of one page.
        is_live: whether only pages count that were not freed.
        has_more: whether rows were left out.
    """
    width = max(flags_width(names), len(_FLAGS_TITLE))
    title = "Live" if is_live else "Total"
    yield from ("", RULE)
    page_title = f" {'PFN':<16} |" if by_page else ""
    yield f"{page_title} {title + ' alloc (KB)':>16} | Hits      | Order | Mig.type | {_FLAGS_TITLE:<{width}} | Callsite"
    yield RULE
    for row in rows:
        kind = _TYPES[row.migrate_type] if 0 <= row.migrate_type < len(_TYPES) else _UNKNOWN_TYPE
        page = f" {row.page:16d} |" if by_page else ""
        flags = shorten_flags(names.get(row.flags, f"{row.flags:#x}"))
        counts = f"{row.size // _KILOBYTE:16d} | {row.hits:9d} | {row.order:5d}"
        yield f"{page} {counts} | {kind:>8} | {flags:<{width}} | {site_of(row)}"
    if has_more:
        page = " ...              |" if by_page else ""
        yield f"{page} ...              | ...       | ...   | ...      | {'...':<{width}} | ..."
    yield RULE


def page_summary(events: PageEvents, by_order: NDArray[np.int64]) -> Iterator[str]:
    """Yield the sums. by_order: see count_by_order."""
    size, freed_size = events.size, events.freed_size
    kept = ~events.is_freed
    yield from ("", "SUMMARY (page allocator)", "=" * 24)
    yield _total("Total allocation requests", len(size), int(size.sum()))
    yield _total("Total free requests", len(freed_size), int(freed_size.sum()))
    yield ""
    yield _total("Total alloc+freed requests", int(events.is_freed.sum()), int(size[events.is_freed].sum()))
    yield _total("Total alloc-only requests", int(kept.sum()), int(size[kept].sum()))
    yield _total("Total free-only requests", int((~events.is_known).sum()), int(freed_size[~events.is_known].sum()))
    yield ""
    yield _total("Total allocation failures", int(events.has_failed.sum()), int(size[events.has_failed].sum()))
    yield ""
    yield "Order" + "".join(f"  {title:>12}" for title in _TYPE_TITLES)
    yield "-----" + f"  {'-' * 12}" * MIGRATE_TYPES
    for order in range(ORDERS):
        yield f"{order:5d}" + "".join(f"  {count or '.':>12}" for count in by_order[order].tolist())


def _total(title: str, count: int, size: int) -> str:
    return f"{title:<30}: {count:16d}   [ {size // _KILOBYTE:16d} KB ]"
