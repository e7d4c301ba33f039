"""`perfpy latency`: record entries and returns of a function by temporary probes, and show the durations of its calls."""

from __future__ import annotations

from typing import Final

from perfpy.cli.line.kinds import Flag, Value, unsigned
from perfpy.cli.line.options import PerfCommand, fail, option, program_to_run
from perfpy.cli.line.shared import QuietOptions, VerboseOptions

_SLOWEST: Final = 5


class LatencyCommandOptions(VerboseOptions, QuietOptions):
    """Options of `perfpy latency`."""

    pid: str = option("-p,--pid", Value(default=""), "measure this running process", metavar="<pid>")
    exec_path: str = option("-x,--exec", Value(default=""), "the program or library of the function", metavar="<path>")
    duration: float = option("-d,--duration", Value(float, default=0.0), "seconds to measure a process (default: until Ctrl-C)")
    slowest: int = option("-n,--slowest", Value(unsigned, default=_SLOWEST), "the number of slowest calls to show", metavar="<n>")
    as_json: bool = option("-j,--json", Flag(), "print JSON")
    output: str = option("-o,--output", Value(default=""), "keep the recording in this file", metavar="<file>")
    words: tuple[str, ...] = program_to_run("FUNCTION [--] [COMMAND [ARGS]...]")


def run(options: LatencyCommandOptions) -> int:
    """Show how long the calls of a function take: percentiles, a histogram, the slowest calls, time on and off the CPU."""
    if not options.words:
        fail("latency needs a function: perfpy latency FUNCTION -p PID, or perfpy latency FUNCTION -- COMMAND")
    from perfpy.cli.latency.measuring import measure  # needs numpy

    function, *command = options.words
    return measure(options, function, command)


class _LatencyCommand(PerfCommand[LatencyCommandOptions]):
    """The command, whose options may stand on both sides of the function."""

    def run(self, name: str, args: list[str]) -> int:  # type: ignore[override]
        """Move the function behind the options that follow it, and run."""
        parser = self.parser(args)
        words = parser.words
        index = len(args) - len(words)
        if words and index >= 0 and len(words) > 1 and words[1].startswith("-") and not (index and args[index - 1] == "--"):
            rest = list(words[1:])
            end = rest.index("--") if "--" in rest else len(rest)
            args = [*args[:index], *rest[:end], "--", words[0], *rest[end + 1 :]]
        return super().run(name, args)


command = _LatencyCommand(LatencyCommandOptions, run)
