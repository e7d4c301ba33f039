"""`perfpy kmem`: memory that the kernel allocates for itself and for programs."""

from __future__ import annotations

from perfpy.cli.dispatch.commands import load
from perfpy.cli.kmem.options import KmemKindOptions, KmemOptions
from perfpy.cli.line.actions import Action, CommandWithActions, ForwardingAction


def _record(options: KmemKindOptions, arguments: list[str]) -> int:
    from perfpy.cli.kmem.record import record_arguments

    return load("record").run("record", [*record_arguments(options), *arguments])


def _stat(options: KmemOptions) -> int:
    """Show what the kernel allocated, and how much of it is waste."""
    from perfpy.cli.kmem.stat import run

    return run(options)


command = CommandWithActions(
    KmemOptions,
    {
        "record": ForwardingAction(
            KmemKindOptions, _record, "record", "record allocations on all CPUs; also takes the options of record", load
        ),
        "stat": Action(KmemOptions, _stat, "allocations by call site, object or page, and their sums"),
    },
    "Show the memory that the kernel allocates: objects of the slab allocator, and pages.",
)
