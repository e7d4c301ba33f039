"""Tests that --switch-on and --switch-off of script and report keep the samples that perf keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.kernel_symbols import few_symbols
from tests.builders.prepared_start import PERFPY, run
from tests.builders.report_lines import at_fixed_addresses

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

# perf 6.12 forgets --switch-off at once where there is no --switch-on, so that pair alone is compared
LINES = [
    "--switch-on context-switches",
    "--switch-on page-faults --switch-off context-switches",
    "--switch-on page-faults --switch-off context-switches --show-on-off-events",
    "--switch-on task-clock --switch-off task-clock --time 20%-80%",
    "--switch-on page-faults --switch-off context-switches -c second",
    "--switch-on page-faults --show-on-off-events --no-inline",
]


#: each round faults, works and waits; every fault is recorded, so that work follows one whoever else wants the CPU
WORK = """
import mmap, os, time
for name in ("first", "second"):
    if os.fork() == 0:
        with open("/proc/self/comm", "w") as comm:
            comm.write(name)
        for _ in range(10):
            memory = mmap.mmap(-1, 32 * mmap.PAGESIZE)
            for page in range(32):
                memory[page * mmap.PAGESIZE] = 1
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            time.sleep(0.001)
        os._exit(0)
os.wait(), os.wait()
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, perf: str) -> Path:
    path = tmp_path_factory.mktemp("switched") / "perf.data"
    events = [
        "task-clock/freq=2000,name=task-clock/",
        "page-faults/period=1,name=page-faults/",
        "context-switches/period=1,name=context-switches/",
    ]
    command = [perf, "record", "-q", *(word for event in events for word in ("-e", event)), "-o", str(path)]
    subprocess.run([*command, *at_fixed_addresses(), sys.executable, "-c", WORK], check=True, capture_output=True, timeout=120)
    return path


def printed(program: list[str], command: str, options: str, path: Path) -> list[bytes]:
    environment = os.environ | {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "COLUMNS": "200"}
    view = [*few_symbols(path.parent), *(["--stdio", "-q"] if command == "report" else [])]
    process = run([*program, command, *view, *options.split(), "-i", str(path)], env=environment, check=True)
    return process.stdout.splitlines()


@pytest.mark.parametrize("command", ["script", "report"])
@pytest.mark.parametrize("options", LINES)
def test_the_same_samples_are_kept(perf: str, recording: Path, command: str, options: str) -> None:
    expected = printed([perf], command, options, recording)
    assert expected
    assert printed(PERFPY, command, options, recording) == expected
