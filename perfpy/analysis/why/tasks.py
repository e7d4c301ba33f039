"""The tasks of a recording: processes, their parents and names, the command that was recorded, and the program that recorded it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.comms import cut_comm
from perfpy.abi.flags import MISC_COMM_EXEC, RecordType

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

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


def workloads_of(names: Collection[str], tasks: RecordedTasks) -> list[int]:
    """Return the processes that executed a program of these names, in order."""
    return list(dict.fromkeys(pid for pid, comm, _ in tasks.execs if comm in names))


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
