"""Properties of the output: colour, width, plain text or a view for people.

They depend on `--stdio` and `--stdio-color`, the environment (NO_COLOR, TERM, COLUMNS), and whether standard output is a
terminal. No other module decides them.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from perfpy.cli.output.screen_console import ScreenConsole


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
    """Yield the lines, on a terminal wrapped to its width, with indented continuation lines."""
    if not is_terminal():
        yield from lines
        return
    from textwrap import wrap

    columns = width()
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        whole = len(line) <= columns
        yield from [line] if whole else wrap(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that contain names: escaped to one line each on a terminal, and perf's bytes in pipes and files."""
    from perfpy.untrusted.text import lines as one_line_each

    sys.stdout.writelines(one_line_each(lines) if is_terminal() else (f"{line}\n" for line in lines))
