"""The command line: a click group that imports a command only when it is called, and the one error handler.

What enters: `sys.argv`. What leaves: an exit status. perf's own are kept: 129
for a wrong command line, 255 for a failure, 130 after Ctrl-C, 141 when the
reader of a pipe went away, otherwise what the command returns (the workload's
status). A failure is one line on stderr, `perfpy COMMAND: what, where, what to
try`; PERFPY_DEBUG=1 shows the traceback too.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from perfpy.errors import OutputFailed, PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Entry(NamedTuple):
    """A command before it is imported: the module that has it (as `command`), and its line in the help."""

    module: str
    help: str


COMMANDS = {
    "stat": Entry("perfpy.cli.stat", "run a program and count events"),
    "record": Entry("perfpy.cli.record", "run a program and record its profile into perf.data"),
    "report": Entry("perfpy.cli.report", "read perf.data and show the profile"),
    "script": Entry("perfpy.cli.script", "read perf.data and print every sample"),
    "list": Entry("perfpy.cli.list", "list the events of this machine"),
    "evlist": Entry("perfpy.cli.evlist", "list the events in a perf.data"),
    "version": Entry("perfpy.cli.version", "show the version, and which parts are there"),
    "help": Entry("perfpy.cli.help", "show the help of a command"),
}

_PERF_ONLY = frozenset(
    "annotate archive bench buildid-cache buildid-list c2c config daemon data diff ftrace inject iostat kallsyms kmem"
    " kvm kwork lock mem probe sched test timechart top trace".split()
)


class LazyGroup(click.Group):
    """`perfpy COMMAND ...`, from the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names."""
        name, *rest = args
        if name not in COMMANDS:
            raise UsageError(_unknown_command(name))
        return name, self.get_command(ctx, name), rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table in the help; imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _unknown_command(name: str) -> str:
    if name.startswith("-"):
        return f"unknown option {name}; perfpy --help lists what there is"
    if name in _PERF_ONLY:
        return f"'{name}' is a command of perf that perfpy does not have; perfpy --help lists those it has"
    import difflib  # only a mistyped command pays for it

    close = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "perfpy --help lists them"
    return f"'{name}' is not a perfpy command; {hint}"


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from perfpy import __version__

        click.echo(f"perfpy version {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    epilog="See 'perfpy COMMAND --help' for the options of a command.",
)
@click.option("-v", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="show the version")
@click.pass_context
def root(ctx: click.Context) -> int | None:
    """Count, record and report what programs do on Linux: perf, in Python."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return 1  # perf's, for a line without a command
    return None


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line (default: the process's own) and exit the process."""
    status = run(sys.argv[1:] if args is None else args)
    status = _flush(status)
    sys.exit(status)


def run(args: Sequence[str]) -> int:
    """Run a command line and return its exit status; whatever goes wrong is told on stderr in one line."""
    _prepare_output()
    context: click.Context | None = None
    try:
        with root.make_context("perfpy", list(args)) as context:
            return _status(root.invoke(context))
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except Exception as error:  # noqa: BLE001  # the last resort: one line instead of a traceback
        return _failed(context, error)
    except KeyboardInterrupt:
        return 130


def _prepare_output() -> None:
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for the life of the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files and symbols are bytes


def _status(value: Any) -> int:
    return value if isinstance(value, int) else 0


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _failed(context: click.Context | None, error: Exception) -> int:
    """Say what went wrong; the exit status that goes with it."""
    if isinstance(error, BrokenPipeError):
        return _reader_gone()
    if isinstance(error, OSError) and error.errno in _FULL and not error.filename:
        _discard_output()
        error = OutputFailed("standard output", os.strerror(error.errno))
    text, status = _explain(error)
    if os.environ.get("PERFPY_DEBUG", "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    command = context.invoked_subcommand if context is not None else None
    print(f"perfpy {command}: {text}" if command else f"perfpy: {text}", file=sys.stderr)
    return status


def _explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, PerfError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        text = error.format_message().rstrip(".")
        return text[:1].lower() + text[1:], UsageError.exit_code
    if isinstance(error, OSError) and error.strerror:
        return (f"{error.filename}: " if error.filename else "") + error.strerror, PerfError.exit_code
    if isinstance(error, MemoryError):
        return "out of memory", PerfError.exit_code
    return f"internal error: {type(error).__name__}: {error}; PERFPY_DEBUG=1 shows where", PerfError.exit_code


def _flush(status: int) -> int:
    """Bring out what is still buffered: the reader of a pipe may be gone, the disk may be full."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except OSError as error:
        return _failed(None, error)
    return status


def _reader_gone() -> int:
    _discard_output()
    return 141  # as a process that SIGPIPE ended


def _discard_output() -> None:
    """Keep the interpreter from flushing again what cannot be written."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
