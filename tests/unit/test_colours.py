"""Colours of screens are legible on light and on dark terminals."""

from __future__ import annotations

import ast
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import TerminalTheme

import perfpy

if TYPE_CHECKING:
    from rich.color_triplet import ColorTriplet

_VIEWS: Final = Path(perfpy.__file__).parent
_NAMES: Final = {"red", "green", "yellow", "blue", "magenta", "cyan", "white"}
#: 2.5 is low for long text; green marks only what signs or numbers say, too
_LEAST: Final = {"green": 1.9}
_XTERM: Final = [(0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)]
_LIGHT, _DARK = TerminalTheme((255, 255, 255), (0, 0, 0), _XTERM), TerminalTheme((0, 0, 0), (229, 229, 229), _XTERM)


@cache
def styles() -> dict[str, str]:
    """Return the styles with a colour in the source of the screens -> a file that uses them."""
    found: dict[str, str] = {}
    for path in chain((_VIEWS / "views").rglob("*.py"), (_VIEWS / "cli").rglob("*.py")):
        if "stacks" in path.parts:  # names of colours in exported files
            continue
        source = path.read_text()
        if not any(name in source for name in _NAMES):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 30:
                words = node.value.split()
                if words and set(words) & _NAMES and is_style(node.value):
                    found.setdefault(node.value, path.name)
    return found


def is_style(text: str) -> bool:
    try:
        return Style.parse(text).color is not None
    except Exception:  # noqa: BLE001  # a sentence
        return False


def luminance(color: ColorTriplet) -> float:
    parts = [value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in color]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: ColorTriplet, two: ColorTriplet) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [_LIGHT, _DARK], ids=["light", "dark"])
def test_colours_stand_out_from_the_background(theme: TerminalTheme) -> None:
    used = styles()
    assert {"magenta", "red", "green"} <= set(used)
    for text, file in used.items():
        style = Style.parse(text)
        front = (style.color or Color.default()).get_truecolor(theme)
        back = style.bgcolor.get_truecolor(theme) if style.bgcolor else theme.background_color
        least = _LEAST.get(text, 2.5)
        assert contrast(front, back) >= least, (text, file)
