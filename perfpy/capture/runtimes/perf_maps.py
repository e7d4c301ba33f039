"""The perf maps of recorded processes, as they are right after the recording.

What enters: the records of mappings. What leaves: the bytes of the perf map of
each process that had memory with code. Whose files count is as in reports: root's,
ours, and those of the owner of a process that still runs. A map that was written
before its process began is that of another one, which had the number before.
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

_SLACK: Final = 2.0  # seconds: the clocks of file systems are coarse


class PerfMaps:
    """Collects the processes that made code. began: when the recording did, in seconds since the epoch.

    told: lines that are known already, by pid. pids: of these processes; failures: what is there, but is not believed, a line each.
    """

    def __init__(self, began: float, told: Mapping[int, bytes]) -> None:
        self.pids: set[int] = set()
        self.failures: list[str] = []
        self._began = began
        self._told = told
        self._older: set[int] = set()  # they ran before the recording

    def see(self, record: Mmap | Mmap2) -> None:
        """Look at a mapping."""
        flags = record.flags if isinstance(record, records.Mmap2) else 0
        if is_user_map(record.misc) and is_memory(record.filename, flags):
            self.pids.add(record.pid)
        if record.sample_id is None or not record.sample_id.time:
            self._older.add(record.pid)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """What each map is called in recordings, and what is in it."""
        for pid in sorted(self.pids):
            path, written = self._read(pid)
            more = self._told.get(pid, b"")
            if written and more:
                _append(path, more)
            if written or more:
                yield paths.perf_map(pid), written + more

    def _read(self, pid: int) -> tuple[str, bytes]:
        for path in live_process.perf_map_paths(pid):
            try:
                with live_process.open_told(path, pid, owners=live_process.believed(pid), limit=LARGEST) as file:
                    if os.fstat(file.fileno()).st_mtime >= self._born(pid) - _SLACK:
                        return path, file.read(LARGEST)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.failures.append(f"{path}: {error.strerror}; not kept")
        return "", b""

    def _born(self, pid: int) -> float:
        """When a process began, as far as that is known: where it is gone, and ran before the recording, at any time."""
        found = live_process.began(pid)
        return found if found is not None else 0.0 if pid in self._older else self._began


def _append(path: str, lines: bytes) -> None:
    """Add lines to a map that was written for our sake: perf, which does not look into the recording, finds them there."""
    with contextlib.suppress(OSError):
        append_to_ours(path, lines)
