"""Call handlers at overflows of counters, on a thread that receives the kernel's signals.

No signal handler is installed. A Python signal handler does not get the descriptor, takes the signal number away from the rest of
the program, and pending signals end the process once it is removed. The kernel therefore sends the signals to perfpy's thread
alone, where they are blocked and read from a descriptor: no other code is interrupted, and late signals are dropped. Only
real-time signals are queued, each with its descriptor; one of the others may stand for several overflows.

Layouts and numbers: signalfd(2), fcntl(2), include/uapi/asm-generic/{fcntl,siginfo}.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import struct
import sys
import threading
import weakref
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import KernelRefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, Protocol

    class Overflowing(Protocol):
        """The interface of a Counter that is used here."""

        fd: int

        def refresh(self, overflows: int) -> None:
            """Enable the counter for this number of overflows."""

    Handler = Callable[[Any], object]

SI_TKILL: Final = -6  # sent to this thread by a thread, not by a descriptor
POLL_HUP: Final = 6  # of a counter: the last overflow that refresh() allowed, after which it stops

_F_SETSIG: Final = 10
_F_GETSIG: Final = 11
_F_SETOWN_EX: Final = 15
_F_OWNER_TID: Final = 0

_SIGINFO: Final = struct.Struct("=IiiIIi")  # ssi_signo, ssi_errno, ssi_code, ssi_pid, ssi_uid, ssi_fd
_SIGINFO_SIZE: Final = 128
_AT_ONCE: Final = 64
_SIGSET_BITS: Final = 1024
_LONG_BITS: Final = 8 * ctypes.sizeof(ctypes.c_ulong)


class FdSignal(NamedTuple):
    """One signal: its number, its si_code, and its descriptor."""

    signum: int
    code: int
    fd: int


class SignalFile:
    """A signalfd: reads the pending, blocked signals of the calling thread. Raises KernelRefusedError without signalfd(2)."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1

    def listen(self, signums: Collection[int]) -> None:
        """Read these signals from now on, also in a read() under way."""
        words = (ctypes.c_ulong * (_SIGSET_BITS // _LONG_BITS))()
        for signum in signums:
            words[(signum - 1) // _LONG_BITS] |= 1 << (signum - 1) % _LONG_BITS
        fd = self._libc.signalfd(self._fd, words, os.O_CLOEXEC)
        if fd < 0:
            raise KernelRefusedError("signalfd", ctypes.get_errno())
        self._fd = fd

    def read(self) -> list[FdSignal]:
        """Wait for signals. They come in the order of sending; of pending ones, the lowest number first."""
        data = os.read(self._fd, _AT_ONCE * _SIGINFO_SIZE)
        infos = (_SIGINFO.unpack_from(data, start) for start in range(0, len(data), _SIGINFO_SIZE))
        return [FdSignal(signum, code, fd) for signum, _, code, _, _, fd in infos]

    def close(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def send_to_thread(fd: int, signum: int, tid: int) -> int:
    """Send a descriptor's events as signals to one thread. Return the previous signal (0 means SIGIO)."""
    before = fcntl.fcntl(fd, _F_GETSIG)
    fcntl.fcntl(fd, _F_SETSIG, signum)
    fcntl.fcntl(fd, _F_SETOWN_EX, struct.pack("=ii", _F_OWNER_TID, tid))
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    return before


def send_no_more(fd: int, before: int) -> None:
    """Stop sending a descriptor's events as signals. `before` is the result of send_to_thread()."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
    fcntl.fcntl(fd, _F_SETSIG, before)


DEFAULT_SIGNAL: Final = signal.SIGRTMAX - 1


class _Watched:
    """A counter with a handler.

    Attributes:
        refresh: the overflows until the counter waits for its handler; 0: it never waits.
        stale: signal numbers that still come from an earlier counter with this descriptor, until their mark arrives.
    """

    def __init__(self, counter: Overflowing, handler: Handler, signum: int, refresh: int) -> None:
        self.counter = weakref.ref(counter)
        self.handler = handler
        self.signum = signum
        self.refresh = refresh
        self.before = 0
        self.stale: set[int] = set()


class OverflowThread:
    """Receives overflows while there are counters with handlers; one for each process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._file = SignalFile()
        self._thread: threading.Thread | None = None
        self._watched: dict[int, _Watched] = {}
        self._used: defaultdict[int, set[int]] = defaultdict(set)  # signals that each descriptor has sent to this thread
        self._marks: defaultdict[int, deque[_Watched | None]] = defaultdict(deque)  # the meaning of each signal that perfpy itself sends

    def watch(self, counter: Overflowing, handler: Handler, *, signum: int = 0, refresh: int = 0) -> None:
        """Call `handler(counter)` at each overflow from now on. Raises UsageError, KernelRefusedError."""
        signum = signum or DEFAULT_SIGNAL
        if not signal.SIGRTMIN <= signum <= signal.SIGRTMAX:
            numbers = f"{int(signal.SIGRTMIN)} to {int(signal.SIGRTMAX)}"
            reason = "is not queued, so overflows may be lost"
            raise UsageError(f"signum={int(signum)} {reason}; use a real-time signal, {numbers}")
        watched = _Watched(counter, handler, signum, refresh)
        with self._lock:
            if self._thread is None:
                self._file.listen(())
                blocked = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(blocked,), name="perfpy overflows", daemon=True)
                self._thread.start()
                blocked.wait()
            thread = self._thread
            self._replace(counter.fd, watched)
            for earlier in self._used[counter.fd]:
                watched.stale.add(earlier)
                self._marks[earlier].append(watched)
                signal.pthread_kill(thread.ident or 0, earlier)
            self._used[counter.fd].add(signum)
            self._file.listen(set().union(*self._used.values()))
            watched.before = send_to_thread(counter.fd, signum, thread.native_id or 0)

    def forget(self, fd: int) -> None:
        """Stop the calls for this descriptor; a running call completes."""
        with self._lock:
            watched = self._replace(fd, None)
            if watched is not None and not self._watched and self._thread is not None:
                self._marks[watched.signum].append(None)
                signal.pthread_kill(self._thread.ident or 0, watched.signum)  # wakes the thread, which ends

    def _replace(self, fd: int, watched: _Watched | None) -> _Watched | None:
        before = self._watched.pop(fd, None)
        if before is not None:
            with contextlib.suppress(OSError):  # it was closed already
                send_no_more(fd, before.before)
        if watched is not None:
            self._watched[fd] = watched
        return before

    def abandon(self) -> None:
        """Release the thread's resources in a forked child; the parent's counters stay unchanged."""
        self._file.close()

    def _run(self, blocked: threading.Event) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # other signals go to other threads, too
        blocked.set()
        while True:
            for received in self._file.read():
                self._handle(received)
            if signal.SIGIO in signal.sigpending():
                self._handle_full_queue()
            with self._lock:
                if not self._watched:
                    # Reset the state; signals still pending for this thread are dropped with it.
                    self._thread = None
                    self._used.clear()
                    self._marks.clear()
                    self._file.close()
                    return

    def _handle(self, received: FdSignal) -> None:
        with self._lock:
            if received.code == SI_TKILL:
                marks = self._marks[received.signum]
                marked = marks.popleft() if marks else None
                if marked is not None:
                    marked.stale.discard(received.signum)
                return
            watched = self._watched.get(received.fd)
            if watched is None or received.signum in watched.stale:
                return
        _call(watched, stopped=received.code == POLL_HUP)

    def _handle_full_queue(self) -> None:
        """Handle SIGIO, which has no descriptor: the kernel's queue is full (RLIMIT_SIGPENDING), and any counter may have overflowed."""
        signal.sigtimedwait({signal.SIGIO}, 0)
        with self._lock:
            watched_counters = list(self._watched.values())
        for watched in watched_counters:
            _call(watched, stopped=True)


def _call(watched: _Watched, *, stopped: bool) -> None:
    counter = watched.counter()
    if counter is None or counter.fd < 0:
        return
    try:
        watched.handler(counter)
    except Exception:  # noqa: BLE001  # the program's own error, reported as for any thread
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
    if watched.refresh and stopped and counter.fd >= 0:
        counter.refresh(watched.refresh)


_thread = OverflowThread()


def overflow_thread() -> OverflowThread:
    """Return the thread of this process; a forked child has a new one without counters."""
    return _thread


def _after_fork() -> None:
    global _thread  # noqa: PLW0603  # the parent's thread does not exist in the child, and its lock may be held
    _thread.abandon()
    _thread = OverflowThread()


os.register_at_fork(after_in_child=_after_fork)
