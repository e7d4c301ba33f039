"""Options of `perfpy stat`: perf stat's names, letters and defaults (perf-stat(1))."""

from __future__ import annotations

import os
import sys
import time

from perfpy.abi.light_types import NamedTuple, signal
from perfpy.cli.line.option_parsing import (
    Attached,
    Choice,
    CommandOptions,
    Counted,
    Flag,
    Listed,
    StdioOptions,
    Value,
    events_with_filters,
    fail,
    option,
    percent,
    program_to_run,
)
from perfpy.errors import NothingCountedError, OutputFailedError, PerfError, RefusedOptionsError, UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import IO, Any, NoReturn, Protocol

    from perfpy.capture.measurement import Plan
    from perfpy.capture.metrics import ChosenMetrics, MetricOptions
    from perfpy.capture.targets import Target
    from perfpy.counts.aggregation import Aggregation
    from perfpy.counts.metrics import Metric
    from perfpy.counts.tally import Tally
    from perfpy.events.event import Event
    from perfpy.events.machine import Machine

    Metrics = Mapping[Event, Sequence[Metric]]

    class View(Protocol):
        """Renders tallies."""

        def render(self, tally: Tally) -> Iterator[str]:
            """Yield the text of one printing."""

    class Interruptible(Protocol):
        """Receives signals.

        Attributes:
            stop_fd: becomes readable, to wake poll(), when the work must stop.
            stopped: whether the work must stop.
        """

        stop_fd: int
        stopped: bool

        def interrupted(self, signum: int) -> None:
            """Handle a signal."""


_LACKING = {
    "-b,--bpf-prog": "it needs perf's BPF programs",
    "--bpf-counters": "it needs perf's BPF programs",
    "--bpf-attr-map": "it needs perf's BPF programs",
    "--pfm-events": "it needs libpfm4; name events as perfpy list does",
    "--iostat": "it needs Intel's IIO counters",
    "--tpebs-mode": "it needs Intel's timed PEBS",
}


class PartOptions(CommandOptions):
    """The parts of the machine over which counts are added."""

    per_socket: bool = option("--per-socket", Flag(), "print one line for each socket")
    per_die: bool = option("--per-die", Flag(), "print one line for each die")
    per_cluster: bool = option("--per-cluster", Flag(), "print one line for each cluster")
    per_cache: str | None = option(
        "--per-cache", Attached(""), "print one line for each cache (default: the last level)", metavar="<level>"
    )
    per_core: bool = option("--per-core", Flag(), "print one line for each core")
    per_thread: bool = option("--per-thread", Flag(), "print one line for each thread")
    per_node: bool = option("--per-node", Flag(), "print one line for each NUMA node")


class RunOptions(CommandOptions):
    """The events, the runs, and the output."""

    event: tuple[str, ...] = option("-e,--event", Listed(), "select events; perfpy list shows them", metavar="<event>", negatable=False)
    filter: tuple[str, ...] = option("--filter", Listed(), "filter the tracepoints of the last -e", metavar="<filter>", negatable=False)
    event_files: str = option("--event-files", Value(default=""), "also take named events from these JSON files", metavar="<folder>")
    cputype: str = option("--cputype", Value(default=""), "count on this kind of core only, on hybrid machines", metavar="<PMU>")
    pmu_filter: str = option("--pmu-filter", Value(default=""), "use this PMU if an event matches several", metavar="<PMU>")
    no_inherit: bool = option("-i,--no-inherit", Flag(), "do not count child tasks")
    pid: str = option("-p,--pid", Value(default=""), "count these processes", metavar="<pid>")
    tid: str = option("-t,--tid", Value(default=""), "count these threads", metavar="<tid>")
    all_cpus: bool = option("-a,--all-cpus", Flag(), "count on all CPUs (default without a command)")
    scale: bool = option("--scale", Flag(default=True), "scale counts of multiplexed events (default)")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")
    repeat: int = option("-r,--repeat", Value(int, default=1), "run the command n times, print mean and spread; 0: forever")
    table: bool = option("--table", Flag(), "print each repeat")
    null: bool = option("-n,--null", Flag(), "count nothing, measure only the time")
    detailed: int = option("-d,--detailed", Counted(), "add cache events; -dd and -ddd add more")
    sync: bool = option("-S,--sync", Flag(), "sync file systems before each run")
    big_num: bool | None = option("-B,--big-num", Flag(default=None), "use the locale's thousands separators")
    cpu: str = option("-C,--cpu", Value(default=""), "count on these CPUs, such as 0-2,5", metavar="<cpu>")
    no_aggr: bool = option("-A,--no-aggr,--no-merge", Flag(), "print one line for each CPU")
    separator: str | None = option("-x,--field-separator", Value(), "separate fields with this string", metavar="<separator>")
    json: bool = option("-j,--json-output", Flag(), "print JSON, one object a line")
    cgroup: str = option("-G,--cgroup", Value(default=""), "count the preceding event in this cgroup", metavar="<name>", negatable=False)
    for_each_cgroup: str = option("--for-each-cgroup", Value(default=""), "count each event in each of these cgroups", metavar="<name>")
    output: str = option("-o,--output", Value(default=""), "write to this file", metavar="<file>")
    append: bool = option("--append", Flag(), "append to the file of -o")
    log_fd: int = option("--log-fd", Value(int, default=0), "write to this file descriptor instead of stderr")
    pre: str = option("--pre", Value(default=""), "run this before each run", metavar="<command>")
    post: str = option("--post", Value(default=""), "run this after each run", metavar="<command>")
    interval: int = option("-I,--interval-print", Value(int, default=0), "print counts every n ms")
    interval_count: int = option("--interval-count", Value(int, default=0), "stop after n intervals")
    interval_clear: bool = option("--interval-clear", Flag(), "clear the screen before each interval")
    timeout: int = option("--timeout", Value(int, default=0), "stop after n ms (at least 10)")


class StatCommandOptions(RunOptions, PartOptions, StdioOptions, lacks=_LACKING):
    """Options of `perfpy stat`, in the order of the help."""

    delay: int = option("-D,--delay", Value(int, default=0), "start counting after n ms; -1: wait for enable on --control")
    metrics: tuple[str, ...] = option(
        "-M,--metrics", Listed(), "compute these metrics or metric groups", metavar="<metric>", negatable=False
    )
    metric_no_group: bool = option("--metric-no-group", Flag(), "do not group the events of a metric")
    metric_no_merge: bool = option("--metric-no-merge", Flag(), "do not share events between metrics")
    metric_no_threshold: bool = option("--metric-no-threshold", Flag(), "do not count events for metric thresholds")
    transaction: bool = option("-T,--transaction", Flag(), "compute the metrics of hardware transactions")
    topdown: bool = option("--topdown", Flag(), "compute the top-down metrics (group TopdownL1)")
    td_level: int = option("--td-level", Value(int, default=1), "set the level of --topdown")
    smi_cost: bool = option("--smi-cost", Flag(), "measure the cost of system management interrupts (Intel)")
    metric_only: bool | None = option("--metric-only", Flag(default=None), "print only ratios and metrics (default with --topdown)")
    hide_zero_events: bool = option("--hide-zero-events", Flag(), "hide events with a count of zero")
    affinity: bool = option("--affinity", Flag(default=True), "let it go from CPU to CPU itself (it need not)", hidden=True)
    hybrid_merge: bool = option("--hybrid-merge", Flag(), "add the counts of all kinds of cores")
    machines: str = option("--guests", Value(Choice("H", "G", "HG"), default="H"), "of kvm stat", hidden=True)
    percore_show_thread: bool = option("--percore-show-thread", Flag(), "sums of cores for each of their CPUs", hidden=True)
    all_kernel: bool = option("--all-kernel", Flag(), "count only kernel code")
    all_user: bool = option("--all-user", Flag(), "count only code in user space")
    summary: bool = option("--summary", Flag(), "with -I: print the totals at the end")
    no_csv_summary: bool | None = option("--no-csv-summary", Flag(default=None), "omit the word 'summary' from --summary's lines with -x")
    quiet: bool = option("--quiet", Flag(), "print nothing (only with stat record)")
    control: str = option(
        "--control", Value(default=""), "read enable and disable commands from here, answer ack", metavar="<fd:N[,M]|fifo:PATH[,PATH]>"
    )
    record_tpebs: bool = option("--record-tpebs", Flag(), "of modifier R: refused, as perfpy does not sample latencies", hidden=True)
    compare: tuple[str, ...] = option("--compare", Listed(), "compare with this command, run in turns; repeatable", metavar="<command>")
    warmup: int = option("--warmup", Value(int, default=1), "with --compare: run each command n times first, uncounted")
    min_change: float = option(
        "--min-change", Value(float, default=1.0), "with --compare: ignore differences below this", metavar="<percent>"
    )
    fail_if_slower: float | None = option(
        "--fail-if-slower", Value(percent), "with --compare: exit with 90 if a command is slower by more", metavar="<percent>"
    )
    ignore_failure: bool = option("--ignore-failure", Flag(), "with --compare: also compare failing runs")
    workload: tuple[str, ...] = program_to_run()


def chosen_aggregation(options: PartOptions, *, no_aggr: bool) -> Aggregation | None:
    """Return the aggregation of -A or a --per-... option; if several are given, the last in this list wins."""
    from perfpy.counts.aggregation import Aggregation

    aggregations = (
        (Aggregation.NODE, options.per_node),
        (Aggregation.SOCKET, options.per_socket),
        (Aggregation.DIE, options.per_die),
        (Aggregation.CLUSTER, options.per_cluster),
        (Aggregation.CACHE, options.per_cache is not None),
        (Aggregation.CORE, options.per_core),
        (Aggregation.THREAD, options.per_thread),
        (Aggregation.NONE, no_aggr),
    )
    return next((aggregation for aggregation, is_given in reversed(aggregations) if is_given), None)


def cache_level(options: PartOptions) -> int | None:
    """Return the level of --per-cache; None for the last one."""
    text = options.per_cache
    if not text:
        return None
    if len(text) != 2 or text[0] not in "lL" or text[1] not in "1234":
        fail("--per-cache takes L1, L2, L3 or L4")
    return int(text[1])


def _refuse(text: str) -> NoReturn:
    raise RefusedOptionsError(text)


def check(options: StatCommandOptions) -> None:
    """Raise UsageError for options that exclude each other, or before that for events that cannot be: perf reads these first."""
    try:
        _check(options)
    except PerfError:
        read_events(options)
        raise


def of_one_set(options: StatCommandOptions) -> StatCommandOptions:
    """Return the options without the sets of events that another one excludes, with a warning for each. -n excludes all."""
    if options.null:
        return options.replace(detailed=0, topdown=False, transaction=False, smi_cost=False)
    if not (options.transaction or options.smi_cost):
        return options
    excluded = [("detailed", "-d"), ("topdown", "--topdown"), *([("smi_cost", "--smi-cost")] if options.transaction else [])]
    others = {name: text for name, text in excluded if getattr(options, name)}
    chosen = "--transaction" if options.transaction else "--smi-cost"
    _print_warnings(options, [f"warning: {text} has no effect beside {chosen}" for text in others.values()])
    return options.replace(**{name: type(getattr(options, name))() for name in others})


def read_events(options: StatCommandOptions) -> None:
    """Raise the error of the options of events, if they have one."""
    from perfpy.capture.measurement import choose_events
    from perfpy.capture.targets import Target

    texts, filters = events_with_filters(options)
    if texts or options.cputype:
        target = Target("command", (), ())
        choose_events(texts, filters, target, event_files=options.event_files, cores=options.cputype, only=options.pmu_filter)


def _check(options: StatCommandOptions) -> None:
    _check_events(options)
    if options.separator is not None and options.big_num:
        _refuse("-B and -x exclude each other")
    if options.output and options.log_fd:
        _refuse("--output and --log-fd exclude each other")
    if options.log_fd < 0:
        _refuse("--log-fd requires the number of an open file")
    if options.metric_only and options.per_thread:
        _refuse("--metric-only excludes --per-thread")
    if options.metric_only and options.repeat > 1:
        _refuse("--metric-only excludes -r")
    if options.interval_clear and (options.output or options.log_fd or not sys.stderr.isatty()):
        raise PerfError("--interval-clear requires a terminal as output")
    if options.table and options.repeat <= 1:
        _refuse("--table requires -r")
    if options.fail_if_slower is not None and not options.compare:
        fail("--fail-if-slower requires --compare: --compare 'command B' -- command A")
    if options.repeat < 0:
        _refuse("-r requires a number of runs; 0 repeats until Ctrl-C")
    if options.all_kernel and options.all_user:
        fail("--all-kernel and --all-user exclude each other")
    _check_times(options)


def _check_events(options: StatCommandOptions) -> None:
    if options.cgroup and options.in_order("event", "metrics", "cgroup")[0].name == "cgroup":
        fail("-G requires -e before it: it applies to the events before it")
    if options.cputype:
        from perfpy.events.machine import this_machine  # few machines have several kinds of cores

        this_machine(cores=options.cputype)


def _check_times(options: StatCommandOptions) -> None:
    if options.interval_count and not options.interval:
        _refuse("--interval-count requires -I")
    if options.interval < 0 or options.interval_count < 0:
        fail("--interval-print and --interval-count require positive numbers")
    if options.timeout < 0:
        fail("--timeout requires a positive number")
    if options.timeout and options.timeout < 10:
        _refuse("--timeout must be at least 10 ms")
    if options.timeout and options.interval:
        _refuse("--timeout excludes -I; use --interval-count with -I")
    if options.timeout and options.timeout < 100:
        _print_warnings(options, ["warning: with --timeout below 100 ms, much of the measured time is perfpy's own start and end"])


def _print_warnings(options: StatCommandOptions, texts: Sequence[str]) -> None:
    for text in () if options.quiet else texts:
        print(text, file=sys.stderr)


def plan_of(options: StatCommandOptions) -> Plan:
    """Resolve the events and the target. Raises UsageError, UnknownEventError, EventSyntaxError."""
    from perfpy.capture.counters import CountingOptions
    from perfpy.capture.measurement import Plan, cores_of, grouping_of
    from perfpy.capture.targets import NoSuchThreadError, TargetOptions, resolve
    from perfpy.counts.aggregation import Aggregation

    mode = chosen_aggregation(options, no_aggr=options.no_aggr) or Aggregation.GLOBAL
    is_system_wide = bool(options.all_cpus or not (options.workload or options.pid or options.tid or options.cpu))
    every_thread = mode is Aggregation.THREAD and is_system_wide and not (options.pid or options.tid)
    try:
        target, warnings = resolve(options.fill(TargetOptions, all_cpus=is_system_wide), every_thread=every_thread, skip_offline=True)
    except NoSuchThreadError:
        raise
    except UsageError as error:
        read_events(options)
        _refuse(str(error))
    _print_warnings(options, warnings)
    events, metrics, only_for_metrics = _events_and_metrics(options, target, is_system_wide)
    if options.cpu and not target.has_tasks:
        events = _on_requested_cpus(events, target, options)
    if target.kind == "command" and events and all(event.requires_cpu for event in events):
        target = target._replace(kind="system")  # uncore PMUs count on CPUs, not tasks
    events, metrics, only_for_metrics, cgroup_fds = _in_cgroups(events, metrics, only_for_metrics, target, options)
    grouping = grouping_of(target, mode, cache_level=cache_level(options))
    has_percore = grouping.mode is Aggregation.NONE and any(event.terms.percore for event in events)
    return Plan(
        events,
        target,
        options.workload,
        options=CountingOptions(
            inherit=not options.no_inherit, all_user=options.all_user, all_kernel=options.all_kernel, optional=only_for_metrics
        ),
        grouping=grouping,
        cgroup_fds=cgroup_fds,
        metrics=metrics,
        only_for_metrics=only_for_metrics,
        is_null=options.null,
        default_set=not (options.event or options.metrics or options.topdown or options.transaction),
        hides_zeros=options.hide_zero_events,
        delay=options.delay,
        repeat=options.repeat,
        interval=options.interval,
        interval_count=options.interval_count,
        timeout=options.timeout,
        summary=options.summary,
        scale=options.scale,
        before=options.pre,
        after=options.post,
        sync=options.sync,
        cores=cores_of(grouping) if has_percore else (),
        percore_by_cpu=options.percore_show_thread,
    )


def _events_and_metrics(options: StatCommandOptions, target: Target, is_system_wide: bool) -> tuple[list[Event], Metrics, list[Event]]:
    """Return the events of -e, -M and --topdown, or the default ones; the metrics beside them; the events whose own counts are hidden."""
    from perfpy.capture.measurement import choose_events, default_events, may_have_default_metrics
    from perfpy.events.event import RETIREMENT_LATENCY

    texts, filters = events_with_filters(options)
    if not texts and not options.detailed and (chosen := _chosen_metrics(options, is_system_wide)):
        _print_warnings(options, chosen.warnings)
        return chosen.events, chosen.metrics, []
    events, warnings = choose_events(
        texts,
        filters,
        target,
        detailed=options.detailed,
        null_run=options.null,
        event_files=options.event_files,
        cores=options.cputype,
        only=options.pmu_filter,
        adds_cores=options.hybrid_merge,
        machines=options.machines,
    )
    if options.record_tpebs and any(event.tool == RETIREMENT_LATENCY for event in events):
        fail("--record-tpebs with the modifier R needs Intel's timed PEBS, which perfpy does not sample")
    _print_warnings(options, warnings)
    count = len(texts or default_events(target))
    requested = [event for event in events if event.option < count]
    details = [event._replace(is_named=True) for event in events if event.option >= count]  # -A adds no PMU to names of -d
    if options.all_user or options.all_kernel or options.machines != "H":
        requested, details = requested if texts else _with_modifiers(requested, options), _with_modifiers(details, options)
    if chosen := _chosen_metrics(options, is_system_wide):
        _print_warnings(options, chosen.warnings)
        return [*(requested if texts else ()), *chosen.events, *details], chosen.metrics, []
    if not texts and not options.null and may_have_default_metrics():
        from perfpy.capture.metrics import default_metrics

        how, machine = _metric_options(options, is_system_wide)
        if defaults := default_metrics(how, machine):
            return [*requested, *defaults.events, *details], defaults.metrics, defaults.events
    return [*requested, *details], {}, []


def _with_modifiers(events: list[Event], options: StatCommandOptions) -> list[Event]:
    """Return the default events with the modifiers in their names that --all-user, --all-kernel or `kvm stat` means."""
    from perfpy.events.event import change_events
    from perfpy.events.fallback import modifiers_of

    excluded = {name: 1 for name, is_set in (("exclude_user", options.all_kernel), ("exclude_kernel", options.all_user)) if is_set}
    return change_events(events, lambda event: {"name": f"{event.name}:{modifiers_of(event.attr.copy(**excluded))}"})


def _chosen_metrics(options: StatCommandOptions, is_system_wide: bool) -> ChosenMetrics | None:
    """Return the events and metrics of -M and --topdown; None without them."""
    if not (options.metrics or options.topdown or options.transaction):
        return None
    from perfpy.capture.metrics import ChosenMetrics, choose, topdown_group

    how, machine = _metric_options(options, is_system_wide)
    how = how._replace(grouped=not options.metric_no_group, merged=not options.metric_no_merge, thresholds=not options.metric_no_threshold)
    chosen = [choose(",".join(options.metrics), how, machine)] if options.metrics else []
    if options.transaction:
        chosen.append(choose("transaction", how, machine))
    elif options.topdown:
        group = topdown_group(options.td_level, machine)
        chosen.append(choose(group, how._replace(grouped=True, merged=True, thresholds=False), machine))
    return ChosenMetrics(
        [event for part in chosen for event in part.events],
        {event: metrics for part in chosen for event, metrics in part.metrics.items()},
        [warning for part in chosen for warning in part.warnings],
    )


def _metric_options(options: StatCommandOptions, is_system_wide: bool) -> tuple[MetricOptions, Machine]:
    """Return the target's part of the options of metrics, and the machine to look up their events."""
    from perfpy.capture.metrics import MetricOptions
    from perfpy.events.machine import this_machine

    machine = this_machine(options.event_files, cores=options.cputype, only=options.pmu_filter)
    unit = machine.chosen_cores[0].name if options.cputype else ""
    return MetricOptions(system_wide=is_system_wide, cpus=options.cpu, unit=unit, machines=options.machines), machine


def _on_requested_cpus(events: list[Event], target: Target, options: StatCommandOptions) -> list[Event]:
    """Return the events that the CPUs of -C can count. Raises PerfError if no CPU is online, NothingCountedError if no event is left."""
    from perfpy.capture.measurement import on_requested_cpus

    kept, warnings = on_requested_cpus(events, target, options.cpu, are_default=not options.event)
    _print_warnings(options, warnings)
    if not target.cpus and not options.event:
        raise PerfError(f"no CPU of -C {options.cpu} is online; see /sys/devices/system/cpu/online")
    if events and not kept:
        raise NothingCountedError(f"no event counts on the CPUs of -C {options.cpu}; perfpy list -v shows the CPUs of each PMU")
    return kept


def _in_cgroups(
    events: list[Event], metrics: Metrics, only_for_metrics: list[Event], target: Target, options: StatCommandOptions
) -> tuple[list[Event], Metrics, list[Event], dict[str, int]]:
    """Return the events in cgroups instead of the system's, their metrics, the hidden ones, and each cgroup's open folder."""
    if not (options.cgroup or options.for_each_cgroup):
        return events, metrics, only_for_metrics, {}
    from perfpy.capture import cgroups

    if options.cgroup and options.for_each_cgroup:
        fail("--cgroup and --for-each-cgroup exclude each other")
    copies = [cgroups.assign(events if options.event else [], options.cgroup)] if options.cgroup else []
    if target.has_tasks:
        _refuse("counting cgroups requires -a or -C")
    if options.for_each_cgroup:
        copies = cgroups.expand(events, options.for_each_cgroup)
    events = [copy for of_cgroup in copies for copy in of_cgroup.values()]
    if metrics:
        from perfpy.counts.metrics import of_counterparts

        metrics = {event: its[::-1] for of_cgroup in copies for event, its in of_counterparts(metrics, of_cgroup).items()}  # perf's order
        only_for_metrics = [of_cgroup[event] for of_cgroup in copies for event in only_for_metrics]
    return events, metrics, only_for_metrics, cgroups.open_folders(events)


_CLEAR = ("[H", "[2J")  # after an ESC each
_WIDTH = 80  # for a terminal that does not report its width


class OutputForm(NamedTuple):
    """The destination of the counts (path or descriptor), and their format; see perf-stat(1)."""

    path: str = ""
    append: bool = False
    log_fd: int = 0
    quiet: bool = False
    json: bool = False
    separator: str | None = None
    big_num: bool | None = None
    metric_only: bool = False
    mark_summary: bool = True
    repeat_table: bool = False
    interval_clear: bool = False
    stdio: bool = False


def form_of(options: StatCommandOptions) -> OutputForm:
    """Return the form of the options."""
    return OutputForm(
        path=options.output,
        append=options.append,
        log_fd=options.log_fd,
        quiet=options.quiet,
        json=options.json,
        separator=options.separator,
        big_num=options.big_num,
        metric_only=options.topdown if options.metric_only is None else options.metric_only,
        mark_summary=not _leaves_mark_out(options),
        repeat_table=options.table,
        interval_clear=options.interval_clear,
        stdio=options.stdio,
    )


def _leaves_mark_out(options: StatCommandOptions) -> bool:
    """Whether the lines of a summary have no mark, by the option, else by stat.no-csv-summary if there are summary lines."""
    if options.no_csv_summary is not None or options.separator is None or not options.summary:
        return bool(options.no_csv_summary)
    from perfpy.cli.line.perfconfig import load_config  # rarely needed

    return load_config().flag("stat.no-csv-summary", False)


class StatOutput:
    """The stream and the view; a context manager. Each printing is flushed at once, so that the reader of a pipe sees each interval."""

    def __init__(self, form: OutputForm) -> None:
        self.form = form
        self._name = form.path
        self.stream = self._open()
        self.title = ""
        self._view: View | None = None

    def _open(self) -> IO[str]:
        mode = "a" if self.form.append else "w"
        if self.form.quiet:
            return open(os.devnull, "w")
        try:
            if self.form.log_fd:
                return _guard(os.fdopen(self.form.log_fd, mode, closefd=False))
            if not self._name or self._name == "-":
                return sys.stderr
            from perfpy.untrusted.destinations import opener  # few counts go to a file

            file = open(self._name, mode, encoding="utf-8", errors="surrogateescape", opener=opener)  # noqa: SIM115  # closed by __exit__
            stream = _guard(file)
        except OSError as error:
            failure = OutputFailedError(self._name or f"descriptor {self.form.log_fd}", error.strerror or str(error))
            if self.form.log_fd:
                failure.exit_code = RefusedOptionsError.exit_code
            raise failure from None
        if not self.form.json:
            stream.write(f"# started on {time.ctime()}\n\n")
        return stream

    def show(self, tally: Tally) -> None:
        """Write one printing."""
        if self._view is None:
            self._view = self._choose_view()
        text = "".join(self._view.render(tally))
        if self.form.interval_clear and tally.timestamp is not None:
            text = "".join(self._escape() + sequence for sequence in _CLEAR) + text
        self.write(text)

    @property
    def _for_a_person(self) -> bool:
        """Whether the counts are text on a terminal."""
        as_text = not (self.form.json or self.form.stdio) and self.form.separator is None
        if not as_text or not self.stream.isatty():
            return False  # the usual case, which saves the import
        from perfpy.cli.output.terminal import is_screen

        return is_screen(self.stream)

    def _screen(self) -> View:
        from perfpy.views.stat_screen import ScreenView

        try:
            width = int(os.environ.get("COLUMNS", "")) or _WIDTH
        except ValueError:
            width = os.get_terminal_size(self.stream.fileno()).columns or _WIDTH
        return ScreenView(
            self.title,
            width=width,
            colour="" if os.environ.get("NO_COLOR") else self._escape(),
            separators=self._separators() or ("" if self.form.big_num is False else ","),
            repeat_table=self.form.repeat_table,
        )

    def _escape(self) -> str:
        from perfpy.untrusted.terminal import escape_of

        return escape_of(self.stream)

    def _separators(self) -> str:
        return "" if self.form.big_num is False else _thousands_separator()

    def write(self, text: str) -> None:
        """Write text unchanged. Raises OutputFailedError."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailedError(self._name or "the counts", os.strerror(error.errno or 0)) from None

    def _choose_view(self) -> View:
        form = self.form
        if form.json:
            from perfpy.views.stat_fields import JsonView

            return JsonView(metric_only=form.metric_only)
        if form.separator is not None:
            from perfpy.views.stat_fields import CsvView

            separator = form.separator.replace("\\t", "\t")
            return CsvView(separator, metric_only=form.metric_only, mark_summary=form.mark_summary)
        if self._for_a_person and not form.metric_only:
            return self._screen()
        from perfpy.views.stat_text import TextView

        return TextView(
            self.title,
            separators=self._separators(),
            repeat_table=form.repeat_table,
            metric_only=form.metric_only,
            has_watchdog=_has_nmi_watchdog,
        )

    def __enter__(self) -> StatOutput:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.stream is not sys.stderr:
            try:
                self.stream.close()
            except OSError as failure:
                raise OutputFailedError(self._name or "the counts", os.strerror(failure.errno or 0)) from None


def _has_nmi_watchdog() -> bool:
    from perfpy.kernel.sysfs import has_nmi_watchdog  # most measurements count all events

    return has_nmi_watchdog()


def _guard(stream: IO[str]) -> IO[str]:
    from perfpy.untrusted.terminal import guard_terminal

    return guard_terminal(stream)


def _thousands_separator() -> str:
    """Return the locale's separator of thousands; "" in the C locale, the usual one in scripts."""
    for name in ("LC_ALL", "LC_NUMERIC", "LANG"):
        value = os.environ.get(name)
        if value:
            break
    else:
        return ""
    if value.split(".")[0] in ("C", "POSIX"):
        return ""
    import locale

    try:
        locale.setlocale(locale.LC_NUMERIC, "")
    except locale.Error:
        return ""
    separator = str(locale.localeconv()["thousands_sep"])
    locale.setlocale(locale.LC_NUMERIC, "C")
    return separator


class Signals:
    """Catches the signals while the context is active."""

    def __init__(self, listener: Interruptible) -> None:
        self._listener = listener
        self._signals = (signal.SIGINT, signal.SIGTERM)
        self._before: list[Any] = []
        self._read, self._write = os.pipe()

    def __enter__(self) -> Signals:
        os.set_blocking(self._write, False)
        self._before = [signal.signal(signum, self._handle) for signum in self._signals]
        self._listener.stop_fd = self._read
        return self

    def _handle(self, signum: int, _frame: object) -> None:
        self._listener.interrupted(signum)
        if self._listener.stopped:
            os.write(self._write, b"s")

    def __exit__(self, *exc: object) -> None:
        for signum, handler in zip(self._signals, self._before, strict=True):
            signal.signal(signum, handler)
        self._listener.stop_fd = -1
        os.close(self._read)
        os.close(self._write)


_BAR = 24


class Progress:
    """The progress of one row of runs."""

    def __init__(self) -> None:
        from perfpy.cli.output.terminal import is_screen

        self._visible = is_screen(sys.stderr)
        self._started = time.monotonic()

    def show(self, finished: int, total: int) -> None:
        """Show the number of completed runs."""
        from perfpy.untrusted.terminal import control

        if not self._visible or not total:
            return
        filled = _BAR * finished // total
        text = f"\r[{'=' * filled}{' ' * (_BAR - filled)}] run {min(finished + 1, total)} of {total}"
        if finished:
            remaining = (time.monotonic() - self._started) / finished * (total - finished)
            text += f", {_duration(remaining)} left"
        control(sys.stderr, text + "\033[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line."""
        from perfpy.untrusted.terminal import control

        if self._visible:
            control(sys.stderr, "\r\033[K")
            sys.stderr.flush()


def _duration(seconds: float) -> str:
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes else f"{remainder} s"
