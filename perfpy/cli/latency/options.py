"""The options of `perfpy latency`."""

from __future__ import annotations

from typing import Final

from perfpy.cli.line.kinds import Choice, Flag, Value, parse_unsigned
from perfpy.cli.line.options import option, program_to_run
from perfpy.cli.line.shared import InputOptions, QuietOptions, VerboseOptions

_SLOWEST: Final = 5


class LatencyCommandOptions(InputOptions, VerboseOptions, QuietOptions):
    """Options of `perfpy latency`."""

    of: str = option(
        "--of",
        Value(Choice("runqueue", "syscalls", "block", "locks", "softirq", "irq"), default=""),
        "show these latencies of a recording (-i)",
        metavar="<kind>",
    )
    pid: str = option("-p,--pid", Value(default=""), "measure this running process", metavar="<pid>")
    exec_path: str = option("-x,--exec", Value(default=""), "the program or library of the function", metavar="<path>")
    duration: float = option("-d,--duration", Value(float, default=0.0), "seconds to measure a process (default: until Ctrl-C)")
    slowest: int = option("-n,--slowest", Value(parse_unsigned, default=_SLOWEST), "the number of slowest calls to show", metavar="<n>")
    as_json: bool = option("-j,--json", Flag(), "print JSON")
    output: str = option("-o,--output", Value(default=""), "keep the recording in this file", metavar="<file>")
    words: tuple[str, ...] = program_to_run("FUNCTION [--] [COMMAND [ARGS]...]")
