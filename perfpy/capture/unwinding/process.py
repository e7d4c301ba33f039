"""The unwinding process, as the recorder sees it: start it, send pieces, take answers. Only wait() and close() block.

It is forked before anything is measured, so that the recording's counters, which are opened later, do not count it; and it
initializes (importing numpy alone takes longer than the rest of perfpy) while they are opened.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
from typing import TYPE_CHECKING, Final

from perfpy.capture.unwinding import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.capture.unwinding.spool import Extent, Spool

    Serve = Callable[[int, int, tuple[int, int, int]], None]

_PIPE_SIZE: Final = 1 << 20
_READ: Final = 1 << 18
_COMM: Final = "perfpy-unwind"
READER_COMM: Final = "perfpy-python"
OWN_COMMS: Final = (_COMM, READER_COMM)  #: of the recorder's helpers
_IGNORED: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)  # sent to the recorder, which decides when to end


class UnwindingProcess:
    """The other process.

    Attributes:
        pid: its pid.
        alive: whether it is still running, as far as known.

    Args:
        serve: its function, called with the two ends of the pipes and the spool's stores.
        also: a further descriptor that it needs.
    """

    def __init__(self, spool: Spool, serve: Serve, also: int = -1) -> None:
        request_end, self._requests = os.pipe2(os.O_CLOEXEC)
        self.answers, answer_end = os.pipe2(os.O_CLOEXEC)
        self._incoming = messages.Incoming()
        self._unsent = bytearray()
        self.alive = True
        self.pid = os.fork()
        if self.pid == 0:
            stores = (spool.memory, spool.disk, spool.open_piece)
            run_child({request_end, answer_end, *stores, also} - {-1}, _COMM, lambda: serve(request_end, answer_end, stores))
        os.close(request_end)
        os.close(answer_end)
        for fd in (self._requests, self.answers):
            os.set_blocking(fd, False)
            with contextlib.suppress(OSError):  # a user's limit may be lower; the answers then come in smaller parts
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)

    def ask(self, kind: int, extents: Sequence[Extent] = ()) -> None:
        """Send a request, now or as soon as there is room."""
        self._unsent += messages.request(kind, extents)
        self.send()

    def send(self) -> None:
        """Send pending requests."""
        while self._unsent and self.alive:
            try:
                del self._unsent[: os.write(self._requests, self._unsent)]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.alive = False

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Yield some available answers; reading all at once would keep the recorder from the ring buffers.

        At the end of the answers, `alive` becomes False.
        """
        self.send()
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.answers, _READ)
            self._incoming.add(data)
            yield from self._incoming.answers()
            self.alive = bool(data)

    def wait(self, seconds: float | None, also: int = -1) -> bool:
        """Wait until an answer is available, or `also` is readable; return False after the timeout."""
        poller = select.poll()
        poller.register(self.answers, select.POLLIN)
        if self._unsent:
            poller.register(self._requests, select.POLLOUT)
        if also >= 0:
            poller.register(also, select.POLLIN)
        return bool(poller.poll(None if seconds is None else seconds * 1000))

    def kill(self) -> None:
        """Kill the process."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.alive = False

    def close(self) -> None:
        """Close the pipes, which ends the process, and wait for it."""
        for fd in (self._requests, self.answers):
            os.close(fd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def run_child(fds: set[int], comm: str, serve: Callable[[], None]) -> None:
    """Run in the child after the fork. Never returns. kept has its descriptors; comm is its name."""
    status = 1
    try:
        _drop_inherited(fds, comm)
        serve()
        status = 0
    except BrokenPipeError:  # the recorder has ended
        status = 0
    finally:
        os._exit(status)  # silently: the recorder prints a message


def _drop_inherited(fds: set[int], name: str) -> None:
    """Drop everything of the recorder but some descriptors and standard error: signals, files, standard streams."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in {0, 1} - fds:
        os.dup2(nothing, stream)
    first = 3
    for fd in sorted(fds):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name)
