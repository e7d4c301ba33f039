"""Run the parts of a task in forked processes, and return the results in the order of the parts.

The processes inherit the memory of this one; they return results by pickle.

No process survives this one: the kernel sends SIGIO, which ends it, when the other end of a pipe that it holds is closed. A part whose
process failed or was killed runs here, where its error is raised as without other processes.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import contextmanager

from perfpy.abi.light_types import TYPE_CHECKING, Generic, TypeVar, signal
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from io import BufferedReader, FileIO
    from types import TracebackType
    from typing import Any, Final


PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

#: Results wait in the kernel's pipes, so processes are at most this many bytes ahead of the reader.
_PIPE_SIZE: Final = 1 << 20
_LENGTH_BYTES: Final = 8


def can_fork() -> bool:
    """Whether this process can fork workers: not on other systems, and not beside other threads."""
    if not hasattr(os, "fork") or not hasattr(fcntl, "F_SETOWN"):
        return False
    threading = sys.modules.get("threading")
    return threading is None or threading.active_count() == 1


class ForkedWorkers(Generic[PartT, ResultT]):
    """Processes that start at once: the first takes the first part and each count-th after it, and so on.

    Use it in a with statement, which ends all of them.
    """

    def __init__(self, parts: Sequence[PartT], work: Callable[[PartT], ResultT], count: int) -> None:
        self._parts, self._work = parts, work
        self._count = min(count, len(parts))
        self._pids: list[int] = []
        self._results: list[BufferedReader | None] = []
        self._lifelines: list[int] = []

    def __enter__(self) -> ForkedWorkers[PartT, ResultT]:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            for number in range(self._count):
                self._start(number)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def results(self) -> Iterator[ResultT]:
        """Yield the result of each part, in order. Call it once."""
        for index, part in enumerate(self._parts):
            number = index % self._count
            stream = self._results[number]
            result = None if stream is None else receive_result(stream)
            if result is not None:
                yield result[0]
                continue
            if stream is not None:  # its remaining parts are done here, too
                stream.close()
                self._results[number] = None
            yield self._work(part)

    def _start(self, number: int) -> None:
        held, lifeline = os.pipe()  # one pipe each: of several holders of a pipe, only one gets the signal
        self._lifelines.append(lifeline)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            os.close(held)
            self._pids.append(pid)
            self._results.append(os.fdopen(reading, "rb"))
            return
        status = 1
        try:
            os.close(reading)
            for other in self._lifelines:
                os.close(other)
            _die_with(held)
            _widen(writing)
            with os.fdopen(writing, "wb", 0) as stream:
                self._serve(self._parts[number :: self._count], stream)
            status = 0
        finally:  # nothing of the parent process may be flushed, closed or reported twice
            os._exit(status)

    def _serve(self, parts: Sequence[PartT], stream: FileIO) -> None:
        """Run the parts of one process."""
        for part in parts:
            send(stream, self._work(part))

    def _end(self) -> None:
        """End all processes, and wait for them."""
        for stream in self._results:
            if stream is not None:
                stream.close()
        self._results.clear()
        while self._lifelines:
            os.close(self._lifelines.pop())
        while self._pids:
            pid = self._pids.pop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _die_with(held: int) -> None:
    """Make this process end when the other end of a pipe closes; Ctrl-C ends it silently, because the parent prints a message."""
    for number in (signal.SIGIO, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    fcntl.fcntl(held, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(held, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    import select

    if select.select([held], [], [], 0)[0]:  # closed before the signal was set up
        os._exit(1)


def _widen(pipe: int) -> None:
    """Widen a pipe for results that are not read yet; keep its size if the kernel refuses."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        except OSError:
            return


def send(stream: FileIO, result: object) -> None:
    """Write a result: the lengths, its pickle, then its arrays."""
    import pickle  # small recordings are read without workers

    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    lengths = pickle.dumps([view.nbytes for view in views])
    head = b"".join(len(part).to_bytes(_LENGTH_BYTES, "little") for part in (pickled, lengths))
    parts: list[bytes | memoryview] = [head, lengths, pickled, *views]
    for part in parts:
        _write_all(stream, part)


def _write_all(stream: FileIO, data: bytes | memoryview) -> None:
    written = 0
    while written < len(data):
        written += stream.write(data[written:])


def receive_result(stream: BufferedReader) -> tuple[Any] | None:
    """Read a result, in a tuple; None if the process ended before it."""
    import pickle

    try:
        pickled, lengths = (int.from_bytes(_read(stream, _LENGTH_BYTES), "little") for _ in range(2))
        sizes = pickle.loads(_read(stream, lengths))
        data = _read(stream, pickled)
        return (pickle.loads(data, buffers=[_read(stream, size) for size in sizes]),)
    except EOFError:
        return None


def _read(stream: BufferedReader, size: int) -> bytearray:
    """Read exactly `size` bytes. Raises EOFError if there are fewer."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = stream.readinto(view[filled:])
        if not count:
            raise EOFError
        filled += count
    return data


# Choose the number of processes for a task, this one included, from --jobs and the task's size.


#: Each process gets at least this many samples to fold. Two processes take 1.0 times the time of one for 1 M, 0.87 for 2 M, 0.85 for 10 M.
SAMPLES_EACH: Final = 1_000_000
#: Each process gets at least this many samples to fold with their callchains, which take most of the time.
CHAINS_EACH: Final = 250_000
#: Each process gets at least this many stacks to unwind and fold.
STACKS_EACH: Final = 4_000


def available_cores() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def jobs_for(requested: int, size: int, each: int) -> int:
    """Return the number of processes for a task.

    Args:
        requested: the limit of --jobs (0: all cores).
        size: of the task.
        each: the least size for one process.
    """
    most = requested or available_cores()
    return max(1, min(most, size // each)) if most > 1 and size >= 2 * each and can_fork() else 1


# Run the parts of a task in forked processes that write their results to a shared file, one after the other.
#
# Each part yields the value that its writing returned. A part whose process failed is made and written here (see perfpy.workers).


MadeT = TypeVar("MadeT")


class OrderedWriters(ForkedWorkers[PartT, ResultT]):
    """Forked processes that compute their parts in parallel, and write the results one after the other."""

    def __init__(self, parts: Sequence[PartT], make: Callable[[PartT], MadeT], give: Callable[[MadeT], ResultT], count: int) -> None:
        super().__init__(parts, lambda part: give(make(part)), count)
        self._make: Callable[[PartT], Any] = make
        self._give: Callable[[Any], ResultT] = give
        self._turns: list[int] = []  # for each process, the pipe that starts its turn
        self._turn = -1  # in a process: the reading end of its pipe

    def results(self) -> Iterator[ResultT]:
        """Yield the result of writing each part, in order. Call it once.

        Raises PerfError if a process was killed while it wrote.
        """
        for index, part in enumerate(self._parts):
            number = index % self._count
            stream = self._results[number]
            if stream is None:
                yield self._work(part)
            elif not self._has_begun(number) or receive_result(stream) is None:
                stream.close()  # its remaining parts are done here, too
                self._results[number] = None
                yield self._work(part)
            else:
                message = receive_result(stream)
                if message is None:
                    raise PerfError("a process was killed while it wrote its part of the output, which ends there; try again, or --jobs 1")
                result, error = message[0]
                if error is not None:
                    raise error
                yield result

    def _has_begun(self, number: int) -> bool:
        """Start the turn of a process; return whether it was still running."""
        try:
            return os.write(self._turns[number], b"\n") == 1
        except BrokenPipeError:
            return False

    def _start(self, number: int) -> None:
        self._turn, next_turn = os.pipe()
        self._turns.append(next_turn)
        super()._start(number)
        os.close(self._turn)

    def _serve(self, parts: Sequence[PartT], stream: FileIO) -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a broken pipe is reported by the parent process
        for turn_end in self._turns:
            os.close(turn_end)
        for part in parts:
            output = self._make(part)
            if not os.read(self._turn, 1):
                return
            send(stream, None)
            try:
                result: tuple[ResultT | None, OSError | None] = self._give(output), None
            except OSError as error:  # the parent process raises it as if it had written itself
                result = None, error
            del output
            send(stream, result)

    def _end(self) -> None:
        super()._end()
        while self._turns:
            os.close(self._turns.pop())


# Keep freed memory in the process, or return it (glibc).
#
# Columns are allocated and freed by the megabyte. A process that returns each at once, as Dask configures its workers
# (MALLOC_TRIM_THRESHOLD_), takes half again as much time to get the pages back.


# Parameter numbers of mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT: Final = 256 << 20
_LARGEST: Final = 32 << 20  # glibc refuses more


def keep_freed_memory() -> None:
    """Keep freed memory in this process until its end, for commands that are short. The next columns then need no new pages."""
    import ctypes  # few commands call it

    libc = ctypes.CDLL(None)
    try:
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
    except AttributeError:  # another C library
        return


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Keep freed memory in this process during the context, and return it at the end."""
    import ctypes  # few commands call it

    libc = ctypes.CDLL(None)
    try:
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        give_back = libc.malloc_trim
    except AttributeError:  # another C library
        yield
        return
    try:
        yield
    finally:
        give_back(0)


def return_freed_memory() -> None:
    """Return freed memory to the system, including memory between blocks in use."""
    import ctypes  # few commands call it

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # another C library has none
    if trim is not None:
        trim(0)
