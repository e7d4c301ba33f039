"""Decode the entries of procedure linkage tables: where each entry begins, and the slot with the address that it jumps to.

Compilers and linkers lay these tables out in many ways: with or without a header, landing pads (IBT, BTI), pointer authentication or
retpolines, for immediate binding or not. All of them load the target from a slot. Code in another form is left out.
Forms of the code: the output of GNU ld 2.40, gold, lld 19 and mold 1.10; encodings: the architectures' manuals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfpy.symbols.files import elf

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

EM_PPC64: Final = 21
_EM_S390: Final = 22
_EM_LOONGARCH: Final = 258
_CODE_MOST: Final = 1 << 21  # bytes of one table; the largest programs have some ten thousand entries
_TEXT_MOST: Final = 1 << 28  # bytes of code searched for stubs between functions


class PltEntries(NamedTuple):
    """The entries of a table, sorted by start.

    Attributes:
        start: int64, offset in the section.
        end: int64, offset in the section, exclusive.
        slot: int64, the address of the slot.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    slot: NDArray[np.int64]


def can_decode(machine: int) -> bool:
    """Whether the entries of a machine's tables can be decoded."""
    return machine in _DECODERS


def decode(machine: int, bits: int, code: bytes | memoryview, address: int, got: int) -> PltEntries:
    """Return the entries of a table at an address. got: the address of the global offset table, for code relative to it."""
    decoder = _DECODERS.get(machine)
    code = code[:_CODE_MOST]
    parts = decoder(code, got if machine == elf.EM_386 else address) if decoder else []
    if not parts:
        nothing = np.zeros(0, np.int64)
        return PltEntries(nothing, nothing, nothing)
    start, size, slot = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    start, size, slot = start[order], size[order], slot[order]
    end = np.minimum(start + size, np.append(start[1:], len(code)))
    return PltEntries(start, end, slot & (0xFFFFFFFF if bits == 32 else -1))


# Each decoder returns parts: columns of starts, sizes and slots.
_Part: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]"


def _part(start: NDArray[np.int64], size: int | NDArray[np.int64], slot: NDArray[np.int64]) -> _Part:
    return start, np.broadcast_to(np.asarray(size, np.int64), start.shape), slot


def _words(code: bytes | memoryview, kind: str, following: int) -> list[NDArray[np.int64]]:
    """Return the words of code, and those that follow each word: all as long as the code, zero at its end."""
    words = np.frombuffer(code, kind, len(code) // np.dtype(kind).itemsize).astype(np.int64)
    padded = np.concatenate([words, np.zeros(following, np.int64)])
    return [padded[distance : distance + len(words)] for distance in range(following + 1)]


def _signed(value: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Sign-extend the low bits."""
    sign = 1 << (bits - 1)
    extended: NDArray[np.int64] = ((value & ((1 << bits) - 1)) ^ sign) - sign
    return extended


# -- x86

_X86_STEP: Final = 8  # entries begin at multiples
_X86_LONGEST: Final = 24
# Opcodes in front of the displacement, .. for any byte; and the size of an entry unless the next one begins before.
_X86_64_FORMS: Final = (
    ("ff 25", 16),  # jmp *slot(%rip)
    ("f2 ff 25", 16),  # bnd jmp
    ("f3 0f 1e fa ff 25", 16),  # endbr64
    ("f3 0f 1e fa f2 ff 25", 16),
    ("41 bb .. .. .. .. ff 25", 16),  # mov $index,%r11d (mold)
    ("f3 0f 1e fa 41 bb .. .. .. .. ff 25", 16),
    ("4c 8b 1d", 32),  # mov slot(%rip),%r11 (lld)
)
_I386_FORMS: Final = (
    ("ff", "25", "a3", 16),  # jmp *slot; jmp *slot(%ebx)
    ("f3 0f 1e fb ff", "25", "a3", 16),  # endbr32
    ("b9 .. .. .. .. ff", "25", "a3", 16),  # mov $index,%ecx (mold)
    ("f3 0f 1e fb b9 .. .. .. .. ff", "25", "a3", 16),
    ("50", "a1", "8b 83", 32),  # push %eax; mov slot,%eax; mov slot(%ebx),%eax (lld)
)
# endbr64 or endbr32; push $index
_LAZY_64: Final = ("f3 0f 1e fa 68",)
_LAZY_32: Final = ("f3 0f 1e fb 68",)
_REL_SIZE: Final = 8  # i386 pushes the distance of the relocation in its table
LAZY_SIZE: Final = 16


def _x86_matches(code: bytes | memoryview, form: str) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the offsets where a form matches, the numbers after its opcodes, and the size of both."""
    opcodes = form.split()
    padded = np.frombuffer(bytes(code) + bytes(_X86_LONGEST), np.uint8)
    is_match = np.ones(-(-len(code) // _X86_STEP), np.bool_)
    for distance, opcode in enumerate(opcodes):
        if opcode != "..":
            is_match &= padded[distance : distance + len(code) : _X86_STEP] == int(opcode, 16)
    size = len(opcodes) + 4
    start = np.flatnonzero(is_match) * _X86_STEP
    start = start[start + size <= len(code)]
    number = np.ascontiguousarray(padded[start[:, None] + np.arange(len(opcodes), size)]).view("<i4")[:, 0].astype(np.int64)
    return start, number, size


def _x86_sizes(code: bytes | memoryview, following: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the sizes of entries by the code at the offsets after the displacement."""
    padded = np.frombuffer(bytes(code) + bytes(2), np.uint8)
    next_two = padded[following].astype(np.int64) << 8 | padded[following + 1]
    if size == 16:  # of 8 bytes, an entry of .plt.got has two that do nothing
        return np.where(next_two == 0x6690, 8, 16)
    return np.where(next_two >> 8 == 0xE9, 16, size)  # bound at the start, a retpoline ends with a jump


def _x86_64(code: bytes | memoryview, address: int) -> list[_Part]:
    parts = []
    for form, entry_size in _X86_64_FORMS:
        start, displacement, size = _x86_matches(code, form)
        parts.append(_part(start, _x86_sizes(code, start + size, entry_size), address + start + size + displacement))
    return parts


def _i386(code: bytes | memoryview, got: int) -> list[_Part]:
    parts = []
    for opcodes, absolute, relative, entry_size in _I386_FORMS:
        for end, base in ((absolute, 0), (relative, got)):
            start, number, size = _x86_matches(code, f"{opcodes} {end}")
            parts.append(_part(start, _x86_sizes(code, start + size, entry_size), base + number))
    return parts


def decode_lazy(machine: int, code: bytes | memoryview) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts of entries that push the index of a relocation without a jump through its slot, and the indexes."""
    code = code[:_CODE_MOST]
    forms, unit = ((_LAZY_64, 1), (_LAZY_32, _REL_SIZE))[machine == elf.EM_386] if machine in (elf.EM_386, elf.EM_X86_64) else ((), 1)
    parts = [_x86_matches(code, form)[:2] for form in forms]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, number = (np.concatenate(column) for column in zip(*parts, strict=True))
    return start, (number & 0xFFFFFFFF) // unit


# -- machines with words of 32 bits


def _aarch64(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third, fourth, fifth = _words(code, "<u4", 4)
    loads = (second & 0xBFC003FF) == 0xB9400211  # ldr x17,[x16,#low] (w17: ILP32)
    branches, ends = (word == 0xD61F0220 for word in (third, fourth)), fifth == 0xD61F0220  # br x17
    after_two, after_three = branches
    row = np.flatnonzero(((first & 0x9F00001F) == 0x90000010) & loads & (after_two | after_three | ends))  # adrp x16,page
    pages = _signed((first[row] >> 5 & 0x7FFFF) << 2 | first[row] >> 29 & 3, 21) << 12
    low = (second[row] >> 10 & 0xFFF) << (2 + (second[row] >> 30 & 1))
    start = row * 4
    slot = (address + start & ~0xFFF) + pages + low
    has_pad = (row > 0) & (first[row - 1] == 0xD503245F)  # bti c
    is_short = (after_two[row] | after_three[row]) & ~has_pad
    return [_part(start - 4 * has_pad, np.where(is_short, 16, 24), slot)]


_ARM_FILL: Final = 0xD4D4D4D4  # after the code of lld's entries


def _arm_constant(word: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the constant of a data-processing instruction: 8 bits, rotated."""
    value, rotation = word & 0xFF, (word >> 8 & 0xF) * 2
    constant: NDArray[np.int64] = (value >> rotation | value << (32 - rotation)) & 0xFFFFFFFF
    return constant


def _arm(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third, fourth = _words(code, "<u4", 3)
    parts = []
    adds_pc = (first & 0xFFFFF000) == 0xE28FC000  # add ip,pc,#high
    for middle, last in (((second,), third), ((second, third), fourth)):
        is_match = adds_pc & ((last & 0xFFFFF000) == 0xE5BCF000)  # ldr pc,[ip,#low]!
        for word in middle:
            is_match = is_match & ((word & 0xFFFFF000) == 0xE28CC000)  # add ip,ip,#middle
        row = np.flatnonzero(is_match)
        slot = address + row * 4 + 8 + _arm_constant(first[row]) + sum(_arm_constant(word[row]) for word in middle) + (last[row] & 0xFFF)
        size = np.where((len(middle) == 2) | (fourth[row] == _ARM_FILL), 16, 12)
        parts.append((row, size, slot))
    # ldr ip,[pc,#4]; add ip,ip,pc or add ip,pc,ip; ldr pc,[ip]; distance
    row = np.flatnonzero((first == 0xE59FC004) & ((second == 0xE08CC00F) | (second == 0xE08FC00C)) & (third == 0xE59CF000))
    parts.append((row, np.full(len(row), 16), address + row * 4 + 12 + fourth[row]))
    result = []
    for row, size, slot in parts:
        has_switch = (row > 0) & ((first[row - 1] == 0x46C04778) | (first[row - 1] == 0xE7FD4778))  # Thumb: bx pc; nop or b .
        result.append(_part(row * 4 - 4 * has_switch, size + 4 * has_switch, slot))
    return result


def _riscv(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third = _words(code, "<u4", 2)
    # auipc t3,high; ld t3,low(t3) (lw: RV32); jalr t1,t3
    loads = ((second & 0xFFFFF) == 0xE3E03) | ((second & 0xFFFFF) == 0xE2E03)
    row = np.flatnonzero(((first & 0xFFF) == 0xE17) & loads & (third == 0xE0367))
    slot = address + row * 4 + _signed(first[row] & 0xFFFFF000, 32) + _signed(second[row] >> 20, 12)
    return [_part(row * 4, 16, slot)]


def _loongarch(code: bytes | memoryview, address: int) -> list[_Part]:
    first, second, third = _words(code, "<u4", 2)
    # pcaddu12i $t3,high; ld.d $t3,$t3,low (ld.w: 32 bits); jirl $t1,$t3,0
    loads = ((second & 0xFFC003FF) == 0x28C001EF) | ((second & 0xFFC003FF) == 0x288001EF)
    row = np.flatnonzero(((first & 0xFE00001F) == 0x1C00000F) & loads & (third == 0x4C0001ED))
    slot = address + row * 4 + (_signed(first[row] >> 5, 20) << 12) + _signed(second[row] >> 10, 12)
    return [_part(row * 4, 16, slot)]


def _s390(code: bytes | memoryview, address: int) -> list[_Part]:
    words = _words(code, ">u2", 9)
    # larl %r1,slot; lg %r1,0(%r1); br %r1, which follows lgfi %r0,index in mold's tables
    jumps = (words[6] == 0x07F1) | ((words[6] == 0xC001) & (words[9] == 0x07F1))
    row = np.flatnonzero((words[0] == 0xC010) & (words[3] == 0xE310) & (words[4] == 0x1000) & (words[5] == 0x0004) & jumps)
    distance = _signed(words[1][row] << 16 | words[2][row], 32) * 2
    return [_part(row * 2, 32, address + row * 2 + distance)]


_DECODERS: Final[dict[int, Callable[[bytes | memoryview, int], list[_Part]]]] = {
    elf.EM_X86_64: _x86_64,
    elf.EM_386: _i386,
    elf.EM_AARCH64: _aarch64,
    elf.EM_ARM: _arm,
    elf.EM_RISCV: _riscv,
    _EM_LOONGARCH: _loongarch,
    _EM_S390: _s390,
}

# -- 64-bit PowerPC: the linker puts stubs between functions


def decode_call_stubs(code: bytes | memoryview, address: int, toc: int) -> PltEntries:
    """Return the stubs in code for little-endian 64-bit PowerPC. toc: the address that r2 has in the program."""
    words: NDArray[Any] = np.frombuffer(code, "<u4", min(len(code), _TEXT_MOST) // 4)
    last = np.flatnonzero(words == 0x4E800420)  # bctr
    last = last[last >= 2]
    last = last[words[last - 1] == 0x7D8903A6]  # mtctr r12
    load, before, early = (words[np.maximum(last - distance, 0)].astype(np.int64) for distance in (2, 3, 4))
    reads_r2 = (load & 0xFFFF0003) == 0xE9820000  # ld r12,low(r2)
    # addis r12,r2,high; ld r12,low(r12)
    reads_r12 = ((load & 0xFFFF0003) == 0xE98C0000) & ((before & 0xFFFF0000) == 0x3D820000) & (last >= 3)
    # pld r12,distance
    is_prefixed = ((load & 0xFFFF0000) == 0xE5800000) & ((before & 0xFFFC0000) == 0x04100000) & (last >= 3)
    start = np.where(reads_r2, last - 2, last - 3)
    low = _signed(load & 0xFFFC, 16)
    slot = toc + low + np.where(reads_r12, _signed(before, 16) << 16, 0)
    slot = np.where(is_prefixed, address + 4 * start + _signed((before & 0x3FFFF) << 16 | load & 0xFFFF, 34), slot)
    saves_toc = (np.where(reads_r2, before, early) == 0xF8410018) & (start > 0)  # std r2,24(r1)
    picked = reads_r2 | reads_r12 | is_prefixed
    return PltEntries(((start - saves_toc) * 4)[picked], ((last + 1) * 4)[picked], slot[picked])


def count_branches(code: bytes | memoryview) -> int:
    """Return the number of branches at the beginning of code for little-endian 64-bit PowerPC: the entries for lazy binding."""
    words = np.frombuffer(code, "<u4", min(len(code), _CODE_MOST) // 4)
    others = np.flatnonzero((words & 0xFC000003) != 0x48000000)
    return int(others[0]) if len(others) else len(words)
