"""Signals as something to poll: Ctrl-C, the end of the workload, the request for a snapshot."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class Wakeups:
    """Catches signals while it is open; a context manager that restores the old handlers.

    Only the main thread can set handlers. In other threads nothing is caught, and the caller has to poll the workload. An ignored
    SIGHUP (nohup) stays ignored.

    Attributes:
        works: whether signals are caught.
        arrived: whether a signal has arrived that read() has not returned. It needs no system call, so that loops may check it often,
            also when system calls are recorded.
    """

    def __init__(self, signals: Iterable[int]) -> None:
        self._signals = tuple(signals)
        self._handlers: dict[int, Any] = {}
        self._reading, self._writing = -1, -1
        self._old_fd = -1
        self.works = False
        self.arrived = False

    def __enter__(self) -> Wakeups:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._old_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        except ValueError:  # not the main thread
            return self
        self.works = True
        for number in self._signals:
            self._catch(number)
        return self

    def add(self, number: int) -> None:
        """Catch another signal from now on."""
        self._signals += (number,)
        if self.works:
            self._catch(number)

    def _catch(self, number: int) -> None:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            self._handlers[number] = signal.signal(number, self._note)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.works:
            signal.set_wakeup_fd(self._old_fd)
        os.close(self._reading)
        os.close(self._writing)

    def _note(self, _number: int, _frame: object) -> None:
        self.arrived = True  # the number is in the pipe

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._reading

    def read(self) -> set[int]:
        """Return the signals since the last call."""
        self.arrived = False  # first: a signal that arrives now is returned by the next call at the latest
        numbers: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reading, 512):
                numbers.update(data)
        return numbers & set(self._signals)
