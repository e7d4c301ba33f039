"""Decode and encode the feature sections after the data.

Layouts: tools/perf/Documentation/perf.data-file-format.txt (HEADER_*); the values are those of
perfpy.perfdata.container.feature_values. Pipes carry the same bytes in HEADER_FEATURE records.
TRACING_DATA stays bytes here (perfpy.perfdata.tracepoints.tracing_data decodes it).
"""

from __future__ import annotations

import itertools

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import ATTR_SIZE_VER0, RecordType, names_of
from perfpy.abi.framing import HEADER, pad_to_words, with_header
from perfpy.abi.perf_records import build_id_record
from perfpy.abi.startup import NamedTuple
from perfpy.perfdata.byte_cursor import FieldReader, FieldWriter
from perfpy.perfdata.container import machine_features
from perfpy.perfdata.container.feature_values import (
    AuxtraceIndexEntry,
    BpfProgram,
    BpfTypes,
    Caps,
    ClockData,
    Compression,
    CpuCount,
    ElfMachine,
    EventDesc,
    EventGroup,
    HybridPmu,
    PmuCaps,
    PmuMapping,
    SampleTime,
)

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from perfpy.abi.perf_records.build_id_record import HeaderBuildId


class Feature:
    """The number of a feature: its bit in the file header (HEADER_*)."""

    TRACING_DATA: Final = 1
    BUILD_ID: Final = 2
    HOSTNAME: Final = 3
    OSRELEASE: Final = 4
    VERSION: Final = 5
    ARCH: Final = 6
    NRCPUS: Final = 7
    CPUDESC: Final = 8
    CPUID: Final = 9
    TOTAL_MEM: Final = 10
    CMDLINE: Final = 11
    EVENT_DESC: Final = 12
    CPU_TOPOLOGY: Final = 13
    NUMA_TOPOLOGY: Final = 14
    BRANCH_STACK: Final = 15
    PMU_MAPPINGS: Final = 16
    GROUP_DESC: Final = 17
    AUXTRACE: Final = 18
    STAT: Final = 19
    CACHE: Final = 20
    SAMPLE_TIME: Final = 21
    MEM_TOPOLOGY: Final = 22
    CLOCKID: Final = 23
    DIR_FORMAT: Final = 24
    BPF_PROG_INFO: Final = 25
    BPF_BTF: Final = 26
    COMPRESSED: Final = 27
    CPU_PMU_CAPS: Final = 28
    CLOCK_DATA: Final = 29
    HYBRID_TOPOLOGY: Final = 30
    PMU_CAPS: Final = 31
    CPU_DOMAIN_INFO: Final = 32
    E_MACHINE: Final = 33
    CLN_SIZE: Final = 34


#: number -> name
FEATURE_NAMES: Final = names_of(Feature)
#: the first feature that perf 6.12 does not have
NEWER_FEATURES: Final = Feature.CPU_DOMAIN_INFO


def key_of(feature: int) -> str:
    """Return a feature's name in PerfData.features: "hostname", "build_id" ..."""
    return FEATURE_NAMES[feature].lower()


class Codec(NamedTuple):
    """The functions that decode and encode one feature."""

    decode: Callable[[FieldReader], Any]
    encode: Callable[[FieldWriter, Any], None]


_BUILD_ID_RECORD: Final = 8 + 4 + 24  # header, pid, build-id: the part before the file name
_QUIRK_NAME: Final = "nel.kallsyms]"  # the remainder of "[kernel.kallsyms]" after a pid is read from an entry without one


def _read_build_ids(r: FieldReader) -> tuple[HeaderBuildId, ...]:
    data = r.raw(r.remaining)
    ids = _build_id_records(data, r.endian)
    if any(record.filename == _QUIRK_NAME for record in ids):
        # Entries of perf 2.6.3x have no pid.
        ids = _build_id_records(data, r.endian, has_pid=False)
    return ids


def _build_id_records(data: bytes, endian: str, has_pid: bool = True) -> tuple[HeaderBuildId, ...]:
    records = []
    offset = 0
    while offset + 8 <= len(data):
        _, misc, size = HEADER[endian].unpack_from(data, offset)
        if size < _BUILD_ID_RECORD - (0 if has_pid else 4) or offset + size > len(data):
            raise ValueError(f"build-id entry of {size} bytes in {len(data) - offset} bytes left")
        body = data[offset + 8 : offset + size]
        if not has_pid:
            body = b"\xff\xff\xff\xff" + body
        records.append(build_id_record.decode(misc, body, endian))
        offset += size
    return tuple(records)


def _write_build_ids(w: FieldWriter, ids: tuple[HeaderBuildId, ...]) -> None:
    for record in ids:
        w.raw(with_header(RecordType.HEADER_BUILD_ID, record.misc, pad_to_words(build_id_record.encode(record, w.endian)), w.endian))


def _read_event_desc(r: FieldReader) -> tuple[EventDesc, ...]:
    count, size = r.u32(), r.u32()
    if size < ATTR_SIZE_VER0:
        raise ValueError(f"event attrs of {size} bytes; expected at least {ATTR_SIZE_VER0}")

    def one() -> EventDesc:
        attr = EventAttr.unpack(r.raw(size), r.endian)
        ids = r.u32()
        return EventDesc(attr, r.string(), r.u64s(ids))

    return r.list(count, one, size + 8)


def _write_event_desc(w: FieldWriter, events: tuple[EventDesc, ...]) -> None:
    size = max((event.attr.size for event in events), default=ATTR_SIZE_VER0)
    w.u32(len(events), size)
    for event in events:
        w.raw(event.attr.pack(w.endian, event.attr.size).ljust(size, b"\0"))
        w.u32(len(event.ids))
        w.string(event.name)
        w.u64(*event.ids)


def _read_pmu_mappings(r: FieldReader) -> tuple[PmuMapping, ...]:
    return r.list(r.u32(), lambda: PmuMapping(r.u32(), r.string()), 8)


def _write_pmu_mappings(w: FieldWriter, pmus: tuple[PmuMapping, ...]) -> None:
    w.u32(len(pmus))
    for pmu in pmus:
        w.u32(pmu.type)
        w.string(pmu.name)


_MOST_MEMBERS: Final = 1024  # their readings must fit 16 KB


def _read_groups(r: FieldReader) -> tuple[EventGroup, ...]:
    groups = r.list(r.u32(), lambda: EventGroup(r.string(), r.u32(), r.u32()), 12)
    largest = max((group.members for group in groups), default=0)
    if largest > _MOST_MEMBERS:
        raise ValueError(f"group of {largest} events; the kernel's limit is {_MOST_MEMBERS}")
    if any(group.leader < before.leader + before.members for before, group in itertools.pairwise(groups)):
        raise ValueError("overlapping event groups")
    return groups


def _write_groups(w: FieldWriter, groups: tuple[EventGroup, ...]) -> None:
    w.u32(len(groups))
    for group in groups:
        w.string(group.name)
        w.u32(group.leader, group.members)


def _read_auxtrace(r: FieldReader) -> tuple[AuxtraceIndexEntry, ...]:
    # simpleperf writes no count
    count = r.remaining // 16 if r.remaining % 16 == 0 else r.u64()
    return r.list(count, lambda: AuxtraceIndexEntry(r.u64(), r.u64()), 16)


def _write_auxtrace(w: FieldWriter, entries: tuple[AuxtraceIndexEntry, ...]) -> None:
    w.u64(len(entries))
    for entry in entries:
        w.u64(*entry)


def _read_bpf_programs(r: FieldReader) -> tuple[BpfProgram, ...]:
    def one() -> BpfProgram:
        info_len, data_len = r.u32(), r.u32()
        return BpfProgram(r.u64(), r.raw(info_len), r.raw(data_len))

    return r.list(r.u32(), one, 16)


def _write_bpf_programs(w: FieldWriter, programs: tuple[BpfProgram, ...]) -> None:
    w.u32(len(programs))
    for program in programs:
        w.u32(len(program.info), len(program.data))
        w.u64(program.arrays)
        w.raw(program.info)
        w.raw(program.data)


def _read_bpf_types(r: FieldReader) -> tuple[BpfTypes, ...]:
    return r.list(r.u32(), lambda: BpfTypes(r.u32(), r.raw(r.u32())), 8)


def _write_bpf_types(w: FieldWriter, entries: tuple[BpfTypes, ...]) -> None:
    w.u32(len(entries))
    for entry in entries:
        w.u32(entry.id, len(entry.data))
        w.raw(entry.data)


def _read_caps(r: FieldReader) -> Caps:
    return r.list(r.u32(), lambda: (r.string(), r.string()), 8)


def _write_caps(w: FieldWriter, caps: Caps) -> None:
    w.u32(len(caps))
    for name, value in caps:
        w.string(name)
        w.string(value)


def _read_pmu_caps(r: FieldReader) -> tuple[PmuCaps, ...]:
    def one() -> PmuCaps:
        caps = _read_caps(r)
        return PmuCaps(r.string(), caps)

    return r.list(r.u32(), one, 8)


def _write_pmu_caps(w: FieldWriter, pmus: tuple[PmuCaps, ...]) -> None:
    w.u32(len(pmus))
    for pmu in pmus:
        _write_caps(w, pmu.caps)
        w.string(pmu.pmu)


def _read_hybrid(r: FieldReader) -> tuple[HybridPmu, ...]:
    return r.list(r.u32(), lambda: HybridPmu(r.string(), r.string()), 8)


def _write_hybrid(w: FieldWriter, pmus: tuple[HybridPmu, ...]) -> None:
    w.u32(len(pmus))
    for pmu in pmus:
        w.string(pmu.name)
        w.string(pmu.cpus)


def _read_clock_data(r: FieldReader) -> ClockData:
    return ClockData(r.u32(), r.u32(), r.u64(), r.u64())


def _write_clock_data(w: FieldWriter, value: ClockData) -> None:
    w.u32(value.version, value.clockid)
    w.u64(value.wall_clock_ns, value.clockid_ns)


def _read_cpu_count(r: FieldReader) -> CpuCount:
    return CpuCount(r.u32(), r.u32())


def _read_compression(r: FieldReader) -> Compression:
    return Compression(r.u32(), r.u32(), r.u32(), r.u32(), r.u32())


def _read_machine(r: FieldReader) -> ElfMachine:
    return ElfMachine(r.u32(), r.u32())


def _read_sample_time(r: FieldReader) -> SampleTime:
    return SampleTime(r.u64(), r.u64())


_STRING: Final = Codec(FieldReader.string, FieldWriter.string)
_STRINGS: Final = Codec(FieldReader.strings, FieldWriter.strings)
_NUMBER: Final = Codec(FieldReader.u64, FieldWriter.u64)
_RAW: Final = Codec(lambda r: r.raw(r.remaining), FieldWriter.raw)
_MARK: Final = Codec(lambda _reader: True, lambda _writer, _value: None)  # an empty section, whose presence is the value

FEATURES: Final[dict[int, Codec]] = {
    Feature.TRACING_DATA: _RAW,
    Feature.BUILD_ID: Codec(_read_build_ids, _write_build_ids),
    Feature.HOSTNAME: _STRING,
    Feature.OSRELEASE: _STRING,
    Feature.VERSION: _STRING,
    Feature.ARCH: _STRING,
    Feature.NRCPUS: Codec(_read_cpu_count, lambda w, value: w.u32(*value)),
    Feature.CPUDESC: _STRING,
    Feature.CPUID: _STRING,
    Feature.TOTAL_MEM: _NUMBER,  # kB
    Feature.CMDLINE: _STRINGS,
    Feature.EVENT_DESC: Codec(_read_event_desc, _write_event_desc),
    Feature.CPU_TOPOLOGY: Codec(machine_features.read_cpu_topology, machine_features.write_cpu_topology),
    Feature.NUMA_TOPOLOGY: Codec(machine_features.read_numa, machine_features.write_numa),
    Feature.BRANCH_STACK: _MARK,
    Feature.PMU_MAPPINGS: Codec(_read_pmu_mappings, _write_pmu_mappings),
    Feature.GROUP_DESC: Codec(_read_groups, _write_groups),
    Feature.AUXTRACE: Codec(_read_auxtrace, _write_auxtrace),
    Feature.STAT: _MARK,
    Feature.CACHE: Codec(machine_features.read_caches, machine_features.write_caches),
    Feature.SAMPLE_TIME: Codec(_read_sample_time, lambda w, value: w.u64(*value)),
    Feature.MEM_TOPOLOGY: Codec(machine_features.read_mem_topology, machine_features.write_mem_topology),
    Feature.CLOCKID: _NUMBER,  # resolution in ns
    Feature.DIR_FORMAT: _NUMBER,  # version
    Feature.BPF_PROG_INFO: Codec(_read_bpf_programs, _write_bpf_programs),
    Feature.BPF_BTF: Codec(_read_bpf_types, _write_bpf_types),
    Feature.COMPRESSED: Codec(_read_compression, lambda w, value: w.u32(*value)),
    Feature.CPU_PMU_CAPS: Codec(_read_caps, _write_caps),
    Feature.CLOCK_DATA: Codec(_read_clock_data, _write_clock_data),
    Feature.HYBRID_TOPOLOGY: Codec(_read_hybrid, _write_hybrid),
    Feature.PMU_CAPS: Codec(_read_pmu_caps, _write_pmu_caps),
    Feature.CPU_DOMAIN_INFO: Codec(machine_features.read_domains, machine_features.write_domains),
    Feature.E_MACHINE: Codec(_read_machine, lambda w, value: w.u32(*value)),
    Feature.CLN_SIZE: Codec(FieldReader.u32, FieldWriter.u32),
}


def decode_feature(feature: int, data: bytes, endian: str = "<", *, cpus: int | None = None) -> Any:
    """Return the value of a feature section.

    cpus: available CPUs by NRCPUS, for CPU_TOPOLOGY. Raises ValueError if the bytes are malformed.

    >>> decode_feature(Feature.NRCPUS, bytes((8, 0, 0, 0, 4, 0, 0, 0)))
    CpuCount(available=8, online=4)
    """
    return FEATURES[feature].decode(FieldReader(data, endian, cpus=cpus))


def encode_feature(feature: int, value: Any, endian: str = "<") -> bytes:
    """Return the bytes of a feature section: the reverse of decode_feature().

    >>> len(encode_feature(Feature.HOSTNAME, "vm"))
    68
    """
    writer = FieldWriter(endian)
    FEATURES[feature].encode(writer, value)
    return writer.getvalue()
