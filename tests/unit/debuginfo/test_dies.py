"""The functions of a unit and the calls inlined into them."""

from __future__ import annotations

from perfpy.debuginfo.dies import UnitFunctions
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import ElfFile
from tests.builders.dies import Die, Dies, block, code, function, inlined, unit


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
