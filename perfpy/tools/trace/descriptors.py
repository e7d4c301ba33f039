"""The files of descriptors over time, by following open, dup, close, socket, pipe, accept, fork and exec.

A process's table begins with what it has at the start (`add_process`). Threads share the table of their process; a new process gets a
copy, and an exec closes the descriptors that are marked so. Names of opened files come from the strings that the calls were given.
"""

from __future__ import annotations

import posixpath
import re
from functools import cached_property

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.system_calls import names_by_number
from perfpy.tools.trace.calls import ENTER, EXIT, NO_ROW, GroupedValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.tools.trace.calls import CallEvents, PairedEvents


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


_MOST_NAMES: Final = 1 << 16  # that are kept from batch to batch
_LOW: Final = 0xFFFFFFFF
_UNCHANGED: Final = -1


class NameIds:
    """Numbers of names. A number never gets another name, so that texts may be kept by it; 0 is the empty name."""

    def __init__(self) -> None:
        self._next = 0
        self.forget()

    def forget(self) -> None:
        """Drop the names. The next ones get new numbers."""
        self._ids: dict[str, int] = {"": 0}
        self._names: dict[int, str] = {0: ""}

    def limit(self) -> None:
        """Drop the names if there are too many; not during a batch."""
        if len(self._ids) > _MOST_NAMES:
            self.forget()

    def id(self, name: str) -> int:
        """Return the number of a name."""
        number = self._ids.get(name)
        if number is None:
            self._next += 1
            number = self._ids[name] = self._next
            self._names[number] = name
        return number

    def name(self, number: int) -> str:
        """Return the name of a number."""
        return self._names[number]


class NameChanges:
    """The changes of descriptor names during a batch.

    Args:
        ids: the numbers of names.
    """

    def __init__(self, ids: NameIds) -> None:
        self.ids = ids
        self._rows: list[tuple[int, int, int, int]] = []  # packed descriptor, delivery key, names before and after

    def note(self, pid: int, number: int, key: int, before: str, after: str) -> None:
        """Note a change of a descriptor of a process; key: the delivery key of the event that makes it. Keys ascend."""
        self._rows.append((pid << 32 | number & _LOW, key, self.ids.id(before), self.ids.id(after)))

    @cached_property
    def _columns(self) -> tuple[GroupedValues, NDArray[np.int64], NDArray[np.int64]]:
        """The changes by descriptor, and the names before and after each."""
        descriptors, keys, before, after = zip(*self._rows, strict=True)
        grouped = GroupedValues(np.array(descriptors, np.int64), np.array(keys, np.uint64))
        return grouped, np.array(before, np.int64)[grouped.order], np.array(after, np.int64)[grouped.order]

    def ids_at(self, descriptors: NDArray[np.int64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of the name that each descriptor has before an event; -1 if the batch does not change it.

        Args:
            descriptors: packed (pack_descriptors).
            keys: the delivery keys of the events.
        """
        ids = np.full(len(descriptors), _UNCHANGED, np.int64)
        if not self._rows:
            return ids
        changes, before, after = self._columns
        found = changes.find(descriptors, keys)
        changed = rows_where(found.begin < found.end)
        position, begin = found.position[changed], found.begin[changed]
        ids[changed] = np.where(position > begin, after[position - 1], before[begin])
        return ids


def pack_descriptors(pids: NDArray[np.int32], numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return each descriptor of a process as one number."""
    return pids.astype(np.int64) << 32 | numbers.astype(np.int64) & _LOW


class DescriptorNames:
    """The names of descriptors at the rows of one batch.

    Args:
        pids, keys: the process and the delivery key of each row.
        tables: the tables after the batch.
        changes: of the batch.
        read_name: returns the name that a descriptor of a process has now.
    """

    def __init__(
        self,
        pids: NDArray[np.int32],
        keys: NDArray[np.uint64],
        tables: Mapping[int, DescriptorTable],
        changes: NameChanges,
        read_name: Callable[[int, int], str] = lambda _pid, _number: "",
    ) -> None:
        self._pids = pids
        self._keys = keys
        self._tables = tables
        self._changes = changes
        self._read_name = read_name
        self._known: dict[int, int] = {}

    def ids(self, rows: NDArray[np.int64], descriptors: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the numbers of the names of descriptors for the processes of some rows, at those rows; 0 for unknown names."""
        packed = pack_descriptors(self._pids[rows], descriptors)
        ids = self._changes.ids_at(packed, self._keys[rows])
        unchanged = rows_where(ids == _UNCHANGED)
        chosen = packed[unchanged]
        values = distinct(chosen)
        ids[unchanged] = np.array([self._id(value) for value in values.tolist()], np.int64)[np.searchsorted(values, chosen)]
        return ids

    def _id(self, packed: int) -> int:
        """Return the number of the name of a descriptor that the batch does not change."""
        number = self._known.get(packed)
        if number is None:
            pid, descriptor = packed >> 32, (packed & _LOW ^ 1 << 31) - (1 << 31)
            table = self._tables.get(pid)
            file = table.files.get(descriptor) if table is not None else None
            number = self._known[packed] = self._changes.ids.id(file.name if file is not None else self._unknown(pid, descriptor))
        return number

    def texts(self, rows: NDArray[np.int64], descriptors: NDArray[np.integer[Any]]) -> list[str]:
        """Return DESCRIPTOR<NAME> for the processes of some rows, at those rows; only the number of unknown ones."""
        names = self.names(rows, descriptors)
        return [f"{number}<{name}>" if name else str(number) for number, name in zip(descriptors.tolist(), names, strict=True)]

    def names(self, rows: NDArray[np.int64], descriptors: NDArray[np.integer[Any]]) -> list[str]:
        """Return the names of descriptors for the processes of some rows, at those rows; "" for unknown ones."""
        return list(map(self._changes.ids.name, self.ids(rows, descriptors).tolist()))

    def path(self, row: int, folder: int, name: str) -> str:
        """Return the path of a name relative to a descriptor or the current folder of a row's process; "" if that is unknown."""
        if name.startswith("/"):
            return posixpath.normpath(name)
        if folder == CURRENT_FOLDER:
            start = self._folder(row)
        else:
            (start,) = self.names(np.array([row]), np.array([folder], np.int32))
        return posixpath.normpath(posixpath.join(start, name)) if start.startswith("/") else name

    def _folder(self, row: int) -> str:
        """Return the current folder of a row's process, at that row."""
        pids, keys = self._pids[row : row + 1], self._keys[row : row + 1]
        (number,) = self._changes.ids_at(pack_descriptors(pids, np.array([CURRENT_FOLDER])), keys).tolist()
        if number != _UNCHANGED:
            return self._changes.ids.name(number)
        table = self._tables.get(int(pids[0]))
        return table.folder if table is not None else ""

    def _unknown(self, pid: int, number: int) -> str:
        """Return the present name of a descriptor that no followed call has made, if only other calls make files of this kind.

        Other names are those of files that a later call opened at this number.
        """
        name = self._read_name(pid, number) if number >= 0 else ""
        return name if name.startswith("anon_inode:") and name not in FOLLOWED_KINDS else ""


CURRENT_FOLDER: Final = -100  #: AT_FDCWD
_CLOSE_ON_EXEC: Final = 0o2000000  # O_CLOEXEC, SOCK_CLOEXEC, EPOLL_CLOEXEC ... of all machines with a table
_F_DUPFD, _F_SETFD, _F_DUPFD_CLOEXEC, _FD_CLOEXEC = 0, 2, 1030, 1
_CLOSE_RANGE_CLOEXEC: Final = 4
_TEMPORARY_FILE: Final = 0o20000000  # O_TMPFILE without O_DIRECTORY, on all machines with a table
_UNNAMED: Final = "(O_TMPFILE)"
_MFD_CLOEXEC: Final = 1
_FAMILIES: Final = {1: "UNIX", 2: "TCP", 10: "TCPv6", 16: "NETLINK", 17: "PACKET"}
_DATAGRAMS: Final = {1: "UNIX-DGRAM", 2: "UDP", 10: "UDPv6", 16: "NETLINK", 17: "PACKET"}
_SOCK_DGRAM, _SOCK_TYPE = 2, 0xF
SOCKET: Final = "socket:"  #: names of sockets begin so, then PROTOCOL, then :ADDRESS of the peer
IN_PROGRESS: Final = -115  #: minus EINPROGRESS
_ADDRESS: Final = re.compile(
    r"{ \.family: (?:INET, port: (?P<port>\d+), addr: (?P<addr>[\d.]+)|INET6, port: (?P<port6>\d+), addr: (?P<addr6>[^ ,]+))"
)
_FAMILY: Final = re.compile(r"{ \.family: (LOCAL|INET6?)\b")
_STREAMS: Final = {"LOCAL": "UNIX", "INET": "TCP", "INET6": "TCPv6"}
_PATH: Final = re.compile(r"{ \.family: LOCAL, path: (?P<path>.*) }\Z", re.DOTALL)


class Call(NamedTuple):
    """A call that succeeded, or a close that begins.

    Attributes:
        key: the delivery key of its return, of a close that of its entry.
        pid, tid: its process and thread.
        arguments: their numbers.
        result: what it returned.
        texts: index of the argument -> its string or the text of its structure.
    """

    key: int
    pid: int
    tid: int
    arguments: tuple[int, ...]
    result: int
    texts: Mapping[int, str]


def _int(value: int) -> int:
    """Return the low 32 bits as a signed number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _opened(folder: int | None, name: int, flags: int | None) -> Callable[[Descriptors, Call], None]:
    """Return the rule of a call that opens a file. Arguments: indexes of the folder, the name and the flags."""

    def rule(descriptors: Descriptors, call: Call) -> None:
        text = call.texts.get(name, "")
        start = CURRENT_FOLDER if folder is None else _int(call.arguments[folder])
        path = descriptors.path(call, start, text) if text else ""
        if path and flags is not None and call.arguments[flags] & _TEMPORARY_FILE:
            path = posixpath.join(path, _UNNAMED)
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        descriptors.set(call, call.result, path, closes_on_exec=closes)

    return rule


def _made(label: str, flags: int | None = None) -> Callable[[Descriptors, Call], None]:
    """Return the rule of a call that makes a descriptor without a file."""

    def rule(descriptors: Descriptors, call: Call) -> None:
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        descriptors.set(call, call.result, label, closes_on_exec=closes)

    return rule


def _create_in_memory(descriptors: Descriptors, call: Call) -> None:
    """Name the file as /proc does."""
    name = f"/memfd:{call.texts[0]} (deleted)" if 0 in call.texts else "memfd"
    descriptors.set(call, call.result, name, closes_on_exec=bool(call.arguments[1] & _MFD_CLOEXEC))


def _close(descriptors: Descriptors, call: Call) -> None:
    descriptors.close(call, _int(call.arguments[0]))


def _close_range(descriptors: Descriptors, call: Call) -> None:
    first, last = call.arguments[0] & 0xFFFFFFFF, call.arguments[1] & 0xFFFFFFFF
    files = descriptors.table(call.pid).files
    for number in [number for number in files if first <= number <= last]:
        if call.arguments[2] & _CLOSE_RANGE_CLOEXEC:
            files[number] = files[number]._replace(closes_on_exec=True)
        else:
            descriptors.close(call, number)


def _duplicate(descriptors: Descriptors, call: Call) -> None:
    file = descriptors.table(call.pid).files.get(_int(call.arguments[0]))
    closes = len(call.arguments) > 2 and bool(call.arguments[2] & _CLOSE_ON_EXEC)
    descriptors.set(call, call.result, file.name if file else "", closes_on_exec=closes)


def _dup(descriptors: Descriptors, call: Call) -> None:
    _duplicate(descriptors, call._replace(arguments=call.arguments[:1]))


def _control(descriptors: Descriptors, call: Call) -> None:
    number, command, argument = _int(call.arguments[0]), _int(call.arguments[1]), call.arguments[2]
    file = descriptors.table(call.pid).files.get(number)
    if command in (_F_DUPFD, _F_DUPFD_CLOEXEC):
        descriptors.set(call, call.result, file.name if file else "", closes_on_exec=command == _F_DUPFD_CLOEXEC)
    elif command == _F_SETFD and file is not None:
        descriptors.table(call.pid).files[number] = file._replace(closes_on_exec=bool(argument & _FD_CLOEXEC))


def _socket_name(call: Call) -> str:
    """Return the name of a socket: its family."""
    family, kind = _int(call.arguments[0]), _int(call.arguments[1])
    names = _DATAGRAMS if kind & _SOCK_TYPE == _SOCK_DGRAM else _FAMILIES
    return f"{SOCKET}{names.get(family, f'family {family}')}"


def peer_address(text: str) -> str:
    """Return ADDRESS:PORT, [ADDRESS]:PORT or the path of a socket address (perfpy.tools.trace.argument_text); "" for others."""
    if match := _ADDRESS.match(text):
        return f"{match['addr']}:{match['port']}" if match["addr"] else f"[{match['addr6']}]:{match['port6']}"
    local = _PATH.match(text)
    return local["path"] if local else ""


def _connected(name: str, text: str, kinds: Mapping[str, str]) -> str:
    """Return the name of a socket with its peer.

    Args:
        name: of the socket, or of the one that accepted it; socket:[INODE] of one that was there before the trace.
        text: of the address.
        kinds: the protocol of each family, for sockets of unknown protocol.
    """
    kind = name.removeprefix(SOCKET).partition(":")[0] if name.startswith(SOCKET) else ""
    family, peer = _FAMILY.match(text), peer_address(text)
    if family and (not kind or kind.startswith("[")):
        kind = kinds.get(family[1], family[1])
    if not kind:
        return name or "socket"
    return f"{SOCKET}{kind}:{peer}" if peer else f"{SOCKET}{kind}"


def connect(descriptors: Descriptors, call: Call) -> None:
    """Give a socket its peer."""
    number = _int(call.arguments[0])
    file = descriptors.table(call.pid).files.get(number)
    if file is not None:
        descriptors.set(call, number, _connected(file.name, call.texts.get(1, ""), {}), closes_on_exec=file.closes_on_exec)


def _accepted(flags: int | None) -> Callable[[Descriptors, Call], None]:
    """Return the rule of accept and accept4."""

    def rule(descriptors: Descriptors, call: Call) -> None:
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        listening = descriptors.table(call.pid).files.get(_int(call.arguments[0]))
        name = _connected(listening.name if listening else "", call.texts.get(1, ""), _STREAMS)
        descriptors.set(call, call.result, name, closes_on_exec=closes)

    return rule


def _socket(descriptors: Descriptors, call: Call) -> None:
    closes = bool(call.arguments[1] & _CLOSE_ON_EXEC)
    descriptors.set(call, call.result, _socket_name(call), closes_on_exec=closes)


def _pair(argument: int, flags: int | None, name_of: Callable[[Descriptors, Call], str]) -> Callable[[Descriptors, Call], None]:
    """Return the rule of a call that returns two descriptors in memory. argument: the index of their address."""

    def rule(descriptors: Descriptors, call: Call) -> None:
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        words = call.texts.get(argument, "").strip("[]").split(", ")
        if not all(map(str.isdecimal, words)):
            return
        name = name_of(descriptors, call)
        for word in words:
            descriptors.set(call, int(word), name, closes_on_exec=closes)

    return rule


def _pipe_name(descriptors: Descriptors, _call: Call) -> str:
    """Return a name that both ends share. The inode number is unknown: /proc may have another pipe at this descriptor by now."""
    return f"pipe:#{descriptors.number_pipe()}"


def _change_folder(descriptors: Descriptors, call: Call) -> None:
    text = call.texts.get(0, "")
    descriptors.change_folder(call, descriptors.path(call, CURRENT_FOLDER, text) if text else "")


def _change_folder_to_descriptor(descriptors: Descriptors, call: Call) -> None:
    file = descriptors.table(call.pid).files.get(_int(call.arguments[0]))
    descriptors.change_folder(call, file.name if file else "")


def execute(descriptors: Descriptors, call: Call) -> None:
    """Close the descriptors that an exec closes."""
    descriptors.execute(call.pid, call.key)


#: name of a call -> kind of its file, index of its flags
_ANONYMOUS: Final = {
    "epoll_create": ("anon_inode:[eventpoll]", None),
    "epoll_create1": ("anon_inode:[eventpoll]", 0),
    "eventfd": ("anon_inode:[eventfd]", None),
    "eventfd2": ("anon_inode:[eventfd]", 1),
    "signalfd4": ("anon_inode:[signalfd]", 3),
    "timerfd_create": ("anon_inode:[timerfd]", 1),
    "inotify_init": ("anon_inode:inotify", None),
    "inotify_init1": ("anon_inode:inotify", 0),
    "fanotify_init": ("anon_inode:[fanotify]", None),
    "perf_event_open": ("anon_inode:[perf_event]", None),
    "userfaultfd": ("anon_inode:[userfaultfd]", 0),
    "pidfd_open": ("anon_inode:[pidfd]", None),
    "io_uring_setup": ("anon_inode:[io_uring]", None),
}
FOLLOWED_KINDS: Final = frozenset(kind for kind, _ in _ANONYMOUS.values())  #: of files without a path

#: name of a call -> what it does
RULES: Final[dict[str, Callable[[Descriptors, Call], None]]] = {
    "open": _opened(None, 0, 1),
    "creat": _opened(None, 0, None),
    "openat": _opened(0, 1, 2),
    "openat2": _opened(0, 1, None),
    "open_tree": _opened(0, 1, 2),
    "memfd_create": _create_in_memory,
    "close": _close,
    "close_range": _close_range,
    "dup": _dup,
    "dup2": _dup,
    "dup3": _duplicate,
    "fcntl": _control,
    "fcntl64": _control,
    "pipe": _pair(0, None, _pipe_name),
    "pipe2": _pair(0, 1, _pipe_name),
    "socketpair": _pair(3, 1, lambda _descriptors, call: _socket_name(call)),
    "socket": _socket,
    "connect": connect,
    "accept": _accepted(None),
    "accept4": _accepted(3),
    **{name: _made(kind, flags) for name, (kind, flags) in _ANONYMOUS.items()},
    "chdir": _change_folder,
    "fchdir": _change_folder_to_descriptor,
    "execve": execute,
    "execveat": execute,
}
CLOSING: Final = (_close, _close_range)  #: rules of calls that close descriptors


class OpenFile(NamedTuple):
    """The file that a descriptor refers to."""

    name: str
    closes_on_exec: bool = False


class DescriptorTable:
    """The descriptors of one process, and its current folder."""

    __slots__ = ("files", "folder")

    def __init__(self, files: dict[int, OpenFile] | None = None, folder: str = "") -> None:
        self.files = files or {}
        self.folder = folder

    def copy(self) -> DescriptorTable:
        """Return a copy for a child."""
        return DescriptorTable(dict(self.files), self.folder)
