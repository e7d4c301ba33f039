"""Encode and decode perf's records about hardware traces (AUXTRACE and related types).

The trace follows its AUXTRACE record outside the record's size, so callers read and write it themselves. Layouts:
tools/lib/perf/include/perf/event.h; each stands in its class.
"""

from __future__ import annotations

import struct
from typing import Final

from perfpy.abi.framing import text
from perfpy.abi.startup import NamedTuple

#: AuxtraceInfo.type of a HiSilicon PMCU; perf uses the number for another tracer, after HiSilicon PTT's
HISI_PMCU: Final = 7
#: the common prefix of PMU names
PMCU_NAME: Final = "hisi_pmcu"


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
    """Decode a piece that could not be traced or decoded; older writers omit the guest."""
    kind, code, cpu, pid, tid, fmt, ip, time, msg = struct.unpack_from(endian + "IIIIIIQQ64s", body)
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
