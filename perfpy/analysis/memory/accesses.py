"""The memory accesses of a recording as columns, and the nodes of its machine.

Enters: a recording and its symbols. Leaves: Accesses, one row for each sample in order of delivery, 44 bytes a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.cpu_list import MOST_CPUS, parse_cpu_list
from perfpy.analysis.memory.access_kinds import count_kinds
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

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
        weight: uint32[n], latency in cycles.
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
    weight: NDArray[np.uint32]
    mode: NDArray[np.uint8]

    def take(self, rows: NDArray[np.int64]) -> Accesses:
        """Select accesses."""
        return Accesses._make([column[rows] for column in self])


def read_accesses(data: SampleSource, timeline: TaskTimeline, symbolizer: Symbolizer) -> Accesses:
    """Return all samples of a recording as memory accesses."""
    attrs = [event.attr for event in data.events]
    parts = [_no_accesses()]
    for stored in data.batches(_FIELDS):
        key = data.settled_keys(stored)
        view = SampleView(stored.columns, stored.event, DeliveryOrder(key, key, np.arange(len(key))), attrs, timeline, symbolizer)
        parts.append(_accesses_of(view))
    return Accesses._make([np.concatenate(columns) for columns in zip(*parts, strict=True)])


def _no_accesses() -> Accesses:
    types = (np.uint32, np.uint64, np.uint64, *[np.int32] * 5, np.uint32, np.uint8)
    return Accesses._make([np.zeros(0, kind) for kind in types])


def _accesses_of(view: SampleView) -> Accesses:
    address = view.column("addr").astype(np.uint64)
    data, code = view.frames_at("addr"), view.frames_at("ip")
    dsos = view.symbolizer.resolve().dso
    is_mapped = (dsos[data] >= 0) & (dsos[code] >= 0)
    return Accesses(
        count_kinds(view.column("data_src").astype(np.uint64), address, is_mapped),
        address,
        view.column("phys_addr").astype(np.uint64),
        data,
        code,
        _small(view, "pid"),
        _small(view, "tid"),
        _small(view, "cpu"),
        np.minimum(view.column("weight"), 0xFFFFFFFF).astype(np.uint32),
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
