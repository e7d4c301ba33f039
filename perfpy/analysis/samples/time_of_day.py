"""The time of day of samples, from the CLOCK_DATA feature (record -k): both clocks read at one moment.

The column `wall` is ns since 1970, rounded down; 0 if unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.sample_source import SampleSource

NOT_SAID: Final = "the recording has no time of day; record with -k CLOCK_MONOTONIC"
#: the column's value for unknown times
UNKNOWN: Final = 0
#: the differences between time zones are multiples of this, in ns
_BETWEEN_ZONES: Final = 900 * 10**9
_NO_TIME: Final = np.uint64((1 << 64) - 1)  # of events without sample times


class TimeOfDay:
    """The offset of the wall clock; clocks: the feature, or None; quantum: of times, in ns."""

    def __init__(self, clocks: Any, quantum: int) -> None:
        self._ahead = None if clocks is None else np.uint64((clocks.wall_clock_ns - clocks.clockid_ns) % (1 << 64))
        # hours begin at other times in other zones: the texts are rounded again
        self._grain = np.uint64(_BETWEEN_ZONES if quantum % _BETWEEN_ZONES == 0 else max(quantum, 1))

    @classmethod
    def of(cls, data: SampleSource, quantum: int) -> TimeOfDay:
        """Return the clock of a recording; warn if that has no wall clock time."""
        clocks = data.features.get("clock_data")
        if clocks is None and NOT_SAID not in data.warnings:
            data.warnings.append(NOT_SAID)
        return cls(clocks, quantum)

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with a column wall."""
        wall = np.full(len(samples), UNKNOWN, np.int64)
        if self._ahead is not None:
            time = samples.column("time").astype(np.uint64)
            tick = ((time + self._ahead) // self._grain * self._grain).view(np.int64)
            wall = np.where((time != _NO_TIME) & (tick > 0), tick, wall)
        return samples.with_columns({**samples.columns, "wall": wall})
