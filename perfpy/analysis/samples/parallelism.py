"""How many of the recorded threads ran at any moment.

What enters: SWITCH and EXIT records in order of delivery. What leaves: for samples, the
number of threads that were running then, and by it the share of the wall clock
that a sample stands for: with four threads running, a second of CPU time is a
quarter of a second that anybody waited for. The definition is that of perfpy.scheduling.running.
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

#: what a period is multiplied by before it is parted, so that little is lost to rounding
LATENCY_SCALE: Final = 1000


class Parallelism:
    """records: SWITCH and EXIT; cpus: how many CPUs there were."""

    def __init__(self, records: Iterable[SideRecord], cpus: int) -> None:
        keys, kinds = [], []
        for side in records:
            keys.append(side.key)
            kinds.append(_kind(side.record))
        self._keys = np.array(keys, np.uint64)
        self._running = count_running(kinds, cpus)

    @classmethod
    def of(cls, data: SampleSource) -> Parallelism:
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


def _kind(record: object) -> int:
    """Return the kind of transition that a SWITCH or EXIT record is."""
    if isinstance(record, Switch):
        return OUT if record.misc & MISC_SWITCH_OUT else IN
    return END
