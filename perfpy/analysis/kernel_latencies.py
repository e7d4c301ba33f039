"""How long the kernel lets programs wait, as durations: on the run queue, in system calls, for block devices, locks and interrupts.

Each kind needs its tracepoints in the recording (KINDS). Durations are grouped: by system call, by device and direction, by type of lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.analysis.locks.contention import BEGIN, END, read_waits, type_of
from perfpy.analysis.sched.events import SWITCH, read_events
from perfpy.analysis.sched.latency import transitions_of
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.event_pairs import numbers_of_keys, pair_events
from perfpy.scheduling.run_queue import run_queue_delays

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
    delays = run_queue_delays(transitions_of(read_events(source, columns=("cpu",))))
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
    parts = np.split(durations[order], starts[1:]) if len(distinct) else []
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
