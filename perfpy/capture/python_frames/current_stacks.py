"""The Python stacks of all threads of a process at this moment, running or waiting, read from its memory.

The process is not stopped: a stack that changes during the reading is read again, and marked if it still changes. A child process reads,
because a page of a hostile program can block its reader for ever.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import os
import select
import signal
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.capture.process_memory import InterpreterMemory
from perfpy.capture.python_frames.locating import RuntimeLocator
from perfpy.errors import PerfError
from perfpy.interpreters.frames import CurrentFrame, decode_lines
from perfpy.interpreters.objects import WORD, UnreadableMemoryError, read_word
from perfpy.interpreters.process import PythonProcess
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.interpreters.frames import PythonFrame, ThreadFrames

_LONGEST: Final = 10.0  # seconds for one process
_MOST_WITH_LOCALS: Final = 64  # frames of a thread whose variables are read
_MOST_WITH_LOCKS: Final = 64  # frames of a thread whose stacks are searched for locks
_CALL_WORDS: Final = 9  # of /proc/PID/syscall while a thread waits: the number, six arguments, stack pointer, program counter
_ATTEMPTS: Final = 5  # at a stack that changes, and at a thread without a stack pointer
_PAUSE: Final = 0.002
_READ: Final = 1 << 16
_MOST: Final = 64 << 20  # bytes of an answer
STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for the disk", "T": "stopped", "t": "traced", "Z": "ended"}
_LOCKED: Final = struct.Struct("=i")


class ThreadStack(NamedTuple):
    """A thread with Python frames, innermost first.

    Attributes:
        comm: the kernel's name.
        name: the one in Python; "" if it has none.
        state: what the kernel says of it.
        wait: the kernel function in which it waits; "" if it does not, or if that is hidden.
        has_gil: whether it holds the global interpreter lock.
        is_certain: whether it stood still during the reading.
        frames: innermost first.
        variables: names and values of the local variables of each frame.
        lock: the address at which it waits for a lock of Python's; 0 for none.
        lock_kind: "lock" or "RLock".
        holder: the thread that holds the lock; 0: unknown.
    """

    tid: int
    comm: str
    name: str
    state: str
    wait: str
    has_gil: bool
    is_certain: bool
    frames: list[CurrentFrame]
    variables: list[list[tuple[str, str]]] = []  # noqa: RUF012  # never changed
    lock: int = 0
    lock_kind: str = ""
    holder: int = 0


class ProcessStacks(NamedTuple):
    """A process: its command line, CPython's version, threads with Python frames, and the number of others."""

    pid: int
    command: str
    version: str
    threads: list[ThreadStack]
    others: int


def process_stacks(pid: int, procfs: ProcFs | None = None, *, with_locals: bool = False) -> ProcessStacks:
    """Read the stacks in a child process. Raises PerfError. with_locals: also local variables."""
    files = procfs or ProcFs()
    answer = in_child(lambda: _read_process(pid, files, with_locals=with_locals), _LONGEST)
    if answer is None:
        raise PerfError(f"process {pid}: its memory could not be read in {_LONGEST:.0f} s")
    if "error" in answer:
        raise PerfError(str(answer["error"]))
    threads = [ThreadStack(**{**thread, "frames": [CurrentFrame(*frame) for frame in thread["frames"]]}) for thread in answer["threads"]]
    return ProcessStacks(pid, answer["command"], answer["version"], threads, answer["others"])


def in_child(work: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any] | None:
    """Return the result of work; None after the time, or if the child died."""
    return ChildWork(work).result(seconds)


class ChildWork:
    """Work in a child process.

    Attributes:
        answer: the descriptor that becomes readable with the result.
    """

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        self.answer, answer_end = os.pipe2(os.O_CLOEXEC)
        self._child = os.fork()
        if self._child == 0:
            status = 1
            try:
                with open(answer_end, "wb") as answer:
                    answer.write(json.dumps(work()).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(answer_end)

    def result(self, seconds: float) -> dict[str, Any] | None:
        """Return the result; None after the time, or if the child died. The child is then gone."""
        try:
            return _received(self.answer, time.monotonic() + seconds)
        finally:
            os.close(self.answer)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)


def _received(end: int, deadline: float) -> dict[str, Any] | None:
    data = b""
    while len(data) < _MOST and select.select([end], [], [], max(deadline - time.monotonic(), 0))[0]:
        piece = os.read(end, _READ)
        if not piece:
            with contextlib.suppress(ValueError):
                message: dict[str, Any] = json.loads(data)
                return message
            return None
        data += piece
    return None


def _read_process(pid: int, procfs: ProcFs, *, with_locals: bool) -> dict[str, Any]:
    """Return the fields of ProcessStacks, or the error."""
    try:
        memory, python = open_python(procfs, pid)
    except PerfError as error:
        return {"error": str(error)}
    stacks = {tid: _thread(python, procfs, pid, tid, with_locals=with_locals) for tid in procfs.threads(pid)}
    if python.needs_stack_pointer:
        missing = [tid for tid, stack in stacks.items() if stack is None]
        remaining = _remaining(python, stacks, missing)
        stacks |= {tid: _thread(python, procfs, pid, tid, pointer, with_locals=with_locals) for tid, pointer in remaining}
    threads = [stack for stack in with_locks(python, procfs, pid, stacks).values() if stack is not None]
    status = procfs.status(pid)
    if status is None or status.uid != os.geteuid():  # the process has ended, and another one may have its number
        threads = [thread._replace(variables=[]) for thread in threads]
    holder = _lock_holder(memory, python)
    inner = {thread.tid: dso.innermost_tid(pid, thread.tid) or thread.tid for thread in threads}
    threads = [thread._replace(has_gil=holder != 0 and python.state_address(inner[thread.tid]) == holder) for thread in threads]
    return {
        "command": procfs.command_line(pid),
        "version": "{}.{}".format(*python.layout.version),
        "threads": [one._asdict() for one in threads],
        "others": len(stacks) - len(threads),
    }


def with_locks(
    python: PythonProcess, procfs: ProcFs, pid: int, stacks: dict[int, tuple[ThreadStack, list[PythonFrame]] | None]
) -> dict[int, ThreadStack | None]:
    """Return the stacks with the locks that threads wait for, and their holders.

    An RLock has its owner. The holder of another lock is the thread in the body of a `with` statement for it, if there is only one.
    """
    waits = {tid: words[1] for tid in stacks if len(words := _call_words(procfs, pid, tid)) == _CALL_WORDS and words[1]}
    semaphores = {*waits.values()}
    found = {
        tid: [lock for frame in one[1][:_MOST_WITH_LOCKS] for lock in python.locks(frame, semaphores)] for tid, one in stacks.items() if one
    }
    results: dict[int, ThreadStack | None] = {}
    for tid, stack in stacks.items():
        lock = next((one for one in found.get(tid, ()) if one.semaphore == waits.get(tid)), None)
        if stack is None or lock is None:
            results[tid] = stack and stack[0]
            continue
        inside = [
            other
            for other, locks in found.items()
            if waits.get(other) != lock.semaphore and any(one.is_entered and one.semaphore == lock.semaphore for one in locks)
        ]
        owners = [other for other in found if lock.owner and python.thread_id(dso.innermost_tid(pid, other) or other) == lock.owner]
        holder = (owners or inside)[0] if len(owners or inside) == 1 else 0
        results[tid] = stack[0]._replace(lock=lock.semaphore, lock_kind=lock.kind, holder=holder)
    return results


def _call_words(procfs: ProcFs, pid: int, tid: int) -> list[int]:
    """Return what /proc/PID/syscall tells of a waiting thread (proc(5)): the number of its system call, six arguments, the stack pointer
    and the program counter; outside of a system call -1 and the two pointers. Empty while it runs.
    """
    words = _text(procfs, f"{pid}/task/{tid}/syscall").split()
    return [int(word, 0) for word in words] if len(words) > 2 else []


def open_python(procfs: ProcFs, pid: int) -> tuple[InterpreterMemory, PythonProcess]:
    """Return the memory of a process, and its interpreters. Raises PerfError for processes without CPython, and without permission."""
    status = procfs.status(pid)
    if status is None:
        raise PerfError(f"no process {pid}")
    located = RuntimeLocator(procfs).find(pid)
    if located is None:
        raise PerfError(f"process {pid} ({status.comm}) does not run CPython, or its files may not be read")
    try:
        memory = InterpreterMemory(pid)
        return memory, PythonProcess(memory, located.runtime, located.version, time.monotonic)
    except PermissionError:
        raise PerfError(f"process {pid}: its memory may not be read; run perfpy as root, or set kernel.yama.ptrace_scope to 0") from None
    except (OSError, ValueError, UnreadableMemoryError) as error:
        raise PerfError(f"process {pid}: {str(error) or 'its interpreter cannot be read'}") from None


def stack_pointer(procfs: ProcFs, pid: int, tid: int) -> int:
    """Return a waiting thread's stack pointer, the word before the last of /proc/PID/syscall; 0 while it runs."""
    return (_call_words(procfs, pid, tid) or [0, 0])[-2]


def _remaining(python: PythonProcess, walked: Iterable[int], missing: list[int]) -> Iterator[tuple[int, int]]:
    """Yield threads that ran all the time, each with an address of its stack, before 3.11.

    Their stack pointers are hidden. Thread states that no other thread has are theirs, in the order of creation, if there are as many.
    """
    walked_addresses = {python.state_address(tid) for tid in walked}
    states = [data for address, data in python.states.all() if address not in walked_addresses]
    offset = python.layout.thread.thread_id
    if len(states) == len(missing):
        yield from zip(sorted(missing), (WORD.unpack_from(data, offset)[0] for data in reversed(states)), strict=True)


def _thread(
    python: PythonProcess, procfs: ProcFs, pid: int, tid: int, known_pointer: int = 0, *, with_locals: bool
) -> tuple[ThreadStack, list[PythonFrame]] | None:
    """Return a thread's stack with the frames that were read; None without Python frames. known_pointer: an address of its stack."""
    frames: ThreadFrames | None = None
    inner = dso.innermost_tid(pid, tid) or tid
    for _ in range(_ATTEMPTS):
        pointer = known_pointer
        if python.needs_stack_pointer and tid != pid and not pointer and not (pointer := stack_pointer(procfs, pid, tid)):
            time.sleep(_PAUSE)
            continue
        with contextlib.suppress(UnreadableMemoryError):
            frames = python.frames(inner, pointer, is_main=tid == pid)
        if frames is None or not frames.has_moved:
            break
        time.sleep(_PAUSE)
    if frames is None or not frames.frames:
        return None
    fields = _text(procfs, f"{pid}/task/{tid}/stat").rpartition(")")[2].split()
    state = STATES.get(fields[0], fields[0]) if fields else "ended"
    wait = _text(procfs, f"{pid}/task/{tid}/wchan")
    comm = _text(procfs, f"{pid}/task/{tid}/comm")
    version = python.layout.version
    is_certain = frames.is_whole and not frames.has_moved
    stack = ThreadStack(
        tid,
        comm,
        python.thread_name(inner),
        state,
        "" if wait == "0" else wait,
        False,
        is_certain,
        [current_frame(one, version) for one in frames.frames],
        [python.variables(one) for one in frames.frames[:_MOST_WITH_LOCALS]] if with_locals else [],
    )
    return stack, frames.frames


def current_frame(frame: PythonFrame, version: tuple[int, int]) -> CurrentFrame:
    """Return the function and line of a frame."""
    code = frame.code
    lines = decode_lines(code.lines, code.first_line, version)
    row = bisect.bisect_right(lines, (max(frame.offset, 0), 1 << 62)) - 1
    return CurrentFrame(code.name, code.filename, lines[row][1] if row >= 0 else code.first_line)


def _lock_holder(memory: InterpreterMemory, python: PythonProcess) -> int:
    """Return the thread state that holds the GIL; 0 if none does, or if it cannot be read."""
    holder, locked = python.states.gil_addresses()
    try:
        is_locked = holder and _LOCKED.unpack(memory.read(locked, _LOCKED.size))[0] == 1
        return read_word(memory, holder) if is_locked else 0
    except UnreadableMemoryError:
        return 0


def _text(procfs: ProcFs, path: str) -> str:
    try:
        with open(f"{procfs.root}/{path}", encoding="utf-8", errors="surrogateescape") as file:
            return file.read(4096).rstrip("\n")
    except OSError:
        return ""
