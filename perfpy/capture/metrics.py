"""Resolve -M: names of metrics and metric groups -> the events to count, and the metrics to compute.

Metrics come from the user's metric files (see perfpy.events.vendor) and the vendor's table; those of software events are built in. Which
events are counted, in which groups, and which metrics share them follows perf 6.12 (facts: tools/perf/util/metricgroup.c):

1. A metric takes the events of its threshold's formula, with the metrics in it replaced by their formulas.
2. The metrics with the most events come first. Those whose events must not be grouped share one list of events.
3. A metric whose events another metric of the same kind of core has counts none of its own. The others have a weak group.
"""

from __future__ import annotations

import math

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.light_types import NamedTuple, cached_property
from perfpy.counts.formulas import formula_text, name_word, tree_of
from perfpy.counts.metrics import Literals, Metric, NameTable, UnknownLiteralError, needed_names
from perfpy.errors import EventSyntaxError, PerfError, RefusedOptionsError
from perfpy.events import parse_events
from perfpy.events.event import TOOL, change_events
from perfpy.events.machine import EVENT_FILES_VARIABLE, Machine, nearest, this_machine
from perfpy.events.vendor_tables import MetricDefinition as Definition
from perfpy.events.vendor_tables import scale_and_unit
from perfpy.kernel.sysfs import has_nmi_watchdog, read_text

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Final

    from perfpy.counts.formulas import Node
    from perfpy.events.event import Event
    from perfpy.kernel.sysfs import Pmu


_HYBRID_UNITS: Final = ("cpu_atom", "cpu_core")
#: groups that may share the CPU's counters with nothing else, so that the metrics of Intel's top-down method are not grouped in them
_TOPDOWN: Final = ("TopdownL1", "TopdownL2")
_DEFAULT: Final = "Default"

BUILT_IN: Final = (
    Definition("CPUs_utilized", r"task\-clock / (duration_time * 1e9)", "1CPUs", "CPUs that were busy"),
    Definition("cs_per_second", r"context\-switches * 1e9 / task\-clock", "1cs/sec", "Context switches"),
    Definition("migrations_per_second", r"cpu\-migrations * 1e9 / task\-clock", "1migrations/sec", "Migrations"),
    Definition("page_faults_per_second", r"page\-faults * 1e9 / task\-clock", "1faults/sec", "Page faults"),
    Definition("major_fault_share", r"d_ratio(major\-faults, page\-faults)", "100%", "Page faults that waited for a disk"),
    Definition("kernel_share", r"system_time / (user_time + system_time)", "100%", "CPU time spent in the kernel"),
    Definition("insn_per_cycle", "instructions / cycles", "1instructions", "Instructions a cycle"),
    Definition("cycles_frequency", r"cycles / task\-clock", "1cycles GHz", "Clock frequency"),
    Definition("branch_miss_rate", r"branch\-misses / branches", "100%", "Branches mispredicted"),
)


class UnknownMetricError(RefusedOptionsError):
    """No metric or group has the name."""


class MetricEventsError(PerfError):
    """The events of a metric cannot be resolved; the exit status is perf's."""

    exit_code = 1


class ChosenMetrics(NamedTuple):
    """The events of metrics, the metrics printed beside each event, and lines for the user."""

    events: list[Event]
    metrics: dict[Event, list[Metric]]
    warnings: list[str]


class MetricOptions(NamedTuple):
    """The options of stat that change which events metrics take.

    Attributes:
        grouped: schedule each metric's events together if they fit
        merged: share events between metrics
        thresholds: count the events of thresholds, too
        system_wide: whole CPUs are counted
        cpus: the CPUs of -C, "" for all
        unit: the PMU of the kind of core whose metrics are computed; "" for all
        machines: see choose_events
    """

    grouped: bool = True
    merged: bool = True
    thresholds: bool = True
    system_wide: bool = False
    cpus: str = ""
    unit: str = ""
    machines: str = "H"


class _ChosenMetric:
    """A metric of the command line.

    Attributes:
        names: the events that it takes
        parts: lower-case name -> the metrics that its formulas use
        grouped: whether its events are a group
        events: those counted for it, if no other metric has them; tells the name of each
    """

    def __init__(self, definition: Definition, modifier: str, grouped: bool) -> None:
        self.definition = definition
        self.modifier = modifier
        self.grouped = grouped
        self.names = NameTable()
        self.parts: dict[str, Definition] = {}
        self.events: dict[Event, str] | None = None


def definitions(machine: Machine | None = None) -> list[Definition]:
    """Return every metric, by kind of core and name. The user's files and the vendor's table override built-in ones."""
    machine = machine or this_machine()
    cores = {"", *(pmu.name for pmu in machine.core_pmus)}
    own = [metric for metric in machine.metrics if metric.pmu in cores]
    kinds: dict[str, set[str]] = {}
    for metric in own:
        kinds.setdefault(metric.name.lower(), set()).add(metric.pmu)
    if any(metric.pmu for metric in own):
        own = [metric if metric.pmu else _with_kind_of_core(metric, lambda word: kinds.get(word, ())) for metric in own]
    others = [metric for metric in BUILT_IN if metric.name.lower() not in kinds]
    return sorted([*own, *others], key=_by_kind_and_name)


def _by_kind_and_name(metric: Definition) -> tuple[str, str]:
    return metric.pmu, metric.name


def _with_kind_of_core(metric: Definition, kinds_of: Callable[[str], Collection[str]]) -> Definition:
    """Return the metric with the kind of core that its formula is about: that of its events, or one that has all metrics in it."""
    expression = metric.expression.lower()
    words = "".join([char if char.isalnum() or char == "_" else " " for char in expression]).split()
    parts = [kinds for word in words if (kinds := kinds_of(word))]
    for pmu in _HYBRID_UNITS:
        if pmu in words or (parts and all(pmu in part for part in parts)):
            return metric._replace(pmu=pmu)
    return metric


class _Definitions:
    """The metrics of a machine by name and group: the result of definitions(), of which a vendor's table decodes only those looked up."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._table = machine.metric_table
        self._cores = {"", *(pmu.name for pmu in machine.core_pmus)}
        self._by_name: dict[tuple[str, str], Definition | None] = {}

    @cached_property
    def all(self) -> list[Definition]:
        """Every metric, by kind of core and name."""
        return definitions(self._machine)

    @cached_property
    def _all_by_name(self) -> dict[tuple[str, str], Definition]:
        by_name: dict[tuple[str, str], Definition] = {}
        for metric in self.all:
            by_name.setdefault((metric.pmu, metric.name.lower()), metric)
        return by_name

    @cached_property
    def _has_kinds(self) -> bool:
        """Whether the table has metrics of one kind of core."""
        rows = self._table.metric_rows if self._table else ""
        return any(f"\t{pmu}{end}" in rows for pmu in self._cores - {""} for end in "\t\n")

    def with_word(self, word: str) -> Sequence[Definition]:
        """Return the metrics whose name or groups may be this word in lower case, by kind of core and name; all for "all"."""
        if self._table is None or word in ("all", "") or not word.isprintable():  # rows and fields are separated by control characters
            return self.all
        own = self._own(self._table.metrics_with(word))
        return sorted([*own, *(metric for metric in BUILT_IN if not self._kinds_of(metric.name.lower()))], key=_by_kind_and_name)

    def named(self, pmu: str, name: str) -> Definition | None:
        """Return the metric of a kind of core, or ("") of all, by its name in lower case."""
        if self._table is None:
            return self._all_by_name.get((pmu, name))
        key = pmu, name
        if key not in self._by_name:
            metrics = self._own(self._table.metrics_named(name)) or [metric for metric in BUILT_IN if metric.name.lower() == name]
            self._by_name[key] = next((metric for metric in metrics if metric.pmu == pmu), None)
        return self._by_name[key]

    def _own(self, metrics: list[Definition]) -> list[Definition]:
        """Return the metrics for this machine's kinds of cores, each with its own."""
        own = [metric for metric in metrics if metric.pmu in self._cores]
        return [metric if metric.pmu else _with_kind_of_core(metric, self._kinds_of) for metric in own] if self._has_kinds else own

    def _kinds_of(self, name: str) -> set[str]:
        """Return the kinds of cores for which the table has a metric of a name in lower case: {""} if it does not say."""
        assert self._table is not None
        return {metric.pmu for metric in self._table.metrics_named(name)} & self._cores


def choose(names: str, options: MetricOptions | None = None, machine: Machine | None = None) -> ChosenMetrics:
    """Return the events of metrics and groups, separated by commas; `name:u` counts user space only.

    Raises UnknownMetricError, MetricEventsError, and EventSyntaxError for an invalid formula.
    """
    chooser = _Chooser(machine or this_machine(), options or MetricOptions())
    chosen: list[_ChosenMetric] = []
    for text in names.split(","):
        name, _, modifier = text.strip().partition(":")
        chosen[:0] = chooser.find(name, modifier)
    return chooser.count(chosen, is_default=names == _DEFAULT)


def topdown_group(level: int, machine: Machine) -> str:
    """Return the metric group of a level of the top-down method; 0 means 1. Raises PerfError if the CPU has no such level."""
    levels = [
        int(digit) for metric in machine.metrics for group in metric.groups if group[:-1] == "TopdownL" and (digit := group[-1:]).isdigit()
    ]
    if not levels:
        raise UnknownMetricError(
            "Topdown requested but no metric of this CPU is in a group TopdownL1; metric files for it can be installed "
            f"(in the folder {EVENT_FILES_VARIABLE})"
        )
    if level > max(levels):
        raise UnknownMetricError(f"--td-level {level}: the highest level of this CPU is {max(levels)}")
    return f"TopdownL{level or 1}"


def default_metrics(options: MetricOptions, machine: Machine | None = None) -> ChosenMetrics | None:
    """Return the metrics that stat shows without -e; None if the CPU's table has none."""
    machine = machine or this_machine()
    if not any(_DEFAULT in metric.groups for metric in _Definitions(machine).with_word(_DEFAULT.lower())):
        return None
    return choose(_DEFAULT, options._replace(thresholds=False), machine)


class _Chooser:
    """Chooses the events of metrics on one machine."""

    def __init__(self, machine: Machine, options: MetricOptions) -> None:
        self._machine = machine
        self._options = options
        self._definitions = _Definitions(machine)
        self._cores = {pmu.name: pmu for pmu in machine.core_pmus} if machine.is_hybrid else {}
        self._literals = _MachineLiterals(machine, system_wide=options.system_wide, cpus=options.cpus)
        self._trees: dict[str, Node] = {}
        self._needs: dict[str, NameTable | None] = {}
        self._watchdog_forbids_groups = False
        self._warnings: list[str] = []

    # -- which metrics -------------------------------------------------------------

    def find(self, name: str, modifier: str) -> list[_ChosenMetric]:
        """Return the metrics of a name or group, the last of the table first."""
        chosen: list[_ChosenMetric] = []
        sought, unit = name.lower(), self._options.unit
        has_own = sought == "all" and bool(self._machine.metrics)
        for definition in self._definitions.with_word(sought):
            if unit and definition.pmu not in ("", unit):
                continue
            groups = "No_group" if definition.groups == (definition.name,) else ";".join(definition.groups)
            names = f"{definition.name};{groups}".lower()
            is_named = bool(sought) and sought in names and sought in names.split(";")  # most have not even the letters
            if not is_named and (sought != "all" or (has_own and definition in BUILT_IN)):
                continue
            metric = _ChosenMetric(definition, modifier, grouped=self._is_grouped(definition, sought))
            self._add_names(metric, definition)
            chosen.insert(0, metric)
        if chosen:
            return chosen
        near = nearest(name, dict.fromkeys(text for definition in self._definitions.all for text in (definition.name, *definition.groups)))
        meant = f"; similar: {', '.join(near)}" if near else ""
        where = f" (or in files of the folder {EVENT_FILES_VARIABLE})" if not self._machine.metrics else ""
        raise UnknownMetricError(f"Cannot find metric or group `{name}'{meant}; perfpy list metric shows those of this CPU{where}")

    def _is_grouped(self, definition: Definition, sought: str) -> bool:
        if not self._options.grouped or sought == "all":  # as in perf: a group for each metric would have most events twice
            return False
        if sought in (group.lower() for group in definition.ungrouped_in):
            return False
        when = definition.constraint
        if when == "nmi" and has_nmi_watchdog():
            self._watchdog_forbids_groups = True
            self._warnings.append(f"the events of {definition.name} are not grouped: the NMI watchdog uses a counter")
            return False
        return when != "always" and not (when == "smt" and self._literals.literal("#smt_on"))

    def _add_names(self, metric: _ChosenMetric, definition: Definition) -> None:
        """Add the events that the metric takes, following perf's order of steps."""
        program = definition.program
        if definition.condition:
            program = definition.threshold_program if self._options.thresholds else name_word(definition.name)
        self._expand(metric, definition.pmu, program, ("",) if definition.condition else (definition.name.lower(),))

    def _expand(self, metric: _ChosenMetric, unit: str, program: str, within: tuple[str, ...]) -> None:
        needs = self._needs_of(program)
        if needs is not None:
            added, names = needs.copy(), metric.names
            if len(added) < len(names):
                added, names = names, added
            for name in names:
                added.add(name)
            metric.names = added
        pending = [(name, part) for name in metric.names if (part := self._definitions.named(unit, name.lower()))]
        for name, _ in pending:
            metric.names.remove(name)
        for name, part in pending:
            if name.lower() in within:
                raise EventSyntaxError(formula_text(program), 0, f"'{name}' is part of its own formula")
            if name.lower() not in metric.parts:
                metric.parts[name.lower()] = part
                self._expand(metric, unit, part.program, (*within, name.lower()))

    def _needs_of(self, program: str) -> NameTable | None:
        if program not in self._needs:
            try:
                self._needs[program] = needed_names(self.tree(program), self._literals)
            except UnknownLiteralError as error:
                raise UnknownMetricError(f"unknown literal {error} in the formula {formula_text(program)}") from None
        return self._needs[program]

    def tree(self, program: str) -> Node:
        """Return the tree of a formula; each is built once."""
        if program not in self._trees:
            self._trees[program] = tree_of(program)
        return self._trees[program]

    # -- which events --------------------------------------------------------------

    def count(self, chosen: list[_ChosenMetric], *, is_default: bool) -> ChosenMetrics:
        """Return the events of the metrics, and the metrics beside them."""
        merged = self._options.merged
        chosen.sort(key=lambda metric: -sum(name not in TOOL for name in metric.names))
        tools = [tool for tool in TOOL if any(tool in metric.names for metric in chosen)] if merged else []
        combined = self._combined_events(chosen, tools) if merged else {}
        if is_default:
            chosen.sort(key=lambda metric: metric.definition.name, reverse=True)
            chosen.sort(key=lambda metric: _default_group(metric.definition), reverse=True)
        metrics: dict[Event, list[Metric]] = {}
        for number, metric in enumerate(chosen):
            events = combined if combined and not metric.grouped and not metric.modifier else None
            if events is None and merged:
                events = next((other.events for other in chosen[:number] if _has_events_of(other, metric)), None)
            if events is None:
                core = self._cores.get(metric.definition.pmu)
                events = metric.events = self._events(metric.names, metric.modifier, grouped=metric.grouped, tools=tools, core=core)
            if not metric.names:
                continue  # perf, too, shows no metric that is a constant here
            for event, computed in self._metrics(metric, events, is_default=is_default):
                metrics.setdefault(event, []).insert(0, computed)
        if self._watchdog_forbids_groups:
            self._warnings.append("echo 0 > /proc/sys/kernel/nmi_watchdog frees the counter; 1 turns the watchdog on again")
        events_of_all = [*combined, *(event for metric in chosen for event in metric.events or ())]
        return ChosenMetrics(events_of_all, metrics, self._warnings)

    def _combined_events(self, chosen: Sequence[_ChosenMetric], tools: Sequence[str]) -> dict[Event, str]:
        """Return the events that the metrics without a group share."""
        names = NameTable()
        for metric in chosen:
            if not metric.grouped and not metric.modifier:
                for name in metric.names:
                    names.add(name)
        return self._events(names, "", grouped=False, tools=tools) if names else {}

    def _events(self, names: NameTable, modifier: str, *, grouped: bool, tools: Sequence[str], core: Pmu | None = None) -> dict[Event, str]:
        """Return the events of these names with the name of each. A metric that needs no event counts the time.

        Names of a kind of core's events mean this kind only.
        """
        for tool in tools:
            names.add(tool)
        if not names:
            names.add("duration_time")
        wanted = [name for name in names if name not in TOOL]
        pmus = [core.name if core and self._machine.alias(core, name.partition(":")[0]) else "" for name in wanted]
        text = ",".join(_event_text(name, number, modifier, pmu) for number, (name, pmu) in enumerate(zip(wanted, pmus, strict=True)))
        if wanted and grouped:
            text = f"{{{text}}}:W"
        text = ",".join([*([text] if text else ()), *(tool for tool in TOOL if tool in names)])
        try:
            host, guests = "H" in self._options.machines, "G" in self._options.machines
            parsed = parse_events([text], machine=self._machine, counting=True, host=host, guests=guests)
        except PerfError as error:
            raise MetricEventsError(f"the events of a metric: {error}") from None
        numbers = {event: event.terms.metric_id for event in parsed}
        name_of = {event: event.tool if number is None else wanted[int(number)] for event, number in numbers.items()}
        renamed = change_events(parsed, lambda event: {"name": _display_name(name_of[event], modifier, event, self._machine)})
        return dict(zip(renamed, name_of.values(), strict=True))

    def _metrics(self, metric: _ChosenMetric, counted: dict[Event, str], *, is_default: bool) -> Iterator[tuple[Event, Metric]]:
        """Yield the metric over the counted events with the event that it is printed beside, the first of its events.

        The metric of each further box of an uncore PMU, from the events of this box, is printed beside the box's event.
        """
        definition = metric.definition
        boxes: dict[str, list[Event]] = {}
        for event, name in counted.items():
            is_other_core = definition.pmu in self._cores and event.pmu in self._cores and event.pmu != definition.pmu
            if name in metric.names and not is_other_core:
                boxes.setdefault(name, []).append(event)
        if missing := [name for name in metric.names if name not in boxes]:
            raise UnknownMetricError(f"metric {definition.name}: event {missing[0]} is not counted")
        by_name = {name: events[0] for name, events in boxes.items()}
        first, *others = next(iter(boxes.values()))
        sources = {name: len(events) for name, events in boxes.items()}
        yield first, self._metric(metric, by_name, sources, group=self._group_heading(definition, first) if is_default else "")
        for other in others:
            of_box = {
                name: next((event for event in events if event.pmu == other.pmu), events[0]) if events[0].pmu == first.pmu else events[0]
                for name, events in boxes.items()
            }
            yield other, self._metric(metric, of_box, {})

    def _metric(self, metric: _ChosenMetric, by_name: dict[str, Event], sources: dict[str, int], *, group: str = "") -> Metric:
        """Return the metric over these events."""
        definition = metric.definition
        scale, unit = scale_and_unit(definition.unit) if definition.unit else (1.0, "")
        name = definition.name + ("_0" if "?" in definition.source else "") + (f":{metric.modifier}" if metric.modifier else "")
        return Metric(
            name,
            self.tree(definition.program),
            by_name,
            parts={part: self.tree(other.program) for part, other in metric.parts.items()},
            literals=self._literals.value,
            sources=sources,
            scale=scale,
            unit=unit,
            threshold=self.tree(definition.threshold_program) if definition.condition else None,
            group=group,
        )

    def _group_heading(self, definition: Definition, event: Event) -> str:
        """Return the name under which a default metric is shown, with the kind of core on hybrid machines."""
        group = _default_group(definition)
        return f"{group} ({event.pmu})" if self._machine.is_hybrid else group


def _has_events_of(other: _ChosenMetric, metric: _ChosenMetric) -> bool:
    """Whether another metric counts all events that the metric takes."""
    is_like = other.modifier == metric.modifier and other.definition.pmu == metric.definition.pmu
    return other.events is not None and is_like and other.names.contains_all(metric.names)


def _default_group(definition: Definition) -> str:
    """Return the name under which a default metric is shown."""
    return definition.default_group or next((group for group in _TOPDOWN if group in definition.groups), "")


def _event_text(name: str, number: int, modifier: str, pmu: str = "") -> str:
    """Return an event of a formula as a text of -e, of a PMU or ("") any, with a number by which it is known again."""
    if "@" in name:
        pmu, _, rest = name.partition("@")
        terms, _, letters = rest.rpartition("@")
        return f"{pmu}/{terms},metric-id={number}/{letters}{modifier}"
    base, _, letters = name.partition(":")
    return f"{pmu}/{base},metric-id={number}/{letters}{modifier}" if pmu else f"{base}/metric-id={number}/{letters}{modifier}"


def _display_name(name: str, modifier: str, event: Event, machine: Machine) -> str:
    """Return the name that is printed for an event: as the formula has it, with its PMU on hybrid machines."""
    text = name.replace("@", "/")
    if modifier and not event.tool:
        text += modifier if "/" in text or ":" in text else f":{modifier}"
    is_of_a_kind_of_core = machine.is_hybrid and event.pmu in {pmu.name for pmu in machine.core_pmus}
    if is_of_a_kind_of_core and not text.startswith(event.pmu):
        return f"{event.pmu}{text[text.index('/') :]}" if "/" in text else f"{event.pmu}/{text}/"
    return text


_BUS_FREQUENCY: Final = 1e8  # Hz: what Intel's ratios multiply


def _clock_frequency() -> float:
    """Return the Hz of the CPU's clock by which the kernel converts its cycles to nanoseconds; 0 if the kernel publishes none."""
    from perfpy.capture.counter import Counter

    try:
        with Counter.open("dummy:u", sample_period=1) as counter:
            clock = counter.ring(pages=1).clock()
    except PerfError:
        return 0.0
    return 1e9 * 2**clock.time_shift / clock.time_mult if clock.zero and clock.time_mult else 0.0


class _MachineLiterals(Literals):
    """The facts that the formulas of this machine's metrics ask for."""

    def __init__(self, machine: Machine, *, system_wide: bool, cpus: str) -> None:
        self._machine = machine
        self._system_wide = system_wide
        self._cpus = cpus
        self._known: dict[str, float] = {}

    def value(self, name: str) -> float:
        """Return the value of a #name or of a question about the CPU; NaN for an unknown one."""
        question, _, pattern = name.partition(" ")
        if question in ("#strcmp_cpuid_str", "#has_event"):
            return float(self.is_cpu(pattern) if question == "#strcmp_cpuid_str" else self.has_event(pattern))
        return self.literal(name)

    def literal(self, name: str) -> float:
        """Return the value of a #name; NaN for an unknown one."""
        lower = name.lower()
        if lower not in self._known:
            self._known[lower] = self._literal(lower)
        return self._known[lower]

    def _literal(self, name: str) -> float:
        if name == "#system_tsc_freq":
            from perfpy.kernel.cpus import nominal_frequency

            frequency = nominal_frequency()
            if math.isnan(frequency):
                tracer = self._machine.sysfs.pmu("intel_pt")
                frequency = _clock_frequency() or (tracer.number("max_nonturbo_ratio") or 0 if tracer else 0) * _BUS_FREQUENCY
            return frequency
        if name == "#slots":
            text = read_text(f"{self._machine.core_pmus[0].path}/caps/slots") or ""
            return float(int(text, 16)) if text.startswith("0x") else math.nan
        if name == "#core_wide":
            return float(self._is_core_wide())
        from perfpy.capture.measurement import machine_values

        values = machine_values([name[1:]], on_cpus=self._system_wide)
        return float(values[name[1:]]) if name[1:] in values else math.nan

    def _is_core_wide(self) -> bool:
        """Whether all threads of each core are measured."""
        if not self._system_wide:
            return False
        if not self.literal("#smt_on") or not self._cpus:
            return True
        from perfpy.kernel.cpus import core_siblings

        cpus = set(parse_cpu_list(self._cpus))
        return all(core_siblings(cpu) <= cpus for cpu in cpus)

    def has_event(self, name: str) -> bool:
        """Whether the event can be resolved."""
        try:
            parse_events([_event_text(name, 0, "")], machine=self._machine, counting=True)
        except PerfError:
            return False
        return True

    def is_cpu(self, pattern: str) -> bool:
        """Whether the pattern of a vendor's list of CPUs means this one."""
        from perfpy.events.vendor import matches_identity

        return matches_identity(pattern, self._machine.identity)
