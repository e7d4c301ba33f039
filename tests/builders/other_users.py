"""Processes of a user who is in no list of users, for tests that run as root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UID = 54321
GID = 54322

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


_CLONE_NEWNS = 0x20000


def idle() -> None:
    """Do nothing until the end."""
    while True:
        signal.pause()


@contextlib.contextmanager
def child(
    root: Path | str = "/", uid: int = UID, gid: int = GID, work: Callable[[], object] = idle, *, own_mounts: bool = False
) -> Iterator[int]:
    """The pid of a forked process of another user below another root. It has begun its work.

    own_mounts: it has mounts of its own, as a container has.
    """
    ready, begun = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses no thread
        pid = os.fork()
    if not pid:
        try:
            if own_mounts and ctypes.CDLL(None).unshare(_CLONE_NEWNS):
                os._exit(1)
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as after an exec
            os.write(begun, b".")
            work()
        finally:
            os._exit(1)
    os.close(begun)
    try:
        if not os.read(ready, 1):
            raise RuntimeError("the child could not become another user")
        yield pid
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
