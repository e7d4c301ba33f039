"""The tasks of a recording: processes, their parents and names, the command that was recorded, and the program that recorded it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.flags import MISC_COMM_EXEC, PerfType, RecordType, SoftwareId
from perfpy.abi.framing import cut_comm
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import TracepointRows, read_tracepoints, tracepoints_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource


class StartedCommand(NamedTuple):
    """The command that was recorded, as its recorder knows it.

    Attributes:
        recorder: the process that recorded, and started the command.
        pid: the command's process; 0 without a command.
        name: its first word.
    """

    recorder: int
    pid: int
    name: str

    @property
    def comm(self) -> str:
        """The name of the process after its exec."""
        return _comm_after_exec(self.name)


class RecordedTasks(NamedTuple):
    """The tasks of a recording.

    Attributes:
        pid_of: thread -> process.
        parent_of: process -> the process that created it.
        execs: (process, comm, time) of each exec, in order.
        comm_of: thread -> its last name.
    """

    pid_of: Mapping[int, int]
    parent_of: Mapping[int, int]
    execs: Sequence[tuple[int, str, int]]
    comm_of: Mapping[int, str]


def read_tasks(source: SampleSource, pids: Mapping[int, int]) -> RecordedTasks:
    """Return the tasks. pids: thread -> process, of samples."""
    pid_of, parent_of, execs, comm_of = dict(pids), {}, [], {0: "swapper"}
    for side in source.side_band({RecordType.FORK, RecordType.COMM}):
        record = side.record
        pid_of[record.tid] = record.pid
        if hasattr(record, "ppid"):
            comm_of.setdefault(record.tid, comm_of.get(record.ptid, ""))
            if record.pid != record.ppid:
                parent_of[record.pid] = record.ppid
            continue
        comm_of[record.tid] = record.comm
        if record.misc & MISC_COMM_EXEC:
            execs.append((record.pid, record.comm, (record.sample_id.time or 0) if record.sample_id else 0))
    return RecordedTasks(pid_of, parent_of, execs, comm_of)


def commands_of(command_line: Sequence[str]) -> set[str]:
    """Return the names that the process of the recorded command may have. command_line: of the recorder, from the header."""
    words = list(command_line)
    candidates = words[words.index("--") + 1 : words.index("--") + 2] if "--" in words else words[1:]
    return {_comm_after_exec(word) for word in candidates} - {""}


def _comm_after_exec(path: str) -> str:
    """Return the name that the kernel gives a process which executes a file."""
    return cut_comm(os.path.basename(path))


def workload_of(names: Collection[str], tasks: RecordedTasks, last_seen: Mapping[int, int]) -> int | None:
    """Return the process of the recorded command: the longest-lived process that executed a program of that name.

    The recorder starts the command first, and stops at its end. Other programs of its name may be started meanwhile.

    Args:
        names: of the command.
        tasks: of the recording.
        last_seen: process -> time of its last switch, nanoseconds.
    """
    began = {pid: time for pid, comm, time in reversed(tasks.execs) if comm in names and pid in last_seen}
    return max(reversed(began), key=lambda pid: last_seen[pid] - began[pid], default=None)


def named_threads(tid: NDArray[np.int64], comm: NDArray[np.bytes_], names: Collection[str], tasks: RecordedTasks) -> list[StartedCommand]:
    """Return the processes whose first threads had one of these names; processes that the recorder started come first.

    Args:
        tid: int64[n], of each switch, the thread that left.
        comm: its name then.
        names: of the command that was recorded.
        tasks: of the recording.
    """
    rows = np.flatnonzero(np.isin(comm, [name.encode(errors="surrogateescape") for name in names]))
    pids, first = np.unique(tid[rows], return_index=True)
    commands = [
        StartedCommand(tasks.parent_of.get(pid, 0), pid, bytes(comm[rows[row]]).decode(errors="surrogateescape"))
        for pid, row in sorted(zip(pids.tolist(), first.tolist(), strict=True), key=lambda pair: pair[1])
        if tasks.pid_of.get(pid, pid) == pid
    ]
    return sorted(commands, key=lambda one: not tasks.comm_of.get(one.recorder, "").startswith("perf"))


def with_exec(tasks: RecordedTasks, started: StartedCommand, time: int) -> RecordedTasks:
    """Return the tasks with the exec of the command, which busy machines lose. time: its time, nanoseconds; 0: unknown."""
    if any(pid == started.pid for pid, _, _ in tasks.execs):
        return tasks
    inherited = ("", tasks.comm_of.get(started.recorder, ""))
    comm = started.comm if tasks.comm_of.get(started.pid, "") in inherited else tasks.comm_of[started.pid]
    return tasks._replace(execs=[*tasks.execs, (started.pid, comm, time)], comm_of={**tasks.comm_of, started.pid: comm})


def family_of(pids: Sequence[int], tasks: RecordedTasks) -> set[int]:
    """Return processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for child, parent in tasks.parent_of.items():
        children.setdefault(parent, []).append(child)
    family, left = set(pids), list(pids)
    while left:
        more = [child for child in children.get(left.pop(), ()) if child not in family]
        family.update(more)
        left += more
    return family


def recorders_of(tasks: RecordedTasks, recorder: int, family: set[int]) -> frozenset[int]:
    """Return the threads of the recorder and of its helpers, which are its children.

    Args:
        tasks: of the recording.
        recorder: the process that started the command; 0 if it is not known. Its name must be perfpy's or perf's.
        family: the explained processes.
    """
    if not recorder or not tasks.comm_of.get(recorder, "").startswith("perf"):
        return frozenset()
    processes = family_of([recorder], tasks) - family
    threads = (tid for tid, pid in tasks.pid_of.items() if pid in processes)
    return frozenset({*processes, *threads})


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


# The kinds of what a thread does: it runs, or it waits for a reason (perfpy.analysis.verdict.wait_reasons), whose numbers the kinds here
# continue. Each kind belongs to a column of the table of threads.
RUNNING: Final = reasons.OTHER + 1
SPINNING: Final = reasons.OTHER + 2  #: running in a function that waits for a spinlock
PAGE_FAULT: Final = reasons.OTHER + 3  #: blocked in a page fault
STOPPED: Final = reasons.OTHER + 4  #: stopped by a signal or a debugger
KINDS: Final = reasons.OTHER + 5

_OF_THREADS: Final = (
    *(reasons.LOCK, reasons.OBJECT_LOCK, reasons.GIL, reasons.WORLD_STOP, reasons.FILE_LOCK, reasons.KERNEL_LOCK, reasons.ROW_LOCK),
)
#: the columns of the table of threads, and the kinds in each
COLUMNS: Final[dict[str, tuple[int, ...]]] = {
    "running": (RUNNING, SPINNING),
    "runnable": (reasons.CPU,),
    "disk": (reasons.DISK,),
    "lock": (*_OF_THREADS, reasons.FUTEX),
    "pipe/socket": (reasons.PIPE, reasons.NETWORK, reasons.NAME, reasons.CLIENT, reasons.EVENTS, reasons.TERMINAL),
    "sleep": (reasons.SLEEP,),
    "page fault": (PAGE_FAULT,),
    "child": (reasons.CHILD,),
    "thread": (reasons.JOIN, reasons.BARRIER, reasons.QUEUE, reasons.FULL_QUEUE, reasons.RESULT, reasons.CONDITION, reasons.SEMAPHORE),
    "other": (reasons.SIGNAL, STOPPED, reasons.OTHER),
}

#: kinds whose object is the address of a futex
WITH_FUTEX: Final = (reasons.LOCK, reasons.GIL, reasons.CONDITION, reasons.SEMAPHORE, reasons.BARRIER, reasons.FUTEX)
#: waits for what another thread does, which are explained by that thread's own waits
FOR_OTHERS: Final = (
    *(reasons.JOIN, reasons.CHILD, reasons.PIPE, reasons.NETWORK, reasons.CLIENT, reasons.EVENTS, reasons.CONDITION, reasons.BARRIER),
    *(reasons.TERMINAL, reasons.RESULT),
    *(reasons.QUEUE, reasons.FULL_QUEUE, reasons.SEMAPHORE, reasons.FUTEX, reasons.SIGNAL),
)
#: waits for resources
FOR_RESOURCES: Final = (*_OF_THREADS, reasons.DISK, reasons.CPU, PAGE_FAULT, SPINNING)
LOCKS: Final = _OF_THREADS
