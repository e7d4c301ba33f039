"""The table of commands, read before any command is imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any

    from perfpy.cli.line.option_parsing import PerfCommand


class Entry:
    """A command before its import.

    Args:
        module: defines the command.
        help: its line in the help.
        raises: Ctrl-C raises KeyboardInterrupt; otherwise it ends the process at once.
        pages: on a terminal, output longer than the screen goes through a pager.
        name: the command's name in the module.
    """

    __slots__ = ("help", "module", "name", "pages", "raises")

    def __init__(self, module: str, help: str, *, raises: bool = False, pages: bool = False, name: str = "command") -> None:
        self.module = module
        self.name = name
        self.help = help
        self.raises = raises
        self.pages = pages


COMMANDS = {
    "stat": Entry("perfpy.cli.stat.command", "run a program and count events"),
    "record": Entry("perfpy.cli.record", "run a program and record its profile into perf.data"),
    "top": Entry("perfpy.tools.top.command", "show what runs now, as a live profile"),
    "trace": Entry("perfpy.tools.trace.command", "print system calls as they happen, or from a recording"),
    "stacks": Entry("perfpy.tools.stacks", "print what the threads of a process do or wait for now", raises=True),
    "leaks": Entry("perfpy.tools.leaks.command", "show which lines hold or keep memory, at the peak and at the end", raises=True),
    "report": Entry("perfpy.cli.report.command", "read perf.data and show the profile", pages=True),
    "view": Entry("perfpy.cli.view", "show the profile in the browser"),
    "annotate": Entry("perfpy.cli.annotate", "show the code of hot functions with samples per instruction", pages=True),
    "diff": Entry("perfpy.cli.diff", "compare recordings and mark changes beyond noise", pages=True),
    "script": Entry("perfpy.cli.script", "read perf.data and print every sample", pages=True),
    "sched": Entry("perfpy.tools.sched.command", "show scheduling delays and context switches of threads", pages=True),
    "lock": Entry("perfpy.tools.lock", "show waits for the kernel's locks"),
    "kwork": Entry("perfpy.tools.kwork.command", "show interrupts and work queues of the kernel, and their delays", pages=True),
    "kmem": Entry("perfpy.tools.kmem.command", "show the memory that the kernel allocates", pages=True),
    "timechart": Entry("perfpy.tools.timechart.command", "draw what CPUs and tasks did over time"),
    "why": Entry("perfpy.tools.why.command", "explain why a program is slow, and which thread waits for which", pages=True),
    "mem": Entry("perfpy.tools.mem.command", "show memory accesses: latency, data, and what served them", pages=True),
    "c2c": Entry("perfpy.tools.mem.c2c", "show cache lines that CPUs take from each other", pages=True),
    "kvm": Entry("perfpy.tools.kvm", "show why virtual CPUs exit to the host, and for how long", pages=True),
    "ftrace": Entry("perfpy.tools.ftrace", "trace the kernel's functions with its function tracers"),
    "list": Entry("perfpy.cli.list", "list the events of this machine", pages=True),
    "evlist": Entry("perfpy.cli.evlist", "list the events in a perf.data", pages=True),
    "buildid-list": Entry("perfpy.cli.build_ids", "list the build-ids of a perf.data's files", pages=True, name="list_command"),
    "buildid-cache": Entry("perfpy.cli.build_ids", "manage the build-id cache", raises=True, name="cache_command"),
    "probe": Entry("perfpy.tools.probe.command", "probe functions and lines of programs and the kernel", pages=True),
    "latency": Entry("perfpy.tools.latency", "show how long the calls of a function take"),
    "inject": Entry("perfpy.cli.inject", "add JIT-compiled code or build-ids to a perf.data"),
    "archive": Entry("perfpy.cli.archive", "pack the files that a recording needs"),
    "data": Entry("perfpy.cli.export", "convert a perf.data into JSON", name="data_command"),
    "export": Entry("perfpy.cli.export", "write recordings as Parquet tables"),
    "config": Entry("perfpy.cli.config", "show or change perf's configuration files"),
    "check": Entry("perfpy.cli.version", "check whether a perf feature is available", name="check_command"),
    "version": Entry("perfpy.cli.version", "show the version and the available features"),
    "help": Entry("perfpy.cli.help_command", "show the help of a command or a topic", pages=True),
}
#: Commands for programs, hidden in the help.
HIDDEN = {"complete": Entry("perfpy.cli.complete", "print completions for a shell")}


def load_command(name: str) -> PerfCommand[Any]:
    """Import a command of the tables."""
    entry = COMMANDS.get(name) or HIDDEN[name]
    __import__(entry.module)  # importlib.import_module would cost more than most commands
    command: PerfCommand[Any] = getattr(sys.modules[entry.module], entry.name)
    return command
