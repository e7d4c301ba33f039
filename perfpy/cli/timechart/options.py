"""Options of `perfpy timechart`: perf timechart's (perf-timechart(1))."""

from __future__ import annotations

import re
from typing import Final

from perfpy.cli.line.kinds import Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, option
from perfpy.cli.line.shared import InputOptions, VerboseOptions

_UNITS: Final = {"": 1, "ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION: Final = re.compile(r"(\d{1,15})(ns|us|ms|s)?\Z")


def parse_duration(text: str) -> int:
    """Return nanoseconds. Raises ValueError for other texts.

    >>> parse_duration("1ms"), parse_duration("20")
    (1000000, 20)
    """
    match = _DURATION.match(text)
    if match is None:
        raise ValueError("a time such as 500us or 2ms")
    return int(match[1]) * _UNITS[match[2] or ""]


class TimechartPartOptions(CommandOptions):
    """The parts of the chart."""

    power_only: bool = option("-P,--power-only", Flag(), "only idle states and frequencies of CPUs")
    tasks_only: bool = option("-T,--tasks-only", Flag(), "only tasks")


class TimechartRecordOptions(TimechartPartOptions):
    """Options of `perfpy timechart record`."""

    io_only: bool = option("-I,--io-only", Flag(), "record only input and output")
    callchain: bool = option("-g,--callchain", Flag(), "record callchains")


class TimechartOptions(TimechartPartOptions, InputOptions, VerboseOptions, lacks={"--symfs": "the chart shows no symbols"}):
    """Options of `perfpy timechart`."""

    output: str = option("-o,--output", Value(default="output.svg"), "write this file (default: output.svg)", metavar="<file>")
    width: int = option("-w,--width", Value(parse_unsigned, default=1000), "width in pixels (default: 1000)", metavar="<n>")
    tasks: int = option(
        "-n,--proc-num", Value(parse_unsigned, default=15), "show at least n tasks, the busiest (default: 15)", metavar="<n>"
    )
    process: tuple[str, ...] = option("-p,--process", Listed(), "only this process: a number or a name; repeatable", metavar="<process>")
    topology: bool = option("-t,--topology", Flag(), "sort CPUs by core and socket")
    highlight: str = option(
        "--highlight", Value(default=""), "highlight runs by task name or least length", metavar="<duration or task name>"
    )
    io_skip_eagain: bool = option("--io-skip-eagain", Flag(), "leave out calls that failed with EAGAIN")
    io_min_time: int = option(
        "--io-min-time", Value(parse_duration, default=1_000_000), "show shorter calls as this long (default: 1ms)", metavar="<time>"
    )
    io_merge_dist: int = option(
        "--io-merge-dist", Value(parse_duration, default=1000), "join calls as close as this (default: 1us)", metavar="<time>"
    )
