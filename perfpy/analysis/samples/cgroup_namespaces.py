"""The cgroup namespace of each thread over time, from NAMESPACES records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.records import Namespaces
from perfpy.symbols.tasks.value_history import DeliveredValues

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.records.side_band import SideRecord

#: the index of the cgroup namespace in a NAMESPACES record
_CGROUP: Final = 6
_UNKNOWN: Final = (0, 0)


class CgroupNamespaces:
    """The history of namespaces.

    Attributes:
        namespaces: (device, inode) by number; number 0 is for unknown threads.
    """

    def __init__(self, side_band: Iterable[SideRecord]) -> None:
        numbers = {_UNKNOWN: 0}
        rows = []
        for side in side_band:
            record = side.record
            if isinstance(record, Namespaces) and len(record.namespaces) > _CGROUP:
                number = numbers.setdefault(record.namespaces[_CGROUP], len(numbers))
                rows.append((record.tid, side.key, number))
        self.namespaces = list(numbers)
        self._history = DeliveredValues(*(zip(*rows, strict=True) if rows else ((),) * 3))

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with a column cgroup_id: the number of each one's namespace."""
        numbers = self._history.find(samples.column("tid"), samples.key, 0)
        return samples.with_columns({**samples.columns, "cgroup_id": numbers})
