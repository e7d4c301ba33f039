"""Keys of terminals as names."""

from __future__ import annotations

import pytest

from perfpy.cli.top.terminal import split_keys

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
