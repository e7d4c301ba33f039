"""--max-cpu: what recording itself costs, held below a share of a CPU.

What enters: the counters of a recording, the processes that record, the share. What leaves: nothing; but samples
are taken less often from then on, and the user is told.

The kernel's ioctl for a new frequency reaches the counters that were opened, not those that threads inherited
from them before; and tracepoints are sampled at each hit, whatever their period is. Where a lower frequency does
not help, the events have a rest now and then instead, which reaches all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.counter import Counter
from perfpy.capture.rings.sample_attrs import is_dummy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfpy.capture.opening import OpenEvent
    from perfpy.capture.rings.sample_counters import SampleCounters

_LOOK: Final = 0.5  # seconds between two looks
_SHORTEST_REST: Final = 0.05
_LONGEST_REST: Final = 5.0
_MARGIN: Final = 0.8  # of what is allowed is aimed at: what recording costs is not all due to samples
_SLACK: Final = 1.1  # a cost this much higher than allowed is let be
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_SAMPLED_ALWAYS: Final = (PerfType.TRACEPOINT, PerfType.SOFTWARE)  # with a period in each sample, which they have here
_NANOSECONDS: Final = 1_000_000_000
_OF_A_PROCESS: Final = 2  # CPUCLOCK_SCHED, for clock ids made of process ids


class CostLimit:
    """Watches one recording; an alarm of Attention's.

    events: whose samples may become rarer; most: seconds of CPU time a second; others: processes that help; may_rest:
    whether the events may be off for a while.
    """

    def __init__(
        self,
        counters: SampleCounters,
        events: Sequence[OpenEvent],
        most: float,
        tell: Callable[[str], None],
        *,
        others: Iterable[int] = (),
        may_rest: bool = False,
    ) -> None:
        self._counters = counters
        self._events = [event for event in events if not is_dummy(event) and event.attr.sample_period]
        self._most = most
        self._tell = tell
        self._others = tuple(others)
        self._may_rest = may_rest
        self._rarer = 1.0
        self._looked, self._spent = time.monotonic(), self._cpu_time()
        self._debt = 0.0
        self._was_lowered = self._rests = False
        self._resume = 0.0  # when events at rest go on; 0: they are on

    def wait(self, now: float) -> float:
        """Seconds until the next look, or until events go on."""
        return max((self._resume or self._looked + _LOOK) - now, 0.0)

    def ring(self, now: float) -> None:
        """Look, where it is time to."""
        if self._resume:
            if now >= self._resume:
                self._resume = 0.0
                self._switch(True)
        elif now - self._looked >= _LOOK:
            self._look(now)

    def _look(self, now: float) -> None:
        spent = self._cpu_time()
        passed, used = now - self._looked, spent - self._spent
        self._looked, self._spent = now, spent
        self._debt = max(self._debt + used - self._most * passed, 0.0)
        share = used / passed
        if share <= self._most * _SLACK:
            self._was_lowered = False
        elif self._rests or self._was_lowered or not self._lower(share):
            self._rest(now, share)

    def _lower(self, share: float) -> bool:
        self._rarer *= share / (self._most * _MARGIN)
        changed = [text for event in self._events if (text := _made_rarer(event, self._rarer))]
        self._was_lowered = bool(changed)
        if changed:
            self._explain(share, f"from here on {', '.join(changed)}")
        return self._was_lowered

    def _rest(self, now: float, share: float) -> None:
        if not self._rests:
            self._rests = True
            self._explain(share, "nothing is sampled for a part of the time" if self._may_rest else "a lower -F or --off-cpu-limit helps")
        seconds = min(self._debt / self._most, _LONGEST_REST)
        if self._may_rest and seconds >= _SHORTEST_REST:
            self._switch(False)
            self._resume = now + seconds

    def _explain(self, share: float, remedy: str) -> None:
        self._tell(f"note: recording takes {share:.1%} of a CPU, --max-cpu allows {self._most:.1%}: {remedy}")

    def _switch(self, on: bool) -> None:
        for event in self._events:
            self._counters.switch(event, on)

    def _cpu_time(self) -> float:
        return time.process_time() + sum(map(_time_of, self._others))


def _made_rarer(event: OpenEvent, factor: float) -> str:
    """Sample an event that many times less often than it was asked for. Returns how often that is, "" where it cannot be."""
    attr = event.attr
    if attr.freq:
        rate = max(round(attr.sample_freq / factor), 1)
        is_clock = attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS
        value, text = _NANOSECONDS // rate if is_clock else rate, f"{event.name} at {rate} Hz"  # the kernel keeps the period of clocks
    elif attr.type in _SAMPLED_ALWAYS:
        return ""
    else:
        value = max(round(attr.sample_period * factor), attr.sample_period)
        text = f"{event.name} once in {value}"
    for counter in event.counters.values():
        Counter.set_period(counter, value)
    return text


def _time_of(pid: int) -> float:
    """Seconds of CPU time of another process; 0 when it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_A_PROCESS)
    except OSError:
        return 0.0
