"""Annotated code, as text and on a terminal."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from perfpy.analysis.source_files import SourceFile, SourceLine, SourceShares
from perfpy.disassembly.disassembler import CodeStyle
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.annotate.screen import CodePage, Jump, heat_style, show_functions
from perfpy.views.annotate.text import SourceStyle, is_own_source, source_lines
from tests.builders.annotated import TEXT, program, recording, stand_in
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from pathlib import Path


# Tests of a function's code on a terminal: heat, jumps, and the parts with samples.


def page(folder: Path, text: str = TEXT, *, source: bool = True) -> CodePage:
    (folder / "bin").mkdir()
    (folder / "bin" / "spin").write_bytes(program().build())
    (folder / "perf.data").write_bytes(recording())
    with Recording(str(folder / "perf.data")) as opened:
        annotation = opened.annotate("spin", symbols=SymbolOptions(symfs=str(folder), cache=False))
        return CodePage(annotation.function(style=CodeStyle(program=str(stand_in(folder, text)))), source=source)


def test_the_heading_of_the_code_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    document = page(tmp_path)
    assert document.title == "spin  spin  76.92%  10 samples"
    assert [line.text.strip() for line in document.lines][:2] == ["while (--n)", "nop"]


def test_lines_have_their_share_address_and_text(tmp_path: Path) -> None:
    document = page(tmp_path)
    output = [document.text(number, 60).plain.rstrip() for number in range(len(document.lines))]
    assert output == [
        "              while (--n)",
        " 10.00%       1010  nop",
        " 60.00%       1011  dec    %rdi",
        "                  ;",
        " 20.00%       1014  jne    1011 <spin+0x1>",
        "          deadbeef: no instruction",
        " 10.00%       1016  ret",
    ]


@pytest.mark.parametrize(("near", "begins_with_hottest"), [(16, False), (1, True)])
def test_long_functions_begin_with_the_hottest_lines(
    near: int, begins_with_hottest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """near: lines that may precede the hottest instruction."""
    monkeypatch.setattr("perfpy.views.annotate.screen._NEAR_TITLE", near)
    file = io.StringIO()
    show_functions([page(tmp_path).function], "cycles", Console(file=file, width=80, color_system=None))
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert (lines[1] == "hottest lines") == begins_with_hottest
    assert next(line for line in lines if "dec    %rdi" in line).startswith("60.00%")
    assert sum("dec    %rdi" in line for line in lines) == 1 + begins_with_hottest


def test_without_source_only_instructions_are_shown(tmp_path: Path) -> None:
    assert len(page(tmp_path, source=False).lines) == 4


def test_a_jump_is_drawn_from_its_line_to_its_target(tmp_path: Path) -> None:
    document = page(tmp_path)
    assert document.jumps == [Jump(4, 2)]
    assert document.jumps_at(4) == document.jumps_at(2) == [Jump(4, 2)]
    assert document.jumps_at(1) == []
    assert [document.jumps[0].mark(number) for number in range(1, 6)] == ["  ", "┌▶", "│ ", "└─", "  "]


@pytest.mark.parametrize(
    ("instruction", "is_jump"),
    [
        ("jmp    1011 <spin+0x1>", True),
        ("75 fb                   jne    1011 <spin+0x1>", True),
        ("bnd jmp 1011 <f<std::vector<int> >(int)+0x1>", True),
        ("b.ne   1011 <spin+0x1>  // b.any", True),
        ("cbz    x0, 1011 <spin+0x1>", True),
        ("bne,pn 1011 <spin+0x1>", True),
        ("jne    0x1011", True),
        ("call   1011 <spin+0x1>", False),
        ("bl     1011 <spin+0x1>", False),
        ("brasl  %r14,1011 <spin+0x1>", False),
        ("lea    0x1(%rip),%rax        # 1011 <spin+0x1>", False),
        ("mov    $0x1,%edx", False),
        ("jmp    2000 <other>", False),
    ],
)
def test_instructions_that_are_jumps(tmp_path: Path, instruction: str, is_jump: bool) -> None:
    document = page(tmp_path, TEXT.replace("jne    1011 <spin+0x1>", instruction))
    assert bool(document.jumps) == is_jump


def test_heat_is_relative_to_the_hottest_line(tmp_path: Path) -> None:
    document = page(tmp_path)
    assert document.most == pytest.approx(60.0)
    assert document.hottest == 2
    assert document.by_heat == [2, 4, 1, 6]
    styles = [heat_style(share, 8.0) for share in (8.0, 4.0, 1.0, 0.1, 0.0)]
    assert len(set(styles)) == 4
    assert styles[-2:] == ["", ""]


def test_code_without_samples_is_a_range(tmp_path: Path) -> None:
    document = page(tmp_path)
    assert list(document.near_heat(0)) == [range(1), 1, 2, range(3, 4), 4, range(5, 6), 6]
    assert list(document.near_heat(3)) == [*range(7)]


def on_screen(folder: Path, *options: str, columns: int = 80) -> str:
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "spin").write_bytes(program().build())
    (folder / "perf.data").write_bytes(recording())
    tool = stand_in(folder, TEXT.replace("no instruction", "no \x1b[2J instruction"))
    files = ["-i", str(folder / "perf.data"), "--symfs", str(folder), "--objdump", str(tool)]
    screen_text = on_terminal("annotate", *files, *options, columns=columns, lines=60, environment={"NO_COLOR": "1"})
    assert screen_text.status == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", screen_text.text.replace("\r", ""))


def test_terminals_show_the_page(tmp_path: Path) -> None:
    text = on_screen(tmp_path)
    assert "spin  spin  76.92%  10 samples of cpu-clock:u\n" in text
    assert " 60.00% ┌▶    1011  dec    %rdi\n" in text
    assert "functions below 2% are hidden" in text
    assert "^[[2J" in text


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_lines_fit_the_terminal(tmp_path: Path, columns: int) -> None:
    lines = on_screen(tmp_path, "spin", columns=columns).split("\n")
    assert max(map(len, lines)) <= columns


def test_stdio_and_options_of_perfs_text_print_perfs_text(tmp_path: Path) -> None:
    for option in ("--stdio", "-n", "-l"):
        assert re.search(r"\tSource code & Disassembly|        Source code & Disassembly", on_screen(tmp_path, option))


# The order of source files in annotate --by-line.


def of_file(path: str, percent: float) -> SourceFile:
    return SourceFile(path, percent, percent, [SourceLine(1, percent, percent, 1)])


def test_own_files_come_before_those_that_all_calls_pass_through() -> None:
    files = [of_file("./csu/libc-start.c", 99.0), of_file("<frozen runpy>", 98.0), of_file("b.py", 40.0), of_file("/home/a/c.c", 20.0)]
    lines = [*source_lines(SourceShares("cycles", 10, files, {}, with_calls=True), SourceStyle())]
    assert [line.split()[0] for line in lines if "file not found" in line] == ["b.py", "/home/a/c.c", "./csu/libc-start.c", "<frozen"]


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/usr/lib/python3.11/runpy.py", False),
        ("/root/.pyenv/versions/3.11.7/lib/python3.11/json/decoder.py", False),
        ("/srv/app/.venv/lib/python3.12/site-packages/flask/app.py", False),
        ("node:internal/modules/cjs/loader", False),
        ("/usr/local/go/src/runtime/proc.go", False),
        ("/rustc/90b35a6/library/std/src/rt.rs", False),
        ("../sysdeps/x86_64/start.S", False),
        ("/srv/app/lib/handlers.py", True),
        ("/home/a/node/server.js", True),
    ],
)
def test_files_of_runtimes_and_packages_are_known_by_their_paths(path: str, is_own: bool) -> None:
    assert is_own_source(path) == is_own
