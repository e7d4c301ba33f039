"""Descriptors that are no counters, or none any more: what answers in the kernel's place, and how to tell.

What enters: calls meant for the kernel, a descriptor's number. What leaves: a
UsageError, or whether the descriptor is a perf event.
"""

from __future__ import annotations

from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any


class _ClosedKernel:
    """What a closed counter has for a kernel: whatever is asked of it is a mistake."""

    def read(self, fd: int, size: int) -> bytes:
        raise UsageError("the counter is closed")

    def __getattr__(self, name: str) -> object:
        raise UsageError("the counter is closed")


CLOSED: Any = _ClosedKernel()


def is_perf_event(fd: int) -> bool:
    """Whether an open descriptor is one of perf_event_open(2)."""
    import os

    try:
        return os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[perf_event]"
    except OSError:
        return False
