"""Records that are read and not yet printed, with the strings of their calls.

They are compressed while they wait: system calls shrink to a twentieth in no time. Beyond some memory they wait on disk.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, NamedTuple

from perfpy.live.calls.waiting_files import WaitingFiles, WaitingPiece
from perfpy.untrusted.expansion import ExpansionError, zstd_library

_MOST_KEPT: Final = 1 << 25  # bytes in memory
_MOST_WAITING: Final = 1 << 33  # bytes of records: more than a minute of printing
_LEVEL: Final = -5  # of zstd: hardly slower than a copy


class ReadRecords(NamedTuple):
    """The records of one reading of the ring buffers.

    Attributes:
        records: of the samples.
        texts: what the BPF programs have copied (perfpy.live.calls.copied_texts).
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
