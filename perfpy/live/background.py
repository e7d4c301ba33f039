"""Compute in one other thread, so that keys and ring buffers never wait."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LAST_WAIT: Final = 0.2  # seconds that close() waits for the call that runs
T = TypeVar("T")


class BackgroundThread(Generic[T]):
    """Runs calls in the order in which they were submitted. A context manager that does not wait for long calls.

    What a call uses belongs to this thread until its result was taken: results() is the only way back.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._results: deque[tuple[T | None, BaseException | None]] = deque()
        self._ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()  # of the descriptor
        self._is_open = True
        self._pending = 0
        self._thread = threading.Thread(target=self._run, name="perfpy updates", daemon=True)

    def __enter__(self) -> BackgroundThread[T]:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._is_open = False
            os.close(self._ready)
        self._calls.put(None)
        self._thread.join(_LAST_WAIT)

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are results."""
        return self._ready

    @property
    def is_busy(self) -> bool:
        """Whether there are calls whose results were not taken."""
        return self._pending > 0

    def submit(self, call: Callable[[], T]) -> None:
        """Run a call after those submitted before."""
        self._pending += 1
        self._calls.put(call)

    def results(self) -> Iterator[T]:
        """Yield the results so far, in the order of the calls. Raises the error of a call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._ready)
        while self._results:
            result, error = self._results.popleft()
            self._pending -= 1
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # without an error it is a T

    def _run(self) -> None:
        while self._is_open and (call := self._calls.get()) is not None:
            try:
                self._hand_over(call(), None)
            except BaseException as error:  # noqa: BLE001  # the other thread raises it
                self._hand_over(None, error)

    def _hand_over(self, result: T | None, error: BaseException | None) -> None:
        with self._lock:
            if self._is_open:
                self._results.append((result, error))
                os.eventfd_write(self._ready, 1)
