"""The unwinding process, seen from the one that records: starting it, giving it pieces, taking its answers.

What enters: pieces of the spool. What leaves: answers, and whether the process
still lives. Nothing here waits for it, but where that is asked for.

It is forked before anything is measured, so that the counters of the
recording, which are opened later, are none of its business, and gets ready
(numpy alone takes longer than the rest of perfpy) while they are opened.
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
_IGNORED: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)  # they mean the recorder, which tells when to end


class UnwindingProcess:
    """The other process. pid; alive: it has not ended, as far as is known.

    serve: what it does, with the two ends of the pipes and the spool's stores; also: another descriptor that it needs.
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
            with contextlib.suppress(OSError):  # a user may have less: the answers come in smaller parts
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)

    def ask(self, kind: int, extents: Sequence[Extent] = ()) -> None:
        """Send a request, now or as soon as there is room for it."""
        self._unsent += messages.request(kind, extents)
        self.send()

    def send(self) -> None:
        """Send what could not be sent before."""
        while self._unsent and self.alive:
            try:
                del self._unsent[: os.write(self._requests, self._unsent)]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.alive = False

    def take(self) -> Iterator[tuple[int, bytes]]:
        """Some of the answers that are here: who empties rings has no time for all of them at once.

        When there are no more to come, the process is not alive any more.
        """
        self.send()
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.answers, _READ)
            self._incoming.add(data)
            yield from self._incoming.answers()
            self.alive = bool(data)

    def wait(self, seconds: float | None, also: int = -1) -> bool:
        """Until an answer can be taken, or `also` can be read; False where the time is over first."""
        poller = select.poll()
        poller.register(self.answers, select.POLLIN)
        if self._unsent:
            poller.register(self._requests, select.POLLOUT)
        if also >= 0:
            poller.register(also, select.POLLIN)
        return bool(poller.poll(None if seconds is None else seconds * 1000))

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.alive = False

    def close(self) -> None:
        """It is not needed any more: it ends by itself when it finds nobody there. Waits for that."""
        for fd in (self._requests, self.answers):
            os.close(fd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def run_child(kept: set[int], comm: str, serve: Callable[[], None]) -> None:
    """The other side, after a fork. Never returns. kept: its descriptors; comm: its name."""
    status = 1
    try:
        _leave_the_rest_alone(kept, comm)
        serve()
        status = 0
    except BrokenPipeError:  # nobody is there any more
        status = 0
    finally:
        os._exit(status)  # without a word: the recorder says what it means


def _leave_the_rest_alone(kept: set[int], name: str) -> None:
    """Nothing of the recorder's but some descriptors and standard error: no signals, no files, no standard streams."""
    signal.set_wakeup_fd(-1)
    for number in (*_IGNORED, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in {0, 1} - kept:
        os.dup2(nothing, stream)
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name)
