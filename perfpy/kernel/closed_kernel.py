"""The kernel of a closed counter, and a check whether a descriptor is a perf event."""

from __future__ import annotations

from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any


class _ClosedKernel:
    """A kernel whose every call is an error."""

    def read(self, fd: int, size: int) -> bytes:
        raise UsageError("the counter is closed")

    def __getattr__(self, name: str) -> object:
        raise UsageError("the counter is closed")


CLOSED: Any = _ClosedKernel()


def is_perf_event(fd: int) -> bool:
    """Whether an open descriptor comes from perf_event_open(2)."""
    import os

    try:
        return os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[perf_event]"
    except OSError:
        return False
