"""The options of `perfpy why`."""

from __future__ import annotations

from perfpy.cli.line.kinds import Flag, Value
from perfpy.cli.line.options import option, program_to_run
from perfpy.cli.line.shared import InputOptions, QuietOptions, SymbolFileOptions, VerboseOptions


class WhyCommandOptions(InputOptions, VerboseOptions, QuietOptions, SymbolFileOptions):
    """Options of `perfpy why`."""

    pid: str = option("-p,--pid", Value(default=""), "explain these processes (comma-separated)", metavar="<pid>")
    duration: float = option("-d,--duration", Value(float, default=0.0), "seconds to record a process (default: until Ctrl-C)")
    python: bool = option("--python", Flag(), "name Python functions and lines")
    as_json: bool = option("-j,--json", Flag(), "print JSON")
    output: str = option("-o,--output", Value(default=""), "keep the recording in this file", metavar="<file>")
    chrome_trace: str = option(
        "--chrome-trace", Value(default=""), "also write the states of threads for Perfetto (JSON)", metavar="<file>"
    )
    workload: tuple[str, ...] = program_to_run()
