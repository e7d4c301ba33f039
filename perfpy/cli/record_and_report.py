"""Record and report in one step: `perfpy ./program` or `perfpy PID` records and reports; `perfpy` shows how."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.commands import load_command
from perfpy.errors import KernelRefusedError, PerfError, UsageError, plural
from perfpy.kernel.procfs import ProcFs, read_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.runtimes.known_runtimes import LanguageRuntime


_SECONDS: Final = 10  # of recording a running process
_MOMENT: Final = 0.3  # seconds without work after which a process is taken to wait
_LOOK: Final = 0.02  # seconds between two looks at it
_WORK: Final = 0.03  # of the moment: threads that wake up regularly use less, also those of runtimes
_READY: Final = 0.5  # of the looks: a thread that runs or is ready to is seen more rarely in a process that waits
_KILLED: Final = 128  # plus the number of a signal: an exit status
_DIGITS: Final = 10  # of the largest process number, and to spare
FILE: Final = "perf.data"
DESCENDANTS: Final = "--descendants"
WITHOUT_DESCENDANTS: Final = "--no-descendants"
_PYTHON: Final = "--python"
_MOST_RUNNING: Final = 4  # processes whose threads are shown before they are recorded
_MOST_LOOKED_AT: Final = 100  # descendants, for an interpreter
_MAGIC: Final = b"PERFILE2"  # the beginning of a perf.data
_BRIEF: Final = "--brief"  # not in the printed command: it changes messages only
#: what to type, and what for
_WAYS: Final = (
    ("perfpy ./program [ARGS]", "record a program, and show where its time goes"),
    ("perfpy python3 app.py", "the same for a Python program: functions and lines"),
    ("perfpy PID", f"the same for a running process, for {_SECONDS} seconds"),
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


def refuse_file(word: str) -> None:
    """Raise UsageError if the first word is a path, but of no program."""
    if os.path.isdir(word):
        raise UsageError(f"{word} is a directory; perfpy {word.rstrip('/')}/PROGRAM records a program in it")
    if os.path.isfile(word):
        if "/" not in word and os.access(word, os.X_OK):
            raise UsageError(f"{word} is not in PATH; perfpy ./{word} records the program in this folder")
        if _is_recording(word):
            raise UsageError(f"{word} is a recording; perfpy report -i {word} shows it")
        raise UsageError(f"{word} is not executable; run chmod +x {word}, or name its interpreter: perfpy INTERPRETER {word}")
    if "/" in word or word.endswith(".py"):
        raise UsageError(f"{word}: no such file; perfpy ./program records a program")


def _is_recording(path: str) -> bool:
    from perfpy.untrusted.files import open_regular

    try:
        with open_regular(path, limit=sys.maxsize) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def processes_of(args: Sequence[str]) -> list[int]:
    """Return the processes that the arguments name by their numbers (12 or 12,13). Raises PerfError if one does not run.

    The option that leaves out their children may follow.
    """
    words = args[0].split(",") if len(args) == 1 or [*args[1:]] == [WITHOUT_DESCENDANTS] else [""]
    if not all(word.isdecimal() and len(word) <= _DIGITS for word in words):
        return []
    pids = [*map(int, words)]
    for pid in pids:
        if not os.path.exists(f"/proc/{pid}"):
            raise PerfError(f"no process {pid} is running; perfpy top shows the running ones")
    return pids


def record_and_report_program(command: Sequence[str]) -> int:
    """Record a program, then report it; print both commands, and return the program's exit status."""
    from perfpy.capture.runtimes.known_runtimes import runtimes_of

    return _record_and_report(stack_options(runtimes_of(command)), ["--", *command])


def record_and_report_processes(pids: Sequence[int], option: str = DESCENDANTS) -> int:
    """Record running processes for ten seconds, or until Ctrl-C, then report them; print both commands, and return the exit status.

    option: DESCENDANTS or WITHOUT_DESCENDANTS.
    """
    stacks, target = _running_target(pids, option)
    return _record_and_report(stacks, target)


def record_processes(pids: Sequence[int]) -> int:
    """Record running processes as `perfpy PID` does, for another command than report; return the exit status."""
    return _record(*_running_target(pids, DESCENDANTS))


def _running_target(pids: Sequence[int], option: str) -> tuple[list[str], list[str]]:
    """Return the options of stacks and the target of a recording of running processes; print what hanging ones wait for."""
    from perfpy.capture.runtimes.attaching import runtime_of_process

    _refuse_foreign(pids)
    descendants = sorted(ProcFs().descendants(pids)) if option == DESCENDANTS else []
    print_first_answer(pids, descendants, option)
    stacks = stack_options(filter(None, map(runtime_of_process, (*pids, *descendants[:_MOST_LOOKED_AT]))))
    names = f"{plural(len(pids), 'process', 'processes')} {', '.join(map(str, pids))}"
    if descendants:
        names += f" and {len(descendants)} {plural(len(descendants), 'child', 'children')}"
    print(f"recording {names} for {_SECONDS} seconds; Ctrl-C shows the report earlier", file=sys.stderr)
    is_default = (option == DESCENDANTS) == (_PYTHON in stacks) or not (descendants or option == WITHOUT_DESCENDANTS)
    return stacks, [*([] if is_default else [option]), "-p", ",".join(map(str, pids)), "--", "sleep", str(_SECONDS)]


def _refuse_foreign(pids: Sequence[int]) -> None:
    """Raise PerfError for a process of another user that the kernel does not let this user measure, with any event."""
    from perfpy.abi.attr import EventAttr
    from perfpy.abi.flags import PerfType, SoftwareId
    from perfpy.kernel.syscalls import is_of_another_user, perf_event_open

    attr = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, exclude_kernel=1, exclude_hv=1)
    for pid in pids:
        try:
            os.close(perf_event_open(attr, pid, -1))
        except KernelRefusedError as refusal:
            if is_of_another_user(refusal):
                raise PerfError(f"{refusal.cause}; {refusal.remedy}") from refusal


def print_first_answer(pids: Sequence[int], descendants: Sequence[int], option: str) -> None:
    """Print what the threads that run do now, or all stacks if hardly anything runs: long before a recording ends."""
    every = [*pids, *descendants]
    begin = time.monotonic()
    first = ran = _run_time(every)
    looks = ready = 0
    while first.is_known and time.monotonic() < begin + _MOMENT:  # a process that works is recorded at once
        time.sleep(_LOOK)
        ran = _run_time(every)
        looks, ready = looks + 1, ready + ran.is_ready
        if ran.time - first.time > _WORK * _MOMENT * 1e9:
            _print_running(every)
            return
    if not first.is_known or not ran.is_known:
        return
    if ready > _READY * looks:  # it waits for a CPU
        _print_running(every)
    else:
        words = [*([] if option == DESCENDANTS else [option]), *map(str, pids)]
        amount = "nothing" if ran.time == first.time and not ready else "hardly anything"
        print(f"{amount} ran in the last {_MOMENT} s; perfpy stacks {' '.join(words)}", file=sys.stderr)
        sys.stderr.flush()
        _print_stacks(words)


def _print_stacks(words: Sequence[str]) -> None:
    with suppress(PerfError):  # the recording comes all the same
        load_command("stacks").run("stacks", [*words])
        print(flush=True)


def _print_running(pids: Sequence[int]) -> None:
    """Print a line for each thread that runs or is ready to, of the first processes that have one."""
    running = [pid for pid in pids if _run_time([pid]).is_ready][:_MOST_RUNNING]
    _print_stacks(["--running", *map(str, running or pids[:1])])


class _RunTime(NamedTuple):
    """What the threads of processes did until now.

    Attributes:
        time: nanoseconds on CPUs.
        is_ready: whether one runs or is ready to.
        is_known: whether there are threads, and the kernel counts their time.
    """

    time: int
    is_ready: bool
    is_known: bool


def _run_time(pids: Sequence[int]) -> _RunTime:
    procfs = ProcFs()
    total, is_ready, is_known = 0, False, False
    for pid in pids:
        for tid in procfs.threads(pid):
            fields = procfs.read(f"{pid}/task/{tid}/stat", 4096).rpartition(b") ")[2]
            ran = procfs.read(f"{pid}/task/{tid}/schedstat", 4096).partition(b" ")[0]
            is_ready |= fields[:1] == b"R"
            is_known |= ran.isdigit()
            total += int(ran) if ran.isdigit() else 0
    return _RunTime(total, is_ready, is_known)


def _record_and_report(stacks: Sequence[str], target: Sequence[str]) -> int:
    status = _record(stacks, target)
    if status and target[0] == "--":
        print(f"perfpy: {target[1]} {_ending(status)}", file=sys.stderr)
    # without -i, report reads a standard input that is a pipe
    arguments = [] if sys.stdin is not None and sys.stdin.isatty() else ["-i", FILE]
    print(f"perfpy report{_join_command(arguments)}", file=sys.stderr)
    sys.stderr.flush()
    if sys.stdout.isatty():
        from perfpy.cli.line.pager import page

        page("report")
    else:  # the sentences that a screen begins with, before perf's text
        load_command("report").run("report", [*arguments, "--verdict"])
        print(flush=True)
    report_status = load_command("report").run("report", arguments)
    return status or report_status


def _ending(status: int) -> str:
    """Return how a program ended, by the exit status that a shell has for it."""
    number = status - _KILLED
    name = signal.strsignal(number) if 0 < number < signal.NSIG else None
    return f"was ended by signal {number} ({name})" if name else f"exited with status {status}"


def _record(stacks: Sequence[str], target: Sequence[str]) -> int:
    """Record with the most that the kernel allows. Raises PerfError."""
    refusal: PerfError | None = None
    for options in ([*stacks, "--off-cpu"], stacks, ["-g"]):  # the best first
        arguments = [*options, "-o", FILE, *target]  # without -o, record writes into a pipe on standard output
        print(f"perfpy record{_join_command(arguments)}", file=sys.stderr)
        sys.stderr.flush()
        try:
            return load_command("record").run("record", [_BRIEF, *arguments])
        except KernelRefusedError as error:  # the program has not run yet
            refusal = error
            if target[0] != "--" and (ended := _ended(target[target.index("-p") + 1].split(","))):
                raise PerfError(f"process {ended} has ended") from error
    assert refusal is not None
    raise refusal


def _ended(pids: Sequence[str]) -> str:
    """Return the first one of some processes if all have ended, also if their parents do not know yet; "" otherwise."""
    states = [read_state(int(pid), int(pid)) for pid in pids]
    return pids[0] if all(state is None or state.letter in "ZX" for state in states) else ""


def stack_options(runtimes: Iterable[LanguageRuntime]) -> list[str]:
    """Return the options that give the stacks of a program names and callers, by its interpreters or virtual machines."""
    from perfpy.capture.runtimes.known_runtimes import PYTHON, reads_frames

    kinds = {runtime is PYTHON and reads_frames() for runtime in runtimes}
    return [option for option, is_python in ((_PYTHON, True), ("--jit", False)) if is_python in kinds] or ["--unwind"]


def _join_command(arguments: Sequence[str]) -> str:
    return "".join(f" {shlex.quote(word)}" for word in arguments)
