"""Names of JIT-compiled code: images, jitdump files and perf maps."""

from __future__ import annotations

import io
import os
import random
import struct
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import SourceLines
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.errors import PerfError
from perfpy.symbols import perf_map
from perfpy.symbols.demangling.demangle import plain
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.jit_images import JitRegion, V8Log, regions
from perfpy.symbols.jitdump import TEXT_OFFSET, CodeLine, CodeLoad, CodeMove, InlinedCall, InlinedCode, debug_sections, image, parse
from perfpy.untrusted.process_files import trusted_owners
from perfpy.unwind.call_frames import CallFrames
from tests.builders.jitdump import header, load, move, record, unwinding

if TYPE_CHECKING:
    from pathlib import Path


# The functions of a jitdump in images of whole regions of memory.


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


# jitdump files, and the ELF files made of them.


X86_64 = 62


def jitdump_header(endian: str = "<", flags: int = 0) -> bytes:
    return struct.pack(endian + "IIIIIIQQ", 0x4A695444, 1, 40, X86_64, 0, 77, 5, flags)


def jitdump_record(kind: int, body: bytes, time: int = 9, endian: str = "<") -> bytes:
    return struct.pack(endian + "IIQ", kind, 16 + len(body), time) + body


def jitdump_load(name: str, address: int, code: bytes, index: int = 1, endian: str = "<", time: int = 9) -> bytes:
    body = struct.pack(endian + "IIQQQQ", 77, 78, address, address, len(code), index) + name.encode() + b"\0" + code
    return jitdump_record(0, body, time, endian)


@pytest.mark.parametrize("endian", ["<", ">"])
def test_functions_are_read_in_either_byte_order(endian: str):
    dump = parse(jitdump_header(endian) + jitdump_load("JS:*fib /a b.js:1", 0x7000, b"\x90\xc3", 4, endian))
    assert (dump.pid, dump.machine, dump.arch_clock) == (77, X86_64, False)
    assert dump.events == [CodeLoad(9, 77, 78, 0x7000, 4, "JS:*fib /a b.js:1", b"\x90\xc3")]


def test_moves_are_read():
    body = struct.pack("<IIQQQQQ", 77, 78, 0, 0x7000, 0x8000, 2, 4)
    assert parse(jitdump_header() + jitdump_record(1, body)).events == [CodeMove(9, 77, 78, 0x8000, 4, 2)]


def test_call_frame_information_belongs_to_the_next_function():
    unwinding = struct.pack("<QQQ", 6, 2, 6) + b"frameH"[:6]
    dump = parse(
        jitdump_header() + jitdump_record(4, unwinding) + jitdump_load("f", 0x7000, b"\x90") + jitdump_load("g", 0x8000, b"\x90", 2)
    )
    assert [(event.eh_frame, event.eh_frame_hdr) for event in dump.events if isinstance(event, CodeLoad)] == [(b"fram", b"eH"), (b"", b"")]


def test_lines_and_unknown_records_are_stepped_over_and_the_end_ends():
    dump = parse(
        jitdump_header()
        + jitdump_record(2, bytes(16))
        + jitdump_record(99, bytes(8))
        + jitdump_load("f", 1, b"x")
        + jitdump_record(3, b"")
        + jitdump_load("g", 2, b"x")
    )
    assert len(dump.events) == 1


def test_a_truncated_dump_yields_its_complete_records():
    whole = jitdump_header() + jitdump_load("f", 1, b"abc") + jitdump_load("g", 2, b"abc", 2)
    for size in range(40, len(whole)):
        assert len(parse(whole[:size]).events) == (1 if size >= len(jitdump_header() + jitdump_load("f", 1, b"abc")) else 0)


@pytest.mark.parametrize("kind", [0, 1, 2, 4])
def test_a_record_that_is_too_short_ends_the_dump(kind: int):
    dump = parse(jitdump_header() + jitdump_load("f", 1, b"abc") + jitdump_record(kind, bytes(8)) + jitdump_load("g", 2, b"abc", 2))
    assert [event.name for event in dump.events if isinstance(event, CodeLoad)] == ["f"]


def test_other_files_are_refused():
    with pytest.raises(PerfError, match="x: not a jitdump file"):
        parse(b"\x7fELF" + bytes(60), "x")


def test_the_clock_of_the_processor_is_recognised():
    assert parse(jitdump_header(flags=1)).arch_clock


@pytest.mark.parametrize("frames", [(b"", b""), (b"frame" * 3, b"hdr!")])
def test_an_image_holds_the_code_and_its_name(frames: tuple[bytes, bytes]):
    function = CodeLoad(9, 77, 78, 0x7000, 1, "JS:*fib", b"\x90" * 24, *frames)
    data = image(function, X86_64)
    assert data[TEXT_OFFSET : TEXT_OFFSET + 24] == function.code
    file = ElfFile("image", data)
    table = elf_symbols.load(file, file)
    rows = table.find(np.array([TEXT_OFFSET - 1, TEXT_OFFSET, TEXT_OFFSET + 23, TEXT_OFFSET + 24], np.uint64)).tolist()
    assert [table.name(row) if row >= 0 else "-" for row in rows] == ["-", "JS:*fib", "JS:*fib", "-"]
    assert len(file.build_id) == 40
    section = file.section(".eh_frame")
    assert (bytes(file.data(section)) if section else b"") == frames[0]


def test_images_of_different_functions_have_different_build_ids():
    one, two = (ElfFile("x", image(CodeLoad(0, 1, 1, 0, 0, name, b"\x90"), X86_64)).build_id for name in ("f", "g"))
    assert one != two


def debug_info(address: int, *entries: tuple[int, int, str], endian: str = "<") -> bytes:
    """Return a record of (address, line, name) entries."""
    body = struct.pack(endian + "QQ", address, len(entries))
    for at, line, name in entries:
        body += struct.pack(endian + "QII", at, line, 0) + name.encode("latin-1") + b"\0"
    return jitdump_record(2, body, endian=endian)


def lines(data: bytes) -> list[tuple[CodeLine, ...]]:
    return [event.lines for event in parse(data).events if isinstance(event, CodeLoad)]


def test_lines_belong_to_the_function_at_their_address_that_comes_next():
    info = debug_info(0x7000, (0x7000, 3, "a.js"), (0x7001, 5, "\xff"))
    dump = (
        jitdump_header() + info + jitdump_load("g", 0x8000, b"xx") + jitdump_load("f", 0x7000, b"xxx") + jitdump_load("f", 0x7000, b"xxx")
    )
    assert lines(dump) == [(), (CodeLine(0x7000, "a.js", 3), CodeLine(0x7001, "a.js", 5)), ()]


def test_lines_outside_of_their_function_are_omitted():
    info = debug_info(0x7000, (0x7000, 3, "a.js"), (0x7003, 5, "a.js"), (0x6FFF, 5, "a.js"))
    assert lines(jitdump_header() + info + jitdump_load("f", 0x7000, b"xxx")) == [(CodeLine(0x7000, "a.js", 3),)]


def test_lines_of_v8_are_shifted_to_the_code():
    info = debug_info(0x7000, (0x7040, 3, "a.js"), (0x7041, 5, "a.js"))
    other = debug_info(0x8000, (0x8041, 9, "b.js"))
    dump = jitdump_header() + info + jitdump_load("f", 0x7000, b"xxx") + other + jitdump_load("g", 0x8000, b"xxx")
    assert lines(dump) == [(CodeLine(0x7000, "a.js", 3), CodeLine(0x7001, "a.js", 5)), (CodeLine(0x8001, "b.js", 9),)]


@pytest.mark.parametrize("cut", range(1, 30))
def test_truncated_lines_end_there(cut: int):
    whole = debug_info(0x7000, (0x7000, 3, "a.js"))[16:]
    assert len(lines(jitdump_header() + jitdump_record(2, whole[: max(len(whole) - cut, 16)]) + jitdump_load("f", 0x7000, b"xxx"))) == 1


@pytest.mark.parametrize("endian", ["<", ">"])
def test_an_image_has_source_lines(endian: str):
    from elftools.elf.elffile import ELFFile

    code = bytes(40_000)
    results = (CodeLine(0x7000, "/src/a.js", 300), CodeLine(0x7004, "b.js", 7), CodeLine(0x7004 + 30_000, "/src/a.js", 301))
    data = image(CodeLoad(9, 77, 78, 0x7000, 1, "f", code, lines=results), X86_64, endian)
    dwarf = ELFFile(io.BytesIO(data)).get_dwarf_info()
    (unit,) = dwarf.iter_CUs()
    top = unit.get_top_DIE().attributes
    assert (top["DW_AT_name"].value, top["DW_AT_low_pc"].value, top["DW_AT_high_pc"].value) == (b"/src/a.js", TEXT_OFFSET, len(code))
    program = dwarf.line_program_for_CU(unit)
    assert program is not None
    names = [entry.name for entry in program["file_entry"]]
    states = [entry.state for entry in program.get_entries() if entry.state]
    assert [(state.address, names[state.file - 1], state.line) for state in states if not state.end_sequence] == [
        *((TEXT_OFFSET, b"/src/a.js", 300), (TEXT_OFFSET + 4, b"b.js", 7), (TEXT_OFFSET + 30_004, b"/src/a.js", 301)),
    ]
    assert [state.address for state in states if state.end_sequence] == [TEXT_OFFSET + len(code)]


# Line tables and inlined calls of generated code, and their cost.


def test_a_hundred_thousand_lines_are_written_in_less_than_three_seconds():
    """Tenfold what the recorder of a large Python program writes; with copies of the table for each line they took seven seconds."""
    lines = [CodeLine(0x1000 + 2 * number, f"/program/file{number // 500}.py", number % 500 + 1) for number in range(100_000)]
    began = time.process_time()
    sections = debug_sections(lines, 0x1000, 2 * len(lines))
    assert time.process_time() - began < 3
    assert len(sections[b".debug_line"]) > 500_000


def test_inlined_calls_are_read_back(tmp_path: Path):
    """The sections of an image with lines 3 and 9, the latter inlined two deep, as perfpy's own reader sees them."""
    calls = (InlinedCall("middle", "/app.js", 5), InlinedCall("inner", "/lib.js", 7))
    lines = (CodeLine(0x5000, "/app.js", 3), CodeLine(0x5010, "/lib.js", 9), CodeLine(0x5020, "/app.js", 3))
    load = CodeLoad(1, 7, 7, 0x5000, 0, "outer", bytes(64), lines=lines, inlined=(InlinedCode(0x5010, 0x5020, calls),))
    path = tmp_path / "image.so"
    path.write_bytes(image(load, 62))
    units = UnitIndex(DebugSections(ElfFile(str(path))))
    known = SourceLines(units)
    addresses = np.array([TEXT_OFFSET, TEXT_OFFSET + 0x10, TEXT_OFFSET + 0x1F, TEXT_OFFSET + 0x20], np.uint64)
    found = known.find(addresses)
    assert [(known.paths[file], line) for file, line in zip(found.file.tolist(), found.line.tolist(), strict=True)] == [
        ("/app.js", 3),
        ("/lib.js", 9),
        ("/lib.js", 9),
        ("/app.js", 3),
    ]
    assert InlineFinder(units).find(addresses).counts.tolist() == [0, 3, 3, 0]


def test_line_0_ends_the_lines_of_a_function():
    sections = debug_sections([CodeLine(0x1000, "/a.js", 3), CodeLine(0x1010, "/a.js", 0), CodeLine(0x1040, "/b.js", 5)], 0x1000, 0x80)
    assert sections[b".debug_line"].count(b"\x00\x09\x02") == 2


# Perf maps of JIT compilers.


def perf_map_names(text: bytes, *addresses: int) -> list[str]:
    table = perf_map.MapTable(perf_map.parse(text))
    return [table.name(row) if row >= 0 else "-" for row in table.find(np.array(addresses, np.uint64)).tolist()]


def test_names_may_hold_spaces_and_anything_else():
    text = b"7f0000001000 40 JS:*fib /home/x y/a.js:1:2\n7f0000001040 8 py::main:/x.py\n"
    assert perf_map_names(text, 0x7F0000001000, 0x7F000000103F, 0x7F0000001044, 0x7F0000001048) == [
        *("JS:*fib /home/x y/a.js:1:2", "JS:*fib /home/x y/a.js:1:2", "py::main:/x.py", "-"),
    ]


def test_addresses_may_have_a_prefix():
    assert perf_map_names(b"0x1000 0x10 f\n", 0x1008) == ["f"]


def test_reused_memory_has_the_last_name():
    assert perf_map_names(b"1000 10 old\n2000 10 other\n1000 10 new\n", 0x1000, 0x100C) == ["new", "new"]


def test_uncovered_parts_of_earlier_code_keep_name_and_start():
    text = b"1000 100 old\n2000 10 other\n1000 8 new\n1040 10 inner\n1048 20 last\n"
    assert perf_map_names(text, 0x1004, 0x1008, 0x103F, 0x1041, 0x1048, 0x1067, 0x1068, 0x10FF, 0x1100) == [
        *("new", "old", "old", "inner", "last", "last", "old", "old", "-"),
    ]
    table = perf_map.MapTable(perf_map.parse(text))
    assert table.symbols.start[table.find(np.array([0x1050, 0x10F0], np.uint64))].tolist() == [0x1048, 0x1000]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12))
def test_the_last_covering_line_wins_at_every_address(spans: list[tuple[int, int]]):
    text = b"".join(b"%x %x %d\n" % (start, size, number) for number, (start, size) in enumerate(spans))
    covering = [[str(number) for number, (start, size) in enumerate(spans) if start <= at < start + size] for at in range(64)]
    assert perf_map_names(text, *range(64)) == [(["-", *result])[-1] for result in covering]


def test_code_without_a_size_covers_its_start():
    assert perf_map_names(b"1000 0 f\n", 0x1000, 0x1001) == ["f", "-"]


@pytest.mark.parametrize("size", [1, 10, 13, 14, 15, 40, 1000])
def test_lines_are_the_same_in_pieces_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch):
    text = b"1000 10 first\n2000 10 a longer name\n\nxx\n3000 10 last"
    monkeypatch.setattr(perf_map, "_PIECE", size)
    assert perf_map_names(text, 0x1004, 0x2004, 0x3004, 0x4000) == ["first", "a longer name", "last", "-"]


def test_functions_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """A line may have six bytes: of a map of the largest size 90 million functions."""
    monkeypatch.setattr(perf_map, "_PIECE", 30)
    text = b"".join(b"%x 1 f%d\n" % (0x1000 + number, number) for number in range(100))
    table = perf_map.MapTable(perf_map.parse(text, 20))
    assert len(table) == 20
    assert [table.find(np.array([0x1000 + number], np.uint64))[0] for number in (0, 19, 20)] == [0, 19, -1]


def test_malformed_lines_are_skipped():
    assert perf_map_names(b"\nnonsense\n1000\n1000 10\n1000 10 f\nzz 10 g\n", 0x1000) == ["f"]
    assert perf_map_names(b"", 0x1000) == ["-"]


def test_names_are_not_demangled():
    assert perf_map_names(b"1000 10 _Z3foov\n", 0x1000) == ["_Z3foov"]


def test_a_map_is_read_from_its_file(tmp_path: Path):
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    assert len(perf_map.load(str(tmp_path / "perf-7.map"))) == 1


def test_a_map_of_another_user_is_refused(tmp_path: Path):
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    assert len(perf_map.load(str(tmp_path / "perf-7.map"), {os.getuid()})) == 1
    with pytest.raises(PermissionError):
        perf_map.load(str(tmp_path / "perf-7.map"), {12345})


def test_a_map_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(perf_map, "LARGEST", 9)
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    with pytest.raises(OSError, match="larger"):
        perf_map.load(str(tmp_path / "perf-7.map"))


def test_a_fifo_in_the_place_of_a_map_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "perf-7.map")
    with pytest.raises(OSError, match="not a regular file"):
        perf_map.load(str(tmp_path / "perf-7.map"))


def test_files_about_a_process_may_belong_to_its_owner_root_or_us():
    assert trusted_owners(os.getpid()) == {0, os.geteuid()}
    assert trusted_owners(1 << 22) == {0, os.geteuid()}  # no such process
