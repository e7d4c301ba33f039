"""perf.data files taken apart, damaged where it matters, and put together again.

Input: the bytes of a recording (file or pipe). Output: other bytes,
in which the records that were not touched still stand where the header says:
a recording whose first bytes are refused tests nothing behind them.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfpy.abi import perf_records
from perfpy.perfdata.event_format import TracingData, decode_tracing
from perfpy.perfdata.header import Feature
from perfpy.untrusted.expansion import zstd_library
from tests.fuzz.mutation import EVIL, boundary, damaged, damaged_text, with_fields

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_HEADER, _PIPE_HEADER = 104, 16
_KINDS = (*range(23), *range(64, 86), 0, 100, 0x8001, 0xFFFFFFFF)
_HEADER_FEATURE, _HEADER_TRACING_DATA, _AUXTRACE = 80, 66, 71
_COMPRESSED_AT_ONCE = 40_000


@dataclass
class Parts:
    """A recording. front: header, ids and attrs as they stand; features: number -> bytes, none in a pipe."""

    endian: str
    is_pipe: bool
    front: bytearray
    records: list[bytes]
    features: dict[int, bytes]
    killed: bool = False

    def joined(self) -> bytes:
        """The bytes of the recording."""
        body = b"".join(self.records)
        if self.is_pipe:
            return bytes(self.front) + body
        numbers = sorted(self.features)
        words = [0] * 4
        for number in numbers:
            words[number // 64 & 3] |= 1 << number % 64
        front = bytearray(self.front)
        struct.pack_into(self.endian + "Q", front, 48, 0 if self.killed else len(body))
        struct.pack_into(self.endian + "4Q", front, 72, *words)
        at = len(front) + len(body) + 16 * len(numbers)
        table = b""
        for number in numbers:
            table += struct.pack(self.endian + "2Q", at, len(self.features[number]))
            at += len(self.features[number])
        return bytes(front) + body + table + b"".join(self.features[number] for number in numbers)


def take_apart(data: bytes) -> Parts | None:
    """The parts of a recording, None for what is none or has its parts elsewhere."""
    if data[:8] not in (b"PERFILE2", b"2ELIFREP") or len(data) < _PIPE_HEADER:
        return None
    endian = "<" if data[:1] == b"P" else ">"
    if struct.unpack_from(endian + "Q", data, 8)[0] == _PIPE_HEADER:
        return Parts(endian, True, bytearray(data[:_PIPE_HEADER]), _records(data[_PIPE_HEADER:], endian), {})
    if len(data) < _HEADER:
        return None
    offset, size = struct.unpack_from(endian + "2Q", data, 40)
    end = offset + size if size else len(data)
    if not _HEADER <= offset <= end <= len(data):
        return None
    words = struct.unpack_from(endian + "4Q", data, 72)
    numbers = [number for number in range(256) if words[number // 64] >> number % 64 & 1] if size else []
    features = {}
    for at, number in enumerate(numbers):
        if end + 16 * at + 16 > len(data):
            break
        start, length = struct.unpack_from(endian + "2Q", data, end + 16 * at)
        features[number] = data[start : start + length]
    return Parts(endian, False, bytearray(data[:offset]), _records(data[offset:end], endian), features, not size)


def _records(body: bytes, endian: str) -> list[bytes]:
    """Each record, what follows it (tracing data, AUX data) included; bytes that are no records are the last one."""
    result, at = [], 0
    while at + 8 <= len(body):
        kind, _, size = struct.unpack_from(endian + "IHH", body, at)
        if size < 8 or at + size > len(body):
            break
        if kind == _HEADER_TRACING_DATA and size >= 12:
            size += (struct.unpack_from(endian + "I", body, at + 8)[0] + 7) & ~7
        elif kind == _AUXTRACE and size >= 16:
            size += struct.unpack_from(endian + "Q", body, at + 8)[0]
        result.append(body[at : at + size])
        at += size
    return [*result, body[at:]] if at < len(body) else result


def damaged_recording(data: bytes, rng: random.Random) -> bytes:
    """A recording damaged in its records, attrs or features, sometimes compressed afterwards; now and then anywhere."""
    parts = take_apart(data)
    if parts is None or not parts.records or rng.random() < 0.12:
        return damaged(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(_DAMAGES)(parts, rng)
        parts.records = parts.records or [b""]
    if rng.random() < 0.08:
        _compress(parts, rng)
    whole = parts.joined()
    return damaged(whole, rng) if rng.random() < 0.05 else whole


def _one(parts: Parts, rng: random.Random) -> int:
    return rng.randrange(len(parts.records))


def _with_size(record: bytes, endian: str) -> bytes:
    """The record with the size that it has."""
    return record[:6] + struct.pack(endian + "H", min(len(record), 0xFFFF)) + record[8:] if len(record) >= 8 else record


def _number_of_record(parts: Parts, rng: random.Random) -> None:
    at = _one(parts, rng)
    record = parts.records[at]
    width = rng.choice((2, 4, 4, 8, 8, 8))
    if len(record) >= 8 + width:
        places = range(8, len(record) - width + 1, width)
        parts.records[at] = with_fields(record, [(place, width) for place in places], parts.endian, rng)


def _head_of_record(parts: Parts, rng: random.Random) -> None:
    at = _one(parts, rng)
    record = parts.records[at]
    if len(record) < 8:
        return
    kind, misc, size = struct.unpack_from(parts.endian + "IHH", record)
    which = rng.randrange(3)
    kind = rng.choice(_KINDS) if which == 0 else kind
    misc = rng.choice((0, 1, 2, 3, 4, 5, 7, 1 << 13, 1 << 14, 1 << 15, 0xFFFF)) if which == 1 else misc
    size = rng.choice((0, 1, 7, 8, 9, 16, size - 8, size + 8, size + 1, 0xFFF8, 0xFFFF)) & 0xFFFF if which == 2 else size
    parts.records[at] = struct.pack(parts.endian + "IHH", kind, misc, size) + record[8:]


def _shape_of_record(parts: Parts, rng: random.Random) -> None:
    """Shorter or longer, and its size says so."""
    at = _one(parts, rng)
    record = parts.records[at]
    longer = record + rng.choice((bytes(8), b"\xff" * 8, bytes(64), rng.randbytes(16), bytes(60_000)))
    shorter = record[: max(8, rng.randrange(len(record) + 1) // 8 * 8)]
    parts.records[at] = _with_size(rng.choice((longer, shorter, shorter)), parts.endian)


def _name_of_record(parts: Parts, rng: random.Random) -> None:
    """Another name where a name stands: at the end of mappings, commands and their like."""
    named_records = [at for at, record in enumerate(parts.records) if len(record) > 24 and any(97 <= byte < 123 for byte in record[16:])]
    if not named_records:
        return
    at = rng.choice(named_records)
    record = parts.records[at]
    kind = struct.unpack_from(parts.endian + "I", record)[0]
    start = {1: 40, 10: 72, 3: 16, 17: 24, 67: 36}.get(kind, rng.randrange(8, len(record)))
    name = rng.choice(EVIL)
    parts.records[at] = _with_size(record[:start] + name + bytes(8 - len(name) % 8) + record[-32:], parts.endian)


def _order_of_records(parts: Parts, rng: random.Random) -> None:
    at, other = _one(parts, rng), _one(parts, rng)
    kind = rng.randrange(5)
    if kind == 0 and len(parts.records) > 1:
        del parts.records[at]
    elif kind == 1:
        parts.records[at:at] = [parts.records[other]] * rng.choice((1, 2, 30, 500))
    elif kind == 2:
        parts.records[at], parts.records[other] = parts.records[other], parts.records[at]
    elif kind == 3:
        rng.shuffle(parts.records)
    else:
        _new_record(parts, rng)


def _new_record(parts: Parts, rng: random.Random) -> None:
    words = [rng.choice((0, 1, boundary(0, 8, 4096, rng), rng.getrandbits(64))) for _ in range(rng.choice((0, 1, 2, 4, 9, 30)))]
    body = struct.pack(f"{parts.endian}{len(words)}Q", *words)
    record = struct.pack(parts.endian + "IHH", rng.choice(_KINDS), rng.choice((0, 0, 2, 0xFFFF)), 8 + len(body)) + body
    parts.records.insert(_one(parts, rng), record)


def _front(parts: Parts, rng: random.Random) -> None:
    """Numbers of the header and, mostly, of the attrs."""
    size = len(parts.front)
    width = rng.choice((4, 8))
    first = min(_HEADER if rng.random() < 0.85 else 8, size - width)
    if parts.is_pipe or first < 8:
        _attr_of_pipe(parts, rng)
        return
    parts.front[:] = with_fields(bytes(parts.front), [(at, width) for at in range(first, size - width + 1, width)], parts.endian, rng)


def _attr_of_pipe(parts: Parts, rng: random.Random) -> None:
    attrs = [at for at, record in enumerate(parts.records) if record[:4] == struct.pack(parts.endian + "I", 64)]
    if attrs:
        at = rng.choice(attrs)
        record = parts.records[at]
        parts.records[at] = with_fields(record, [(place, 4) for place in range(8, len(record) - 3, 4)], parts.endian, rng)


def _feature(parts: Parts, rng: random.Random) -> None:
    carried = [at for at, record in enumerate(parts.records) if record[:4] == struct.pack(parts.endian + "I", _HEADER_FEATURE)]
    if parts.is_pipe and carried:
        at = rng.choice(carried)
        parts.records[at] = _with_size(parts.records[at][:16] + _other_feature(parts.records[at][16:], parts.endian, rng), parts.endian)
    elif parts.features:
        number = rng.choice(sorted(parts.features))
        data = parts.features[number]
        if number == Feature.TRACING_DATA and rng.random() < 0.8:
            parts.features[number] = damaged_tracing(data, rng)
        elif rng.random() < 0.1:
            parts.features[rng.randrange(36)] = data
        else:
            parts.features[number] = _other_feature(data, parts.endian, rng)


def _other_feature(data: bytes, endian: str, rng: random.Random) -> bytes:
    if not data or rng.random() < 0.4:
        return damaged(data, rng)
    width = rng.choice((4, 8))
    return with_fields(data, [(at, width) for at in range(0, max(len(data) - width, 0) + 1, width)], endian, rng)


def damaged_tracing(data: bytes, rng: random.Random) -> bytes:
    """A TRACING_DATA section with one of its texts changed, or a number of its own."""
    try:
        tracing = decode_tracing(data)
    except ValueError:
        return damaged(data, rng)
    which = rng.randrange(10)
    changed: TracingData
    if which == 0:
        return damaged(data, rng)
    if which == 1:
        changed = tracing._replace(header_page=damaged_text(tracing.header_page, rng))
    elif which == 2:
        changed = tracing._replace(printk=damaged_text(tracing.printk, rng))
    elif which == 3:
        changed = tracing._replace(long_size=boundary(8, 1, 8, rng), page_size=boundary(4096, 4, 8, rng))
    else:
        changed = tracing._replace(systems=_other_formats(tracing.systems, rng))
    return changed.encode()


def _other_formats(systems: tuple[tuple[str, tuple[bytes, ...]], ...], rng: random.Random) -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    results = [(name, list(formats)) for name, formats in systems]
    filled = [formats for _, formats in results if formats]
    if filled:
        formats = rng.choice(filled)
        at = rng.randrange(len(formats))
        formats[at] = damaged_text(formats[at], rng)
    return tuple((name, tuple(formats)) for name, formats in results)


def _kill(parts: Parts, rng: random.Random) -> None:
    if rng.random() < 0.3:
        parts.killed = True
        parts.features.clear()


def _compress(parts: Parts, rng: random.Random) -> None:
    attr = struct.pack(parts.endian + "I", 64)
    keep = max((at + 1 for at, record in enumerate(parts.records) if parts.is_pipe and record[:4] == attr), default=0)
    plain = b"".join(parts.records[keep:])
    zstd = zstd_library().ZstdCompressor()
    kind = rng.choice((perf_records.Compressed, perf_records.Compressed2))
    packed = []
    for start in range(0, len(plain), _COMPRESSED_AT_ONCE):
        data = zstd.compress(plain[start : start + _COMPRESSED_AT_ONCE], zstd.FLUSH_BLOCK)
        if rng.random() < 0.3:
            data = damaged(data, rng)[:60_000]
        packed.append(perf_records.encode(kind(0, data), parts.endian))
    if rng.random() < 0.05:
        packed[:0] = [perf_records.encode(kind(0, piece), parts.endian) for piece in bomb(rng.choice(_BOMBS))]
    parts.records[keep:] = packed or [bytes(8)]


#: nothing at all, and records that there may be: FINISHED_ROUND
_BOMBS = (bytes(8), struct.pack("<IHH", 68, 0, 8))


@functools.cache
def bomb(record: bytes) -> list[bytes]:
    """A gigabyte of one record in a few kilobytes, in pieces that records can hold."""
    zstd = zstd_library().ZstdCompressor(level=1)
    piece = record * (1 << 20)
    packed = b"".join(zstd.compress(piece) for _ in range(128)) + zstd.flush()
    return [packed[at : at + _COMPRESSED_AT_ONCE] for at in range(0, len(packed), _COMPRESSED_AT_ONCE)]


_DAMAGES: tuple[Callable[[Parts, random.Random], None], ...] = (
    _number_of_record, _number_of_record, _number_of_record, _number_of_record, _head_of_record, _shape_of_record, _name_of_record,
    _order_of_records, _order_of_records, _front, _front, _feature, _feature, _feature, _kill,
)  # fmt: skip
