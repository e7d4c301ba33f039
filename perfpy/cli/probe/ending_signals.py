"""Clean up before a signal ends the process.

Ctrl-C, SIGTERM and their like end perfpy at once, or raise KeyboardInterrupt at any instruction, also in the first one of a finally clause.
EndingSignals catches them: its handler cleans up and then lets the signal do what it would have done. While a change is under way, as
between the kernel's answer and the note of it, signals wait.

A mask (pthread_sigmask) would not do: the kernel gives a process's signal to another thread, and Python runs the handler in the main one.
Handlers of others stay: who installs one (record, stat, trace) ends what it does by itself. SIGKILL cannot be caught.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

ENDING: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGALRM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXCPU,
)


class EndingSignals:
    """Catches signals that would end the process, in the main thread; a context manager.

    Args:
        clean_up: runs once or more often, never during hold(), and raises nothing; its argument: whether the process ends at once.
    """

    def __init__(self, clean_up: Callable[[bool], object]) -> None:
        self._clean_up = clean_up
        self._pid = os.getpid()
        self._handlers: dict[int, Any] = {}  # the former ones
        self._holds = 0
        self._arrived = 0  # the first signal during hold()

    def __enter__(self) -> EndingSignals:
        with contextlib.suppress(ValueError):  # Only the main thread can set handlers.
            for number in ENDING:
                handler = signal.getsignal(number)
                if handler in (signal.SIG_DFL, signal.default_int_handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Let signals wait within a with statement. They take effect at its end."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if self._arrived and not self._holds:
                number, self._arrived = self._arrived, 0
                self._take(number, None)

    def _take(self, number: int, _frame: object) -> None:
        if self._holds:
            self._arrived = self._arrived or number
            return
        handler = self._handlers.get(number, signal.SIG_DFL)
        if os.getpid() == self._pid:  # not a child between fork and exec
            self._holds += 1
            try:
                self._clean_up(not callable(handler))
            finally:
                self._holds -= 1
        self._restore()
        if callable(handler):
            handler(number, None)  # raises KeyboardInterrupt
        else:
            os.kill(os.getpid(), number)

    def _restore(self) -> None:
        for number, handler in reversed(self._handlers.items()):  # SIGINT last: it may raise; a signal may begin this once more
            if signal.getsignal(number) == self._take:
                signal.signal(number, handler)
