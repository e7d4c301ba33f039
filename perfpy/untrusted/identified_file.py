"""Open the file that a process mapped, by its identity: device, inode and generation, as MMAP2 records and /proc/PID/maps have them.

A path does not identify a file. A process in a container or below chroot has another root, and a path may meanwhile lead to another file. A
file is therefore opened first, at each path that may lead to it, and then its descriptor is compared. A file of another identity is
never returned. The last resort is the kernel's own handle of a file, which needs no path and works after the process has ended.

Layouts: struct file_handle of open_by_handle_at(2), { u32 handle_bytes; s32 handle_type; u8 handle[]; }, with the type
FILEID_INO32_GEN of include/linux/exportfs.h, { u32 inode, generation; }, which ext4 and xfs use. proc_pid_maps(5), proc_pid_mountinfo(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import stat
import struct
import sys
from itertools import islice

from perfpy.untrusted import paths
from perfpy.untrusted.files import regular_fd
from perfpy.untrusted.process_files import map_lines

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    FileId: TypeAlias = tuple[int, int, int, int]

_MOST_PROCESSES = 8
_MOST_MOUNTS = 8
_MOST_MOUNT_LINES = 1 << 14
_HANDLE = struct.Struct("=IiII")
_INO32_GEN = 1
_OVERLAY = 0x794C7630  # f_type of statfs(2), include/uapi/linux/magic.h
# ext4, xfs, btrfs, f2fs, tmpfs, zfs, bcachefs, nfs: a file has one inode number as long as it exists. FAT, FUSE and SMB may change it.
_KEEP_INODES = (0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994, 0x2FC12FC1, 0xCA451A4E, 0x6969)
_STATFS_SIZE = 256  # more than struct statfs has
_STATX_SIZE = 256
_STATX_BTIME = 0x800
_AT_EMPTY_PATH = 0x1000
_BIRTH = struct.Struct("=80xqI")  # stx_btime
_SLACK = 1.0  # seconds: file timestamps are coarse
_VERSION_SIZE = struct.calcsize("l")
_OTHER_IOCTLS = ("ppc", "mips", "alpha", "sparc")  # their numbers have other bits for the direction


def open_identified(name: str, identity: FileId, pids: Iterable[int]) -> tuple[int, str] | None:
    """Return the descriptor of a regular file and its path, None if the file cannot be found.

    Args:
        name: its path, as the process sees it.
        identity: device (major, minor), inode and generation; a generation of 0 is unknown.
        pids: processes that mapped the file. Some may have ended.
    """
    uncertain: tuple[int, str] | None = None
    for path, mount in _possible_paths(name, identity, pids):
        with contextlib.suppress(OSError, ValueError):  # ValueError: a NUL in a name
            fd = _open_below(mount, path) if mount else regular_fd(path)
            is_same = has_identity(fd, identity)
            if is_same:
                _close(uncertain)
                return fd, path
            if is_same is None and (uncertain is None or paths.split_process(path)):
                _close(uncertain)
                uncertain = fd, path
            else:
                os.close(fd)
    return uncertain or _by_handle(identity)


def has_identity(fd: int, identity: FileId) -> bool | None:
    """Whether an open file has an identity; None if its file system (overlayfs) does not tell.

    btrfs and overlayfs report one device and inode to stat(2) and another for mappings. The kernel's own view of the file decides there.
    A new file may have the inode of a deleted one: the generation tells them apart where the file system has one.
    """
    state = os.fstat(fd)
    if (os.major(state.st_dev), os.minor(state.st_dev), state.st_ino) == identity[:3]:
        return not identity[3] or generation_of(fd) in (0, identity[3])
    if os.major(state.st_dev) or not state.st_size:
        return False
    if _mapped_identity(fd) == identity[:3]:
        return True
    has_device = (os.major(state.st_dev), os.minor(state.st_dev)) == identity[:2]
    return None if not has_device and _is_overlay(fd) else False  # some kernels report the file below the overlay


def is_recorded(fd: int, identity: FileId, ended: float) -> bool | None:
    """Whether an open file is the one that a recording of this machine has; None if that cannot be known.

    A file system may be mounted again under another device number: inode and generation decide then.

    Args:
        fd: the open file.
        identity: from the recording.
        ended: when the recording ended, in seconds since 1970. A file that was created later is another one.
    """
    is_same = has_identity(fd, identity)
    state, generation = os.fstat(fd), generation_of(fd) if identity[3] else 0
    if is_same:
        return bool(generation) or state.st_ctime <= ended + _SLACK or _birth_of(fd) <= ended + _SLACK
    if state.st_ino == identity[2]:
        return generation == identity[3] if generation else None
    return False if is_same is not None and _file_system(fd) in _KEEP_INODES else None


def is_modified(fd: int, since: float) -> bool:
    """Whether the content of an open file was changed after a time, in seconds since 1970."""
    return os.fstat(fd).st_mtime > since + _SLACK


def generation_of(fd: int) -> int:
    """Return the generation of an open file's inode (FS_IOC_GETVERSION), 0 if its file system has none or does not tell."""
    import fcntl  # not needed for files of which only the inode is known

    direction = 1 if os.uname().machine.startswith(_OTHER_IOCTLS) else 2
    try:
        data = fcntl.ioctl(fd, direction << 30 | _VERSION_SIZE << 16 | ord("v") << 8 | 1, bytes(_VERSION_SIZE))
    except OSError:
        return 0
    return int.from_bytes(data[:4], sys.byteorder)


def _birth_of(fd: int) -> float:
    """Return when an open file's inode was created, in seconds since 1970; 0 if its file system does not tell."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if not hasattr(libc, "statx") or libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer):
        return 0.0
    if not int.from_bytes(buffer.raw[:4], sys.byteorder) & _STATX_BTIME:
        return 0.0
    seconds, nanoseconds = _BIRTH.unpack_from(buffer.raw)
    return int(seconds) + int(nanoseconds) / 1e9


def root_of(pid: int) -> str | None:
    """Return where a process's root is among our mounts, None if it is elsewhere; "" if it is ours, hidden, or the process has ended."""
    try:
        if os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
            return None
        root = os.readlink(f"/proc/{pid}/root")
        return "" if root == os.readlink("/proc/self/root") else root
    except OSError:
        return ""


def _close(opened: tuple[int, str] | None) -> None:
    if opened is not None:
        os.close(opened[0])


def _possible_paths(name: str, identity: FileId, pids: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Yield paths that may lead to a file, and the mount that each is below ("": our root).

    They are the path itself, the same path below the roots of processes, the mappings of processes, and the path below other mounts.
    """
    if not name.startswith("/"):
        return
    is_safe = True
    try:
        yield paths.below("", name), ""
    except paths.UnsafeNameError:  # a memfd's name, for example; the mapping still leads to the file
        is_safe = False
    living = list(islice((pid for pid in sorted(pids) if os.path.exists(f"/proc/{pid}")), _MOST_PROCESSES))
    for pid in living if is_safe else ():
        if root_of(pid) != "":
            yield paths.in_process(pid, name), ""
    for pid in living:
        if mapping := find_mapping(pid, identity):
            yield f"/proc/{pid}/map_files/{mapping}", ""
    for mount in _mounts(identity) if is_safe else ():
        yield paths.below(mount, name), mount


def _open_below(mount: str, path: str) -> int:
    """Open a file below a mount point. Links stay below it, as it may be the root of a container."""
    from perfpy.untrusted.process_root import open_regular_beneath  # few files need it

    root = os.open(mount, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_regular_beneath(root, path.removeprefix(mount))
    finally:
        os.close(root)


def find_mapping(pid: int, identity: FileId) -> str:
    """Return the name in map_files of a process's first mapping of a file, "" if there is none.

    Listing map_files takes seconds if a process has tens of thousands of mappings, which maps does not.
    """
    major, minor, inode = identity[:3]
    needle = f" {major:02x}:{minor:02x} {inode} ".encode()
    try:
        line = next((line for line in map_lines(pid) if needle in line[:_LINE_HEAD]), b"")
        return "-".join(f"{int(address, 16):x}" for address in line.split(b" ", 1)[0].split(b"-")) if line else ""
    except (OSError, ValueError):
        return ""


_LINE_HEAD = 100  # bytes of a line of maps before the path


def _mapped_identity(fd: int) -> tuple[int, int, int]:
    """Return device and inode of an open file as the kernel reports them for mappings."""
    from perfpy.untrusted.mapped_files import address_of  # few file systems need it

    with mmap.mmap(fd, 1, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        start = f"{address_of(view):08x}-".encode()
        with open("/proc/self/maps", "rb") as maps:
            fields = next((line for line in maps if line.startswith(start)), b"").split()
    if len(fields) < 5:
        return 0, 0, 0
    major, _, minor = fields[3].partition(b":")
    return int(major, 16), int(minor, 16), int(fields[4])


def _is_overlay(fd: int) -> bool:
    return _file_system(fd) == _OVERLAY


def _file_system(fd: int) -> int:
    """Return the type of an open file's file system (f_type of statfs(2)), 0 if it cannot be read."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STATFS_SIZE)
    return 0 if libc.fstatfs(fd, buffer) else ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF


def _mounts(identity: FileId) -> list[str]:
    """Return the folders where a file's device is mounted."""
    device = f"{identity[0]}:{identity[1]}".encode()
    folders: list[str] = []
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:
            for line in islice(mounts, _MOST_MOUNT_LINES):
                fields = line.split()
                if len(fields) > 4 and fields[2] == device:
                    folders.append(os.fsdecode(fields[4].decode("unicode_escape").encode("latin-1")))
    except (OSError, ValueError):
        return []
    return folders[:_MOST_MOUNTS]


def _by_handle(identity: FileId) -> tuple[int, str] | None:
    """Open a file by inode and generation, which only root may do. FIFOs and devices are not touched.

    The kernel takes generation 0 for any, and another file may have the number of a deleted one, so an unknown generation finds nothing.
    """
    inode, generation = identity[2:]
    if inode >> 32 or not 0 < generation < 1 << 32 or os.geteuid():
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "open_by_handle_at"):
        return None
    handle = _HANDLE.pack(_HANDLE.size - 8, _INO32_GEN, inode, generation)
    for folder in _mounts(identity):
        with contextlib.suppress(OSError):
            mount = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                node = libc.open_by_handle_at(mount, handle, os.O_PATH | os.O_CLOEXEC)
            finally:
                os.close(mount)
            if node < 0:
                continue
            try:
                if stat.S_ISREG(os.fstat(node).st_mode) and has_identity(node, identity):
                    return regular_fd(f"/proc/self/fd/{node}"), _name_of_nameless(identity)
            finally:
                os.close(node)
    return None


def _name_of_nameless(identity: FileId) -> str:
    """Return a text for a file that was opened without a path. It is below a device, so it never is the path of another file."""
    return f"/dev/block/{identity[0]}:{identity[1]}/inode {identity[2]}"
