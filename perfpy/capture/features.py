"""The header's feature sections of one recording, the same as perf's, and the facts about this machine in them."""

from __future__ import annotations

import os
import re
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.perfdata.header import (
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
    Feature,
    MemNode,
    MemTopology,
    NumaNode,
    PmuCaps,
    PmuMapping,
    SampleTime,
    encode_feature,
)
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.framing import HeaderBuildId
    from perfpy.capture.counters import OpenEvent
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.kernel.loaded_bpf import BpfProgramInfo
    from perfpy.perfdata.writer import Packer

FOLDER_VERSION = 1

_ANONYMOUS_GROUP = "{anon_group}"


_COMPRESSION_VERSION = 1


_ZSTD = 1


_CLOCK_DATA_VERSION = 1


class RecordedFeatures:
    """Collects the sections. Create it when the recording starts, because it compares the clocks. attrs are the events'."""

    def __init__(self, counters: SampleCounters, options: RecordOptions, attrs: Sequence[EventAttr]) -> None:
        self._attrs = attrs
        self._counters = counters
        self._options = options
        self._fixed: dict[int, Any] = {}
        clock = options.sampling.clockid
        if clock is not None:
            self._fixed[Feature.CLOCKID] = int(time.clock_getres(clock) * 1e9)
            self._fixed[Feature.CLOCK_DATA] = ClockData(_CLOCK_DATA_VERSION, clock, time.time_ns(), time.clock_gettime_ns(clock))
        if options.buffers.threads:  # perf then looks for a file for each CPU
            self._fixed[Feature.DIR_FORMAT] = FOLDER_VERSION

    def collect(
        self,
        *,
        tracing: bytes = b"",
        times: tuple[int, int] = (0, 0),
        build_ids: Sequence[HeaderBuildId] = (),
        programs: Sequence[BpfProgramInfo] = (),
        program_types: Mapping[int, bytes] = MappingProxyType({}),
        packer: Packer | None = None,
        mmap_len: int = 0,
    ) -> dict[int, bytes]:
        """Return all sections. times are those of the first and last sample; mmap_len is the longest compressed piece."""
        events = self._counters.events
        values: dict[int, Any] = Environment().features() | self._fixed
        values |= {
            Feature.VERSION: f"perfpy {__version__}",
            Feature.CMDLINE: self._options.command_line,
            Feature.EVENT_DESC: tuple(
                EventDesc(attr, event.name, self._counters.ids(event)) for event, attr in zip(events, self._attrs, strict=True)
            ),
            Feature.SAMPLE_TIME: SampleTime(*times),
            Feature.BPF_PROG_INFO: tuple(BpfProgram(*program.with_arrays()) for program in programs),
            Feature.BPF_BTF: tuple(BpfTypes(ident, data) for ident, data in program_types.items()),
        }
        if any(event.attr.branch_sample_type for event in events):
            values[Feature.BRANCH_STACK] = True
        if self._counters.aux:
            values[Feature.AUXTRACE] = tuple(self._counters.aux.index)
        groups = event_groups(events)
        if groups:
            values[Feature.GROUP_DESC] = groups
        if build_ids:
            values[Feature.BUILD_ID] = tuple(build_ids)
        if packer:
            level = self._options.output.compression_level
            values[Feature.COMPRESSED] = Compression(_COMPRESSION_VERSION, _ZSTD, level, round(packer.ratio), mmap_len)
        sections = {number: encode_feature(number, value, NATIVE_ENDIAN) for number, value in values.items()}
        if tracing:
            sections[Feature.TRACING_DATA] = tracing
        return sections


def event_groups(events: Sequence[OpenEvent]) -> tuple[EventGroup, ...]:
    """Return the groups of more than one event."""
    groups = []
    for index, event in enumerate(events):
        members = sum(other.leader is event for other in events)
        if event.is_leader and members > 1:
            groups.append(EventGroup(event.event.group_name or _ANONYMOUS_GROUP, index, members))
    return tuple(groups)


_CPU: Final = "devices/system/cpu"


_NODE: Final = "devices/system/node"


_MEMORY: Final = "devices/system/memory"


_PMUS: Final = "bus/event_source/devices"


# The label of the model in /proc/cpuinfo, by machine name.
_MODEL_LABELS: Final = {"ppc64": "cpu", "ppc64le": "cpu", "s390x": "vendor_id", "armv7l": "model name", "riscv64": "uarch"}


_RAW_PMU: Final = PmuMapping(4, "cpu")  # PERF_TYPE_RAW: perf's name of the CPU's PMU if the kernel names none


_CORE_PMUS: Final = re.compile(r"cpu|cpu_core|cpu_atom|armv\d.*")


class Environment:
    """The machine whose files are below `proc` and `sys`."""

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._proc = proc
        self._sys = sys

    def features(self) -> dict[int, Any]:
        """Return all features that do not depend on the recording."""
        system = os.uname()
        values: dict[int, Any] = {
            Feature.HOSTNAME: system.nodename,
            Feature.OSRELEASE: system.release,
            Feature.ARCH: system.machine,
            Feature.NRCPUS: CpuCount(os.sysconf("SC_NPROCESSORS_CONF"), os.sysconf("SC_NPROCESSORS_ONLN")),
            Feature.CPUDESC: self.cpu_description(system.machine),
            Feature.CPUID: self.cpu_id(system.machine),
            Feature.TOTAL_MEM: self.total_memory(),
            Feature.CPU_TOPOLOGY: self.cpu_topology(),
            Feature.NUMA_TOPOLOGY: self.numa_nodes(),
            Feature.PMU_MAPPINGS: self.pmus(),
            Feature.CACHE: self.caches(),
            Feature.MEM_TOPOLOGY: self.memory_blocks(),
            Feature.CPU_PMU_CAPS: self._pmu_caps("cpu"),
            Feature.PMU_CAPS: self.pmu_caps(),
        }
        return {number: value for number, value in values.items() if value is not None}

    def cpu_description(self, machine: str) -> str | None:
        """Return the CPU's name with single spaces."""
        names = self._cpuinfo(_MODEL_LABELS.get(machine, "model name"))
        return " ".join(names[0].split()) if names else None

    def cpu_id(self, machine: str) -> str | None:
        """Return perf's identification of the CPU: vendor,family,model,stepping on x86, MIDR on arm64."""
        if machine in ("x86_64", "i686"):
            parts = [self._cpuinfo(label) for label in ("vendor_id", "cpu family", "model", "stepping")]
            return ",".join(part[0] for part in parts) if all(parts) else None
        if machine == "aarch64":
            midr = self._read(f"{_CPU}/cpu0/regs/identification/midr_el1")
            return f"0x{int(midr, 16) & ~0xF0000F:016x}" if midr else None
        return None

    def _cpuinfo(self, label: str) -> list[str]:
        """Return the value of a label in /proc/cpuinfo, of the first CPU only."""
        try:
            with open(f"{self._proc}/cpuinfo", encoding="utf-8", errors="replace") as file:
                for line in file:
                    name, colon, value = line.partition(":")
                    if colon and name.strip() == label:
                        return [value.strip()]
        except OSError:
            pass
        return []

    def total_memory(self) -> int | None:
        """Return MemTotal in kB."""
        try:
            with open(f"{self._proc}/meminfo") as file:
                return int(file.readline().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def cpu_topology(self) -> CpuTopology | None:
        """Return which CPUs share a socket, a die and a core, and the location of each CPU."""
        cpus = range(os.sysconf("SC_NPROCESSORS_CONF"))

        def lists(*names: str) -> tuple[str, ...]:
            first_texts = (next((text for name in names if (text := self._read(f"{_CPU}/cpu{cpu}/topology/{name}"))), "") for cpu in cpus)
            return tuple(dict.fromkeys(text for text in first_texts if text))

        cores = lists("package_cpus_list", "core_siblings_list")
        threads = lists("core_cpus_list", "thread_siblings_list")
        dies = lists("die_cpus_list") if os.uname().machine in ("x86_64", "s390x") else ()
        rows = tuple(
            CpuLocation(
                self._number(f"{_CPU}/cpu{cpu}/topology/core_id"),
                self._number(f"{_CPU}/cpu{cpu}/topology/physical_package_id"),
                self._number(f"{_CPU}/cpu{cpu}/topology/die_id") if dies else None,
            )
            for cpu in cpus
        )
        return CpuTopology(cores, threads, rows, dies) if cores else None

    def numa_nodes(self) -> tuple[NumaNode, ...] | None:
        """Return each node's memory in kB, and its CPUs."""
        nodes = []
        for number in self._entry_numbers(_NODE, "node"):
            meminfo = self._read(f"{_NODE}/node{number}/meminfo")
            total, free = (re.search(rf"{label}:\s*(\d+)", meminfo) for label in ("MemTotal", "MemFree"))
            if total and free:
                nodes.append(NumaNode(number, int(total[1]), int(free[1]), self._read(f"{_NODE}/node{number}/cpulist")))
        return tuple(nodes) or None

    def pmus(self) -> tuple[PmuMapping, ...]:
        """Return the kernel's PMUs: the CPU's first, then by name."""
        pmus = []
        for name in self._entries(_PMUS):
            number = self._read(f"{_PMUS}/{name}/type")
            if number:
                pmus.append(PmuMapping(int(number), name))
        core = [pmu for pmu in pmus if _CORE_PMUS.fullmatch(pmu.name)]
        others = [pmu for pmu in pmus if pmu not in core]
        return (*sorted(core or [_RAW_PMU], key=lambda pmu: pmu.name), *sorted(others, key=lambda pmu: pmu.name))

    def _pmu_caps(self, pmu: str) -> tuple[tuple[str, str], ...]:
        folder = f"{_PMUS}/{pmu}/caps"
        return tuple((name, self._read(f"{folder}/{name}")) for name in sorted(self._entries(folder)))

    def pmu_caps(self) -> tuple[PmuCaps, ...]:
        """Return the capabilities of the PMUs other than the CPU's."""
        names = (pmu.name for pmu in self.pmus() if pmu.name != "cpu")
        return tuple(PmuCaps(name, caps) for name in names if (caps := self._pmu_caps(name)))

    def caches(self) -> tuple[CacheLevel, ...] | None:
        """Return the distinct caches, by level."""
        caches: dict[CacheLevel, None] = {}
        for cpu in self._entry_numbers(_CPU, "cpu"):
            for index in self._entry_numbers(f"{_CPU}/cpu{cpu}/cache", "index"):
                folder = f"{_CPU}/cpu{cpu}/cache/index{index}"
                cache = CacheLevel(
                    self._number(f"{folder}/level"),
                    self._number(f"{folder}/coherency_line_size"),
                    self._number(f"{folder}/number_of_sets"),
                    self._number(f"{folder}/ways_of_associativity"),
                    self._read(f"{folder}/type"),
                    self._read(f"{folder}/size"),
                    self._read(f"{folder}/shared_cpu_list"),
                )
                caches[cache] = None
        return tuple(sorted(caches, key=lambda cache: cache.level)) or None

    def memory_blocks(self) -> MemTopology | None:
        """Return the memory blocks of each node."""
        size = self._read(f"{_MEMORY}/block_size_bytes")
        if not size:
            return None
        nodes = []
        for number in self._entry_numbers(_NODE, "node"):
            blocks = self._entry_numbers(f"{_NODE}/node{number}", "memory")
            bits = max(blocks, default=-1) + 1
            words = [0] * ((bits + 63) // 64)
            for block in blocks:
                words[block // 64] |= 1 << block % 64
            nodes.append(MemNode(number, bits, tuple(words)))
        return MemTopology(1, int(size, 16), tuple(nodes))

    def _entries(self, folder: str) -> list[str]:
        try:
            return os.listdir(f"{self._sys}/{folder}")
        except OSError:
            return []

    def _entry_numbers(self, folder: str, prefix: str) -> list[int]:
        """Return the numbers of the entries PREFIXn, ascending."""
        start = len(prefix)
        return sorted(int(name[start:]) for name in self._entries(folder) if name.startswith(prefix) and name[start:].isdecimal())

    def _read(self, path: str) -> str:
        try:
            with open(f"{self._sys}/{path}", encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def _number(self, path: str) -> int:
        """Read a number below 2^32 (the kernel's "unknown", -1, wraps); 0 if there is none."""
        text = self._read(path)
        return int(text) & 0xFFFFFFFF if text.lstrip("-").isdecimal() else 0
