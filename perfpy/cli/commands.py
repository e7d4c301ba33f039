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
    pages: on a terminal, what does not fit the screen goes through a pager.
    """

    __slots__ = ("help", "module", "pages", "raises")

    def __init__(self, module: str, help: str, *, raises: bool = False, pages: bool = False) -> None:
        self.module = module
        self.help = help
        self.raises = raises
        self.pages = pages


COMMANDS = {
    "stat": Entry("perfpy.cli.stat.command", "run a program and count events"),
    "record": Entry("perfpy.cli.record.command", "run a program and record its profile into perf.data"),
    "report": Entry("perfpy.cli.report.command", "read perf.data and show the profile", pages=True),
    "view": Entry("perfpy.cli.view", "show the profile as a page in the browser"),
    "annotate": Entry("perfpy.cli.annotate.command", "show the code of hot functions, with the samples at each instruction", pages=True),
    "diff": Entry("perfpy.cli.diff.command", "show what changed between recordings", pages=True),
    "script": Entry("perfpy.cli.script.command", "read perf.data and print every sample", pages=True),
    "list": Entry("perfpy.cli.list", "list the events of this machine", pages=True),
    "evlist": Entry("perfpy.cli.evlist", "list the events in a perf.data", pages=True),
    "buildid-list": Entry("perfpy.cli.build_id_list", "list the build-ids of a perf.data's files", pages=True),
    "buildid-cache": Entry("perfpy.cli.build_id_cache", "look after the files kept by build-id", raises=True),
    "inject": Entry("perfpy.cli.inject", "add code of JIT compilers, or build-ids, to a perf.data"),
    "archive": Entry("perfpy.cli.archive", "put the files that a recording needs into one, for another machine"),
    "data": Entry("perfpy.cli.data", "convert a perf.data into JSON"),
    "export": Entry("perfpy.cli.export", "write recordings as tables (Parquet) for databases"),
    "config": Entry("perfpy.cli.config", "show or change what is set in perf's configuration files"),
    "check": Entry("perfpy.cli.check", "tell whether a feature of perf is there"),
    "version": Entry("perfpy.cli.version", "show the version, and which parts are there"),
    "help": Entry("perfpy.cli.help", "show the help of a command", pages=True),
}
#: what programs call, and no help shows
HIDDEN = {"complete": Entry("perfpy.cli.complete", "say what may stand where somebody types in a shell")}


def load(name: str) -> PerfCommand[Any]:
    """Import a command of the tables."""
    module = (COMMANDS.get(name) or HIDDEN[name]).module
    __import__(module)  # as importlib.import_module, which takes longer to import than most commands
    command: PerfCommand[Any] = sys.modules[module].command
    return command
