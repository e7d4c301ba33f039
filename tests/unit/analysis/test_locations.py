"""Code that a runtime compiles repeatedly from one function is one row on screens, and several, like perf's, in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.abi.records import Comm, Mmap2, SampleId
from perfpy.analysis.locations import SourceTexts
from perfpy.analysis.report.options import ColumnOptions, NameOptions, ReportOptions
from perfpy.cli import run
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.views.script.code import SourceCode
from tests.builders.elf import ABS, FILE, LOCAL, Elf
from tests.builders.line_programs import COPY, END, advance_line, advance_pc, line_section, set_address, source_file, special
from tests.builders.perfdata import PerfDataBuilder
from tests.builders.timeline import kernel_mmap, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


NAMES = ("JS:~slow /a.js:1", "JS:*slow /a.js:1", "JS:*other /a.js:9", "JS:^slow /a.js:1", "JS:~slow /b.js:1")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Record a sample in each line of the map."""
    built = PerfDataBuilder()
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "node", ids))
    built.record(Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 0, 0, 0, 0, 7, 2, "//anon", b"", ids))
    for number in range(5):
        built.sample(misc=2, ip=0x1010 + 0x100 * number, pid=7, tid=7, time=10 + number, period=1)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "perf-7.map").write_text("".join(f"{0x1000 + 0x100 * number:x} 100 {name}\n" for number, name in enumerate(NAMES)))
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path


@pytest.mark.parametrize(
    ("as_one", "rows"),
    [
        (True, {"[.] JS:~slow /a.js:1": 3, "[.] JS:*other /a.js:9": 1, "[.] JS:~slow /b.js:1": 1}),
        (False, dict.fromkeys((f"[.] {name}" for name in NAMES), 1)),
    ],
)
def test_rows_are_of_functions(as_one: bool, rows: dict[str, int], recorded: Path) -> None:  # a parameter
    options = ReportOptions(names=NameOptions(tiers_as_one=as_one), columns=ColumnOptions(sort="symbol"))
    with perfpy.open(recorded / "perf.data") as recording:
        report = recording.report(options=options, symbols=SymbolOptions(symfs=str(recorded), cache=False))
    assert {row.texts["symbol"]: row.values["samples"][0] for row in report.top()} == rows


@pytest.fixture
def injected(tmp_path: Path) -> Path:
    """Convert it to a jitdump, where each piece of code is a file."""
    built = PerfDataBuilder()
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "node", ids))
    for number, name in enumerate(NAMES):
        path = f"/tmp/jitted-7-{number}.so"
        built.record(Mmap2(2, 7, 7, 0x1000 * (number + 1), 0x1000, 0x40, 0, 0, 0, 0, 5, 2, path, b"", ids))
        built.sample(misc=2, ip=0x1000 * (number + 1) + 8, pid=7, tid=7, time=10 + number, period=1)
        (tmp_path / path[1:]).parent.mkdir(exist_ok=True)
        (tmp_path / path[1:]).write_bytes(Elf().text(0x40, 0x40, 0x100).symbol(name, 0x40, 0x100).build())
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path


def test_pieces_of_a_jitdump_are_rows_of_functions_of_one_process(injected: Path) -> None:
    def rows(*, as_one: bool) -> dict[tuple[str, str], int]:
        options = ReportOptions(names=NameOptions(tiers_as_one=as_one), columns=ColumnOptions(sort="dso,symbol"))
        with perfpy.open(injected / "perf.data") as recording:
            report = recording.report(options=options, symbols=SymbolOptions(symfs=str(injected), cache=False))
        return {(row.texts["dso"], row.texts["symbol"]): row.values["samples"][0] for row in report.top()}

    functions = {"[.] JS:~slow /a.js:1": 3, "[.] JS:*other /a.js:9": 1, "[.] JS:~slow /b.js:1": 1}
    assert rows(as_one=True) == {("jitted-7", name): count for name, count in functions.items()}
    assert rows(as_one=False) == {(f"jitted-7-{number}.so", f"[.] {name}"): 1 for number, name in enumerate(NAMES)}


def test_functions_at_one_address_of_files_with_one_name_are_rows_of_their_own(tmp_path: Path) -> None:
    """As of two builds of a program, in containers or one after the other; an equal function of both stays one row."""
    built = PerfDataBuilder()
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "prog", ids))
    for number, (folder, name) in enumerate((("old", "old_one"), ("new", "new_one"))):
        start = 0x1000 * (number + 1)
        built.record(Mmap2(2, 7, 7, start, 0x1000, 0, 0, 0, 0, 0, 5, 2, f"/{folder}/prog", b"", ids))
        for time, ip in enumerate((start + 0x48, start + 0x148)):
            built.sample(misc=2, ip=ip, pid=7, tid=7, time=10 + 2 * number + time, period=1)
        (tmp_path / folder).mkdir()
        image = Elf().text(0, 0, 0x1000).symbol(name, 0x40, 0x100).symbol("both", 0x140, 0x100).build()
        (tmp_path / folder / "prog").write_bytes(image)
    (tmp_path / "perf.data").write_bytes(built.file())
    options = ReportOptions(columns=ColumnOptions(sort="dso,symbol"))
    with perfpy.open(tmp_path / "perf.data") as recording:
        report = recording.report(options=options, symbols=SymbolOptions(symfs=str(tmp_path), cache=False))
    rows = {(row.texts["dso"], row.texts["symbol"]): row.values["samples"][0] for row in report.top()}
    assert rows == {("prog", "[.] old_one"): 1, ("prog", "[.] new_one"): 1, ("prog", "[.] both"): 2}


def test_json_has_the_names_apart_and_flame_graphs_together(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["-f", "-i", str(recorded / "perf.data"), "--symfs", str(recorded)]
    assert run(["report", "--json", "-s", "sym", *where]) == 0
    assert len(json.loads(capsys.readouterr().out)["events"][0]["rows"]) == 5
    page = str(recorded / "page.html")
    assert run(["report", f"--html={page}", *where]) == 0
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert text.count('["JS:slow /a.js:1","[JIT]') == 1
    assert "~slow" not in text


# Source lines of frames, formatted like perf.


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
