"""Choose the number of processes for a task, this one included, from --jobs and the task's size."""

from __future__ import annotations

import os
from typing import Final

from perfpy.workers.forked import can_fork

#: a process is given at least so many samples to fold: of 1 M, two processes take as long as one, of 2 M 0.87 and of 10 M 0.85 of its time
SAMPLES_EACH: Final = 1_000_000
#: and so many stacks to unwind
STACKS_EACH: Final = 8_000


def available_cores() -> int:
    """The CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs_for(asked: int, size: int, each: int) -> int:
    """How many processes pay for a task of some size, of which each should have at least so much; asked: at most so many (0: all cores)."""
    most = asked or available_cores()
    return max(1, min(most, size // each)) if most > 1 and size >= 2 * each and can_fork() else 1
