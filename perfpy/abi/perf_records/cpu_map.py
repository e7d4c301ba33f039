"""Encode and decode perf_record_cpu_map_data, the CPUs of CPU_MAP and EVENT_UPDATE records.

Layout: tools/lib/perf/include/perf/event.h: a list, a mask of words of 4 or 8 bytes, or a range.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

LIST: Final = 0
MASK: Final = 1
RANGE: Final = 2


def decode(data: bytes, endian: str) -> tuple[int, ...]:
    """Decode the CPUs; -1 means any. Raises ValueError for an unknown kind and for more CPUs than fit."""
    (kind,) = struct.unpack_from(endian + "H", data)
    if kind == LIST:
        (count,) = struct.unpack_from(endian + "H", data, 2)
        return tuple(-1 if cpu == 0xFFFF else cpu for cpu in struct.unpack_from(f"{endian}{count}H", data, 4))
    if kind == MASK:
        return _mask_cpus(data, endian)
    if kind == RANGE:
        any_cpu, start, end = struct.unpack_from(endian + "BxHH", data, 2)
        return ((-1,) if any_cpu else ()) + tuple(range(start, end + 1))
    raise ValueError(f"CPU map of unknown kind {kind}; expected 0 to 2")


def _mask_cpus(data: bytes, endian: str) -> tuple[int, ...]:
    count, long_size = struct.unpack_from(endian + "HH", data, 2)
    if long_size not in (4, 8):
        raise ValueError(f"CPU mask of {long_size}-byte words; expected 4 or 8")
    # { u16 kind, count, long_size; }, with 4 bytes of padding before words of 8 bytes, because the struct is packed
    words = struct.unpack_from(f"{endian}{count}{'I' if long_size == 4 else 'Q'}", data, 6 if long_size == 4 else 10)
    bits = 8 * long_size
    return tuple(i * bits + bit for i, word in enumerate(words) for bit in range(bits) if word >> bit & 1)


def encode(cpus: tuple[int, ...], endian: str) -> bytes:
    """Encode as perf does: a range if the CPUs are contiguous, a list otherwise."""
    real = [cpu for cpu in cpus if cpu >= 0]
    if real and real == list(range(real[0], real[-1] + 1)):
        return struct.pack(endian + "HBxHH", RANGE, len(real) != len(cpus), real[0], real[-1])
    values = [0xFFFF if cpu < 0 else cpu for cpu in cpus]
    return struct.pack(f"{endian}HH{len(values)}H", LIST, len(values), *values)
