"""Encode and decode the kernel's side-band records (all types except SAMPLE).

A body is the bytes after a record's 8-byte header. Layouts: include/uapi/linux/perf_event.h, enum perf_event_type; each stands in its
class. Strings are UTF-8 with surrogate escapes, as in os.fsdecode.
"""

from __future__ import annotations

import struct
from _operator import itemgetter  # operator would be one more module for lists of tasks

from perfpy.abi.flags import MISC_FORK_EXEC, MISC_MMAP_BUILD_ID, MISC_USER, RecordType, SampleType, names_of
from perfpy.abi.framing import encode_padded_name, pad_to_words, text, with_header
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, TypeAlias

    from perfpy.abi.attr import EventAttr


# Encode and decode the sample_id trailer of side-band records. Layout: struct sample_id in include/uapi/linux/perf_event.h; it has the
# fields of sample_type.


class SampleId(NamedTuple):
    """struct sample_id: the task, time and event of a side-band record; None for a field that the event lacks."""

    pid: int | None = None
    tid: int | None = None
    time: int | None = None
    id: int | None = None
    stream_id: int | None = None
    cpu: int | None = None
    identifier: int | None = None


class IdLayout:
    """The layout of the sample_id trailer for one sample_type; `size` is its length in bytes, 0 for sample_type 0."""

    def __init__(self, sample_type: int, endian: str) -> None:
        code = endian
        names: list[str] = []
        for bit, kind, fields in (
            (SampleType.TID, "II", ("pid", "tid")),
            (SampleType.TIME, "Q", ("time",)),
            (SampleType.ID, "Q", ("id",)),
            (SampleType.STREAM_ID, "Q", ("stream_id",)),
            (SampleType.CPU, "II", ("cpu", "")),
            (SampleType.IDENTIFIER, "Q", ("identifier",)),
        ):
            if sample_type & bit:
                code += kind
                names.extend(fields)
        self._struct = struct.Struct(code)
        self._names = tuple(names)
        self.size = self._struct.size
        self._zeros = bytes(self.size)
        # SampleId's fields from the unpacked struct, which is followed by a None for missing fields
        self._in_order = itemgetter(*(names.index(field) if field in names else len(names) for field in SampleId._fields))

    @classmethod
    def of(cls, attr: EventAttr, endian: str) -> IdLayout:
        """Return the trailer of an event's records; empty without sample_id_all."""
        return cls(attr.sample_type if attr.sample_id_all else 0, endian)

    def decode(self, body: bytes) -> SampleId | None:
        """Decode the trailer at the end of a record's body; None if the event has none."""
        if not self.size:
            return None
        values = (*self._struct.unpack_from(body, len(body) - self.size), None)
        return SampleId._make(self._in_order(values))

    def encode(self, sample_id: SampleId | None) -> bytes:
        """Encode; the mirror of decode(). Missing values become 0."""
        if sample_id is None:
            return self._zeros
        return self._struct.pack(*(((getattr(sample_id, name) or 0) if name else 0) for name in self._names))


NO_ID: Final = IdLayout(0, "<")  # without fields it has no byte order


# Decode the variable part after the fixed fields of a side-band record. Each decoder gets the fixed fields and the remaining bytes, and
# returns all fields of the record's class. Layouts: include/uapi/linux/perf_event.h, enum perf_event_type.


def nothing(fixed: tuple[Any, ...], _tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Return the fixed fields of a record without a variable part."""
    return fixed


def one_text(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Decode a C string."""
    return (*fixed, text(tail))


def raw(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Keep the bytes undecoded."""
    return (*fixed, tail)


def namespaces(fixed: tuple[Any, ...], tail: bytes, endian: str) -> tuple[Any, ...]:
    """Decode { u64 dev, inode; }, repeated as the last fixed field counts."""
    pid, tid, count = fixed
    values = _u64s(tail, 2 * count, endian)
    return pid, tid, tuple(zip(values[::2], values[1::2], strict=True))


def text_poke(fixed: tuple[Any, ...], tail: bytes, _endian: str) -> tuple[Any, ...]:
    """Decode the bytes before and after, whose lengths are fixed fields."""
    addr, old, new = fixed
    if old + new > len(tail):
        raise ValueError(f"text poke of {old} + {new} bytes in a record with room for {len(tail)}")
    return addr, tail[:old], tail[old : old + new]


def decode_deferred_callchain(fixed: tuple[Any, ...], tail: bytes, endian: str) -> tuple[Any, ...]:
    """Decode addresses, as many as the last fixed field counts."""
    cookie, count = fixed
    return cookie, _u64s(tail, count, endian)


def _u64s(tail: bytes, count: int, endian: str) -> tuple[int, ...]:
    if count * 8 > len(tail):
        raise ValueError(f"{count} values in a record with room for {len(tail) // 8}")
    return struct.unpack_from(f"{endian}{count}Q", tail)


def pack_u64s(values: tuple[int, ...], endian: str) -> bytes:
    """Encode values as consecutive u64."""
    return struct.pack(f"{endian}{len(values)}Q", *values)


_BUILD_ID_SIZE = 20


class Mmap(NamedTuple):
    """{ u32 pid, tid; u64 addr, len, pgoff; char filename[]; }"""

    misc: int
    pid: int
    tid: int
    addr: int
    len: int
    pgoff: int
    filename: str
    sample_id: SampleId | None = None


class Mmap2(NamedTuple):
    """{ u32 pid, tid; u64 addr, len, pgoff; u32 maj, min; u64 ino, ino_generation; u32 prot, flags; char filename[]; }

    With MISC_MMAP_BUILD_ID the 24 bytes of maj..ino_generation hold { u8 build_id_size, 3 bytes reserved, u8 build_id[20] }.
    """

    misc: int
    pid: int
    tid: int
    addr: int
    len: int
    pgoff: int
    maj: int
    min: int
    ino: int
    ino_generation: int
    prot: int
    flags: int
    filename: str
    build_id: bytes = b""
    sample_id: SampleId | None = None


class Comm(NamedTuple):
    """{ u32 pid, tid; char comm[]; }"""

    misc: int
    pid: int
    tid: int
    comm: str
    sample_id: SampleId | None = None


class Fork(NamedTuple):
    """{ u32 pid, ppid, tid, ptid; u64 time; }"""

    misc: int
    pid: int
    ppid: int
    tid: int
    ptid: int
    time: int
    sample_id: SampleId | None = None


def copies_parent(pid: int, ppid: int, misc: int) -> bool:
    """Whether a FORK gives its process a copy of the parent's mappings.

    Threads share them, and a FORK that perf synthesized for a running process is followed by the process's own mappings.
    """
    return pid != ppid and not misc & MISC_FORK_EXEC


class Exit(NamedTuple):
    """{ u32 pid, ppid, tid, ptid; u64 time; }"""

    misc: int
    pid: int
    ppid: int
    tid: int
    ptid: int
    time: int
    sample_id: SampleId | None = None


class Lost(NamedTuple):
    """{ u64 id, lost; }"""

    misc: int
    id: int
    lost: int
    sample_id: SampleId | None = None


class LostSamples(NamedTuple):
    """{ u64 lost; }"""

    misc: int
    lost: int
    sample_id: SampleId | None = None


class Throttle(NamedTuple):
    """{ u64 time, id, stream_id; }"""

    misc: int
    time: int
    id: int
    stream_id: int
    sample_id: SampleId | None = None


class Unthrottle(NamedTuple):
    """{ u64 time, id, stream_id; }"""

    misc: int
    time: int
    id: int
    stream_id: int
    sample_id: SampleId | None = None


class Read(NamedTuple):
    """{ u32 pid, tid; struct read_format values; } with the values as bytes for abi.counts"""

    misc: int
    pid: int
    tid: int
    values: bytes
    sample_id: SampleId | None = None


class Aux(NamedTuple):
    """{ u64 aux_offset, aux_size, flags; }"""

    misc: int
    aux_offset: int
    aux_size: int
    flags: int
    sample_id: SampleId | None = None


class ItraceStart(NamedTuple):
    """{ u32 pid, tid; }"""

    misc: int
    pid: int
    tid: int
    sample_id: SampleId | None = None


class Switch(NamedTuple):
    """{ } : a context switch of a task; misc has the direction"""

    misc: int
    sample_id: SampleId | None = None


class SwitchCpuWide(NamedTuple):
    """{ u32 next_prev_pid, next_prev_tid; }"""

    misc: int
    next_prev_pid: int
    next_prev_tid: int
    sample_id: SampleId | None = None


class Namespaces(NamedTuple):
    """{ u32 pid, tid; u64 nr_namespaces; { u64 dev, inode } [nr]; } : net uts ipc pid user mnt cgroup"""

    misc: int
    pid: int
    tid: int
    namespaces: tuple[tuple[int, int], ...]
    sample_id: SampleId | None = None


class Ksymbol(NamedTuple):
    """{ u64 addr; u32 len; u16 ksym_type, flags; char name[]; }"""

    misc: int
    addr: int
    len: int
    ksym_type: int
    flags: int
    name: str
    sample_id: SampleId | None = None


class BpfEvent(NamedTuple):
    """{ u16 type, flags; u32 id; u8 tag[8]; }"""

    misc: int
    type: int
    flags: int
    id: int
    tag: bytes
    sample_id: SampleId | None = None


class Cgroup(NamedTuple):
    """{ u64 id; char path[]; }"""

    misc: int
    id: int
    path: str
    sample_id: SampleId | None = None


class TextPoke(NamedTuple):
    """{ u64 addr; u16 old_len, new_len; u8 bytes[old_len + new_len]; }"""

    misc: int
    addr: int
    old: bytes
    new: bytes
    sample_id: SampleId | None = None


class AuxOutputHwId(NamedTuple):
    """{ u64 hw_id; }"""

    misc: int
    hw_id: int
    sample_id: SampleId | None = None


class CallchainDeferred(NamedTuple):
    """{ u64 cookie, nr; u64 ips[nr]; }"""

    misc: int
    cookie: int
    ips: tuple[int, ...]
    sample_id: SampleId | None = None


class Unknown(NamedTuple):
    """A record of an unknown type, kept unchanged."""

    misc: int
    type: int
    body: bytes
    sample_id: SampleId | None = None


KernelRecord: TypeAlias = (
    Mmap | Mmap2 | Comm | Fork | Exit | Lost | LostSamples | Throttle | Unthrottle | Read | Aux | ItraceStart | Switch | SwitchCpuWide
    | Namespaces | Ksymbol | BpfEvent | Cgroup | TextPoke | AuxOutputHwId | CallchainDeferred | Unknown
)  # fmt: skip


# a tail is the variable part after a record's fixed fields
_Decode: TypeAlias = "Callable[[tuple[Any, ...], bytes, str], tuple[Any, ...]]"
_Encode: TypeAlias = "Callable[[Any, str], bytes]"


# record type -> class, codes of the fixed fields, tail decoder
_LAYOUTS: Final[dict[int, tuple[Any, str, _Decode]]] = {
    RecordType.MMAP: (Mmap, "IIQQQ", one_text),
    RecordType.LOST: (Lost, "QQ", nothing),
    RecordType.COMM: (Comm, "II", one_text),
    RecordType.EXIT: (Exit, "IIIIQ", nothing),
    RecordType.THROTTLE: (Throttle, "QQQ", nothing),
    RecordType.UNTHROTTLE: (Unthrottle, "QQQ", nothing),
    RecordType.FORK: (Fork, "IIIIQ", nothing),
    RecordType.READ: (Read, "II", raw),
    RecordType.MMAP2: (Mmap2, "IIQQQIIQQII", one_text),
    RecordType.AUX: (Aux, "QQQ", nothing),
    RecordType.ITRACE_START: (ItraceStart, "II", nothing),
    RecordType.LOST_SAMPLES: (LostSamples, "Q", nothing),
    RecordType.SWITCH: (Switch, "", nothing),
    RecordType.SWITCH_CPU_WIDE: (SwitchCpuWide, "II", nothing),
    RecordType.NAMESPACES: (Namespaces, "IIQ", namespaces),
    RecordType.KSYMBOL: (Ksymbol, "QIHH", one_text),
    RecordType.BPF_EVENT: (BpfEvent, "HHI8s", nothing),
    RecordType.CGROUP: (Cgroup, "Q", one_text),
    RecordType.TEXT_POKE: (TextPoke, "QHH", text_poke),
    RecordType.AUX_OUTPUT_HW_ID: (AuxOutputHwId, "Q", nothing),
    RecordType.CALLCHAIN_DEFERRED: (CallchainDeferred, "QQ", decode_deferred_callchain),
}
_STRUCTS: Final[dict[tuple[int, str], struct.Struct]] = {
    (number, endian): struct.Struct(endian + codes) for number, (_, codes, _) in _LAYOUTS.items() for endian in "<>"
}
_TYPE_OF: Final[dict[type, int]] = {cls: number for number, (cls, _, _) in _LAYOUTS.items()}

# class -> encoder of the tail, for classes that have one
_TAILS: Final[dict[type, _Encode]] = {
    Mmap: lambda r, _e: encode_padded_name(r.filename),
    Mmap2: lambda r, _e: encode_padded_name(r.filename),
    Comm: lambda r, _e: encode_padded_name(r.comm),
    Read: lambda r, _e: pad_to_words(r.values),
    Namespaces: lambda r, e: pack_u64s(tuple(v for pair in r.namespaces for v in pair), e),
    Ksymbol: lambda r, _e: encode_padded_name(r.name),
    Cgroup: lambda r, _e: encode_padded_name(r.path),
    TextPoke: lambda r, _e: (r.old + r.new) + bytes(-(12 + len(r.old) + len(r.new)) % 8),
    CallchainDeferred: lambda r, e: pack_u64s(r.ips, e),
}

# class -> its fixed fields, for classes whose first fields are others
_FIXED_FIELDS: Final[dict[type, Callable[[Any], tuple[Any, ...]]]] = {
    Namespaces: lambda r: (r.pid, r.tid, len(r.namespaces)),
    TextPoke: lambda r: (r.addr, len(r.old), len(r.new)),
    CallchainDeferred: lambda r: (r.cookie, len(r.ips)),
    BpfEvent: lambda r: (r.type, r.flags, r.id, r.tag),
}
_FIXED_COUNTS: Final = {number: len(codes) for number, (_, codes, _) in _LAYOUTS.items()}


def type_of(record: KernelRecord) -> int:
    """Return the RecordType of a value of this module."""
    return record.type if isinstance(record, Unknown) else _TYPE_OF[type(record)]


def decode(type: int, misc: int, body: bytes, id_layout: IdLayout = NO_ID, endian: str = "<") -> KernelRecord:
    """Decode one side-band record.

    Args:
        body: the bytes after the header
        id_layout: the sample_id trailer of the record's event

    An unknown type becomes Unknown. Raises ValueError if the body is too short for its layout.
    """
    entry = _LAYOUTS.get(type)
    if entry is None:
        return Unknown(misc, type, body)
    cls, _, tail = entry
    layout = _STRUCTS[type, endian]
    end = len(body) - id_layout.size
    if end < layout.size:
        needed = layout.size + id_layout.size
        raise ValueError(f"{names_of(RecordType)[type]} ({type}) record with a body of {len(body)} bytes, needs {needed}")
    # an unterminated C string continues into the trailer: perf 3.12's MMAP2 records had it 8 bytes earlier
    tail_bytes = body[layout.size :] if tail is one_text else body[layout.size : end]
    values = tail(layout.unpack_from(body), tail_bytes, endian)
    sample_id = id_layout.decode(body)
    if cls is Mmap2:
        # the two variants of bytes 32-56
        if not misc & MISC_MMAP_BUILD_ID or not holds_build_id(body):
            return Mmap2._make((misc & ~MISC_MMAP_BUILD_ID, *values, b"", sample_id))
        build_id = body[36 : 36 + body[32]]
        return Mmap2._make((misc, *values[:5], 0, 0, 0, 0, *values[9:], build_id, sample_id))
    record: KernelRecord = cls._make((misc, *values, sample_id))
    return record


def holds_build_id(body: bytes | memoryview) -> bool:
    """Whether an MMAP2 marked as having a build-id really has one: { u8 size, 3 bytes of 0, u8 build_id[20] }, 0 beyond its size.

    Linux 6.18 marks records without a build-id if another recording requests build-ids at the same time.
    """
    size = body[32]
    return size <= 20 and not any(body[33:36]) and not any(body[36 + size : 56])


def encode(record: KernelRecord, id_layout: IdLayout, endian: str) -> bytes:
    """Encode the whole record with header and sample_id trailer; the mirror of decode()."""
    if isinstance(record, Unknown):
        return with_header(record.type, record.misc, record.body, endian)
    number = _TYPE_OF[type(record)]
    tail = _TAILS.get(type(record))
    fixed_fields = _FIXED_FIELDS.get(type(record))
    fixed = _STRUCTS[number, endian].pack(*(fixed_fields(record) if fixed_fields else record[1 : 1 + _FIXED_COUNTS[number]]))
    if isinstance(record, Mmap2) and record.build_id:
        ids = bytes((len(record.build_id), 0, 0, 0)) + record.build_id.ljust(20, b"\0")
        fixed = fixed[:32] + ids + fixed[56:]
    body = fixed + (tail(record, endian) if tail else b"") + id_layout.encode(record.sample_id)
    return with_header(number, record.misc, body, endian)


# Make the MMAP2 record for code that a program generated at run time, which the kernel does not report. Layout: PERF_RECORD_MMAP2 in
# include/uapi/linux/perf_event.h.

PROT_EXEC: Final = 4
PROT_READ_EXEC: Final = 5
MAP_PRIVATE: Final = 2


def code_mapping(
    task: tuple[int, int], code: tuple[int, int, int], filename: str, moment: int, identity: int, file: tuple[int, int, int] = (0, 0, 0)
) -> Mmap2:
    """Return an executable, private mapping.

    Args:
        task: pid, tid
        code: address, size, offset in the file
        moment: time in ns
        identity: the id of the event
        file: device (major, minor) and inode
    """
    pid, tid = task
    addr, size, offset = code
    sample_id = SampleId(pid, tid, moment, identity, 0, 0, identity)
    return Mmap2(MISC_USER, pid, tid, addr, size, offset, *file, 0, PROT_READ_EXEC, MAP_PRIVATE, filename, sample_id=sample_id)
