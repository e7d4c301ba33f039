"""Recording a HiSilicon PMCU against a kernel: a stand-in module fills the AUX area with numbers that can be computed."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.abi.records import Aux
from tests.builders import pmcu

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.auxtrace.pmcu import PmcuTrace
    from tests.builders.guests import Guest

STANDIN = Path(__file__).with_name("pmcu_standin")
PMU = "hisi_pmcu_sccl0"
THREE = [0x10, 0x11, 0x12]
ELEVEN = list(range(0x20, 0x2B))


@pytest.fixture(scope="module")
def ran(boot: Callable[[str], Guest], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder with the recordings, and what was said."""
    arm64 = boot("arm64")
    built = tmp_path_factory.mktemp("module")
    process = subprocess.run(
        [str(STANDIN / "build"), str(arm64.testbed), str(built)], capture_output=True, text=True, check=False, timeout=600
    )
    if process.returncode:
        pytest.skip(f"the stand-in module cannot be built: {last_line(process.stderr)}")
    shutil.copy(built / "pmcu_standin.ko", arm64.folder)
    result = arm64.run((STANDIN / "session.sh").read_text())
    assert result.status == 0, result.text
    return arm64.folder, result


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def test_a_missing_cross_compiler_is_named_with_its_package(tmp_path: Path) -> None:
    """Needs no guest."""
    line = [str(STANDIN / "build"), str(tmp_path), str(tmp_path)]
    process = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env={"PATH": str(tmp_path)})
    assert process.returncode == 1
    assert last_line(process.stderr) == "no aarch64-linux-gnu-gcc on this machine (Debian: apt install gcc-aarch64-linux-gnu)"


def trace_of(recording: perfpy.Recording) -> PmcuTrace:
    assert recording.pmcu is not None
    return recording.pmcu


def counts(events: list[int], samples: int, cpus: int = 8) -> list[int]:
    return [pmcu.value_of(sample, cpu, event) for sample in range(samples) for event in events for cpu in range(cpus)]


@pytest.mark.parametrize("name", ["plain", "piped", "system"])
def test_every_number_is_the_one_that_the_module_wrote(ran: tuple[Path, Any], name: str) -> None:
    with perfpy.open(ran[0] / name) as recording:
        trace = trace_of(recording)
        columns = trace.to_dict()
        assert (trace.name, trace.period_ms, recording.warnings) == (PMU if name != "piped" else trace.name, 2, [])
    assert columns["count"].tolist() == counts(THREE, 20)
    assert columns["pid"].tolist() == [1000 + cpu for cpu in columns["cpu"].tolist()]
    assert columns["cycles"].tolist() == [
        pmcu.cycles_of(a, b, 0) for a, b in zip(columns["sample"].tolist(), columns["cpu"].tolist(), strict=True)
    ]


def test_the_area_is_filled_several_times_without_a_loss(ran: tuple[Path, Any]) -> None:
    """16 KiB for 77 kB; events given with the event; two subsamples."""
    with perfpy.open(ran[0] / "wrapped") as recording:
        trace = trace_of(recording)
        assert sum(piece.size for piece in trace.pieces) > 4 * 16384
        assert trace.to_dict()["count"].tolist() == counts(ELEVEN, 60)
        assert recording.warnings == []


def test_samples_lost_by_the_hardware_are_flagged_and_others_right(ran: tuple[Path, Any]) -> None:
    """The recorder stands still for a second while a sample comes each millisecond."""
    with perfpy.open(ran[0] / "lossy") as recording:
        trace = trace_of(recording)
        columns = trace.to_dict()
        assert any("lost data" in warning for warning in recording.warnings)
        flags = [side.record.flags for side in recording.side_band() if isinstance(side.record, Aux)]
    assert 1 in flags
    numbers = [
        (count - 1_000_000 * event - cpu) / 64
        for count, event, cpu in zip(*(columns[n].tolist() for n in ("count", "event", "cpu")), strict=True)
    ]
    assert all(number.is_integer() for number in numbers)
    first_numbers = numbers[:: len(THREE) * 8]
    assert first_numbers == sorted(first_numbers)
    assert max(later - before for before, later in itertools.pairwise(first_numbers)) > 100
    assert len(trace) == 400


def test_other_events_are_recorded_beside_it(ran: tuple[Path, Any]) -> None:
    with perfpy.open(ran[0] / "mixed") as recording:
        assert [event.name for event in recording.events][1:] == ["cpu-clock", "dummy:u"]
        assert trace_of(recording).to_dict()["count"].tolist() == counts(THREE, 30)
        (row,) = recording.report(by=["comm"]).top(1)
        assert row.texts["comm"].strip() == "python3"


def test_a_command_that_ends_early_leaves_the_samples_until_then(ran: tuple[Path, Any]) -> None:
    with perfpy.open(ran[0] / "early") as recording:
        trace = trace_of(recording)
        assert 5 < len(trace) < 1000
        assert trace.to_dict()["count"].tolist() == counts(THREE, len(trace))


def test_compatible_mode_of_four_clusters(ran: tuple[Path, Any]) -> None:
    with perfpy.open(ran[0] / "compatible") as recording:
        columns = trace_of(recording).to_dict()
    assert columns["count"].tolist() == counts([1, 2, 3, 4, 5, 6, 7], 7, cpus=32)
    assert set(columns["cycles"].tolist()) == {0}


def test_contradictions_are_reported_before_anything_is_opened(ran: tuple[Path, Any]) -> None:
    assert "has no events to count" in ran[1].section("untold")
    assert "status 129" in ran[1].section("untold")
    assert "run as root" in ran[1].section("user")


def test_the_dump_has_the_numbers(ran: tuple[Path, Any]) -> None:
    text = ran[1].section("dump")
    assert text.count(f" {pmcu.value_of(19, 7, 0x12):016x} Event 0012 CPU 7\n") == 1
    assert text.count("Cycle count CPU 3\n") == 20
