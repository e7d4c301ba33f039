"""Overflows of counters as calls: a thread of ours hears the kernel's signals and knows by their descriptor who overflowed.

What enters: counters, with what to call. What leaves: one call of the handler
for each overflow, on that thread.

No signal handler is installed. One in Python is not told which descriptor a
signal is about, takes the number away from the rest of the program, and lets
the signals that are under way when it goes end the process. So the kernel
sends them to our thread alone, where they are blocked and read: nobody else
is interrupted, and what comes too late is dropped. Only real-time signals are
queued, each with its descriptor; of others one may stand for several.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import weakref
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from perfpy.errors import UsageError
from perfpy.kernel.signals import POLL_HUP, SI_TKILL, FdSignal, SignalFile, send_no_more, send_to_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Overflowing(Protocol):
        """What is told of here: a Counter."""

        fd: int

        def refresh(self, overflows: int) -> None:
            """Count for so many overflows more."""

    Handler = Callable[[Any], object]

DEFAULT_SIGNAL: Final = signal.SIGRTMAX - 1


class _Watched:
    """A counter whose overflows are heard.

    refresh: so many overflows until it waits for its handler, 0: it never
    does; stale: signals of these numbers are those of an earlier counter with
    the same descriptor, until the mark behind them comes.
    """

    def __init__(self, counter: Overflowing, handler: Handler, signum: int, refresh: int) -> None:
        self.counter = weakref.ref(counter)
        self.handler = handler
        self.signum = signum
        self.refresh = refresh
        self.before = 0
        self.stale: set[int] = set()


class OverflowThread:
    """Hears of overflows while there are counters to be heard of; one for a process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._file = SignalFile()
        self._thread: threading.Thread | None = None
        self._watched: dict[int, _Watched] = {}
        self._used: defaultdict[int, set[int]] = defaultdict(set)  # signals that each descriptor has sent to this thread
        self._marks: defaultdict[int, deque[_Watched | None]] = defaultdict(deque)  # what each signal of ours stands for

    def watch(self, counter: Overflowing, handler: Handler, *, signum: int = 0, refresh: int = 0) -> None:
        """Call `handler(counter)` at each overflow from now on. Raises UsageError, KernelRefusedError."""
        signum = signum or DEFAULT_SIGNAL
        if not signal.SIGRTMIN <= signum <= signal.SIGRTMAX:
            numbers = f"{int(signal.SIGRTMIN)} to {int(signal.SIGRTMAX)}"
            reason = "is not queued, so that one may stand for several overflows"
            raise UsageError(f"signum={int(signum)} {reason}: take a real-time signal, {numbers}")
        watched = _Watched(counter, handler, signum, refresh)
        with self._lock:
            thread = self._running()
            self._replace(counter.fd, watched)
            for earlier in self._used[counter.fd]:
                watched.stale.add(earlier)
                self._marks[earlier].append(watched)
                signal.pthread_kill(thread.ident or 0, earlier)
            self._used[counter.fd].add(signum)
            self._file.listen(set().union(*self._used.values()))
            watched.before = send_to_thread(counter.fd, signum, thread.native_id or 0)

    def forget(self, fd: int) -> None:
        """No calls any more for this descriptor; a call under way ends."""
        with self._lock:
            watched = self._replace(fd, None)
            if watched is not None and not self._watched and self._thread is not None:
                self._marks[watched.signum].append(None)
                signal.pthread_kill(self._thread.ident or 0, watched.signum)  # so that it looks, and ends

    def _replace(self, fd: int, watched: _Watched | None) -> _Watched | None:
        before = self._watched.pop(fd, None)
        if before is not None:
            with contextlib.suppress(OSError):  # it was closed without us
                send_no_more(fd, before.before)
        if watched is not None:
            self._watched[fd] = watched
        return before

    def abandon(self) -> None:
        """After a fork, in the child: what the thread used is given back, what the parent watches stays as it is."""
        self._file.close()

    def _running(self) -> threading.Thread:
        if self._thread is None:
            self._file.listen(())
            blocked = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(blocked,), name="perfpy overflows", daemon=True)
            self._thread.start()
            blocked.wait()
        return self._thread

    def _run(self, blocked: threading.Event) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # also: other signals are for other threads
        blocked.set()
        while True:
            for told in self._file.read():
                self._heard(told)
            if signal.SIGIO in signal.sigpending():
                self._heard_too_many()
            with self._lock:
                if not self._watched:
                    self._end()
                    return

    def _end(self) -> None:
        """What is still pending for this thread goes with it."""
        self._thread = None
        self._used.clear()
        self._marks.clear()
        self._file.close()

    def _heard(self, told: FdSignal) -> None:
        with self._lock:
            if told.code == SI_TKILL:
                marks = self._marks[told.signum]
                marked = marks.popleft() if marks else None
                if marked is not None:
                    marked.stale.discard(told.signum)
                return
            watched = self._watched.get(told.fd)
            if watched is None or told.signum in watched.stale:
                return
        _call(watched, stopped=told.code == POLL_HUP)

    def _heard_too_many(self) -> None:
        """The kernel's queue was full (RLIMIT_SIGPENDING) and it sent SIGIO, which names nobody: all may have overflowed."""
        signal.sigtimedwait({signal.SIGIO}, 0)
        with self._lock:
            everybody = list(self._watched.values())
        for watched in everybody:
            _call(watched, stopped=True)


def _call(watched: _Watched, *, stopped: bool) -> None:
    counter = watched.counter()
    if counter is None or counter.fd < 0:
        return
    try:
        watched.handler(counter)
    except Exception:  # noqa: BLE001  # the program's own mistake: told as that of any thread
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
    if watched.refresh and stopped and counter.fd >= 0:
        counter.refresh(watched.refresh)


_thread = OverflowThread()


def overflow_thread() -> OverflowThread:
    """The one of this process: a child that was forked has another, which hears of nothing yet."""
    return _thread


def _after_fork() -> None:
    global _thread  # noqa: PLW0603  # the parent's thread is not in the child, and its lock may be held forever
    _thread.abandon()
    _thread = OverflowThread()


os.register_at_fork(after_in_child=_after_fork)
