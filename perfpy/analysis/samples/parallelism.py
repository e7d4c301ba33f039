"""How many of the recorded threads ran at any moment.

What enters: SWITCH and EXIT records in order of delivery. What leaves: for samples, the
number of threads that were running then, and by it the share of the wall clock
that a sample stands for: with four threads running, a second of CPU time is a
quarter of a second that anybody waited for.

The definition is that of perf since 6.15: one thread runs at first, whose
switch to the CPU was before the recording; each switch adds or takes one, and
so does an exit, after which no switch is recorded; at least one runs, and no
more than there are CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import MISC_SWITCH_OUT, RecordType
from perfpy.abi.records import Switch, SwitchCpuWide
from perfpy.errors import PerfError
from perfpy.perfdata.container.features import Feature, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.side_band import SideRecord

#: what a period is multiplied by before it is parted, so that little is lost to rounding
LATENCY_SCALE: Final = 1000


class Parallelism:
    """records: SWITCH and EXIT; cpus: how many CPUs there were."""

    def __init__(self, records: Iterable[SideRecord], cpus: int) -> None:
        keys, changes = [], [1]
        for side in records:
            keys.append(side.key)
            changes.append(1 if isinstance(side.record, Switch) and not side.record.misc & MISC_SWITCH_OUT else -1)
        self._keys = np.array(keys, np.uint64)
        self._running = np.clip(np.cumsum(changes), 1, cpus).astype(np.int32)

    @classmethod
    def of(cls, data: PerfData) -> Parallelism:
        """Of a recording. Raises PerfError for one that does not follow the switches of its threads."""
        records = list(data.side_band([RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.EXIT]))
        kinds = {type(side.record) for side in records}
        if Switch not in kinds or SwitchCpuWide in kinds:
            reason = "latency and parallelism need the context switches of processes: record --latency, without -a"
            raise PerfError(f"{data.path}: {reason}")
        cpus = data.features.get(key_of(Feature.NRCPUS))
        return cls(records, cpus.available if cpus is not None else len(records) + 1)

    def add_to(self, samples: SampleView) -> SampleView:
        """The samples with columns parallelism, and latency: their share of the wall clock."""
        running = self._running[np.searchsorted(self._keys, samples.key, side="right")]
        latency = samples.period() * np.uint64(LATENCY_SCALE) // running.astype(np.uint64)
        return samples.with_columns({**samples.columns, "parallelism": running, "latency": latency})
