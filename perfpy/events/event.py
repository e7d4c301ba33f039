"""Event: one counter to open, as the event text asked for it; EventTerms: what its terms say about sampling.

What enters: resolve.py fills them. What leaves: the capture half makes of
`Event.attr` the attr to count or to sample with, and opens it; what is counted
goes on as the CountedEvent that every Event is. Names of the terms:
perf-record(1), "event attributes".
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.counts.aggregation import CountedEvent

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr


_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


class EventTerms:
    """The per-event terms of `event/term=value,.../`; None (or the class's default) = not given.

    period, freq: numbers (at most one is set); time, inherit, overwrite:
    True or False; call_graph: "fp", "dwarf", "lbr" or "no"; stack_size (bytes),
    max_stack (frames), max_events (`nr`: after so many it is enough; perf
    record takes it, and only perf trace heeds it): numbers;
    branch_type: tuple of names (any, u, k, call ...); percore: True; cpu: the
    CPUs to open it on, for tasks, too;
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

    NAMES = tuple(__annotations__)

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def given(self) -> dict[str, Any]:
        """The terms that were given, by name."""
        return {name: getattr(self, name) for name in self.NAMES if getattr(self, name) is not None}

    def copy(self) -> EventTerms:
        """A copy of its own."""
        return EventTerms(**self.given())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventTerms) and self.given() == other.given()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return "EventTerms(" + ", ".join(f"{k}={v!r}" for k, v in self.given().items()) + ")"


class Event(CountedEvent):
    """One event, resolved for a machine.

    name: as perf prints it; attr: type, config*, exclude_*, precise_ip,
    pinned, exclusive ...: the bits that the text asks for. pmu: the PMU's name
    in sysfs, or "" for the kernel's generic events; unit, scale: what a count
    times `scale` is in; per_pkg: counted once a package; snapshot: the last
    reading counts, not the difference; cpus: the CPUs that the PMU is to be
    opened on (an uncore PMU: one a package; a core PMU of a hybrid CPU: its
    cores), None = any; requires_cpu: it counts for a CPU, never for a task
    (uncore PMUs). leader: the event that leads its group, itself when
    alone; group_name: NAME of `NAME{...}`; weak: the group may fall apart (:W);
    sample_read: the leader samples, members are read (:S); precise_max: the
    highest precise level that the kernel takes (:P). tool: "duration_time",
    "user_time" or "system_time": not a counter, perfpy takes the time itself;
    filter: a tracepoint's filter expression; tracepoint: (system, name).
    terms: an EventTerms. option: the number of the -e it came from.
    """

    __slots__ = (
        "filter", "group_name", "host_or_guest", "keepalive", "option", "precise_max", "requires_cpu", "sample_read", "terms",
        "tracepoint", "weak",
    )  # fmt: skip

    leader: Event

    def __init__(self, name: str, attr: EventAttr, *, pmu: str = "", terms: EventTerms | None = None) -> None:
        super().__init__(name, attr, pmu=pmu)
        self.terms = terms or EventTerms()
        self.requires_cpu = False
        self.group_name = ""
        self.weak = False
        self.sample_read = False
        self.precise_max = False
        self.filter = ""
        self.tracepoint: tuple[str, str] | None = None
        self.option = 0
        self.host_or_guest = False  # G or H was given for the event itself: a group's `u` leaves it alone
        self.keepalive: object = None  # memory that attr points into (the path of a uprobe)

    @property
    def is_leader(self) -> bool:
        """True for the first event of a group, and for one that is in none."""
        return self.leader is self

    @property
    def bound(self) -> bool:
        """Whether its CPUs hold for a task, too."""
        return self.requires_cpu or self.terms.cpu is not None

    def settle_unit(self) -> None:
        """Give the count the unit that it has by nature, unless the PMU says another: ms for clocks, ns for perf's own."""
        if self.unit or self.scale != 1.0:
            return
        if self.tool:
            self.unit = "ns"
        elif self.attr.type == PerfType.SOFTWARE and self.attr.config in _CLOCKS:
            self.unit, self.scale = "msec", 1e-6

    def append_filter(self, expression: str) -> None:
        """Narrow a tracepoint's filter: both the old expression and this one must hold."""
        self.filter = f"({self.filter}) && ({expression})" if self.filter else expression

    def __repr__(self) -> str:
        group = "" if self.is_leader else f" in the group of {self.leader.name!r}"
        return f"<Event {self.name!r} {self.attr!r}{group}>"
