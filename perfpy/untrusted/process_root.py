"""Open files as another process sees them: below its root, with its user's rights.

The process may control every component of the path, so links never lead out of its root (/tmp -> /etc is the /etc of its container), and
links of /proc are not followed. As root, perfpy opens with the rights of the process's user, and reads nothing that this user may not
read. No other module opens /proc/PID/root.

A function with another user's rights runs in a thread with that user's effective ids and without capabilities; the kernel keeps these ids
for each thread. The real and saved ids remain root's, which the kernel checks for signals and ptrace from the other user. A child process
would have to be forked from a program with much memory and several threads, and with all ids changed the other user could stop or kill it.
The C library's wrappers change all threads, so the ids are changed by raw system calls.

Layouts: struct open_how of openat2(2), { u64 flags; u64 mode; u64 resolve; }; setresuid(2), setgroups(2), capset(2). On kernels without
openat2, a walk over the components does the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_OPENAT2: Final = 437  # on all architectures but alpha
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_IN_ROOT: Final = 0x10
_MOST_LINKS: Final = 40  # as the kernel's MAXSYMLINKS
_TRIES: Final = 8  # the kernel gives up (EAGAIN) if a folder is renamed during the lookup
_LARGEST_STATUS: Final = 1 << 18
_SAFE: Final = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_UNCHANGED: Final = ctypes.c_uint32(0xFFFFFFFF)  # (uid_t)-1
_CAPABILITIES_3: Final = 0x20080522
_PATIENCE: Final = 10.0  # seconds: a file system of the other user may never answer
_GENERIC: Final = (147, 149, 159)
_32_BIT: Final = (208, 210, 206)
#: machine name of uname(2) -> (setresuid, setresgid, setgroups) of a 64-bit process, of a 32-bit process
_NUMBERS: Final = {
    "x86_64": ((117, 119, 116), _32_BIT),
    "i686": (None, _32_BIT),
    "i586": (None, _32_BIT),
    "aarch64": (_GENERIC, _32_BIT),
    "armv7l": (None, _32_BIT),
    "armv6l": (None, _32_BIT),
    "riscv64": (_GENERIC, _GENERIC),
    "loongarch64": (_GENERIC, None),
    "ppc64le": ((164, 169, 81), None),
    "ppc64": ((164, 169, 81), None),
    "s390x": (_32_BIT, None),
}

_libc: Final = ctypes.CDLL(None, use_errno=True)
Result = TypeVar("Result")


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


def run_as(rights: Rights, function: Callable[[], Result]) -> Result:
    """Run a function with the rights of a user. As root itself, or where we are not root, it runs as it is.

    The function must not import: our modules may be closed to that user. Raises OSError.
    """
    if os.geteuid() or not rights.uid:
        return function()
    from threading import Thread  # few record or read processes of others

    results: list[Result] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            _become(rights)
            results.append(function())
        except BaseException as failure:  # noqa: BLE001 - it is raised again, where the caller waits
            failures.append(failure)

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if failures:
        raise failures[0]
    if not results:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer from its file system for {_PATIENCE:.0f} seconds")
    return results[0]


class Rights(NamedTuple):
    """The ids of a process: user, group, supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]


def rights_of(status: bytes) -> Rights:
    """Return the rights of a process. status: the text of its /proc/PID/status.

    A set-user-id program counts as the user who started it: of several ids the first that is not root's.
    """
    fields = {name: value.split() for name, _, value in (line.partition(b":") for line in status.split(b"\n"))}
    try:
        uids, gids = [int(word) for word in fields[b"Uid"]], [int(word) for word in fields[b"Gid"]]
        index = next((index for index, uid in enumerate(uids) if uid), 0)
        return Rights(uids[index], gids[index], tuple(map(int, fields[b"Groups"])))
    except (KeyError, ValueError, IndexError):
        raise ProcessLookupError(errno.ESRCH, "the process has ended") from None


def _become(rights: Rights) -> None:
    """Change the ids of this thread, and drop its capabilities. The groups come first, as only root may set them."""
    numbers = _NUMBERS.get(os.uname().machine, (None, None))[sys.maxsize < 2**32]
    if numbers is None:
        raise OSError(errno.ENOSYS, f"cannot take the rights of user {rights.uid} on {os.uname().machine}")
    set_uid, set_gid, set_groups = numbers
    groups = (ctypes.c_uint32 * len(rights.groups))(*rights.groups)
    calls = (
        (set_groups, ctypes.c_size_t(len(rights.groups)), groups),
        (set_gid, _UNCHANGED, ctypes.c_uint32(rights.gid), _UNCHANGED),
        (set_uid, _UNCHANGED, ctypes.c_uint32(rights.uid), _UNCHANGED),
    )
    is_refused = any(_libc.syscall(ctypes.c_long(number), *arguments) < 0 for number, *arguments in calls)
    if not is_refused:  # A thread may keep its capabilities when its ids change (SECBIT_NO_SETUID_FIXUP).
        is_refused = bool(_libc.capset((ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()))
    error = ctypes.get_errno() if is_refused else 0
    if not error and (os.geteuid(), os.getegid(), set(os.getgroups())) != (rights.uid, rights.gid, set(rights.groups)):
        error = errno.EPERM
    if error:
        raise OSError(error, f"cannot take the rights of user {rights.uid} ({os.strerror(error)})")


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
            text = None
            with contextlib.suppress(OSError):  # not a link; those of /proc have no path, or one of perfpy
                text = os.readlink(name, dir_fd=folders[-1])
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
