"""Reproduce perf's byte swapping of records from machines of the other byte order, for dumps.

perf swaps numbers but not strings, swaps
pairs of u32 in samples as one u64, and skips some fields.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from perfpy.abi import records
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, RecordType
from perfpy.abi.perf_records import cpu_map


class _SwapRule(NamedTuple):
    """widths: of the numbers after the header; rest: "" none, "8" u64s, "s" a string and then u64s."""

    widths: tuple[int, ...] = ()
    rest: str = ""


_ALL_64: Final = _SwapRule(rest="8")
_TASK: Final = (4, 4)
_RULES: Final[dict[int, _SwapRule]] = {
    RecordType.MMAP: _SwapRule((*_TASK, 8, 8, 8), "s"),
    RecordType.MMAP2: _SwapRule((*_TASK, 8, 8, 8, 4, 4, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0), "s"),
    RecordType.COMM: _SwapRule(_TASK, "s"),
    RecordType.FORK: _SwapRule((4, 4, 4, 4, 8), "8"),
    RecordType.EXIT: _SwapRule((4, 4, 4, 4, 8), "8"),
    RecordType.LOST: _ALL_64,
    RecordType.READ: _SwapRule((*_TASK, 8, 8, 8, 8), "8"),
    RecordType.THROTTLE: _ALL_64,
    RecordType.UNTHROTTLE: _ALL_64,
    RecordType.SAMPLE: _ALL_64,
    RecordType.AUX: _ALL_64,
    RecordType.ITRACE_START: _SwapRule(_TASK, "8"),
    RecordType.LOST_SAMPLES: _ALL_64,
    RecordType.SWITCH: _SwapRule((0, 0, 0, 0, 0, 0, 0, 0), "8"),
    RecordType.SWITCH_CPU_WIDE: _SwapRule(_TASK, "8"),
    RecordType.NAMESPACES: _SwapRule(_TASK, "8"),
    RecordType.CGROUP: _SwapRule((8,), "s"),
    RecordType.TEXT_POKE: _SwapRule((8, 2, 2)),
    RecordType.AUX_OUTPUT_HW_ID: _ALL_64,
    RecordType.HEADER_EVENT_TYPE: _SwapRule((8,)),
    RecordType.HEADER_TRACING_DATA: _SwapRule((4,)),
    RecordType.ID_INDEX: _ALL_64,
    RecordType.AUXTRACE_INFO: _SwapRule((4, 0, 0, 0, 0), "8"),
    RecordType.AUXTRACE: _SwapRule((8, 8, 8, 4, 4, 4)),
    RecordType.AUXTRACE_ERROR: _SwapRule((4, 4, 4, 4, 4, 4, 8, 8)),
    RecordType.THREAD_MAP: _SwapRule((8,)),
    RecordType.STAT_CONFIG: _ALL_64,
    RecordType.STAT: _SwapRule((8, 4, 4, 8, 8, 8)),
    RecordType.STAT_ROUND: _SwapRule((8, 8)),
    RecordType.EVENT_UPDATE: _SwapRule((8, 8)),
    RecordType.TIME_CONV: _SwapRule((8, 8, 8, 8, 8)),
}
_BITS_REVERSED: Final = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))
_ATTR_FLAGS: Final = 40  # the offset of the bit field in a perf_event_attr


def swap_record(kind: int, misc: int, record: bytes) -> bytes:
    """Return a record of the other byte order, header included, as perf shows its bytes."""
    head = record[:4][::-1] + record[4:6][::-1] + record[6:8][::-1]
    body = record[8:]
    if kind == RecordType.HEADER_ATTR:
        return head + _attr(body)
    if kind == RecordType.THREAD_MAP:
        return head + _threads(body)
    if kind == RecordType.CPU_MAP:
        return head + _cpu_map(body)
    rule = _RULES.get(kind)
    if rule is None:
        return head + body
    widths = rule.widths
    if kind == RecordType.MMAP2 and misc & MISC_MMAP_BUILD_ID:
        widths = (*_TASK, 8, 8, 8, *([0] * 32))
    fixed = sum(width or 1 for width in widths)
    return head + _numbers(body[:fixed], widths) + _tail(body[fixed:], rule.rest)


def _numbers(data: bytes, widths: tuple[int, ...]) -> bytes:
    """Swap numbers of these widths; width 0: an unchanged byte."""
    parts = []
    offset = 0
    for width in widths:
        parts.append(data[offset : offset + (width or 1)][::-1])
        offset += width or 1
    return b"".join(parts)


def _tail(data: bytes, rest: str) -> bytes:
    if not rest:
        return data
    text = b""
    if rest == "s":
        end = (data.find(b"\0") + 8) & ~7 if b"\0" in data else len(data)
        text, data = data[:end], data[end:]
    return text + _words(data)


def _words(data: bytes) -> bytes:
    return b"".join(data[offset : offset + 8][::-1] if offset + 8 <= len(data) else data[offset:] for offset in range(0, len(data), 8))


def _attr(body: bytes) -> bytes:
    """Swap perf_event_attr and ids: the bits of the bit field are reversed within their bytes."""
    size = int.from_bytes(body[4:8], "big")
    widths = {0: 4, 4: 4, 48: 4, 52: 4, 88: 4, 92: 4, 104: 4, 108: 2, 110: 2, 112: 4, 116: 4}
    attr = b""
    offset = 0
    while offset < min(size, len(body)):
        width = widths.get(offset, 8)
        part = body[offset : offset + width]
        attr += part.translate(_BITS_REVERSED) if offset == _ATTR_FLAGS else part[::-1]
        offset += width
    ids = body[offset:]
    return attr + _words(ids.ljust(-(-len(ids) // 8) * 8, b"\0"))[: len(ids)]


def _threads(body: bytes) -> bytes:
    """{ u64 nr; { u64 pid; char comm[16]; } [nr]; }"""
    parts = [body[:8][::-1]]
    for offset in range(8, len(body), 24):
        parts += [body[offset : offset + 8][::-1], body[offset + 8 : offset + 24]]
    return b"".join(parts)


def _cpu_map(body: bytes) -> bytes:
    """A list { u16 nr, cpus[] }, a mask { u16 nr, long_size; words } or a range { u8 any, pad; u16 start, end }."""
    kind = int.from_bytes(body[:2], "big")
    if kind == cpu_map.RANGE:
        return _numbers(body, (2, 0, 0, 2, 2)) + body[8:]
    if kind == cpu_map.LIST:
        return _numbers(body, (2,) * (len(body) // 2))
    return _numbers(body, (2, 2, 2)) + body[6:10] + _words(body[10:])


def as_perf_reads(record: Any) -> Any:
    """Return a record as perf 6.12 reads it: it swaps neither an MMAP2's protection flags nor the task of a SWITCH."""
    if isinstance(record, records.Mmap2):
        return record._replace(prot=_swapped32(record.prot), flags=_swapped32(record.flags))
    sample_id = record.sample_id
    if isinstance(record, records.Switch) and sample_id is not None and sample_id.pid is not None:
        return record._replace(sample_id=sample_id._replace(pid=_swapped32(sample_id.tid or 0), tid=_swapped32(sample_id.pid)))
    return record


def _swapped32(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "little"), "big")
