"""Properties of the output: colour, width, plain text or a view for people.

They depend on `--stdio` and `--stdio-color`, the environment (NO_COLOR, TERM, COLUMNS), and whether standard output is a
terminal. No other module decides them.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import islice

from perfpy.errors import plural
from perfpy.untrusted.text import lines as one_line_each
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO, Final

    from perfpy.cli.output.screen_console import ScreenConsole
    from perfpy.fleet.portable_profile import RecordingProblem
    from perfpy.fleet.recordings import Recordings

_LINES_AT_ONCE = 1000


def is_screen(stream: IO[str]) -> bool:
    """Whether the stream is a terminal that can overwrite a line (TERM=dumb cannot)."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def is_terminal() -> bool:
    """Whether standard output is a terminal (TERM=dumb is not)."""
    return is_screen(sys.stdout)


def wants_plain(*, stdio: bool) -> bool:
    """Whether to print perf's plain text: with --stdio, or if standard output is no terminal."""
    return stdio or not is_terminal()


def wants_colour(mode: str = "auto") -> bool:
    """Whether to colour. mode is --stdio-color's "always", "never" or "auto" (a terminal, and NO_COLOR unset or empty)."""
    if mode in ("always", "never"):
        return mode == "always"
    return is_terminal() and not os.environ.get("NO_COLOR")


def colour_start(mode: str = "auto") -> str:
    """Return the start of a colour sequence for standard output; "" for no colours. mode is as in wants_colour."""
    from perfpy.untrusted.terminal import escape_of

    return escape_of(sys.stdout) if wants_colour(mode) else ""


def width(default: int = 80) -> int:
    """Return the terminal's columns (COLUMNS takes precedence); `default` if there is no terminal."""
    import shutil  # click has loaded it

    return shutil.get_terminal_size((default, 24)).columns


def console(file: IO[str] | None = None) -> ScreenConsole:
    """Return a rich console for a stream (default: standard output) that escapes control characters in names."""
    from perfpy.cli.output.screen_console import ScreenConsole  # 30 ms: only for the views on a terminal

    return ScreenConsole(file or sys.stdout, colour=wants_colour())


def wrap_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, on a terminal wrapped to its width, with indented continuation lines; a third of it is the deepest indentation."""
    if not is_terminal():
        yield from lines
        return
    from textwrap import wrap

    columns = width()
    for line in lines:
        text = line.lstrip()
        indent = " " * min(len(line) - len(text), columns // 3)
        following = f"{indent}  "
        yield from (
            [line]
            if len(line) <= columns
            else wrap(text, columns, initial_indent=indent, subsequent_indent=following, break_long_words=False, break_on_hyphens=False)
        )


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that contain names: escaped to one line each on a terminal, and perf's bytes in pipes and files."""
    if is_terminal():
        sys.stdout.writelines(one_line_each(lines))
        return
    remaining = iter(lines)
    while some := [*islice(remaining, _LINES_AT_ONCE)]:
        sys.stdout.write("\n".join([*some, ""]))


def notes_are_read(*, quiet: bool, verbose: int) -> bool:
    """Whether a person reads notes: stderr is a terminal, or -v is given.

    Notes are printed on a terminal or with -v only. Scripts take text on stderr for errors, so they get no text that perf does not print.
    """
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


#: Exit status of a command whose result lacks some of its recordings.
SOME_FAILED: Final = 91


def warn_of_failed_recordings(groups: Sequence[Recordings], *, quiet: bool) -> int:
    """Print a line on stderr for each recording that could not be read, wholly or in part. Return the exit status: 0 if all were read."""
    for recordings in () if quiet else groups:
        for path, text in _merge_equal(recordings.warnings):
            print(one_line(f"Warning: {path}: {text}"), file=sys.stderr)
        for path, reason in recordings.failed:
            print(one_line(f"Warning: {path}: skipped: {reason}"), file=sys.stderr)
    return SOME_FAILED if any(recordings.failed for recordings in groups) else 0


def _merge_equal(warnings: Sequence[RecordingProblem]) -> Iterator[tuple[str, str]]:
    """Yield each different warning once, with the first path and the number of others."""
    paths_of_text: dict[str, list[str]] = {}
    for path, text in warnings:
        paths_of_text.setdefault(text, []).append(path)
    for text, paths in paths_of_text.items():
        yield paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more", text


# A progress line on stderr for tasks that take longer than a second; none if stderr is no terminal.


_PATIENCE: Final = 1.0
_INTERVAL: Final = 0.2


class TaskProgress:
    """A line on stderr about a task. The context is a function to call with the completed share (0 to 1); None without a terminal."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._next = time.monotonic() + _PATIENCE
        self._width = 0

    def __enter__(self) -> Callable[[float], None] | None:
        return self._show if is_screen(sys.stderr) else None

    def __exit__(self, *error: object) -> None:
        from perfpy.untrusted.terminal import control

        if self._width:
            control(sys.stderr, f"\r{' ' * self._width}\r")
            sys.stderr.flush()

    def _show(self, share: float) -> None:
        from perfpy.untrusted.terminal import control

        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        text = f"{self._task}: {share:4.0%}"
        self._width = len(text)
        control(sys.stderr, f"\r{text}")
        sys.stderr.flush()
