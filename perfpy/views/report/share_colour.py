"""Colours of shares: perf's red and green.

Shares get a style of rich, or escape sequences around their text.
"""

from __future__ import annotations

from perfpy.abi.light_types import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final


_RED: Final = "[31m"
_GREEN: Final = "[32m"
_RESET: Final = "[m"
_MUCH: Final = 5.0
_SOMETHING: Final = 0.5


def colour_share(percent: float, text: str, escape: str) -> str:
    """Return `text` in red from 5 %, in green above 0.5 %, else unchanged; escape: the beginning of escape sequences."""
    size = abs(percent)  # differences may be negative
    if size <= _SOMETHING:
        return text
    return in_colour(_RED if size >= _MUCH else _GREEN, text, escape)


def in_colour(colour: str, text: str, escape: str) -> str:
    """Return `text` in a colour of the terminal; escape: the beginning of escape sequences."""
    return f"{escape}{colour}{text}{escape}{_RESET}"


def style(percent: float) -> str:
    """Return rich's style of a share; "" for small ones."""
    if percent >= _MUCH:
        return "bold red"
    return "green" if percent >= _SOMETHING else ""
