"""Run a function with the rights of another user, so that the kernel decides what that user may do.

The function runs in a thread with the other user's effective ids and without capabilities. The kernel keeps these ids for each thread. The
real and saved ids remain root's, which the kernel checks for signals and ptrace from the other user. A child process would have to be
forked from a program with much memory and several threads, and with all ids changed the other user could stop or kill it.

Raises OSError if the kernel refuses the user, or the change of rights. Layouts: setresuid(2), setgroups(2), capset(2). The C library's
wrappers change all threads, so these are raw system calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

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


def _become(rights: Rights) -> None:
    """Change the ids of this thread. The groups come first, as only root may set them."""
    numbers = _NUMBERS.get(os.uname().machine, (None, None))[sys.maxsize < 2**32]
    if numbers is None:
        raise OSError(errno.ENOSYS, f"cannot take the rights of user {rights.uid} on {os.uname().machine}")
    set_uid, set_gid, set_groups = numbers
    groups = (ctypes.c_uint32 * len(rights.groups))(*rights.groups)
    _call(rights, set_groups, ctypes.c_size_t(len(rights.groups)), groups)
    _call(rights, set_gid, _UNCHANGED, ctypes.c_uint32(rights.gid), _UNCHANGED)
    _call(rights, set_uid, _UNCHANGED, ctypes.c_uint32(rights.uid), _UNCHANGED)
    _drop_capabilities(rights)
    if (os.geteuid(), os.getegid(), set(os.getgroups())) != (rights.uid, rights.gid, set(rights.groups)):
        raise _refusal(rights, errno.EPERM)


def _drop_capabilities(rights: Rights) -> None:
    """Give up what a thread may keep when its ids change (SECBIT_NO_SETUID_FIXUP)."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise _refusal(rights, ctypes.get_errno())


def _call(rights: Rights, number: int, *arguments: Any) -> None:
    if _libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise _refusal(rights, ctypes.get_errno())


def _refusal(rights: Rights, number: int) -> OSError:
    return OSError(number, f"cannot take the rights of user {rights.uid} ({os.strerror(number)})")
