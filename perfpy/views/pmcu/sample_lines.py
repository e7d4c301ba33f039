"""`script` of a PMCU's counts: a line for each sample and CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perfpy.auxtrace.recorded_pmcu import PmcuTrace


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
