"""Decode and encode the features of the recorded machine: CPUs, memory nodes, caches, memory blocks, scheduling domains.

Layouts: tools/perf/Documentation/perf.data-file-format.txt (HEADER_*).
"""

from __future__ import annotations

from perfpy.perfdata.container.feature_values import (
    CacheLevel,
    CpuDomains,
    CpuLocation,
    CpuTopology,
    DomainInfo,
    MemNode,
    MemTopology,
    NumaNode,
    SchedDomain,
)

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.perfdata.byte_cursor import FieldReader, FieldWriter

#: the first version of /proc/schedstat with names of domains
NAMED_DOMAINS = 17


def read_cpu_topology(r: FieldReader) -> CpuTopology:
    """Read the CPU topology. The section has no count of its CPUs: NRCPUS has it, otherwise they fill the section."""
    cores, threads = r.strings(), r.strings()
    count = r.remaining // 8 if r.cpus is None else r.cpus
    if not count or r.remaining < 8 * count:
        return CpuTopology(cores, threads)
    numbers = [(r.u32(), r.u32()) for _ in range(count)]
    if not r.remaining:
        return CpuTopology(cores, threads, tuple(CpuLocation(core, socket) for core, socket in numbers))
    dies = r.strings()
    return CpuTopology(cores, threads, tuple(CpuLocation(core, socket, r.u32()) for core, socket in numbers), dies)


def write_cpu_topology(w: FieldWriter, value: CpuTopology) -> None:
    """Write what read_cpu_topology() reads."""
    w.strings(value.cores)
    w.strings(value.threads)
    for cpu in value.cpus:
        w.u32(cpu.core, cpu.socket)
    if value.dies:
        w.strings(value.dies)
        w.u32(*(cpu.die or 0 for cpu in value.cpus))


def read_numa(r: FieldReader) -> tuple[NumaNode, ...]:
    """Read the memory nodes, with their size and CPUs."""
    return r.list(r.u32(), lambda: NumaNode(r.u32(), r.u64(), r.u64(), r.string()), 24)


def write_numa(w: FieldWriter, nodes: tuple[NumaNode, ...]) -> None:
    """Write what read_numa() reads."""
    w.u32(len(nodes))
    for node in nodes:
        w.u32(node.node)
        w.u64(node.total, node.free)
        w.string(node.cpus)


def read_caches(r: FieldReader) -> tuple[CacheLevel, ...]:
    """Read the CPU caches and the CPUs that share each."""
    version, count = r.u32(), r.u32()
    if version != 1:
        raise ValueError(f"unknown version {version} of the CPU cache section")
    return r.list(count, lambda: CacheLevel(r.u32(), r.u32(), r.u32(), r.u32(), r.string(), r.string(), r.string()), 28)


def write_caches(w: FieldWriter, caches: tuple[CacheLevel, ...]) -> None:
    """Write what read_caches() reads."""
    w.u32(1, len(caches))
    for cache in caches:
        w.u32(*cache[:4])
        for string in cache[4:]:
            w.string(string)


def read_mem_topology(r: FieldReader) -> MemTopology:
    """Read the memory blocks of each node."""
    version, block_size, count = r.u64s(3)
    if version != 1:
        raise ValueError(f"unknown version {version} of the memory topology")

    def node() -> MemNode:
        number, _, bits = r.u64s(3)  # the bitmap's own size follows the node's
        return MemNode(number, bits, r.u64s((bits + 63) // 64))

    return MemTopology(version, block_size, r.list(count, node, 24))


def write_mem_topology(w: FieldWriter, value: MemTopology) -> None:
    """Write what read_mem_topology() reads."""
    w.u64(value.version, value.block_size, len(value.nodes))
    for node in value.nodes:
        w.u64(node.node, node.bits, node.bits, *node.bitmap)


def read_domains(r: FieldReader) -> DomainInfo:
    """Read the scheduling domains of each CPU; the CPUs fill the section."""
    version, most = r.u32(), r.u32()

    def domain() -> SchedDomain:
        return SchedDomain(r.u32(), r.string() if version >= NAMED_DOMAINS else "", r.string(), r.string())

    cpus = []
    while r.remaining:
        cpus.append(CpuDomains(r.u32(), r.list(r.u32(), domain, 12)))
    return DomainInfo(version, most, tuple(cpus))


def write_domains(w: FieldWriter, value: DomainInfo) -> None:
    """Write the CPU domains in the layout that read_domains() reads."""
    w.u32(value.version, value.most)
    for cpu in value.cpus:
        w.u32(cpu.cpu, len(cpu.domains))
        for domain in cpu.domains:
            w.u32(domain.domain)
            for string in domain[1:] if value.version >= NAMED_DOMAINS else domain[2:]:
                w.string(string)
