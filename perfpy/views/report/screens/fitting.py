"""Shorten names in the middle: their beginnings and ends distinguish them.

Widths are in columns of terminals; wide characters take two.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Sequence

CUT: Final = "…"
_OMITTED: Final = re.compile(r"<…>|\(…\)| \[clone [^\]]*\]")
#: share of the beginning in what is kept: C++ names differ at the end, in the function; others at the beginning
OF_FUNCTIONS: Final = 0.4
OF_OTHERS: Final = 0.7


def fit_text(text: str, width: int, head: float = OF_FUNCTIONS) -> str:
    """Shorten text to a number of columns; head: the share of the beginning in what is kept.

    >>> fit_text("std::__shared_count<…>::__shared_count(…)", 24)
    'std::__sh…hared_count(…)'
    >>> fit_text("main", 4), fit_text("libstdc++.so.6", 1), fit_text("main", 0)
    ('main', '…', '')
    """
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return CUT[:width]
    first = int((width - 1) * head)
    return f"{_start(text, first)}{CUT}{_start(text[::-1], width - 1 - first)[::-1]}"


def fit_function(name: str, width: int) -> str:
    """Shorten the name of a function: arguments that are omitted anyway, and clones, give way first.

    >>> fit_function("v8::internal::StringTable::LookupKey<…>(…)", 38)
    'v8::internal::StringTable::LookupKey'
    >>> fit_function("copy<…>(…) [clone .isra.0]", 20), fit_function("main(…)", 7)
    ('copy', 'main(…)')
    """
    return name if cell_len(name) <= width else fit_text(_OMITTED.sub("", name), width)


def _start(text: str, width: int) -> str:
    """Return the first characters that fit."""
    start = text[:width]
    return start if cell_len(start) <= width else set_cell_size(text, width).rstrip(" ")


def fitted_path(names: Sequence[str], arrow: str, width: int) -> str:
    """Join names; without enough room, some in the middle are only counted, and the last is kept longest.

    >>> fitted_path(["_start", "__libc_start_main", "main"], " → ", 40)
    '_start → __libc_start_main → main'
    >>> fitted_path(["_start", "__libc_start_main", "__libc_start_call_main", "main"], " → ", 30)
    '_start → (2 more) → main'
    """
    whole = arrow.join(names)
    if cell_len(whole) <= width or len(names) == 1:
        return fit_text(whole, width)
    for left_out in range(1, len(names) - 1):
        text = arrow.join([*names[: -1 - left_out], f"({left_out} more)", names[-1]])
        if cell_len(text) <= width:
            return text
    last = fit_text(names[-1], max(width // 2, width - cell_len(f"(99 more){arrow}")))
    return (
        f"({len(names) - 1} more){arrow}{last}"
        if cell_len(f"({len(names) - 1} more){arrow}{last}") <= width
        else fit_text(names[-1], width)
    )
