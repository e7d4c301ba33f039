"""The system calls of running tasks: the events of the ring buffers as pairs of entry and return, with lines and sums."""

from __future__ import annotations

import errno
import fnmatch
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.capture.counter import Counter
from perfpy.capture.record_options import BufferOptions, RecordOptions, SamplingOptions, SideBandOptions, parse_callchain, parse_pages
from perfpy.capture.session.inputs import Wakeups
from perfpy.capture.synthesis import Synthesis, id_layout
from perfpy.capture.targets import TargetOptions, Workload
from perfpy.cli.line.option_parsing import fail
from perfpy.errors import KernelRefusedError, RefusedOptionsError
from perfpy.events.grammar import names_probe
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.syscalls import may_measure_kernel, paranoid_level
from perfpy.kernel.sysfs import Tracefs
from perfpy.live.priority import HigherPriority
from perfpy.live.rings import LiveRings
from perfpy.live.window import LiveSymbols, LiveWindow
from perfpy.perfdata.event_format import Tracing, decode_tracing, parse_format
from perfpy.perfdata.records.delivery import RawRecords, SideBand
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.live_tasks import LiveTasks
from perfpy.tools.trace.call_strings import CallStrings, TracedProcesses, open_strings
from perfpy.tools.trace.call_sums import NamedTotals
from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import ENTER, CallColumns, FollowedComms, Pairing, call_events, call_fields
from perfpy.tools.trace.descriptors import Descriptors, DescriptorTable, OpenFile, descriptor_numbers
from perfpy.tools.trace.lines import NO_LINES, RUN_TIME, EventSums, JoinedColumns, OtherEvents, StackTexts, fault_name
from perfpy.tools.trace.options import TraceOutput, parse_selection
from perfpy.tools.trace.record_queue import DrainingThread, ReadRecords, RecordQueue
from perfpy.tools.trace.replay import (
    NO_SWITCHES,
    CallFilter,
    SwitchedSamples,
    SwitchOptions,
    ending_numbers,
    line_options,
    make_lines,
    new_totals,
    output_path,
    stack_options,
    summary_of,
    wants_lines,
    wants_summary,
    write_page,
)
from perfpy.tools.trace.summary_tables import named_json, named_lines
from perfpy.views.readable import command_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.capture.record_options import Callchain
    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.perfdata.records.delivery import OrderedChunk
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.trace.call_sums import Totals
    from perfpy.tools.trace.calls import CallEvents, PairedEvents
    from perfpy.tools.trace.descriptors import DescriptorNames
    from perfpy.tools.trace.lines import LineOptions, StackLimits
    from perfpy.tools.trace.options import Selection, TraceCommandOptions
    from perfpy.views.pieces import Flat

    Texts = dict[int, dict[int, str]]


_FIELDS: Final = ("pid", "tid", "time", "cpu")
_TASKS: Final = (RecordType.COMM, RecordType.FORK, RecordType.EXIT)
_RAW: Final = "raw_syscalls"
_FORK: Final = ("sched", "sched_process_fork")
_AT_ONCE: Final = 1 << 15  # events whose lines are in memory together
_JOINED: Final = 1 << 22  # bytes of records: those of about as many events


class LiveBatch(NamedTuple):
    """The events of an interval, and their lines."""

    paired: PairedEvents
    lines: Flat


def _comm_reader() -> Callable[[int], str]:
    """Return a function that reads the comm of a running thread, "" if it has ended."""
    procfs = ProcFs()

    def read_comm(tid: int) -> str:
        status = procfs.status(tid)
        return status.comm if status else ""

    return read_comm


class LiveCalls:
    """The calls of running tasks.

    Args:
        rings: the open events.
        options: the form of the lines; None without lines.
        call_filter: which calls count.
        tell: called with each line for the user.
        workload: the process of a program that has not started yet; 0 for none.
        wants_strings: read the strings of arguments.
        stacks: which callchains to print; None for none.
        totals: where to add the calls up; None not to.
        switches: between which events calls count.
        named: where to add the calls up by file or peer; None not to.
        unprinted: names of events whose samples are only added up.

    Attributes:
        machine: this machine, as uname(2) has it.
        comms: the names of threads.
    """

    def __init__(
        self,
        rings: LiveRings,
        options: LineOptions | None,
        call_filter: CallFilter,
        tell: Callable[[str], None],
        *,
        workload: int = 0,
        wants_strings: bool = True,
        stacks: StackLimits | None = None,
        totals: Totals | None = None,
        switches: SwitchOptions = NO_SWITCHES,
        named: NamedTotals | None = None,
        unprinted: Collection[str] = (),
    ) -> None:
        self._rings, self._filter, self.machine = rings, call_filter, os.uname().machine
        tracing = Tracing(decode_tracing(data)) if (data := rings.tracing_data()) else None
        events = rings.events(tracing)
        self._window = LiveWindow(events, rings.features, tracing, own=os.getpid())
        self._switched = SwitchedSamples(switches, events)
        self._fields = call_fields([event for event in events if event.name not in switches.added], tracing)
        self._columns = CallColumns(self._fields, self._window.endian)
        self._read_fields = _FIELDS if self._fields.keys() >= set(rings.sampled_events) else (*_FIELDS, "raw")
        self.comms = FollowedComms(_comm_reader())
        self.calls = CallTexts(self.machine)
        self._totals, self._lost = totals, 0
        ending = ending_numbers(self.machine)
        self._pairing = Pairing(ending)
        self._event_totals = EventSums(events, tracing, totals) if totals is not None else None
        self._unprinted = [event.index for event in events if event.name in unprinted]
        self._stacks = StackTexts(self._window, stacks, has_faults=any(map(fault_name, events)))
        self._code = LiveCode(rings, self._window) if options is not None and self._stacks.fields else None
        self._others = OtherEvents(events, tracing, self.comms, self._stacks)
        self._lines = None if options is None else make_lines(options, self.calls, self.comms, ending, self._others, self._stacks)
        self._named = named
        has_files = options is not None or named is not None
        wants_strings &= has_files and bool(self._fields)
        self._strings = self._open_strings(tracing, tell, workload) if wants_strings and tracing is not None else None
        self._files = self._follow_files(ending, workload, is_partial=bool(switches.on or switches.off)) if has_files else None
        self._queue, self._ended, self._reading, self._is_complete = RecordQueue(), list[int](), threading.Lock(), False

    def _follow_files(self, ending: NDArray[np.int64], workload: int, *, is_partial: bool) -> FollowedFiles:
        """Return what follows descriptors and strings, with the descriptors that a program starts with."""
        files = FollowedFiles(self.machine, self._strings, self._filter, ending, is_partial=is_partial)
        if workload:
            files.descriptors.table(workload)
        return files

    @property
    def lost(self) -> int:
        """The number of lost samples. A record reports them when there is room again; the counters have them in any case."""
        return max(self._lost, sum(lost for _, lost in self._rings.counters.lost()))

    def rest(self) -> Flat:
        """Return the lines that were kept for the end."""
        return NO_LINES if self._lines is None else self._lines.rest()

    def _open_strings(self, tracing: Tracing, tell: Callable[[str], None], workload: int) -> CallStrings | None:
        """Return the source of strings; if there is none, print the reason on a terminal."""
        ids = {point.name: number for number, point in tracing.tracepoints.items() if point.system == _RAW}
        if not {"sys_enter", "sys_exit"} <= set(ids):
            return None
        numbers = None if self._filter.numbers is None else self._filter.numbers | descriptor_numbers(self.machine)
        tracepoints = ids["sys_enter"], ids["sys_exit"]
        strings = open_strings(tracepoints, self.machine, Counter, self._processes(workload), numbers)
        if isinstance(strings, str):
            tell(f"note: file names are printed as addresses: {strings}")
            return None
        return strings

    def _processes(self, workload: int) -> TracedProcesses | None:
        """Return the traced processes; None for all."""
        target = self._rings.target
        if not workload and not target.has_tasks:
            return None
        procfs, tracefs = ProcFs(), Tracefs()
        pids = (workload,) if workload else {status.tgid for tid in target.tids if (status := procfs.status(tid))}
        if not self._rings.options.target.inherit:
            return TracedProcesses(tuple(pids), None)
        text = tracefs.format(*_FORK)
        child = parse_format(text, _FORK[0]).field("child_pid") if text else None
        number = tracefs.event_id(*_FORK)
        return TracedProcesses(tuple(pids), number, child.offset) if child is not None and number is not None else None

    @property
    def was_full(self) -> bool:
        """Whether there was no room for records that waited to be printed."""
        return self._queue.was_full

    def close(self) -> None:
        """Detach the BPF programs, and drop what waits."""
        with self._reading:
            self._is_complete = True
            if self._strings is not None:
                self._strings.close()
            self._queue.close()

    def read_rings(self, *, last: bool = False) -> float:
        """Empty the ring buffers, in any thread; return how full those of records were, from 0 to 1. last: nothing follows."""
        with self._reading:
            if self._is_complete or (self._queue.is_full and not last):
                return 0.0  # the kernel counts what it drops
            self._is_complete = last
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            records = self._rings.read()
            texts = self._strings.take() if self._strings is not None else b""  # those of all these records
            self._queue.append(ReadRecords(records, texts, 0 if last else now))
            return self._rings.fullness

    def batches(self) -> Iterator[LiveBatch]:
        """Yield what has been read until now, an interval or some short ones at a time.

        What read_rings() reads in the meantime waits for the next call, unless it is joined to the last interval.
        """
        end = self._queue.taken + len(self._queue)
        while self._queue.taken < end:
            data, texts, until = self._queue.pop_some(_JOINED)
            if self._strings is not None:
                self._strings.add(texts)
            ordered = self._window.begin(data, until)
            self._lost += self._window.counts.lost
            self._follow_tasks(ordered)
            more = self._further_columns(ordered)
            for batch in self._window.batches((*self._read_fields, *(self._stacks.fields if self._code is not None else ())), more):
                self._stacks.begin_batch(batch)
                mask = self._switched.mask(batch.event)
                if self._event_totals is not None:
                    self._event_totals.add(batch if mask is None else batch.take(mask))
                events = call_events(batch.columns, batch.key)
                if self._unprinted:
                    events = events.take(~np.isin(batch.event, self._unprinted))
                self._others.begin_batch(batch)
                for begin in range(0, events.size, _AT_ONCE):
                    part = events.take(slice(begin, begin + _AT_ONCE))
                    paired = self._pairing.pair(self._filter.apply(part if mask is None else part.take(mask[part.row])))
                    if self._totals is not None:
                        self._totals.add(paired)
                    yield LiveBatch(paired, self._printed(part, paired))
            if self._ended:
                self._pairing.forget(self._ended)
                if self._files is not None:
                    self._files.forget(self._ended)
                self._ended = []

    def _further_columns(self, ordered: OrderedChunk) -> FurtherColumns:
        """Return what computes the columns of calls, and unwinds stacks with the mappings of an interval."""
        if self._code is None:
            return self._columns
        unwinding = self._stacks.begin(self._code.follow(ordered))
        return self._columns if unwinding is None else JoinedColumns([self._columns, unwinding])

    def learn(self) -> None:
        """Learn the mappings of running tasks, if addresses become symbols. Another thread reads the ring buffers meanwhile."""
        if self._code is not None:
            self._code.learn()

    def _printed(self, events: CallEvents, paired: PairedEvents) -> Flat:
        if self._files is None:
            return NO_LINES
        self.calls.strings, self.calls.descriptors = self._files.follow(events, paired)
        if self._named is not None:
            self._named.add(paired, self.calls.strings, self.calls.descriptors)
        return NO_LINES if self._lines is None else self._lines.lines(paired)

    def _follow_tasks(self, ordered: OrderedChunk) -> None:
        """Follow comms, forks and exits of an interval."""
        self.comms.begin_batch()
        chunk = ordered.chunk
        chosen = np.isin(chunk.types[chunk.others], _TASKS)
        if not chosen.any():
            return
        band = SideBand(
            RawRecords.of_chunk(ordered, chosen).in_order(), lambda _types: iter(()), self._window.table, lambda _text: None, None
        )
        for side in band:
            record, name = side.record, type(side.record).__name__
            if name == "Comm":
                self.comms.name(record.tid, record.comm, side.key)
            elif name == "Fork":
                self.comms.fork(record.ptid, record.tid, side.key)
                if record.pid != record.ppid and self._files is not None:
                    self._files.fork(side.key, record.ppid, record.pid)
            else:
                self.comms.end(record.tid, side.key)
                self._ended.append(record.tid)


class LiveCode:
    """The mappings and symbols of running tasks.

    Args:
        rings: the open events.
        window: the samples.
    """

    def __init__(self, rings: LiveRings, window: LiveWindow) -> None:
        self._rings = rings
        self._window = window
        attrs = [event.attr for event in window.events]
        has_data_maps = any(attr.mmap_data for attr in attrs)
        self._synthesis = Synthesis(ProcFs(), id_layout(attrs[0].sample_type), data_mmaps=has_data_maps, namespaces=False)
        self._tasks = LiveTasks(window.table)
        self._symbols = LiveSymbols(self._tasks, SymbolOptions(inline=Inline.ALL_AS_PERF))

    def learn(self) -> None:
        """Read the mappings of the kernel and of the target's tasks."""
        if data := b"".join(self._records()):
            self._tasks.add(self._window.begin(data))

    def _records(self) -> Iterable[bytes]:
        yield from self._synthesis.kernel()
        target = self._rings.target
        yield from self._synthesis.threads(target.tids) if target.has_tasks else self._synthesis.processes()

    def follow(self, ordered: OrderedChunk) -> Symbolizer:
        """Take the side-band of an interval; return the symbols for its samples."""
        self._tasks.add(ordered)
        symbolizer = self._symbols.of_window(self._window.pids)[1]
        first, _ = self._window.sample_times
        if first:
            self._tasks.forget(first)
        return symbolizer


# The files of descriptors and the strings of calls, also by calls that are not printed.


class FollowedFiles:
    """Follows the calls that change descriptors.

    Args:
        machine: as uname(2) has it.
        strings: the source of strings; None for none.
        call_filter: which calls are printed.
        ending: numbers of calls that do not return.
        is_partial: whether calls are left out for other reasons than the filter.
    """

    def __init__(
        self, machine: str, strings: CallStrings | None, call_filter: CallFilter, ending: NDArray[np.int64], *, is_partial: bool = False
    ) -> None:
        self._strings = strings
        self.descriptors = Descriptors(machine, open_files, descriptor_name)
        self._filter = call_filter
        self._pairing: Pairing | None = None
        if call_filter.numbers is not None:
            self._filter = call_filter._replace(numbers=call_filter.numbers | self.descriptors.numbers)
        if call_filter.numbers is not None or is_partial:
            self._pairing = Pairing(ending, wants_interruptions=False)
        self._open_texts: dict[tuple[int, int], dict[int, str]] = {}
        self._forks: list[tuple[int, int, int]] = []

    def fork(self, key: int, parent: int, child: int) -> None:
        """Note a new process; key: the delivery key of its record."""
        self._forks.append((key, parent, child))

    def forget(self, tids: Iterable[int]) -> None:
        """Drop what belongs to tasks that ended."""
        self.descriptors.forget(tids)
        if self._pairing is not None:
            self._pairing.forget(tids)

    def follow(self, events: CallEvents, printed: PairedEvents) -> tuple[Texts, DescriptorNames]:
        """Return row of a printed entry -> index of the argument -> its text, and the names of descriptors at printed rows.

        Args:
            events: all events of the batch.
            printed: the pairs of those that are printed.
        """
        paired = printed if self._pairing is None else self._pairing.pair(self._filter.apply(events))
        texts = self._texts(paired)
        forks, self._forks = self._forks, []
        self.descriptors.follow(paired, texts, forks)
        if paired is not printed:
            texts = _texts_by_key(texts, paired.events.key, printed.events)
        return texts, self.descriptors.names_at(printed.events)

    def _texts(self, paired: PairedEvents) -> Texts:
        """Return the texts of a batch; keep those of calls that have not returned."""
        if self._strings is None:
            return {}
        events = paired.events
        texts = self._strings.texts_of(events)
        for row in range(paired.carried):
            kept = self._open_texts.get((int(events.tid[row]), int(events.time[row])))
            if kept is not None:
                texts[row] = {**kept, **texts.get(row, {})}
        self._open_texts = {
            (int(events.tid[row]), int(events.time[row])): of_row for row, of_row in texts.items() if row in paired.open_rows
        }
        return texts


def _texts_by_key(texts: Texts, keys: NDArray[np.uint64], events: CallEvents) -> Texts:
    """Return the texts by the rows of other events; keys: the delivery keys of the present rows."""
    if not texts:
        return {}
    of_key = dict(zip(keys[list(texts)].tolist(), texts.values(), strict=True))
    rows = rows_where((events.kind == ENTER) & np.isin(events.key, np.array(list(of_key), np.uint64)))
    return {row: of_key[key] for row, key in zip(rows.tolist(), events.key[rows].tolist(), strict=True)}


# The descriptors and the current folder that a process has now, from /proc/PID/fd, fdinfo and cwd. Their texts are data, not paths.
_MOST_FILES: Final = 4096  # of one process
_CLOSE_ON_EXEC: Final = 0o2000000  # O_CLOEXEC in fdinfo


def open_files(pid: int) -> DescriptorTable | None:
    """Return the table of a process; None if it has ended or belongs to another user."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = sorted(int(name) for name in os.listdir(folder))[:_MOST_FILES]
    except (OSError, ValueError):
        return None
    files = {}
    for number in numbers:
        try:
            name = os.readlink(f"{folder}/{number}")
        except OSError:  # closed in the meantime
            continue
        files[number] = OpenFile(name, _closes_on_exec(pid, number))
    try:
        return DescriptorTable(files, os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return DescriptorTable(files)


def descriptor_name(pid: int, number: int) -> str:
    """Return the name of a descriptor that a process has now, "" if it is closed."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return ""


def _closes_on_exec(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/fdinfo/{number}", "rb", buffering=0) as file:
            head = file.read(128)
    except OSError:
        return False
    _, _, rest = head.partition(b"flags:\t")
    digits = rest.partition(b"\n")[0]
    return digits.isdigit() and bool(int(digits, 8) & _CLOSE_ON_EXEC)


# One run of `perfpy trace` without a recording.

_FAULTS: Final = {"maj": ("major-faults",), "min": ("minor-faults",), "all": ("major-faults", "minor-faults")}
_RAW_CALLS: Final = ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit")
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_REMEDY: Final = "run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1"
_KILLED: Final = 128  # plus the signal's number: the exit status
_LONGEST_END: Final = 1.0  # seconds
_INTERVAL: Final = 0.1  # seconds between two readings of the ring buffers


class LiveTrace:
    """One run of the command."""

    def __init__(self, options: TraceCommandOptions) -> None:
        self._options = options
        machine = os.uname().machine
        self._selection = parse_selection(options.event, machine)
        is_usual = not options.faults or any(options.event)
        self._has_calls = (is_usual if options.syscalls is None else options.syscalls) and self._selection.has_calls
        self._numbers = self._selection.numbers(machine)
        if options.by and (options.percentiles or options.histogram or options.sched or options.errno_summary or options.summary_mode):
            fail("--by prints its own table; drop --percentiles, --histogram, --sched, --errno-summary or --summary-mode")
        self._totals = None if options.by else new_totals(options)
        self._named = NamedTotals(options.by, machine) if options.by else None
        self._form: LineOptions | None = None
        self._ends = False  #: a signal has arrived
        self._limit: Workload | None = None  #: the command that is not traced, whose end ends the trace
        self._left: int | None = options.max_events or None

    def run(self) -> int:
        """Print calls until the end; return the exit status."""
        options = self._options
        if (self._has_calls or options.sched) and not may_measure_kernel():
            level = f"kernel.perf_event_paranoid is {paranoid_level()}"
            raise KernelRefusedError(
                "perf_event_open", errno.EACCES, event=_RAW_CALLS[0], cause=f"{level}: users may not measure the kernel", remedy=_REMEDY
            )
        with ExitStack() as stack:
            signals = stack.enter_context(Wakeups(_STOPPING))
            selection, switches = self._resolve(stack)
            workload = stack.enter_context(Workload(options.workload)) if options.workload else None
            events, filters = self._events(selection)
            record_options = self._record_options()
            is_target = workload is not None and not record_options.target.is_given  # otherwise its run is the duration of the trace
            self._limit, pid = None if is_target else workload, workload.pid if workload and is_target else 0
            stack.enter_context(HigherPriority(_NICER))  # the workload has its own priority by now
            rings = LiveRings(
                *([*events, *switches.added], filters, record_options, _teller()),
                workload=pid,
                ring_size=_RING_SIZE,
                offline_status=RefusedOptionsError.exit_code,
            )
            stack.callback(rings.close)
            self._form = form = line_options(options)._replace(has_calls=self._has_calls) if wants_lines(options) else None
            calls = LiveCalls(
                *(rings, form, CallFilter(self._numbers, excluded=self._excluded()), _tell),
                workload=pid,
                wants_strings=options.strings,
                stacks=stack_options(options)._replace(has_kernel=options.kernel_chains) if self._callchain() else None,
                totals=self._totals,
                switches=switches,
                named=self._named,
                unprinted=() if RUN_TIME in self._selection.events else (RUN_TIME,),
            )
            stack.callback(calls.close)
            output = stack.enter_context(TraceOutput(output_path(options)))
            draining = stack.enter_context(DrainingThread(calls.read_rings))
            if not is_target:
                rings.counters.enable()
            if workload is not None:
                workload.start()
            draining.resume()
            calls.learn()
            return self._loop(rings, calls, output, signals, draining)

    def _resolve(self, stack: ExitStack) -> tuple[Selection, SwitchOptions]:
        """Return the selection and the switches with the names of events; add the probes among them until the stack ends."""
        options, own = self._options, self._selection.events
        switching = [text for text in (options.switch_on, options.switch_off) if text]
        added = [text for text in dict.fromkeys(switching) if not any(fnmatch.fnmatchcase(text, event) for event in own)]
        texts = dict(zip((*own, *added), stack.enter_context(_probes([*own, *added])), strict=True))
        on, off = (texts.get(text, text) for text in (options.switch_on, options.switch_off))
        switches = SwitchOptions(on, off, options.show_on_off_events, tuple(texts[text] for text in added))
        return self._selection._replace(events=tuple(texts[text] for text in own)), switches

    def _filters(self, events: int) -> list[tuple[int, str]]:
        """Return the texts of --filter, with the number of events before each. events: the number of those before the ones of -e."""
        filters, texts = [], []
        for occurrence in self._options.in_order("event", "filter"):
            if occurrence.name == "event":
                texts.append(occurrence.value)
                continue
            count = len(parse_selection(texts, os.uname().machine).events)
            if not count:
                fail(f"--filter {occurrence.value}: no event before it; put -e with a tracepoint first")
            filters.append((events + count, occurrence.value))
        return filters

    def _excluded(self) -> frozenset[int]:
        try:
            return frozenset(int(word) for word in self._options.filter_pids.split(",") if word)
        except ValueError:
            fail(f"--filter-pids {self._options.filter_pids!r}: expected a list of numbers, for example 10,20")

    def _events(self, selection: Selection) -> tuple[list[str], list[tuple[int, str]]]:
        """Return the texts of the events, and the filters with the number of events before each."""
        options = self._options
        chain = options.call_graph is not None or options.max_stack or options.min_stack
        events = [_RAW_CALLS[0] + ("/call-graph=no/" if chain else ""), _RAW_CALLS[1]] if self._has_calls else []
        events += _FAULTS.get(options.faults, ())
        events += [RUN_TIME] if options.sched else []
        events += selection.events
        if not events:
            fail("-e names no system call and no event")
        text = self._call_filter(selection) if self._has_calls else ""
        filters = [(1, text), (2, text)] if text else []
        return events, filters + self._filters(len(events) - len(selection.events))

    def _call_filter(self, selection: Selection) -> str:
        """Return the kernel's filter of the calls; "" for none. As in perf, the calls of this thread do not fill the ring buffers."""
        options = self._options
        terms = []
        if self._numbers is not None and not selection.is_excluded:
            followed = descriptor_numbers(os.uname().machine) if wants_lines(options) or options.by else frozenset()
            numbers = self._numbers | followed
            if len(numbers) <= _MOST_IN_FILTER:
                terms.append(" || ".join(f"id == {number}" for number in sorted(numbers)))
        if not (options.workload or options.pid or options.tid) or options.all_cpus:
            terms.append(f"common_pid != {os.getpid()}")
        return terms[0] if len(terms) == 1 else " && ".join(f"({term})" for term in terms)

    def _callchain(self) -> Callchain | None:
        """Return how to record callchains; None without. A limit of frames asks for perf trace's default, copied stacks."""
        options = self._options
        if options.call_graph is None and not (options.max_stack or options.min_stack or options.kernel_chains):
            return None
        return parse_callchain(options.call_graph or "dwarf")._replace(addresses=False)

    def _record_options(self) -> RecordOptions:
        options = self._options
        return RecordOptions(
            sampling=SamplingOptions(
                each_occurrence=True,
                callchain=self._callchain(),
                user_callchains=not options.kernel_chains and not options.faults,
                data=bool(options.faults),
                data_mmap=bool(options.faults),
            ),
            target=options.fill(TargetOptions, cgroups=(options.cgroup,) if options.cgroup else (), inherit=not options.no_inherit),
            side_band=SideBandOptions(bpf_events=False),
            buffers=BufferOptions(mmap_pages=parse_pages(options.mmap_pages) if options.mmap_pages else 0),
            command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
        )

    def _loop(self, rings: LiveRings, calls: LiveCalls, output: TraceOutput, signals: Wakeups, draining: DrainingThread) -> int:
        """Print what happens until the target ends, a signal arrives or enough lines are printed."""
        numbers: list[int] = []
        rings.watch(signals.fileno())
        is_last = False
        while not is_last:
            rings.wait(_INTERVAL)
            numbers = list(signals.read())
            self._ends = bool(numbers)
            is_last = rings.has_ended or self._ends
            is_last |= self._reaches_limit(rings)
            calls.read_rings(last=is_last)
            draining.resume()
            is_last = not self._print(rings, calls, output, signals) or is_last
            draining.pause()
        output.write_lines(calls.rest())
        if self._totals is not None and wants_summary(self._options):
            output.write(summary_of(self._totals, self._options, calls.calls.name, calls.comms.final_comm))
        if self._named is not None:
            output.write(named_json(self._named) if self._options.json else named_lines(self._named, self._options.max_summary))
        if self._options.html and self._form is not None and self._totals is not None:
            self._write_page(calls, self._form, self._totals)
        if lost := calls.lost:
            full = "the records that waited to be printed took all the room; fewer calls (-e) help"
            _tell(f"warning: {lost} samples lost; {full if calls.was_full else 'larger ring buffers (-m) or fewer calls (-e) help'}")
        return _KILLED + min(numbers) if numbers and signal.SIGINT not in numbers else 0

    def _write_page(self, calls: LiveCalls, form: LineOptions, totals: Totals) -> None:

        title = f"perfpy trace {command_text(self._options.workload or sys.argv[2:])}"
        write_page(self._options, form, totals, calls.calls.name, title, [f"{lost:,} samples lost"] if (lost := calls.lost) else [])

    def _reaches_limit(self, rings: LiveRings) -> bool:
        """Whether the command has ended whose run is the duration of the trace; the events stop then."""
        if self._limit is None or self._limit.poll() is None:
            return False
        rings.counters.disable()
        return True

    def _print(self, rings: LiveRings, calls: LiveCalls, output: TraceOutput, signals: Wakeups) -> bool:
        """Print what has been read; return whether to go on. After a signal, printing ends within about a second."""
        deadline = 0.0
        for batch in calls.batches():
            output.write_lines(batch.lines, self._left)
            if self._left is not None:
                self._left -= min(self._left, batch.lines.size)
                if not self._left:
                    return False
            if self._ends or signals.arrived:
                deadline = deadline or time.monotonic() + _LONGEST_END
                if time.monotonic() > deadline:
                    _tell("note: stopped before all recorded calls were printed; fewer calls (-e) are printed faster")
                    return False
            else:
                self._reaches_limit(rings)
        return True


@contextmanager
def _probes(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Add the probes that events name; yield the events' texts. The probes exist within a with statement."""
    if not any(map(names_probe, texts)):
        yield tuple(texts)
        return
    from perfpy.cli.temporary_probes import TemporaryProbes  # reads debug information

    with TemporaryProbes(texts) as probes:
        yield tuple(probes.texts)


_RING_SIZE: Final = 16 << 20  # bytes: two tenths of a second of a program that does nothing but call the kernel
_NICER: Final = 5  # ring buffers fill up while this process waits for a CPU
_MOST_IN_FILTER: Final = 250  # the kernel limits the length of a filter to a page


def _teller() -> Callable[[str], None]:
    """Return a function that prints each line for the user once: several events can have the same note."""
    told = set()

    def tell(text: str) -> None:
        if text not in told:
            told.add(text)
            _tell(text)

    return tell


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
