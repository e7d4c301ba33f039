"""`perfpy kwork`: interrupts, soft interrupts and work queues of the kernel."""

from __future__ import annotations

from perfpy.cli.dispatch.commands import load
from perfpy.cli.kwork.options import (
    KindOptions,
    KworkLatencyOptions,
    KworkOptions,
    KworkReportOptions,
    KworkTimehistOptions,
    KworkTopOptions,
)
from perfpy.cli.line.actions import Action, CommandWithActions, ForwardingAction


def _record(options: KindOptions, arguments: list[str]) -> int:
    from perfpy.cli.kwork.record import record_arguments

    return load("record").run("record", [*record_arguments(options), *arguments])


def _report(options: KworkReportOptions) -> int:
    """Show how long the kernel worked."""
    from perfpy.cli.kwork.report import report

    return report(options)


def _latency(options: KworkLatencyOptions) -> int:
    """Show how long work waited until it began."""
    from perfpy.cli.kwork.report import latency

    return latency(options)


def _timehist(options: KworkTimehistOptions) -> int:
    """Show each run of work with its times."""
    from perfpy.cli.kwork.report import timehist

    return timehist(options)


def _top(options: KworkTopOptions) -> int:
    """Show the CPU time that each task used, without interrupts."""
    from perfpy.cli.kwork.top import run

    return run(options)


command = CommandWithActions(
    KworkOptions,
    {
        "record": ForwardingAction(
            KindOptions, _record, "record", "record the kernel's work on all CPUs; also takes the options of record", load
        ),
        "report": Action(KworkReportOptions, _report, "the time of each interrupt and piece of work"),
        "latency": Action(KworkLatencyOptions, _latency, "the delay from the request of work until it begins"),
        "timehist": Action(KworkTimehistOptions, _timehist, "each run of work, with its time and delay"),
        "top": Action(KworkTopOptions, _top, "the CPU time of each task, without interrupts"),
    },
    "Show the work of the kernel: interrupts, soft interrupts and work queues, and the CPU time of tasks without them.",
)
