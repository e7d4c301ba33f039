"""Event: one counter to open; EventTerms: its terms about sampling.

perfpy.events.resolve makes events. The measuring half derives the attr for counting or sampling from `Event.attr`, and keeps the result of
opening elsewhere (perfpy.capture.counter). Names of the terms: perf-record(1), "event attributes".
"""

from __future__ import annotations

from perfpy.abi.flags import PMCU_NAME, CacheId, CacheOp, CacheResult, HardwareId, PerfType, SoftwareId
from perfpy.abi.light_types import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr


_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


# PMUs of hardware tracers, which write their data to AUX areas.

INTEL_PT: Final = "intel_pt"
INTEL_BTS: Final = "intel_bts"
CS_ETM: Final = "cs_etm"
ARM_SPE: Final = "arm_spe"
HISI_PTT: Final = "hisi_ptt"

#: Beginnings of PMU names: arm_spe_0, hisi_ptt0_2, hisi_pmcu_sccl3.
TRACERS: Final = (INTEL_PT, INTEL_BTS, CS_ETM, ARM_SPE, HISI_PTT, PMCU_NAME)


def is_tracer(pmu: str) -> bool:
    """Whether events of this PMU write AUX data."""
    return pmu.startswith(TRACERS)


def counts_tasks(pmu: str) -> bool:
    """Whether a tracer's events follow tasks, although its CPUs are limited by a cpumask."""
    return pmu.startswith(ARM_SPE)


class EventTerms(NamedTuple):
    """The per-event terms of `event/term=value,.../`; None for a missing term.

    Attributes:
        period, freq: at most one is set
        proposes_period: True if the named event has the period, not the user's text: -c precedes it
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
        config_bits: the bits of config that the terms of a hardware tracer set or clear
    """

    period: int | None = None
    freq: int | None = None
    proposes_period: bool | None = None
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
    config_bits: int | None = None

    def present_terms(self) -> dict[str, Any]:
        """Return the present terms by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


NO_TERMS: Final = EventTerms()

# Event.role
TRACKING: Final = "tracking"  # mappings, comms, forks and exits
SWITCHES: Final = "switches"  # context switches
TEXT_POKES: Final = "text-pokes"  # changes of the kernel's code


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
        host_or_guest: whether the text selects the host or guests (:H, :G)
        filter: a tracepoint's filter expression
        tracepoint: (system, name)
        option: the index of its -e
        cgroup: the cgroup's path, or None
        keepalive: memory that attr points into (the path of a uprobe)
        ebb: whether its overflows are event-based branches (POWER)
        role: for an event that a recording adds for its side-band: TRACKING, SWITCHES or TEXT_POKES
        system_wide: whether a recording opens it for all tasks on every CPU, whatever its target is
        of_chosen: whether a recording of all tasks opens it for the chosen ones only, those whose stacks it copies
        generic: the id of the generic hardware event that a core PMU's own event of that name counts; None for other events
        text_name: the name without the PMU that was put before it on a hybrid machine; "" for other events
        is_named: whether its name stays as it is, because the term `name` or the option -d gave it
        added_to: the event on the first of the PMUs that the text means, to which stat adds this one's count; None for that event
        must_be_grouped: whether it counts only in its group (x86's topdown metrics)
        immediate: whether a recording enables it before the others
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
    host_or_guest: bool = False
    filter: str = ""
    tracepoint: tuple[str, str] | None = None
    terms: EventTerms = NO_TERMS
    option: int = 0
    cgroup: str | None = None
    keepalive: object = None
    ebb: bool = False
    role: str = ""
    system_wide: bool = False
    of_chosen: bool = False
    generic: int | None = None
    text_name: str = ""
    is_named: bool = False
    added_to: Event | None = None
    must_be_grouped: bool = False
    immediate: bool = False

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
    return list(copies_of(events, changes).values())


def copies_of(events: Sequence[Event], changes: Callable[[Event], dict[str, Any]]) -> dict[Event, Event]:
    """Return the changed copy of each event, in the order of the events."""
    copies: dict[Event, Event] = {}
    for event in events:
        leader = None if event.led_by is None else copies[event.led_by]
        added_to = None if event.added_to is None else copies.get(event.added_to)
        copies[event] = event._replace(led_by=leader, added_to=added_to, **changes(event))
    return copies


def natural_unit(attr: EventAttr, tool: str) -> tuple[str, float]:
    """Return the natural unit and scale of a count: ms for clocks, ns for perf's own times."""
    if tool.endswith("_time"):
        return "ns", 1.0
    return ("msec", 1e-6) if attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS else ("", 1.0)


def combine_filters(filter_expression: str, further: str) -> str:
    """Combine two filter expressions, so that both must hold. The first may be ""."""
    return f"({filter_expression}) && ({further})" if filter_expression else further


# Names that every kernel has: generic hardware, software and cache events, and perf's tool events. Numbers:
# include/uapi/linux/perf_event.h; names and aliases: perf-list(1).

#: (name, alias or "", config); perf prints `cycles`, so it is the alias of cpu-cycles
HARDWARE: Final[tuple[tuple[str, str, int], ...]] = (
    ("branch-instructions", "branches", HardwareId.BRANCH_INSTRUCTIONS),
    ("branch-misses", "", HardwareId.BRANCH_MISSES),
    ("bus-cycles", "", HardwareId.BUS_CYCLES),
    ("cache-misses", "", HardwareId.CACHE_MISSES),
    ("cache-references", "", HardwareId.CACHE_REFERENCES),
    ("cpu-cycles", "cycles", HardwareId.CPU_CYCLES),
    ("instructions", "", HardwareId.INSTRUCTIONS),
    ("ref-cycles", "", HardwareId.REF_CPU_CYCLES),
    ("stalled-cycles-backend", "idle-cycles-backend", HardwareId.STALLED_CYCLES_BACKEND),
    ("stalled-cycles-frontend", "idle-cycles-frontend", HardwareId.STALLED_CYCLES_FRONTEND),
)

SOFTWARE: Final[tuple[tuple[str, str, int], ...]] = (
    ("alignment-faults", "", SoftwareId.ALIGNMENT_FAULTS),
    ("bpf-output", "", SoftwareId.BPF_OUTPUT),
    ("cgroup-switches", "", SoftwareId.CGROUP_SWITCHES),
    ("context-switches", "cs", SoftwareId.CONTEXT_SWITCHES),
    ("cpu-clock", "", SoftwareId.CPU_CLOCK),
    ("cpu-migrations", "migrations", SoftwareId.CPU_MIGRATIONS),
    ("dummy", "", SoftwareId.DUMMY),
    ("emulation-faults", "", SoftwareId.EMULATION_FAULTS),
    ("major-faults", "", SoftwareId.PAGE_FAULTS_MAJ),
    ("minor-faults", "", SoftwareId.PAGE_FAULTS_MIN),
    ("page-faults", "faults", SoftwareId.PAGE_FAULTS),
    ("task-clock", "", SoftwareId.TASK_CLOCK),
)

#: measured by perfpy itself, never opened
TOOL: Final = ("duration_time", "user_time", "system_time")
#: facts about the machine, which perf 6.14 and later have as events (lists of 6.12 omit them)
MACHINE_VALUES: Final = (
    "num_cpus", "num_cpus_online", "num_cores", "num_dies", "num_packages", "smt_on", "core_wide", "has_pmem", "target_cpu",
)  # fmt: skip

#: the mean retirement latency that Intel's timed PEBS samples (modifier R); as in perf 0 where nothing samples it
RETIREMENT_LATENCY: Final = "retirement_latency"

# Names of each cache, operation and result. perf prints the first one. An operation's second name is its plural, used without a result:
# L1-dcache-loads.
_CACHES: Final[dict[int, tuple[str, ...]]] = {
    CacheId.L1D: ("L1-dcache", "l1-d", "l1d", "L1-data"),
    CacheId.L1I: ("L1-icache", "l1-i", "l1i", "L1-instruction"),
    CacheId.LL: ("LLC", "L2"),
    CacheId.DTLB: ("dTLB", "d-tlb", "Data-TLB"),
    CacheId.ITLB: ("iTLB", "i-tlb", "Instruction-TLB"),
    CacheId.BPU: ("branch", "branches", "bpu", "btb", "bpc"),
    CacheId.NODE: ("node",),
}
_OPS: Final[dict[int, tuple[str, ...]]] = {
    CacheOp.READ: ("load", "loads", "read"),
    CacheOp.WRITE: ("store", "stores", "write"),
    CacheOp.PREFETCH: ("prefetch", "prefetches", "speculative-read", "speculative-load"),
}
_RESULTS: Final[dict[int, tuple[str, ...]]] = {
    CacheResult.ACCESS: ("refs", "Reference", "ops", "access"),
    CacheResult.MISS: ("misses", "miss"),
}
_READ_ONLY: Final = (CacheId.ITLB, CacheId.BPU)


def _by_length(names: dict[int, tuple[str, ...]]) -> list[tuple[str, int]]:
    """Return (name, number), longest names first, so that `prefetches` is tried before `prefetch`."""
    return sorted(((name, number) for number, all_names in names.items() for name in all_names), key=lambda pair: -len(pair[0]))


def _names(table: tuple[tuple[str, str, int], ...]) -> dict[str, int]:
    return {name: config for primary, alias, config in table for name in (primary, alias) if name}


_HARDWARE_CONFIGS: Final = _names(HARDWARE)
_SOFTWARE_CONFIGS: Final = _names(SOFTWARE)


def generic_event(name: str) -> tuple[int, int] | None:
    """Return (type, config) of a hardware or software event by name or alias; None for other names."""
    if name in _SOFTWARE_CONFIGS:
        return PerfType.SOFTWARE, _SOFTWARE_CONFIGS[name]
    if name in _HARDWARE_CONFIGS:
        return PerfType.HARDWARE, _HARDWARE_CONFIGS[name]
    return None


def is_cache_operation_valid(cache: int, operation: int) -> bool:
    """Whether kernels count this combination; they do not count stores to an instruction cache or writes of a branch predictor."""
    if cache in _READ_ONLY:
        return operation == CacheOp.READ
    return cache != CacheId.L1I or operation != CacheOp.WRITE


def cache_event(name: str) -> int | None:
    """Return the config of a cache event `CACHE[-OP][-RESULT]` in any spelling; None for other names.

    OP and RESULT are optional (loads, accesses), and their order does not matter.
    """
    cache, remainder = _take(name, _by_length(_CACHES))
    if cache is None:
        return None
    operation: int | None = None
    result: int | None = None
    while remainder:
        if not remainder.startswith("-"):
            return None
        number, after = _take(remainder[1:], _by_length(_OPS))
        if number is not None:
            operation = number if operation is None else operation
        else:
            number, after = _take(remainder[1:], _by_length(_RESULTS))
            if number is None:
                return None
            result = number if result is None else result
        remainder = after
    operation = CacheOp.READ if operation is None else operation
    result = CacheResult.ACCESS if result is None else result
    if not is_cache_operation_valid(cache, operation):
        return None
    return cache | operation << 8 | result << 16


def _take(text: str, names: list[tuple[str, int]]) -> tuple[int | None, str]:
    """Return the number of the longest name at the start of `text`, followed by `-` or the end, and the remaining text."""
    for name, number in names:
        if text.startswith(name) and text[len(name) : len(name) + 1] in ("", "-"):
            return number, text[len(name) :]
    return None, text


def cache_event_name(config: int) -> str:
    """Return perf's name of a cache event's config; "" if it is invalid."""
    cache, operation, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    if cache not in _CACHES or operation not in _OPS or result not in _RESULTS or config >> 24:
        return ""
    if not is_cache_operation_valid(cache, operation):
        return ""
    if result == CacheResult.MISS:
        return f"{_CACHES[cache][0]}-{_OPS[operation][0]}-{_RESULTS[result][0]}"
    return f"{_CACHES[cache][0]}-{_OPS[operation][1]}"


def cache_configs() -> list[int]:
    """Return every valid config of a cache event, in the order of the kernel's numbers."""
    return [
        cache | operation << 8 | result << 16
        for cache in _CACHES
        for operation in _OPS
        for result in _RESULTS
        if is_cache_operation_valid(cache, operation)
    ]


def generic_names() -> list[str]:
    """Return all names and aliases of this module for suggestions, without unusual spellings of cache events."""
    names = [*_SOFTWARE_CONFIGS, *_HARDWARE_CONFIGS, *TOOL]
    return names + [cache_event_name(config) for config in cache_configs()]


def generic_name(event_type: int, config: int) -> str:
    """Return perf's name of a generic event that has no text; "" for unknown numbers."""
    if event_type == PerfType.HW_CACHE:
        return cache_event_name(config)
    tables = {PerfType.HARDWARE: HARDWARE, PerfType.SOFTWARE: SOFTWARE}
    for name, alias, number in tables.get(event_type, ()):
        if number == config:
            return alias if alias in ("cycles", "branches") else name
    return ""
