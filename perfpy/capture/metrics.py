"""Resolve -M: names of metrics and metric groups -> the events to count, and the metrics to compute.

Metrics come from the user's metric files (see perfpy.events.vendor) and the vendor's table; those of software events are
built in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType
from perfpy.counts.metrics import Formula, Metric
from perfpy.errors import UnknownEventError, UsageError
from perfpy.events import parse_events
from perfpy.events.machine import EVENT_FILES_VARIABLE, this_machine
from perfpy.events.vendor import MetricDefinition as Definition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfpy.events.event import Event


_PMEM: Final = "/sys/firmware/acpi/tables/NFIT"  # exists on machines with persistent memory

BUILT_IN: Final = (
    Definition("CPUs_utilized", r"task\-clock / (duration_time * 1e9)", "1CPUs", "CPUs that were busy", groups=("Default",)),
    Definition("cs_per_second", r"context\-switches * 1e9 / task\-clock", "1cs/sec", "Context switches", groups=("Default",)),
    Definition("migrations_per_second", r"cpu\-migrations * 1e9 / task\-clock", "1migrations/sec", "Migrations", groups=("Default",)),
    Definition("page_faults_per_second", r"page\-faults * 1e9 / task\-clock", "1faults/sec", "Page faults", groups=("Default",)),
    Definition("major_fault_share", r"d_ratio(major\-faults, page\-faults)", "100%", "Page faults that waited for a disk"),
    Definition("kernel_share", r"system_time / (user_time + system_time)", "100%", "CPU time spent in the kernel"),
    Definition("insn_per_cycle", "instructions / cycles", "1instructions", "Instructions a cycle", groups=("Default",)),
    Definition("cycles_frequency", r"cycles / task\-clock", "1cycles GHz", "Clock frequency", groups=("Default",)),
    Definition("branch_miss_rate", r"branch\-misses / branches", "100%", "Branches mispredicted", groups=("Default",)),
)


def definitions() -> dict[str, Definition]:
    """Return every metric by its lower-case name. The user's files and the vendor's table override built-in ones; of a hybrid CPU's two,
    the one for large cores wins.
    """
    of_small_cores_first = sorted(this_machine().metrics, key=lambda metric: "cpu_atom@" not in metric.expression)
    return {metric.name.lower(): metric for metric in (*BUILT_IN, *of_small_cores_first)}


def choose(
    names: str, *, grouped: bool = True, merged: bool = True, system_wide: bool = False
) -> tuple[list[Event], dict[Event, list[Metric]]]:
    """Return the events of metrics, and the metrics shown with each event.

    Raises UsageError for an unknown name, EventSyntaxError for an invalid formula.

    Args:
        names: metrics and groups, separated by commas.
        grouped: schedule each metric's events together if they fit.
        merged: share software events between metrics.
        system_wide: whole CPUs are counted.
    """
    events: list[Event] = []
    metrics_of: dict[Event, list[Metric]] = {}
    shared: dict[str, Event] = {}
    literals = _literals(system_wide=system_wide)
    metrics_by_name = definitions()
    expressions = {name: definition.expression for name, definition in metrics_by_name.items()}
    for definition in _find_definitions(names, metrics_by_name):
        formula = Formula(definition.expression, {name: text for name, text in expressions.items() if name != definition.name.lower()})
        unknown = [literal for literal in formula.literals if literal not in literals]
        if unknown:
            raise UsageError(f"metric {definition.name}: unknown literal {unknown[0]}")
        events_by_name = _count(formula.events, definition.name, shared if merged else {}, grouped=grouped)
        if not events_by_name:
            raise UsageError(f"metric {definition.name}: no event in its formula")
        events += [event for event in events_by_name.values() if event not in events]
        scale, unit = _scale(definition.unit)
        metric = Metric(definition.name, formula, events_by_name, literals=literals, scale=scale, unit=unit)
        metrics_of.setdefault(next(iter(events_by_name.values())), []).append(metric)
    return events, metrics_of


def _find_definitions(names: str, metrics_by_name: Mapping[str, Definition]) -> Iterable[Definition]:
    for name in names.split(","):
        lower = name.strip().lower()
        in_group = [metric for metric in metrics_by_name.values() if lower in (group.lower() for group in metric.groups)]
        if lower in metrics_by_name:
            yield metrics_by_name[lower]
        elif in_group:
            yield from in_group
        elif lower.startswith("topdownl"):
            raise UsageError(
                f"Topdown requested but no metric is in the group {name}; install metric files for this CPU "
                f"(in the folder {EVENT_FILES_VARIABLE})"
            )
        else:
            there_are = ", ".join(metric.name for metric in metrics_by_name.values())
            raise UsageError(f"Cannot find metric or group '{name}'; available: {there_are}")


def _count(names: Sequence[str], metric: str, shared: dict[str, Event], *, grouped: bool) -> dict[str, Event]:
    """Return the event for each name of a formula.

    shared has software and tool events of earlier metrics. They never compete for the PMU, so they are counted once, outside of groups.
    """
    try:
        ungrouped = {name: parse_events([name], counting=True)[0] for name in names}
    except UnknownEventError as error:
        raise UsageError(f"metric {metric}: {error}") from None
    shared_events = {name: shared.setdefault(name, event) for name, event in ungrouped.items() if _is_soft(event)}
    hardware = [name for name in names if name not in shared_events]
    text = ",".join(hardware)
    if grouped and len(hardware) > 1:
        text = f"{{{text}}}:W"
    grouped_events = dict(zip(hardware, parse_events([text], counting=True), strict=True)) if hardware else {}
    return {name: shared_events.get(name) or grouped_events[name] for name in names}


def _is_soft(event: Event) -> bool:
    return bool(event.tool) or event.attr.type == PerfType.SOFTWARE


def _scale(text: str) -> tuple[float, str]:
    """Split a number and a unit, as in ScaleUnit of metric files: "100%", "1CPUs"."""
    digits = len(text) - len(text.lstrip("0123456789.eE+-"))
    return float(text[:digits] or 1), text[digits:]


def _literals(*, system_wide: bool) -> dict[str, float]:
    """Return the literals of formulas: facts about the machine."""
    from perfpy.capture.targets import online_cpus
    from perfpy.kernel.cpus import Topology, nominal_frequency

    topology, cpus = Topology(), online_cpus()
    packages = {topology.socket(cpu) for cpu in cpus}
    dies = {(topology.socket(cpu), topology.die(cpu)) for cpu in cpus}
    cores = {(topology.socket(cpu), topology.die(cpu), topology.core(cpu)) for cpu in cpus}
    threaded = len(cores) < len(cpus)
    return {
        "#core_wide": float(threaded and system_wide),
        "#has_pmem": float(os.path.exists(_PMEM)),
        "#system_tsc_freq": nominal_frequency(),
        "#num_cpus": float(os.cpu_count() or len(cpus)),
        "#num_cpus_online": float(len(cpus)),
        "#num_cores": float(len(cores)),
        "#num_dies": float(len(dies)),
        "#num_packages": float(len(packages)),
        "#smt_on": float(threaded),
    }
