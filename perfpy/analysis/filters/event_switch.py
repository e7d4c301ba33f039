"""`--switch-on` and `--switch-off`: samples count after one event, and up to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent


class EventSwitch:
    """A switch that follows the samples of a recording from the first to the last."""

    def __init__(self, on: int | None, off: int | None, *, show: bool) -> None:
        """Set the switch; on, off: indexes of events; show: whether the switching samples count themselves."""
        self._on, self._off, self._show = on, off, show
        self.restart()

    @classmethod
    def between(cls, on: str, off: str, events: Sequence[FileEvent], *, show: bool) -> EventSwitch | None:
        """Return the switch for two names of events ("" for none); None if both are empty.

        Raises UsageError if the recording has no such event.
        """
        return cls(_index(on, events), _index(off, events), show=show) if on or off else None

    def restart(self) -> None:
        """Start over with the recording's first samples."""
        self._is_off = self._on is not None

    def mask(self, events: NDArray[np.int32], among: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return a mask of the next samples that count.

        Args:
            events: the event index of each sample.
            among: the samples to consider (None: all); others neither switch nor count.
        """
        considered = np.ones(len(events), np.bool_) if among is None else among
        mask = np.empty(len(events), np.bool_)
        row_end = 0
        switching = [number for number in (self._on, self._off) if number is not None]
        for row in np.flatnonzero(np.isin(events, switching) & considered).tolist():
            if events[row] != (self._on if self._is_off else self._off):
                continue
            mask[row_end:row] = not self._is_off
            mask[row] = self._show
            self._is_off = not self._is_off
            row_end = row + 1
        mask[row_end:] = not self._is_off
        return mask & considered


def _index(name: str, events: Sequence[FileEvent]) -> int | None:
    if not name:
        return None
    for event in events:
        if event.name == name:
            return event.index
    raise UsageError(f"no event {name!r} in the recording; its events: {', '.join(event.name for event in events)}")
