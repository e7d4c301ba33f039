"""The processes of a recording: their parents, the programs that they execute, and the program that recorded."""

from __future__ import annotations

import os
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.abi.comms import cut_comm
from perfpy.abi.flags import MISC_COMM_EXEC, RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.perfdata.sample_source import SampleSource

NEARLY_ALL: Final = 0.9  # of the started processes


class Processes:
    """The processes of a recording.

    Args:
        data: of the recording.
    """

    def __init__(self, data: SampleSource) -> None:
        self._data = data

    @cached_property
    def _created(self) -> list[tuple[int, int, int]]:
        """Each created process, its parent, and the delivery key of its record, in order."""
        side_band = self._data.side_band([RecordType.FORK]).tasks()
        tasks = side_band.tasks
        new = (tasks.type == RecordType.FORK) & (tasks.pid != tasks.ppid) & (tasks.pid == tasks.tid)
        keys = side_band.keys[tasks.rank[new] - 1]
        return list(zip(tasks.pid[new].tolist(), tasks.ppid[new].tolist(), keys.tolist(), strict=True))

    @cached_property
    def _parents(self) -> dict[int, int]:
        """Process -> the process that created it, in order."""
        return {pid: parent for pid, parent, _ in self._created}

    @cached_property
    def started(self) -> list[int]:
        """The processes that were created during the recording."""
        first = self._data.sample_times[0]
        return [pid for pid, _, key in self._created if key >= first]

    @cached_property
    def _names(self) -> tuple[dict[int, str], dict[int, str]]:
        """The last name of each process, and the last program that it executed."""
        names: dict[int, str] = {}
        programs: dict[int, str] = {}
        for side in self._data.side_band([RecordType.COMM]):
            record = side.record
            if record.pid == record.tid:
                names[record.pid] = record.comm
                if record.misc & MISC_COMM_EXEC:
                    programs[record.pid] = record.comm
        return names, programs

    @property
    def starter(self) -> str:
        """The name of the program that created nearly all started processes, "" for several."""
        names = self._names[0]
        return self._common(names.get(self._parents[pid], "") for pid in self.started)

    @property
    def started_command(self) -> str:
        """The name of the program that nearly all started processes executed, "" for several or none."""
        programs = self._names[1]
        return self._common(programs.get(pid, "") for pid in self.started)

    def _common(self, names: Iterable[str]) -> str:
        name, count = next(iter(Counter(names).most_common(1)), ("", 0))
        return name if count >= NEARLY_ALL * len(self.started) else ""

    def children_of(self, pid: int) -> list[int]:
        """Return the processes that a process created."""
        return [child for child, parent in self._parents.items() if parent == pid]

    @cached_property
    def recorder(self) -> str:
        """The name of the program that recorded: that of the parent of the recorded command; "" if it is not known."""
        words = [str(word) for word in self._data.features.get("cmdline") or ()]
        command = cut_comm(os.path.basename(words[words.index("--") + 1])) if "--" in words[:-1] else ""
        names, programs = self._names
        pids = [pid for pid, name in programs.items() if name == command]
        return names.get(self._parents.get(pids[0], -1), "") if pids and command else ""
