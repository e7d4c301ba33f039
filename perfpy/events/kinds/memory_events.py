"""Events that sample memory accesses with address, latency and source, as the PMUs of this machine have them.

Intel: mem-loads and mem-stores of the core PMUs; AMD: ibs_op; Arm: the statistical profiling extension (arm_spe_0);
POWER: mem-loads and mem-stores. Which PMU has which: the kernel's drivers, and perf-mem(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.kernel.sysfs import Pmu, Sysfs

LOADS: Final = "load"
STORES: Final = "store"
LATENCY: Final = 30  # cycles; shorter loads are no samples
_ARM_TRACER: Final = "arm_spe_"
_AMD_SAMPLER: Final = "ibs_op"


class MemoryEvent:
    """An event that samples memory accesses.

    Attributes:
        tag: its name for `-e`, as perf's.
        text: in the event language.
        kinds: the accesses that it samples: LOADS, STORES.
    """

    __slots__ = ("kinds", "tag", "text")

    def __init__(self, tag: str, text: str, *kinds: str) -> None:
        self.tag = tag
        self.text = text
        self.kinds = kinds


def memory_events(sysfs: Sysfs, latency: int = LATENCY) -> list[MemoryEvent]:
    """Return the events of this machine's PMUs. latency: sample only loads that take as many cycles, where the PMU can select them."""
    return [event for pmu in sysfs.pmus for event in _events_of(pmu, latency)]


def _events_of(pmu: Pmu, latency: int) -> Iterator[MemoryEvent]:
    name = pmu.name
    if pmu.is_core:
        yield from _core_events(pmu, latency)
    elif name == _AMD_SAMPLER:
        terms = f"ldlat={latency}" if "ldlat" in pmu.formats else ""
        yield MemoryEvent("mem-ldst", f"{name}/{terms}/", LOADS, STORES)
    elif name.startswith(_ARM_TRACER):
        common, longer = "ts_enable=1,pa_enable=1", f"min_latency={latency}"
        yield MemoryEvent("spe-load", f"{name}/{common},load_filter=1,store_filter=0,{longer}/", LOADS)
        yield MemoryEvent("spe-store", f"{name}/{common},load_filter=0,store_filter=1/", STORES)
        yield MemoryEvent("spe-ldst", f"{name}/{common},load_filter=1,store_filter=1,{longer}/", LOADS, STORES)


def _core_events(pmu: Pmu, latency: int) -> Iterator[MemoryEvent]:
    name, has_latency = pmu.name, "ldlat" in pmu.formats
    prefix, modifier = ("ldlat-", "P") if has_latency else ("", "")
    if "mem-loads" in pmu.alias_names:
        loads = f"{name}/mem-loads,ldlat={latency}/{modifier}" if has_latency else f"{name}/mem-loads/"
        if "mem-loads-aux" in pmu.alias_names:
            loads = f"{{{name}/mem-loads-aux/,{name}/mem-loads,ldlat={latency}/}}:{modifier}"
        yield MemoryEvent(f"{prefix}loads", loads, LOADS)
    if "mem-stores" in pmu.alias_names:
        yield MemoryEvent(f"{prefix}stores", f"{name}/mem-stores/{modifier}", STORES)


def choose_memory_events(events: Sequence[MemoryEvent], names: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Return the texts of the events to record: those named, else the fewest that sample the accesses of these kinds.

    Raises PerfError if the machine has none, UsageError for an unknown name.
    """
    if not events:
        raise PerfError(
            "no PMU of this machine samples memory accesses; it needs Intel's mem-loads, AMD's ibs_op or Arm's arm_spe_0, which virtual"
            " machines seldom have (perfpy list pmu shows this machine's); perfpy record -d -e page-faults samples addresses without"
        )
    if names:
        text_of = {event.tag: event.text for event in events}
        for name in names:
            if name not in text_of:
                raise UsageError(f"-e {name}: unknown memory event; expected {', '.join(text_of)}")
        return [text_of[name] for name in names]
    kinds_needed = set(kinds)
    both = [event for event in events if kinds_needed <= set(event.kinds)]
    if both:
        exact = [event for event in both if set(event.kinds) == kinds_needed] or both
        return [event.text for event in exact]
    return [event.text for event in events if kinds_needed & set(event.kinds)]
