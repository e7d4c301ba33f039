"""The records that say which tasks there are and what they map -> columns.

What enters: the bodies of many MMAP, MMAP2, COMM, FORK, EXIT and KSYMBOL
records, one after the other. What leaves: TaskRecords. A system-wide
recording of a build has more of these than a report has rows: here a record
costs a slice and a look into a dict, where one value each (perfpy.abi.records,
which has the layouts) costs ten times that.

The bytes of MMAP and MMAP2 records after their first 32, {u32 pid, tid; u64
addr, len, pgoff}, say which file it is. There are few different ones: these
only are decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_MMAP_BUILD_ID, MISC_MMAP_DATA, RecordType
from perfpy.abi.framing import text
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PROT_EXEC: Final = 4
_FIXED: Final = {
    RecordType.MMAP: 32,
    RecordType.MMAP2: 64,
    RecordType.COMM: 8,
    RecordType.FORK: 24,
    RecordType.EXIT: 24,
    RecordType.KSYMBOL: 16,
}
_OF_FILE: Final = 32  # where what says of the file begins
_AT_ONCE: Final = 1 << 16  # records that are cut into slices together
_NAME: Final = {RecordType.MMAP: 0, RecordType.MMAP2: 32}  # where its name begins, after that

#: the types that are decoded here
TASK_TYPES: Final = frozenset(_FIXED)


class RawColumns(NamedTuple):
    """Records before they are decoded: type and misc; where their bodies begin in `data` (multiples of 8) and their sizes, in bytes.

    trailer: the sizes of their sample_ids; data: the bodies, padded to a multiple of 8.
    """

    type: NDArray[np.uint32]
    misc: NDArray[np.uint16]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    trailer: NDArray[np.int64]
    data: bytes

    def rows(self, index: NDArray[np.bool_]) -> RawColumns:
        """Only the given records."""
        columns = (self.type[index], self.misc[index], self.start[index], self.size[index], self.trailer[index])
        return RawColumns(*columns, self.data)

    def body(self, row: int) -> bytes:
        """The body of one record, its trailer included."""
        return self.data[self.start[row] : self.start[row] + self.size[row]]

    @property
    def too_short(self) -> NDArray[np.bool_]:
        """Which records have no room for what all of their type have."""
        needed = self.trailer.copy()
        for kind, size in _FIXED.items():
            needed[self.type == kind] += size
        return self.size < needed


class MappedFile(NamedTuple):
    """What a mapping says of its file. executable: code may be in it; flags: of mmap(); build_id: b"" where it is not known."""

    name: str
    executable: bool
    flags: int
    build_id: bytes


class MapColumns(NamedTuple):
    """MMAP and MMAP2 records. rank: as TaskRecords says; mode: the cpumode of misc; file: index into TaskRecords.files."""

    rank: NDArray[np.int32]
    mode: NDArray[np.uint16]
    pid: NDArray[np.uint32]
    start: NDArray[np.uint64]
    length: NDArray[np.uint64]
    pgoff: NDArray[np.uint64]
    file: NDArray[np.int32]

    def rows(self, index: NDArray[np.bool_]) -> MapColumns:
        """Only the given records."""
        return MapColumns._make([column[index] for column in self])


class TaskColumns(NamedTuple):
    """COMM, FORK and EXIT records. comm: index into TaskRecords.comms, of COMM only, as ppid and ptid are not of COMM."""

    rank: NDArray[np.int32]
    type: NDArray[np.uint32]
    misc: NDArray[np.uint16]
    pid: NDArray[np.uint32]
    tid: NDArray[np.uint32]
    ppid: NDArray[np.uint32]
    ptid: NDArray[np.uint32]
    comm: NDArray[np.int32]


class TaskRecords(NamedTuple):
    """The records by kind. A record's rank is its ordinal among all of them, from 1 on; keys: of all of them, by rank."""

    keys: NDArray[np.uint64]
    maps: MapColumns
    files: list[MappedFile]
    tasks: TaskColumns
    comms: list[str]
    ksymbols: list[tuple[int, records.Ksymbol]]


def decode_tasks(raw: RawColumns, keys: NDArray[np.uint64], endian: str) -> TaskRecords:
    """Records of TASK_TYPES, none of which is too short; keys: their delivery keys."""
    ranks = np.arange(1, len(keys) + 1, dtype=np.int32)
    is_map = (raw.type == RecordType.MMAP) | (raw.type == RecordType.MMAP2)
    is_ksymbol = raw.type == RecordType.KSYMBOL
    is_task = ~(is_map | is_ksymbol)
    maps, files = _maps(raw.rows(is_map), ranks[is_map], endian)
    tasks, comms = _tasks(raw.rows(is_task), ranks[is_task], endian)
    ksymbols = [(row + 1, _ksymbol(raw, row, endian)) for row in np.flatnonzero(is_ksymbol).tolist()]
    return TaskRecords(keys, maps, files, tasks, comms, ksymbols)


def _ksymbol(raw: RawColumns, row: int, endian: str) -> records.Ksymbol:
    record = records.decode(RecordType.KSYMBOL, int(raw.misc[row]), raw.body(row), endian=endian)
    assert isinstance(record, records.Ksymbol)
    return record


def _maps(raw: RawColumns, ranks: NDArray[np.int32], endian: str) -> tuple[MapColumns, list[MappedFile]]:
    offset = raw.start >> 3
    words = np.frombuffer(raw.data, endian + "u8")
    halves = np.frombuffer(raw.data, endian + "u4")
    start, length, pgoff = (words[offset + word].astype(np.uint64, copy=False) for word in (1, 2, 3))
    file, files = _files(raw, endian)
    return MapColumns(ranks, raw.misc & np.uint16(MISC_CPUMODE_MASK), _native(halves[offset << 1]), start, length, pgoff, file), files


def _files(raw: RawColumns, endian: str) -> tuple[NDArray[np.int32], list[MappedFile]]:
    """The file of each mapping, and the different ones."""
    number = np.zeros(len(raw.type), np.int32)
    files: list[MappedFile] = []
    # what the bytes mean, type and misc say
    meanings = raw.type << np.uint32(16) | raw.misc & np.uint16(MISC_MMAP_BUILD_ID | MISC_MMAP_DATA)
    for meaning in set(meanings.tolist()):
        kind, misc = meaning >> 16, meaning & 0xFFFF
        mine = meanings == meaning
        number[mine], slices = _interned(raw.rows(mine), _OF_FILE, _NAME[kind])
        number[mine] += len(files)
        files += [_file(kind, misc, slice_, endian) for slice_ in slices]
    return number, files


def _file(kind: int, misc: int, of_file: bytes, endian: str) -> MappedFile:
    record = records.decode(kind, misc, bytes(_OF_FILE) + of_file, endian=endian)
    if isinstance(record, records.Mmap2):
        return MappedFile(record.filename, bool(record.prot & _PROT_EXEC), record.flags, record.build_id)
    assert isinstance(record, records.Mmap)
    return MappedFile(record.filename, not misc & MISC_MMAP_DATA, 0, b"")


def _tasks(raw: RawColumns, ranks: NDArray[np.int32], endian: str) -> tuple[TaskColumns, list[str]]:
    offset = raw.start >> 2
    halves = np.frombuffer(raw.data, endian + "u4")
    # { u32 pid, tid; } of COMM, { u32 pid, ppid, tid, ptid; } of the others
    pid, second, third, fourth = (_native(halves.take(offset + half, mode="clip")) for half in range(4))
    is_comm = raw.type == RecordType.COMM
    number, slices = _interned(raw.rows(is_comm), _FIXED[RecordType.COMM], 0)
    comm = np.full(len(ranks), -1, np.int32)
    comm[is_comm] = number
    tasks = TaskColumns(ranks, raw.type, raw.misc, pid, np.where(is_comm, second, third), second, fourth, comm)
    return tasks, [text(slice_) for slice_ in slices]


def _native(column: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return column.astype(np.uint32, copy=False)


def _interned(raw: RawColumns, begin: int, name: int) -> tuple[list[int], list[bytes]]:
    """The bytes from `begin` on of each body as numbers, and the different ones; `name`: where in them their C string begins."""
    begins = raw.start + begin
    numbers, slices = _numbered(raw.data, begins, raw.start + raw.size - raw.trailer)
    if any(0 not in slice_[name:] for slice_ in slices):
        # a C string that does not end within its field runs on into the trailer, as in perfpy.abi.records
        return _numbered(raw.data, begins, raw.start + raw.size)
    return numbers, slices


def _numbered(data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[list[int], list[bytes]]:
    """Numbers for slices of `data`, equal ones for equal slices, and the different ones."""
    known: dict[bytes, int] = {}
    numbers: list[int] = []
    for first in range(0, len(begins), _AT_ONCE):
        bounds = zip(begins[first : first + _AT_ONCE].tolist(), ends[first : first + _AT_ONCE].tolist(), strict=True)
        slices = [data[begin:end] for begin, end in bounds]
        for slice_ in dict.fromkeys(slices):
            known.setdefault(slice_, len(known))
        numbers += [known[slice_] for slice_ in slices]
    return numbers, list(known)
