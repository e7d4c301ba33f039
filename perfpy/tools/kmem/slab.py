"""Objects of the slab allocator, by call site and by address.

A free belongs to the last allocation at its address. Layouts: the kernel's include/trace/events/kmem.h.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.symbols.interning import number_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.analysis.filters import TimeRanges
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]
    UInt64 = NDArray[np.uint64]


ALLOCATIONS: Final = ("kmem:kmalloc", "kmem:kmem_cache_alloc", "kmem:kmalloc_node", "kmem:kmem_cache_alloc_node")
FREES: Final = ("kmem:kfree", "kmem:kmem_cache_free")
_ALLOCATION_FIELDS: Final = ("call_site", "ptr", "bytes_req", "bytes_alloc", "node")
_FREE_FIELDS: Final = ("call_site", "ptr")
_NO_NODE: Final = -1
_INT32_END: Final = 1 << 31
_WIDTH: Final = 32  # bits of a position


class SlabRow(NamedTuple):
    """The allocations of one call site, or at one address.

    Attributes:
        key: the address of the code or of the object.
        site: the call site of its last allocation.
        requested, allocated: bytes.
        hits: allocations.
        ping_pongs: frees on another CPU than the allocation, and frees of freed objects.
    """

    key: int
    site: int
    requested: int
    allocated: int
    hits: int
    ping_pongs: int

    @property
    def fragmentation(self) -> float:
        """The share of allocated bytes beyond the requested ones, in percent."""
        return 100.0 * (self.allocated - self.requested) / self.allocated if self.allocated else 0.0


#: sort keys, by perf's names; the highest value comes first
SORT_KEYS: Final[dict[str, Callable[[SlabRow], float]]] = {
    "ptr": lambda row: row.key,
    "callsite": lambda row: row.site,
    "bytes": lambda row: row.allocated,
    "hit": lambda row: row.hits,
    "pingpong": lambda row: row.ping_pongs,
    "frag": lambda row: row.fragmentation,
}
DEFAULT_SORT: Final = ("frag", "hit", "bytes")


class SlabTotals(NamedTuple):
    """The sums of a recording: bytes, allocations, and those for another NUMA node than that of their CPU."""

    requested: int
    allocated: int
    freed: int
    allocations: int
    cross_node: int


class SlabUse(NamedTuple):
    """The objects of a recording, by ascending address of their code and of themselves."""

    sites: list[SlabRow]
    objects: list[SlabRow]
    totals: SlabTotals


class _Events(NamedTuple):
    """Allocations and frees in order of delivery; frees have no sizes.

    Attributes:
        site, address: uint64[n], of the code and of the object.
        requested, allocated: int64[n], bytes.
        node: int32[n], the NUMA node that was asked for, or -1.
        cpu: int32[n].
        is_free: bool[n].
    """

    site: UInt64
    address: UInt64
    requested: Int64
    allocated: Int64
    node: NDArray[np.int32]
    cpu: NDArray[np.int32]
    is_free: NDArray[np.bool_]


def has_slab(source: SampleSource) -> bool:
    """Whether the recording has allocations of objects."""
    return any(name in tracepoints_of(source) for name in ALLOCATIONS)


def read_slab(source: SampleSource, times: TimeRanges | None, node_of_cpu: Mapping[int, int]) -> SlabUse:
    """Return the objects of a recording.

    Args:
        source: the samples.
        times: leave out events outside.
        node_of_cpu: NUMA nodes; CPUs that are absent belong to node 0.
    """
    wanted = {**dict.fromkeys(ALLOCATIONS, _ALLOCATION_FIELDS), **dict.fromkeys(FREES, _FREE_FIELDS)}
    tables = read_tracepoints(source, wanted, columns=("cpu",))
    parts, orders = [], []
    for name in list(tables):
        rows = tables.pop(name).with_numbers(wanted[name])
        if times is not None:
            rows = rows.take(times.mask(rows.time.view(np.uint64)))
        parts.append(_events_of(rows, is_free=name in FREES, has_node=_has_node(source, name)))
        orders.append(rows.order)
    if not parts:
        return SlabUse([], [], SlabTotals(0, 0, 0, 0, 0))
    order = np.argsort(np.concatenate(orders), kind="stable").astype(np.int32 if sum(map(len, orders)) < _INT32_END else np.int64)
    columns = [list(column) for column in zip(*parts, strict=True)]
    parts.clear()
    orders.clear()
    # Each column is freed before the next one is joined.
    events = _Events._make(np.concatenate(columns.pop(0))[order] for _ in _Events._fields)
    del order
    return _sum_up(events, node_of_cpu)


def _has_node(source: SampleSource, name: str) -> bool:
    event, tracing = tracepoints_of(source)[name], source.tracing
    return tracing is not None and tracing.formats[event.attr.config].field("node") is not None


def _events_of(rows: TracepointRows, *, is_free: bool, has_node: bool) -> _Events:
    count = len(rows.order)
    none = np.broadcast_to(np.int64(0), count)
    fields = rows.fields
    return _Events(
        site=_words(fields["call_site"]),
        address=_words(fields["ptr"]),
        requested=none if is_free else fields["bytes_req"].astype(np.int64),
        allocated=none if is_free else fields["bytes_alloc"].astype(np.int64),
        node=fields["node"].astype(np.int32) if has_node else np.broadcast_to(np.int32(_NO_NODE), count),
        cpu=rows.cpu,
        is_free=np.broadcast_to(np.bool_(is_free), count),
    )


def _words(column: NDArray[np.integer]) -> UInt64:
    return column.astype(np.int64).view(np.uint64) if column.dtype.kind == "i" else column.astype(np.uint64)


def _sum_up(events: _Events, node_of_cpu: Mapping[int, int]) -> SlabUse:
    addresses, number = _numbered(events.address)
    allocation, is_ping_pong = _match_frees(events, number)
    rows = np.flatnonzero(~events.is_free)
    objects = _grouped(events, rows, addresses, number[rows], allocation[is_ping_pong])
    sites = _grouped(events, rows, *_numbered(events.site[rows]), allocation[is_ping_pong])
    cpus, cpu_number = number_values(events.cpu[rows])
    nodes = np.array([node_of_cpu.get(cpu, 0) for cpu in cpus.tolist()], np.int32)[cpu_number]
    wanted = events.node[rows]
    totals = SlabTotals(
        requested=int(events.requested[rows].sum()),
        allocated=int(events.allocated[rows].sum()),
        freed=int(events.allocated[allocation].sum()),
        allocations=len(rows),
        cross_node=int(((wanted != _NO_NODE) & (wanted != nodes)).sum()),
    )
    return SlabUse(sites, objects, totals)


def _numbered(values: UInt64) -> tuple[UInt64, NDArray[np.int32]]:
    """Return the distinct values in ascending order, and the number of each value among them."""
    distinct, numbers = number_values(values)
    order = np.argsort(distinct)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return distinct[order], rank[numbers]


def _match_frees(events: _Events, number: NDArray[np.int32]) -> tuple[Int64, NDArray[np.bool_]]:
    """Return for each free of a known object the index of its allocation, and whether it is a ping-pong. number: of each address."""
    positions = np.arange(len(number), dtype=np.int64)
    packed = number.astype(np.int64) << _WIDTH | positions  # sorting these is faster than sorting indexes
    packed.sort()
    order = packed & ((1 << _WIDTH) - 1)
    packed >>= _WIDTH
    begins = np.append(True, packed[1:] != packed[:-1])[: len(order)]
    del packed
    is_allocation = ~events.is_free[order]
    last = np.maximum.accumulate(np.where(is_allocation, positions, -1))
    first_of_address = np.maximum.accumulate(np.where(begins, positions, 0))
    known = ~is_allocation & (last >= first_of_address)
    del first_of_address, begins, is_allocation
    found = np.flatnonzero(known)
    frees, allocations = order[found], order[last[found]]
    follows_free = last[found] != found - 1
    return allocations, follows_free | (events.cpu[frees] != events.cpu[allocations])


def _grouped(events: _Events, rows: Int64, distinct: UInt64, which: NDArray[np.int32], ping_pongs: Int64) -> list[SlabRow]:
    """Return a row for each key with allocations.

    Args:
        events: of the recording.
        rows: the allocations.
        distinct: keys in ascending order.
        which: the number of each allocation's key.
        ping_pongs: the allocation of each ping-pong.
    """
    group_of = np.full(len(events.is_free), -1, np.int32)
    group_of[rows] = which
    count = len(distinct)
    last = np.zeros(count, np.int64)
    last[which] = rows
    hits = np.bincount(which, minlength=count)
    columns = (
        distinct,
        events.site[last],
        _totals(which, events.requested[rows], count),
        _totals(which, events.allocated[rows], count),
        hits,
        np.bincount(group_of[ping_pongs], minlength=count),
    )
    return [SlabRow(*row) for row in zip(*(column[hits > 0].tolist() for column in columns), strict=True)]


def _totals(which: NDArray[np.int32], values: Int64, count: int) -> Int64:
    totals = np.zeros(count, np.int64)
    np.add.at(totals, which, values)
    return totals


def sorted_slab(rows: Iterable[SlabRow], keys: Sequence[str]) -> list[SlabRow]:
    """Return the rows, highest values first; equal rows keep their order."""
    return sorted(rows, key=lambda row: [-SORT_KEYS[key](row) for key in keys])


RULE: Final = "-" * 105
_NAME_WIDTH: Final = 34


def slab_lines(rows: Sequence[SlabRow], title: str, label: Callable[[SlabRow], str], *, has_more: bool) -> Iterator[str]:
    """Yield one table.

    The text is perf 6.12's, byte for byte.

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
