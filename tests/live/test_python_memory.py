"""record --python: functions and lines of Python programs out of memory, started and running, as the programs measure themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.python_programs import PROGRAM, shares
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

TOLERANCE = 4  # percentage points
ENOUGH_SAMPLES = 600  # a share of 60 % is then off by 8 points once in 15,000 runs
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
STARTED = ("3.10", "3.13")  # test_python_frames.py starts every version
REPORT = ("report", "--stdio", "--children", "-g", "none", "--percent-limit", "0")

#: Lines 7 to 9 take 60, 30 and 10 of 100 parts. Pauses of random length keep work() out of step with the sampling.
LINES = """
import random, time
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def work():
    spin(6000)
    spin(3000)
    spin(1000)
end = time.time() + 300
while time.time() < end:
    work()
    spin(random.randrange(10_000))
"""


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    return path


def perfpy(*words: str, folder: Path) -> str:
    return output_of([*PERFPY, *words], cwd=folder)


def record(*words: str, folder: Path) -> None:
    line = [*PERFPY, "record", "-q", "-o", "perf.data", "--python", "-e", "cpu-clock", "-F", "1999", *words]
    process = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("version", STARTED)
@pytest.mark.thorough
def test_a_program_that_is_started(version: str, tmp_path: Path):
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM.replace("SECONDS", "0.25"))
    record("--", python, "program.py", folder=tmp_path)
    took = json.loads((tmp_path / "took.json").read_text())
    actual_shares = shares(perfpy(*REPORT, "-s", "sym", folder=tmp_path))
    total, in_functions = sum(took.values()), sum(actual_shares.get(name, 0) for name in took)
    assert in_functions > 75  # the rest is the start of Python
    assert {name: 100 * actual_shares.get(name, 0) / in_functions for name in took} == pytest.approx(
        {name: 100 * seconds / total for name, seconds in took.items()}, abs=TOLERANCE
    )


@pytest.mark.thorough
def test_lines_of_a_program_that_runs(python: str, tmp_path: Path):
    (tmp_path / "lines.py").write_text(LINES)
    environment = {**os.environ, "PYTHONPERFSUPPORT": "0"}
    with subprocess.Popen([python, "lines.py"], cwd=tmp_path, env=environment) as process:
        try:
            time.sleep(0.3)
            for seconds in ("1.2", "4", "15", "60"):  # a busy machine gives the program little time
                process.send_signal(signal.SIGCONT)
                record("-p", str(process.pid), "--", "sleep", seconds, folder=tmp_path)
                process.send_signal(signal.SIGSTOP)  # it would spin while its recording is read
                text = perfpy("script", "-F", "ip,sym,srcline", folder=tmp_path)
                lines = re.findall(r"py::work:\S+\s+lines\.py:(\d+)", text)
                if len(lines) > ENOUGH_SAMPLES:
                    break
            assert process.poll() is None
        finally:
            process.kill()
    assert len(lines) > ENOUGH_SAMPLES
    percent = {line: 100 * lines.count(line) / len(lines) for line in "789"}
    assert percent == pytest.approx({"7": 60, "8": 30, "9": 10}, abs=2 * TOLERANCE)
    assert re.search(r"^ *[\d.]+% +[\d.]+% .*py::spin:", perfpy(*REPORT, "-s", "sym", folder=tmp_path), re.MULTILINE)
