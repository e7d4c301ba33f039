"""The functions of a jitdump in images of whole regions of memory."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

from perfpy.symbols.demangling.demangle import plain
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.jit_images import JitRegion, V8Log, regions
from perfpy.symbols.jitdump import CodeLine, InlinedCall, InlinedCode, parse
from perfpy.unwind.call_frames import CallFrames
from tests.builders.jitdump import header, load, move, record, unwinding

BASE = 0x7F0000012340


def made(*parts: bytes) -> list[JitRegion]:
    return regions(parse(header() + b"".join(parts)))


def names(region: JitRegion) -> dict[str, tuple[int, int]]:
    """Return the address (by the region's first mapping) and size of each function, by name."""
    file = ElfFile("image", region.image)
    table = elf_symbols.table_of(elf_symbols.collect(file, file), file, plain)
    shift = region.mappings[0].address - region.mappings[0].offset
    symbols = table.symbols
    return {
        table.name(row): (int(symbols.start[row]) + shift, int(symbols.end[row] - symbols.start[row])) for row in range(len(symbols.start))
    }


def test_functions_keep_their_distances():
    (region,) = made(load("f", BASE, b"\x90" * 16, 1, time=20), load("g", BASE + 64, b"\xc3" * 8, 2, time=30))
    assert names(region) == {"f": (BASE, 16), "g": (BASE + 64, 8)}
    assert [tuple(mapping) for mapping in region.mappings] == [(20, 77, 77, BASE, 72, 0x1000 + 0x340)]
    assert region.image[0x1340:0x1350] == b"\x90" * 16
    assert region.image[0x1380:0x1388] == b"\xc3" * 8


def test_distant_functions_have_separate_mappings():
    (region,) = made(load("f", BASE, bytes(16), 1), load("g", BASE + 0x4000, bytes(16), 2))
    assert [(mapping.address, mapping.size, mapping.offset) for mapping in region.mappings] == [
        (BASE, 16, 0x1340),
        (BASE + 0x4000, 16, 0x5340),
    ]


def test_a_function_over_another_one_is_mapped_later_from_a_new_image():
    first, second = made(load("old", BASE, bytes(16), 1, time=20), load("new", BASE + 8, bytes(4), 2, time=30))
    assert [*names(first), *names(second)] == ["old", "new"]
    assert [(mapping.time, mapping.address) for mapping in (*first.mappings, *second.mappings)] == [(20, BASE), (30, BASE + 8)]


def test_each_megabyte_has_its_image():
    result = made(load("f", BASE, bytes(16), 1), load("g", BASE + (1 << 30), bytes(16), 2))
    assert [*map(names, result)] == [{"f": (BASE, 16)}, {"g": (BASE + (1 << 30), 16)}]


def test_a_function_that_moved_is_at_both_addresses():
    (region,) = made(load("f", BASE, bytes(16), 5, time=20), move(BASE, BASE + 0x800, 16, 5, time=30))
    assert [(mapping.time, mapping.address) for mapping in region.mappings] == [(20, BASE), (30, BASE + 0x800)]


def test_impossible_functions_are_omitted():
    assert made(load("empty", BASE, b""), load("beyond", (1 << 64) - 16, bytes(16), 2), record(1, bytes(48), 9)) == []


def test_each_function_is_unwound_by_its_own_entry():
    code = b"\x48\x83\xec\x08\xff\xd1\x48\x83\xc4\x08\xc3"
    parts = [part for index in range(3) for part in (unwinding(len(code)), load(f"f{index}", BASE + 0x110 * index, code, index))]
    (region,) = made(*parts)
    file = ElfFile("image", region.image)
    frames = CallFrames(file)
    offsets = [0x1340 + 0x110 * index + inside for index in range(3) for inside in (0, 6, 10)]
    rows = frames.find(np.array(offsets, np.uint64)).tolist()
    assert [frames.rules[row].cfa[1] if row >= 0 else None for row in rows] == [8, 16, 8] * 3
    assert (frames.find(np.array([0x1340 + 11, 0x1340 + 0x100], np.uint64)) < 0).all()
    assert file.flaws == []


def test_an_entry_for_other_code_is_omitted():
    code = bytes(16)
    (region,) = made(unwinding(len(code) + 8), load("f", BASE, code))
    assert ElfFile("image", region.image).section(".eh_frame") is None


def test_damaged_call_frame_information_raises_nothing():
    whole = unwinding(11)[16 + 24 :]
    for size in range(len(whole)):
        for value in (0, 0x7F, 0xFF):
            changed = whole[:size] + bytes([value]) + whole[size + 1 :]
            frames = record(4, (len(changed)).to_bytes(8, "little") + (20).to_bytes(8, "little") + bytes(8) + changed, 9)
            (region,) = made(frames, load("f", BASE, bytes(11)))
            ElfFile("image", region.image)


def test_images_are_read_by_other_tools():
    from elftools.dwarf.callframe import FDE
    from elftools.elf.elffile import ELFFile

    (region,) = made(unwinding(11), load("f", BASE, bytes(11)))
    entries = ELFFile(io.BytesIO(region.image)).get_dwarf_info().EH_CFI_entries()
    (start,) = (entry["initial_location"] for entry in entries if isinstance(entry, FDE))
    assert start == 0x1340


# V8's log of code: lines and inlined functions, and logs that are damaged.


SOURCE = r"let x = 1;\nfunction scale(x) { // \u20ac\x2C \\\\n\n  return x * 3;\n}\nfunction mix(a) {\n  return scale(a);\n}\n"
#: scale is inlined into mix: from offset 64 to 80 of its code
LOG = rf"""v8-version,11,3,244,8,-node.38,0
code-creation,JS,10,5,0x100,19,scale file:///app/a%20b.js:2:15,0xa1,~
script-source,7,file:///app/a%20b.js,{SOURCE}
code-source-info,0x100,7,26,60,C0O50,,
code-creation,JS,10,6,0x200,19,mix file:///app/a%20b.js:5:13,0xa2,~
code-source-info,0x200,7,80,100,C0O86,,
code-creation,JS,13,7,0x5000,200,mix file:///app/a%20b.js:5:13,0xa2,*
code-source-info,0x5000,7,80,100,C0O86C64O46I0C70O48I0C80O86,F0O86,S0xa1
"""
NAME = "JS:*mix file:///app/a%20b.js:5:13"
PATH = "/app/a b.js"


def test_code_has_lines_and_the_functions_inlined_there() -> None:
    code = V8Log(LOG).take(0x5000, 200, NAME)
    assert code is not None
    assert code.lines == tuple(CodeLine(0x5000 + offset, PATH, line) for offset, line in ((0, 6), (64, 3), (70, 3), (80, 6)))
    call = InlinedCall("JS:*scale file:///app/a%20b.js:2:15", PATH, 6)
    assert code.inlined == (InlinedCode(0x5000 + 64, 0x5000 + 80, (call,)),)


@pytest.mark.parametrize("key", [(0x5001, 200, NAME), (0x5000, 201, NAME), (0x5000, 200, NAME.replace("mix", "fix"))])
def test_other_code_is_not_taken(key: tuple[int, int, str]) -> None:
    assert V8Log(LOG).take(*key) is None


def test_code_at_one_address_is_taken_in_order_and_only_if_all_of_it_has_positions() -> None:
    again = LOG.split("code-creation,JS,13")[1].replace("C0O86C64O46I0C70O48I0C80O86", "C8O86")
    log = V8Log(LOG + "code-creation,JS,13" + again)
    first, second = log.take(0x5000, 200, NAME), log.take(0x5000, 200, NAME)
    assert first is not None
    assert second is not None
    assert (len(first.lines), len(second.lines)) == (4, 1)
    assert log.take(0x5000, 200, NAME) is None
    assert V8Log(LOG + "code-creation,JS,13" + again.partition("\n")[0]).take(0x5000, 200, NAME) is None


def test_inlined_code_of_an_unknown_function_has_no_line() -> None:
    code = V8Log(LOG.replace("S0xa1", "S0xa9")).take(0x5000, 200, NAME)
    assert code is not None
    assert [line.address - 0x5000 for line in code.lines] == [0, 80]
    assert code.inlined == ()


def test_functions_inlined_into_themselves_end() -> None:
    assert V8Log(LOG.replace("F0O86", "F0O86I0")).take(0x5000, 200, NAME) is not None


def test_damaged_logs_raise_nothing() -> None:
    for seed in range(300):
        chance, text = random.Random(seed), list(LOG)
        for _ in range(chance.choice((1, 5, 50))):
            text[chance.randrange(len(text))] = chance.choice("0123456789,CIOFSx\\\n*")
        V8Log("".join(text)[: chance.randrange(len(text)) if seed % 2 else None]).take(0x5000, 200, NAME)
