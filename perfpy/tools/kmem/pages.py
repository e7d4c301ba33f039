"""Pages that the kernel allocated and freed.

An allocation is freed by the next event of its page, if that is a free. Layouts: the kernel's include/trace/events/kmem.h.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.callchains import frames_of
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.segments import numbers_of_keys, pair_events
from perfpy.tools.kmem.slab import RULE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.analysis.filters import TimeRanges
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.symbols.symbolizer import Symbolizer

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


_ALLOCATOR: Final = re.compile(
    r"_{0,2}(?:"
    r"alloc_(?:pages?|frozen_pages|page_buffers|thread_stack_node)\w*|get_free_pages?\w*|get_zeroed_page\w*"
    r"|(?:filemap_|vma_)?alloc_folios?\w*|folio_(?:pre)?alloc\w*|(?:vma|filemap)_alloc_folio\w*|rmqueue\w*"
    r")(?:\.\w+)*\Z"
)
_DEPTH: Final = 16  # frames that are searched for a caller
_NONE: Final = -1
_KERNEL_LEVEL: Final = ord("k")


class CallSites(NamedTuple):
    """The call sites of allocations.

    Attributes:
        which: int64[n], index of each allocation's call site.
        addresses: of the call sites; 0: unknown.
        names: functions, "" if unknown.
    """

    which: NDArray[np.int64]
    addresses: list[int]
    names: list[str]


def is_allocator(name: str) -> bool:
    """Whether a function belongs to the page allocator.

    >>> is_allocator("__alloc_frozen_pages_noprof"), is_allocator("vma_alloc_folio_noprof"), is_allocator("anon_pipe_write")
    (True, True, False)
    """
    return _ALLOCATOR.match(name) is not None


def find_call_sites(chains: Ragged, key: NDArray[np.uint64], symbolizer: Symbolizer) -> CallSites:
    """Return the call site of each allocation.

    Args:
        chains: the callchain of each allocation.
        key: delivery keys.
        symbolizer: of the recording.
    """
    ids, counts = frames_of(chains, np.full(len(chains), _NONE, np.int32), key, symbolizer)
    symbolizer.resolve()
    starts = np.cumsum(counts) - counts
    matrix = np.full((len(counts), _DEPTH), _NONE, np.int32)
    for level in range(_DEPTH):
        rows = np.flatnonzero(counts > level)
        matrix[rows, level] = ids[starts[rows] + level]
    distinct, which = np.unique(matrix, axis=0, return_inverse=True)
    sites = [_site(row, symbolizer) for row in distinct.tolist()]
    return CallSites(which.ravel().astype(np.int64), [site[0] for site in sites], [site[1] for site in sites])


def _site(row: Sequence[int], symbolizer: Symbolizer) -> tuple[int, str]:
    """Return the first frame outside of the allocator: its address and function."""
    for frame in row:
        if frame == _NONE:
            break
        symbol = int(symbolizer.frames.symbol[frame])
        name = symbolizer.symbols.name(symbol) if symbol >= 0 and int(symbolizer.frames.level[frame]) == _KERNEL_LEVEL else ""
        if not is_allocator(name):
            return int(symbolizer.frames.ip[frame]), name
    return 0, ""


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

    The text is perf 6.12's, byte for byte.

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


_MARK: Final = "gfp_flags="
_HEAD: Final = 8  # bytes of the fields that all tracepoints have
_TYPE_MASK: Final = 0xFFFF
_CODES: Final = {4: "I", 8: "Q"}
_PAYLOAD: Final = 64  # bytes
#: the kernel's names (include/trace/events/mmflags.h) -> perf's abbreviations
SHORT_NAMES: Final = {
    "GFP_TRANSHUGE": "THP", "GFP_TRANSHUGE_LIGHT": "THL", "GFP_HIGHUSER_MOVABLE": "HUM", "GFP_HIGHUSER": "HU", "GFP_USER": "U",
    "GFP_KERNEL_ACCOUNT": "KAC", "GFP_KERNEL": "K", "GFP_NOFS": "NF", "GFP_ATOMIC": "A", "GFP_NOIO": "NI", "GFP_NOWAIT": "NW",
    "GFP_DMA": "D", "__GFP_HIGHMEM": "HM", "GFP_DMA32": "D32", "__GFP_HIGH": "H", "__GFP_IO": "I", "__GFP_FS": "F",
    "__GFP_NOWARN": "NWR", "__GFP_RETRY_MAYFAIL": "R", "__GFP_NOFAIL": "NF", "__GFP_NORETRY": "NR", "__GFP_COMP": "C",
    "__GFP_ZERO": "Z", "__GFP_NOMEMALLOC": "NMA", "__GFP_MEMALLOC": "MA", "__GFP_HARDWALL": "HW", "__GFP_THISNODE": "TN",
    "__GFP_RECLAIMABLE": "RC", "__GFP_MOVABLE": "M", "__GFP_ACCOUNT": "AC", "__GFP_WRITE": "WR", "__GFP_RECLAIM": "R",
    "__GFP_DIRECT_RECLAIM": "DR", "__GFP_KSWAPD_RECLAIM": "KR",
}  # fmt: skip


def shorten_flags(text: str) -> str:
    """Return the abbreviation of flags; unknown ones stay.

    >>> shorten_flags("GFP_KERNEL|__GFP_ZERO"), shorten_flags("none")
    ('K|Z', 'none')
    """
    return "|".join(SHORT_NAMES.get(name, name) for name in text.split("|"))


def names_of_flags(data: SampleSource, event: str, flags: Iterable[int], symbolizer: Symbolizer) -> dict[int, str]:
    """Return the long names of distinct flags, as the recorded format of a tracepoint prints them.

    The long names come from the recorded format of the tracepoint, so that they fit the recorded kernel.

    Args:
        data: of the recording.
        event: the tracepoint, whose field gfp_flags is printed.
        flags: numbers.
        symbolizer: of the recording.
    """
    from perfpy.views.tracepoints.event_text import PayloadTexts

    tracing, number = data.tracing, tracepoints_of(data)[event].attr.config
    field = tracing.formats[number].field("gfp_flags") if tracing is not None else None
    distinct = sorted(set(flags))
    if tracing is None or field is None or field.offset < _HEAD or field.size not in _CODES:
        return {value: f"{value:#x}" for value in distinct}
    code = tracing.endian + _CODES[field.size]
    head = struct.pack(tracing.endian + "H", number & _TYPE_MASK).ljust(field.offset, b"\0")
    payloads = [(head + struct.pack(code, value & ((1 << 8 * field.size) - 1))).ljust(_PAYLOAD, b"\0") for value in distinct]
    texts = PayloadTexts(tracing, symbolizer).texts(payloads)
    return {value: text.partition(_MARK)[2].partition(" ")[0] or f"{value:#x}" for value, text in zip(distinct, texts, strict=True)}
