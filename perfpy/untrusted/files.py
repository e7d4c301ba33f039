"""Files that others may have put where another is expected.

What enters: a path that the user's environment or untrusted data names. What
leaves: an open regular file; OSError for a FIFO, a device, a folder (opening
or reading one may never end), for a file of an owner that is not trusted, and
for one that is too large. What was opened is looked at, not what has the name.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import BinaryIO

_WRITER_SECONDS = 5
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class Foreign(PermissionError):
    """A file that somebody owns who is not trusted."""


class NotRegular(OSError):
    """A FIFO, a device, a folder or a socket where a file is expected."""


def trusted() -> tuple[int, int]:
    """Whose files are believed without further ado: root's and our own."""
    return 0, os.geteuid()


def regular_fd(path: str, *, owners: Collection[int] | None = None) -> int:
    """A file descriptor of a regular file. owners: user ids that may own it, and a symbolic link to it (None: all)."""
    if owners is not None and (found := os.lstat(path)).st_uid not in owners and stat.S_ISLNK(found.st_mode):
        raise Foreign(errno.EACCES, f"a link of user {found.st_uid}", path)
    fd = os.open(path, _FLAGS)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise NotRegular(errno.EINVAL, "not a regular file", path)
        if owners is not None and state.st_uid not in owners:
            raise Foreign(errno.EACCES, f"belongs to user {state.st_uid}", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_regular(path: str, *, owners: Collection[int] | None = None, limit: int | None = None) -> BinaryIO:
    """A regular file, to be read. limit: the most bytes that it may have. Raises OSError."""
    fd = regular_fd(path, owners=owners)
    if limit is not None and os.fstat(fd).st_size > limit:
        os.close(fd)
        raise _too_large(path, limit)
    return open(fd, "rb")


def read_regular(path: str, *, owners: Collection[int] | None = None, limit: int) -> bytes:
    """All of a regular file, also of one of /proc, whose size nobody knows. Raises OSError."""
    with open_regular(path, owners=owners, limit=limit) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def read_named(path: str, *, limit: int) -> bytes:
    """As read_regular, of a file that the user named by an option: that may be a pipe which was handed to us."""
    if not is_handed(path):
        return read_regular(path, limit=limit)
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def stream_fd(path: str) -> int:
    """A file descriptor of a file, a folder or a pipe, as the user named it; of a pipe once its writer has come.

    Raises NotRegular for devices (but the empty one), TimeoutError for a FIFO into which nobody writes.
    """
    fd = os.open(path, _FLAGS)
    try:
        mode = os.fstat(fd).st_mode
        if not is_handed(path):
            if stat.S_ISFIFO(mode):
                _await_writer(fd, path)
            elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                raise NotRegular(errno.EINVAL, "a device, not a recording", path)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_handed(path: str) -> bool:
    """Whether a name means a descriptor that we were started with (/dev/stdin, the shell's <(command)), or the empty file."""
    return path in ("/dev/stdin", os.devnull) or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def _await_writer(fd: int, path: str) -> None:
    import select  # few read from a FIFO

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(_WRITER_SECONDS * 1000):
        raise TimeoutError(errno.ETIMEDOUT, f"nobody writes into this pipe for {_WRITER_SECONDS} seconds", path)


def _too_large(path: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit >> 20} MB", path)
