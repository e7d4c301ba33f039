"""The table of commands: where each is, before it is imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any

    from perfpy.cli.line.options import PerfCommand


class Entry:
    """A command before it is imported: the module that has it (as `command`), and its line in the help.

    raises: Ctrl-C is an exception in it; otherwise it ends the process where it is.
    """

    __slots__ = ("help", "module", "raises")

    def __init__(self, module: str, help: str, *, raises: bool = False) -> None:
        self.module = module
        self.help = help
        self.raises = raises


COMMANDS = {
    "stat": Entry("perfpy.cli.stat.command", "run a program and count events"),
    "record": Entry("perfpy.cli.record.command", "run a program and record its profile into perf.data"),
    "report": Entry("perfpy.cli.report.command", "read perf.data and show the profile"),
    "diff": Entry("perfpy.cli.diff", "show what changed between recordings"),
    "script": Entry("perfpy.cli.script", "read perf.data and print every sample"),
    "list": Entry("perfpy.cli.list", "list the events of this machine"),
    "evlist": Entry("perfpy.cli.evlist", "list the events in a perf.data"),
    "buildid-list": Entry("perfpy.cli.build_id_list", "list the build-ids of a perf.data's files"),
    "buildid-cache": Entry("perfpy.cli.build_id_cache", "look after the files kept by build-id", raises=True),
    "inject": Entry("perfpy.cli.inject", "add code of JIT compilers, or build-ids, to a perf.data"),
    "version": Entry("perfpy.cli.version", "show the version, and which parts are there"),
    "help": Entry("perfpy.cli.help", "show the help of a command"),
}
#: what programs call, and no help shows
HIDDEN = {"complete": Entry("perfpy.cli.complete", "say what may stand where somebody types in a shell")}


def load(name: str) -> PerfCommand[Any]:
    """Import a command of the tables."""
    module = (COMMANDS.get(name) or HIDDEN[name]).module
    __import__(module)  # as importlib.import_module, which takes longer to import than most commands
    command: PerfCommand[Any] = sys.modules[module].command
    return command
