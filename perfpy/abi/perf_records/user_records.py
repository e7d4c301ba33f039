"""Encode and decode perf's own records (type 64 and above).

They have no sample_id trailer. Data that follows a record outside its size (AUXTRACE, HEADER_TRACING_DATA) is read and written by the
caller. Layouts: tools/lib/perf/include/perf/event.h and perf.data-file-format.txt; each stands in its class.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import ATTR_SIZE_VER0, RecordType, names_of
from perfpy.abi.framing import encode_padded_name, pad_to_words, text, with_header
from perfpy.abi.perf_records import auxtrace_records, build_id_record, cpu_map
from perfpy.abi.perf_records.auxtrace_records import Auxtrace, AuxtraceError, AuxtraceInfo
from perfpy.abi.perf_records.build_id_record import HeaderBuildId
from perfpy.abi.records import Unknown
from perfpy.abi.startup import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.abi.perf_records.newer_records import NewerRecord


class HeaderAttr(NamedTuple):
    """{ struct perf_event_attr attr; u64 ids[]; } : an event of a pipe"""

    misc: int
    attr: EventAttr
    ids: tuple[int, ...]


class HeaderEventType(NamedTuple):
    """{ u64 event_id; char name[64]; } : an event's name, before 2012"""

    misc: int
    event_id: int
    name: str


class HeaderTracingData(NamedTuple):
    """{ u32 size; } : the TRACING_DATA section follows, padded to 8 bytes"""

    misc: int
    size: int


class FinishedRound(NamedTuple):
    """{ } : records before the previous FINISHED_ROUND can be sorted now"""

    misc: int


class FinishedInit(NamedTuple):
    """{ } : end of the synthesized records"""

    misc: int


class IdIndexEntry(NamedTuple):
    """{ u64 id, idx, cpu, tid; } and, in newer files, { u64 machine_pid, vcpu; }"""

    id: int
    idx: int
    cpu: int
    tid: int
    machine_pid: int | None = None
    vcpu: int | None = None


class IdIndex(NamedTuple):
    """{ u64 nr; entry[nr]; extra[nr]; }"""

    misc: int
    entries: tuple[IdIndexEntry, ...]


class ThreadMap(NamedTuple):
    """{ u64 nr; { u64 pid; char comm[16]; } [nr]; }"""

    misc: int
    threads: tuple[tuple[int, str], ...]


class CpuMap(NamedTuple):
    """{ u16 type; ... } : a list (0), a mask (1) or a range (2) of CPUs; -1 means any"""

    misc: int
    cpus: tuple[int, ...]


class StatConfig(NamedTuple):
    """{ u64 nr; { u64 tag, value; } [nr]; }"""

    misc: int
    terms: tuple[tuple[int, int], ...]


class Stat(NamedTuple):
    """{ u64 id; u32 cpu, thread; u64 value, enabled, running; }"""

    misc: int
    id: int
    cpu: int
    thread: int
    value: int
    enabled: int
    running: int


class StatRound(NamedTuple):
    """{ u64 type, time; }"""

    misc: int
    type: int
    time: int


class EventUpdate(NamedTuple):
    """{ u64 type, id; ... } : a unit (0), scale (1), name (2) or CPU map (3) of an event"""

    misc: int
    type: int
    id: int
    value: str | float | tuple[int, ...]


class TimeConv(NamedTuple):
    """{ u64 time_shift, time_mult, time_zero; u64 time_cycles, time_mask; u8 cap_user_time_zero, cap_user_time_short; }"""

    misc: int
    time_shift: int
    time_mult: int
    time_zero: int
    time_cycles: int | None = None
    time_mask: int | None = None
    cap_user_time_zero: int | None = None
    cap_user_time_short: int | None = None


class HeaderFeature(NamedTuple):
    """{ u64 feat_id; char data[]; } : a feature section of a pipe"""

    misc: int
    feat_id: int
    data: bytes


class Compressed(NamedTuple):
    """{ char data[]; } : a piece of a zstd stream of records"""

    misc: int
    data: bytes


class Compressed2(NamedTuple):
    """{ u64 data_size; char data[]; } : a piece of a zstd stream of records, padded to 8 bytes after data_size"""

    misc: int
    data: bytes


UserRecord: TypeAlias = (
    HeaderAttr | HeaderEventType | HeaderTracingData | HeaderBuildId | FinishedRound | FinishedInit | IdIndex | AuxtraceInfo | Auxtrace
    | AuxtraceError | ThreadMap | CpuMap | StatConfig | Stat | StatRound | EventUpdate | TimeConv | HeaderFeature | Compressed | Compressed2
    | Unknown
)  # fmt: skip

EVENT_UPDATE_UNIT: Final = 0
EVENT_UPDATE_SCALE: Final = 1
EVENT_UPDATE_NAME: Final = 2
EVENT_UPDATE_CPUS: Final = 3

# record type -> class and codes of records that have only fixed fields
_FIXED: Final[dict[int, tuple[Any, str]]] = {
    RecordType.HEADER_TRACING_DATA: (HeaderTracingData, "I"),
    RecordType.FINISHED_ROUND: (FinishedRound, ""),
    RecordType.FINISHED_INIT: (FinishedInit, ""),
    RecordType.AUXTRACE: (Auxtrace, "QQQIII4x"),
    RecordType.STAT: (Stat, "QIIQQQ"),
    RecordType.STAT_ROUND: (StatRound, "QQ"),
}
_TYPE_OF: Final[dict[type, int]] = {
    **{cls: number for number, (cls, _) in _FIXED.items()},
    HeaderAttr: RecordType.HEADER_ATTR,
    HeaderEventType: RecordType.HEADER_EVENT_TYPE,
    HeaderBuildId: RecordType.HEADER_BUILD_ID,
    IdIndex: RecordType.ID_INDEX,
    AuxtraceInfo: RecordType.AUXTRACE_INFO,
    AuxtraceError: RecordType.AUXTRACE_ERROR,
    ThreadMap: RecordType.THREAD_MAP,
    CpuMap: RecordType.CPU_MAP,
    StatConfig: RecordType.STAT_CONFIG,
    EventUpdate: RecordType.EVENT_UPDATE,
    TimeConv: RecordType.TIME_CONV,
    HeaderFeature: RecordType.HEADER_FEATURE,
    Compressed: RecordType.COMPRESSED,
    Compressed2: RecordType.COMPRESSED2,
}


def decode(type: int, misc: int, body: bytes, endian: str = "<") -> UserRecord | NewerRecord:
    """Decode one of perf's own records from its body, the bytes after the header.

    An unknown type becomes Unknown. Raises ValueError if the body is too short for its layout.
    """
    try:
        if type in _FIXED:
            cls, codes = _FIXED[type]
            fixed: UserRecord = cls(misc, *struct.unpack_from(endian + codes, body))
            return fixed
        decoder = _DECODERS.get(type) or (_newer_decoder(type) if type > RecordType.COMPRESSED2 else None)
        return decoder(misc, body, endian) if decoder else Unknown(misc, type, body)
    except (struct.error, IndexError) as error:
        raise ValueError(f"{names_of(RecordType)[type]} ({type}) record with a body of {len(body)} bytes is cut") from error


def _newer_decoder(type: int) -> Callable[[int, bytes, str], NewerRecord] | None:
    from perfpy.abi.perf_records.newer_records import DECODERS  # few recordings have any

    return DECODERS.get(type)


def encode(record: UserRecord | NewerRecord, endian: str) -> bytes:
    """Encode the whole record with its header; the mirror of decode()."""
    if isinstance(record, Unknown):
        return with_header(record.type, record.misc, record.body, endian)
    if type(record) not in _TYPE_OF:
        from perfpy.abi.perf_records.newer_records import ENCODERS  # few recordings have any

        number, encoder = ENCODERS[type(record)]
        return with_header(number, record.misc, pad_to_words(encoder(record, endian)), endian)
    number = _TYPE_OF[type(record)]
    body = struct.pack(endian + _FIXED[number][1], *record[1:]) if number in _FIXED else _ENCODERS[type(record)](record, endian)
    # a piece of a zstd stream is not padded; every other record is a multiple of 8 bytes long
    return with_header(number, record.misc, body if isinstance(record, Compressed) else pad_to_words(body), endian)


def _words(body: bytes, offset: int, endian: str) -> tuple[int, ...]:
    """Return the remainder of the body as u64."""
    return struct.unpack_from(f"{endian}{max(0, len(body) - offset) // 8}Q", body, offset)


def _read_count(body: bytes, each: int, endian: str) -> int:
    """Return the u64 count at the start of a body, checked against the room for entries of `each` bytes."""
    (count,) = struct.unpack_from(endian + "Q", body)
    if count * each > len(body) - 8:
        raise ValueError(f"{count} entries in a record with room for {(len(body) - 8) // each}")
    return int(count)


def _header_attr(misc: int, body: bytes, endian: str) -> HeaderAttr:
    (size,) = struct.unpack_from(endian + "I", body, 4)
    size = size or ATTR_SIZE_VER0  # the oldest writers left it 0
    if size > len(body):
        raise ValueError(f"event attr of {size} bytes in a record with room for {len(body)}")
    attr = EventAttr.unpack(body[:size].ljust(ATTR_SIZE_VER0, b"\0"), endian)
    attr.size = size
    return HeaderAttr(misc, attr, _words(body, size, endian))


def _header_event_type(misc: int, body: bytes, endian: str) -> HeaderEventType:
    (event_id,) = struct.unpack_from(endian + "Q", body)
    return HeaderEventType(misc, event_id, text(body[8:]))


def _id_index(misc: int, body: bytes, endian: str) -> IdIndex:
    count = _read_count(body, 32, endian)
    words = struct.unpack_from(f"{endian}{4 * count}Q", body, 8)
    entries = [IdIndexEntry(*words[i : i + 4]) for i in range(0, len(words), 4)]
    extra = _words(body, 8 + 32 * count, endian)
    if len(extra) >= 2 * count:
        entries = [e._replace(machine_pid=extra[2 * i], vcpu=extra[2 * i + 1]) for i, e in enumerate(entries)]
    return IdIndex(misc, tuple(entries))


def _thread_map(misc: int, body: bytes, endian: str) -> ThreadMap:
    count = _read_count(body, 24, endian)
    entries = (struct.unpack_from(endian + "Q16s", body, 8 + 24 * i) for i in range(count))
    return ThreadMap(misc, tuple((pid, text(comm)) for pid, comm in entries))


def _cpu_map(misc: int, body: bytes, endian: str) -> CpuMap:
    return CpuMap(misc, cpu_map.decode(body, endian))


def _stat_config(misc: int, body: bytes, endian: str) -> StatConfig:
    count = _read_count(body, 16, endian)
    words = struct.unpack_from(f"{endian}{2 * count}Q", body, 8)
    return StatConfig(misc, tuple(zip(words[::2], words[1::2], strict=True)))


def _event_update(misc: int, body: bytes, endian: str) -> EventUpdate:
    number, ident = struct.unpack_from(endian + "QQ", body)
    value: str | float | tuple[int, ...]
    if number in (EVENT_UPDATE_UNIT, EVENT_UPDATE_NAME):
        value = text(body[16:])
    elif number == EVENT_UPDATE_SCALE:
        (value,) = struct.unpack_from(endian + "d", body, 16)
    elif number == EVENT_UPDATE_CPUS:
        value = cpu_map.decode(body[16:], endian)
    else:
        raise ValueError(f"event update of unknown kind {number}; expected 0 to 3")
    return EventUpdate(misc, number, ident, value)


def _time_conv(misc: int, body: bytes, endian: str) -> TimeConv:
    required = struct.unpack_from(endian + "QQQ", body)
    optional = struct.unpack_from(endian + "QQBB", body, 24) if len(body) >= 42 else ()
    return TimeConv(misc, *required, *optional)


def _header_feature(misc: int, body: bytes, endian: str) -> HeaderFeature:
    (feature,) = struct.unpack_from(endian + "Q", body)
    return HeaderFeature(misc, feature, body[8:])


def _decode_compressed(misc: int, body: bytes, _endian: str) -> Compressed:
    return Compressed(misc, body)


def _compressed2(misc: int, body: bytes, endian: str) -> Compressed2:
    size = _read_count(body, 1, endian)
    return Compressed2(misc, body[8 : 8 + size])


_DECODERS: Final[dict[int, Callable[[int, bytes, str], UserRecord]]] = {
    RecordType.HEADER_ATTR: _header_attr,
    RecordType.HEADER_EVENT_TYPE: _header_event_type,
    RecordType.HEADER_BUILD_ID: build_id_record.decode,
    RecordType.ID_INDEX: _id_index,
    RecordType.AUXTRACE_INFO: auxtrace_records.decode_info,
    RecordType.AUXTRACE_ERROR: auxtrace_records.decode_error,
    RecordType.THREAD_MAP: _thread_map,
    RecordType.CPU_MAP: _cpu_map,
    RecordType.STAT_CONFIG: _stat_config,
    RecordType.EVENT_UPDATE: _event_update,
    RecordType.TIME_CONV: _time_conv,
    RecordType.HEADER_FEATURE: _header_feature,
    RecordType.COMPRESSED: _decode_compressed,
    RecordType.COMPRESSED2: _compressed2,
}


def _encode_id_index(r: IdIndex, endian: str) -> bytes:
    words = [len(r.entries)] + [v for e in r.entries for v in e[:4]]
    if r.entries and r.entries[0].machine_pid is not None:
        words += [v or 0 for e in r.entries for v in e[4:]]
    return _pack_words(words, endian)


def _encode_thread_map(r: ThreadMap, endian: str) -> bytes:
    entries = (struct.pack(endian + "Q16s", pid, comm.encode("utf-8", "surrogateescape")[:15]) for pid, comm in r.threads)
    return _pack_words([len(r.threads)], endian) + b"".join(entries)


def _encode_event_update(r: EventUpdate, endian: str) -> bytes:
    if isinstance(r.value, str):
        data = encode_padded_name(r.value)
    elif isinstance(r.value, tuple):
        data = cpu_map.encode(r.value, endian)
    else:
        data = struct.pack(endian + "d", r.value)
    return struct.pack(endian + "QQ", r.type, r.id) + data


def _encode_time_conv(r: TimeConv, endian: str) -> bytes:
    first = _pack_words([r.time_shift, r.time_mult, r.time_zero], endian)
    if r.time_cycles is None:
        return first
    return first + struct.pack(endian + "QQBB6x", r.time_cycles, r.time_mask, r.cap_user_time_zero, r.cap_user_time_short)


def _pack_words(values: Any, endian: str) -> bytes:
    words = tuple(values)
    return struct.pack(f"{endian}{len(words)}Q", *words)


_ENCODERS: Final[dict[type, Any]] = {
    HeaderAttr: lambda r, e: r.attr.pack(e) + _pack_words(r.ids, e),
    HeaderEventType: lambda r, e: struct.pack(e + "Q64s", r.event_id, r.name.encode("utf-8", "surrogateescape")[:63]),
    HeaderBuildId: build_id_record.encode,
    IdIndex: _encode_id_index,
    AuxtraceInfo: auxtrace_records.encode_info,
    AuxtraceError: auxtrace_records.encode_error,
    ThreadMap: _encode_thread_map,
    CpuMap: lambda r, e: cpu_map.encode(r.cpus, e),
    StatConfig: lambda r, e: _pack_words([len(r.terms), *(v for term in r.terms for v in term)], e),
    EventUpdate: _encode_event_update,
    TimeConv: _encode_time_conv,
    HeaderFeature: lambda r, e: struct.pack(e + "Q", r.feat_id) + r.data,
    Compressed: lambda r, _e: r.data,
    Compressed2: lambda r, e: struct.pack(e + "Q", len(r.data)) + r.data,
}
