"""The rows of one printing, with the ratios beside them and their noise, in printing order."""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import NamedTuple
from perfpy.counts.aggregation import NO_RATIO, AggregateId, Aggregation, CounterCell, CountRow, Grouping, Neighbours, Ratio, ratios

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from perfpy.abi.attr import CountedEvent
    from perfpy.counts.metrics import Metric

#: metrics that are percentages of the same slots
_SHARES_OF_SLOTS = ("tma_frontend_bound", "tma_bad_speculation", "tma_backend_bound", "tma_retiring")
_SLACK = 1.0  # percentage points, for counts of different times
_BY_EVENT = (Aggregation.GLOBAL, Aggregation.THREAD, Aggregation.NONE)


class TallyLine(NamedTuple):
    """One printed count.

    Attributes:
        name: the event's name, with its PMU where names would be ambiguous
        ratios: empty only if there is no count
        noise: relative standard error over the repeats, in percent; None for a single run
        hides_count: whether only the ratios are shown, after the name of their metric group
    """

    row: CountRow
    name: str
    ratios: Sequence[Ratio]
    noise: float | None
    hides_count: bool = False


class RunTimes(NamedTuple):
    """Wall-clock time of each run in ns, and user and system seconds of a single command."""

    elapsed: tuple[int, ...]
    user: float | None = None
    system: float | None = None


class Tally:
    """The contents of one printing.

    Args:
        rows: event -> its rows, in the grouping's order
        wall_ns: the time that "CPUs utilized" is relative to
        timestamp: ns since the start for an interval; None for a result
        summary: whether this is the result that --summary asks for
        is_null: whether only the time is measured (-n)
        noise: event -> percent, for repeats
        runs: number of runs
        counts_tasks: whether the counters followed tasks, rather than CPUs
        every_thread: whether all threads of the system were measured; idle ones are hidden
        default_set: whether perf's default events were counted
        hides_zeros: whether counts of zero have no line
        metrics: metrics by the event that they are printed beside
        only_for_metrics: events that are counted for default metrics, whose own counts are not shown
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
        is_null: bool = False,
        noise: Mapping[CountedEvent, float] | None = None,
        runs: int = 1,
        counts_tasks: bool = True,
        every_thread: bool = False,
        default_set: bool = False,
        hides_zeros: bool = False,
        metrics: Mapping[CountedEvent, Sequence[Metric]] | None = None,
        only_for_metrics: Container[CountedEvent] = (),
    ) -> None:
        self.events = list(events)
        self.rows = rows
        self.grouping = grouping
        self.wall_ns = wall_ns
        self.times = times
        self.timestamp = timestamp
        self.summary = summary
        self.is_null = is_null
        self.runs = runs
        self.counts_tasks = counts_tasks
        self.has_cgroups = any(event.cgroup is not None for event in events)
        self.metrics = metrics or {}
        self._only_for_metrics = only_for_metrics
        self._noise = noise
        self._every_thread = every_thread
        self._default_set = default_set
        self._hides_zeros = hides_zeros
        self._near: dict[int, Neighbours] = {}

    @property
    def mode(self) -> Aggregation:
        """The aggregation mode."""
        return self.grouping.mode

    @property
    def unit_width(self) -> int:
        """The width of the unit column."""
        return max([len("unit"), *(len(event.unit) for event in self.events if all(row.state.supported for row in self.rows[event]))])

    def lines(self) -> Iterator[TallyLine]:
        """Yield the lines in perf's order: event by event, or aggregate id by aggregate id for parts of the topology."""
        indexes = range(len(self.grouping.aggregate_ids))
        if self.mode in _BY_EVENT:
            pairs = ((event, index) for event in self.events for index in indexes)
        else:
            pairs = ((event, index) for events in self._by_cgroup() for index in indexes for event in events)
        missing = self._missing_threads()
        shown_cores: set[tuple[CountedEvent, str]] = set()
        for event, index in pairs:
            row = self.rows[event][index]
            if index in missing and not row.cells:
                continue
            if self.mode is Aggregation.NONE and row.cells and row.aggregate_id.cpu < 0:  # the sum of a core, on each of its CPUs
                core = event, row.aggregate_id.label
                if core in shown_cores:
                    continue
                shown_cores.add(core)
            if event in self._only_for_metrics and (event not in self.metrics or not row.enabled or not row.running):
                continue
            if row.value or not self._beside_the_point(event, index):
                yield self._line(row, index)

    def lines_by_aggregate(self) -> Iterator[tuple[AggregateId, list[TallyLine]]]:
        """Yield all lines of each aggregate id and cgroup, zeros included."""
        missing = self._missing_threads()
        for index, aggregate_id in enumerate(self.grouping.aggregate_ids):
            if index not in missing:
                for events in self._by_cgroup():
                    shown = [event for event in events if event not in self._only_for_metrics or event in self.metrics]
                    yield aggregate_id, [self._line(self.rows[event][index], index) for event in shown]

    def contradictions(self) -> Iterator[str]:
        """Yield a line for each part of the machine and kind of core whose shares of the slots do not add up to 100 %."""
        for index, aggregate_id in enumerate(self.grouping.aggregate_ids):
            shares: dict[str, dict[str, float]] = {}
            for event, metrics in self.metrics.items():
                for metric in metrics:
                    if metric.plain_name in _SHARES_OF_SLOTS and (value := metric.ratio(self.near(index)).value) is not None:
                        shares.setdefault(event.pmu, {})[metric.plain_name] = value
            for pmu, by_name in shares.items():
                total = sum(by_name.values())  # NaN if one is undefined
                if len(by_name) == len(_SHARES_OF_SLOTS) and abs(total - 100) > _SLACK:
                    where = ", ".join(filter(None, (aggregate_id.label, pmu)))
                    yield f"the top-down shares of {where} add up to {total:.0f} %, not 100: their counts contradict each other"

    def _missing_threads(self) -> set[int]:
        """Return the indexes of the threads that no event has counted although others were: they had ended before."""
        if self.mode is not Aggregation.THREAD:
            return set()
        counted = [[row.cells for row in self.rows[event]] for event in self.events if not event.tool]
        has_cells = [any(cells) for cells in zip(*counted, strict=True)]
        return {index for index, has in enumerate(has_cells) if not has} if any(has_cells) else set()

    def _by_cgroup(self) -> list[list[CountedEvent]]:
        """Split the events into runs with the same cgroup."""
        stretches: list[list[CountedEvent]] = []
        for event in self.events:
            if not stretches or stretches[-1][0].cgroup != event.cgroup:
                stretches.append([])
            stretches[-1].append(event)
        return stretches

    def _line(self, row: CountRow, index: int) -> TallyLine:
        # With one line for each CPU, perf adds the PMU to names that do not start with it.
        name = name_with_pmu(row.event) if self.mode is Aggregation.NONE and not self._default_set else row.event.name
        line_ratios: list[Ratio] = []
        hides_count = False
        if row.was_counted:
            near = self.near(index)
            hides_count = row.event in self._only_for_metrics
            line_ratios = [NO_RATIO] if hides_count else ratios(row, near)
            if metric_ratios := [metric.ratio(near) for metric in self.metrics.get(row.event, ())]:
                line_ratios = metric_ratios if line_ratios == [NO_RATIO] else line_ratios + metric_ratios
        return TallyLine(row, name, line_ratios, self._noise.get(row.event, 0.0) if self._noise is not None else None, hides_count)

    def near(self, index: int) -> Neighbours:
        """Return the rows of all events for an aggregate id."""
        if index not in self._near:
            self._near[index] = Neighbours([self._row_of_metrics(event, index) for event in self.events], self.wall_ns)
        return self._near[index]

    def _row_of_metrics(self, event: CountedEvent, index: int) -> CountRow:
        """Return the row that a metric of an aggregate uses: its own, and for times, which are measured once, the one that has them."""
        row = self.rows[event][index]
        if event.tool and not row.was_counted:
            return next((other for other in self.rows[event] if other.was_counted), row)
        return row

    def _beside_the_point(self, event: CountedEvent, index: int) -> bool:
        """Whether a zero carries no information: the event cannot count here, or most threads were idle."""
        if self._hides_zeros and self.rows[event][index].state.supported:
            return True
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


def name_with_pmu(event: CountedEvent) -> str:
    """Return an event's name as perf prints it when each CPU has its own line."""
    pmu = event.pmu or _pmu_of_type(event)
    if event.is_named or event.name.startswith(pmu) or event.name.endswith(f"[{pmu}]"):
        return event.name
    _, slash, terms = event.name.partition("/")
    return f"{pmu}/{terms}" if slash else f"{event.name} [{pmu}]"


def _pmu_of_type(event: CountedEvent) -> str:
    if event.tool:
        return ""
    if event.attr.type == PerfType.SOFTWARE:
        return "software"
    return "cpu" if event.attr.type in (PerfType.RAW, PerfType.HW_CACHE) else ""
