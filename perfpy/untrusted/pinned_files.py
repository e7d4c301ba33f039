"""Give the kernel the path of an open file, so that the path leads to that file and to no other.

A dynamic probe is defined by a path and an offset. The kernel opens the path once more, after perfpy has read the file, and another user
who may write to a folder of the path can exchange the program in between: the offset would then hit another program, and change its code.

A PinnedFile is opened once. run_with_path() runs a function in a thread whose root folder is a tmpfs in a mount namespace of its own; in
that folder, the path is a link to the open descriptor. Nobody else can reach the tmpfs, and it vanishes with the thread. The kernel keeps
the file (its dentry and inode) and the text of the path, which other tools show and open. The path /proc/PID/fd/N would lead to the file
as well, but it is what the kernel would show, and it ends with this process.

Where no mount namespace can be made (a container without CAP_SYS_ADMIN), the path is used as it is, provided that only root and the current
user can exchange a component of it. Calls and flags: unshare(2), mount(2), mount_namespaces(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
import weakref
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.destinations import trusted_program
from perfpy.untrusted.files import in_process, regular_fd, split_process
from perfpy.untrusted.process_root import ProcessRoot

if TYPE_CHECKING:
    from collections.abc import Callable

_CLONE_NEWNS: Final = 0x20000
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 0x40000
_PROC: Final = "/.proc of perfpy"  # paths of programs with spaces cannot be probed

_libc: Final = ctypes.CDLL(None, use_errno=True)


class PinnedFile:
    """An open regular file. The descriptor is closed with this object.

    Attributes:
        fd: its descriptor.
        path: a path of the file without links, for messages and for the kernel; for files without one, the path that it was opened by.
    """

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        self.close = weakref.finalize(self, os.close, fd)

    def duplicate(self) -> int:
        """Return another descriptor of the file, which the caller closes."""
        return os.dup(self.fd)


def pin(path: str, pid: int = 0) -> PinnedFile:
    """Open a regular file for reading. Raises OSError.

    Args:
        path: a path below /proc/PID/root is opened inside that root.
        pid: a process in whose root the path is; 0: this process.
    """
    full_path = in_process(pid, path) if pid else os.path.abspath(path)
    fd = regular_fd(full_path)
    try:
        return PinnedFile(fd, _path_of(fd, full_path))
    except BaseException:
        os.close(fd)
        raise


def _path_of(fd: int, path: str) -> str:
    """Return a path of an opened file without links, in this process's view if that has one."""
    name, state = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)
    try:
        if os.path.samestat(os.lstat(name), state):
            return name
    except OSError:
        pass  # deleted, or in another mount namespace
    if inside := split_process(path):
        with ProcessRoot(inside[0]) as root:
            if os.path.samestat(root.status(name), state):
                return in_process(inside[0], name)
    return path


def run_with_path(file: PinnedFile, mount_point: str, function: Callable[[], object]) -> None:
    """Run a function in a thread for which the file's path leads to the file. Raises OSError.

    The function must neither import nor open other files.

    Args:
        file: the file.
        mount_point: an existing folder, which only that thread sees as another one.
        function: gives the path to the kernel.
    """
    from threading import Thread  # few measurements add probes

    failures: list[BaseException] = []
    refusals: list[OSError] = []

    def work() -> None:
        try:
            try:
                _enter_root_with(file, mount_point)
            except OSError as refusal:
                refusals.append(refusal)
                return
            _require_same(file)
            function()
        except BaseException as failure:  # noqa: BLE001  # it is raised again, where the caller waits
            failures.append(failure)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    if refusals:
        _require_trusted_path(file, refusals[0])
        function()


def _enter_root_with(file: PinnedFile, mount_point: str) -> None:
    """Give this thread a root folder with the file's path only. Raises OSError where that is not possible."""
    if _libc.unshare(_CLONE_NEWNS):  # also ends the sharing of root and working folder with other threads
        raise _error("unshare")
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)  # nothing is to appear in other namespaces
    _mount("none", mount_point, "tmpfs", 0)
    os.mkdir(mount_point + _PROC)
    _mount("/proc", mount_point + _PROC, None, _MS_BIND)
    os.makedirs(os.path.dirname(mount_point + file.path), exist_ok=True)
    os.symlink(f"{_PROC}/self/fd/{file.fd}", mount_point + file.path)
    os.chroot(mount_point)
    os.chdir("/")


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if _libc.mount(*words, ctypes.c_ulong(flags), None):
        raise _error("mount")


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def _require_same(file: PinnedFile) -> None:
    if not os.path.samestat(os.stat(file.path), os.fstat(file.fd)):
        raise OSError(errno.ESTALE, "another file has its path now", file.path)


def _require_trusted_path(file: PinnedFile, refusal: OSError) -> None:
    """Require that no other user can exchange the file at its path. Raises OSError."""
    problem = "the path has links"
    try:
        if trusted_program(file.path) == file.path:
            _require_same(file)
            return
    except OSError as error:
        problem = error.strerror or str(error)
    reason = f"{problem}, and no mount namespace can be made to keep the program from being exchanged ({refusal.strerror})"
    raise OSError(errno.ESTALE, reason, file.path)
