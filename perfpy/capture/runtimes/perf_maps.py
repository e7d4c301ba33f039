"""Collect the perf maps of recorded processes right after the recording.

As in reports, files of root, of the user, and of the owner of a running process are trusted. A map written before its process
began belongs to an earlier process with the same pid.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from perfpy.abi import records
from perfpy.symbols.files import live_process
from perfpy.symbols.mapped_names import is_memory, is_user_map
from perfpy.symbols.providers.perf_map import LARGEST
from perfpy.untrusted import paths
from perfpy.untrusted.files import append_to_ours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.abi.records import Mmap, Mmap2

_SLACK: Final = 2.0  # seconds: file timestamps are coarse


class PerfMaps:
    """Collects the processes that generated code.

    Args:
        began: the recording's start, in seconds since the epoch.
        known_lines: by pid.

    Attributes:
        pids: of these processes.
        failures: a line for each file that is not trusted.
    """

    def __init__(self, began: float, known_lines: Mapping[int, bytes]) -> None:
        self.pids: set[int] = set()
        self.failures: list[str] = []
        self._began = began
        self._known_lines = known_lines
        self._older: set[int] = set()  # processes that ran before the recording

    def see(self, record: Mmap | Mmap2) -> None:
        """Add the process of a mapping of generated code."""
        flags = record.flags if isinstance(record, records.Mmap2) else 0
        if is_user_map(record.misc) and is_memory(record.filename, flags):
            self.pids.add(record.pid)
        if record.sample_id is None or not record.sample_id.time:
            self._older.add(record.pid)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield each map's name in recordings, and its contents."""
        for pid in sorted(self.pids):
            path, written = self._read(pid)
            lines = self._known_lines.get(pid, b"")
            if written and lines:
                _append(path, lines)
            if written or lines:
                yield paths.perf_map(pid), written + lines

    def _read(self, pid: int) -> tuple[str, bytes]:
        for path in live_process.perf_map_paths(pid):
            try:
                with live_process.open_told(path, pid, owners=live_process.believed(pid), limit=LARGEST) as file:
                    if os.fstat(file.fileno()).st_mtime >= self._began_at(pid) - _SLACK:
                        return path, file.read(LARGEST)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.failures.append(f"{path}: {error.strerror}; not stored")
        return "", b""

    def _began_at(self, pid: int) -> float:
        """Return when a process began; 0 if it has ended and ran before the recording."""
        began = live_process.began(pid)
        return began if began is not None else 0.0 if pid in self._older else self._began


def _append(path: str, lines: bytes) -> None:
    """Append lines to a map that was written for perfpy, for perf, which does not read them from the recording."""
    with contextlib.suppress(OSError):
        append_to_ours(path, lines)
