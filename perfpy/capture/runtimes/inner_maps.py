"""Perf maps of processes in other pid namespaces that end before the recording does.

Such a process names its map after its pid inside the namespace, and may have a /tmp of its own. Both are unknown after its end. The
recorder therefore looks at the descendants of the recorded processes regularly. It holds the /tmp of those in another pid namespace, and
reads their map when they have ended.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.kernel.procfs import children_of
from perfpy.symbols.dso import innermost_pid
from perfpy.untrusted import files, process_files
from perfpy.untrusted.files import open_regular_beneath, require_dense, trusted_file_owners
from perfpy.untrusted.process_root import ProcessRoot, Rights, run_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PERIOD: Final = 0.1  # seconds
_MOST: Final = 1 << 12  # processes of one look, and processes that are held
_TEXT_MOST: Final = 8 << 20  # bytes of a map whose contents are kept
_TEXTS_MOST: Final = 128 << 20  # bytes of all of them
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY


class _InnerProcess(NamedTuple):
    """A process in another pid namespace. folder: descriptor of its /tmp, None if it cannot be opened."""

    inner: int
    began: float
    rights: Rights | None
    folder: int | None


class InnerMaps:
    """An alarm that looks for processes in other pid namespaces.

    Args:
        recorded: whose descendants to look at.
    """

    def __init__(self, recorded: Iterable[int]) -> None:
        self._recorded = tuple(recorded)
        self._next = 0.0
        self._processes: dict[int, _InnerProcess] = {}
        self._others: set[int] = set()  # processes in our namespace
        self._maps: dict[int, int] = {}  # ended process -> descriptor of its map, if that is large
        self._texts: dict[int, bytes] = {}  # ended process -> the contents of its map
        self._room = _TEXTS_MOST

    def wait(self, now: float) -> float:
        """Return the seconds until the next look."""
        return max(self._next - now, 0.0)

    def ring(self, now: float) -> None:
        """Look if it is time."""
        if now >= self._next:
            self._next = now + _PERIOD
            self.look()

    def look(self) -> None:
        """Find new processes, and the maps of those that have ended."""
        seen = set(_descendants(self._recorded))
        self._others &= seen
        for pid in self._processes.keys() | seen - self._others:
            before, began = self._processes.get(pid), process_files.began(pid)
            if before is not None and began != before.began:
                self._keep_map(pid, before)
                self._forget(pid)
            inner = innermost_pid(pid) if began is not None else 0
            if inner in (0, pid) and pid not in self._processes:
                self._others.add(pid)
            elif inner and len(self._processes) < _MOST:
                self._hold(pid, inner, began or 0.0)

    def read(self, pid: int) -> bytes:
        """Return the map of an ended process, empty without one."""
        from perfpy.symbols.perf_map import LARGEST  # it needs numpy, which the recorder does not load before its end

        if pid in self._texts:
            return self._texts[pid]
        fd = self._maps.get(pid)
        if fd is None or os.fstat(fd).st_size > LARGEST:
            return b""
        with open(os.dup(fd), "rb") as file:
            return file.read(LARGEST)

    def close(self) -> None:
        """Close all files."""
        for pid in list(self._processes):
            self._forget(pid)
        for fd in self._maps.values():
            os.close(fd)
        self._maps.clear()
        self._texts.clear()

    def _hold(self, pid: int, inner: int, began: float) -> None:
        """Hold the /tmp that a process has now."""
        rights = folder = None
        with contextlib.suppress(OSError), ProcessRoot(pid) as root:
            rights, folder = root.rights, root.open("/tmp", _FOLDER)
        if folder is None and pid in self._processes:
            return  # it ends: what it had remains
        self._forget(pid)
        self._processes[pid] = _InnerProcess(inner, began, rights, folder)

    def _forget(self, pid: int) -> None:
        process = self._processes.pop(pid, None)
        if process is not None and process.folder is not None:
            os.close(process.folder)

    def _keep_map(self, pid: int, process: _InnerProcess) -> None:
        """Hold the map of a process that has ended: another process of its namespace may replace the file."""
        folder, rights, name = process.folder, process.rights, os.path.basename(files.perf_map(process.inner))
        if folder is None or rights is None or len(self._maps) >= _MOST:
            return
        with contextlib.suppress(OSError):
            fd = run_as(rights, lambda: open_regular_beneath(folder, name, follow=False))
            if _is_trusted(fd, process, name):
                self._keep_contents(pid, fd)
            else:
                os.close(fd)

    def _keep_contents(self, pid: int, fd: int) -> None:
        """Keep the contents of a map, which the next process with its name may overwrite; of a large one only the descriptor."""
        size = os.fstat(fd).st_size
        if old := self._maps.pop(pid, 0):  # of an earlier process with this pid
            os.close(old)
        self._texts.pop(pid, None)
        if size > min(_TEXT_MOST, self._room):
            self._maps[pid] = fd
            return
        with open(fd, "rb") as file:
            self._texts[pid] = file.read(size)
        self._room -= size


def _is_trusted(fd: int, process: _InnerProcess, name: str) -> bool:
    """Whether a map is the process's: of root, us or its user, without other names, and not older than the process."""
    state = os.fstat(fd)
    owners = {*trusted_file_owners(), process.rights.uid if process.rights else 0}
    try:
        require_dense(fd, name)
    except OSError:
        return False
    return state.st_uid in owners and state.st_nlink <= 1 and state.st_mtime >= process.began - 1


def _descendants(pids: Iterable[int]) -> Iterator[int]:
    """Yield processes and their descendants."""
    waiting, count = [*pids], 0
    while waiting and count < _MOST:
        pid = waiting.pop()
        count += 1
        yield pid
        with contextlib.suppress(OSError):
            waiting += children_of(pid, [int(name) for name in os.listdir(f"/proc/{pid}/task")])
