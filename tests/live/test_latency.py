"""`perfpy latency` agrees with a program's own clock, and temporary probes are removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import KernelRefusedError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.system_wide]
PERFPY = [sys.executable, "-m", "perfpy"]
SOURCE = r"""
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
__attribute__((noinline)) int work(int n) { if (n % 2) usleep(4000 + n * 100); else { long end = now() + 3000000; while (now() < end); }
  return n; }
int main(void) { FILE *truth = fopen("truth.txt", "w"); for (int i = 0; i < 40; i++) { long begin = now(); work(i);
  fprintf(truth, "%ld\n", now() - begin); } return 7; }
"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> None:
    try:
        events = ProbeEvents(Tracefs(mount=mount_as_root))
        events.lines(is_kernel=False)
    except KernelRefusedError as refused:
        pytest.skip(str(refused))
    if os.geteuid() or not events.has_kind(is_kernel=False):
        pytest.skip("adding probes needs root and a kernel with uprobes")


def lines_for(folder: Path) -> list[str]:
    return [line for line in ProbeEvents(Tracefs()).lines(is_kernel=False) if str(folder) in line]


def run(*args: str, folder: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    process = subprocess.run([*PERFPY, *args], capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == status, process.stderr
    return process


def test_percentiles_equal_the_programs_own(tmp_path: Path) -> None:
    compiled(tmp_path, "app", "-O1 -g", SOURCE)
    answer = json.loads(run("latency", "-j", "work n", "--", "./app", folder=tmp_path, status=7).stdout)
    truth = sorted(int(line) for line in (tmp_path / "truth.txt").read_text().split())
    assert answer["calls"] == len(truth)
    assert answer["p50"] == pytest.approx(truth[19], rel=0.05)
    assert answer["p90"] == pytest.approx(truth[35], rel=0.05)
    assert answer["slowest"][0]["comm"] == "app"
    assert answer["slowest"][0]["callers"][0] == "main"
    assert 0 < answer["off-cpu"] <= answer["total"]
    assert not lines_for(tmp_path)


def test_a_probe_exists_for_one_measurement(tmp_path: Path) -> None:
    compiled(tmp_path)
    counted = run("stat", "-x,", "-e", "uprobe:./shop:cost", "-e", "./shop:main%return", "--", "./shop", folder=tmp_path).stderr
    assert [line.split(",")[0] for line in counted.splitlines() if "probe_shop" in line] == ["20", "1"]
    run("record", "-q", "-o", "p.data", "-e", "./shop:cost count it->name:string", "--", "./shop", folder=tmp_path)
    assert 'count=19 name="apple"' in run("script", "-i", "p.data", folder=tmp_path).stdout
    run("stat", "-e", "./shop:cost", "--", "./shop-that-is-missing", folder=tmp_path, status=255)
    run("stat", "-e", "./shop:main", "--", "sh", "-c", "kill -SEGV $$", folder=tmp_path, status=139)
    assert not lines_for(tmp_path)


def test_the_next_measurement_removes_probes_of_a_killed_one(tmp_path: Path) -> None:
    compiled(tmp_path)
    killed = subprocess.Popen(
        [*PERFPY, "record", "-q", "-o", "k.data", "-e", "./shop:cost", "--", "sleep", "60"], cwd=tmp_path, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not lines_for(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert f"_by{killed.pid}/" in lines_for(tmp_path)[0]
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    run("stat", "-e", "./shop:main", "--", "./shop", folder=tmp_path)
    assert not lines_for(tmp_path)


def test_trace_shows_the_calls_before_a_slow_one(tmp_path: Path) -> None:
    compiled(tmp_path, "app", "-O1 -g", SOURCE)
    trace = tmp_path / "calls.json"
    words = ["--when", "work > 7ms", "--last", "20ms", "--chrome-trace", str(trace), "--", "./app"]
    run("trace", "--calls=work,mai*", *words, folder=tmp_path, status=7)
    calls = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    works = [call["dur"] for call in calls if call["name"] == "work"]
    truth = [int(line) / 1000 for line in (tmp_path / "truth.txt").read_text().split()]
    slow = next(index for index, took in enumerate(works) if took > 7000)
    assert slow == len(works) - 1 >= 1
    assert any(abs(took - works[-1]) < 1000 for took in truth if took > 7000)
    assert [call["args"] for call in calls if call["name"] == "main"] == [{"returned": False}]
    assert len(truth) == 40, "the program goes on when the trace has ended"
    assert lines_for(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGINT])
def test_a_signal_ends_the_trace_of_calls(number: int, tmp_path: Path) -> None:
    compiled(tmp_path, "app", "-O1 -g", SOURCE.replace("i < 40", "i < 4000"))
    app = subprocess.Popen(["./app"], cwd=tmp_path)
    try:
        words = [*PERFPY, "trace", "--calls=work", "--last=50ms", "-p", str(app.pid), "-o", "calls.txt"]
        tracer = subprocess.Popen(words, cwd=tmp_path)
        deadline = time.monotonic() + 60
        while not lines_for(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        tracer.send_signal(number)
        assert tracer.wait(60) == 0
        assert app.poll() is None
    finally:
        app.kill()
        app.wait()
    lines = (tmp_path / "calls.txt").read_text().splitlines()
    assert 3 <= sum(line.endswith("  work") for line in lines) <= 30
