"""Every feature section: encode and decode are mirrors, and a cut section is refused, not misread."""

from __future__ import annotations

from typing import Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.build_ids import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.perfdata.feature_values import (
    AuxtraceIndexEntry,
    BpfProgram,
    BpfTypes,
    CacheLevel,
    ClockData,
    Compression,
    CpuCount,
    CpuLocation,
    CpuTopology,
    EventDesc,
    EventGroup,
    HybridPmu,
    MemNode,
    MemTopology,
    NumaNode,
    PmuCaps,
    PmuMapping,
    SampleTime,
)
from perfpy.perfdata.features import Feature, decode_feature, encode_feature

VALUES: dict[Feature, Any] = {
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
}
#: what may be cut without notice: bytes as they are, marks, lists that end where the section ends, parts that older files lack
OPEN_ENDED = {Feature.TRACING_DATA, Feature.BRANCH_STACK, Feature.STAT, Feature.BUILD_ID, Feature.CPU_TOPOLOGY, Feature.AUXTRACE}


def test_there_is_a_value_of_every_feature() -> None:
    assert set(VALUES) == set(Feature)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("feature", Feature)
def test_decode_gives_back_what_was_encoded(feature: Feature, endian: str) -> None:
    data = encode_feature(feature, VALUES[feature], endian)
    assert decode_feature(feature, data, endian, cpus=2) == VALUES[feature]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("feature", Feature)
def test_a_section_cut_at_any_byte_is_refused(feature: Feature, endian: str) -> None:
    data = encode_feature(feature, VALUES[feature], endian)
    for size in range(len(data)):
        if feature in OPEN_ENDED:
            try:
                decode_feature(feature, data[:size], endian, cpus=2)
            except ValueError:
                continue
        else:
            with pytest.raises(ValueError, match=r"expected|entries|left|cut|cache|memory"):
                decode_feature(feature, data[:size], endian, cpus=2)


@pytest.mark.parametrize("feature", Feature)
def test_no_count_makes_more_values_than_there_are_bytes(feature: Feature) -> None:
    data = bytearray(encode_feature(feature, VALUES[feature]))
    for at in range(0, len(data) - 3, 4):
        huge = bytes(data[:at]) + b"\xff\xff\xff\x7f" + bytes(data[at + 4 :])
        try:
            decode_feature(feature, huge, cpus=2)
        except ValueError:
            continue


def test_build_ids_of_files_without_a_pid_are_recognised() -> None:
    whole = encode_feature(Feature.BUILD_ID, (HeaderBuildId(1, -1, bytes(range(20)), "[kernel.kallsyms]"),))
    old = whole[:6] + (len(whole) - 4).to_bytes(2, "little") + whole[12:]
    (record,) = decode_feature(Feature.BUILD_ID, old)
    assert (record.filename, record.build_id) == ("[kernel.kallsyms]", bytes(range(20)))


def test_a_cpu_topology_without_places_or_dies_is_read() -> None:
    topology = CpuTopology(("0-1",), ("0-1",), (CpuLocation(0, 0), CpuLocation(1, 0)))
    data = encode_feature(Feature.CPU_TOPOLOGY, topology)
    assert decode_feature(Feature.CPU_TOPOLOGY, data) == topology
    assert decode_feature(Feature.CPU_TOPOLOGY, data[:-16], cpus=2) == topology._replace(cpus=())


def test_an_auxtrace_index_without_its_count_is_read() -> None:
    data = encode_feature(Feature.AUXTRACE, VALUES[Feature.AUXTRACE])
    assert decode_feature(Feature.AUXTRACE, data[8:]) == VALUES[Feature.AUXTRACE]
