"""Watch which files are opened, by inotify(7). A lookup with O_PATH opens nothing, and is not reported."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")  # struct inotify_event without the name: wd, mask, cookie, len


@contextlib.contextmanager
def watch_opens(*paths: Path | str) -> Iterator[list[str]]:
    """Yield a list that has, at the end of the with statement, the path of each watched file for each time it was opened.

    Raises AssertionError if a path cannot be watched.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    watched: dict[int, str] = {}
    opened: list[str] = []
    try:
        for path in paths:
            number = libc.inotify_add_watch(fd, os.fsencode(path), _IN_OPEN)
            assert number >= 0, f"{path}: {os.strerror(ctypes.get_errno())}"
            watched[number] = str(path)
        yield opened
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, 1 << 16):
                opened += [watched[event[0]] for event in _EVENT.iter_unpack(data)]  # events of files, unlike folders', have no name
    finally:
        os.close(fd)
