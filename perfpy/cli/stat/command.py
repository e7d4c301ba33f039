"""`perfpy stat`: run a program, or attach to tasks or CPUs, and count events; `stat record` and `stat report`.

The counts go to stderr (or -o, --log-fd) as perf's text, CSV or JSON, or to a file. The exit status is the program's.
"""

from __future__ import annotations

from perfpy.cli.line.options import PerfCommand
from perfpy.cli.line.shared import names_probe
from perfpy.cli.stat.options import StatCommandOptions

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

_SUBCOMMANDS: Final = ("record", "report")
_SHORTEST_PREFIX: Final = 3


class StatCommand(PerfCommand[StatCommandOptions]):
    """The command, whose first word may be `record` or `report` (or a prefix of three letters or more)."""

    def run(self, name: str, args: Sequence[str]) -> int:
        """Read the arguments and run the command; options may stand on both sides of the word."""
        parser = self.parser(args)
        index = len(args) - len(parser.words)
        word = args[index] if parser.words and (not index or args[index - 1] != "--") else ""
        for subcommand in _SUBCOMMANDS if len(word) >= _SHORTEST_PREFIX else ():
            if subcommand.startswith(word):
                if subcommand == "record":
                    return record.run("stat record", [*args[:index], *args[index + 1 :]])
                from perfpy.cli.stat.report import command as report
                from perfpy.cli.stat.report import require_options_of_report

                require_options_of_report(parser)
                return report.run("stat report", [*args[:index], *args[index + 1 :]])
        return super().run(name, args)


def _stat(options: StatCommandOptions) -> int:
    """Run a program and count events.

    `perfpy stat record` writes the counts to a file, `perfpy stat report` shows them.
    """
    if any(map(names_probe, options.event)):
        from perfpy.cli.probe.temporary_probes import run_with_probes  # needs numpy and debug information

        return run_with_probes(options, _measure)
    return _measure(options)


def _measure(options: StatCommandOptions) -> int:
    from perfpy.cli.stat.request import check, plan_of

    check(options)
    if options.compare:
        from perfpy.cli.stat.compare import compare_programs

        return compare_programs(options)
    from perfpy.cli.stat.output import StatOutput, form_of
    from perfpy.cli.stat.session import Session

    plan = plan_of(options)
    with StatOutput(form_of(options)) as output:
        return Session(plan, output, options).run()


def _record(options: StatCommandOptions) -> int:
    """Run a program, count events, and write the counts into a file (-o, default perf.data; - is a pipe)."""
    from perfpy.capture.counting.count_file import CountFile
    from perfpy.cli.stat.output import StatOutput, form_of
    from perfpy.cli.stat.request import check, plan_of
    from perfpy.cli.stat.session import Session

    path, options = options.output or "perf.data", options.replace(output="")
    check(options)
    plan = plan_of(options)
    file = CountFile(path, plan, _command_line())
    if file.is_pipe:
        options = options.replace(quiet=True)
    with StatOutput(form_of(options)) as output:
        return Session(plan, output, options, file).run()


def _command_line() -> list[str]:
    import os
    import sys

    return [os.path.abspath(sys.argv[0]), *sys.argv[1:]]


command = StatCommand(StatCommandOptions, _stat)
record = PerfCommand(StatCommandOptions, _record)
