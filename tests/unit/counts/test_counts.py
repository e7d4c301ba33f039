"""Counts by name, and tallies."""

from __future__ import annotations

import pytest

from perfpy.abi.attr import CountedEvent, EventAttr
from perfpy.abi.flags import HardwareId, PerfType, SoftwareId
from perfpy.counts.aggregation import (
    EVERYWHERE,
    AggregateId,
    CounterCell,
    CountRow,
    Grouping,
    Neighbours,
    Ratio,
    add_boxes,
    aggregate,
    ratios,
    sum_cores,
)
from perfpy.counts.named_counts import Count, Counts, named_count
from perfpy.counts.tally import Tally, name_with_pmu

# Counts are found by the names of their events.


CYCLES = Count("cycles:u", 1000, 1000.0, "", 5, 5)
CLOCK = Count("task-clock", 2_500_000, 2.5, "msec", 5, 5)


def test_an_event_is_found_by_its_requested_and_its_counted_name():
    counts = Counts(["cycles", "task-clock"], [CYCLES, CLOCK])
    assert counts["cycles"] is counts["cycles:u"] is CYCLES
    assert list(counts) == ["cycles", "task-clock"]
    assert len(counts) == 2


def test_an_uncounted_name_is_reported_with_the_counted_ones():
    with pytest.raises(KeyError, match="faults: not among the events counted: cycles"):
        Counts(["cycles"], [CYCLES])["faults"]


def test_a_mapping_of_plain_values():
    assert Counts(["task-clock"], [CLOCK]).to_dict() == {
        "task-clock": {
            "event": "task-clock",
            "value": 2_500_000,
            "amount": 2.5,
            "unit": "msec",
            "enabled": 5,
            "running": 5,
            "spread": None,
            "why_not": "",
            "own": None,
            "overhead": None,
            "text": "",
        }
    }


def test_the_first_of_two_equal_names_stays():
    again = CYCLES._replace(value=7)
    assert Counts(["cycles", "cycles"], [CYCLES, again])["cycles"].value == 1000


def test_a_row_becomes_a_count_in_its_unit():
    event = CountedEvent("task-clock", EventAttr(), unit="msec", scale=1e-6)
    assert named_count(CountRow(event, EVERYWHERE, 2_500_000, 5, 5, 1), 0.5) == Count("task-clock", 2_500_000, 2.5, "msec", 5, 5, 0.5)


def test_a_row_that_was_not_counted_has_no_value():
    event = CountedEvent("cycles", EventAttr())
    assert named_count(CountRow(event, EVERYWHERE, 0, 9, 0, 1)).value is None


def test_children_are_the_total_minus_the_task():
    both = CYCLES.beside(CYCLES._replace(value=400))
    assert (both.own, both.children) == (400, 600)
    assert str(both).endswith("#  40.0% its own")
    assert CYCLES.children is None
    assert CYCLES.beside(CYCLES._replace(value=1001)).children == 0  # read later: never less than nothing
    assert ((both + both).own, (both + CYCLES).own) == (800, None)


def test_value_amount_and_own_exclude_an_overhead():
    net = CLOCK.without(CLOCK._replace(value=500_000, amount=0.5))
    assert (net.value, net.amount, net.overhead) == (2_000_000, 2.0, 500_000)
    assert CYCLES.without(CYCLES._replace(value=2000)).value == 0
    apart = CYCLES.beside(CYCLES._replace(value=400)).without(CYCLES._replace(value=100, own=50))
    assert (apart.value, apart.own) == (900, 350)
    nothing = CYCLES._replace(value=None, amount=None)
    assert (nothing.without(CYCLES), CYCLES.without(nothing), CYCLES.beside(nothing)) == (nothing, CYCLES, CYCLES)


# Which lines a printing of counts has.


THREADS = Grouping.by_thread([("first", 4), ("gone", 5), ("last", 6)])


def tally(cells: list[CounterCell]) -> Tally:
    events = [CountedEvent("faults", EventAttr()), CountedEvent("duration_time", EventAttr(), tool="duration_time")]
    rows = {events[0]: aggregate(events[0], cells, THREADS), events[1]: aggregate(events[1], [CounterCell(0, 0, 9, 9, 9)], THREADS)}
    return Tally(events, rows, THREADS, wall_ns=1)


def test_a_thread_that_had_ended_before_it_was_opened_has_no_line() -> None:
    """A thread that was counted and did nothing has one."""
    result = tally([CounterCell(-1, 0, 3, 1, 1), CounterCell(-1, 2, 0, 0, 0)])
    assert [line.row.aggregate_id.comm for line in result.lines() if line.row.event.name == "faults"] == ["first", "last"]
    assert [aggregate_id.comm for aggregate_id, _ in result.lines_by_aggregate()] == ["first", "last"]


def test_threads_of_events_that_cannot_be_counted_keep_their_lines() -> None:
    """Nothing was counted at all, and the lines say why."""
    assert [line.row.aggregate_id.comm for line in tally([]).lines() if line.row.event.name == "faults"] == ["first", "gone", "last"]


# Ratios are those of one kind of core.


def test_ratios_compare_counts_of_one_kind_of_core() -> None:
    """Also a core PMU's own event of a generic name: cpu_core/instructions/ beside cycles."""
    atom, core = 10 << 32, 4 << 32
    events = [
        CountedEvent("cpu_atom/cycles/", EventAttr(config=HardwareId.CPU_CYCLES | atom)),
        CountedEvent("cpu_core/cycles/", EventAttr(config=HardwareId.CPU_CYCLES | core)),
        CountedEvent("cpu_core/instructions/", EventAttr(type=4, config=0xC0)),
        CountedEvent("cpu_atom/instructions/", EventAttr(config=HardwareId.INSTRUCTIONS | atom)),
        CountedEvent("cpu_core/L1-dcache-loads/", EventAttr(type=PerfType.HW_CACHE, config=core)),
        CountedEvent("cpu_core/L1-dcache-load-misses/", EventAttr(type=PerfType.HW_CACHE, config=core | 1 << 16)),
        CountedEvent("task-clock", EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK)),
    ]
    events[2].generic = HardwareId.INSTRUCTIONS
    rows = [CountRow(event, EVERYWHERE, value, 1, 1, 1) for event, value in zip(events, (100, 400, 200, 300, 8, 2, 200), strict=True)]
    near = Neighbours(rows, 1.0)
    assert [(ratio.value, ratio.unit) for row in rows[:6] for ratio in ratios(row, near)] == [
        (0.5, "GHz"),
        (2.0, "GHz"),
        (0.5, "insn per cycle"),
        (3.0, "insn per cycle"),
        (40.0, "M/sec"),
        (25.0, "of all L1-dcache accesses"),
    ]


def test_an_event_of_the_only_core_pmu_has_the_ratio_of_its_name() -> None:
    """cpu/branch-misses/ beside branches, on a machine with one kind of core."""
    branches, misses = (
        CountedEvent("branches", EventAttr(config=HardwareId.BRANCH_INSTRUCTIONS)),
        CountedEvent("m", EventAttr(type=4, config=0xC5)),
    )
    misses.generic = HardwareId.BRANCH_MISSES
    rows = [CountRow(branches, EVERYWHERE, 8, 1, 1, 1), CountRow(misses, EVERYWHERE, 2, 1, 1, 1)]
    assert ratios(rows[1], Neighbours(rows, 1.0)) == [Ratio(25.0, "of all branches", "%7.2f%%")]


def test_a_retirement_latency_has_the_ratio_of_its_event_as_in_perf() -> None:
    """cpu-clock:R, and instructions:R beside cycles; cycles:R has no rate."""
    clock = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.CPU_CLOCK)
    latencies = [EventAttr(config=HardwareId.INSTRUCTIONS), EventAttr(config=HardwareId.CPU_CYCLES), clock]
    events = [CountedEvent("cycles", EventAttr(config=HardwareId.CPU_CYCLES)), CountedEvent("cpu-clock", clock)]
    events += [CountedEvent("latency", attr, tool="retirement_latency") for attr in latencies]
    rows = [CountRow(event, EVERYWHERE, value, 1, 1, 1) for event, value in zip(events, (50, 100, 0, 0, 0), strict=True)]
    near = Neighbours(rows, 1.0)
    assert [(ratio.value, ratio.unit) for row in rows[2:] for ratio in ratios(row, near)] == [
        (0.0, "insn per cycle"),
        (None, "GHz"),
        (0.0, "CPUs utilized"),
    ]


def test_boxes_are_added_where_their_first_is_counted() -> None:
    first, second, other = (CountedEvent(name, EventAttr(type=20)) for name in ("box 0", "box 1", "other"))
    second.added_to = first
    rows = {event: [CountRow(event, EVERYWHERE, 5, 20, 10, 1)] for event in (first, second, other)}
    assert add_boxes(rows) == {first: [CountRow(first, EVERYWHERE, 10, 40, 20, 1)], other: rows[other]}
    assert list(add_boxes({second: rows[second]})) == [second]


def test_percore_shows_the_sum_of_a_core_once_or_beside_each_cpu() -> None:
    event = CountedEvent("cycles/percore/", EventAttr())
    cpus = [AggregateId(f"CPU{cpu}", cpu) for cpu in range(4)]
    cores = [AggregateId("S0-D0-C0"), AggregateId("S0-D0-C1")] * 2
    rows = [CountRow(event, cpu, 10 + cpu.cpu, 20, 10, 1) for cpu in cpus]
    grouping = Grouping.by_cpu(range(4))
    by_core = Tally([event], {event: sum_cores(rows, cores)}, grouping, wall_ns=1.0)
    assert [line.row for line in by_core.lines()] == [CountRow(event, cores[0], 22, 40, 20, 1), CountRow(event, cores[1], 24, 40, 20, 1)]
    by_cpu = Tally([event], {event: sum_cores(rows, cores, keeps_cpus=True)}, grouping, wall_ns=1.0)
    assert [(line.row.aggregate_id, line.row.value) for line in by_cpu.lines()] == list(zip(cpus, (22, 24, 22, 24), strict=True))


def test_a_core_has_no_count_if_one_of_its_cpus_has_none() -> None:
    event = CountedEvent("cycles/percore/", EventAttr())
    rows = [CountRow(event, AggregateId(f"CPU{cpu}", cpu), 5, 1, cpu, 1) for cpu in range(2)]
    core = AggregateId("S0-D0-C0")
    assert [row.was_counted for row in sum_cores(rows, [core, core])] == [False, False]
    elsewhere = [row._replace(cells=0, enabled=0) if row.running == 0 else row for row in rows]  # of the other kind of core
    assert [row.value for row in sum_cores(elsewhere, [core, core])] == [0, 5]


@pytest.mark.parametrize(
    ("name", "is_named", "expected"),
    [
        ("uncore_imc/clockticks/u", False, "uncore_imc_0/clockticks/u"),
        ("uncore_imc_0/clockticks/", False, "uncore_imc_0/clockticks/"),
        ("clockticks", False, "clockticks [uncore_imc_0]"),
        ("ticks", True, "ticks"),
    ],
)
def test_lines_of_each_cpu_name_the_box(name: str, is_named: bool, expected: str) -> None:
    event = CountedEvent(name, EventAttr(type=20), pmu="uncore_imc_0")
    event.is_named = is_named
    assert name_with_pmu(event) == expected


# One event on several kinds of cores.

BIG = Count("cpu_core/cycles/", 1000, 1000.0, "", 100, 75, text="cycles")
LITTLE = Count("cpu_atom/cycles/", 600, 600.0, "", 100, 25, text="cycles")


def test_a_tasks_event_on_all_kinds_of_cores_is_the_mean_weighted_with_the_times():
    """Each count is scaled up to all of the time: 750 were counted on one kind, 150 on the other."""
    counts = Counts(["cpu_core/cycles/", "cpu_atom/cycles/"], [BIG, LITTLE])
    assert (counts["cycles"].value, counts["cycles"].share, list(counts)) == (900, 1.0, ["cpu_core/cycles/", "cpu_atom/cycles/"])
    assert str(counts["cpu_atom/cycles/"]).endswith("cpu_atom/cycles/          (25.00% of the time)")


def test_cpus_of_all_kinds_are_added():
    assert Counts(["a", "b"], [BIG, LITTLE], on_cpus=True)["cycles"][:2] == ("cycles", 1600)
    other_cpus = LITTLE._replace(value=None, amount=None, running=0)
    assert Counts(["a", "b"], [other_cpus, BIG], on_cpus=True)["cycles"][:2] == ("cycles", 1000)


def test_a_kind_that_never_counted_gives_the_reason_instead_of_a_zero():
    event = CountedEvent("cpu_atom/cycles/", EventAttr(), pmu="cpu_atom")
    event.cpus, event.text_name = (8, 9), "cycles"
    never = named_count(CountRow(event, EVERYWHERE, 0, 100, 0, 1))
    assert never.value is None
    assert never.why_not == "nothing ran on CPUs 8-9, the only ones that cpu_atom counts, or other events had its counters"
    counts = Counts(["big", "little"], [BIG, never])
    assert (counts["cycles"].value, counts["cycles"].share) == (1000, 0.75)
    assert Counts(["little"], [never])["cycles"].why_not == never.why_not
    event.text_name = ""  # named with its PMU
    assert named_count(CountRow(event, EVERYWHERE, 0, 100, 0, 1)).why_not == never.why_not
