"""Pieces that wait to be unwound: in memory shared by two processes, and beyond its size in a nameless file.

A piece is a list of extents that the other process reads. The recorder, which reads the ring buffers, must never wait: if the
memory is full the rest goes to disk, at the cost of a recording of raw stacks. Memory is released in order and reused as a ring.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.perfdata.container.writer import Slice

MEMORY: Final = 0
DISK: Final = 1
_LEAST: Final = 64 << 20  # bytes of memory
_MOST: Final = 512 << 20  # ten seconds of stacks of two CPUs at 2 kHz
_SHARE: Final = 32  # one part in 32 of the machine's memory
_PUBLISHED_MOST: Final = 256  # extents
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
        self._extend(extent)
        self.size += written
        return extent

    def _extend(self, extent: Extent) -> None:
        last = self._open[-1] if self._open else None
        if last and last.store == extent.store and last.offset + last.size == extent.offset:
            self._open[-1] = last._replace(size=last.size + extent.size)
        else:
            self._open.append(extent)

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
