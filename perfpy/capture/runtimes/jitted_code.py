"""The code of jitdumps, for a recording that is about to end: images, and the records that map them.

What enters: the mappings of a recording, among them those of dumps. What leaves:
images by name, MMAP2 records in order of time, and an answer to whether another
record would hide them: memory that their process got or made executable later.

The images get names in a new folder below ~/.debug/jit, ours alone, as `inject -j`
writes them there; they are written there, too, unless no copies of programs are
wanted (record -N): perf, which does not look into the recording, finds them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.abi import records
from perfpy.abi.code_mapping import code_mapping
from perfpy.abi.sample_id import IdLayout
from perfpy.errors import PerfError
from perfpy.symbols.files import live_process
from perfpy.symbols.mapped_names import is_memory
from perfpy.symbols.providers.jit_regions import regions
from perfpy.symbols.providers.jitdump import CodeLoad
from perfpy.symbols.providers.mapped_dump import is_dump, is_mapped_by, new_folder, read_dump
from perfpy.untrusted import paths

if TYPE_CHECKING:
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.providers.jit_regions import CodeMapping
    from perfpy.symbols.providers.mapped_dump import MapRecord


class JittedCode:
    """What the dumps of a recording's processes hold. cache: the build-id cache ("": perf's default), None: write no image.

    dumps: pid -> the mapping of its dump; images: name -> bytes; records: (time, MMAP2) in order of time; functions:
    how many; failures: what could not be used, a line each.
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
        """Look at a mapping; of a dump, read it."""
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
        """Put the records in order, when all mappings were seen."""
        self.records.sort(key=lambda added: added[0])

    def hides(self, record: MapRecord, time: int) -> bool:
        """Whether a mapping takes the place of code of a dump that was there at its time."""
        if record.pid not in self._mappings:
            return False
        if is_dump(record.filename):
            return True
        end = record.addr + record.len
        return is_memory(record.filename) and any(
            code.time <= time and code.address < end and record.addr < code.address + code.size for code in self._mappings[record.pid]
        )

    def remove_dumps(self) -> None:
        """Remove the dumps of processes that have gone, if they are ours, and still the files that these mapped."""
        for pid, record in self.dumps.items():
            if pid not in self._mappings or live_process.began(pid) is not None:
                continue
            try:
                _remove(record)
            except OSError:
                continue

    def _take(self, record: MapRecord) -> None:
        dump = read_dump(record)
        mine = [event for event in dump.events if event.pid in (record.pid, dump.pid)]  # a program speaks of itself alone
        self.functions += sum(isinstance(event, CodeLoad) for event in mine)
        mappings: list[CodeMapping] = []
        for number, region in enumerate(regions(dump._replace(events=mine)), 1):
            name = self._named(paths.jitted(record.pid, number), region.image)
            self.images[name] = region.image
            self.records += [(mapping.time, self._mapping(record.pid, name, mapping)) for mapping in region.mappings]
            mappings += region.mappings
        if mappings:
            self._mappings[record.pid] = mappings

    def _named(self, name: str, image: bytes) -> str:
        if self._cache is None:
            return paths.below(paths.below(paths.build_id_cache(), "jit"), name)
        self._folder = self._folder or new_folder(self._cache or paths.build_id_cache())
        path = paths.below(self._folder, name)
        with open(path, "xb") as file:
            file.write(image)
        return path

    def _mapping(self, pid: int, name: str, mapping: CodeMapping) -> bytes:
        tid = mapping.tid if pid == mapping.pid else pid  # in a container it has other numbers
        identity = self._event.ids[0] if self._event.ids else 0
        record = code_mapping((pid, tid), (mapping.address, mapping.size, mapping.offset), name, mapping.time, identity)
        return records.encode(record, self._layout, self._data.endian)


def _remove(record: MapRecord) -> None:
    """Remove a dump of ours, from one folder: others may exchange those on the way."""
    folder, _, name = record.filename.rpartition("/")
    fd = os.open(folder or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if is_mapped_by(record, state) and state.st_uid == os.geteuid():
            os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
