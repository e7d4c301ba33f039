"""Run programs: `perfpy script -s FILE`, `--py`, `-g`, `-l`, and scripts of an installed perf: `script NAME`, `record NAME`, `report NAME`.

perf's scripts are pairs of shell scripts, NAME-record and NAME-report. They call `perf`, which is replaced by this program.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Final

from perfpy.cli.commands import load_command
from perfpy.errors import PerfError, UsageError
from perfpy.untrusted.destinations import write_whole
from perfpy.untrusted.files import read_regular
from perfpy.untrusted.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.recording import Recording
    from perfpy.views.script.run import ScriptRun
    from perfpy.views.scripting.program import ScriptProgram
    from perfpy.views.scripting.run import ColumnRun, ScriptedRun


_FOLDERS: Final = ("/usr/lib/perf-core", "/usr/libexec/perf-core", "/usr/local/lib/perf-core", "/usr/local/libexec/perf-core")
_PERL: Final = "perfpy does not run Perl; perfpy script -l lists perf's scripts in Python"
_STARTED: Final = "perf-script.py"  # perf's name for the starter program
_LONGEST: Final = 1 << 20  # bytes of a shell script
_HALVES: Final = ("record", "report")
_LANGUAGES: Final = ("python", "Python", "py")
_FAILED: Final = 255


def exec_path() -> str:
    """Return the folder of an installed perf's scripts; "" if there is none."""
    own = os.environ.get("PERF_EXEC_PATH", "")
    if own:
        return own
    beside = os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("perf") or "/nowhere/at/all")))
    folders = [*_FOLDERS, os.path.join(beside, "lib", "perf-core"), os.path.join(beside, "libexec", "perf-core")]
    return next((folder for folder in folders if os.path.isdir(os.path.join(folder, "scripts"))), "")


def list_scripts() -> int:
    """Print the available scripts, as perf does, without those in Perl."""
    print("List of available trace scripts:")
    for name, args, description in _descriptions():
        print(f"  {one_line(f'{name} {args}'.strip() if args else name):<36} {one_line(description)}")
    return 0


def _descriptions() -> Iterator[tuple[str, str, str]]:
    """Yield name, arguments and description of each script, in the folder's order."""
    folder = os.path.join(exec_path(), "scripts", "python", "bin")
    try:
        files = [file for file in os.listdir(folder) if file.endswith("-report")]
    except OSError:
        return
    for file in files:
        fields = {"description": "", "args": ""}
        try:
            lines = read_regular(os.path.join(folder, file), limit=_LONGEST).decode(errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            head, colon, text = line.lstrip("# ").partition(":")
            if line.startswith("#") and colon and head.strip() in fields:
                fields[head.strip()] = text.strip()
        yield file.removesuffix("-report"), fields["args"], fields["description"]


def script_file(script: str) -> str:
    """Return the file of -s [LANGUAGE:]FILE, or of a perf script by its name. Raises PerfError for other languages than Python."""
    language, colon, file = script.partition(":")
    if not colon or os.path.exists(script):
        language, file = "", script
    if language in ("perl", "Perl", "pl") or file.endswith(".pl"):
        raise PerfError(_PERL)
    if language and language not in _LANGUAGES:
        raise PerfError(f"-s {script}: scripts must be in Python: python:FILE, or FILE.py")
    if not os.path.exists(file) and os.path.basename(file) == file:
        own = os.path.join(exec_path(), "scripts", "python", file.removesuffix(".py") + ".py")
        return own if os.path.exists(own) else file
    return file


def run_script(recording: Recording, run: ScriptRun, script: str, args: Sequence[str]) -> int:
    """Call a script's functions for the recording's samples; return its exit status."""
    from perfpy.views.scripting.program import ScriptProgram, context_module
    from perfpy.views.scripting.run import ScriptedRun

    scripted = ScriptedRun(recording, run, _on_screen() or str)
    return _run_program(scripted, ScriptProgram(script_file(script), args, [context_module(scripted.context)], exec_path()))


def run_on_columns(part: Recording, script: str, args: Sequence[str]) -> int:
    """Call a script's functions for columns of the samples left by where() (--py); return its exit status."""
    from perfpy.views.scripting.program import ScriptProgram
    from perfpy.views.scripting.run import ColumnRun

    return _run_program(ColumnRun(part, part.samples.in_batches(), part.side_band()), ScriptProgram(script, args, [], exec_path()))


def _run_program(scripted: ScriptedRun | ColumnRun, program: ScriptProgram) -> int:
    import signal

    from perfpy.views.scripting.program import ScriptFailedError

    interrupted = signal.signal(signal.SIGINT, lambda _number, _frame: _stop(scripted))
    try:
        scripted.go(program)
    except ScriptFailedError as failure:
        sys.stdout.flush()
        print(failure.traceback, end="", file=sys.stderr)
        raise
    except SystemExit as asked_to:
        return _status(asked_to.code)
    finally:
        signal.signal(signal.SIGINT, interrupted)
        program.flush_files()
    return 0


def _stop(scripted: ScriptedRun | ColumnRun) -> None:
    """Stop reading at the first Ctrl-C; the second one ends the script."""
    import signal

    scripted.stop()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _status(code: object) -> int:
    """Return the exit status of sys.exit(code), as Python does."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _on_screen() -> Callable[[str], str] | None:
    """Prepare a terminal for a script; return the function that escapes the recording's names, None if there is no terminal.

    Scripts may move the cursor and use colours; names from the recording may not.
    """
    from perfpy.untrusted.terminal import Painted, Terminal

    if not isinstance(sys.stdout, Terminal):
        return None
    from perfpy.cli.line.pager import finish

    finish()  # scripts' output is not paged
    sys.stdout = Painted(sys.stdout)
    return visible


def start_script(recording: Recording, language: str) -> int:
    """Write a starter program (-g)."""
    from perfpy.views.scripting.program import starter

    name = language if language.endswith(".py") else _STARTED
    if language not in _LANGUAGES and name != language:
        raise PerfError(_PERL if language == "perl" else f"-g {language}: scripts must be in Python: -g python, or -g FILE.py")
    write_whole(name, starter(recording).encode())
    print(f"generated Python script: {name}", file=sys.stderr)
    return 0


def run_named(words: Sequence[str], *, everywhere: bool) -> int:
    """Run `script [record|report] NAME ARGS`; without record or report, both joined by a pipe. everywhere: -a, all CPUs."""
    half = words[0] if words[0] in _HALVES else ""
    operands = words[1:] if half else words
    if not operands:
        raise UsageError(f"script {half} requires a script; perfpy script -l lists the scripts")
    name, args = operands[0], list(operands[1:])
    halves = {half_name: _shell_script(name, half_name) for half_name in ([half] if half else _HALVES)}
    record_args = args if half else args[_required_arguments(halves["report"]) :]
    if half != "report":
        record_args = ["-a"] * (everywhere or not _has_program(record_args)) + record_args
    if half:
        os.execv("/bin/sh", _shell(halves[half], record_args if half == "record" else args))
    report_args = args[: len(args) - len(record_args)] if len(record_args) <= len(args) else args[: _required_arguments(halves["report"])]
    return _run_pipe(_shell(halves["record"], ["-q", "-o", "-", *record_args]), _shell(halves["report"], [*report_args, "-i", "-"]))


def _shell_script(name: str, half: str) -> str:
    """Return the path of NAME-record or NAME-report. Raises UsageError if there is none, PerfError if it is in Perl."""
    if os.sep not in name:
        path = os.path.join(exec_path(), "scripts", "python", "bin", f"{name}-{half}")
        if os.path.isfile(path):
            return path
        if os.path.isfile(os.path.join(exec_path(), "scripts", "perl", "bin", f"{name}-{half}")):
            raise PerfError(_PERL)
    where = exec_path()
    hint = "perfpy script -l lists the scripts" if where else "no installed perf found; set PERF_EXEC_PATH"
    raise UsageError(f"no script {one_line(name)!r}; {hint}; use -s FILE for a file of your own")


def _shell(script: str, args: Sequence[str]) -> list[str]:
    """Return the command that runs one of perf's shell scripts with this program as `perf`; -P ignores modules in the current folder."""
    os.environ["PERF_EXEC_PATH"] = exec_path()
    return ["/bin/sh", "-c", f'perf() {{ {shlex.quote(sys.executable)} -P -m perfpy "$@"; }}; . "$0"', script, *args]


def _required_arguments(report: str) -> int:
    """Return the number of arguments that a report requires: those in <> in its args line."""
    name = os.path.basename(report).removesuffix("-report")
    return next((args.count("<") for script, args, _ in _descriptions() if script == name), 0)


def _has_program(args: Sequence[str]) -> bool:
    """Whether a program follows the options of record."""
    return bool(load_command("record").parser(args).words) if args else False


def _run_pipe(record: Sequence[str], report: Sequence[str]) -> int:
    """Run both halves, joined by a pipe; return the report's exit status."""
    import signal
    import subprocess

    signal.signal(signal.SIGINT, lambda _number, _frame: None)  # Ctrl-C reaches both halves, which end by themselves
    with subprocess.Popen(record, stdout=subprocess.PIPE) as recorder:
        status = subprocess.run(report, stdin=recorder.stdout, check=False).returncode
        if recorder.stdout:
            recorder.stdout.close()
    return status if status >= 0 else _FAILED
