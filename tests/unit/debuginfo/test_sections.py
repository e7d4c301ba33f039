"""Sections and entries of DWARF."""

from __future__ import annotations

import pytest

from perfpy.debuginfo.dies import UnitFunctions
from perfpy.debuginfo.sections import DebugSections, relocate_section
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import EM_AARCH64, EM_RISCV, EM_X86_64, ElfFile
from tests.builders.dies import Die, Dies, block, code, function, inlined, unit
from tests.builders.elf import ALLOC, EXEC, Elf

# Debug sections of files that are not linked: relocations fill in the numbers, whatever they say.


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


# The functions of a unit and the calls inlined into them.


def functions_of(*dies: Die) -> UnitFunctions:
    file = Dies(code(unit(*dies, low_pc=None), (0x1000, 0x1300)))
    first_unit = UnitIndex(DebugSections(ElfFile("memory", file.elf().build()))).unit(0)
    assert first_unit is not None
    return UnitFunctions(first_unit)


def test_a_call_knows_the_code_that_contains_it() -> None:
    inner, outer = function("inner"), function("outer")
    calls = inlined(outer, (0x1010, 0x1030), block((0x1010, 0x1020), inlined(inner, (0x1010, 0x1020), line=9)), line=7)
    functions = functions_of(inner, outer, function("main", (0x1000, 0x1100), calls))
    main, first, second = functions.code
    assert (first.caller, second.caller, second.function, main.caller) == (main, first, main, None)


def test_a_function_inlined_into_its_own_code_is_repeated() -> None:
    """Compilers write a function that they inline in parts as a call of itself."""
    split, other = function("split"), function("other")
    again = inlined(split, (0x1018, 0x1020), line=3)
    both = inlined(split, (0x1010, 0x1020), inlined(other, (0x1014, 0x1020), again), line=7)
    functions = functions_of(split, other, function("main", (0x1000, 0x1100), both))
    assert [code.is_repeated for code in functions.code] == [False, False, False, True]


def test_a_recursive_function_inlined_into_itself_is_repeated() -> None:
    own = function("own", (0x1000, 0x1100))
    own.children.append(inlined(own, (0x1010, 0x1020), line=3))
    assert [code.is_repeated for code in functions_of(own).code] == [False, True]


def test_an_inlined_call_without_instructions_has_a_place() -> None:
    empty = function("empty")
    functions = functions_of(empty, function("main", (0x1000, 0x1100), inlined(empty, (0x1010, 0x1010), line=3)))
    assert [(code.entry, code.ranges) for code in functions.code] == [(0x1000, [(0x1000, 0x1100)]), (0x1010, [])]
