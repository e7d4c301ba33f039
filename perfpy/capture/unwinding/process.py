"""The unwinding process, as the recorder sees it: start it, send pieces, take answers. Only wait() and close() block.

It is forked before anything is measured, so that the recording's counters, which are opened later, do not count it; and it
initializes (importing numpy alone takes longer than the rest of perfpy) while they are opened.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import mmap
import os
import select
import signal
import struct
from collections import deque
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.abi.light_types import NamedTuple
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.writer import Slice

    Serve = Callable[[int, int, tuple[int, int, int]], None]


_PIPE_SIZE: Final = 1 << 20
_READ: Final = 1 << 18
_COMM: Final = "perfpy-unwind"
READER_COMM: Final = "perfpy-python"
OWN_COMMS: Final = (_COMM, READER_COMM)  #: of the recorder's helpers
#: Signals to the recorder, which decides when to end: terminals, timeout(1) and systemd send them to all processes of the group.
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)


class UnwindingProcess:
    """The other process.

    Attributes:
        pid: its pid.
        alive: whether it is still running, as far as known.

    Args:
        serve: its function, called with the two ends of the pipes and the spool's stores.
        also: a further descriptor that it needs.
    """

    def __init__(self, spool: Spool, serve: Serve, also: int = -1) -> None:
        request_end, self._requests = os.pipe2(os.O_CLOEXEC)
        self.answers, answer_end = os.pipe2(os.O_CLOEXEC)
        self._incoming = Incoming()
        self._unsent = bytearray()
        self.alive = True
        self.pid = os.fork()
        if self.pid == 0:
            stores = (spool.memory, spool.disk, spool.open_piece)
            run_child({request_end, answer_end, *stores, also} - {-1}, _COMM, lambda: serve(request_end, answer_end, stores))
        os.close(request_end)
        os.close(answer_end)
        for fd in (self._requests, self.answers):
            os.set_blocking(fd, False)
            with contextlib.suppress(OSError):  # a user's limit may be lower; the answers then come in smaller parts
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)

    def ask(self, kind: int, extents: Sequence[Extent] = ()) -> None:
        """Send a request, now or as soon as there is room."""
        self._unsent += request(kind, extents)
        self.send()

    def send(self) -> None:
        """Send pending requests."""
        while self._unsent and self.alive:
            try:
                del self._unsent[: os.write(self._requests, self._unsent)]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.alive = False

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Yield some available answers; reading all at once would keep the recorder from the ring buffers.

        At the end of the answers, `alive` becomes False.
        """
        self.send()
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.answers, _READ)
            self._incoming.add(data)
            yield from self._incoming.answers()
            self.alive = bool(data)

    def wait(self, seconds: float | None, also: int = -1) -> bool:
        """Wait until an answer is available, or `also` is readable; return False after the timeout."""
        poller = select.poll()
        poller.register(self.answers, select.POLLIN)
        if self._unsent:
            poller.register(self._requests, select.POLLOUT)
        if also >= 0:
            poller.register(also, select.POLLIN)
        return bool(poller.poll(None if seconds is None else seconds * 1000))

    def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.alive = False

    def close(self) -> None:
        """Close the pipes, which ends the process, and wait for it."""
        for fd in (self._requests, self.answers):
            os.close(fd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def run_child(fds: set[int], comm: str, serve: Callable[[], None]) -> None:
    """Run in the child after the fork. Never returns. kept has its descriptors; comm is its name."""
    status = 1
    gc.freeze()  # no inherited object may be collected here: its finalizer would close a descriptor that has got another meaning
    try:
        _drop_inherited(fds, comm)
        serve()
        status = 0
    except BrokenPipeError:  # the recorder has ended
        status = 0
    finally:
        os._exit(status)  # silently: the recorder prints a message


def _drop_inherited(fds: set[int], name: str) -> None:
    """Drop everything of the recorder but some descriptors and standard error: signals, files, standard streams."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in {0, 1} - fds:
        os.dup2(nothing, stream)
    first = 3
    for fd in sorted(fds):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name)


# The messages between the recorder and the unwinding process, over two pipes. request { u32 kind, extents; { u64 store, offset, size; }
# [extents] } answer  { u32 kind, reserved; u64 size; char data[size] }

#: Requests: the events, as HEADER_ATTR records; records that are in the file already; records to unwind; end of records;
#: the file's features; the oldest piece is in the file (one extent: inode, 0, end).
EVENTS: Final = 1
KNOWN: Final = 2
PIECE: Final = 3
END: Final = 4
FEATURES: Final = 5
WRITTEN: Final = 6

#: Answers: ready; records of the oldest piece; its end; a copy of its side-band records; a line for the user; the files that
#: samples hit; all work is finished; lines of a perf map (u64 pid, text); the image of the Python functions (path, NUL, bytes);
#: the number of stacks that were not unwound because it was late (u64).
READY: Final = 11
RECORDS: Final = 12
PIECE_DONE: Final = 13
SIDE_BAND: Final = 14
NOTE: Final = 15
HITS: Final = 16
FINISHED: Final = 17
NAMES: Final = 18
IMAGE: Final = 19
LEFT: Final = 20

_REQUEST: Final = struct.Struct("=II")
_EXTENT: Final = struct.Struct("=QQQ")
_ANSWER: Final = struct.Struct("=IIQ")
_FEATURE: Final = struct.Struct("=IQ")
_PID: Final = struct.Struct("=Q")


def request(kind: int, extents: Sequence[Extent] = ()) -> bytes:
    """Encode a request."""
    return _REQUEST.pack(kind, len(extents)) + b"".join(_EXTENT.pack(*extent) for extent in extents)


def answer(kind: int, data: bytes = b"") -> bytes:
    """Encode an answer."""
    return _ANSWER.pack(kind, 0, len(data)) + data


def encode_features(features: Mapping[int, bytes]) -> bytes:
    """Encode the features for FEATURES."""
    return b"".join(_FEATURE.pack(number, len(data)) + data for number, data in features.items())


def decode_features(data: bytes) -> dict[int, bytes]:
    """Decode the bytes of encode_features()."""
    features, offset = {}, 0
    while offset < len(data):
        number, size = _FEATURE.unpack_from(data, offset)
        offset += _FEATURE.size
        features[number] = data[offset : offset + size]
        offset += size
    return features


def names(pid: int, lines: str) -> bytes:
    """Encode an answer with lines of a process's perf map."""
    return answer(NAMES, _PID.pack(pid) + lines.encode("utf-8", "replace"))


def decode_names(data: bytes) -> tuple[int, bytes]:
    """Decode an answer of names()."""
    return _PID.unpack_from(data)[0], data[_PID.size :]


class Incoming:
    """Reassembles messages from the pieces that are read."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        self._bytes += data

    def requests(self) -> Iterator[tuple[int, list[Extent]]]:
        """Yield the complete requests."""
        while len(self._bytes) >= _REQUEST.size:
            kind, count = _REQUEST.unpack_from(self._bytes)
            end = _REQUEST.size + count * _EXTENT.size
            if len(self._bytes) < end:
                return
            extents = [Extent(*numbers) for numbers in _EXTENT.iter_unpack(bytes(self._bytes[_REQUEST.size : end]))]
            del self._bytes[:end]
            yield kind, extents

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Yield the complete answers."""
        while len(self._bytes) >= _ANSWER.size:
            kind, _, size = _ANSWER.unpack_from(self._bytes)
            end = _ANSWER.size + size
            if len(self._bytes) < end:
                return
            data = bytes(self._bytes[_ANSWER.size : end])
            del self._bytes[:end]
            yield kind, data


# Pieces that wait to be unwound: in memory shared by two processes, and beyond its size in a nameless file. A piece is a list of extents
# that the other process reads. The recorder, which reads the ring buffers, must never wait: if the memory is full the rest goes to disk,
# at the cost of a recording of raw stacks. Memory is released in order and reused as a ring.

MEMORY: Final = 0
DISK: Final = 1
_LEAST: Final = 64 << 20  # bytes of memory
_MOST: Final = 512 << 20  # ten seconds of stacks of two CPUs at 2 kHz
_SHARE: Final = 32  # one part in 32 of the machine's memory
_PUBLISHED_MOST: Final = 256  # extents
_MOST_SHARED: Final = 1 << 16  # processes
_SHARED_HEAD: Final = 16  # bytes
_SLOT: Final = 8 * (1 + 3 * _PUBLISHED_MOST)
_PUBLISHED: Final = 8 + 2 * _SLOT


class Extent(NamedTuple):
    """A range of bytes in a store (MEMORY, DISK)."""

    store: int
    offset: int
    size: int


class PublishedExtents:
    """The open piece, readable after the recorder's end: { u64 turn; slot[2] }, slot { u64 count; extents }.

    The new slot is written before the turn that selects it: whenever the writer ends, one slot is complete.
    """

    def __init__(self, fd: int) -> None:
        if os.fstat(fd).st_size < _PUBLISHED:
            os.ftruncate(fd, _PUBLISHED)
        self._memory = mmap.mmap(fd, _PUBLISHED)
        self._turn = 0

    def publish(self, extents: Sequence[Extent]) -> None:
        """Publish the extents, or the first ones if there are too many."""
        turn = self._turn + 1
        first = extents[:_PUBLISHED_MOST]
        numbers = [number for extent in first for number in extent]
        struct.pack_into(f"={1 + len(numbers)}Q", self._memory, _slot(turn), len(first), *numbers)
        struct.pack_into("=Q", self._memory, 0, turn)
        self._turn = turn

    def extents(self) -> list[Extent]:
        """Return the last published extents, in the other process."""
        (turn,) = struct.unpack_from("=Q", self._memory, 0)
        (count,) = struct.unpack_from("=Q", self._memory, _slot(turn))
        numbers = struct.unpack_from(f"={3 * count}Q", self._memory, _slot(turn) + 8)
        return [Extent(*numbers[index : index + 3]) for index in range(0, len(numbers), 3)]


class SharedProcesses:
    """Numbers of processes in memory that the processes forked from this one share: u64 count; u64 is_late; u32 pid[].

    One process adds them. Their readers see a number before the count that includes it. The recorder sets is_late when the user has waited
    long enough for the rest of the stacks.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._memory = mmap.mmap(-1, _SHARED_HEAD + 4 * _MOST_SHARED)
        self._known: set[int] = set()
        for pid in pids:
            self.add(pid)

    def add(self, pid: int) -> None:
        """Add a process, as long as there is room."""
        (count,) = struct.unpack_from("=Q", self._memory)
        if count < _MOST_SHARED:
            struct.pack_into("=I", self._memory, _SHARED_HEAD + 4 * count, pid)
            struct.pack_into("=Q", self._memory, 0, count + 1)

    def __contains__(self, pid: int) -> bool:
        if pid in self._known:
            return True
        (count,) = struct.unpack_from("=Q", self._memory)
        if count > len(self._known):
            self._known.update(struct.unpack_from(f"={count}I", self._memory, _SHARED_HEAD))
        return pid in self._known or count >= _MOST_SHARED

    def end_unwinding(self) -> None:
        """Let the remaining stacks be as they are."""
        struct.pack_into("=Q", self._memory, 8, 1)

    @property
    def is_late(self) -> bool:
        """Whether the remaining stacks are not to be unwound."""
        return bool(struct.unpack_from("=Q", self._memory, 8)[0])


def _slot(turn: int) -> int:
    return 8 + (turn & 1) * _SLOT


class Spool:
    """Pieces in order, until they are released.

    Args:
        folder: for the file on disk.
        capacity: bytes of memory (0: by the machine's memory).

    Attributes:
        most_on_disk: the largest size of the file.
        size: bytes of the open piece.
    """

    def __init__(self, folder: str, capacity: int = 0) -> None:
        self.memory = os.memfd_create("perfpy-stacks", os.MFD_CLOEXEC)
        self.open_piece = os.memfd_create("perfpy-open-piece", os.MFD_CLOEXEC)
        self._published = PublishedExtents(self.open_piece)
        self.disk = nameless_file(folder)
        self.folder = folder
        self._capacity = capacity or _usual_capacity()
        with contextlib.suppress(OSError):  # above a limit for files (ulimit -f), the other processes map it again when it has grown
            os.ftruncate(self.memory, self._capacity)  # it takes no memory before it is written
        self._next = 0  # where memory is written next
        self._end_of_disk = 0
        self._waiting: deque[list[Extent]] = deque()
        self._open: list[Extent] = []
        self.size = 0  # of the open piece
        self.most_on_disk = 0

    def __len__(self) -> int:
        """Return the number of waiting pieces."""
        return len(self._waiting)

    def write(self, slices: Sequence[Slice]) -> list[Extent]:
        """Append to the open piece; return the extents. Raises OutputFailedError if memory and disk are full."""
        written_extents: list[Extent] = []
        for piece in slices:
            data = memoryview(piece)
            while data:
                store, room = self._room()
                written = min(room, len(data)) if store == MEMORY else len(data)
                written_extents.append(self._put(store, data[:written]))
                data = data[written:]
        self._published.publish(self._open)
        return written_extents

    def _put(self, store: int, data: memoryview) -> Extent:
        fd, offset = (self.memory, self._next) if store == MEMORY else (self.disk, self._end_of_disk)
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(fd, data[written:], offset + written)
        except OSError as error:
            remedy = "unwinding does not keep up: record with a lower frequency (-F) or a higher count (-c), or free some space"
            raise OutputFailedError(self.folder, os.strerror(error.errno or 0), remedy=remedy) from None
        if store == MEMORY:
            self._next = (offset + written) % self._capacity
        else:
            self._end_of_disk = offset + written
            self.most_on_disk = max(self.most_on_disk, self._end_of_disk)
        extent = Extent(store, offset, written)
        last = self._open[-1] if self._open else None
        if last and last.store == extent.store and last.offset + last.size == extent.offset:
            self._open[-1] = last._replace(size=last.size + extent.size)
        else:
            self._open.append(extent)
        self.size += written
        return extent

    def _room(self) -> tuple[int, int]:
        """Return the store of the next bytes, and its contiguous room."""
        first = next((one for piece in (*self._waiting, self._open) for one in piece if one.store == MEMORY), None)
        if first is None:
            self._next = 0  # reused memory stays in the CPU's cache
            return MEMORY, self._capacity
        if first.offset > self._next:
            return MEMORY, first.offset - self._next
        is_full = first.offset == self._next
        return (DISK, 0) if is_full else (MEMORY, self._capacity - self._next)

    def close_piece(self) -> list[Extent]:
        """Close the open piece; return its extents."""
        piece, self._open, self.size = self._open, [], 0
        self._waiting.append(piece)
        self._published.publish(())
        return piece

    def release_first(self) -> None:
        """Release the first piece."""
        piece = self._waiting.popleft()
        if any(extent.store == DISK for extent in piece) and not self._on_disk:
            self._end_of_disk = 0
            os.ftruncate(self.disk, 0)

    @property
    def _on_disk(self) -> bool:
        return any(extent.store == DISK for piece in (*self._waiting, self._open) for extent in piece)

    def take_all(self) -> list[bytes]:
        """Return and remove all bytes, including the open piece's, in order."""
        extents = [extent for piece in (*self._waiting, self._open) for extent in piece]
        self._waiting.clear()
        self._open, self.size = [], 0
        return [os.pread((self.memory, self.disk)[store], size, offset) for store, offset, size in extents]

    def close(self) -> None:
        """Release memory and file."""
        for fd in (self.memory, self.disk, self.open_piece):
            os.close(fd)


def _usual_capacity() -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(memory // _SHARE, _LEAST), _MOST) & ~4095


def nameless_file(folder: str) -> int:
    """Create a file without a name, which is deleted with its last descriptor. Raises OutputFailedError."""
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError:  # a file system without O_TMPFILE
        pass
    import tempfile  # rarely needed

    try:
        fd, name = tempfile.mkstemp(dir=folder)
        os.unlink(name)
    except OSError as error:
        raise OutputFailedError(folder, os.strerror(error.errno or 0), remedy="choose another folder with -o") from None
    return fd


# The attr in the file for samples whose stack copy was unwound: with a callchain instead of registers and stack.

#: The fields of samples that unwinding consumes.
USED_UP: Final = SampleType.REGS_USER | SampleType.STACK_USER


def has_stacks(attr: EventAttr) -> bool:
    """Whether samples of the event have a stack copy."""
    return bool(attr.sample_type & SampleType.STACK_USER)


def plain_attr(attr: EventAttr) -> EventAttr:
    """Return the attr as if the kernel had walked the user's frames, too; attrs without stack copies are unchanged."""
    if not has_stacks(attr):
        return attr
    kind = attr.sample_type & ~USED_UP
    changes = {"sample_regs_user": 0, "sample_stack_user": 0, "exclude_callchain_user": 0}
    if attr.watermark:  # readers do not need the recorder's wakeup settings
        changes |= {"watermark": 0, "wakeup_events": 0}
    return attr.copy(sample_type=kind, **changes)
