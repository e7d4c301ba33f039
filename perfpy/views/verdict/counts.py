"""Sentences about the counts of one program: its share of a CPU, the kinds of cores that it ran on, and what its cycles were spent on.

A rule whose counts are missing, contradict each other or are close to usual values says nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfpy.counts.aggregation import Aggregation, kind
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import Sentence, join_names, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.counts.aggregation import CountRow
    from perfpy.counts.tally import Tally

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
_LEAST_LOSS: Final = 0.1  # of the cycles
_LEAST_STALLS: Final = 0.3  # of the cycles
_LEAST_KIND: Final = 0.01  # of the time on any kind of core

#: top-down share of the slots -> its name, what it means, and the metrics of level 2 that it consists of
_LOSSES: Final = {
    "backend_bound": ("back-end bound", "waiting for data or execution units", {"memory_bound": "memory", "core_bound": "execution units"}),
    "frontend_bound": ("front-end bound", "waiting for instructions", {"fetch_latency": "latency", "fetch_bandwidth": "bandwidth"}),
    "bad_speculation": (
        "bad speculation",
        "work that was thrown away",
        {"branch_mispredicts": "mispredicted branches", "machine_clears": "machine clears"},
    ),
}
_WORK: Final = "retiring"


def counts_verdict(tally: Tally) -> list[Sentence]:
    """Return the sentences about one program's counts; none for systems, parts of machines, intervals and cgroups."""
    if tally.mode is not Aggregation.GLOBAL or tally.timestamp is not None or tally.has_cgroups:
        return []
    rows = [tally.rows[event][0] for event in tally.events]
    clock = next((row.value / _NS for row in rows if kind(row.event) == "clock" and row.was_counted), math.nan)
    if not clock >= _LEAST_CPU_TIME:
        return []
    by_pmu: dict[str, list[CountRow]] = {}
    for row in rows:
        if row.was_counted and not row.event.tool:
            by_pmu.setdefault(row.event.pmu, []).append(row)
    sentences = [*_time(tally, clock), *_kinds_of_cores(by_pmu)]
    cores = sorted(filter(lambda pmu: _share_on_pmu(by_pmu[pmu]), by_pmu), key=lambda pmu: -_share_on_pmu(by_pmu[pmu]))
    if len(cores) < 2:
        return [*sentences, *([*_slots(tally)] or [*_cycles([row for rows in by_pmu.values() for row in rows])])]
    of_cores = ([*_slots(tally, pmu)] or [*_cycles(by_pmu[pmu], pmu)] for pmu in cores)
    return [*sentences, *next(filter(None, of_cores), [])]


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


def _share_on_pmu(rows: list[CountRow]) -> float:
    """Return the share of the time that the counters of a PMU ran: for tasks, that of the kind of core."""
    return max((row.running / row.enabled for row in rows if kind(row.event) == "cycles"), default=0.0)


def _kinds_of_cores(by_pmu: Mapping[str, list[CountRow]]) -> Iterator[Sentence]:
    """Yield the kinds of cores that the program ran on, if the machine has several."""
    on_kind = {pmu: share for pmu, rows in by_pmu.items() if (share := _share_on_pmu(rows))}
    total = sum(on_kind.values())
    if len(on_kind) < 2:
        return
    shares = {pmu: on_kind[pmu] / total for pmu in sorted(on_kind, key=lambda pmu: -on_kind[pmu])}
    parts = [f"on {_core_name(pmu)} for {percent(share)}" for pmu, share in shares.items() if share >= _LEAST_KIND]
    yield Sentence("kinds of cores", f"The program ran {join_names(parts)} of its time.", shares)


def _core_name(pmu: str) -> str:
    kinds = {"cpu_core": "performance cores (cpu_core)", "cpu_atom": "efficiency cores (cpu_atom)"}
    return kinds.get(pmu, f"cores of {visible(pmu)}")


def _slots(tally: Tally, pmu: str = "") -> Iterator[Sentence]:
    """Yield what the pipeline slots were used for, the largest loss first. `pmu` is that of a kind of core, on a hybrid machine."""
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
    if not _WHOLE[0] <= sum(shares) <= _WHOLE[1] or min(shares) < 0:
        return
    texts = []
    for name in sorted(_LOSSES, key=lambda name: -values[name]):
        term, meaning, parts = _LOSSES[name]
        named = [f"{word} {values[part]:.0f} %" for part, word in parts.items() if values.get(part, 0.0) >= _LEAST_PART]
        texts.append(f"{values[name]:.0f} % {term} ({', '.join(named) or meaning})")
    of_core = f" on {_core_name(pmu)}" if pmu else ""
    text = f"Pipeline slots{of_core}: {values[_WORK]:.0f} % did work (retiring), {', '.join(texts[:-1])} and {texts[-1]}"
    yield Sentence("slots", f"{text}{_doubt(counted)}.", values)


def _doubt(counted: float) -> str:
    return "" if counted >= _TRUSTED_SHARE else f"; an estimate, counted for {percent(counted)} of the time"


def _cycles(rows: list[CountRow], pmu: str = "") -> Iterator[Sentence]:
    """Yield what instructions, branches and stalled cycles say, where no slots are counted."""
    amounts: dict[str, float] = {}
    counted = 1.0
    for row in rows:
        if its_kind := kind(row.event):
            amounts.setdefault(its_kind, row.amount)
            counted = min(counted, row.running / row.enabled) if its_kind != "clock" else counted
    cycles = amounts.get("cycles", 0.0)
    if not cycles:
        return
    where = f" on {_core_name(pmu)}" if pmu else ""
    rate = amounts.get("instructions", math.nan) / cycles
    numbers = {"instructions per cycle": rate}
    if rate < _FEW_INSTRUCTIONS:
        text = f"{rate:.2g} instructions per cycle{where} are few: the CPU mostly waited, for example for memory"
        yield Sentence("few instructions per cycle", f"{text}{_doubt(counted)}.", numbers)
    elif rate > _MANY_INSTRUCTIONS:
        text = f"{rate:.2g} instructions per cycle{where} are many: the CPU hardly waited; only fewer instructions make the program faster"
        yield Sentence("many instructions per cycle", f"{text}{_doubt(counted)}.", numbers)
    misses, branches = amounts.get("branch-misses", 0.0), amounts.get("branches", 0.0)
    loss = misses * _CYCLES_OF_MISS / cycles
    if misses <= branches and _LEAST_LOSS <= loss <= 1:
        text = f"{percent(misses / branches)} of the branches{where} were mispredicted: about {percent(loss)} of the cycles"
        yield Sentence("mispredicted branches", f"{text}, at {_CYCLES_OF_MISS} for each{_doubt(counted)}.", {"loss": loss})
    stalls = amounts.get("stalled-front", 0.0) / cycles
    if _LEAST_STALLS <= stalls <= 1:
        text = f"In {percent(stalls)} of the cycles{where} the CPU waited for instructions (front end)"
        yield Sentence("front end", f"{text}{_doubt(counted)}.", {"stalls": stalls})
