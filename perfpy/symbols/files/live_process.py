"""Paths below /proc to files of running processes: deleted programs, memfds, files of containers.

Empty without /proc, or if the process has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final

from perfpy.untrusted import paths
from perfpy.untrusted.files import ForeignFileError, is_file, open_regular, state_of, trusted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import BinaryIO

DELETED: Final = " (deleted)"


def paths_of(path: str, pids: Iterable[int]) -> Iterator[str]:
    """Where processes that run still reach a file that was mapped by that name: through their root, or their mappings."""
    for pid in sorted(pids):
        if not _maps(pid, path):
            continue  # gone, or another process by now
        if not path.endswith(DELETED):
            with contextlib.suppress(paths.UnsafeNameError):
                yield paths.in_process(pid, path)
        yield from _mapped_files(pid, path)


def perf_map_paths(pid: int) -> Iterator[str]:
    """Where a process's perf map can be: in its own /tmp, by the pid that it knows itself by, or in ours."""
    inner = innermost_pid(pid)
    if inner and other_root(pid):
        yield paths.in_process(pid, paths.perf_map(inner))
    yield paths.perf_map(pid)


def seen_by(pid: int, path: str) -> str:
    """Where a file is that a process calls by this name: below its root while it runs among other mounts.

    Where it is not there, another process may have got the number.
    """
    if other_root(pid):
        with contextlib.suppress(paths.UnsafeNameError):
            inside = paths.in_process(pid, path)
            return inside if is_file(inside) else path
    return path


def began(pid: int) -> float | None:
    """When a process began, in seconds since the epoch; None where it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as machine:
            booted = next(int(line.split()[1]) for line in machine if line.startswith(b"btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def is_younger(path: str, pid: int) -> bool:
    """Whether a file was written since a running process began; a moment is let pass, as the clocks of files are coarse."""
    born = began(pid)
    try:
        return born is not None and state_of(path).st_mtime >= born - 1
    except OSError:
        return False


def believed(pid: int) -> set[int]:
    """The user ids of whom files about a process are believed: root's, our own, and its owner's while it runs.

    Whose a process was that has gone, nothing tells.
    """
    found = _status(pid, "Uid:")  # real, effective, saved, of the file system
    return {*trusted(), *(int(number) for number in found[1:2])}


def open_told(path: str, pid: int, *, owners: Collection[int] | None, limit: int) -> BinaryIO:
    """Open a file in which a process tells something about itself. Raises OSError.

    owners: see believed; None believes all. The owner alone is not enough: a process can give a file of root's another
    name by a hard link, and its user must be able to read what it shows to root. A file that is older than the process is of
    another one, which had the number before.
    """
    if owners is None:
        return open_regular(path, limit=limit)
    file = open_regular(path, owners=owners, limit=limit, reader=pid if is_younger(path, pid) else 0)
    if pid and os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise ForeignFileError(errno.EACCES, "has other names (hard links)", path)
    return file


def _maps(pid: int, path: str) -> bool:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            return any(line.rstrip("\n").endswith(" " + path) for line in maps)
    except OSError:
        return False


def _mapped_files(pid: int, path: str) -> Iterator[str]:
    for link in (f"/proc/{pid}/exe", *_map_links(pid)):
        try:
            if os.readlink(link) == path:
                yield link
                return
        except OSError:
            continue


def _map_links(pid: int) -> list[str]:
    folder = f"/proc/{pid}/map_files"
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
    except OSError:
        return []


def innermost_pid(pid: int) -> int:
    """The number that a process knows itself by; 0 where it has gone."""
    found = _status(pid, "NStgid:")
    return int(found[-1]) if found else 0


def innermost_tid(pid: int, tid: int) -> int:
    """The number that a thread of a process knows itself by; 0 where it has gone."""
    found = _status(pid, "NSpid:", tid)
    return int(found[-1]) if found else 0


def catches(pid: int, number: int) -> bool:
    """Whether a running process has a handler for a signal."""
    words = _words(pid, "SigCgt:")
    return bool(words) and bool(int(words[0], 16) >> (number - 1) & 1)


def _status(pid: int, label: str, tid: int = 0) -> list[str]:
    """The numbers of a line of /proc/PID/status, or of that of a thread; none where no such process."""
    return [word for word in _words(pid, label, tid) if word.isdecimal()]


def _words(pid: int, label: str, tid: int = 0) -> list[str]:
    thread = f"task/{tid}/" if tid else ""
    try:
        with open(f"/proc/{pid}/{thread}status", encoding="utf-8", errors="surrogateescape") as status:
            return next((line for line in status if line.startswith(label)), "").split()[1:]
    except OSError:
        return []


def other_root(pid: int) -> bool:
    """Whether a process lives among other mounts than this one: a container's."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino
    except OSError:
        return False
