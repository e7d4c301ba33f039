"""Sentences about the counts of one program: its share of a CPU, the kinds of cores that it ran on, and what its cycles were spent on.

A rule whose counts are missing, contradict each other or are close to usual values says nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfpy.counts.aggregation import Aggregation, kind, shares_of_cores
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import Sentence, join_names, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.counts.aggregation import CountRow
    from perfpy.counts.tally import RunTimes, Tally

_NS: Final = 1e9
_LEAST_CPU_TIME: Final = 0.02  # seconds; the start of a program is most of what is below
_LEAST_ELAPSED: Final = 0.2  # seconds
_IDLE: Final = 0.5  # of a CPU
_SEVERAL: Final = 1.5  # CPUs
_IN_KERNEL: Final = 0.4  # of the CPU time
_TRUSTED_SHARE: Final = 0.5  # of the time that a counter was on the PMU
_WHOLE: Final = (95.0, 105.0)  # percent, of the four shares of slots together
_LEAST_PART: Final = 5.0  # percent of the slots: smaller parts of a loss are not named
_FEW_INSTRUCTIONS: Final = 0.7  # per cycle
_MANY_INSTRUCTIONS: Final = 2.5
_CYCLES_OF_MISS: Final = 15  # of a mispredicted branch: 13 to 20 on the x86 and Arm cores of the last ten years
_CYCLES_OF_MEMORY: Final = 200  # of a load from memory: 60 to 100 ns at 2 to 4 GHz
_LEAST_LOSS: Final = 0.1  # of the cycles
_LEAST_STALLS: Final = 0.3  # of the cycles
_STALLS: Final = {"stalled-back": "data or execution units (back end)", "stalled-front": "instructions (front end)"}
_LEAST_KIND: Final = 0.01  # of the time on any kind of core
_LARGE_KIND: Final = 0.2  # of the time: such a kind of core has sentences of its own

#: top-down share of the slots -> its name, what it means, and the metrics of level 2 that it consists of
_LOSSES: Final = {
    "backend_bound": (
        "back-end bound",
        "waiting for data or execution units",
        {
            "memory_bound": "memory",
            "core_bound": "execution units",
            "backend_bound_memory": "memory",
            "backend_bound_cpu": "execution units",
        },
    ),
    "frontend_bound": (
        "front-end bound",
        "waiting for instructions",
        {
            "fetch_latency": "latency",
            "fetch_bandwidth": "bandwidth",
            "frontend_bound_latency": "latency",
            "frontend_bound_bandwidth": "bandwidth",
        },
    ),
    "bad_speculation": (
        "bad speculation",
        "work that was thrown away",
        {
            "branch_mispredicts": "mispredicted branches",
            "machine_clears": "machine clears",
            "bad_speculation_mispredicts": "mispredicted branches",
            "bad_speculation_pipeline_restarts": "pipeline restarts",
        },
    ),
}
_WORK: Final = "retiring"
#: slots that AMD counts beside the four shares
_OTHER_THREAD: Final = "smt_contention"


def counts_verdict(tally: Tally) -> list[Sentence]:
    """Return the sentences about one program's counts; none for systems, parts of machines, intervals and cgroups."""
    if not tally.counts_tasks or tally.mode is not Aggregation.GLOBAL or tally.timestamp is not None or tally.has_cgroups:
        return []
    rows = [tally.rows[event][0] for event in tally.events]
    clock = next((row.value / _NS for row in rows if kind(row.event) == "clock" and row.was_counted), _cpu_time_of(tally.times))
    if not clock >= _LEAST_CPU_TIME:
        return []
    counted = [row for row in rows if row.was_counted and not row.event.tool]
    shares = shares_of_cores(counted)
    sentences = [*_time(tally, clock), *_kinds_of_cores(shares)]
    about: list[Sentence] = []
    for pmu in sorted(shares, key=lambda pmu: -shares[pmu]) or [""]:
        if about and shares[pmu] < _LARGE_KIND:
            break
        of_kind = [row for row in counted if pmu in ("", row.event.pmu)]
        about += [*_slots(tally, pmu, shares.get(pmu, 1.0))] or [*_cycles(of_kind, pmu, shares.get(pmu, 1.0))]
    return [*sentences, *about]


def _cpu_time_of(times: RunTimes | None) -> float:
    if times is None or times.user is None or times.system is None:
        return math.nan
    return times.user + times.system


def _time(tally: Tally, clock: float) -> Iterator[Sentence]:
    """Yield what part of a CPU the command used, and how much of that was in the kernel."""
    times = tally.times
    if times is None or times.user is None or times.system is None or tally.runs > 1:
        return
    elapsed = times.elapsed[0] / _NS
    used = clock / elapsed
    numbers = {"CPU seconds": clock, "elapsed": elapsed}
    if elapsed >= _LEAST_ELAPSED and used < _IDLE:
        text = f"The program was on a CPU for {percent(used)} of {seconds(elapsed)}; perfpy -- COMMAND shows what it waited for."
        yield Sentence("mostly waiting", text, numbers)
    elif used > _SEVERAL and elapsed >= _LEAST_ELAPSED:
        yield Sentence("several CPUs", f"The program used {used:.1f} CPUs on average.", numbers)
    in_kernel = times.system / (times.user + times.system or 1.0)
    if in_kernel > _IN_KERNEL and times.user + times.system >= _LEAST_CPU_TIME:
        text = f"{percent(in_kernel)} of its CPU time was in the kernel; perfpy trace -s -- COMMAND shows its system calls."
        yield Sentence("kernel time", text, {"in kernel": in_kernel})


def _kinds_of_cores(shares: Mapping[str, float]) -> Iterator[Sentence]:
    """Yield the kinds of cores that the program ran on, if the machine has several."""
    parts = [
        f"on {_core_name(pmu)} for {percent(share)}"
        for pmu, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= _LEAST_KIND
    ]
    if parts:
        yield Sentence("kinds of cores", f"The program ran {join_names(parts)} of its time.", shares)


def _core_name(pmu: str) -> str:
    kinds = {"cpu_core": "performance cores (cpu_core)", "cpu_atom": "efficiency cores (cpu_atom)"}
    return kinds.get(pmu, f"cores of {visible(pmu)}")


def _slots(tally: Tally, pmu: str, on_kind: float) -> Iterator[Sentence]:
    """Yield what the pipeline slots were used for, the largest loss first.

    Args:
        pmu: the PMU of a kind of core; "" if the machine has one kind
        on_kind: share of the time on that kind of core
    """
    near = tally.near(0)
    values: dict[str, float] = {}
    counted = 1.0
    for event, metrics in tally.metrics.items():
        if pmu in ("", event.pmu):
            for metric in metrics:
                if (value := metric.ratio(near).value) is not None and not math.isnan(value):
                    values.setdefault(metric.plain_name.removeprefix("tma_"), value)
                    row = tally.rows[event][0]
                    counted = min(counted, row.running / row.enabled if row.enabled else 0.0)
    shares = [values.get(name, math.nan) for name in (*_LOSSES, _WORK)]
    other_thread = values.get(_OTHER_THREAD, 0.0)
    if not _WHOLE[0] <= sum(shares) + other_thread <= _WHOLE[1] or min(*shares, other_thread) < 0:
        return
    texts = []
    for name in sorted(_LOSSES, key=lambda name: -values[name]):
        term, meaning, parts = _LOSSES[name]
        named = [f"{word} {values[part]:.0f} %" for part, word in parts.items() if values.get(part, 0.0) >= _LEAST_PART]
        texts.append(f"{values[name]:.0f} % {term} ({', '.join(named) or meaning})")
    if other_thread >= _LEAST_PART:
        texts.append(f"{other_thread:.0f} % went to the other thread of the core")
    of_core = f" on {_core_name(pmu)}" if pmu else ""
    text = f"Pipeline slots{of_core}: {values[_WORK]:.0f} % did work (retiring), {', '.join(texts[:-1])} and {texts[-1]}"
    yield Sentence("slots", f"{text}{_doubt(counted / on_kind)}.", values)


def _doubt(counted: float) -> str:
    return "" if counted >= _TRUSTED_SHARE else f"; an estimate, counted for {percent(counted)} of the time"


def _cycles(rows: list[CountRow], pmu: str, on_kind: float) -> Iterator[Sentence]:
    """Yield what instructions, branches and stalled cycles say, where no slots are counted. The arguments are those of `_slots`."""
    amounts: dict[str, float] = {}
    counted = 1.0
    for row in rows:
        if its_kind := kind(row.event):
            amounts.setdefault(its_kind, row.amount)
            counted = min(counted, row.running / row.enabled / on_kind) if its_kind != "clock" else counted
    cycles = amounts.get("cycles", 0.0)
    if not cycles:
        return
    where = f" on {_core_name(pmu)}" if pmu else ""
    stalls = {name: amounts.get(name, 0.0) / cycles for name in _STALLS}
    named = [f"{percent(share)} of the cycles for {_STALLS[name]}" for name, share in stalls.items() if _LEAST_STALLS <= share <= 1]
    rate = amounts.get("instructions", math.nan) / cycles
    numbers = {"instructions per cycle": rate, **stalls}
    if rate < _FEW_INSTRUCTIONS:
        waited = f"waited in {join_names(named)}" if named else "mostly waited"
        text = f"{rate:.2g} instructions per cycle{where} are few: the CPU {waited}"
        yield Sentence("few instructions per cycle", f"{text}{_doubt(counted)}.", numbers)
    elif rate > _MANY_INSTRUCTIONS:
        text = f"{rate:.2g} instructions per cycle{where} are many: the CPU hardly waited; only fewer instructions make the program faster"
        yield Sentence("many instructions per cycle", f"{text}{_doubt(counted)}.", numbers)
    elif named:
        yield Sentence("stalls", f"The CPU waited in {join_names(named)}{where}{_doubt(counted)}.", numbers)
    misses, branches = amounts.get("branch-misses", 0.0), amounts.get("branches", 0.0)
    loss = misses * _CYCLES_OF_MISS / cycles
    if misses <= branches and _LEAST_LOSS <= loss <= 1:
        text = f"{percent(misses / branches)} of the branches{where} were mispredicted: about {percent(loss)} of the cycles"
        yield Sentence("mispredicted branches", f"{text}, at {_CYCLES_OF_MISS} for each{_doubt(counted)}.", {"loss": loss})
    far, instructions = amounts.get("LL-cache misses", 0.0), amounts.get("instructions", 0.0)
    waits = far * _CYCLES_OF_MEMORY / cycles
    if waits >= _LEAST_LOSS and far <= min(amounts.get("LL-cache", math.inf), instructions):
        text = f"{percent(far / instructions)} of the instructions{where} missed the last-level cache"
        text += f": up to {percent(min(waits, 1.0))} of the cycles, at {_CYCLES_OF_MEMORY} for each if none overlap"
        yield Sentence("memory", f"{text}{_doubt(counted)}.", {"waits": waits})
