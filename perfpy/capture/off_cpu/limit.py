"""Limit the stacks per second of context switches.

Recording a stack at each switch takes a microsecond or more, and so does writing it. A program that switches 200,000 times a
second would be disturbed more than it runs. Events that sample stacks and wakeups are therefore disabled while they exceed the
limit, with one warning. SWITCH records continue, so that the time off the CPU stays complete, and in the right thread; part of
it has no stack.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.capture.opening import OpenEvent

_LOOK: Final = 0.05  # seconds between two checks
_LONGEST_REST: Final = 1.0  # seconds


class SwitchedCounters(Protocol):
    """The interface of a recording's counters that is used here."""

    @property
    def events(self) -> Sequence[OpenEvent]:
        """All events of the recording."""

    def count(self, event: OpenEvent) -> int:
        """Return how often an event has happened."""

    def switch(self, event: OpenEvent, on: bool) -> None:
        """Enable or disable an event's counters."""


class SwitchLimit:
    """Watches the switches of one recording. most is the limit of stacks per second, 0 for none; tell is called with a warning."""

    def __init__(self, counters: SwitchedCounters, plan: WaitPlan, most: int, tell: Callable[[str], None]) -> None:
        self._counters = counters
        self._sampled = counters.events[plan.switches] if plan.switches >= 0 else None
        self._limited = [counters.events[number] for number in plan.hidden]
        self._most = most
        self._tell = tell
        self._looked = time.monotonic()
        self._last_total = 0
        self._resume = 0.0  # when disabled events are enabled again; 0 while they are on
        self._has_warned = False

    def check(self) -> None:
        """Disable or re-enable the events if necessary; called after all ring buffers were read."""
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
        total = self._counters.count(self._sampled)
        switches, self._last_total = total - self._last_total, total
        passed, self._looked = now - self._looked, now
        too_long = switches / self._most - passed
        if too_long > 0:
            self._warn(switches / passed)
            self._switch(now, resume=now + min(too_long, _LONGEST_REST))

    def _switch(self, now: float, *, resume: float) -> None:
        for event in self._limited:
            self._counters.switch(event, not resume)
        self._resume, self._looked = resume, now

    def _warn(self, rate: float) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._tell(
                f"warning: {rate:,.0f} context switches a second would disturb the target;"
                f" recording stacks of {self._most:,} a second from here on (--off-cpu-limit)"
            )
