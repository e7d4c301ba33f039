"""Store the names from the recorded runtimes in a finished recording, on the recorded machine.

The recording gets the perf maps of its processes, and the code of their jitdumps as images with the records that map them.
"""

from __future__ import annotations

import contextlib
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi import records
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.runtimes.attaching import ask
from perfpy.capture.runtimes.rewriting import JittedCode, append_section, rewrite
from perfpy.errors import OutputFailedError
from perfpy.perfdata.kept_files import encode
from perfpy.perfdata.reader import PerfData
from perfpy.symbols import dso
from perfpy.symbols.perf_map import LARGEST
from perfpy.symbols.tasks import is_memory, is_user_map
from perfpy.untrusted import files, process_files
from perfpy.untrusted.files import append_to_ours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.abi.records import Mmap, Mmap2
    from perfpy.capture.runtimes.inner_maps import InnerMaps


_MOST: Final = 1 << 30  # bytes of perf maps and images together, uncompressed


class Kept(NamedTuple):
    """The names that were stored.

    Attributes:
        maps: the number of perf maps.
        functions: the number of functions of jitdumps.
        failures: a line for each one.
        pids: processes that generated code.
    """

    maps: int = 0
    functions: int = 0
    failures: tuple[str, ...] = ()
    pids: frozenset[int] = frozenset()


def store_names(
    path: str,
    began: float,
    cache: str | None = "",
    *,
    known_lines: Mapping[int, bytes] = MappingProxyType({}),
    images: Mapping[str, bytes] = MappingProxyType({}),
    inner_maps: InnerMaps | None = None,
    remove_dumps: bool = False,
) -> Kept:
    """Add the names to a recording. Raises PerfError if the file cannot be read again.

    Args:
        began: the recording's start, in seconds since the epoch.
        cache: as in JittedCode.
        known_lines: further lines of some processes' perf maps.
        images: further files by name.
        inner_maps: the maps of ended processes of other pid namespaces.
        remove_dumps: remove dumps that are in the recording.
    """
    with PerfData(path, check_owner=True) as data:
        maps, code = PerfMaps(began, known_lines, inner_maps), JittedCode(data, cache)
        for side in data.side_band():
            if isinstance(side.record, (records.Mmap, records.Mmap2)):
                maps.see(side.record)
                code.see(side.record)
        code.sort()
        failed_requests = [*ask(sorted(maps.pids))]
        maps_kept: dict[str, bytes] = {}
        room = _MOST
        for name, contents in maps.files():
            room -= len(contents)
            if room >= 0:
                maps_kept[name] = contents
        texts = {**maps_kept, **images}
        failures = [*failed_requests, *code.failures, *maps.failures]
        functions = 0
        if code.records:
            try:
                rewrite(path, data, code, encode(texts | code.images, NATIVE_ENDIAN))
                functions = code.functions
            except OutputFailedError as failure:
                failures.append(f"{failure}; the recording is unchanged, without the code of its jitdumps")
        if texts and not functions:
            try:
                append_section(path, data, encode(texts, NATIVE_ENDIAN))
            except OutputFailedError as failure:
                failures.append(f"{failure}; the recording is unchanged, without its perf maps")
                texts = {}
    if functions and remove_dumps:
        code.remove_dumps()
    return Kept(len(texts.keys() & maps_kept.keys()), functions, tuple(failures), frozenset(maps.pids | code.dumps.keys()))


_SLACK: Final = 2.0  # seconds: file timestamps are coarse


class PerfMaps:
    """Collects the processes that generated code.

    Args:
        began: the recording's start, in seconds since the epoch.
        known_lines: by pid.
        inner_maps: the maps of ended processes of other pid namespaces.

    Attributes:
        pids: of these processes.
        failures: a line for each file that is not trusted.
    """

    def __init__(self, began: float, known_lines: Mapping[int, bytes], inner_maps: InnerMaps | None = None) -> None:
        self.pids: set[int] = set()
        self.failures: list[str] = []
        self._began = began
        self._known_lines = known_lines
        self._inner_maps = inner_maps
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
            if path and written and lines:
                with contextlib.suppress(OSError):  # for perf, which does not read them from the recording
                    append_to_ours(path, lines)
            if written or lines:
                yield files.perf_map(pid), written + lines

    def _read(self, pid: int) -> tuple[str, bytes]:
        if self._inner_maps is not None and (written := self._inner_maps.read(pid)):
            return "", written
        for path in dso.perf_map_paths(pid):
            try:
                with process_files.open_process_file(path, pid, owners=process_files.trusted_owners(pid), limit=LARGEST) as file:
                    if os.fstat(file.fileno()).st_mtime >= self._began_at(pid) - _SLACK:
                        return path, file.read(LARGEST)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.failures.append(f"{path}: {error.strerror}; not stored")
        return "", b""

    def _began_at(self, pid: int) -> float:
        """Return when a process began; 0 if it has ended and ran before the recording."""
        began = process_files.began(pid)
        return began if began is not None else 0.0 if pid in self._older else self._began
