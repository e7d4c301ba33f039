"""Aggregate the readings of single counters over CPUs, threads and parts of the topology.

Live counting and recorded counts share this module. It produces numbers, not text.
"""

from __future__ import annotations

from perfpy.abi.attr import COUNTED
from perfpy.abi.flags import CacheId, CacheOp, CacheResult, HardwareId, PerfType, SoftwareId
from perfpy.abi.light_types import Enum, NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final, Protocol

    from perfpy.abi.attr import CountedEvent, CountState

    class CpuPositions(Protocol):
        """The numbers that tell where a CPU is: those of this machine (perfpy.kernel.cpus), or those of a recording."""

        def socket(self, cpu: int) -> int:
            """Return the CPU's package."""

        def die(self, cpu: int) -> int:
            """Return the die within the package."""

        def cluster(self, cpu: int) -> int:
            """Return the cluster within the die."""

        def core(self, cpu: int) -> int:
            """Return the core within the die."""

        def node(self, cpu: int) -> int:
            """Return the NUMA node."""

        def cache(self, cpu: int, level: int | None) -> tuple[int, int]:
            """Return the level and the id of the CPU's cache at a level, or of its last one."""


class Aggregation(Enum):
    """The unit over which counts are summed. The values are those of STAT_CONFIG records (tools/perf/util/stat.h)."""

    NONE = 0
    GLOBAL = 1
    SOCKET = 2
    DIE = 3
    CLUSTER = 4
    CACHE = 5
    CORE = 6
    THREAD = 7
    NODE = 9


class AggregateColumn(NamedTuple):
    """The column of an aggregation: its heading, its width in text, and its key in JSON objects."""

    heading: str
    width: int
    key: str


#: perf's
AGGREGATE_COLUMNS: Final = {
    Aggregation.NONE: AggregateColumn("cpu", 6, "cpu"),
    Aggregation.SOCKET: AggregateColumn("socket", 6, "socket"),
    Aggregation.NODE: AggregateColumn("node", 6, "node"),
    Aggregation.DIE: AggregateColumn("die", 12, "die"),
    Aggregation.CORE: AggregateColumn("core", 18, "core"),
    Aggregation.CLUSTER: AggregateColumn("cluster", 20, "cluster"),
    Aggregation.CACHE: AggregateColumn("cache", 22, "cache"),
    Aggregation.THREAD: AggregateColumn("comm-pid", 16, "thread"),
}


def count_members(events: Sequence[CountedEvent]) -> None:
    """Set the group size of every group leader."""
    for event in events:
        event.group_size = 1
    for event in events:
        if event.leader is not event:
            event.leader.group_size += 1


class CounterCell(NamedTuple):
    """One counter's reading since it was enabled or since the last interval.

    Attributes:
        thread: index into the measured threads
        enabled, running: nanoseconds
    """

    cpu: int
    thread: int
    value: int
    enabled: int
    running: int

    def since(self, last: CounterCell) -> CounterCell:
        """Return the difference to an earlier reading."""
        return CounterCell(self.cpu, self.thread, self.value - last.value, self.enabled - last.enabled, self.running - last.running)

    def scaled_count(self) -> int:
        """Return the count, scaled up for the time that the counter waited for the PMU."""
        if self.running == 0:
            return 0
        if self.running < self.enabled:
            return int(float(self.value) * self.enabled / self.running)
        return self.value


class AggregateId(NamedTuple):
    """The owner of a count: the whole measurement, one CPU, one thread, or one part of the topology.

    `label` is perf's name for it ("S0-D0-C1", "CPU3"); "" for the whole measurement.
    """

    label: str = ""
    cpu: int = -1
    comm: str = ""
    pid: int = -1


class CountRow(NamedTuple):
    """An event's count for one aggregate id, summed over `cells` counters."""

    event: CountedEvent
    aggregate_id: AggregateId
    value: int
    enabled: int
    running: int
    cells: int
    state: CountState = COUNTED

    @property
    def was_counted(self) -> bool:
        """Whether the event ran and could be read."""
        return self.enabled != 0 and self.running != 0 and not self.state.failed

    @property
    def amount(self) -> float:
        """The count in the event's unit."""
        return self.value * self.event.scale


EVERYWHERE = AggregateId()


class Grouping:
    """The mapping from counters to aggregate ids, for one aggregation mode.

    Attributes:
        aggregate_ids: all of them, in printing order
        index_of: maps a cell to an index into `aggregate_ids`
    """

    def __init__(self, mode: Aggregation, aggregate_ids: Sequence[AggregateId], index_of: Callable[[CounterCell], int]) -> None:
        self.mode = mode
        self.aggregate_ids = tuple(aggregate_ids)
        self.index_of = index_of

    @classmethod
    def everything(cls) -> Grouping:
        """Sum all counters."""
        return cls(Aggregation.GLOBAL, (EVERYWHERE,), lambda _cell: 0)

    @classmethod
    def by_thread(cls, threads: Sequence[tuple[str, int]]) -> Grouping:
        """Group by thread. `threads` has (comm, tid) in the order of the cells' thread index."""
        aggregate_ids = [AggregateId(f"{comm}-{tid}", -1, comm, tid) for comm, tid in threads]
        return cls(Aggregation.THREAD, aggregate_ids, lambda cell: cell.thread)

    @classmethod
    def by_cpu(cls, cpus: Iterable[int]) -> Grouping:
        """Group by CPU."""
        aggregate_ids = [AggregateId(f"CPU{cpu}", cpu) for cpu in cpus]
        index = {aggregate_id.cpu: i for i, aggregate_id in enumerate(aggregate_ids)}
        return cls(Aggregation.NONE, aggregate_ids, lambda cell: index[cell.cpu])

    @classmethod
    def by_part(cls, mode: Aggregation, parts: dict[int, tuple[int, ...]]) -> Grouping:
        """Group by part of the topology. `parts` maps a CPU to its part_numbers()."""
        numbers = sorted(set(parts.values()))
        index = {number: i for i, number in enumerate(numbers)}
        aggregate_ids = [AggregateId(part_label(mode, number)) for number in numbers]
        return cls(mode, aggregate_ids, lambda cell: index[parts[cell.cpu]])


def part_numbers(mode: Aggregation, topology: CpuPositions, cpu: int, cache_level: int | None = None) -> tuple[int, ...]:
    """Return the numbers that identify a CPU's part of the topology.

    They are socket and die, followed by cluster and core, or by a cache's level and id. A node has only its own number.
    """
    if mode is Aggregation.NODE:
        return (topology.node(cpu),)
    socket, die = topology.socket(cpu), topology.die(cpu)
    if mode is Aggregation.SOCKET:
        return (socket,)
    if mode is Aggregation.DIE:
        return (socket, die)
    if mode is Aggregation.CACHE:
        return (socket, die, *topology.cache(cpu, cache_level))
    cluster = topology.cluster(cpu)
    return (socket, die, cluster) if mode is Aggregation.CLUSTER else (socket, die, cluster, topology.core(cpu))


def part_label(mode: Aggregation, numbers: tuple[int, ...]) -> str:
    """Return the name of a part of the topology, such as S0-D0-C1 for core 1 of die 0 of socket 0. `numbers` are its part_numbers()."""
    if mode is Aggregation.NODE:
        return f"N{numbers[0]}"
    socket, *rest = numbers
    if mode is Aggregation.SOCKET:
        return f"S{socket}"
    die, *rest = rest
    if mode is Aggregation.DIE:
        return f"S{socket}-D{die}"
    if mode is Aggregation.CLUSTER:
        return f"S{socket}-D{die}-CLS{rest[0]}"
    if mode is Aggregation.CACHE:
        return f"S{socket}-D{die}-L{rest[0]}-ID{rest[1]}"
    return f"S{socket}-D{die}-C{rest[1]}"


class _Sum:
    __slots__ = ("cells", "enabled", "failed", "running", "value")

    def __init__(self) -> None:
        self.value = self.enabled = self.running = self.cells = 0
        self.failed = False


def aggregate(
    event: CountedEvent, cells: Iterable[CounterCell], grouping: Grouping, *, scale: bool = True, state: CountState = COUNTED
) -> list[CountRow]:
    """Return an event's rows, one for each of the grouping's aggregate ids, in their order.

    With `scale`, the counts of multiplexed counters are scaled up. If some counters of a part of the machine did not run, that part has no
    count, because a sum over the others would mislead.
    """
    totals = [_Sum() for _ in grouping.aggregate_ids]
    strict = grouping.mode not in (Aggregation.GLOBAL, Aggregation.THREAD)
    for cell in cells:
        total = totals[grouping.index_of(cell)]
        total.cells += 1
        if state.failed or (strict and not (cell.enabled and cell.running)):
            total.failed = True
        total.value += cell.scaled_count() if scale else cell.value
        total.enabled += cell.enabled
        total.running += cell.running
    return [
        CountRow(event, aggregate_id, 0, 0, 0, s.cells, state)
        if s.failed
        else CountRow(event, aggregate_id, s.value, s.enabled, s.running, s.cells, state)
        for aggregate_id, s in zip(grouping.aggregate_ids, totals, strict=True)
    ]


def add_boxes(rows: dict[CountedEvent, list[CountRow]]) -> dict[CountedEvent, list[CountRow]]:
    """Return the rows in which those of events that are added to another event are added to that event's.

    The number of cells stays that of one PMU, as in perf: the boxes of an uncore PMU count on the same CPUs.
    """
    totals = dict(rows)
    for event, its_rows in rows.items():
        first = event.added_to
        if first is None or first not in totals:
            continue
        totals[first] = [
            row._replace(value=row.value + more.value, enabled=row.enabled + more.enabled, running=row.running + more.running)
            for row, more in zip(totals[first], its_rows, strict=True)
        ]
        del totals[event]
    return totals


def sum_cores(rows: Sequence[CountRow], cores: Sequence[AggregateId], *, keeps_cpus: bool = False) -> list[CountRow]:
    """Return the rows of CPUs in which each has the sum over its core's CPUs, and the core's id (with `keeps_cpus`, the CPU's).

    `cores` has the core of each row. A core has no count if one of its CPUs has none, because a sum over the others would mislead.
    """
    totals: dict[AggregateId, _Sum] = {}
    for row, core in zip(rows, cores, strict=True):
        if row.cells:
            total = totals.setdefault(core, _Sum())
            total.failed |= not row.was_counted
            total.value += row.value
            total.enabled += row.enabled
            total.running += row.running
    summed = []
    for row, core in zip(rows, cores, strict=True):
        owner = row.aggregate_id if keeps_cpus else core
        total = totals.get(core, _Sum())
        counts = (0, 0, 0) if total.failed or not row.cells else (total.value, total.enabled, total.running)
        summed.append(CountRow(row.event, owner, *counts, row.cells, row.state))
    return summed


def one_cell_a_package(cells: Iterable[CounterCell], package_of: Callable[[int], int]) -> list[CounterCell]:
    """Keep one cell for each package, for events that count per package: every other cell would count the package again.

    A cell that did not run does not represent its package.
    """
    packages: set[int] = set()
    first_cells = []
    for cell in cells:
        package = package_of(cell.cpu)
        if package in packages:
            continue
        if cell.enabled and cell.running:
            packages.add(package)
        first_cells.append(cell)
    return first_cells


# The ratios beside counts: CPUs utilized, GHz, insn per cycle, miss rates, events per second. The pairs of events and the number formats
# are perf's.


class Ratio(NamedTuple):
    """A number beside a count.

    Attributes:
        value: None if one of the two counts is missing or zero
        unit: the ratio's name; None if the event has no ratio
        format: printf format of the number
        exceeds: whether a metric exceeds its threshold; None without one
        group: the metric group whose name is printed before it, or ""
    """

    value: float | None
    unit: str | None
    format: str = "%8.3f"
    exceeds: bool | None = None
    group: str = ""


NO_RATIO: Final = Ratio(None, None)
_PERCENT: Final = "%7.2f%%"
_PLAIN: Final = "%7.2f "

_HARDWARE: Final = {
    HardwareId.CPU_CYCLES: "cycles",
    HardwareId.INSTRUCTIONS: "instructions",
    HardwareId.STALLED_CYCLES_FRONTEND: "stalled-front",
    HardwareId.STALLED_CYCLES_BACKEND: "stalled-back",
    HardwareId.BRANCH_INSTRUCTIONS: "branches",
    HardwareId.BRANCH_MISSES: "branch-misses",
    HardwareId.CACHE_REFERENCES: "cache-refs",
    HardwareId.CACHE_MISSES: "cache-misses",
}
_CACHES: Final = {
    CacheId.L1D: "L1-dcache",
    CacheId.L1I: "L1-icache",
    CacheId.LL: "LL-cache",
    CacheId.DTLB: "dTLB",
    CacheId.ITLB: "iTLB",
}
#: kind of event -> the kind that it is a percentage of, and the name of the ratio
_SHARES: Final = {
    "stalled-front": ("cycles", "frontend cycles idle"),
    "stalled-back": ("cycles", "backend cycles idle"),
    "branch-misses": ("branches", "of all branches"),
    "cache-misses": ("cache-refs", "of all cache refs"),
    "L1-dcache misses": ("L1-dcache", "of all L1-dcache accesses"),
    "L1-icache misses": ("L1-icache", "of all L1-icache accesses"),
    "LL-cache misses": ("LL-cache", "of all LL-cache accesses"),
    "dTLB misses": ("dTLB", "of all dTLB cache accesses"),
    "iTLB misses": ("iTLB", "of all iTLB cache accesses"),
}
_MISS: Final = CacheOp.READ << 8 | CacheResult.MISS << 16
_NS_PER_S: Final = 1e9
_NAN: Final = float("nan")  # importing math takes as long as a module of ours
_CORE_TYPE_SHIFT: Final = 32  # a generic event's config on hybrid machines: PERF_PMU_TYPE_SHIFT
_GENERIC: Final = (1 << _CORE_TYPE_SHIFT) - 1
_EXCLUDES: Final = ("exclude_kernel", "exclude_user", "exclude_hv", "exclude_host", "exclude_idle")


def is_clock(event: CountedEvent) -> bool:
    """Whether an event counts nanoseconds of CPU time (cpu-clock, task-clock)."""
    attr = event.attr
    return attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


def kind(event: CountedEvent) -> str:
    """Return an event's kind for the ratios; "" if it has only a rate."""
    attr = event.attr
    if attr.type == PerfType.SOFTWARE:  # perf's own clocks have the attr of a dummy event
        return "clock" if is_clock(event) else ""
    if attr.type == PerfType.HARDWARE:
        return _HARDWARE.get(attr.config & _GENERIC, "")
    if event.generic is not None:
        return _HARDWARE.get(event.generic, "")
    if attr.type == PerfType.HW_CACHE:
        cache = _CACHES.get(attr.config & 0xFF, "")
        accesses = attr.config & _GENERIC & ~0xFF
        if cache and accesses in (0, _MISS):
            return f"{cache} misses" if accesses else cache
    return ""


def _core_type(event: CountedEvent) -> int:
    """Return the type of the core PMU that an event of a kind counts on; 0 if the machine has only one."""
    attr = event.attr
    return attr.config >> _CORE_TYPE_SHIFT if attr.type in (PerfType.HARDWARE, PerfType.HW_CACHE) else attr.type


def shares_of_cores(rows: Iterable[CountRow]) -> dict[str, float]:
    """Return for the PMU of each kind of core the share of the time that a program ran on it; {} if the machine has one kind.

    A task's counter runs while the task is on a CPU of its kind, so the shares of all kinds are 1.0 together unless events share the PMU.
    """
    times: dict[str, float] = {}
    for row in rows:
        if row.enabled and row.event.cpus is not None and row.event.pmu:
            times[row.event.pmu] = max(times.get(row.event.pmu, 0.0), row.running / row.enabled)
    total = sum(times.values())
    return {pmu: share / total for pmu, share in times.items()} if len(times) > 1 and total else {}


class Neighbours:
    """The rows of all events on one CPU, core or task, among which a ratio finds its other half.

    `wall_ns` is the time that "CPUs utilized" is relative to.
    """

    def __init__(self, rows: Sequence[CountRow], wall_ns: float) -> None:
        self.wall_ns = wall_ns
        self._rows = [(kind(row.event), row) for row in rows]

    def count(self, event: object) -> float:
        """Return an event's count for formulas: unscaled, tool events in seconds, NaN if there is none."""
        for _, row in self._rows:
            if row.event is event:
                return (row.value / _NS_PER_S if row.event.tool else float(row.value)) if row.was_counted else _NAN
        return _NAN

    def find(self, event: CountedEvent, kind: str) -> float:
        """Return the amount of the first event of a kind that may be compared with `event`; 0.0 if there is none.

        A group's events are compared only within the group. Modifiers, cgroup and (except for clocks) the kind of core must be equal.
        """
        for its_kind, row in self._rows:
            other = row.event
            if its_kind != kind or other is event or other.cgroup != event.cgroup:
                continue
            if event.leader.group_size > 1 and other.leader is not event.leader:
                continue
            if any(getattr(event.attr, bit) != getattr(other.attr, bit) for bit in _EXCLUDES):
                continue
            if kind == "clock":
                return float(row.value)
            if len({_core_type(event), _core_type(other)} - {0}) < 2:
                return row.amount
        return 0.0


def ratio_name(event: CountedEvent) -> str:
    """Return the name of the ratio beside an event in lines without counts; "" if such lines show none."""
    its_kind = kind(event)
    if its_kind in _SHARES:
        name = _SHARES[its_kind][1]
        return f"{event.name} {name}" if name.startswith("of all") else name
    return {"instructions": "insn per cycle", "cycles": "GHz"}.get(its_kind, "")


def ratios(row: CountRow, near: Neighbours) -> list[Ratio]:
    """Return the ratios of a row with a count; at least one entry."""
    its_kind = kind(row.event)
    share = _SHARES.get(its_kind)
    if share:
        whole = near.find(row.event, share[0])
        return [Ratio(row.amount / whole * 100.0 if whole and row.amount else None, share[1], _PERCENT)]
    if its_kind == "clock":
        wall = near.wall_ns * row.event.scale
        return [Ratio(row.amount / wall if wall else None, "CPUs utilized")]
    if its_kind == "instructions":
        cycles = near.find(row.event, "cycles")
        row_ratios = [Ratio(row.amount / cycles if cycles else None, "insn per cycle", _PLAIN)]
        stalled = max(near.find(row.event, "stalled-front"), near.find(row.event, "stalled-back"))
        if stalled and row.amount:
            row_ratios.append(Ratio(stalled / row.amount, "stalled cycles per insn", _PLAIN))
        return row_ratios
    nanoseconds = near.find(row.event, "clock")
    if its_kind == "cycles":
        return [Ratio(row.amount / nanoseconds if nanoseconds and row.amount else None, "GHz")]
    if not nanoseconds:
        return [NO_RATIO]
    rate = _NS_PER_S * row.amount / nanoseconds
    for prefix in ("", "K", "M"):
        if rate <= 1000.0:
            return [Ratio(rate, prefix + "/sec")]
        rate /= 1000.0
    return [Ratio(rate, "G/sec")]


# Statistics of repeated runs: mean, deviation, standard error, outliers. Imports no numpy, because stat must start at once.


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean; 0.0 for no values."""
    return sum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1)."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return float((sum((value - middle) ** 2 for value in values) / (len(values) - 1)) ** 0.5)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean, which perf stat -r prints after +-."""
    return deviation(values) / len(values) ** 0.5 if values else 0.0


def relative_error(error: float, of: float) -> float:
    """Return an error in percent of a mean; 0.0 if the mean is 0."""
    return 100.0 * error / of if of else 0.0


def median(values: Sequence[float]) -> float:
    """Return the median. Raises ValueError for no values."""
    return quantile(sorted(values), 0.5)


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which `part` (0 to 1) of the ordered values lie, interpolated between neighbours."""
    if not ordered:
        raise ValueError("no values")
    position = part * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


class Fences(NamedTuple):
    """Tukey's fences: values outside are outliers."""

    low: float
    high: float

    def outside(self, values: Sequence[float]) -> list[int]:
        """Return the positions of the outliers."""
        return [i for i, value in enumerate(values) if not self.low <= value <= self.high]


def fences(values: Sequence[float]) -> Fences:
    """Return fences 1.5 interquartile ranges beyond the quartiles, which assume no shape of the distribution."""
    ordered = sorted(values)
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    reach = 1.5 * (high - low)
    return Fences(low - reach, high + reach)
