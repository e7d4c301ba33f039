"""Tests that mem and c2c print what perf prints, on built recordings of accesses of every kind."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.memory_accesses import random_accesses

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

C2C = [
    "",
    "-d rmt",
    "-d lcl -N",
    "-d peer -NN",
    "-c pid",
    "-c tid,dso -N",
    "-c iaddr,dso,pid --show-all",
    "--double-cl --no-source",
    "--stats",
]
MEM = [
    "report",
    "-t store report",
    "report -p --data-page-size",
    "report -s dcacheline,mem,snoop",
    "report -D -p -x,",
    "report -s phys_daddr",
]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accesses") / "perf.data"
    path.write_bytes(random_accesses(1, 400))
    return path


def answers(perf: str, words: list[str], path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    monkeypatch.setenv("HOME", str(path.parent))
    output = []
    for program in ([perf], [sys.executable, "-m", "perfpy"]):
        process = subprocess.run([*program, *words, "-i", str(path)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert process.returncode == 0, process.stderr
        output.append([line for line in process.stdout.splitlines() if "(Tip" not in line])
    return output[0], output[1]


@pytest.mark.parametrize("options", C2C)
def test_cache_lines_are_perfs(options, perf, recording, monkeypatch):
    theirs, ours = answers(perf, ["c2c", "report", "--stdio", *options.split()], recording, monkeypatch)
    assert ours == theirs


@pytest.mark.parametrize("options", MEM)
def test_accesses_are_perfs(options, perf, recording, monkeypatch):
    words = ["mem", *options.split()] + ([] if "-D" in options else ["--stdio"])
    theirs, ours = answers(perf, words, recording, monkeypatch)
    assert ours == theirs


def test_arm_shows_peers(perf, tmp_path, monkeypatch):
    """perf's default display for arm64."""
    path = tmp_path / "perf.data"
    path.write_bytes(random_accesses(2, 200, arch="aarch64"))
    theirs, ours = answers(perf, ["c2c", "report", "--stdio"], path, monkeypatch)
    assert ours == theirs
