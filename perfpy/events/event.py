"""Event: one counter to open; EventTerms: its terms about sampling.

perfpy.events.resolve makes events. The measuring half derives the attr for counting or sampling from `Event.attr`, and keeps the result of
opening elsewhere (perfpy.capture.opening). Names of the terms: perf-record(1), "event attributes".
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
    """The per-event terms of `event/term=value,.../`; None for a missing term.

    Attributes:
        period, freq: at most one is set
        time, inherit, overwrite: True or False
        call_graph: "fp", "dwarf", "lbr" or "no"
        stack_size: bytes
        max_stack: frames
        max_events: `nr`, the number of events after which to stop; perf record accepts it, but only perf trace uses it
        percore: True
        branch_type: names (any, u, k, call ...)
        aux_output: True
        aux_sample_size: bytes
        aux_action: "pause", "resume", "start-paused"
        cpu: the CPUs to open the event on, also for tasks
        driver: `@name=value` settings of a hardware tracer
        user_events: the events that a HiSilicon PMCU counts
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

    def present_terms(self) -> dict[str, Any]:
        """Return the present terms by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


NO_TERMS: Final = EventTerms()


class Event(NamedTuple):
    """One event, resolved for a machine. Events compare by identity, because a text may be given twice.

    Attributes:
        name: perf's name for it
        attr: type, config*, exclude_*, precise_ip, pinned, exclusive: the bits that the text determines
        led_by: the leader of the group; None for a leader and for a single event
        pmu: the PMU's name in sysfs, or "" for generic events
        unit, scale: a count times `scale` is in `unit`
        tool: "duration_time" or another name of catalog.TOOL and MACHINE_VALUES, or a sensor (kernel.hwmon),
            which perfpy measures itself
        per_pkg: whether it counts once for each package
        snapshot: whether the last reading is the count, instead of a difference
        cpus: the CPUs to open the PMU on (one for each package of an uncore PMU, the cores of a core PMU); None means any
        requires_cpu: whether it counts CPUs only, never a task (uncore PMUs)
        group_name: NAME of `NAME{...}`
        weak: whether the group may break up (:W)
        sample_read: whether the leader samples and the members are read (:S)
        precise_max: whether to use the highest accepted precision (:P)
        filter: a tracepoint's filter expression
        tracepoint: (system, name)
        option: the index of its -e
        cgroup: the cgroup's path, or None
        keepalive: memory that attr points into (the path of a uprobe)
        ebb: whether its overflows are event-based branches (POWER)
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
        """The event that leads the group; a single event leads itself."""
        return self if self.led_by is None else self.led_by

    @property
    def is_leader(self) -> bool:
        """Whether it leads a group, or is in none."""
        return self.led_by is None

    @property
    def bound(self) -> bool:
        """Whether its CPUs apply to a task, too."""
        return self.requires_cpu or self.terms.cpu is not None

    def __repr__(self) -> str:
        group = "" if self.is_leader else f" in the group of {self.leader.name!r}"
        return f"<Event {self.name!r} {self.attr!r}{group}>"


def change_events(events: Sequence[Event], changes: Callable[[Event], dict[str, Any]]) -> list[Event]:
    """Return changed copies of the events in the same groups. `changes` maps an event to its new fields."""
    copies: dict[Event, Event] = {}
    for event in events:
        leader = None if event.led_by is None else copies[event.led_by]
        copies[event] = event._replace(led_by=leader, **changes(event))
    return list(copies.values())


def natural_unit(attr: EventAttr, tool: str) -> tuple[str, float]:
    """Return the natural unit and scale of a count: ms for clocks, ns for perf's own times."""
    if tool.endswith("_time"):
        return "ns", 1.0
    return ("msec", 1e-6) if attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS else ("", 1.0)


def combine_filters(filter_expression: str, further: str) -> str:
    """Combine two filter expressions, so that both must hold. The first may be ""."""
    return f"({filter_expression}) && ({further})" if filter_expression else further
