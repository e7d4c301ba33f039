"""The files of descriptors over time, by following open, dup, close, socket, pipe, accept, fork and exec.

A process's table begins with what it has at the start (`add_process`). Threads share the table of their process; a new process gets a
copy, and an exec closes the descriptors that are marked so. Names of opened files come from the strings that the calls were given.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.tracing.descriptor_names import DescriptorNames, NameChanges, NameIds
from perfpy.tracing.descriptor_rules import CLOSING, CURRENT_FOLDER, IN_PROGRESS, RULES, Call, connect, execute
from perfpy.tracing.descriptor_tables import DescriptorTable, OpenFile
from perfpy.tracing.events import ENTER, EXIT
from perfpy.tracing.pairing import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.pairing import PairedEvents

_MOST_TABLES: Final = 100_000  # processes
_MOST_FILES: Final = 1 << 20  # of all processes: each can have a million, and a copy for each child
_NEVER: Final = 1 << 64  # beyond all delivery keys


def descriptor_numbers(machine: str) -> frozenset[int]:
    """Return the numbers of the calls that change descriptors. machine: as uname(2) has it."""
    return frozenset(number for number, name in names_by_number(machine).items() if name in RULES)


class Descriptors:
    """The tables of all processes.

    Args:
        machine: as uname(2) has it.
        read_table: returns the table that a process has now; None if it has ended.
        read_name: returns the name that a descriptor of a process has now, "" if it is closed: (pid, descriptor).
    """

    def __init__(
        self,
        machine: str,
        read_table: Callable[[int], DescriptorTable | None] = lambda _pid: None,
        read_name: Callable[[int, int], str] = lambda _pid, _number: "",
    ) -> None:
        self._read_table = read_table
        self._read_name = read_name
        self._tables: dict[int, DescriptorTable] = {}
        self._count = 0  # descriptors in them
        self._pipes = 0  # made by followed calls
        self._names = NameIds()
        self._changes = NameChanges(self._names)
        self._rules = {number: RULES[names_by_number(machine)[number]] for number in descriptor_numbers(machine)}
        self._connecting = [number for number, rule in self._rules.items() if rule is connect]
        self._numbers = np.array(sorted(self._rules), np.int64)
        self._closing = [number for number, rule in self._rules.items() if rule in CLOSING]

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the calls that change descriptors."""
        return frozenset(self._rules)

    def add_process(self, pid: int, table: DescriptorTable) -> None:
        """Set the table of a process."""
        self._forget_table(pid)
        self._tables[pid] = table
        self._count += len(table.files)
        while (self._count > _MOST_FILES or len(self._tables) > _MOST_TABLES) and len(self._tables) > 1:
            self._forget_table(next(iter(self._tables)))

    def _forget_table(self, pid: int) -> None:
        table = self._tables.pop(pid, None)
        self._count -= len(table.files) if table is not None else 0

    def forget(self, pids: Iterable[int]) -> None:
        """Drop the tables of processes that ended."""
        for pid in pids:
            self._forget_table(pid)

    def table(self, pid: int) -> DescriptorTable:
        """Return the table of a process, as it is now if it was unknown."""
        table = self._tables.get(pid)
        if table is None:
            table = self._read_table(pid) or DescriptorTable()
            self.add_process(pid, table)
        return table

    def follow(self, paired: PairedEvents, texts: Mapping[int, Mapping[int, str]], forks: Sequence[tuple[int, int, int]] = ()) -> None:
        """Apply the calls of a batch.

        Args:
            paired: the events.
            texts: row of an entry -> index of the argument -> its string.
            forks: (delivery key, process, new process), in order.
        """
        events = paired.events
        self._names.limit()
        self._changes = NameChanges(self._names)
        pids = np.unique(events.pid).tolist()
        for pid in set(pids).difference(child for _, _, child in forks):
            self.table(pid)
        rows, entries = self._effective(paired)
        waiting = iter([*forks, (_NEVER, 0, 0)])
        fork = next(waiting)
        arguments = events.arguments[entries]
        columns = (column[rows].tolist() for column in (events.number, events.key, events.pid, events.tid, events.result))
        for index, (entry, number, key, *ids) in enumerate(zip(entries.tolist(), *columns, strict=True)):
            while fork[0] <= key:
                self.fork(*fork[1:])
                fork = next(waiting)
            rule = self._rules[number]
            if entry != NO_ROW or rule is execute:  # an exec may have begun before the trace
                pid, tid, result = ids
                rule(self, Call(key, pid, tid, tuple(arguments[index].tolist()), result, texts.get(entry, {})))
        while fork[0] != _NEVER:
            self.fork(*fork[1:])
            fork = next(waiting)

    def _effective(self, paired: PairedEvents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows at which calls change descriptors, and those of their entries.

        That is their return, but of a close its entry: before it returns, another thread can open a file at its number.
        """
        events = paired.events
        succeeds = (events.result >= 0) | ((events.result == IN_PROGRESS) & np.isin(events.number, self._connecting))
        chosen = (events.kind == EXIT) & succeeds & np.isin(events.number, self._numbers)
        closes = np.isin(events.number, self._closing)
        chosen[closes] = events.kind[closes] == ENTER
        chosen[: paired.carried] = False  # entries of earlier batches
        rows = rows_where(chosen)
        return rows, np.where(events.kind[rows] == ENTER, rows, paired.entry[rows])

    def names_at(self, events: CallEvents) -> DescriptorNames:
        """Return the names at events of the last batch."""
        return DescriptorNames(events.pid, events.key, self._tables, self._changes, self._read_name)

    def set(self, call: Call, number: int, name: str, *, closes_on_exec: bool = False) -> None:
        """Let a descriptor refer to a file."""
        files = self.table(call.pid).files
        before = files.get(number)
        self._count += before is None
        files[number] = OpenFile(name, closes_on_exec)
        self._changes.note(call.pid, number, call.key, before.name if before else "", name)

    def close(self, call: Call, number: int) -> None:
        """Close a descriptor."""
        before = self.table(call.pid).files.pop(number, None)
        if before is not None:
            self._count -= 1
            self._changes.note(call.pid, number, call.key, before.name, "")

    def fork(self, parent: int, child: int) -> None:
        """Give a new process a copy of its parent's table."""
        if child not in self._tables or not self._tables[child].files:
            self.add_process(child, self.table(parent).copy())

    def change_folder(self, call: Call, path: str) -> None:
        """Set the current folder of a process."""
        table = self.table(call.pid)
        self._changes.note(call.pid, CURRENT_FOLDER, call.key, table.folder, path)
        table.folder = path

    def number_pipe(self) -> int:
        """Return the number of a new pipe."""
        self._pipes += 1
        return self._pipes

    def path(self, call: Call, folder: int, name: str) -> str:
        """Return the path of a name relative to a descriptor or the current folder; "" if that is unknown."""
        table = self.table(call.pid)
        if not name.startswith("/"):
            if folder == CURRENT_FOLDER:
                start = table.folder
            else:
                file = table.files.get(folder)
                start = file.name if file is not None else ""
            if not start.startswith("/"):
                return name
            name = posixpath.join(start, name)
        return posixpath.normpath(name)

    def execute(self, pid: int, key: int) -> None:
        """Close the descriptors that an exec closes."""
        files = self.table(pid).files
        for number in [number for number, file in files.items() if file.closes_on_exec]:
            before = files.pop(number)
            self._count -= 1
            self._changes.note(pid, number, key, before.name, "")
