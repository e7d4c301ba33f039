"""Records that are read and not yet printed. They are compressed while they wait: system calls shrink to a twentieth in no time."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from perfpy.untrusted.expansion import ExpansionError, zstd_library

_MOST_KEPT: Final = 1 << 25  # bytes in memory
_MOST_WAITING: Final = 1 << 29  # bytes of records
_LEVEL: Final = -5  # of zstd: hardly slower than a copy


class RecordQueue:
    """A queue of pieces of records, each with the time up to which they are complete. One thread may append while another takes."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[bytes, int, int]] = deque()  # data, size of the records, time
        self._kept = self._waiting = 0
        self._lock = threading.Lock()  # of the sums
        try:
            self._zstd = zstd_library()
        except ExpansionError:
            self._zstd = None

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def is_full(self) -> bool:
        """Whether more records would take too much memory, or be printed too late."""
        return self._kept > _MOST_KEPT or self._waiting > _MOST_WAITING

    def append(self, records: bytes, until: int) -> None:
        """Append records; until: the time in nanoseconds, 0 for the last ones. Those that are next stay as they are."""
        data = self._zstd.compress(records, level=_LEVEL) if self._zstd is not None and self._pieces else records
        if len(data) >= len(records):
            data = records
        with self._lock:
            self._pieces.append((data, len(records), until))
            self._kept += len(data)
            self._waiting += len(records)

    def pop(self) -> tuple[bytes, int]:
        """Remove the oldest records; return them and their time."""
        with self._lock:
            data, size, until = self._pieces.popleft()
            self._kept -= len(data)
            self._waiting -= size
        return (data if len(data) == size else self._zstd.decompress(data)), until
