"""The tasks for whose sake a recording of all CPUs is made (perfpy why): which processes concern them, and one sample for each hit.

Unwinding the stacks of a busy machine takes many times as long as recording them, and what runtimes' memory tells is gone by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import PerfType
from perfpy.capture.unwinding.process import has_stacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.sample_decoding import SampleLayout
    from perfpy.capture.off_cpu_events import RawField
    from perfpy.capture.unwinding.process import SharedProcesses
    from perfpy.perfdata.records.stream import Chunk


_FAMILY: Final = 0  # the level of the processes themselves
_FARTHEST: Final = 2  # levels: the waker of a waker
_IN_INTERRUPT: Final = 0x8 | 0x10  # TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ: the current process did not wake anybody
_FLAGS: Final = 2  # the offset of common_flags in raw data (trace_events.h, struct trace_entry)
_WAKINGS: Final = ("sched_waking", "sched_wakeup_new")


class ConcernedProcesses:
    """The processes whose stacks are unwound.

    These are the chosen ones, those that they start, and those that wake threads of either.

    Args:
        pids: of the processes.
        recorder: the process whose new children belong to them, too.
        shared: where another process reads which ones these are; None for none.

    Attributes:
        pids: int64[n], of all so far.
    """

    def __init__(self, pids: Iterable[int], recorder: int, shared: SharedProcesses | None = None) -> None:
        self._recorder = recorder
        self._shared = shared
        self._levels = dict.fromkeys(pids, _FAMILY)
        self._process_of: dict[int, int] = {}  # of each thread
        self.pids = np.array([*self._levels], np.int64)

    @property
    def sorted_pids(self) -> NDArray[np.uint32]:
        """The processes in order."""
        return np.sort(self.pids).astype(np.uint32)

    @property
    def is_late(self) -> bool:
        """Whether the remaining stacks are not to be unwound, because the user waits for them."""
        return self._shared is not None and self._shared.is_late

    def choose(self, pids: Iterable[int]) -> list[int]:
        """Return those of some processes that are among them."""
        return [pid for pid in pids if pid in self._levels]

    def note_forks(self, forks: Iterable[tuple[int, int, int]]) -> None:
        """Note new threads: process, parent process, thread."""
        for pid, parent, tid in forks:
            self._process_of[tid] = pid
            if pid != parent and (parent == self._recorder or self._levels.get(parent) == _FAMILY):
                self._add(pid, _FAMILY)

    def note_threads(self, pid: NDArray[np.int32], tid: NDArray[np.int32]) -> None:
        """Note the processes of threads; pid, tid: of samples."""
        pairs = distinct(pid.astype(np.int64) << 32 | tid.astype(np.int64) & 0xFFFFFFFF)
        self._process_of.update(zip((pairs & 0xFFFFFFFF).tolist(), (pairs >> 32).tolist(), strict=True))

    def concern_none(self, pid: NDArray[np.int32], raw: Ragged, woken: RawField) -> NDArray[np.bool_]:
        """Return which wakeups are neither by the processes nor of their threads. The arguments are those of note_wakeups()."""
        is_foreign = np.isin(pid, self.pids, invert=True)
        rows = np.flatnonzero(is_foreign & (raw.lengths >= woken.offset + 4))
        tids, which = np.unique(_field(raw, raw.offsets[rows], woken), return_inverse=True)
        known = {0, *self._levels}
        are_foreign = [self._process_of.get(tid, 0) not in known for tid in tids.tolist()]
        is_foreign[:] = False
        is_foreign[rows] = np.array(are_foreign, np.bool_)[which.ravel()]
        return is_foreign

    def note_wakeups(self, pid: NDArray[np.int32], raw: Ragged, woken: RawField) -> None:
        """Note who woke whom, except in interrupts.

        Args:
            pid: int32[n], the current process of each sample.
            raw: its raw data.
            woken: the field with the thread that is woken, of 32 bits.
        """
        rows = np.flatnonzero(raw.lengths >= max(woken.offset + 4, _FLAGS + 1))
        begins = raw.offsets[rows]
        rows, begins = (column[raw.values[begins + _FLAGS] & _IN_INTERRUPT == 0] for column in (rows, begins))
        pairs = distinct(pid[rows].astype(np.int64) << 32 | _field(raw, begins, woken))
        wakers, targets = (pairs >> 32).tolist(), (pairs & 0xFFFFFFFF).tolist()
        for _ in range(_FARTHEST):
            for waker, target in zip(wakers, targets, strict=True):
                level = self._levels.get(self._process_of.get(target, 0), _FARTHEST)
                if waker > 0 and level < self._levels.get(waker, _FARTHEST + 1) - 1:
                    self._add(waker, level + 1)

    def _add(self, pid: int, level: int) -> None:
        if pid not in self._levels:
            self.pids = np.append(self.pids, pid)
            if self._shared is not None:
                self._shared.add(pid)
        self._levels[pid] = level


def _field(raw: Ragged, begins: NDArray[np.int64], field: RawField) -> NDArray[np.int64]:
    """Return a field of 32 bits in the raw data that begin at some offsets."""
    values = raw.values[begins[:, None] + np.arange(field.offset, field.offset + 4)]
    return np.ascontiguousarray(values).view("=u4").ravel().astype(np.int64)


def wakings_of(attrs: Sequence[EventAttr]) -> dict[int, RawField]:
    """Return the field with the thread that is woken, for the events among attrs that have one."""
    from perfpy.capture.off_cpu_events import tracepoint_field
    from perfpy.kernel.sysfs import Tracefs

    tracefs = Tracefs()
    fields = {tracefs.event_id("sched", name): tracepoint_field("sched", name, "pid") for name in _WAKINGS}
    chosen = ((number, fields.get(attr.config)) for number, attr in enumerate(attrs) if attr.type == PerfType.TRACEPOINT)
    return {number: field for number, field in chosen if field is not None}


# A hit of a tracepoint may have samples of several events: with the stack of a chosen task, with that of any task, and without one. The
# kernel writes them one after another, because interrupts are off in these tracepoints. Their raw data are the same bytes. A switch away
# from a thread is never followed by the same switch on its CPU. The same wakeup may follow another: each has one sample without a stack.


class _Hits(NamedTuple):
    """Samples of one tracepoint, by CPU and in order.

    Attributes:
        row: int64[n], among the samples of the piece; -1: the last one on its CPU in an earlier piece.
        cpu, time: int64[n].
        has_stack: bool[n].
        raw: uint8[n, size].
    """

    row: NDArray[np.int64]
    cpu: NDArray[np.int64]
    time: NDArray[np.int64]
    has_stack: NDArray[np.bool_]
    raw: NDArray[np.uint8]

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> _Hits:
        """Select samples by index or mask."""
        return _Hits._make(column[chosen] for column in self)


class RepeatedHits:
    """Finds the samples to drop so that each hit has one: that with a stack if there is one. attrs: of the recording's events."""

    def __init__(self, attrs: Sequence[EventAttr]) -> None:
        by_tracepoint: dict[int, list[int]] = {}
        for number, attr in enumerate(attrs):
            if attr.type == PerfType.TRACEPOINT:
                by_tracepoint.setdefault(attr.config, []).append(number)
        self._events = [numbers for numbers in by_tracepoint.values() if len(numbers) > 1]
        self._have_stacks = [has_stacks(attr) for attr in attrs]
        self._last: dict[int, _Hits] = {}  # of earlier pieces, by the first event

    def are_repeated(
        self, samples: Chunk, events: NDArray[np.int32], times: NDArray[np.uint64], layouts: Sequence[SampleLayout]
    ) -> NDArray[np.bool_]:
        """Return which samples of a piece to drop. events, times: of the samples."""
        is_repeated = np.zeros(len(samples), np.bool_)
        for numbers in self._events:
            parts = [self._hits(number, samples, events, times, layouts[number]) for number in numbers]
            parts = [part for part in parts if len(part.row)]
            if last := self._last.get(numbers[0]):
                parts.insert(0, last)
            sizes = {part.raw.shape[1] for part in parts}
            if len(sizes) != 1:  # none, or damaged ones
                continue
            hits = _Hits._make(map(np.concatenate, zip(*parts, strict=True)))
            hits = hits.take(np.lexsort((hits.row, hits.cpu)))
            dropped = hits.row[repeated_hits(hits)]
            is_repeated[dropped[dropped >= 0]] = True
            is_last = np.append(hits.cpu[1:] != hits.cpu[:-1], True)
            self._last[numbers[0]] = hits.take(is_last)._replace(row=np.full(int(is_last.sum()), -1, np.int64))
        return is_repeated

    def _hits(self, number: int, samples: Chunk, events: NDArray[np.int32], times: NDArray[np.uint64], layout: SampleLayout) -> _Hits:
        rows = np.flatnonzero(events == number)
        columns = layout.decode(samples.data, samples.starts[rows], {"cpu", "raw"})
        raw = columns["raw"]
        size = int(raw.lengths.max(initial=0))
        whole = np.flatnonzero(raw.lengths == size)
        table = raw.values[raw.offsets[whole, None] + np.arange(size)].view(np.uint8)
        rows, cpu = rows[whole], columns["cpu"][whole].astype(np.int64)
        return _Hits(rows, cpu, times[rows].astype(np.int64), np.full(len(rows), self._have_stacks[number]), table)


def repeated_hits(hits: _Hits) -> NDArray[np.bool_]:
    """Return which samples to drop, given those of one tracepoint by CPU and in order."""
    count = len(hits.row)
    index = np.arange(count)
    is_new = np.append(True, (hits.cpu[1:] != hits.cpu[:-1]) | (hits.raw[1:] != hits.raw[:-1]).any(axis=1))
    run = np.cumsum(is_new) - 1
    plain = ~hits.has_stack
    before = np.maximum.accumulate(np.where(plain, index, -1))
    after = np.minimum.accumulate(np.where(plain, index, count)[::-1])[::-1]
    has_before = (before >= 0) & (run[before] == run)
    has_after = (after < count) & (run[np.minimum(after, count - 1)] == run)
    is_nearer = hits.time - hits.time[before] <= hits.time[np.minimum(after, count - 1)] - hits.time
    # without a plain sample, which was lost, the run is one hit
    hit = np.where(has_before & (~has_after | is_nearer), before, np.where(has_after, after, -1 - run))
    stacked = index[hits.has_stack]
    of_hit, first = np.unique(hit[stacked], return_index=True)
    dropped: NDArray[np.bool_] = hits.has_stack.copy()
    dropped[stacked[first]] = False
    counted, stack_of = of_hit[of_hit >= 0], stacked[first][of_hit >= 0]
    is_written = hits.row[counted] < 0  # an earlier piece has the sample without a stack
    dropped[counted] = True
    dropped[stack_of[is_written]] = True
    return dropped
