"""The lines of `perf script`: one for each sample, with side-band records between them.

Lines are written to a binary stream, a batch at a time.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from perfpy.abi import records
from perfpy.abi.columns import Columns
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass
from perfpy.abi.records import SampleId
from perfpy.perfdata.records.batches import Batch
from perfpy.symbols.tasks import TaskNames
from perfpy.untrusted.text import one_line
from perfpy.views.pieces import Flat, TextBlock
from perfpy.views.script import field_text
from perfpy.views.script.event_lines import DATA_SOURCE_TEXT, EventLines, columns_of, line_shape
from perfpy.views.script.field_text import comm_form, cpu_form, misc_text, task_text, time_text
from perfpy.views.script.fields import OutputFields, has_callchain, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any, BinaryIO, Final

    from numpy.typing import NDArray

    from perfpy.abi import perf_records
    from perfpy.abi.perf_records import AuxtraceError
    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.sample_view import SampleView
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.delivery import SideRecord
    from perfpy.views.record_text import KernelNamer
    from perfpy.views.script.code import LineContext
    from perfpy.views.script.field_text import RelativeTimes
    from perfpy.views.tracepoints.event_text import TraceSource

    _Counted = tuple[FileEvent, int, int, tuple[int, int, int]]


_ROWS: Final = 1 << 14  # samples formatted together; limits the texts of a batch to a few MB
NO_EVENT: Final = -1
_TEXTS: Final = 1 << 12  # texts joined together; they are still in the CPU's caches


@dataclass(eq=False, repr=False)
class ScriptLines:
    """A writer of a recording's lines.

    Args:
        trace: formatters of tracepoints, by id
        relative: for --reltime and --deltatime
        only: index of the event whose samples alone are written, without records; NO_EVENT: records alone. All samples count for
            relative times and switching events.
    """

    events: Sequence[FileEvent]
    fields: OutputFields
    context: LineContext
    sample_filter: SampleFilter
    trace: TraceSource | None = None
    relative: RelativeTimes | None = None
    only: int | None = None

    def columns(self) -> set[str]:
        """Return the sample columns needed."""
        needed = {"tid", "time", "cpumode"}
        for event in self.events:
            needed |= columns_of(event, self.fields.sets[kind_of(event)].fields)
        return needed | self.sample_filter.all_fields()

    def write(self, batches: Iterable[Batch], side: Iterable[SideLine], out: BinaryIO) -> int:
        """Write all lines, in order; return the number of samples printed."""
        makers = self.makers()
        waiting = _Waiting(side)
        printed = 0
        for batch in batches:
            for part in _parts(batch):
                chosen = self._filter(part)
                printed += len(chosen) if self.only is None else int(np.count_nonzero(chosen.event == self.only))
                write_texts(self._texts(chosen, waiting.before(part), makers), out)
        out.write(b"".join(self._side_texts(list(waiting.rest()))))
        return printed

    def make_lines(self, batch: Batch, makers: _Makers) -> tuple[int, list[bytes]]:
        """Return the number and the texts of samples without side-band lines between them."""
        texts, printed = list[bytes](), 0
        for part in _parts(batch):
            chosen = self._filter(part)
            printed += len(chosen)
            texts += self._texts(chosen, [], makers)
        return printed, texts

    def chosen_parts(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the filtered batches, in parts that are formatted together."""
        for batch in batches:
            yield from map(self._filter, _parts(batch))

    def each(self, batches: Iterable[Batch], side: Iterable[SideLine]) -> Iterator[tuple[SideLine | None, bytes | None]]:
        """Yield (record's line, its text) or (None, a sample's text), one at a time.

        A sample's text is b"" if it is not printed, None if it is filtered before its owner is known.
        """
        makers = self.makers()
        waiting = _Waiting(side)
        for batch in batches:
            for part in _parts(batch):
                yield from self._each_of(part, waiting.before(part), makers)
        rest = list(waiting.rest())
        yield from zip(rest, self._side_texts(rest), strict=True)

    def _each_of(self, part: Batch, side: list[SideLine], makers: _Makers) -> Iterator[tuple[SideLine | None, bytes | None]]:
        positions = positions_among(side, part)
        sample_times, side_times = self._shown_times(field_text.times(part, self.events), side, positions)
        texts: list[bytes | None] = [*(self._flat(part, sample_times, makers).lines() or [b""] * len(part))]
        if not self.sample_filter.is_open or self.sample_filter.switch is not None:
            view = self._view(part)
            mask = self.sample_filter.passing_mask(view)
            if self.sample_filter.switch is not None:
                mask = self.sample_filter.switch.mask(part.event, mask)
            for row in np.flatnonzero(~mask).tolist():
                texts[row] = b""
            for row in np.flatnonzero(~self.sample_filter.by_time_and_cpu(view)).tolist():
                texts[row] = None
        if self.only is not None:
            texts = [b"" if text and event != self.only else text for text, event in zip(texts, part.event.tolist(), strict=True)]
        printed = 0
        for record, position, time in zip(side, positions, side_times, strict=True):
            yield from ((None, text) for text in texts[printed:position])
            yield record, whole(record, time, ns=self.context.ns)
            printed = position
        yield from ((None, text) for text in texts[printed:])

    def _view(self, batch: Batch) -> SampleView:
        """Return a batch as filters see it."""
        from perfpy.analysis.sample_view import DeliveryOrder, SampleView  # most listings have no filter

        attrs = [event.attr for event in self.events]
        delivery = DeliveryOrder(batch.key, batch.key, batch.offset)
        return SampleView(batch.columns, batch.event, delivery, attrs, self.context.timeline, self.context.symbolizer)

    def makers(self) -> _Makers:
        """Return the formatters by event."""
        return _Makers(self.events, self._maker)

    def _maker(self, events: Sequence[FileEvent]) -> EventLines:
        one = self.fields.sets[kind_of(events[0])]
        return EventLines(events, one.fields, one.chosen, self.context, self.trace)

    def _filter(self, batch: Batch) -> Batch:
        mask = None if self.sample_filter.is_open else self.sample_filter.passing_mask(self._view(batch))
        if self.sample_filter.switch is not None:  # last, because samples that are not printed switch nothing
            mask = self.sample_filter.switch.mask(batch.event, mask)
        return batch if mask is None or mask.all() else take_rows(batch, np.flatnonzero(mask))

    def _texts(self, batch: Batch, side: list[SideLine], makers: _Makers) -> list[bytes]:
        """Return the lines of a part of a batch, and of the records before or among them."""
        if not len(batch):
            return self._side_texts(side)
        positions = positions_among(side, batch)
        times = field_text.times(batch, self.events)
        sample_times, side_times = self._shown_times(times, side, positions)
        if self.only == NO_EVENT:
            return [whole(line, time, ns=self.context.ns) for line, time in zip(side, side_times, strict=True)]
        if self.only is not None:
            rows = np.flatnonzero(batch.event == self.only)
            return self._flat(take_rows(batch, rows), sample_times[rows], makers).parts if len(rows) else []
        flat = self._flat(batch, sample_times, makers)
        texts: list[bytes] = []
        joined = 0
        for line, position, time in zip(side, positions, side_times, strict=True):
            texts += flat.slice(joined, position)
            texts.append(whole(line, time, ns=self.context.ns))
            joined = position
        return [*texts, *flat.slice(joined, len(batch))] if texts else flat.parts

    def _side_texts(self, side: list[SideLine]) -> list[bytes]:
        _, times = self._shown_times(np.zeros(0, np.uint64), side, [0] * len(side))
        if self.only not in (None, NO_EVENT):
            return []
        return [whole(line, time, ns=self.context.ns) for line, time in zip(side, times, strict=True)]

    def _shown_times(
        self, times: NDArray[np.uint64], side: list[SideLine], positions: Sequence[int]
    ) -> tuple[NDArray[np.uint64], list[int]]:
        """Return the values of the time field for samples and for the records among them."""
        side_times = [line.time for line in side]
        if self.relative is None:
            return times, side_times
        timed = [row for row, line in enumerate(side) if line.has_time]
        merged = np.insert(times, [positions[row] for row in timed], np.array([side_times[row] for row in timed], np.uint64))
        printed = self.relative.printed_times(merged)
        index = np.array([positions[row] for row in timed], np.int64) + np.arange(len(timed))
        for row, time in zip(timed, printed[index].tolist(), strict=True):
            side_times[row] = time
        return np.delete(printed, index), side_times

    def _with_data_sources(self, batch: Batch, events: Collection[int], makers: _Makers) -> Batch:
        """Return the batch with the texts of data_src of some events; a text's width depends on the samples of all events before it."""
        if not events:
            return batch
        values = np.zeros(len(batch), np.uint64)
        for number in events:
            rows = batch.event == number
            values[rows] = field_text.column(batch, self.events[number], "data_src")[rows]
        texts = np.full(len(batch), b"", object)
        rows = np.isin(batch.event, list(events))
        texts[rows] = makers.data_sources.pieces(values[rows])
        return Batch(
            Columns(len(batch), {**batch.columns, DATA_SOURCE_TEXT: texts}, batch.columns.damaged), batch.event, batch.key, batch.offset
        )

    def _flat(self, batch: Batch, times: NDArray[np.uint64], makers: _Makers) -> Flat | TextBlock:
        present = np.flatnonzero(np.bincount(batch.event, minlength=1)).tolist()
        batch = self._with_data_sources(batch, [number for number in present if makers[number].has_data_source], makers)
        together = dict[EventLines, list[int]]()
        for number in present:
            together.setdefault(makers[number], []).append(number)
        if len(together) == 1:
            (maker,) = together
            return Flat([], 0) if maker.is_silent else maker.flat(batch, times)
        lines = np.full(len(batch), b"", object)
        for maker, numbers in together.items():
            rows = np.flatnonzero(np.isin(batch.event, numbers) if len(numbers) > 1 else batch.event == numbers[0])
            if not maker.is_silent:
                sample_lines = maker.flat(take_rows(batch, rows), times[rows]).lines()
                lines[rows] = np.fromiter(sample_lines, object, len(sample_lines))
        return Flat(lines.tolist(), 1)


def write_texts(texts: list[bytes], out: BinaryIO) -> None:
    """Write texts, some thousands at a time."""
    out.writelines(b"".join(texts[begin : begin + _TEXTS]) for begin in range(0, len(texts), _TEXTS))


class _Makers(dict[int, EventLines]):
    """The formatters by event index, created for the first sample, because a file may have many events.

    Events whose lines differ by their names only share one.
    """

    def __init__(self, events: Sequence[FileEvent], make: Callable[[Sequence[FileEvent]], EventLines]) -> None:
        super().__init__()
        self._events = events
        self._make = make
        self._alike: dict[bytes, list[FileEvent]] = {}
        for event in events:
            shape = line_shape(event)
            if shape is not None:
                self._alike.setdefault(shape, []).append(event)
        self.data_sources = field_text.DataSourceTexts()

    def __missing__(self, number: int) -> EventLines:
        shape = line_shape(self._events[number])
        events = [self._events[number]] if shape is None else self._alike[shape]
        maker = self._make(events)
        self.update((event.index, maker) for event in events)
        return maker


def take_rows(batch: Batch, rows: NDArray[np.intp]) -> Batch:
    """Return rows of a batch."""
    return Batch(batch.columns.take(rows), batch.event[rows], batch.key[rows], batch.offset[rows])


def _parts(batch: Batch) -> Iterator[Batch]:
    """Split a batch into parts that are formatted together."""
    if len(batch) <= _ROWS:
        yield batch
        return
    for begin in range(0, len(batch), _ROWS):
        rows = slice(begin, begin + _ROWS)
        yield Batch(batch.columns.take(rows), batch.event[rows], batch.key[rows], batch.offset[rows])


def positions_among(side: Sequence[SideLine], batch: Batch) -> list[int]:
    """Return the row that follows each record; the offset in the file decides between equal keys."""
    if not side:
        return []
    keys = np.array([line.key for line in side], np.uint64)
    positions = np.searchsorted(batch.key, keys, side="left")
    ends = np.searchsorted(batch.key, keys, side="right")
    for i in np.flatnonzero(positions != ends).tolist():
        positions[i] += int(np.searchsorted(batch.offset[positions[i] : ends[i]], side[i].offset))
    latest: list[int] = np.maximum.accumulate(positions).tolist()
    return latest


class _Waiting:
    """The records that are not yet printed."""

    def __init__(self, side: Iterable[SideLine]) -> None:
        self._side = iter(side)
        self._next = next(self._side, None)

    def before(self, batch: Batch) -> list[SideLine]:
        """Return the records before the batch's last sample."""
        records = []
        last = (int(batch.key[-1]), int(batch.offset[-1])) if len(batch) else (0, 0)
        while self._next is not None and (self._next.key, self._next.offset) < last:
            records.append(self._next)
            self._next = next(self._side, None)
        return records

    def rest(self) -> Iterator[SideLine]:
        """Return all remaining records."""
        while self._next is not None:
            yield self._next
            self._next = next(self._side, None)


class DumpLines:
    """Script's lines among dumped records; both come in order of delivery."""

    def __init__(self, lines: Iterator[tuple[SideLine | None, bytes | None]], kinds: frozenset[int]) -> None:
        """Set the lines as ScriptLines.each yields them, and the types of records that may have one."""
        self._lines = lines
        self._kinds = kinds
        self._samples: deque[bytes | None] = deque()
        self._records: deque[tuple[SideLine, bytes]] = deque()

    def of_sample(self) -> bytes | None:
        """Return the line of a sample's next delivery; None if it was filtered early."""
        while not self._samples and self._pull():
            pass
        return self._samples.popleft() if self._samples else b""

    def of_record(self, kind: int, offset: int) -> bytes:
        """Return the line of a record other than a sample; b"" if it has none."""
        if kind not in self._kinds:
            return b""
        while not self._records and self._pull():
            pass
        if not self._records or (self._records[0][0].kind, self._records[0][0].offset) != (kind, offset):
            return b""
        return self._records.popleft()[1]

    def _pull(self) -> bool:
        item = next(self._lines, None)
        if item is None:
            return False
        record, text = item
        if record is None:
            self._samples.append(text)
        else:
            self._records.append((record, text or b""))
        return True


# Side-band records as lines among the samples: `perf script --show-task-events` and related options.
#
# A line begins like that of a sample of the event that the record belongs to.


#: the record types of each --show option
SHOWN: Final = {
    "task": (RecordType.COMM, RecordType.FORK, RecordType.EXIT),
    "mmap": (RecordType.MMAP, RecordType.MMAP2),
    "switch": (RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE),
    "namespace": (RecordType.NAMESPACES,),
    "cgroup": (RecordType.CGROUP,),
    "lost": (RecordType.LOST,),
    "bpf": (RecordType.KSYMBOL, RecordType.BPF_EVENT),
    "text-poke": (RecordType.KSYMBOL, RecordType.TEXT_POKE),
    "round": (RecordType.FINISHED_ROUND,),
}
_ROUND_LINE: Final = b"PERF_RECORD_FINISHED_ROUND\n"
_ERROR_NAMES: Final = {1: "instruction trace"}  # by type
_NEVER: Final = 0xFFFFFFFFFFFFFFFF
_WITHOUT_EVENTS: Final = {"comm", "tid", "cpu", "time"}
#: records that name their task; others belong to the task in their sample_id
_OWN_TASK: Final = (records.Comm, records.Fork, records.Exit, records.Mmap, records.Mmap2, records.Namespaces)


class _Who(NamedTuple):
    pid: int
    tid: int
    cpu: int
    time: int


class SideBandLines:
    """The formatter of side-band records."""

    def __init__(
        self,
        events: Sequence[FileEvent],
        fields: OutputFields,
        types: frozenset[int],
        *,
        use_callchain: bool,
        clock: Callable[[int], bytes],
        name_kernel: KernelNamer | None = None,
        cpus: Collection[int] | None = None,
        endian: str = "<",
        latency: bool = False,
        keeps_exited: bool = False,
    ) -> None:
        """Set what to show.

        Args:
            types: record types
            clock: the time of day of a time stamp
            cpus: CPUs whose records are shown (None: all)
            endian: of the file
            latency: use the short form of -L
            keeps_exited: threads keep their names when they exit
        """
        self._events = events
        self._fields = fields
        self._types = types
        self._use_callchain = use_callchain
        self._name_kernel = name_kernel
        self._clock = clock
        self._cpus = cpus
        self._latency = latency
        self._keeps_exited = keeps_exited
        self._is_foreign = endian != NATIVE_ENDIAN
        self._event_of = {ident: event for event in events for ident in event.ids}

    def lines(self, side_band: Iterable[SideRecord]) -> Iterator[SideLine]:
        """Yield the lines, in order of delivery."""
        from perfpy.abi.perf_records import AuxtraceError, FinishedRound

        names = TaskNames()
        rounds = StatRounds(self._events)
        for side in side_band:
            record = side.record
            counts = rounds.lines(record)
            if counts:
                yield SideLine(side.key, side.offset, RecordType.STAT_ROUND, 0, b"", counts.encode("utf-8", "surrogateescape"), False)
            if isinstance(record, AuxtraceError):
                text = _trace_error(record).encode("utf-8", "surrogateescape")
                yield SideLine(side.key, side.offset, RecordType.AUXTRACE_ERROR, 0, b"", text, False)
            if isinstance(record, FinishedRound):
                yield SideLine(side.key, side.offset, RecordType.FINISHED_ROUND, 0, b"", _ROUND_LINE, False)
                continue
            is_exit = isinstance(record, records.Exit)
            if not is_exit:
                names.apply(record)
            if self._is_shown(record):
                line = self._line(side, names)
                if line is not None:
                    yield line
            if is_exit and not self._keeps_exited:
                names.apply(record)

    def _is_shown(self, record: Any) -> bool:
        return type(record).__module__ == records.__name__ and records.type_of(record) in self._types

    def _line(self, side: SideRecord, names: TaskNames) -> SideLine | None:
        from perfpy.views.record_text import as_perf_reads, record_text, signed_number

        record = as_perf_reads(side.record) if self._is_foreign else side.record
        kind = records.type_of(record)
        event = self._event(record)
        who = _who(record, event)
        if self._cpus is not None and who.cpu != -1 and who.cpu not in self._cpus:
            return None
        text = record_text(record, self._name_kernel).encode("utf-8", "surrogateescape")
        if event is None and self._events:
            return SideLine(side.key, side.offset, kind, who.time, b"", text, False)
        fields = _WITHOUT_EVENTS if event is None else self._fields.sets[kind_of(event)].fields
        tid = signed_number(record.tid) if isinstance(record, _OWN_TASK) else who.tid
        narrow = event is not None and "ip" in fields and has_callchain(event) and self._use_callchain
        form = comm_form(narrow=narrow, latency=self._latency)
        start = task_text(names.name(tid).encode("utf-8", "surrogateescape"), who.pid, who.tid, fields, form)
        if "cpu" in fields:
            start += cpu_form(latency=self._latency) % who.cpu
        if "misc" in fields:
            start += misc_text(record.misc, kind)
        if "tod" in fields:
            start += self._clock(who.time)
        return SideLine(side.key, side.offset, kind, who.time, start, text, "time" in fields)

    def _event(self, record: Any) -> FileEvent | None:
        """Return the event that a record belongs to; None for an unknown id."""
        first = self._events[0] if self._events else None
        sample_id = record.sample_id
        if first is None or len(self._events) == 1 or sample_id is None:
            return first
        ident = sample_id.identifier if sample_id.identifier is not None else sample_id.id
        if not ident:
            return first
        return self._event_of.get(ident) or (None if first.attr.sample_id_all else first)


def _who(record: Any, event: FileEvent | None) -> _Who:
    """Return task, cpu and time of a record: from its sample_id, otherwise from the record."""
    from perfpy.views.record_text import signed_number

    if event is None or not event.attr.sample_id_all:
        time = record.time if isinstance(record, (records.Fork, records.Exit)) else 0
        if isinstance(record, _OWN_TASK):
            return _Who(signed_number(record.pid), signed_number(record.tid), 0, time)
        return _Who(-1, -1, 0, time)
    sample_id = record.sample_id or SampleId()
    return _Who(
        -1 if sample_id.pid is None else signed_number(sample_id.pid),
        -1 if sample_id.tid is None else signed_number(sample_id.tid),
        -1 if sample_id.cpu is None else signed_number(sample_id.cpu),
        _NEVER if sample_id.time is None else sample_id.time,
    )


def _trace_error(record: AuxtraceError) -> str:
    """Return the text of a hardware trace error that perf inject recorded."""
    from perfpy.views.record_text import alternate, signed_number

    time = f"{record.time // 10**9}.{record.time % 10**9:09d}" if record.fmt and record.time else "0"
    guest = f" machine_pid {record.machine_pid} vcpu {record.vcpu}" if record.fmt >= 2 and record.machine_pid else ""
    task = f"cpu {signed_number(record.cpu)} pid {signed_number(record.pid)} tid {signed_number(record.tid)}"
    name = _ERROR_NAMES.get(record.type, "unknown AUX")
    return f" {name} error type {record.type} time {time}{guest} {task} ip {alternate(record.ip)} code {record.code}: {record.msg}\n"


# The line of a side-band record, before it is placed among the lines of samples.


class SideLine(NamedTuple):
    """A line before the samples that are delivered after it.

    Attributes:
        key, offset, kind: of the record; kind is its type
        time: its time stamp, for relative times
        start, rest: its text before and after the time field
    """

    key: int
    offset: int
    kind: int
    time: int
    start: bytes
    rest: bytes
    has_time: bool


def whole(line: SideLine, shown_time: int, *, ns: bool) -> bytes:
    """Return the line with its time field, if it has one."""
    return line.start + (time_text(shown_time, ns=ns) if line.has_time else b"") + line.rest


# The counts of `perf stat record` as `perf script` prints them: the counts of every round.


_HEAD = f"{'CPU':>3} {'THREAD':>8} {'VAL':>15} {'ENA':>15} {'RUN':>15} {'TIME':>15} EVENT\n"


class StatRounds:
    """The counts of a file, from its THREAD_MAP, CPU_MAP, STAT and STAT_ROUND records in order of delivery."""

    def __init__(self, events: Sequence[FileEvent]) -> None:
        self._events = events
        self._event_of = {ident: event.index for event in events for ident in event.ids}
        self._threads: tuple[int, ...] = ()
        self._cpus: tuple[int, ...] = ()
        self._counts: dict[tuple[int, int, int], perf_records.Stat] = {}  # by event, cpu, index of the thread
        self._before: dict[tuple[int, int, int], perf_records.Stat] = {}  # those of the previous round
        self._is_first = True

    def lines(self, record: Any) -> str:
        """Return the lines of a record: those of a STAT_ROUND, none for others."""
        from perfpy.abi import perf_records

        counts = self.counts(record)
        return "".join(self._round(counts, record.time)) if isinstance(record, perf_records.StatRound) else ""

    def counts(self, record: Any) -> list[_Counted]:
        """Return the counts of a STAT_ROUND: each event's value, time enabled and time running by CPU and thread."""
        from perfpy.abi import perf_records
        from perfpy.views.record_text import signed_number

        if isinstance(record, perf_records.ThreadMap):
            self._threads = tuple(signed_number(pid & 0xFFFFFFFF) for pid, _ in record.threads)
        elif isinstance(record, perf_records.CpuMap):
            self._cpus = record.cpus
        elif isinstance(record, perf_records.Stat) and record.id in self._event_of:
            self._counts[self._event_of[record.id], signed_number(record.cpu), record.thread] = record
        elif isinstance(record, perf_records.StatRound):
            counts = list(self._of_round())
            self._before = dict(self._counts)
            return counts
        return []

    def _round(self, counts: list[_Counted], time: int) -> Iterator[str]:
        if self._is_first:
            self._is_first = False
            yield _HEAD
        for event, cpu, thread, (value, enabled, running) in counts:
            yield f"{cpu:3d} {thread:8d} {value:15d} {enabled:15d} {running:15d} {time:15d} {one_line(event.name)}\n"

    def _of_round(self) -> Iterator[_Counted]:
        for event in self._events:
            for number, thread in enumerate(self._threads):
                for index, cpu in enumerate(event.cpus or self._cpus):
                    # counts are keyed by CPU, or by its index if the CPU does not count
                    since = self._since((event.index, cpu, number)) or self._since((event.index, index, number))
                    yield event, cpu, thread, since or (0, 0, 0)

    def _since(self, key: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """Return a counter's increase since the previous round; counts in the file are totals."""
        counts, before = self._counts.get(key), self._before.get(key)
        if counts is None or before is None:
            return counts and (counts.value, counts.enabled, counts.running)
        return counts.value - before.value, counts.enabled - before.enabled, counts.running - before.running
