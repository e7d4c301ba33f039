"""In which cgroup namespace each thread was, over time.

What enters: NAMESPACES records in order of delivery. What leaves: for samples,
the number of the namespace that their thread was in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.records import Namespaces

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.records.side_band import SideRecord

#: the place of the cgroup namespace in a NAMESPACES record
_CGROUP: Final = 6
_UNKNOWN: Final = (0, 0)
_WIDTH: Final = np.uint64(32)


class CgroupNamespaces:
    """namespaces: (device, inode) by number; number 0 is that of threads of which nothing is known."""

    def __init__(self, side_band: Iterable[SideRecord]) -> None:
        numbers = {_UNKNOWN: 0}
        rows: list[tuple[int, int, int]] = []
        for side in side_band:
            record = side.record
            if isinstance(record, Namespaces) and len(record.namespaces) > _CGROUP:
                number = numbers.setdefault(record.namespaces[_CGROUP], len(numbers))
                rows.append((record.tid & 0xFFFFFFFF, side.key, number))
        self.namespaces = list(numbers)
        tid, key, number_of = (np.array(values, np.uint64) for values in (zip(*rows, strict=True) if rows else ((),) * 3))
        self._keys = distinct(key)
        moment = self._moments(tid, key)
        order = np.argsort(moment, kind="stable")
        self._moment, self._number = moment[order], number_of[order].astype(np.int32)

    def _moments(self, tid: NDArray[Any], key: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Numbers that ascend by thread, and within a thread by time."""
        thread = tid.astype(np.uint32).astype(np.uint64)
        return thread << _WIDTH | np.searchsorted(self._keys, key, side="right").astype(np.uint64)

    def add_to(self, samples: SampleView) -> SampleView:
        """The samples with a column cgroup_id: the number of each one's namespace."""
        moment = self._moments(samples.column("tid"), samples.key)
        found = np.zeros(len(samples), np.int32)
        if len(self._moment):
            at = np.searchsorted(self._moment, moment, side="right") - 1
            known = (at >= 0) & (self._moment[at] >> _WIDTH == moment >> _WIDTH)
            found = np.where(known, self._number[at], found)
        return samples.with_columns({**samples.columns, "cgroup_id": found})
