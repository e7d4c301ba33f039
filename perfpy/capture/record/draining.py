"""The rings -> the output: what has been written since the last time, as slices, without a look inside.

What enters: rings and an Output. What leaves: the bytes in the file, a
FINISHED_ROUND behind each pass that found some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfpy.capture.record.output import Output
    from perfpy.capture.record.sample_counters import SampleCounters
    from perfpy.kernel.ring import Ring


class Drain:
    """Empties the rings of some counters. flush: bytes that a ring must hold before it is worth a write."""

    def __init__(self, counters: SampleCounters, output: Output, flush: int = 1) -> None:
        self._counters = counters
        self._output = output
        self._flush = flush
        rings = counters.rings
        self._forward = [ring for ring in rings if not ring.backward]
        self._backward = [ring for ring in rings if ring.backward]

    def forward(self, *, everything: bool = False) -> int:
        """Write what the forward rings hold; everything: however little. Returns the bytes taken."""
        return self._take(self._forward, 1 if everything else self._flush)

    def backward(self) -> int:
        """Write a snapshot of the backward rings: what happened last. Returns the bytes taken."""
        self._counters.pause(True)
        try:
            return self._take(self._backward, 1)
        finally:
            self._counters.pause(False)

    def _take(self, rings: list[Ring], least: int) -> int:
        total = 0
        for ring in rings:
            slices = ring.pending()
            size = sum(map(len, slices))
            if size >= least:
                self._output.write_ring(slices)
                ring.consume()
                total += size
        if total:
            self._output.end_round()
        return total
