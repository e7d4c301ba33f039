"""The memory accesses of a recording as columns, and the nodes of its machine.

Enters: a recording and its symbols. Leaves: Accesses, one row for each sample in order of delivery, 44 bytes a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.cpu_list import MOST_CPUS, parse_cpu_list
from perfpy.abi.sample_layout import page_size_text
from perfpy.analysis.sample_view import DeliveryOrder, SampleView
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.recorded import Recorded


_FIELDS: Final = frozenset(("ip", "pid", "tid", "cpu", "addr", "weight", "data_src", "phys_addr", "cpumode"))
_MOST_BLOCKS: Final = 1 << 24  # of memory; more are damage
NO_NODE: Final = -1


class Accesses(NamedTuple):
    """Memory accesses as columns.

    Attributes:
        kinds: uint32[n], see access_kinds.
        address, physical: uint64[n] of the data; physical is 0 if unknown.
        data, code: int32[n], frames of the symbolizer.
        pid, tid, cpu: int32[n]; cpu is -1 if unknown.
        weight: uint32[n], uint64[n] if one needs it: latency in cycles.
        mode: uint8[n], the CPU mode.
    """

    kinds: NDArray[np.uint32]
    address: NDArray[np.uint64]
    physical: NDArray[np.uint64]
    data: NDArray[np.int32]
    code: NDArray[np.int32]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    weight: NDArray[np.uint32] | NDArray[np.uint64]
    mode: NDArray[np.uint8]

    def take(self, rows: NDArray[np.int64]) -> Accesses:
        """Select accesses."""
        return Accesses._make([column[rows] for column in self])


def read_accesses(data: SampleSource, timeline: TaskTimeline, symbolizer: Symbolizer) -> Accesses:
    """Return all samples of a recording as memory accesses."""
    attrs = [event.attr for event in data.events]
    kinds = (np.uint32, np.uint64, np.uint64, *[np.int32] * 5, np.uint32, np.uint8)
    parts = [Accesses._make([np.zeros(0, kind) for kind in kinds])]
    for stored in data.batches(_FIELDS):
        key = data.settled_keys(stored)
        view = SampleView(stored.columns, stored.event, DeliveryOrder(key, key, np.arange(len(key))), attrs, timeline, symbolizer)
        parts.append(_accesses_of(view))
    return Accesses._make([np.concatenate(columns) for columns in zip(*parts, strict=True)])


_MOST_IN_32_BITS: Final = 0xFFFFFFFF


def _accesses_of(view: SampleView) -> Accesses:
    address = view.column("addr").astype(np.uint64)
    data, code = view.frames_at("addr"), view.frames_at("ip")
    dsos = view.symbolizer.resolve().dso
    is_mapped = (dsos[data] >= 0) & (dsos[code] >= 0)
    weight = view.column("weight").astype(np.uint64)
    return Accesses(
        count_kinds(view.column("data_src").astype(np.uint64), address, is_mapped),
        address,
        view.column("phys_addr").astype(np.uint64),
        data,
        code,
        _small(view, "pid"),
        _small(view, "tid"),
        _small(view, "cpu"),
        weight if len(weight) and int(weight.max()) > _MOST_IN_32_BITS else weight.astype(np.uint32),
        view.columns["cpumode"].astype(np.uint8),
    )


def _small(view: SampleView, name: str) -> NDArray[np.int32]:
    return view.column(name).astype(np.int64).astype(np.int32)


class MemoryNodes:
    """The NUMA nodes of the machine: which node has a CPU or a piece of memory.

    Attributes:
        count: of nodes.
    """

    def __init__(
        self, cpus_of_node: Mapping[int, tuple[int, ...]], blocks_of_node: Mapping[int, NDArray[np.int64]], block_size: int
    ) -> None:
        self.count = max(cpus_of_node, default=-1) + 1
        self._of_cpu = np.full(MOST_CPUS, NO_NODE, np.int32)
        for node, cpus in cpus_of_node.items():
            self._of_cpu[np.array(cpus, np.int64)] = node
        self._block_size = block_size
        blocks = [(block, node) for node, numbers in blocks_of_node.items() for block in numbers.tolist()]
        self._blocks = np.array(sorted(blocks), np.int64).reshape(-1, 2)

    def of_cpus(self, cpus: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the node of each CPU; NO_NODE if it is unknown."""
        valid = (cpus >= 0) & (cpus < MOST_CPUS)
        return np.where(valid, self._of_cpu[np.where(valid, cpus, 0)], NO_NODE)

    def of_memory(self, physical: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the node of each physical address; NO_NODE if it is unknown."""
        if not self._block_size or not len(self._blocks):
            return np.full(len(physical), NO_NODE, np.int32)
        block = (physical // np.uint64(self._block_size)).astype(np.int64)
        index = np.minimum(np.searchsorted(self._blocks[:, 0], block), len(self._blocks) - 1)
        is_known = self._blocks[index, 0] == block
        return np.where(is_known, self._blocks[index, 1], NO_NODE).astype(np.int32)


def memory_nodes(data: SampleSource) -> MemoryNodes:
    """Return the nodes of a recording's machine, none if its header does not list them. Raises PerfError if the list is damaged."""
    nodes = data.features.get("numa_topology", ())
    try:
        cpus = {node.node: parse_cpu_list(node.cpus) for node in nodes if 0 <= node.node < MOST_CPUS}
    except ValueError as error:
        raise PerfError(f"the NUMA nodes in this recording's header are damaged: {error}") from None
    topology = data.features.get("mem_topology")
    blocks = {} if topology is None else {node.node: _set_bits(node.bitmap) for node in topology.nodes}
    return MemoryNodes(cpus, blocks, 0 if topology is None else topology.block_size)


def _set_bits(words: tuple[int, ...]) -> NDArray[np.int64]:
    bits = np.unpackbits(np.array(words[: _MOST_BLOCKS // 64], "<u8").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)


#: the counters; the number of each is its bit in the words of count_kinds()
KINDS: Final = (
    "locks", "load", "load_uncached", "load_io", "load_miss", "load_no_address", "load_fill_buffer", "load_l1", "load_l2", "load_llc",
    "local_hitm", "remote_hitm", "remote_hit", "local_dram", "remote_dram", "exclusive", "shared", "blocked_data", "blocked_address",
    "local_peer", "remote_peer", "store", "store_uncached", "store_no_address", "store_l1", "store_l1_miss", "store_unknown", "unparsed",
    "unmapped",
)  # fmt: skip
#: the kinds that may count twice for one access
_SECOND: Final = {"exclusive": 29, "shared": 30, "local_peer": 31}
_BIT: Final = {name: np.uint32(1 << number) for number, name in enumerate(KINDS)}

_LOAD, _STORE = 0x2, 0x4
_LEVEL_NA, _HIT, _MISS, _L1, _LFB, _L2, _L3, _LOCAL_RAM = (1 << bit for bit in range(8))
_REMOTE_RAM: Final = 0x3 << 8
_REMOTE_CACHE: Final = 0x3 << 10
_IO, _UNCACHED = 1 << 12, 1 << 13
_SNOOP_HIT, _SNOOP_HITM = 0x4, 0x10
_PEER: Final = 0x2
_LOCKED: Final = 0x2
_BLOCKED_DATA, _BLOCKED_ADDRESS = 0x2, 0x4


def count_kinds(data_src: NDArray[np.uint64], address: NDArray[np.uint64], is_mapped: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return a word for each access, with a bit for each of its KINDS.

    Layout of data_src: union perf_mem_data_src in include/uapi/linux/perf_event.h. Which access counts where was learnt from `perf c2c
    report --stats` of single accesses.

    is_mapped: whether mappings of code and data are known.
    """
    words = _KindWords(data_src)
    operation, has_address = _part(data_src, 0, 5), address != 0
    is_load = _has(operation, _LOAD)
    is_store = _has(operation, _STORE) & ~is_load
    blocked = _part(data_src, 40, 3)
    words.add("locks", _has(_part(data_src, 24, 2), _LOCKED))
    words.add("blocked_data", _has(blocked, _BLOCKED_DATA))
    words.add("blocked_address", _has(blocked, _BLOCKED_ADDRESS))
    words.add("load", is_load)
    words.add("load_no_address", is_load & ~has_address)
    words.add_loads(is_load & has_address)
    words.add("store", is_store)
    words.add("store_no_address", is_store & ~has_address)
    words.add_stores(is_store & has_address)
    words.add("unparsed", ~is_load & ~is_store)
    words.add("unmapped", (is_load | is_store) & has_address & ~is_mapped)
    return words.counts


class _KindWords:
    """The words of accesses while kinds are added.

    Attributes:
        counts: uint32[n].
    """

    def __init__(self, data_src: NDArray[np.uint64]) -> None:
        self.counts = np.zeros(len(data_src), np.uint32)
        self._level = _part(data_src, 5, 14)
        self._snoop = _part(data_src, 19, 5)
        self._peer = _has(_part(data_src, 38, 2), _PEER)
        self._is_remote = _has(_part(data_src, 37, 1), 1) & (_part(data_src, 43, 3) == 0)

    def add(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Count a kind for some accesses."""
        self.counts[mask] |= _BIT[name]

    def _add_again(self, name: str, mask: NDArray[np.bool_]) -> None:
        """Count a kind that an access may already have."""
        again = mask & ((self.counts & _BIT[name]) != 0)
        self.add(name, mask)
        self.counts[again] |= np.uint32(1 << _SECOND[name])

    def add_loads(self, load: NDArray[np.bool_]) -> None:
        """Count what served loads."""
        level, hitm = self._level, _has(self._snoop, _SNOOP_HITM)
        hit = load & _has(level, _HIT)
        for name, bit in (("load_uncached", _UNCACHED), ("load_io", _IO), ("load_fill_buffer", _LFB), ("load_l1", _L1), ("load_l2", _L2)):
            self.add(name, hit & _has(level, bit))
        self.add("local_peer", hit & _has(level, _L2) & self._peer)
        last = hit & _has(level, _L3)
        self.add("local_hitm", last & hitm)
        self.add("load_llc", last & ~hitm)
        self._add_again("local_peer", last & self._peer)
        self._add_memory("local_dram", hit & _has(level, _LOCAL_RAM))
        self._add_memory("remote_dram", hit & (_has(level, _REMOTE_RAM) | self._is_remote))
        self._add_other_caches(load & (_has(level, _REMOTE_CACHE) | self._is_remote))
        self.add("load_miss", load & _has(level, _MISS))

    def _add_memory(self, name: str, memory: NDArray[np.bool_]) -> None:
        clean = _has(self._snoop, _SNOOP_HIT)
        self.add(name, memory)
        self._add_again("shared", memory & clean)
        self._add_again("exclusive", memory & ~clean)

    def _add_other_caches(self, other_cache: NDArray[np.bool_]) -> None:
        clean = _has(self._snoop, _SNOOP_HIT)
        modified = _has(self._snoop, _SNOOP_HITM) & ~clean
        served = self._peer & ~clean & ~modified
        self.add("remote_hitm", other_cache & modified)
        self.add("remote_hit", other_cache & (clean | served))
        self.add("remote_peer", other_cache & served)

    def add_stores(self, store: NDArray[np.bool_]) -> None:
        """Count what took stores."""
        level = self._level
        hit = store & _has(level, _HIT)
        self.add("store_uncached", hit & _has(level, _UNCACHED))
        self.add("store_l1", hit & _has(level, _L1))
        self.add("store_l1_miss", store & _has(level, _MISS) & _has(level, _L1))
        self.add("store_unknown", store & _has(level, _LEVEL_NA))


class KindCounts:
    """Sums of KINDS over groups of accesses, one row for each group."""

    def __init__(self, words: NDArray[np.uint32], group: NDArray[np.int64], groups: int) -> None:
        self._words = words
        self._group = group
        self._groups = groups
        self._totals: dict[str, NDArray[np.int64]] = {}

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        if name not in self._totals:
            bits = (self._words >> np.uint32(KINDS.index(name)) & np.uint32(1)).astype(np.int64)
            if name in _SECOND:
                bits += (self._words >> np.uint32(_SECOND[name]) & np.uint32(1)).astype(np.int64)
            self._totals[name] = np.bincount(self._group, bits, self._groups).astype(np.int64)
        return self._totals[name]

    def sum_of(self, *names: str) -> NDArray[np.int64]:
        """Return the sum of several kinds for each group."""
        return sum((self[name] for name in names), np.zeros(self._groups, np.int64))

    @property
    def hitm(self) -> NDArray[np.int64]:
        """Loads of lines that another core had modified."""
        return self.sum_of("local_hitm", "remote_hitm")

    @property
    def peer(self) -> NDArray[np.int64]:
        """Loads that another core's cache served."""
        return self.sum_of("local_peer", "remote_peer")

    @property
    def loads(self) -> NDArray[np.int64]:
        """Loads that a cache or memory served."""
        return self.hitm + self.sum_of("load_fill_buffer", "load_l1", "load_l2", "load_llc", "remote_hit", "local_dram", "remote_dram")

    @property
    def records(self) -> NDArray[np.int64]:
        """Loads that a cache or memory served, and stores with a level."""
        return self.loads + self.sum_of("store_l1", "store_l1_miss", "store_unknown")


def has_kind(words: NDArray[np.uint32], name: str) -> NDArray[np.bool_]:
    """Return which accesses count as a kind."""
    is_set: NDArray[np.bool_] = (words & _BIT[name]) != 0
    return is_set


def _part(data_src: NDArray[np.uint64], shift: int, bits: int) -> NDArray[np.uint64]:
    return data_src >> np.uint64(shift) & np.uint64((1 << bits) - 1)


def _has(part: NDArray[np.uint64], bits: int) -> NDArray[np.bool_]:
    is_set: NDArray[np.bool_] = (part & np.uint64(bits)) != 0
    return is_set


_LINE_FIELDS = frozenset(("ip", "pid", "tid", "addr", "weight", "data_src", "phys_addr", "data_page_size", "cpumode"))


class AccessColumns(NamedTuple):
    """The columns of each line.

    Attributes:
        physical: with physical addresses.
        page_sizes: with page sizes.
        only_named: drop accesses by code without a symbol.
        separator: between columns.
    """

    physical: bool
    page_sizes: bool
    only_named: bool
    separator: str


def access_lines(recording: Recorded, columns: AccessColumns) -> Iterator[str]:
    """Yield a heading and a line for each access.

    perf 6.12 prints a wrong address and padding in the first line; here it is like the others.
    """
    more = ["PHYS ADDR"] * columns.physical + ["DATA PAGE SIZE"] * columns.page_sizes
    yield f"# {', '.join(['PID, TID, IP, ADDR', *more, 'LOCAL WEIGHT, DSRC, SYMBOL'])}"
    symbolizer = recording.symbolizer()
    attrs = [event.attr for event in recording.events]
    for batch in recording.batches(_LINE_FIELDS):
        order = DeliveryOrder(batch.key, batch.key, np.arange(len(batch)))
        view = SampleView(batch.columns, batch.event, order, attrs, recording.timeline, symbolizer)
        yield from _lines(view, columns)


def _lines(view: SampleView, columns: AccessColumns) -> Iterator[str]:
    symbolizer = view.symbolizer
    frames = view.frames_at("ip")
    table = symbolizer.resolve()
    symbols, dsos = table.symbol[frames].tolist(), table.dso[frames].tolist()
    numbers = [view.column(name).tolist() for name in ("pid", "tid", "ip", "addr", "phys_addr", "data_page_size", "weight", "data_src")]
    for symbol, dso, pid, tid, ip, address, physical, size, weight, source in zip(symbols, dsos, *numbers, strict=True):
        if symbol < 0 and columns.only_named:
            continue
        cells = [str(pid), str(tid), f"0x{ip:x}", f"0x{address:x}"]
        cells += [f"0x{physical:016x}"] * columns.physical + [page_size_text(size)] * columns.page_sizes
        file = symbolizer.dsos[dso].name if dso >= 0 else "???"
        name = symbolizer.symbols.name(symbol) if symbol >= 0 else "???"
        yield columns.separator.join([*cells, str(weight), f"0x{source:x}", f"{file}:{name}"])
