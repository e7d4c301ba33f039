"""Synthesize the records that the kernel would have written for the existing tasks, from /proc.

The order is perf's: maps of the kernel and its modules, cgroups, then for each task FORK, NAMESPACES, COMM and for each process
MMAP2. Each record has an all-zero sample_id, so that it sorts before all timed records.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi import perf_records
from perfpy.abi.flags import (
    MISC_FORK_EXEC,
    MISC_GUEST_KERNEL,
    MISC_KERNEL,
    MISC_MMAP_BUILD_ID,
    MISC_MMAP_DATA,
    MISC_USER,
    NATIVE_ENDIAN,
    PerfType,
    SampleType,
)
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perf_records import (
    EVENT_UPDATE_CPUS,
    EVENT_UPDATE_NAME,
    EVENT_UPDATE_SCALE,
    EVENT_UPDATE_UNIT,
    CpuMap,
    EventUpdate,
    FinishedInit,
    IdIndex,
    ThreadMap,
    TimeConv,
)
from perfpy.abi.records import (
    NO_ID,
    BpfEvent,
    Cgroup,
    Comm,
    Fork,
    IdLayout,
    KernelRecord,
    Ksymbol,
    LostSamples,
    Mmap,
    Mmap2,
    Namespaces,
    SampleId,
    encode,
)
from perfpy.capture.record_options import STANDARD_OUTPUT
from perfpy.capture.targets import online_cpus
from perfpy.kernel.procfs import PROT_EXEC, PROT_READ, Module
from perfpy.kernel.ring import PAGE_SIZE
from perfpy.perfdata.bpf_programs import kernel_name, program_function_names
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
    HybridPmu,
    MemNode,
    MemTopology,
    NumaNode,
    PmuCaps,
    PmuMapping,
    SampleTime,
    encode_feature,
)
from perfpy.symbols.dso import seen_by
from perfpy.symbols.tasks import is_move_target
from perfpy.untrusted.destinations import own
from perfpy.untrusted.files import below, read_named, read_regular, trusted_file_owners
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfpy.abi.attr import CountedEvent, EventAttr
    from perfpy.abi.framing import HeaderBuildId
    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.record_options import GuestOptions, RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.kernel.loaded_bpf import BpfProgramInfo
    from perfpy.kernel.procfs import ProcFs, ProcMapping
    from perfpy.kernel.ring import Ring
    from perfpy.kernel.sysfs import Tracefs
    from perfpy.perfdata.event_format import TracingData
    from perfpy.perfdata.writer import Packer


KERNEL: Final = "[kernel.kallsyms]"
_KERNEL_PID: Final = 0xFFFFFFFF
_ANONYMOUS: Final = "//anon"
_HUGETLB: Final = 0x40000  # MAP_HUGETLB
_PAGE_MASK: Final = 4095
_MOVED_TEXT_SECONDS: Final = 1.0  # for the moved text of all processes
_KSYMBOL_BPF: Final = 1  # PERF_RECORD_KSYMBOL_TYPE_BPF
_BPF_LOADED: Final = 1  # PERF_BPF_EVENT_PROG_LOAD


def id_layout(sample_type: int) -> IdLayout:
    """Return the trailer of synthesized records: the first event's."""
    return IdLayout(sample_type, NATIVE_ENDIAN) if sample_type & ~(SampleType.IP | SampleType.PERIOD) else NO_ID


class Synthesis:
    """Synthesizes records from /proc.

    Args:
        layout: the sample_id trailer.
        namespaces: write NAMESPACES records, too.
        mmaps, data_mmaps: write executable (and readable) mappings.
        build_id: path -> build-id, for MMAP2 records with build-ids.
        module_text: module -> start of its .text, for machines on which other sections come before it.
    """

    def __init__(
        self,
        procfs: ProcFs,
        layout: IdLayout,
        *,
        namespaces: bool = False,
        mmaps: bool = True,
        data_mmaps: bool = False,
        build_id: Callable[[str], bytes] | None = None,
        module_text: Callable[[str], int] | None = None,
        most_map_bytes: int = 0,
    ) -> None:
        self._procfs = procfs
        self._most_map_bytes = most_map_bytes
        self._layout = layout
        self._namespaces = namespaces
        self._mmaps = mmaps
        self._data_mmaps = data_mmaps
        self._build_id = build_id
        self._module_text = module_text
        self._moved_text_seconds = _MOVED_TEXT_SECONDS

    def _encode(self, record: KernelRecord) -> bytes:
        return encode(record, self._layout, NATIVE_ENDIAN)

    def kernel(self) -> Iterator[bytes]:
        """Yield the kernel's map, and one for each module; none if addresses are hidden."""
        extent = kernel_extent(self._procfs)
        if extent is None:
            return
        size = extent.end - extent.start
        yield self._kernel_map(extent.start, size, extent.start, KERNEL + extent.symbol, KERNEL)
        paths = ModulePaths()
        for module in sorted(self._procfs.modules(), key=lambda module: module.address):
            end = module.address + ((module.size + _PAGE_MASK) & ~_PAGE_MASK)
            start = (self._module_text(module.name) if self._module_text else 0) or module.address
            path = paths.find(module.name)
            yield self._kernel_map(start, end - start, 0, path, path)

    def guest_kernel(self, guest: GuestKernel) -> Iterator[bytes]:
        """Yield the maps of the kernel of a virtual machine, and of its modules."""
        for module in sorted(guest.modules, key=lambda module: module.address):
            yield self._encode(Mmap(MISC_GUEST_KERNEL, guest.pid, 0, module.address, module.size, 0, f"[{module.name}]"))
        if guest.extent:
            symbol, start, end = guest.extent
            name = f"[guest.kernel.kallsyms{f'.{guest.pid}' if guest.pid else ''}]{symbol}"
            yield self._encode(Mmap(MISC_GUEST_KERNEL, guest.pid, 0, start, end - start, start, name))

    def _kernel_map(self, start: int, size: int, pgoff: int, name: str, path: str) -> bytes:
        build_id = self._build_id(path) if self._build_id else b""
        if build_id:
            misc = MISC_KERNEL | MISC_MMAP_BUILD_ID
            return self._encode(Mmap2(misc, _KERNEL_PID, 0, start, size, pgoff, 0, 0, 0, 0, 0, 0, name, build_id))
        return self._encode(Mmap(MISC_KERNEL, _KERNEL_PID, 0, start, size, pgoff, name))

    def bpf_programs(self, programs: Iterable[BpfProgramInfo], types: dict[int, bytes]) -> Iterator[bytes]:
        """Yield the symbols and load events of BPF programs; types has the BTF with their functions' names."""
        for program in programs:
            names = program_function_names(program.name, len(program.functions), program.function_types, types.get(program.btf_id, b""))
            for (address, length), tag, name in zip(program.functions, program.tags, names, strict=True):
                yield self._encode(Ksymbol(0, address, length, _KSYMBOL_BPF, 0, kernel_name(tag, name)))
            yield self._encode(BpfEvent(0, _BPF_LOADED, 0, program.id, program.tag))

    def cgroups(self, root: str) -> Iterator[bytes]:
        """Yield every cgroup of the hierarchy mounted at `root`; its id is its folder's inode number."""
        for folder, _, _ in os.walk(root):
            try:
                number = os.stat(folder).st_ino
            except OSError:  # removed meanwhile
                continue
            yield self._encode(Cgroup(0, number, folder[len(root) :] or "/"))

    def comm(self, tid: int) -> Iterator[bytes]:
        """Yield a task's COMM and NAMESPACES."""
        status = self._procfs.status(tid)
        if status is not None:
            yield self._encode(Comm(0, status.tgid, tid, status.comm))
            yield from self._namespaces_of(status.tgid, tid)

    def threads(self, tids: Sequence[int]) -> Iterator[bytes]:
        """Yield threads without FORK records, and their processes' maps."""
        chosen_tids = set(tids)
        synthesized_leaders: set[int] = set()
        for tid in tids:
            status = self._procfs.status(tid)
            if status is None:
                continue
            yield from self.comm(tid)
            if tid == status.tgid:
                yield from self.maps_of(tid)
            elif status.tgid not in chosen_tids and status.tgid not in synthesized_leaders:
                synthesized_leaders.add(status.tgid)
                yield from self.comm(status.tgid)
                yield from self.maps_of(status.tgid)

    def processes(self) -> Iterator[bytes]:
        """Yield every task of the system."""
        for pid in self._procfs.processes():
            for tid in self._procfs.threads(pid):
                yield from self._task(pid, tid)

    def _task(self, pid: int, tid: int) -> Iterator[bytes]:
        status = self._procfs.status(tid)
        if status is None:
            return
        parent = status.ppid if tid == status.tgid else status.tgid
        yield self._encode(Fork(MISC_FORK_EXEC, status.tgid, parent, tid, parent, 0))
        yield from self._namespaces_of(status.tgid, tid)
        yield self._encode(Comm(0, status.tgid, tid, status.comm))
        if tid == pid and not status.kernel_thread:
            yield from self.maps_of(pid)

    def _namespaces_of(self, tgid: int, tid: int) -> Iterator[bytes]:
        if self._namespaces:
            yield self._encode(Namespaces(0, tgid, tid, self._procfs.namespaces(tid)))

    def maps_of(self, pid: int) -> Iterator[bytes]:
        """Yield the mappings of a process, up to the limit."""
        if not self._mmaps:
            return
        size, most, may_have_moved = 0, self._most_map_bytes, False
        lines = list(self._procfs.map_lines(pid))  # the kernel takes longer to write them than it takes to read them twice
        for mapping in self._procfs.maps(pid, data=self._data_mmaps, lines=lines):
            record = self._encode(self._mmap2(pid, mapping))
            size += len(record)
            if most and size > most:
                return
            yield record
            if mapping.prot & PROT_EXEC and is_move_target(mapping.path):
                may_have_moved = True
        if may_have_moved and self._moved_text_seconds > 0:
            from perfpy.capture.moved_text import MOST_SECONDS, find_moved_text  # few processes have code in memory

            begun, seconds = time.monotonic(), min(self._moved_text_seconds, MOST_SECONDS)
            moved = find_moved_text(pid, self._procfs.memory_with_code(pid, is_move_target, lines), seconds)
            self._moved_text_seconds -= time.monotonic() - begun
            for mapping in moved:
                yield self._encode(self._mmap2(pid, mapping))

    def _mmap2(self, pid: int, mapping: ProcMapping) -> Mmap2:
        misc = MISC_USER
        if not mapping.prot & PROT_EXEC and mapping.prot & PROT_READ:
            misc |= MISC_MMAP_DATA
        name = mapping.path or _ANONYMOUS
        flags = mapping.flags
        if name.startswith("/anon_hugepage"):
            name, flags = _ANONYMOUS, flags | _HUGETLB
        size = mapping.end - mapping.start
        build_id = self._build_id(seen_by(pid, name)) if self._build_id else b""
        if build_id:
            misc |= MISC_MMAP_BUILD_ID
        return Mmap2(
            misc, pid, pid, mapping.start, size, mapping.offset, mapping.major, mapping.minor, mapping.inode, 0,
            mapping.prot, flags, name, build_id,
        )  # fmt: skip


class ModulePaths:
    """The files of the running kernel's modules, named as perf does."""

    def __init__(self, root: str = "") -> None:
        self._root = root or f"/lib/modules/{os.uname().release}"
        self._paths: dict[str, str] | None = None

    def find(self, module: str) -> str:
        """Return the path of a module's file; [NAME] if there is none."""
        if self._paths is None:
            self._paths = {}
            for folder, _, files in os.walk(self._root):
                for name in files:
                    stem, _, suffix = name.partition(".ko")
                    if suffix in ("", ".gz", ".xz", ".zst") and name != stem:
                        self._paths[stem.replace("-", "_")] = f"{folder}/{name}"
        return self._paths.get(module.replace("-", "_"), f"[{module}]")


_LARGEST: Final = 1 << 10
_START_SYMBOLS: Final = ("_text", "_stext")
_END_SYMBOLS: Final = ("_edata", "_etext")


class KernelExtent(NamedTuple):
    """The kernel's text: the symbol at its start, the start, and the first address after it."""

    symbol: str
    start: int
    end: int


def kernel_extent(procfs: ProcFs, cache: str | None = None) -> KernelExtent | None:
    """Return the kernel's extent, None if addresses are hidden. cache is the file with its end ("": none; None: the user's)."""
    starts = procfs.kernel_symbols(_START_SYMBOLS)
    symbol = next((name for name in _START_SYMBOLS if name in starts), "")
    if not symbol:
        return None
    start = starts[symbol]
    if cache is None:
        cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "perfpy", "kernel-end")
    key = f"{procfs.boot_id()} {start:x}"
    end = _read_cache(cache, key)
    if end is None:
        ends = procfs.kernel_symbols(_END_SYMBOLS)
        end = next((ends[name] for name in _END_SYMBOLS if name in ends), start)
        _write_cache(cache, key, end)
    return KernelExtent(symbol, start, end)


_MOST_SYMBOLS: Final = 1 << 26  # bytes of a guest's kallsyms: four times those of a large kernel
_KERNEL_SYMBOL: Final = rb"(?m)^([0-9a-f]{1,16}) \S (_text|_stext|_etext|_edata)$"
_MODULE: Final = rb"(?m)^([^\s/]{1,64}) (\d{1,10}) .* 0x([0-9a-f]{1,16})( \(\w+\))?$"


class GuestKernel(NamedTuple):
    """The kernel of a virtual machine.

    Attributes:
        pid: its hypervisor's; 0 for the only guest
        extent: None if it is unknown
    """

    pid: int
    extent: KernelExtent | None
    modules: list[Module]


def guest_kernels(options: GuestOptions, tell: Callable[[str], None]) -> list[GuestKernel]:
    """Return the kernels of the virtual machines whose files the options name. Report each that has no addresses to tell."""
    sources = [(0, options.guestkallsyms, options.guestmodules)] if options.guestkallsyms or options.guestmodules else []
    if options.guestmount:
        try:
            pids = sorted(int(name) for name in os.listdir(options.guestmount) if name.isascii() and name.isdecimal() and len(name) < 10)
        except OSError as error:
            tell(f"--guestmount {options.guestmount}: {error.strerror}; guest kernels are recorded without names")
            pids = []
        folders = [(pid, below(options.guestmount, f"{pid}/proc")) for pid in pids]
        sources += [(pid, below(folder, "kallsyms"), below(folder, "modules")) for pid, folder in folders]
    kernels = []
    for pid, symbols, modules in sources:
        guest = GuestKernel(pid, _guest_extent(_guest_file(symbols, pid)), _guest_modules(_guest_file(modules, pid)))
        if guest.extent is None:
            tell(f"guest {pid}: {symbols or '--guestkallsyms'} has no addresses of a kernel; its kernel is recorded without names")
        kernels.append(guest)
    return kernels


def _guest_file(path: str, pid: int) -> bytes:
    """Return a file; b"" if it cannot be read. A guest chooses what is in its folder: no FIFO or file of the host's kernel is read."""
    try:
        return (read_regular(path, limit=_MOST_SYMBOLS) if pid else read_named(path, limit=_MOST_SYMBOLS)) if path else b""
    except OSError:
        return b""


def _guest_extent(kallsyms: bytes) -> KernelExtent | None:
    addresses = {symbol.decode(): int(address, 16) for address, symbol in re.findall(_KERNEL_SYMBOL, kallsyms)}
    symbol = next((name for name in _START_SYMBOLS if addresses.get(name)), "")
    end = next((addresses[name] for name in _END_SYMBOLS if name in addresses), 0)
    return KernelExtent(symbol, addresses[symbol], end) if symbol and end > addresses[symbol] else None


def _guest_modules(modules: bytes) -> list[Module]:
    found = [Module(name.decode(errors="replace"), int(size), int(address, 16)) for name, size, address, _ in re.findall(_MODULE, modules)]
    return [module for module in found if 0 < module.address < (1 << 64) - module.size]


def _read_cache(path: str, key: str) -> int | None:
    try:
        data = read_regular(path, owners=trusted_file_owners(), limit=_LARGEST)
        cached_key, _, end = data.decode().rpartition(" ")
        return int(end, 16) if cached_key == key else None
    except (OSError, ValueError):
        return None


def _write_cache(path: str, key: str, end: int) -> None:
    """Write the cache; errors are ignored, because the end can be read again."""
    if not path:
        return
    folder, name = os.path.split(path)
    temporary = f"{name}.{os.getpid()}"
    with contextlib.suppress(OSError), own(folder) as ours:
        with open(ours.create(temporary), "w") as file:
            file.write(f"{key} {end:x}")
        os.rename(temporary, name, src_dir_fd=ours.fd, dst_dir_fd=ours.fd)


# Records about the recording itself, which perf writes before the samples: TIME_CONV, ID_INDEX, EVENT_UPDATE, THREAD_MAP, CPU_MAP; and
# LOST_SAMPLES after them.

_IDS_PER_RECORD: Final = 2000  # an entry has 32 bytes, a record at most 65535
_UNSIGNED: Final = (1 << 64) - 1


def _encode(record: perf_records.UserRecord) -> bytes:
    return perf_records.encode(record, NATIVE_ENDIAN)


FINISHED_INIT: Final = _encode(FinishedInit(0))


def time_conversion(ring: Ring) -> Iterator[bytes]:
    """Yield the conversion from the CPU's cycle counter to perf time, if the kernel has one."""
    clock = ring.clock()
    if clock.zero:
        short = (clock.time_cycles, clock.time_mask, int(clock.zero), int(clock.short))
        yield _encode(TimeConv(0, clock.time_shift, clock.time_mult, clock.time_zero, *short))


def id_index(counters: SampleCounters) -> Iterator[bytes]:
    """Yield the CPU and thread of each id."""
    entries = counters.id_index()
    for offset in range(0, len(entries), _IDS_PER_RECORD):
        yield _encode(IdIndex(0, entries[offset : offset + _IDS_PER_RECORD]))


def event_updates(counters: SampleCounters, *, pipe: bool) -> Iterator[bytes]:
    """Yield the encoded updates of all events."""
    for event in counters.events:
        ident = next(iter(counters.ids(event)), None)
        if ident is not None:
            yield from map(_encode, updates_of(event, ident, pipe=pipe))


def updates_of(event: CountedEvent, ident: int, *, pipe: bool) -> Iterator[EventUpdate]:
    """Yield an event's unit, scale and the CPUs of its PMU; for a pipe also its name, which a file has in its features."""
    if event.unit:
        yield EventUpdate(0, EVENT_UPDATE_UNIT, ident, event.unit)
    if event.scale != 1.0:
        yield EventUpdate(0, EVENT_UPDATE_SCALE, ident, event.scale)
    cpus, of_type = event.cpus, event.attr.type
    is_of_core = event.pmu == "cpu" or of_type == PerfType.RAW or (of_type == PerfType.HW_CACHE and not event.is_named)
    if cpus is None and is_of_core:
        cpus = online_cpus()  # the only core PMU has no list of its own
    if cpus is not None:
        yield EventUpdate(0, EVENT_UPDATE_CPUS, ident, cpus)
    if pipe:
        yield EventUpdate(0, EVENT_UPDATE_NAME, ident, event.name)


def thread_map(counters: SampleCounters) -> bytes:
    """Return the recorded threads (ANY: all)."""
    return _encode(ThreadMap(0, tuple((tid & _UNSIGNED, "") for tid in counters.tids)))


def cpu_map(counters: SampleCounters) -> bytes:
    """Return the recorded CPUs."""
    return _encode(CpuMap(0, counters.cpus))


def lost_samples(counters: SampleCounters, layout: IdLayout) -> Iterator[tuple[OpenEvent, int, bytes]]:
    """Yield the event, the number of lost samples and its record, for each counter that lost any."""
    for opened, lost in counters.lost():
        target = opened.target
        sample_id = SampleId(cpu=max(target.cpu, 0), tid=max(target.tid, 0), id=opened.id, identifier=opened.id)
        yield opened.event, lost, encode(LostSamples(0, lost, sample_id), layout, NATIVE_ENDIAN)


# The formats of recorded tracepoints, from tracefs, for the file's TRACING_DATA section.

_VERSION: Final = "0.6"
_FTRACE: Final = "ftrace"  # its formats are separate from the other systems'


def tracing_data(tracefs: Tracefs, tracepoints: Iterable[tuple[str, str]]) -> TracingData:
    """Return the section for these (system, event) pairs. Raises KernelRefusedError if tracefs is unreadable."""
    from perfpy.perfdata.event_format import TracingData

    by_system: dict[str, list[bytes]] = {}
    for system, event in dict.fromkeys(tracepoints):
        by_system.setdefault(system, []).append((tracefs.format(system, event) or "").encode())
    return TracingData(
        _VERSION,
        NATIVE_ENDIAN,
        struct.calcsize("l"),
        PAGE_SIZE,
        _file(f"{tracefs.root}/events/header_page"),
        _file(f"{tracefs.root}/events/header_event"),
        tuple(by_system.pop(_FTRACE, [])),
        tuple((system, tuple(formats)) for system, formats in by_system.items()),
        printk=_file(f"{tracefs.root}/printk_formats"),
        cmdlines=_file(f"{tracefs.root}/saved_cmdlines"),
    )


def _file(path: str) -> bytes:
    """Return a file of tracefs; b"" if this kernel has none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


# The header's feature sections of one recording, the same as perf's, and the facts about this machine in them.


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
        if self._options.sampling.branch_filter:  # not for callchains: with the feature, reports show branches
            values[Feature.BRANCH_STACK] = True
        if self._counters.aux and self._options.output.path != STANDARD_OUTPUT:  # positions in a file
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
            Feature.CPU_PMU_CAPS: self.cpu_caps(),
            Feature.HYBRID_TOPOLOGY: self.hybrid_pmus(),
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

    def cpu_caps(self) -> tuple[tuple[str, str], ...] | None:
        """Return the capabilities of the CPU's PMU; None if it has another name than on most machines."""
        return self._pmu_caps("cpu") if any(pmu.name == "cpu" for pmu in self.pmus()) else None

    def hybrid_pmus(self) -> tuple[HybridPmu, ...] | None:
        """Return the PMU of each kind of core with its CPUs; None if there is one kind."""
        pmus = [pmu.name for pmu in self.pmus() if _CORE_PMUS.fullmatch(pmu.name)]
        return tuple(HybridPmu(name, self._read(f"{_PMUS}/{name}/cpus")) for name in pmus) if len(pmus) > 1 else None

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
