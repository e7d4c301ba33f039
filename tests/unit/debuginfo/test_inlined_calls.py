"""Inlined calls, as DWARF describes them and as frames."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.debuginfo import dwarf, inlined_frames
from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.inlined_frames import give_inlined
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.files.elf import BadElfError, ElfFile
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.dies import Die, Dies, block, code, function, inlined, unit
from tests.builders.elf import NOTYPE
from tests.builders.line_programs import unsigned
from tests.builders.timeline import kernel_mmap, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path


# Which functions are at work at an address: the DIEs of functions and inlined calls, of all versions, forms and layouts.


ADDRESSES = (0x1000, 0x1010, 0x1018, 0x1020, 0x10FF, 0x1100)


def finder(dies: Dies) -> InlineFinder:
    return InlineFinder(UnitIndex(DebugSections(ElfFile("memory", dies.elf().build()))))


def found(functions: InlineFinder, *addresses: int) -> list[list[tuple[str, int]]]:
    """Return for each address the function names and the lines of their calls, innermost first."""
    calls = functions.find(np.array(addresses, np.uint64))
    rows = iter(calls.rows())
    return [[(functions.names[row[0]].decode(), row[3]) for row in (next(rows) for _ in range(count))] for count in calls.counts]


def program(*, sibling: bool = False, absolute: bool = False, form: int = dwarf.FORM_REF4) -> Die:
    """Return main, into which outer is inlined, and inner into outer."""
    inner, outer = function("inner", sibling=sibling), function("outer", sibling=sibling)
    inner.children = [Die(0x05).add(dwarf.AT_NAME, dwarf.FORM_STRING, "x")]
    deep = inlined(inner, (0x1018, 0x101C), line=9, form=form)
    calls = block((0x1010, 0x1020), inlined(outer, (0x1010, 0x1020), deep, line=7, form=form, sibling=sibling))
    other = function("other", (0x1200, 0x1300), block(None, Die(0x34)), sibling=sibling)
    return unit(inner, outer, other, function("main", (0x1000, 0x1100), calls, absolute=absolute), low_pc=None)


EXPECTED = [[("main", 0)], [("outer", 7), ("main", 0)], [("inner", 9), ("outer", 7), ("main", 0)], [("main", 0)], [("main", 0)], []]


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_calls_are_found_innermost_first(version: int, long: bool, bits: int, endian: str) -> None:
    dies = Dies(with_bounds(program(absolute=version < 4)), version=version, long=long, bits=bits, endian=endian)
    assert found(finder(dies), *ADDRESSES) == EXPECTED


def with_bounds(root: Die) -> Die:
    return code(root, (0x1000, 0x1300))


@pytest.mark.parametrize("form", [dwarf.FORM_REF4, dwarf.FORM_REF2, dwarf.FORM_REF8, dwarf.FORM_REF_ADDR])
def test_functions_are_referred_to_by_every_form(form: int) -> None:
    assert found(finder(Dies(with_bounds(program(form=form)))), *ADDRESSES) == EXPECTED


def test_dw_at_sibling_skips_subtrees() -> None:
    assert found(finder(Dies(with_bounds(program(sibling=True)))), *ADDRESSES) == EXPECTED


def test_addresses_of_no_unit_have_no_functions() -> None:
    assert found(finder(Dies(with_bounds(program()))), 0, 0x1400, 2**64 - 1) == [[], [], []]


def test_the_linkage_name_is_preferred_in_any_die() -> None:
    declared = function("declared", linkage="_ZN1a8declaredEv")
    instance = Die(dwarf.TAG_SUBPROGRAM).add(dwarf.AT_SPECIFICATION, dwarf.FORM_REF4, declared)
    main = code(Die(dwarf.TAG_SUBPROGRAM), (0x1000, 0x1100)).add(dwarf.AT_ABSTRACT_ORIGIN, dwarf.FORM_REF4, instance)
    root = with_bounds(unit(Die(dwarf.TAG_NAMESPACE, children=[declared]), instance, main, low_pc=None))
    assert found(finder(Dies(root)), 0x1000) == [[("_ZN1a8declaredEv", 0)]]


@pytest.mark.parametrize("sibling", [False, True])
def test_addresses_can_be_looked_up_one_by_one(sibling: bool) -> None:
    scope = Die(dwarf.TAG_NAMESPACE, children=[function("inside", (0x1110, 0x1120))], sibling=sibling)
    root = program(sibling=sibling)
    root.children = [scope, *root.children, function("last", (0x1120, 0x1130))]
    dies = Dies(with_bounds(root))
    at_once = found(finder(dies), 0x1000, 0x1010, 0x1018, 0x1110, 0x1124, 0x1210, 0x1400)
    for order in ((0x1124, 0x1018, 0x1000, 0x1110, 0x1400, 0x1210, 0x1010), (0x1400, 0x1210, 0x1010, 0x1018, 0x1110, 0x1000, 0x1124)):
        one = finder(dies)
        functions = {address: found(one, address)[0] for address in order}
        assert [functions[address] for address in sorted(functions)] == at_once


def test_functions_already_read_are_not_read_again() -> None:
    functions = finder(Dies(with_bounds(program())))
    expected = found(functions, *ADDRESSES, 0x1200)
    (search,) = functions._searches.values()
    search._unread_tops = iter(())
    assert found(functions, *ADDRESSES, 0x1200) == expected
    assert [calls[-1:] for calls in found(functions, 0x1201, 0x1011)] == [[("other", 0)], [("main", 0)]]


@pytest.mark.parametrize("sibling", [False, True])
def test_functions_within_namespaces_are_found(sibling: bool) -> None:
    scope = Die(dwarf.TAG_NAMESPACE, children=[function("inside", (0x1000, 0x1010)), function("more", (0x1010, 0x1020))], sibling=sibling)
    root = with_bounds(unit(scope, function("outside", (0x1020, 0x1030)), low_pc=None))
    assert found(finder(Dies(root)), 0x1000, 0x101F, 0x1020) == [[("inside", 0)], [("more", 0)], [("outside", 0)]]


def test_the_first_of_two_functions_has_the_address_but_of_the_assemblers_the_last() -> None:
    def names(language: int) -> list[list[tuple[str, int]]]:
        root = unit(function("first", (0x1000, 0x1010)), function("last", (0x1000, 0x1010)), low_pc=None, language=language)
        return found(finder(Dies(with_bounds(root))), 0x1004)

    assert names(dwarf.LANG_MIPS_ASSEMBLER) == [[("last", 0)]]
    assert names(0x0C) == [[("first", 0)]]


def ranged(die: Die, form: int, value: int) -> Die:
    return die.add(dwarf.AT_RANGES, form, value)


def test_ranges_of_version_4_count_from_the_units_address() -> None:
    numbers = (0x0, 0x10, 0x40, 0x50, 2**64 - 1, 0x1080, 0, 8, 0, 0)
    section = b"".join(number.to_bytes(8, "little") for number in numbers)
    main = ranged(function("main"), dwarf.FORM_SEC_OFFSET, 0)
    root = ranged(unit(main, low_pc=0x1000), dwarf.FORM_SEC_OFFSET, 0)
    answers = found(finder(Dies(root, ranges=section)), 0x1000, 0x1010, 0x1040, 0x1080, 0x1088)
    assert [len(answer) for answer in answers] == [1, 0, 1, 1, 0]


def range_lists() -> tuple[bytes, bytes]:
    """.debug_rnglists with one list by number, that has every kind of entry; and .debug_addr."""
    entries = bytes([dwarf.RLE_OFFSET_PAIR]) + unsigned(0) + unsigned(0x10)
    entries += bytes([dwarf.RLE_BASE_ADDRESS]) + (0x1100).to_bytes(8, "little")
    entries += bytes([dwarf.RLE_OFFSET_PAIR]) + unsigned(0) + unsigned(4)
    entries += bytes([dwarf.RLE_BASE_ADDRESSX]) + unsigned(0) + bytes([dwarf.RLE_OFFSET_PAIR]) + unsigned(8) + unsigned(12)
    entries += bytes([dwarf.RLE_STARTX_ENDX]) + unsigned(1) + unsigned(2) + bytes([dwarf.RLE_STARTX_LENGTH]) + unsigned(3) + unsigned(4)
    entries += bytes([dwarf.RLE_START_END]) + (0x1600).to_bytes(8, "little") + (0x1604).to_bytes(8, "little")
    entries += bytes([dwarf.RLE_START_LENGTH]) + (0x1700).to_bytes(8, "little") + unsigned(4) + b"\0"
    body = b"\5\0\x08\0" + (1).to_bytes(4, "little") + (4).to_bytes(4, "little") + entries
    addresses = b"".join(address.to_bytes(8, "little") for address in (0x1200, 0x1300, 0x1304, 0x1400))
    return len(body).to_bytes(4, "little") + body, bytes(8) + addresses


def test_ranges_of_version_5_are_of_all_kinds() -> None:
    lists, addresses = range_lists()
    main = ranged(function("main"), dwarf.FORM_RNGLISTX, 0)
    root = ranged(unit(main, low_pc=0x1000), dwarf.FORM_RNGLISTX, 0)
    root.add(dwarf.AT_RNGLISTS_BASE, dwarf.FORM_SEC_OFFSET, 12).add(dwarf.AT_ADDR_BASE, dwarf.FORM_SEC_OFFSET, 8)
    starts = (0x1000, 0x1100, 0x1208, 0x1300, 0x1400, 0x1600, 0x1700)
    functions = finder(Dies(root, version=5, rnglists=lists, addr=addresses))
    assert found(functions, *starts) == [[("main", 0)]] * len(starts)
    assert found(functions, 0x1010, 0x1104, 0x120C, 0x1304, 0x1404, 0x1604, 0x1704) == [[]] * 7


def test_units_are_found_by_aranges() -> None:
    root = program()  # says nothing itself
    body = b"\2\0" + bytes(4) + b"\x08\0" + bytes(4) + (0x1000).to_bytes(8, "little") + (0x300).to_bytes(8, "little") + bytes(16)
    section = len(body).to_bytes(4, "little") + body
    assert found(finder(Dies(root, aranges=section)), *ADDRESSES) == EXPECTED
    assert found(finder(Dies(root)), *ADDRESSES) == [[]] * len(ADDRESSES)


def split_program(folder: Path, version: int) -> Path:
    """A program whose unit is a skeleton, and the file that it names."""
    elsewhere = Dies(program(), version=version, suffix=".dwo", dwo_id=77)
    skeleton = Die(0x4A if version >= 5 else dwarf.TAG_COMPILE_UNIT)
    name, of_dwo = (dwarf.AT_DWO_NAME, []) if version >= 5 else (dwarf.AT_GNU_DWO_NAME, [(dwarf.AT_GNU_DWO_ID, dwarf.FORM_DATA8, 77)])
    skeleton.attributes = [(name, dwarf.FORM_STRING, "a.dwo"), (dwarf.AT_COMP_DIR, dwarf.FORM_STRING, str(folder)), *of_dwo]
    elsewhere.units[0].attributes += of_dwo
    elsewhere = Dies(*elsewhere.units, version=version, suffix=".dwo", dwo_id=77)
    (folder / "a.dwo").write_bytes(elsewhere.elf().build())
    path = folder / "program"
    path.write_bytes(Dies(with_bounds(skeleton), version=version, dwo_id=77).elf().build())
    return path


@pytest.mark.parametrize("version", [4, 5])
def test_split_units_are_found(tmp_path: Path, version: int) -> None:
    file = ElfFile(str(split_program(tmp_path, version)))
    assert found(InlineFinder(UnitIndex(DebugSections(file))), *ADDRESSES) == EXPECTED
    assert not file.flaws


def test_split_units_of_another_build_are_not_taken(tmp_path: Path) -> None:
    path = split_program(tmp_path, 5)
    (tmp_path / "a.dwo").write_bytes(Dies(program(), version=5, suffix=".dwo", dwo_id=78).elf().build())
    file = ElfFile(str(path))
    assert found(InlineFinder(UnitIndex(DebugSections(file))), *ADDRESSES) == [[]] * len(ADDRESSES)
    assert file.flaws == ["its debug information is partly in 'a.dwo', which is not here"]


@pytest.mark.parametrize(("linked", "is_taken"), [("aa" * 20, True), ("bb" * 20, False), ("", False)])
def test_functions_in_the_supplementary_file_of_dwz_are_found_if_it_is_of_this_build(tmp_path: Path, linked: str, is_taken: bool) -> None:
    shared = function("shared")
    common = Dies(Die(dwarf.TAG_PARTIAL_UNIT, children=[shared]))
    (tmp_path / "common").write_bytes(common.elf().build_id("aa" * 20).build())
    root = with_bounds(
        unit(function("main", (0x1000, 0x1100), inlined(shared, (0x1000, 0x1010), form=dwarf.FORM_GNU_REF_ALT)), low_pc=None)
    )
    link = b"common\0" + bytes.fromhex(linked)
    path = tmp_path / "program"
    path.write_bytes(Dies(root).elf().section(".gnu_debugaltlink", link, flags=0).build())
    file = ElfFile(str(path))
    assert found(InlineFinder(UnitIndex(DebugSections(file))), 0x1000) == [[("shared" if is_taken else "", 0), ("main", 0)]]
    assert bool(file.flaws) is not is_taken


@pytest.mark.parametrize("sibling", [False, True])
def test_functions_of_local_classes_are_found(sibling: bool) -> None:
    """A lambda is inside its class, inside the declaring function, which may have no code of its own."""
    lambdas = [function(name, bounds) for name, bounds in (("first", (0x1000, 0x1010)), ("second", (0x1010, 0x1020)))]
    classes = [Die(dwarf.TAG_CLASS_TYPE, children=[one], sibling=sibling) for one in lambdas]
    owners = [function("abstract", None, classes[0], sibling=sibling), function("other", (0x1100, 0x1110), classes[1], sibling=sibling)]
    root = with_bounds(unit(*owners, function("main", (0x1020, 0x1030)), low_pc=None))
    assert found(finder(Dies(root)), 0x1000, 0x101F, 0x1020) == [[("first", 0)], [("second", 0)], [("main", 0)]]


# Debug information that somebody made up: bounded time and memory, flaws that say so, and the rest is read.


SEARCHED_ADDRESSES = np.arange(0x0FF0, 0x1300, 8).astype(np.uint64)


def searched_program() -> list[Die]:
    inner = function("inner", linkage="_Z5innerv")
    call = inlined(inner, (0x1010, 0x1020), inlined(inner, (0x1014, 0x1018), line=3), line=2)
    roots = [unit(inner, function("main", (0x1000, 0x1100), call), low_pc=None), unit(function("more", (0x1200, 0x1210)), low_pc=None)]
    return [code(root, bounds) for root, bounds in zip(roots, ((0x1000, 0x1100), (0x1200, 0x1210)), strict=True)]


def names(file: ElfFile) -> list[list[str]]:
    """Return the functions at every address, checking the time that takes."""
    functions = InlineFinder(UnitIndex(DebugSections(file)))
    begin = time.process_time()
    calls = functions.find(SEARCHED_ADDRESSES)
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
    result, flaws = names_of(Dies(first, searched_program()[1]))
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
    result, flaws = names_of(Dies(code(unit(other, main, low_pc=None), (0x1000, 0x1100)), searched_program()[1]))
    assert result[2] == []
    assert result[(0x1200 - 0x0FF0) // 8] == ["more"]
    assert "sibling" in flaws[0]


@pytest.mark.parametrize(("form", "value"), [(dwarf.FORM_EXPRLOC, b"x" * 9), (dwarf.FORM_BLOCK1, b"x" * 9), (dwarf.FORM_STRING, "y" * 9)])
def test_values_beyond_the_end_of_the_unit_are_a_flaw(form: int, value: object) -> None:
    last = function("main", (0x1000, 0x1100)).add(0x40, form, value)
    dies = Dies(searched_program()[1], code(unit(last, low_pc=None), (0x1000, 0x1100)))
    dies.info = dies.info[:-6]
    result, flaws = names_of(dies)
    assert result[(0x1200 - 0x0FF0) // 8] == ["more"]
    assert len(flaws) <= 4


def test_units_are_truncated_at_the_end_of_the_section() -> None:
    dies = Dies(*searched_program())
    dies.info = (0xFFFFFFE0).to_bytes(4, "little") + dies.info[4:]
    result, _ = names_of(dies)
    assert result[2] == ["main"]


def test_unterminated_abbreviations_are_a_flaw() -> None:
    dies = Dies(*searched_program())
    dies.abbrev = b"\x01\x11\x00" + b"\x03\x08" * (1 << 20)
    result, flaws = names_of(dies)
    assert not any(result)
    assert "attributes" in flaws[0]


def test_reading_one_range_list_for_every_unit_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.debuginfo.unit_index._RANGES_MOST", 1000)
    pairs = b"".join(number.to_bytes(8, "little") for number in (0x1000, 0x1010)) * 100 + bytes(16)
    roots = [unit(low_pc=0).add(dwarf.AT_RANGES, dwarf.FORM_SEC_OFFSET, 0) for _ in range(200)]
    _, flaws = names_of(Dies(*roots, ranges=pairs))
    assert flaws == ["debug information: more than 1000 ranges"]


@pytest.mark.parametrize("version", [2, 4, 5])
def test_damaged_sections_raise_nothing(version: int) -> None:
    dies, chance = Dies(*searched_program(), version=version), random.Random(version)
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


# Chains with the frames of inlined calls: which frames they become, for the page and as each perf has it.


BASE = 0x400000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for --symfs with /opt/prog: leaf is inlined into middle, that into main; other has another name in the symbol table."""
    leaf, middle = function("leaf"), function("middle")
    calls = inlined(middle, (0x1010, 0x1030), inlined(leaf, (0x1018, 0x1020), line=9), line=7)
    same = inlined(function("main"), (0x1040, 0x1050), line=5)
    debug = function("debug_name", (0x1100, 0x1200), inlined(leaf, (0x1110, 0x1120), line=4))
    namesake = same.attributes[0][2]
    tree = code(unit(leaf, middle, namesake, function("main", (0x1000, 0x1100), calls, same), debug, low_pc=None), (0x1000, 0x1200))
    elf = Dies(tree).elf().symbol("main", 0x1000, 0x100).symbol("other", 0x1100, 0x100)
    path = tmp_path / "opt" / "prog"
    path.parent.mkdir()
    path.write_bytes(elf.build())
    return tmp_path


class Chains:
    """Chains of a process that has /opt/prog."""

    def __init__(self, root: Path, inline: Inline, *, unwound: bool = False) -> None:
        source = timeline((0, mmap(1, BASE + 0x1000, 0x1000, "/opt/prog", pgoff=0x1000)))
        self.symbolizer = Symbolizer(source, SymbolOptions(symfs=str(root), inline=inline))
        give_inlined(self.symbolizer, unwound=unwound)

    def ids(self, *chain: int) -> np.ndarray:
        count = len(chain)
        return self.symbolizer.frame_ids(
            np.full(count, 1, np.int32),
            np.array(chain, np.uint64) + np.uint64(BASE),
            np.full(count, 9, np.uint64),
            np.full(count, MISC_USER, np.uint8),
        )

    def names(self, *chains: tuple[int, ...], callers_first: bool = False) -> list[list[str]]:
        """The functions of each chain, inlined ones with a star."""
        ids = np.concatenate([self.ids(*chain) for chain in chains])
        frames, counts = self.symbolizer.expand(ids, np.array([len(chain) for chain in chains]), callers_first=callers_first)
        self.symbolizer.resolve()
        names = [self.name(frame) for frame in frames.tolist()]
        ends = np.cumsum(counts).tolist()
        return [names[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]

    def name(self, frame: int) -> str:
        symbols, number = self.symbolizer.symbols, int(self.symbolizer.frames.symbol[frame])
        return "?" if number < 0 else symbols.name(number) + "*" * symbols.is_inlined(number)


def test_a_frame_expands_to_the_functions_at_its_address(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1018,), (0x1010, 0x1001), (0x1000,)) == [
        ["leaf*", "middle*", "main"],
        ["middle*", "main", "main"],
        ["main"],
    ]


def test_callchains_without_inlined_calls_are_unchanged(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1000, 0x1004), (), (0x1F00,)) == [["main", "main"], [], ["?"]]


def test_return_addresses_in_kernel_callchains_are_looked_up_one_byte_earlier(root: Path) -> None:
    chain = (0x1000, 0x1020)  # the call is the last instruction of leaf
    assert Chains(root, Inline.ALL).names(chain) == [["main", "leaf*", "middle*", "main"]]
    assert Chains(root, Inline.ALL_AS_PERF).names(chain) == [["main", "middle*", "main"]]
    assert Chains(root, Inline.ALL, unwound=True).names(chain) == [["main", "middle*", "main"]]


KERNEL = 0xFFFF800008000000


@pytest.mark.parametrize(
    ("inline", "unwound", "expected"),
    [
        (Inline.ALL, False, ["leaf*", "middle*", "syscall", "leaf*", "middle*", "syscall"]),
        (Inline.ALL_AS_PERF, False, ["leaf*", "middle*", "syscall", "middle*", "syscall"]),
        (Inline.UNWOUND_AS_PERF, True, ["syscall", "syscall"]),
    ],
)
def test_kernel_frames_expand_if_vmlinux_has_debug_information(tmp_path: Path, inline: Inline, unwound: bool, expected: list[str]) -> None:
    leaf, middle = function("leaf"), function("middle")
    calls = inlined(middle, (0x1010, 0x1030), inlined(leaf, (0x1018, 0x1020), line=9), line=7)
    tree = code(unit(leaf, middle, function("syscall", (0x1000, 0x1100), calls), low_pc=None), (0x1000, 0x1100))
    elf = Dies(tree).elf().symbol("_text", 0x1000, 0, NOTYPE).symbol("syscall", 0x1000, 0x100)
    (tmp_path / "vmlinux").write_bytes(elf.build())
    source = timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL)))
    symbolizer = Symbolizer(source, SymbolOptions(vmlinux=str(tmp_path / "vmlinux"), inline=inline))
    give_inlined(symbolizer, unwound=unwound)
    ids = symbolizer.frame_ids(
        np.full(2, 1, np.int32),
        np.array([KERNEL + 0x18, KERNEL + 0x20], np.uint64),
        np.full(2, 9, np.uint64),
        np.full(2, MISC_KERNEL, np.uint8),
    )
    frames, counts = symbolizer.expand(ids, np.array([2]))
    symbols = symbolizer.frames.symbol[frames].tolist()
    assert [symbolizer.symbols.name(number) + "*" * symbolizer.symbols.is_inlined(number) for number in symbols] == expected
    assert counts.tolist() == [len(expected)]


def test_the_first_instruction_of_a_function_is_not_a_return_address(root: Path) -> None:
    leaf = function("leaf")
    tree = code(unit(leaf, function("main", (0x1000, 0x1100), inlined(leaf, (0x10F0, 0x1100))), low_pc=None), (0x1000, 0x1100))
    elf = Dies(tree).elf().symbol("main", 0x1000, 0x100).symbol("handler", 0x1100, 0x100)
    (root / "opt" / "prog").write_bytes(elf.build())
    assert Chains(root, Inline.ALL).names((0x1000, 0x1100), (0x1000, 0x10F8)) == [["main", "handler"], ["main", "leaf*", "main"]]


def test_callers_first_reverses_inlined_frames(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1001, 0x1018), callers_first=True) == [["main", "main", "middle*", "leaf*"]]


def test_callchains_are_expanded_alike_in_blocks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chains = ((), (0x1001, 0x1018), (), (0x1018,), (0x1000, 0x1020, 0x1004), ())
    whole = Chains(root, Inline.ALL).names(*chains)
    monkeypatch.setattr(inlined_frames, "_BLOCK", 2)
    assert Chains(root, Inline.ALL).names(*chains) == whole
    assert sum(map(len, whole)) > sum(map(len, chains))


def test_perf_6_12_expands_unwound_stacks_only(root: Path) -> None:
    assert Chains(root, Inline.UNWOUND_AS_PERF).names((0x1018,)) == [["main"]]
    assert Chains(root, Inline.UNWOUND_AS_PERF, unwound=True).names((0x1018,)) == [["leaf*", "middle*", "main"]]
    assert Chains(root, Inline.NONE, unwound=True).names((0x1018,)) == [["main"]]


def test_perf_6_12_uses_function_names_of_the_debug_information(root: Path) -> None:
    chains = ((0x1110,), (0x1100,))
    assert Chains(root, Inline.ALL).names(*chains) == [["leaf*", "other"], ["other"]]
    assert Chains(root, Inline.UNWOUND_AS_PERF, unwound=True).names(*chains) == [["leaf*", "debug_name*"], ["debug_name*"]]


def test_perf_7_keeps_the_symbols_of_functions_with_another_name_in_the_debug_information(root: Path) -> None:
    assert Chains(root, Inline.ALL_AS_PERF).names((0x1110,), (0x1100,)) == [["leaf*", "other"], ["other"]]


def test_perf_7_keeps_the_symbols_of_clones(root: Path) -> None:
    leaf = function("leaf")
    debug = function("name", (0x1000, 0x1100), inlined(leaf, (0x1010, 0x1020), line=4))
    tree = code(unit(leaf, debug, low_pc=None), (0x1000, 0x1100))
    (root / "opt" / "prog").write_bytes(Dies(tree).elf().symbol("name.constprop.0", 0x1000, 0x100).build())
    assert Chains(root, Inline.ALL_AS_PERF).names((0x1010,)) == [["leaf*", "name.constprop.0"]]
    assert Chains(root, Inline.UNWOUND_AS_PERF, unwound=True).names((0x1010,)) == [["leaf*", "name*"]]


def test_a_rust_function_with_two_names_is_no_inlined_call(root: Path) -> None:
    # Of two equal functions the compiler keeps one: <usize as Display>::fmt is <u64 as Display>::fmt, which the debug information has.
    usize, u64 = (
        f"_RNvXs{letter}_NtNtNtCsgEmfK2I1SDS_4core3fmt3num3imp{kind}NtB9_7Display3fmt" for letter, kind in (("i", "j"), ("d", "y"))
    )
    leaf = function("leaf")
    debug = function(u64, (0x1000, 0x1100), inlined(leaf, (0x1010, 0x1020), line=4))
    tree = code(unit(leaf, debug, low_pc=None), (0x1000, 0x1100))
    (root / "opt" / "prog").write_bytes(Dies(tree).elf().symbol(u64, 0x1000, 0x100).symbol(usize, 0x1000, 0x100).build())
    name = "<usize as core::fmt::Display>::fmt"
    for inline in (Inline.UNWOUND_AS_PERF, Inline.ALL):
        assert Chains(root, inline, unwound=True).names((0x1010,), (0x1040,)) == [["leaf*", name], [name]]


@pytest.fixture
def cpp(tmp_path: Path) -> Path:
    """Create /opt/prog of C++ functions without linkage names: one begins with its symbol, the other later."""
    leaf = function("leaf")
    first = function("first", (0x1000, 0x1100), inlined(leaf, (0x1010, 0x1020), line=3))
    second = function("second", (0x1104, 0x1200))
    tree = code(unit(leaf, first, second, low_pc=None), (0x1000, 0x1200)).add(dwarf.AT_LANGUAGE, dwarf.FORM_DATA1, 4)
    path = tmp_path / "opt" / "prog"
    path.parent.mkdir()
    path.write_bytes(Dies(tree).elf().symbol("first(int)", 0x1000, 0x100).symbol("second(int)", 0x1100, 0x100).build())
    return tmp_path


def test_perf_6_12_names_functions_as_addr2line_does(cpp: Path) -> None:
    chains = Chains(cpp, Inline.UNWOUND_AS_PERF, unwound=True)
    assert chains.names((0x1010,)) == [["first(int)", "first*"]]  # what is the innermost function for the first time
    assert chains.names((0x1011,)) == [["leaf*", "first*"]]
    assert chains.names((0x1040,)) == [["first(int)"]]
    assert chains.names((0x1012,), (0x1041,)) == [["leaf*", "first(int)"], ["first(int)"]]  # it begins with the symbol
    assert chains.names((0x1140,), (0x1141,)) == [["second(int)"], ["second*"]]


def test_a_function_with_its_symbols_name_is_not_marked_as_inlined(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1040,)) == [["main", "main"]]


def test_frames_have_the_lines_of_inlined_calls(root: Path) -> None:
    chains = Chains(root, Inline.ALL)
    frames, _ = chains.symbolizer.expand(chains.ids(0x1018).astype(np.uint8), np.array([1]))
    assert frames.dtype == np.int32  # frames of inlined calls have numbers that need more bytes
    called_from = chains.symbolizer.frames.called_from
    assert [called_from.get(frame) for frame in frames.tolist()] == [None, (0, 1, 9), (0, 1, 7)]


def test_frames_of_later_batches_have_numbers_of_their_own(root: Path) -> None:
    chains = Chains(root, Inline.ALL)
    chains.names((0x1018,))
    assert chains.names((0x1010, 0x1018), (0x1110,)) == [["middle*", "main", "middle*", "main"], ["leaf*", "other"]]
    frames = chains.symbolizer.resolve()
    assert len(frames) == len(frames.symbol) == len(frames.ip)
    before = len(frames)
    assert chains.ids(0x1050).tolist() == [before]
    assert chains.names((0x1050,)) == [["main"]]


def test_one_name_inlined_into_one_symbol_is_one_symbol(root: Path) -> None:
    chains = Chains(root, Inline.ALL)
    ids = chains.ids(0x1018, 0x1019, 0x1110)
    frames, _ = chains.symbolizer.expand(ids, np.array([1, 1, 1]))
    symbols = chains.symbolizer.frames.symbol[frames]
    assert symbols[0] == symbols[3] != symbols[6]
