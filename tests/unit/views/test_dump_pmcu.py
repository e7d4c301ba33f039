"""Tests of `report` and `script` with a PMCU's counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfpy.cli.commands import load_command
from tests.builders import pmcu


def shown(capfd: pytest.CaptureFixture[str], name: str, *words: str) -> tuple[list[str], str]:
    """Return the output and the errors of a command."""
    assert load_command(name).run(name, list(words)) == 0
    captured = capfd.readouterr()
    return captured.out.splitlines(), captured.err


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "perf.data"
    path.write_bytes(pmcu.recording(pmcu.aux_data([0x10, 0x11], 4)))
    return str(path)


def test_report_sums_up_by_cpu_and_event(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    lines, error = shown(capfd, "report", "-i", path)
    count = sum(pmcu.value_of(sample, 7, 0x11) for sample in range(4))
    cycles = sum(pmcu.cycles_of(sample, 7, 0) for sample in range(4))
    assert f"      7  0x0011  {count:>20}  {cycles:>20}  {count / cycles:>9.3f}" in lines
    count = sum(pmcu.value_of(sample, cpu, 0x10) for sample in range(4) for cpu in range(8))
    assert next(line for line in lines if line.startswith("    all  0x0010")).split()[2] == str(count)
    assert "# hisi_pmcu_sccl0: 4 samples, one each 2 ms, of 8 CPUs" in lines
    assert error == ""


def test_compatible_mode_has_no_cycles(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(path).write_bytes(pmcu.recording(pmcu.aux_data([1, 2], 2, compatible=1)))
    lines, _ = shown(capfd, "report", "-i", path)
    assert lines[4].split()[-2:] == ["-", "-"]


def test_script_prints_a_line_for_each_sample_and_cpu(path: str, capfd: pytest.CaptureFixture[str]) -> None:
    lines, error = shown(capfd, "script", "-i", path)
    assert len(lines) == 4 * 8
    counts = " ".join(f"{event:#06x}={pmcu.value_of(2, 3, event)}/{pmcu.cycles_of(2, 3, 0)}" for event in (0x10, 0x11))
    assert lines[2 * 8 + 3] == f"     2        0.004: [003]    1003 {counts}"
    assert error == ""
    chosen, _ = shown(capfd, "script", "-C", "3", "-i", path)
    assert chosen == lines[3::8]
