"""Disassemble with the optional package capstone: code of other machines, or without objdump.

Lines have a heading as objdump's. Mapping symbols of 32-bit Arm code distinguish Arm instructions, Thumb instructions and data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.disassembly.code_lines import NOT_CODE, AsmLine
from perfpy.disassembly.function_code import NoCodeError, code_bytes
from perfpy.symbols.files.elf_symbols import mapping_symbols, symbol_sections
from perfpy.symbols.symbol_table import STT_FUNC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.disassembly.function_code import FunctionCode
    from perfpy.disassembly.objdump import CodeStyle
    from perfpy.symbols.files.elf import ElfFile

ARM: Final = "a"
THUMB: Final = "t"
DATA: Final = "d"


def pieces(file: ElfFile, start: int, end: int) -> list[tuple[int, int, str]]:
    """Return the (first address, end, kind) of each piece of code or data."""
    marks: list[tuple[int, str]] = []
    thumb = False
    for section in symbol_sections(file):
        entries, strings = file.symbols(section), bytes(file.strings(section))
        value = entries["value"].astype(np.uint64)
        thumb |= bool(((entries["info"] & 15 == STT_FUNC) & (value == np.uint64(start | 1))).any())
        rows = np.flatnonzero(mapping_symbols(file, entries["name"], strings) & (value < np.uint64(end)))
        marks += [(int(value[row]), chr(strings[int(entries["name"][row]) + 1])) for row in rows.tolist()]
    marks.sort()
    first = next((kind for address, kind in reversed(marks) if address <= start), THUMB if thumb else ARM)
    bounds = [(start, first), *((address, kind) for address, kind in marks if address > start)]
    ends = [address for address, _ in bounds[1:]] + [end]
    return [(address, stop, kind) for (address, kind), stop in zip(bounds, ends, strict=True) if address < stop]


_HOW: Final = "install objdump (binutils; of another machine binutils-multiarch), or pip install 'perfpy[annotate]'"
_ARM: Final = 40
_WORD: Final = 4
#: size of data -> directive
_DIRECTIVES: Final = {1: ".byte", 2: ".short", 3: ".byte", 4: ".word"}
#: e_machine -> names of capstone's constants: the architecture and its mode flags
_MACHINES: Final = {
    3: ("ARCH_X86", ("MODE_32",)),
    8: ("ARCH_MIPS", ("MODE_64",)),
    20: ("ARCH_PPC", ("MODE_32",)),
    21: ("ARCH_PPC", ("MODE_64",)),
    22: ("ARCH_SYSZ", ()),
    40: ("ARCH_ARM", ("MODE_ARM",)),
    62: ("ARCH_X86", ("MODE_64",)),
    183: ("ARCH_ARM64", ()),
    243: ("ARCH_RISCV", ("MODE_RISCV64", "MODE_RISCVC")),
}


def instructions(code: FunctionCode, style: CodeStyle) -> list[AsmLine]:
    """Return the instructions of a function."""
    data = code_bytes(code)
    if code.file.machine == _ARM:
        lines = list(_of_arm(data, code, style))
    else:
        lines = list(_instructions(_reader(code, style), data, code.start, code, style))
    if not lines:
        raise NoCodeError(code.name, f"capstone finds no instructions in {code.file.path}")
    heading = ("", "", "", "Disassembly of section .text:", "", f"{code.start:016x} <{code.name}>:")
    return [*(AsmLine(NOT_CODE, text) for text in heading), *lines]


def _reader(code: FunctionCode, style: CodeStyle, extra_mode: str = "") -> Any:
    try:
        import capstone
    except ModuleNotFoundError:
        raise NoCodeError(code.name, f"no disassembler for its instructions: {_HOW}") from None
    if code.file.machine not in _MACHINES:
        raise NoCodeError(code.name, f"capstone does not know ELF machine {code.file.machine}")
    architecture, modes = _MACHINES[code.file.machine]
    mode = capstone.CS_MODE_BIG_ENDIAN if code.file.endian == ">" else 0
    for name in (*modes, *([extra_mode] if extra_mode else ())):
        mode |= getattr(capstone, f"CS_{name}")
    reader = capstone.Cs(getattr(capstone, f"CS_{architecture}"), mode)
    reader.skipdata = True
    if architecture == "ARCH_X86" and style.syntax != "intel":
        reader.syntax = capstone.CS_OPT_SYNTAX_ATT
    return reader


def _instructions(reader: Any, data: bytes, start: int, code: FunctionCode, style: CodeStyle) -> Iterator[AsmLine]:
    for address, size, name, operands in reader.disasm_lite(data, start):
        yield _line(address, data[address - start : address - start + size], f"{name:<6} {operands}", code, style)


def _of_arm(data: bytes, code: FunctionCode, style: CodeStyle) -> Iterator[AsmLine]:

    for start, end, kind in pieces(code.file, code.start, code.start + len(data)):
        part = data[start - code.start : end - code.start]
        if kind != DATA:
            yield from _instructions(_reader(code, style, "MODE_THUMB" if kind == THUMB else ""), part, start, code, style)
            continue
        for first in range(0, len(part), _WORD):
            word = part[first : first + _WORD]
            number = int.from_bytes(word, "big" if code.file.endian == ">" else "little")
            yield _line(start + first, word, f"{_DIRECTIVES[len(word)]:<6} {number:#0{2 + 2 * len(word)}x}", code, style)


def _line(address: int, data: bytes, text: str, code: FunctionCode, style: CodeStyle) -> AsmLine:
    raw = f"{data.hex(' '):<22}" if style.raw else ""
    # The column of objdump's text after the address.
    blank = " " * (8 - (len(f"{address:x}") + 1) % 8)
    return AsmLine(address - code.start, f"{blank}{raw}{text}".rstrip())
