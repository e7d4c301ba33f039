"""The system calls of running tasks: the events of the ring buffers as pairs of entry and return, with lines and sums."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.flags import RecordType
from perfpy.capture.counter import Counter
from perfpy.capture.synthesis import Synthesis, id_layout
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.sysfs import Tracefs
from perfpy.live.window import LiveSymbols, LiveWindow
from perfpy.perfdata.event_format import Tracing, decode_tracing, parse_format
from perfpy.perfdata.records.delivery import RawRecords, SideBand
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.live_tasks import LiveTasks
from perfpy.tools.trace.call_strings import CallStrings, TracedProcesses, open_strings
from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import ENTER, CallColumns, FollowedComms, Pairing, call_events, call_fields
from perfpy.tools.trace.descriptors import Descriptors, DescriptorTable, OpenFile, descriptor_numbers
from perfpy.tools.trace.lines import NO_LINES, EventSums, OtherEvents, fault_name
from perfpy.tools.trace.record_queue import ReadRecords, RecordQueue
from perfpy.tools.trace.replay import NO_SWITCHES, SwitchedSamples, ending_numbers, make_lines
from perfpy.tools.trace.stack_text import JoinedColumns, StackTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.live.rings import LiveRings
    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.perfdata.records.delivery import OrderedChunk
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.trace.call_sums import NamedTotals, Totals
    from perfpy.tools.trace.calls import CallEvents, PairedEvents
    from perfpy.tools.trace.descriptors import DescriptorNames
    from perfpy.tools.trace.lines import LineOptions
    from perfpy.tools.trace.replay import CallFilter, SwitchOptions
    from perfpy.tools.trace.stack_text import StackLimits
    from perfpy.views.script.pieces import Flat

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
