"""`perfpy kwork`: interrupts, soft interrupts and work queues of the kernel. Options are perf kwork's (perf-kwork(1))."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.cli.forwarded_actions import ForwardingAction, run_record
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Flag, Value, fail, option, parse_unsigned
from perfpy.cli.line.shared_options import DumpOptions, InputOptions, KernelSymbolOptions, VerboseOptions, kernel_symbolizer
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.cli.output.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.kwork.cpu_usage import CpuUsage
    from perfpy.tools.kwork.works import WorkEvents

KINDS: Final = ("irq", "softirq", "workqueue", "sched")
_LACKING: Final[Mapping[str, str]] = {"-b,--use-bpf": "it needs perf's BPF programs; record, then read the recording"}


def kinds_of(text: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of work of -k, in perf's order; the default without it. Rejects unknown words."""
    words = [word for word in text.split(",") if word]
    for word in words:
        if word not in KINDS:
            fail(f"-k {word}: unknown kind of work; expected {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in words) or default


class KindOptions(CommandOptions):
    """The kinds of work."""

    kwork: str = option("-k,--kwork", Value(default=""), "only this work: irq, softirq, workqueue, sched", metavar="<kwork>")


class KworkOptions(KindOptions, InputOptions, VerboseOptions, DumpOptions, KernelSymbolOptions):
    """Options of all actions that read a recording."""

    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    name: str = option("-n,--name", Value(default=""), "only work of this name", metavar="<name>")
    time: str = option("--time", Value(default=""), "only this time: start,stop", metavar="<str>")
    symfs: str = option("--symfs", Value(default=""), "look for symbol files below this directory", metavar="<directory>")


class KworkReportOptions(KworkOptions, lacks=_LACKING):
    """Options of `perfpy kwork report`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: runtime, max, count", metavar="<key[,key2...]>")
    with_summary: bool = option("-S,--with-summary", Flag(), "show the summary of all work")


class KworkLatencyOptions(KworkOptions, lacks=_LACKING):
    """Options of `perfpy kwork latency`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: avg, max, count", metavar="<key[,key2...]>")


class KworkTimehistOptions(KworkOptions):
    """Options of `perfpy kwork timehist`."""

    kwork: str = option("--kwork", Value(default=""), "only this work: irq, softirq, workqueue", metavar="<kwork>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    call_graph: bool = option("-g,--call-graph", Flag(), "show callchains, if recorded")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=5), "show at most n functions of a callchain", metavar="<n>")


class KworkTopOptions(KworkOptions, lacks=_LACKING):
    """Options of `perfpy kwork top`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: rate, runtime, tid", metavar="<key[,key2...]>")


def _record(options: KindOptions, arguments: list[str]) -> int:
    return run_record("kwork", arguments, kinds=kinds_of(options.kwork, KINDS[:-1]))


def report(options: KworkReportOptions) -> int:
    """Show how long the kernel worked."""
    keys = sort_keys(options.sort, ("runtime", "max", "count"), "runtime")
    kinds = _kinds(options)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.tools.kwork.works import (
            ENTRY,
            EXIT,
            find_intervals,
            make_rows,
            page_lines,
            runtime_lines,
            skipped_lines,
            sorted_rows,
            total_of,
        )  # fmt: skip

        _check(recording, options, kinds)
        read = WorkInput(recording, options, kinds, (ENTRY, EXIT))
        intervals = find_intervals(read.events, read.work, ENTRY, EXIT)
        rows = make_rows(read.events, read.work, intervals)
        totals = total_of(rows, read.events) if options.with_summary else None
        print_lines(runtime_lines(sorted_rows(rows, keys), lambda row: read.label(row.event), totals))
        print_lines(skipped_lines(intervals.skipped, _record_count(recording)))
        print_lines([*(page_lines(read.events, read.work, ENTRY, EXIT) if options.verbose else ()), ""])
    return 0


def latency(options: KworkLatencyOptions) -> int:
    """Show how long work waited until it began."""
    keys = sort_keys(options.sort, ("avg", "max", "count"), "avg")
    kinds = _kinds(options)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.tools.kwork.works import ENTRY, RAISE, delay_lines, find_intervals, make_rows, page_lines, skipped_lines, sorted_rows

        _check(recording, options, kinds)
        read = WorkInput(recording, options, kinds, (RAISE, ENTRY))
        intervals = find_intervals(read.events, read.work, RAISE, ENTRY)
        rows = make_rows(read.events, read.work, intervals)
        print_lines(delay_lines(sorted_rows(rows, keys), lambda row: read.label(row.event)))
        print_lines(skipped_lines(intervals.skipped, _record_count(recording)))
        print_lines([*(page_lines(read.events, read.work, RAISE, ENTRY) if options.verbose else ()), ""])
    return 0


def timehist(options: KworkTimehistOptions) -> int:
    """Show each run of work with its times."""
    kinds = _kinds(options)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.tools.kwork.works import ENTRY, EXIT, RAISE, history_lines

        _check(recording, options, kinds)
        options.check_symbol_files()
        read = WorkInput(recording, options, kinds, (RAISE, ENTRY, EXIT), chains=options.call_graph)
        print_lines(history_lines(_runs(read, options)))
    return 0


def top(options: KworkTopOptions) -> int:
    """Show the CPU time that each task used, without interrupts."""
    keys = sort_keys(options.sort, ("rate", "runtime", "tid"), "rate,runtime")
    kinds = kinds_of(options.kwork, KINDS)
    with open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording:
        from perfpy.tools.kwork.cpu_usage import sorted_tasks, usage_lines

        options.dump(recording)
        usage = _usage(recording, options, kinds)
        print_lines(usage_lines(usage, sorted_tasks(usage.tasks, keys)))
    return 0


command = CommandWithActions(
    KworkOptions,
    {
        "record": ForwardingAction(
            KindOptions, _record, "record", "record the kernel's work on all CPUs; also takes the options of record"
        ),
        "report": Action(KworkReportOptions, report, "the time of each interrupt and piece of work"),
        "latency": Action(KworkLatencyOptions, latency, "the delay from the request of work until it begins"),
        "timehist": Action(KworkTimehistOptions, timehist, "each run of work, with its time and delay"),
        "top": Action(KworkTopOptions, top, "the CPU time of each task, without interrupts"),
    },
    "Show the work of the kernel: interrupts, soft interrupts and work queues, and the CPU time of tasks without them.",
)


def _runs(read: WorkInput, options: KworkTimehistOptions) -> Iterator[tuple[int, int, int, str, int, str]]:
    """Yield the values of each line; see history_lines."""
    from perfpy.tools.kwork.works import make_history

    events = read.events
    history = make_history(events, read.work)
    chains = _chain_texts(read, options, history.begin.tolist())
    labels: dict[int, str] = {}
    columns = (events.time[history.begin], events.time[history.end], events.cpu[history.begin], read.work[history.begin], history.delay)
    rows = zip(history.begin.tolist(), *(column.tolist() for column in columns), strict=True)
    for number, (event, begin, end, cpu, work, delay) in enumerate(rows):
        if work not in labels:
            labels[work] = read.label(event)
        yield begin, end, cpu, labels[work], delay, chains[number] if chains else ""


def _chain_texts(read: WorkInput, options: KworkTimehistOptions, rows: list[int]) -> list[str]:
    """Return the callchains of events; [] if they are not wanted or not recorded."""
    import numpy as np

    chains = read.events.chains
    if chains is None or not len(chains.values) or not rows:
        return []
    from perfpy.abi.columns import Columns
    from perfpy.views.readable import chain_texts

    chosen = np.array(rows, np.int64)
    columns = Columns(len(chosen), {"callchain": chains.take(chosen)})
    pid, key = read.events.tid[chosen].astype(np.int32), read.events.key[chosen]
    texts = chain_texts(columns, pid, key, read.symbolizer, options.max_stack, is_switch=False)
    return [text.decode("utf-8", "surrogateescape") for text in texts]


def _kinds(options: KworkOptions) -> tuple[str, ...]:
    """Return the kinds of work that have run times: all but sched."""
    return tuple(kind for kind in kinds_of(options.kwork, KINDS) if kind != KINDS[-1])


def _check(recording: Recording, options: KworkOptions, kinds: Sequence[str]) -> None:
    """Reject a recording without any of the kinds; print all records for -D."""
    from perfpy.tools.kwork.works import missing_kinds

    if kinds and len(missing_kinds(recording.data, kinds)) == len(kinds):
        fail(f"{recording.path}: no tracepoints of {', '.join(kinds)}; record them: perfpy kwork -k {','.join(kinds)} record -- COMMAND")
    options.dump(recording)


def _record_count(recording: Recording) -> int:
    return sum(recording.data.record_index.type_counts.values())


def _usage(recording: Recording, options: KworkTopOptions, kinds: tuple[str, ...]) -> CpuUsage:
    import numpy as np

    from perfpy.perfdata.tracepoint_rows import read_tracepoints
    from perfpy.tools.kwork.cpu_usage import FIELDS, SWITCH, measure_usage
    from perfpy.tools.kwork.works import ENTRY, EXIT, IRQ, SOFTIRQ, read_work

    if KINDS[-1] not in kinds:
        fail("kwork top needs switches; add sched to -k")
    switches = read_tracepoints(recording.data, {SWITCH: FIELDS}).get(SWITCH)
    if switches is None:
        fail(f"{recording.path}: no {SWITCH} tracepoint; record it: perfpy kwork -k {','.join(KINDS)} record -- COMMAND")
    switches = switches.with_numbers(("prev_pid", "next_pid"))
    chosen = selected(recording, options, switches.cpu.astype(np.int64), switches.time)
    interrupts: dict[str, WorkEvents] = {}
    for kind in (IRQ, SOFTIRQ):
        if kind in kinds:
            events = read_work(recording.data, (kind,), (ENTRY, EXIT))
            interrupts[kind] = events.take(selected(recording, options, events.cpu, events.time))
    return measure_usage(switches, interrupts, options.name, chosen)


class WorkInput:
    """The events of the kernel's work in an open recording.

    Attributes:
        events: within the CPUs, times and names of the options.
        work: int64[n], a number for each piece of work on a CPU.
    """

    def __init__(
        self, recording: Recording, options: KworkOptions, kinds: Sequence[str], phases: Sequence[int], *, chains: bool = False
    ) -> None:
        from perfpy.tools.kwork.works import read_work, vector_names

        self._recording = recording
        self._options = options
        self._kinds = kinds
        self._functions: dict[int, str] = {}
        self._vectors = vector_names(recording.data)
        events = read_work(recording.data, kinds, phases, chains=chains)
        self.events: WorkEvents = events.take(selected(recording, options, events.cpu, events.time))
        self.work = self.events.work_numbers()
        if options.name:
            self._keep_name(options.name)

    def _keep_name(self, name: str) -> None:
        """Leave out work with another name. Work without a name stays, as in perf."""
        import numpy as np

        _, first, which = np.unique(self.work, return_index=True, return_inverse=True)
        keeps = np.array([self.name(row) in ("", name) for row in first.tolist()], bool)[which.ravel()]
        keeps |= self._precede_names()
        self.events, self.work = self.events.take(keeps), self.work[keeps]

    def _precede_names(self) -> NDArray[np.bool_]:
        """Return a mask of the ends of interrupts before the first begin, which has the name."""
        import numpy as np

        from perfpy.tools.kwork.works import IRQ

        first = np.full(int(self.work.max(initial=-1)) + 1, len(self.work), np.int64)
        named = np.flatnonzero(self.events.name != "")
        np.minimum.at(first, self.work[named], named)
        is_irq = self.events.kind == (self._kinds.index(IRQ) if IRQ in self._kinds else -1)
        precedes: NDArray[np.bool_] = is_irq & (np.arange(len(self.work)) < first[self.work])
        return precedes

    def name(self, event: int) -> str:
        """Return the name of the work of an event, "" without one."""
        kind = self._kinds[int(self.events.kind[event])]
        if kind == "workqueue":
            return self._function_name(int(self.events.function[event]))
        number = int(self.events.number[event])
        return self._vectors.get(number, "") if kind == "softirq" else self._handlers.get(int(self.work[event]), "")

    @cached_property
    def _handlers(self) -> dict[int, str]:
        """The name of each interrupt's first handler, by the number of its work."""
        named: dict[int, str] = {}
        for work, name in zip(self.work.tolist(), self.events.name.tolist(), strict=True):
            if name:
                named.setdefault(work, name)
        return named

    def label(self, event: int) -> str:
        """Return the text of an event's work."""
        from perfpy.tools.kwork.works import label_of

        return label_of(self._kinds[int(self.events.kind[event])], self.name(event), int(self.events.number[event]))

    def _function_name(self, address: int) -> str:
        if address not in self._functions:
            symbol = self.symbolizer.kernel_symbol(address) if address else None
            self._functions[address] = symbol[0] if symbol else ""
        return self._functions[address]

    @cached_property
    def symbolizer(self) -> Symbolizer:
        """The symbols of the recording."""
        return kernel_symbolizer(self._options, self._recording, symfs=self._options.symfs, force=self._options.force)


def selected(recording: Recording, options: KworkOptions, cpu: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the events on the CPUs and in the time of the options."""
    import numpy as np

    chosen = np.ones(len(cpu), bool)
    if options.cpu:
        from perfpy.analysis.filters import check_cpus

        try:
            cpus = parse_cpu_list(options.cpu)
        except ValueError as error:
            fail(f"-C {options.cpu!r}: {error}")
        check_cpus(cpus, recording.data)
        chosen &= np.isin(cpu, cpus)
    if options.time:
        from perfpy.analysis.filters import ranges_of

        chosen &= ranges_of(options.time, recording.times()).mask(time.view(np.uint64))
    return chosen


def sort_keys(text: str, known: Sequence[str], default: str) -> list[str]:
    """Return the keys of -s. Rejects unknown ones."""
    keys = [word for word in (text or default).split(",") if word]
    for key in keys:
        if key not in known:
            fail(f"-s {key}: unknown sort key; expected {', '.join(known)}")
    return keys
