"""The reader of Python frames, as the recorder sees it: start it, send it new records, end it.

The reader's answers go to the unwinding process. The recorder never waits: records for which the pipe has no room are not read.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Final

from perfpy.capture.unwinding import process
from perfpy.capture.unwinding.process import READER_COMM, run_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.python_frames.kernel_frames import FrameMaps
    from perfpy.capture.unwinding.process import Extent, Spool


LOOK: Final = 21  #: the kind of its requests (perfpy.capture.unwinding.process)


class ReaderProcess:
    """The other process.

    Attributes:
        answers: the descriptor for the unwinding process, which is forked later.

    Args:
        spool: of the records.
        attr: of the samples.
        maps: of frames that the kernel copies; None without permission.
        change: how much lower its nice value becomes, if the user may have it.
    """

    def __init__(self, spool: Spool, attr: EventAttr, maps: FrameMaps | None = None, change: int = 10) -> None:
        request_end, self._requests = os.pipe2(os.O_CLOEXEC)
        self.answers, answer_end = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            stores = (spool.memory, spool.disk, spool.open_piece)
            fds = {request_end, answer_end, *stores, *(maps or ())}
            run_child(fds, READER_COMM, lambda: _serve(request_end, answer_end, stores, attr, maps, change))
        os.close(request_end)
        os.close(answer_end)
        os.set_blocking(self._requests, False)

    def close_answers(self) -> None:
        """Close the answers, which the unwinding process has inherited."""
        os.close(self.answers)

    def look(self, extents: Sequence[Extent]) -> None:
        """Request a reading for records that were just written."""
        if extents and self._requests >= 0:
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(self._requests, process.request(LOOK, extents))

    def finish(self) -> None:
        """Close the requests; the process ends after the last one."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def close(self) -> None:
        """Kill the process, unless it has ended."""
        self.finish()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)


def _serve(requests: int, answers: int, stores: tuple[int, int, int], attr: EventAttr, maps: FrameMaps | None, change: int) -> None:
    """Run the other process, which needs numpy."""
    from perfpy.capture.unwinding.python_reader import serve

    with contextlib.suppress(OSError):  # the sooner frames are read, the more often they match their samples
        os.nice(-change)
    serve(requests, answers, stores, attr, maps)
