"""jitdump files, and the ELF files made of them."""

from __future__ import annotations

import io
import struct
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import SourceLines
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.errors import PerfError
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.jitdump import TEXT_OFFSET, CodeLine, CodeLoad, CodeMove, InlinedCall, InlinedCode, debug_sections, image, parse

if TYPE_CHECKING:
    from pathlib import Path


X86_64 = 62


def header(endian: str = "<", flags: int = 0) -> bytes:
    return struct.pack(endian + "IIIIIIQQ", 0x4A695444, 1, 40, X86_64, 0, 77, 5, flags)


def record(kind: int, body: bytes, time: int = 9, endian: str = "<") -> bytes:
    return struct.pack(endian + "IIQ", kind, 16 + len(body), time) + body


def load(name: str, address: int, code: bytes, index: int = 1, endian: str = "<", time: int = 9) -> bytes:
    body = struct.pack(endian + "IIQQQQ", 77, 78, address, address, len(code), index) + name.encode() + b"\0" + code
    return record(0, body, time, endian)


@pytest.mark.parametrize("endian", ["<", ">"])
def test_functions_are_read_in_either_byte_order(endian: str):
    dump = parse(header(endian) + load("JS:*fib /a b.js:1", 0x7000, b"\x90\xc3", 4, endian))
    assert (dump.pid, dump.machine, dump.arch_clock) == (77, X86_64, False)
    assert dump.events == [CodeLoad(9, 77, 78, 0x7000, 4, "JS:*fib /a b.js:1", b"\x90\xc3")]


def test_moves_are_read():
    body = struct.pack("<IIQQQQQ", 77, 78, 0, 0x7000, 0x8000, 2, 4)
    assert parse(header() + record(1, body)).events == [CodeMove(9, 77, 78, 0x8000, 4, 2)]


def test_call_frame_information_belongs_to_the_next_function():
    unwinding = struct.pack("<QQQ", 6, 2, 6) + b"frameH"[:6]
    dump = parse(header() + record(4, unwinding) + load("f", 0x7000, b"\x90") + load("g", 0x8000, b"\x90", 2))
    assert [(event.eh_frame, event.eh_frame_hdr) for event in dump.events if isinstance(event, CodeLoad)] == [(b"fram", b"eH"), (b"", b"")]


def test_lines_and_unknown_records_are_stepped_over_and_the_end_ends():
    dump = parse(header() + record(2, bytes(16)) + record(99, bytes(8)) + load("f", 1, b"x") + record(3, b"") + load("g", 2, b"x"))
    assert len(dump.events) == 1


def test_a_truncated_dump_yields_its_complete_records():
    whole = header() + load("f", 1, b"abc") + load("g", 2, b"abc", 2)
    for size in range(40, len(whole)):
        assert len(parse(whole[:size]).events) == (1 if size >= len(header() + load("f", 1, b"abc")) else 0)


@pytest.mark.parametrize("kind", [0, 1, 2, 4])
def test_a_record_that_is_too_short_ends_the_dump(kind: int):
    dump = parse(header() + load("f", 1, b"abc") + record(kind, bytes(8)) + load("g", 2, b"abc", 2))
    assert [event.name for event in dump.events if isinstance(event, CodeLoad)] == ["f"]


def test_other_files_are_refused():
    with pytest.raises(PerfError, match="x: not a jitdump file"):
        parse(b"\x7fELF" + bytes(60), "x")


def test_the_clock_of_the_processor_is_recognised():
    assert parse(header(flags=1)).arch_clock


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
    return record(2, body, endian=endian)


def lines(data: bytes) -> list[tuple[CodeLine, ...]]:
    return [event.lines for event in parse(data).events if isinstance(event, CodeLoad)]


def test_lines_belong_to_the_function_at_their_address_that_comes_next():
    info = debug_info(0x7000, (0x7000, 3, "a.js"), (0x7001, 5, "\xff"))
    dump = header() + info + load("g", 0x8000, b"xx") + load("f", 0x7000, b"xxx") + load("f", 0x7000, b"xxx")
    assert lines(dump) == [(), (CodeLine(0x7000, "a.js", 3), CodeLine(0x7001, "a.js", 5)), ()]


def test_lines_outside_of_their_function_are_omitted():
    info = debug_info(0x7000, (0x7000, 3, "a.js"), (0x7003, 5, "a.js"), (0x6FFF, 5, "a.js"))
    assert lines(header() + info + load("f", 0x7000, b"xxx")) == [(CodeLine(0x7000, "a.js", 3),)]


def test_lines_of_v8_are_shifted_to_the_code():
    info = debug_info(0x7000, (0x7040, 3, "a.js"), (0x7041, 5, "a.js"))
    other = debug_info(0x8000, (0x8041, 9, "b.js"))
    dump = header() + info + load("f", 0x7000, b"xxx") + other + load("g", 0x8000, b"xxx")
    assert lines(dump) == [(CodeLine(0x7000, "a.js", 3), CodeLine(0x7001, "a.js", 5)), (CodeLine(0x8001, "b.js", 9),)]


@pytest.mark.parametrize("cut", range(1, 30))
def test_truncated_lines_end_there(cut: int):
    whole = debug_info(0x7000, (0x7000, 3, "a.js"))[16:]
    assert len(lines(header() + record(2, whole[: max(len(whole) - cut, 16)]) + load("f", 0x7000, b"xxx"))) == 1


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
