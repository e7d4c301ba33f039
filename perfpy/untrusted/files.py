"""Open files that others may have replaced.

Opens regular files only. Raises OSError for FIFOs, devices and folders, for files of untrusted owners, and for files that are too large.
Checks apply to a descriptor, not to the name: see untrusted.judging.
"""

from __future__ import annotations

import errno
import os
import stat

from perfpy.untrusted.judging import FLAGS, NODE, NotRegularFileError, open_judged, require_regular
from perfpy.untrusted.paths import split_process

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import BinaryIO

    from perfpy.untrusted.judging import Judge

_WRITER_SECONDS = 5
_MOST_LINKS = 8
_SMALL = 16 << 20  # bytes
_DENSE = 32  # bytes of a file for each one on the disk: file systems that compress store little less
_BLOCK = 512  # bytes, of st_blocks


class ForeignFileError(PermissionError):
    """A file of an untrusted owner."""


def trusted_file_owners() -> tuple[int, int]:
    """Return the owners of trusted files: root and the current user."""
    return 0, os.geteuid()


def regular_fd(path: str, *, owners: Collection[int] | None = None, follow: bool = True, reader: int = 0, of_kernel: bool = False) -> int:
    """Open a regular file for reading, and return its descriptor. Other files are not opened. Raises OSError.

    Args:
        path: a path below /proc/PID/root (untrusted.paths.in_process) is opened inside that process's root.
        owners: user ids that may own the file (None: all); a symbolic link to it must then belong to root or the current user.
        follow: whether path may be a symbolic link.
        reader: the pid of a running process whose user must be able to read the file.
        of_kernel: whether the file may be one of the kernel's, in /proc or /sys; only for paths that nobody else chose.
    """

    def judge(state: os.stat_result, node: int) -> None:
        require_regular(state, path, -1 if of_kernel else node)
        if owners is not None and state.st_uid not in owners:
            raise ForeignFileError(errno.EACCES, f"belongs to user {state.st_uid}", path)

    fd = _open(path, follow and owners is None, reader, judge)
    for _ in range(_MOST_LINKS if follow else 0):
        if fd is not None:
            break
        path = trusted_target(path)
        fd = _open(path, False, reader, judge)
    if fd is None:
        raise ForeignFileError(errno.ELOOP, "a symbolic link", path)
    return fd


def state_of(path: str) -> os.stat_result:
    """Return os.stat of a path. Links below /proc/PID/root stay inside that root. Raises OSError."""
    if inside := split_process(path):
        from perfpy.untrusted import process_root  # few reports need files of running processes

        with process_root.ProcessRoot(inside[0]) as root:
            return root.status(inside[1])
    return os.stat(path)


def is_file(path: str) -> bool:
    """Whether a path is a regular file, like os.path.isfile, also below /proc/PID/root."""
    try:
        return stat.S_ISREG(state_of(path).st_mode)
    except (OSError, ValueError):  # a NUL in a name
        return False


def append_to_ours(path: str, data: bytes) -> None:
    """Append to a regular file of the current user that has no other hard links; path: see regular_fd. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if inside := split_process(path):
        from perfpy.untrusted import process_root

        with process_root.ProcessRoot(inside[0]) as root:
            fd = root.open(inside[1], flags)
    else:
        fd = os.open(path, flags)
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_nlink != 1:
            raise ForeignFileError(errno.EACCES, "not a file of ours alone", path)
        os.write(fd, data)
    finally:
        os.close(fd)


def _open(path: str, follow: bool, reader: int, judge: Judge) -> int | None:
    """Open for reading; return None if path is a symbolic link and must not be followed. judge: see open_judged."""
    inside = split_process(path)
    if reader or inside:
        from perfpy.untrusted import process_root

        if inside:
            return process_root.open_in_process(*inside, judge, follow=follow)
        return process_root.run_as_user_of(reader, lambda: open_judged(path, judge, follow=follow))
    return open_judged(path, judge, follow=follow)


def trusted_target(path: str) -> str:
    """Return the target of a symbolic link of root or the current user. Raises ForeignFileError for other owners' links."""
    inside = split_process(path)
    if inside:
        from perfpy.untrusted import process_root

        with process_root.ProcessRoot(inside[0]) as root:
            link: int | None = root.open(inside[1], os.O_PATH | os.O_NOFOLLOW)
    else:
        link = os.open(path, NODE | os.O_NOFOLLOW) if NODE else None
    try:
        state = os.lstat(path) if link is None else os.fstat(link)
        if state.st_uid not in trusted_file_owners():
            raise ForeignFileError(errno.EACCES, f"a link of user {state.st_uid}", path)
        text = os.readlink(path) if link is None else os.readlink("", dir_fd=link)
    finally:
        if link is not None:
            os.close(link)
    if text.startswith("/"):
        return path.removesuffix(inside[1]) + text if inside else text
    return f"{os.path.dirname(path)}/{text}"


def require_dense(fd: int, path: str) -> None:
    """Raise OSError for a large file that consists of holes: terabytes that cost its owner nothing. Its size would bound no work.

    Some file systems tell no blocks; their files pass.
    """
    state = os.fstat(fd)
    if state.st_blocks and state.st_size > _SMALL + _DENSE * _BLOCK * state.st_blocks:
        raise OSError(errno.EFBIG, f"a sparse file: {state.st_size >> 20} MB, nearly all of them holes", path)


def open_regular(
    path: str,
    *,
    owners: Collection[int] | None = None,
    limit: int | None = None,
    follow: bool = True,
    reader: int = 0,
    of_kernel: bool = False,
) -> BinaryIO:
    """Open a regular file for reading; see regular_fd. limit: the most bytes. Raises OSError."""
    fd = regular_fd(path, owners=owners, follow=follow, reader=reader, of_kernel=of_kernel)
    if limit is not None:
        try:
            require_dense(fd, path)
            if os.fstat(fd).st_size > limit:
                raise _too_large(path, limit)
        except OSError:
            os.close(fd)
            raise
    return open(fd, "rb")


def read_regular(path: str, *, owners: Collection[int] | None = None, limit: int, of_kernel: bool = False) -> bytes:
    """Read a regular file completely, also files of /proc (of_kernel), which report no size. Raises OSError."""
    with open_regular(path, owners=owners, limit=limit, of_kernel=of_kernel) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def read_named(path: str, *, limit: int) -> bytes:
    """Read a file that an option names, like read_regular; it may also be an inherited pipe."""
    if not is_handed(path):
        return read_regular(path, limit=limit, of_kernel=True)
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_large(path, limit)
    return data


def stream_fd(path: str) -> int:
    """Open a file, folder or pipe that the user named; for a FIFO, wait for its writer.

    Raises NotRegularFileError for devices except /dev/null, TimeoutError for a FIFO without a writer.
    """
    if is_handed(path):
        fd = os.open(path, FLAGS)
    else:
        opened = open_judged(path, lambda state, node: _require_stream(state, path, node))
        assert opened is not None, "links are followed"
        fd = opened
    try:
        if not is_handed(path) and stat.S_ISFIFO(os.fstat(fd).st_mode):
            _await_writer(fd, path)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_stream(state: os.stat_result, path: str, node: int) -> None:
    """Raise NotRegularFileError for a device, a socket or a file of the kernel."""
    mode = state.st_mode
    if stat.S_ISREG(mode):
        require_regular(state, path, node)
    elif not (stat.S_ISDIR(mode) or stat.S_ISFIFO(mode)):
        raise NotRegularFileError(errno.EINVAL, "a socket, not a recording" if stat.S_ISSOCK(mode) else "a device, not a recording", path)


def is_handed(path: str) -> bool:
    """Whether a name means an inherited descriptor (/dev/stdin, the shell's <(command)) or /dev/null."""
    return path in ("/dev/stdin", os.devnull) or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def _await_writer(fd: int, path: str) -> None:
    import select  # few read from a FIFO

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(_WRITER_SECONDS * 1000):
        raise TimeoutError(errno.ETIMEDOUT, f"no data in this pipe for {_WRITER_SECONDS} seconds", path)


def _too_large(path: str, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {limit >> 20} MB", path)
