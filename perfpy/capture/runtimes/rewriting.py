"""Add records and stored files to a finished recording of perfpy without risk for its contents.

Without records, the section is appended, and its reserved entry in the table is filled in last. With records, a new file replaces
the old one when it is complete. A record is added to the round of its time, so that readers can sort without keeping the
whole file in memory.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import struct
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import NO_ID, IdLayout
from perfpy.errors import OutputFailedError, PerfError
from perfpy.perfdata.header import KEPT_FILES, SECTION_SIZE, Feature, encode_feature, key_of
from perfpy.perfdata.kept_files import encode
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.writer import FileWriter, Packer, WrittenEvent
from perfpy.symbols.tasks import is_memory
from perfpy.untrusted import files as paths
from perfpy.untrusted import process_files
from perfpy.untrusted.destinations import FileDestination, UnfinishedFile, create_new, open_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perfpy.perfdata.records.delivery import OrderedChunk
    from perfpy.perfdata.records.stream import Chunk
    from perfpy.symbols.jit_images import CodeMapping, V8Log
    from perfpy.symbols.jitdump import CodeLoad, CodeMove, MapRecord


_MAPS: Final = (RecordType.MMAP, RecordType.MMAP2)
_PIECE: Final = 1 << 18  # bytes that are compressed at once


def append_section(path: str, data: PerfData, section: bytes) -> None:
    """Append the stored files to a recording whose header has an empty section for them. Raises OutputFailedError."""
    numbers = sorted(data.feature_sections)
    if KEPT_FILES not in numbers:
        raise OutputFailedError(path, "its header has no room for the names")
    entry = data.data.end + SECTION_SIZE * numbers.index(KEPT_FILES)
    try:
        with open(open_named(path, os.O_RDWR), "r+b", buffering=0) as file:
            if not data.is_file(file.fileno()):
                raise OSError(errno.ESTALE, "another file has its name now")
            end = file.seek(0, os.SEEK_END)
            fd = file.fileno()
            view = memoryview(section)
            try:
                while view:
                    view = view[os.write(fd, view) :]
            except OSError:
                os.ftruncate(fd, end)
                raise
            os.pwrite(file.fileno(), struct.pack("=2Q", end, len(section)), entry)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


def rewrite(path: str, data: PerfData, code: JittedCode, section: bytes) -> None:
    """Replace a recording by a copy with the code's records and the stored files. Raises OutputFailedError."""
    try:
        with FileDestination(path) as destination:
            with open(destination.open(os.O_RDONLY), "rb") as file:
                if not data.is_file(file.fileno()):
                    raise OSError(errno.ESTALE, "another file has its name now")
            new = UnfinishedFile(destination, 0o600)
            try:
                _write(FileWriter(destination.path, os.dup(new.fd)), data, code, section)
                new.put()
            finally:
                new.remove()
                new.close()
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


def _write(writer: FileWriter, data: PerfData, code: JittedCode, section: bytes) -> None:
    packing = data.features.get(key_of(Feature.COMPRESSED))
    try:
        writer.begin([WrittenEvent(event.attr, tuple(event.ids)) for event in data.events], {})
        copy = _Copy(writer, code, Packer(packing.level) if packing else None)
        for stream in data.records.chunks():
            for ordered in stream:
                copy.take(ordered)
        copy.finish()
        features = {number: data.section(number) for number in data.feature_sections} | {KEPT_FILES: section}
        if packing and copy.packer:
            compression = packing._replace(ratio=round(copy.packer.ratio), mmap_len=max(packing.mmap_len, _PIECE))
            features[Feature.COMPRESSED] = encode_feature(Feature.COMPRESSED, compression, data.endian)
        writer.finish(features)
    finally:
        writer.close()


class _Copy:
    """Copies chunks: adds records at the ends of their rounds, and drops mappings that would hide them."""

    def __init__(self, writer: FileWriter, code: JittedCode, packer: Packer | None) -> None:
        self.packer = packer
        self._writer = writer
        self._code = code
        self._pending = deque(code.records)
        self._latest = 0  # the latest time seen

    def take(self, ordered: OrderedChunk) -> None:
        chunk, begin, next_row = ordered.chunk, 0, 0
        special = np.isin(chunk.types, (RecordType.FINISHED_ROUND, *_MAPS))
        for row in np.flatnonzero(special).tolist():
            if chunk.types[row] == RecordType.FINISHED_ROUND:
                self._latest = max(self._latest, int(ordered.times[next_row : row + 1].max()))
                next_row = row + 1
                due = []
                while self._pending and self._pending[0][0] <= self._latest:
                    due.append(self._pending.popleft()[1])
                if due:
                    self._put(_rows(chunk, begin, row))
                    self._put(due)
                    begin = row
            elif self._is_dropped(chunk.record(row), int(ordered.times[row])):
                self._put(_rows(chunk, begin, row))
                begin = row + 1
        self._put(_rows(chunk, begin, len(chunk)))
        self._latest = max(self._latest, int(ordered.times[next_row:].max(initial=0)))

    def finish(self) -> None:
        """Write the records later than everything in the recording."""
        self._put([record for _, record in self._pending])

    def _is_dropped(self, record: bytes, time: int) -> bool:
        kind, misc, _ = HEADER[NATIVE_ENDIAN].unpack_from(record)
        try:
            mapping = records.decode(kind, misc, record[8:], NO_ID, NATIVE_ENDIAN)
        except (ValueError, struct.error):
            return False
        return isinstance(mapping, (records.Mmap, records.Mmap2)) and self._code.hides(mapping, time)

    def _put(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            if self.packer:
                self._writer.write(*self.packer.pack(piece))
            elif piece:
                self._writer.write(piece)


def _rows(chunk: Chunk, begin: int, end: int) -> list[bytes]:
    """Return the bytes of consecutive records, in pieces of whole records that fit the compression limit."""
    if begin >= end:
        return []
    starts, sizes = chunk.starts[begin:end], chunk.sizes[begin:end].astype(np.int64)
    if bool((starts[1:] != starts[:-1] + sizes[:-1]).any()):
        return [chunk.record(row) for row in range(begin, end)]
    last = int(starts[-1] + sizes[-1])
    cuts = [int(starts[0])]
    while last - cuts[-1] > _PIECE:
        cuts.append(int(starts[np.searchsorted(starts, cuts[-1] + _PIECE, side="right") - 1]))
    return [chunk.data[first:after].tobytes() for first, after in zip(cuts, [*cuts[1:], last], strict=True)]


# The code of jitdumps for a finished recording: images, and the records that map them. Mappings that would hide these records are
# detected: memory that the process allocated, or made executable, later. The images are named after a new folder below ~/.debug/jit, as
# `inject -j` writes them, and also written there for perf, which does not read them from the recording, unless the user wants no copies
# of programs (record -N).

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
        from perfpy.symbols.jitdump import is_dump

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
        from perfpy.symbols.jitdump import is_dump

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
        from perfpy.symbols.jit_images import own_events, regions
        from perfpy.symbols.jitdump import CodeLoad, RecordedClock, on_clock, read_dump

        dump = on_clock(read_dump(record), record.filename, RecordedClock.of(self._event.attr))
        dump = dump._replace(events=_with_positions(dump.events, _v8_logs(record, dump.pid)))
        dump = own_events(dump, record.pid)
        self.functions += sum(isinstance(event, CodeLoad) for event in dump.events)
        mappings: list[CodeMapping] = []
        for number, region in enumerate(regions(dump), 1):
            name = self._name_of(paths.jit_image_name(record.pid, number), region.image)
            self.images[name] = region.image
            self.records += [(mapping.time, self._mapping(record.pid, name, mapping)) for mapping in region.mappings]
            mappings += region.mappings
        if mappings:
            self._mappings[record.pid] = mappings

    def _name_of(self, name: str, image: bytes) -> str:
        from perfpy.symbols.jitdump import new_folder

        if self._cache is None:
            return paths.below(paths.below(paths.build_id_cache(), "jit"), name)
        self._folder = self._folder or new_folder(self._cache or paths.build_id_cache())
        path = paths.below(self._folder, name)
        with open(create_new(path), "wb") as file:
            file.write(image)
        return path

    def _mapping(self, pid: int, name: str, mapping: CodeMapping) -> bytes:
        return records.encode(mapping.record(pid, name, self._event.ids[0] if self._event.ids else 0), self._layout, self._data.endian)


def _v8_logs(record: MapRecord, pid: int) -> list[V8Log]:
    """Return the logs of code that V8 wrote beside a dump, one for each isolate. pid: in the process's own pid namespace."""
    from perfpy.capture.runtimes.known_runtimes import V8_LOG  # only --jit needs it
    from perfpy.symbols.jit_images import LARGEST as LARGEST_LOG
    from perfpy.symbols.jit_images import V8Log

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
    from perfpy.symbols.jitdump import CodeLoad

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
    from perfpy.symbols.jitdump import is_mapped_by

    folder, _, name = record.filename.rpartition("/")
    fd = os.open(folder or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if is_mapped_by(record, state) and state.st_uid == os.geteuid():
            os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)


# The ELF image of Python functions: its file in the build-id cache, and its copy in finished recordings.


def write_image(path: str, image: bytes) -> None:
    """Create the image's file. Raises OSError."""
    with open(create_new(path), "wb") as file:
        file.write(image)


def keep_images(files: Iterable[str], images: Mapping[str, bytes], tell: Callable[[str], None]) -> None:
    """Add images to recordings (kept_files), and warn of recordings that cannot be extended.

    Args:
        files: paths of recordings, written a moment ago.
        images: path -> bytes.
        tell: prints a warning.
    """
    section = encode(images, NATIVE_ENDIAN)
    for path in files:
        try:
            with PerfData(path, check_owner=True) as data:
                append_section(path, data, section)
        except PerfError as failure:
            tell(f"warning: --python: {failure}; the lines of Python functions are not in the recording")
