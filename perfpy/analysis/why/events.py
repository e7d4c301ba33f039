"""The events that `perfpy why` reads: switches, wakeups and system calls as columns, and samples of the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import TracepointRows, read_tracepoints, tracepoints_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource

SWITCH: Final = "sched:sched_switch"
WAKING: Final = "sched:sched_waking"
WAKEUP: Final = "sched:sched_wakeup"
NEW: Final = "sched:sched_wakeup_new"
CALL: Final = "raw_syscalls:sys_enter"

_NO_SWITCHES: Final = "{path}: no sched:sched_switch tracepoint with its format; record one: perfpy why -o FILE -- COMMAND"
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_COLUMNS: Final = ("pid", "tid", "time", "callchain")


class CpuSamples(NamedTuple):
    """Samples of running threads, in order of delivery.

    Attributes:
        pid, tid: int64[n].
        time: int64[n], nanoseconds.
        key: uint64[n], delivery keys.
        chains: callchains.
    """

    pid: NDArray[np.int64]
    tid: NDArray[np.int64]
    time: NDArray[np.int64]
    key: NDArray[np.uint64]
    chains: Ragged


class WhyEvents(NamedTuple):
    """The events of a recording.

    Attributes:
        switches: sched_switch, with callchains of the threads that leave.
        wakeups: sched_waking, or else sched_wakeup, and sched_wakeup_new, with callchains of the wakers.
        is_new: bool[n], of each wakeup: whether it is one of a new thread.
        calls: raw_syscalls:sys_enter.
        samples: of running threads.
    """

    switches: TracepointRows
    wakeups: TracepointRows
    is_new: NDArray[np.bool_]
    calls: TracepointRows
    samples: CpuSamples


def read_why_events(source: SampleSource) -> WhyEvents:
    """Read the events of a recording. Raises UsageError if it has no switches."""
    present = tracepoints_of(source)
    if SWITCH not in present:
        raise UsageError(_NO_SWITCHES.format(path=source.path))
    waking = WAKING if WAKING in present else WAKEUP
    wanted = {
        SWITCH: ("prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio"),
        waking: ("pid", "common_flags"),
        NEW: ("pid", "common_flags"),
        CALL: ("id", "args"),
    }
    rows = read_tracepoints(source, wanted, with_chains=(SWITCH, waking, NEW))
    wakeups, is_new = _merged([(rows[name], name == NEW) for name in (waking, NEW) if name in rows])
    calls = rows.get(CALL)
    return WhyEvents(rows[SWITCH], wakeups, is_new, _empty(wanted[CALL]) if calls is None else calls, _read_samples(source))


def read_names(source: SampleSource) -> tuple[NDArray[np.int64], NDArray[np.bytes_]]:
    """Return the threads that left their CPUs, and their names at that time; nothing if the recorded format lacks these."""
    rows = read_tracepoints(source, {SWITCH: ("prev_pid", "prev_comm")})[SWITCH]
    comms = rows.fields.get("prev_comm")
    if not isinstance(comms, np.ndarray) or comms.ndim != 1 or comms.dtype.kind != "S":
        return np.zeros(0, np.int64), np.zeros(0, "S16")
    return numbers_of(rows, "prev_pid"), comms


def numbers_of(rows: TracepointRows, name: str) -> NDArray[np.int64]:
    """Return a field as int64[n]; zeros if the recorded format lacks it."""
    column = rows.fields.get(name)
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu":
        return column.astype(np.int64)
    return np.zeros(len(rows.order), np.int64)


def first_arguments(calls: TracepointRows) -> NDArray[np.uint64]:
    """Return the first argument of each system call; zeros if the recorded format lacks it."""
    column = calls.fields.get("args")
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1]:
        return column[:, 0].astype(np.uint64)
    return np.zeros(len(calls.order), np.uint64)


def _empty(fields: tuple[str, ...]) -> TracepointRows:
    none = np.zeros(0, np.int64)
    some = none.astype(np.int32)
    columns = {name: np.zeros((0, 6), np.uint64) if name == "args" else none for name in fields}
    return TracepointRows(none, none.astype(np.uint64), none, some, some, some, columns, Ragged.empty(0, np.uint64))


def _merged(parts: list[tuple[TracepointRows, bool]]) -> tuple[TracepointRows, NDArray[np.bool_]]:
    """Return the rows of both tracepoints in order of delivery, and which are of new threads."""
    rows = [part for part, _ in parts]
    if not rows:
        return _empty(("pid", "common_flags")), np.zeros(0, bool)
    columns = [np.concatenate(column) for column in zip(*(part[:6] for part in rows), strict=True)]
    fields = {name: np.concatenate([numbers_of(part, name) for part in rows]) for name in ("pid", "common_flags")}
    chains = Ragged.concat([part.chains for part in rows if part.chains is not None])
    order = np.argsort(columns[0], kind="stable")
    is_new = np.repeat([new for _, new in parts], [len(part.order) for part in rows])
    return TracepointRows._make([*columns, fields, chains]).take(order), is_new[order]


def is_of_running_threads(event: FileEvent) -> bool:
    """Whether the samples of an event are taken at regular times of running threads."""
    attr = event.attr
    return attr.type == PerfType.HARDWARE or (attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS)


def _read_samples(source: SampleSource) -> CpuSamples:
    """Read the samples of the first event that samples running threads."""
    none = np.zeros(0, np.int64)
    event = next((event for event in source.events if is_of_running_threads(event)), None)
    parts: list[tuple[Columns, NDArray[np.uint64]]] = []
    for batch in source.batches(set(_COLUMNS)) if event is not None else ():
        chosen = np.flatnonzero(batch.event == event.index) if event is not None else none
        if len(chosen) and all(name in batch.columns for name in ("pid", "tid", "time")):
            parts.append((batch.columns.take(chosen), batch.key[chosen]))
    if not parts:
        return CpuSamples(none, none, none, none.astype(np.uint64), Ragged.empty(0, np.uint64))
    pid, tid, time = (np.concatenate([columns[name] for columns, _ in parts]).astype(np.int64) for name in ("pid", "tid", "time"))
    chains = [columns["callchain"] if "callchain" in columns else Ragged.empty(len(columns["tid"]), np.uint64) for columns, _ in parts]
    return CpuSamples(pid, tid, time, np.concatenate([key for _, key in parts]), Ragged.concat(chains))
