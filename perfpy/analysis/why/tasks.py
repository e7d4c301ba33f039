"""The tasks of a recording: processes, their parents and names, the command that was recorded, and the program that recorded it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from perfpy.abi.flags import MISC_COMM_EXEC, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.perfdata.sample_source import SampleSource

_COMM_LENGTH = 15


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


def workloads_of(command_line: Sequence[str], tasks: RecordedTasks, recorder: int = 0) -> list[int]:
    """Return the processes that may be the command that was recorded, the likeliest first: others may have the same name.

    Args:
        command_line: of the recorder, from the header.
        tasks: of the recording.
        recorder: the process that recorded, and started the command; 0 if it is not known.
    """
    words = list(command_line)
    candidates = words[words.index("--") + 1 : words.index("--") + 2] if "--" in words else words[1:]
    names = {os.path.basename(word)[:_COMM_LENGTH] for word in candidates}
    children = [pid for pid, _, _ in tasks.execs if recorder and tasks.parent_of.get(pid) == recorder]
    return list(dict.fromkeys([*children, *(pid for pid, comm, _ in tasks.execs if comm in names)]))


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
