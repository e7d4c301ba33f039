"""The header of a recording as perf prints it: --header, --header-only, -I.

The text is perf 6.12's, byte for byte; features that it lacks have the text of perf 7.
"""

from __future__ import annotations

import time

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.perfdata.container.features import FEATURE_NAMES, NEWER_FEATURES, Feature, key_of
from perfpy.perfdata.container.header import FileHeader
from perfpy.perfdata.container.machine_features import NAMED_DOMAINS
from perfpy.views.metadata.attr import FileNames, attr_fields

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Final

    from perfpy.perfdata.container.feature_values import (
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
    from perfpy.views.metadata.attr import EventNames
    from perfpy.views.recorded import Recorded

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
_LONGEST_BITMAP: Final = 99  # characters of a memory node's blocks; perf truncates there


def header_lines(recording: Recorded, *, full: bool = False, names: EventNames | None = None) -> Iterator[str]:
    """Yield the header's lines, frame included.

    full: -I, include the topology; names: for the numbers in events' attrs
    (default: those in the recording).
    """
    data = recording.data
    sections = _Sections(data, names or FileNames(data))
    yield FRAME
    yield from _file_lines(data)
    if data.is_pipe:
        yield FRAME
        yield "#"
    for number in data.feature_sections:
        if number in FEATURE_NAMES:
            yield from sections.lines(number, full)
    if not data.is_pipe:
        there = _features_of(data)
        newer = any(feature >= NEWER_FEATURES for feature in FEATURE_NAMES if feature in there)  # the perf that wrote it knows all features
        missing = [name for feature, name in FEATURE_NAMES.items() if feature not in there and (newer or feature < NEWER_FEATURES)]
        yield "# missing features: " + "".join(f"{name} " for name in missing)
        yield FRAME
        yield "#"


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
            Feature.PMU_CAPS: (_pmu_caps, False),
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

    def _bpf_programs(self, programs: Any) -> Iterator[str]:
        from perfpy.perfdata.container.bpf_programs import bpf_functions

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


def _pmu_caps(pmus: tuple[PmuCaps, ...]) -> Iterator[str]:
    for pmu in pmus:
        yield from _caps(pmu.pmu, pmu.caps)


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
