"""Copy the ring buffers to the output as slices, without decoding, and end each pass that found data with FINISHED_ROUND.

A pass is bounded, whatever the kernel writes meanwhile: each ring buffer is read up to its head at the start of its turn, and
`stop` is checked between two. The last pass, rest(), reads all heads first and goes no further, so that the end of a recording
costs no more than the ring buffers' contents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.output.moved_text_watch import MovedTextWatch
    from perfpy.capture.output.output import RecordOutput
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.kernel.ring import Ring

    #: The contents of a ring buffer, as slices of it.
    Held = Sequence[memoryview]


class Drain:
    """Reads the ring buffers of some counters.

    Args:
        flush: bytes that a ring buffer must have before it is written.
        stop: called between two ring buffers; True ends the pass (which rest() completes).
        move: called with the index of the next ring buffer.
        watch: finds text that processes move; None: it is not looked for.

    Attributes:
        inspect: called with the contents of each ring buffer, if set.
        tids: of the threads that do the work; none here.
        watch: as above.
    """

    tids: tuple[int, ...] = ()

    def __init__(
        self,
        counters: SampleCounters,
        output: RecordOutput,
        flush: int = 1,
        *,
        stop: Callable[[], bool] = lambda: False,
        move: Callable[[int], None] | None = None,
        watch: MovedTextWatch | None = None,
    ) -> None:
        self._counters = counters
        self._move = move
        self.watch = watch
        self._output = output
        self._flush = flush
        self._stop = stop
        self.inspect: Callable[[Held], None] | None = None
        self._aux = counters.aux
        rings = counters.rings
        self._forward = [ring for ring in rings if not ring.backward]
        self._backward = [ring for ring in rings if ring.backward]

    def forward(self) -> int:
        """Write the contents of the forward ring buffers that have enough. Return the bytes written."""
        total = 0
        for index, ring in enumerate(self._forward):
            if self._stop():  # the round ends when every ring buffer was read
                return total
            if self._move:
                self._move(index)
            total += self._take(ring, ring.pending(), self._flush)
        if self._aux and (aux_bytes := self._aux.take(self._output)):
            self._aux.go_on()
            total += aux_bytes
        return self._round(total)

    def rest(self) -> int:
        """Write the current contents of the forward ring buffers, however little. Return the bytes written."""
        held = [(ring, ring.pending()) for ring in self._forward]
        aux = self._aux.take(self._output) if self._aux else 0
        return self._round(sum(self._take(ring, slices, 1) for ring, slices in held) + aux)

    def backward(self) -> int:
        """Write a snapshot of the backward ring buffers, if there are any: the latest records. Return the bytes written."""
        if not self._backward:
            return 0
        self._counters.pause(True)
        try:
            return self._round(sum(self._take(ring, ring.pending(), 1) for ring in self._backward))
        finally:
            self._counters.pause(False)

    def close(self) -> None:
        """No-op: there are no threads."""

    def _take(self, ring: Ring, slices: Held, least: int) -> int:
        size = sum(map(len, slices))
        if size < least:
            return 0
        if self.inspect:
            self.inspect(slices)
        if self.watch:
            self.watch.look(slices)
        self._output.write_ring(slices)
        ring.consume()
        return size

    def _round(self, total: int) -> int:
        if total:
            if self.watch and (records := self.watch.take()):
                self._output.write_ring([memoryview(record) for record in records])
            self._output.end_round()
        return total
