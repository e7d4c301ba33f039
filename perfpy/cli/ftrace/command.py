"""`perfpy ftrace`: the kernel's functions, by its function tracers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.ftrace.options import FtraceLatencyOptions, FtraceProfileOptions, FtraceTraceOptions
from perfpy.cli.line.actions import Action, CommandWithActions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _trace(options: FtraceTraceOptions) -> int:
    """Print every call of the kernel's functions."""
    from perfpy.cli.ftrace.actions import trace

    return trace(options)


def _latency(options: FtraceLatencyOptions) -> int:
    """Show a histogram of the durations of one function."""
    from perfpy.cli.ftrace.actions import latency

    return latency(options)


def _profile(options: FtraceProfileOptions) -> int:
    """Show the total, mean and longest durations of functions."""
    from perfpy.cli.ftrace.actions import profile

    return profile(options)


class _FtraceCommand(CommandWithActions):
    """The command, whose first action needs no name, as in perf."""

    def _divided(self, args: Sequence[str]) -> tuple[list[str], str, list[str]]:
        before, action, rest = super()._divided(args)
        if not action and any(not arg.startswith("-") or arg != "-h" for arg in args) and args and args[0] not in ("-h", "--help"):
            return [], "trace", list(args)
        return before, action, rest

    def _action(self, word: str) -> str:
        return word if word in self.actions else ""


command = _FtraceCommand(
    FtraceTraceOptions,
    {
        "trace": Action(FtraceTraceOptions, _trace, "every call, as it happens"),
        "latency": Action(FtraceLatencyOptions, _latency, "a histogram of the durations of one function"),
        "profile": Action(FtraceProfileOptions, _profile, "totals, means and longest durations of functions"),
    },
    "Trace the kernel's functions with its function tracers, as root, and restore the tracers' former state.",
)
