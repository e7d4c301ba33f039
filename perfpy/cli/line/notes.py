"""Notes for people: what a report or a listing could not show, and what would help.

What enters: lines. What leaves: the same on standard error, where a person reads it: on a terminal, or with -v. What
perf says nothing of is not said to scripts, which take what stands there for an error.
"""

from __future__ import annotations

import sys

from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable


def are_read(*, quiet: bool, verbose: int) -> bool:
    """Whether a person reads notes: on a terminal, or asking for more."""
    return not quiet and (verbose > 0 or sys.stderr.isatty())


def tell(notes: Iterable[str], *, quiet: bool = False, verbose: int = 0) -> None:
    """Print notes, if anybody is there to read them."""
    if not are_read(quiet=quiet, verbose=verbose):
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
    from textwrap import wrap

    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return wrap(text, _width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [text]


def rows_of(notes: Iterable[str]) -> int:
    """How many rows of the screen notes take, words that are longer than a row with all theirs."""
    return sum(-(-len(line) // _width()) for note in notes for line in wrapped(note))


def _width() -> int:
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 1)
