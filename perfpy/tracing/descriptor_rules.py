"""What each system call does to the descriptors of its process."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfpy.tracing.descriptor_tables import DescriptorTable

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


class OpenDescriptors(Protocol):
    """The tables of all processes (perfpy.tracing.descriptors)."""

    def table(self, pid: int) -> DescriptorTable:
        """Return the table of a process."""

    def set(self, call: Call, number: int, name: str, *, closes_on_exec: bool = False) -> None:
        """Let a descriptor refer to a file."""

    def close(self, call: Call, number: int) -> None:
        """Close a descriptor."""

    def execute(self, pid: int, key: int) -> None:
        """Close the descriptors that an exec closes."""

    def path(self, call: Call, folder: int, name: str) -> str:
        """Return the path of a name relative to a descriptor or the current folder; "" if that is unknown."""

    def change_folder(self, call: Call, path: str) -> None:
        """Set the current folder of a process."""

    def number_pipe(self) -> int:
        """Return the number of a new pipe."""


def _int(value: int) -> int:
    """Return the low 32 bits as a signed number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _opened(folder: int | None, name: int, flags: int | None) -> Callable[[OpenDescriptors, Call], None]:
    """Return the rule of a call that opens a file. Arguments: indexes of the folder, the name and the flags."""

    def rule(descriptors: OpenDescriptors, call: Call) -> None:
        text = call.texts.get(name, "")
        start = CURRENT_FOLDER if folder is None else _int(call.arguments[folder])
        path = descriptors.path(call, start, text) if text else ""
        if path and flags is not None and call.arguments[flags] & _TEMPORARY_FILE:
            path = posixpath.join(path, _UNNAMED)
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        descriptors.set(call, call.result, path, closes_on_exec=closes)

    return rule


def _made(label: str, flags: int | None = None) -> Callable[[OpenDescriptors, Call], None]:
    """Return the rule of a call that makes a descriptor without a file."""

    def rule(descriptors: OpenDescriptors, call: Call) -> None:
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        descriptors.set(call, call.result, label, closes_on_exec=closes)

    return rule


def _create_in_memory(descriptors: OpenDescriptors, call: Call) -> None:
    """Name the file as /proc does."""
    name = f"/memfd:{call.texts[0]} (deleted)" if 0 in call.texts else "memfd"
    descriptors.set(call, call.result, name, closes_on_exec=bool(call.arguments[1] & _MFD_CLOEXEC))


def _close(descriptors: OpenDescriptors, call: Call) -> None:
    descriptors.close(call, _int(call.arguments[0]))


def _close_range(descriptors: OpenDescriptors, call: Call) -> None:
    first, last = call.arguments[0] & 0xFFFFFFFF, call.arguments[1] & 0xFFFFFFFF
    files = descriptors.table(call.pid).files
    for number in [number for number in files if first <= number <= last]:
        if call.arguments[2] & _CLOSE_RANGE_CLOEXEC:
            files[number] = files[number]._replace(closes_on_exec=True)
        else:
            descriptors.close(call, number)


def _duplicate(descriptors: OpenDescriptors, call: Call) -> None:
    file = descriptors.table(call.pid).files.get(_int(call.arguments[0]))
    closes = len(call.arguments) > 2 and bool(call.arguments[2] & _CLOSE_ON_EXEC)
    descriptors.set(call, call.result, file.name if file else "", closes_on_exec=closes)


def _dup(descriptors: OpenDescriptors, call: Call) -> None:
    _duplicate(descriptors, call._replace(arguments=call.arguments[:1]))


def _control(descriptors: OpenDescriptors, call: Call) -> None:
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
    """Return ADDRESS:PORT, [ADDRESS]:PORT or the path of a socket address (perfpy.views.trace.arguments.structure_text); "" for others."""
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


def connect(descriptors: OpenDescriptors, call: Call) -> None:
    """Give a socket its peer."""
    number = _int(call.arguments[0])
    file = descriptors.table(call.pid).files.get(number)
    if file is not None:
        descriptors.set(call, number, _connected(file.name, call.texts.get(1, ""), {}), closes_on_exec=file.closes_on_exec)


def _accepted(flags: int | None) -> Callable[[OpenDescriptors, Call], None]:
    """Return the rule of accept and accept4."""

    def rule(descriptors: OpenDescriptors, call: Call) -> None:
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        listening = descriptors.table(call.pid).files.get(_int(call.arguments[0]))
        name = _connected(listening.name if listening else "", call.texts.get(1, ""), _STREAMS)
        descriptors.set(call, call.result, name, closes_on_exec=closes)

    return rule


def _socket(descriptors: OpenDescriptors, call: Call) -> None:
    closes = bool(call.arguments[1] & _CLOSE_ON_EXEC)
    descriptors.set(call, call.result, _socket_name(call), closes_on_exec=closes)


def _pair(argument: int, flags: int | None, name_of: Callable[[OpenDescriptors, Call], str]) -> Callable[[OpenDescriptors, Call], None]:
    """Return the rule of a call that returns two descriptors in memory. argument: the index of their address."""

    def rule(descriptors: OpenDescriptors, call: Call) -> None:
        closes = flags is not None and bool(call.arguments[flags] & _CLOSE_ON_EXEC)
        words = call.texts.get(argument, "").strip("[]").split(", ")
        if not all(map(str.isdecimal, words)):
            return
        name = name_of(descriptors, call)
        for word in words:
            descriptors.set(call, int(word), name, closes_on_exec=closes)

    return rule


def _pipe_name(descriptors: OpenDescriptors, _call: Call) -> str:
    """Return a name that both ends share. The inode number is unknown: /proc may have another pipe at this descriptor by now."""
    return f"pipe:#{descriptors.number_pipe()}"


def _change_folder(descriptors: OpenDescriptors, call: Call) -> None:
    text = call.texts.get(0, "")
    descriptors.change_folder(call, descriptors.path(call, CURRENT_FOLDER, text) if text else "")


def _change_folder_to_descriptor(descriptors: OpenDescriptors, call: Call) -> None:
    file = descriptors.table(call.pid).files.get(_int(call.arguments[0]))
    descriptors.change_folder(call, file.name if file else "")


def execute(descriptors: OpenDescriptors, call: Call) -> None:
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
RULES: Final[dict[str, Callable[[OpenDescriptors, Call], None]]] = {
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
