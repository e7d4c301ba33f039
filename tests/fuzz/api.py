"""Calls of the API that read a recording: what a script or a notebook would do.

What enters: the arguments of a case. What leaves: nothing; perfpy.errors.PerfError is
an answer, every other exception is a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _samples() -> None:
    import perfpy

    with perfpy.open("perf.data") as recording:
        recording.samples.to_dict()
        _ = recording.title, recording.environment, recording.warnings, [event.name for event in recording.events], dict(recording.header)


def _records() -> None:
    import perfpy

    with perfpy.open("perf.data") as recording:
        for record in recording.records():
            repr(record)


def _report(keys: str) -> None:
    import perfpy
    from perfpy.symbols.files.debug_files import SymbolOptions

    with perfpy.open("perf.data") as recording:
        report = recording.report(by=keys, callers="," not in keys, symbols=SymbolOptions(kallsyms="kallsyms"))
        for row in report.top(10):
            repr(row.texts)
        recording.flamegraph("out.html", symbols=SymbolOptions(kallsyms="kallsyms"))


def _tracepoints() -> None:
    import perfpy

    with perfpy.open("perf.data") as recording:
        for event in recording.events:
            if event.tracepoint:
                recording.tracepoint(event.name)


CALLS: dict[str, Callable[..., None]] = {
    "api-samples": _samples,
    "api-records": _records,
    "api-report": _report,
    "api-tracepoints": _tracepoints,
}
