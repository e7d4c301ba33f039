"""Debug information that wants to be read for ever: cycles, nests, huge counts, endless lists.

Input: a generator of random numbers, the addresses of the code, how large a section may become. Output: bytes of
.debug_info, .debug_abbrev, .debug_line, .debug_rnglists ... that go together. Layouts: DWARF 4 and 5, section 7.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.builders.hostile_cfi import HUGE, Place, uleb

if TYPE_CHECKING:
    import random

Sections = dict[str, bytes]

_UNIT, _FUNCTION, _INLINED, _BLOCK, _NAMESPACE, _PARTIAL = 0x11, 0x2E, 0x1D, 0x0B, 0x39, 0x3C
_SIBLING, _NAME, _LINES, _LOW, _HIGH, _DIRECTORY, _ABSTRACT = 0x01, 0x03, 0x10, 0x11, 0x12, 0x1B, 0x31
_SPECIFICATION, _RANGES, _CALL_FILE, _CALL_LINE, _ADDR_BASE, _RANGES_BASE, _STR_BASE = 0x47, 0x55, 0x58, 0x59, 0x73, 0x74, 0x72
_ADDR, _DATA4, _STRING, _DATA1, _BLOCK1, _REF4, _SEC_OFFSET, _EXPRLOC, _INDIRECT, _UDATA, _REF_ADDR = (
    0x01, 0x06, 0x08, 0x0B, 0x0A, 0x13, 0x17, 0x18, 0x16, 0x0F, 0x10,
)  # fmt: skip
_STRX, _ADDRX, _RNGLISTX, _IMPLICIT, _BLOCK_ULEB, _REF_UDATA, _ALT = 0x1A, 0x1B, 0x23, 0x21, 0x09, 0x15, 0x1F20


def _abbreviation(code: int, tag: int, children: bool, *attributes: tuple[int, int]) -> bytes:
    pairs = b"".join(uleb(attribute) + uleb(form) for attribute, form in attributes)
    return uleb(code) + uleb(tag) + bytes((children,)) + pairs + b"\0\0"


def _unit(place: Place, version: int, dies: bytes, abbreviations: int = 0, *, kind: int = 1, length: int | None = None) -> bytes:
    if version >= 5:
        body = struct.pack(place.endian + "HBBI", version, kind, place.word, abbreviations) + dies
    else:
        body = struct.pack(place.endian + "HIB", version, abbreviations, place.word) + dies
    return struct.pack(place.endian + "I", (len(body) if length is None else length) & 0xFFFFFFFF) + body


def _head(place: Place, version: int) -> int:
    """Bytes of a unit's header."""
    return 12 if version >= 5 else 11


def _address(place: Place, value: int) -> bytes:
    return (value % (1 << 8 * place.word)).to_bytes(place.word, "little" if place.endian == "<" else "big")


def nested(rng: random.Random, place: Place) -> Sections:
    """Inlined calls within inlined calls, all of the same code: as deep as there is room for."""
    version, tag = rng.choice((4, 5)), rng.choice((_INLINED, _BLOCK, _NAMESPACE, _FUNCTION))
    span = _address(place, place.code) + struct.pack(place.endian + "I", place.code_size)
    die = uleb(2) + span + struct.pack(place.endian + "I", _head(place, version) + len(span) + 5) + b"\x01\x07"
    root = uleb(1) + span + bytes(4)
    depth = rng.choice((10, 1000, place.room // len(die)))
    abbreviations = _abbreviation(1, _UNIT, True, (_LOW, _ADDR), (_HIGH, _DATA4), (_LINES, _SEC_OFFSET)) + _abbreviation(
        2, tag, True, (_LOW, _ADDR), (_HIGH, _DATA4), (_ABSTRACT, _REF4), (_CALL_FILE, _DATA1), (_CALL_LINE, _DATA1)
    )
    closing = bytes(depth + 1) if rng.random() < 0.5 else b""
    return {".debug_info": _unit(place, version, root + die * depth + closing), ".debug_abbrev": abbreviations + b"\0"}


def cyclic(rng: random.Random, place: Place) -> Sections:
    """References to itself, to one another, and siblings that lead back."""
    version = rng.choice((4, 5))
    span = _address(place, place.code) + struct.pack(place.endian + "I", place.code_size)
    root = uleb(1) + span + bytes(4)
    first = _head(place, version) + len(root)
    size = 1 + len(span) + 8
    count = rng.choice((1, 2, 40, 2000))
    dies = b""
    for number in range(count):
        targets = (first + number * size, first + (number + 1) % count * size, first + rng.randrange(count) * size, 0, 1 << 31, first - 3)
        origin, sibling = rng.choice(targets), rng.choice((*targets, first + (number + 1) * size))
        dies += uleb(rng.choice((2, 3))) + span + struct.pack(place.endian + "II", origin, sibling & 0xFFFFFFFF)
    attributes = (_LOW, _ADDR), (_HIGH, _DATA4), (rng.choice((_ABSTRACT, _SPECIFICATION)), _REF4), (_SIBLING, _REF4)
    abbreviations = _abbreviation(1, _UNIT, True, (_LOW, _ADDR), (_HIGH, _DATA4), (_LINES, _SEC_OFFSET))
    abbreviations += _abbreviation(2, _INLINED, rng.random() < 0.5, *attributes) + _abbreviation(
        3, _FUNCTION, rng.random() < 0.5, *attributes
    )
    return {".debug_info": _unit(place, version, root + dies + bytes(3)), ".debug_abbrev": abbreviations + b"\0"}


def odd_forms(rng: random.Random, place: Place) -> Sections:
    """Values of forms that are endless, unknown or out of all bounds."""
    forms = [_STRX, _ADDRX, _RNGLISTX, _BLOCK_ULEB, _REF_UDATA, _ALT, _INDIRECT, _EXPRLOC, _BLOCK1, _UDATA, _REF_ADDR, 0x7F, _STRING]
    attributes = [_NAME, _LOW, _HIGH, _RANGES, _ABSTRACT, _LINES, _DIRECTORY, _ADDR_BASE, _RANGES_BASE, _STR_BASE]
    pairs = [(rng.choice(attributes), rng.choice(forms)) for _ in range(rng.choice((1, 5, 900)))]
    abbreviations = _abbreviation(1, _UNIT, True, *pairs) + _abbreviation(2, rng.choice((_FUNCTION, _INLINED)), False, *pairs)
    values = b"".join(rng.choice((*HUGE, b"\x16" * 300, b"\0", rng.randbytes(9))) for _ in range(40))
    version = rng.choice((2, 3, 4, 5, 6))
    return {".debug_info": _unit(place, version, uleb(1) + values + uleb(2) + values), ".debug_abbrev": abbreviations + b"\0"}


def many_abbreviations(rng: random.Random, place: Place) -> Sections:
    """A table of abbreviations that has no end, or many of them that all units use."""
    wide = [(_NAME, _DATA1)] * rng.choice((1, 500))
    count = place.room // (len(wide) * 2 + 6)
    table = b"".join(_abbreviation(number + 1, _FUNCTION, False, *wide) for number in range(count))
    unit = _unit(place, rng.choice((4, 5)), uleb(1) + bytes(8))
    return {".debug_info": unit * rng.choice((1, 50, place.room // len(unit))), ".debug_abbrev": table + rng.choice((b"", b"\0"))}


def many_units(rng: random.Random, place: Place) -> Sections:
    """Units without number: empty ones, ones that overlap, all of the same code."""
    version = rng.choice((4, 5))
    span = _address(place, place.code) + struct.pack(place.endian + "I", place.code_size)
    die = uleb(1) + span + struct.pack(place.endian + "I", rng.choice((0, 0, 1 << 20))) + b"\0"
    unit = _unit(place, version, die, length=rng.choice((None, None, None, 0, 1, 0xFFFFFFF0, 7)))
    children = rng.random() < 0.5
    table = _abbreviation(1, rng.choice((_UNIT, _PARTIAL)), children, (_LOW, _ADDR), (_HIGH, _DATA4), (_LINES, _SEC_OFFSET)) + b"\0"
    return {".debug_info": unit * min(rng.choice((1, 500, 1 << 20)), place.room // len(unit)), ".debug_abbrev": table}


def endless_ranges(rng: random.Random, place: Place) -> Sections:
    """Lists of ranges without an end, very long ones, and the same one for every function."""
    version = rng.choice((4, 5))
    name = ".debug_ranges" if version == 4 else ".debug_rnglists"
    if version == 4:
        row = _address(place, place.code) + _address(place, place.code + place.code_size)
        base = _address(place, -1) + _address(place, rng.getrandbits(40))
        lists, start = rng.choice((row, base, row + base)), 0
    else:
        spans = (b"\x04\x00" + uleb(place.code_size), b"\x05" + _address(place, place.code), b"\x06" + _address(place, place.code) * 2)
        lists, start = rng.choice((*spans, b"\x01" + rng.choice(HUGE), b"\x03\x00\x00")), 12
    lists = (struct.pack(place.endian + "IHBBI", 1 << 20, 5, place.word, 0, 0) if start else b"") + lists * (
        place.room // max(len(lists), 1)
    )
    functions = (uleb(2) + struct.pack(place.endian + "I", start)) * rng.choice((1, 200, 4000))
    root = uleb(1) + _address(place, place.code) + struct.pack(place.endian + "I", start)
    table = _abbreviation(1, _UNIT, True, (_LOW, _ADDR), (_RANGES, _SEC_OFFSET))
    table += _abbreviation(2, rng.choice((_FUNCTION, _INLINED)), False, (_RANGES, _SEC_OFFSET)) + b"\0"
    return {".debug_info": _unit(place, version, root + functions + b"\0"), ".debug_abbrev": table, name: lists}


def elsewhere(rng: random.Random, place: Place) -> Sections:
    """A unit that is said to be in another file."""
    name = rng.choice(
        (b"/dev/zero", b"../../../../../../etc/passwd", b"/proc/self/mem", b"fifo", b"app.elf", b"", b"a" * 5000, b"/proc/self/fd/0")
    )
    folder = rng.choice((b"/", b"/proc/self/cwd", b"..", b"\xff\xfe"))
    root = uleb(1) + folder + b"\0" + name + b"\0" + bytes(4) + rng.randbytes(8)
    attribute = rng.choice((0x76, 0x2130))
    table = _abbreviation(
        1, rng.choice((0x4A, _UNIT)), False, (_DIRECTORY, _STRING), (attribute, _STRING), (_LINES, _SEC_OFFSET), (0x2131, 0x07)
    )
    return {".debug_info": _unit(place, rng.choice((4, 5)), root, kind=rng.choice((1, 4))), ".debug_abbrev": table + b"\0"}


INFO = (nested, cyclic, odd_forms, many_abbreviations, many_units, endless_ranges, elsewhere)


def information(rng: random.Random, place: Place) -> Sections:
    """Some sections in place of a program's own."""
    return rng.choice(INFO)(rng, place)


def line_program(rng: random.Random, place: Place) -> bytes:
    """.debug_line: one program, or many."""
    version = rng.choice((2, 3, 4, 4, 5, 5, 6))
    count = rng.choice((1, 1, 3, 2000))
    result = b""
    while count and len(result) < place.room:
        result += _line_unit(rng, place, version, (place.room - len(result)) // min(count, 3))
        count -= 1
    return result


def _line_unit(rng: random.Random, place: Place, version: int, room: int) -> bytes:
    base = rng.choice((13, 13, 13, 10, 1, 0, 255))
    settings = bytes((rng.choice((1, 1, 4, 0, 255)),)) + (bytes((rng.choice((1, 1, 0, 255)),)) if version >= 4 else b"")
    settings += bytes((1, rng.choice((0xFB, 0x80)), rng.choice((14, 14, 0, 1, 255)), base))
    lengths = bytes(rng.choice((0, 1, 1, 255)) for _ in range(max(base - 1, 0)))
    body = settings + (lengths if rng.random() < 0.3 else b"\0\1\1\1\1\0\0\0\1\0\0\1"[: max(base - 1, 0)])
    body += _tables(rng) if version >= 5 else rng.choice((b"dir\0\0a.c\0\1\0\0\0", b"\0\0", b"d\0" * min(room, 5000) + b"\0\0"))
    header_length = rng.choice((len(body), len(body), len(body), 0, 0xFFFFFFF0, len(body) + 9))
    instructions = _instructions(rng, place, room)
    head = struct.pack(place.endian + "H", version) + (bytes((place.word, 0)) if version >= 5 else b"")
    whole = head + struct.pack(place.endian + "I", header_length) + body + instructions
    length = rng.choice((len(whole), len(whole), len(whole), len(whole), 0, 0xFFFFFFF0))
    return struct.pack(place.endian + "I", length) + whole


def _tables(rng: random.Random) -> bytes:
    """Folders and files of version 5."""
    one = b"\x01\x01\x08\x01/c\0" + b"\x02\x01\x08\x02\x0b\x01a.c\0\0"
    forms = b"\x01" + uleb(rng.choice((0x08, 0x1F, 0x0F, 0x09, 0x16, 0x7F)))
    return rng.choice(
        (one, one, b"\x01" + forms + rng.choice(HUGE), b"\xff" + forms * 255 + b"\x01", b"\x00" + rng.choice(HUGE) + b"\0\0", b"")
    )


def _instructions(rng: random.Random, place: Place, room: int) -> bytes:
    start = b"\0" + uleb(place.word + 1) + b"\x02" + _address(place, place.code)
    end = b"\0\x01\x01"
    many = max(min(room, 150_000), 1)
    kinds = (
        start + b"\x20" * many + end,  # a row a byte
        (start + b"\x20" + end) * (many // 16),  # a sequence a row
        start + b"\x02" + rng.choice(HUGE) + b"\x01" + end,
        start + (b"\x03" + rng.choice(HUGE) + b"\x01") * 100 + end,
        start + b"\x08" * many + end,
        start + b"\x09\xff\xff" * (many // 3) + end,
        b"\0" + rng.choice(HUGE) + b"\x02",
        b"\0\x00" * (many // 2),
        (b"\0\x06\x03a\0\0\0\0") * (many // 8),  # files
        start + b"\x04" + rng.choice(HUGE) + b"\x20" + end,  # a file that is not there
        start + b"\x01" * many,  # no end
        start + b"\x20\x03\x7f" * (many // 3) + end,
        rng.randbytes(200),
    )
    return rng.choice(kinds)
