"""Values of events without a counter: facts about the machine, from sysfs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.counting.tool_values import machine_values, times
from perfpy.events.catalog import MACHINE_VALUES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Two packages of one die, two cores per die, two threads per core; one more CPU is possible."""
    texts = {"possible": "0-8", "online": "0-7", "smt/active": "1"}
    for cpu in range(8):
        core, package = cpu // 2 * 2, cpu // 4 * 4
        texts[f"cpu{cpu}/topology/core_cpus_list"] = f"{core}-{core + 1}"
        for part in ("die", "package"):
            texts[f"cpu{cpu}/topology/{part}_cpus_list"] = f"{package}-{package + 3}"
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("name", "of_tasks", "of_cpus"),
    [
        ("num_cpus", 9, 9),
        ("num_cpus_online", 8, 8),
        ("num_cores", 4, 4),
        ("num_dies", 2, 2),
        ("num_packages", 2, 2),
        ("smt_on", 1, 1),
        ("core_wide", 0, 1),
        ("target_cpu", 0, 1),
    ],
)
def test_facts(machine: str, name: str, of_tasks: int, of_cpus: int) -> None:
    assert machine_values([name], on_cpus=False, root=machine) == {name: of_tasks}
    assert machine_values([name, "duration_time"], on_cpus=True, root=machine) == {name: of_cpus}


def test_every_fact_has_a_value_on_this_machine() -> None:
    actual_machine_values = machine_values(MACHINE_VALUES, on_cpus=True)
    assert set(actual_machine_values) == set(MACHINE_VALUES)
    assert actual_machine_values["num_cpus_online"] == os.sysconf("SC_NPROCESSORS_ONLN")


def test_a_command_that_has_not_ended_has_no_times() -> None:
    assert times(5, None) == {"duration_time": 5}
