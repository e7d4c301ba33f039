"""PMUs and tracepoints as the file systems show them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.capture import measurement
from perfpy.errors import KernelRefusedError, UnknownEventError, UsageError
from perfpy.events import listing, parse_events
from perfpy.kernel import sysfs as hwmon
from perfpy.kernel.sysfs import Format, Sysfs, parse_format, split_number
from perfpy.kernel.tracefs import Tracefs
from tests.builders import sysfs_tree
from tests.builders.sysfs_tree import Tree, intel_hybrid, intel_skylake

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.events.machine import Machine


@pytest.mark.parametrize(
    ("text", "value", "field", "word"),
    [
        ("config:0-7", 0x3C, "config", 0x3C),
        ("config:0-7,32-35", 0x1C7, "config", 0x1000000C7),
        ("config1:23", 1, "config1", 1 << 23),
        ("config2:0-63", 2**64 - 1, "config2", 2**64 - 1),
        ("config:0-1,4,8-9", 0b11_1_10, "config", 0x312),
        ("config3", 5, "config3", 5),
    ],
)
def test_a_formats_bits_go_to_their_ranges_lowest_first(text: str, value: int, field: str, word: int) -> None:
    layout = parse_format(text)
    assert (layout.field, layout.spread(value)) == (field, word)


def test_a_format_has_a_width_and_bad_ones_raise() -> None:
    assert parse_format("config:0-7,32-35").width == 12
    assert Format("config", ((3, 3),)).width == 1
    for text in ("", "foo:0-7", "config:a-b"):
        with pytest.raises(ValueError, match=r"."):
            parse_format(text)


def test_pmus_come_with_the_cpus_own_first_and_numbers_in_order(tmp_path: Path) -> None:
    tree = intel_skylake(tmp_path).pmu("uncore_imc_10", 40)
    names = [pmu.name for pmu in Sysfs(str(tree.sys)).pmus]
    assert names[0] == "cpu"
    assert [name for name in names if "imc" in name] == ["uncore_imc_0", "uncore_imc_1", "uncore_imc_2", "uncore_imc_10"]


def test_a_pmus_facts_are_read_on_request(tmp_path: Path) -> None:
    sysfs = Sysfs(str(intel_skylake(tmp_path).sys))
    imc, cpu, tracer = sysfs.pmu("uncore_imc_1"), sysfs.pmu("cpu"), sysfs.pmu("intel_pt")
    assert imc
    assert cpu
    assert tracer
    assert (imc.type, imc.cpus, imc.is_core, imc.alias_names) == (21, (0, 28), False, ["cas_count_read", "clockticks"])
    alias = imc.alias("cas_count_read")
    assert alias
    assert (alias.terms, alias.scale, alias.unit, alias.per_pkg) == ("event=0x04,umask=0x03", 6.103515625e-5, "MiB", False)
    assert imc.alias("nothing") is None
    assert cpu.is_core
    assert (tracer.address_filters, cpu.address_filters) == (2, 0)
    assert sysfs.pmu("nothing") is None


def test_core_pmus_of_a_hybrid_cpu_have_their_cpus(tmp_path: Path) -> None:
    cores = Sysfs(str(intel_hybrid(tmp_path).sys)).core_pmus
    assert [(pmu.name, pmu.cpus) for pmu in cores] == [("cpu_atom", tuple(range(16, 24))), ("cpu_core", tuple(range(16)))]


def test_invalid_parts_of_a_damaged_tree_are_omitted(tmp_path: Path) -> None:
    tree = Tree(tmp_path).pmu("odd", 7, {"good": "config:0", "bad": "what:0-3"}, {"e": "good", "e.scale": "much"}, cpumask="x")
    (tree.sys / "bus/event_source/devices/odd/type").write_text("none\n")
    odd = Sysfs(str(tree.sys)).pmu("odd")
    assert odd
    assert (odd.type, list(odd.formats), odd.cpus) == (None, ["good"], None)
    alias = odd.alias("e")
    assert alias
    assert alias.scale == 1.0
    assert Sysfs(str(tmp_path / "nowhere")).pmus == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("uncore_imc_3", ("uncore_imc", 3)),
        ("cpu_core", ("cpu_core", -1)),
        ("hv_24x7", ("hv_24x7", -1)),
        ("arm_dsu_10", ("arm_dsu", 10)),
        ("nvidia_pcie_abc", ("nvidia_pcie", 0xABC)),
        ("cpu", ("cpu", -1)),
    ],
)
def test_the_number_of_an_instance_is_split_off(name: str, parts: tuple[str, int]) -> None:
    assert split_number(name) == parts


def test_tracefs_takes_the_first_mount_that_has_events(tmp_path: Path) -> None:
    tree = Tree(tmp_path).tracepoint("sched", "sched_switch", 316, "name: sched_switch")
    tracefs = Tracefs([str(tmp_path / "nowhere"), str(tree.tracing)])
    assert tracefs.root == str(tree.tracing)
    assert (tracefs.systems, tracefs.events("sched"), tracefs.events("nothing")) == (["sched"], ["sched_switch"], [])
    assert (tracefs.event_id("sched", "sched_switch"), tracefs.event_id("sched", "x")) == (316, None)
    assert tracefs.format("sched", "sched_switch") == "name: sched_switch\n"


def test_tracefs_that_may_not_be_entered_is_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(KernelRefusedError, match="no permission"):
        Tracefs([str(tmp_path)]).systems  # noqa: B018  # a property that looks


def test_tracefs_is_mounted_if_needed(tmp_path: Path) -> None:
    """On a machine that has just started; once, and only if there is where to."""
    calls: list[str] = []
    tree = Tree(tmp_path / "tree").tracepoint("sched", "sched_switch", 316, "name: sched_switch")

    def mount(path: str) -> None:
        calls.append(path)
        (tmp_path / "empty" / "events" / "sched").mkdir(parents=True)

    tracefs = Tracefs([str(tmp_path / "empty"), str(tmp_path / "nowhere")], mount)
    with pytest.raises(KernelRefusedError):
        tracefs.systems  # noqa: B018  # a property that looks
    assert calls == []
    (tmp_path / "empty").mkdir()
    tracefs = Tracefs([str(tmp_path / "empty"), str(tmp_path / "nowhere")], mount)
    assert tracefs.systems == tracefs.systems == ["sched"]
    assert calls == [str(tmp_path / "empty")]
    assert Tracefs([str(tree.tracing)], mount).systems
    assert len(calls) == 1


def test_where_mounting_is_forbidden_the_remedy_is_reported(tmp_path: Path) -> None:
    def mount(path: str) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    with pytest.raises(KernelRefusedError, match="mount -t tracefs"):
        Tracefs([str(tmp_path)], mount).systems  # noqa: B018  # a property that looks


# Sensors of hardware monitors, as events of `perfpy stat`.


MONITORS = {
    "hwmon0": {
        "name": "coretemp",
        "temp1_input": "45000", "temp1_label": "Package id 0", "temp1_crit": "100000", "temp1_crit_alarm": "0", "temp2_input": "41500",
    },
    "hwmon1": {
        "name": "k-10 (x)",
        "temp1_input": "-3000", "fan1_input": "3200", "in0_input": "12050", "power1_input": "25100000", "energy1_input": "123456789",
        "pwm1": "128", "curr1_max": "3", "humidity1_input": "junk", "temp9_label": "no input",
    },
    "nameless": {"temp1_input": "1"},
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """As sysfs has it: folders elsewhere, and links to them."""
    result = tmp_path / "sys/class/hwmon"
    result.mkdir(parents=True)
    for folder, files in MONITORS.items():
        (tmp_path / "devices" / folder).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / "devices" / folder / name).write_text(text + "\n")
        (result / folder).symlink_to(tmp_path / "devices" / folder)
    return tmp_path / "sys"


@pytest.fixture
def machine(root: Path, tmp_path: Path) -> Machine:
    return sysfs_tree.software_only(tmp_path).machine()


def test_all_sensors_are_listed(root: Path) -> None:
    results = [(one.pmu, one.name, one.alias, one.location) for one in hwmon.sensors(str(root))]
    assert results == [
        ("hwmon_coretemp", "temp2", "", "hwmon0/temp2/"),
        ("hwmon_coretemp", "temp1", "temp_package_id_0", "hwmon0/temp1/"),
        *(("hwmon_k_10__x_", name, "", f"hwmon1/{name}/") for name in ("energy1", "fan1", "humidity1", "in0", "power1", "temp1")),
    ]
    assert hwmon.sensors(str(root / "nowhere")) == []


def test_readings(root: Path) -> None:
    values = {one.location: hwmon.reading(one.location, str(root)) * one.scale for one in hwmon.sensors(str(root))}
    assert values == pytest.approx(
        {
            "hwmon0/temp1/": 45.0, "hwmon0/temp2/": 41.5, "hwmon1/energy1/": 123.456789, "hwmon1/fan1/": 3200, "hwmon1/in0/": 12.05,
            "hwmon1/humidity1/": 0, "hwmon1/power1/": 25.1, "hwmon1/temp1/": -3.0,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("fan1", [("fan1", "hwmon1/fan1/", "rpm")]),
        ("temp_package_id_0", [("temp_package_id_0", "hwmon0/temp1/", "'C")]),
        ("temp1", [("hwmon_coretemp/temp1/", "hwmon0/temp1/", "'C"), ("hwmon_k_10__x_/temp1/", "hwmon1/temp1/", "'C")]),
        ("hwmon_coretemp/temp1/", [("hwmon_coretemp/temp1/", "hwmon0/temp1/", "'C")]),
        ("hwmon1/power1/", [("hwmon1/power1/", "hwmon1/power1/", "W")]),
    ],
)
def test_events_by_name_label_and_monitor(machine: Machine, text: str, events: list[tuple[str, str, str]]) -> None:
    actual_events = parse_events(text, machine=machine, counting=True)
    assert [(event.name, event.tool, event.unit) for event in actual_events] == events
    assert all(event.snapshot for event in actual_events)


@pytest.mark.parametrize("text", ["temp7", "hwmon_coretemp/fan1/", "hwmon_coretemp/temp1=3/", "hwmon_other/temp1/", "temp1/period=3/"])
def test_sensors_that_are_not_there(machine: Machine, text: str) -> None:
    with pytest.raises(UnknownEventError):
        parse_events(text, machine=machine, counting=True)


def test_they_are_listed(machine: Machine) -> None:
    offers = {offer.name: offer for offer in listing.sensors(machine)}
    package = offers["temp_package_id_0"]
    assert (package.alias, package.topic, package.pmu) == ("temp1", "hwmon", "hwmon_coretemp")
    assert package.description == "Temperature in unit coretemp named Package id 0. crit=100'C"
    assert len(offers) == 8


def test_values_equal_the_tools(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hwmon.reading, "__defaults__", (str(root),))
    machine_values = measurement.machine_values(["hwmon1/temp1/", "hwmon9/temp1/", "num_cpus_online", "duration_time"], on_cpus=True)
    assert machine_values == {"hwmon1/temp1/": -3000, "hwmon9/temp1/": 0, "num_cpus_online": os.sysconf("SC_NPROCESSORS_ONLN")}


def test_one_of_several_pmus(tmp_path: Path) -> None:
    tree = sysfs_tree.intel_skylake(tmp_path)
    whole = tree.machine()
    sysfs, tracefs = whole.sysfs, whole.tracefs
    one = type(whole)(sysfs, tracefs, only="uncore_imc_1")
    assert [event.pmu for event in parse_events("cas_count_read", machine=one)] == ["uncore_imc_1"]
    assert [event.pmu for event in parse_events("imc/cas_count_read/", machine=one)] == ["uncore_imc_1"]
    assert [event.pmu for event in parse_events("uncore_imc_0/cas_count_read/", machine=one)] == ["uncore_imc_0"]
    with pytest.raises(UsageError, match="this machine has no PMU 'nothing'"):
        type(whole)(sysfs, tracefs, only="nothing")
