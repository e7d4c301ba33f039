"""ELF files and jitdumps damaged in their numbers and names.

Input: the bytes of a whole one. Output: other bytes. Layouts: the
System V ABI, tools/perf/Documentation/jitdump-specification.txt.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.fuzz.mutation import EVIL, damaged, with_fields

if TYPE_CHECKING:
    import random

_SYMBOLS = (2, 11)
_COMPRESSED = 0x800


def damaged_elf(data: bytes, rng: random.Random) -> bytes:
    """One or some of the numbers of its headers, section headers, notes, symbols and relocations changed; or a name; or anything."""
    chance = rng.random()
    if chance < 0.15 or len(data) < 64 or data[:4] != b"\x7fELF":
        return damaged(data, rng)
    endian = "<" if data[5] == 1 else ">"
    groups = _fields(data, data[4] == 2, endian)
    if chance < 0.3:
        return _renamed(data, rng)
    result = data
    for _ in range(rng.choice((1, 1, 2))):
        result = with_fields(result, rng.choice(groups), endian, rng)
    return result


def _fields(data: bytes, wide: bool, endian: str) -> list[list[tuple[int, int]]]:
    """(offset, width) of numbers: of the header, of each section header, and of what small sections hold."""
    header = [(4, 1), (5, 1), (16, 2), (18, 2), *([(at, 8) for at in (24, 32, 40)] if wide else [(at, 4) for at in (24, 28, 32)])]
    header += [(at, 2) for at in range(52 if wide else 40, 64 if wide else 52, 2)]
    groups = [header]
    table, count, size = _section_table(data, wide, endian)
    for start in range(table, min(table + count * size, len(data) - size + 1), size):
        word = 8 if wide else 4
        middle = [(start + 8 + word * number, word) for number in range(4)]
        last = start + 8 + 4 * word
        groups.append([(start, 4), (start + 4, 4), *middle, (last, 4), (last + 4, 4), (last + 8, word), (last + 8 + word, word)])
        groups += _inside(data, start, wide, endian)
    return groups


def _section_table(data: bytes, wide: bool, endian: str) -> tuple[int, int, int]:
    table = struct.unpack_from(endian + ("Q" if wide else "I"), data, 40 if wide else 32)[0]
    size, count = struct.unpack_from(endian + "HH", data, 58 if wide else 46)
    return table, count, max(size, 40)


def _inside(data: bytes, header: int, wide: bool, endian: str) -> list[list[tuple[int, int]]]:
    word = "Q" if wide else "I"
    _, kind, flags, _, offset, size = struct.unpack_from(endian + "II" + word * 4, data, header)
    end = min(offset + min(size, 400), len(data))
    if kind in _SYMBOLS and not flags & _COMPRESSED:
        entry = 24 if wide else 16
        return [[(at, 4), (at + (8 if wide else 4), 8 if wide else 4)] for at in range(offset, end - entry + 1, entry)]
    words = [(at, 4) for at in range(offset, end - 3, 4)]
    return [words] if words and (flags & _COMPRESSED or kind in (4, 7, 9) or size <= 400) else []


def _renamed(data: bytes, rng: random.Random) -> bytes:
    """A string that ends in NUL replaced by one of the same length at most, or by more than has room."""
    strings = [at for at in range(1, len(data) - 2) if data[at - 1] == 0 and 48 <= data[at] < 123 and 48 <= data[at + 1] < 123]
    if not strings:
        return damaged(data, rng)
    at = rng.choice(strings)
    name = (rng.choice(EVIL) + b"\0")[: len(data) - at]
    return data[:at] + name + data[at + len(name) :]


def damaged_jitdump(data: bytes, rng: random.Random) -> bytes:
    """Some of its records' numbers changed, records moved or repeated; or anything."""
    if rng.random() < 0.2 or len(data) < 56:
        return damaged(data, rng)
    endian = "<" if data[:1] == b"D" else ">"
    records = [data[:40]]
    at = 40
    while at + 16 <= len(data):
        size = max(struct.unpack_from(endian + "I", data, at + 4)[0], 16)
        records.append(data[at : at + size])
        at += size
    for _ in range(rng.choice((1, 1, 2, 4))):
        which = rng.randrange(len(records))
        if rng.random() < 0.75:
            width = rng.choice((4, 8))
            places = range(0, len(records[which]) - width + 1, width)
            records[which] = with_fields(records[which], [(place, width) for place in places], endian, rng)
        else:
            records.insert(rng.randrange(1, len(records) + 1), records[which] if rng.random() < 0.5 else damaged(records[which], rng))
    return b"".join(records)
