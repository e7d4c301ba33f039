"""`perfpy lock`: waits for the kernel's locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.actions import Action, CommandWithActions, OtherCommand
from perfpy.cli.lock.options import LockContentionOptions, LockInfoOptions, LockOptions, LockReportOptions

if TYPE_CHECKING:
    from collections.abc import Sequence


def _report(options: LockReportOptions) -> int:
    """Show the waits for each lock."""
    from perfpy.cli.lock.report import report

    return report(options)


def _info(options: LockInfoOptions) -> int:
    """List the threads and the locks of a recording."""
    from perfpy.cli.lock.report import info

    return info(options)


def _contention(options: LockContentionOptions) -> int:
    """Show the waits for locks by caller, thread or lock."""
    from perfpy.cli.lock.contention import run

    return run(options)


def _record_arguments(arguments: Sequence[str]) -> list[str]:
    from perfpy.cli.lock.record import record_arguments

    return record_arguments(arguments)


command = CommandWithActions(
    LockOptions,
    {
        "record": OtherCommand("record", "record the waits for locks in the kernel", load, _record_arguments),
        "report": Action(LockReportOptions, _report, "the waits for each lock, or of each thread"),
        "info": Action(LockInfoOptions, _info, "the threads and the locks"),
        "contention": Action(LockContentionOptions, _contention, "the waits by caller, thread or lock"),
        "script": OtherCommand("script", "every event as a line of text", load),
    },
    "Show the waits for the kernel's locks. The tables go to standard error, as perf's do.",
)
