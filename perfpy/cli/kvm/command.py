"""`perfpy kvm`: why virtual CPUs exit to the host."""

from __future__ import annotations

from perfpy.cli.dispatch.commands import load
from perfpy.cli.kvm.options import KvmOptions, KvmReportOptions
from perfpy.cli.line.actions import Action, CommandWithActions, ForwardingAction
from perfpy.cli.line.options import fail


def _report(options: KvmReportOptions) -> int:
    """Show how often virtual CPUs exited to the host, why, and for how long."""
    from perfpy.cli.kvm.report import report

    return report(options)


def _record(options: KvmOptions, arguments: list[str]) -> int:
    from perfpy.cli.kvm.record import record_arguments

    return load("record").run("record", [*record_arguments(options), *arguments])


def _live(_options: KvmOptions) -> int:
    """Refuse `perfpy kvm stat live`."""
    fail("perfpy has no 'kvm stat live'; use perfpy kvm stat record -a -- sleep 1 && perfpy kvm stat report")


command = CommandWithActions(
    KvmOptions,
    {
        "stat": CommandWithActions(
            KvmOptions,
            {
                "record": ForwardingAction(KvmOptions, _record, "record", "record the exits; also takes the options of record", load),
                "report": Action(KvmReportOptions, _report, "the exits by reason, with their durations"),
                "live": Action(KvmOptions, _live, "not available"),
            },
            "Show how often virtual CPUs exited to the host, why, and for how long.",
            "exits of virtual machines: stat record, stat report",
        )
    },
    "Show why virtual CPUs exit to the host, and for how long.",
)
