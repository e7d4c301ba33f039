"""Judge a file before it is opened.

A name is looked up once, as a descriptor with O_PATH, which does not open the file. The descriptor is checked, and only a file that passes
is opened, through the descriptor. FIFOs, devices and sockets are therefore never opened: opening a device can have effects (a watchdog
starts, a tape rewinds), and opening a FIFO releases its writer. The kernel's own files (/proc/kmsg, tracefs) are refused as well, because
reading some of them removes what they contain.

Without O_PATH (macOS) or /proc, the name is checked, opened and compared. A file that replaces it in between is opened, but not used.
Layout: struct statfs of statfs(2), which begins with the file system's type, a number of include/uapi/linux/magic.h.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    #: raises OSError for a file that must not be opened; its status, its descriptor with O_PATH (-1: none)
    Judge: TypeAlias = Callable[[os.stat_result, int], None]

#: to open for reading without blocking
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
#: to look a name up without opening the file; 0 without O_PATH
NODE = os.O_PATH | os.O_CLOEXEC if hasattr(os, "O_PATH") else 0
_NO_PROC = (errno.ENOENT, errno.ENOTDIR)
_STATFS_SIZE = 256  # bytes; more than struct statfs has
#: types of the file systems whose files the kernel generates
_KERNEL_TYPES = frozenset((
    0x9FA0,  # proc
    0x62656572,  # sysfs
    0x74726163,  # tracefs
    0x64626720,  # debugfs
    0x73636673,  # securityfs
    0xF97CFF8C,  # selinuxfs
    0x43415D53,  # smackfs
    0x5A3C69F0,  # apparmorfs
    0x27E0EB,  # cgroup
    0x63677270,  # cgroup2
    0x7655821,  # resctrl
    0xCAFE4A11,  # bpf
    0x42494E4D,  # binfmt_misc
    0x62656570,  # configfs
    0xDE5E81E4,  # efivarfs
    0x6165676C,  # pstore
    0x1CD1,  # devpts
    0x19800202,  # mqueue
    0x65735543,  # fusectl
    0x6E736673,  # nsfs
    0x50494446,  # pidfs
    0x67596969,  # rpc_pipefs
    0x6E667364,  # nfsd
    0xABBA1974,  # xenfs
    0x187,  # autofs
))  # fmt: skip


class NotRegularFileError(OSError):
    """A FIFO, a device, a folder or a socket instead of a file."""


def require_regular(state: os.stat_result, path: str, node: int = -1) -> None:
    """Raise NotRegularFileError unless a file is regular. With node, its descriptor, the kernel's own files are refused as well."""
    if not stat.S_ISREG(state.st_mode):
        raise NotRegularFileError(errno.EINVAL, "not a regular file", path)
    # Only file systems without a block device can be the kernel's, and those have no blocks. Few files need the last check.
    if node >= 0 and not os.major(state.st_dev) and not os.fstatvfs(node).f_blocks and file_system_type(node) in _KERNEL_TYPES:
        raise NotRegularFileError(errno.EINVAL, "a file of the kernel", path)


def file_system_type(fd: int) -> int:
    """Return the type of the file system of a descriptor, 0 if it is unknown."""
    if not sys.platform.startswith("linux"):
        return 0
    import ctypes  # few files need it

    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    if ctypes.CDLL(None, use_errno=True).fstatfs(fd, buffer):
        return 0
    number = ctypes.c_uint if os.uname().machine == "s390x" else ctypes.c_ulong
    return int(number.from_buffer(buffer).value) & 0xFFFFFFFF


def open_judged(path: str, judge: Judge, *, follow: bool = True) -> int | None:
    """Open for reading without blocking; return None if path is a symbolic link and must not be followed. Raises OSError.

    judge sees the file before it is opened.
    """
    if not NODE:
        return _open_compared(path, judge, follow)
    node = os.open(path, NODE if follow else NODE | os.O_NOFOLLOW)
    try:
        return open_node(node, path, judge)
    except FileNotFoundError:
        return _open_compared(path, judge, follow)
    finally:
        os.close(node)


def open_node(node: int, path: str, judge: Judge) -> int | None:
    """Open the file of a descriptor with O_PATH for reading, like open_judged. Raises FileNotFoundError without /proc."""
    state = os.fstat(node)
    if stat.S_ISLNK(state.st_mode):
        return None
    judge(state, node)
    try:
        return os.open(f"/proc/self/fd/{node}", FLAGS)
    except OSError as error:
        raise OSError(errno.ENOENT if error.errno in _NO_PROC else error.errno, error.strerror, path) from None


def _open_compared(path: str, judge: Judge, follow: bool) -> int | None:
    """Open like open_judged by the name, and compare the open file with the one that was judged."""
    if follow:
        path = os.path.realpath(path)
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return None
    judge(state, -1)
    fd = os.open(path, FLAGS | os.O_NOFOLLOW)
    try:
        if not os.path.samestat(os.fstat(fd), state):
            raise OSError(errno.ESTALE, "replaced while it was opened", path)
        judge(os.fstat(fd), fd)
    except BaseException:
        os.close(fd)
        raise
    return fd
