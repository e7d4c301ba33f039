"""Options of `perfpy c2c` and its actions: perf c2c's (perf-c2c(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Counted, Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import option
from perfpy.cli.line.shared import InputOptions, QuietOptions, StdioOptions, SymbolFileOptions, VerboseOptions
from perfpy.events.kinds.memory_events import LATENCY

if TYPE_CHECKING:
    from collections.abc import Mapping

_LACKING: Final[Mapping[str, str]] = {
    "-g,--call-graph": "its rows have no callers; perfpy report --mem-mode -g shows those of accesses",
    "--stitch-lbr": "its rows have no callers",
}


class C2cOptions(VerboseOptions):
    """Options of all actions."""


class C2cReportOptions(C2cOptions, InputOptions, StdioOptions, SymbolFileOptions, QuietOptions, lacks=_LACKING):
    """Options of `perfpy c2c report`."""

    node_info: int = option("-N,--node-info", Counted(), "show shares of nodes; twice: their CPUs")
    show_all: bool = option("--show-all", Flag(), "also show lines that no other cache had modified")
    stats: bool = option("--stats", Flag(), "show only the statistics")
    full_symbols: bool = option("--full-symbols", Flag(), "do not shorten names of functions")
    no_source: bool = option("--no-source", Flag(), "show no source lines")
    display: str = option("-d,--display", Value(default=""), "sort lines by these loads: tot, lcl, rmt, peer", metavar="<display>")
    coalesce: str = option("-c,--coalesce", Value(default=""), "one row for each of pid, tid, iaddr, dso", metavar="<coalesce fields>")
    double_cl: bool = option("--double-cl", Flag(), "group pairs of cache lines, which some CPUs fetch together")


class C2cRecordOptions(C2cOptions):
    """Options of `perfpy c2c record`."""

    events: tuple[str, ...] = option("-e,--event", Listed(), "memory events; -e list shows this machine's", metavar="<event>")
    kernel_only: bool = option("-k,--all-kernel", Flag(), "sample only the kernel")
    user_only: bool = option("-u,--all-user", Flag(), "sample only user code")
    ldlat: int = option(
        "-l,--ldlat", Value(parse_unsigned, default=LATENCY), f"sample loads that take n cycles or more (default: {LATENCY})", metavar="<n>"
    )
