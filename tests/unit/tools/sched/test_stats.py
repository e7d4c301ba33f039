"""/proc/schedstat as numbers, and snapshots of it around a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.errors import PerfError
from perfpy.tools.sched.stats import EnabledStatistics, parse_schedstat, read_schedstat, read_statistics, take_snapshots, write_snapshots
from tests.builders.schedstats import DOMAIN_COUNTS, schedstat_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", [15, 16, 17])
def test_each_version_is_parsed(version: int) -> None:
    snapshot = parse_schedstat(schedstat_text(version, time=100, factor=3))
    assert (snapshot.version, snapshot.timestamp, [line.cpu for line in snapshot.cpus]) == (version, 100, [0, 1])
    domain = snapshot.cpus[1].domains[0]
    assert (domain.number, domain.name, domain.cpus) == (0, "SMT" if version == 17 else "", (0, 1))
    assert len(domain.counts) == DOMAIN_COUNTS[version]
    assert snapshot.cpus[0].counts == tuple(3 * number for number in range(1, 10))


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        ("", "no version"),
        ("version 18\ntimestamp 1\n", "version 18"),
        ("version 17\ntimestamp 1\ncpu0 1 2\n", "2 counters"),
        ("version 17\ntimestamp 1\ncpu0 1 2 3 4 5 6 7 8 9\ndomain0 SMT\n", "no CPUs"),
        ("version 17\ntimestamp 1\nother 1\n", "unexpected line"),
        ("version 17\ntimestamp 1\ncpu0 1 2 3 4 5 6 7 8 x\n", "invalid literal"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(damaged: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "schedstat"
    path.write_text(damaged)
    with pytest.raises(PerfError, match=reason):
        read_schedstat(str(path))


def test_a_missing_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="CONFIG_SCHEDSTATS"):
        read_schedstat(str(tmp_path / "none"))


def test_snapshots_around_a_command_become_a_recording(tmp_path: Path) -> None:
    path, later, output = tmp_path / "schedstat", tmp_path / "later", tmp_path / "perf.data"
    path.write_text(schedstat_text(17, time=100, factor=3))
    later.write_text(schedstat_text(17, time=350, factor=5))
    snapshots, status = take_snapshots(["sh", "-c", f"cp {later} {path}; exit 3"], str(path))
    write_snapshots(str(output), snapshots, ["perfpy"])
    with perfpy.open(str(output)) as recording:
        statistics = read_statistics(recording.data)
    assert (status, statistics.jiffies, statistics.version) == (3, 250, 17)
    assert statistics.cpus[0].counts == tuple(2 * number for number in range(1, 10))
    assert statistics.names[0, 1] == ("MC", "0-1")


def test_the_kernels_switch_is_put_back(tmp_path: Path) -> None:
    switch = tmp_path / "sched_schedstats"
    switch.write_text("0\n")
    with EnabledStatistics(str(switch)):
        assert switch.read_text()[0] == "1"
    assert switch.read_text()[0] == "0"
