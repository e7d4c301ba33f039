"""One printing's worth of counts: rows, the ratios beside them, their noise, in the order in which they are shown.

What enters: rows by event, the grouping they were made with, wall-clock
times. What leaves: `TallyLine`s, which the views only have to write down.
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.counts.aggregation import AggregateId, Aggregation, CountedEvent, CounterCell, CountRow, Grouping
from perfpy.counts.ratios import NO_RATIO, Neighbours, Ratio, ratios

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.counts.metrics import Metric

_BY_EVENT = (Aggregation.GLOBAL, Aggregation.THREAD, Aggregation.NONE)


class TallyLine:
    """One count as it is shown.

    name: the event's, with its PMU where names would be ambiguous; ratios:
    never empty where there is a count; noise: the relative standard error
    over the repeats in percent, None when there was one run.
    """

    __slots__ = ("name", "noise", "ratios", "row")

    def __init__(self, row: CountRow, name: str, ratios: Sequence[Ratio], noise: float | None) -> None:
        self.row = row
        self.name = name
        self.ratios = ratios
        self.noise = noise


class RunTimes:
    """A measurement's own times: each run's wall-clock time in ns, and user and system seconds of a single command."""

    __slots__ = ("elapsed", "system", "user")

    def __init__(self, elapsed: tuple[int, ...], user: float | None = None, system: float | None = None) -> None:
        self.elapsed = elapsed
        self.user = user
        self.system = system


class Tally:
    """Everything that one printing shows.

    rows: event -> its rows in the grouping's order; wall_ns: what "CPUs
    utilized" is relative to; timestamp: ns since the start for an interval,
    None for a result; summary: the result after intervals; noise: event ->
    percent, for repeats; runs: how many; every_thread: all threads of the
    system were watched (those that did nothing are left out); default_set:
    the events are perf's own choice; hides_zeros: what did not happen has no
    line; metrics: by the event they hang on.
    """

    def __init__(
        self,
        events: Sequence[CountedEvent],
        rows: Mapping[CountedEvent, Sequence[CountRow]],
        grouping: Grouping,
        *,
        wall_ns: float,
        times: RunTimes | None = None,
        timestamp: int | None = None,
        summary: bool = False,
        noise: Mapping[CountedEvent, float] | None = None,
        runs: int = 1,
        every_thread: bool = False,
        default_set: bool = False,
        hides_zeros: bool = False,
        metrics: Mapping[CountedEvent, Sequence[Metric]] | None = None,
    ) -> None:
        self.events = list(events)
        self.rows = rows
        self.grouping = grouping
        self.wall_ns = wall_ns
        self.times = times
        self.timestamp = timestamp
        self.summary = summary
        self.runs = runs
        self.has_cgroups = any(event.cgroup is not None for event in events)
        self.metrics = metrics or {}
        self._noise = noise
        self._every_thread = every_thread
        self._default_set = default_set
        self._hides_zeros = hides_zeros
        self._near: dict[int, Neighbours] = {}

    @property
    def mode(self) -> Aggregation:
        """How counts are summed."""
        return self.grouping.mode

    @property
    def unit_width(self) -> int:
        """The width of the column of units."""
        return max([len("unit"), *(len(event.unit) for event in self.events if all(row.state.supported for row in self.rows[event]))])

    def lines(self) -> Iterator[TallyLine]:
        """The lines in perf's order: event by event, or aggregate id by aggregate id where a aggregate id is a part of the machine."""
        indexes = range(len(self.grouping.aggregate_ids))
        if self.mode in _BY_EVENT:
            pairs = ((event, index) for event in self.events for index in indexes)
        else:
            pairs = ((event, index) for events in self._by_cgroup() for index in indexes for event in events)
        for event, index in pairs:
            row = self.rows[event][index]
            if row.value or not self._beside_the_point(event, index):
                yield self._line(row, index)

    def lines_by_aggregate(self) -> Iterator[tuple[AggregateId, list[TallyLine]]]:
        """All lines of each aggregate id together, zeros included."""
        for index, aggregate_id in enumerate(self.grouping.aggregate_ids):
            yield aggregate_id, [self._line(self.rows[event][index], index) for event in self.events]

    def _by_cgroup(self) -> list[list[CountedEvent]]:
        """The events in stretches of the same cgroup (one stretch, where there are none)."""
        stretches: list[list[CountedEvent]] = []
        for event in self.events:
            if not stretches or stretches[-1][0].cgroup != event.cgroup:
                stretches.append([])
            stretches[-1].append(event)
        return stretches

    def _line(self, row: CountRow, index: int) -> TallyLine:
        noise = self._noise.get(row.event, 0.0) if self._noise is not None else None
        return TallyLine(row, self._name(row.event), self._ratios(row, index) if row.counted else (), noise)

    def near(self, index: int) -> Neighbours:
        """The rows of all events at a aggregate id."""
        if index not in self._near:
            self._near[index] = Neighbours([self.rows[event][index] for event in self.events], self.wall_ns)
        return self._near[index]

    def _ratios(self, row: CountRow, index: int) -> list[Ratio]:
        near = self.near(index)
        found = ratios(row, near)
        more = [metric.ratio(near) for metric in self.metrics.get(row.event, ())]
        return more if more and found == [NO_RATIO] else found + more

    def _beside_the_point(self, event: CountedEvent, index: int) -> bool:
        """Whether a zero says nothing: the event cannot count there, or too many threads did nothing."""
        if self._hides_zeros and self.rows[event][index].state.supported:
            return True
        if event in self.metrics:
            return False
        if self._every_thread or (event.tool and not (event.snapshot and self.mode is Aggregation.GLOBAL)):
            return True
        if event.cpus is None or self.mode in (Aggregation.GLOBAL, Aggregation.THREAD):
            return False
        return all(self._aggregate_index(cpu) != index for cpu in event.cpus)

    def _aggregate_index(self, cpu: int) -> int:
        try:
            return self.grouping.index_of(CounterCell(cpu, 0, 0, 0, 0))
        except KeyError:  # a CPU that is not measured
            return -1

    def _name(self, event: CountedEvent) -> str:
        """Where each CPU has its line, perf adds the PMU to names that do not start with it."""
        if self.mode is not Aggregation.NONE or self._default_set:
            return event.name
        return name_with_pmu(event)


def name_with_pmu(event: CountedEvent) -> str:
    """An event's name as perf has it where each CPU is told apart."""
    pmu = event.pmu or _pmu_of_type(event)
    told = event.name.startswith(pmu) or event.name.endswith(f"[{pmu}]")
    return event.name if told else f"{event.name} [{pmu}]"


def _pmu_of_type(event: CountedEvent) -> str:
    if event.tool:
        return ""
    if event.attr.type == PerfType.SOFTWARE:
        return "software"
    return "cpu" if event.attr.type in (PerfType.RAW, PerfType.HW_CACHE) else ""
