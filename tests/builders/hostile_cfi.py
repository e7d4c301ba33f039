"""Call frame information, and tables of 32-bit Arm, that want to be obeyed for ever: loops, huge counts, nests.

Input: a generator of random numbers, the addresses of the section and of the code, and how large the section may become.
Output: bytes of .eh_frame, .eh_frame_hdr, .debug_frame or .ARM.exidx. Layouts: DWARF 5, 6.4; Linux Standard Base.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


@dataclass(frozen=True)
class Place:
    """Where a section is, what code it is about, how files write numbers, and how many bytes it may have."""

    address: int
    code: int
    code_size: int
    endian: str = "<"
    word: int = 8
    room: int = 200_000


def uleb(value: int) -> bytes:
    """An unsigned LEB128 number."""
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))


HUGE = (b"\xff" * 9 + b"\x01", b"\xff" * 4 + b"\x0f", uleb(1 << 63), uleb(1 << 31), b"\x80" * 200 + b"\x01", b"\xff" * 12)


def expression(rng: random.Random, room: int) -> bytes:
    """A DWARF expression that does not end, or takes much."""
    signed = struct.Struct("<h")
    kinds = (
        b"\x2f" + signed.pack(-3),  # skip to itself
        b"\x31\x28" + signed.pack(-4),  # lit1, bra back
        b"\x77\x00" + b"\x12" * min(room, 70_000),  # dup, dup ...
        b"\x77\x00" + b"\x06" * 500,  # deref of deref ...
        b"\x77\x00" + b"\x12\x1e" * 3000,  # squared again and again
        b"\x31" + b"\x23" + rng.choice(HUGE),  # plus
        b"\x92" + rng.choice(HUGE) + b"\x00",  # bregx
        b"\x15\xff" * 9,  # pick
        b"\x30\x30\x1b",  # 0 / 0
        b"\x9e" + rng.choice(HUGE),  # a block
        b"\x30" + b"\x2f\x00\x00" * 5000,
        b"\x31\x12\x28\x00\x00\x31\x1c\x12\x28" + signed.pack(-8),  # counts down from 1 to 1 ...
        rng.randbytes(rng.choice((0, 1, 7, 40))),
        b"\x98\x00\x00",  # call2
        b"\xf3" + rng.choice(HUGE),
    )
    return rng.choice(kinds)


def program(rng: random.Random, room: int) -> bytes:
    """Instructions of call frame information."""
    body = expression(rng, room)
    counted = uleb(len(body)) + body
    many = max(1, min(room, 100_000))
    kinds = (
        b"\x0f" + counted,  # the CFA
        b"\x0c\x07\x08\x10\x10" + counted,  # def_cfa sp+8; the return address by an expression
        b"\x0c\x07\x08\x16\x10" + counted,
        b"\x0a" * many,  # remember
        (b"\x0a" + b"\x05" + uleb(1 << 20) + b"\x01") * (many // 6),
        b"\x0b" * 100,  # restore
        b"\x41" * many,  # a row a byte
        b"\x40" * many,
        b"\x04\xff\xff\xff\xff" * (many // 5),
        b"".join(b"\x05" + uleb(number) + b"\x01" for number in range(many // 5)),  # very many registers
        b"\x0c" + rng.choice(HUGE) + rng.choice(HUGE),
        b"\x12" + rng.choice(HUGE) * 2,
        b"\x0c\x07\x00",  # the CFA is the stack pointer: no step
        b"\x12\x07\x7f",  # and goes down
        b"\x0c\x07\x08\x09\x10\x10",  # the return address is in itself
        b"\x01" + bytes(8) * 3,  # set_loc
        b"\x0f" + rng.choice(HUGE),
        b"\x2e" + rng.choice(HUGE),
        b"\x3f",
        rng.randbytes(rng.choice((1, 9, 60))),
    )
    return b"".join(rng.choice(kinds) for _ in range(rng.choice((1, 1, 2, 4))))[: max(room, 1)]


def common(rng: random.Random, room: int) -> bytes:
    """The body of a CIE."""
    augmentation = rng.choice((b"", b"zR", b"zR", b"zR", b"zRS", b"zPLR", b"eh", b"z" * 3000, b"zRRRR", b"armcc+"))
    data = rng.choice((b"\x1b", b"\x1b", b"\x1b", b"\x00", b"\xff", b"\x9b\x01\x00\x00\x00\x1b\x1b", b"\x01", b"\x30", b""))
    aligns = rng.choice((b"\x01\x78", b"\x01\x78", b"\x00\x00", rng.choice(HUGE) + rng.choice(HUGE), b"\x01\x78"))
    column = rng.choice((b"\x10", b"\x10", b"\x1e", b"\x00", b"\xff\xff\x03"))
    head = bytes((rng.choice((1, 1, 1, 3, 4, 0, 255)),)) + augmentation + b"\0" + aligns + column
    size = rng.choice((uleb(len(data)), uleb(len(data)), rng.choice(HUGE))) if augmentation.startswith(b"z") else b""
    return head + size + (data if size else b"") + (program(rng, room) if rng.random() < 0.4 else b"\x0c\x07\x08\x90\x01")


def frames(rng: random.Random, place: Place, *, is_eh: bool) -> bytes:
    """A section of CIEs and FDEs: one or two, or as many as there is room for."""
    data = bytearray()
    cie = 0
    count = rng.choice((1, 1, 2, 5, 60, 4000))
    for number in range(count):
        if len(data) > place.room:
            break
        room = (place.room - len(data)) // min(count - number, 4)
        if number % 20 == 0:
            cie = len(data)
            data += _entry(rng, place, b"\0\0\0\0" if is_eh else b"\xff\xff\xff\xff", common(rng, room))
        start = place.code + rng.choice((0, 0, 0, number, rng.randrange(place.code_size)))
        size = rng.choice((place.code_size, place.code_size, 16, 0, (1 << 31) - 1))
        here = len(data) + 4
        back = rng.choice((here - cie, here - cie, here - cie, 0, 4, 1 << 31)) if is_eh else cie
        pointer = struct.pack(place.endian + "I", back & 0xFFFFFFFF)
        if is_eh:
            where = struct.pack(place.endian + "iI", _signed(start - (place.address + here + 4)), size)
        else:
            where = start.to_bytes(place.word, "little" if place.endian == "<" else "big") + size.to_bytes(place.word, "little")
        data += _entry(rng, place, pointer, where + (b"\0" if is_eh else b"") + program(rng, room))
    return bytes(data + bytes(rng.choice((0, 4))))


def _signed(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _entry(rng: random.Random, place: Place, number: bytes, body: bytes) -> bytes:
    """An entry; now and then of another length than it says."""
    length = len(number) + len(body)
    if rng.random() < 0.04:
        length = rng.choice((0, 1, 3, 0xFFFFFFFE, 0x7FFFFFFF, length + 9, length - 1))
    if rng.random() < 0.03:
        return struct.pack(place.endian + "IQ", 0xFFFFFFFF, rng.choice((length, 1 << 63, (1 << 64) - 9))) + number + body
    return struct.pack(place.endian + "I", length & 0xFFFFFFFF) + number + body


def header(rng: random.Random, place: Place) -> bytes:
    """.eh_frame_hdr: a table that is not sorted, leads astray, or claims to be endless."""
    rows = rng.choice((0, 1, 3, 2000))
    starts = [_signed(place.code - place.address + rng.randrange(-64, place.code_size)) for _ in range(rows)]
    table = b"".join(struct.pack(place.endian + "ii", start, rng.randrange(-4096, 4096)) for start in starts)
    count = rng.choice((rows, rows, 0xFFFFFFFF, rows + 1, 0))
    encodings = rng.choice((b"\x1b\x03\x3b", b"\x1b\x03\x3b", b"\xff\x03\x3b", b"\x1b\x03\x3c", b"\x1b\xff\xff", b"\x1b\x01\x31"))
    return b"\x01" + encodings + struct.pack(place.endian + "iI", 64, count) + table


def arm_tables(rng: random.Random, place: Place) -> bytes:
    """.ARM.exidx: entries of every kind, not sorted, some of which lead to themselves."""
    result = b""
    for number in range(rng.choice((1, 7, 300))):
        here = place.address + 8 * number
        start = (place.code + rng.randrange(place.code_size) - here) & 0x7FFFFFFF
        kinds = (1, 0x80000000 | rng.getrandbits(24), 0x81000000 | rng.getrandbits(24), rng.getrandbits(32), 0, (-4) & 0x7FFFFFFF)
        second = rng.choice(kinds)
        result += struct.pack(place.endian + "II", start, second)
    return result
