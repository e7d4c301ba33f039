"""Encode and decode perf's own records (type 64 and above).

They have no sample_id trailer. Data that follows a record outside its size (AUXTRACE, HEADER_TRACING_DATA) is read and written by the
caller. Layouts: tools/lib/perf/include/perf/event.h and perf.data-file-format.txt; each stands in its class.
"""

from __future__ import annotations

import struct

from perfpy.abi import framing
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import ATTR_SIZE_VER0, PMCU_NAME, RecordType, names_of
from perfpy.abi.framing import HeaderBuildId, encode_padded_name, pad_to_words, text, with_header
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.records import Unknown

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, TypeAlias


#: AuxtraceInfo.type of a HiSilicon PMCU; perf uses the number for another tracer, after HiSilicon PTT's
HISI_PMCU: Final = 7
INTEL_PT: Final = 1  #: AuxtraceInfo.type of Intel PT
ARM_SPE: Final = 4  #: AuxtraceInfo.type of Arm's statistical profiling extension


class TraceDetails(NamedTuple):
    """What a command needs of a decoded trace besides its kinds of samples.

    Attributes:
        branch_flags: weights of samples are kinds of branches and depths of calls.
        ipc: transactions and stream ids of samples are instructions and cycles since the sample before.
        is_stripped: samples and context switches of the recording itself are dropped.
    """

    branch_flags: bool = False
    ipc: bool = False
    is_stripped: bool = False


NO_DETAILS: Final = TraceDetails()


class AuxtraceInfo(NamedTuple):
    """{ u32 type; u32 reserved; u64 priv[]; }"""

    misc: int
    type: int
    priv: tuple[int, ...]


class Auxtrace(NamedTuple):
    """{ u64 size, offset, reference; u32 idx, tid, cpu, reserved; } : `size` bytes of trace follow the record"""

    misc: int
    size: int
    offset: int
    reference: int
    idx: int
    tid: int
    cpu: int


class AuxtraceError(NamedTuple):
    """{ u32 type, code, cpu, pid, tid, fmt; u64 ip, time; char msg[64]; u32 machine_pid, vcpu; }"""

    misc: int
    type: int
    code: int
    cpu: int
    pid: int
    tid: int
    fmt: int
    ip: int
    time: int
    msg: str
    machine_pid: int = 0
    vcpu: int = 0


def decode_info(misc: int, body: bytes, endian: str) -> AuxtraceInfo:
    """Decode the description of a tracer; `priv` depends on the tracer."""
    (number,) = struct.unpack_from(endian + "I", body)
    return AuxtraceInfo(misc, number, struct.unpack_from(f"{endian}{max(0, len(body) - 8) // 8}Q", body, 8))


def encode_info(r: AuxtraceInfo, endian: str) -> bytes:
    """Encode; the mirror of decode_info()."""
    return struct.pack(f"{endian}I4x{len(r.priv)}Q", r.type, *r.priv)


def decode_error(misc: int, body: bytes, endian: str) -> AuxtraceError:
    """Decode a piece that could not be traced or decoded; perf cuts the message's zeros and the guest off."""
    kind, code, cpu, pid, tid, fmt, ip, time = struct.unpack_from(endian + "IIIIIIQQ", body)
    msg = body[40:104]
    machine_pid, vcpu = struct.unpack_from(endian + "II", body, 104) if len(body) >= 112 else (0, 0)
    return AuxtraceError(misc, kind, code, cpu, pid, tid, fmt, ip, time, text(msg), machine_pid, vcpu)


def encode_error(r: AuxtraceError, endian: str) -> bytes:
    """Encode; the mirror of decode_error()."""
    msg = r.msg.encode("utf-8", "surrogateescape")
    return struct.pack(endian + "IIIIIIQQ64sII", *r[1:9], msg[:63], r.machine_pid, r.vcpu)


def is_pmcu(info: bytes, endian: str, pmus: dict[int, str]) -> bool:
    """Whether the body of an AUXTRACE_INFO is a HiSilicon PMCU's. `pmus` maps type to name, because another tracer uses the same number."""
    try:
        info_record = decode_info(0, info, endian)
    except struct.error:
        return False
    return info_record.type == HISI_PMCU and bool(info_record.priv) and pmus.get(info_record.priv[0], PMCU_NAME).startswith(PMCU_NAME)


def is_decoded(info: bytes, endian: str) -> bool:
    """Whether the body of an AUXTRACE_INFO is of a tracer whose data perfpy decodes into samples."""
    return len(info) >= 4 and struct.unpack_from(endian + "I", info)[0] in (ARM_SPE, INTEL_PT)


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
        decoder: Callable[[int, bytes, str], UserRecord | NewerRecord] | None = _DECODERS.get(type)
        if type > RecordType.COMPRESSED2:
            decoder = _NEWER_DECODERS.get(type)
        return decoder(misc, body, endian) if decoder else Unknown(misc, type, body)
    except (struct.error, IndexError) as error:
        raise ValueError(f"{names_of(RecordType)[type]} ({type}) record with a body of {len(body)} bytes is cut") from error


def encode(record: UserRecord | NewerRecord, endian: str) -> bytes:
    """Encode the whole record with its header; the mirror of decode()."""
    if isinstance(record, Unknown):
        return with_header(record.type, record.misc, record.body, endian)
    if type(record) not in _TYPE_OF:
        number, encoder = _NEWER_ENCODERS[type(record)]
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
        value = decode_cpu_map(body[16:], endian)
    else:
        raise ValueError(f"event update of unknown kind {number}; expected 0 to 3")
    return EventUpdate(misc, number, ident, value)


def _time_conv(misc: int, body: bytes, endian: str) -> TimeConv:
    required = struct.unpack_from(endian + "QQQ", body)
    optional = struct.unpack_from(endian + "QQBB", body, 24) if len(body) >= 42 else ()
    return TimeConv(misc, *required, *optional)


def _compressed2(misc: int, body: bytes, endian: str) -> Compressed2:
    size = _read_count(body, 1, endian)
    return Compressed2(misc, body[8 : 8 + size])


_DECODERS: Final[dict[int, Callable[[int, bytes, str], UserRecord]]] = {
    RecordType.HEADER_ATTR: _header_attr,
    RecordType.HEADER_EVENT_TYPE: lambda misc, body, e: HeaderEventType(misc, struct.unpack_from(e + "Q", body)[0], text(body[8:])),
    RecordType.HEADER_BUILD_ID: framing.decode_build_id,
    RecordType.ID_INDEX: _id_index,
    RecordType.AUXTRACE_INFO: decode_info,
    RecordType.AUXTRACE_ERROR: decode_error,
    RecordType.THREAD_MAP: _thread_map,
    RecordType.CPU_MAP: lambda misc, body, e: CpuMap(misc, decode_cpu_map(body, e)),
    RecordType.STAT_CONFIG: _stat_config,
    RecordType.EVENT_UPDATE: _event_update,
    RecordType.TIME_CONV: _time_conv,
    RecordType.HEADER_FEATURE: lambda misc, body, e: HeaderFeature(misc, struct.unpack_from(e + "Q", body)[0], body[8:]),
    RecordType.COMPRESSED: lambda misc, body, _e: Compressed(misc, body),
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
        data = encode_cpu_map(r.value, endian)
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
    HeaderBuildId: framing.encode_build_id,
    IdIndex: _encode_id_index,
    AuxtraceInfo: encode_info,
    AuxtraceError: encode_error,
    ThreadMap: _encode_thread_map,
    CpuMap: lambda r, e: encode_cpu_map(r.cpus, e),
    StatConfig: lambda r, e: _pack_words([len(r.terms), *(v for term in r.terms for v in term)], e),
    EventUpdate: _encode_event_update,
    TimeConv: _encode_time_conv,
    HeaderFeature: lambda r, e: struct.pack(e + "Q", r.feat_id) + r.data,
    Compressed: lambda r, _e: r.data,
    Compressed2: lambda r, e: struct.pack(e + "Q", len(r.data)) + r.data,
}


# Encode and decode perf_record_cpu_map_data, the CPUs of CPU_MAP and EVENT_UPDATE records. Layout: tools/lib/perf/include/perf/event.h: a
# list, a mask of words of 4 or 8 bytes, or a range.

LIST: Final = 0
MASK: Final = 1
RANGE: Final = 2


def decode_cpu_map(data: bytes, endian: str) -> tuple[int, ...]:
    """Decode the CPUs; -1 means any. Raises ValueError for an unknown kind and for more CPUs than fit."""
    (kind,) = struct.unpack_from(endian + "H", data)
    if kind == LIST:
        (count,) = struct.unpack_from(endian + "H", data, 2)
        return tuple(-1 if cpu == 0xFFFF else cpu for cpu in struct.unpack_from(f"{endian}{count}H", data, 4))
    if kind == MASK:
        count, long_size = struct.unpack_from(endian + "HH", data, 2)
        if long_size not in (4, 8):
            raise ValueError(f"CPU mask of {long_size}-byte words; expected 4 or 8")
        # { u16 kind, count, long_size; }, with 4 bytes of padding before words of 8 bytes, because the struct is packed
        words = struct.unpack_from(f"{endian}{count}{'I' if long_size == 4 else 'Q'}", data, 6 if long_size == 4 else 10)
        bits = 8 * long_size
        return tuple(i * bits + bit for i, word in enumerate(words) for bit in range(bits) if word >> bit & 1)
    if kind == RANGE:
        any_cpu, start, end = struct.unpack_from(endian + "BxHH", data, 2)
        return ((-1,) if any_cpu else ()) + tuple(range(start, end + 1))
    raise ValueError(f"CPU map of unknown kind {kind}; expected 0 to 2")


def encode_cpu_map(cpus: tuple[int, ...], endian: str) -> bytes:
    """Encode as perf does: a range if the CPUs are contiguous, a list otherwise."""
    real = [cpu for cpu in cpus if cpu >= 0]
    if real and real == list(range(real[0], real[-1] + 1)):
        return struct.pack(endian + "HBxHH", RANGE, len(real) != len(cpus), real[0], real[-1])
    values = [0xFFFF if cpu < 0 else cpu for cpu in cpus]
    return struct.pack(f"{endian}HH{len(values)}H", LIST, len(values), *values)


# Perf's own records that only perf 7 and later write. BPF_METADATA has the bpf_metadata_* variables of a BPF program. SCHEDSTAT_CPU and
# SCHEDSTAT_DOMAIN have the lines of /proc/schedstat, as `perf sched stats record` writes them. The counts keep the order of the lines;
# their meaning depends on the version in the file's first line (Documentation/scheduler/sched-stats.rst).

_METADATA_NAME: Final = 512  # bytes; the longest name of a kernel symbol
_METADATA_ENTRY: Final = struct.Struct("64s256s")
_SCHEDSTAT_CPU: Final = "QIH2x"
_SCHEDSTAT_CPU_COUNTS: Final = "6I3Q"
_SCHEDSTAT_DOMAIN: Final = "QIHH"
#: version of /proc/schedstat -> number of counts of a domain
SCHEDSTAT_DOMAIN_COUNTS: Final = {15: 36, 16: 36, 17: 45}
SCHEDSTAT_LONG_COUNTS: Final = 6  #: the first count of a CPU that has 64 bits (_SCHEDSTAT_CPU_COUNTS); all others have 32


class BpfMetadata(NamedTuple):
    """{ char prog_name[512]; u64 nr; { char key[64], value[256]; } entries[nr]; }"""

    misc: int
    program: str
    entries: tuple[tuple[str, str], ...]


class SchedstatCpu(NamedTuple):
    """{ u64 timestamp; u32 cpu; u16 version; u8 pad[2]; u32 yld_count, array_exp, sched_count, sched_goidle, ttwu_count, ttwu_local;
    u64 rq_cpu_time, run_delay, pcount; } : a line "cpuN"; an unknown version has no counts
    """

    misc: int
    timestamp: int
    cpu: int
    version: int
    counts: tuple[int, ...]


class SchedstatDomain(NamedTuple):
    """{ u64 timestamp; u32 cpu; u16 version, domain; u32 counts[]; } : a line "domainN" below its CPU's line"""

    misc: int
    timestamp: int
    cpu: int
    version: int
    domain: int
    counts: tuple[int, ...]


NewerRecord: TypeAlias = BpfMetadata | SchedstatCpu | SchedstatDomain


def _bpf_metadata(misc: int, body: bytes, endian: str) -> BpfMetadata:
    (count,) = struct.unpack_from(endian + "Q", body, _METADATA_NAME)
    entries = body[_METADATA_NAME + 8 :]
    if count * _METADATA_ENTRY.size > len(entries):
        raise ValueError(f"{count} entries in a record with room for {len(entries) // _METADATA_ENTRY.size}")
    pairs = _METADATA_ENTRY.iter_unpack(entries[: count * _METADATA_ENTRY.size])
    return BpfMetadata(misc, text(body[:_METADATA_NAME]), tuple((text(key), text(value)) for key, value in pairs))


def _schedstat_cpu(misc: int, body: bytes, endian: str) -> SchedstatCpu:
    timestamp, cpu, version = struct.unpack_from(endian + _SCHEDSTAT_CPU, body)
    counts = struct.unpack_from(endian + _SCHEDSTAT_CPU_COUNTS, body, 16) if version in SCHEDSTAT_DOMAIN_COUNTS else ()
    return SchedstatCpu(misc, timestamp, cpu, version, counts)


def _schedstat_domain(misc: int, body: bytes, endian: str) -> SchedstatDomain:
    timestamp, cpu, version, domain = struct.unpack_from(endian + _SCHEDSTAT_DOMAIN, body)
    counts = struct.unpack_from(f"{endian}{SCHEDSTAT_DOMAIN_COUNTS.get(version, 0)}I", body, 16)
    return SchedstatDomain(misc, timestamp, cpu, version, domain, counts)


def _encode_bpf_metadata(record: BpfMetadata, endian: str) -> bytes:
    entries = b"".join(_METADATA_ENTRY.pack(_as_bytes(key), _as_bytes(value)) for key, value in record.entries)
    return struct.pack(f"{endian}{_METADATA_NAME}sQ", _as_bytes(record.program), len(record.entries)) + entries


def _as_bytes(words: str) -> bytes:
    return words.encode("utf-8", "surrogateescape")


def _encode_cpu(record: SchedstatCpu, endian: str) -> bytes:
    counts = struct.pack(endian + _SCHEDSTAT_CPU_COUNTS, *record.counts) if record.counts else b""
    return struct.pack(endian + _SCHEDSTAT_CPU, record.timestamp, record.cpu, record.version) + counts


def _encode_domain(record: SchedstatDomain, endian: str) -> bytes:
    head = struct.pack(endian + _SCHEDSTAT_DOMAIN, record.timestamp, record.cpu, record.version, record.domain)
    return head + struct.pack(f"{endian}{len(record.counts)}I", *record.counts)


#: record type -> decoder of misc, body and byte order; raises ValueError or struct.error for a short body
_NEWER_DECODERS: Final[dict[int, Callable[[int, bytes, str], NewerRecord]]] = {
    RecordType.BPF_METADATA: _bpf_metadata,
    RecordType.SCHEDSTAT_CPU: _schedstat_cpu,
    RecordType.SCHEDSTAT_DOMAIN: _schedstat_domain,
}
#: class -> record type, and the encoder of a value's body in a byte order
_NEWER_ENCODERS: Final[dict[type, tuple[int, Any]]] = {
    BpfMetadata: (RecordType.BPF_METADATA, _encode_bpf_metadata),
    SchedstatCpu: (RecordType.SCHEDSTAT_CPU, _encode_cpu),
    SchedstatDomain: (RecordType.SCHEDSTAT_DOMAIN, _encode_domain),
}
