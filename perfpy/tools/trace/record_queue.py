"""Records that are read and not yet printed, with the strings of their calls.

They are compressed while they wait: system calls shrink to a twentieth in no time. Beyond some memory they wait on disk.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.unwinding.process import nameless_file
from perfpy.errors import OutputFailedError
from perfpy.untrusted.expansion import ExpansionError, zstd_library

if TYPE_CHECKING:
    from collections.abc import Callable


_MOST_KEPT: Final = 1 << 25  # bytes in memory
_MOST_WAITING: Final = 1 << 33  # bytes of records: more than a minute of printing
_LEVEL: Final = -5  # of zstd: hardly slower than a copy


class ReadRecords(NamedTuple):
    """The records of one reading of the ring buffers.

    Attributes:
        records: of the samples.
        texts: what the BPF programs have copied (perfpy.tools.trace.call_strings).
        until: the time in nanoseconds up to which the records are complete; 0 for the last ones.
    """

    records: bytes
    texts: bytes
    until: int


class _QueuedReading(NamedTuple):
    """A reading in the queue: its data, or their position on disk; the sizes of its records and texts; its time."""

    data: bytes | WaitingPiece
    records_size: int
    texts_size: int
    until: int


class RecordQueue:
    """A queue of readings. One thread may append while another takes.

    Args:
        files: where readings wait beyond the limit of memory.

    Attributes:
        taken: the number of readings that were removed.
        was_full: whether there was no room for a reading, on disk neither.
    """

    def __init__(self, files: WaitingFiles | None = None) -> None:
        self._pieces: deque[_QueuedReading] = deque()
        self._kept = self._waiting = 0
        self._files = files or WaitingFiles()
        self._lock = threading.Lock()
        self.taken, self.was_full = 0, False
        try:
            self._zstd = zstd_library()
        except ExpansionError:
            self._zstd = None

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def is_full(self) -> bool:
        """Whether more records would take too much memory, or be printed too late. Then the kernel counts what it drops."""
        is_full = self._kept > _MOST_KEPT or self._waiting > _MOST_WAITING
        self.was_full |= is_full
        return is_full

    def append(self, read: ReadRecords) -> None:
        """Append records. Those that are next stay as they are."""
        records, texts, until = read
        data = joined = records + texts if texts else records
        if self._zstd is not None and self._pieces:
            data = self._zstd.compress(joined, level=_LEVEL)
        if len(data) >= len(joined):
            data = joined
        with self._lock:
            stored = self._files.append(data) if self._kept + len(data) > _MOST_KEPT else None
            self._pieces.append(_QueuedReading(stored or data, len(records), len(texts), until))
            self._kept += len(data) if stored is None else 0
            self._waiting += len(joined)

    def pop(self) -> ReadRecords:
        """Remove the oldest records."""
        with self._lock:
            piece = self._pieces.popleft()
            self.taken += 1
            size = piece.records_size + piece.texts_size
            self._waiting -= size
            if isinstance(piece.data, WaitingPiece):
                data = self._files.read(piece.data)
            else:
                data = piece.data
                self._kept -= len(data)
        if len(data) != size:
            data = self._zstd.decompress(data)
        return ReadRecords(data[: piece.records_size], data[piece.records_size :], piece.until)

    def pop_some(self, size: int) -> ReadRecords:
        """Remove the oldest readings, up to some bytes of records, but at least one; return them as one."""
        read = [self.pop()]
        total = len(read[0].records)
        while self._pieces and total + self._pieces[0].records_size <= size:
            read.append(self.pop())
            total += len(read[-1].records)
        if len(read) == 1:
            return read[0]
        return ReadRecords(b"".join(one.records for one in read), b"".join(one.texts for one in read), read[-1].until)

    def close(self) -> None:
        """Drop all records."""
        with self._lock:
            self._pieces.clear()
            self._files.close()


_MOST: Final = 1 << 30  # bytes on disk
_SHARE: Final = 4  # one part in four of the free space
_FILE_SIZE: Final = 1 << 26  # bytes, if pieces are smaller


class WaitingPiece(NamedTuple):
    """The place of a piece in a file."""

    fd: int
    offset: int
    size: int


class WaitingFiles:
    """The files.

    A file is closed when its pieces have been read, so that its room is free again. A full disk is no error: append() returns None.

    Args:
        folders: where the files may be; the first usable one is taken. None: $TMPDIR, /var/tmp and /tmp.
    """

    def __init__(self, folders: tuple[str, ...] | None = None) -> None:
        self._folders = (os.environ.get("TMPDIR", ""), "/var/tmp", "/tmp") if folders is None else folders
        self._files: deque[tuple[int, int]] = deque()  # descriptor and size of each
        self._limit = 0

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(size for _, size in self._files)

    def append(self, data: bytes) -> WaitingPiece | None:
        """Write a piece; return its place, None if there is no room."""
        if not self._files or self._files[-1][1] + len(data) > _FILE_SIZE:
            self._open()
        if not self._files or self.size + len(data) > self._limit:
            return None
        fd, offset = self._files[-1]
        try:
            written = os.pwrite(fd, data, offset)
        except OSError:
            written = 0
        if written < len(data):
            with suppress(OSError):
                os.ftruncate(fd, offset)
            return None
        self._files[-1] = fd, offset + len(data)
        return WaitingPiece(fd, offset, len(data))

    def _open(self) -> None:
        """Add a file in the first folder that is writable. The first file decides on the limit of all."""
        for folder in filter(None, self._folders):
            try:
                fd = nameless_file(folder)
            except OutputFailedError:
                continue
            if not self._files:
                status = os.fstatvfs(fd)
                self._limit = min(status.f_bavail * status.f_frsize // _SHARE, _MOST)
            self._files.append((fd, 0))
            return

    def read(self, piece: WaitingPiece) -> bytes:
        """Return the next piece, and close the files without further pieces."""
        data = os.pread(piece.fd, piece.size, piece.offset)
        while self._files and (self._files[0][0] != piece.fd or self._files[0][1] == piece.offset + piece.size):
            fd, _ = self._files.popleft()
            os.close(fd)
            if fd == piece.fd:
                break
        return data

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popleft()[0])


_PAUSE: Final = 0.02  # seconds between two readings
_SHORT_PAUSE: Final = 0.005  # while calls come in a storm, which fills a small ring buffer in a tenth of a second
_SWITCH: Final = 0.001  # seconds until the printing thread gives Python's lock away
_HIGHEST: Final = -20  # the priority of the thread, if the user may
_STORM: Final = 0.1  # how full ring buffers are
_BUSY: Final = 0.01
_LONG: Final = 1.0  # seconds that the printing thread keeps the priority


class DrainingThread:
    """Reads the ring buffers again and again while it is resumed; a context manager.

    The thread copies only, but it waits for Python's lock while the printing thread waits for a CPU. So if the ring buffers fill up faster
    than they are emptied, it raises the priority of the printing thread, too, for some time. The traced tasks run slower then: they have
    to, or their calls are lost.

    Args:
        read: empties the ring buffers, and returns how full they were, from 0 to 1; called by this thread.
    """

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._is_open = True
        self._resumed = threading.Event()
        self._paused = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="perfpy rings", daemon=True)
        self._printer = threading.get_native_id()
        self._usual = os.getpriority(os.PRIO_PROCESS, self._printer)
        self._raised_until = self._fullness = 0.0
        self._switch_interval = sys.getswitchinterval()

    def __enter__(self) -> DrainingThread:
        sys.setswitchinterval(_SWITCH)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_open = False
        self._paused.set()
        self._resumed.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_interval)
        if self._raised_until:
            _set_priority(self._printer, self._usual)

    def resume(self) -> None:
        """Begin to read."""
        self._paused.clear()
        self._resumed.set()

    def pause(self) -> None:
        """Stop reading, at the latest after the present reading, unless the ring buffers are busy. Raises the error of a reading."""
        if self._fullness < _BUSY:
            self._resumed.clear()
            self._paused.set()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        _set_priority(threading.get_native_id(), _HIGHEST)
        try:
            while self._is_open:
                self._resumed.wait()
                while not self._paused.wait(_SHORT_PAUSE if self._fullness > _STORM else _PAUSE):
                    self._fullness = self._read()
                    self._follow()
        except BaseException as error:  # noqa: BLE001  # the other thread raises it
            self._error = error

    def _follow(self) -> None:
        """Raise the priority of the printing thread if the ring buffers fill up quickly; restore it after some time."""
        now = time.monotonic()
        if self._fullness > _STORM:
            if not self._raised_until:
                _set_priority(self._printer, _HIGHEST)
            self._raised_until = now + _LONG
        elif self._raised_until and now > self._raised_until:
            _set_priority(self._printer, self._usual)
            self._raised_until = 0.0


def _set_priority(thread: int, priority: int) -> None:
    with suppress(OSError):  # only root may raise it
        os.setpriority(os.PRIO_PROCESS, thread, priority)
