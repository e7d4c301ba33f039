"""Decode the records about tasks and mappings (MMAP, MMAP2, COMM, FORK, EXIT, KSYMBOL) into columns.

A system-wide recording of a build has more of these than a report has rows. Here a record costs a slice and a dict lookup; one value for
each record (perfpy.abi.records, which has the layouts) would cost ten times as much.

After their first 32 bytes, {u32 pid, tid; u64 addr, len, pgoff}, MMAP and MMAP2 records describe the file. Few of these descriptions are
distinct, and only the distinct ones are decoded.
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_MMAP_BUILD_ID, MISC_MMAP_DATA, RecordType
from perfpy.abi.framing import text
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Final

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
_TWO_NUMBERS: Final = {endian: Struct(endian + "ii") for endian in "<>"}
_FOUR_NUMBERS: Final = {endian: Struct(endian + "iiii") for endian in "<>"}
_OF_FILE: Final = 32  # offset of the file's description
_AT_ONCE: Final = 1 << 16  # number of records sliced together
_NAME: Final = {RecordType.MMAP: 0, RecordType.MMAP2: 32}  # offset of the name in that description

#: the types that this module decodes
TASK_TYPES: Final = frozenset(_FIXED)
#: the types that name threads
NAMING_TYPES: Final = frozenset((RecordType.COMM, RecordType.FORK, RecordType.EXIT))


class RawColumns(NamedTuple):
    """Records before decoding.

    Attributes:
        start: offsets of the bodies in `data`, multiples of 8
        size: sizes of the bodies in bytes
        trailer: sizes of their sample_ids
        data: the bodies, padded to a multiple of 8
    """

    type: NDArray[np.uint32]
    misc: NDArray[np.uint16]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    trailer: NDArray[np.int64]
    data: bytes

    def rows(self, index: NDArray[np.bool_]) -> RawColumns:
        """Select some records."""
        columns = (self.type[index], self.misc[index], self.start[index], self.size[index], self.trailer[index])
        return RawColumns(*columns, self.data)

    def body(self, row: int) -> bytes:
        """Return the body of one record, with its trailer."""
        return self.data[self.start[row] : self.start[row] + self.size[row]]

    @property
    def too_short(self) -> NDArray[np.bool_]:
        """A mask of records that are too short for the fixed fields of their type."""
        needed = self.trailer.copy()
        for kind, size in _FIXED.items():
            needed[self.type == kind] += size
        return self.size < needed


class MappedFile(NamedTuple):
    """The file of a mapping.

    Attributes:
        executable: whether it may contain code
        flags: those of mmap()
        build_id: b"" if unknown
        identity: device (major, minor), inode and generation; zeros if unknown
    """

    name: str
    executable: bool
    flags: int
    build_id: bytes
    identity: tuple[int, int, int, int] = (0, 0, 0, 0)


class MapColumns(NamedTuple):
    """MMAP and MMAP2 records.

    Attributes:
        rank: see TaskRecords
        mode: the cpumode of misc
        file: index into TaskRecords.files
    """

    rank: NDArray[np.int32]
    mode: NDArray[np.uint16]
    pid: NDArray[np.uint32]
    start: NDArray[np.uint64]
    length: NDArray[np.uint64]
    pgoff: NDArray[np.uint64]
    file: NDArray[np.int32]

    def rows(self, index: NDArray[np.bool_]) -> MapColumns:
        """Select some records."""
        return MapColumns._make([column[index] for column in self])


class TaskColumns(NamedTuple):
    """COMM, FORK and EXIT records. `comm`, an index into TaskRecords.comms, is defined for COMM only; ppid and ptid for the others."""

    rank: NDArray[np.int32]
    type: NDArray[np.uint32]
    misc: NDArray[np.uint16]
    pid: NDArray[np.uint32]
    tid: NDArray[np.uint32]
    ppid: NDArray[np.uint32]
    ptid: NDArray[np.uint32]
    comm: NDArray[np.int32]


class TaskRecords(NamedTuple):
    """The records by kind. A record's rank is its number among all of them, from 1; `keys` has the delivery keys by rank."""

    keys: NDArray[np.uint64]
    maps: MapColumns
    files: list[MappedFile]
    tasks: TaskColumns
    comms: list[str]
    ksymbols: list[tuple[int, records.Ksymbol]]


class TaskNumbers(NamedTuple):
    """The thread of a record, and its parent if it is a FORK or EXIT record (0 otherwise)."""

    pid: int
    tid: int
    ppid: int
    ptid: int


def task_numbers(kind: int, body: bytes, endian: str) -> TaskNumbers | None:
    """Decode the numbers at the start of a record of TASK_TYPES other than KSYMBOL; None if it is too short."""
    has_parent = kind in (RecordType.FORK, RecordType.EXIT)
    if len(body) < _FIXED[kind]:
        return None
    if not has_parent:
        pid, tid = _TWO_NUMBERS[endian].unpack_from(body)
        return TaskNumbers(pid, tid, 0, 0)
    pid, ppid, tid, ptid = _FOUR_NUMBERS[endian].unpack_from(body)
    return TaskNumbers(pid, tid, ppid, ptid)


class NumberColumns(NamedTuple):
    """The threads of records; the parents are those of FORK and EXIT records."""

    type: NDArray[np.uint32]
    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    ppid: NDArray[np.int32]
    ptid: NDArray[np.int32]


def number_columns(raw: RawColumns, keys: NDArray[np.uint64], times: NDArray[np.uint64], endian: str) -> NumberColumns:
    """Decode what task_numbers decodes, of many records. Drops records that are too short for it.

    Args:
        raw: the records.
        keys, times: their delivery keys and times.
        endian: their byte order.
    """
    fits = raw.size >= np.array([_FIXED.get(kind, 0) for kind in range(int(raw.type.max(initial=0)) + 1)])[raw.type]
    raw, keys, times = raw.rows(fits), keys[fits], times[fits]
    numbers = np.frombuffer(raw.data, endian + "i4")
    first = raw.start >> 2
    has_parent = (raw.type == RecordType.FORK) | (raw.type == RecordType.EXIT)
    tid = numbers[first + 1 + has_parent].astype(np.int32)
    ppid, ptid = (np.where(has_parent, numbers[np.where(has_parent, first + word, first)], 0).astype(np.int32) for word in (1, 3))
    return NumberColumns(raw.type, keys, times, numbers[first].astype(np.int32), tid, ppid, ptid)


def decode_tasks(raw: RawColumns, keys: NDArray[np.uint64], endian: str) -> TaskRecords:
    """Decode records of TASK_TYPES, none of which is too short. `keys` are their delivery keys."""
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
    """Return the file index of each mapping, and the distinct files."""
    number = np.zeros(len(raw.type), np.int32)
    files: list[MappedFile] = []
    # type and misc determine how the bytes are decoded
    meanings = raw.type << np.uint32(16) | raw.misc & np.uint16(MISC_MMAP_BUILD_ID | MISC_MMAP_DATA)
    for meaning in set(meanings.tolist()):
        kind, misc = meaning >> 16, meaning & 0xFFFF
        has_meaning = meanings == meaning
        number[has_meaning], slices = _intern_names(raw.rows(has_meaning), _OF_FILE, _NAME[kind])
        number[has_meaning] += len(files)
        files += [_file(kind, misc, slice_, endian) for slice_ in slices]
    return number, files


def _file(kind: int, misc: int, of_file: bytes, endian: str) -> MappedFile:
    record = records.decode(kind, misc, bytes(_OF_FILE) + of_file, endian=endian)
    if isinstance(record, records.Mmap2):
        identity = (record.maj, record.min, record.ino, record.ino_generation)
        return MappedFile(record.filename, bool(record.prot & _PROT_EXEC), record.flags, record.build_id, identity)
    assert isinstance(record, records.Mmap)
    return MappedFile(record.filename, not misc & MISC_MMAP_DATA, 0, b"")


def _tasks(raw: RawColumns, ranks: NDArray[np.int32], endian: str) -> tuple[TaskColumns, list[str]]:
    offset = raw.start >> 2
    halves = np.frombuffer(raw.data, endian + "u4")
    # { u32 pid, tid; } of COMM, { u32 pid, ppid, tid, ptid; } of the others
    pid, second, third, fourth = (_native(halves.take(offset + half, mode="clip")) for half in range(4))
    is_comm = raw.type == RecordType.COMM
    number, slices = _intern_names(raw.rows(is_comm), _FIXED[RecordType.COMM], 0)
    comm = np.full(len(ranks), -1, np.int32)
    comm[is_comm] = number
    tasks = TaskColumns(ranks, raw.type, raw.misc, pid, np.where(is_comm, second, third), second, fourth, comm)
    return tasks, [text(slice_) for slice_ in slices]


def _native(column: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return column.astype(np.uint32, copy=False)


def _intern_names(raw: RawColumns, begin: int, name: int) -> tuple[list[int], list[bytes]]:
    """Intern the bytes from `begin` of each body. Their C string starts at `name`. Return numbers and the distinct bytes."""
    begins = raw.start + begin
    numbers, slices = _intern_slices(raw.data, begins, raw.start + raw.size - raw.trailer)
    if any(0 not in slice_[name:] for slice_ in slices):
        # an unterminated C string continues into the trailer, as in perfpy.abi.records
        return _intern_slices(raw.data, begins, raw.start + raw.size)
    return numbers, slices


def _intern_slices(data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[list[int], list[bytes]]:
    """Intern slices of `data`: return a number for each slice, and the distinct slices."""
    numbers_of: dict[bytes, int] = {}
    numbers: list[int] = []
    for first in range(0, len(begins), _AT_ONCE):
        bounds = zip(begins[first : first + _AT_ONCE].tolist(), ends[first : first + _AT_ONCE].tolist(), strict=True)
        slices = [data[begin:end] for begin, end in bounds]
        for slice_ in dict.fromkeys(slices):
            numbers_of.setdefault(slice_, len(numbers_of))
        numbers += [numbers_of[slice_] for slice_ in slices]
    return numbers, list(numbers_of)
