"""The number of recorded threads that run at any moment, and each sample's share of the wall clock.

With four threads running, a second of CPU time is a
quarter of a second of elapsed time. The definition is that of perfpy.scheduling.running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import MISC_SWITCH_OUT, RecordType
from perfpy.abi.records import Switch, SwitchCpuWide
from perfpy.errors import PerfError
from perfpy.perfdata.container.features import Feature, key_of
from perfpy.scheduling.running import count_running
from perfpy.scheduling.transitions import END, IN, OUT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.records.side_band import SideRecord
    from perfpy.perfdata.sample_source import SampleSource

#: multiplies a period before its division, to limit rounding errors
LATENCY_SCALE: Final = 1000


class Parallelism:
    """The number of running threads over time; records: SWITCH and EXIT; cpus: the number of CPUs."""

    def __init__(self, records: Iterable[SideRecord], cpus: int) -> None:
        keys, kinds = [], []
        for side in records:
            keys.append(side.key)
            kinds.append(_kind(side.record))
        self._keys = np.array(keys, np.uint64)
        self._running = count_running(kinds, cpus)

    @classmethod
    def of(cls, data: SampleSource) -> Parallelism:
        """Return the parallelism of a recording. Raises PerfError if it has no context switches of its threads."""
        records = list(data.side_band([RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.EXIT]))
        kinds = {type(side.record) for side in records}
        if Switch not in kinds or SwitchCpuWide in kinds:
            reason = "latency and parallelism need context switches of processes; record with --latency, without -a"
            raise PerfError(f"{data.path}: {reason}")
        cpus = data.features.get(key_of(Feature.NRCPUS))
        return cls(records, cpus.available if cpus is not None else len(records) + 1)

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with columns parallelism, and latency: their share of the wall clock."""
        running = self._running[np.searchsorted(self._keys, samples.key, side="right")]
        latency = samples.period() * np.uint64(LATENCY_SCALE) // running.astype(np.uint64)
        return samples.with_columns({**samples.columns, "parallelism": running, "latency": latency})


def _kind(record: object) -> int:
    """Return the kind of transition of a SWITCH or EXIT record."""
    if isinstance(record, Switch):
        return OUT if record.misc & MISC_SWITCH_OUT else IN
    return END
