"""The Python names of threads in a recording: COMM records, as the kernel writes them for threads that name themselves.

perf, and everything that shows comms, has them then. CPython itself names its threads in the kernel from 3.14 on, truncated to 15 bytes.
Main threads keep the name of their program.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.records import Comm
from perfpy.abi.sample_id import SampleId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.kernel.procfs import ProcFs

LONGEST_NAME: Final = 63  #: bytes of a name in a recording; longer ones are truncated
_DEFAULT: Final = re.compile(r"Thread-\d+(?: \(.*\))?")
_OF_OTHERS: Final = re.compile(r"MainThread|Dummy-\d+")  # threads that Python did not start
_FIRST_PAUSE: Final = 0.01  # seconds until a name is read again; doubled each time
_LONGEST_PAUSE: Final = 10.0
_MOST_THREADS: Final = 1 << 14
_MOST_PENDING: Final = 1 << 14


class _ReadName(NamedTuple):
    name: str
    until: float
    pause: float


class ReadNames:
    """The reader's side: the names of a process's threads, read again from time to time, because programs change them."""

    def __init__(self, pid: int, procfs: ProcFs) -> None:
        self._pid = pid
        self._procfs = procfs
        self._names: dict[int, _ReadName] = {}

    def new_name(self, tid: int, now: float, read: Callable[[], str]) -> str:
        """Return the name of a thread if it is new; "" otherwise.

        Args:
            tid: the thread.
            now: seconds, monotonic.
            read: returns the name in Python.
        """
        last = self._names.get(tid, _ReadName("", 0.0, _FIRST_PAUSE / 2))
        if tid == self._pid or now < last.until:
            return ""
        if len(self._names) >= _MOST_THREADS:
            self._names.clear()
        name = read()
        pause = min(2 * last.pause, _LONGEST_PAUSE)
        self._names[tid] = _ReadName(name, now + pause, pause)
        return name if name != last.name and self._replaces(tid, name) else ""

    def forget(self, tid: int) -> None:
        """Forget a thread that has ended: its number may get to another one."""
        self._names.pop(tid, None)

    def _replaces(self, tid: int, name: str) -> bool:
        """Whether a name says more than the kernel's. Names that Python made up do not replace the one that a thread gave itself."""
        if not name or _OF_OTHERS.fullmatch(name):
            return False
        if not _DEFAULT.fullmatch(name):
            return True
        own, main = self._procfs.status(tid), self._procfs.status(self._pid)
        return own is not None and main is not None and own.comm == main.comm


class PendingNames:
    """The unwinding process's side: names that wait for the next samples of their threads."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}

    def add(self, pid: int, tid: int, name: str) -> None:
        """Add a thread's name."""
        if len(self._names) < _MOST_PENDING:
            self._names[pid, tid] = name

    def take(self, samples: Iterable[tuple[int, int, int]], identity: int) -> Iterator[Comm]:
        """Yield COMM records for the threads of some samples, each at the first one's time.

        Args:
            samples: pid, tid and time of each.
            identity: the id of the event.
        """
        if not self._names:
            return
        first: dict[tuple[int, int], int] = {}
        for pid, tid, moment in samples:
            if (pid, tid) in self._names:
                first[pid, tid] = min(first.get((pid, tid), moment), moment)
        for (pid, tid), moment in first.items():
            name = _truncated(self._names.pop((pid, tid)))
            yield Comm(0, pid, tid, name, sample_id=SampleId(pid, tid, moment, identity, 0, 0, identity))


def _truncated(name: str) -> str:
    """Return a name without what a COMM record cannot hold: characters beyond its length, and NUL."""
    data = name.replace("\0", "").encode("utf-8", "replace")[:LONGEST_NAME]
    return data.decode("utf-8", "ignore")
