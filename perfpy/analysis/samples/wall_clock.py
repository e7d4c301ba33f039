"""What time it was, by the clock on the wall, when samples were taken.

What enters: the CLOCK_DATA feature of a recording (record -k), which says what both clocks showed at one moment. What leaves: for
samples a column wall: ns since 1970, rounded down; 0 where the recording does not say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.sample_source import SampleSource

NOT_SAID: Final = "it does not say what time of day it was: record with -k CLOCK_MONOTONIC"
#: of the column, for samples of which it is not known
UNKNOWN: Final = 0
#: between any two zones of time lies a multiple of this, in ns
_BETWEEN_ZONES: Final = 900 * 10**9
_NO_TIME: Final = np.uint64((1 << 64) - 1)  # of events whose samples have none


class WallClock:
    """clocks: the feature, None where there is none; quantum: of times, in ns."""

    def __init__(self, clocks: Any, quantum: int) -> None:
        self._ahead = None if clocks is None else np.uint64((clocks.wall_clock_ns - clocks.clockid_ns) % (1 << 64))
        # hours begin elsewhere in other zones: whoever words them rounds again
        self._grain = np.uint64(_BETWEEN_ZONES if quantum % _BETWEEN_ZONES == 0 else max(quantum, 1))

    @classmethod
    def of(cls, data: SampleSource, quantum: int) -> WallClock:
        """Of a recording; one that does not say what time it was gets a warning."""
        clocks = data.features.get("clock_data")
        if clocks is None and NOT_SAID not in data.warnings:
            data.warnings.append(NOT_SAID)
        return cls(clocks, quantum)

    def add_to(self, samples: SampleView) -> SampleView:
        """The samples with a column wall."""
        wall = np.full(len(samples), UNKNOWN, np.int64)
        if self._ahead is not None:
            time = samples.column("time").astype(np.uint64)
            shown = ((time + self._ahead) // self._grain * self._grain).view(np.int64)
            wall = np.where((time != _NO_TIME) & (shown > 0), shown, wall)
        return samples.with_columns({**samples.columns, "wall": wall})
