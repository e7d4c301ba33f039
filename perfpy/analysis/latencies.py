"""How long the kernel lets programs wait, as durations: on the run queue, in system calls, for block devices, locks and interrupts.

Each kind needs its tracepoints in the recording (KINDS). Durations are grouped: by system call, by device and direction, by type of lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import pieces
from perfpy.abi.system_calls import names_by_number
from perfpy.analysis.lock_waits import BEGIN, END, read_waits, type_of
from perfpy.analysis.scheduler import SWITCH, read_events, transitions_of
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.segments import numbers_of_keys, pair_events
from perfpy.scheduling.switch_times import QueueStates, sorted_by_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]


#: kind -> the tracepoints that it needs
KINDS: Final = {
    "runqueue": (SWITCH,),
    "syscalls": ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit"),
    "block": ("block:block_rq_issue", "block:block_rq_complete"),
    "locks": (BEGIN, END),
    "softirq": ("irq:softirq_entry", "irq:softirq_exit"),
    "irq": ("irq:irq_handler_entry", "irq:irq_handler_exit"),
}
#: softirq vectors by number (include/linux/interrupt.h)
_VECTORS: Final = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
_MINOR_BITS: Final = 20  # of a device number inside the kernel


class LatencyGroup(NamedTuple):
    """Durations of one kind.

    Attributes:
        name: for example the name of a system call; a recorded text.
        durations: int64[n], nanoseconds.
    """

    name: str
    durations: Int64


class KernelLatencies(NamedTuple):
    """The durations of a recording.

    Attributes:
        groups: those with the longest total first.
        open_count: begins without an end.
    """

    groups: list[LatencyGroup]
    open_count: int


def read_latencies(source: SampleSource, kind: str) -> KernelLatencies:
    """Return the durations of a kind. Raises UsageError if the recording lacks the tracepoints."""
    missing = [name for name in KINDS[kind] if name not in tracepoints_of(source)]
    if missing:
        events = ",".join(KINDS[kind])
        raise UsageError(f"{source.path}: no tracepoint {missing[0]}; record it: perfpy record -a -c 1 -e {events} -- COMMAND")
    if kind == "runqueue":
        return _grouped_delays(source)
    if kind == "locks":
        return _lock_waits(source)
    return _READERS[kind](source)


def _grouped_delays(source: SampleSource) -> KernelLatencies:
    begin, end = run_queue_waits(source)
    return KernelLatencies([LatencyGroup("run queue", end - begin)], 0)


def run_queue_waits(source: SampleSource) -> tuple[Int64, Int64]:
    """Return the begin and the end of each wait for a CPU, in nanoseconds."""
    delays = QueueStates(sorted_by_thread(transitions_of(read_events(source, columns=("cpu",))))).delays()
    is_task = delays.tid != 0
    return delays.begin[is_task], delays.end[is_task]


def _lock_waits(source: SampleSource) -> KernelLatencies:
    waits = read_waits(source)
    ended = waits.duration >= 0
    return KernelLatencies(_grouped(waits.flags[ended], waits.duration[ended], type_of), int((~ended).sum()))


def _system_calls(source: SampleSource) -> KernelLatencies:
    enter, leave = _both(source, "syscalls", ("id",))
    names = names_by_number(str(source.features.get("arch") or "x86_64"))
    pairs = pair_events(enter.tid.astype(np.int64), enter.order, leave.tid.astype(np.int64), leave.order)
    durations = np.maximum(leave.time[pairs.end] - enter.time[pairs.begin], 0)
    numbers = enter.fields["id"][pairs.begin].astype(np.int64)
    return KernelLatencies(_grouped(numbers, durations, lambda number: names.get(number, f"call {number}")), pairs.open_count)


def _block_requests(source: SampleSource) -> KernelLatencies:
    issue, complete = _both(source, "block", ("dev", "sector"), texts=("rwbs",))
    count = len(issue.order)
    key = numbers_of_keys(*(np.concatenate([one.fields[name].astype(np.int64) for one in (issue, complete)]) for name in ("dev", "sector")))
    pairs = pair_events(key[:count], issue.order, key[count:], complete.order)
    durations = np.maximum(complete.time[pairs.end] - issue.time[pairs.begin], 0)
    devices = issue.fields["dev"].astype(np.int64)[pairs.begin]
    texts = issue.fields["rwbs"][pairs.begin]
    labels, which = np.unique(texts, return_inverse=True)
    width = np.int64(len(labels) + 1)

    def name(number: int) -> str:
        device, label = divmod(number, int(width))
        return f"{device >> _MINOR_BITS}:{device & ((1 << _MINOR_BITS) - 1)} {_direction(labels[label])}"

    return KernelLatencies(_grouped(devices * width + which.ravel(), durations, name), pairs.open_count)


def _direction(flags: bytes) -> str:
    """Return what a request does, by the letters of rwbs (include/trace/events/block.h)."""
    text = flags.decode("ascii", "replace")
    words = {"R": "read", "W": "write", "D": "discard", "F": "flush"}
    return next((words[letter] for letter in text.lstrip("F") if letter in words), "flush" if text.startswith("F") else "other")


def _soft_interrupts(source: SampleSource) -> KernelLatencies:
    return _on_cpus(source, "softirq", "vec", lambda vector: _VECTORS[vector] if 0 <= vector < len(_VECTORS) else f"vector {vector}")


def _interrupts(source: SampleSource) -> KernelLatencies:
    return _on_cpus(source, "irq", "irq", lambda number: f"irq {number}")


def _on_cpus(source: SampleSource, kind: str, field: str, name: Callable[[int], str]) -> KernelLatencies:
    """Return the durations of what a CPU begins and ends, by the number in a field."""
    entry, leave = _both(source, kind, (field,))
    count = len(entry.order)
    columns = (np.concatenate([one.cpu for one in (entry, leave)]), np.concatenate([one.fields[field] for one in (entry, leave)]))
    key = numbers_of_keys(*(column.astype(np.int64) for column in columns))
    pairs = pair_events(key[:count], entry.order, key[count:], leave.order)
    durations = np.maximum(leave.time[pairs.end] - entry.time[pairs.begin], 0)
    return KernelLatencies(_grouped(entry.fields[field][pairs.begin].astype(np.int64), durations, name), pairs.open_count)


def _both(source: SampleSource, kind: str, fields: tuple[str, ...], texts: tuple[str, ...] = ()) -> tuple[TracepointRows, TracepointRows]:
    begin, end = KINDS[kind]
    tables = read_tracepoints(source, {begin: (*fields, *texts), end: fields})
    first = tables[begin].with_numbers(fields)
    for name in texts:
        column = first.fields.get(name)
        if not (isinstance(column, np.ndarray) and column.dtype.kind == "S"):
            first.fields[name] = np.zeros(len(first.order), "S1")
    return first, tables[end].with_numbers(fields)


def _grouped(numbers: Int64, durations: Int64, name: Callable[[int], str]) -> list[LatencyGroup]:
    """Return the durations by the names of numbers, those with the longest total first."""
    order = np.argsort(numbers, kind="stable")
    distinct, starts = np.unique(numbers[order], return_index=True)
    parts = pieces(durations[order], starts[1:]) if len(distinct) else []
    merged: dict[str, list[Int64]] = {}
    for number, part in zip(distinct.tolist(), parts, strict=True):
        merged.setdefault(name(number), []).append(part)
    groups = [LatencyGroup(text, np.concatenate(some)) for text, some in merged.items()]
    return sorted(groups, key=lambda group: (-int(group.durations.sum()), group.name))


_READERS: Final = {"syscalls": _system_calls, "block": _block_requests, "softirq": _soft_interrupts, "irq": _interrupts}


def all_durations(groups: Iterable[LatencyGroup]) -> Int64:
    """Return the durations of all groups."""
    parts = [group.durations for group in groups]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


# Calls of a function from samples at its entry and its return: duration, time off the CPU, nesting.
#
# A return belongs to the last entry of its thread whose stack pointer is not beyond the return's. Entries that are left by longjmp or an
# exception have no return and are dropped.


_NESTED_MOST: Final = 1 << 16  # calls of one thread without a return
_RETURN_SLACK: Final = 16  # the return's stack pointer is above the entry's by the return address


class FunctionCalls(NamedTuple):
    """The complete calls of a function, a row a call, by their ends.

    Attributes:
        tid: the thread.
        start: nanoseconds.
        duration: nanoseconds.
        off_cpu: nanoseconds of the duration in which the thread did not run.
        entry: row of the sample at the entry.
        exit: row of the sample at the return.
        open_count: entries without a return.
    """

    tid: Int64
    start: Int64
    duration: Int64
    off_cpu: Int64
    entry: Int64
    exit: Int64
    open_count: int


class CallSamples(NamedTuple):
    """Samples at entries, or at returns: thread, time in nanoseconds, stack pointer."""

    tid: Int64
    time: Int64
    stack_pointer: NDArray[np.uint64]


def pair_calls(entries: CallSamples, returns: CallSamples, switches: Iterable[tuple[int, int, bool]] = ()) -> FunctionCalls:
    """Return the calls of a function.

    Args:
        entries: the samples at the entry.
        returns: the samples at the return.
        switches: (thread, time, whether the thread leaves the CPU), by time.
    """
    is_return = np.concatenate((np.zeros(len(entries.tid), np.bool_), np.ones(len(returns.tid), np.bool_)))
    tid, time, pointer = (np.concatenate(columns) for columns in zip(entries, returns, strict=True))
    row = np.concatenate((np.arange(len(entries.tid)), np.arange(len(returns.tid))))
    order = np.lexsort((is_return, time))
    stacks: dict[int, list[tuple[int, int, int]]] = {}
    calls: list[tuple[int, int, int, int, int]] = []
    for thread, now, stack_pointer, ends, sample in zip(
        *(column[order].tolist() for column in (tid, time, pointer, is_return, row)), strict=True
    ):
        stack = stacks.setdefault(thread, [])
        if not ends:
            if len(stack) < _NESTED_MOST:
                stack.append((stack_pointer, now, sample))
            continue
        while len(stack) > 1 and stack[-1][0] + _RETURN_SLACK < stack_pointer and stack[-2][0] <= stack_pointer:
            stack.pop()  # left without a return
        if stack and stack[-1][0] <= stack_pointer:
            _, began, entry = stack.pop()
            calls.append((thread, began, now - began, entry, sample))
    table = np.array(calls, np.int64).reshape(-1, 5)
    off_cpu = _off_cpu(table[:, 0], table[:, 1], table[:, 1] + table[:, 2], switches)
    open_count = sum(map(len, stacks.values()))
    return FunctionCalls(table[:, 0], table[:, 1], table[:, 2], off_cpu, table[:, 3], table[:, 4], open_count)


def _off_cpu(tid: Int64, start: Int64, end: Int64, switches: Iterable[tuple[int, int, bool]]) -> Int64:
    """Return the time of each call in which its thread was off the CPU."""
    departures: dict[int, int] = {}
    intervals: dict[int, list[tuple[int, int]]] = {}
    for thread, now, leaves in switches:
        if leaves:
            departures[thread] = now
        elif thread in departures:
            intervals.setdefault(thread, []).append((departures.pop(thread), now))
    result = np.zeros(len(tid), np.int64)
    for thread, pairs in intervals.items():
        mine = np.flatnonzero(tid == thread)
        out, back = np.array(pairs, np.int64).T
        total = np.concatenate(([0], np.cumsum(back - out)))
        result[mine] = _until(end[mine], out, back, total) - _until(start[mine], out, back, total)
    return result


def _until(time: Int64, out: Int64, back: Int64, total: Int64) -> Int64:
    """Return the time off the CPU up to each moment."""
    row = np.searchsorted(out, time, "right")
    inside = np.where(row > 0, np.minimum(time, back[row - 1]) - out[row - 1], 0)
    before = total[np.maximum(row - 1, 0)]
    return np.where(row > 0, before + inside, 0)


def nearest_rank(values: Int64, share: float) -> int:
    """Return the smallest value that at least a share of the values do not exceed; 0 without values."""
    if not len(values):
        return 0
    ordered = np.sort(values)
    return int(ordered[min(max(int(np.ceil(share * len(ordered))) - 1, 0), len(ordered) - 1)])


def duration_bins(durations: Int64) -> list[tuple[int, int, int]]:
    """Return (from, to, count) of a histogram of durations; each bin is twice as wide as the one before."""
    if not len(durations):
        return []
    exponent = np.floor(np.log2(np.maximum(durations, 1))).astype(np.int64)
    first, last = int(exponent.min()), int(exponent.max())
    counts = np.bincount(exponent - first, minlength=last - first + 1).tolist()
    return [(1 << first + number, 1 << first + number + 1, count) for number, count in enumerate(counts)]
