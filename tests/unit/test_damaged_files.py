"""Damaged recordings through the commands: read as far as they go, or refused in one line; never an error of our own."""

from __future__ import annotations

import random
import time

import pytest

from perfpy import cli
from tests.builders.damage import damaged, recordings

RECORDINGS = recordings()
VARIANTS = 8  # of each recording; the reader alone is tried on many more
LONGEST = 5.0  # seconds of CPU time for one command
COMMANDS = [
    ["script", "--show-task-events", "--show-mmap-events", "--show-switch-events", "--show-lost-events", "--show-bpf-events"],
    ["report", "--stdio"],
    ["report", "--stdio", "-T"],
    ["report", "-D"],
    ["report", "--header-only", "-I"],
    ["evlist", "-v"],
]


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.slow
def test_a_damaged_recording_gives_text_or_one_line(name, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    rng = random.Random(f"commands {name}")
    for number in range(VARIANTS):
        (tmp_path / "perf.data").write_bytes(damaged(RECORDINGS[name], rng))
        for command in COMMANDS:
            start = time.process_time()
            status = cli.run([*command, "-i", "perf.data", *([] if command[0] == "evlist" or "-D" in command else ["--symfs", "."])])
            assert time.process_time() - start < LONGEST, (number, command)
            errors = capfd.readouterr().err
            assert "internal error" not in errors, (number, command)
            assert "Traceback" not in errors
            assert status in (0, 255), (number, command, errors)
