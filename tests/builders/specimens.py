"""One record of every kind, and a value of every feature.

Output: values for round trips, and a recording that
has all of them.
"""

from __future__ import annotations

from typing import Any

from perfpy.abi import perf_records
from perfpy.abi import perf_records as u
from perfpy.abi import records as r
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, SampleType
from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.abi.perf_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import (
    AuxtraceIndexEntry,
    BpfProgram,
    BpfTypes,
    CacheLevel,
    ClockData,
    Compression,
    CpuCount,
    CpuDomains,
    CpuLocation,
    CpuTopology,
    DomainInfo,
    ElfMachine,
    EventDesc,
    EventGroup,
    Feature,
    HybridPmu,
    MemNode,
    MemTopology,
    NumaNode,
    PmuCaps,
    PmuMapping,
    SampleTime,
    SchedDomain,
)
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

ALL_IDS = SampleType.TID | SampleType.TIME | SampleType.ID | SampleType.STREAM_ID | SampleType.CPU | SampleType.IDENTIFIER
SID = SampleId(pid=1, tid=2, time=3 << 40, id=4, stream_id=5, cpu=6, identifier=4)

KERNEL = [
    r.Mmap(2, 1, 2, 0x400000, 0x1000, 0x2000, "/usr/bin/true", SID),
    r.Mmap2(2, 1, 2, 0x400000, 0x1000, 0x2000, 8, 1, 77, 9, 5, 2, "/usr/lib/x", b"", SID),
    r.Mmap2(2 | MISC_MMAP_BUILD_ID, 1, 2, 0x400000, 0x1000, 0, 0, 0, 0, 0, 5, 2, "/lib/y", bytes(range(1, 21)), SID),
    r.Mmap2(2 | MISC_MMAP_BUILD_ID, 1, 2, 0x400000, 0x1000, 0, 0, 0, 0, 0, 5, 2, "/lib/md5", bytes(range(1, 17)), SID),
    r.Comm(1 << 13, 1, 2, "a command", SID),
    r.Comm(0, 1, 2, "not \udcff utf-8", SID),
    r.Fork(0, 1, 2, 3, 4, 5, SID),
    r.Exit(0, 1, 2, 3, 4, 5, SID),
    r.Lost(0, 1, 2, SID),
    r.LostSamples(0, 9, SID),
    r.Throttle(0, 1, 2, 3, SID),
    r.Unthrottle(0, 1, 2, 3, SID),
    r.Read(0, 1, 2, bytes(range(24)), SID),
    r.Aux(0, 1, 2, 3, SID),
    r.ItraceStart(0, 1, 2, SID),
    r.Switch(1 << 13, SID),
    r.SwitchCpuWide(0, 1, 2, SID),
    r.Namespaces(0, 1, 2, ((3, 4), (5, 6), (7, 8)), SID),
    r.Ksymbol(0, 1 << 63, 64, 1, 0, "bpf_prog_abc", SID),
    r.BpfEvent(0, 1, 0, 5, b"\1\2\3\4\5\6\7\0", SID),
    r.Cgroup(0, 5, "/system.slice", SID),
    r.TextPoke(0, 0xFFFFFFFF81000000, b"\x90" * 5, b"\xe8\1\2\3\4", SID),
    r.AuxOutputHwId(0, 7, SID),
    r.CallchainDeferred(0, 1, (2, 3, 4), SID),
]
USER = [
    u.HeaderAttr(0, EventAttr(type=1, config=3), (10, 11)),
    u.HeaderEventType(0, 5, "cycles"),
    u.HeaderTracingData(0, 4096),
    HeaderBuildId(MISC_BUILD_ID_SIZE | 2, -1, bytes(range(16)), "/usr/lib/libc.so.6"),
    HeaderBuildId(MISC_BUILD_ID_SIZE | 1, -1, bytes(range(20)), "[kernel.kallsyms]"),
    u.FinishedRound(0),
    u.FinishedInit(0),
    u.IdIndex(0, (u.IdIndexEntry(1, 2, 3, 4), u.IdIndexEntry(5, 6, 7, 8))),
    u.IdIndex(0, (u.IdIndexEntry(1, 2, 3, 4, 0, 0), u.IdIndexEntry(5, 6, 7, 8, 9, 10))),
    perf_records.AuxtraceInfo(0, 1, (1, 2, 3)),
    perf_records.Auxtrace(0, 4096, 1, 2, 3, 4, 5),
    perf_records.AuxtraceError(0, 1, 2, 3, 4, 5, 1, 6, 7, "overflow", 8, 9),
    u.ThreadMap(0, ((1, "init"), (2, "kthreadd"))),
    u.CpuMap(0, (0, 1, 2, 3)),
    u.CpuMap(0, (0, 2, 5)),
    u.CpuMap(0, (-1,)),
    u.CpuMap(0, (-1, 4, 5)),
    u.StatConfig(0, ((0, 3), (1, 1000))),
    u.Stat(0, 1, 2, 3, 4, 5, 6),
    u.StatRound(0, 1, 99),
    u.EventUpdate(0, u.EVENT_UPDATE_UNIT, 1, "Joules"),
    u.EventUpdate(0, u.EVENT_UPDATE_SCALE, 1, 0.5),
    u.EventUpdate(0, u.EVENT_UPDATE_NAME, 1, "my event"),
    u.EventUpdate(0, u.EVENT_UPDATE_CPUS, 1, (0, 1)),
    u.TimeConv(0, 1, 2, 3),
    u.TimeConv(0, 1, 2, 3, 4, 5, 1, 0),
    u.HeaderFeature(0, 3, b"12345678"),
    u.Compressed(0, b"123"),
    u.Compressed2(0, b"12345"),
    BpfMetadata(0, "bpf_prog_abc", (("version", "7"), ("commit", "deadbeef"))),
    SchedstatCpu(0, 99, 1, 17, tuple(range(1, 10))),
    SchedstatCpu(0, 99, 1, 18, ()),
    SchedstatDomain(0, 99, 1, 17, 0, tuple(range(1, 46))),
    SchedstatDomain(0, 99, 1, 16, 1, tuple(range(1, 37))),
]

FEATURES: dict[int, Any] = {
    Feature.TRACING_DATA: b"\x17\x08Dtracing",
    Feature.BUILD_ID: (
        HeaderBuildId(2 | MISC_BUILD_ID_SIZE, -1, bytes(range(20)), "/bin/true"),
        HeaderBuildId(1 | MISC_BUILD_ID_SIZE, -1, b"\1" * 16, "[kernel.kallsyms]"),
    ),
    Feature.HOSTNAME: "vm",
    Feature.OSRELEASE: "6.1.0",
    Feature.VERSION: "6.12",
    Feature.ARCH: "x86_64",
    Feature.NRCPUS: CpuCount(2, 2),
    Feature.CPUDESC: "A CPU \udcff with a byte that is no UTF-8",
    Feature.CPUID: "x" * 64,
    Feature.TOTAL_MEM: 1 << 40,
    Feature.CMDLINE: ("perf", "record", ""),
    Feature.EVENT_DESC: (EventDesc(EventAttr(type=1), "cpu-clock", (1, 2)), EventDesc(EventAttr(), "cycles", ())),
    Feature.CPU_TOPOLOGY: CpuTopology(("0-1",), ("0", "1"), (CpuLocation(0, 0, 0), CpuLocation(1, 0, 1)), ("0", "1")),
    Feature.NUMA_TOPOLOGY: (NumaNode(0, 100, 50, "0-1"),),
    Feature.BRANCH_STACK: True,
    Feature.PMU_MAPPINGS: (PmuMapping(1, "software"), PmuMapping(8, "uprobe")),
    Feature.GROUP_DESC: (EventGroup("{anon_group}", 0, 2),),
    Feature.AUXTRACE: (AuxtraceIndexEntry(100, 50), AuxtraceIndexEntry(200, 60)),
    Feature.STAT: True,
    Feature.CACHE: (CacheLevel(1, 64, 64, 12, "Data", "48K", "0"),),
    Feature.SAMPLE_TIME: SampleTime(1, 2**63),
    Feature.MEM_TOPOLOGY: MemTopology(1, 1 << 27, (MemNode(0, 70, (0xFF, 1)),)),
    Feature.CLOCKID: 1,
    Feature.DIR_FORMAT: 1,
    Feature.BPF_PROG_INFO: (BpfProgram(3, b"info....", b"data"),),
    Feature.BPF_BTF: (BpfTypes(4, b"btf"),),
    Feature.COMPRESSED: Compression(1, 1, 3, 5, 528384),
    Feature.CPU_PMU_CAPS: (("branches", "32"),),
    Feature.CLOCK_DATA: ClockData(1, 1, 1700000000 * 10**9, 12345),
    Feature.HYBRID_TOPOLOGY: (HybridPmu("cpu_core", "0-7"), HybridPmu("cpu_atom", "8-15")),
    Feature.PMU_CAPS: (PmuCaps("cpu_core", (("branches", "32"), ("max_precise", "3"))), PmuCaps("cpu_atom", ())),
    Feature.CPU_DOMAIN_INFO: DomainInfo(17, 2, (CpuDomains(0, (SchedDomain(0, "SMT", "3", "0-1"),)), CpuDomains(1, ()))),
    Feature.E_MACHINE: ElfMachine(62, 0),
    Feature.CLN_SIZE: 64,
}
#: what does not stand by itself: events and features have their own places in a file, the others say that data follows
_ELSEWHERE = (u.HeaderAttr, u.HeaderFeature, u.HeaderTracingData, perf_records.Auxtrace, u.Compressed, u.Compressed2)


def every_kind(endian: str = "<") -> PerfDataBuilder:
    """A recording with samples, every kind of record and every feature that a file may have of itself."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | ALL_IDS, read_format=4)], ids=[(4,)], endian=endian)
    for record in KERNEL:
        built.record(record)
    for own in USER:
        if not isinstance(own, _ELSEWHERE):
            built.record(own)
    for number in range(12):
        built.sample(ip=0x400000 + number, pid=1, tid=2, cpu=1, time=(3 << 40) + number, period=1, misc=2)
    built.record(perf_records.Auxtrace(0, 24, 0, 0, 0, 7, 1)).raw(bytes(24))
    for feature, value in FEATURES.items():
        if feature not in (Feature.TRACING_DATA, Feature.COMPRESSED, Feature.DIR_FORMAT):
            built.feature(feature, value)
    return built
