"""Files of processes: those that a process mapped, those that it wrote, and those of the kernel about it.

A mapped file is opened by its identity: device, inode and generation, as MMAP2 records and /proc/PID/maps have them. A path does not
identify a file: a process in a container or below chroot has another root, and a path may meanwhile lead to another file. The file is
opened first, at each path that may lead to it, and then its descriptor is compared. A file of another identity is never returned. The last
resort is the kernel's own handle of a file, which needs no path and works after the process has ended.

A process writes perf maps and similar files itself: the owner and the age tell whether such a file is the process's or an earlier one's.
Lines of the kernel's files contain names that the process chose: only line feeds end them.

Layouts: struct file_handle of open_by_handle_at(2), { u32 handle_bytes; s32 handle_type; u8 handle[]; }, with the type
FILEID_INO32_GEN of include/linux/exportfs.h, { u32 inode, generation; }, which ext4 and xfs use. proc_pid_maps(5), proc_pid_mountinfo(5).
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import struct
import sys
from itertools import islice

from perfpy.untrusted import files
from perfpy.untrusted.files import (
    ForeignFileError,
    file_system_type,
    open_regular,
    open_regular_beneath,
    regular_fd,
    state_of,
    trusted_file_owners,
)

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import BinaryIO, TypeAlias

    FileId: TypeAlias = tuple[int, int, int, int]

#: the kernel's own name in MMAP2 events of files whose path is longer than PATH_MAX
TOO_LONG = "//toolong"
# PATH_MAX, and the fields before the path. Relative to a folder, files of far longer paths can be opened.
_LONGEST_LINE = 4096 + 100
_MOST_MAPS = 64 << 20  # bytes; 65,530 mappings, the usual limit of a process, take 8 MB
_LINE_HEAD = 100  # bytes of a line of maps before the path
_MOST_PROCESSES = 8
_MOST_MOUNTS = 8
_MOST_MOUNT_LINES = 1 << 14
_HANDLE = struct.Struct("=IiII")
_INO32_GEN = 1
_OVERLAY = 0x794C7630  # f_type of statfs(2), include/uapi/linux/magic.h
# ext4, xfs, btrfs, f2fs, tmpfs, zfs, bcachefs, nfs: a file has one inode number as long as it exists. FAT, FUSE and SMB may change it.
_KEEP_INODES = (0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994, 0x2FC12FC1, 0xCA451A4E, 0x6969)
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
            if is_same or (is_same is None and (uncertain is None or files.split_process(path))):
                if uncertain is not None:
                    os.close(uncertain[0])
                uncertain = fd, path
                if is_same:
                    return uncertain
            else:
                os.close(fd)
    return uncertain or _by_handle(identity)


def has_identity(fd: int, identity: FileId) -> bool | None:
    """Whether an open file has an identity, or None if its file system (overlayfs) does not tell.

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
    return None if not has_device and file_system_type(fd) == _OVERLAY else False  # some kernels report the file below the overlay


def is_recorded(fd: int, identity: FileId, ended: float) -> bool | None:
    """Whether an open file is the one that a recording of this machine has, or None if that cannot be known.

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
    return False if is_same is not None and file_system_type(fd) in _KEEP_INODES else None


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
    """Return when an open file's inode was created, in seconds since 1970, or 0 if its file system does not tell."""
    import ctypes  # needed for files of running processes only

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if not hasattr(libc, "statx") or libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer):
        return 0.0
    if not int.from_bytes(buffer.raw[:4], sys.byteorder) & _STATX_BTIME:
        return 0.0
    seconds, nanoseconds = _BIRTH.unpack_from(buffer.raw)
    return int(seconds) + int(nanoseconds) / 1e9


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


def _possible_paths(name: str, identity: FileId, pids: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Yield paths that may lead to a file, and the mount that each is below ("": our root).

    They are the path itself, the same path below the roots of processes, the mappings of processes, and the path below other mounts.
    """
    if not name.startswith("/"):
        return
    is_safe = True
    try:
        yield files.below("", name), ""
    except files.UnsafeNameError:  # a memfd's name, for example; the mapping still leads to the file
        is_safe = False
    living = list(islice((pid for pid in sorted(pids) if os.path.exists(f"/proc/{pid}")), _MOST_PROCESSES))
    for pid in living if is_safe else ():
        if root_of(pid) != "":
            yield files.in_process(pid, name), ""
    for pid in living:
        if mapping := find_mapping(pid, identity):
            yield f"/proc/{pid}/map_files/{mapping}", ""
    for mount in _mounts(identity) if is_safe else ():
        yield files.below(mount, name), mount


def _open_below(mount: str, path: str) -> int:
    """Open a file below a mount point. Links stay below it, as it may be the root of a container."""
    root = os.open(mount, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_regular_beneath(root, path.removeprefix(mount))
    finally:
        os.close(root)


def find_mapping(pid: int, file: FileId | str) -> str:
    """Return the name in map_files of a process's first mapping of a file, "" if there is none. file: its identity, or its path in maps.

    Listing map_files takes seconds if a process has tens of thousands of mappings, which maps does not.
    """
    try:
        if isinstance(file, str):
            path = os.fsencode(f" {file}")
            line = next((line for line in map_lines(pid) if line.endswith(path)), b"")
        else:
            needle = f" {file[0]:02x}:{file[1]:02x} {file[2]} ".encode()
            line = next((line for line in map_lines(pid) if needle in line[:_LINE_HEAD]), b"")
        return "-".join(f"{int(address, 16):x}" for address in line.split(b" ", 1)[0].split(b"-")) if line else ""
    except (OSError, ValueError):
        return ""


def root_of(pid: int) -> str | None:
    """Return where a process's root is among our mounts, None if it is elsewhere, or "" if it is ours, hidden, or the process has ended."""
    try:
        if os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
            return None
        root = os.readlink(f"/proc/{pid}/root")
        return "" if root == os.readlink("/proc/self/root") else root
    except OSError:
        return ""


def shares_pid_namespace(pid: int) -> bool:
    """Whether a process is in this one's pid namespace; False if it may not be looked at."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return False


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
    import ctypes  # as above

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
                    # The text for a file without a path is below a device, so it never is the path of another file.
                    return regular_fd(f"/proc/self/fd/{node}"), f"/dev/block/{identity[0]}:{identity[1]}/inode {inode}"
            finally:
                os.close(node)
    return None


def trusted_owners(pid: int) -> set[int]:
    """Return the user ids that may own files about a process: root's, our own, and the process's while it runs.

    The owner of an ended process is unknown.
    """
    uids = status_numbers(pid, "Uid:")  # real, effective, saved, file system
    return {*trusted_file_owners(), *(int(number) for number in uids[1:2])}


def open_process_file(path: str, pid: int, *, owners: Collection[int] | None, limit: int) -> BinaryIO:
    """Open a file that a process wrote about itself. Raises OSError.

    The owner alone does not suffice: a process can hard-link one of root's files, so its user must be able to read the file. A file older
    than the process belongs to an earlier process with the same pid.

    Args:
        path: the file.
        pid: the process.
        owners: the allowed owners; None allows all.
        limit: bytes.
    """
    if owners is None:
        return open_regular(path, limit=limit)
    file = open_regular(path, owners=owners, limit=limit, reader=pid if is_younger(path, pid) else 0)
    if pid and os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise ForeignFileError(errno.EACCES, "has other names (hard links)", path)
    return file


def is_younger(path: str, pid: int) -> bool:
    """Whether a file was written since a running process began. Allows a moment of slack: file timestamps are coarse."""
    born = began(pid)
    try:
        return born is not None and state_of(path).st_mtime >= born - 1
    except OSError:
        return False


def began(pid: int) -> float | None:
    """Return the start time of a process in seconds since the epoch, None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as machine:
            booted = next(int(line.split()[1]) for line in machine if line.startswith(b"btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def map_lines(pid: int, root: str = "/proc") -> Iterator[bytes]:
    """Yield the lines of a process's mappings without line feed, up to a limit. Raises OSError.

    The path in too long a line is TOO_LONG.
    """
    remaining, is_rest = _MOST_MAPS, False
    with open(f"{root}/{pid}/maps", "rb") as maps:
        while remaining > 0 and (line := maps.readline(_LONGEST_LINE)):
            remaining -= len(line)
            is_complete = line.endswith(b"\n")
            if not is_rest:
                yield line[:-1] if is_complete else b" ".join([*line.split(None, 5)[:5], TOO_LONG.encode()])
            is_rest = not is_complete


def status_numbers(pid: int, label: str, tid: int = 0) -> list[str]:
    """Return the words of a line of /proc/PID/status, or of a thread's; empty if there is no such process."""
    return [word for word in status_words(pid, label, tid) if word.isdecimal()]


def status_words(pid: int, label: str, tid: int = 0) -> list[str]:
    """Return all words of a line of /proc/PID/status, without its label."""
    thread = f"task/{tid}/" if tid else ""
    try:
        with open(f"/proc/{pid}/{thread}status", "rb") as status:
            line = next((line for line in status if line.startswith(label.encode())), b"")
    except OSError:
        return []
    return line.decode("utf-8", "surrogateescape").split()[1:]
