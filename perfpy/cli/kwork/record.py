"""`perfpy kwork record`: record the kernel's work on all CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.kwork.options import KINDS, kinds_of

if TYPE_CHECKING:
    from perfpy.cli.kwork.options import KindOptions

_EVENTS: Final = {
    "irq": ("irq:irq_handler_entry", "irq:irq_handler_exit"),
    "softirq": ("irq:softirq_raise", "irq:softirq_entry", "irq:softirq_exit"),
    "workqueue": ("workqueue:workqueue_activate_work", "workqueue:workqueue_execute_start", "workqueue:workqueue_execute_end"),
    "sched": ("sched:sched_switch",),
}


def record_arguments(options: KindOptions) -> list[str]:
    """Return the arguments of `perfpy record` for the kinds of work."""
    kinds = kinds_of(options.kwork, KINDS[:-1])
    return ["-a", "-R", "-m", "1024", "-c", "1", *(word for kind in kinds for name in _EVENTS[kind] for word in ("-e", name))]
