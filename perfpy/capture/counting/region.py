"""Counting a stretch of the calling program's own code (perfpy.count).

What enters: event texts. What leaves: a mapping from event name to Count,
filled when the `with` block ends. Counters are on the calling thread and on
threads and children that it starts inside the block.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

from perfpy.capture.counting.counters import Counting, CountingOptions
from perfpy.counts.aggregation import Grouping, aggregate
from perfpy.counts.named_counts import Count, Counts, named
from perfpy.errors import UsageError
from perfpy.events import parse_events

if TYPE_CHECKING:
    from perfpy.kernel import Kernel

_THIS_THREAD = 0


class Region(Counts):
    """Counts while its `with` block runs; afterwards a mapping with the counts.

    >>> import perfpy
    >>> with perfpy.count("task-clock:u", "page-faults:u") as counts:
    ...     pages = bytes(50 * 4096)
    >>> counts["page-faults:u"].value >= 0
    True
    """

    def __init__(self, *events: str, kernel: Kernel | None = None) -> None:
        super().__init__()
        if not events:
            raise UsageError("no event to count: perfpy.count('task-clock', ...)")
        parsed = parse_events(events, counting=True)
        self._asked = [event.name for event in parsed]
        self._counting = Counting(parsed, options=CountingOptions(identifier=False), kernel=kernel)
        self._clock = _Clock() if any(event.tool for event in parsed) else None

    def __enter__(self) -> Region:
        self._counting.open((_THIS_THREAD,))
        if self._clock:
            self._clock.start()
        self._counting.enable()
        return self

    def __exit__(self, *error: object) -> None:
        self._counting.disable()
        try:
            self._fill(self._asked, self.read())
        finally:
            self._counting.close()

    def read(self) -> list[Count]:
        """The counts so far, in the order of the events; only inside the block."""
        cells = self._counting.read(self._clock.read() if self._clock else {})
        return [named(aggregate(event, its_cells, Grouping.everything(), state=event.state)[0]) for event, its_cells in cells.items()]


class _Clock:
    """perf's own clocks, of this process."""

    def start(self) -> None:
        self._used = resource.getrusage(resource.RUSAGE_SELF)
        self._started = time.monotonic_ns()

    def read(self) -> dict[str, int]:
        """Nanoseconds since the start."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "duration_time": time.monotonic_ns() - self._started,
            "user_time": round((used.ru_utime - self._used.ru_utime) * 1e9),
            "system_time": round((used.ru_stime - self._used.ru_stime) * 1e9),
        }
