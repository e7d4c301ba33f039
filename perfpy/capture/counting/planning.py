"""Resolve a request of the command line or of the API to the parts of a Plan: events, threads' names, topology.

Raises UsageError for options that exclude each other.
"""

from __future__ import annotations

from perfpy.abi.attr import EventAttr
from perfpy.capture.counting.plan import one_package
from perfpy.capture.targets import Target
from perfpy.counts.aggregation import Aggregation, Grouping
from perfpy.errors import UsageError
from perfpy.events.catalog import generic_event
from perfpy.events.event import Event, natural_unit

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

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
_CORE_PMU: Final = "/sys/bus/event_source/devices/cpu/events"


def default_events(target: Target) -> list[str]:
    """Return perf's default events."""
    import os

    clock = "task-clock" if target.has_tasks else "cpu-clock"
    stalled = [name for name in (_FRONTEND, _BACKEND) if os.path.exists(f"{_CORE_PMU}/{name}")]
    software = [clock, "context-switches", "cpu-migrations", "page-faults"]
    return [*software, "cycles", *stalled, "instructions", "branches", "branch-misses"]


def detail_events(level: int) -> list[str]:
    """Return the events that each -d adds."""
    return [name for names in _DETAILS[:level] for name in names]


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
) -> tuple[list[Event], list[str]]:
    """Return the events to count, and warnings.

    Args:
        filters: (number of texts before it, expression).
        event_files: a folder with more named events, or "".
        cores: the core type on which generic events are counted, or "".
        only: the PMU to use if an event matches several, or "".
    """
    if null_run:
        return [], []
    if not texts and not detailed and not cores and not _has_several_core_pmus():
        return [_generic_event(name) for name in default_events(target)], []
    from perfpy.events import parse_events
    from perfpy.events.machine import this_machine

    texts = [*(texts or default_events(target)), *detail_events(detailed)]
    parsed = parse_events(texts, filters=filters, machine=this_machine(event_files, cores=cores, only=only), counting=True)
    return parsed, parsed.warnings


def _has_several_core_pmus() -> bool:
    """Whether the CPU is hybrid: a generic event then means one event for each core type."""
    import os

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


def widen_target(target: Target, events: Sequence[Event]) -> Target:
    """Return the whole system instead of a command if every event counts on CPUs, not tasks (uncore PMUs)."""
    if target.kind == "command" and events and all(event.requires_cpu for event in events):
        return Target("system", target.tids, target.cpus, target.text)
    return target


def grouping_of(events: Sequence[Event], target: Target, mode: Aggregation, *, cache_level: int | None = None) -> Grouping:
    """Return how counts are added. Raises UsageError if the target does not fit."""
    if mode is Aggregation.THREAD:
        return _by_thread(target)
    if mode is Aggregation.GLOBAL:
        return Grouping.everything()
    if target.has_tasks:
        raise UsageError("counts per CPU, core, cache, die, socket or node require -a or -C")
    cpus = {cpu for event in events for cpu in event.cpus or ()} | set(target.cpus)
    return by_topology(mode, sorted(cpus), cache_level)


def packages_of(events: Sequence[Event]) -> Callable[[int], int]:
    """Return CPU -> package; one package if no event counts once for each package."""
    if not any(event.per_pkg for event in events):
        return one_package
    from perfpy.kernel.hardware.topology import Topology

    return Topology().socket


def _by_thread(target: Target) -> Grouping:
    from perfpy.capture.targets import comms

    if target.kind in ("command", "cpu", "system"):
        raise UsageError("--per-thread requires running threads; give -p or -t")
    return Grouping.by_thread(comms(target.tids))


def by_topology(mode: Aggregation, cpus: Sequence[int], cache_level: int | None = None) -> Grouping:
    """Return the grouping of CPUs by a part of this machine."""
    if mode is Aggregation.NONE:
        return Grouping.by_cpu(cpus)
    from perfpy.kernel.hardware.topology import Topology

    topology = Topology()
    return Grouping.by_part(mode, {cpu: topology.part(mode.name, cpu, cache_level) for cpu in cpus})
