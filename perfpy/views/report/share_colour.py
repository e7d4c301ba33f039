"""Colours of shares: perf's red for much, its green for something.

What enters: a share in percent. What leaves: a style of rich's, or the text
that shows the share, between the terminal's escape sequences where it is worth
a look.
"""

from __future__ import annotations

from typing import Final

_RED: Final = "\x1b[31m"
_GREEN: Final = "\x1b[32m"
_RESET: Final = "\x1b[m"
_MUCH: Final = 5.0
_SOMETHING: Final = 0.5


def coloured(percent: float, text: str) -> str:
    """`text` in red from 5 % on, in green above 0.5 %, else as it is; differences count by their size."""
    size = abs(percent)
    if size >= _MUCH:
        return _RED + text + _RESET
    return _GREEN + text + _RESET if size > _SOMETHING else text


def style(percent: float) -> str:
    """The style of a share on a screen, as rich names it; "" for one that is not worth a look."""
    if percent >= _MUCH:
        return "bold red"
    return "green" if percent >= _SOMETHING else ""
