"""Programs damaged in what unwinding and source lines are read from: their call frame information, DWARF, tables of Arm.

Input: the bytes of a whole one. Output: other bytes: a section replaced by one that is built to be endless, or numbers
of it changed. Replaced sections are put behind the file's end, so that nothing else moves.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from tests.builders import hostile_cfi, hostile_dwarf
from tests.builders.hostile_cfi import HUGE, Place
from tests.fuzz.binaries import damaged_elf
from tests.fuzz.mutation import with_fields

if TYPE_CHECKING:
    import random

_OF_STACKS = (".eh_frame", ".eh_frame_hdr", ".debug_frame", ".ARM.exidx")
_OF_LINES = (
    ".debug_info", ".debug_abbrev", ".debug_line", ".debug_line_str", ".debug_str", ".debug_rnglists", ".debug_ranges", ".debug_aranges",
    ".debug_types", ".debug_addr", ".debug_str_offsets",
)  # fmt: skip

_LOAD, _MOVE, _LINES, _CLOSE, _UNWINDING = range(5)


class _Section(NamedTuple):
    """A section. header: where its header is; address, offset, size: as that says."""

    header: int
    address: int
    offset: int
    size: int


class _Program:
    """The sections of an ELF file."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.wide, self.endian = data[4] == 2, "<>"[data[5] - 1]
        # of a section header: address, offset, size, and the bytes in front of them
        self._words, self._before = (self.endian + "QQQ", 16) if self.wide else (self.endian + "III", 12)
        table = struct.unpack_from(self.endian + ("Q" if self.wide else "I"), data, 40 if self.wide else 32)[0]
        size, count, names = struct.unpack_from(self.endian + "HHH", data, 58 if self.wide else 46)
        headers = [table + size * number for number in range(count)]
        strings = self._section(headers[names]).offset
        self.sections = {self._name(strings, header): self._section(header) for header in headers}

    def _name(self, strings: int, header: int) -> str:
        start = strings + int(struct.unpack_from(self.endian + "I", self.data, header)[0])
        return bytes(self.data[start : self.data.index(0, start)]).decode()

    def _section(self, header: int) -> _Section:
        return _Section(
            header, *struct.unpack_from(self.endian + ("QQQ" if self.wide else "III"), self.data, header + (16 if self.wide else 12))
        )

    def replace(self, name: str, content: bytes) -> None:
        """Give a section other bytes; nothing where there is no such section."""
        result = self.sections.get(name)
        if result is not None:
            self.data += bytes(-len(self.data) % 16)
            values = (result.address, len(self.data), len(content))
            struct.pack_into(self._words, self.data, result.header + self._before, *values)
            self.data += content

    def place(self, name: str, room: int) -> Place:
        """What the builders need to know of a section."""
        text, own = self.sections[".text"], self.sections.get(name)
        return Place(own.address if own else 0, text.address, text.size, self.endian, 8 if self.wide else 4, room)


def damaged_program(data: bytes, rng: random.Random) -> bytes:
    """One or two of a program's sections replaced or changed."""
    if data[:4] != b"\x7fELF" or rng.random() < 0.08:
        return damaged_elf(data, rng)
    program = _Program(data)
    for _ in range(rng.choice((1, 1, 2))):
        _damage(program, rng)
    return bytes(program.data)


def _damage(program: _Program, rng: random.Random) -> None:
    room = rng.choice((200, 4000, 60_000, 400_000))
    of_lines = [name for name in _OF_LINES if name in program.sections]
    of_stacks = [name for name in _OF_STACKS if name in program.sections]
    name = rng.choice(of_lines if of_lines and rng.random() < 0.55 else of_stacks)
    if rng.random() < 0.35:
        _change(program, name, rng)
    elif name in of_stacks:
        _replace_frames(program, name, room, rng)
    elif name == ".debug_line" or rng.random() < 0.3:
        program.replace(".debug_line", hostile_dwarf.line_program(rng, program.place(".debug_line", room)))
    else:
        for other, content in hostile_dwarf.information(rng, program.place(name, room)).items():
            program.replace(other, content)


def _replace_frames(program: _Program, name: str, room: int, rng: random.Random) -> None:
    place = program.place(name, room)
    if name == ".eh_frame_hdr":
        program.replace(name, hostile_cfi.header(rng, place))
    elif name == ".ARM.exidx":
        program.replace(name, hostile_cfi.arm_tables(rng, place))
    else:
        program.replace(name, hostile_cfi.frames(rng, place, is_eh=name == ".eh_frame"))
        if rng.random() < 0.7:  # the linker's table knows the old entries
            program.replace(".eh_frame_hdr", b"")


def _change(program: _Program, name: str, rng: random.Random) -> None:
    """Numbers of a section, or a few of its bytes; or a number without an end."""
    section = program.sections[name]
    content = bytes(program.data[section.offset : section.offset + section.size])
    for _ in range(rng.choice((1, 1, 3, 12))):
        chance = rng.random()
        if not content:
            return
        if chance < 0.5:
            width = rng.choice((1, 1, 1, 2, 4))
            fields = [(place, width) for place in range(len(content) - width + 1)]
            content = with_fields(content, [rng.choice(fields)], program.endian, rng) if fields else content
        elif chance < 0.8:
            place = rng.randrange(len(content))
            content = content[:place] + rng.choice(HUGE) + content[place + 1 :]
        else:
            start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
            content = content[:start] + content[start:end] * rng.choice((0, 2, 30)) + content[end:]
    program.replace(name, content[:500_000])


def hostile_jitdump(rng: random.Random) -> bytes:
    """A dump whose records claim more than there is: lines, unwinding, code, records of no size, moves in circles."""
    endian = rng.choice("<<<>")
    header = struct.pack(endian + "IIIIIIQQ", 0x4A695444, 1, rng.choice((40, 40, 40, 0, 1 << 31)), 62, 0, 7, 5, 0)
    for number in range(rng.choice((2, 5, 40, 3000))):
        header += _jit_record(rng, endian, number)
    return header


def _jit_record(rng: random.Random, endian: str, number: int) -> bytes:
    kind = rng.choice((_LOAD, _LOAD, _MOVE, _LINES, _UNWINDING, _CLOSE, 77))
    address = rng.choice((0x1000, 0x1000 + 32 * number, (1 << 64) - 16))
    huge = rng.choice((32, 32, 32, 0, 1 << 20, 1 << 40, (1 << 64) - 1))
    if kind == _LOAD:
        name = rng.choice((b"f%d" % number, b"", b"../x", b"n" * 5000))
        body = struct.pack(endian + "IIQQQQ", 7, 7, address, address, huge, number) + name + rng.choice((b"\0", b"\0", b"")) + bytes(32)
    elif kind == _MOVE:
        body = struct.pack(endian + "IIQQQQQ", 7, 7, 0, address, rng.choice((address, 0x1000, 0x1200)), huge, rng.randrange(number + 1))
    elif kind == _LINES:
        lines = b"".join(
            struct.pack(endian + "QII", address, 1 << 31, 0) + rng.choice((b"a.js\0", b"\xff\0", b"x" * 900)) for _ in range(number % 9)
        )
        body = struct.pack(endian + "QQ", address, rng.choice((number % 9, huge))) + lines
    elif kind == _UNWINDING:
        place = Place(0x2000, 0x1000, 32, endian, room=rng.choice((200, 20_000)))
        frames, table = hostile_cfi.frames(rng, place, is_eh=True), hostile_cfi.header(rng, place)
        sizes = rng.choice(((len(table) + len(frames), len(table), 0), (huge, huge, huge)))
        body = struct.pack(endian + "QQQ", *sizes) + frames + table
    else:
        body = rng.randbytes(rng.choice((0, 3, 40)))
    size = rng.choice((16 + len(body),) * 8 + (0, 15, 1 << 31, 20 + len(body)))
    return struct.pack(endian + "IIQ", kind, size & 0xFFFFFFFF, rng.choice((205, number, 0, (1 << 64) - 1))) + body
