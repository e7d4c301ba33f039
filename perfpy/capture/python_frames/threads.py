"""The Python names of threads in a recording: COMM records, as the kernel writes them for threads that name themselves.

perf, and everything that shows comms, has them then. CPython itself names its threads in the kernel from 3.14 on, truncated to 15 bytes.
Main threads keep the name of their program.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perfpy_encodings import AWAITED_BY, BLOCKED_LOOP
from perfpy.abi.records import Comm, SampleId
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.interpreters.tasks import is_callback, is_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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
            # without what a COMM record cannot hold: characters beyond its length, and NUL
            data = self._names.pop((pid, tid)).replace("\0", "").encode("utf-8", "replace")[:LONGEST_NAME]
            name = data.decode("utf-8", "ignore")
            yield Comm(0, pid, tid, name, sample_id=SampleId(pid, tid, moment, identity, 0, 0, identity))


# Turns of event loops that run callbacks for so long that the loop serves nobody: their mark in callchains, and the longest of them.

#: ns; asyncio's own limit (loop.slow_callback_duration)
LONG: Final = 100_000_000
#: the function in callchains that stands for such a turn
MARK: Final = FoundCode(0, -1, 0, 0, 2, BLOCKED_LOOP, "<asyncio>", 0, b"", 0)
#: the function in callchains between a task and the coroutines that await it
AWAITED: Final = FoundCode(0, -2, 0, 0, 2, AWAITED_BY, "<asyncio>", 0, b"", 0)
_MOST_LOOPS: Final = 1 << 12
_MOST_CALLBACKS: Final = 1 << 10  # of a turn


class _Turn(NamedTuple):
    """A long turn: when it began, and its callbacks by number of their code, each with its samples."""

    began: int
    callbacks: dict[int, tuple[int, FoundCode]]


class BlockedLoops:
    """The long turns of a recording.

    Attributes:
        count: the number of long turns.
        longest: the greatest age of one at a sample, ns; 0 without long turns.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0
        self._turns: dict[int, _Turn] = {}  # by thread: the last one
        self._longest_turn = _Turn(0, {})

    @property
    def callback(self) -> FoundCode | None:
        """The outermost function of the callback with most samples of the longest turn."""
        samples = self._longest_turn.callbacks.values()
        return max(samples, key=lambda one: one[0])[1] if samples else None

    def find(self, codes: Sequence[FoundCode], tid: int, began: int, moment: int) -> int:
        """Return the position of the turn among functions, innermost first, if it is long; -1 otherwise.

        Args:
            codes: the functions of a sample.
            tid: its thread.
            began: when the turn's callbacks began, ns; 0 if that is unknown.
            moment: the sample's time, ns.
        """
        if not began or moment - began < LONG:
            return -1
        for position, (inner, code) in enumerate(pairwise(codes)):
            if is_turn(code.name, code.filename) and is_callback(inner.name, inner.filename):
                self._note(tid, began, moment - began, codes[position - 1] if position else None)
                return position + 1
        return -1

    def _note(self, tid: int, began: int, age: int, callback: FoundCode | None) -> None:
        turn = self._turns.get(tid)
        if turn is None or turn.began != began:
            self.count += 1
            if len(self._turns) >= _MOST_LOOPS:
                self._turns.clear()
            turn = self._turns[tid] = _Turn(began, {})
        if callback is not None and (callback.number in turn.callbacks or len(turn.callbacks) < _MOST_CALLBACKS):
            turn.callbacks[callback.number] = (turn.callbacks.get(callback.number, (0, callback))[0] + 1, callback)
        if age > self.longest:
            self.longest, self._longest_turn = age, turn
