"""Run the parts of a task in forked processes that write their results to a shared file, one after the other.

Each part yields the value that its writing returned. A part whose process failed is made and written here (see perfpy.workers.forked).
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from perfpy.errors import PerfError
from perfpy.workers.forked import ForkedWorkers, PartT, ResultT, receive_result, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from io import FileIO

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
