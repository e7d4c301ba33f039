"""Find the files that samples of a finished recording hit, because only their build-ids are stored.

Samples are not sorted, and mappings are never removed: a sample hits every dso that its process, or one that it was forked
from, ever had mapped at that page. That may name a file too many, but needs only one pass, and no numpy, whose import would
take as long as 100,000 samples: 0.1 us a sample for runs of samples of one size, 0.5 us for others.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
from array import array
from bisect import bisect_left
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_KERNEL, MISC_MMAP_BUILD_ID, MISC_USER, RecordType, SampleType
from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId, text
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.records import copies_parent, holds_build_id
from perfpy.capture.synthesis import KERNEL
from perfpy.symbols.dso import KERNEL_NAME, is_kernel_map, is_kernel_name, other_root, paths_of
from perfpy.symbols.files import build_ids as build_id_notes
from perfpy.symbols.files.build_ids import BuildIdCache
from perfpy.untrusted.process_files import open_identified
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from perfpy.abi.attr import EventAttr
    from perfpy.untrusted.process_files import FileId


HEADER: Final = struct.Struct("=IHH")
_WORD: Final = struct.Struct("=Q")
_PAGE_SHIFT: Final = 12
_PAGE_MASK: Final = (1 << 64 - _PAGE_SHIFT) - 1
_PID_SHIFT: Final = 64
_WORTH_A_LOOK: Final = 4  # consecutive samples of one size: a run may follow
_NOT_WORTH_IT: Final = 4096  # samples that are read one by one after a run without repeats
_VDSO: Final = "[vdso]"
# MMAP and MMAP2 begin with { header; u32 pid, tid; u64 addr, len, pgoff; }, FORK with { header; u32 pid, ppid; } (perfpy.abi.records)
_MAPPING: Final = struct.Struct("=8xI4xQQ8x")
_FORK: Final = struct.Struct("=8xII")
BUILD_ID_AT: Final = _MAPPING.size  # { u8 size, 3 bytes, u8 build_id[20] } of MMAP2
IDENTITY: Final = struct.Struct("=IIQQ")  # in its place in other MMAP2 records: device (major, minor), inode and generation
NAME_AT: Final = {int(RecordType.MMAP): _MAPPING.size, int(RecordType.MMAP2): _MAPPING.size + 32}


class HitDso:
    """A mapped file: its name and identity in the records, the process that mapped it last, and its build-id if a record has it.

    Attributes:
        identity: device (major, minor), inode and generation; None for the kernel's code and for memory.
        synthesized: whether a mapping without a generation belongs to it.
    """

    __slots__ = ("build_id", "hit", "identity", "is_kernel", "name", "pid", "synthesized")

    def __init__(self, name: str, *, is_kernel: bool, pid: int = -1, identity: FileId | None = None) -> None:
        self.name = name
        self.is_kernel = is_kernel
        self.pid = pid
        self.identity = identity
        self.build_id = b""
        self.hit = False
        self.synthesized = identity is not None and not identity[3]


_MappedPages: TypeAlias = tuple[int, int, HitDso]  # the first page, the page after the last, the file


class DsoHits:
    """The result of scan().

    Attributes:
        dsos: by name and identity, in the order in which they were mapped.
        samples: their number.
        first_time, last_time: of the samples.
        without_build_id: mappings of the last piece that claim to have a build-id, and have none: their offset, and the correct misc.
            Linux 6.18 leaves that mark in other listeners' mappings while a process records with build-ids in mappings.
    """

    def __init__(self, attrs: Sequence[EventAttr]) -> None:
        self.dsos: dict[tuple[str, tuple[int, ...]], HitDso] = {}
        self.samples = 0
        self.first_time = 0
        self.last_time = 0
        self.without_build_id: list[tuple[int, int]] = []
        self._layout, self._front, self._has_time = _layout(attrs)
        self._beginning = struct.Struct(f"=4xH2x{max(8 * self._front - 24, 0)}xQI4x")
        self._first_of: dict[tuple[str, tuple[int, ...]], HitDso] = {}  # name, device and inode -> file
        self._dso_of: dict[tuple[bytes, bytes, bool], HitDso] = {}  # name and identity in records, whether it is the kernel's -> file
        self._maps: dict[int, list[_MappedPages]] = {}  # by pid
        self._kernel_maps: list[_MappedPages] = []
        self._parents: dict[int, int] = {}
        self._pages: set[int] = set()  # pid << 64 | page
        self._kernel_pages: set[int] = set()

    def scan(self, data: memoryview) -> None:
        """Read the records of one piece of the file (whole records)."""
        header, sample, sample_type = HEADER.unpack_from, self._layout.unpack_from, int(RecordType.SAMPLE)
        add, add_kernel = self._pages.add, self._kernel_pages.add
        runs = EqualSamples(data, self._front, has_time=self._has_time)
        offset, end, samples, alike, last_size = 0, len(data), 0, 0, 0
        first, last = self.first_time or (1 << 64), self.last_time
        while offset + 8 <= end:
            kind, misc, size = header(data, offset)
            if kind == sample_type:
                if size == last_size:
                    alike += 1
                    if alike >= _WORTH_A_LOOK:
                        run = runs.run(offset, size)
                        first, last = min(first, run.first), max(last, run.last)
                        self._add_run(run)
                        alike = 0 if run.has_repeats else -_NOT_WORTH_IT
                        offset += run.samples * size
                        continue
                else:
                    last_size, alike = size, alike if alike < 0 else 0  # noqa: FURB136  # three times as fast as min() in this loop
                samples += 1
                ip, pid, time = sample(data, offset)
                if misc & MISC_CPUMODE_MASK == MISC_KERNEL:  # Kernel addresses may overlap with user space: on s390x they are low.
                    add_kernel(ip >> _PAGE_SHIFT)
                else:
                    add(pid << _PID_SHIFT | ip >> _PAGE_SHIFT)
                if time < first:  # noqa: PLR1730  # as above
                    first = time
                if time > last:  # noqa: PLR1730  # as above
                    last = time
            else:
                size = self._look_at_other(kind, misc, data[offset : offset + size], offset)
            if size < 8:
                break
            offset += size
        self.samples += samples
        if self._has_time:
            self.first_time, self.last_time = first if last else 0, last

    def _add_run(self, run: Run) -> None:
        self.samples += run.samples
        add, add_kernel = self._pages.add, self._kernel_pages.add
        for misc, ip, pid in self._beginning.iter_unpack(run.beginnings):
            if misc & MISC_CPUMODE_MASK == MISC_KERNEL:
                add_kernel(ip >> _PAGE_SHIFT)
            else:
                add(pid << _PID_SHIFT | ip >> _PAGE_SHIFT)

    def _look_at_other(self, kind: int, misc: int, record: memoryview, offset: int) -> int:
        """Read a record that is no sample. Return its size, including AUX data."""
        if kind in NAME_AT:
            self._map(kind, misc, bytes(record), offset)
        elif kind == RecordType.FORK:
            pid, parent = _FORK.unpack_from(record)
            if copies_parent(pid, parent, misc):
                self._parents[pid] = parent
        elif kind == RecordType.AUXTRACE:
            return len(record) + int(_WORD.unpack_from(record, 8)[0])
        return len(record)

    def _map(self, kind: int, misc: int, record: bytes, offset: int) -> None:
        pid, address, length = _MAPPING.unpack_from(record)
        name, is_kernel = record[NAME_AT[kind] :].partition(b"\0")[0], is_kernel_map(misc)
        is_marked = kind == RecordType.MMAP2 and misc & MISC_MMAP_BUILD_ID != 0
        has_build_id = is_marked and holds_build_id(record[8:])
        identity = record[BUILD_ID_AT : BUILD_ID_AT + IDENTITY.size] if kind == RecordType.MMAP2 and not has_build_id else b""
        dso = self._dso_of.get((name, identity, is_kernel)) or self._new_dso(name, identity, is_kernel=is_kernel)
        dso.pid = pid
        if is_marked and not has_build_id:
            self.without_build_id.append((offset, misc & ~MISC_MMAP_BUILD_ID))
        elif has_build_id and (size := record[BUILD_ID_AT]):
            dso.build_id = record[BUILD_ID_AT + 4 : BUILD_ID_AT + 4 + size]
        maps = self._kernel_maps if is_kernel else self._maps.setdefault(pid, [])
        maps.append((address >> _PAGE_SHIFT, -(-(address + length) >> _PAGE_SHIFT), dso))

    def _new_dso(self, recorded_name: bytes, recorded_identity: bytes, *, is_kernel: bool) -> HitDso:
        name = text(recorded_name)
        if is_kernel and is_kernel_name(name):
            name = KERNEL_NAME
        numbers = IDENTITY.unpack(recorded_identity) if len(recorded_identity) == IDENTITY.size and not is_kernel else (0, 0, 0, 0)
        identity = numbers if numbers[2] else None
        dso = self._dso_of[recorded_name, recorded_identity, is_kernel] = self._file(name, identity, is_kernel=is_kernel)
        return dso

    def _file(self, name: str, identity: FileId | None, *, is_kernel: bool) -> HitDso:
        """Return the file of a mapping. Synthesized mappings have no generation: theirs is the first file with the inode."""
        new = HitDso(name, is_kernel=is_kernel, identity=identity)
        first = self._first_of.setdefault((name, identity[:3] if identity else ()), new)
        if first.identity and identity and first.identity != identity:
            if not identity[3]:
                first.synthesized = True
            elif not first.identity[3]:
                first.identity = identity
            else:
                return self.dsos.setdefault((name, identity), new)
        return self.dsos.setdefault((name, first.identity or ()), first) if first is new else first

    def to_bytes(self) -> bytes:
        """Return the result of a complete scan as bytes, for another process."""
        list(self.hit())
        dsos = [
            [dso.name, dso.is_kernel, dso.pid, dso.build_id.hex(), dso.hit, dso.identity, dso.synthesized] for dso in self.dsos.values()
        ]
        return marshal.dumps([self.samples, self.first_time, self.last_time, dsos])

    @classmethod
    def from_bytes(cls, data: bytes) -> DsoHits:
        """Decode the bytes of to_bytes(), which a process of the recorder has sent."""
        hits = cls(())
        hits.samples, hits.first_time, hits.last_time, dsos = marshal.loads(data)
        for name, is_kernel, pid, build_id, hit, numbers, synthesized in dsos:
            identity = (numbers[0], numbers[1], numbers[2], numbers[3]) if numbers else None
            dso = HitDso(name, is_kernel=is_kernel, pid=pid, identity=identity)
            hits.dsos[name, identity or ()] = dso
            dso.build_id, dso.hit, dso.synthesized = bytes.fromhex(build_id), hit, synthesized
        return hits

    def hit(self) -> Iterator[HitDso]:
        """Return the dsos that samples hit, and the vdso, which has no file to read later.

        Call it after the scan is complete.
        """
        modules = [entry for entry in self._kernel_maps if entry[2].name != KERNEL_NAME]
        core = self.dsos.get((KERNEL_NAME, ()))
        if _mark(modules, sorted(self._kernel_pages)) and core:
            core.hit = True
        # Mark the files of user pages: of the process itself, for the other pages those of its parent, and so on.
        keys, visited = self._pages, set(self._pages)
        while keys:
            unmapped: set[int] = set()
            for pid, group in groupby(sorted(keys), lambda key: key >> _PID_SHIFT):
                others = _mark(self._maps.get(pid, ()), [key & _PAGE_MASK for key in group])
                if others and pid in self._parents:
                    parent = self._parents[pid] << _PID_SHIFT
                    unmapped.update(parent | page for page in others)
            keys = unmapped - visited
            visited |= keys
        return (dso for dso in self.dsos.values() if dso.hit or dso.name == _VDSO)

    def file_of(self, pid: int, address: int) -> HitDso | None:
        """Return the last file that a process, or one that it was forked from, had mapped at an address; None if there was none."""
        page, visited = address >> _PAGE_SHIFT, set()
        while pid not in visited:
            visited.add(pid)
            for first, end, dso in reversed(self._maps.get(pid, ())):
                if first <= page < end:
                    return dso
            pid = self._parents.get(pid, pid)
        return None


def _mark(mappings: Sequence[_MappedPages], pages: list[int]) -> list[int]:
    """Mark the files that have some of the pages, which are in order. Return the pages that no file has."""
    ranges = []
    for first, end, dso in mappings:
        begin = bisect_left(pages, first)
        stop = bisect_left(pages, end, begin)
        if begin < stop:
            dso.hit = True
            ranges.append((begin, stop))
    others: list[int] = []
    next_page = 0
    for begin, stop in sorted(ranges):
        others += pages[next_page:begin]
        next_page = max(next_page, stop)
    return others + pages[next_page:]


def _layout(attrs: Sequence[EventAttr]) -> tuple[struct.Struct, int, bool]:
    """Return the layout of ip, pid and time in the samples of these events, the words before the time, and whether all have it."""
    if not attrs:
        return struct.Struct("="), 0, False
    skipped = 8 + (8 if attrs[0].sample_type & SampleType.IDENTIFIER else 0)
    has_time = all(attr.sample_type & SampleType.TIME for attr in attrs)
    # Without a time, the tid is read in its place and ignored.
    return struct.Struct(f"={skipped}xQI4xQ" if has_time else f"={skipped}xQII"), (skipped + 16) >> 3, has_time


# Runs of samples of one size, read together. numpy is not used, because its import takes as long as many thousands of samples.

_LEAST: Final = 128
_MOST: Final = 4096  # records read before their type is checked
_PIECE: Final = 1 << 20  # bytes read together
_WORTH_A_COPY: Final = 512  # bytes; of larger samples, for example with stacks, only the needed words are read
_LARGER: Final = 4
_WORTH_IT: Final = 3  # samples for each distinct beginning


class Run(NamedTuple):
    """A run of samples.

    Attributes:
        samples: their number.
        beginnings: the distinct words before their times, concatenated.
        first, last: of the times.
        has_repeats: whether most beginnings repeat, so that reading runs saves time.
    """

    samples: int
    beginnings: bytes
    first: int
    last: int
    has_repeats: bool


class EqualSamples:
    """Runs in one piece of a file. words is the number of words before a sample's time, or before the next field without a time."""

    def __init__(self, data: memoryview, words: int, *, has_time: bool) -> None:
        self._data = data
        self._words = words
        self._has_time = has_time
        self._most = _LEAST

    def run(self, offset: int, size: int) -> Run:
        """Read the samples of `size` bytes from `offset`, where a sample begins, up to the limit of one run."""
        count = min(self._most, (len(self._data) - offset) // size, max(_PIECE // size, 1))
        beginnings = self._beginnings(offset, size, count)
        if all(_is_sample(beginning, size) for (beginning,) in beginnings):
            self._most = min(self._most * _LARGER, _MOST) if len(beginnings) * _WORTH_IT <= count else _LEAST
        else:
            self._most = _LEAST
            count = next(number for number in range(count) if not _is_sample(self._data[offset + number * size :], size))
            beginnings = self._beginnings(offset, size, count)
        times = self._times(offset, size, count)
        has_repeats = len(beginnings) * _WORTH_IT <= count
        return Run(count, b"".join(beginning for (beginning,) in beginnings), min(times), max(times), has_repeats=has_repeats)

    def _beginnings(self, offset: int, size: int, count: int) -> set[tuple[bytes]]:
        front = 8 * self._words
        return set(struct.Struct(f"{front}s{size - front}x").iter_unpack(self._data[offset : offset + count * size]))

    def _times(self, offset: int, size: int, count: int) -> Sequence[int]:
        if not self._has_time:
            return (0,)
        run = self._data[offset : offset + count * size]
        if size > _WORTH_A_COPY:
            return [time for (time,) in struct.Struct(f"={8 * self._words}xQ{size - 8 * self._words - 8}x").iter_unpack(run)]
        words = array("Q")
        words.frombytes(run)
        return words[self._words :: size >> 3]


def _is_sample(record: bytes | memoryview, size: int) -> bool:
    kind, _, its_size = HEADER.unpack_from(record)
    return bool(kind == RecordType.SAMPLE and its_size == size)


# Build-ids of the recorded files: the table for perf.data, and the files' copies in the BuildIdCache of perfpy.symbols.

_PID: Final = -1  # the host
_SHOWN: Final = 3
_REMEDY: Final = "(--buildid-mmap records the build-ids of the files that run)"
_MOST_OPEN: Final = 256  # files that are not at their recorded path


def own_build_id(name: str) -> bytes:
    """Return the build-id of a mapping's name: a file, the kernel, a module, the vdso; b"" if there is none."""
    if name == _VDSO:
        return build_id_notes.of_image(build_id_notes.vdso_image())
    if name.startswith(KERNEL):
        return build_id_notes.of_kernel()
    if name.startswith("["):
        return build_id_notes.of_module(name.strip("[]"))
    return build_id_notes.of_file(name) if name.startswith("/") and not name.startswith("//") else b""


class BuildIdTable(NamedTuple):
    """The recorded files with a build-id.

    Attributes:
        entries: the build-id table of perf.data, one entry for each name.
        others: the build-ids that are in the records of mappings instead: of files in containers that have the name of an entry, and of
            files that share their name with one whose build-id is unknown, because that would get the build-id of the entry.
        elsewhere: build-id -> path, of files that are not at their recorded path.
        replaced: the paths of files that are gone and have another file at their path.
    """

    entries: tuple[HeaderBuildId, ...]
    others: dict[HitDso, HeaderBuildId]
    elsewhere: dict[bytes, str]
    replaced: tuple[str, ...]

    @property
    def other_build_ids(self) -> dict[tuple[bytes, tuple[int, ...]], bytes]:
        """The build-ids of `others`, by name and identity, as the records have it."""
        build_ids: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        for dso, entry in self.others.items():
            if dso.identity:
                build_ids[os.fsencode(dso.name), dso.identity] = entry.build_id
                if dso.synthesized:
                    build_ids[os.fsencode(dso.name), (*dso.identity[:3], 0)] = entry.build_id
        return build_ids


def paths(dsos: Iterable[HitDso], opened: ExitStack) -> dict[HitDso, str]:
    """Return the actual paths of files that are not at their recorded path; "" for files that are gone.

    These are deleted files, and those in containers and below chroot.

    Args:
        dsos: the files.
        opened: keeps files open whose process may have ended. Their paths are valid until it is closed.
    """
    moved: dict[HitDso, str] = {}
    for dso in dsos:
        if dso.is_kernel or not dso.name.startswith("/") or dso.name.startswith("//"):
            continue
        if dso.identity and not dso.build_id:
            opened_file = open_identified(dso.name, dso.identity, (dso.pid,)) if len(moved) < _MOST_OPEN else None
            if opened_file is not None and opened_file[1] == dso.name:
                os.close(opened_file[0])
                continue
            if opened_file is not None:
                opened.callback(os.close, opened_file[0])
            moved[dso] = f"/proc/self/fd/{opened_file[0]}" if opened_file is not None else ""
        elif not os.path.exists(dso.name) or other_root(dso.pid):
            path = next(paths_of(dso.name, (dso.pid,)), "")
            if path:
                moved[dso] = path
    return moved


def table(dsos: Iterable[HitDso], moved: Mapping[HitDso, str] | None = None) -> BuildIdTable:
    """Return the files with a build-id. moved is the result of `paths`."""
    moved = moved or {}
    first: dict[str, HeaderBuildId] = {}
    owners: dict[str, HitDso] = {}
    others: dict[HitDso, HeaderBuildId] = {}
    elsewhere: dict[bytes, str] = {}
    unknown: set[str] = set()
    for dso in sorted(dsos, key=lambda dso: dso in moved):  # of files with one name, the host's is in the table
        build_id = dso.build_id or own_build_id(moved.get(dso, dso.name))
        if not build_id:
            unknown.add(dso.name)
            continue
        misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.is_kernel else MISC_USER)
        entry = HeaderBuildId(misc, _PID, build_id, dso.name)
        owners.setdefault(dso.name, dso)
        if first.setdefault(dso.name, entry).build_id != build_id and not dso.build_id:
            others[dso] = entry
        if path := moved.get(dso):
            elsewhere[build_id] = path
    for name in unknown & first.keys():
        entry, dso = first.pop(name), owners[name]
        if not dso.build_id:
            others[dso] = entry
    replaced = (dso.name for dso, path in moved.items() if not path and os.path.exists(dso.name))
    return BuildIdTable(tuple(first.values()), others, elsewhere, tuple(dict.fromkeys(replaced)))


def replaced_line(paths: Sequence[str]) -> str:
    """Return the warning about files that were replaced while they were recorded."""
    return f"warning: replaced while recorded: {_list(paths)}; functions of the files that ran have no names {_REMEDY}"


def same_name_line(paths: Sequence[str]) -> str:
    """Return the warning about names of several files, in a compressed recording, whose mappings cannot be changed any more."""
    return f"warning: several files are named {_list(paths)}; functions of some have no names {_REMEDY}"


def _list(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(one_line(path) for path in paths[:_SHOWN]) + more


def keep(files: BuildIdTable, folder: str) -> None:
    """Add the files to the cache in a folder ("": perf's default). Print a warning for each file that is not safe to add."""
    for refused in BuildIdCache(folder).add((*files.entries, *files.others.values()), files.elsewhere):
        print(f"Warning: {refused}", file=sys.stderr)


def build_ids_in_mappings(data: memoryview, build_ids: Mapping[tuple[bytes, tuple[int, ...]], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) to write into the records of some files' mappings, so that they have build-ids.

    Args:
        data: whole records.
        build_ids: the files' build-ids, by name and identity.
    """
    offset = 0
    while offset + HEADER.size <= len(data):
        kind, misc, size = HEADER.unpack_from(data, offset)
        if size < HEADER.size:
            break
        if kind == RecordType.MMAP2 and not misc & MISC_MMAP_BUILD_ID:
            record = bytes(data[offset : offset + size])
            name = record[NAME_AT[kind] :].partition(b"\0")[0]
            if build_id := build_ids.get((name, IDENTITY.unpack_from(record, BUILD_ID_AT))):
                yield offset, HEADER.pack(kind, misc | MISC_MMAP_BUILD_ID, size)
                yield offset + BUILD_ID_AT, struct.pack("=B3x20s", len(build_id), build_id)
        elif kind == RecordType.AUXTRACE:
            size += int.from_bytes(data[offset + 8 : offset + 16], sys.byteorder)
        offset += size


# Decompress the records of perfpy's own complete files without numpy, some megabytes at a time. perfpy.perfdata.writer writes them.

_UNPACKED_PIECE: Final = 4 << 20


def unpack_records(data: memoryview) -> Iterator[memoryview]:
    """Yield pieces of whole records."""
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor
    else:
        from backports.zstd import ZstdDecompressor
    stream = ZstdDecompressor()
    buffer = bytearray()
    offset = 0
    while offset + 8 <= len(data):
        kind, _, size = HEADER.unpack_from(data, offset)
        if size < 8 or offset + size > len(data):
            break
        if kind == RecordType.COMPRESSED:
            buffer += stream.decompress(data[offset + 8 : offset + size])
        else:
            buffer += data[offset : offset + size]  # it comes between two compressed pieces, each of which ends with a record
        offset += size
        if len(buffer) >= _UNPACKED_PIECE:
            end = _whole(buffer)
            yield memoryview(bytes(buffer[:end]))
            del buffer[:end]
    yield memoryview(bytes(buffer[: _whole(buffer)]))


def _whole(records: bytearray) -> int:
    """Return the end of the last whole record."""
    header, offset, end = HEADER.unpack_from, 0, len(records)
    while offset + 8 <= end:
        size = header(records, offset)[2]
        if size < 8 or offset + size > end:
            break
        offset += size
    return offset
