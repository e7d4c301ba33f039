"""record --python for root: the kernel copies frames with their samples; without BPF a process reads them later."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions, permission to load BPF programs

#: each function has one caller, and returns within microseconds
PROGRAM = """
import threading, time
def leaf_a(k): return k * 3 & 0xffff
def leaf_b(k): return k * 5 & 0xffff
def branch_a(k):
    for _ in range(3): k = leaf_a(k)
    return k
def branch_b(k):
    for _ in range(3): k = leaf_b(k)
    return k
def values(n):
    for k in range(n): yield branch_a(k) + branch_b(k)
def run():
    while time.time() < END: sum(values(50))
END = time.time() + 200
threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
run()
"""
ENOUGH_SAMPLES = 500  # the first of each thread has no copy
CALLERS = {"leaf_a": "branch_a", "leaf_b": "branch_b", "branch_a": "values", "branch_b": "values", "values": "run"}


@pytest.fixture(scope="module", params=["3.8", "3.11", "3.12", "3.13", "3.14"])
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    return path


def recorded(folder: Path, python: str) -> str:
    """Record the running program until there are enough samples; return what record prints."""
    (folder / "program.py").write_text(PROGRAM)
    with subprocess.Popen([python, "program.py"], cwd=folder) as process:
        try:
            time.sleep(0.3)
            for seconds in ("1", "6", "30"):  # a busy machine gives the program little time
                words = [
                    "record",
                    "--python",
                    "-o",
                    "perf.data",
                    "-e",
                    "cpu-clock",
                    "-F",
                    "1999",
                    "-p",
                    str(process.pid),
                    "--",
                    "sleep",
                    seconds,
                ]
                result = subprocess.run([*PERFPY, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
                assert result.returncode == 0, result.stderr
                count = re.search(r"functions in \d+ of (\d+) samples", result.stderr)
                if count and int(count[1]) > ENOUGH_SAMPLES:
                    break
            assert process.poll() is None
        finally:
            process.kill()
    return result.stderr


def calls(folder: Path) -> list[tuple[str, str]]:
    text = output_of([*PERFPY, "script", "-F", "ip,sym"], cwd=folder)
    chains = [re.findall(r"py::(\w+):(?!<built-in)", block) for block in text.split("\n\n")]
    return [pair for chain in chains for pair in pairwise(chain)]


@pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")
def test_copied_frames_have_their_own_callers(python: str, tmp_path: Path):
    result = recorded(tmp_path, python)
    assert "the kernel copied frames with their samples" in result
    exact, with_function = re.search(r"\((\d+) exact", result), re.search(r"functions in (\d+) of (\d+) samples", result)
    assert with_function
    assert int(exact[1] if exact else with_function[1]) >= 0.95 * int(with_function[2])
    actual_calls = calls(tmp_path)
    assert len(actual_calls) > 200
    wrong = [pair for pair in actual_calls if pair[0] in CALLERS and pair[1] != CALLERS[pair[0]]]
    others = re.search(r"; frames of (\d+) samples were read", result)  # the first sample of each thread
    assert len(wrong) <= 2 * int(others[1] if others else 0), wrong


@pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")
@pytest.mark.thorough
def test_waits_have_copied_frames_too(tmp_path: Path):
    """Wakeups are samples, too, and take no copies."""
    python = interpreter("3.12")
    if not python:
        pytest.skip("no Python 3.12 on this machine")
    (tmp_path / "program.py").write_text(PROGRAM.replace("+ 200", "+ 2"))
    command = [sys.executable, "-m", "perfpy", "record", "--python", "--off-cpu", "-o", "perf.data", "--", python, "program.py"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    copied, others = re.search(r"functions in (\d+) of", process.stderr), re.search(r"; frames of (\d+) samples were read", process.stderr)
    assert copied
    assert int(others[1] if others else 0) < 0.1 * int(copied[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")
def test_waits_have_copied_frames_after_a_process_has_ended(tmp_path: Path):
    """A wrapper script has started and ended processes before Python runs, as pyenv's does."""
    python = interpreter("3.12")
    if not python:
        pytest.skip("no Python 3.12 on this machine")
    (tmp_path / "program.py").write_text("import time\nfor _ in range(300): time.sleep(0.002)\n")
    (tmp_path / "wrapper").write_text(f"#!/bin/sh\n(true)\n(true)\nexec {python} program.py\n")
    (tmp_path / "wrapper").chmod(0o755)
    command = [sys.executable, "-m", "perfpy", "record", "--python", "--off-cpu", "-o", "perf.data", "--", "./wrapper"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    copied, others = re.search(r"functions in (\d+) of", process.stderr), re.search(r"; frames of (\d+) samples were read", process.stderr)
    assert copied
    assert int(copied[1]) > 200
    assert int(others[1] if others else 0) < 0.2 * int(copied[1]), process.stderr


FIGHT = """
import threading, time
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def fights():
    while time.time() < END: spin(3000)
def sleeps():
    while time.time() < END: time.sleep(0.3)
END = time.time() + 3
threads = [threading.Thread(target=part) for part in (fights, fights, sleeps)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="loading BPF programs needs root")
@pytest.mark.thorough
def test_waits_for_the_lock_name_its_holder(python: str, tmp_path: Path):
    """Of two threads that always run, one always waits; time.sleep releases the lock."""
    (tmp_path / "program.py").write_text(FIGHT)
    command = [sys.executable, "-m", "perfpy", "record", "-q", "--python", "--off-cpu", "-o", "perf.data", "--", python, "program.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    report = [*PERFPY, "report", "--stdio", "-s", "gil,pyfunc", "--no-children", "-g", "none", "--with-off-cpu"]
    text = output_of(report, cwd=tmp_path)
    rows = re.findall(r"^ +[\d.]+% +([\d.]+)  (\w+|-) +(\S.*?) *$", text, re.MULTILINE)
    by_state: dict[str, float] = {}
    for seconds, state, _ in rows:
        by_state[state] = by_state.get(state, 0) + float(seconds)
    assert by_state["waits"] == pytest.approx(3, rel=0.35)
    if "3.8" in python:  # its thread states do not have the number of their thread
        return
    holders = sum(float(seconds) for seconds, state, name in rows if state == "waits" and "[GIL held by" in name)
    assert holders > 0.9 * by_state["waits"]
    asleep = {state: float(seconds) for seconds, state, name in rows if name.startswith(("sleeps ", "time.sleep "))}
    assert max(asleep, key=lambda state: asleep[state]) == "released"
    assert float(next(seconds for seconds, state, name in rows if state == "holds" and name.startswith("spin "))) > 0.3


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="a pid namespace needs root and unshare")
@pytest.mark.thorough
def test_without_them_frames_are_read_later(tmp_path: Path):
    """In a pid namespace the kernel's pids are not those of the recorder.

    What is read later can be a later call: of PROGRAM's calls, which take microseconds, 86 to 92 % are still right.
    """
    python = interpreter("3.12")
    if not python:
        pytest.skip("no Python 3.12 on this machine")
    (tmp_path / "program.py").write_text(PROGRAM.replace("+ 200", "+ 2"))
    words = ["record", "--python", "-o", "perf.data", "-e", "cpu-clock", "-F", "999", "--", python, "program.py"]
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "perfpy", *words]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    assert re.search(r"; frames were read [\d.]+ ms after their samples", process.stderr), process.stderr
    results = [pair for pair in calls(tmp_path) if pair[0] in CALLERS]
    assert len(results) > 100
    assert sum(pair[1] == CALLERS[pair[0]] for pair in results) > 0.75 * len(results)
