"""Signals of file descriptors, sent to one thread and read as values.

Layouts and numbers: signalfd(2), fcntl(2), include/uapi/asm-generic/{fcntl,siginfo}.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import KernelRefusedError

if TYPE_CHECKING:
    from collections.abc import Collection

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
