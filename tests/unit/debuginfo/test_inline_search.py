"""Debug information that somebody made up: bounded time and memory, flaws that say so, and the rest is read."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.index import UnitIndex
from perfpy.debuginfo.units.sections import DebugSections
from perfpy.symbols.files.elf import BadElfError, ElfFile
from tests.builders.dies import Die, Dies, code, function, inlined, unit

ADDRESSES = np.arange(0x0FF0, 0x1300, 8).astype(np.uint64)


def program() -> list[Die]:
    inner = function("inner", linkage="_Z5innerv")
    call = inlined(inner, (0x1010, 0x1020), inlined(inner, (0x1014, 0x1018), line=3), line=2)
    roots = [unit(inner, function("main", (0x1000, 0x1100), call), low_pc=None), unit(function("more", (0x1200, 0x1210)), low_pc=None)]
    return [code(root, bounds) for root, bounds in zip(roots, ((0x1000, 0x1100), (0x1200, 0x1210)), strict=True)]


def names(file: ElfFile) -> list[list[str]]:
    """Return the functions at every address, checking the time that takes."""
    functions = InlineFinder(UnitIndex(DebugSections(file)))
    begin = time.process_time()
    calls = functions.find(ADDRESSES)
    assert time.process_time() - begin < 5
    rows = iter(calls.rows())
    return [[functions.names[next(rows)[0]].decode(errors="replace") for _ in range(count)] for count in calls.counts]


def names_of(dies: Dies) -> tuple[list[list[str]], list[str]]:
    file = ElfFile("memory", dies.elf().build())
    return names(file), file.flaws


def test_a_cycle_of_origins_ends() -> None:
    one, other = function(""), function("")
    one.add(dwarf.AT_ABSTRACT_ORIGIN, dwarf.FORM_REF4, other)
    other.add(dwarf.AT_SPECIFICATION, dwarf.FORM_REF4, one)
    main = function("main", (0x1000, 0x1100), inlined(one, (0x1000, 0x1100)))
    result, _ = names_of(Dies(code(unit(one, other, main, low_pc=None), (0x1000, 0x1100))))
    assert result[2] == ["", "main"]


def test_deep_nesting_does_not_hide_other_units() -> None:
    deep = origin = function("origin")
    for _ in range(200):
        deep = inlined(origin, (0x1000, 0x1100), deep if deep is not origin else Die(0x34))
    first = code(unit(origin, function("main", (0x1000, 0x1100), deep), low_pc=None), (0x1000, 0x1100))
    result, flaws = names_of(Dies(first, program()[1]))
    assert len(result[2]) == 201
    assert result[(0x1200 - 0x0FF0) // 8] == ["more"]
    assert not flaws


def nested_blocks(depth: int) -> bytes:
    """Return a unit with `depth` nested, unterminated blocks."""
    dies = Dies(code(unit(function("main", (0x1000, 0x1100), Die(0x0B, children=[Die(0x34)])), low_pc=None), (0x1000, 0x1100)))
    info = bytearray(dies.info)
    opening = next(number for (tag, children, _), number in dies._codes.items() if tag == 0x0B and children)
    info[info.rindex(bytes([opening])) :] = bytes([opening]) * depth
    info[:4] = (len(info) - 4).to_bytes(4, "little")
    dies.info = bytes(info)
    return dies.elf().build()


def test_excessive_nesting_is_a_flaw() -> None:
    file = ElfFile("memory", nested_blocks(1 << 20))
    names(file)
    assert len(file.flaws) == 1
    assert "nested" in file.flaws[0]


def test_a_sibling_that_points_back_is_a_flaw() -> None:
    main, other = function("main", (0x1000, 0x1100)), Die(0x13, children=[Die(0x34)])
    other.add(dwarf.AT_SIBLING, dwarf.FORM_REF4, 1)
    result, flaws = names_of(Dies(code(unit(other, main, low_pc=None), (0x1000, 0x1100)), program()[1]))
    assert result[2] == []
    assert result[(0x1200 - 0x0FF0) // 8] == ["more"]
    assert "sibling" in flaws[0]


@pytest.mark.parametrize(("form", "value"), [(dwarf.FORM_EXPRLOC, b"x" * 9), (dwarf.FORM_BLOCK1, b"x" * 9), (dwarf.FORM_STRING, "y" * 9)])
def test_values_beyond_the_end_of_the_unit_are_a_flaw(form: int, value: object) -> None:
    last = function("main", (0x1000, 0x1100)).add(0x40, form, value)
    dies = Dies(program()[1], code(unit(last, low_pc=None), (0x1000, 0x1100)))
    dies.info = dies.info[:-6]
    result, flaws = names_of(dies)
    assert result[(0x1200 - 0x0FF0) // 8] == ["more"]
    assert len(flaws) <= 4


def test_units_are_truncated_at_the_end_of_the_section() -> None:
    dies = Dies(*program())
    dies.info = (0xFFFFFFE0).to_bytes(4, "little") + dies.info[4:]
    result, _ = names_of(dies)
    assert result[2] == ["main"]


def test_unterminated_abbreviations_are_a_flaw() -> None:
    dies = Dies(*program())
    dies.abbrev = b"\x01\x11\x00" + b"\x03\x08" * (1 << 20)
    result, flaws = names_of(dies)
    assert not any(result)
    assert "attributes" in flaws[0]


def test_reading_one_range_list_for_every_unit_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.debuginfo.units.index._RANGES_MOST", 1000)
    pairs = b"".join(number.to_bytes(8, "little") for number in (0x1000, 0x1010)) * 100 + bytes(16)
    roots = [unit(low_pc=0).add(dwarf.AT_RANGES, dwarf.FORM_SEC_OFFSET, 0) for _ in range(200)]
    _, flaws = names_of(Dies(*roots, ranges=pairs))
    assert flaws == ["debug information: more than 1000 ranges"]


@pytest.mark.parametrize("version", [2, 4, 5])
def test_damaged_sections_raise_nothing(version: int) -> None:
    dies, chance = Dies(*program(), version=version), random.Random(version)
    info, abbrev = dies.info, dies.abbrev
    for _ in range(300):
        dies.info, dies.abbrev = damaged(info, chance), damaged(abbrev, chance)
        try:
            file = ElfFile("memory", dies.elf().build())
        except BadElfError:
            continue
        names(file)
        assert len(file.flaws) <= 4


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed[: chance.randrange(len(changed))]) if chance.random() < 0.3 else bytes(changed)
