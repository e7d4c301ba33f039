"""Notes for people on stderr: gaps of a report or listing, and remedies.

Notes are printed on a terminal or with -v only. Scripts take text on stderr for errors, so they get no text that perf does not print.
"""

from __future__ import annotations

import sys

from perfpy.plurals import plural
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def notes_are_read(*, quiet: bool, verbose: int) -> bool:
    """Whether a person reads notes: stderr is a terminal, or -v is given."""
    return not quiet and (verbose > 0 or sys.stderr.isatty())


def print_notes(notes: Iterable[str], *, quiet: bool = False, verbose: int = 0) -> None:
    """Print notes, if a person reads them."""
    if not notes_are_read(quiet=quiet, verbose=verbose):
        return
    sys.stdout.flush()
    for note in notes:
        print("\n".join(wrap_note(note)), file=sys.stderr)


def wrap_note(note: str) -> list[str]:
    """Return the lines of a note, wrapped to the terminal's width."""
    from perfpy.cli.output.terminal import is_screen

    text = one_line(note)
    if not is_screen(sys.stderr):
        return [text]
    from textwrap import wrap

    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return wrap(text, _width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [text]


def fit_notes(notes: Sequence[str], rows: int) -> list[str]:
    """Return the first notes that fit into the rows of a screen, and a note on the others."""
    count = len(notes)
    while count and rows_of([*notes[:count], *_others(len(notes) - count)]) > rows:
        count -= 1
    return [*notes[:count], *_others(len(notes) - count)]


def _others(count: int) -> list[str]:
    return [f"{count} more {plural(count, 'note')}: -v shows {plural(count, 'it', 'them')}"] if count else []


def rows_of(notes: Iterable[str]) -> int:
    """Return the number of screen rows that notes take."""
    return sum(-(-len(line) // _width()) for note in notes for line in wrap_note(note))


def _width() -> int:
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 1)
