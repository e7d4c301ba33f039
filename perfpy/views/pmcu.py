"""`report` and `script` of a PMCU's counts: totals of each CPU and event with counts per cycle, and a line for each sample and CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perfpy.auxtrace.pmcu import PmcuTrace


_HEAD: Final = "#   CPU   Event                 Count                Cycles  per cycle"
_ALL: Final = "all"


class PmcuTotal(NamedTuple):
    """One event of one CPU (-1: of all CPUs), over all samples; cycles: while it was counted."""

    cpu: int
    event: int
    counted: int
    cycles: int

    @property
    def per_cycle(self) -> float | None:
        """Events per cycle; None if cycles were not counted."""
        return self.counted / self.cycles if self.cycles else None


def totals(trace: PmcuTrace) -> list[PmcuTotal]:
    """Return the totals by CPU and event, in recorded order; those of all CPUs come last."""
    counts: dict[tuple[int, int], list[int]] = {}
    header = trace.header
    events = list(dict.fromkeys(header.events)) if header else []
    for part in trace.batches():
        key = part["cpu"].astype(np.int64) << 32 | part["event"]
        keys, index = np.unique(key, return_inverse=True)
        for number, one in enumerate(keys.tolist()):
            rows = index == number
            total = counts.setdefault((one >> 32, one & 0xFFFFFFFF), [0, 0])
            total[0] += _sum(part["count"][rows])
            total[1] += _sum(part["cycles"][rows])
    each = [PmcuTotal(cpu, event, *counts[cpu, event]) for cpu, event in sorted(counts, key=lambda key: (key[0], events.index(key[1])))]
    return each + [_over_cpus(each, event) for event in events if any(one.event == event for one in each)]


def _sum(values: np.ndarray) -> int:
    """Sum u64 values as a Python int, without overflow."""
    return (int((values >> np.uint64(32)).sum()) << 32) + int((values & np.uint64(0xFFFFFFFF)).sum())


def _over_cpus(each: list[PmcuTotal], event: int) -> PmcuTotal:
    of_event = [one for one in each if one.event == event]
    return PmcuTotal(-1, event, sum(one.counted for one in of_event), sum(one.cycles for one in of_event))


def report_lines(trace: PmcuTrace) -> Iterator[str]:
    """Yield the table, and its description."""
    header = trace.header
    yield "#"
    if header is None:
        yield f"# {one_line(trace.name)}: no AUX data"
        yield "#"
        return
    yield f"# {one_line(trace.name)}: {len(trace)} samples, one each {trace.period_ms} ms, of {header.cpus} CPUs"
    yield "#"
    yield _HEAD
    before = None
    for one in totals(trace):
        if before is not None and one.cpu != before:
            yield ""
        before = one.cpu
        cycles, ratio = ("-", "-") if one.per_cycle is None else (str(one.cycles), f"{one.per_cycle:.3f}")
        cpu = _ALL if one.cpu < 0 else str(one.cpu)
        yield f"{cpu:>7}  {one.event:#06x}  {one.counted:>20}  {cycles:>20}  {ratio:>9}".rstrip()
    yield ""


def script_lines(trace: PmcuTrace, cpus: Collection[int] | None = None) -> Iterator[str]:
    """Yield the lines: sample, seconds since the first, CPU, task, then each event's count and its cycles. cpus: only these."""
    for part in trace.batches():
        rows = zip(*(part[name].tolist() for name in ("sample", "time", "cpu", "pid", "event", "count", "cycles")), strict=True)
        lines: dict[tuple[int, int], list[str]] = {}
        for sample, time, cpu, pid, event, count, cycles in rows:
            if cpus is not None and cpu not in cpus:
                continue
            line = lines.setdefault((sample, cpu), [f"{sample:>6} {time:>12.3f}: [{cpu:03d}] {pid:>7}"])
            line.append(f"{event:#06x}={count}" + (f"/{cycles}" if cycles else ""))
        yield from (" ".join(line) for line in lines.values())
