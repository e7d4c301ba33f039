"""Functions that count events in their calls (perfpy.counted)."""

from __future__ import annotations

import functools
import threading
from types import MethodType
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from perfpy.capture.counting.region import Region
from perfpy.counts.named_counts import Counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.kernel import Kernel

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
