"""The end of a command, or of the last of some tasks, for a loop that has other things to wait for too."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from perfpy.capture.workload import Workload

#: how often to look whether a task has ended where the kernel cannot tell us
_LOOK_AGAIN_MS: Final = 100


class Watch:
    """Knows when a command, or the last of some tasks, has ended; descriptors that wake a poll where the kernel has them."""

    def __init__(self, workload: Workload | None, tids: Sequence[int]) -> None:
        self._workload = workload
        self._alive = set() if workload else set(tids)
        self.fds: dict[int, int] = {}
        self._blind = False  # some task has no descriptor that tells of its end
        self._end_seen = False
        for pid in (workload.pid,) if workload else tids:
            try:
                self.fds[os.pidfd_open(pid)] = pid
            except OSError:  # an old kernel, a thread that leads no process, or gone already
                self._blind = True

    def see_end(self, fd: int) -> None:
        """A descriptor became readable: its task has ended, though its parent may not have noticed yet."""
        self._alive.discard(self.fds[fd])
        self._end_seen = True

    def ended(self) -> bool:
        """Whether all is over; asks the kernel only when there is a reason to, for this is called several times an interval."""
        if not (self._end_seen or self._blind):
            return False
        if self._workload:
            return self._workload.poll() is not None
        return not any(os.path.exists(f"/proc/{tid}") for tid in self._alive)

    def patience(self, wanted: float) -> float | None:
        """How many ms a poll may sleep; wanted: 0 = for ever."""
        if self._blind:
            return min(wanted or _LOOK_AGAIN_MS, _LOOK_AGAIN_MS)
        return wanted or None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self.fds:
            os.close(fd)
