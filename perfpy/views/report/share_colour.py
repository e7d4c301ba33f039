"""Colours of shares in plain text: perf's red for much, its green for something.

What enters: a share in percent and the text that shows it. What leaves: the
text, between the terminal's escape sequences where it is worth a look.
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
