"""--max-cpu: keep the cost of recording below a share of a CPU by taking fewer samples, and report it to the user.

The kernel's ioctl for a new frequency affects the opened counters, but not those that threads have inherited before; and
tracepoints are sampled at each hit, whatever their period. If a lower frequency does not help, the events are disabled from time
to time, which affects all counters.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.counter import Counter
from perfpy.capture.sample_attrs import is_dummy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.sample_counters import SampleCounters


_LOOK: Final = 0.5  # seconds between two checks
_SHORTEST_REST: Final = 0.05
_LONGEST_REST: Final = 5.0
_MARGIN: Final = 0.8  # of the limit is the goal, because not all cost is due to samples
_SLACK: Final = 1.1  # times the limit is tolerated
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_SAMPLED_ALWAYS: Final = (PerfType.TRACEPOINT, PerfType.SOFTWARE)  # with a period in each sample, which --max-cpu requests
_NANOSECONDS: Final = 1_000_000_000
_OF_A_PROCESS: Final = 2  # CPUCLOCK_SCHED, for clock ids made of process ids


class CostLimit:
    """Watches one recording; an alarm of Attention.

    Args:
        events: those that may be sampled less.
        most: seconds of CPU time per second.
        others: processes that help to record.
        may_rest: whether the events may be disabled for a while.
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
        self._resume = 0.0  # when disabled events are enabled again; 0 while they are on

    def wait(self, now: float) -> float:
        """Return the seconds until the next check, or until events are enabled again."""
        return max((self._resume or self._looked + _LOOK) - now, 0.0)

    def ring(self, now: float) -> None:
        """Check if it is due."""
        if self._resume:
            if now >= self._resume:
                self._resume = 0.0
                self._switch(True)
        elif now - self._looked >= _LOOK:
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
            self._explain(share, f"now sampling {', '.join(changed)}")
        return self._was_lowered

    def _rest(self, now: float, share: float) -> None:
        if not self._rests:
            self._rests = True
            self._explain(share, "now pausing part of the time" if self._may_rest else "lower -F or --off-cpu-limit")
        seconds = min(self._debt / self._most, _LONGEST_REST)
        if self._may_rest and seconds >= _SHORTEST_REST:
            self._switch(False)
            self._resume = now + seconds

    def _explain(self, share: float, remedy: str) -> None:
        self._tell(f"note: recording takes {share:.1%} of a CPU, more than --max-cpu {self._most:.1%}; {remedy}")

    def _switch(self, on: bool) -> None:
        for event in self._events:
            self._counters.switch(event, on)

    def _cpu_time(self) -> float:
        return time.process_time() + sum(map(_time_of, self._others))


def _made_rarer(event: OpenEvent, factor: float) -> str:
    """Sample an event less often by this factor. Return the new rate as text, "" if it cannot be changed."""
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
    """Return another process's CPU time in seconds; 0 if it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | _OF_A_PROCESS)
    except OSError:
        return 0.0
