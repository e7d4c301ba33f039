"""What sleeping threads wait for, as text: the system call, the file, pipe or socket of its descriptor, the holder of a mutex.

Sources: proc_pid_syscall(5), proc_pid_fd(5), proc_pid_fdinfo(5), proc_net(5); struct pollfd in poll(2); the first words of a mutex of the
GNU C library, struct __pthread_mutex_s: { int lock; unsigned count; int owner; unsigned nusers; int kind; ... }; proc_locks(5).
"""

from __future__ import annotations

import os
import re
import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.system_calls import arguments_of, names_by_number
from perfpy.capture.process_memory import ProcessMemory
from perfpy.kernel.procfs import ProcFs, target_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Sequence

    from perfpy.capture.sleeping_threads import Sleeper


_WHOLE: Final = 9  # words of /proc/PID/syscall: the number, six arguments, stack pointer, program counter
_SHOWN: Final = 3  # descriptors of a call that waits for several
_MOST_POLLED: Final = 1024
_LONGEST_TABLE: Final = 4 << 20  # bytes of a table of sockets
_POLL: Final = struct.Struct("=ihh")
_MUTEX: Final = struct.Struct("=iIiIi")
_EPOLL: Final = ("epoll_wait", "epoll_pwait", "epoll_pwait2")
_POLLS: Final = ("poll", "ppoll")
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
_RECEIVES: Final = ("read", "recvfrom", "recvmsg", "readv", "connect")
_LISTENS: Final = "0A"  # the state of a TCP socket
_ESTABLISHED, _CONNECTING = "01", "02"
_FUTEX_COMMANDS: Final = 0x7F  # without FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
_FUTEX_LOCKS: Final = (6, 13)  # FUTEX_LOCK_PI, FUTEX_LOCK_PI2
_CONTENDED: Final = 2  # the value of a mutex of the C library with waiting threads
_MUTEX_KINDS: Final = 4  # normal, recursive, error checking and adaptive; other bits are options
_SET_LOCK: Final = (7, 38)  # F_SETLKW, F_OFD_SETLKW of fcntl()


class WaitTarget(NamedTuple):
    """What a thread waits for.

    Attributes:
        call: the system call; "" outside of calls, or if that is not readable.
        of: its descriptors, for people; "" for none.
        thread: the thread whose end is waited for; 0: none.
        lock: the address of a mutex or a monitor of Java; 0: none.
        holder: the thread that holds the lock; 0: unknown.
        monitor: the class of Java's object, "an object" if that is unknown; "" for a mutex.
        is_monitor: whether the object's monitor is the lock; otherwise the object is.
    """

    call: str = ""
    of: str = ""
    thread: int = 0
    lock: int = 0
    holder: int = 0
    monitor: str = ""
    is_monitor: bool = True


class WaitTargets:
    """Finds what threads of one process wait for.

    Args:
        pid: the process.
        inner_tids: thread -> its number in the process's own pid namespace.
    """

    def __init__(self, pid: int, inner_tids: dict[int, int], machine: str = "") -> None:
        self._pid = pid
        self._tids = {inner: tid for tid, inner in inner_tids.items()}
        self._calls = names_by_number(machine or os.uname().machine)
        self._sockets: dict[str, str] | None = None

    def of(self, thread: Sleeper) -> WaitTarget:
        """Return what a thread waits for."""
        words = thread.words
        if len(words) != _WHOLE or words[0] not in self._calls:
            return WaitTarget()
        name, arguments = self._calls[words[0]], words[1:7]
        if name == "futex":
            return self._futex(arguments)
        if name in _POLLS:
            return WaitTarget(name, self._texts(self._polled(arguments[0], arguments[1])))
        if name in _EPOLL:
            return WaitTarget(name, self._texts(self._watched(arguments[0])))
        kinds = arguments_of(name) or ()
        return WaitTarget(name, self.descriptor(arguments[0]) if kinds and kinds[0].kind == "fd" else "")

    def _futex(self, arguments: tuple[int, ...]) -> WaitTarget:
        thread, lock = thread_or_lock(arguments, self._tids)
        if not lock:
            return WaitTarget("futex", thread=self._tids.get(thread, 0))
        return WaitTarget("futex", lock=lock, holder=self._tids.get(read_owner(self._pid, lock), 0))

    def _polled(self, address: int, count: int) -> list[int]:
        """Return the descriptors in an array of struct pollfd."""
        data = _memory_of(self._pid, address, _POLL.size * min(count, _MOST_POLLED))
        return [fd for fd, _, _ in _POLL.iter_unpack(data[: len(data) // _POLL.size * _POLL.size]) if fd >= 0]

    def _watched(self, descriptor: int) -> list[int]:
        """Return the descriptors that an epoll instance watches."""
        text = ProcFs().read(f"{self._pid}/fdinfo/{descriptor}", 1 << 20)
        return [int(number) for number in re.findall(rb"^tfd: +(\d+)", text, re.MULTILINE)]

    def _texts(self, descriptors: Collection[int]) -> str:
        texts = list(dict.fromkeys(filter(None, map(self.descriptor, descriptors))))
        more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
        return ", ".join([*texts[:_SHOWN], *more])

    def descriptor(self, number: int) -> str:
        """Return what a descriptor leads to: a path, "pipe", the addresses of a socket; "" if it is not readable."""
        target = target_of(self._pid, number & 0xFFFFFFFF)
        if match := _SOCKET.fullmatch(target):
            if self._sockets is None:
                self._sockets = sockets_of(self._pid)
            return self._sockets.get(match[1], "a socket")
        if target.startswith("pipe:"):
            return "a pipe"
        return target.removeprefix("anon_inode:").strip("[]") if target.startswith("anon_inode:") else target


class Peer(NamedTuple):
    """The other end of a connection.

    Attributes:
        address: of the other end.
        is_connected: whether the connection exists yet.
        pid, comm: the process of this machine that has it, and its name; 0 and "" for others, and for those of other users. The process
            itself has no name.
    """

    address: str
    is_connected: bool
    pid: int = 0
    comm: str = ""


def peers_of_wait(pid: int, call: str, arguments: Sequence[int], known: dict[str, Peer | None]) -> set[Peer] | None:
    """Return the other ends of the connections that a process waits for; None if its main thread does not wait for sockets.

    Clients of a server, which are connected to a port that is listened on, do not count.

    Args:
        call: the system call that the main thread sleeps in, with its arguments.
        known: inode -> connection, None for other sockets; tables of sockets are read for new inodes only.
    """
    if call in _EPOLL:
        text = ProcFs().read(f"{pid}/fdinfo/{arguments[0]}", 1 << 20)
        descriptors = [int(number) for number in re.findall(rb"^tfd: +(\d+)", text, re.MULTILINE)][:_MOST_POLLED]
    elif call in _RECEIVES:
        descriptors = [arguments[0]]
    else:
        return None
    inodes = {match[1] for match in (_SOCKET.fullmatch(target_of(pid, one & 0xFFFFFFFF)) for one in descriptors) if match}
    if not inodes <= known.keys():
        known.clear()
        known |= dict.fromkeys(inodes) | {inode: peer for inode, peer in _peers(pid).items() if inode in inodes}
    peers = {inode: peer for inode in inodes if (peer := known[inode]) is not None}
    for inode, peer in peers.items():
        if not peer.is_connected:
            del known[inode]
    return {*peers.values()}


def _peers(pid: int) -> dict[str, Peer]:
    """Return inode -> other end of the TCP connections that were not accepted on a listening port."""
    listening, connections, ends = set(), {}, {}
    for name in ("tcp", "tcp6"):
        lines = ProcFs().read(f"{pid}/net/{name}", _LONGEST_TABLE).decode("ascii", "replace").splitlines()[1:]
        for fields in (line.split() for line in lines):
            if len(fields) > 9 and fields[3] == _LISTENS:
                listening.add(fields[1].rpartition(":")[2])
            elif len(fields) > 9 and fields[3] in (_ESTABLISHED, _CONNECTING):
                connections[fields[9]] = fields[1], Peer(_address(fields[2]), fields[3] == _ESTABLISHED), fields[2]
                ends[fields[1], fields[2]] = fields[9]
    peers, others, own = {}, {}, dict.fromkeys(own_targets(pid))
    for inode, (local, peer, remote) in connections.items():
        other = f"socket:[{ends.get((remote, local), '')}]"
        if local.rpartition(":")[2] not in listening and peer.address:
            peers[inode], others[inode] = peer._replace(pid=pid) if other in own else peer, other
    owners = processes_with({*others.values()} - {"socket:[]"} - own.keys(), pid)
    return {
        inode: peer._replace(pid=owner[0], comm=owner[1]) if (owner := owners.get(others.get(inode, ""))) else peer
        for inode, peer in peers.items()
    }


def own_targets(pid: int) -> list[str]:
    """Return what the descriptors of a process lead to; [] if it has ended, or belongs to another user."""
    try:
        return [target_of(pid, int(descriptor)) for descriptor in os.listdir(f"/proc/{pid}/fd")[:_MOST_DESCRIPTORS]]
    except OSError:
        return []


_MOST_DESCRIPTORS: Final = 1 << 16  # that are looked at, of all processes


def processes_with(targets: Collection[str], pid: int) -> dict[str, tuple[int, str]]:
    """Return target of descriptors -> the first other process that has such a descriptor, and its name; those of other users are missing.

    targets: such as "pipe:[1234]". pid: the process itself, which does not count.
    """
    procfs, owners, left = ProcFs(), dict[str, tuple[int, str]](), _MOST_DESCRIPTORS
    for other in procfs.processes() if targets else ():
        try:
            descriptors = os.listdir(f"/proc/{other}/fd") if other != pid else []
        except OSError:  # it has ended, or belongs to another user
            continue
        left -= len(descriptors)
        for descriptor in descriptors if left > 0 else ():
            target = target_of(other, int(descriptor))
            if target in targets and target not in owners:
                status = procfs.status(other)
                owners[target] = other, status.comm if status else ""
    return owners


def thread_or_lock(arguments: Sequence[int], tids: Container[int]) -> tuple[int, int]:
    """Return the thread whose end a wait in futex() is for, and the address of the lock; 0 for none.

    The C library waits for a thread's end until its number becomes 0, and for a mutex until its value is no longer 2.
    """
    address, command, value = arguments[0], arguments[1] & _FUTEX_COMMANDS, arguments[2]
    if value in tids:
        return value, 0
    return 0, address if command in _FUTEX_LOCKS or value == _CONTENDED else 0


class AwaitedLock(NamedTuple):
    """A mutex or a file lock that a thread waits for.

    Attributes:
        address: of the mutex; 0 for a file lock.
        file: the path of the locked file; "" for a mutex.
        has_limit: whether the wait ends after a time.
    """

    address: int
    file: str
    has_limit: bool


def awaited_lock(pid: int, call: str, arguments: Sequence[int]) -> AwaitedLock | None:
    """Return the lock for which a system call of a process waits; None for calls that wait for something else."""
    if call == "futex":
        _, address = thread_or_lock(arguments, ())
        return AwaitedLock(address, "", arguments[3] != 0) if address else None
    if call == "flock" or (call == "fcntl" and arguments[1] in _SET_LOCK):
        return AwaitedLock(0, target_of(pid, arguments[0] & 0xFFFFFFFF), has_limit=False)
    return None


def owner_of_mutex(data: bytes) -> int:
    """Return the thread that holds a mutex of the C library, as the process numbers it; 0 if the memory is no held mutex."""
    if len(data) < _MUTEX.size:
        return 0
    _, _, owner, users, kind = _MUTEX.unpack(data[: _MUTEX.size])
    return owner if owner > 0 and users and 0 <= kind & 0xF < _MUTEX_KINDS else 0


def read_owner(pid: int, address: int) -> int:
    """Return the thread that holds the mutex at an address of a process, as the process numbers it; 0 if that is not known."""
    return owner_of_mutex(_memory_of(pid, address, _MUTEX.size))


def _memory_of(pid: int, address: int, most: int) -> bytes:
    """Return the bytes at an address of a process, b"" if they are not readable."""
    try:
        memory = ProcessMemory(pid)
    except OSError:  # it has ended, or is of another user
        return b""
    try:
        return memory.some(address, most)
    finally:
        memory.close()


def holders_of_file_locks(procfs: ProcFs) -> dict[int, int]:
    """Return waiting process -> the process that holds the file lock; processes of other pid namespaces are left out."""
    holders: dict[int, int] = {}
    holder = 0
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; then, with an arrow before the kind, the locks that wait for it
    for fields in (line.split() for line in procfs.read("locks", _LONGEST_TABLE).decode("ascii", "replace").splitlines()):
        is_waiting = fields[1:2] == ["->"]
        number = fields[5] if is_waiting and len(fields) > 5 else fields[4] if len(fields) > 4 else ""
        if not number.isdecimal():
            holder = holder if is_waiting else 0
        elif is_waiting and holder:
            holders[int(number)] = holder
        elif not is_waiting:
            holder = int(number)
    return holders


def sockets_of(pid: int, procfs: ProcFs | None = None) -> dict[str, str]:
    """Return inode -> addresses of the sockets of a process's network, for people."""
    sockets = {}
    for name in ("tcp", "tcp6", "udp", "udp6", "unix"):
        lines = (procfs or ProcFs()).read(f"{pid}/net/{name}", _LONGEST_TABLE).decode("utf-8", "surrogateescape").splitlines()[1:]
        for fields in map(str.split, lines):
            if name == "unix" and len(fields) > 6:
                sockets[fields[6]] = " ".join(fields[7:]) or "a unix socket"
            elif len(fields) > 9 and name != "unix":
                local, remote = _address(fields[1]), _address(fields[2])
                is_listening = name.startswith("tcp") and fields[3] == _LISTENS
                sockets[fields[9]] = f"{local} (listening)" if is_listening else local if remote.endswith(":0") else remote
    return sockets


def _address(text: str) -> str:
    """Return ADDRESS:PORT of a table's hexadecimal numbers, of which each word of the address is in the machine's byte order."""
    import ipaddress  # only for connections

    digits, _, port = text.partition(":")
    try:
        words = [int(digits[begin : begin + 8], 16).to_bytes(4, sys.byteorder) for begin in range(0, len(digits), 8)]
        address = ipaddress.ip_address(b"".join(words))
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        shown = str(mapped or address)
        return f"[{shown}]:{int(port, 16)}" if ":" in shown else f"{shown}:{int(port, 16)}"
    except ValueError:
        return ""
