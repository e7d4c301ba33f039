"""The command line: how one is run, and the one error handler.

What enters: `sys.argv`. What leaves: an exit status. perf's own are kept: 129
for a wrong command line, 255 for a failure, 130 after Ctrl-C, 141 when the
reader of a pipe went away, otherwise what the command returns (the workload's
status). Ctrl-C ends a command at once and in silence, as it ends perf, from
the first line of the script `perfpy` on: an exception could come in the middle
of an import, whose modules then tell of anything but Ctrl-C. What has
something to complete or to remove catches the signal itself, for as long as it
has (record, stat, files of results). A failure is one line on stderr, `perfpy COMMAND: what, where, what to
try`; PERFPY_DEBUG=1 shows the traceback too. A command is imported when it is
called, and click only for help and for lines that name no command.

The start of `list`, `stat` and `report --header-only` is measured against
perf's own, and importing the standard library's typing, re, contextlib and
enum would be a third of it. So the modules that these load keep three rules,
which tests/test_architecture.py holds:

  - names for annotations come from an import that only type checkers read, for
    which they know this idiom (`from typing import TYPE_CHECKING` is an import):

        TYPE_CHECKING = False  # see perfpy.cli
        if TYPE_CHECKING:
            from typing import Any, Final

  - a small value is a class with __slots__ or perfpy.abi.startup's NamedTuple, not typing's or a dataclass;
  - what only some calls need is imported in the function that needs it.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys

from perfpy.cli.commands import COMMANDS, HIDDEN, load
from perfpy.errors import OutputFailedError, PerfError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OBJECTS_BEFORE_COLLECTION = 50_000


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line (default: the process's own) and exit the process.

    Two things are for the start-up time, of which a short command has little
    else: garbage is collected less often, and at the end the memory is left
    to the operating system instead of being taken apart object by object.
    """
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    _set_ctrl_c(raises=False)
    status = run(sys.argv[1:] if args is None else args, owns_process=True)
    _leave_pager()
    atexit._run_exitfuncs()  # noqa: SLF001  # what os._exit leaves out: temporary files, above all
    sys.stderr.flush()
    os._exit(status)


def _leave_pager() -> None:
    """Show what is held for a pager, or wait until the person leaves it."""
    if pager := sys.modules.get("perfpy.cli.line.pager"):
        pager.finish()


def _set_ctrl_c(*, raises: bool) -> None:
    """Let it end the process, as perf does, or raise; where it is ignored (a job of a script, in the background) it stays so."""
    import _signal  # type: ignore[import-not-found]  # what signal makes enums of, which takes as long as a header does

    if _signal.getsignal(_signal.SIGINT) in (_signal.default_int_handler, _signal.SIG_DFL):
        _signal.signal(_signal.SIGINT, _signal.default_int_handler if raises else _signal.SIG_DFL)


def run(args: Sequence[str], *, owns_process: bool = False) -> int:
    """Run a command line and return its exit status; whatever goes wrong is told on stderr in one line.

    owns_process: the process is there for this line alone, so what Ctrl-C does is set as the command wants it.
    """
    _prepare_streams()
    name = ""
    try:
        args, status = _options_before_command(args)
        if status is None:
            name = args[0] if args and (args[0] in COMMANDS or args[0] in HIDDEN) else ""
            if owns_process and name in COMMANDS and COMMANDS[name].raises:
                _set_ctrl_c(raises=True)
            status = _dispatch(name, args)
    except Exception as error:  # noqa: BLE001  # the last resort: one line instead of a traceback
        status = _failed(name, error)
    except KeyboardInterrupt:
        status = 130
    return _flush(name, status)


def _options_before_command(args: Sequence[str]) -> tuple[Sequence[str], int | None]:
    """The arguments from the command on, and the exit status where the options before it are all that was asked."""
    if not args or not args[0].startswith("-"):
        return args, None
    from perfpy.cli import global_options

    return global_options.read(args)


def _dispatch(name: str, args: Sequence[str]) -> int:
    if name:
        if args[1:2] == ["--list-opts"]:
            from perfpy.cli.global_options import list_options

            return list_options(name)
        if name in COMMANDS and COMMANDS[name].pages and sys.stdout.isatty():
            from perfpy.cli.line.pager import page

            page(name)
        return load(name).run(name, args[1:])
    from perfpy.cli import group  # click: 30 ms

    return group.run([*args])  # `list` may be the command's module here


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us: its number must not become that of a file of ours
            nowhere = os.open(os.devnull, os.O_RDWR)  # a workload does not get it
            setattr(sys, name, open(nowhere, mode))  # noqa: SIM115  # for the life of the process
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # names of files and symbols leave as they came: bytes
            if stream.isatty():
                from perfpy.untrusted.terminal import guarded

                setattr(sys, name, guarded(stream))


def _failed(name: str, error: Exception) -> int:
    """Say what went wrong; the exit status that goes with it. name: the command, or ""."""
    if isinstance(error, BrokenPipeError):
        return _reader_gone()
    if isinstance(error, OSError) and error.errno in _FULL and not error.filename:
        _discard_output()
        error = OutputFailedError("standard output", os.strerror(error.errno))
    if os.environ.get("PERFPY_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    from perfpy.cli.line.called import commands_as_called, program
    from perfpy.untrusted.text import one_line

    text, status = _explain(error)
    caller = program()
    text = commands_as_called(one_line(text), COMMANDS)
    print(f"{caller} {name}: {text}" if name else f"{caller}: {text}", file=sys.stderr)
    return status


def _explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, PerfError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        return (f"{error.filename}: " if error.filename else "") + error.strerror, PerfError.exit_code
    if isinstance(error, MemoryError):
        return "out of memory", PerfError.exit_code
    return f"internal error: {type(error).__name__}: {error}; PERFPY_DEBUG=1 shows where", PerfError.exit_code


def _flush(name: str, status: int) -> int:
    """Bring out what is still buffered: the reader of a pipe may be gone, the disk may be full."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _failed(name, error)
    return status


def _reader_gone() -> int:
    _discard_output()
    return 141  # as a process that SIGPIPE ended


def _discard_output() -> None:
    """Keep the interpreter from flushing again what cannot be written."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
