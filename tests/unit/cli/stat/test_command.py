"""The lines of `stat -v` about the machine, and lines that stat refuses."""

from __future__ import annotations

import pytest

from perfpy.cli import run
from perfpy.cli.stat.command import machine_lines
from perfpy.cli.stat.options import StatCommandOptions, plan_of
from perfpy.errors import PerfError


def test_the_cpu_has_its_numbers_as_perf_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In hexadecimal, and as PERF_CPUID says."""
    monkeypatch.setenv("PERF_CPUID", "GenuineIntel-6-A7-8")
    assert "Using CPUID GenuineIntel-6-A7-8" in list(machine_lines(controlled=True))


@pytest.mark.parametrize("line", ["-a -G / -e cycles true", "-G / true"])
def test_cgroups_apply_to_the_events_before_them(line, capsys):
    assert run(["stat", *line.split()]) == 129
    assert "-G requires -e before it" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--transaction", "--smi-cost"])
def test_a_warning_tells_that_options_with_their_own_metrics_ignore_details(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """perf leaves -d out without a word."""
    name = option.removeprefix("--").replace("-", "_")
    options = StatCommandOptions(**{name: True}, detailed=1, metrics=("nosuchmetric",), workload=("true",))
    with pytest.raises(PerfError):  # no such metrics here
        plan_of(options)
    assert f"warning: -d has no effect beside {option}" in capsys.readouterr().err
