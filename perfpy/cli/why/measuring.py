"""Record what `perfpy why` explains: switches, wakeups, futex calls and samples of all CPUs, by `perfpy record`.

All CPUs are recorded, not only the process: other processes use its CPUs, and end its waits.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.system_calls.numbers import numbers_by_name
from perfpy.cli.line.options import fail
from perfpy.cli.record.command import command, make_recorder
from perfpy.cli.record.options import RecordCommandOptions
from perfpy.untrusted.folders import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.why.tasks import StartedCommand
    from perfpy.cli.why.options import WhyCommandOptions

_STACK: Final = "call-graph=dwarf,stack-size={size}"
_STACK_SIZE: Final = 4096
_PYTHON_STACK_SIZE: Final = 16384  # the interpreter's own calls use more
_NO_STACK: Final = "call-graph=no"
_FREQUENCY: Final = 499  # samples a second
_PAGES: Final = 8192  # of the ring buffers of all CPUs
_FEWEST_PAGES: Final = 1024  # of one
_MOST_PAGES: Final = 4096
_CALLS: Final = (
    *("futex", "nanosleep", "clock_nanosleep", "wait4", "waitid", "fsync", "fdatasync", "sync", "syncfs", "msync", "flock"),
    *("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "recvfrom", "recvmsg", "accept", "accept4", "connect"),
)


def check_processes(pids: list[int]) -> None:
    """Reject processes that do not exist."""
    for pid in pids:
        if not os.path.isdir(f"/proc/{pid}"):
            fail(f"-p {pid}: no such process")


def record_and_explain(options: WhyCommandOptions, explain: Callable[[str, StartedCommand], None]) -> int:
    """Record a command or processes, explain the recording, and return the command's exit status."""
    from perfpy.analysis.why.tasks import StartedCommand

    with temporary_folder("perfpy-why-") as folder:
        path = options.output or f"{folder}/perf.data"
        arguments = [*_arguments(path, python=options.python), *_target(options)]
        summary = make_recorder(RecordCommandOptions.read(command.parser(arguments))).run()
        explain(path, StartedCommand(os.getpid(), summary.pid, options.workload[0] if options.workload else ""))
    return summary.exit_code


def _target(options: WhyCommandOptions) -> list[str]:
    if options.workload:
        return ["--", *options.workload]
    if options.duration:
        return ["--", "sleep", str(options.duration)]
    return []


def _pages() -> int:
    """Return the size of a ring buffer: a power of two that leaves room for a busy machine, on which the recorder has to wait for a CPU."""
    pages = _MOST_PAGES
    while pages > _FEWEST_PAGES and pages * (os.cpu_count() or 1) > _PAGES:
        pages //= 2
    return pages


def _arguments(path: str, *, python: bool) -> list[str]:
    """Return the arguments of `perfpy record`, without the target."""
    numbers = numbers_by_name(os.uname().machine)
    filter_text = " || ".join(f"id == {numbers[name]}" for name in _CALLS if name in numbers)
    arguments = ["-q", "-a", "-m", str(_pages()), "--unwind", "--unwind-late", "-o", path]
    arguments += ["--python"] if python else []
    stack = _STACK.format(size=_PYTHON_STACK_SIZE if python else _STACK_SIZE)
    arguments += ["-e", f"sched:sched_switch/period=1,{stack}/", "-e", f"sched:sched_waking/period=1,{stack}/"]
    arguments += ["-e", f"sched:sched_wakeup_new/period=1,{_NO_STACK}/", "-e", f"raw_syscalls:sys_enter/period=1,{_NO_STACK}/"]
    arguments += ["--filter", filter_text] if filter_text else []
    return [*arguments, "-e", f"cpu-clock/freq={_FREQUENCY},{stack}/"]
