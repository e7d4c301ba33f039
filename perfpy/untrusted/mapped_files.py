"""Survive the truncation of mapped files while they are read (SIGBUS).

Any user can truncate a program or library while root's recorder or report reads it. The missing part of such a file (GuardedMap) reads as
zeros. A recording has no substitute: a command that reads it (watch) prints one line on stderr and ends with status 255. Other bus errors
keep their effect, and so does a program's own handler. Layouts: sigaction(2), siginfo_t.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # as in perfpy.cli
import ctypes
import errno
import mmap
import os
import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

_FAILURE: Final = 255
_STDERR: Final = 2
_SA_SIGINFO: Final = 4
_MAP_FIXED: Final = 0x10
_ADDRESS_AT: Final = 16 if sys.maxsize > 1 << 32 else 12  # si_addr
#: machines whose struct sigaction is the usual one
_MACHINES: Final = ("x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "loongarch64")

#: file descriptor -> the size that the file had, and the message if it has less
_watched: dict[int, tuple[int, bytes]] = {}
#: start of a mapped file -> its end, and the function to call if its rest is gone
_guarded: dict[int, tuple[int, Callable[[], object]]] = {}


class _Action(ctypes.Structure):
    _fields_ = (("handler", ctypes.c_void_p), ("mask", ctypes.c_ubyte * 128), ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p))


_previous = _Action()
_handler: list[Any] = []


class GuardedMap(mmap.mmap):
    """A file mapped for reading, whose missing part reads as zeros if it is truncated meanwhile."""

    _start = 0

    def guard(self, truncated: Callable[[], object]) -> None:
        """Begin to guard; `truncated` is called when a part is missing."""
        view = memoryview(self)
        self._start = address_of(view)
        view.release()
        _guarded[self._start] = (self._start + len(self), truncated)
        _catch()

    def __del__(self) -> None:
        """Stop guarding: other memory may get the addresses."""
        _guarded.pop(self._start, None)


def map_file(fd: int, truncated: Callable[[], object]) -> GuardedMap:
    """Map a whole file, which is not empty. Raises OSError, also if it is truncated in between."""
    try:
        mapped = GuardedMap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ)
    except ValueError:
        raise OSError(errno.EIO, "the file was truncated while it was opened") from None
    mapped.guard(truncated)
    return mapped


def watch(fd: int, path: str) -> None:
    """End the process with a line if the file is truncated, unless the program has its own handler of SIGBUS."""
    _watched[fd] = os.fstat(fd).st_size, f"{path}: the file was cut while it was read\n".encode(errors="replace")
    _catch()


def unwatch(fd: int) -> None:
    """Stop watching the file."""
    _watched.pop(fd, None)


def _catch() -> None:
    """Install the handler once. A handler of Python's kind runs after the instruction, which would fail for ever."""
    if _handler or signal.getsignal(signal.SIGBUS) is not signal.SIG_DFL:
        return
    if not sys.platform.startswith("linux") or os.uname().machine not in _MACHINES:
        return
    _handler.append(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(_take))
    action = _Action(handler=ctypes.cast(_handler[0], ctypes.c_void_p), flags=_SA_SIGINFO)
    _libc.sigaction(signal.SIGBUS, ctypes.byref(action), ctypes.byref(_previous))


def _take(_number: int, info: int, _context: int) -> None:
    address = ctypes.c_void_p.from_address(info + _ADDRESS_AT).value or 0
    for start, (end, truncated) in _guarded.items():
        if start <= address < end:
            page = address & -mmap.PAGESIZE
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
            if _libc.mmap(page, end - page, mmap.PROT_READ, flags, -1, 0) == page:
                truncated()
                return
    for fd, (size, message) in _watched.items():
        if os.fstat(fd).st_size < size:
            os.write(_STDERR, message)
            os._exit(_FAILURE)
    _libc.sigaction(signal.SIGBUS, ctypes.byref(_previous), None)  # not ours: the instruction is run again, and fails as before
    _handler.clear()


def address_of(view: memoryview) -> int:
    """Return the address of read-only memory, which ctypes does not provide."""
    buffer = _Buffer()
    _get_buffer(view, ctypes.byref(buffer), 0)
    address = buffer.address
    _release_buffer(ctypes.byref(buffer))
    return address or 0


class _Buffer(ctypes.Structure):
    """Py_buffer, which begins with { void *buf; PyObject *obj }, and is shorter than this."""

    _fields_ = (("address", ctypes.c_void_p), ("rest", ctypes.c_void_p * 15))


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.c_void_p, ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = (ctypes.c_void_p,), None
_libc: Final = ctypes.PyDLL(None)
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mmap.restype = ctypes.c_void_p
