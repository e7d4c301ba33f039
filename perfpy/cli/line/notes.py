"""Notes for people: what a report or a listing could not show, and what would help.

What enters: lines. What leaves: the same on standard error, where a person reads it: on a terminal, or with -v. What
perf says nothing of is not said to scripts, which take what stands there for an error.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable


def tell(notes: Iterable[str], *, quiet: bool = False, verbose: int = 0) -> None:
    """Print notes, if anybody is there to read them."""
    if quiet or not (verbose or sys.stderr.isatty()):
        return
    sys.stdout.flush()
    for note in notes:
        print("\n".join(wrapped(note)), file=sys.stderr)


def wrapped(note: str) -> list[str]:
    """The lines of a note: on a terminal, broken between words, as many as it takes."""
    from perfpy.cli.line.terminal import is_screen

    text = one_line(note)
    if not is_screen(sys.stderr):
        return [text]
    from shutil import get_terminal_size
    from textwrap import wrap

    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return wrap(text, get_terminal_size().columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [text]
