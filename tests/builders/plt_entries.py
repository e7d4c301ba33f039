"""Entries of procedure linkage tables, encoded as linkers write them.

`FORMS` has one function a layout: it gets the entry's address, the slot it jumps through, and the address of the global offset table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.builders import elf as b

if TYPE_CHECKING:
    from collections.abc import Callable

LOONGARCH = 258


@dataclass(frozen=True)
class Form:
    """One layout. encode: (address, slot, got) -> the bytes of an entry. irelative: the type of relocations for IFUNCs."""

    machine: int
    encode: Callable[[int, int, int], bytes]
    irelative: int
    header: bytes = b"\xcc" * 16
    bits: int = 64
    endian: str = "<"
    table: str = ".plt"

    def entries(self, address: int, slots: list[int], got: int) -> bytes:
        """The entries for slots, one behind the other, without the header."""
        code = b""
        for slot in slots:
            code += self.encode(address + len(code), slot, got)
        return code


def _words(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *(word & 0xFFFFFFFF for word in words))


def _x86(before: str, after: str, *, got: bool = False, absolute: bool = False) -> Callable[[int, int, int], bytes]:
    """Opcodes, a displacement from the end of it (from the table, or none), more code."""

    def encode(address: int, slot: int, table: int) -> bytes:
        opcodes = bytes.fromhex(before)
        base = table if got else 0 if absolute else address + len(opcodes) + 4
        return opcodes + struct.pack("<I", (slot - base) & 0xFFFFFFFF) + bytes.fromhex(after)

    return encode


def _aarch64(before: tuple[int, ...], after: tuple[int, ...], *, add: bool = True) -> Callable[[int, int, int], bytes]:
    def encode(address: int, slot: int, table: int) -> bytes:
        pages = (slot >> 12) - ((address + 4 * len(before)) >> 12)
        low = slot & 0xFFF
        load = (0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5, 0xF9400211 | low >> 3 << 10)
        return _words(*before, *load, *((0x91000210 | low << 10,) if add else ()), *after)

    return encode


_BR, _NOP, _BTI, _AUTIA = 0xD61F0220, 0xD503201F, 0xD503245F, 0xD503219F


def _arm(address: int, slot: int, table: int) -> bytes:
    distance = slot - address - 8
    high, middle, low = distance >> 20 & 0xFF, distance >> 12 & 0xFF, distance & 0xFFF
    return _words(0xE28FC600 | high, 0xE28CCA00 | middle, 0xE5BCF000 | low)


def _arm_long(address: int, slot: int, table: int) -> bytes:
    distance = slot - address - 8
    top, high, middle, low = distance >> 28, distance >> 20 & 0xFF, distance >> 12 & 0xFF, distance & 0xFFF
    return _words(0xE28FC200 | top, 0xE28CC600 | high, 0xE28CCA00 | middle, 0xE5BCF000 | low)


def _arm_from_thumb(address: int, slot: int, table: int) -> bytes:
    return _words(0x46C04778) + _arm(address + 4, slot, table)


def _arm_literal(address: int, slot: int, table: int) -> bytes:
    return _words(0xE59FC004, 0xE08CC00F, 0xE59CF000, slot - address - 12)


def _riscv(load: int) -> Callable[[int, int, int], bytes]:
    def encode(address: int, slot: int, table: int) -> bytes:
        distance = slot - address
        high = (distance + 0x800) >> 12
        return _words(0xE17 | high << 12, load | (distance - (high << 12) & 0xFFF) << 20, 0xE0367, 0x13)

    return encode


def _loongarch(address: int, slot: int, table: int) -> bytes:
    distance = slot - address
    high = (distance + 0x800) >> 12
    return _words(0x1C00000F | (high & 0xFFFFF) << 5, 0x28C001EF | (distance - (high << 12) & 0xFFF) << 10, 0x4C0001ED, 0x03400000)


def _s390(after: str) -> Callable[[int, int, int], bytes]:
    def encode(address: int, slot: int, table: int) -> bytes:
        return bytes.fromhex("c010") + struct.pack(">i", (slot - address) // 2) + bytes.fromhex("e31010000004" + after)

    return encode


_AFTER_S390 = "07f1 0d10 e310100c0014 c0f400000000 00000000"
_AFTER_S390_MOLD = "c00100000018 07f1" + "0700" * 6
ENDBR64, ENDBR32 = "f30f1efa", "f30f1efb"

FORMS: dict[str, Form] = {
    "x86-64 lazy": Form(b.X86_64, _x86("ff25", "6800000000 e900000000"), 37),
    "x86-64 x32": Form(b.X86_64, _x86("ff25", "6800000000 e900000000"), 37, bits=32),
    "x86-64 ibt": Form(b.X86_64, _x86(ENDBR64 + "ff25", "660f1f440000"), 37, b"", table=".plt.sec"),
    "x86-64 bnd": Form(b.X86_64, _x86("f2ff25", "0f1f440000 90 90 90 90"), 37, b"", table=".plt.bnd"),
    "x86-64 ibt bnd": Form(b.X86_64, _x86(ENDBR64 + "f2ff25", "0f1f440000"), 37, b"", table=".plt.sec"),
    "x86-64 got": Form(b.X86_64, _x86("ff25", "6690"), 37, b"", table=".plt.got"),
    "x86-64 retpoline": Form(b.X86_64, _x86("4c8b1d", "e800000000 e900000000 6800000000 e900000000 cccccccccc"), 37, b"\xcc" * 48),
    "x86-64 retpoline now": Form(b.X86_64, _x86("4c8b1d", "e900000000 cccccccc"), 37, b"\xcc" * 32),
    "x86-64 mold": Form(b.X86_64, _x86(ENDBR64 + "41bb01000000 ff25", ""), 37, b"\xcc" * 32),
    "x86-64 old mold": Form(b.X86_64, _x86("41bb01000000 ff25", "cccccccc"), 37, b"\xcc" * 32),
    "i386 absolute": Form(b.I386, _x86("ff25", "6800000000 e900000000", absolute=True), 42, bits=32),
    "i386 ebx": Form(b.I386, _x86("ffa3", "6800000000 e900000000", got=True), 42, bits=32),
    "i386 ibt": Form(b.I386, _x86(ENDBR32 + "ffa3", "660f1f440000", got=True), 42, b"", bits=32, table=".plt.sec"),
    "i386 got": Form(b.I386, _x86("ffa3", "6690", got=True), 42, b"", bits=32, table=".plt.got"),
    "i386 mold": Form(b.I386, _x86(ENDBR32 + "b908000000 ffa3", "cc", got=True), 42, bits=32),
    "i386 retpoline": Form(
        b.I386, _x86("508b83", "e800000000 e900000000 6800000000 e900000000 cccccccccc", got=True), 42, b"\xcc" * 48, bits=32
    ),
    "i386 retpoline absolute": Form(
        b.I386, _x86("50a1", "e800000000 e900000000 6800000000 e900000000" + "cc" * 6, absolute=True), 42, b"\xcc" * 48, bits=32
    ),
    "i386 retpoline now": Form(b.I386, _x86("508b83", "e900000000 cccccccc", got=True), 42, b"\xcc" * 48, bits=32),
    "arm64": Form(b.AARCH64, _aarch64((), (_BR,)), 1032, _words(0xA9BF7BF0, *[_NOP] * 7)),
    "arm64 bti": Form(b.AARCH64, _aarch64((_BTI,), (_BR, _NOP)), 1032, _words(_BTI, *[_NOP] * 7)),
    "arm64 pac": Form(b.AARCH64, _aarch64((), (_AUTIA, _BR, _NOP)), 1032, _words(0xA9BF7BF0, *[_NOP] * 7)),
    "arm64 bti pac": Form(b.AARCH64, _aarch64((_BTI,), (_AUTIA, _BR)), 1032, _words(_BTI, *[_NOP] * 7)),
    "arm64 mold": Form(b.AARCH64, _aarch64((), (_BR, _NOP), add=False), 1032, b"", table=".plt.got"),
    "arm": Form(b.ARM, _arm, 160, _words(*[0xE1A00000] * 5), bits=32),
    "arm long": Form(b.ARM, _arm_long, 160, _words(*[0xE1A00000] * 5), bits=32),
    "arm from thumb": Form(b.ARM, _arm_from_thumb, 160, _words(*[0xE1A00000] * 5), bits=32),
    "arm literal": Form(b.ARM, _arm_literal, 160, _words(*[0xE1A00000] * 8), bits=32),
    "riscv64": Form(b.RISCV, _riscv(0xE3E03), 58, _words(*[0x13] * 8)),
    "riscv32": Form(b.RISCV, _riscv(0xE2E03), 58, _words(*[0x13] * 8), bits=32),
    "loongarch": Form(LOONGARCH, _loongarch, 12, _words(*[0x03400000] * 8)),
    "s390x": Form(b.S390X, _s390(_AFTER_S390), 61, b"\x07\x00" * 16, endian=">"),
    "s390x mold": Form(b.S390X, _s390(_AFTER_S390_MOLD), 61, b"\x07\x00" * 16, endian=">"),
}

_SAVE_TOC, _MTCTR, _BCTR = 0xF8410018, 0x7D8903A6, 0x4E800420


def ppc64_stub(slot: int, toc: int) -> bytes:
    """A stub for calls from code with a table of contents at toc, far from the slot."""
    distance = slot - toc
    high = (distance + 0x8000) >> 16
    return _words(_SAVE_TOC, 0x3D820000 | high & 0xFFFF, 0xE98C0000 | distance & 0xFFFC, _MTCTR, _BCTR)


def ppc64_near_stub(slot: int, toc: int) -> bytes:
    """The same for a near slot."""
    return _words(_SAVE_TOC, 0xE9820000 | (slot - toc) & 0xFFFC, _MTCTR, _BCTR)


def ppc64_relative_stub(address: int, slot: int) -> bytes:
    """A stub of POWER10, without a table of contents."""
    distance = slot - address
    return _words(0x04100000 | distance >> 16 & 0x3FFFF, 0xE5800000 | distance & 0xFFFF, _MTCTR, _BCTR)
