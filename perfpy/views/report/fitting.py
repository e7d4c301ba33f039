"""Names in places that are too narrow for them: the middle goes, as the beginning and the end tell names apart.

What enters: names, and how many columns there are. What leaves: text that takes no more, wide characters counted as
terminals show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Sequence

CUT: Final = "…"
#: how much of what is kept is the beginning: of C++'s names the end says more, it is the function's; of others the beginning does
OF_FUNCTIONS: Final = 0.4
OF_OTHERS: Final = 0.7


def fitted(text: str, width: int, head: float = OF_FUNCTIONS) -> str:
    """The text within so many columns. head: how much of what is kept is the beginning.

    >>> fitted("std::__shared_count<…>::__shared_count(…)", 24)
    'std::__sh…red_count(…)'
    >>> fitted("main", 4), fitted("libstdc++.so.6", 1), fitted("main", 0)
    ('main', '…', '')
    """
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return CUT[:width]
    first = int((width - 1) * head)
    return f"{_start(text, first)}{CUT}{_start(text[::-1], width - 1 - first)[::-1]}"


def _start(text: str, width: int) -> str:
    """The first characters that fit; one too many is left out whole."""
    kept = text[:width]
    return kept if cell_len(kept) <= width else set_cell_size(text, width).rstrip(" ")


def fitted_path(names: Sequence[str], arrow: str, width: int) -> str:
    """Names one after another; where there is no room, some in the middle are only counted, and the last is shown longest.

    >>> fitted_path(["_start", "__libc_start_main", "main"], " → ", 40)
    '_start → __libc_start_main → main'
    >>> fitted_path(["_start", "__libc_start_main", "__libc_start_call_main", "main"], " → ", 30)
    '_start → (2 more) → main'
    """
    whole = arrow.join(names)
    if cell_len(whole) <= width or len(names) == 1:
        return fitted(whole, width)
    for left_out in range(1, len(names) - 1):
        text = arrow.join([*names[: -1 - left_out], f"({left_out} more)", names[-1]])
        if cell_len(text) <= width:
            return text
    last = fitted(names[-1], max(width // 2, width - cell_len(f"(99 more){arrow}")))
    return (
        f"({len(names) - 1} more){arrow}{last}" if cell_len(f"({len(names) - 1} more){arrow}{last}") <= width else fitted(names[-1], width)
    )
