"""The rings -> the output: what has been written since the last time, as slices, without a look inside.

What enters: rings and an RecordOutput. What leaves: the bytes in the file, a
FINISHED_ROUND after each pass that found some.

A pass is bounded, whatever the kernel writes meanwhile: each ring is read up
to where its head stood when its turn came, and between two rings it is asked
whether to stop. The last pass, rest(), reads all heads first and goes no
further, so that the end of a recording costs what the rings hold and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.output.output import RecordOutput
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.kernel.ring import Ring

    #: what a ring held, as slices of it
    Held = Sequence[memoryview]


class Drain:
    """Empties the rings of some counters.

    flush: bytes that a ring must hold before it is worth a write; stop: asked
    between two rings, ends the pass (which rest() completes then); move: told
    which ring is read next, by its index; inspect: given what a pass finds in each ring, for as long as it is set. tids: of
    threads that do the work; there are none.
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
    ) -> None:
        self._counters = counters
        self._move = move
        self._output = output
        self._flush = flush
        self._stop = stop
        self.inspect: Callable[[Held], None] | None = None
        self._aux = counters.aux
        rings = counters.rings
        self._forward = [ring for ring in rings if not ring.backward]
        self._backward = [ring for ring in rings if ring.backward]

    def forward(self) -> int:
        """Write what the forward rings hold, if it is worth it. Returns the bytes taken."""
        total = 0
        for index, ring in enumerate(self._forward):
            if self._stop():  # no end of the round: it is one when every ring was read
                return total
            if self._move:
                self._move(index)
            total += self._take(ring, ring.pending(), self._flush)
        if self._aux and (taken := self._aux.take(self._output)):
            self._aux.go_on()
            total += taken
        return self._round(total)

    def rest(self) -> int:
        """Write what the forward rings hold at this moment, however little. Returns the bytes taken."""
        held = [(ring, ring.pending()) for ring in self._forward]
        aux = self._aux.take(self._output) if self._aux else 0
        return self._round(sum(self._take(ring, slices, 1) for ring, slices in held) + aux)

    def backward(self) -> int:
        """Write a snapshot of the backward rings, if there are any: what happened last. Returns the bytes taken."""
        if not self._backward:
            return 0
        self._counters.pause(True)
        try:
            return self._round(sum(self._take(ring, ring.pending(), 1) for ring in self._backward))
        finally:
            self._counters.pause(False)

    def close(self) -> None:
        """Nothing is left to do."""

    def _take(self, ring: Ring, slices: Held, least: int) -> int:
        size = sum(map(len, slices))
        if size < least:
            return 0
        if self.inspect:
            self.inspect(slices)
        self._output.write_ring(slices)
        ring.consume()
        return size

    def _round(self, total: int) -> int:
        if total:
            self._output.end_round()
        return total
