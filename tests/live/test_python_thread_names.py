"""record --python: reports, ours and perf's, tell the threads of a Python program apart by their names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

PROGRAM = """
import threading, time
def work(least):
    end = time.time() + 60
    while time.thread_time() < least and time.time() < end: sum(range(5000))
threads = [threading.Thread(target=work, args=(0.15,), name=name) for name in ("worker-1", "a name beyond the kernel's limit")]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.parametrize("version", ["3.12", pytest.param("3.8", marks=pytest.mark.thorough)])
def test_reports_have_the_names_of_threads(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM)
    record = [sys.executable, "-m", "perfpy", "record", "-q", "--python", "-F", "499", "-e", "task-clock", "-o", "perf.data"]
    subprocess.run([*record, python, "program.py"], cwd=tmp_path, timeout=100, check=True)
    commands = [PERFPY, *([["perf"]] if shutil.which("perf") else [])]
    for command in commands:
        report = [*command, "report", "-i", "perf.data", "--stdio", "--no-children", "-g", "none", "-s", "comm"]
        text = output_of(report, cwd=tmp_path, timeout=100)
        shares = {name: float(share) for share, name in re.findall(r"^ +([0-9.]+)%  (.*?) *$", text, re.MULTILINE)}
        assert shares.get("worker-1", 0) > 10, text
        assert shares.get("a name beyond the kernel's limit", 0) > 10, text
