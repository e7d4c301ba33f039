"""Options of `perfpy top`: perf top's names, letters and defaults (perf-top(1))."""

from __future__ import annotations

import os
import pwd
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.abi.flags import Machines
from perfpy.capture.record_options import (
    BufferOptions,
    Callchain,
    GuestOptions,
    OffCpuOptions,
    RecordOptions,
    SamplingOptions,
    SideBandOptions,
    parse_branch_filter,
    parse_callchain,
    parse_pages,
)
from perfpy.capture.targets import TargetOptions, online_cpus
from perfpy.cli.line.option_parsing import (
    Choice,
    CommandOptions,
    Counted,
    Flag,
    Listed,
    TaskOptions,
    Value,
    fail,
    option,
    parse_unsigned,
    split_names,
)
from perfpy.cli.line.shared_options import parse_names, parse_widths
from perfpy.cli.record import frequency, sample_period
from perfpy.errors import plural
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.syscalls import may_count_cpus, paranoid_level

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.report.options import ReportOptions
    from perfpy.cli.line.perfconfig import Config
    from perfpy.disassembly.disassembler import CodeStyle
    from perfpy.live.rings import LiveRings
    from perfpy.symbols.files.debug_files import SymbolOptions


DEFAULT_DELAY: Final = 2.0  # seconds
_LONGEST_DELAY: Final = 1_000_000.0

_BRANCHES: Final = "it needs a PMU with branch records; record -b and report -b read those of other machines"
_LACKING: Final = {
    "--branch-history": _BRANCHES,
    "--stitch-lbr": _BRANCHES,
    "--ignore-callees": "use record -g, then report --ignore-callees",
    "--switch-on": "use record, then report --switch-on",
    "--switch-off": "use record, then report --switch-off",
    "--show-on-off-events": "use record, then report --switch-on",
    "--group-sort-idx": "use record, then report --group-sort-idx",
}


def delay(text: str) -> float:
    """Parse -d: seconds between two updates; fractions are allowed."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= _LONGEST_DELAY:
        raise ValueError("a number of seconds, at least 0.01")
    return seconds


_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """Parse --keep: seconds, or a number with s, m or h."""
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not number.isdecimal() or not 0 < int(number) * unit <= _LONGEST_DELAY:
        raise ValueError("a time such as 90s, 5m or 1h")
    return float(int(number) * unit)


class TopTargetOptions(TaskOptions):
    """Which tasks and CPUs to watch."""

    all_cpus: bool = option("-a,--all-cpus", Flag(), "watch all CPUs (default)")
    cgroups: tuple[str, ...] = option(
        "-G,--cgroup", Value(split_names, default=()), "watch only the tasks of these cgroups (after -e)", metavar="<name>"
    )
    no_inherit: bool = option("-i,--no-inherit", Flag(), "do not watch child tasks")
    descendants: bool | None = option("--descendants", Flag(default=None), "with -p: also its running children (default with --python)")
    show_self: bool = option("--show-self", Flag(), "also show perfpy top's own samples")


class TopSamplingOptions(CommandOptions):
    """The events, and the sampling frequency."""

    event: tuple[str, ...] = option("-e,--event", Listed(), "select events; perfpy list shows them", metavar="<event>", negatable=False)
    filter: tuple[str, ...] = option("--filter", Listed(), "filter the tracepoints of the last -e", metavar="<filter>", negatable=False)
    freq: int | None = option("-F,--freq", Value(frequency), "samples per second (default: 4000)", metavar="<freq or 'max'>")
    period: int | None = option("-c,--count", Value(sample_period), "take one sample every n events", metavar="<n>")
    mmap_pages: str = option("-m,--mmap-pages", Value(default=""), "size of ring buffers in pages, or bytes: 64K, 2M", metavar="<pages>")
    overwrite: bool = option("--overwrite", Flag(), "overwrite the oldest samples if the ring buffer is full")
    realtime: int = option("-r,--realtime", Value(int, default=0), "run with this SCHED_FIFO priority", metavar="<n>")
    namespaces: bool = option("--namespaces", Flag(), "follow namespaces of tasks")
    all_cgroups: bool = option("--all-cgroups", Flag(), "follow cgroups of tasks, for --sort cgroup")
    no_bpf_event: bool = option("--no-bpf-event", Flag(), "do not follow BPF programs")


class TopCallchainOptions(CommandOptions):
    """Callchains."""

    callchains: bool = option("-g", Flag(), "record and show callchains by frame pointers")
    call_graph: str | None = option(
        "--call-graph", Value(), "show callchains: fp or dwarf[,bytes], print_type, order", metavar="<mode,print_type,...>"
    )
    children: bool | None = option("--children", Flag(default=None), "add callers' overhead (default with callchains)")
    branch_any: bool = option("-b,--branch-any", Flag(), "sample taken branches; rows are their sources and targets")
    branch_filter: int = option(
        "-j,--branch-filter", Value(parse_branch_filter, default=0), "sample taken branches of these kinds", metavar="<filter,...>"
    )
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=127), "use at most n frames of a callchain", metavar="<n>")


class TopWaitOptions(CommandOptions):
    """Waits."""

    off_cpu: bool = option("--off-cpu", Flag(), "show what threads wait for now (event offcpu-time)")


class TopRuntimeOptions(CommandOptions):
    """Programs in Python, Java, JavaScript and other languages with a runtime."""

    python: bool = option("--python", Flag(), "show Python functions (default: -F 499)")
    jit: bool = option("--jit", Flag(), "request names of JIT-compiled code from JVMs")


class TopRowOptions(CommandOptions):
    """Which rows are shown, and their columns."""

    sort: str | None = option("-s,--sort", Value(), "sort by these keys: comm, pid, cpu (default: dso,symbol)", metavar="<key[,key2...]>")
    by: str = option(
        "--by",
        Value(Choice("process", "thread", "cgroup", "container"), default=""),
        "show a row for each process, thread, cgroup or container",
        metavar="<kind>",
    )
    fields: str | None = option("--fields", Value(), "choose the columns", metavar="<key[,keys...]>")
    hierarchy: bool = option("-H,--hierarchy", Flag(), "print a tree of rows, one level per sort key")
    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "show a column with the number of samples")
    show_total_period: bool = option("--show-total-period", Flag(), "show a column with the sum of periods")
    comms: tuple[str, ...] | None = option("--comms", Value(parse_names), "only these commands", metavar="<comm[,comm...]>")
    dsos: tuple[str, ...] | None = option("--dsos", Value(parse_names), "only these shared objects", metavar="<dso[,dso...]>")
    symbols: tuple[str, ...] | None = option("--symbols", Value(parse_names), "only these functions", metavar="<symbol[,symbol...]>")
    hide_kernel: bool = option("-K,--hide_kernel_symbols", Flag(), "hide kernel functions")
    hide_user: bool = option("-U,--hide_user_symbols", Flag(), "hide user functions")
    percent_limit: float = option("--percent-limit", Value(float, default=0.0), "hide rows below this share", metavar="<percent>")
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")), "percentages of the filtered or of all samples")
    raw_trace: bool = option("--raw-trace", Flag(), "show raw fields of tracepoints")
    widths: tuple[int, ...] = option(
        "-w,--column-widths", Value(parse_widths, default=()), "set the column widths", metavar="<width[,width...]>"
    )
    entries: int = option(
        "-E,--entries", Value(parse_unsigned, default=0), "show this many rows (default: as the screen has)", metavar="<n>"
    )
    zero: bool = option("-z,--zero", Flag(), "forget earlier samples at each update")


class TopSymbolOptions(CommandOptions):
    """Options for the sources of symbols."""

    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    ignore_vmlinux: bool = option("--ignore-vmlinux", Flag(), "do not look for a vmlinux")
    dump_symtab: bool = option("-D,--dump-symtab", Flag(), "print the symbols that were loaded, at the end, to stderr")
    demangle_kernel: bool = option("--demangle-kernel", Flag(), "demangle kernel names, too")


class TopMachineOptions(CommandOptions):
    """Options of `perfpy kvm top`, which gives them to top: the machines (H: the host, G: guests), and files of guest kernels."""

    machine_modifiers: str = option("--guests", Value(Choice("H", "G", "HG"), default="H"), "of kvm top", hidden=True)
    guestkallsyms: str = option("--guestkallsyms", Value(default=""), "of kvm top", hidden=True)
    guestmodules: str = option("--guestmodules", Value(default=""), "of kvm top", hidden=True)
    guestvmlinux: str = option("--guestvmlinux", Value(default=""), "of kvm top", hidden=True)

    @property
    def machines(self) -> Machines:
        """The machines whose samples are recorded and shown."""
        return Machines.of_modifiers(self.machine_modifiers)


class TopCodeOptions(CommandOptions):
    """The code of functions (key a)."""

    sym_annotate: str = option("--sym-annotate", Value(default=""), "show the code of this function instead of rows", metavar="<symbol>")
    source: bool = option("--source", Flag(default=True), "include source lines in code (default)")
    asm_raw: bool = option("--asm-raw", Flag(), "show the bytes of instructions")
    disassembler_style: str = option("-M,--disassembler-style", Value(default=""), "syntax of code: intel, att", metavar="<style>")
    objdump: str = option("--objdump", Value(default=""), "disassemble with this objdump", metavar="<path>")
    prefix: str = option("--prefix", Value(default=""), "prepend this to paths of source files", metavar="<prefix>")
    prefix_strip: str = option("--prefix-strip", Value(default=""), "remove n folders from source paths first", metavar="<n>")


class IgnoredTopOptions(CommandOptions):
    """perf's options that change nothing here."""

    count_filter: int = option("-f,--count-filter", Value(int, default=0), "perf 6.12 ignores it, too", hidden=True)
    force: bool = option("--force", Flag(), "files are checked by descriptor", hidden=True)
    num_thread_synthesize: int = option("--num-thread-synthesize", Value(int, default=1), "one thread is enough", hidden=True)
    proc_map_timeout: int = option("--proc-map-timeout", Value(int, default=500), "maps are read at once", hidden=True)
    addr2line: str = option("--addr2line", Value(default=""), "lines are read without a program", hidden=True)
    tui: bool = option("--tui", Flag(), "the default on a terminal", hidden=True)


class TopCommandOptions(
    TopTargetOptions,
    TopSamplingOptions,
    TopCallchainOptions,
    TopWaitOptions,
    TopRuntimeOptions,
    TopRowOptions,
    TopSymbolOptions,
    TopMachineOptions,
    TopCodeOptions,
    IgnoredTopOptions,
    lacks=_LACKING,
):
    """Options of `perfpy top`."""

    delay: float = option("-d,--delay", Value(delay, default=DEFAULT_DELAY), "seconds between two updates (default: 2)", metavar="<n>")
    updates: int = option(
        "--updates", Value(parse_unsigned, default=0), "exit after n updates (default: run until q or Ctrl-C)", metavar="<n>"
    )
    keep: float = option(
        "--keep", Value(duration, default=60.0), "time that the key w writes as perf.data (default: 60s)", metavar="<time>"
    )
    stdio: bool = option("--stdio", Flag(), "print perf's plain text, also on a terminal")
    json: bool = option("--json", Flag(), "print one JSON object per update, on one line")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")


_SORT_OF = {"process": "tgid", "thread": "pid", "cgroup": "cgroup", "container": "container"}  # --by
_CGROUP_KEYS = {"cgroup", "container"}
_DEFAULT_SORT = "dso,symbol"
_PYTHON_SORT = "pyfunc"
_PYTHON_RATE = 499  # samples per second; each copies a stack
_WAIT_SORT = "comm,state,symbol"
_FIRST_PART = 0.7  # of an interval, from the start of the program to the first update, whose symbols take the rest
_LEAST_WAIT = 0.25  # seconds
_NOBODY_ALLOWED = 3  # of kernel.perf_event_paranoid: users may not measure anything


class TopRequest:
    """The options of a live view, for the library. tell: called with each line for the user."""

    def __init__(self, options: TopCommandOptions, config: Config, tell: Callable[[str], None]) -> None:
        self._options = options
        self._config = config
        if options.branch_any and options.branch_filter:
            fail("-b excludes -j; -j any samples every taken branch")
        mode, self._graph_parts = _split_call_graph(options.call_graph or "")
        self._chain = self._callchain(mode)
        self._user = self._default_user(tell)

    def _callchain(self, mode: str) -> Callchain | None:
        options = self._options
        if not self._has_chains or (options.python and not mode):  # --python has a mode of its own
            return None
        return parse_callchain(mode or self._config.get("call-graph.record-mode", "fp"))._replace(addresses=False)

    @property
    def _has_branches(self) -> bool:
        return bool(self._options.branch_any or self._options.branch_filter)

    @property
    def _has_chains(self) -> bool:
        options = self._options
        return options.callchains or options.call_graph is not None or options.python

    def _default_user(self, tell: Callable[[str], None]) -> str:
        """Return the user to watch: as given, or this one if users may not watch whole CPUs."""
        options = self._options
        is_chosen = options.pid or options.tid or options.user or options.cpu or options.cgroups or options.all_cpus
        level = paranoid_level() or 0
        if is_chosen or may_count_cpus() or level >= _NOBODY_ALLOWED:
            return options.user
        tell(f"note: kernel.perf_event_paranoid is {level}; watching only your processes that run now (sysctl ...=0 or root: all)")
        return str(os.getuid())

    def record_options(self) -> RecordOptions:
        """Return the options of the events."""
        options = self._options
        keys = f"{options.sort or _SORT_OF.get(options.by, '')},{options.fields or ''}"
        return RecordOptions(
            sampling=SamplingOptions(
                freq=_PYTHON_RATE if options.python and options.freq is None and options.period is None else options.freq,
                period=options.period,
                callchain=self._chain,
                branch_filter=options.branch_filter or (parse_branch_filter("any") if options.branch_any else 0),
            ),
            target=options.fill(
                TargetOptions,
                user=self._user,
                inherit=not options.no_inherit,
                descendants=(options.python and not options.no_inherit) if options.descendants is None else options.descendants,
            ),
            side_band=SideBandOptions(
                namespaces=options.namespaces or "cgroup_id" in keys,
                all_cgroups=options.all_cgroups or not _CGROUP_KEYS.isdisjoint(keys.split(",")),
                bpf_events=not options.no_bpf_event,
            ),
            buffers=BufferOptions(mmap_pages=parse_pages(options.mmap_pages) if options.mmap_pages else 0, overwrite=options.overwrite),
            python=options.python,
            off_cpu=OffCpuOptions(options.off_cpu),
            command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
            guests=options.fill(GuestOptions, host=options.machines.host, guest=options.machines.guests),
        )

    def report_options(self, *, of_tracepoints: bool, is_screen: bool = False) -> ReportOptions:
        """Return the options of the rows. Raises UsageError for invalid options.

        Args:
            of_tracepoints: whether all events are tracepoints.
            is_screen: whether rows can be opened; text has the trees of Python functions only on request.
        """
        from perfpy.analysis.filters import SampleFilter
        from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions, RowOptions
        from perfpy.analysis.sort_key import Mode
        from perfpy.cli.report.run import configured_percentage, hidden_keys

        options = self._options
        is_requested = options.callchains or options.call_graph is not None or bool(options.children)
        shows_trees = self._has_chains and (is_screen or is_requested)
        by_default = self._config.flag("top.children", True) and not options.hierarchy
        children = shows_trees and (by_default if options.children is None else options.children)
        sample_filter = options.fill(SampleFilter, machines=options.machines if options.machines.guests else None)
        percentage = options.percentage or configured_percentage(self._config)
        return ReportOptions(
            columns=ColumnOptions(
                sort=options.sort or _SORT_OF.get(options.by) or self._default_sort(of_tracepoints=of_tracepoints),
                fields=options.fields,
                children=children,
                raw_trace=options.raw_trace,
                metrics=tuple(self._metrics()),
                mode=Mode.BRANCH if self._has_branches else Mode.NORMAL,
                hidden=tuple(key for key, _, _ in hidden_keys(sample_filter)),
            ),
            sample_filter=sample_filter,
            chains=ChainOptions(
                CallGraph(**{"order": "caller" if children else "callee", **self._graph_parts}) if shows_trees else None,
                children,
                options.max_stack,
            ),
            rows=RowOptions(hierarchy=options.hierarchy, relative_percentages=percentage == "relative", rows_filtered=True),
        )

    def _default_sort(self, *, of_tracepoints: bool) -> str | None:
        options = self._options
        if options.fields:
            return None
        if options.off_cpu:
            return _WAIT_SORT
        if self._has_branches:
            return None  # the default of branches
        return "trace" if of_tracepoints else _PYTHON_SORT if options.python else _DEFAULT_SORT

    def _metrics(self) -> list[str]:
        options = self._options
        chosen = (("sample", options.show_nr_samples), ("period", options.show_total_period))
        return [name for name, is_chosen in chosen if is_chosen]

    def symbol_options(self, *, is_plain: bool = False) -> SymbolOptions:
        """Return where to look for symbols. is_plain: for perf's text; others count inlined calls in callchains, as reports do."""
        from perfpy.symbols.files.debug_files import GuestFiles, Inline, SymbolOptions

        options = self._options
        for name, path in (("kallsyms", options.kallsyms), ("vmlinux", options.vmlinux)):
            if path and not os.path.isfile(path):
                fail(f"--{name} {path}: no such file")
        return SymbolOptions(
            kallsyms=options.kallsyms,
            vmlinux=options.vmlinux,
            ignore_vmlinux=options.ignore_vmlinux,
            demangle_kernel=options.demangle_kernel,
            os_release=os.uname().release,
            buildid_dir=self._config.build_id_folder,
            inline=Inline.ALL if self._has_chains and not is_plain else Inline.NONE,
            fold_interpreters=options.python,
            guests=options.fill(GuestFiles, machines=options.machines),
        )

    def subject(self, rings: LiveRings) -> Subject:
        """Return what is measured, for the header line."""
        options, sampled = self._options, rings.sampled_events
        event = rings.counters.events[sampled[0]]
        return Subject(
            event.name,
            event.attr.sample_period,
            *(not options.period and rings.waits is None, len(sampled) == 1),
            *(options.pid, options.tid, _user_name(self._user), options.cpu),
            len(online_cpus()),
            has_guests=options.machines.guests,
        )


def code_style(options: TopCommandOptions) -> CodeStyle:
    """Return how code is shown."""
    from perfpy.disassembly.disassembler import CodeStyle  # not needed for the first screen

    return CodeStyle(
        source=options.source,
        raw=options.asm_raw,
        syntax=options.disassembler_style,
        prefix=options.prefix,
        prefix_strip=options.prefix_strip,
        program=options.objdump,
    )


def first_wait(delay: float) -> float:
    """Return the seconds from now until the first update: on a busy machine the start has taken part of the interval.

    Args:
        delay: seconds between two updates.
    """
    planned = _FIRST_PART * delay - ProcFs().seconds_since_start()
    return min(max(planned, _LEAST_WAIT * min(delay, 1)), delay / 2)


def _user_name(user: str) -> str:
    if not user.isdecimal():
        return user
    try:
        return pwd.getpwuid(int(user)).pw_name
    except KeyError:
        return user


def _split_call_graph(text: str) -> tuple[str, dict[str, Any]]:
    """Split --call-graph into the mode of recording ("" if not given) and the parts of a CallGraph."""
    from perfpy.cli.report.run import call_graph_parts

    words = text.split(",")
    mode = words.pop(0) if words[0] in ("fp", "dwarf", "lbr") else ""
    if mode == "dwarf" and words and words[0].isdecimal():
        mode = f"dwarf,{words.pop(0)}"
    parts = call_graph_parts(",".join(words))
    parts.pop("branches", None)
    return mode, parts


#: the measure of a row's period in the last interval (perfpy.analysis.aggregate.profile.Folded)
WINDOW: Final = "window"
_RULE: Final = 79  # columns


class Rates(NamedTuple):
    """The numbers of an interval.

    Attributes:
        seconds: its length.
        samples: in it.
        kernel, exact: samples in the kernel; samples with the exact address.
        lost, total_lost: samples and records that did not fit in the ring buffers, in the interval and since the start.
        dropped, total_dropped: samples that had to wait for an update and did not fit in memory.
        guest_kernel, guest_user: samples in virtual machines.
    """

    seconds: float
    samples: int
    kernel: int
    exact: int
    lost: int
    total_lost: int
    dropped: int = 0
    total_dropped: int = 0
    guest_kernel: int = 0
    guest_user: int = 0

    def share(self, part: int) -> float:
        """Return the percentage of the samples."""
        return 100.0 * part / self.samples if self.samples else 0.0

    @property
    def warning(self) -> str:
        """A sentence on the samples of the interval that were skipped; "" without any."""
        count = self.dropped
        return f"{count} {plural(count, 'sample was', 'samples were')} skipped: this machine is too busy" if count else ""


class Subject(NamedTuple):
    """The event that a live view measures.

    Attributes:
        event: the name of the first event.
        pace: the frequency in Hz or the period of its attr.
        is_frequency: whether perf writes Hz: without -c, whatever the event's own terms are.
        is_alone: whether there is one event.
        pid, tid, user: as given.
        cpus: the text of the CPU list, "" for all.
        cpu_count: the number of CPUs.
        has_guests: whether virtual machines are watched (kvm top).
    """

    event: str
    pace: int
    is_frequency: bool
    is_alone: bool
    pid: str
    tid: str
    user: str
    cpus: str
    cpu_count: int
    has_guests: bool = False


def header_lines(rates: Rates, subject: Subject) -> list[str]:
    """Return perf top's lines above the table."""
    numbers = (
        f"   PerfTop:{rates.samples / rates.seconds:8.0f} irqs/sec  kernel:{rates.share(rates.kernel):4.1f}%"
        f"  exact: {rates.share(rates.exact):4.1f}% lost: {rates.lost}/{rates.total_lost} drop: {rates.dropped}/{rates.total_dropped} "
    )
    if subject.has_guests:
        user = rates.samples - rates.kernel - rates.guest_kernel - rates.guest_user
        numbers = (
            f"   PerfTop:{rates.samples / rates.seconds:8.0f} irqs/sec  kernel:{rates.share(rates.kernel):4.1f}%"
            f" us:{rates.share(user):4.1f}% guest kernel:{rates.share(rates.guest_kernel):4.1f}%"
            f" guest us:{rates.share(rates.guest_user):4.1f}% exact: {rates.share(rates.exact):4.1f}% "
        )
    pace = f"{subject.pace}{'Hz' if subject.is_frequency else ''} " if subject.is_alone else ""
    return [f"{numbers}[{pace}{subject.event}], {_target(subject)}", "-" * _RULE, ""]


def _target(subject: Subject) -> str:
    if subject.pid or subject.tid:
        return f" (target_pid: {subject.pid})" if subject.pid else f" (target_tid: {subject.tid})"
    tasks = f" (uid: {subject.user}" if subject.user else " (all"
    if subject.cpus:
        return f"{tasks}, CPU{'s' if ',' in subject.cpus or '-' in subject.cpus else ''}: {subject.cpus})"
    return f"{tasks}, {subject.cpu_count} {plural(subject.cpu_count, 'CPU')})"
