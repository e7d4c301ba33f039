"""The module Util that perf's scripts import, for machines without perf: times, statistics, names of errors."""

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
    """Return a mean."""
    return total / n


def nsecs(secs: int, nsecs: int) -> int:
    """Return seconds and their remainder as nanoseconds."""
    return secs * NSECS_PER_SEC + nsecs


def nsecs_secs(nsecs: int) -> float:
    """Return nanoseconds as seconds."""
    return nsecs / NSECS_PER_SEC


def nsecs_nsecs(nsecs: int) -> int:
    """Return the remainder beside whole seconds."""
    return nsecs % NSECS_PER_SEC


def nsecs_str(nsecs: int) -> tuple[str]:
    """Return seconds and nanoseconds as text."""
    return (f"{int(nsecs_secs(nsecs)):5}.{nsecs_nsecs(nsecs):09}",)


def add_stats(dict: dict[Any, tuple[float, float, float, int]], key: Any, value: float) -> None:
    """Add a value: minimum, maximum, running mean, count."""
    least, most, mean, count = dict.get(key, (value, value, value, 0))
    dict[key] = (min(least, value), max(most, value), (mean + value) / 2 if count else value, count + 1)


def clear_term() -> None:
    """Clear the terminal."""
    control(sys.stdout, "\x1b[H\x1b[2J\n")


def syscall_name(id: int) -> str:
    """Return a system call's name if the module audit is installed, else its number."""
    try:
        import audit  # type: ignore[import-not-found]

        return str(audit.audit_syscall_to_name(id, audit.audit_detect_machine()))
    except Exception:  # noqa: BLE001  # for any error, the number is enough
        return str(id)


def strerror(nr: int) -> str:
    """Return the name of an error number."""
    return errno.errorcode.get(abs(nr), f"Unknown {nr} errno")
