"""The lines of `stat -v` about the machine, and lines that stat refuses."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from perfpy.cli.stat.command import machine_lines
from perfpy.cli.stat.options import StatCommandOptions, of_one_set

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_the_cpu_has_its_numbers_as_perf_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In hexadecimal, and as PERF_CPUID says."""
    monkeypatch.setenv("PERF_CPUID", "GenuineIntel-6-A7-8")
    assert "Using CPUID GenuineIntel-6-A7-8" in list(machine_lines(controlled=True))


@pytest.mark.parametrize("line", ["-a -G / -e cycles true", "-G / true"])
def test_cgroups_apply_to_the_events_before_them(line, capsys):
    assert run(["stat", *line.split()]) == 129
    assert "-G requires -e before it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("-a --table -e nosuch true", 129),  # the event is read before options are compared
        ("-a --table --filter x==1 true", 129),
        ("-C 0 -T -G / true", 129),
        ("-p 999999999 -e nosuch", 129),
        ("--smi-cost -e nosuch true", 129),
        ("-n --cputype nosuch true", 129),
        ("-a --table -e cs true", 234),
        ("-e cs -G / true", 234),
        ("-e cs --for-each-cgroup / true", 234),
    ],
)
def test_the_first_fault_in_perfs_order_decides_the_exit_status(line: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stat", *line.split()]) == status
    assert capsys.readouterr().err.startswith("perfpy stat: ")


@pytest.mark.parametrize(
    ("given", "left", "warnings"),
    [
        ({"transaction": True, "detailed": 1}, {"transaction"}, ["-d has no effect beside --transaction"]),
        ({"smi_cost": True, "detailed": 2}, {"smi_cost"}, ["-d has no effect beside --smi-cost"]),
        ({"smi_cost": True, "topdown": True}, {"smi_cost"}, ["--topdown has no effect beside --smi-cost"]),
        (
            {"transaction": True, "topdown": True, "smi_cost": True},
            {"transaction"},
            ["--topdown has no effect beside --transaction", "--smi-cost has no effect beside --transaction"],
        ),
        ({"topdown": True, "detailed": 1}, {"topdown", "detailed"}, []),
        ({"null": True, "topdown": True, "detailed": 1, "transaction": True, "smi_cost": True}, set(), []),
    ],
)
def test_one_option_with_events_of_its_own_excludes_the_others(given, left, warnings, capsys) -> None:
    """perf leaves them out without a word; -n measures the time alone."""
    options = of_one_set(StatCommandOptions(**given, workload=("true",)))
    assert {name for name in ("transaction", "smi_cost", "topdown", "detailed") if getattr(options, name)} == left
    assert capsys.readouterr().err.splitlines() == [f"warning: {text}" for text in warnings]


def test_retirement_latencies_are_refused_where_an_event_asks_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    """--record-tpebs alone changes nothing, in perf neither."""
    assert run(["stat", "--record-tpebs", "-e", "cpu-clock:R", "true"]) == 129
    assert "--record-tpebs with the modifier R" in capsys.readouterr().err
    assert run(["stat", "--record-tpebs", "-n", "true"]) == 0


def test_raw_counts_are_part_of_the_output_unless_parts_of_the_machine_are_shown(tmp_path: Path) -> None:
    """As perf writes them; with -vv also those of each counter."""
    for arguments, expected in (["-v"], 1), (["-v", "-A"], 0), (["-vv", "-A"], os.cpu_count()):
        path = tmp_path / "out"
        assert run(["stat", "-a", "-e", "cpu-clock", "-o", str(path), *arguments, "true"]) == 0
        assert sum(line.startswith("cpu-clock: ") for line in path.read_text().splitlines()) == expected


def test_names_of_default_events_have_no_pmu_beside_chosen_ones(tmp_path: Path) -> None:
    """Those that -d adds, with a line for each CPU; --all-user adds its modifier to them."""
    path = tmp_path / "out"
    assert run(["stat", "-A", "-C", "0", "-e", "cs", "-d", "-o", str(path), "true"]) == 0
    lines = path.read_text().splitlines()
    assert any("cs [software]" in line for line in lines)
    assert any(line.rstrip().split("#")[0].rstrip().endswith("LLC-loads") for line in lines)
    assert run(["stat", "-C", "0", "-e", "cs", "-d", "--all-user", "-o", str(path), "true"]) == 0
    assert " LLC-loads:u" in path.read_text()
    assert " cs:u" not in path.read_text()


def test_a_recording_without_a_name_goes_into_a_pipe(tmp_path: Path) -> None:
    """As `record` and perf do, so that `stat record true | stat report -i -` works."""
    command = [sys.executable, "-m", "perfpy", "stat", "record", "-e", "cs", "true"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert done.stdout.startswith(b"PERFILE2")
    assert not list(tmp_path.iterdir())


def test_a_negative_timeout_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stat", "--timeout", "-1", "true"]) == 129
    assert "--timeout" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "command", "status"), [("--pre", "exit 3", 3), ("--post", "false", 1), ("--pre", "kill -9 $$", 137)])
def test_a_failing_step_is_reported_and_ends_the_measurement(
    option: str, command: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stat", option, command, "-e", "cs", "true"]) == status
    captured = capsys.readouterr().err
    assert captured == f"{option} '{command}' failed with exit status {status}; the run has no result\n"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs a CPU beside the first")
@pytest.mark.parametrize("part", ["--per-node", "--per-core", "-A"])
def test_times_belong_to_the_first_counted_cpu(part: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert run(["stat", "-C", "1", part, "-x,", "-e", "duration_time,cpu-clock", "-o", str(path), "true"]) == 0
    lines = [line for line in path.read_text().splitlines() if "duration_time" in line or "cpu-clock" in line]
    assert len(lines) == 2
    assert len({line.split(",")[0] for line in lines}) == 1


@pytest.mark.parametrize("command", ["stat", "stat record"])
def test_smi_cost_freezes_the_counters_and_counts_its_metric(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`stat record`, too. The metric is Intel's, so another machine refuses it after the freezing."""
    frozen = []

    @contextlib.contextmanager
    def freeze() -> Iterator[None]:
        frozen.append(command)
        yield

    monkeypatch.setattr("perfpy.kernel.sysfs.FrozenOnSmi", freeze)
    monkeypatch.setattr("perfpy.cli.stat.command.plan_of", lambda options: sys.exit(" ".join(options.metrics)))
    monkeypatch.setenv("PERFPY_DEBUG", "1")
    with pytest.raises(SystemExit) as caught:
        run([*command.split(), "-o", str(tmp_path / "counts"), "--smi-cost", "true"])
    assert (frozen, caught.value.code) == ([command], "smi")
