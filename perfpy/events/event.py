"""Event: one counter to open, as the event text asked for it; EventTerms: what its terms say about sampling.

What enters: resolve.py makes them, by way of drafts. What leaves: values. The capture half makes
of `Event.attr` the attr to count or to sample with; how an event fares when it is opened is
for those to keep who open it (perfpy.capture.opening). Names of the terms:
perf-record(1), "event attributes".
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.abi.startup import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr


_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


class EventTerms(NamedTuple):
    """The per-event terms of `event/term=value,.../`; None = not given.

    period, freq: numbers (at most one is set); time, inherit, overwrite:
    True or False; call_graph: "fp", "dwarf", "lbr" or "no"; stack_size (bytes),
    max_stack (frames), max_events (`nr`: after so many it is enough; perf
    record takes it, and only perf trace heeds it): numbers;
    branch_type: tuple of names (any, u, k, call ...); percore: True; cpu: the
    CPUs to open it on, for tasks, too;
    user_events: what a HiSilicon PMCU is to count, numbers;
    aux_output: True; aux_sample_size: bytes; aux_action: tuple of "pause",
    "resume", "start-paused"; driver: `@name=value` settings for a hardware tracer.
    """

    period: int | None = None
    freq: int | None = None
    time: bool | None = None
    call_graph: str | None = None
    stack_size: int | None = None
    max_stack: int | None = None
    inherit: bool | None = None
    overwrite: bool | None = None
    max_events: int | None = None
    percore: bool | None = None
    branch_type: tuple[str, ...] | None = None
    aux_output: bool | None = None
    aux_sample_size: int | None = None
    aux_action: tuple[str, ...] | None = None
    metric_id: str | None = None
    cpu: tuple[int, ...] | None = None
    driver: tuple[str, ...] | None = None
    user_events: tuple[int, ...] | None = None

    def given(self) -> dict[str, Any]:
        """The terms that were given, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


NO_TERMS: Final = EventTerms()


class Event(NamedTuple):
    """One event, resolved for a machine. Two are equal if they are the same: the same text may be given twice.

    name: as perf prints it; attr: type, config*, exclude_*, precise_ip,
    pinned, exclusive ...: the bits that the text asks for. led_by: the leader
    of its group, None for the leader itself and when alone. pmu: the PMU's name
    in sysfs, or "" for the kernel's generic events; unit, scale: what a count
    times `scale` is in; tool: "duration_time" or another name of catalog.TOOL
    and MACHINE_VALUES, or a sensor (kernel.hwmon): not a counter, perfpy has the value itself; per_pkg: counted once a
    package; snapshot: the last reading counts, not the difference; cpus: the
    CPUs that the PMU is to be opened on (an uncore PMU: one a package; a core
    PMU of a hybrid CPU: its cores), None = any; requires_cpu: it counts for a
    CPU, never for a task (uncore PMUs). group_name: NAME of `NAME{...}`; weak:
    the group may fall apart (:W); sample_read: the leader samples, members are
    read (:S); precise_max: the highest precise level that the kernel takes
    (:P). filter: a tracepoint's filter expression; tracepoint: (system, name).
    option: the number of the -e it came from; cgroup: its path or None;
    keepalive: memory that attr points into (the path of a uprobe); ebb: its
    overflows are event-based branches (POWER).
    """

    name: str
    attr: EventAttr
    led_by: Event | None = None
    pmu: str = ""
    unit: str = ""
    scale: float = 1.0
    tool: str = ""
    per_pkg: bool = False
    snapshot: bool = False
    cpus: tuple[int, ...] | None = None
    requires_cpu: bool = False
    group_name: str = ""
    weak: bool = False
    sample_read: bool = False
    precise_max: bool = False
    filter: str = ""
    tracepoint: tuple[str, str] | None = None
    terms: EventTerms = NO_TERMS
    option: int = 0
    cgroup: str | None = None
    keepalive: object = None
    ebb: bool = False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    @property
    def leader(self) -> Event:
        """The event that leads its group; itself when alone."""
        return self if self.led_by is None else self.led_by

    @property
    def is_leader(self) -> bool:
        """True for the first event of a group, and for one that is in none."""
        return self.led_by is None

    @property
    def bound(self) -> bool:
        """Whether its CPUs hold for a task, too."""
        return self.requires_cpu or self.terms.cpu is not None

    def __repr__(self) -> str:
        group = "" if self.is_leader else f" in the group of {self.leader.name!r}"
        return f"<Event {self.name!r} {self.attr!r}{group}>"


def changed(events: Sequence[Event], changes: Callable[[Event], dict[str, Any]]) -> list[Event]:
    """Other values for some events, in the same groups; changes: what differs in one."""
    made: dict[Event, Event] = {}
    for event in events:
        leader = None if event.led_by is None else made[event.led_by]
        made[event] = event._replace(led_by=leader, **changes(event))
    return list(made.values())


def natural_unit(attr: EventAttr, tool: str) -> tuple[str, float]:
    """The unit and scale that a count has by nature: ms for clocks, ns for perf's own."""
    if tool.endswith("_time"):
        return "ns", 1.0
    return ("msec", 1e-6) if attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS else ("", 1.0)


def narrowed(filter_expression: str, further: str) -> str:
    """A tracepoint's filter: both expressions must hold, the first of which may be none ("")."""
    return f"({filter_expression}) && ({further})" if filter_expression else further
