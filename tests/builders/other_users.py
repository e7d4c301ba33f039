"""Processes of a user who is in no list of users, for tests that run as root."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UID = 54321
GID = 54322

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@contextlib.contextmanager
def child(root: Path | str = "/", uid: int = UID, gid: int = GID) -> Iterator[int]:
    """The pid of a forked process that does nothing, as another user, below another root."""
    ready, begun = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            os.write(begun, b".")
            while True:
                signal.pause()
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
