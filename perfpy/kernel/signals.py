"""Signals of file descriptors, as values: who sends them to which thread, and what they say.

What enters: a descriptor whose events become signals, a thread, signal
numbers. What leaves: `FdSignal` values, read where the signals are blocked.
Layouts and numbers: signalfd(2), fcntl(2), include/uapi/asm-generic/{fcntl,siginfo}.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import KernelRefused

if TYPE_CHECKING:
    from collections.abc import Collection

SI_TKILL: Final = -6  # sent to this thread by a thread, not by a descriptor
POLL_HUP: Final = 6  # of a counter: the last overflow that refresh() allowed, after which it stands still

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
    """One signal: its number, why it was sent (si_code), and of which descriptor."""

    signum: int
    code: int
    fd: int


class SignalFile:
    """Reads signals that are pending for the calling thread and blocked there, instead of being interrupted by them.

    Raises KernelRefused where there is no signalfd(2).
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1

    def listen(self, signums: Collection[int]) -> None:
        """Read these from now on; a read() under way hears them, too."""
        words = (ctypes.c_ulong * (_SIGSET_BITS // _LONG_BITS))()
        for signum in signums:
            words[(signum - 1) // _LONG_BITS] |= 1 << (signum - 1) % _LONG_BITS
        fd = self._libc.signalfd(self._fd, words, os.O_CLOEXEC)
        if fd < 0:
            raise KernelRefused("signalfd", ctypes.get_errno())
        self._fd = fd

    def read(self) -> list[FdSignal]:
        """Wait for signals; in the order in which they were sent, those of a lower number first."""
        data = os.read(self._fd, _AT_ONCE * _SIGINFO_SIZE)
        found = (_SIGINFO.unpack_from(data, start) for start in range(0, len(data), _SIGINFO_SIZE))
        return [FdSignal(signum, code, fd) for signum, _, code, _, _, fd in found]

    def close(self) -> None:
        """Hear no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def send_to_thread(fd: int, signum: int, tid: int) -> int:
    """Let a descriptor's events become signals to one thread; returns the signal that it was before (0: SIGIO)."""
    before = fcntl.fcntl(fd, _F_GETSIG)
    fcntl.fcntl(fd, _F_SETSIG, signum)
    fcntl.fcntl(fd, _F_SETOWN_EX, struct.pack("=ii", _F_OWNER_TID, tid))
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    return before


def send_no_more(fd: int, before: int) -> None:
    """The descriptor's events are no signals any more; `before`: what send_to_thread() returned."""
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
    fcntl.fcntl(fd, _F_SETSIG, before)
