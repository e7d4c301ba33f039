"""`perfpy stat report`: show the counts in a file of `stat record`, or compare two files."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.attr import CountedEvent, CountState
from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.perf_records import (
    EVENT_UPDATE_CPUS,
    EVENT_UPDATE_NAME,
    EVENT_UPDATE_SCALE,
    EVENT_UPDATE_UNIT,
    CpuMap,
    EventUpdate,
    Stat,
    StatConfig,
    StatRound,
    ThreadMap,
)
from perfpy.cli.line.input_recording import default_input
from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, StdioOptions, Value, fail, option
from perfpy.cli.stat.options import OutputForm, PartOptions, StatCommandOptions, StatOutput
from perfpy.counts.aggregation import Aggregation, CounterCell, Grouping, aggregate, count_members, part_numbers
from perfpy.counts.comparison import Runs, compare_runs
from perfpy.counts.tally import RunTimes, Tally
from perfpy.errors import BadPerfDataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perfpy.cli.line.option_parsing import Parser
    from perfpy.counts.aggregation import CountRow
    from perfpy.perfdata.sample_source import SampleSource


class _FormOptions(CommandOptions):
    """The files, and the output's format; these options are perfpy's own."""

    input: str = option("-i,--input", Value(default=""), "input file (default: perf.data; -: standard input)", metavar="<file>")
    separator: str | None = option("-x,--field-separator", Value(), "separate fields with this string", metavar="<separator>")
    json: bool = option("-j,--json-output", Flag(), "print JSON, one object a line")
    output: str = option("-o,--output", Value(default=""), "write to this file", metavar="<file>")
    append: bool = option("--append", Flag(), "append to the file of -o")
    log_fd: int = option("--log-fd", Value(int, default=0), "write to this file descriptor instead of stderr")
    big_num: bool | None = option("-B,--big-num", Flag(default=None), "use the locale's thousands separators")
    metric_only: bool = option("--metric-only", Flag(), "print only ratios and metrics")
    no_csv_summary: bool = option("--no-csv-summary", Flag(), "omit the word 'summary' from summaries with -x")
    quiet: bool = option("--quiet", Flag(), "print nothing")
    compare: str = option("--compare", Value(default=""), "compare with the counts of this file", metavar="<file>")


class StatReportOptions(_FormOptions, PartOptions, StdioOptions):
    """Options of `perfpy stat report`."""

    no_aggr: bool = option("-A,--no-aggr", Flag(), "print one line for each CPU")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")

    @property
    def form(self) -> OutputForm:
        """The destination and format of the counts."""
        return OutputForm(
            path=self.output,
            append=self.append,
            log_fd=self.log_fd,
            quiet=self.quiet,
            json=self.json,
            separator=self.separator,
            big_num=self.big_num,
            metric_only=self.metric_only,
            mark_summary=not self.no_csv_summary,
            stdio=self.stdio,
        )


def require_options_of_report(parser: Parser) -> None:
    """Raise UsageError if an option before the word `report` is about counting."""
    accepted = {declared.name for declared in StatReportOptions.declared_options()} | {"usage", "show_help"}
    for occurrence in parser.occurrences:
        if occurrence.name not in accepted:
            spellings = next(declared for declared in StatCommandOptions.declared_options() if declared.name == occurrence.name).spellings
            fail(f"stat report does not count; drop {', '.join(spellings)}")


def run(options: StatReportOptions) -> None:
    """Show the counts in a file of `stat record`."""
    from perfpy.cli.stat.options import cache_level, chosen_aggregation

    with ExitStack() as stack:
        recorded = _open(stack, options.input or default_input(), options)
        if options.compare:
            _compare(recorded, _open(stack, options.compare, options), options)
            return
        grouping = recorded.grouping(chosen_aggregation(options, no_aggr=options.no_aggr), cache_level(options))
        output = stack.enter_context(StatOutput(options.form))
        output.title = f"'{' '.join(recorded.command)}'"
        for tally in recorded.tallies(grouping):
            output.show(tally)


def _open(stack: ExitStack, path: str, options: StatReportOptions) -> RecordedCounts:
    from perfpy.perfdata.reader import PerfData

    return RecordedCounts(stack.enter_context(PerfData(path, check_owner=not options.force)))


def _compare(a: RecordedCounts, b: RecordedCounts, options: StatReportOptions) -> None:
    from perfpy.cli.stat.compare import show

    try:
        comparison = compare_runs(a.runs(options.input or "perf.data"), b.runs(options.compare))
    except ValueError as error:
        fail(str(error))
    with StatOutput(options.form) as output:
        show([comparison], output)


command = PerfCommand(StatReportOptions, run)


_TERM_AGGREGATION, _TERM_INTERVAL, _TERM_SCALE = 0, 1, 2
_ROUND_FINAL: Final = 1
_NS_PER_MS: Final = 1_000_000
_ANY: Final = -1

_Cells = dict[CountedEvent, list[CounterCell]]


class RecordedCounts:
    """The counts of one file. Raises BadPerfDataError for a file without counts.

    Attributes:
        events: in the file's order.
        cpus, threads: that the counters were opened on.
        mode: the recorded aggregation.
        interval_ms: the interval, 0 without.
        scale: whether counts are scaled.
    """

    def __init__(self, data: SampleSource) -> None:
        self._data = data
        self.events = [CountedEvent(event.name, event.attr) for event in data.events]
        for event, recorded in zip(self.events, data.events, strict=True):
            event.leader = self.events[recorded.leader]
        count_members(self.events)
        self._by_id = {ident: event for event, recorded in zip(self.events, data.events, strict=True) for ident in recorded.ids}
        self.cpus: tuple[int, ...] = (_ANY,)
        self.threads: tuple[tuple[int, str], ...] = ()
        self.mode = Aggregation.GLOBAL
        self.interval_ms = 0
        self.scale = True
        self._rounds = list(self._read())
        if not self._rounds:
            raise BadPerfDataError(data.path, "no counts in the file", remedy="perfpy stat record writes counts")
        # an event that the machine does not support has no counters
        self._states = {event: CountState(supported=any(cells[event] for _, cells in self._rounds)) for event in self.events}

    @property
    def command(self) -> tuple[str, ...]:
        """The command line of the recording; ("pipe",) for a pipe, or a file without one."""
        return ("pipe",) if self._data.is_pipe else tuple(self._data.features.get("cmdline") or ("pipe",))

    def _read(self) -> Iterator[tuple[StatRound, _Cells]]:
        cells: _Cells = {event: [] for event in self.events}
        for side in self._data.side_band():
            record = side.record
            if isinstance(record, Stat):
                self._add_count(record, cells)
            elif isinstance(record, StatRound):
                yield record, cells
                cells = {event: [] for event in self.events}
            elif isinstance(record, StatConfig | EventUpdate | ThreadMap | CpuMap):
                self._apply_setting(record)

    def _add_count(self, record: Stat, cells: _Cells) -> None:
        event = self._by_id.get(record.id)
        if event is None:
            raise BadPerfDataError(self._data.path, f"count of unknown event id {record.id}")
        cpu = record.cpu - (1 << 32) if record.cpu >> 31 else record.cpu
        cells[event].append(CounterCell(cpu, record.thread, record.value, record.enabled, record.running))

    def _apply_setting(self, record: StatConfig | EventUpdate | ThreadMap | CpuMap) -> None:
        if isinstance(record, ThreadMap):
            self.threads = tuple((_signed_pid(pid), comm) for pid, comm in record.threads)
        elif isinstance(record, CpuMap):
            self.cpus = tuple(record.cpus)
        elif isinstance(record, StatConfig):
            terms = dict(record.terms)
            modes = {mode.value: mode for mode in Aggregation}
            self.mode = modes.get(terms.get(_TERM_AGGREGATION, 1), Aggregation.GLOBAL)
            self.interval_ms = terms.get(_TERM_INTERVAL, 0)
            self.scale = bool(terms.get(_TERM_SCALE, 1))
        else:
            self._update(record)

    def _update(self, record: EventUpdate) -> None:
        event = self._by_id.get(record.id)
        if event is None:
            return
        if record.type == EVENT_UPDATE_UNIT:
            event.unit = str(record.value)
        elif record.type == EVENT_UPDATE_SCALE and isinstance(record.value, float):
            event.scale = record.value
        elif record.type == EVENT_UPDATE_NAME:
            event.name = str(record.value)
        elif record.type == EVENT_UPDATE_CPUS and isinstance(record.value, tuple):
            event.cpus = record.value

    # -- results ---------------------------------------------------------------

    def grouping(self, mode: Aggregation | None, cache_level: int | None = None) -> Grouping:
        """Return the requested grouping, or else the recorded one. Raises UsageError if the file has no counts per CPU."""
        mode = mode or self.mode
        if mode is Aggregation.GLOBAL:
            return Grouping.everything()
        if mode is Aggregation.THREAD:
            self._require_listed("thread", range(len(self.threads)))
            return Grouping.by_thread([(comm, pid) for pid, comm in self.threads])
        if self.cpus == (_ANY,) and mode is Aggregation.NONE:
            return Grouping.everything()  # as perf does
        if self.cpus == (_ANY,):
            raise UsageError("the recording counted tasks, not CPUs; record with -a or -C for counts per CPU")
        self._require_listed("cpu", self.cpus)
        if mode is Aggregation.NONE:
            return Grouping.by_cpu(self.cpus)
        topology = _RecordedTopology(self._data.features)
        return Grouping.by_part(mode, {cpu: part_numbers(mode, topology, cpu, cache_level) for cpu in self.cpus})

    def _require_listed(self, field: str, listed: Iterable[int]) -> None:
        """Raise BadPerfDataError if counts have a CPU or thread that the file does not list. field: a field of CounterCell."""
        counted = {getattr(cell, field) for _, cells in self._rounds for its_cells in cells.values() for cell in its_cells}
        if strange := counted.difference(listed):
            reason = f"counts of {field} {min(strange)}, which the file does not list"
            raise BadPerfDataError(self._data.path, reason, remedy="--per-socket, -A and similar options need that list")

    def tallies(self, grouping: Grouping) -> Iterator[Tally]:
        """Yield a tally per round: each interval, and each result."""
        before: dict[CountedEvent, dict[tuple[int, int], CounterCell]] = {event: {} for event in self.events}
        for record, cells in self._rounds:
            final = record.type == _ROUND_FINAL
            rows = self._rows(cells if final else _since(before, cells), grouping)
            yield Tally(
                self.events,
                rows,
                grouping,
                wall_ns=record.time if final else self.interval_ms * _NS_PER_MS,
                times=RunTimes((record.time,)) if final else None,
                timestamp=None if final else record.time,
                summary=final and bool(self.interval_ms),
                counts_tasks=self.cpus == (_ANY,),
                default_set=True,  # names are those of the file
            )

    def _rows(self, cells: _Cells, grouping: Grouping) -> dict[CountedEvent, list[CountRow]]:
        return {
            event: aggregate(event, its_cells, grouping, scale=self.scale, state=self._states[event]) for event, its_cells in cells.items()
        }

    def runs(self, name: str) -> Runs:
        """Return each result of the file as one run, for a comparison; with intervals only, the last, whose counts are since the start."""
        runs = Runs(name)
        everything = Grouping.everything()
        results = [(record, cells) for record, cells in self._rounds if record.type == _ROUND_FINAL]
        for record, cells in results or self._rounds[-1:]:
            rows = [its_rows[0] for its_rows in self._rows(cells, everything).values()]
            runs.add(record.time, {row.event.name: (row.event.unit, row.amount) for row in rows if row.was_counted})
        return runs


class _RecordedTopology:
    """A recording's CPUs, from the features of its header: the same numbers as perfpy.kernel.cpus.Topology's of a running machine."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        topology = features.get("cpu_topology")
        self._cpus = topology.cpus if topology else ()
        self._nodes = features.get("numa_topology") or ()
        self._caches = features.get("cache") or ()

    def _cpu(self, cpu: int) -> tuple[int, int, int | None]:
        """Return core, socket and die."""
        return self._cpus[cpu] if 0 <= cpu < len(self._cpus) else (cpu, 0, 0)

    def socket(self, cpu: int) -> int:
        return self._cpu(cpu)[1]

    def die(self, cpu: int) -> int:
        return self._cpu(cpu)[2] or 0

    def cluster(self, _cpu: int) -> int:
        """Return 0: headers have no clusters."""
        return 0

    def core(self, cpu: int) -> int:
        return self._cpu(cpu)[0]

    def node(self, cpu: int) -> int:
        return next((node.node for node in self._nodes if cpu in _cpus(node.cpus)), 0)

    def cache(self, cpu: int, level: int | None) -> tuple[int, int]:
        level_and_cpu = (level or 0, -1)
        for cache in self._caches:
            shared = _cpus(cache.map)
            if cpu in shared and (cache.level == level or (level is None and cache.level > level_and_cpu[0])):
                level_and_cpu = (cache.level, min(shared))
        return level_and_cpu


def _signed_pid(pid: int) -> int:
    """Return a pid of the file, -1 if all tasks were counted."""
    return pid - (1 << 64) if pid >> 63 else pid


def _since(before: dict[CountedEvent, dict[tuple[int, int], CounterCell]], cells: _Cells) -> _Cells:
    """Return the counts since the round before."""
    differences = {}
    for event, its_cells in cells.items():
        last = before[event]
        differences[event] = [cell.since(last[cell.cpu, cell.thread]) if (cell.cpu, cell.thread) in last else cell for cell in its_cells]
        before[event] = {(cell.cpu, cell.thread): cell for cell in its_cells}
    return differences


def _cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as 0-3,8; none if it is malformed."""
    try:
        return parse_cpu_list(text)
    except ValueError:
        return ()
