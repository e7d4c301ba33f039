"""End a command with a message if a mapped file is truncated while it is read (SIGBUS): one line on stderr, exit status 255.

Missing bytes cannot be replaced, because they are read inside array operations. Only commands use this; a library must not end its
process.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

_FAILURE = 255
_STDERR = 2

#: file descriptor -> the size that the file had, and what is said if it has less
_watched: dict[int, tuple[int, bytes]] = {}
_handler: list[Any] = []


def watch(fd: int, path: str) -> None:
    """From now on a file that is cut ends the process with a line, unless somebody has a handler of SIGBUS of their own."""
    if signal.getsignal(signal.SIGBUS) is not signal.SIG_DFL:
        return
    message = f"{path}: the file was cut while it was read\n".encode(errors="replace")
    _watched[fd] = os.fstat(fd).st_size, message
    if not _handler:
        # Python's own handlers run after the instruction, which would fail for ever
        _handler.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(_end))
        _set(ctypes.cast(_handler[0], ctypes.c_void_p))


def unwatch(fd: int) -> None:
    """The file is read no longer."""
    _watched.pop(fd, None)
    if not _watched and _handler:
        _set(None)
        _handler.clear()


def _set(handler: ctypes.c_void_p | None) -> None:
    function = ctypes.CDLL(None).signal
    function.argtypes, function.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    function(signal.SIGBUS, handler)


def _end(_number: int) -> None:
    for fd, (size, message) in _watched.items():
        if os.fstat(fd).st_size < size:
            os.write(_STDERR, message)
            os._exit(_FAILURE)
    _set(None)  # no file of ours: the instruction is run again, and ends the process as ever
