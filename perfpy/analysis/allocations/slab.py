"""Objects of the slab allocator, by call site and by address.

A free belongs to the last allocation at its address. Layouts: the kernel's include/trace/events/kmem.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]
    UInt64 = NDArray[np.uint64]

ALLOCATIONS: Final = ("kmem:kmalloc", "kmem:kmem_cache_alloc", "kmem:kmalloc_node", "kmem:kmem_cache_alloc_node")
FREES: Final = ("kmem:kfree", "kmem:kmem_cache_free")
_ALLOCATION_FIELDS: Final = ("call_site", "ptr", "bytes_req", "bytes_alloc", "node")
_FREE_FIELDS: Final = ("call_site", "ptr")
_NO_NODE: Final = -1


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
        node: int64[n], the NUMA node that was asked for, or -1.
        cpu: int64[n].
        is_free: bool[n].
    """

    site: UInt64
    address: UInt64
    requested: Int64
    allocated: Int64
    node: Int64
    cpu: Int64
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
    for name, table in tables.items():
        rows = table.with_numbers(wanted[name])
        if times is not None:
            rows = rows.take(times.mask(rows.time.view(np.uint64)))
        parts.append(_events_of(rows, is_free=name in FREES, has_node=_has_node(source, name)))
        orders.append(rows.order)
    if not parts:
        return SlabUse([], [], SlabTotals(0, 0, 0, 0, 0))
    order = np.argsort(np.concatenate(orders), kind="stable")
    events = _Events._make(np.concatenate(column)[order] for column in zip(*parts, strict=True))
    return _sum_up(events, node_of_cpu)


def _has_node(source: SampleSource, name: str) -> bool:
    event, tracing = tracepoints_of(source)[name], source.tracing
    return tracing is not None and tracing.formats[event.attr.config].field("node") is not None


def _events_of(rows: TracepointRows, *, is_free: bool, has_node: bool) -> _Events:
    count = len(rows.order)
    none = np.zeros(count, np.int64)
    fields = rows.fields
    return _Events(
        site=_words(fields["call_site"]),
        address=_words(fields["ptr"]),
        requested=none if is_free else fields["bytes_req"].astype(np.int64),
        allocated=none if is_free else fields["bytes_alloc"].astype(np.int64),
        node=fields["node"].astype(np.int64) if has_node else np.full(count, _NO_NODE, np.int64),
        cpu=rows.cpu.astype(np.int64),
        is_free=np.full(count, is_free),
    )


def _words(column: NDArray[np.integer]) -> UInt64:
    return column.astype(np.int64).view(np.uint64) if column.dtype.kind == "i" else column.astype(np.uint64)


def _sum_up(events: _Events, node_of_cpu: Mapping[int, int]) -> SlabUse:
    allocation, is_ping_pong = _match_frees(events)
    rows = np.flatnonzero(~events.is_free)
    objects = _grouped(events, rows, events.address[rows], allocation[is_ping_pong])
    sites = _grouped(events, rows, events.site[rows], allocation[is_ping_pong])
    nodes = np.array([node_of_cpu.get(cpu, 0) for cpu in events.cpu[rows].tolist()], np.int64)
    wanted = events.node[rows]
    totals = SlabTotals(
        requested=int(events.requested[rows].sum()),
        allocated=int(events.allocated[rows].sum()),
        freed=int(events.allocated[allocation].sum()),
        allocations=len(rows),
        cross_node=int(((wanted != _NO_NODE) & (wanted != nodes)).sum()),
    )
    return SlabUse(sites, objects, totals)


def _match_frees(events: _Events) -> tuple[Int64, NDArray[np.bool_]]:
    """Return for each free of a known object the index of its allocation, and whether it is a ping-pong."""
    order = np.argsort(events.address, kind="stable")
    is_allocation = ~events.is_free[order]
    begins = np.append(True, events.address[order][1:] != events.address[order][:-1])[: len(order)]
    last = np.maximum.accumulate(np.where(is_allocation, np.arange(len(order)), -1))
    first_of_address = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    known = ~is_allocation & (last >= first_of_address)
    positions = np.flatnonzero(known)
    frees, allocations = order[positions], order[last[positions]]
    follows_free = last[positions] != positions - 1
    return allocations, follows_free | (events.cpu[frees] != events.cpu[allocations])


def _grouped(events: _Events, rows: Int64, keys: UInt64, ping_pongs: Int64) -> list[SlabRow]:
    """Return a row for each key. rows: the allocations; ping_pongs: the allocation of each ping-pong."""
    distinct, which = np.unique(keys, return_inverse=True)
    which = which.ravel()
    group_of = np.full(len(events.is_free), -1, np.int64)
    group_of[rows] = which
    count = len(distinct)
    last = np.zeros(count, np.int64)
    last[which] = rows
    columns = (
        distinct,
        events.site[last],
        _totals(which, events.requested[rows], count),
        _totals(which, events.allocated[rows], count),
        np.bincount(which, minlength=count),
        np.bincount(group_of[ping_pongs], minlength=count),
    )
    return [SlabRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _totals(which: Int64, values: Int64, count: int) -> Int64:
    totals = np.zeros(count, np.int64)
    np.add.at(totals, which, values)
    return totals


def sorted_slab(rows: Iterable[SlabRow], keys: Sequence[str]) -> list[SlabRow]:
    """Return the rows, highest values first; equal rows keep their order."""
    return sorted(rows, key=lambda row: [-SORT_KEYS[key](row) for key in keys])
