"""What the output may look like: colour, width, plain text or a view for people.

What enters: the options `--stdio` and `--stdio-color`, the environment
(NO_COLOR, TERM, COLUMNS) and where standard output leads. What leaves: yes,
no, or a number of columns. Nobody else asks.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

    from perfpy.cli.line.screen_console import ScreenConsole


def is_screen(stream: IO[str]) -> bool:
    """Whether a person sees what is written there, on a terminal that can write over a line (TERM=dumb cannot)."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def is_terminal() -> bool:
    """Whether a person reads standard output (TERM=dumb counts as not)."""
    return is_screen(sys.stdout)


def wants_plain(*, stdio: bool) -> bool:
    """Whether to print perf's plain text: asked for by --stdio, or standard output is no terminal."""
    return stdio or not is_terminal()


def wants_colour(mode: str = "auto") -> bool:
    """Whether to colour: mode is `--stdio-color`'s "always", "never" or "auto" (a terminal, and NO_COLOR unset or empty)."""
    if mode in ("always", "never"):
        return mode == "always"
    return is_terminal() and not os.environ.get("NO_COLOR")


def colour_start(mode: str = "auto") -> str:
    """What a colour on standard output begins with; "" for no colours. mode: as in wants_colour."""
    from perfpy.untrusted.terminal import escape_of

    return escape_of(sys.stdout) if wants_colour(mode) else ""


def width(default: int = 80) -> int:
    """Columns of the terminal (COLUMNS wins); `default` where there is none."""
    import shutil  # click has it loaded

    return shutil.get_terminal_size((default, 24)).columns


def console(file: IO[str] | None = None) -> ScreenConsole:
    """A rich console for a stream (default: standard output), on which names are shown and not obeyed."""
    from perfpy.cli.line.screen_console import ScreenConsole  # 30 ms: only for the views on a terminal

    return ScreenConsole(file or sys.stdout, colour=wants_colour())


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that hold names: on a terminal each is one line, whatever the names are; in pipes and files they are perf's bytes."""
    from perfpy.untrusted.text import lines as one_line_each

    sys.stdout.writelines(one_line_each(lines) if is_terminal() else (f"{line}\n" for line in lines))
