"""perfpy stacks: the functions and lines of all threads of a running Python program, also while they wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

STACKS = [sys.executable, "-m", "perfpy", "stacks"]
PROGRAM = """
import threading, time
lock = threading.Lock()
def holds():
    with lock:
        time.sleep(1000)
def hangs():
    lock.acquire()
def spins():
    while True: pass
def generates():
    yield 1
    time.sleep(1000)
for part in (holds, spins, hangs):
    threading.Thread(target=part, daemon=True, name=f"that {part.__name__}").start()
    time.sleep(0.1)
open("ready", "w").close()
for each in generates(): pass
"""
LINES = {"holds": 6, "hangs": 8, "spins": 10, "generates": 13}


def stacks(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*STACKS, *words], capture_output=True, text=True, timeout=100, check=False)


def start(python: str, folder: Path) -> subprocess.Popen[bytes]:
    (folder / "program.py").write_text(PROGRAM)
    process = subprocess.Popen([python, "program.py"], cwd=folder)
    end = time.monotonic() + 60
    while not (folder / "ready").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return process


@pytest.fixture(params=["3.12", "3.8", "3.13", "3.11", "3.14", "3.15"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    python = interpreter(request.param)
    if not python:
        pytest.skip(f"no Python {request.param} on this machine")
    with start(python, tmp_path) as process:
        yield process
        process.kill()


def test_each_thread_has_its_function_and_line(program: subprocess.Popen[bytes]) -> None:
    result = stacks("-p", str(program.pid), "--json")
    assert result.returncode == 0, result.stderr
    (process,) = json.loads(result.stdout)["processes"]
    innermost = {thread["frames"][0]["function"]: thread for thread in process["threads"]}
    assert {name: thread["frames"][0]["line"] for name, thread in innermost.items()} == LINES
    assert [name for name, thread in innermost.items() if thread["has_gil"]] in (["spins"], [])  # between two threads nobody holds it
    assert innermost["generates"]["tid"] == program.pid
    assert [frame["function"] for frame in innermost["generates"]["frames"]] == ["generates", "<module>"]
    assert innermost["hangs"]["state"] == "sleeping"
    assert process["others"] == 0
    names = {name: thread["name"] for name, thread in innermost.items()}
    assert names == {"generates": "MainThread", **{name: f"that {name}" for name in ("holds", "hangs", "spins")}}


def test_the_text_has_a_line_for_each_frame(program: subprocess.Popen[bytes]) -> None:
    result = stacks("-p", str(program.pid))
    assert f"Process {program.pid}: " in result.stdout
    assert "\n    hangs (" in result.stdout
    assert "program.py:8)\n" in result.stdout


def test_processes_without_cpython_are_refused(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as process:
        result = stacks("-p", str(process.pid))
        process.kill()
    assert (result.returncode, result.stdout) == (255, "")
    assert "(sleep) does not run CPython" in result.stderr
    assert "no process 2147483647" in stacks("-p", "2147483647").stderr


@pytest.mark.parametrize("words", [[], ["-p", "x"], ["-p", "1,"], ["-p", "-1"], ["-p", "0"], ["-p", "99999999999"]])
def test_wrong_processes_are_refused(words: list[str]) -> None:
    result = stacks(*words)
    assert result.returncode == 129
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="root, to be another user")
def test_without_permission_the_remedy_is_reported(program: subprocess.Popen[bytes]) -> None:
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *STACKS, "-p", str(program.pid)]
    environment = {**os.environ, "HOME": "/nonexistent"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if "No module named" in process.stderr or "Permission denied" in process.stderr:
        pytest.skip("other users may not read this installation")
    assert process.returncode == 255
    assert "may not be read" in process.stderr
