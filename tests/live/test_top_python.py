"""perfpy top --python: the functions of running Python programs, for root by copies of the kernel, for others by readings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from tests.builders.pythons import interpreter
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

TOP = [sys.executable, "-m", "perfpy", "top", "--python", "-e", "task-clock"]
PROGRAM = """
def cool(n):
    for i in range(n): i * i
def hot(n):
    for i in range(n): i * i
def work():
    hot(9000)
    cool(1000)
def late():
    for i in range(1000): work()
for i in range(300): work()
while True: late()
"""


@pytest.fixture(params=["3.12", "3.8"])
def spinning(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    python = interpreter(request.param)
    if not python:
        pytest.skip(f"no Python {request.param} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM)
    with subprocess.Popen([python, "program.py"], cwd=tmp_path) as started:
        time.sleep(0.3)
        yield started
        started.kill()


def updates(*words: str) -> list[dict[str, Any]]:
    process = subprocess.run([*TOP, "--json", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def rows(update: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    return {row["keys"][key].strip().split(" ")[0]: row for row in update["events"][0]["rows"]}


def test_rows_are_functions_with_their_share(spinning: subprocess.Popen[bytes]) -> None:
    first, last = updates("-p", str(spinning.pid), "-F", "997", "-d", "1", "--updates", "2")
    assert rows(first, "pyfunc")["hot"]["overhead"] > 60
    row_of = rows(last, "pyfunc")
    assert row_of["hot"]["overhead"] > 75
    assert 1 < row_of["cool"]["overhead"] < 25
    assert sum(row["overhead"] for name, row in row_of.items() if name not in ("hot", "cool", "work", "late", "<module>")) < 10


@pytest.mark.thorough
def test_rows_are_lines_and_have_callers(spinning: subprocess.Popen[bytes]) -> None:
    (update,) = updates("-p", str(spinning.pid), "-F", "997", "-d", "1", "--updates", "1", "--sort", "pyline", "--children")
    results = {row["keys"]["pyline"].strip(): row for row in update["events"][0]["rows"]}
    (calls,) = (row for text, row in results.items() if text.startswith("work") and text.endswith("program.py:7"))
    assert calls["overhead_children"] > 60
    (hot,) = (row for text, row in results.items() if text.startswith("hot") and text.endswith("program.py:5"))
    assert hot["overhead"] > 60


@pytest.mark.skipif(os.geteuid() != 0, reason="root, to take away permissions")
@pytest.mark.thorough
def test_without_permission_to_load_programs_frames_are_read(spinning: subprocess.Popen[bytes]) -> None:
    launcher = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-all", "--"]
    words = [*TOP, "--json", "-p", str(spinning.pid), "-F", "499", "-d", "2", "--updates", "1"]
    process = subprocess.run([*launcher, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
    assert process.returncode == 0, process.stderr
    assert rows(json.loads(process.stdout), "pyfunc")["hot"]["overhead"] > 60


def test_the_screen_sorts_by_self_and_writes_names(
    spinning: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ["w", "q"]

    def watch(_pid: int, text: str) -> bytes | None:
        is_due = keys and "hot " in text and (text.count("samples/s") > 2 if keys[0] == "w" else "perfpy report" in text)
        return keys.pop(0).encode() if is_due else None

    terminal = on_terminal("top", "--python", "-e", "task-clock", "-p", str(spinning.pid), "-d", "0.5", watch=watch)
    assert terminal.status == 0
    with perfpy.open("perf.data") as recording:
        results = {row.texts["pyfunc"].split(" ")[0]: row.percent for row in recording.report(by="pyfunc")}
        assert results["hot"] > 60
        assert recording.warnings == []


def test_fp_callchains_are_refused_with_a_remedy() -> None:
    process = subprocess.run([*TOP, "--call-graph", "fp", "-p", str(os.getpid())], capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 255 or process.returncode == 129
    assert "leave out --call-graph fp" in process.stderr
