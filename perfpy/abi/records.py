"""Encode and decode the kernel's side-band records (all types except SAMPLE).

A body is the bytes after a record's 8-byte header. Layouts: include/uapi/linux/perf_event.h, enum perf_event_type; each stands in its
class. Strings are UTF-8 with surrogate escapes, as in os.fsdecode.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perfpy.abi import record_tails
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, RecordType, names_of
from perfpy.abi.framing import encode_padded_name, pad_to_words, with_header
from perfpy.abi.sample_id import NO_ID, IdLayout, SampleId
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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
    RecordType.MMAP: (Mmap, "IIQQQ", record_tails.one_text),
    RecordType.LOST: (Lost, "QQ", record_tails.nothing),
    RecordType.COMM: (Comm, "II", record_tails.one_text),
    RecordType.EXIT: (Exit, "IIIIQ", record_tails.nothing),
    RecordType.THROTTLE: (Throttle, "QQQ", record_tails.nothing),
    RecordType.UNTHROTTLE: (Unthrottle, "QQQ", record_tails.nothing),
    RecordType.FORK: (Fork, "IIIIQ", record_tails.nothing),
    RecordType.READ: (Read, "II", record_tails.raw),
    RecordType.MMAP2: (Mmap2, "IIQQQIIQQII", record_tails.one_text),
    RecordType.AUX: (Aux, "QQQ", record_tails.nothing),
    RecordType.ITRACE_START: (ItraceStart, "II", record_tails.nothing),
    RecordType.LOST_SAMPLES: (LostSamples, "Q", record_tails.nothing),
    RecordType.SWITCH: (Switch, "", record_tails.nothing),
    RecordType.SWITCH_CPU_WIDE: (SwitchCpuWide, "II", record_tails.nothing),
    RecordType.NAMESPACES: (Namespaces, "IIQ", record_tails.namespaces),
    RecordType.KSYMBOL: (Ksymbol, "QIHH", record_tails.one_text),
    RecordType.BPF_EVENT: (BpfEvent, "HHI8s", record_tails.nothing),
    RecordType.CGROUP: (Cgroup, "Q", record_tails.one_text),
    RecordType.TEXT_POKE: (TextPoke, "QHH", record_tails.text_poke),
    RecordType.AUX_OUTPUT_HW_ID: (AuxOutputHwId, "Q", record_tails.nothing),
    RecordType.CALLCHAIN_DEFERRED: (CallchainDeferred, "QQ", record_tails.decode_deferred_callchain),
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
    Namespaces: lambda r, e: record_tails.pack_u64s(tuple(v for pair in r.namespaces for v in pair), e),
    Ksymbol: lambda r, _e: encode_padded_name(r.name),
    Cgroup: lambda r, _e: encode_padded_name(r.path),
    TextPoke: lambda r, _e: (r.old + r.new) + bytes(-(12 + len(r.old) + len(r.new)) % 8),
    CallchainDeferred: lambda r, e: record_tails.pack_u64s(r.ips, e),
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
    tail_bytes = body[layout.size :] if tail is record_tails.one_text else body[layout.size : end]
    values = tail(layout.unpack_from(body), tail_bytes, endian)
    sample_id = id_layout.decode(body)
    if cls is Mmap2:
        return _mmap2(misc, values, body, sample_id)
    record: KernelRecord = cls._make((misc, *values, sample_id))
    return record


def holds_build_id(body: bytes | memoryview) -> bool:
    """Whether an MMAP2 marked as having a build-id really has one: { u8 size, 3 bytes of 0, u8 build_id[20] }, 0 beyond its size.

    Linux 6.18 marks records without a build-id if another recording requests build-ids at the same time.
    """
    size = body[32]
    return size <= 20 and not any(body[33:36]) and not any(body[36 + size : 56])


def _mmap2(misc: int, values: tuple[Any, ...], body: bytes, sample_id: SampleId | None) -> Mmap2:
    """Decode the two variants of an MMAP2's bytes 32-56."""
    if not misc & MISC_MMAP_BUILD_ID or not holds_build_id(body):
        return Mmap2._make((misc & ~MISC_MMAP_BUILD_ID, *values, b"", sample_id))
    build_id = body[36 : 36 + body[32]]
    return Mmap2._make((misc, *values[:5], 0, 0, 0, 0, *values[9:], build_id, sample_id))


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
