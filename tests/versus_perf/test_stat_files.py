"""Tests of files of saved counts: perf stat report and perfpy stat report show the same, for files of either tool."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.versus_perf, pytest.mark.live, pytest.mark.system_wide]

PERFPY = [sys.executable, "-m", "perfpy"]
REQUESTS = [
    "-e cs,task-clock",
    "-e cs:u,faults:u,msr/tsc/",
    "-e cycles,cs",
    "-d",
    "-C 0 -e cs",
    "-a -e {cs,faults},cpu-clock",
    "-a --per-core -e cs,cpu-clock",
    "-a --per-socket -e cs",
]


def stat(program: list[str], *arguments: str) -> str:
    run = subprocess.run([*program, "stat", *arguments], capture_output=True, text=True, check=True, timeout=60)
    return run.stderr


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("writer", ["perf", "perfpy"])
def test_both_show_the_same_counts(perf: str, tmp_path: Path, writer: str, request_: str) -> None:
    """Byte for byte."""
    path = str(tmp_path / "counts.data")
    stat([perf] if writer == "perf" else PERFPY, "record", "-o", path, *request_.split(), "--", "true")
    ours, theirs = (stat(program, "report", "-i", path) for program in (PERFPY, [perf]))
    assert ours == theirs
    assert "seconds time elapsed" in ours


@pytest.mark.parametrize("writer", ["perf", "perfpy"])
def test_a_pipe_is_named_as_pipe(perf: str, writer: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe.data"
    with path.open("wb") as file:
        program = [perf] if writer == "perf" else PERFPY
        subprocess.run(
            [*program, "stat", "record", "-o", "-", "-e", "cs", "true"], stdout=file, stderr=subprocess.PIPE, check=True, timeout=60
        )
    ours, theirs = (stat(program, "report", "-i", str(path)) for program in (PERFPY, [perf]))
    assert ours == theirs
    assert "Performance counter stats for 'pipe':" in ours


def test_intervals_equal_perfs(perf: str, tmp_path: Path) -> None:
    """perf's report shows counts since the start beside each time; perfpy's shows each interval's, as both do while counting."""
    for writer in (PERFPY, [perf]):
        path = str(tmp_path / "counts.data")
        stat(writer, "record", "-o", path, "-I", "40", "-e", "task-clock", "--", "sleep", "0.5")
        ours, theirs = (stat(program, "report", "-i", path).splitlines() for program in (PERFPY, [perf]))
        assert [line.split()[0] for line in ours] == [line.split()[0] for line in theirs]
        assert len(ours) >= 3


@pytest.mark.parametrize("form", ["-A", "--per-thread"])
@pytest.mark.parametrize("request_", ["-a -A -e cpu-clock", "-a -e cpu-clock,page-faults", "-e task-clock,page-faults"])
@pytest.mark.parametrize("writer", ["perf", "perfpy"])
def test_both_distinguish_cpus_and_threads(perf: str, tmp_path: Path, writer: str, request_: str, form: str) -> None:
    """Names are as in the file; a file of tasks has no CPUs to distinguish; all tasks are number -1."""
    path = str(tmp_path / "counts.data")
    stat([perf] if writer == "perf" else PERFPY, "record", "-o", path, *request_.split(), "--", "true")
    ours, theirs = (stat(program, "report", form, "-i", path) for program in (PERFPY, [perf]))
    assert ours == theirs
    assert "seconds time elapsed" in ours


@pytest.mark.parametrize("options", ["-x,", "-x : -A", "-j", "--metric-only", "-x, --metric-only", "--quiet", "--no-big-num"])
def test_options_before_the_subcommand_apply(perf: str, tmp_path: Path, options: str) -> None:
    """`stat -x, report` is `stat report` as CSV."""
    path = str(tmp_path / "counts.data")
    stat(PERFPY, "record", "-o", path, "-a", "-e", "cpu-clock,page-faults", "--", "true")
    *before, after = [*options.split(), "-A"] if "-A" not in options else options.split()
    ours, theirs = (stat(program, *before, "report", after, "-i", path) for program in (PERFPY, [perf]))
    assert ours == theirs


@pytest.mark.parametrize("option", ["-ecs", "-i", "-I100", "-a", "-r3"])
def test_counting_options_are_refused_before_report(option: str) -> None:
    run = subprocess.run([*PERFPY, "stat", option, "report"], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 129
    assert f"{option[:2]}" in run.stderr
    assert "stat report does not count" in run.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_a_file_of_another_user_is_refused_as_perf_does(perf: str, tmp_path: Path) -> None:
    path = str(tmp_path / "counts.data")
    stat(PERFPY, "record", "-o", path, "-e", "task-clock", "--", "true")
    text = stat(PERFPY, "report", "-i", path)
    os.chown(path, 65534, -1)
    for program in ([perf], PERFPY):
        run = subprocess.run([*program, "stat", "report", "-i", path], check=False, capture_output=True, text=True, timeout=60)
        assert (run.returncode == 0, "-f" in run.stderr) == (False, True)
    assert stat(PERFPY, "report", "-f", "-i", path) == text
