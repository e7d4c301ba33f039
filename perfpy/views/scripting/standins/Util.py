"""What perf's scripts import as Util, where no perf is installed: times, statistics, names of errors.

What enters: numbers. What leaves: numbers and text.
"""

from __future__ import annotations

import errno
import sys
from typing import Any

from perfpy.untrusted.terminal import control

FUTEX_WAIT = 0
FUTEX_WAKE = 1
FUTEX_PRIVATE_FLAG = 128
FUTEX_CLOCK_REALTIME = 256
FUTEX_CMD_MASK = ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)
NSECS_PER_SEC = 1_000_000_000


def avg(total: float, n: float) -> float:
    """A mean."""
    return total / n


def nsecs(secs: int, nsecs: int) -> int:
    """Nanoseconds of seconds and their rest."""
    return secs * NSECS_PER_SEC + nsecs


def nsecs_secs(nsecs: int) -> float:
    """Seconds."""
    return nsecs / NSECS_PER_SEC


def nsecs_nsecs(nsecs: int) -> int:
    """What is left beside whole seconds."""
    return nsecs % NSECS_PER_SEC


def nsecs_str(nsecs: int) -> tuple[str]:
    """Seconds and nanoseconds as text."""
    return (f"{int(nsecs_secs(nsecs)):5}.{nsecs_nsecs(nsecs):09}",)


def add_stats(dict: dict[Any, tuple[float, float, float, int]], key: Any, value: float) -> None:
    """Count a value: least, most, running mean, how many."""
    least, most, mean, count = dict.get(key, (value, value, value, 0))
    dict[key] = (min(least, value), max(most, value), (mean + value) / 2 if count else value, count + 1)


def clear_term() -> None:
    """Clear the terminal."""
    control(sys.stdout, "\x1b[H\x1b[2J\n")


def syscall_name(id: int) -> str:
    """A system call's name, which takes the module audit; else its number."""
    try:
        import audit  # type: ignore[import-not-found]

        return str(audit.audit_syscall_to_name(id, audit.audit_detect_machine()))
    except Exception:  # noqa: BLE001  # whatever it is for, a number is enough
        return str(id)


def strerror(nr: int) -> str:
    """The name of an error number."""
    return errno.errorcode.get(abs(nr), f"Unknown {nr} errno")
