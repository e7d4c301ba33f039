"""perfpy leaks: of a function that keeps its memory and one that only uses some, the first one is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

LEAKS = [sys.executable, "-m", "perfpy", "leaks"]
#: scratch allocates eight times as much as keep, and glibc gives keep the pages that scratch has used
PROGRAM = """
import sys, threading, time
kept = []
def keep(size):
    kept.append(bytes(size))
def scratch(size):
    blocks = [bytes(size) for _ in range(8)]
    return len(blocks)
def texts(number):
    kept.append("kept %d" % number)
def more_texts():
    return ["scratch %d" % number for number in range(8)]
def work():
    for number in range(1 << 30):
        if sys.argv[1] == "small":
            texts(number)
            more_texts()
        else:
            keep(3000)
            scratch(3000)
        time.sleep(0.0005)
threading.Thread(target=work, daemon=True).start()
open("ready", "w").close()
time.sleep(1000)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """A function that starts the program."""
    started: list[subprocess.Popen[bytes]] = []

    def start(version: str, size: str) -> int:
        python = interpreter(version)
        if not python:
            pytest.skip(f"no Python {version} on this machine")
        (tmp_path / "program.py").write_text(PROGRAM)
        process = subprocess.Popen([python, "program.py", size], cwd=tmp_path)
        started.append(process)
        end = time.monotonic() + 60
        while not (tmp_path / "ready").exists() and time.monotonic() < end:
            time.sleep(0.02)
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def leaks(*words: str) -> str:
    done = subprocess.run([*LEAKS, *words], capture_output=True, text=True, timeout=100, check=False)
    if "probes on its memory are not possible" in done.stderr or "no probes in programs" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["3.12", *(pytest.param(other, marks=pytest.mark.thorough) for other in ("3.8", "3.10", "3.13"))])
def test_the_line_that_keeps_memory_is_first(version: str, start: Any) -> None:
    growth = json.loads(leaks("-p", str(start(version, "large")), "-d", "1.5", "--json"))
    kept = sum(one["bytes"] for one in growth["retained"])
    shares: dict[str, float] = {}
    for one in growth["retained"]:
        place = f"{one['frames'][0]['function']}:{one['frames'][0]['line']}" if one["frames"] else ""
        shares[place] = shares.get(place, 0) + one["bytes"] / kept
    assert shares["keep:5"] > 0.9, shares
    # keep has one part in nine of what is allocated
    assert kept + growth["young"] == pytest.approx(growth["allocated"] / 9, rel=0.35), growth
    assert 0 < growth["retained"][0]["early_bytes"] < growth["retained"][0]["bytes"]


@pytest.mark.thorough
def test_small_objects_are_found_with_their_own_probes(start: Any) -> None:
    pid = start("3.12", "small")
    growth = json.loads(leaks("-p", str(pid), "-d", "4", "--small-objects", "--json"))
    assert growth["retained"][0]["frames"][0]["function"] == "texts"
    assert "--small-objects" in leaks("-p", str(pid), "-d", "4")


def test_the_text_names_the_line_and_its_callers_also_after_an_interrupt(start: Any) -> None:
    pid = start("3.12", "large")
    with subprocess.Popen([*LEAKS, "-p", str(pid), "-d", "100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(4)
        for child in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout.split():
            subprocess.run(["kill", f"-{int(signal.SIGINT)}", child], check=False)  # as a terminal does
        process.send_signal(signal.SIGINT)
        text, errors = process.communicate(timeout=60)
    if "not possible" in errors or "no probes" in errors:
        pytest.skip(errors)
    assert process.returncode == 0, errors
    assert "  keep (" in text
    assert "called from work (" in text
    assert text.startswith(f"Process {pid}: ")
    assert "--small-objects" not in text


def test_a_killed_command_leaves_no_probes(start: Any) -> None:
    """The child process with the probes ends, too: they slow the program down."""
    pid = start("3.12", "large")
    with subprocess.Popen([*LEAKS, "-p", str(pid), "-d", "100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        children: list[str] = []
        end = time.monotonic() + 30
        while not children and time.monotonic() < end:
            children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout.split()
            time.sleep(0.05)
        time.sleep(1.5)
        process.kill()
        process.wait()
        while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < end:
            time.sleep(0.05)
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_processes_that_cannot_be_watched_are_refused() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        done = subprocess.run([*LEAKS, "-p", str(process.pid)], capture_output=True, text=True, timeout=60, check=False)
        process.kill()
    assert (done.returncode, done.stdout) == (255, "")
    assert "(sleep) does not run CPython" in done.stderr


@pytest.mark.parametrize("words", [[], ["-p", "x"], ["-p", "1,2"], ["-p", "0"], ["-p", "1", "-d", "0"], ["-p", "1", "-d", "nan"]])
def test_wrong_options_are_refused(words: list[str]) -> None:
    done = subprocess.run([*LEAKS, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 129
    assert len(done.stderr.splitlines()) == 1


FORKS = """
import os, time
kept = []
def keep():
    kept.append(bytes(100_000))
children = [1]
while len(children) < 3 and children[-1]:
    children.append(os.fork())
if children[-1]:
    open("ready", "w").close()
while len(kept) < 400:
    keep()
    time.sleep(0.02)
time.sleep(1000)
"""


@pytest.mark.parametrize("option", ["--descendants", "--no-descendants"])
def test_the_processes_that_a_program_has_started_are_watched_by_default(tmp_path: Path, option: str):
    (tmp_path / "forks.py").write_text(FORKS)
    with subprocess.Popen([sys.executable, "forks.py"], cwd=tmp_path, start_new_session=True) as process:
        try:
            end = time.monotonic() + 60
            while not (tmp_path / "ready").exists() and time.monotonic() < end:
                time.sleep(0.02)
            answer = json.loads(leaks("-p", str(process.pid), "-d", "1.5", "--json", option))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    every = [answer, *answer.get("descendants", [])]
    assert len(every) == (3 if option == "--descendants" else 1)
    for one in every:
        by_function = Counter[str]()
        for stack in one["retained"]:
            by_function[stack["frames"][0]["function"] if stack["frames"] else ""] += stack["bytes"]
        assert {*by_function} <= {"keep", ""}
        assert by_function["keep"] > 0.9 * by_function.total()  # a stack that changes while it is read has no frames
