"""Find text that processes move to other memory at its own address while they are recorded (see metadata/moved_text).

The kernel records the new memory under names such as //anon, which have no symbols. After such a record the process's mappings and memory
are read. Each proven range gets another MMAP2 record, with the file's name, at the kernel's time; perf reads it, too.

The memory can only be read while the process runs, and its text is compared again in later passes, because the record comes before the
copy. Runtimes that generate code produce such records all day: the time spent on them is limited.
"""

from __future__ import annotations

import struct
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_MMAP_BUILD_ID, MISC_USER, RecordType, SampleType
from perfpy.symbols.dso import seen_by
from perfpy.symbols.tasks import is_move_target
from perfpy.untrusted.process_files import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.kernel.procfs import ProcFs, ProcMapping

    FindText = Callable[[int, list[ProcMapping]], list[ProcMapping]]


_HEADER: Final = struct.Struct("=IHH")
# MMAP2: { header; u32 pid, tid; u64 addr, len, pgoff; u32 maj, min; u64 ino, ino_generation; u32 prot, flags; char filename[]; }
_MMAP2: Final = struct.Struct("=IHHIIQQQIIQQII")
_TIME: Final = struct.Struct("=Q")
_PROT_EXEC: Final = 4
#: the kernel's names of memory to which text is moved
_NAMES: Final = (b"//anon\0", b"/anon_hugepage", b"/memfd:", b"/dev/shm/", b"/dev/hugepages/", b"/dev/zero")
_LONGEST: Final = max(map(len, _NAMES))
_SMALL: Final = 1 << 18  # bytes; above, a regular expression is faster, but its import takes as long as this
_WORTH_A_RUN: Final = 32  # samples; shorter runs cost as much as a search
_RUN: Final = 1 << 16  # bytes that are read at once
_KIND_AND_SIZE: Final = (0, 1, 2, 3, 6, 7)  # the header's bytes that samples of one size share
_MOST_RANGES: Final = 256  # of one process
_MOST_PROCESSES: Final = 256
_SOON: Final = 0.05  # seconds between two searches for a range
_NEVER: Final = float("inf")
_LONG: Final = 3600.0  # seconds; poll() takes no more than 24 days
_MOST_PROVEN: Final = 1024  # ranges
_MOST_ATTEMPTS: Final = 4  # searches for one range
_LATE: Final = 2  # passes
# The share of the time for searches and for walks over records, and the seconds that may be used at once.
_SEARCHES: Final = (0.02, 0.5)
_WALKS: Final = (0.05, 0.1)


class _Range:
    """A range of memory with code: the kernel's last record of it, the passes since then, and how often it was searched."""

    __slots__ = ("age", "attempts", "record")

    def __init__(self, record: bytes) -> None:
        self.record = record
        self.age = 0
        self.attempts = 0


class _Allowance:
    """Time that may be used: a share of the time that passes, up to a maximum."""

    def __init__(self, clock: Callable[[], float], share: float, most: float) -> None:
        self._clock = clock
        self._share = share
        self._most = self._seconds = most
        self._updated = clock()

    def begin(self) -> float | None:
        """Return the time now, None if the allowance is used up."""
        now = self._clock()
        self._seconds = min(self._seconds + self._share * (now - self._updated), self._most)
        self._updated = now
        return now if self._seconds > 0 else None

    def end(self, begun: float) -> None:
        """Take what was used from the allowance."""
        self._seconds -= self._clock() - begun

    def wait(self) -> float:
        """Return the seconds until some of the allowance is left."""
        return max(-self._seconds / self._share, 0.0)


class MovedTextWatch:
    """Looks at the records of all ring buffers. As an alarm, it ends waiting while there are ranges to search again.

    Args:
        attrs: the events.
        procfs: where processes are.
        build_id: path -> build-id, for records with build-ids.
        find: find_moved_text; None for that of moved_text, which is only loaded if a process may have moved its text.
        clock: returns seconds.
    """

    def __init__(
        self,
        attrs: Sequence[EventAttr],
        procfs: ProcFs,
        *,
        build_id: Callable[[str], bytes] | None = None,
        find: FindText | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._procfs = procfs
        self._build_id = build_id
        self._find = find
        self._clock = clock
        self._searching, self._walking = _Allowance(clock, *_SEARCHES), _Allowance(clock, *_WALKS)
        self._ranges: dict[int, dict[tuple[int, int], _Range]] = {}
        self._searches: dict[int, int] = {}
        self._newest = 0
        self._has_walked = False  # in this pass
        self._due = _NEVER
        self._has_skipped = False  # since the last walk
        self._proven: dict[tuple[int, int, int], bytes] = {}  # pid, address and length -> the kernel's last record
        self._sample_time_at, self._trailer_time_at = _time_offsets(attrs)
        self._search: Callable[[memoryview], object] | None = None

    def look(self, slices: Sequence[memoryview]) -> None:
        """Note the new memory with code in the contents of a ring buffer."""
        if not (self._ranges or self._has_skipped or self._has_name(slices)):
            return
        data = memoryview(b"".join(slices)) if len(slices) != 1 else slices[0]
        begun = self._walking.begin()
        if begun is None:
            self._has_skipped = True
            return
        for record, pid, address, length in self._records(data):
            ranges = self._ranges.setdefault(pid, {})
            ranges.pop((address, length), None)  # the last record decides, and the order is theirs
            ranges[address, length] = _Range(record)
            if len(ranges) > _MOST_RANGES:
                del ranges[next(iter(ranges))]
        self._has_walked = True
        self._walking.end(begun)

    def _has_name(self, slices: Sequence[memoryview]) -> bool:
        """Return whether the records may have one of the names. Samples of one size, which most are, need no search."""
        first, *others = slices or (memoryview(b""),)
        rest = _after_equal_samples(first)
        if not (rest or others):
            return False
        seams = (memoryview(bytes(one[-_LONGEST:]) + bytes(next_one[:_LONGEST])) for one, next_one in pairwise((rest, *others)))
        return any(map(self._is_name_in, (rest, *others, *seams)))

    def _is_name_in(self, data: memoryview) -> bool:
        if len(data) < _SMALL:
            contents = bytes(data)
            return any(name in contents for name in _NAMES)
        if self._search is None:
            import re  # recordings with little data do without

            alternatives = b"|".join(re.escape(name[1:]) for name in _NAMES)
            self._search = re.compile(b"/(?:" + alternatives + b")").search
        return self._search(data) is not None

    def _records(self, data: memoryview) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield records of memory with code, with pid, address and length. All records are visited: samples may contain any bytes."""
        offset, end, newest = 0, len(data), -1
        header, mapping, sample = _HEADER.unpack_from, int(RecordType.MMAP2), int(RecordType.SAMPLE)
        while offset + 8 <= end:
            kind, misc, size = header(data, offset)
            if size < 8 or offset + size > end:
                break
            if kind == mapping and misc & MISC_CPUMODE_MASK == MISC_USER and size > _MMAP2.size:
                record = bytes(data[offset : offset + size])
                fields = _MMAP2.unpack_from(record)
                if fields[12] & _PROT_EXEC and record.startswith(_NAMES, _MMAP2.size):
                    yield record, fields[3], fields[5], fields[6]
            elif kind == sample:
                newest = offset
            offset += size
        if newest >= 0 and self._sample_time_at and newest + self._sample_time_at + 8 <= end:
            self._newest = max(self._newest, _TIME.unpack_from(data, newest + self._sample_time_at)[0])

    def take(self) -> list[bytes]:
        """Return the records of moved text. Call it at the end of a pass, before the round ends."""
        records: list[bytes] = []
        if self._has_walked and self._has_skipped:
            self._renew()
        for pid in sorted(self._ranges, key=lambda one: self._searches.get(one, 0)):
            begun = self._searching.begin()
            if begun is None:
                break
            records += self._search_process(pid)
            self._searching.end(begun)
        for ranges in self._ranges.values():
            for one in ranges.values():
                one.age += 1
        self._has_walked = False
        while len(self._ranges) > _MOST_PROCESSES:
            del self._ranges[next(iter(self._ranges))]
        if len(self._searches) > _MOST_PROCESSES:
            self._searches.clear()
        allowance = self._walking if self._has_skipped else self._searching if self._ranges else None
        self._due = self._clock() + allowance.wait() + _SOON if allowance else _NEVER
        return records

    def wait(self, now: float) -> float:
        """Return the seconds until the next search."""
        return min(max(self._due - now, 0.0), _LONG)

    def ring(self, now: float) -> None:
        """Wait for the next pass."""
        if now >= self._due:
            self._due = _NEVER

    def _renew(self) -> None:
        """Search moved text again: the skipped records may have covered it."""
        self._has_skipped = False
        for (pid, address, length), record in self._proven.items():
            one = self._ranges.setdefault(pid, {}).setdefault((address, length), _Range(record))
            if one.record is record:
                one.age = _LATE

    def _search_process(self, pid: int) -> Iterator[bytes]:
        """Yield the records of one process's moved text, and forget the ranges that are explained by them."""
        ranges = self._ranges[pid]
        # Readers have sorted what is older than the previous pass: an older range gets the time of this pass.
        due = [extent for extent, one in ranges.items() if one.age < _LATE or self._has_walked]
        if not due:
            return
        self._searches[pid] = self._searches.get(pid, 0) + 1
        mappings = self._procfs.memory_with_code(pid, is_move_target)
        if not mappings:  # the process has ended
            del self._ranges[pid]
            self._proven = {key: record for key, record in self._proven.items() if key[0] != pid}
            return
        if self._find is None:
            from perfpy.capture.moved_text import find_moved_text  # few programs move their text

            self._find = find_moved_text
        texts = self._find(pid, mappings)
        for address, length in due:
            one = ranges[address, length]
            inside = [text for text in texts if text.start < address + length and address < text.end]
            covered = 0
            for text in inside:
                start, end = max(text.start, address), min(text.end, address + length)
                covered += end - start
                yield self._record(one, text, start, end)
            if inside:
                self._proven.pop((pid, address, length), None)
                self._proven[pid, address, length] = one.record
                if len(self._proven) > _MOST_PROVEN:
                    del self._proven[next(iter(self._proven))]
            one.attempts += 1
            if covered >= length or one.attempts == _MOST_ATTEMPTS:
                del ranges[address, length]
        if not ranges:
            del self._ranges[pid]

    def _record(self, one: _Range, text: ProcMapping, start: int, end: int) -> bytes:
        """Return the kernel's record of some memory, changed to one of a file's text."""
        record = one.record
        kind, misc, _, pid, tid, *_, prot, _ = _MMAP2.unpack_from(record)
        name = text.path.removeprefix(root_of(pid) or "")
        trailer = bytearray(record[_MMAP2.size + ((record.index(b"\0", _MMAP2.size) - _MMAP2.size + 8) & ~7) :])
        if one.age >= _LATE and self._trailer_time_at is not None and self._trailer_time_at + 8 <= len(trailer):
            (recorded,) = _TIME.unpack_from(trailer, self._trailer_time_at)
            _TIME.pack_into(trailer, self._trailer_time_at, max(recorded, self._newest))
        build_id = self._build_id(seen_by(pid, name)) if self._build_id else b""
        identity = (text.major, text.minor, text.inode, 0)
        if build_id:
            identity = struct.unpack("=IIQQ", struct.pack("=B3x20s", len(build_id), build_id))
        name_bytes = name.encode("utf-8", "surrogateescape")
        padded = name_bytes.ljust((len(name_bytes) + 8) & ~7, b"\0")
        misc = misc & MISC_CPUMODE_MASK | (MISC_MMAP_BUILD_ID if build_id else 0)
        size = _MMAP2.size + len(padded) + len(trailer)
        extent = start, end - start, text.offset + start - text.start
        return _MMAP2.pack(kind, misc, size, pid, tid, *extent, *identity, prot, text.flags) + padded + trailer


def _after_equal_samples(data: memoryview) -> memoryview:
    """Return what follows the runs of samples of one size with which a ring buffer's contents begin."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        kind, _, size = _HEADER.unpack_from(data, offset)
        if kind != RecordType.SAMPLE or size < _HEADER.size or offset + size > len(data):
            break
        run = bytes(data[offset : offset + max(_RUN // size, 1) * size])  # its columns are read faster than a memoryview's
        count = min(_repeats(run[byte::size]) for byte in _KIND_AND_SIZE)
        offset += count * size
        if count < min(_WORTH_A_RUN, len(run) // size):
            break
    return data[offset:]


def _repeats(column: bytes) -> int:
    """Return how often the first byte stands at the beginning of the column."""
    return len(column) - len(column.lstrip(column[:1]))


def _time_offsets(attrs: Sequence[EventAttr]) -> tuple[int, int | None]:
    """Return the offset of the time in samples, 0 if unknown; and in the trailers of other records, None if they have none."""
    kinds = {attr.sample_type & (SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME) for attr in attrs}
    kind = kinds.pop() if len(kinds) == 1 else 0
    if not kind & SampleType.TIME:
        return 0, None
    before = sum(8 for bit in (SampleType.IDENTIFIER, SampleType.IP, SampleType.TID) if kind & bit)
    return 8 + before, 8 if kind & SampleType.TID else 0
