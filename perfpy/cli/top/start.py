"""The start of `perfpy top`, until the first table."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

from perfpy.workers.priority import HigherPriority

if TYPE_CHECKING:
    from typing import Self

_NICER: Final = 10
_REALTIME: Final = 2.0  # seconds at most; imports and the first table take 0.5 seconds of CPU time


class Start:
    """A context in which the first table is due: with a higher priority, and without garbage collections, which find none in imports.

    Args:
        runs_programs: whether other programs run before the first table. They would be realtime processes, and stay so.
    """

    def __init__(self, *, runs_programs: bool = False) -> None:
        self._priority = HigherPriority(_NICER, 0 if runs_programs else _REALTIME)
        self._has_collections = gc.isenabled()

    def __enter__(self) -> Self:
        gc.disable()
        self._priority.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def include(self, pid: int) -> None:
        """Let the start of a child process end, too."""
        self._priority.include(pid)

    def end(self) -> None:
        """End the start: there is a table. Further calls do nothing."""
        self._priority.end()
        if self._has_collections and not gc.isenabled():
            gc.freeze()  # modules and classes stay for ever
            gc.enable()
