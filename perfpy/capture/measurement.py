"""Run a Plan: runs of a command (or a wait), intervals, --control, repeats. Each printing passes a Tally to a callback."""

from __future__ import annotations

import os
import time

from perfpy.abi.attr import EventAttr
from perfpy.abi.cpu_list import cpu_list_text, parse_cpu_list
from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import NamedTuple
from perfpy.capture.counters import ANY, Counting, CountingOptions, Differences
from perfpy.capture.targets import Target, Workload, online_cpus, parse_cpus
from perfpy.counts.aggregation import (
    AggregateId,
    Aggregation,
    CountRow,
    Grouping,
    add_boxes,
    aggregate,
    mean,
    one_cell_a_package,
    part_label,
    part_numbers,
    relative_error,
    standard_error,
    sum_cores,
)
from perfpy.counts.tally import RunTimes, Tally
from perfpy.errors import RefusedOptionsError
from perfpy.events.event import RETIREMENT_LATENCY, Event, generic_event, natural_unit

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from select import poll
    from typing import Final

    from perfpy.abi.attr import CountedEvent
    from perfpy.capture.control import Control
    from perfpy.capture.counters import Readings
    from perfpy.capture.targets import WorkloadEnd
    from perfpy.counts.metrics import Metric
    from perfpy.kernel import Kernel


_MS: Final = 1_000_000


class Outcome:
    """The end of a measurement.

    Attributes:
        exit_code: of the command's last run; 128 + n for signal n.
        killed_by: that signal, or 0.
        runs: their number.
        failed_runs: runs with a status other than 0.
        tally: the last result; None if nothing was counted.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        self.killed_by = 0
        self.runs = 0
        self.failed_runs = 0
        self.tally: Tally | None = None


class Hooks:
    """Callbacks of a measurement; override those of interest."""

    def show(self, tally: Tally) -> None:
        """Print an interval, a result, or one run of an endless repeat."""

    def on_open(self, counting: Counting) -> None:
        """Called when the counters are open and disabled."""

    def round(self, readings: Readings, elapsed: int, final: bool) -> None:
        """Called after the counters are read; readings are since the start, elapsed is in ns."""

    def run_started(self, number: int) -> None:
        """Called when a repeat begins; number starts at 0."""

    def run_ended(self, number: int, elapsed: int, values: Mapping[CountedEvent, CountRow]) -> None:
        """Called when a repeat has ended, with its total counts."""

    def note(self, text: str) -> None:
        """Print a line for the user ("Events enabled")."""

    def warn(self, text: str) -> None:
        """Print a line with -v."""

    def describe(self, counting: Counting, _option: str) -> str:
        """Return the text of --control's evlist."""
        return "\n".join(event.name for event in counting.events)

    def on_kill(self, program: str, signum: int) -> None:
        """Called if a signal ended the command."""

    stop_fd = -1  #: becomes readable when the measurement must end
    stopped = False  #: whether the measurement must end


_NO_FDS: Final[Mapping[str, int]] = {}
_NO_METRICS: Final[Mapping[Event, Sequence[Metric]]] = {}


class Plan(NamedTuple):
    """The plan of a measurement; times are in ms, 0 for none.

    Attributes:
        command: the program; () for none.
        target: the tasks and CPUs.
        grouping: how counts are added.
        metrics: the metrics to compute, by the event that they are shown with.
        only_for_metrics: events whose own counts are not shown.
        is_null: whether only the time is to be measured, and the events that -e names.
        delay: before counting starts (-1: wait for --control).
        repeat: the number of runs; 0 until interrupted.
        interval, interval_count, timeout: as in perf-stat(1).
        summary: print a result after the intervals.
        scale: estimate what multiplexed counters missed.
        before, after: shell commands around each run.
        sync: call sync(2) before each run.
        cores: the core of each CPU of the grouping, for events with the term percore; () without them.
        percore_by_cpu: show the sums of percore beside each CPU.
    """

    events: Sequence[Event]
    target: Target
    command: Sequence[str] = ()
    options: CountingOptions = CountingOptions()
    grouping: Grouping = Grouping.everything()
    cgroup_fds: Mapping[str, int] = _NO_FDS
    metrics: Mapping[Event, Sequence[Metric]] = _NO_METRICS
    only_for_metrics: Sequence[Event] = ()
    is_null: bool = False
    default_set: bool = False
    hides_zeros: bool = False
    delay: int = 0
    repeat: int = 1
    interval: int = 0
    interval_count: int = 0
    timeout: int = 0
    summary: bool = False
    scale: bool = True
    before: str = ""
    after: str = ""
    sync: bool = False
    cores: Sequence[AggregateId] = ()
    percore_by_cpu: bool = False

    @property
    def tids(self) -> Sequence[int]:
        """The tasks to open counters on; a command's is not known yet."""
        return self.target.tids or (ANY,)

    @property
    def cpus(self) -> Sequence[int]:
        """The CPUs to open counters on."""
        return (ANY,) if self.target.has_tasks else self.target.cpus

    @property
    def counting_options(self) -> CountingOptions:
        """The options for counting. A command without a delay counts from its exec on. Threads that options do not name may end early."""
        kind = self.target.kind
        return self.options._replace(on_exec=kind == "command" and not self.delay, skip_missing=kind in ("pid", "user", "threads"))


class Measurement:
    """Runs a plan."""

    def __init__(self, plan: Plan, hooks: Hooks | None = None, *, control: Control | None = None, kernel: Kernel | None = None) -> None:
        self._plan = plan
        self._hooks = hooks or Hooks()
        self._control = control
        self._counting = Counting(
            plan.events, cpus=plan.cpus, options=plan.counting_options, cgroup_fds=plan.cgroup_fds, kernel=kernel, warn=self._hooks.warn
        )
        for note in self._counting.notes:
            self._hooks.note(note)
        self._package_of = _packages_of(plan.events)
        self._differences = Differences()
        self._started = 0
        self._elapsed: list[int] = []
        self._values: dict[CountedEvent, list[int]] = {event: [] for event in self._counting.events}
        self._ended: WorkloadEnd | None = None

    def run(self) -> Outcome:
        """Run until the plan is complete, or hooks.stopped. Raises PerfError."""
        plan, outcome = self._plan, Outcome()
        number = 0
        while plan.repeat == 0 or number < plan.repeat:
            self._hooks.run_started(number)
            self._differences = Differences()
            if plan.before and self._shell("--pre", plan.before, outcome):
                return outcome
            if plan.sync:
                os.sync()
            readings = self._run_once(outcome)
            if plan.after and not outcome.exit_code and self._shell("--post", plan.after, outcome):
                return outcome
            rows = self._rows(readings)
            if self._plan.grouping.mode is Aggregation.GLOBAL:
                for event, (row,) in rows.items():
                    self._values[event].append(row.value)
                self._hooks.run_ended(number, self._elapsed[-1], {event: row for event, (row,) in rows.items()})
            if plan.repeat == 0 and not plan.interval:
                self._hooks.show(self._result(rows, self._elapsed[-1:]))
            number += 1
            if self._hooks.stopped:
                break
        if plan.repeat != 0 and (not plan.interval or plan.summary):
            outcome.tally = self._result(rows, self._elapsed)
            self._hooks.show(outcome.tally)
        return outcome

    # -- one run ---------------------------------------------------------------

    def _shell(self, option: str, command: str, outcome: Outcome) -> bool:
        """Run a command of the user's; return whether it failed, with a note."""
        status = os.waitstatus_to_exitcode(os.system(command))
        outcome.exit_code = status if status >= 0 else 128 - status
        if status:
            self._hooks.note(f"{option} '{command}' failed with exit status {outcome.exit_code}; the run has no result")
        return status != 0

    def _run_once(self, outcome: Outcome) -> Readings:
        plan = self._plan
        if not plan.command:
            with self._counting.open(plan.tids) as counting:
                return self._count(counting, None, outcome)
        with Workload(plan.command) as workload:
            tids = [workload.pid] if plan.target.kind == "command" else plan.tids
            with self._counting.open(tids) as counting:
                return self._count(counting, workload, outcome)

    def _count(self, counting: Counting, workload: Workload | None, outcome: Outcome) -> Readings:
        plan = self._plan
        self._hooks.on_open(counting)
        if plan.delay:
            self._hooks.note("Events disabled")
        else:
            self._enable(counting)
        if workload:
            workload.start()
        self._started = workload.started_ns if workload else time.monotonic_ns()
        if plan.delay > 0:
            time.sleep(plan.delay / 1000)
            self._enable(counting)
            self._hooks.note("Events enabled")
            self._started = time.monotonic_ns()
        self._wait(counting, workload)
        if workload:
            ended_here = bool(self._plan.timeout) and workload.poll() is None
            if ended_here:
                workload.kill()
            ended = workload.wait()
            self._ended = ended
            outcome.killed_by = ended.signal
            outcome.exit_code = 0 if ended_here else ended.exit_code  # perfpy ended it as requested, which is no failure
            outcome.runs += 1
            outcome.failed_runs += outcome.exit_code != 0
            if ended.signal:
                self._hooks.on_kill(self._plan.command[0], ended.signal)
        if plan.target.kind != "command":
            counting.disable()
        elapsed = time.monotonic_ns() - self._started
        self._elapsed.append(elapsed)
        readings = counting.read(self._tool_times(elapsed))
        self._hooks.round(readings, elapsed, True)
        return readings

    def _enable(self, counting: Counting) -> None:
        if counting.options.on_exec:
            counting.enable_ebb()
        else:
            counting.enable()

    def _tool_times(self, elapsed: int) -> dict[str, int]:
        names = [event.tool for event in self._plan.events if event.tool]
        if not names:
            return {}
        return times(elapsed, self._ended) | machine_values(names, on_cpus=not self._plan.target.has_tasks)

    # -- waiting ---------------------------------------------------------------

    def _wait(self, counting: Counting, workload: Workload | None) -> None:
        """Wait until the command or the tasks end, time is up, or a stop is requested; show intervals meanwhile."""
        plan, hooks = self._plan, self._hooks
        if workload and not plan.interval and not plan.timeout and not self._control:
            workload.wait()
            return

        with Watch(workload, plan.target.tids) as watch:
            import select  # not needed until a command ends

            poller = select.poll()
            for fd in (*watch.fds, hooks.stop_fd, self._control.fd if self._control else -1):
                if fd >= 0:
                    poller.register(fd, select.POLLIN)
            period = (plan.interval or plan.timeout) * _MS
            due = self._started + period
            intervals = 0
            while not hooks.stopped and not watch.have_ended():
                now = time.monotonic_ns()
                if period and now >= due:
                    if not plan.interval:
                        return
                    self._show_interval(counting)
                    intervals += 1
                    due = time.monotonic_ns() + period
                    if intervals == plan.interval_count:
                        return
                    continue
                ready = dict(poller.poll(watch.patience(period and (due - now) / _MS)))
                for fd in ready.keys() & set(watch.fds):
                    poller.unregister(fd)  # one of several tasks has ended
                    watch.see_end(fd)
                if self._control and self._obey(self._control, ready.get(self._control.fd, 0), poller, counting):
                    return
            if plan.interval:
                self._show_interval(counting)

    def _obey(self, control: Control, ready: int, poller: poll, counting: Counting) -> bool:
        """Carry out the commands; return True for "stop", which as in perf does not end a command."""
        from select import POLLIN  # as above

        if ready and not ready & POLLIN:  # all writers have closed
            poller.unregister(control.fd)
        if not ready & POLLIN:
            return False
        controlled = _Controlled(counting, self._hooks)
        stop = False
        for command in control.commands():
            command.obey(controlled)
            control.acknowledge(command)
            stop |= command.verb == "stop"
        return stop and not self._plan.command

    # -- results ---------------------------------------------------------------

    def _show_interval(self, counting: Counting) -> None:
        elapsed = time.monotonic_ns() - self._started
        readings = counting.read(self._tool_times(elapsed))
        self._hooks.round(readings, elapsed, False)
        rows = self._rows(self._differences.since_last(readings))
        # As in perf, an interval of several runs has the column of the noise, and one value.
        noise: dict[CountedEvent, float] | None = {} if self._plan.repeat > 1 else None
        self._hooks.show(self._tally(rows, wall_ns=self._plan.interval * _MS, timestamp=elapsed, noise=noise))

    def _rows(self, readings: Readings) -> dict[CountedEvent, list[CountRow]]:
        plan = self._plan
        rows: dict[CountedEvent, list[CountRow]] = {}
        for event, cells in readings.items():
            own = one_cell_a_package(cells, self._package_of) if event.per_pkg else cells
            rows[event] = aggregate(event, own, plan.grouping, scale=plan.scale, state=event.state)
        if plan.grouping.mode is not Aggregation.NONE:
            return add_boxes(rows)
        for opened in self._counting.events if plan.cores else ():
            if opened.event.terms.percore:
                rows[opened] = sum_cores(rows[opened], plan.cores, keeps_cpus=plan.percore_by_cpu)
        return rows

    def _result(self, rows: dict[CountedEvent, list[CountRow]], elapsed: Sequence[int]) -> Tally:
        plan = self._plan
        noise = None
        if plan.repeat > 1:
            means = {event: int(mean(values)) for event, values in self._values.items() if values}
            rows = {
                event: [
                    CountRow(event, row.aggregate_id, means.get(event, row.value), row.enabled, row.running, row.cells, row.state)
                    for row in its_rows
                ]
                for event, its_rows in rows.items()
            }
            noise = {event: relative_error(standard_error(v), mean(v)) for event, v in self._values.items()}
        times = RunTimes(tuple(elapsed))
        if plan.repeat <= 1 and plan.target.kind == "command" and self._ended:
            times = RunTimes(tuple(elapsed), self._ended.user_time, self._ended.system_time)
        return self._tally(rows, wall_ns=mean(elapsed), times=times, noise=noise)

    def _tally(
        self,
        rows: dict[CountedEvent, list[CountRow]],
        *,
        wall_ns: float,
        times: RunTimes | None = None,
        timestamp: int | None = None,
        noise: Mapping[CountedEvent, float] | None = None,
    ) -> Tally:
        plan = self._plan
        metrics: dict[CountedEvent, list[Metric]] = {}
        if plan.metrics:
            from perfpy.counts.metrics import of_counterparts

            metrics = of_counterparts(plan.metrics, {opened.event: opened for opened in self._counting.events})
        return Tally(
            [event for event in self._counting.events if event in rows],
            rows,
            plan.grouping,
            wall_ns=wall_ns,
            times=times,
            timestamp=timestamp,
            summary=plan.summary and timestamp is None,
            is_null=plan.is_null,
            noise=noise,
            runs=max(plan.repeat, 1),
            counts_tasks=plan.target.has_tasks,
            every_thread=plan.target.kind == "threads",
            default_set=plan.default_set,
            hides_zeros=plan.hides_zeros,
            metrics=metrics,
            only_for_metrics={opened for opened in self._counting.events if opened.event in plan.only_for_metrics},
        )


class _Controlled:
    """Open counters, as --control switches and lists them."""

    def __init__(self, counting: Counting, hooks: Hooks) -> None:
        self._counting = counting
        self.tell = hooks.note
        self._hooks = hooks

    def switch(self, on: bool, name: str) -> bool:
        """Enable or disable an event, or all ("")."""
        return self._counting.enable(name) if on else self._counting.disable(name)

    def describe(self, option: str) -> str:
        """Return the events, as evlist prints them."""
        return self._hooks.describe(self._counting, option)


#: How often to check for ended tasks if the kernel has no descriptor for them.
_LOOK_AGAIN_MS: Final = 100


class Watch:
    """Detects the end of a command, or of the last of several tasks; its descriptors wake a poll if the kernel has them."""

    def __init__(self, workload: Workload | None, tids: Sequence[int]) -> None:
        self._workload = workload
        self._alive = set() if workload else set(tids)
        self.fds: dict[int, int] = {}
        self._blind = False  # some task has no descriptor
        self._end_seen = False
        for pid in (workload.pid,) if workload else tids:
            try:
                self.fds[os.pidfd_open(pid)] = pid
            except OSError:  # an old kernel, a thread that leads no process, or already ended
                self._blind = True

    def see_end(self, fd: int) -> None:
        """Note that a descriptor is readable: its task has ended, though its parent may not have reaped it yet."""
        self._alive.discard(self.fds[fd])
        self._end_seen = True

    def have_ended(self) -> bool:
        """Whether all have ended. It is called several times an interval, so it asks the kernel only if there is a reason."""
        if not (self._end_seen or self._blind):
            return False
        if self._workload:
            return self._workload.poll() is not None
        return not any(os.path.exists(f"/proc/{tid}") for tid in self._alive)

    def patience(self, limit: float) -> float | None:
        """Return the ms that a poll may sleep; None for no limit. wanted is 0 for no limit."""
        if self._blind:
            return min(limit or _LOOK_AGAIN_MS, _LOOK_AGAIN_MS)
        return limit or None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self.fds:
            os.close(fd)


# The parts of a Plan that depend on the machine: events, threads' names, topology.

_FRONTEND: Final = "stalled-cycles-frontend"
_BACKEND: Final = "stalled-cycles-backend"
_DETAILS: Final = (
    ("L1-dcache-loads", "L1-dcache-load-misses", "LLC-loads", "LLC-load-misses"),
    (
        "L1-icache-loads",
        "L1-icache-load-misses",
        "dTLB-loads",
        "dTLB-load-misses",
        "iTLB-loads",
        "iTLB-load-misses",
    ),
    ("L1-dcache-prefetches", "L1-dcache-prefetch-misses"),
)
_DEVICES: Final = "/sys/bus/event_source/devices"
_CORE_PMU: Final = f"{_DEVICES}/cpu/events"


def default_events(target: Target) -> list[str]:
    """Return perf's default events."""
    clock = "task-clock" if target.has_tasks else "cpu-clock"
    stalled = [name for name in (_FRONTEND, _BACKEND) if os.path.exists(f"{_CORE_PMU}/{name}")]
    software = [clock, "context-switches", "cpu-migrations", "page-faults"]
    return [*software, "cycles", *stalled, "instructions", "branches", "branch-misses"]


def may_have_default_metrics(devices: str = _DEVICES) -> bool:
    """Whether the CPU may have metrics that stat shows without -e: those with topdown events. The CPU's table tells."""
    for name in ("cpu", "cpu_core"):
        try:
            events = os.listdir(f"{devices}/{name}/events")
        except OSError:
            continue
        if any(event.startswith(("topdown-", "slots")) for event in events):
            return True
    return False


def choose_events(
    texts: Sequence[str],
    filters: Sequence[tuple[int, str]],
    target: Target,
    *,
    detailed: int = 0,
    null_run: bool = False,
    event_files: str = "",
    cores: str = "",
    only: str = "",
    adds_cores: bool = False,
    machines: str = "H",
) -> tuple[list[Event], list[str]]:
    """Return the events to count, and warnings.

    Args:
        filters: (number of texts before it, expression).
        event_files: a folder with more named events, or "".
        cores: the core type on which generic events are counted, or "".
        only: the PMU to use if an event matches several, or "".
        adds_cores: whether counts of several kinds of cores are added.
        machines: where events without modifiers count: H on the host, G in guests.
    """
    if null_run and not texts:
        return [], []
    if not texts and not detailed and not cores and machines == "H" and not _has_several_core_pmus():
        return [_generic_event(name) for name in default_events(target)], []
    from perfpy.events import parse_events
    from perfpy.events.machine import this_machine

    texts = [*(texts or default_events(target)), *(name for names in _DETAILS[:detailed] for name in names)]
    machine = this_machine(event_files, cores=cores, only=only)
    host, guests = "H" in machines, "G" in machines
    parsed = parse_events(texts, filters, machine, counting=True, adds_cores=adds_cores, host=host, guests=guests)
    if any(event.tool == RETIREMENT_LATENCY for event in parsed):
        return parsed, [*parsed.warnings, "the modifier R needs Intel's timed PEBS, which perfpy does not sample; its latencies are 0"]
    return parsed, parsed.warnings


def _has_several_core_pmus() -> bool:
    """Whether the CPU is hybrid: a generic event then means one event for each core type."""
    folder = os.path.dirname(os.path.dirname(_CORE_PMU))
    try:
        return sum(os.path.exists(f"{folder}/{name}/cpus") for name in os.listdir(folder)) > 1
    except OSError:
        return False


def _generic_event(name: str) -> Event:
    """Return a generic event; the default set need not load the event language."""
    type_and_config = generic_event(name)
    assert type_and_config is not None  # the default set consists of names of the catalog
    attr = EventAttr(type=type_and_config[0], config=type_and_config[1], exclude_guest=1)
    unit, scale = natural_unit(attr, "")
    return Event(name, attr, unit=unit, scale=scale)


def on_requested_cpus(
    events: Sequence[Event], target: Target, requested: str, *, are_default: bool = False
) -> tuple[list[Event], list[str]]:
    """Return the events that some CPU of `target` can count, and perf's warning for each event that a CPU of -C cannot count.

    A core PMU of a hybrid machine counts on one kind of core, an uncore PMU on one CPU of a package. Members of a group that lost its
    leader count alone. are_default: whether the events are perf's own, whose names have the PMU, rather than the user's.
    """
    from perfpy.events.machine import this_machine

    cpus, asked = online_cpus(), parse_cpus(requested)
    warnings, kept = [], []
    for event in events:
        counting = cpus if event.cpus is None or event.requires_cpu else event.cpus
        if not event.tool and not set(asked) <= set(counting):
            pmu = event.pmu or ("software" if event.attr.type == PerfType.SOFTWARE else this_machine().core_pmus[0].name)
            warnings.append(
                f"WARNING: A requested CPU in '{requested}' is not supported by PMU '{pmu}' (CPUs {cpu_list_text(counting)}) "
                f"for event '{event.name if are_default else event.text_name or event.name}'"
            )
        if event.tool or set(target.cpus) & set(cpus if event.cpus is None else event.cpus):
            kept.append(event if event.is_leader or event.led_by in kept else event._replace(led_by=None))
    return kept, warnings


def grouping_of(target: Target, mode: Aggregation, *, cache_level: int | None = None) -> Grouping:
    """Return how counts are added. Raises UsageError if the target does not fit."""
    if mode is Aggregation.THREAD:
        from perfpy.capture.targets import comms

        if target.kind in ("command", "cpu", "system"):
            raise RefusedOptionsError("--per-thread requires running threads; give -p or -t")
        return Grouping.by_thread(comms(target.tids))
    if mode is Aggregation.GLOBAL:
        return Grouping.everything()
    if target.has_tasks:
        raise RefusedOptionsError("counts per CPU, core, cache, die, socket or node require -a or -C")
    if mode is Aggregation.NONE:
        return Grouping.by_cpu(sorted(target.cpus))
    from perfpy.kernel.cpus import Topology

    topology = Topology()
    return Grouping.by_part(mode, {cpu: part_numbers(mode, topology, cpu, cache_level) for cpu in sorted(target.cpus)})


def _packages_of(events: Sequence[Event]) -> Callable[[int], int]:
    """Return CPU -> package; one package if no event counts once for each package."""
    if not any(event.per_pkg for event in events):
        return lambda _cpu: 0
    from perfpy.kernel.cpus import Topology

    return Topology().socket


def cores_of(grouping: Grouping) -> list[AggregateId]:
    """Return the core of each CPU of a grouping by CPU."""
    from perfpy.kernel.cpus import Topology

    topology = Topology()
    return [AggregateId(part_label(Aggregation.CORE, part_numbers(Aggregation.CORE, topology, one.cpu))) for one in grouping.aggregate_ids]


# Values of events without a counter: times that perfpy measures, facts about the machine (perf 7.3's tool PMU), and sensors (its hwmon
# PMUs).

_CPUS: Final = "/sys/devices/system/cpu"
_PERSISTENT_MEMORY: Final = "/sys/firmware/acpi/tables/NFIT"


def times(elapsed: int, ended: WorkloadEnd | None) -> dict[str, int]:
    """Return in ns the elapsed time, and the times of a command that has ended."""
    values = {"duration_time": elapsed}
    if ended:
        values["user_time"] = round(ended.user_time * 1e6) * 1000
        values["system_time"] = round(ended.system_time * 1e6) * 1000
    return values


def machine_values(names: Collection[str], *, on_cpus: bool, root: str = _CPUS) -> dict[str, int]:
    """Return the values of those names that are facts about the machine or sensors; on_cpus: CPUs are counted, not tasks."""

    def text(name: str) -> str:
        try:
            with open(f"{root}/{name}") as file:
                return file.read().strip()
        except OSError:
            return ""

    def cpus(which: str) -> tuple[int, ...]:
        return parse_cpu_list(text(which) or "0")

    def parts(name: str) -> int:
        """Return the number of distinct CPU lists in this topology file."""
        return len({text(f"cpu{cpu}/topology/{name}") for cpu in cpus("online")})

    def threads_share_cores() -> int:
        return int(text("smt/active") == "1")

    getters: dict[str, Callable[[], int]] = {
        "num_cpus": lambda: len(cpus("possible")),
        "num_cpus_online": lambda: len(cpus("online")),
        "num_cores": lambda: parts("core_cpus_list"),
        "num_dies": lambda: parts("die_cpus_list"),
        "num_packages": lambda: parts("package_cpus_list"),
        "smt_on": threads_share_cores,
        "core_wide": lambda: int(on_cpus or not threads_share_cores()),
        "has_pmem": lambda: int(os.path.exists(_PERSISTENT_MEMORY)),
        "target_cpu": lambda: int(on_cpus),
    }
    values = {name: getters[name]() for name in names if name in getters}
    sensors = [name for name in names if "/" in name]
    if sensors:
        from perfpy.kernel.sysfs import reading

        values |= {name: reading(name) for name in sensors}
    return values
