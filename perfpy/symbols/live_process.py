"""What running processes still hold: deleted programs, memfds, files of containers.

What enters: a recorded path and the pids that had it mapped. What leaves: paths
below /proc that lead to the same file. All of it is empty where there is no
/proc, or where the process has gone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DELETED: Final = " (deleted)"


def places_of(path: str, pids: Iterable[int]) -> Iterator[str]:
    """Where processes that run still reach a file that was mapped by that name: through their root, or their mappings."""
    for pid in sorted(pids):
        if not _maps(pid, path):
            continue  # gone, or another process by now
        if not path.endswith(DELETED):
            yield f"/proc/{pid}/root{path}"
        yield from _mapped_files(pid, path)


def perf_map_places(pid: int) -> Iterator[str]:
    """Where a process's perf map can be: in its own /tmp, by the pid that it knows itself by, or in ours."""
    inner = _innermost_pid(pid)
    if inner and other_root(pid):
        yield f"/proc/{pid}/root/tmp/perf-{inner}.map"
    yield f"/tmp/perf-{pid}.map"


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


def _innermost_pid(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="surrogateescape") as status:
            line = next((line for line in status if line.startswith("NStgid:")), "")
        return int(line.split()[-1]) if line else 0
    except (OSError, ValueError):
        return 0


def other_root(pid: int) -> bool:
    """Whether a process lives among other mounts than this one: a container's."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino
    except OSError:
        return False
