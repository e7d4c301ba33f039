"""Threads and their commands for tables: row numbers, names over time, and whether exec set a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.abi import records

if TYPE_CHECKING:
    from collections.abc import Callable

_EXEC: Final = 1 << 13
_NO_TIME: Final = -1
_SWAPPER: Final = "swapper"


class ThreadName:
    """A name of a thread, valid from a time on."""

    __slots__ = ("by_exec", "name", "row", "since")

    def __init__(self, name: str, since: int, *, by_exec: bool) -> None:
        self.name = name
        self.since = since
        self.by_exec = by_exec
        self.row = 0  #: the row in the table; 0 before it is inserted


class Thread:
    """A thread and its commands, newest last."""

    __slots__ = ("commands", "named", "pid", "row", "tid")

    def __init__(self, pid: int, tid: int) -> None:
        self.pid = pid
        self.tid = tid
        self.commands = [ThreadName(f":{tid}" if tid else _SWAPPER, 0, by_exec=False)]
        self.named = not tid  #: whether a record named it
        self.row = 0

    def call(self, name: str, since: int, *, by_exec: bool) -> None:
        """Set the name from a time on."""
        if not self.named:
            self.commands.clear()
        self.commands.append(ThreadName(name, since, by_exec=by_exec))
        self.named = True

    def program(self) -> ThreadName:
        """Return the name that the last exec set; without an exec the first name, which is the parent's if that was known at the start."""
        last_exec = next((command for command in reversed(self.commands) if command.by_exec), None)
        if last_exec is not None:
            return last_exec
        first = self.commands[0]
        return self.commands[1] if len(self.commands) > 1 and not first.since and self.pid == self.tid else first


class KnownTasks:
    """All threads at the current record.

    Args:
        shown: converts a name to the text for scripts
    """

    def __init__(self, shown: Callable[[str], str]) -> None:
        self._shown = shown
        self._threads: dict[int, Thread] = {}

    def see(self, record: Any) -> None:
        """Apply a FORK, COMM or EXIT record."""
        if isinstance(record, records.Fork):
            parent = self._threads.get(record.ptid)
            child = self._threads[record.tid] = Thread(record.pid, record.tid)
            if parent is not None and parent.named:
                child.call(parent.commands[-1].name, record.sample_id.time or 0 if record.sample_id else record.time, by_exec=False)
        elif isinstance(record, records.Comm):
            since = record.sample_id.time if record.sample_id else None
            name, by_exec = self._shown(record.comm), bool(record.misc & _EXEC)
            self.thread(record.pid, record.tid).call(name, _NO_TIME if since is None else since, by_exec=by_exec)
        elif isinstance(record, records.Exit):
            self._threads.pop(record.tid, None)

    def thread(self, pid: int, tid: int) -> Thread:
        """Return the thread of a sample."""
        found = self._threads.get(tid)
        if found is None:
            found = self._threads[tid] = Thread(pid, tid)
        return found
