"""Aggregate the readings of single counters over CPUs, threads and parts of the topology.

Live counting and recorded counts share this module. It produces numbers, not text.
"""

from __future__ import annotations

from perfpy.abi.startup import Enum, NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from perfpy.abi.attr import EventAttr


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


class CountedEvent:
    """An event whose counts are aggregated.

    Attributes:
        unit, scale: a count times `scale` is in `unit`
        pmu: the PMU's name in sysfs, or ""
        tool: the name of perf's own clock ("duration_time", ...), or ""
        per_pkg: whether the event counts once for each package
        snapshot: whether the last reading is the count, instead of the difference of two readings
        cpus: the CPUs that the PMU counts on; None means any
        cgroup: the cgroup's path, or None
        leader: the event that leads the group; a single event leads itself
        group_size: the number of events in the group, set by `count_members`
    """

    __slots__ = (
        "attr", "cgroup", "cpus", "group_size", "leader", "name", "per_pkg", "pmu", "scale", "snapshot", "tool", "unit",
    )  # fmt: skip

    def __init__(self, name: str, attr: EventAttr, *, unit: str = "", scale: float = 1.0, pmu: str = "", tool: str = "") -> None:
        self.name = name
        self.attr = attr
        self.unit = unit
        self.scale = scale
        self.pmu = pmu
        self.tool = tool
        self.per_pkg = False
        self.snapshot = False
        self.cpus: tuple[int, ...] | None = None
        self.cgroup: str | None = None
        self.leader: CountedEvent = self
        self.group_size = 1

    def __repr__(self) -> str:
        return f"<CountedEvent {self.name}>"


def count_members(events: Sequence[CountedEvent]) -> None:
    """Set the group size of every group leader."""
    for event in events:
        event.group_size = 1
    for event in events:
        if event.leader is not event:
            event.leader.group_size += 1


class CountState(NamedTuple):
    """Whether an event could be opened and read.

    Attributes:
        supported: the event could be opened
        failed: a read failed, for example because a pinned counter lost the PMU
        why_not: the reason for either failure
    """

    supported: bool = True
    failed: bool = False
    why_not: Exception | None = None


COUNTED: Final = CountState()


class CounterCell:
    """One counter's reading since it was enabled or since the last interval.

    Attributes:
        thread: index into the measured threads
        enabled, running: nanoseconds
    """

    __slots__ = ("cpu", "enabled", "running", "thread", "value")

    def __init__(self, cpu: int, thread: int, value: int, enabled: int, running: int) -> None:
        self.cpu = cpu
        self.thread = thread
        self.value = value
        self.enabled = enabled
        self.running = running

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


class AggregateId:
    """The owner of a count: the whole measurement, one CPU, one thread, or one part of the topology.

    `label` is perf's name for it ("S0-D0-C1", "CPU3"); "" for the whole measurement.
    """

    __slots__ = ("comm", "cpu", "label", "pid")

    def __init__(self, label: str = "", cpu: int = -1, comm: str = "", pid: int = -1) -> None:
        self.label = label
        self.cpu = cpu
        self.comm = comm
        self.pid = pid


class CountRow:
    """An event's count for one aggregate id, summed over `cells` counters."""

    __slots__ = ("aggregate_id", "cells", "enabled", "event", "running", "state", "value")

    def __init__(
        self,
        event: CountedEvent,
        aggregate_id: AggregateId,
        value: int,
        enabled: int,
        running: int,
        cells: int,
        state: CountState = COUNTED,
    ) -> None:
        self.event = event
        self.aggregate_id = aggregate_id
        self.value = value
        self.enabled = enabled
        self.running = running
        self.cells = cells
        self.state = state

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
        """Group by part of the topology. `parts` maps a CPU to its part's numbers, as topology.part_numbers returns them."""
        numbers = sorted(set(parts.values()))
        index = {number: i for i, number in enumerate(numbers)}
        aggregate_ids = [AggregateId(part_label(mode, number)) for number in numbers]
        return cls(mode, aggregate_ids, lambda cell: index[parts[cell.cpu]])


def part_label(mode: Aggregation, numbers: tuple[int, ...]) -> str:
    """Return the name of a part of the topology, such as S0-D0-C1 for core 1 of die 0 of socket 0.

    `numbers` are socket and die, followed by cluster and core, or by a cache's level and id. A node has only its own number.
    """
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
