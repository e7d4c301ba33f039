"""Storms of switches: so many stacks a second, and no more.

What enters: the counters of a recording, looked at between two passes over the rings. What
leaves: nothing; but the events that sample stacks and wakings are off for as long as they
have had more than their share, and the user is told once.

Taking a stack at each switch costs the program a microsecond or more, and so does writing it down; a
program that switches 200,000 times a second would be watched more than it
would run. SWITCH records go on meanwhile, so that the time off the CPU is
whole, and in the right thread; what is missing is the stack of some of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.capture.opening import OpenEvent

_LOOK: Final = 0.05  # seconds between two looks
_LONGEST_REST: Final = 1.0  # seconds


class SwitchedCounters(Protocol):
    """What is needed of a recording's counters."""

    @property
    def events(self) -> Sequence[OpenEvent]:
        """All events of the recording."""

    def count(self, event: OpenEvent) -> int:
        """How often an event has happened."""

    def switch(self, event: OpenEvent, on: bool) -> None:
        """Enable or disable an event's counters."""


class SwitchLimit:
    """Watches the switches of one recording. most: stacks a second, 0 for any number; tell: called with a line for the user."""

    def __init__(self, counters: SwitchedCounters, plan: WaitPlan, most: int, tell: Callable[[str], None]) -> None:
        self._counters = counters
        self._sampled = counters.events[plan.switches] if plan.switches >= 0 else None
        self._limited = [counters.events[number] for number in plan.hidden]
        self._most = most
        self._tell = tell
        self._looked = time.monotonic()
        self._seen = 0
        self._resume = 0.0  # when what is off is on again; 0: it is on
        self._told = False

    def check(self) -> None:
        """All rings were read: turn the events off or on again, where it is time for that."""
        now = time.monotonic()
        if self._sampled is None or not self._most:
            return
        if self._resume:
            if now >= self._resume:
                self._switch(now, resume=0.0)
        elif now - self._looked >= _LOOK:
            self._look(now)

    def _look(self, now: float) -> None:
        assert self._sampled is not None
        seen = self._counters.count(self._sampled)
        more, self._seen = seen - self._seen, seen
        passed, self._looked = now - self._looked, now
        too_long = more / self._most - passed
        if too_long > 0:
            self._warn(more / passed)
            self._switch(now, resume=now + min(too_long, _LONGEST_REST))

    def _switch(self, now: float, *, resume: float) -> None:
        for event in self._limited:
            self._counters.switch(event, not resume)
        self._resume, self._looked = resume, now

    def _warn(self, rate: float) -> None:
        if not self._told:
            self._told = True
            self._tell(
                f"warning: {rate:,.0f} context switches a second: taking a stack at each would disturb what is measured;"
                f" from here on {self._most:,} a second have one (--off-cpu-limit)"
            )
