"""`perfpy timechart`: what CPUs and tasks did over time, as an SVG file."""

from __future__ import annotations

from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.actions import Action, CommandWithActions, ForwardingAction
from perfpy.cli.timechart.options import TimechartOptions, TimechartRecordOptions


def _record(options: TimechartRecordOptions, arguments: list[str]) -> int:
    from perfpy.cli.timechart.record import record_arguments

    return load("record").run("record", [*record_arguments(options), *arguments])


def _draw(options: TimechartOptions) -> int:
    """Draw what CPUs and tasks did over time."""
    from perfpy.cli.timechart.draw import run

    return run(options)


command = CommandWithActions(
    TimechartOptions,
    {"record": ForwardingAction(TimechartRecordOptions, _record, "record", "record on all CPUs; also takes the options of record", load)},
    "Draw what CPUs and tasks did over time, as an SVG file.",
    without_action=Action(TimechartOptions, _draw, "draw the chart of a recording"),
)
