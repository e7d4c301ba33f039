"""SIGINT and SIGTERM as a wish to end, instead of an exception in the middle of something.

What enters: who is to be told. What leaves: a call of `interrupted`, and a
readable descriptor that wakes whoever polls.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Interruptible(Protocol):
        """Whoever is told; stopped: the work is to end now, stop_fd is readable then."""

        stop_fd: int
        stopped: bool

        def interrupted(self, signum: int) -> None:
            """A signal came."""


class Signals:
    """Catches the signals for as long as the context lasts."""

    def __init__(self, listener: Interruptible) -> None:
        self._listener = listener
        self._signals = (signal.SIGINT, signal.SIGTERM)
        self._before: list[Any] = []
        self._read, self._write = os.pipe()

    def __enter__(self) -> Signals:
        os.set_blocking(self._write, False)
        self._before = [signal.signal(signum, self._handle) for signum in self._signals]
        self._listener.stop_fd = self._read
        return self

    def _handle(self, signum: int, _frame: object) -> None:
        self._listener.interrupted(signum)
        if self._listener.stopped:
            os.write(self._write, b"s")

    def __exit__(self, *exc: object) -> None:
        for signum, handler in zip(self._signals, self._before, strict=True):
            signal.signal(signum, handler)
        self._listener.stop_fd = -1
        os.close(self._read)
        os.close(self._write)
