"""The code of jitdumps for a finished recording: images, and the records that map them.

Mappings that would hide these records are detected: memory that the process allocated, or made executable, later. The images are
named after a new folder below ~/.debug/jit, as `inject -j` writes them, and also written there for perf, which does not read
them from the recording, unless the user wants no copies of programs (record -N).
"""

from __future__ import annotations

import contextlib
import glob
import os
from typing import TYPE_CHECKING, Final

from perfpy.abi import records
from perfpy.abi.code_mapping import code_mapping
from perfpy.abi.sample_id import IdLayout
from perfpy.capture.runtimes.table import V8_LOG
from perfpy.errors import PerfError
from perfpy.symbols.mapped_names import is_memory
from perfpy.symbols.providers.jit_regions import regions
from perfpy.symbols.providers.jitdump import CodeLoad
from perfpy.symbols.providers.mapped_dump import is_dump, is_mapped_by, new_folder, read_dump
from perfpy.symbols.providers.v8_log import LARGEST as LARGEST_LOG
from perfpy.symbols.providers.v8_log import V8Log
from perfpy.untrusted import paths, process_files
from perfpy.untrusted.destinations import create_new

if TYPE_CHECKING:
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.providers.jit_regions import CodeMapping
    from perfpy.symbols.providers.jitdump import CodeMove
    from perfpy.symbols.providers.mapped_dump import MapRecord

_MOST_LOGS: Final = 16  # isolates of a process


class JittedCode:
    """The contents of a recording's dumps.

    Args:
        cache: the build-id cache ("": perf's default); None: write no images.

    Attributes:
        dumps: pid -> the mapping of its dump.
        images: name -> bytes.
        records: (time, MMAP2), sorted by time.
        functions: their number.
        failures: a line for each unusable dump.
    """

    def __init__(self, data: PerfData, cache: str | None = "") -> None:
        self._data = data
        self._cache = cache
        self._event = data.events[0]
        self._layout = IdLayout.of(self._event.attr, data.endian)
        self._folder = ""
        self._mappings: dict[int, list[CodeMapping]] = {}
        self.dumps: dict[int, MapRecord] = {}
        self.images: dict[str, bytes] = {}
        self.records: list[tuple[int, bytes]] = []
        self.functions = 0
        self.failures: list[str] = []

    def see(self, record: MapRecord) -> None:
        """Read the dump if the mapping is one."""
        if record.pid in self.dumps or not is_dump(record.filename):
            return
        self.dumps[record.pid] = record
        try:
            self._take(record)
        except PerfError as error:
            self.failures.append(str(error))
        except OSError as error:
            self.failures.append(f"{error.filename or record.filename}: {error.strerror}")

    def sort(self) -> None:
        """Sort the records, after all mappings."""
        self.records.sort(key=lambda added: added[0])

    def hides(self, record: MapRecord, time: int) -> bool:
        """Whether a mapping replaces code of a dump that exists at its time."""
        if record.pid not in self._mappings:
            return False
        if is_dump(record.filename):
            return True
        end = record.addr + record.len
        return is_memory(record.filename) and any(
            code.time <= time and code.address < end and record.addr < code.address + code.size for code in self._mappings[record.pid]
        )

    def remove_dumps(self) -> None:
        """Remove the dumps of ended processes that are the user's, and still the mapped files."""
        for pid, record in self.dumps.items():
            if pid not in self._mappings or process_files.began(pid) is not None:
                continue
            try:
                _remove(record)
            except OSError:
                continue

    def _take(self, record: MapRecord) -> None:
        dump = read_dump(record)
        dump = dump._replace(events=_with_positions(dump.events, _v8_logs(record, dump.pid)))
        own_events = [event for event in dump.events if event.pid in (record.pid, dump.pid)]  # a program describes only its own code
        self.functions += sum(isinstance(event, CodeLoad) for event in own_events)
        mappings: list[CodeMapping] = []
        for number, region in enumerate(regions(dump._replace(events=own_events)), 1):
            name = self._name_of(paths.jit_image_name(record.pid, number), region.image)
            self.images[name] = region.image
            self.records += [(mapping.time, self._mapping(record.pid, name, mapping)) for mapping in region.mappings]
            mappings += region.mappings
        if mappings:
            self._mappings[record.pid] = mappings

    def _name_of(self, name: str, image: bytes) -> str:
        if self._cache is None:
            return paths.below(paths.below(paths.build_id_cache(), "jit"), name)
        self._folder = self._folder or new_folder(self._cache or paths.build_id_cache())
        path = paths.below(self._folder, name)
        with open(create_new(path), "wb") as file:
            file.write(image)
        return path

    def _mapping(self, pid: int, name: str, mapping: CodeMapping) -> bytes:
        tid = mapping.tid if pid == mapping.pid else pid  # it has other ids in a container
        identity = self._event.ids[0] if self._event.ids else 0
        record = code_mapping((pid, tid), (mapping.address, mapping.size, mapping.offset), name, mapping.time, identity)
        return records.encode(record, self._layout, self._data.endian)


def _v8_logs(record: MapRecord, pid: int) -> list[V8Log]:
    """Return the logs of code that V8 wrote beside a dump, one for each isolate. pid: in the process's own pid namespace."""
    folder = record.filename.rpartition("/")[0]
    logs = []
    for path in sorted(glob.glob(V8_LOG.format(pid=pid), root_dir=folder))[:_MOST_LOGS]:
        with contextlib.suppress(OSError):
            owners = process_files.trusted_owners(record.pid)
            with process_files.open_process_file(paths.below(folder, path), record.pid, owners=owners, limit=LARGEST_LOG) as file:
                logs.append(V8Log(file.read(LARGEST_LOG).decode("utf-8", "surrogateescape")))
    return logs


def _with_positions(events: list[CodeLoad | CodeMove], logs: list[V8Log]) -> list[CodeLoad | CodeMove]:
    """Return a dump's events with lines and inlined functions from the logs, if there are some: those of V8's dump have damaged names."""
    if not logs:
        return events
    changed: list[CodeLoad | CodeMove] = []
    for event in events:
        if isinstance(event, CodeLoad):
            codes = (log.take(event.address, len(event.code), event.name) for log in logs)
            code = next(filter(None, codes), None)
            event = event._replace(lines=code.lines if code else (), inlined=code.inlined if code else ())  # noqa: PLW2901
        changed.append(event)
    return changed


def _remove(record: MapRecord) -> None:
    """Remove the user's own dump through one descriptor of its folder: others may replace folders of the path."""
    folder, _, name = record.filename.rpartition("/")
    fd = os.open(folder or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if is_mapped_by(record, state) and state.st_uid == os.geteuid():
            os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
