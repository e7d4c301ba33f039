"""When counters are switched: --delay, once or in ranges.

What enters: the option's value and the moment at which the measurement
starts. What leaves: at each moment whether there is something to do, and how
long until the next; whether the last range is over. Times are seconds of the
monotonic clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class TimedSwitch(NamedTuple):
    """The counters go on or off."""

    time: float
    on: bool


class Timetable:
    """The switches to come. delay: milliseconds, -1 = never, or ranges of milliseconds."""

    def __init__(self, delay: int | tuple[tuple[int, int], ...], start: float) -> None:
        self._switches: list[TimedSwitch] = []
        self._in_ranges = isinstance(delay, tuple)
        if isinstance(delay, tuple):
            for on, off in delay:
                self._switches += (TimedSwitch(start + on / 1000, True), TimedSwitch(start + off / 1000, False))
        elif delay > 0:
            self._switches.append(TimedSwitch(start + delay / 1000, True))

    def due(self, now: float) -> Iterator[TimedSwitch]:
        """What has to be done by now, each once."""
        while self._switches and self._switches[0].time <= now:
            yield self._switches.pop(0)

    @property
    def over(self) -> bool:
        """The last range has ended: there is nothing more to record."""
        return self._in_ranges and not self._switches

    def wait(self, now: float) -> float | None:
        """Seconds until the next switch; None when there is none."""
        return max(self._switches[0].time - now, 0.0) if self._switches else None
