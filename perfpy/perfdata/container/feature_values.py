"""The values of feature sections: one type for each feature that is more than a string or a number.

perfpy.perfdata.container.features decodes and encodes them. Each docstring begins with the section's layout.
"""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import TypeAlias

    from perfpy.abi.attr import EventAttr


class CpuCount(NamedTuple):
    """NRCPUS: { u32 available, online; }"""

    available: int
    online: int


class EventDesc(NamedTuple):
    """One event of EVENT_DESC: { attr; u32 nr_ids; string name; u64 ids[]; }"""

    attr: EventAttr
    name: str
    ids: tuple[int, ...]


class CpuLocation(NamedTuple):
    """The position of one CPU of CPU_TOPOLOGY; die is None if the file has no dies"""

    core: int
    socket: int
    die: int | None = None


class CpuTopology(NamedTuple):
    """CPU_TOPOLOGY: the CPU lists that share a socket, a core and a die, and the position of each CPU.

    { u32 nr; string cores[nr]; u32 nr; string threads[nr]; { u32 core, socket; } cpu[]; u32 nr; string dies[nr]; u32 die[]; }
    """

    cores: tuple[str, ...]
    threads: tuple[str, ...]
    cpus: tuple[CpuLocation, ...] = ()
    dies: tuple[str, ...] = ()


class NumaNode(NamedTuple):
    """One node of NUMA_TOPOLOGY: { u32 node; u64 total, free; string cpus; } in kB"""

    node: int
    total: int
    free: int
    cpus: str


class PmuMapping(NamedTuple):
    """One PMU of PMU_MAPPINGS: { u32 type; string name; }"""

    type: int
    name: str


class EventGroup(NamedTuple):
    """One group of GROUP_DESC: { string name; u32 leader, members; } : the leader's index and the number of events"""

    name: str
    leader: int
    members: int


class AuxtraceIndexEntry(NamedTuple):
    """One AUXTRACE record's section: { u64 offset, size; }"""

    offset: int
    size: int


class CacheLevel(NamedTuple):
    """One CPU cache of CACHE: { u32 level, line_size, sets, ways; string type, size, map; }"""

    level: int
    line_size: int
    sets: int
    ways: int
    type: str
    size: str
    map: str


class SampleTime(NamedTuple):
    """SAMPLE_TIME: { u64 first, last; } in ns"""

    first: int
    last: int


class MemNode(NamedTuple):
    """One node of MEM_TOPOLOGY: { u64 node, bits, bits; u64 bitmap[]; } : a bit for each memory block"""

    node: int
    bits: int
    bitmap: tuple[int, ...]


class MemTopology(NamedTuple):
    """MEM_TOPOLOGY: { u64 version, block_size, nr; node[nr]; }"""

    version: int
    block_size: int
    nodes: tuple[MemNode, ...]


class BpfProgram(NamedTuple):
    """One program of BPF_PROG_INFO: { u32 info_len, data_len; u64 arrays; u8 info[], data[]; } : struct bpf_prog_info and its arrays"""

    arrays: int
    info: bytes
    data: bytes


class BpfTypes(NamedTuple):
    """One entry of BPF_BTF: { u32 id, size; u8 data[]; }"""

    id: int
    data: bytes


class Compression(NamedTuple):
    """COMPRESSED: { u32 version, type, level, ratio, mmap_len; }"""

    version: int
    type: int
    level: int
    ratio: int
    mmap_len: int


class ClockData(NamedTuple):
    """CLOCK_DATA: { u32 version, clockid; u64 wall_clock_ns, clockid_ns; } : both clocks, read at one moment"""

    version: int
    clockid: int
    wall_clock_ns: int
    clockid_ns: int


class HybridPmu(NamedTuple):
    """One PMU of HYBRID_TOPOLOGY: { string name, cpus; }"""

    name: str
    cpus: str


Caps: TypeAlias = "tuple[tuple[str, str], ...]"


class PmuCaps(NamedTuple):
    """One PMU of PMU_CAPS: { u32 nr; { string name, value; } [nr]; string pmu; }"""

    pmu: str
    caps: Caps


class SchedDomain(NamedTuple):
    """One domain of a CPU in CPU_DOMAIN_INFO: { u32 domain; string name, mask, cpus; } : no name below version 17 of /proc/schedstat"""

    domain: int
    name: str
    mask: str
    cpus: str


class CpuDomains(NamedTuple):
    """One CPU of CPU_DOMAIN_INFO: { u32 cpu, nr; domain[nr]; }"""

    cpu: int
    domains: tuple[SchedDomain, ...]


class DomainInfo(NamedTuple):
    """CPU_DOMAIN_INFO: { u32 schedstat_version, most_domains; cpu[]; } : the CPUs among which the scheduler balances"""

    version: int
    most: int
    cpus: tuple[CpuDomains, ...]


class ElfMachine(NamedTuple):
    """E_MACHINE: { u32 e_machine, e_flags; } : as in the ELF header of the perf that recorded"""

    e_machine: int
    e_flags: int
