"""Source lines of frames, formatted like perf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.analysis.samples.source_texts import SourceTexts
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.views.script.code.source_code import SourceCode
from tests.builders.elf import ABS, FILE, LOCAL
from tests.builders.line_programs import COPY, END, advance_line, advance_pc, line_section, set_address, source_file, special
from tests.builders.timeline import kernel_mmap, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

#: line 2 of src/a.c at 0x1000, 3 at 0x1010, up to 0x1020; nothing of `other`, which no debug information covers
LINES = line_section(set_address(0x1000) + advance_line(1) + COPY + special(16, 1) + advance_pc(16) + END, [("a.c", 1)], ["src"], version=4)


def frames_of(symbolizer: Symbolizer, *ips: int, mode: int = MISC_USER) -> NDArray[np.int64]:
    count = len(ips)
    keys, modes = np.full(count, 9, np.uint64), np.full(count, mode, np.uint8)
    ids = symbolizer.frame_ids(np.full(count, 1 if mode == MISC_USER else -1, np.int32), np.array(ips, np.uint64), keys, modes)
    symbolizer.resolve()
    return ids.astype(np.int64)


@pytest.fixture
def symbolizer(tmp_path: Path) -> Symbolizer:
    """Map a program at 0x401000 to 0x700000; the address 0x700000 is that of its offset 0x1000."""
    moved = LINES.replace((0x1000).to_bytes(8, "little"), (0x401000).to_bytes(8, "little"))
    elf = source_file(moved, start=0x401000, comp_dir=str(tmp_path))
    elf.symbol("b.c", 0, type=FILE, binding=LOCAL, section=ABS).symbol("main", 0x401000, 0x20).symbol("other", 0x401100, 0x40)
    (tmp_path / "prog").write_bytes(elf.build())
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.c").write_text("one\ntwo\nthree\n")
    mapped = mmap(1, 0x700000, 0x1000, str(tmp_path / "prog"), pgoff=0x1000)
    return Symbolizer(timeline((0, mapped), (0, mmap(1, 0x900000, 0x1000, "/no/such"))), SymbolOptions(cache=False))


def test_lines_functions_files_and_nothing(symbolizer: Symbolizer) -> None:
    texts = SourceTexts(symbolizer)
    frames = frames_of(symbolizer, 0x700000, 0x700010, 0x700108, 0x900010, 0x1)
    assert texts.lines(frames) == ["a.c:2", "a.c:3", "b.c:0", "such[10]", "??:0"]
    assert texts.files(frames) == ["a.c", "a.c", "b.c", "", ""]
    assert texts.in_files(frames) == ["a.c:2", "a.c:3", "b.c:0", "such[10]", ""]


def test_whole_paths(symbolizer: Symbolizer, tmp_path: Path) -> None:
    texts = SourceTexts(symbolizer, full_paths=True)
    assert texts.lines(frames_of(symbolizer, 0x700000)) == [f"{tmp_path}/src/a.c:2"]


def test_calls_have_offsets_only_where_they_are_distinguished_by_address(symbolizer: Symbolizer) -> None:
    """Of a function in a file without lines; perf has no name before it, as the function stands there already."""
    texts = SourceTexts(symbolizer)
    frames = frames_of(symbolizer, 0x700010, 0x900010, 0x1)
    assert texts.calls(frames, offsets=True) == ["a.c:3", "such[10]", None]
    assert texts.calls(frames, offsets=False) == ["a.c:3", "??:0", None]


def test_callers_of_inlined_calls_have_the_line_of_the_call(symbolizer: Symbolizer) -> None:
    frames = frames_of(symbolizer, 0x700010)
    result = symbolizer.add_inlined(frames.astype(np.int32), symbolizer.frames.symbol[frames])
    symbolizer.frames.called_from[int(result[0])] = (0, 1, 77)
    assert SourceTexts(symbolizer).lines(np.append(frames, result)) == ["a.c:3", "a.c:77"]


def test_code_is_shown_where_a_thread_comes_to_another_line(symbolizer: Symbolizer) -> None:
    source_code = SourceCode(SourceTexts(symbolizer))
    frames = frames_of(symbolizer, 0x700000, 0x700004, 0x700000, 0x700010, 0x700108, 0x700010, 0x700000).astype(np.int32)
    tids = np.array([1, 1, 2, 1, 1, 1, 1], np.int64)
    two, three = b"|2        two\n", b"|3        three\n"
    assert source_code.pieces(frames, tids) == [two, b"", two, three, b"", b"", two]


def test_a_kernel_that_was_moved_has_the_lines_of_its_vmlinux(tmp_path: Path) -> None:
    start = 0xFFFFFFFF81000000
    lines = LINES.replace((0x1000).to_bytes(8, "little"), start.to_bytes(8, "little"))
    (tmp_path / "vm").write_bytes(source_file(lines, start=start).symbol("_text", start, 0x1000).build())
    source = timeline((0, kernel_mmap(start + 0x2000000, 0x1000000, pgoff=start + 0x2000000)))
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(tmp_path), vmlinux=str(tmp_path / "vm"), cache=False))
    assert SourceTexts(symbolizer).lines(frames_of(symbolizer, start + 0x2000010, mode=MISC_KERNEL)) == ["a.c:3"]
