"""Paths below /proc to files of running processes: deleted programs, memfds, files of containers.

Empty without /proc, or if the process has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final

from perfpy.untrusted import paths
from perfpy.untrusted.files import ForeignFileError, is_file, open_regular, state_of, trusted_file_owners
from perfpy.untrusted.identified_file import root_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import BinaryIO

DELETED: Final = " (deleted)"


def paths_of(path: str, pids: Iterable[int]) -> Iterator[str]:
    """Yield paths through which running processes reach a file that they mapped by this name: their root, or their mappings."""
    for pid in sorted(pids):
        mapping = _first_mapping(pid, path)
        if not mapping:
            continue  # ended, or another process with the same pid
        if not path.endswith(DELETED):
            with contextlib.suppress(paths.UnsafeNameError):
                yield paths.in_process(pid, path)
        yield from _mapped_file(pid, mapping, (root_of(pid) or "") + path)


def perf_map_paths(pid: int) -> Iterator[str]:
    """Yield possible paths of a process's perf map: in its /tmp, by the pid in its namespace, or in ours."""
    inner = innermost_pid(pid)
    if inner and other_root(pid):
        yield paths.in_process(pid, paths.perf_map(inner))
    yield paths.perf_map(pid)


def seen_by(pid: int, path: str) -> str:
    """Return the path of a file that a process knows by `path`: below its root if it has another one.

    If there is no such file, the pid may belong to another process.
    """
    if other_root(pid):
        with contextlib.suppress(paths.UnsafeNameError):
            inside = paths.in_process(pid, path)
            return inside if is_file(inside) else path
    return path


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


def is_younger(path: str, pid: int) -> bool:
    """Whether a file was written since a running process began. Allows a moment of slack: file timestamps are coarse."""
    born = began(pid)
    try:
        return born is not None and state_of(path).st_mtime >= born - 1
    except OSError:
        return False


def trusted_owners(pid: int) -> set[int]:
    """Return the user ids that may own files about a process: root's, our own, and the process's while it runs.

    The owner of an ended process is unknown.
    """
    uids = _status(pid, "Uid:")  # real, effective, saved, file system
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


def _first_mapping(pid: int, path: str) -> str:
    """Return the first mapping of a file by its name in map_files, "" if there is none. maps has paths below our root.

    Listing map_files takes seconds if a process has tens of thousands of mappings, which maps does not.
    """
    path = (root_of(pid) or "") + path
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            line = next((line for line in maps if line.rstrip("\n").endswith(" " + path)), "")
        return "-".join(f"{int(address, 16):x}" for address in line.split(" ", 1)[0].split("-")) if line else ""
    except (OSError, ValueError):
        return ""


def _mapped_file(pid: int, mapping: str, path: str) -> Iterator[str]:
    for link in (f"/proc/{pid}/exe", f"/proc/{pid}/map_files/{mapping}"):
        try:
            if os.readlink(link) == path:
                yield link
                return
        except OSError:
            continue


def innermost_pid(pid: int) -> int:
    """Return a process's pid in its innermost namespace, 0 if it has ended."""
    numbers = _status(pid, "NStgid:")
    return int(numbers[-1]) if numbers else 0


def innermost_tid(pid: int, tid: int) -> int:
    """Return a thread's id in its innermost namespace, 0 if it has ended."""
    numbers = _status(pid, "NSpid:", tid)
    return int(numbers[-1]) if numbers else 0


def catches(pid: int, number: int) -> bool:
    """Whether a running process has a handler for a signal."""
    words = _words(pid, "SigCgt:")
    return bool(words) and bool(int(words[0], 16) >> (number - 1) & 1)


def _status(pid: int, label: str, tid: int = 0) -> list[str]:
    """Return the words of a line of /proc/PID/status, or of a thread's; empty if there is no such process."""
    return [word for word in _words(pid, label, tid) if word.isdecimal()]


def _words(pid: int, label: str, tid: int = 0) -> list[str]:
    thread = f"task/{tid}/" if tid else ""
    try:
        with open(f"/proc/{pid}/{thread}status", encoding="utf-8", errors="surrogateescape") as status:
            return next((line for line in status if line.startswith(label)), "").split()[1:]
    except OSError:
        return []


def other_root(pid: int) -> bool:
    """Whether a process runs among other mounts, as in a container, or below chroot."""
    return root_of(pid) != ""
