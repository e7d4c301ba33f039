"""perfpy on a terminal of some size.

Input: a command line. Output: its exit status and the text that arrived at the terminal, of lines
that were written over (how far a long task is) what stood there in the end.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_START = "import sys; from perfpy.cli import main; main(sys.argv[1:])"
_DEADLINE = 60


class Shown(NamedTuple):
    """How a command ended, and what it showed."""

    status: int
    text: str


def on_terminal(
    *args: str,
    columns: int = 80,
    lines: int = 24,
    environment: dict[str, str] | None = None,
    watch: Callable[[int, str], bytes | None] = lambda pid, text: None,
) -> Shown:
    """Run a perfpy command with its own terminal as standard input, output and error.

    environment: besides the usual; watch: called with the process and what arrived, whenever something did; what it returns is typed.
    """
    child, master = pty.fork()
    if not child:
        settings = {"TERM": "xterm-256color", "PERF_CONFIG": "/dev/null", **(environment or {})}
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "PAGER", "PERF_PAGER", "LESS")}
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
        os.execve(sys.executable, [sys.executable, "-c", _START, *args], {**inherited, **settings})
    text = b""
    end = time.monotonic() + _DEADLINE
    try:
        while select.select([master], [], [], max(end - time.monotonic(), 0))[0]:
            try:
                piece = os.read(master, 1 << 16)
            except OSError:  # EIO: nobody has the terminal any more
                break
            text += piece
            if typed := watch(child, text.decode(errors="replace")):
                os.write(master, typed)
        else:
            os.kill(child, 9)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(master)
    rows = text.decode(errors="replace").replace("\r\n", "\n").split("\n")
    return Shown(status, "\n".join(line.rpartition("\r")[2] for line in rows))
