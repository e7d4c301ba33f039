"""Keys of terminals as names, and lines that command no terminal."""

from __future__ import annotations

import pytest

from perfpy.cli.top.terminal import KeyTerminal, split_keys

ESC = chr(27)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("ab", ["a", "b"]),
        (f"{ESC}[A{ESC}[B{ESC}OA", ["up", "down", "up"]),
        (f"{ESC}[5~{ESC}[6~{ESC}[H{ESC}[F", ["pageup", "pagedown", "home", "end"]),
        (ESC, ["escape"]),
        (f"{ESC}q", ["escape", "q"]),
        (f"{ESC}[1;5Cx", ["x"]),  # an unknown key
        (f"{ESC}[", []),
        ("\r\t\x7f\x03", ["enter", "tab", "backspace", "ctrl+c"]),
        ("é", ["é"]),
    ],
)
def test_keys_have_names(text: str, keys: list[str]) -> None:
    assert list(split_keys(text)) == keys


@pytest.mark.parametrize("style", ["", "1", "31"])
def test_texts_of_lines_do_not_command_the_terminal(style: str) -> None:
    """Messages of errors can contain names of files."""
    terminal = object.__new__(KeyTerminal)
    terminal._coloured = True
    paint = terminal._paint([(f"{ESC}]0;title\x07 \u202e\n", style)])
    assert paint.removeprefix(f"{ESC}[{style}m").removesuffix(f"{ESC}[0m") == "^[]0;title^G \\u202e^J"


def test_lines_of_a_longer_screen_are_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    """The help is shorter than the screen that it replaces."""
    terminal = object.__new__(KeyTerminal)
    terminal._coloured, terminal._lines = False, []
    terminal.draw([[("one", "")], [("two", "")], [("three", "")]])
    capsys.readouterr()
    terminal.draw([[("one", "")]])
    assert capsys.readouterr().out == f"{ESC}[2;1H{ESC}[K{ESC}[3;1H{ESC}[K"
