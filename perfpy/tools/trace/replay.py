"""`perfpy trace -i`: a recording as lines and tables."""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from perfpy.abi.columns import first_of_each, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.system_calls import numbers_by_name
from perfpy.analysis.filters import EventSwitch
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.line.shared_options import convert, parse_numbers, parse_ranges
from perfpy.errors import PerfError
from perfpy.tools.trace.call_sums import Totals
from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import (
    ENTER,
    EXIT,
    NO_CALL,
    NO_ROW,
    UNNUMBERED,
    CallColumns,
    CallEvents,
    Pairing,
    call_events,
    call_fields,
    call_windows,
)
from perfpy.tools.trace.lines import (
    NO_LINES,
    EventSums,
    JoinedColumns,
    LineOptions,
    OtherEvents,
    StackLimits,
    StackTexts,
    TraceLines,
    fault_name,
)
from perfpy.tools.trace.options import TraceOutput, parse_selection
from perfpy.tools.trace.summary_tables import CallTables, JsonCalls, SlowestCalls, SummaryOptions, json_summary, percentile_lines
from perfpy.views.pieces import Flat
from perfpy.workers import ForkedWorkers, jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.delivery import Span
    from perfpy.tools.trace.calls import OpenCalls, PairedEvents, ThreadNames
    from perfpy.tools.trace.lane_page import LaneLines
    from perfpy.tools.trace.options import TraceCommandOptions
    from perfpy.views.recorded import Recorded


_MOST_FRAMES: Final = 127


def line_options(options: TraceCommandOptions) -> LineOptions:
    """Return the form of the lines."""
    if options.slowest and (options.json or options.min_stack or options.max_events):
        fail("--slowest prints text at the end; drop --json, --min-stack or --max-events")
    if options.html and (options.json or options.slowest or options.max_events or options.by or options.min_stack):
        fail("--html draws the calls instead of printing them; drop --json, --slowest, --max-events, --min-stack or --by")
    lanes = None
    if options.html:
        from perfpy.views.page.lanes import Lanes  # rarely needed

        lanes = Lanes()
    return LineOptions(
        absolute_time=options.time,
        shows_comm=options.comm,
        shows_cpu=options.show_cpu,
        failures_only=options.failure,
        longer_than=options.duration,
        as_json=options.json,
        slowest=options.slowest,
        has_least_depth=options.min_stack > 0,
        lanes=lanes,
    )


def stack_options(options: TraceCommandOptions) -> StackLimits:
    """Return which callchains to print."""
    if options.min_stack > (options.max_stack or _MOST_FRAMES):
        fail("--min-stack exceeds --max-stack: no call can be printed")
    return StackLimits(options.max_stack or _MOST_FRAMES, options.min_stack)


def output_path(options: TraceCommandOptions) -> str:
    """Return where to write: standard error, or standard output for JSON."""
    return options.output or ("-" if options.json else "")


def wants_lines(options: TraceCommandOptions) -> bool:
    """Whether to print calls, not only tables."""
    return bool(options.html) or options.with_summary or not wants_summary(options.replace(sched=False))


def wants_summary(options: TraceCommandOptions) -> bool:
    """Whether to print tables."""
    return bool(
        options.percentiles
        or options.by
        or options.sched
        or options.histogram
        or options.summary
        or options.with_summary
        or options.errno_summary
        or options.summary_mode
        or options.max_summary
    )


def new_totals(options: TraceCommandOptions) -> Totals | None:
    """Return where to add up the calls; None without tables."""
    has_buckets = bool(options.percentiles or options.histogram or options.json or options.html)
    return Totals(has_buckets=has_buckets) if wants_summary(options) or options.html else None


def write_page(
    options: TraceCommandOptions, form: LineOptions, totals: Totals, name_of: Callable[[int], str], title: str, notes: Sequence[str] = ()
) -> None:
    """Write the page of --html.

    Args:
        options: of the command.
        form: the form of the lines, with the collected calls.
        totals: the sums.
        name_of: returns the name of a call.
        title: what was traced.
        notes: on losses.
    """
    from perfpy.cli.output.output_files import write_bytes  # rarely needed
    from perfpy.tools.trace.lane_page import lane_page

    assert form.lanes is not None
    write_bytes(options.html, lane_page(form.lanes, totals, name_of, title, notes).encode(errors="replace"), quiet=False)


def summary_of(totals: Totals, options: TraceCommandOptions, name_of: Callable[[int], str], comm_of: Callable[[int], str]) -> Iterable[str]:
    """Return the lines of the tables."""
    if options.json:
        return json_summary(totals, name_of, comm_of, of_all=options.summary_mode == "total")
    if options.percentiles or options.histogram:
        return percentile_lines(totals, name_of, options.max_summary, histograms=options.histogram)
    form = SummaryOptions(options.summary_mode == "total", options.errno_summary, options.max_summary)
    return CallTables(totals, form, name_of, comm_of).lines()


def replay(options: TraceCommandOptions) -> int:
    """Print the calls of a recording; return the exit status."""
    if options.by:
        fail("--by: recordings (-i) have neither file names nor addresses; trace the program, or its processes (-p)")
    if options.faults or options.sched or options.kernel_chains:
        fail("-F, --sched and --kernel-syscall-graph choose what to trace; they have no effect on a recording (-i)")
    with (
        open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording,
        TraceOutput(output_path(options)) as output,
    ):
        form = line_options(options) if wants_lines(options) else None
        # Tables need names at the end only, so that the recording is read once.
        timeline = None if form is None else recording.make_timeline(keep_exited=wants_summary(options))
        totals = new_totals(options)
        call_filter = _filter(options, str(recording.header.get("arch") or "x86_64"))
        switches = SwitchOptions(options.switch_on, options.switch_off, options.show_on_off_events)
        calls = RecordedCalls(recording, timeline, form, call_filter, totals=totals, stacks=stack_options(options), switches=switches)
        left = options.max_events or None
        for lines in calls.lines(divides=not options.max_events):
            output.write_lines(lines, left)
            if left is not None:
                left -= min(left, lines.size)
            if left == 0:
                break
        output.write_lines(calls.rest())
        if totals is not None and wants_summary(options):
            timeline = timeline or recording.make_timeline(keep_exited=True)
            output.write(summary_of(totals, options, calls.calls.name, timeline.last_comm))
        if form is not None and totals is not None and options.html:
            write_page(options, form, totals, calls.calls.name, f"{recording.path}: {recording.title}")
    return 0


def _filter(options: TraceCommandOptions, machine: str) -> CallFilter:
    if options.user:
        fail("-u: recordings do not have users; use -p or -t")
    selection = parse_selection(options.event, machine)
    return CallFilter(
        selection.numbers(machine),
        convert("-p", options.pid, parse_numbers),
        convert("-t", options.tid, parse_numbers),
        convert("-C", options.cpu, parse_ranges),
    )


#: the number of samples for which another process is worthwhile
_EVENTS_EACH: Final = 100_000


def jobs_of(parts: Sequence[Span], samples: int) -> int:
    """Return the worthwhile number of processes for the parts of a recording."""
    return min(jobs_for(0, samples, _EVENTS_EACH), max(len(parts), 1))


class PartCalls(NamedTuple):
    """The result for one span.

    Attributes:
        events: the events that depend on earlier spans: the first return of each thread, if its entry is unknown, and the first entry.
        texts: the lines, divided where lines of `events` may have to be added: one more than `events` has rows.
        totals: of the returns that do not depend on earlier spans; None without tables.
        open_calls: the entries that have not returned.
        warnings: about the file.
    """

    events: CallEvents
    texts: list[bytes]
    totals: Totals | None
    open_calls: OpenCalls
    warnings: list[str]


class DividedCalls:
    """Pairs and prints the parts of a recording without other events.

    A process does not know what happened before its span. So it leaves out what depends on that: the first return of each thread, if its
    entry is before the span, and the line of the last call before the span, if it is interrupted. These lines belong between the others,
    and this process, which follows the state from span to span, fills them in.

    Args:
        pairing: of the stream before the parts; the pairing of this process from then on.
        new_pairing: returns a pairing that knows nothing.
        lines: prints calls; None without lines.
        totals: the totals; None without tables.
    """

    def __init__(self, pairing: Pairing, new_pairing: Callable[[], Pairing], lines: TraceLines | None, totals: Totals | None) -> None:
        self._pairing = pairing
        self._new_pairing = new_pairing
        self._lines = lines
        self._totals = totals

    def batches(self, parts: Sequence[Span], read: Callable[[Span], CallEvents | None], warnings: list[str], jobs: int) -> Iterator[Flat]:
        """Yield the lines of each span. read: returns its events; warnings: about the file, to which those of other processes are added."""

        def work(span: Span) -> PartCalls | None:
            before = len(warnings)
            events = read(span)
            return None if events is None or not events.size else self._part(events, warnings[before:])

        with ForkedWorkers(parts, work, jobs) as workers:
            for part in workers.results():
                if part is not None:
                    warnings += [text for text in dict.fromkeys(part.warnings) if text not in warnings]
                    yield self._joined(part)

    def _part(self, batch: CallEvents, warnings: list[str]) -> PartCalls:
        """Return the calls of a span, in another process."""
        pairing = self._new_pairing()
        paired = pairing.pair(batch)
        open_calls = pairing.open_calls(batch)
        heads = _head_rows(batch, paired.entry)
        returns = heads[batch.kind[heads] == EXIT]
        totals = None
        if self._totals is not None:
            totals = self._totals.empty()
            exits = batch.kind == EXIT
            exits[returns] = False
            totals.add(paired, rows_where(exits))
        texts = [b""] * (len(heads) + 1)
        if self._lines is not None:
            texts = self._texts(paired, heads, returns)
        return PartCalls(batch.take(heads), texts, totals, open_calls, warnings)

    def _texts(self, paired: PairedEvents, heads: NDArray[np.int64], returns: NDArray[np.int64]) -> list[bytes]:
        """Return the lines, divided at the places of the heads."""
        assert self._lines is not None
        kind = paired.events.kind.copy()
        kind[returns] = UNNUMBERED
        position, lines = self._lines.placed_lines(paired._replace(events=paired.events._replace(kind=kind)))
        marks = 2 * heads - (paired.events.kind[heads] != EXIT)
        borders = [0, *(lines.stride * np.searchsorted(position, marks)).tolist(), len(lines.parts)]
        return [b"".join(lines.parts[begin:end]) for begin, end in pairwise(borders)]

    def _joined(self, part: PartCalls) -> Flat:
        """Return all lines of a span: its own, and the lines that depend on earlier spans."""
        events = part.events
        number = np.where(events.kind == ENTER, NO_CALL, events.number)  # the entry's own line, if it has one, is among the others
        head = self._pairing.pair(events._replace(number=number))
        texts = part.texts
        if self._lines is not None and events.size:
            position, lines = self._lines.placed_lines(head)
            rows = (position + 1) // 2 - head.carried
            added = dict(zip(rows.tolist(), lines.lines(), strict=True))
            texts = [text for row, text in enumerate(part.texts) for text in (text, added.get(row, b""))]
        if self._totals is not None and part.totals is not None:
            self._totals.merge(part.totals, head)
        self._pairing.follow(part.open_calls)
        return Flat(texts, len(texts))


def _head_rows(batch: CallEvents, entry: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows that depend on earlier events: the first returns of threads without an entry, and the first entry."""
    is_unpaired = (batch.kind == EXIT) & (entry == NO_ROW)
    unpaired = rows_where(is_unpaired)
    heads: list[int] = []
    if len(unpaired):
        calls = rows_where((batch.kind == ENTER) | (batch.kind == EXIT))
        first = calls[first_of_each(batch.tid[calls])]
        heads += first[is_unpaired[first]].tolist()
    is_entry = batch.kind == ENTER
    if is_entry.any():
        heads.append(int(is_entry.argmax()))
    return np.array(sorted(heads), np.int64)


def reader(batch_of: Callable[[Span], Batch | None], select: Callable[[CallEvents], CallEvents]) -> Callable[[Span], CallEvents | None]:
    """Return a function that reads the calls of a span. select: the command's filter."""

    def read(span: Span) -> CallEvents | None:
        batch = batch_of(span)
        return None if batch is None else select(call_events(batch.columns, batch.key))

    return read


class SwitchOptions(NamedTuple):
    """Which events switch.

    Attributes:
        on, off: their names; "" for none.
        is_shown: whether their samples are printed.
        added: names of events that are sampled only to switch.
    """

    on: str = ""
    off: str = ""
    is_shown: bool = False
    added: tuple[str, ...] = ()


NO_SWITCHES: Final = SwitchOptions()


class SwitchedSamples:
    """The samples between two events, batch after batch. Raises UsageError if there is no event of a name.

    Args:
        options: which events switch.
        events: of the source.
    """

    def __init__(self, options: SwitchOptions, events: Sequence[FileEvent]) -> None:
        self._switch = EventSwitch.between(options.on, options.off, events, show=options.is_shown)
        self._hidden = [] if options.is_shown else [event.index for event in events if event.name in options.added]

    def mask(self, event: NDArray[np.int32]) -> NDArray[np.bool_] | None:
        """Return which samples of a batch count; None for all. event: the indexes of their events."""
        if self._switch is None:
            return None
        mask = self._switch.mask(event)
        return mask & ~np.isin(event, self._hidden) if self._hidden else mask


_ENDING = ("exit", "exit_group")
_FIELDS = ("pid", "tid", "time", "cpu")


class CallFilter(NamedTuple):
    """Which calls count; None for all.

    Attributes:
        numbers: of calls.
        pids, tids, cpus: of processes, threads, CPUs.
        excluded: processes that do not count.
    """

    numbers: frozenset[int] | None = None
    pids: Collection[int] | None = None
    tids: Collection[int] | None = None
    cpus: Collection[int] | None = None
    excluded: frozenset[int] = frozenset()

    def apply(self, events: CallEvents) -> CallEvents:
        """Return the events that pass."""
        if not self.excluded and all(one is None for one in self[:4]):
            return events
        chosen = np.ones(events.size, np.bool_)
        for wanted, column in ((self.pids, events.pid), (self.tids, events.tid), (self.cpus, events.cpu)):
            if wanted is not None:
                chosen &= np.isin(column, sorted(wanted))
        if self.excluded:
            chosen &= ~np.isin(events.pid, sorted(self.excluded))
        if self.numbers is not None:
            is_call = (events.kind == ENTER) | (events.kind == EXIT)
            chosen &= ~is_call | np.isin(events.number, sorted(self.numbers))
        return events.take(chosen)


def ending_numbers(machine: str) -> NDArray[np.int64]:
    """Return the numbers of the calls that do not return."""
    known = numbers_by_name(machine)
    return np.array([known[name] for name in _ENDING if name in known], np.int64)


def make_lines(
    options: LineOptions, calls: CallTexts, names: ThreadNames, ending: NDArray[np.int64], others: OtherEvents, stacks: StackTexts
) -> TraceLines | JsonCalls | SlowestCalls | LaneLines:
    """Return what makes the lines of a stream of events, or collects its calls for a picture."""
    if options.lanes is not None:
        from perfpy.tools.trace.lane_page import LaneLines  # rarely needed

        return LaneLines(options.lanes, options, calls, names)
    if options.as_json:
        return JsonCalls(options, calls, names)
    lines = TraceLines(options, calls, names, ending, others, stacks)
    return SlowestCalls(lines, options) if options.slowest else lines


class RecordedCalls:
    """The calls of a recording.

    Args:
        recording: the recording.
        names: the comms of its threads; None without lines.
        options: the form of the lines; None without lines.
        call_filter: which calls count.
        totals: where to add the calls up; None not to.
        stacks: which callchains to print.
        switches: between which events calls count.

    Attributes:
        machine: the recorded machine, as uname(2) has it.
    """

    def __init__(
        self,
        recording: Recorded,
        names: ThreadNames | None,
        options: LineOptions | None,
        call_filter: CallFilter,
        *,
        totals: Totals | None = None,
        stacks: StackLimits | None = None,
        switches: SwitchOptions = NO_SWITCHES,
    ) -> None:
        self._recording = recording
        self.machine = str(recording.header.get("arch") or "x86_64")
        self._filter = call_filter
        self._has_switches = switches != NO_SWITCHES
        self._switched = SwitchedSamples(switches, recording.events)
        self._fields = call_fields(recording.events, recording.data.tracing)
        if not self._fields:
            raise PerfError(f"{recording.path}: no tracepoints of system calls; record them with perfpy trace record")
        self.calls = CallTexts(self.machine, is_recorded=True)
        ending = ending_numbers(self.machine)
        self._new_pairing = partial(Pairing, ending, wants_interruptions=options is not None and options.has_interruptions)
        self._pairing = self._new_pairing()
        self._totals = totals
        has_faults = any(fault_name(event, is_recorded=True) for event in recording.events)
        self._fault_sums: EventSums | None = None
        if totals is not None and has_faults and self._filter == CallFilter():
            self._fault_sums = EventSums(recording.events, None, totals, is_recorded=True)
        self._stacks = StackTexts(recording.data, stacks if options is not None else None, has_faults=has_faults)
        self._others = self._lines = None
        if options is not None and names is not None:
            self._others = OtherEvents(recording.events, recording.data.tracing, names, self._stacks, is_recorded=True)
            self._lines = make_lines(options, self.calls, names, ending, self._others, self._stacks)

    def rest(self) -> Flat:
        """Return the lines that were kept for the end."""
        return NO_LINES if self._lines is None else self._lines.rest()

    def lines(self, *, divides: bool = True) -> Iterator[Flat]:
        """Yield the lines of each batch. divides: other processes may make them, ahead of this one."""
        if self._lines is None and not self._has_switches and len(self._fields) == len(self._recording.events):
            self._add_windows()
            return
        parts = self._recording.data.records.delivery_spans if divides and self._is_divisible else []
        jobs = jobs_of(parts, self._recording.data.sample_counts.total()) if parts else 1
        yield from self._divided_lines(parts, jobs) if jobs > 1 else (lines for _, lines in self.batches())

    def _add_windows(self) -> None:
        """Add up all calls in one pass over a recording that has no other events."""
        columns = ["tid", *(["pid"] if self._filter.pids is not None else ()), *(["cpu"] if self._filter.cpus is not None else ())]
        for events in call_windows(self._recording.data, self._fields, columns):
            paired = self._pairing.pair(self._filter.apply(events))
            if self._totals is not None:
                self._totals.add(paired)

    @cached_property
    def _has_calls_only(self) -> bool:
        """Whether all samples are those of system calls."""
        return not self._recording.data.sample_counts.keys() - self._fields.keys()

    @property
    def _is_divisible(self) -> bool:
        """Whether spans of the recording can be printed apart: it has calls only, and the lines are text."""
        is_plain = self._has_calls_only and not self._stacks.fields and not self._has_switches
        return is_plain and (self._lines is None or isinstance(self._lines, TraceLines))

    def _divided_lines(self, parts: list[Span], jobs: int) -> Iterator[Flat]:
        """Yield the lines of parts. Several processes make them, but this one those of the first span with events."""
        more = CallColumns(self._fields, self._recording.data.endian, has_arguments=self._lines is not None)
        read = reader(lambda span: self._recording.batch_of(span, _FIELDS, more), self._filter.apply)
        lines = self._lines if isinstance(self._lines, TraceLines) else None
        for index, span in enumerate(parts):
            events = read(span)
            if events is None or not events.size:
                continue
            paired = self._pairing.pair(events)
            if self._totals is not None:
                self._totals.add(paired)
            if lines is not None:
                yield lines.lines(paired)
            divided = DividedCalls(self._pairing, self._new_pairing, lines, self._totals)
            yield from divided.batches(parts[index + 1 :], read, self._recording.data.warnings, jobs)
            return

    def batches(self) -> Iterator[tuple[PairedEvents, Flat]]:
        """Yield the events of each batch and their lines."""
        fields = _FIELDS if self._lines is None or self._has_calls_only else (*_FIELDS, "raw")
        more: FurtherColumns = CallColumns(self._fields, self._recording.data.endian, has_arguments=self._lines is not None)
        if self._lines is not None and self._stacks.fields:
            from perfpy.symbols.files.debug_files import Inline, SymbolOptions  # few recordings have callchains

            unwinding = self._stacks.begin(self._recording.symbolizer(SymbolOptions(inline=Inline.ALL_AS_PERF)))
            more = JoinedColumns([more, unwinding]) if unwinding is not None else more
            fields = (*fields, *self._stacks.fields)
        for batch in self._recording.batches(fields, more):
            self._stacks.begin_batch(batch)
            events = call_events(batch.columns, batch.key)
            mask = self._switched.mask(batch.event)
            if self._fault_sums is not None:
                self._fault_sums.add(batch if mask is None else batch.take(mask))
            paired = self._pairing.pair(self._filter.apply(events if mask is None else events.take(mask)))
            if self._totals is not None:
                self._totals.add(paired)
            if self._others is not None:
                self._others.begin_batch(batch)
            yield paired, NO_LINES if self._lines is None else self._lines.lines(paired)
