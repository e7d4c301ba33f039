"""Line tables and inlined calls of generated code, and their cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.lines.source_lines import SourceLines
from perfpy.debuginfo.units.index import UnitIndex
from perfpy.debuginfo.units.sections import DebugSections
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.providers.jit_lines import CodeLine, InlinedCall, InlinedCode, debug_sections
from perfpy.symbols.providers.jitdump import TEXT_OFFSET, CodeLoad, image

if TYPE_CHECKING:
    from pathlib import Path


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
