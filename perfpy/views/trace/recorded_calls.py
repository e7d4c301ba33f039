"""The system calls of a recording: lines and sums, batch after batch."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.system_calls.numbers import numbers_by_name
from perfpy.errors import PerfError
from perfpy.tracing.events import ENTER, EXIT, CallColumns, CallEvents, call_events, call_fields
from perfpy.tracing.pairing import Pairing
from perfpy.views.trace.call_text import CallTexts
from perfpy.views.trace.divided_calls import DividedCalls, jobs_of, reader
from perfpy.views.trace.lines import NO_LINES, LineOptions, TraceLines
from perfpy.views.trace.other_events import OtherEvents, fault_name
from perfpy.views.trace.stack_text import JoinedColumns, StackLimits, StackTexts
from perfpy.views.trace.switched import NO_SWITCHES, SwitchedSamples

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.perfdata.records.delivery.spans import Span
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames
    from perfpy.tracing.totals import Totals
    from perfpy.views.recorded import Recorded
    from perfpy.views.script.pieces import Flat
    from perfpy.views.trace.json_lines import JsonCalls
    from perfpy.views.trace.lane_lines import LaneLines
    from perfpy.views.trace.slowest import SlowestCalls
    from perfpy.views.trace.switched import SwitchOptions

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
        from perfpy.views.trace.lane_lines import LaneLines  # rarely needed

        return LaneLines(options.lanes, options, calls, names)
    if options.as_json:
        from perfpy.views.trace.json_lines import JsonCalls  # rarely needed

        return JsonCalls(options, calls, names)
    lines = TraceLines(options, calls, names, ending, others, stacks)
    if not options.slowest:
        return lines
    from perfpy.views.trace.slowest import SlowestCalls  # rarely needed

    return SlowestCalls(lines, options)


class RecordedCalls:
    """The calls of a recording.

    Args:
        recording: the recording.
        names: the comms of its threads.
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
        names: ThreadNames,
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
        has_faults = any(map(fault_name, recording.events))
        self._stacks = StackTexts(recording.data, stacks if options is not None else None, has_faults=has_faults)
        self._others = OtherEvents(recording.events, recording.data.tracing, names, self._stacks)
        self._lines = None if options is None else make_lines(options, self.calls, names, ending, self._others, self._stacks)

    def rest(self) -> Flat:
        """Return the lines that were kept for the end."""
        return NO_LINES if self._lines is None else self._lines.rest()

    def lines(self, *, divides: bool = True) -> Iterator[Flat]:
        """Yield the lines of each batch. divides: other processes may make them, ahead of this one."""
        parts = self._recording.data.records.delivery_spans if divides and self._is_divisible else []
        jobs = jobs_of(parts, self._recording.data.sample_counts.total()) if parts else 1
        yield from self._divided_lines(parts, jobs) if jobs > 1 else (lines for _, lines in self.batches())

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
            paired = self._pairing.pair(self._filter.apply(events if mask is None else events.take(mask)))
            if self._totals is not None:
                self._totals.add(paired)
            self._others.begin_batch(batch)
            yield paired, NO_LINES if self._lines is None else self._lines.lines(paired)
