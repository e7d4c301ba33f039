"""Open files as another process sees them: below its root, with its user's rights.

The process may control every component of the path, so links never lead out of its root (/tmp -> /etc is the /etc of its container), and
links of /proc are not followed. As root, perfpy opens with the rights of the process's user, and reads nothing that this user may not
read. No other module opens /proc/PID/root.

Layout: struct open_how of openat2(2), { u64 flags; u64 mode; u64 resolve; }. On kernels without openat2, a walk over the components does
the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.judging import open_node, require_regular
from perfpy.untrusted.other_user import rights_of, run_as

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from perfpy.untrusted.judging import Judge
    from perfpy.untrusted.other_user import Result

_OPENAT2: Final = 437  # on all architectures but alpha
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_IN_ROOT: Final = 0x10
_MOST_LINKS: Final = 40  # as the kernel's MAXSYMLINKS
_TRIES: Final = 8  # the kernel gives up (EAGAIN) if a folder is renamed during the lookup
_LARGEST_STATUS: Final = 1 << 18
_SAFE: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_libc: Final = ctypes.CDLL(None, use_errno=True)


class ProcessRoot:
    """The root folder of a running process. Close it, or use it in a with statement. Raises OSError if the process has ended.

    Attributes:
        rights: those of the process's user.
    """

    def __init__(self, pid: int) -> None:
        process = os.open(f"/proc/{pid}", _FOLDER)  # pins the process: its pid may be reused
        try:
            with open(os.open("status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process), "rb") as status:
                self.rights = rights_of(status.read(_LARGEST_STATUS))
            self._fd = os.open("root", _FOLDER, dir_fd=process)
        finally:
            os.close(process)

    def __enter__(self) -> ProcessRoot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._fd)

    def run(self, function: Callable[[int], Result]) -> Result:
        """Run function(descriptor of the root) with the rights of the process's user; it opens by open_beneath."""
        return run_as(self.rights, lambda: function(self._fd))

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """Open a path of the process. flags: as for os.open."""
        return self.run(lambda root: open_beneath(root, path, flags, mode))

    def open_regular(self, path: str, *, follow: bool = True) -> int:
        """Open a regular file for reading. A FIFO or a device is not touched. follow: whether path may be a link itself."""
        return self.run(lambda root: open_regular_beneath(root, path, follow=follow))

    def status(self, path: str) -> os.stat_result:
        """Return os.stat of a path of the process, following links."""
        fd = self.open(path, os.O_PATH)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)


def run_as_user_of(pid: int, function: Callable[[], Result]) -> Result:
    """Run a function with the rights of a process's user; with the current rights if the process has ended."""
    try:
        with ProcessRoot(pid) as root:
            rights = root.rights
    except OSError:
        return function()
    return run_as(rights, function)


def open_in_process(pid: int, path: str, judge: Judge | None = None, *, follow: bool = True) -> int | None:
    """Open a file inside the root of a process for reading; see judging.open_judged. judge: by default, regular files pass."""
    with ProcessRoot(pid) as root:
        return root.run(lambda fd: _open_judged_beneath(fd, path, judge, follow))


def open_beneath(root: int, path: str, flags: int, mode: int = 0o600) -> int:
    """Open a path as if the folder of the descriptor `root` were /. Raises OSError."""
    if "\0" in path:
        raise OSError(errno.EINVAL, "a name with a NUL", path)
    flags |= os.O_CLOEXEC if flags & os.O_PATH else _SAFE
    try:
        return _openat2(root, path, flags, mode if flags & os.O_CREAT else 0)
    except OSError as error:
        # EPERM: a system call filter that does not list openat2.
        if error.errno not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise
    return walk_beneath(root, path, flags, mode)


def open_regular_beneath(root: int, path: str, *, follow: bool = True) -> int:
    """Open a regular file for reading as if the folder of the descriptor `root` were /. A FIFO or a device is not touched."""
    fd = _open_judged_beneath(root, path, None, follow)
    if fd is None:
        raise OSError(errno.ELOOP, "a symbolic link", path)
    return fd


def _open_judged_beneath(root: int, path: str, judge: Judge | None, follow: bool) -> int | None:
    node = open_beneath(root, path, os.O_PATH if follow else os.O_PATH | os.O_NOFOLLOW)
    try:
        return open_node(node, path, judge or (lambda state, descriptor: require_regular(state, path, descriptor)))
    finally:
        os.close(node)


def _openat2(root: int, path: str, flags: int, mode: int) -> int:
    how = (ctypes.c_uint64 * 3)(flags, mode, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    number = 0
    for _ in range(_TRIES):
        fd: int = _libc.syscall(
            ctypes.c_long(_OPENAT2), ctypes.c_int(root), os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def walk_beneath(root: int, path: str, flags: int, mode: int = 0o600) -> int:
    """Open like open_beneath on kernels without openat2: one component at a time, with links by their text."""
    folders = [os.dup(root)]
    rest = [*reversed(path.split("/"))]
    links = 0
    try:
        while True:
            name = rest.pop()
            is_last = not any(rest)
            if name in ("", ".", ".."):
                if name == ".." and len(folders) > 1:
                    os.close(folders.pop())
                if is_last:
                    return os.open(".", flags, mode, dir_fd=folders[-1])
                continue
            text = _link_text(name, folders[-1])
            if text is not None and not (is_last and flags & (os.O_NOFOLLOW | os.O_EXCL)):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if text.startswith("/"):
                    while len(folders) > 1:
                        os.close(folders.pop())
                rest += reversed(text.split("/"))
            elif is_last:
                return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folders[-1])
            else:
                folders.append(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folders[-1]))
    finally:
        for fd in folders:
            os.close(fd)


def _link_text(name: str, folder: int) -> str | None:
    """Return the text of a symbolic link; None for other files. Links of /proc lead nowhere: they have no path, or one of perfpy."""
    with contextlib.suppress(OSError):
        return os.readlink(name, dir_fd=folder)
    return None
