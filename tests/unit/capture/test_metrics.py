"""Which events metrics count, in which groups, and beside which event they are shown: as perf 6.12, seen under the simulator."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import CountedEvent, EventAttr
from perfpy.capture import metrics
from perfpy.capture.metrics import MetricEventsError, MetricOptions, UnknownMetricError, choose, default_metrics, topdown_group
from perfpy.counts.aggregation import EVERYWHERE, CountRow, Neighbours
from perfpy.counts.metrics import of_counterparts
from perfpy.errors import EventSyntaxError, PerfError
from perfpy.events.machine import Machine
from perfpy.kernel.sysfs import Sysfs, Tracefs
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfpy.capture.metrics import ChosenMetrics
    from perfpy.events.event import Event

SLOTS_METRICS = [
    {
        "MetricName": f"tma_{name}",
        "MetricExpr": rf"topdown\-{part} / (topdown\-retiring + topdown\-be) + 0 * slots",
        "ScaleUnit": "100%",
        "MetricGroup": "Default;TopdownL1",
        "MetricThreshold": f"tma_{name} > 0.5",
        "MetricgroupNoGroup": "TopdownL1;Default",
        "DefaultMetricgroupName": "TopdownL1",
    }
    for name, part in (("retiring", "retiring"), ("backend", "be"))
]


def machine(tmp_path: Path, metrics: list[dict[str, str]], tree: Callable[[Path], sysfs_tree.Tree] = sysfs_tree.intel_skylake) -> Machine:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "metrics.json").write_text(json.dumps(metrics))
    made = tree(tmp_path)
    made.pmu("cpu" if tree is sysfs_tree.intel_skylake else "cpu_core", 4, {}, {"topdown-be": "event=0x00,umask=0x83"})
    return made.machine(folder)


def metric(name: str, expression: str, **more: str) -> dict[str, str]:
    return {"MetricName": name, "MetricExpr": expression, **more}


def groups(chosen: ChosenMetrics) -> list[list[str]]:
    """The names of the events, one list for each group."""
    lists: dict[Event, list[str]] = {}
    for event in chosen.events:
        lists.setdefault(event.leader, []).append(event.name)
    return list(lists.values())


def shown(chosen: ChosenMetrics, counts: dict[str, int]) -> dict[str, list[tuple[str, Any]]]:
    """The metrics beside each event for these counts."""
    counted = {event: CountedEvent(event.name, EventAttr(), pmu=event.pmu, tool=event.tool) for event in chosen.events}
    near = Neighbours([CountRow(counted[event], EVERYWHERE, counts[event.name], 5, 5, 1) for event in chosen.events], 1.0)
    metrics = of_counterparts(chosen.metrics, counted)
    return {event.name: [(one.name, one.ratio(near).value) for one in its] for event, its in metrics.items()}


def test_shares_of_slots_are_matched_by_name_whatever_the_order(tmp_path: Path) -> None:
    """The events are opened in another order than the formula has; the shares still sum up to 100."""
    chosen = choose("TopdownL1", machine=machine(tmp_path, SLOTS_METRICS))
    assert groups(chosen)[0][0] == "slots"
    assert len(groups(chosen)) == 1
    values = shown(chosen, {"slots": 1000, "topdown-retiring": 600, "topdown-be": 200})
    assert {name: round(number, 6) for name, number in values["slots"]} == {"%  tma_backend": 25.0, "%  tma_retiring": 75.0}


def test_a_metric_counts_what_another_has_only_once(tmp_path: Path) -> None:
    metrics = [metric("small", "instructions / cycles"), metric("large", "instructions / cycles + branches")]
    here = machine(tmp_path, metrics)
    chosen = choose("small,large", machine=here)
    assert len(chosen.events) == 3
    assert len(groups(chosen)) == 1
    assert len(choose("small,large", MetricOptions(merged=False), here).events) == 5
    assert chosen.events[0].weak


def test_facts_about_the_machine_decide_which_events_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """#core_wide: -a, and all threads of each core of -C."""
    monkeypatch.setattr("perfpy.capture.measurement.machine_values", lambda names, **_: dict.fromkeys(names, 1))
    monkeypatch.setattr("perfpy.kernel.cpus.core_siblings", lambda cpu: {cpu & ~1, cpu | 1})
    here = machine(tmp_path, [metric("m", "cycles if #core_wide < 1 else instructions")])
    for options, event in (
        (MetricOptions(), "cycles"),
        (MetricOptions(system_wide=True), "instructions"),
        (MetricOptions(system_wide=True, cpus="2-3"), "instructions"),
        (MetricOptions(system_wide=True, cpus="2"), "cycles"),
    ):
        assert groups(choose("m", options, here)) == [[event]]


def test_a_constant_counts_no_event_of_the_cpu(tmp_path: Path) -> None:
    chosen = choose("m", machine=machine(tmp_path, [metric("m", "cycles if 0 else 3")]))
    assert [event.tool for event in chosen.events] == ["duration_time"]


def test_an_event_of_several_boxes_counts_for_one_name(tmp_path: Path) -> None:
    """source_count tells how many memory controllers were counted."""
    bandwidth = metric("bandwidth", "(UNC_R + 0) / duration_time * source_count(UNC_R)")
    read = {"EventName": "UNC_R", "EventCode": "0x04", "UMask": "0x03", "Unit": "iMC"}
    chosen = choose("bandwidth", machine=machine(tmp_path, [bandwidth, read]))
    assert [event.pmu for event in chosen.events if event.pmu] == [f"uncore_imc_{number}" for number in range(3)]
    counted = {event: CountedEvent(event.name, EventAttr(), pmu=event.pmu, tool=event.tool) for event in chosen.events}
    rows = [CountRow(counted[event], EVERYWHERE, 2_000_000_000 if event.tool else 500, 5, 5, 1) for event in chosen.events]
    metrics = of_counterparts(chosen.metrics, counted)
    values = [metric.ratio(Neighbours(rows, 1.0)).value for its in metrics.values() for metric in its]
    assert values == [750.0, 250.0, 250.0]  # the sum of the boxes is the first one's count; with -A each box has its own line


def test_events_that_must_not_be_a_group_share_one_list(tmp_path: Path) -> None:
    metrics = [
        metric(name, f"{event} / cycles", MetricConstraint="NO_GROUP_EVENTS") for name, event in (("a", "instructions"), ("b", "branches"))
    ]
    here = machine(tmp_path, [*metrics, metric("c", "instructions / cycles")])
    assert sorted(map(len, groups(choose("a,b", machine=here)))) == [1, 1, 1]
    assert sorted(map(len, groups(choose("c", machine=here)))) == [2]
    assert sorted(map(len, groups(choose("c", MetricOptions(grouped=False), here)))) == [1, 1]


def test_all_metrics_share_ungrouped_events(tmp_path: Path) -> None:
    """As in perf, which has none of the built-in metrics beside those of the CPU."""
    here = machine(tmp_path, [metric("a", "instructions / cycles"), metric("b", "branches / cycles")])
    chosen = choose("all", machine=here)
    assert sorted(map(len, groups(chosen))) == [1, 1, 1]
    assert {one.plain_name for metrics in chosen.metrics.values() for one in metrics} == {"a", "b"}


@pytest.mark.parametrize(
    ("constraint", "watchdog", "sizes"),
    [("NO_GROUP_EVENTS_NMI", "1", [1, 1]), ("NO_GROUP_EVENTS_NMI", "0", [2]), ("NO_GROUP_EVENTS_SMT", "0", [1, 1]), ("", "1", [2])],
)
def test_counters_that_others_use_forbid_a_group(
    constraint: str, watchdog: str, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The NMI watchdog has one of the CPU's counters, and two threads of a core share them."""
    here = machine(tmp_path, [metric("m", "instructions / cycles", MetricConstraint=constraint)])
    monkeypatch.setattr("perfpy.capture.measurement.machine_values", lambda names, **_: dict.fromkeys(names, 1))
    monkeypatch.setattr("perfpy.capture.metrics.has_nmi_watchdog", lambda: watchdog == "1")
    chosen = choose("m", machine=here)
    assert sorted(map(len, groups(chosen))) == sizes
    assert bool(chosen.warnings) == (constraint.endswith("NMI") and watchdog == "1")


def test_thresholds_take_events_unless_told_otherwise(tmp_path: Path) -> None:
    here = machine(tmp_path, [metric("m", "instructions", MetricThreshold="m > 2 & branches > 1")])
    assert len(choose("m", machine=here).events) == 2
    assert len(choose("m", MetricOptions(thresholds=False), here).events) == 1


def test_events_of_a_skylake_server_come_in_perfs_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """perf 6.12 opens them in this order, which decides which event the metric is shown beside."""
    monkeypatch.setattr("perfpy.capture.measurement.machine_values", lambda names, **_: dict.fromkeys(names, 1))
    here = Machine(Sysfs(str(sysfs_tree.intel_skylake(tmp_path).sys)), identity=lambda: "GenuineIntel-6-55-4")
    chosen = choose("tma_frontend_bound", MetricOptions(thresholds=False), here)
    assert groups(chosen) == [
        ["CPU_CLK_UNHALTED.REF_XCLK", "IDQ_UOPS_NOT_DELIVERED.CORE", "CPU_CLK_UNHALTED.ONE_THREAD_ACTIVE", "CPU_CLK_UNHALTED.THREAD"]
    ]


def test_both_kinds_of_cores_have_their_metrics(tmp_path: Path) -> None:
    metrics = [metric("cpi", f"{pmu}@cpu\\-cycles@ / 2", Unit=pmu) for pmu in ("cpu_core", "cpu_atom")]
    here = machine(tmp_path, metrics, sysfs_tree.intel_hybrid)
    chosen = choose("cpi", machine=here)
    assert sorted(event.name for event in chosen.events) == ["cpu_atom/cpu-cycles/", "cpu_core/cpu-cycles/"]
    assert len(chosen.metrics) == 2
    assert [event.pmu for event in choose("cpi", MetricOptions(unit="cpu_atom"), here).events] == ["cpu_atom"]


def test_a_modifier_restricts_a_metric(tmp_path: Path) -> None:
    chosen = choose("m:u", machine=machine(tmp_path, [metric("m", "instructions / cycles")]))
    assert all(event.attr.exclude_kernel for event in chosen.events)
    assert {event.name for event in chosen.events} == {"instructions:u", "cycles:u"}
    assert [one.name for its in chosen.metrics.values() for one in its] == ["m:u"]


def test_default_metrics_are_those_of_the_table(tmp_path: Path) -> None:
    here = machine(tmp_path, SLOTS_METRICS)
    chosen = default_metrics(MetricOptions(), here)
    assert chosen is not None
    assert [one.group for its in chosen.metrics.values() for one in its] == ["TopdownL1", "TopdownL1"]
    assert topdown_group(0, here) == "TopdownL1"
    with pytest.raises(UnknownMetricError, match="the highest level of this CPU is 1"):
        topdown_group(2, here)
    without = sysfs_tree.software_only(tmp_path / "bare").machine()
    assert default_metrics(MetricOptions(), without) is None
    with pytest.raises(PerfError, match="Topdown requested"):
        topdown_group(1, without)


def test_errors_name_the_metric_or_the_event(tmp_path: Path) -> None:
    here = machine(tmp_path, [metric("first", "second + 1"), metric("second", "first"), metric("lost", "no_such_event / 2")])
    with pytest.raises(UnknownMetricError, match="`frist'; similar: first"):
        choose("frist", machine=here)
    for name in ("", "first;", "irst", ";"):
        with pytest.raises(UnknownMetricError, match=f"`{name}'"):
            choose(name, machine=here)
    with pytest.raises(MetricEventsError, match="no_such_event"):
        choose("lost", machine=here)
    with pytest.raises(EventSyntaxError, match="part of its own formula"):
        choose("first", machine=here)


def test_the_frequency_of_the_clock_is_the_kernels_where_the_cpus_name_has_none(monkeypatch):
    monkeypatch.setattr("perfpy.kernel.cpus.nominal_frequency", lambda: math.nan)
    clock = SimpleNamespace(zero=True, time_mult=1 << 30, time_shift=31)
    ring = SimpleNamespace(clock=lambda: clock)
    counter = SimpleNamespace(ring=lambda pages: ring)
    monkeypatch.setattr("perfpy.capture.counter.Counter.open", lambda *_, **__: nullcontext(counter))
    literals = metrics._MachineLiterals(Machine(Sysfs("/nosuch")), system_wide=False, cpus="")
    assert literals.value("#SYSTEM_TSC_FREQ") == 2e9
    clock.zero = False
    literals = metrics._MachineLiterals(Machine(Sysfs("/nosuch")), system_wide=False, cpus="")
    assert literals.value("#SYSTEM_TSC_FREQ") == 0


def test_a_metric_of_a_kind_of_arm_core_counts_this_kind_only(tmp_path: Path) -> None:
    """The formulas have no PMUs: each kind of core has its own table."""
    tree = sysfs_tree.arm_big_little(tmp_path)
    identities = {0: "0x00000000410fd030", 4: "0x00000000410fd080"}
    machine = Machine(
        Sysfs(str(tree.sys)),
        Tracefs([str(tree.tracing)]),
        identity=lambda: identities[0],
        core_identity=lambda cpus: identities[next(iter(cpus))],
    )
    chosen = choose("ipc", machine=machine)
    assert [
        [event.pmu for event in chosen.events if event.leader is leader] for leader in dict.fromkeys(e.leader for e in chosen.events)
    ] == [
        ["armv8_cortex_a72"] * 2,
        ["armv8_cortex_a53"] * 2,
    ]
    assert {event.pmu for event in chosen.metrics} == {"armv8_cortex_a53", "armv8_cortex_a72"}
    pmus: dict[object, str] = {event: event.pmu for event in chosen.events}
    assert all(pmus[source] == event.pmu for event, metrics in chosen.metrics.items() for one in metrics for source in one.events)


@pytest.mark.parametrize(
    ("identity", "tree"),
    [
        ("GenuineIntel-6-55-4", sysfs_tree.intel_skylake),
        ("GenuineIntel-6-8F-8", sysfs_tree.intel_skylake),
        ("GenuineIntel-6-97-2", sysfs_tree.intel_hybrid),
        ("GenuineIntel-6-97-2", sysfs_tree.intel_skylake),  # a virtual machine with one kind of core
        ("AuthenticAMD-25-11-1", sysfs_tree.intel_skylake),
    ],
)
def test_metrics_that_are_looked_up_are_those_of_the_whole_table(
    identity: str, tree: Callable[[Path], sysfs_tree.Tree], tmp_path: Path
) -> None:
    """Only the rows that a name or group means are decoded."""
    made = tree(tmp_path)
    of_table = Machine(Sysfs(str(made.sys)), Tracefs(str(tmp_path / "none")), identity=lambda: identity)
    whole = metrics.definitions(of_table)
    looked_up = metrics._Definitions(of_table)
    assert of_table.metric_table is not None
    assert looked_up.with_word("all") == whole
    assert len(whole) > 20
    words = {text.lower() for one in whole for text in (one.name, *one.groups)} | {"no_group", "nothing", "a\nb", "\n"}
    for word in words:
        meant = [one for one in whole if word in (one.name.lower(), *(group.lower() for group in one.groups))]
        found = [one for one in looked_up.with_word(word) if word in (one.name.lower(), *(group.lower() for group in one.groups))]
        assert found == meant, word
    for pmu in {one.pmu for one in whole} | {"", "cpu_core"}:
        for word in words:
            first = next((one for one in whole if (one.pmu, one.name.lower()) == (pmu, word)), None)
            assert looked_up.named(pmu, word) == first
