"""The sentences of `stat` on a terminal about what counts mean."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import CountedEvent, EventAttr
from perfpy.abi.flags import HardwareId, PerfType
from perfpy.counts.aggregation import Aggregation, CounterCell, Grouping, aggregate
from perfpy.counts.metrics import Metric
from perfpy.counts.tally import RunTimes, Tally
from perfpy.views.stat_screen import ScreenView, notes
from perfpy.views.stat_text import TextView
from perfpy.views.verdict.counts import counts_verdict
from tests.builders.tallies import clock, hardware, tally

if TYPE_CHECKING:
    from collections.abc import Mapping

Counts = dict[CountedEvent, tuple[int, int, int]]

_SECOND = 10**9
_USED = (_SECOND, _SECOND, _SECOND)  # a second of CPU time


def texts(counts: Counts, **more: object) -> list[str]:
    return [sentence.text for sentence in counts_verdict(tally(counts, **more))]  # type: ignore[arg-type]


def cycles_of(
    instructions: float, others: Mapping[str, tuple[int, int]] = MappingProxyType({})
) -> dict[CountedEvent, tuple[int, int, int]]:
    """Return the counts of 1 G cycles. others: name -> its HardwareId and count."""
    named = {"cycles": (HardwareId.CPU_CYCLES, _SECOND), "instructions": (HardwareId.INSTRUCTIONS, int(instructions * _SECOND)), **others}
    return {clock(): _USED} | {hardware(name, number): (count, 100, 100) for name, (number, count) in named.items()}


def slots(running: int = 100, **shares: float) -> Tally:
    """Return a tally with a metric for each share, in percent."""
    event = CountedEvent("slots", EventAttr(type=4, config=0x400))
    others = {name: CountedEvent(name, EventAttr(type=4, config=0x8000 + number)) for number, name in enumerate(shares)}
    counts = {clock(): _USED, event: (1000, 100, running)} | {
        others[name]: (int(10 * share), 100, running) for name, share in shares.items()
    }
    metrics = {
        others[name]: [Metric(f"tma_{name}", ("/", name, "slots"), {name: others[name], "slots": event}, scale=100.0, unit="%")]
        for name in shares
    }
    return tally(counts, metrics=metrics)


def test_slots_are_told_with_the_largest_loss_first_and_its_parts() -> None:
    shares: dict[str, float] = {
        "backend_bound": 35,
        "frontend_bound": 21,
        "bad_speculation": 14,
        "retiring": 30,
        "memory_bound": 15,
        "core_bound": 20,
    }
    (sentence,) = counts_verdict(slots(100, **shares, branch_mispredicts=2))
    assert sentence.text == (
        "Pipeline slots: 30 % did work (retiring), 35 % back-end bound (memory 15 %, execution units 20 %), "
        "21 % front-end bound (waiting for instructions) and 14 % bad speculation (work that was thrown away)."
    )


def test_shares_that_do_not_add_up_are_not_told() -> None:
    assert not counts_verdict(slots(backend_bound=35, frontend_bound=21, bad_speculation=90, retiring=30))
    assert not counts_verdict(slots(backend_bound=35, frontend_bound=21, retiring=44))


def test_slots_of_a_multiplexed_counter_are_an_estimate() -> None:
    (sentence,) = counts_verdict(slots(25, backend_bound=25, frontend_bound=25, bad_speculation=25, retiring=25))
    assert sentence.text.endswith("; an estimate, counted for 25 % of the time.")


@pytest.mark.parametrize(("rate", "beginning"), [(0.4, "0.4 instructions per cycle are few"), (3.1, "3.1 instructions per cycle are many")])
def test_unusual_numbers_of_instructions_are_told(rate: float, beginning: str) -> None:
    (text,) = texts(cycles_of(rate))
    assert text.startswith(beginning)


def test_usual_counts_say_nothing() -> None:
    usual = {"branches": (HardwareId.BRANCH_INSTRUCTIONS, 200_000_000), "branch-misses": (HardwareId.BRANCH_MISSES, 2_000_000)}
    assert not texts(cycles_of(1.5, usual))


def test_mispredicted_branches_are_told_as_cycles() -> None:
    missed = {"branches": (HardwareId.BRANCH_INSTRUCTIONS, 200_000_000), "branch-misses": (HardwareId.BRANCH_MISSES, 16_000_000)}
    assert texts(cycles_of(1.5, missed)) == ["8 % of the branches were mispredicted: about 24 % of the cycles, at 15 for each."]
    more_than_all = {"branches": (HardwareId.BRANCH_INSTRUCTIONS, 10_000_000), "branch-misses": (HardwareId.BRANCH_MISSES, 16_000_000)}
    assert not texts(cycles_of(1.5, more_than_all))


def test_stalls_of_the_front_end_are_told() -> None:
    stalls = {"stalled-cycles-frontend": (HardwareId.STALLED_CYCLES_FRONTEND, 420_000_000)}
    assert texts(cycles_of(1.5, stalls)) == ["The CPU waited in 42 % of the cycles for instructions (front end)."]
    stalls["stalled-cycles-backend"] = (HardwareId.STALLED_CYCLES_BACKEND, 310_000_000)
    (text,) = texts(cycles_of(0.5, stalls))
    assert text.startswith(
        "0.5 instructions per cycle are few: the CPU waited in 31 % of the cycles for data or execution units (back end)"
    )
    assert text.endswith(" and 42 % of the cycles for instructions (front end).")


def test_misses_of_the_last_level_cache_are_told_with_their_upper_bound() -> None:
    loads, misses = (HardwareId.CACHE_REFERENCES, 0), 2_000_000
    counts = cycles_of(1.0, {"unrelated": loads})
    for name, config, count in (("LLC-loads", 0x2, 40_000_000), ("LLC-load-misses", 0x10002, misses)):
        counts[CountedEvent(name, EventAttr(type=PerfType.HW_CACHE, config=config))] = (count, 100, 100)
    assert texts(counts) == [
        "0.2 % of the instructions missed the last-level cache: up to 40 % of the cycles, at 200 for each if none overlap."
    ]
    more_than_loads = counts | {event: (50_000_000, 100, 100) for event in counts if event.name == "LLC-load-misses"}
    assert not texts(more_than_loads)


def test_slots_need_no_clock_event() -> None:
    shares = {"backend_bound": 25, "frontend_bound": 20, "bad_speculation": 20, "retiring": 25, "smt_contention": 10}
    counted = slots(**shares)
    counts = {event: (row.value, row.enabled, row.running) for event in counted.events[1:] for row in counted.rows[event]}
    (sentence,) = counts_verdict(tally(counts, metrics=counted.metrics, times=RunTimes((_SECOND,), 0.9, 0.1)))
    assert sentence.text.endswith("and 10 % went to the other thread of the core.")
    assert not counts_verdict(tally(counts, metrics=counted.metrics))


def test_a_program_that_mostly_waits_is_sent_to_its_waits() -> None:
    assert texts({clock(): _USED}, times=RunTimes((10 * _SECOND,), 0.9, 0.1)) == [
        "The program was on a CPU for 10 % of 10 s; perfpy -- COMMAND shows what it waited for."
    ]


def test_several_cpus_and_time_in_the_kernel_are_told() -> None:
    assert texts({clock(): _USED}, times=RunTimes((_SECOND // 2,), 0.3, 0.7)) == [
        "The program used 2.0 CPUs on average.",
        "70 % of its CPU time was in the kernel; perfpy trace -s -- COMMAND shows its system calls.",
    ]


@pytest.mark.parametrize(("atom", "core", "told"), [(20, 60, ["cpu_core", "cpu_atom"]), (10, 60, ["cpu_core"])])
def test_kinds_of_cores_have_the_shares_of_the_time_and_those_used_for_long_their_rates(atom: int, core: int, told: list[str]) -> None:
    counts = {clock(): _USED}
    for pmu, running in (("cpu_atom", atom), ("cpu_core", core)):
        for name, number, count in (("cycles", HardwareId.CPU_CYCLES, 1000), ("instructions", HardwareId.INSTRUCTIONS, 300)):
            event = hardware(f"{pmu}/{name}/", number)
            event.pmu, event.cpus = pmu, (int(pmu == "cpu_atom"),)
            counts[event] = (count, 100, running)
    kinds, *rates = texts(counts)
    shares = f"{100 * core / (atom + core):.0f} %", f"{100 * atom / (atom + core):.0f} %"
    assert kinds == "The program ran on performance cores (cpu_core) for {} and on efficiency cores (cpu_atom) for {} of its time.".format(
        *shares
    )
    names = {"cpu_core": "performance cores (cpu_core)", "cpu_atom": "efficiency cores (cpu_atom)"}
    assert [rate.partition(" are few")[0] for rate in rates] == [f"0.3 instructions per cycle on {names[pmu]}" for pmu in told]


def hybrid(atom: int, core: int, *, instructions_of_core: int) -> Counts:
    """Return counts of tasks on two kinds of cores. atom, core: percent of the time that the counters of the kind ran."""
    counts: Counts = {clock(): _USED}
    for pmu, running, instructions in (("cpu_atom", atom, atom), ("cpu_core", core, instructions_of_core)):
        for name, number, its_running in (
            ("cycles", HardwareId.CPU_CYCLES, running),
            ("instructions", HardwareId.INSTRUCTIONS, instructions),
        ):
            event = hardware(f"{pmu}/{name}/", number)
            event.pmu, event.cpus = pmu, (int(pmu == "cpu_atom"),)
            counts[event] = (1000, 100, its_running)
    return counts


def test_time_on_another_kind_of_core_is_no_multiplexing() -> None:
    (note,) = notes(tally(hybrid(25, 75, instructions_of_core=75)))
    assert note.endswith("as if the program had run there only (cpu_atom 25%, cpu_core 75%)")
    named = {event: count for event, count in hybrid(25, 75, instructions_of_core=75).items() if not event.name.endswith("/cycles/")}
    for event in named:
        event.name, event.attr = event.name.replace("instructions", "inst_retired.any"), EventAttr(type=4, config=0xC0)
    assert notes(tally(named)) == [note]
    _, note = notes(tally(hybrid(25, 75, instructions_of_core=30)))
    assert note.startswith("1 event shared the PMU: its count is an estimate (cpu_core/instructions/ was counted 40% of the time)")


def test_events_of_a_kind_of_core_that_the_program_never_ran_on_are_told() -> None:
    """A program bound to the other kind of core: perf's line has <not counted> and no reason."""
    (note,) = notes(tally(hybrid(0, 100, instructions_of_core=100)))
    assert note.startswith("cpu_atom/cycles/, cpu_atom/instructions/: nothing ran on CPUs 1, the only ones that cpu_atom counts, or other")


def test_counts_of_whole_cpus_say_nothing_about_a_program() -> None:
    counted = tally(hybrid(100, 100, instructions_of_core=60), counts_tasks=False)
    assert not counts_verdict(counted)
    (note,) = notes(counted)
    assert note == "1 event shared the PMU: its count is an estimate (cpu_core/instructions/ was counted 60% of the time)"


def test_nothing_is_told_of_short_programs_intervals_and_parts_of_machines() -> None:
    few = cycles_of(0.1)
    assert texts(few)
    assert not texts(few | dict.fromkeys([next(iter(few))], (10**6, 10**6, 10**6)))
    assert not texts(few, timestamp=1)
    grouping = Grouping.by_part(Aggregation.SOCKET, {0: (0,)})
    rows = {event: aggregate(event, [CounterCell(0, 0, *count)], grouping) for event, count in few.items()}
    assert not counts_verdict(Tally(list(few), rows, grouping, wall_ns=1e9))


def test_metrics_stay_on_a_narrow_screen() -> None:
    counted = slots(25, backend_bound=25, frontend_bound=25, bad_speculation=25, retiring=25)
    next(iter(counted.metrics)).name = "a_long_name_of_an_event_that_the_screen_has_no_room_for"
    lines = "".join(ScreenView("'x'", width=60, colour="").render(counted)).splitlines()
    assert sum("%  tma_" in line for line in lines) == 4
    assert any("a_long_name…" in line for line in lines), lines
    assert max(map(len, lines)) <= 60


def test_events_of_one_metric_group_stand_below_one_heading() -> None:
    counted = slots(backend_bound=25, frontend_bound=25, bad_speculation=25, retiring=25)
    leader, metrics = next(iter(counted.metrics)), [metric for its in counted.metrics.values() for metric in its]
    first, second = (CountedEvent(name, EventAttr(type=4, config=number)) for number, name in enumerate(("first", "second")))
    for metric in metrics:
        metric.group = "TopdownL1"
    halves = {first: metrics[:2], second: metrics[2:]}
    rows = {**counted.rows, **{event: [counted.rows[leader][0]._replace(event=event)] for event in halves}}
    shown = Tally(list(rows), rows, Grouping.everything(), wall_ns=1e9, metrics=halves, only_for_metrics=set(halves))
    assert "".join(ScreenView("'x'", width=100, colour="").render(shown)).count("TopdownL1") == 1


def test_only_terminals_have_the_sentences() -> None:
    counts = tally(cycles_of(0.4))
    assert "are few" not in "".join(TextView("'x'").render(counts))
    screen = "".join(ScreenView("'x'", width=60, colour="").render(counts))
    assert " 0.4 instructions per cycle are few: the CPU mostly waited.\n" in screen
