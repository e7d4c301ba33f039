"""Colours of shares: perf's red for much, its green for something.

What enters: a share in percent. What leaves: a style of rich's, or the text
that shows the share, between the terminal's escape sequences where it is worth
a look.
"""

from __future__ import annotations

from typing import Final

_RED: Final = "[31m"
_GREEN: Final = "[32m"
_RESET: Final = "[m"
_MUCH: Final = 5.0
_SOMETHING: Final = 0.5


def coloured(percent: float, text: str, escape: str) -> str:
    """`text` in red from 5 % on, in green above 0.5 %, else as it is; escape: what a colour begins with."""
    size = abs(percent)  # differences count by their size
    if size <= _SOMETHING:
        return text
    return in_colour(_RED if size >= _MUCH else _GREEN, text, escape)


def in_colour(colour: str, text: str, escape: str) -> str:
    """`text` in a colour of the terminal; escape: what a colour begins with."""
    return f"{escape}{colour}{text}{escape}{_RESET}"


def style(percent: float) -> str:
    """The style of a share on a screen, as rich names it; "" for one that is not worth a look."""
    if percent >= _MUCH:
        return "bold red"
    return "green" if percent >= _SOMETHING else ""
