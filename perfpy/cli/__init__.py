"""Run a command line, and handle its errors.

Exit statuses are perf's: 129 for a wrong command line, 255 for a failure, 130 after Ctrl-C, 141 if the reader of a pipe is gone,
otherwise the command's (the workload's status). A failure is one line on stderr, `perfpy COMMAND: what, where, what to try`;
PERFPY_DEBUG=1 adds the traceback.

Ctrl-C ends a command at once and silently, as it ends perf, from the first line of the script `perfpy` on. An exception could
interrupt an import, whose modules then fail in other ways. Code that must complete or remove something catches the signal
itself for that time (record, stat, result files). A command is imported when it is called, and click only for help.

The start of `list`, `stat` and `report --header-only` is measured against perf's. Importing the standard library's typing, re,
contextlib and enum would be a third of it. Modules that these commands load therefore keep three rules, which
tests/test_architecture.py checks:

  - names for annotations come from an import for type checkers only, by
    this idiom (`from typing import TYPE_CHECKING` is an import):

        TYPE_CHECKING = False  # see perfpy.cli
        if TYPE_CHECKING:
            from typing import Any, Final

    or with TYPE_CHECKING of perfpy.abi.light_types;
  - a small value is a class with __slots__ or perfpy.abi.light_types's NamedTuple, not typing's or a dataclass;
  - imports that only some calls need stand in the function that needs them.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

from perfpy.cli.commands import COMMANDS, HIDDEN, load_command

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDED_BY_SIGPIPE = 141
_OBJECTS_BEFORE_COLLECTION = 100_000  # modules and tables of a small report are 50,000, and one collection costs 3 % of its time


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line (default: the process's own) and exit the process.

    Garbage is collected less often, and the memory is left to the operating system at the end: short commands would spend much of
    their time on both.
    """
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    _set_ctrl_c(raises=False)
    status = run(sys.argv[1:] if args is None else args, owns_process=True)
    _leave_pager()
    atexit._run_exitfuncs()  # noqa: SLF001  # os._exit skips these; they remove temporary files
    sys.stderr.flush()
    os._exit(status)


def _leave_pager() -> None:
    """Show text held for a pager, or wait until the person leaves the pager."""
    if pager := sys.modules.get("perfpy.cli.line.pager"):
        pager.finish()


def _set_ctrl_c(*, raises: bool) -> None:
    """Let Ctrl-C end the process, as perf does, or raise. An ignored Ctrl-C (a background job of a script) stays ignored."""
    import _signal  # type: ignore[import-not-found]  # signal wraps it in enums, which takes as long as printing a header

    if _signal.getsignal(_signal.SIGINT) in (_signal.default_int_handler, _signal.SIG_DFL):
        _signal.signal(_signal.SIGINT, _signal.default_int_handler if raises else _signal.SIG_DFL)


def run(args: Sequence[str], *, owns_process: bool = False) -> int:
    """Run a command line and return its exit status; print any error on stderr in one line.

    owns_process: the process exists for this line only, so the command's treatment of Ctrl-C is set.
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
        status = _print_error(name, error)
    except KeyboardInterrupt:
        status = 130
    return _flush(name, status)


def _options_before_command(args: Sequence[str]) -> tuple[Sequence[str], int | None]:
    """Return the arguments from the command on, and the exit status if the options before it complete the line."""
    if not args or not args[0].startswith("-"):
        return args, None
    from perfpy.cli import top_level as global_options

    return global_options.read(args)


def _dispatch(name: str, args: Sequence[str]) -> int:
    if name:
        if args[1:2] == ["--list-opts"]:
            from perfpy.cli.top_level import list_options

            return list_options(name)
        if name in COMMANDS and COMMANDS[name].pages and sys.stdout.isatty():
            from perfpy.cli.line.pager import page

            page(name)
        return load_command(name).run(name, args[1:])
    if _may_name_program(args):
        from perfpy.cli import record_and_report

        if not args:
            print(record_and_report.first_steps())
            return 1  # perf's status for a line without a command
        if command := record_and_report.program_of(args):
            return record_and_report.record_and_report_program(command)
        if pids := record_and_report.processes_of(args):
            return record_and_report.record_and_report_processes(pids, args[1] if len(args) > 1 else record_and_report.DESCENDANTS)
        record_and_report.refuse_file(args[0])
    from perfpy.cli import top_level

    return top_level.run([*args])  # the attribute `list` may be the command's module


def _may_name_program(args: Sequence[str]) -> bool:
    """Whether a line without a known command may name a program: perfpy was not called as perf, whose command it is not either."""
    from perfpy.cli.line.examples import in_place_of_perf
    from perfpy.cli.top_level import ALTERNATIVES

    return not in_place_of_perf() and (not args or args[0] not in ALTERNATIVES)


def _prepare_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # The parent closed it. Its number must not be reused by a file of ours.
            nowhere = os.open(os.devnull, os.O_RDWR)  # not inherited by a workload
            setattr(sys, name, open(nowhere, mode))  # noqa: SIM115  # for the life of the process
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # Names of files and symbols keep their bytes.
            if stream.isatty():
                from perfpy.untrusted.terminal import guard_terminal

                setattr(sys, name, guard_terminal(stream))


def _print_error(name: str, error: Exception) -> int:
    """Print the error that ends a command as one line, and return the exit status that it has in perf. name is the command, or ""."""
    import errno  # rarely needed

    from perfpy.cli.line.examples import program, use_program_name_in_commands
    from perfpy.errors import OutputFailedError
    from perfpy.untrusted.text import one_line

    if isinstance(error, BrokenPipeError):  # the reader of standard output is gone
        _discard_output()
        return _ENDED_BY_SIGPIPE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and not error.filename:
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
    from perfpy.errors import PerfError  # rarely needed

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


def _flush(name: str, status: int) -> int:
    """Flush standard output: the reader of a pipe may be gone, or the disk full."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _print_error(name, error)
    return status
