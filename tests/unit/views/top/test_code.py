"""The code of a function on the screen of perfpy top."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perfpy.disassembly.objdump import CodeStyle
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.top.code import CodeView
from perfpy.views.top.rates import Subject
from perfpy.views.top.screen import Request, TopScreen
from tests.builders.annotated import program, recording, stand_in

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.annotation.annotated import AnnotatedFunction


@pytest.fixture
def function(tmp_path: Path) -> AnnotatedFunction:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())
    (tmp_path / "perf.data").write_bytes(recording())
    with Recording(str(tmp_path / "perf.data")) as opened:
        annotation = opened.annotate("spin", symbols=SymbolOptions(symfs=str(tmp_path), cache=False))
        return annotation.function(style=CodeStyle(program=str(stand_in(tmp_path))))


def texts(view: CodeView | TopScreen, width: int = 60, height: int = 24) -> list[str]:
    return ["".join(text for text, _ in line).rstrip() for line in view.lines(width, height)]


def chosen(view: CodeView) -> str:
    (line,) = (line for line in view.lines(60, 24) if line and line[0][1] == "7")
    return re.sub(r"[┌└─▶│]", "", line[0][0]).split()[2]


def test_the_code_stands_between_title_and_keys_with_heat_in_colour(function: AnnotatedFunction) -> None:
    view = CodeView(function)
    lines = view.lines(60, 24)
    assert len(lines) == 24
    assert lines[0] == [("spin  spin  76.92%  10 samples", "1")]
    assert texts(view)[1:4] == ["              while (--n)", " 10.00%       1010  nop", " 60.00% ┌▶    1011  dec    %rdi"]
    assert (" 20.00%", "1;31") in lines[5]  # a third of the hottest line
    assert "q Esc back" in texts(view)[-1]


def test_keys_move_follow_jumps_and_go_by_heat(function: AnnotatedFunction) -> None:
    view = CodeView(function)
    assert chosen(view) == "dec"  # the hottest
    steps = (("n", "jne"), ("enter", "dec"), ("up", "nop"), ("end", "ret"), ("H", "dec"), ("p", "ret"))
    for key, line in steps:
        assert view.press(key)
        assert chosen(view) == line, key
    view.press("enter")
    assert texts(view)[-1] == "no jump within the function at this line"


def test_source_lines_are_hidden_and_the_cursor_stays(function: AnnotatedFunction) -> None:
    view = CodeView(function)
    view.press("s")
    assert "while (--n)" not in "".join(texts(view))
    assert chosen(view) == "dec"


@pytest.mark.parametrize("height", [1, 2, 3, 5])
def test_small_screens_show_the_cursor(height: int, function: AnnotatedFunction) -> None:
    view = CodeView(function)
    for key in ("end", "home", "down", "pagedown", "pageup"):
        view.press(key)
        assert len(view.lines(10, height)[:height]) == height
        if height > 2:
            assert any(line and line[0][1] == "7" for line in view.lines(10, height))


def test_the_screen_shows_code_until_q(function: AnnotatedFunction) -> None:
    screen = TopScreen(Subject("cpu-clock", 4000, True, True, "", "", "", "", 2))
    assert screen.press("a") is None
    assert "no rows yet" in texts(screen)[-1]
    screen.show_code(function)
    assert texts(screen)[0].startswith("spin  spin")
    assert screen.press("a") == Request("code", "spin", "spin")
    assert screen.press("ctrl+c") == Request("quit")
    assert screen.press("q") is None
    assert "waiting for the first samples" in texts(screen)[0]
