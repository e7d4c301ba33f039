"""The shortest way to an answer: `perfpy ./program` records a program with the stacks it needs and reports it; `perfpy` shows how."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Final

from perfpy.errors import KernelRefusedError, PerfError
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from perfpy.cli.line.options import PerfCommand

_PYTHON: Final = re.compile(r"python[\d.]*")
_COMPILES: Final = re.compile(r"(?:node(?:js)?|java|php[\d.]*|erl|beam\.smp|julia|mono|dotnet)(?:[\d.-].*)?")
_SCRIPT_LINE: Final = 256  # bytes of a script's first line that the kernel reads
_LAUNCHER: Final = "env"  # `#!/usr/bin/env python3`
FILE: Final = "perf.data"
#: what to type, and what for
_WAYS: Final = (
    ("perfpy ./program [ARGS]", "record a program, and tell where its time goes"),
    ("perfpy python3 app.py", "the same for a Python program: functions and lines"),
    ("perfpy record --unwind -p PID -- sleep 10", "record a running process; then perfpy report"),
    ("perfpy top", "show what runs on this machine now"),
    ("perfpy report", "show the last recording again (--tui: browse it)"),
    ("perfpy view", "show it as a page in the browser"),
    ("perfpy stat ./program", "count time, faults, switches, cycles"),
    ("perfpy --help", "all commands; perfpy help guide: by example"),
)


def first_steps() -> str:
    """Return the text of `perfpy` without arguments."""
    width = max(len(line) for line, _ in _WAYS)
    return "\n".join(["Where does the time go? To find out, type", "", *(f"  {line:{width}}  {purpose}" for line, purpose in _WAYS)])


def program_of(args: Sequence[str]) -> list[str]:
    """Return the command line of the program that the arguments name; empty if the first names no file that can be run.

    A Python script that is not executable is run by python3.
    """
    word = args[0] if args else ""
    if not word or word.startswith("-"):
        return []
    path = shutil.which(word)
    if path is not None and os.path.isfile(path):
        return [*args]
    return ["python3", *args] if word.endswith(".py") and os.path.isfile(word) and shutil.which("python3") else []


def run_program(command: Sequence[str]) -> int:
    """Record a program, then report it; print both commands, and return the program's exit status."""
    status = _record(command)
    arguments: list[str] = []
    print(f"perfpy report{_join_command(arguments)}", file=sys.stderr)
    if sys.stdout.isatty():
        from perfpy.cli.line.pager import page

        page("report")
    report_status = _command("report").run("report", arguments)
    return status or report_status


def _record(command: Sequence[str]) -> int:
    """Record with the most that the kernel allows. Raises PerfError."""
    refusal: PerfError | None = None
    for options in _ways_to_record(command):
        arguments = [*options, "-o", FILE, "--", *command]  # without -o, record writes into a pipe on standard output
        print(f"perfpy record{_join_command(arguments)}", file=sys.stderr)
        sys.stderr.flush()
        try:
            return _command("record").run("record", arguments)
        except KernelRefusedError as error:  # the program has not run yet
            refusal = error
    assert refusal is not None
    raise refusal


def _ways_to_record(command: Sequence[str]) -> Iterator[list[str]]:
    """Yield options of record, the best first."""
    stacks = stack_options(command[0])
    yield [*stacks, "--off-cpu"]
    yield stacks
    yield ["-g"]


def stack_options(program: str) -> list[str]:
    """Return the options that give a program's stacks names and callers, by its interpreter or virtual machine."""
    names = _runtime_names(program)
    if any(map(_PYTHON.fullmatch, names)):
        return ["--python"]
    return ["--jit"] if any(map(_COMPILES.fullmatch, names)) else ["--unwind"]


def _runtime_names(program: str) -> list[str]:
    """Return the possible names of the file that runs a program: its own, that of the file it links to, a script's interpreter."""
    path = shutil.which(program) or program
    names = [os.path.basename(path), os.path.basename(os.path.realpath(path))]
    try:
        with open_regular(path) as file:
            line = file.read(_SCRIPT_LINE).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        return names
    words = line.removeprefix("#!").split() if line.startswith("#!") else []
    interpreters = [os.path.basename(word) for word in words if not word.startswith("-") and "=" not in word]
    return names + [name for name in interpreters[:2] if name != _LAUNCHER]


def _command(name: str) -> PerfCommand[Any]:
    from perfpy.cli.dispatch.commands import load

    return load(name)


def _join_command(arguments: Sequence[str]) -> str:
    return "".join(f" {shlex.quote(word)}" for word in arguments)
