"""Time limits for data that arrive slowly or never: a minimal rate, and a timeout for work."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

ResultT = TypeVar("ResultT")

#: at least 100 KB in each minute
_LEAST: Final = 100 << 10
_SECONDS: Final = 60.0


class Pace:
    """The rate of one download, whose first bytes must come within the time limit, too; bytes: received so far."""

    def __init__(self) -> None:
        self.bytes = 0
        self._counted = 0
        self._due = time.monotonic() + _SECONDS

    def add(self, size: int) -> None:
        """Count received bytes."""
        self.bytes += size
        if self.bytes >= self._counted + _LEAST:
            self._counted, self._due = self.bytes, time.monotonic() + _SECONDS

    def seconds_left(self) -> float:
        """Return the seconds until the limit; at most 0 if it has passed."""
        return self._due - time.monotonic()


def run_with_timeout(work: Callable[[], ResultT], seconds: float) -> ResultT:
    """Run work in a thread and return its result. Raises TimeoutError after `seconds`; the thread is then abandoned."""
    answers: queue.SimpleQueue[tuple[ResultT | None, BaseException | None]] = queue.SimpleQueue()

    def do() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001  # the caller raises it
            answers.put((None, error))

    threading.Thread(target=do, daemon=True).start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # None only if work returns it
