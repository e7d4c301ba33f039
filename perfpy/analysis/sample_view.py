"""The samples of one batch with their events, tasks and symbols.

A `SampleView` is a value: each change returns another one. Columns have perf's values, also for samples without the field.
"""

from __future__ import annotations

import struct
import sys
from functools import cached_property
from itertools import pairwise

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices, rows_where, slices_index
from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_KERNEL, NO_DATA_SOURCE, BranchSample, PerfType, RecordType, SampleType, SoftwareId
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, TypeVar, dataclass, replace
from perfpy.abi.perfpy_encodings import IS_WAIT, OFF_CPU_EVENT, STATE_NAMES, WOKEN_BY_THREAD
from perfpy.abi.records import Read
from perfpy.errors import PerfError
from perfpy.symbols.address_spaces import guest_tasks
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer


# perf's values for fields that the samples of an event lack
_MINUS_ONE = -1
_ABSENT: dict[str, tuple[int, int]] = {
    "pid": (SampleType.TID, _MINUS_ONE),
    "tid": (SampleType.TID, _MINUS_ONE),
    "cpu": (SampleType.CPU, _MINUS_ONE),
    "time": (SampleType.TIME, _MINUS_ONE),
    "data_src": (SampleType.DATA_SRC, NO_DATA_SOURCE),
}


class DeliveryOrder(NamedTuple):
    """The delivery order of samples: sorted by key, then time, then ordinal. uint64[n], uint64[n], int64[n]."""

    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    ordinal: NDArray[np.int64]

    def take(self, rows: NDArray[Any] | slice) -> DeliveryOrder:
        """Select samples."""
        return DeliveryOrder(self.key[rows], self.time[rows], self.ordinal[rows])

    def order(self) -> NDArray[np.int64]:
        """Return the indexes that sort the samples."""
        return np.lexsort((self.ordinal, self.time, self.key))


@dataclass(eq=False, repr=False)
class SampleView:
    """The samples of one batch, as dimensions read them.

    Attributes:
        columns: the fields.
        event: index of each sample's event.
        delivery: their order.
        attrs: of the events.
        timeline: of the tasks.
        symbolizer: of the recording.
        stands_for: the number of events of each sample, if that is not its period.
    """

    columns: Columns
    event: NDArray[Any]
    delivery: DeliveryOrder
    attrs: Sequence[EventAttr]
    timeline: TaskTimeline
    symbolizer: Symbolizer
    stands_for: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self.columns.rows

    @property
    def key(self) -> NDArray[np.uint64]:
        """The delivery keys."""
        return self.delivery.key

    @cached_property
    def tasks(self) -> TaskStates:
        """The samples' tasks at their moments."""
        return TaskStates(self.timeline, *self.task_numbers, self.key)

    @cached_property
    def task_numbers(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The pid and tid of each sample, for the timeline; those of virtual machines are marked (guest_tasks)."""
        pid, tid, mode = self.column("pid"), self.column("tid"), self.columns.get("cpumode")
        if mode is None or not len(mode) or int(mode.max()) < MISC_GUEST_KERNEL:
            return pid, tid
        return guest_tasks(pid, mode), guest_tasks(tid, mode)

    def take(self, rows: NDArray[Any] | slice) -> SampleView:
        """Select samples by indexes, a mask or a slice."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        stands_for = None if self.stands_for is None else self.stands_for[rows]
        columns, event, delivery = self.columns.take(rows), self.event[rows], self.delivery.take(rows)
        return replace(self, columns=columns, event=event, delivery=delivery, stands_for=stands_for)

    def gather(self) -> SampleView:
        """Return the same samples, independent of the buffer that they were read from."""
        return replace(self, columns=self.columns.gather())

    @classmethod
    def concat(cls, parts: Sequence[SampleView]) -> SampleView:
        """Concatenate samples of one recording with the same columns and names."""
        if len(parts) == 1:
            return parts[0]
        event, columns = np.concatenate([part.event for part in parts]), Columns.concat([part.columns for part in parts])
        delivery = DeliveryOrder(*(np.concatenate(values) for values in zip(*(part.delivery for part in parts), strict=True)))
        chosen = [part.period() for part in parts] if any(part.stands_for is not None for part in parts) else []
        return replace(parts[0], columns=columns, event=event, delivery=delivery, stands_for=np.concatenate(chosen) if chosen else None)

    def named_by(self, timeline: TaskTimeline, symbolizer: Symbolizer) -> SampleView:
        """Return the same samples with the names of another timeline and symbolizer."""
        return self if symbolizer is self.symbolizer else replace(self, timeline=timeline, symbolizer=symbolizer)

    def with_columns(self, columns: dict[str, Any]) -> SampleView:
        """Return the same samples with other columns."""
        return replace(self, columns=Columns(self.columns.rows, columns))

    def counted_once(self) -> SampleView:
        """Return these samples, each with one event."""
        return replace(self, stands_for=np.ones(len(self), np.uint64))

    def with_weights(self) -> SampleView:
        """Return these samples, each with its weight, at least 1, as the number of events."""
        return replace(self, stands_for=np.maximum(self.column("weight"), 1).astype(np.uint64))

    def in_grains(self, grain: int) -> SampleView:
        """Return these samples, with times rounded down to multiples of `grain` ns."""
        time = self.columns.get("time")
        if time is None:
            return self
        unit = np.uint64(grain or 1)
        return self.with_columns({**self.columns, "time": time // unit * unit})

    def column(self, name: str) -> NDArray[Any]:
        """Return a numeric column, with perf's value for samples that lack the field."""
        values = self.columns.get(name)
        bit, absent = _ABSENT.get(name, (0, 0))
        if values is None:
            return np.full(len(self), absent, np.int64)
        lacking = [not attr.sample_type & bit for attr in self.attrs] if bit else []
        if any(lacking):
            none = values.dtype.type(absent) if absent >= 0 or values.dtype.kind == "i" else ~np.uint64(0)
            return np.where(np.array(lacking)[self.event], none, values)
        numbers: NDArray[Any] = values
        return numbers

    def ragged_column(self, name: str, dtype: Any) -> Ragged:
        """Return a ragged column, empty for samples that lack it."""
        values = self.columns.get(name)
        return values.gather() if isinstance(values, (Ragged, Slices)) else Ragged.empty(len(self), dtype)

    @cached_property
    def chain_fingerprints(self) -> NDArray[np.uint64]:
        """A hash of each callchain."""
        return row_fingerprints(self.chains())

    def chains(self) -> Ragged | Slices:
        """Return the callchains, perhaps still in the buffer."""
        chains = self.columns.get("callchain")
        return chains if isinstance(chains, (Ragged, Slices)) else Ragged.empty(len(self), np.uint64)

    def period(self) -> NDArray[np.uint64]:
        """Return the number of events of each sample: its own period, or its event's fixed one."""
        if self.stands_for is not None:
            return self.stands_for
        values = self.columns.get("period")
        # samples with readings were expanded: each row has its counter's own
        has = np.array([values is not None and bool(attr.sample_type & (SampleType.PERIOD | SampleType.READ)) for attr in self.attrs])
        if values is not None and has.all():
            own: NDArray[np.uint64] = values
            return own
        fixed: NDArray[np.uint64] = np.array([attr.sample_period for attr in self.attrs], np.uint64)[self.event]
        return fixed if values is None else np.where(has[self.event], values, fixed)

    def payloads(self) -> Ragged:
        """Return the raw data of tracepoints' samples; empty for other events."""
        raw = self.ragged_column("raw", np.uint8)
        traced = np.array([attr.type == PerfType.TRACEPOINT for attr in self.attrs])[self.event]
        if traced.all():
            return raw
        lengths = np.where(traced, raw.lengths, 0)
        index, offsets = slices_index(raw.offsets[:-1], lengths)
        return Ragged(raw.values[index], offsets)

    def frames_at(self, column: str) -> NDArray[np.int32]:
        """Return the frames (of the symbolizer) at the addresses of a column, in the mode of each sample."""
        return self._ip_frames if column == "ip" else self._look_up_frames(column)

    @cached_property
    def _ip_frames(self) -> NDArray[np.int32]:
        return self._look_up_frames("ip")

    def _look_up_frames(self, column: str) -> NDArray[np.int32]:
        address = self.column(column).astype(np.uint64)
        return self.symbolizer.frame_ids(self.column("pid"), address, self.key, self.columns["cpumode"], are_data=column != "ip")


# Find the events that measure time, on the CPU and off it, and merge both into one event.
#
# A report then shows running and waiting on one scale.


#: of a period
NANOSECONDS_A_SECOND: Final = 1e9
_WORTH_TELLING: Final = 0.01  # the share of hidden time on the CPU that deserves a warning
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


def is_off_cpu(event: FileEvent) -> bool:
    """Whether the event is time off the CPU, perf's or perfpy's."""
    attr = event.attr
    return event.name == OFF_CPU_EVENT and attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT


def is_clock(event: FileEvent) -> bool:
    """Whether the event is time on the CPU."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config in _CLOCKS


def is_time(event: FileEvent) -> bool:
    """Whether periods are ns."""
    return event.in_time or is_clock(event) or is_off_cpu(event)


def has_off_cpu(events: Sequence[FileEvent]) -> bool:
    """Whether any event is time off the CPU."""
    return any(map(is_off_cpu, events))


def says_why_it_waited(events: Sequence[FileEvent]) -> bool:
    """Whether the samples of time off the CPU have a state, which perf's own lack."""
    return any(event.attr.sample_type & SampleType.WEIGHT_STRUCT for event in events if is_off_cpu(event))


def is_walked(data: SampleSource) -> bool:
    """Whether the kernel walked the user's frames by frame pointers: it misses the caller of a function that does not set one up.

    Callchains that `record --unwind` has unwound are only marked by the mappings of data, which it needs, without addresses of data.
    """
    attrs = [event.attr for event in data.events]
    if any(attr.sample_type & SampleType.STACK_USER or attr.branch_sample_type & BranchSample.CALL_STACK for attr in attrs):
        return False
    has_data_maps = any(attr.mmap_data for attr in attrs) and not data.has(SampleType.ADDR)
    is_chosen = "--data-mmap" in [str(word) for word in data.features.get("cmdline") or ()]
    return not has_data_maps or is_chosen


def merge_off_cpu(data: SampleSource) -> None:
    """Merge time on the CPU and off it into one event. Raises PerfError if a recording does not have both.

    Time on the CPU is a clock's samples; without one it is the running time of each thread, distributed over the samples of the first
    event.
    """
    off = next(filter(is_off_cpu, data.events), None)
    if off is None:
        raise PerfError(f"{data.path}: no off-CPU samples in the recording; record with --off-cpu")
    clock = next(filter(is_clock, data.events), None)
    first = next((event for event in data.events if event is not off and not is_dummy(event)), None)
    running = {} if clock else _running(data, off)
    if clock is None and not running:
        raise PerfError(f"{data.path}: no event measures time on the CPU; record with -e task-clock --off-cpu")
    main = clock or first
    if main is None or not main.attr.sample_type & SampleType.PERIOD:
        name = main.name if main else "its event"
        raise PerfError(f"{data.path}: the samples of {name} have no period; record with -F or --period")
    main.has_waits = True
    if clock:
        data.join(off, clock)
        return
    from perfpy.perfdata.sample_source import thread_rates  # numpy, for few recordings

    rates = thread_rates(main.index, data.stored_batches({"tid", "period", "time"}), running)
    data.join(off, main, rates)
    main.in_time = True
    missed = sum(time for tid, time in running.items() if tid not in rates.threads)
    if missed > _WORTH_TELLING * sum(running.values()):
        share, seconds = missed / sum(running.values()), missed / NANOSECONDS_A_SECOND
        data.warnings.append(f"{seconds:.3g} s on the CPU ({share:.0%}) in threads without a sample of {main.name} are not shown")


def is_dummy(event: FileEvent) -> bool:
    """Whether the event counts nothing."""
    return event.attr.type == PerfType.SOFTWARE and event.attr.config == SoftwareId.DUMMY


def _running(data: SampleSource, off: FileEvent) -> dict[int, int]:
    """Return the running time of each thread, in ns, from READ records of the event of waits."""
    size = 3 * 8  # value, id, lost
    running_times: dict[int, int] = {}
    for side in data.side_band([RecordType.READ]):
        record = side.record
        if isinstance(record, Read) and len(record.values) >= size:
            value, ident, _ = struct.unpack_from(f"{data.endian}3Q", record.values)
            if ident in off.ids:
                running_times[record.tid] = running_times.get(record.tid, 0) + value
    return running_times


# The reasons of waits in off-CPU samples (perfpy.abi.perfpy_encodings), as numbers for the sort keys state and waker.


NOTE_SHIFT: Final = 32
_ON_CPU: Final = 0


def state_of(samples: SampleView) -> NDArray[Any]:
    """Return the letter of each sample's state, 0 on the CPU."""
    return np.where(_is_wait(samples), samples.column("ins_lat").astype(np.int64), _ON_CPU)


def waker_of(samples: SampleView) -> NDArray[Any]:
    """Return the waker of each sample: the thread, and above it the note; 0 on the CPU and for unknown wakers."""
    note = samples.column("retire_lat").astype(np.int64) & ~IS_WAIT
    thread = np.where(note == WOKEN_BY_THREAD, samples.column("weight").astype(np.int64), 0)
    return np.where(_is_wait(samples), note << NOTE_SHIFT | thread, 0)


def _is_wait(samples: SampleView) -> NDArray[np.bool_]:
    marked: NDArray[np.bool_] = (samples.column("retire_lat").astype(np.int64) & IS_WAIT) != 0
    return marked


def state_name(number: int) -> str:
    """Return a state as a readable word."""
    return STATE_NAMES.get(number) or (chr(number) if 32 < number < 127 else "?")


# The time of day of samples, from the CLOCK_DATA feature (record -k): both clocks read at one moment.
#
# The column `wall` is ns since 1970, rounded down; 0 if unknown.


NOT_SAID: Final = "the recording has no time of day; record with -k CLOCK_MONOTONIC"
#: the column's value for unknown times
UNKNOWN: Final = 0
#: the differences between time zones are multiples of this, in ns
_BETWEEN_ZONES: Final = 900 * 10**9
_NO_TIME: Final = np.uint64((1 << 64) - 1)  # of events without sample times


class TimeOfDay:
    """The offset of the wall clock; clocks: the feature, or None; quantum: of times, in ns."""

    def __init__(self, clocks: Any, quantum: int) -> None:
        self._ahead = None if clocks is None else np.uint64((clocks.wall_clock_ns - clocks.clockid_ns) % (1 << 64))
        # hours begin at other times in other zones: the texts are rounded again
        self._grain = np.uint64(_BETWEEN_ZONES if quantum % _BETWEEN_ZONES == 0 else max(quantum, 1))

    @classmethod
    def of(cls, data: SampleSource, quantum: int) -> TimeOfDay:
        """Return the clock of a recording; warn if that has no wall clock time."""
        clocks = data.features.get("clock_data")
        if clocks is None and NOT_SAID not in data.warnings:
            data.warnings.append(NOT_SAID)
        return cls(clocks, quantum)

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with a column wall."""
        wall = np.full(len(samples), UNKNOWN, np.int64)
        if self._ahead is not None:
            time = samples.column("time").astype(np.uint64)
            tick = ((time + self._ahead) // self._grain * self._grain).view(np.int64)
            wall = np.where((time != _NO_TIME) & (tick > 0), tick, wall)
        return samples.with_columns({**samples.columns, "wall": wall})


# The tasks of samples at their moments, as numbers that are equal for equal states.


# odd and without a pattern, so that sums of products with it collide by accident once in 2^60 pairs
MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)
_WORTH: Final = 4  # average samples of one task in a row from which on runs are looked up instead of samples
_SAMPLES_A_TASK: Final = 8  # with fewer samples per task, the states of all tasks are not computed

NumberT = TypeVar("NumberT", np.int64, np.uint64)


class TaskStates:
    """The states of a batch's tasks, computed once for each task and moment."""

    def __init__(self, timeline: TaskTimeline, pid: NDArray[Any], tid: NDArray[Any], key: NDArray[np.uint64]) -> None:
        self._timeline = timeline
        task = _tasks(pid, tid)
        # samples of one task often follow each other
        fresh = np.ones(len(task), np.bool_)
        np.not_equal(task[1:], task[:-1], out=fresh[1:])
        low, high = timeline.first_and_last_rank(key) if len(key) else (0, 0)
        if low == high:
            ids, tasks = self._among_all(task, fresh)
            self._rank = np.full(len(tasks), low, np.int32)
        else:
            rank = timeline.ranks(key)
            fresh[1:] |= rank[1:] != rank[:-1]
            begins = rows_where(fresh)
            some, new = IdTable().ids_and_new(task[begins] ^ rank[begins].astype(np.uint64) * MIX)
            ids = _spread(some, begins, len(task))
            tasks, self._rank = task[begins[new]], rank[begins[new]]
        self._of_sample = ids
        self._pid, self._tid = tasks >> _HALF, tasks & _LOW

    def _among_all(self, task: NDArray[np.uint64], fresh: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """Return the task of each sample, and the tasks; fresh: marks changes of the task."""
        table = self._timeline.tasks if len(self._timeline.tasks) <= len(task) // _SAMPLES_A_TASK else IdTable()
        if int(np.count_nonzero(fresh)) * _WORTH > len(task):
            ids = table.ids(task)
        else:
            begins = rows_where(fresh)
            ids = _spread(table.ids(task[begins]), begins, len(task))
        return ids, table.keys

    def comm(self) -> NDArray[np.int64]:
        """Return numbers that are equal for threads of one comm."""
        return self._comm()[self._of_sample]

    def process_comm(self) -> NDArray[np.int64]:
        """Return numbers that are equal for threads of processes with one comm."""
        return self._timeline.process_comm_states(self._pid, self._tid, self._rank)[self._of_sample]

    def mode_space(self, cpumode: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return numbers that are equal if addresses in the samples' own modes mean the same."""
        return self._by_mode(cpumode, *self._spaces())

    def space(self) -> NDArray[np.int64]:
        """Return numbers that are equal if all addresses mean the same."""
        return self._space()[self._of_sample]

    def combine(self, names: Collection[str], cpumode: NDArray[np.uint8] | None) -> NDArray[np.uint64]:
        """Combine some of these methods, by name, into one number."""
        comm = self._comm() if "comm" in names else np.zeros(len(self._tid), np.int64)
        if "mode_space" in names:
            assert cpumode is not None
            kernel, user = self._spaces()
            return self._by_mode(cpumode, _mix(comm, kernel), _mix(comm, user))
        return _mix(comm, self._space() if "space" in names else comm)[self._of_sample]

    def _comm(self) -> NDArray[np.int64]:
        return self._timeline.comm_states(self._tid, self._rank)

    def _spaces(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each task at its moment the state of the kernel's addresses, and of its own."""
        kernel, user = self._timeline.kernel_states(self._rank), self._timeline.space_states(self._pid, self._rank)
        return kernel.astype(np.int64), user.astype(np.int64)

    def _space(self) -> NDArray[np.int64]:
        kernel, user = self._spaces()
        return kernel << 32 | user

    def _by_mode(self, cpumode: NDArray[np.uint8], kernel: NDArray[NumberT], user: NDArray[NumberT]) -> NDArray[NumberT]:
        """Return the number of each sample: of its task's moment, for the kernel, or of its task."""
        both = np.concatenate([user, kernel])
        numbers: NDArray[NumberT] = both.take(self._of_sample + np.int32(len(user)) * (cpumode == MISC_KERNEL))
        return numbers


def _tasks(pid: NDArray[Any], tid: NDArray[Any]) -> NDArray[np.uint64]:
    """Combine both ids into one number."""
    halves = np.empty((len(pid), 2), np.uint32)
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    halves[:, low], halves[:, high] = tid, pid
    return halves.view(np.uint64)[:, 0]


def _spread(ids: NDArray[np.int32], begins: NDArray[np.intp], size: int) -> NDArray[np.int32]:
    """Return the id of each sample: of the last run that begins before it."""
    return np.repeat(ids, np.diff(begins, append=size))


def _mix(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Combine two numbers into one; sums with powers collide by accident only."""
    product = (one.view(np.uint64) * MIX ^ two.view(np.uint64)) * MIX
    return (product ^ product >> _HALF) * MIX


# Hash rows of numbers as 64-bit numbers: rows of several columns, and ragged rows.


_BASE: Final = 0xD1342543DE82EF95
_FIRST_POWERS: Final = 1 << 10
_BLOCK: Final = 1 << 15  # words of rows processed together


class _Powers:
    """The powers of an odd number modulo 2^64, and of its inverse."""

    def __init__(self, base: int) -> None:
        self._bases = base, pow(base, -1, 1 << 64)
        self._powers = [np.zeros(0, np.uint64)] * 2

    def upto(self, size: int) -> list[NDArray[np.uint64]]:
        """Return at least the first `size` powers of both."""
        if size > len(self._powers[0]):
            size = max(_FIRST_POWERS, 1 << (size - 1).bit_length())
            self._powers = [np.multiply.accumulate(np.full(size, base, np.uint64)) for base in self._bases]
        return self._powers


_powers = _Powers(_BASE)


def combine_columns(columns: Sequence[NDArray[np.generic]]) -> NDArray[np.uint64]:
    """Combine several columns of integers into one number a row; rows that differ in any column get different numbers."""
    powers = _powers.upto(len(columns) + 1)[0]
    total, product = np.zeros((2, len(columns[0])), np.uint64)
    for column, power in zip(columns, powers[1:], strict=False):
        if column.any():
            np.multiply(column.view(np.uint64) if column.dtype == np.int64 else column.astype(np.uint64), power, out=product)
            total += product
    return total


def row_fingerprints(rows: Ragged | Slices) -> NDArray[np.uint64]:
    """Return a hash of each row's elements.

    It is a polynomial of the elements, computed over all words at once, or over as many as the processor's
    cache holds: the sum from the row's begin to its end, divided by the power at its begin.
    """
    if isinstance(rows, Slices) and not (rows.words.dtype.isnative and rows.ascend):
        rows = rows.gather()
    if isinstance(rows, Slices):
        values, starts, lengths = rows.words, rows.starts, rows.lengths
    else:
        values, starts, lengths = rows.values, rows.offsets[:-1], rows.lengths
    ends = starts + lengths
    borders = _borders(starts)
    size = max((int(ends[end - 1] - starts[begin]) for begin, end in pairwise(borders)), default=0)
    powers, inverses = _powers.upto(size + 1)
    running, terms, hashes = np.zeros(size + 1, np.uint64), np.empty(size, np.uint64), np.empty(len(starts), np.uint64)
    for begin, end in pairwise(borders):
        first = starts[begin]
        count = int(ends[end - 1] - first)
        np.multiply(values[first : first + count], powers[:count], out=terms[:count])
        np.cumsum(terms[:count], out=running[1 : count + 1])  # overflow wraps around, and the differences stay correct
        froms = starts[begin:end] - first
        hashes[begin:end] = (running.take(ends[begin:end] - first) - running.take(froms)) * inverses.take(froms)
    hashes += lengths.astype(np.uint64) * MIX
    # combine_columns() also sums powers: these must not cancel
    return (hashes ^ hashes >> _HALF) * MIX


def _borders(starts: NDArray[np.int64]) -> list[int]:
    """Return the first row of each block of rows, and the number of rows."""
    if not len(starts):
        return [0]
    inner = starts.searchsorted(np.arange(int(starts[0]) + _BLOCK, int(starts[-1]) + 1, _BLOCK)).tolist()
    return [0, *dict.fromkeys(inner), len(starts)]
