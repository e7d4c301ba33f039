"""Sensors of hardware monitors, as events of `perfpy stat`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.counting import tool_values
from perfpy.errors import UnknownEventError, UsageError
from perfpy.events import parse_events
from perfpy.events.listing import inventory
from perfpy.kernel import hwmon
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.events.machine import Machine

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
    offers = {offer.name: offer for offer in inventory.sensors(machine)}
    package = offers["temp_package_id_0"]
    assert (package.alias, package.topic, package.pmu) == ("temp1", "hwmon", "hwmon_coretemp")
    assert package.description == "Temperature in unit coretemp named Package id 0. crit=100'C"
    assert len(offers) == 8


def test_values_equal_the_tools(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hwmon.reading, "__defaults__", (str(root),))
    machine_values = tool_values.machine_values(["hwmon1/temp1/", "hwmon9/temp1/", "num_cpus_online", "duration_time"], on_cpus=True)
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
