"""Choose the number of processes for a task, this one included, from --jobs and the task's size."""

from __future__ import annotations

import os
from typing import Final

from perfpy.workers.forked import can_fork

#: Each process gets at least this many samples to fold. Two processes take 1.0 times the time of one for 1 M, 0.87 for 2 M, 0.85 for 10 M.
SAMPLES_EACH: Final = 1_000_000
#: Each process gets at least this many stacks to unwind.
STACKS_EACH: Final = 8_000


def available_cores() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs_for(requested: int, size: int, each: int) -> int:
    """Return the number of processes for a task.

    Args:
        requested: the limit of --jobs (0: all cores).
        size: of the task.
        each: the least size for one process.
    """
    most = requested or available_cores()
    return max(1, min(most, size // each)) if most > 1 and size >= 2 * each and can_fork() else 1
