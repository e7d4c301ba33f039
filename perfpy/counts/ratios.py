"""The ratios beside counts: CPUs utilized, GHz, insn per cycle, miss rates, events per second.

The pairs of events and the number formats are perf's.
"""

from __future__ import annotations

import math

from perfpy.abi.flags import CacheId, CacheOp, CacheResult, HardwareId, PerfType, SoftwareId

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from perfpy.counts.aggregation import CountedEvent, CountRow


class Ratio:
    """A number beside a count.

    Attributes:
        value: None if one of the two counts is missing or zero
        unit: the ratio's name; None if the event has no ratio
        format: printf format of the number
    """

    __slots__ = ("format", "unit", "value")

    def __init__(self, value: float | None, unit: str | None, format: str = "%8.3f") -> None:
        self.value = value
        self.unit = unit
        self.format = format


NO_RATIO: Final = Ratio(None, None)
_PERCENT: Final = "%7.2f%%"
_PLAIN: Final = "%7.2f "

_HARDWARE: Final = {
    HardwareId.CPU_CYCLES: "cycles",
    HardwareId.INSTRUCTIONS: "instructions",
    HardwareId.STALLED_CYCLES_FRONTEND: "stalled-front",
    HardwareId.STALLED_CYCLES_BACKEND: "stalled-back",
    HardwareId.BRANCH_INSTRUCTIONS: "branches",
    HardwareId.BRANCH_MISSES: "branch-misses",
    HardwareId.CACHE_REFERENCES: "cache-refs",
    HardwareId.CACHE_MISSES: "cache-misses",
}
_CACHES: Final = {
    CacheId.L1D: "L1-dcache",
    CacheId.L1I: "L1-icache",
    CacheId.LL: "LL-cache",
    CacheId.DTLB: "dTLB",
    CacheId.ITLB: "iTLB",
}
#: kind of event -> the kind that it is a percentage of, and the name of the ratio
_SHARES: Final = {
    "stalled-front": ("cycles", "frontend cycles idle"),
    "stalled-back": ("cycles", "backend cycles idle"),
    "branch-misses": ("branches", "of all branches"),
    "cache-misses": ("cache-refs", "of all cache refs"),
    "L1-dcache misses": ("L1-dcache", "of all L1-dcache accesses"),
    "L1-icache misses": ("L1-icache", "of all L1-icache accesses"),
    "LL-cache misses": ("LL-cache", "of all LL-cache accesses"),
    "dTLB misses": ("dTLB", "of all dTLB cache accesses"),
    "iTLB misses": ("iTLB", "of all iTLB cache accesses"),
}
_MISS: Final = CacheOp.READ << 8 | CacheResult.MISS << 16
_NS_PER_S: Final = 1e9
_EXCLUDES: Final = ("exclude_kernel", "exclude_user", "exclude_hv", "exclude_host", "exclude_idle")


def is_clock(event: CountedEvent) -> bool:
    """Whether an event counts nanoseconds of CPU time (cpu-clock, task-clock)."""
    attr = event.attr
    return attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)


def kind(event: CountedEvent) -> str:
    """Return an event's kind for the ratios; "" if it has only a rate."""
    attr = event.attr
    if event.tool:
        return ""
    if attr.type == PerfType.SOFTWARE:
        return "clock" if is_clock(event) else ""
    if attr.type == PerfType.HARDWARE:
        return _HARDWARE.get(attr.config, "")
    if attr.type == PerfType.HW_CACHE:
        cache = _CACHES.get(attr.config & 0xFF, "")
        accesses = attr.config & ~0xFF
        if cache and accesses in (0, _MISS):
            return f"{cache} misses" if accesses else cache
    return ""


class Neighbours:
    """The rows of all events on one CPU, core or task, among which a ratio finds its other half.

    `wall_ns` is the time that "CPUs utilized" is relative to.
    """

    def __init__(self, rows: Sequence[CountRow], wall_ns: float) -> None:
        self.wall_ns = wall_ns
        self._rows = [(kind(row.event), row) for row in rows]

    def count(self, event: object) -> float:
        """Return an event's count for formulas: unscaled, tool events in seconds, NaN if there is none."""
        for _, row in self._rows:
            if row.event is event:
                return (row.value / _NS_PER_S if row.event.tool else float(row.value)) if row.was_counted else math.nan
        return math.nan

    def find(self, event: CountedEvent, kind: str) -> float:
        """Return the amount of the first event of a kind that may be compared with `event`; 0.0 if there is none.

        A group's events are compared only within the group. Modifiers, cgroup and (except for clocks) the PMU must be equal.
        """
        for its_kind, row in self._rows:
            other = row.event
            if its_kind != kind or other is event or other.cgroup != event.cgroup:
                continue
            if event.leader.group_size > 1 and other.leader is not event.leader:
                continue
            if any(getattr(event.attr, bit) != getattr(other.attr, bit) for bit in _EXCLUDES):
                continue
            if kind == "clock":
                return float(row.value)
            if other.pmu == event.pmu:
                return row.amount
        return 0.0


def ratios(row: CountRow, near: Neighbours) -> list[Ratio]:
    """Return the ratios of a row with a count; at least one entry."""
    its_kind = kind(row.event)
    share = _SHARES.get(its_kind)
    if share:
        whole = near.find(row.event, share[0])
        return [Ratio(row.amount / whole * 100.0 if whole and row.amount else None, share[1], _PERCENT)]
    special = _SPECIAL.get(its_kind)
    if special:
        return special(row, near)
    nanoseconds = near.find(row.event, "clock")
    if not nanoseconds:
        return [NO_RATIO]
    rate, prefix = _with_prefix(_NS_PER_S * row.amount / nanoseconds)
    return [Ratio(rate, prefix + "/sec")]


def _clock(row: CountRow, near: Neighbours) -> list[Ratio]:
    wall = near.wall_ns * row.event.scale
    return [Ratio(row.amount / wall if wall else None, "CPUs utilized")]


def _cycles(row: CountRow, near: Neighbours) -> list[Ratio]:
    nanoseconds = near.find(row.event, "clock")
    return [Ratio(row.amount / nanoseconds if nanoseconds and row.amount else None, "GHz")]


def _instructions(row: CountRow, near: Neighbours) -> list[Ratio]:
    cycles = near.find(row.event, "cycles")
    row_ratios = [Ratio(row.amount / cycles if cycles else None, "insn per cycle", _PLAIN)]
    stalled = max(near.find(row.event, "stalled-front"), near.find(row.event, "stalled-back"))
    if stalled and row.amount:
        row_ratios.append(Ratio(stalled / row.amount, "stalled cycles per insn", _PLAIN))
    return row_ratios


_SPECIAL: Final[dict[str, Callable[[CountRow, Neighbours], list[Ratio]]]] = {
    "clock": _clock,
    "cycles": _cycles,
    "instructions": _instructions,
}


def _with_prefix(value: float) -> tuple[float, str]:
    """Return a number below 1000 and its prefix: "", K, M or G."""
    for prefix in ("", "K", "M"):
        if value <= 1000.0:
            return value, prefix
        value /= 1000.0
    return value, "G"
