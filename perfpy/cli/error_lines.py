"""Print the error that ends a command as one line: what, where, what to try. PERFPY_DEBUG=1 adds the traceback."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

from perfpy.cli.commands import COMMANDS
from perfpy.cli.line.examples import program, use_program_name_in_commands
from perfpy.errors import OutputFailedError, PerfError
from perfpy.untrusted.text import one_line

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ENDED_BY_SIGPIPE: Final = 141


def print_error(name: str, error: Exception) -> int:
    """Print the error, and return the exit status that it has in perf. name is the command, or ""."""
    if isinstance(error, BrokenPipeError):  # the reader of standard output is gone
        _discard_output()
        return _ENDED_BY_SIGPIPE
    if isinstance(error, OSError) and error.errno in _FULL and not error.filename:
        _discard_output()
        error = OutputFailedError("standard output", os.strerror(error.errno))
    if os.environ.get("PERFPY_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    text, status = _explain(error)
    caller = program()
    text = use_program_name_in_commands(one_line(text), COMMANDS)
    print(f"{caller} {name}: {text}" if name else f"{caller}: {text}", file=sys.stderr)
    return status


def _explain(error: Exception) -> tuple[str, int]:
    """Return the line and the exit status of an error."""
    if isinstance(error, PerfError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        return (f"{error.filename}: " if error.filename else "") + error.strerror, PerfError.exit_code
    if isinstance(error, MemoryError):
        return "out of memory", PerfError.exit_code
    return f"internal error: {type(error).__name__}: {error}; PERFPY_DEBUG=1 prints the traceback", PerfError.exit_code


def _discard_output() -> None:
    """Keep the interpreter from flushing standard output again."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
