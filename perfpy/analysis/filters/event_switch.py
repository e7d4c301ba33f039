"""--switch-on and --switch-off: samples count from one event on, and up to another.

What enters: the events of samples, in order of delivery. What leaves: a mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent


class EventSwitch:
    """Follows the samples of a recording from the first to the last."""

    def __init__(self, on: int | None, off: int | None, *, show: bool) -> None:
        """on, off: indexes of events; show: the switching samples count themselves."""
        self._on, self._off, self._show = on, off, show
        self.restart()

    @classmethod
    def between(cls, on: str, off: str, events: Sequence[FileEvent], *, show: bool) -> EventSwitch | None:
        """The switch for two names of events ("" for none); None where neither is given.

        Raises UsageError when the recording has no such event.
        """
        return cls(_index(on, events), _index(off, events), show=show) if on or off else None

    def restart(self) -> None:
        """The next samples are the recording's first ones."""
        self._is_off = self._on is not None

    def mask(self, events: NDArray[np.int32], among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Which of the next samples count.

        events: the index of each one's event; among: which of them are there at
        all (None: all); the others neither switch nor count.
        """
        there = np.ones(len(events), np.bool_) if among is None else among
        kept = np.empty(len(events), np.bool_)
        done = 0
        switching = [number for number in (self._on, self._off) if number is not None]
        for row in np.flatnonzero(np.isin(events, switching) & there).tolist():
            if events[row] != (self._on if self._is_off else self._off):
                continue
            kept[done:row] = not self._is_off
            kept[row] = self._show
            self._is_off = not self._is_off
            done = row + 1
        kept[done:] = not self._is_off
        return kept & there


def _index(name: str, events: Sequence[FileEvent]) -> int | None:
    if not name:
        return None
    for event in events:
        if event.name == name:
            return event.index
    raise UsageError(f"the recording has no event {name}; it has {', '.join(event.name for event in events)}")
