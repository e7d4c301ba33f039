"""Distributions of latencies as text and JSON: percentiles of each group, and a histogram of all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.function_calls import duration_bins, nearest_rank
from perfpy.analysis.kernel_latencies import all_durations
from perfpy.plurals import plural
from perfpy.untrusted.text import visible
from perfpy.views.latency.text import PERCENTILES, duration_text, histogram_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.kernel_latencies import KernelLatencies, LatencyGroup

_GROUPS: Final = 20
_CELL: Final = 11
#: numbers that narrow windows do without, the first one first
_GIVE_WAY: Final = ("min", "p95", "p99.9", "total", "mean", "p90")
#: kind -> what its durations are
TITLES: Final = {
    "runqueue": "delays on the run queue, from readiness to the CPU",
    "syscalls": "system calls",
    "block": "requests of block devices, from issue to completion",
    "locks": "waits for locks of the kernel",
    "softirq": "soft interrupts",
    "irq": "interrupt handlers",
}


def distribution_lines(kind: str, latencies: KernelLatencies, *, all_groups: bool = False, room: int | None = None) -> Iterator[str]:
    """Yield the lines: a table of groups, and a histogram of all durations.

    Args:
        kind: key of TITLES.
        latencies: the durations.
        all_groups: show all groups, with a histogram of each.
        room: columns of the window; some numbers are left out of a wider table. None for no limit.
    """
    durations = all_durations(latencies.groups)
    yield f"{TITLES[kind]}: {len(durations):,}"
    if latencies.open_count:
        yield f"{latencies.open_count:,} did not end while they were recorded"
    if not len(durations):
        return
    yield ""
    groups = latencies.groups if all_groups else latencies.groups[:_GROUPS]
    width = max(len(visible(group.name)) for group in groups)
    headings = _headings(room, width + len(f" {'count':>10}"))
    yield f"{'':<{width}} {'count':>10}" + "".join(f"{heading:>{_CELL}}" for heading in headings)
    for group in groups:
        values = _values(group.durations)
        cells = "".join(f"{duration_text(values[heading]):>{_CELL}}" for heading in headings)
        yield f"{visible(group.name):<{width}} {len(group.durations):>10,}{cells}"
    rest = len(latencies.groups) - len(groups)
    if rest:
        yield f"{rest} more {plural(rest, 'group')} (-v shows all)"
    distributions: list[tuple[str, NDArray[np.int64]]] = [("", durations)]
    if all_groups:
        distributions = [(visible(group.name), group.durations) for group in groups]
    for name, some in distributions:
        yield ""
        if name:
            yield name
        yield from histogram_lines(some)


def _headings(room: int | None, taken: int) -> list[str]:
    """Return the numbers of the table that fit. taken: columns of the first two."""
    headings = ["total", "min", *(name for name, _ in PERCENTILES), "max", "mean"]
    for heading in _GIVE_WAY:
        if room is not None and taken + len(headings) * _CELL > room:
            headings.remove(heading)
    return headings


def distribution_json(kind: str, latencies: KernelLatencies) -> str:
    """Return one JSON object; durations are nanoseconds."""
    groups = [_object(group) for group in latencies.groups]
    return json.dumps({"format": "perfpy-latencies", "version": 1, "of": kind, "open": latencies.open_count, "groups": groups})


def _object(group: LatencyGroup) -> dict[str, Any]:
    bins = [{"from": low, "to": high, "count": count} for low, high, count in duration_bins(group.durations)]
    return {"name": group.name, "count": len(group.durations), **_values(group.durations), "histogram": bins}


def _values(durations: NDArray[np.int64]) -> dict[str, float]:
    """Return the total, the percentiles and the mean."""
    total = int(durations.sum())
    values: dict[str, float] = {"total": total, "min": int(durations.min(initial=0) if not len(durations) else durations.min())}
    values |= {name: nearest_rank(durations, share) for name, share in PERCENTILES}
    return values | {"max": int(durations.max(initial=0)), "mean": total / max(len(durations), 1)}
