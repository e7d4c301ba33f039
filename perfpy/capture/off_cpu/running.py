"""How long each thread was on a CPU, by the same marks that its waits are made of.

What enters: Marks, in order of thread and time, all up to some moment. What leaves: at the end a READ record a thread, of the
event `offcpu-time`: its value is the time on the CPU in ns. Whatever event was sampled beside, a report can tell by it how much
time its samples stand for. perf reads such records with `report -T`.

Layout: { header; u32 pid, tid; u64 value, id, lost; } and the trailer { u32 pid, tid; u64 time; u32 cpu, res; u64 identifier; }.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.capture.off_cpu.marks import END, IN, OUT

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORDS: Final = 9
_MOST_THREADS: Final = 1 << 20


class RunningTime:
    """Of the threads of one recording. first: when it began (0: not known yet)."""

    def __init__(self) -> None:
        self.first = 0
        self._since: dict[int, int] = {}  # tid -> when it came to a CPU where it still is
        self._total: dict[int, tuple[int, int]] = {}  # tid -> pid, ns

    def see(self, rows: NDArray[np.void]) -> None:
        """More marks of MARK, in order of thread and time."""
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

    def records(self, newest: int, ident: int) -> bytes:
        """What is known when no more marks come. newest: when the last of all records was written."""
        for tid, since in self._since.items():
            if tid in self._total:
                pid, total = self._total[tid]
                self._total[tid] = pid, total + max(newest - since, 0)
        self._since.clear()
        words = np.zeros((len(self._total), _WORDS), np.uint64)
        tids = np.fromiter(self._total, np.uint64, len(self._total))
        pids, totals = np.array([*self._total.values()], np.uint64).reshape(-1, 2).T
        task = pids & np.uint64(0xFFFFFFFF) | tids << np.uint64(32)
        header = RecordType.READ | (8 * _WORDS) << 48
        columns: tuple[int | NDArray[np.uint64], ...] = (header, task, totals, ident, 0, task, newest, 0, ident)
        for number, column in enumerate(columns):
            words[:, number] = column
        return words.tobytes()
