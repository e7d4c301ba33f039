"""`perfpy mem`: memory accesses with their latency, data and source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.actions import CommandWithActions, ForwardingAction
from perfpy.cli.mem.options import MemOptions, MemRecordOptions, MemReportOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _report(options: MemReportOptions, arguments: list[str]) -> int:
    if options.dump_raw_samples:
        from perfpy.cli.mem.samples import print_samples

        return print_samples(options, arguments)
    from perfpy.cli.mem.report import report_arguments

    return load("report").run("report", [*report_arguments(options), *arguments])


def _record(options: MemRecordOptions, arguments: Sequence[str]) -> int:
    from perfpy.cli.mem.record import print_events, record_arguments

    if "list" in options.events:
        return print_events(options.ldlat, verbose=bool(options.verbose))
    return load("record").run("record", [*record_arguments(options), *arguments])


command = CommandWithActions(
    MemOptions,
    {
        "record": ForwardingAction(MemRecordOptions, _record, "record", "record memory accesses; also takes the options of record", load),
        "report": ForwardingAction(MemReportOptions, _report, "report", "the accesses by kind; also takes the options of report", load),
    },
    "Show memory accesses: their latency, the data, and the cache or memory that served them.",
)
