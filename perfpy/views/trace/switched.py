"""`--switch-on` and `--switch-off`: print and add up only what happens between two events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.filters.event_switch import EventSwitch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent


class SwitchOptions(NamedTuple):
    """Which events switch.

    Attributes:
        on, off: their names; "" for none.
        is_shown: whether their samples are printed.
        added: names of events that are sampled only to switch.
    """

    on: str = ""
    off: str = ""
    is_shown: bool = False
    added: tuple[str, ...] = ()


NO_SWITCHES: Final = SwitchOptions()


class SwitchedSamples:
    """The samples between two events, batch after batch. Raises UsageError if there is no event of a name.

    Args:
        options: which events switch.
        events: of the source.
    """

    def __init__(self, options: SwitchOptions, events: Sequence[FileEvent]) -> None:
        self._switch = EventSwitch.between(options.on, options.off, events, show=options.is_shown)
        self._hidden = [] if options.is_shown else [event.index for event in events if event.name in options.added]

    def mask(self, event: NDArray[np.int32]) -> NDArray[np.bool_] | None:
        """Return which samples of a batch count; None for all. event: the indexes of their events."""
        if self._switch is None:
            return None
        mask = self._switch.mask(event)
        return mask & ~np.isin(event, self._hidden) if self._hidden else mask
