"""`perfpy kvm`: profiles of virtual machines, and why virtual CPUs exit to the host. Options are perf kvm's (perf-kvm(1)).

Guests are told apart by the mode in which the CPU ran (misc of samples), their tasks by the thread of the hypervisor that ran them.

An exit lasts from kvm:kvm_exit to kvm:kvm_entry of the same thread. A write to a port or to device memory lasts from its tracepoint to
kvm_entry, a read of device memory from kvm_exit to its tracepoint. A thread's first kvm_entry names its virtual CPU; events before it
are left out, as in perf.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import HOST_ONLY, Machines
from perfpy.cli.build_ids import BuildIdListCommandOptions, list_build_ids
from perfpy.cli.commands import load_command
from perfpy.cli.diff import DiffCommandOptions
from perfpy.cli.diff import run as compare_recordings
from perfpy.cli.forwarded_actions import RECORDINGS, ForwardingAction, present_events, run_record
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Flag, StdioOptions, Value, fail, option, parse_unsigned
from perfpy.cli.line.shared_options import GuestFileOptions, InputOptions, VerboseOptions
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.cli.record import RecordCommandOptions
from perfpy.cli.record import run as run_recorder
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.errors import PerfError
from perfpy.untrusted.text import lines as one_line_each

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from perfpy.perfdata.sample_source import SampleSource

#: the file of perf kvm for guests
DEFAULT_FILE: Final = "perf.data.guest"
#: the files by whether they have the host and guests
_FILES: Final = {Machines(host=False, guests=True): DEFAULT_FILE, HOST_ONLY: "perf.data.host", Machines(guests=True): "perf.data.kvm"}


_FILE_NAMES: Final = ("guestkallsyms", "guestmodules", "guestvmlinux")


class MachineOptions(GuestFileOptions):
    """Which machines to sample or to show."""

    host: bool = option("--host", Flag(), "include the host")
    guest: bool = option("--guest", Flag(default=True), "include virtual machines (default)")
    guest_code: bool = option("--guest-code", Flag(), "ignored by record; reports refuse it")

    @property
    def machines(self) -> Machines:
        """The machines to sample or to show."""
        return Machines(host=self.host, guests=self.guest or not self.host)


class KvmOptions(InputOptions, VerboseOptions, MachineOptions):
    """Options of all actions."""

    output: str = option("-o,--output", Value(default=""), f"write the recording to this file (default: {DEFAULT_FILE})", metavar="<file>")


class KvmRecordOptions(MachineOptions, RecordCommandOptions):
    """Options of `perfpy kvm record`: those of record, whose -i is --no-inherit."""

    input: str = option("--input", Value(default=""), "ignored", hidden=True)


class KvmReportOptions(MachineOptions, ReportCommandOptions):
    """Options of `perfpy kvm report`: those of report."""

    output: str = option("-o,--output", Value(default=""), "the recording, as -i", hidden=True)


class KvmBuildIdOptions(MachineOptions, BuildIdListCommandOptions):
    """Options of `perfpy kvm buildid-list`: those of buildid-list."""

    output: str = option("-o,--output", Value(default=""), "the recording, as -i", hidden=True)


class KvmDiffOptions(MachineOptions, DiffCommandOptions):
    """Options of `perfpy kvm diff`: those of diff."""

    input: str = option("-i,--input", Value(default=""), "ignored", hidden=True)
    output: str = option("--output", Value(default=""), "ignored", hidden=True)

    @property
    def default_files(self) -> tuple[str, str]:
        """The recordings that are compared if none is named."""
        return (_FILES[HOST_ONLY], DEFAULT_FILE) if self.machines.guests and not self.files else super().default_files


class KvmCountOptions(MachineOptions):
    """Options of `perfpy kvm stat` without an action: those of stat, whose -i is --no-inherit."""

    input: str = option("--input", Value(default=""), "ignored", hidden=True)


class KvmStatReportOptions(KvmOptions, StdioOptions):
    """Options of `perfpy kvm stat report`."""

    event: str = option("--event", Value(default="vmexit"), "report these events: vmexit, mmio, ioport", metavar="<report event>")
    vcpu: int = option("--vcpu", Value(parse_unsigned, default=-1), "only this virtual CPU", metavar="<n>")
    key: str = option("-k,--key", Value(default="sample"), "sort by sample, time, max_t, min_t or mean_t", metavar="<sort-key>")
    pid: str = option("-p,--pid", Value(default=""), "only these processes", metavar="<pid>")


def _record(options: KvmRecordOptions) -> int:
    """Record a profile of virtual machines, of the host, or of both."""
    return run_recorder(options.replace(guest=options.machines.guests, output=options.output or _FILES[options.machines]))


def _show(options: KvmReportOptions) -> int:
    """Show where the time of virtual machines, of the host, or of both went."""
    from perfpy.cli.report.command import run as run_report  # numpy is loaded when samples are read

    _refuse_guest_code(options)
    return run_report(options.replace(input=options.input or options.output or _FILES[options.machines]))


def _compare(options: KvmDiffOptions) -> int:
    """Compare recordings of virtual machines, or of the host with one of its guests."""
    _refuse_guest_code(options)
    return compare_recordings(options)


def _watch(options: KvmOptions, arguments: list[str]) -> int:
    """Show what runs now in virtual machines, or on the host, too."""
    _refuse_guest_code(options)
    if options.guestmount:
        fail("kvm top takes --guestkallsyms, --guestmodules and --guestvmlinux; for --guestmount, use kvm record and kvm report")
    own = [f"--guests={options.machines.modifiers}", *(f"--{name}={value}" for name, value in vars(options).items() if name in _FILE_NAMES)]
    return load_command("top").run("kvm top", [*own, *arguments])


def _list_build_ids(options: KvmBuildIdOptions) -> int:
    """List the build-ids of a recording of virtual machines."""
    _refuse_guest_code(options)
    list_build_ids(options.replace(input=options.input or options.output or _FILES[options.machines]))
    return 0


def _refuse_guest_code(options: MachineOptions) -> None:
    if options.guest_code:
        fail("--guest-code: perfpy does not look up guests' addresses in their hypervisor; perfpy script prints them")


def _record_exits(options: KvmOptions, arguments: list[str]) -> int:
    events = present_events(RECORDINGS["kvm"].events["exits"].split())
    if EXIT not in events:
        raise PerfError("this kernel has no tracepoint kvm:kvm_exit; load the module kvm (modprobe kvm), or record on the host")
    output = f"--output={options.output or _FILES[options.machines]}"
    chosen = [f"{event}/name='{event}'/{options.machines.modifiers}" for event in events]  # the name remains that of the tracepoint
    return run_record("kvm", arguments, events=chosen, options=[output, *["-v"] * options.verbose])


def report(options: KvmStatReportOptions) -> int:
    """Show how often virtual CPUs exited to the host, why, and for how long."""
    if options.event not in EVENTS:
        fail(f"--event {options.event}: unknown event; expected {', '.join(EVENTS)}")
    if options.key not in SORT_KEYS:
        fail(f"-k {options.key}: unknown sort key; expected {', '.join(SORT_KEYS)}")
    pids = _pids(options.pid)
    with open_recording(options.input or DEFAULT_FILE, force=options.force, verbose=options.verbose) as recording:
        durations = sorted_durations(guest_durations(recording.data, options.event, vcpu=options.vcpu, pids=pids), options.key)
    sys.stdout.flush()
    # The table goes to standard error, as perf's does.
    sys.stderr.writelines(one_line_each(exit_lines(durations, options.event, pids=options.pid, vcpu=options.vcpu)))
    return 0


def _count(options: KvmCountOptions, arguments: list[str]) -> int:
    """Count events in virtual machines, on the host, or in both."""
    return load_command("stat").run("kvm stat", [f"--guests={options.machines.modifiers}", *arguments])


def _live(_options: KvmOptions) -> int:
    """Refuse `perfpy kvm stat live`."""
    fail("perfpy has no 'kvm stat live'; use perfpy kvm stat record -a -- sleep 1 && perfpy kvm stat report")


command = CommandWithActions(
    KvmOptions,
    {
        "record": Action(KvmRecordOptions, _record, "record a profile of guests; also takes the options of record"),
        "report": Action(KvmReportOptions, _show, "show where the time of guests went; also takes the options of report"),
        "top": ForwardingAction(KvmOptions, _watch, "top", "show what runs in guests now; also takes the options of top"),
        "diff": Action(KvmDiffOptions, _compare, "compare recordings of guests; also takes the options of diff"),
        "buildid-list": Action(KvmBuildIdOptions, _list_build_ids, "list the build-ids of a recording of guests"),
        "stat": CommandWithActions(
            KvmOptions,
            {
                "record": ForwardingAction(KvmOptions, _record_exits, "record", "record the exits; also takes the options of record"),
                "report": Action(KvmStatReportOptions, report, "the exits by reason, with their durations"),
                "live": Action(KvmOptions, _live, "not available"),
            },
            "Show how often virtual CPUs exited to the host, why, and for how long.",
            "exits of virtual machines: stat record, stat report; events in guests: stat with the options of stat",
            without_action=ForwardingAction(KvmCountOptions, _count, "stat", "count events in guests; takes the options of stat"),
        ),
    },
    "Record virtual machines, or show why their CPUs exit to the host, and for how long.",
)


def _pids(text: str) -> set[int]:
    words = [word for word in text.split(",") if word]
    for word in words:
        if not word.isascii() or not word.isdigit() or len(word) > 10:
            fail(f"-p {text}: expected process ids, with commas between them")
    return {int(word) for word in words}


ENTRY: Final = "kvm:kvm_entry"
EXIT: Final = "kvm:kvm_exit"
MMIO: Final = "kvm:kvm_mmio"
PIO: Final = "kvm:kvm_pio"
#: events of --event and their headings
EVENTS: Final = {"vmexit": "VM-EXIT", "mmio": "MMIO Access", "ioport": "IO Port Access"}
#: what -k sorts by, largest first: a property of Durations
SORT_KEYS: Final = {
    "sample": "count", "percent_sample": "count", "time": "total", "percent_time": "total", "precent_time": "total",
    "max_t": "longest", "min_t": "shortest", "mean_t": "mean",
}  # fmt: skip
_FIELDS: Final = {ENTRY: ("vcpu_id",), EXIT: ("exit_reason",), MMIO: ("type", "gpa"), PIO: ("rw", "port")}
_READ, _WRITE = 1, 2
_AMD: Final = "AuthenticAMD"


class Durations:
    """The durations of equal events, in nanoseconds."""

    __slots__ = ("_mean", "_squares", "count", "longest", "name", "shortest", "total")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.total = 0
        self.longest = 0
        self.shortest = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, duration: int) -> None:
        """Add one event."""
        self.count += 1
        self.total += duration
        self.longest = max(self.longest, duration)
        self.shortest = min(self.shortest, duration) if self.count > 1 else duration
        distance = duration - self._mean
        self._mean += distance / self.count
        self._squares += distance * (duration - self._mean)

    @property
    def mean(self) -> float:
        """The mean duration."""
        return self._mean

    @property
    def relative_error(self) -> float:
        """The standard error of the mean, in percent of the mean."""
        if self.count < 2 or not self._mean:
            return 0.0
        return 100.0 * math.sqrt(self._squares / (self.count - 1) / self.count) / self._mean


def guest_durations(data: SampleSource, event: str, *, vcpu: int = -1, pids: Collection[int] = ()) -> list[Durations]:
    """Return the durations of events by their names. Raises PerfError if the recording has no such tracepoints.

    event: one of EVENTS; vcpu: only this virtual CPU; pids: only these processes.
    """
    durations_of: dict[str, Durations] = {}
    name_of = _names(data)
    for thread in _events_by_thread(data, event, pids):
        for name, duration in _pairs(thread, event, vcpu, name_of):
            if name not in durations_of:
                durations_of[name] = Durations(name)
            durations_of[name].add(duration)
    return list(durations_of.values())


def sorted_durations(durations: list[Durations], key: str) -> list[Durations]:
    """Return the durations by a key of SORT_KEYS, equal ones by name."""
    return sorted(durations, key=lambda one: (-getattr(one, SORT_KEYS[key]), one.name))


def _events_by_thread(data: SampleSource, event: str, pids: Collection[int]) -> Iterator[list[tuple[int, str, tuple[int, ...]]]]:
    """Yield the events of each thread in order of time: nanoseconds, tracepoint, fields."""
    import numpy as np

    from perfpy.perfdata.tracepoint_rows import read_tracepoints

    names = [ENTRY, EXIT, *([MMIO] if event == "mmio" else [PIO] if event == "ioport" else [])]
    read = read_tracepoints(data, {name: _FIELDS[name] for name in names})
    rows = {name: part for name, part in read.items() if all(_is_number(part.fields.get(field)) for field in _FIELDS[name])}
    if ENTRY not in rows:
        raise PerfError(f"{data.path}: no {ENTRY} tracepoint with its format; record with perfpy kvm stat record")
    events = []
    for name, part in rows.items():
        chosen = np.isin(part.pid, np.array(sorted(pids), np.int64)) if pids else np.ones(len(part.time), bool)
        fields = zip(*(part.fields[field][chosen].tolist() for field in _FIELDS[name]), strict=True)
        columns = (part.order[chosen].tolist(), part.tid[chosen].tolist(), part.time[chosen].tolist(), fields)
        events += [(order, tid, time, name, values) for order, tid, time, values in zip(*columns, strict=True)]
    threads: dict[int, list[tuple[int, str, tuple[int, ...]]]] = {}
    for _, tid, time, name, values in sorted(events):
        threads.setdefault(tid, []).append((time, name, values))
    yield from threads.values()


def _is_number(column: object) -> bool:
    """Whether a column of a damaged file still has numbers."""
    return getattr(getattr(column, "dtype", None), "kind", "") in ("i", "u")


def _names(data: SampleSource) -> Callable[[int], str]:
    """Return the function from an exit's number to its name. Raises PerfError for processors that perfpy does not know."""
    arch = str(data.features.get("arch", "x86_64"))
    if arch not in ("x86_64", "i686", "i386"):
        raise PerfError(f"{data.path}: perfpy reads exits on x86 only, not on {arch}; perfpy script prints the events")
    table: Mapping[int, str] = SVM if str(data.features.get("cpuid", "")).startswith(_AMD) else VMX
    return lambda reason: table.get(reason, UNKNOWN)


def _pairs(
    events: list[tuple[int, str, tuple[int, ...]]], event: str, vcpu: int, name_of: Callable[[int], str]
) -> Iterator[tuple[str, int]]:
    """Yield the name and duration of each pair of one thread."""
    own_vcpu = None
    begin: tuple[int, str] | None = None
    for time, name, values in events:
        if name == ENTRY and own_vcpu is None:
            own_vcpu = values[0]
        if own_vcpu is None or (vcpu >= 0 and own_vcpu != vcpu):
            continue
        if started := _begun(event, name, values, name_of):
            begin = time, started[0]
            continue
        ended = _ended(event, name, values)
        if ended is None or begin is None:
            continue
        key = begin[1] or ended
        if not key:  # an entry between the exit and the read that names it
            continue
        if time >= begin[0]:
            yield key, time - begin[0]
        begin = None


def _begun(event: str, name: str, values: tuple[int, ...], name_of: Callable[[int], str]) -> tuple[str] | None:
    """Return the name of an event that begins ("" if its end names it); None if none begins."""
    if event == "vmexit" and name == EXIT:
        return (name_of(values[0]),)
    if event == "mmio" and name == EXIT:
        return ("",)
    if event == "mmio" and name == MMIO and values[0] == _WRITE:
        return (f"{values[1]:#x}:W",)
    if event == "ioport" and name == PIO:
        return (f"{values[1]:#x}:{'POUT' if values[0] else 'PIN'}",)
    return None


def _ended(event: str, name: str, values: tuple[int, ...]) -> str | None:
    """Return the name of an event that ends here ("" if its begin named it); None if none ends."""
    if name == ENTRY:
        return ""
    if event == "mmio" and name == MMIO and values[0] == _READ:
        return f"{values[1]:#x}:R"
    return None


# Reasons for which virtual CPUs exit to the host: VMX_EXIT_REASONS in arch/x86/include/uapi/asm/vmx.h, SVM_EXIT_REASONS in svm.h.
UNKNOWN: Final = "UNKNOWN"
#: of Intel's processors
VMX: Final = {
    0: "EXCEPTION_NMI", 1: "EXTERNAL_INTERRUPT", 2: "TRIPLE_FAULT", 3: "INIT_SIGNAL", 4: "SIPI_SIGNAL", 7: "INTERRUPT_WINDOW", 8:
    "NMI_WINDOW", 9: "TASK_SWITCH", 10: "CPUID", 12: "HLT", 13: "INVD", 14: "INVLPG", 15: "RDPMC", 16: "RDTSC", 18: "VMCALL", 19:
    "VMCLEAR", 20: "VMLAUNCH", 21: "VMPTRLD", 22: "VMPTRST", 23: "VMREAD", 24: "VMRESUME", 25: "VMWRITE", 26: "VMOFF", 27: "VMON", 28:
    "CR_ACCESS", 29: "DR_ACCESS", 30: "IO_INSTRUCTION", 31: "MSR_READ", 32: "MSR_WRITE", 33: "INVALID_STATE", 34: "MSR_LOAD_FAIL", 36:
    "MWAIT_INSTRUCTION", 37: "MONITOR_TRAP_FLAG", 39: "MONITOR_INSTRUCTION", 40: "PAUSE_INSTRUCTION", 41: "MCE_DURING_VMENTRY", 43:
    "TPR_BELOW_THRESHOLD", 44: "APIC_ACCESS", 45: "EOI_INDUCED", 46: "GDTR_IDTR", 47: "LDTR_TR", 48: "EPT_VIOLATION", 49:
    "EPT_MISCONFIG", 50: "INVEPT", 51: "RDTSCP", 52: "PREEMPTION_TIMER", 53: "INVVPID", 54: "WBINVD", 55: "XSETBV", 56: "APIC_WRITE",
    57: "RDRAND", 58: "INVPCID", 59: "VMFUNC", 60: "ENCLS", 61: "RDSEED", 62: "PML_FULL", 63: "XSAVES", 64: "XRSTORS", 67: "UMWAIT",
    68: "TPAUSE", 74: "BUS_LOCK", 75: "NOTIFY",
}  # fmt: skip
#: of AMD's processors
SVM: Final = {
    0x0: "read_cr0", 0x2: "read_cr2", 0x3: "read_cr3", 0x4: "read_cr4", 0x8: "read_cr8", 0x10: "write_cr0", 0x12: "write_cr2", 0x13:
    "write_cr3", 0x14: "write_cr4", 0x18: "write_cr8", 0x20: "read_dr0", 0x21: "read_dr1", 0x22: "read_dr2", 0x23: "read_dr3", 0x24:
    "read_dr4", 0x25: "read_dr5", 0x26: "read_dr6", 0x27: "read_dr7", 0x30: "write_dr0", 0x31: "write_dr1", 0x32: "write_dr2", 0x33:
    "write_dr3", 0x34: "write_dr4", 0x35: "write_dr5", 0x36: "write_dr6", 0x37: "write_dr7", 0x40: "DE excp", 0x41: "DB excp", 0x43:
    "BP excp", 0x44: "OF excp", 0x45: "BR excp", 0x46: "UD excp", 0x47: "NM excp", 0x48: "DF excp", 0x4a: "TS excp", 0x4b: "NP excp",
    0x4c: "SS excp", 0x4d: "GP excp", 0x4e: "PF excp", 0x50: "MF excp", 0x51: "AC excp", 0x52: "MC excp", 0x53: "XM excp", 0x60:
    "interrupt", 0x61: "nmi", 0x62: "smi", 0x63: "init", 0x64: "vintr", 0x65: "cr0_sel_write", 0x66: "read_idtr", 0x67: "read_gdtr",
    0x68: "read_ldtr", 0x69: "read_rt", 0x6a: "write_idtr", 0x6b: "write_gdtr", 0x6c: "write_ldtr", 0x6d: "write_rt", 0x6e: "rdtsc",
    0x6f: "rdpmc", 0x70: "pushf", 0x71: "popf", 0x72: "cpuid", 0x73: "rsm", 0x74: "iret", 0x75: "swint", 0x76: "invd", 0x77: "pause",
    0x78: "hlt", 0x79: "invlpg", 0x7a: "invlpga", 0x7b: "io", 0x7c: "msr", 0x7d: "task_switch", 0x7e: "ferr_freeze", 0x7f: "shutdown",
    0x80: "vmrun", 0x81: "hypercall", 0x82: "vmload", 0x83: "vmsave", 0x84: "stgi", 0x85: "clgi", 0x86: "skinit", 0x87: "rdtscp",
    0x88: "icebp", 0x89: "wbinvd", 0x8a: "monitor", 0x8b: "mwait", 0x8d: "xsetbv", 0x8f: "write_efer_trap", 0x90: "write_cr0_trap",
    0x94: "write_cr4_trap", 0x98: "write_cr8_trap", 0xa2: "invpcid", 0x400: "npf", 0x401: "avic_incomplete_ipi", 0x402:
    "avic_unaccelerated_access", 0x403: "vmgexit",
}  # fmt: skip


def exit_lines(durations: Sequence[Durations], event: str, *, pids: str, vcpu: int) -> Iterator[str]:
    """Yield the lines of the table. pids: of -p, "" for all."""
    machines = f"pid(s) {pids}" if pids else "all VMs"
    cpus = f"VCPU {vcpu}" if vcpu >= 0 else "all VCPUs"
    yield from ("", "", f"Analyze events for {machines}, {cpus}:", "")
    headings = f"{'Samples':>10} {'Samples%':>9} {'Time%':>9} {'Min Time':>11} {'Max Time':>11} {'Avg time':>16} "
    yield f"{EVENTS[event]:>40} {headings}"
    yield ""
    count, total = sum(one.count for one in durations), sum(one.total for one in durations)
    for one in durations:
        shares = f"{one.count:>10} {100 * one.count / count:>8.2f}% {100 * one.total / max(total, 1):>8.2f}%"
        times = f"{_microseconds(one.shortest):>11} {_microseconds(one.longest):>11} {_microseconds(one.mean):>11}"
        yield f"{one.name:>40} {shares} {times} ( +-{one.relative_error:>7.2f}% )"
    yield ""
    yield f"Total Samples:{count}, Total events handled time:{_microseconds(total)}."
    yield ""


def _microseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.2f}us"
