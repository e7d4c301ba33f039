"""The time that each thread was on a CPU, and the number of running threads at any time, from transitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.scheduling.transitions import END, IN, OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MOST_THREADS: Final = 1 << 20


def count_running(kinds: Sequence[int], cpus: int) -> NDArray[np.int32]:
    """Return how many threads ran before the first transition and after each one: int32[n + 1].

    The definition is that of perf since 6.15: one thread runs at first, whose switch to the CPU was before the recording; each
    switch adds or takes one, and so does an exit, after which no switch is recorded. At least one runs, at most one on each CPU.

    Args:
        kinds: IN, OUT or END of each transition, sorted by time.
        cpus: the number of CPUs.
    """
    changes = np.where(np.array([IN, *kinds]) == IN, 1, -1)
    running: NDArray[np.int32] = np.clip(np.cumsum(changes), 1, cpus).astype(np.int32)
    return running


class RunningTime:
    """The time that each thread of one recording was on a CPU."""

    def __init__(self) -> None:
        self.first = 0  #: when the recording began; 0: not known yet
        self._since: dict[int, int] = {}  # tid -> when it came to the CPU where it still is
        self._total: dict[int, tuple[int, int]] = {}  # tid -> pid, ns

    def add(self, rows: NDArray[np.void]) -> None:
        """Add transitions (TRANSITION[n]), sorted by thread and time."""
        rows = rows[np.isin(rows["kind"], (OUT, IN, END)) & (rows["tid"] > 0)]
        if not len(rows):
            return
        tid, time, is_out = rows["tid"], rows["time"].astype(np.int64), rows["kind"] != IN
        begins = np.append(True, tid[1:] != tid[:-1])
        ran = np.zeros(len(rows), np.int64)
        ran[1:] = np.where(is_out[1:] & ~is_out[:-1] & ~begins[1:], time[1:] - time[:-1], 0)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(rows)) - 1
        totals = np.add.reduceat(ran, first)
        for index, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            number = int(tid[begin])
            since = self._since.pop(number, None if number in self._total else self.first)
            more = int(time[begin]) - since if is_out[begin] and since is not None else 0
            if not is_out[end]:
                self._since[number] = int(time[end])
            if number in self._total or len(self._total) < _MOST_THREADS:
                pid, total = self._total.get(number, (0, 0))
                self._total[number] = max(pid, int(rows["pid"][begin : end + 1].max())), total + int(totals[index]) + max(more, 0)

    def totals(self, newest: int) -> dict[int, tuple[int, int]]:
        """Return the process and the nanoseconds of each thread. No more transitions may follow.

        Args:
            newest: the end of the recording.
        """
        for tid, since in self._since.items():
            if tid in self._total:
                pid, total = self._total[tid]
                self._total[tid] = pid, total + max(newest - since, 0)
        self._since.clear()
        return self._total
