"""Count a block of the calling program's code (perfpy.count).

Counters are on the calling thread, and on threads and children that it starts inside the block.
"""

from __future__ import annotations

import functools
import resource
import threading
import time
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, TypeVar

from perfpy.capture.counters import Counting, CountingOptions
from perfpy.counts.aggregation import Grouping, add_boxes, aggregate
from perfpy.counts.named_counts import Count, Counts, named_count
from perfpy.errors import UsageError
from perfpy.events import parse_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.counter import OpenEvent
    from perfpy.kernel import Kernel


_THIS_THREAD: Final = 0
_EMPTY_BLOCKS: Final = 5


class Region(Counts):
    """Counts while its `with` block runs; afterwards a mapping with the counts.

    >>> import perfpy
    >>> with perfpy.count("task-clock:u", "page-faults:u") as counts:
    ...     pages = bytes(50 * 4096)
    >>> counts["page-faults:u"].value >= 0
    True
    """

    def __init__(
        self, *events: str, inherit: bool = True, separate_children: bool = False, net: bool = False, kernel: Kernel | None = None
    ) -> None:
        """See perfpy.count, which has the same parameters; kernel: the machine to count on."""
        super().__init__()
        if not events:
            raise UsageError("no events to count; give some, for example perfpy.count('task-clock')")
        if separate_children and not inherit:
            raise UsageError("separate_children=True requires inherit=True")
        parsed = parse_events(events, counting=True)
        alone = [event for event in parse_events(events, counting=True) if not event.tool] if separate_children else []
        self._event_names = [event.name for event in parsed if event.added_to is None]
        self._alone = frozenset(alone)
        self._make = partial(Region, *events, inherit=inherit, separate_children=separate_children, kernel=kernel)
        self._counting = Counting(
            [*parsed, *alone], options=CountingOptions(identifier=False, inherit=inherit, alone=self._alone), kernel=kernel
        )
        self._clock = _Clock() if any(event.tool for event in parsed) else None
        self._net = net
        self._overhead: Counts | None = None

    def __enter__(self) -> Region:
        if self._net:
            self.overhead()
        self._counting.open((_THIS_THREAD,))
        if self._clock:
            self._clock.start()
        self._counting.enable()
        return self

    def __exit__(self, *error: object) -> None:
        self._counting.disable()
        try:
            counts = self.read()
        finally:
            self._counting.close()
        if self._net:
            counts = [count.without(part) for count, part in zip(counts, self.overhead().values(), strict=True)]
        self._fill(self._event_names, counts)

    def read(self) -> list[Count]:
        """Return the counts so far, in the order of the events; only inside the block."""
        cells = self._counting.read(self._clock.read() if self._clock else {})
        everything = Grouping.everything()
        rows = add_boxes({event: aggregate(event, its_cells, everything, state=event.state) for event, its_cells in cells.items()})
        shown = self._shown()
        counts = {event: named_count(its_rows[0]) for event, its_rows in rows.items()}
        of_parent = iter([count for event, count in counts.items() if event not in shown])
        return [counts[event].beside(next(of_parent)) if self._alone and not event.tool else counts[event] for event in shown]

    def _shown(self) -> list[OpenEvent]:
        """Return the events whose counts are shown; other boxes' counts and those of the task alone are parts of these."""
        return [event for event in self._counting.events if event.added_to is None and event.event not in self._alone]

    def overhead(self) -> Counts:
        """Return the counts of an empty block: the cost of enabling and disabling. Measured once, as the minimum of a few blocks."""
        if self._overhead is None:
            empty = self._make()
            blocks = [list(empty.values()) for _ in range(_EMPTY_BLOCKS) if empty.run_empty_block()]
            least = [min(counts, key=lambda count: count.value or 0) for counts in zip(*blocks, strict=True)]
            self._overhead = Counts(self._event_names, least)
        return self._overhead

    def run_empty_block(self) -> bool:
        """Run an empty block."""
        with self:
            pass
        return True

    @property
    def why_not(self) -> dict[str, str]:
        """The events that this machine cannot count, each with the reason; available once the block has begun."""
        return {event.event.name: str(event.state.why_not) for event in self._shown() if not event.state.supported}


class _Clock:
    """perf's own clocks, for this process."""

    def start(self) -> None:
        self._used = resource.getrusage(resource.RUSAGE_SELF)
        self._started = time.monotonic_ns()

    def read(self) -> dict[str, int]:
        """Return nanoseconds since the start."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "duration_time": time.monotonic_ns() - self._started,
            "user_time": round((used.ru_utime - self._used.ru_utime) * 1e9),
            "system_time": round((used.ru_stime - self._used.ru_stime) * 1e9),
        }


# Functions that count events in their calls (perfpy.counted).

P = ParamSpec("P")
R = TypeVar("R")


class CountedFunction(Generic[P, R]):
    """A function whose calls are counted, each on its own thread; recursive calls belong to the outermost one.

    Attributes:
        counts: the sums over all completed calls, including those that raised.
        calls: the number of completed calls.
    """

    def __init__(self, function: Callable[P, R], events: tuple[str, ...], *, kernel: Kernel | None = None) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._events = events
        self._kernel = kernel
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._region()  # raises errors now instead of at the first call
        self.reset()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and count its events."""
        if getattr(self._of_thread, "busy", False):
            return self._function(*args, **kwargs)
        region = self._region()
        self._of_thread.busy = True
        try:
            with region:
                return self._function(*args, **kwargs)
        finally:
            self._of_thread.busy = False
            self._add(region)

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        """Bind the function to its object as a method."""
        return self if instance is None else MethodType(self, instance)

    def reset(self) -> None:
        """Reset the counts."""
        self.counts = Counts()
        self.calls = 0

    def _region(self) -> Region:
        region: Region | None = getattr(self._of_thread, "region", None)
        if region is None:
            region = self._of_thread.region = Region(*self._events, kernel=self._kernel)
        return region

    def _add(self, region: Region) -> None:
        with self._lock:
            before = self.counts
            self.counts = Counts(list(region), [before[name] + count if before else count for name, count in region.items()])
            self.calls += 1


def counted(*events: str, kernel: Kernel | None = None) -> Callable[[Callable[P, R]], CountedFunction[P, R]]:
    """See perfpy.counted; kernel: the machine to count on."""
    return lambda function: CountedFunction(function, events, kernel=kernel)
