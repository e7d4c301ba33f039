"""Debug sections of files that are not linked: relocations fill in the numbers, whatever they say."""

from __future__ import annotations

import pytest

from perfpy.debuginfo.sections import DebugSections, relocate_section
from perfpy.symbols.files.elf import EM_AARCH64, EM_RISCV, EM_X86_64, ElfFile
from tests.builders.elf import ALLOC, EXEC, Elf

ET_REL, ET_DYN, EM_PPC64, EM_S390 = 1, 3, 21, 22
TEXT = 0x400  # where the code lies in the file
FUNCTION, STRINGS = 1, 2  # numbers of symbols


def filled(entries: list[tuple[int, int, int, int]], *, machine: int = EM_X86_64, type: int = ET_REL, endian: str = "<") -> bytes:
    """Return a relocated .debug_info of 24 bytes that refers to a function 0x20 bytes into the code, or to .debug_str."""
    return bytes(DebugSections(file_of(entries, machine, type, endian)).data("info"))


def file_of(entries: list[tuple[int, int, int, int]], machine: int, type: int = ET_REL, endian: str = "<") -> ElfFile:
    elf = (
        Elf(type=type, machine=machine, endian=endian)
        .section(".debug_info", b"\xee" * 24, flags=0)
        .section(".debug_str", b"abc\0", flags=0)
    )
    elf.section(".text", flags=ALLOC | EXEC, offset=TEXT, size=0x100).relocations(".rela.debug_info", entries, ".symtab")
    elf.symbol("function", 0x20).symbol("", 0, 0, section=".debug_str")
    return ElfFile("memory", elf.build())


@pytest.mark.parametrize(
    ("machine", "endian", "long", "short"),
    [(EM_X86_64, "<", 1, 10), (EM_AARCH64, "<", 257, 258), (EM_PPC64, "<", 38, 1), (EM_PPC64, ">", 38, 1), (EM_S390, ">", 22, 4)],
)
def test_numbers_are_symbol_and_addend(machine: int, endian: str, long: int, short: int) -> None:
    order = "little" if endian == "<" else "big"
    data = filled([(4, FUNCTION, long, 8), (16, STRINGS, short, 2)], machine=machine, endian=endian)
    assert data[:4] == data[12:16] == data[20:] == b"\xee" * 4
    assert int.from_bytes(data[4:12], order) == TEXT + 0x28  # type: ignore[arg-type]
    assert int.from_bytes(data[16:20], order) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [(17, 1, 1, 0), (1 << 63, 1, 1, 0), (0, 9, 1, 0), (0, 1, 77, 0), (21, 1, 10, 0)])
def test_relocations_out_of_bounds_or_of_other_types_are_skipped(entry: tuple[int, int, int, int]) -> None:
    assert filled([entry, (8, FUNCTION, 10, -0x20)]) == b"\xee" * 8 + TEXT.to_bytes(4, "little") + b"\xee" * 12


def test_linked_files_are_not_relocated() -> None:
    assert filled([(0, FUNCTION, 1, 0)], type=ET_DYN) == b"\xee" * 24


def test_unsupported_machines_are_a_flaw() -> None:
    file = file_of([(0, FUNCTION, 2, 0)], EM_RISCV)
    section = file.section(".debug_info")
    assert section is not None
    assert bytes(relocate_section(file, section, file.data(section))) == b"\xee" * 24
    assert file.flaws == ["debug information: its relocations, of machine 243, are not known"]
