"""What threads do at this moment, from /proc: their state, the system call in which they wait, and their times on and off the run queue.

A user may read this of his own processes, unless a security module forbids it. Layouts: proc(5): /proc/PID/task/TID/stat, syscall,
schedstat and children.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE: Final = 4096
_OUTSIDE: Final = -1  # of syscall: the thread waits, but in no system call


class ThreadState(NamedTuple):
    """The state of a thread.

    Attributes:
        comm: its name.
        letter: as in proc(5): R, S, D, T ...
        ran, queued: nanoseconds on a CPU, and waiting for one, since the thread's begin.
        call: the number of the system call in which it waits; -1 for a wait in no call, None if it runs or this is not readable.
        arguments: of the call.
    """

    comm: str
    letter: str
    ran: int
    queued: int
    call: int | None
    arguments: Sequence[int]


def read_state(pid: int, tid: int) -> ThreadState | None:
    """Return the state of a thread; None if it has ended."""
    folder = f"/proc/{pid}/task/{tid}"
    before, _, after = _read(f"{folder}/stat").rpartition(b")")
    if not after:
        return None
    letter = after.split()[:1]
    times = _read(f"{folder}/schedstat").split()
    ran, queued = (int(times[0]), int(times[1])) if len(times) > 1 else (0, 0)
    words = _read(f"{folder}/syscall").split() if letter != [b"R"] else []
    call, arguments = None, []
    if words and words[0].lstrip(b"-").isdigit():
        call, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
    comm = os.fsdecode(before.partition(b"(")[2])
    return ThreadState(comm, letter[0].decode("ascii", "replace") if letter else "?", ran, queued, call, arguments)


def read_wait(pid: int, tid: int) -> tuple[str, int]:
    """Return the letter of a thread's state, "" if it has ended; and the address at which it left user space, 0 if unknown."""
    folder = f"/proc/{pid}/task/{tid}"
    letter = _read(f"{folder}/stat").rpartition(b")")[2].split()[:1]
    words = _read(f"{folder}/syscall").split() if letter not in ([], [b"R"]) else []
    address = int(words[-1], 16) if len(words) > 1 and words[-1].startswith(b"0x") else 0
    return letter[0].decode("ascii", "replace") if letter else "", address


def children_of(pid: int, tids: Sequence[int]) -> list[int]:
    """Return the child processes that threads have created and that run now."""
    return [int(word) for tid in tids for word in _read(f"/proc/{pid}/task/{tid}/children").split()]


def target_of(pid: int, descriptor: int) -> str:
    """Return what a descriptor of a process leads to, for example "pipe:[1234]"; "" if it is not readable."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # the thread has ended, or belongs to another user
        return b""
    try:
        return os.read(fd, _SIZE)
    except OSError:
        return b""
    finally:
        os.close(fd)
