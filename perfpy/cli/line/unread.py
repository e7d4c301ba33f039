"""Which of many recordings could not be read.

What enters: recordings that were folded. What leaves: lines on standard error, and the exit status that says it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.fleet.portable import Unread
    from perfpy.fleet.recordings import Recordings

#: of a result that lacks some of the recordings that were named
SOME_UNREAD: Final = 91


def tell_unread(groups: Sequence[Recordings], *, quiet: bool) -> int:
    """Name those that were left out, and those of which only a part was read; the exit status, 0 where all were read."""
    for recordings in () if quiet else groups:
        for path, text in _together(recordings.warnings):
            print(one_line(f"Warning: {path}: {text}"), file=sys.stderr)
        for path, reason in recordings.unread:
            print(one_line(f"Warning: {path}: left out: {reason}"), file=sys.stderr)
    return SOME_UNREAD if any(recordings.unread for recordings in groups) else 0


def _together(warnings: Sequence[Unread]) -> Iterator[tuple[str, str]]:
    """Who is warned of, and what: recordings of which the same is to be said are one line."""
    of_text: dict[str, list[str]] = {}
    for path, text in warnings:
        of_text.setdefault(text, []).append(path)
    for text, paths in of_text.items():
        yield paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more", text
