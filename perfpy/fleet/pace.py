"""How fast something has to come to be waited for.

What enters: how much came, as it comes; work that may never end. What leaves: how long the next may take; what was done, in time.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

ResultT = TypeVar("ResultT")

#: so many bytes have to come in so many seconds
_LEAST: Final = 100 << 10
_SECONDS: Final = 60.0


class Pace:
    """Of one file: its first bytes have to come within the time, too. bytes: how much came."""

    def __init__(self) -> None:
        self.bytes = 0
        self._counted = 0
        self._due = time.monotonic() + _SECONDS

    def came(self, size: int) -> None:
        """So much more."""
        self.bytes += size
        if self.bytes >= self._counted + _LEAST:
            self._counted, self._due = self.bytes, time.monotonic() + _SECONDS

    def left(self) -> float:
        """Seconds until it is too late; not more than 0 if it is."""
        return self._due - time.monotonic()


def in_time(work: Callable[[], ResultT], seconds: float) -> ResultT:
    """What work gives or raises; a thread of its own does it. Raises TimeoutError when that takes longer: it is left to itself."""
    given: queue.SimpleQueue[tuple[ResultT | None, BaseException | None]] = queue.SimpleQueue()

    def do() -> None:
        try:
            given.put((work(), None))
        except BaseException as error:  # noqa: BLE001  # whoever waits raises it
            given.put((None, error))

    threading.Thread(target=do, daemon=True).start()
    try:
        found, error = given.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return found  # type: ignore[return-value]  # None only where work gives it
