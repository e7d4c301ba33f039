"""SIGINT and SIGTERM as requests to stop, instead of exceptions at arbitrary points."""

from __future__ import annotations

import os

from perfpy.abi.startup import signal

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Interruptible(Protocol):
        """Receives signals.

        Attributes:
            stop_fd: becomes readable, to wake poll(), when the work must stop.
            stopped: whether the work must stop.
        """

        stop_fd: int
        stopped: bool

        def interrupted(self, signum: int) -> None:
            """Handle a signal."""


class Signals:
    """Catches the signals while the context is active."""

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
