"""Decode and encode the file header, the attr table and the pipe header.

Layout: struct perf_file_header in tools/perf/util/header.h and
tools/perf/Documentation/perf.data-file-format.txt:

    struct perf_file_section { u64 offset, size; }
    struct perf_file_header  { u64 magic, size, attr_size;
                               struct perf_file_section attrs, data, event_types;
                               u64 features[4]; }                       104 bytes
    struct perf_pipe_file_header { u64 magic, size; }                    16 bytes
    struct perf_file_attr { struct perf_event_attr attr; struct perf_file_section ids; }
"""

from __future__ import annotations

import itertools
import struct

from perfpy.abi import framing
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import (
    ATTR_SIZE_VER0,
    ATTR_SIZE_VER1,
    ATTR_SIZE_VER2,
    ATTR_SIZE_VER3,
    ATTR_SIZE_VER4,
    ATTR_SIZE_VER5,
    RecordType,
    names_of,
)
from perfpy.abi.framing import HEADER, as_number, pad_to_words, with_header
from perfpy.abi.light_types import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final, TypeAlias, TypeVar

    from perfpy.abi.framing import HeaderBuildId

    _T = TypeVar("_T")


MAGIC: Final = {"<": b"PERFILE2", ">": b"2ELIFREP"}
MAGIC_V1: Final = b"PERFFILE"  # the same in both byte orders; the attr size distinguishes them
HEADER_SIZE: Final = 104
PIPE_HEADER_SIZE: Final = 16
SECTION_SIZE: Final = 16
_OLDEST_HEADER_SIZE: Final = 72  # of writers without features
_FEATURES_OFFSET: Final = 72
_FEATURE_BITS: Final = 256
_HOSTNAME: Final = 3  # set by every writer that has features
_BUILD_ID: Final = 2
KEPT_FILES: Final = 240  #: the number of perfpy's own feature, the files of kept_files
_V1_ATTR_SIZES: Final = (ATTR_SIZE_VER0, ATTR_SIZE_VER1, ATTR_SIZE_VER2, ATTR_SIZE_VER3, ATTR_SIZE_VER4, ATTR_SIZE_VER5)


class FileSection(NamedTuple):
    """A byte range of the file."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The offset just past the last byte."""
        return self.offset + self.size


class FileHeader(NamedTuple):
    """struct perf_file_header.

    Attributes:
        endian: "<" or ">".
        version: 1 (PERFFILE) or 2 (PERFILE2).
        attr_size: bytes of one entry of the attr table, its ids section included.
        features: the numbers of the feature sections after the data, ascending.
    """

    endian: str
    version: int
    attr_size: int
    attrs: FileSection
    data: FileSection
    event_types: FileSection
    features: tuple[int, ...]
    size: int = HEADER_SIZE

    def encode(self) -> bytes:
        """Return the header's 104 bytes."""
        words = [0] * (_FEATURE_BITS // 64)
        for bit in self.features:
            words[bit // 64] |= 1 << bit % 64
        magic = MAGIC[self.endian] if self.version == 2 else MAGIC_V1
        fields = (self.size, self.attr_size, *self.attrs, *self.data, *self.event_types, *words)
        return magic + struct.pack(f"{self.endian}12Q", *fields)


class PipeHeader(NamedTuple):
    """struct perf_pipe_file_header: the start of a recording written to a pipe."""

    endian: str

    def encode(self) -> bytes:
        """Return the header's 16 bytes."""
        return MAGIC[self.endian] + struct.pack(f"{self.endian}Q", PIPE_HEADER_SIZE)


def decode_header(data: bytes) -> FileHeader | PipeHeader:
    """Decode the header from the first 104 bytes of a file.

    Raises ValueError if these are no perf.data header.
    """
    if not data:
        raise ValueError("empty file, nothing was recorded")
    if len(data) < PIPE_HEADER_SIZE:
        raise ValueError(f"only {len(data)} bytes, too short for a perf.data header")
    endian, version = _byte_order(data)
    (size,) = struct.unpack_from(f"{endian}Q", data, 8)
    if size == PIPE_HEADER_SIZE and version == 2:
        return PipeHeader(endian)
    if size not in (HEADER_SIZE, _OLDEST_HEADER_SIZE):
        raise ValueError(f"header of {size} bytes; expected {PIPE_HEADER_SIZE}, {_OLDEST_HEADER_SIZE} and {HEADER_SIZE}")
    if len(data) < size:
        raise ValueError(f"header truncated after {len(data)} of {size} bytes")
    words = struct.unpack_from(f"{endian}7Q", data, 16)
    features = _feature_bits(data[_FEATURES_OFFSET:HEADER_SIZE], endian) if size == HEADER_SIZE else ()
    return FileHeader(
        endian, version, words[0], FileSection(*words[1:3]), FileSection(*words[3:5]), FileSection(*words[5:7]), features, size
    )


def _byte_order(data: bytes) -> tuple[str, int]:
    """Return ("<" or ">", version) by the magic; for version 1 by the order that gives a valid attr size."""
    magic = data[:8]
    for endian, candidate in MAGIC.items():
        if magic == candidate:
            return endian, 2
    if magic != MAGIC_V1:
        raise ValueError("not a perf.data file (no PERFILE2 or PERFFILE at its start)")
    for endian in "<>":
        if len(data) >= 24 and struct.unpack_from(f"{endian}Q", data, 16)[0] - SECTION_SIZE in _V1_ATTR_SIZES:
            return endian, 1
    raise ValueError("version 1 perf.data with an unknown attr size")


def _feature_bits(data: bytes, endian: str) -> tuple[int, ...]:
    """Return the numbers of the set bits. The words are the writer's `unsigned long`, which may have 4 bytes if big-endian."""
    wide = struct.unpack(f"{endian}4Q", data)
    if endian == "<":
        return _set_bits(wide, 64)
    for words, width in ((wide, 64), (struct.unpack(f"{endian}8I", data), 32)):
        bits = _set_bits(words, width)
        if _HOSTNAME in bits or not bits:
            return bits
    return (_BUILD_ID,)


def _set_bits(words: tuple[int, ...], width: int) -> tuple[int, ...]:
    return tuple(i * width + bit for i, word in enumerate(words) for bit in range(width) if word >> bit & 1)


class AttrEntry(NamedTuple):
    """struct perf_file_attr: an event's attr and the section of its ids."""

    attr: EventAttr
    ids: FileSection

    def encode(self, endian: str = "<") -> bytes:
        """Return the entry's bytes: the attr in its own size, then the section."""
        return self.attr.pack(endian) + struct.pack(f"{endian}2Q", *self.ids)


def decode_attr_table(data: bytes, attr_size: int, endian: str) -> list[AttrEntry]:
    """Return the entries of the attr table, each `attr_size` bytes long.

    Raises ValueError if attr_size is impossible.
    """
    size = attr_size - SECTION_SIZE
    if size < ATTR_SIZE_VER0:
        raise ValueError(f"attr table with entries of {attr_size} bytes; expected at least {ATTR_SIZE_VER0 + SECTION_SIZE}")
    if len(data) % attr_size:
        raise ValueError(f"attr table of {len(data)} bytes is not a multiple of its entry size, {attr_size}")
    entries = []
    for start in range(0, len(data), attr_size):
        attr = _unpack_attr(data[start : start + size], endian)
        entries.append(AttrEntry(attr, FileSection(*struct.unpack_from(f"{endian}2Q", data, start + size))))
    return entries


def _unpack_attr(data: bytes, endian: str) -> EventAttr:
    """Decode an attr of the table; attr.size keeps the attr's own `size`, the writer's ABI."""
    (own_size,) = struct.unpack_from(f"{endian}I", data, 4)
    attr = EventAttr.unpack(data, endian)
    if attr.unknown.strip(b"\0"):
        raise ValueError(f"event attr of {len(data)} bytes has fields that this version of perfpy does not know; use a newer one")
    if ATTR_SIZE_VER0 <= own_size <= len(data):
        attr.size = own_size
    return attr


# Decode and encode the feature sections after the data, which pipes carry in HEADER_FEATURE records.
#
# Layouts: tools/perf/Documentation/perf.data-file-format.txt (HEADER_*). Strings: u32 len; char string[len], with len a multiple of 64
# that includes the terminating NUL. TRACING_DATA stays bytes here (perfpy.perfdata.event_format decodes it).


#: the first version of /proc/schedstat with names of domains
NAMED_DOMAINS = 17
_NAME_ALIGN = 64
_BUILD_ID_RECORD: Final = 8 + 4 + 24  # header, pid, build-id: the part before the file name
_QUIRK_NAME: Final = "nel.kallsyms]"  # the remainder of "[kernel.kallsyms]" after a pid is read from an entry without one
_MOST_MEMBERS: Final = 1024  # of a group: their readings must fit 16 KB


class Feature:
    """The number of a feature: its bit in the file header (HEADER_*)."""

    TRACING_DATA: Final = 1
    BUILD_ID: Final = 2
    HOSTNAME: Final = 3
    OSRELEASE: Final = 4
    VERSION: Final = 5
    ARCH: Final = 6
    NRCPUS: Final = 7
    CPUDESC: Final = 8
    CPUID: Final = 9
    TOTAL_MEM: Final = 10
    CMDLINE: Final = 11
    EVENT_DESC: Final = 12
    CPU_TOPOLOGY: Final = 13
    NUMA_TOPOLOGY: Final = 14
    BRANCH_STACK: Final = 15
    PMU_MAPPINGS: Final = 16
    GROUP_DESC: Final = 17
    AUXTRACE: Final = 18
    STAT: Final = 19
    CACHE: Final = 20
    SAMPLE_TIME: Final = 21
    MEM_TOPOLOGY: Final = 22
    CLOCKID: Final = 23
    DIR_FORMAT: Final = 24
    BPF_PROG_INFO: Final = 25
    BPF_BTF: Final = 26
    COMPRESSED: Final = 27
    CPU_PMU_CAPS: Final = 28
    CLOCK_DATA: Final = 29
    HYBRID_TOPOLOGY: Final = 30
    PMU_CAPS: Final = 31
    CPU_DOMAIN_INFO: Final = 32
    E_MACHINE: Final = 33
    CLN_SIZE: Final = 34


#: number -> name
FEATURE_NAMES: Final = names_of(Feature)
#: the first feature that perf 6.12 does not have
NEWER_FEATURES: Final = Feature.CPU_DOMAIN_INFO


def key_of(feature: int) -> str:
    """Return a feature's name in PerfData.features: "hostname", "build_id" ..."""
    return FEATURE_NAMES[feature].lower()


def decode_feature(feature: int, data: bytes, endian: str = "<", *, cpus: int | None = None) -> Any:
    """Return the value of a feature section.

    cpus: available CPUs by NRCPUS, for CPU_TOPOLOGY. Raises ValueError if the bytes are malformed.

    >>> decode_feature(Feature.NRCPUS, bytes((8, 0, 0, 0, 4, 0, 0, 0)))
    CpuCount(available=8, online=4)
    """
    return FEATURES[feature].decode(FieldReader(data, endian, cpus=cpus))


def encode_feature(feature: int, value: Any, endian: str = "<") -> bytes:
    """Return the bytes of a feature section: the reverse of decode_feature().

    >>> len(encode_feature(Feature.HOSTNAME, "vm"))
    68
    """
    writer = FieldWriter(endian)
    FEATURES[feature].encode(writer, value)
    return writer.getvalue()


# The values of sections that are more than a string or a number. Each docstring begins with the section's layout.
class CpuCount(NamedTuple):
    """NRCPUS: { u32 available, online; }"""

    available: int
    online: int


class EventDesc(NamedTuple):
    """One event of EVENT_DESC: { attr; u32 nr_ids; string name; u64 ids[]; }"""

    attr: EventAttr
    name: str
    ids: tuple[int, ...]


class CpuLocation(NamedTuple):
    """The position of one CPU of CPU_TOPOLOGY; die is None if the file has no dies"""

    core: int
    socket: int
    die: int | None = None


class CpuTopology(NamedTuple):
    """CPU_TOPOLOGY: the CPU lists that share a socket, a core and a die, and the position of each CPU.

    { u32 nr; string cores[nr]; u32 nr; string threads[nr]; { u32 core, socket; } cpu[]; u32 nr; string dies[nr]; u32 die[]; }
    """

    cores: tuple[str, ...]
    threads: tuple[str, ...]
    cpus: tuple[CpuLocation, ...] = ()
    dies: tuple[str, ...] = ()


class NumaNode(NamedTuple):
    """One node of NUMA_TOPOLOGY: { u32 node; u64 total, free; string cpus; } in kB"""

    node: int
    total: int
    free: int
    cpus: str


class PmuMapping(NamedTuple):
    """One PMU of PMU_MAPPINGS: { u32 type; string name; }"""

    type: int
    name: str


class EventGroup(NamedTuple):
    """One group of GROUP_DESC: { string name; u32 leader, members; } : the leader's index and the number of events"""

    name: str
    leader: int
    members: int


class AuxtraceIndexEntry(NamedTuple):
    """One AUXTRACE record's section: { u64 offset, size; }"""

    offset: int
    size: int


class CacheLevel(NamedTuple):
    """One CPU cache of CACHE: { u32 level, line_size, sets, ways; string type, size, map; }"""

    level: int
    line_size: int
    sets: int
    ways: int
    type: str
    size: str
    map: str


class SampleTime(NamedTuple):
    """SAMPLE_TIME: { u64 first, last; } in ns"""

    first: int
    last: int


class MemNode(NamedTuple):
    """One node of MEM_TOPOLOGY: { u64 node, bits, bits; u64 bitmap[]; } : a bit for each memory block"""

    node: int
    bits: int
    bitmap: tuple[int, ...]


class MemTopology(NamedTuple):
    """MEM_TOPOLOGY: { u64 version, block_size, nr; node[nr]; }"""

    version: int
    block_size: int
    nodes: tuple[MemNode, ...]


class BpfProgram(NamedTuple):
    """One program of BPF_PROG_INFO: { u32 info_len, data_len; u64 arrays; u8 info[], data[]; } : struct bpf_prog_info and its arrays"""

    arrays: int
    info: bytes
    data: bytes


class BpfTypes(NamedTuple):
    """One entry of BPF_BTF: { u32 id, size; u8 data[]; }"""

    id: int
    data: bytes


class Compression(NamedTuple):
    """COMPRESSED: { u32 version, type, level, ratio, mmap_len; }"""

    version: int
    type: int
    level: int
    ratio: int
    mmap_len: int


class ClockData(NamedTuple):
    """CLOCK_DATA: { u32 version, clockid; u64 wall_clock_ns, clockid_ns; } : both clocks, read at one moment"""

    version: int
    clockid: int
    wall_clock_ns: int
    clockid_ns: int


class HybridPmu(NamedTuple):
    """One PMU of HYBRID_TOPOLOGY: { string name, cpus; }"""

    name: str
    cpus: str


Caps: TypeAlias = "tuple[tuple[str, str], ...]"


class PmuCaps(NamedTuple):
    """One PMU of PMU_CAPS: { u32 nr; { string name, value; } [nr]; string pmu; }"""

    pmu: str
    caps: Caps


class SchedDomain(NamedTuple):
    """One domain of a CPU in CPU_DOMAIN_INFO: { u32 domain; string name, mask, cpus; } : no name below version 17 of /proc/schedstat"""

    domain: int
    name: str
    mask: str
    cpus: str


class CpuDomains(NamedTuple):
    """One CPU of CPU_DOMAIN_INFO: { u32 cpu, nr; domain[nr]; }"""

    cpu: int
    domains: tuple[SchedDomain, ...]


class DomainInfo(NamedTuple):
    """CPU_DOMAIN_INFO: { u32 schedstat_version, most_domains; cpu[]; } : the CPUs among which the scheduler balances"""

    version: int
    most: int
    cpus: tuple[CpuDomains, ...]


class ElfMachine(NamedTuple):
    """E_MACHINE: { u32 e_machine, e_flags; } : as in the ELF header of the perf that recorded"""

    e_machine: int
    e_flags: int


class FieldReader:
    """A cursor over the fields of a section. Every method raises ValueError if the bytes end too early.

    Attributes:
        cpus: CPUs of the recorded machine, if an earlier section had them.
    """

    def __init__(self, data: bytes, endian: str = "<", *, cpus: int | None = None) -> None:
        self._data = data
        self.cpus = cpus
        self._offset = 0
        self.endian = endian

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._offset

    def raw(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if size > self.remaining:
            raise ValueError(f"{size} bytes expected, {self.remaining} are left")
        self._offset += size
        return self._data[self._offset - size : self._offset]

    def u32(self) -> int:
        """Return the next 4 bytes as a number."""
        return as_number(self.raw(4), self.endian)

    def u64(self) -> int:
        """Return the next 8 bytes as a number."""
        return as_number(self.raw(8), self.endian)

    def u64s(self, count: int) -> tuple[int, ...]:
        """Return the next `count` 8-byte numbers."""
        return struct.unpack(f"{self.endian}{count}Q", self.raw(8 * count))

    def string(self) -> str:
        """Return a counted string up to its first NUL, UTF-8 with surrogate escapes."""
        return self.raw(self.u32()).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def read_string(self) -> str:
        """Return a NUL-terminated string, UTF-8 with surrogate escapes."""
        end = self._data.find(b"\0", self._offset)
        if end < 0:
            raise ValueError("string has no terminating NUL")
        return self.raw(end + 1 - self._offset)[:-1].decode("utf-8", "surrogateescape")

    def list(self, count: int, read: Callable[[], _T], at_least: int) -> tuple[_T, ...]:
        """Return `count` entries of at least `at_least` bytes each; reject a count that cannot fit before reading."""
        if count * at_least > self.remaining:
            raise ValueError(f"{count} entries do not fit the {self.remaining} bytes left")
        return tuple(read() for _ in range(count))

    def strings(self) -> tuple[str, ...]:
        """Return a u32 count's strings."""
        return self.list(self.u32(), self.string, 4)

    def values(self, fields: str) -> tuple[Any, ...]:
        """Return one value for each letter: I and Q for numbers of 4 and 8 bytes, s for strings, b for bytes after their u32 size."""
        read: dict[str, Callable[[], Any]] = {"I": self.u32, "Q": self.u64, "s": self.string, "b": lambda: self.raw(self.u32())}
        return tuple(read[field]() for field in fields)


class FieldWriter:
    """A buffer of encoded fields: the reverse of FieldReader."""

    def __init__(self, endian: str = "<") -> None:
        self._parts: list[bytes] = []
        self.endian = endian

    def raw(self, data: bytes) -> None:
        """Append bytes."""
        self._parts.append(data)

    def u32(self, *values: int) -> None:
        """Append 4-byte numbers."""
        self._parts.append(struct.pack(f"{self.endian}{len(values)}I", *values))

    def u64(self, *values: int) -> None:
        """Append 8-byte numbers."""
        self._parts.append(struct.pack(f"{self.endian}{len(values)}Q", *values))

    def string(self, value: str) -> None:
        """Append a counted string, padded like perf's."""
        data = value.encode("utf-8", "surrogateescape")
        size = (len(data) + _NAME_ALIGN) // _NAME_ALIGN * _NAME_ALIGN
        self.u32(size)
        self.raw(data.ljust(size, b"\0"))

    def sized(self, data: bytes) -> None:
        """Append bytes after their u32 size."""
        self.u32(len(data))
        self.raw(data)

    def strings(self, values: Iterable[str]) -> None:
        """Append a u32 count and the strings."""
        values = tuple(values)
        self.u32(len(values))
        for value in values:
            self.string(value)

    def values(self, fields: str, values: Iterable[Any]) -> None:
        """Append what FieldReader.values() reads."""
        write: dict[str, Callable[[Any], None]] = {"I": self.u32, "Q": self.u64, "s": self.string, "b": self.sized}
        for field, value in zip(fields, values, strict=True):
            write[field](value)

    def getvalue(self) -> bytes:
        """Return all bytes written so far."""
        return b"".join(self._parts)


class Codec(NamedTuple):
    """The functions that decode and encode one feature."""

    decode: Callable[[FieldReader], Any]
    encode: Callable[[FieldWriter, Any], None]


def _one(kind: Callable[..., Any], fields: str) -> Codec:
    """Return the codec of one named tuple; fields: see FieldReader.values()."""
    return Codec(lambda r: kind(*r.values(fields)), lambda w, value: w.values(fields, value))


def _several(kind: Callable[..., Any], fields: str) -> Codec:
    """Return the codec of a u32 count and as many named tuples."""
    size = sum(8 if field == "Q" else 4 for field in fields)

    def encode(w: FieldWriter, values: tuple[Any, ...]) -> None:
        w.u32(len(values))
        for value in values:
            w.values(fields, value)

    return Codec(lambda r: r.list(r.u32(), lambda: kind(*r.values(fields)), size), encode)


def _read_build_ids(r: FieldReader) -> tuple[HeaderBuildId, ...]:
    data = r.raw(r.remaining)
    ids = _build_id_records(data, r.endian)
    if any(record.filename == _QUIRK_NAME for record in ids):
        # Entries of perf 2.6.3x have no pid.
        ids = _build_id_records(data, r.endian, has_pid=False)
    return ids


def _build_id_records(data: bytes, endian: str, has_pid: bool = True) -> tuple[HeaderBuildId, ...]:
    records = []
    offset = 0
    while offset + 8 <= len(data):
        _, misc, size = HEADER[endian].unpack_from(data, offset)
        if size < _BUILD_ID_RECORD - (0 if has_pid else 4) or offset + size > len(data):
            raise ValueError(f"build-id entry of {size} bytes in {len(data) - offset} bytes left")
        body = data[offset + 8 : offset + size]
        if not has_pid:
            body = b"\xff\xff\xff\xff" + body
        records.append(framing.decode_build_id(misc, body, endian))
        offset += size
    return tuple(records)


def _write_build_ids(w: FieldWriter, ids: tuple[HeaderBuildId, ...]) -> None:
    for record in ids:
        w.raw(with_header(RecordType.HEADER_BUILD_ID, record.misc, pad_to_words(framing.encode_build_id(record, w.endian)), w.endian))


def _read_event_desc(r: FieldReader) -> tuple[EventDesc, ...]:
    count, size = r.u32(), r.u32()
    if size < ATTR_SIZE_VER0:
        raise ValueError(f"event attrs of {size} bytes; expected at least {ATTR_SIZE_VER0}")

    def one() -> EventDesc:
        attr = EventAttr.unpack(r.raw(size), r.endian)
        ids = r.u32()
        return EventDesc(attr, r.string(), r.u64s(ids))

    return r.list(count, one, size + 8)


def _write_event_desc(w: FieldWriter, events: tuple[EventDesc, ...]) -> None:
    size = max((event.attr.size for event in events), default=ATTR_SIZE_VER0)
    w.u32(len(events), size)
    for event in events:
        w.raw(event.attr.pack(w.endian, event.attr.size).ljust(size, b"\0"))
        w.u32(len(event.ids))
        w.string(event.name)
        w.u64(*event.ids)


def _read_groups(r: FieldReader) -> tuple[EventGroup, ...]:
    groups: tuple[EventGroup, ...] = _GROUPS.decode(r)
    largest = max((group.members for group in groups), default=0)
    if largest > _MOST_MEMBERS:
        raise ValueError(f"group of {largest} events; the kernel's limit is {_MOST_MEMBERS}")
    if any(group.leader < before.leader + before.members for before, group in itertools.pairwise(groups)):
        raise ValueError("overlapping event groups")
    return groups


def _read_cpu_topology(r: FieldReader) -> CpuTopology:
    """Read the CPU topology. The section has no count of its CPUs: NRCPUS has it, otherwise they fill the section."""
    cores, threads = r.strings(), r.strings()
    count = r.remaining // 8 if r.cpus is None else r.cpus
    if not count or r.remaining < 8 * count:
        return CpuTopology(cores, threads)
    numbers = [(r.u32(), r.u32()) for _ in range(count)]
    if not r.remaining:
        return CpuTopology(cores, threads, tuple(CpuLocation(core, socket) for core, socket in numbers))
    dies = r.strings()
    return CpuTopology(cores, threads, tuple(CpuLocation(core, socket, r.u32()) for core, socket in numbers), dies)


def _write_cpu_topology(w: FieldWriter, value: CpuTopology) -> None:
    w.strings(value.cores)
    w.strings(value.threads)
    for cpu in value.cpus:
        w.u32(cpu.core, cpu.socket)
    if value.dies:
        w.strings(value.dies)
        w.u32(*(cpu.die or 0 for cpu in value.cpus))


def _read_caches(r: FieldReader) -> tuple[CacheLevel, ...]:
    version = r.u32()
    if version != 1:
        raise ValueError(f"unknown version {version} of the CPU cache section")
    caches: tuple[CacheLevel, ...] = _CACHES.decode(r)
    return caches


def _write_caches(w: FieldWriter, caches: tuple[CacheLevel, ...]) -> None:
    w.u32(1)
    _CACHES.encode(w, caches)


def _read_mem_topology(r: FieldReader) -> MemTopology:
    version, block_size, count = r.u64s(3)
    if version != 1:
        raise ValueError(f"unknown version {version} of the memory topology")

    def node() -> MemNode:
        number, _, bits = r.u64s(3)  # the bitmap's own size follows the node's
        return MemNode(number, bits, r.u64s((bits + 63) // 64))

    return MemTopology(version, block_size, r.list(count, node, 24))


def _write_mem_topology(w: FieldWriter, value: MemTopology) -> None:
    w.u64(value.version, value.block_size, len(value.nodes))
    for node in value.nodes:
        w.u64(node.node, node.bits, node.bits, *node.bitmap)


def _read_domains(r: FieldReader) -> DomainInfo:
    """Read the scheduling domains of each CPU; the CPUs fill the section."""
    version, most = r.u32(), r.u32()

    def domain() -> SchedDomain:
        return SchedDomain(r.u32(), r.string() if version >= NAMED_DOMAINS else "", r.string(), r.string())

    cpus = []
    while r.remaining:
        cpus.append(CpuDomains(r.u32(), r.list(r.u32(), domain, 12)))
    return DomainInfo(version, most, tuple(cpus))


def _write_domains(w: FieldWriter, value: DomainInfo) -> None:
    w.u32(value.version, value.most)
    for cpu in value.cpus:
        w.u32(cpu.cpu, len(cpu.domains))
        for domain in cpu.domains:
            w.u32(domain.domain)
            for string in domain[1:] if value.version >= NAMED_DOMAINS else domain[2:]:
                w.string(string)


def _read_auxtrace(r: FieldReader) -> tuple[AuxtraceIndexEntry, ...]:
    # simpleperf writes no count
    count = r.remaining // 16 if r.remaining % 16 == 0 else r.u64()
    return r.list(count, lambda: AuxtraceIndexEntry(r.u64(), r.u64()), 16)


def _write_auxtrace(w: FieldWriter, entries: tuple[AuxtraceIndexEntry, ...]) -> None:
    w.u64(len(entries))
    for entry in entries:
        w.u64(*entry)


def _read_bpf_programs(r: FieldReader) -> tuple[BpfProgram, ...]:
    def one() -> BpfProgram:
        info_len, data_len = r.u32(), r.u32()
        return BpfProgram(r.u64(), r.raw(info_len), r.raw(data_len))

    return r.list(r.u32(), one, 16)


def _write_bpf_programs(w: FieldWriter, programs: tuple[BpfProgram, ...]) -> None:
    w.u32(len(programs))
    for program in programs:
        w.u32(len(program.info), len(program.data))
        w.u64(program.arrays)
        w.raw(program.info)
        w.raw(program.data)


def _read_pmu_caps(r: FieldReader) -> tuple[PmuCaps, ...]:
    def one() -> PmuCaps:
        caps = _CAPS.decode(r)
        return PmuCaps(r.string(), caps)

    return r.list(r.u32(), one, 8)


def _write_pmu_caps(w: FieldWriter, pmus: tuple[PmuCaps, ...]) -> None:
    w.u32(len(pmus))
    for pmu in pmus:
        _CAPS.encode(w, pmu.caps)
        w.string(pmu.pmu)


_STRING: Final = Codec(FieldReader.string, FieldWriter.string)
_STRINGS: Final = Codec(FieldReader.strings, FieldWriter.strings)
_NUMBER: Final = Codec(FieldReader.u64, FieldWriter.u64)
_RAW: Final = Codec(lambda r: r.raw(r.remaining), FieldWriter.raw)
_GROUPS: Final = _several(EventGroup, "sII")
_CACHES: Final = _several(CacheLevel, "IIIIsss")
_CAPS: Final = _several(lambda *words: words, "ss")  # name, value
_MARK: Final = Codec(lambda _reader: True, lambda _writer, _value: None)  # an empty section, whose presence is the value

FEATURES: Final[dict[int, Codec]] = {
    Feature.TRACING_DATA: _RAW,
    Feature.BUILD_ID: Codec(_read_build_ids, _write_build_ids),
    Feature.HOSTNAME: _STRING,
    Feature.OSRELEASE: _STRING,
    Feature.VERSION: _STRING,
    Feature.ARCH: _STRING,
    Feature.NRCPUS: _one(CpuCount, "II"),
    Feature.CPUDESC: _STRING,
    Feature.CPUID: _STRING,
    Feature.TOTAL_MEM: _NUMBER,  # kB
    Feature.CMDLINE: _STRINGS,
    Feature.EVENT_DESC: Codec(_read_event_desc, _write_event_desc),
    Feature.CPU_TOPOLOGY: Codec(_read_cpu_topology, _write_cpu_topology),
    Feature.NUMA_TOPOLOGY: _several(NumaNode, "IQQs"),
    Feature.BRANCH_STACK: _MARK,
    Feature.PMU_MAPPINGS: _several(PmuMapping, "Is"),
    Feature.GROUP_DESC: Codec(_read_groups, _GROUPS.encode),
    Feature.AUXTRACE: Codec(_read_auxtrace, _write_auxtrace),
    Feature.STAT: _MARK,
    Feature.CACHE: Codec(_read_caches, _write_caches),
    Feature.SAMPLE_TIME: _one(SampleTime, "QQ"),
    Feature.MEM_TOPOLOGY: Codec(_read_mem_topology, _write_mem_topology),
    Feature.CLOCKID: _NUMBER,  # resolution in ns
    Feature.DIR_FORMAT: _NUMBER,  # version
    Feature.BPF_PROG_INFO: Codec(_read_bpf_programs, _write_bpf_programs),
    Feature.BPF_BTF: _several(BpfTypes, "Ib"),
    Feature.COMPRESSED: _one(Compression, "IIIII"),
    Feature.CPU_PMU_CAPS: _CAPS,
    Feature.CLOCK_DATA: _one(ClockData, "IIQQ"),
    Feature.HYBRID_TOPOLOGY: _several(HybridPmu, "ss"),
    Feature.PMU_CAPS: Codec(_read_pmu_caps, _write_pmu_caps),
    Feature.CPU_DOMAIN_INFO: Codec(_read_domains, _write_domains),
    Feature.E_MACHINE: _one(ElfMachine, "II"),
    Feature.CLN_SIZE: Codec(FieldReader.u32, FieldWriter.u32),
}
