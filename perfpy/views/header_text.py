"""The header of a recording as perf prints it: --header, --header-only, -I.

The text is perf 6.12's, byte for byte; features that it lacks have the text of perf 7.
"""

from __future__ import annotations

import time

from perfpy.abi.attr import FLAG_BITS, EventAttr
from perfpy.abi.flags import (
    ATTR_SIZE_VER8,
    NATIVE_ENDIAN,
    BranchSample,
    CacheId,
    CacheOp,
    CacheResult,
    HardwareId,
    PerfType,
    ReadFormat,
    SampleType,
    SoftwareId,
    names_of,
)
from perfpy.abi.framing import HEADER
from perfpy.perfdata.events import default_name
from perfpy.perfdata.header import FEATURE_NAMES, NAMED_DOMAINS, NEWER_FEATURES, Feature, FileHeader, key_of

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Final, Protocol

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.header import (
        AuxtraceIndexEntry,
        BpfTypes,
        CacheLevel,
        Caps,
        ClockData,
        Compression,
        CpuCount,
        CpuTopology,
        DomainInfo,
        ElfMachine,
        EventDesc,
        HybridPmu,
        MemTopology,
        NumaNode,
        PmuCaps,
        PmuMapping,
        SampleTime,
    )
    from perfpy.perfdata.reader import PerfData
    from perfpy.views.recorded import Recorded

    class EventNames(Protocol):
        """Names for the numbers in attrs; "" for unknown ones."""

        def pmu(self, type_number: int) -> str:
            """Return the PMU whose events have this type."""

        def tracepoint(self, number: int) -> str:
            """Return SYSTEM:NAME of the tracepoint with this id."""


#: around the lines about the file
FRAME: Final = "# ========"
_CLOCKS: Final = {
    0: "realtime",
    1: "monotonic",
    4: "monotonic_raw",
    5: "realtime_coarse",
    6: "monotonic_coarse",
    7: "boottime",
    11: "tai",
}
_ZSTD: Final = 1
_NAME_ALIGN: Final = 64  # perf pads header strings to multiples of this
_U64: Final = (1 << 64) - 1
_IBS_NOTE: Final = (
    "# AMD systems uses ibs_op// PMU for some precise events, e.g.: cycles:p, see the 'perf list' man page for further details."
)
_LONGEST_BITMAP: Final = 99  # characters of a memory node's blocks; perf truncates there


def header_lines(
    recording: Recorded, *, full: bool = False, names: EventNames | None = None, of_pipes_features: bool = True
) -> Iterator[str]:
    """Yield the header's lines, frame included.

    full: -I, include the topology; names: for the numbers in events' attrs
    (default: those in the recording); of_pipes_features: include the features
    of a recording in a pipe's format, which are records.
    """
    data = recording.data
    sections = _Sections(data, names or FileNames(data))
    yield FRAME
    yield from _file_lines(data)
    if data.is_pipe:
        yield FRAME
        yield "#"
    for number in data.feature_sections if of_pipes_features or not data.is_pipe else ():
        if number in FEATURE_NAMES:
            yield from sections.lines(number, full)
    if not data.is_pipe:
        there = _features_of(data)
        newer = any(feature >= NEWER_FEATURES for feature in FEATURE_NAMES if feature in there)  # the perf that wrote it knows all features
        missing = [name for feature, name in FEATURE_NAMES.items() if feature not in there and (newer or feature < NEWER_FEATURES)]
        yield "# missing features: " + "".join(f"{name} " for name in missing)
        yield FRAME
        yield "#"


def feature_printer(recording: Recorded, *, full: bool, names: EventNames) -> Callable[[int], Iterator[str]]:
    """Return the function that yields the lines of a feature of this recording."""
    sections = _Sections(recording.data, names)
    return lambda feature: sections.lines(feature, full)


def _features_of(data: PerfData) -> tuple[int, ...]:
    return data.header.features if isinstance(data.header, FileHeader) else ()


def _file_lines(data: PerfData) -> Iterator[str]:
    header = data.header
    version, offset, size = 1, 0, 0
    if isinstance(header, FileHeader):
        version, (offset, size) = header.version - 1, header.data
    yield f"# captured on    : {time.ctime(data.modification_time)}"
    yield f"# header version : {version}"
    yield f"# data offset    : {offset}"
    yield f"# data size      : {size}"
    yield f"# feat offset    : {offset + size}"


class _Sections:
    """The lines of each feature section."""

    def __init__(self, data: PerfData, names: EventNames) -> None:
        self._data = data
        self._names = names
        # feature -> its lines, and whether only -I shows them
        self._printers: dict[int, tuple[Callable[[Any], Iterator[str]], bool]] = {
            Feature.HOSTNAME: (_text("hostname"), False),
            Feature.OSRELEASE: (_text("os release"), False),
            Feature.VERSION: (_text("perf version"), False),
            Feature.ARCH: (_text("arch"), False),
            Feature.NRCPUS: (_cpu_count, False),
            Feature.CPUDESC: (_text("cpudesc"), False),
            Feature.CPUID: (_text("cpuid"), False),
            Feature.TOTAL_MEM: (lambda kilobytes: iter((f"# total memory : {kilobytes} kB",)), False),
            Feature.CMDLINE: (_command_line, False),
            Feature.EVENT_DESC: (self._events, False),
            Feature.CPU_TOPOLOGY: (self._cpu_topology, True),
            Feature.NUMA_TOPOLOGY: (_numa, True),
            Feature.BRANCH_STACK: (lambda _: iter(("# contains samples with branch stack",)), False),
            Feature.PMU_MAPPINGS: (_pmu_mappings, False),
            Feature.GROUP_DESC: (self._groups, False),
            Feature.AUXTRACE: (_auxtrace, False),
            Feature.STAT: (lambda _: iter(("# contains stat data",)), False),
            Feature.CACHE: (_caches, True),
            Feature.SAMPLE_TIME: (_sample_time, False),
            Feature.MEM_TOPOLOGY: (_mem_topology, True),
            Feature.CLOCKID: (lambda resolution: iter((f"# clockid frequency: {resolution * 1000} MHz",)), False),
            Feature.DIR_FORMAT: (lambda version: iter((f"# directory data version : {version}",)), False),
            Feature.BPF_PROG_INFO: (self._bpf_programs, False),
            Feature.BPF_BTF: (self._bpf_types, False),
            Feature.COMPRESSED: (_compression, False),
            Feature.CPU_PMU_CAPS: (lambda caps: _caps("cpu", caps), False),
            Feature.CLOCK_DATA: (_clock_data, False),
            Feature.HYBRID_TOPOLOGY: (_hybrid, True),
            Feature.PMU_CAPS: (self._pmu_caps, False),
            Feature.CPU_DOMAIN_INFO: (_domains, True),
            Feature.E_MACHINE: (_machine, False),
            Feature.CLN_SIZE: (lambda size: iter((f"# cacheline size: {size}",)), False),
        }

    def lines(self, feature: int, full: bool) -> Iterator[str]:
        """Yield a feature's lines; none for hidden or unreadable ones."""
        if feature not in self._printers or key_of(feature) not in self._data.features:
            return
        printer, only_full = self._printers[feature]
        if only_full and not full:
            yield f"# {FEATURE_NAMES[feature]} info available, use -I to display"
        else:
            yield from printer(self._data.features[key_of(feature)])

    def _events(self, events: tuple[EventDesc, ...]) -> Iterator[str]:
        for event in events:
            ids = f", id = {{ {', '.join(map(str, event.ids))} }}" if event.ids else ""
            fields = "".join(f", {label} = {value}" for label, value in attr_fields(event.attr, self._names))
            yield f"# event : name = {event.name}, {ids}{fields}"

    def _cpu_topology(self, topology: CpuTopology) -> Iterator[str]:
        for cpus in topology.cores:
            yield f"# sibling sockets : {cpus}"
        for cpus in topology.dies:
            yield f"# sibling dies    : {cpus}"
        for cpus in topology.threads:
            yield f"# sibling threads : {cpus}"
        if not topology.cpus or not self._has_room_for_ids(topology) or not self._plausible(topology):
            yield f"# Core ID{', Die ID' if topology.dies else ''} and Socket ID information is not available"
            return
        for number, cpu in enumerate(topology.cpus):
            die = f"Die ID {_signed_number(cpu.die or 0)}, " if topology.dies else ""
            yield f"# CPU {number}: Core ID {_signed_number(cpu.core)}, {die}Socket ID {_signed_number(cpu.socket)}"

    def _has_room_for_ids(self, topology: CpuTopology) -> bool:
        """Whether perf finds the numbers: it assumes that each list of CPUs is padded as it pads them."""
        lists = (*topology.cores, *topology.threads)
        before = 8 + sum(4 + (len(cpus) // _NAME_ALIGN + 1) * _NAME_ALIGN for cpus in lists)
        return before < self._data.feature_sections[Feature.CPU_TOPOLOGY].size

    def _plausible(self, topology: CpuTopology) -> bool:
        """Whether perf accepts the sockets' numbers: except on s390 and arm64 none exceeds the number of CPUs."""
        if str(self._data.features.get("arch", "")).startswith(("s390", "aarch64")):
            return True
        return all(_signed_number(cpu.socket) <= len(topology.cpus) for cpu in topology.cpus)

    def _groups(self, _value: object) -> Iterator[str]:
        events = self._data.events
        for leader in events:
            members = [event.name for event in events if event.leader == leader.index]
            if len(members) > 1:
                yield f"# group: {leader.group_name}{{{','.join(members)}}}"

    def _pmu_caps(self, pmus: tuple[PmuCaps, ...]) -> Iterator[str]:
        for pmu in pmus:
            yield from _caps(pmu.pmu, pmu.caps)
        features = self._data.features
        arch = str(features.get("arch", ""))
        is_x86 = arch == "x86_64" or (arch[:1], arch[2:]) == ("i", "86")
        has_ibs = any(mapping.name == "ibs_op" for mapping in features.get("pmu_mappings", ()))
        if is_x86 and has_ibs and ("max_precise", "0") in features.get("cpu_pmu_caps", ()):
            yield _IBS_NOTE

    def _bpf_programs(self, programs: Any) -> Iterator[str]:
        from perfpy.perfdata.bpf_programs import bpf_functions

        for program in programs:
            functions = bpf_functions(program, self._data.features.get("bpf_btf", ()), self._data.endian)
            if len(functions) == 1:
                (function,) = functions
                yield f"# bpf_prog_info {function.program}: {function.name} addr {function.address:#x} size {function.size}"
            elif functions:
                yield f"# bpf_prog_info {functions[0].program}:"
                for number, function in enumerate(functions):
                    yield f"# \tsub_prog {number}: {function.name} addr {function.address:#x} size {function.size}"

    def _bpf_types(self, entries: tuple[BpfTypes, ...]) -> Iterator[str]:
        if self._data.endian == NATIVE_ENDIAN:  # perf reads no others
            yield from (f"# btf info of id {number}" for number in sorted({entry.id for entry in entries}))


def _text(label: str) -> Callable[[str], Iterator[str]]:
    return lambda value: iter((f"# {label} : {value}",))


def _cpu_count(count: CpuCount) -> Iterator[str]:
    yield f"# nrcpus online : {count.online}"
    yield f"# nrcpus avail : {count.available}"


def _command_line(words: tuple[str, ...]) -> Iterator[str]:
    yield "# cmdline : " + "".join(word.replace("'", "\\'") + " " for word in words)


def _signed_number(number: int) -> int:
    """Return a 32-bit number as signed: -1 if the kernel did not know it."""
    return number - (1 << 32) if number >> 31 else number


def _numa(nodes: tuple[NumaNode, ...]) -> Iterator[str]:
    for node in nodes:
        yield f"# node{node.node} meminfo  : total = {node.total} kB, free = {node.free} kB"
        yield f"# node{node.node} cpu list : {node.cpus}"


def _pmu_mappings(pmus: tuple[PmuMapping, ...]) -> Iterator[str]:
    yield "# pmu mappings: " + (", ".join(f"{pmu.name} = {pmu.type}" for pmu in pmus) or "not available")


def _auxtrace(_entries: tuple[AuxtraceIndexEntry, ...]) -> Iterator[str]:
    yield "# contains AUX area data (e.g. instruction trace)"


def _caches(caches: tuple[CacheLevel, ...]) -> Iterator[str]:
    yield "# CPU cache info:"
    for cache in caches:
        yield f"#  L{cache.level} {cache.type:<15} {cache.size:>8} [{cache.map}]"


def _sample_time(times: SampleTime) -> Iterator[str]:
    yield f"# time of first sample : {_seconds(times.first)}"
    yield f"# time of last sample : {_seconds(times.last)}"
    yield f"# sample duration : {((times.last - times.first) & _U64) / 1e6:10.3f} ms"


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds // 10**9}.{nanoseconds // 1000 % 10**6:06d}"


def _mem_topology(topology: MemTopology) -> Iterator[str]:
    yield f"# memory nodes (nr {len(topology.nodes)}, block size {topology.block_size:#x}):"
    for node in topology.nodes:
        blocks = [i * 64 + bit for i, word in enumerate(node.bitmap) for bit in range(64) if word >> bit & 1]
        size = _unit(len(blocks) * topology.block_size)
        yield f"#  {node.node:3} [{size}]: {_ranges(blocks)[:_LONGEST_BITMAP]}"


def _unit(size: int) -> str:
    unit = 0
    while size // 1024 > 1 and unit < 3:
        size //= 1024
        unit += 1
    return f"{size}{'BKMG'[unit]}"


def _ranges(numbers: list[int]) -> str:
    """Format ascending numbers as ranges: 0-3,7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{first}-{last}" if first != last else str(first) for first, last in parts)


def _compression(value: Compression) -> Iterator[str]:
    yield f"# compressed : {'Zstd' if value.type == _ZSTD else 'Unknown'}, level = {value.level}, ratio = {value.ratio}"


def _caps(pmu: str, caps: Caps) -> Iterator[str]:
    yield f"# {pmu} pmu capabilities: " + (", ".join(f"{name}={value}" for name, value in caps) or "not available")


def _clock_data(clock: ClockData) -> Iterator[str]:
    name = _CLOCKS.get(clock.clockid, "<not found>")
    seconds, nanoseconds = divmod(clock.wall_clock_ns, 10**9)
    try:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)) + f".{nanoseconds // 1000:06d}"
    except (OverflowError, ValueError, OSError):
        moment = "<error>"
    of_clock = f"{clock.clockid_ns // 10**9}.{clock.clockid_ns % 10**9:09d}"
    yield f"# clockid: {name} ({clock.clockid})"
    yield f"# reference time: {moment} = {seconds}.{nanoseconds // 1000:06d} (TOD) = {of_clock} ({name})"


def _hybrid(pmus: tuple[HybridPmu, ...]) -> Iterator[str]:
    yield "# hybrid cpu system:"
    for pmu in pmus:
        yield f"# {pmu.name} cpu list : {pmu.cpus}"


def _domains(info: DomainInfo) -> Iterator[str]:
    yield f"# schedstat version\t: {info.version}"
    yield f"# Maximum sched domains\t: {info.most}"
    for cpu in info.cpus:
        yield f"# cpu\t\t: {cpu.cpu}"
        yield f"# nr_domains\t: {len(cpu.domains)}"
        for domain in cpu.domains:
            yield f"# Domain\t\t: {domain.domain}"
            if info.version >= NAMED_DOMAINS:
                yield f"# Domain name      : {domain.name}"
            yield f"# Domain cpu map   : {domain.mask}"
            yield f"# Domain cpu list  : {domain.cpus}"


def _machine(machine: ElfMachine) -> Iterator[str]:
    yield f"# e_machine : {machine.e_machine}"
    yield f"#   e_flags : {machine.e_flags}"


# An event attr as (label, value) pairs of its set fields in perf's order, for `evlist -v` and the header's event lines.


class FileNames:
    """The names in the recording: correct even if it is read on another machine."""

    def __init__(self, data: PerfData) -> None:
        self._data = data

    def pmu(self, type_number: int) -> str:
        """Return the PMU's name from the PMU_MAPPINGS feature."""
        return next((pmu.name for pmu in self._data.features.get("pmu_mappings", ()) if pmu.type == type_number), "")

    def tracepoint(self, number: int) -> str:
        """Return the tracepoint's name from the TRACING_DATA feature."""
        tracing = self._data.tracing
        point = tracing.tracepoints.get(number) if tracing else None
        return f"{point.system}:{point.name}" if point else ""


# perf's order, which is neither that of the bits nor of the layout
_SAMPLE_TYPES: Final = (
    SampleType.IP,
    SampleType.TID,
    SampleType.TIME,
    SampleType.ADDR,
    SampleType.READ,
    SampleType.CALLCHAIN,
    SampleType.ID,
    SampleType.CPU,
    SampleType.PERIOD,
    SampleType.STREAM_ID,
    SampleType.RAW,
    SampleType.BRANCH_STACK,
    SampleType.REGS_USER,
    SampleType.STACK_USER,
    SampleType.IDENTIFIER,
    SampleType.REGS_INTR,
    SampleType.DATA_SRC,
    SampleType.WEIGHT,
    SampleType.PHYS_ADDR,
    SampleType.AUX,
    SampleType.CGROUP,
    SampleType.DATA_PAGE_SIZE,
    SampleType.CODE_PAGE_SIZE,
    SampleType.WEIGHT_STRUCT,
)
_LAST_FLAG: Final = "sigtrap"  # perf 6.12 prints no later ones
_FLAGS: Final = tuple(name for name, _ in FLAG_BITS[: [name for name, _ in FLAG_BITS].index(_LAST_FLAG) + 1])


def attr_fields(attr: EventAttr, names: EventNames) -> Iterator[tuple[str, str]]:
    """Yield (label, value) of every field that perf prints: type, size and config always, the others if not 0."""
    yield "type", _with_name(str(attr.type), names.pmu(attr.type) or _type_name(attr.type))
    yield from _numbers(attr, ("size",))
    yield "config", _with_name(_hex(attr.config), _config_name(attr, names))
    if attr.sample_period:
        yield "{ sample_period, sample_freq }", str(attr.sample_period)
    if attr.sample_type:
        yield "sample_type", _bits(attr.sample_type, {bit: names_of(SampleType)[bit] for bit in _SAMPLE_TYPES})
    if attr.read_format:
        yield "read_format", _bits(attr.read_format, names_of(ReadFormat))
    yield from _numbers(attr, _FLAGS)
    if attr.wakeup_events:
        yield "{ wakeup_events, wakeup_watermark }", str(attr.wakeup_events)
    yield from _numbers(attr, ("bp_type",))
    if attr.config1:
        yield "{ bp_addr, config1 }", _hex(attr.config1)
    if attr.config2:
        yield "{ bp_len, config2 }", _hex(attr.config2)
    if attr.branch_sample_type:
        yield "branch_sample_type", _bits(attr.branch_sample_type, names_of(BranchSample))
    if attr.sample_regs_user:
        yield "sample_regs_user", _hex(attr.sample_regs_user)
    yield from _numbers(attr, ("sample_stack_user", "clockid"))
    if attr.sample_regs_intr:
        yield "sample_regs_intr", _hex(attr.sample_regs_intr)
    yield from _numbers(attr, ("aux_watermark", "sample_max_stack", "aux_sample_size", "sig_data"))


def _numbers(attr: EventAttr, fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in fields:
        value = getattr(attr, name)
        if value:
            yield name, str(value)


def _hex(value: int) -> str:
    return f"{value:#x}" if value else "0"


def _with_name(number: str, name: str) -> str:
    return f"{number} ({name})" if name else number


def _bits(value: int, names: Mapping[int, str]) -> str:
    return "|".join(name for bit, name in names.items() if value & bit)


def _type_name(number: int) -> str:
    return _member_name("PERF_TYPE_", PerfType, number)


def _config_name(attr: EventAttr, names: EventNames) -> str:
    if attr.type == PerfType.TRACEPOINT:
        return names.tracepoint(attr.config)
    if attr.type == PerfType.HARDWARE:
        return _member_name("PERF_COUNT_HW_", HardwareId, attr.config)
    if attr.type == PerfType.SOFTWARE:
        return _member_name("PERF_COUNT_SW_", SoftwareId, attr.config)
    if attr.type == PerfType.HW_CACHE:
        return _cache_name(attr.config)
    return ""


def _member_name(prefix: str, kind: type, number: int) -> str:
    name = names_of(kind).get(number)
    return prefix + name if name else ""


def _cache_name(config: int) -> str:
    cache, op, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    try:
        parts = f"RESULT_{names_of(CacheResult)[result]}", f"OP_{names_of(CacheOp)[op]}", names_of(CacheId)[cache]
    except KeyError:
        return ""
    return " | ".join(f"PERF_COUNT_HW_CACHE_{part}" for part in parts)


# The events of a recording as `perf evlist` lists them, perf 6.12's text byte for byte.


def evlist_lines(
    recording: Recorded,
    *,
    verbose: bool = False,
    frequency: bool = False,
    groups: bool = False,
    trace_fields: bool = False,
    names: EventNames | None = None,
) -> Iterator[str]:
    """Yield a line for each event (or, with `groups`, group), then perf's tips.

    Args:
        verbose: add all fields of the attr (-v).
        frequency: add the sampling frequency or period (-F).
        groups: one line for each group.
        trace_fields: add the fields of tracepoints.
        names: of the numbers in attrs.
    """
    data = recording.data
    names = names or FileNames(data)
    events = _as_perf_has_them(data)
    for event in events:
        if groups:
            if event.leader == event.index:
                yield _group(event, events)
            continue
        parts = []
        if verbose:
            parts += [f"{label}: {value}" for label, value in attr_fields(event.attr, names)]
        elif frequency:
            parts.append(f"{'sample_freq' if event.attr.freq else 'sample_period'}={event.attr.sample_freq}")
        if trace_fields:
            parts += _trace_fields(event, data)
        yield event.name + _after_colon(parts)
    if any(event.attr.type == PerfType.TRACEPOINT for event in events) and not trace_fields:
        yield "# Tip: use 'perf evlist --trace-fields' to show fields for tracepoint events"
    if any(event.leader != event.index for event in events) and not groups:
        yield "# Tip: use 'perf evlist -g' to show group information"


def _as_perf_has_them(data: PerfData) -> list[FileEvent]:
    """Return the events; those of a pipe without the names and groups after the attrs: perf stops reading before them."""
    if not data.is_pipe:
        return data.events
    from copy import copy  # only pipes need copies

    events = []
    for event, record in zip(map(copy, data.events), data.attr_records, strict=True):
        event.attr = _attr_in_memory(event.attr, record, data.endian)
        event.name = default_name(event.attr)
        event.leader = event.index
        events.append(event)
    return events


def _attr_in_memory(attr: EventAttr, record: bytes, endian: str) -> EventAttr:
    """Return an attr of a pipe as perf has it: bytes after a short attr in its record show as its missing fields."""
    if attr.size >= ATTR_SIZE_VER8:
        return attr
    from perfpy.views.record_text import swap_record

    record = record.ljust(8 + ATTR_SIZE_VER8, b"\0")
    if endian != NATIVE_ENDIAN:
        kind, misc, _ = HEADER[endian].unpack_from(record)
        record = swap_record(kind, misc, record)
    padded = EventAttr.unpack(record[8 : 8 + ATTR_SIZE_VER8], NATIVE_ENDIAN)
    padded.size = attr.size
    return padded


def _group(leader: FileEvent, events: list[FileEvent]) -> str:
    members = [event.name for event in events if event.leader == leader.index]
    listed = ",".join(members)
    return f"{leader.group_name}{{{listed}}}" if len(members) > 1 else listed


def _trace_fields(event: FileEvent, data: PerfData) -> list[str]:
    if event.attr.type != PerfType.TRACEPOINT:
        return ["(not a tracepoint)"]
    try:
        fields = data.tracing.formats[event.attr.config].fields if data.tracing else ()
    except (KeyError, ValueError):
        fields = ()
    if not fields:
        return ["(no trace field)"]
    return ["trace_fields: " + ",".join(field.name for field in fields)]


def _after_colon(parts: list[str]) -> str:
    return ": " + ", ".join(parts) if parts else ""
