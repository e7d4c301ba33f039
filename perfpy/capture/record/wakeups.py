"""Signals as something to poll: Ctrl-C, the end of the workload, the request for a snapshot.

What enters: the signals to catch. What leaves: a descriptor that becomes
readable when one has come, and their numbers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class Wakeups:
    """Catches signals while it is open; a context manager that puts the old handlers back.

    In a thread that is not the main one no handler can be set: nothing is
    caught then, and the caller has to look at the workload from time to time.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self._signals = tuple(signals)
        self._handlers: dict[int, Any] = {}
        self._reading, self._writing = -1, -1
        self._old_fd = -1
        self.works = False

    def __enter__(self) -> Wakeups:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._old_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            return self
        self.works = True
        for number in self._signals:
            self._handlers[number] = signal.signal(number, _noted)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.works:
            signal.set_wakeup_fd(self._old_fd)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._reading

    def read(self) -> set[int]:
        """The signals that have come since the last call."""
        found: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reading, 512):
                found.update(data)
        return found & set(self._signals)


def _noted(_number: int, _frame: object) -> None:
    """The number is in the pipe already."""
