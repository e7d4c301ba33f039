"""Pages that the kernel allocated and freed.

An allocation is freed by the next event of its page, if that is a free. Layouts: the kernel's include/trace/events/kmem.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.event_pairs import numbers_of_keys, pair_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]
    UInt64 = NDArray[np.uint64]

ALLOCATION: Final = "kmem:mm_page_alloc"
FREE: Final = "kmem:mm_page_free"
ORDERS: Final = 11
MIGRATE_TYPES: Final = 5
PAGE_SIZE: Final = 4096
_FIELDS: Final = {ALLOCATION: ("pfn", "page", "order", "gfp_flags", "migratetype"), FREE: ("pfn", "page", "order")}
_FAILED: Final = (1 << 64) - 1  # pfn
_LARGEST_ORDER: Final = 40


class PageEvents(NamedTuple):
    """The allocations and frees of a recording, in order.

    Attributes:
        page, order, migrate_type, flags: of the allocations; flags are those of the request (gfp).
        chains, key: callchains (None without) and delivery keys of the allocations.
        is_freed: bool[n], whether the page was freed later.
        has_failed: bool[n].
        freed_page, freed_order: of the frees.
        is_known: bool[m], whether the recording has the allocation of a free.
    """

    page: UInt64
    order: Int64
    migrate_type: Int64
    flags: UInt64
    chains: Ragged | None
    key: UInt64
    is_freed: NDArray[np.bool_]
    has_failed: NDArray[np.bool_]
    freed_page: UInt64
    freed_order: Int64
    is_known: NDArray[np.bool_]

    @property
    def size(self) -> Int64:
        """int64[n], bytes of the allocations."""
        return PAGE_SIZE << self.order

    @property
    def freed_size(self) -> Int64:
        """int64[m], bytes of the frees."""
        return PAGE_SIZE << self.freed_order


class PageRow(NamedTuple):
    """Equal allocations.

    Attributes:
        page: its number; 0 in rows by call site.
        site: the index of the call site, -1 unknown.
        site_address: of the code, 0 unknown.
        size: bytes.
    """

    page: int
    site: int
    site_address: int
    order: int
    migrate_type: int
    flags: int
    hits: int
    size: int


#: sort keys, by perf's names; the highest value comes first
SORT_KEYS: Final[dict[str, Callable[[PageRow], int]]] = {
    "page": lambda row: row.page,
    "callsite": lambda row: row.site_address,
    "bytes": lambda row: row.size,
    "hit": lambda row: row.hits,
    "order": lambda row: row.order,
    "migtype": lambda row: row.migrate_type,
    "gfp": lambda row: row.flags,
}
DEFAULT_SORT: Final = ("bytes", "hit")


def has_pages(source: SampleSource) -> bool:
    """Whether the recording has allocations of pages."""
    return ALLOCATION in tracepoints_of(source)


def read_pages(source: SampleSource, times: TimeRanges | None) -> PageEvents:
    """Return the pages of a recording. times: leave out events outside."""
    tables = read_tracepoints(source, _FIELDS, with_chains=(ALLOCATION,), columns=())
    allocations, frees = (_chosen(tables.get(name), name, times) for name in (ALLOCATION, FREE))
    if allocations is None:
        raise ValueError(f"no {ALLOCATION}")
    page, order = _pages(allocations), _orders(allocations)
    none, words = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    freed_page, freed_order, freed_at = (words, none, none) if frees is None else (_pages(frees), _orders(frees), frees.order)
    has_failed = page == np.uint64(_FAILED)
    numbers = numbers_of_keys(np.concatenate([page, freed_page]).view(np.int64))
    pairs = pair_events(numbers[: len(page)], allocations.order, numbers[len(page) :], freed_at)
    is_freed, is_known = np.zeros(len(page), bool), np.zeros(len(freed_page), bool)
    is_freed[pairs.begin], is_known[pairs.end] = True, True
    flags = allocations.fields["gfp_flags"].astype(np.int64).view(np.uint64)
    migrate_type = allocations.fields["migratetype"].astype(np.int64)
    return PageEvents(
        page, order, migrate_type, flags, allocations.chains, allocations.key, is_freed, has_failed, freed_page, freed_order, is_known
    )


def _chosen(table: TracepointRows | None, name: str, times: TimeRanges | None) -> TracepointRows | None:
    if table is None:
        return None
    rows = table.with_numbers(_FIELDS[name])
    return rows if times is None else rows.take(times.mask(rows.time.view(np.uint64)))


def _pages(rows: TracepointRows) -> UInt64:
    """Return the numbers of pages; their addresses on kernels before 4.1."""
    numbers: UInt64 = rows.fields["pfn"].astype(np.int64).view(np.uint64)
    addresses: UInt64 = rows.fields["page"].astype(np.int64).view(np.uint64)
    return numbers if numbers.any() else addresses


def _orders(rows: TracepointRows) -> Int64:
    orders: Int64 = rows.fields["order"].astype(np.int64)
    return np.clip(orders, 0, _LARGEST_ORDER)


def by_page(events: PageEvents, rows: Int64, sites: tuple[Int64, Sequence[int]] | None) -> list[PageRow]:
    """Return a row for each page with the same order, type and flags, by ascending number.

    Args:
        events: of a recording.
        rows: the allocations that count.
        sites: the call site of each allocation, and their addresses; None: unknown.
    """
    return _grouped(events, rows, events.page[rows], sites, with_page=True)


def by_site(events: PageEvents, rows: Int64, sites: tuple[Int64, Sequence[int]] | None) -> list[PageRow]:
    """Return a row for each call site with the same order, type and flags; see by_page."""
    which, addresses = sites or (np.full(len(events.page), -1, np.int64), ())
    address_of = np.array([*addresses, 0], np.uint64)
    return _grouped(events, rows, address_of[which[rows]], sites, with_page=False)


def _grouped(events: PageEvents, rows: Int64, keys: UInt64, sites: tuple[Int64, Sequence[int]] | None, *, with_page: bool) -> list[PageRow]:
    columns = (keys.view(np.int64), events.order[rows], events.migrate_type[rows], events.flags[rows].view(np.int64))
    _, first, which, hits = np.unique(numbers_of_keys(*columns), return_index=True, return_inverse=True, return_counts=True)
    sizes = np.zeros(len(first), np.int64)
    np.add.at(sizes, which.ravel(), events.size[rows])
    site_of, addresses = sites or (None, ())
    made = []
    for index, row, count, size in zip(first.tolist(), rows[first].tolist(), hits.tolist(), sizes.tolist(), strict=True):
        site = -1 if site_of is None else int(site_of[row])
        values = int(events.order[row]), int(events.migrate_type[row]), int(events.flags[row])
        made.append(PageRow(int(keys[index]) if with_page else 0, site, addresses[site] if site >= 0 else 0, *values, count, size))
    return sorted(made, key=lambda row: (row.page if with_page else row.site_address, row.order, row.migrate_type, row.flags))


def sorted_pages(rows: Iterable[PageRow], keys: Sequence[str]) -> list[PageRow]:
    """Return the rows, highest values first; equal rows keep their order."""
    return sorted(rows, key=lambda row: [-SORT_KEYS[key](row) for key in keys])


def count_by_order(events: PageEvents, rows: Int64) -> NDArray[np.int64]:
    """Return int64[ORDERS, MIGRATE_TYPES], the allocations of each order and type."""
    counts = np.zeros((ORDERS, MIGRATE_TYPES), np.int64)
    order, kind = events.order[rows], events.migrate_type[rows]
    inside = (order < ORDERS) & (kind >= 0) & (kind < MIGRATE_TYPES)
    np.add.at(counts, (order[inside], kind[inside]), 1)
    return counts
