"""Watch for the end of a command, or of the last of several tasks, in a poll loop."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from perfpy.capture.workload import Workload

#: How often to check for ended tasks if the kernel has no descriptor for them.
_LOOK_AGAIN_MS: Final = 100


class Watch:
    """Detects the end of a command, or of the last of several tasks; its descriptors wake a poll if the kernel has them."""

    def __init__(self, workload: Workload | None, tids: Sequence[int]) -> None:
        self._workload = workload
        self._alive = set() if workload else set(tids)
        self.fds: dict[int, int] = {}
        self._blind = False  # some task has no descriptor
        self._end_seen = False
        for pid in (workload.pid,) if workload else tids:
            try:
                self.fds[os.pidfd_open(pid)] = pid
            except OSError:  # an old kernel, a thread that leads no process, or already ended
                self._blind = True

    def see_end(self, fd: int) -> None:
        """Note that a descriptor is readable: its task has ended, though its parent may not have reaped it yet."""
        self._alive.discard(self.fds[fd])
        self._end_seen = True

    def have_ended(self) -> bool:
        """Whether all have ended. It is called several times an interval, so it asks the kernel only if there is a reason."""
        if not (self._end_seen or self._blind):
            return False
        if self._workload:
            return self._workload.poll() is not None
        return not any(os.path.exists(f"/proc/{tid}") for tid in self._alive)

    def patience(self, limit: float) -> float | None:
        """Return the ms that a poll may sleep; None for no limit. wanted is 0 for no limit."""
        if self._blind:
            return min(limit or _LOOK_AGAIN_MS, _LOOK_AGAIN_MS)
        return limit or None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self.fds:
            os.close(fd)
