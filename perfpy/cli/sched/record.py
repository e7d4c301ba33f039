"""`perfpy sched record`: record the scheduler's tracepoints on all CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVENTS: Final = ("sched_switch", "sched_stat_runtime", "sched_process_fork", "sched_wakeup_new", "sched_migrate_task")
_STATISTICS: Final = ("sched_stat_wait", "sched_stat_sleep", "sched_stat_iowait")  # of kernels with schedstats


def record_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `perfpy record` for `perfpy sched record ARGUMENTS`."""
    from perfpy.kernel.tracefs import Tracefs, mount_as_root

    present = set(Tracefs(mount=mount_as_root).events("sched"))
    names = [_EVENTS[0], *(name for name in _STATISTICS if name in present), *_EVENTS[1:]]
    names.append("sched_waking" if "sched_waking" in present else "sched_wakeup")
    events = [word for name in names for word in ("-e", f"sched:{name}")]
    return ["-a", "-R", "-m", "1024", "-c", "1", *events, *arguments]
