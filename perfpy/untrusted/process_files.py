"""Files about processes.

Those that a process wrote itself, such as perf maps: who may own them, and whether they are the process's or an earlier one's.
Those of the kernel, whose lines contain names that the process chose: only line feeds end them.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from perfpy.untrusted.files import ForeignFileError, open_regular, state_of, trusted_file_owners

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import BinaryIO, Final

#: the kernel's own name in MMAP2 events of files whose path is longer than PATH_MAX
TOO_LONG: Final = "//toolong"
# PATH_MAX, and the fields before the path. Relative to a folder, files of far longer paths can be opened.
_LONGEST_LINE: Final = 4096 + 100
# 65,530 mappings, the usual limit of a process, take 8 MB.
_MOST_MAPS: Final = 64 << 20


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
