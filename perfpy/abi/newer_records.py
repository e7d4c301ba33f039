"""Encode and decode perf's own records that only perf 7 and later write.

BPF_METADATA has the bpf_metadata_* variables of a BPF program. SCHEDSTAT_CPU and SCHEDSTAT_DOMAIN have the lines of /proc/schedstat, as
`perf sched stats record` writes them. The counts keep the order of the lines; their meaning depends on the version in the file's first line
(Documentation/scheduler/sched-stats.rst). Layouts: tools/lib/perf/include/perf/event.h; each stands in its class.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from perfpy.abi.flags import RecordType
from perfpy.abi.framing import text

if TYPE_CHECKING:
    from collections.abc import Callable


_NAME: Final = 512  # bytes; the longest name of a kernel symbol
_ENTRY: Final = struct.Struct("64s256s")
_CPU: Final = "QIH2x"
_CPU_COUNTS: Final = "6I3Q"
_DOMAIN: Final = "QIHH"
#: version of /proc/schedstat -> number of counts of a domain
SCHEDSTAT_DOMAIN_COUNTS: Final = {15: 36, 16: 36, 17: 45}
SCHEDSTAT_LONG_COUNTS: Final = 6  #: the first count of a CPU that has 64 bits (_CPU_COUNTS); all others have 32


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
    (count,) = struct.unpack_from(endian + "Q", body, _NAME)
    entries = body[_NAME + 8 :]
    if count * _ENTRY.size > len(entries):
        raise ValueError(f"{count} entries in a record with room for {len(entries) // _ENTRY.size}")
    pairs = _ENTRY.iter_unpack(entries[: count * _ENTRY.size])
    return BpfMetadata(misc, text(body[:_NAME]), tuple((text(key), text(value)) for key, value in pairs))


def _cpu(misc: int, body: bytes, endian: str) -> SchedstatCpu:
    timestamp, cpu, version = struct.unpack_from(endian + _CPU, body)
    counts = struct.unpack_from(endian + _CPU_COUNTS, body, 16) if version in SCHEDSTAT_DOMAIN_COUNTS else ()
    return SchedstatCpu(misc, timestamp, cpu, version, counts)


def _domain(misc: int, body: bytes, endian: str) -> SchedstatDomain:
    timestamp, cpu, version, domain = struct.unpack_from(endian + _DOMAIN, body)
    counts = struct.unpack_from(f"{endian}{SCHEDSTAT_DOMAIN_COUNTS.get(version, 0)}I", body, 16)
    return SchedstatDomain(misc, timestamp, cpu, version, domain, counts)


def _encode_bpf_metadata(record: BpfMetadata, endian: str) -> bytes:
    entries = b"".join(_ENTRY.pack(_bytes(key), _bytes(value)) for key, value in record.entries)
    return struct.pack(f"{endian}{_NAME}sQ", _bytes(record.program), len(record.entries)) + entries


def _bytes(words: str) -> bytes:
    return words.encode("utf-8", "surrogateescape")


def _encode_cpu(record: SchedstatCpu, endian: str) -> bytes:
    counts = struct.pack(endian + _CPU_COUNTS, *record.counts) if record.counts else b""
    return struct.pack(endian + _CPU, record.timestamp, record.cpu, record.version) + counts


def _encode_domain(record: SchedstatDomain, endian: str) -> bytes:
    head = struct.pack(endian + _DOMAIN, record.timestamp, record.cpu, record.version, record.domain)
    return head + struct.pack(f"{endian}{len(record.counts)}I", *record.counts)


#: record type -> decoder of misc, body and byte order; raises ValueError or struct.error for a short body
DECODERS: Final[dict[int, Callable[[int, bytes, str], NewerRecord]]] = {
    RecordType.BPF_METADATA: _bpf_metadata,
    RecordType.SCHEDSTAT_CPU: _cpu,
    RecordType.SCHEDSTAT_DOMAIN: _domain,
}
#: class -> record type, and the encoder of a value's body in a byte order
ENCODERS: Final[dict[type, tuple[int, Any]]] = {
    BpfMetadata: (RecordType.BPF_METADATA, _encode_bpf_metadata),
    SchedstatCpu: (RecordType.SCHEDSTAT_CPU, _encode_cpu),
    SchedstatDomain: (RecordType.SCHEDSTAT_DOMAIN, _encode_domain),
}
