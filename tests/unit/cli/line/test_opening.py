"""Effects of opening a recording on the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.cli.line.opening import open_recording
from tests.builders.perfdata import simple_recording

CHECKOUT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_numpy_starts_no_threads_by_default(given: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1).file())
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with open_recording(str(path), force=False) as recording:
        assert len(recording.events) == 1
    assert os.environ["OPENBLAS_NUM_THREADS"] == expected


@pytest.mark.parametrize("line", [["report", "--stdio"], ["report", "--stdio", "-g"], ["script"], ["annotate", "--stdio"], ["diff"]])
def test_every_command_starts_numpy_without_threads_and_docstrings(line: list[str], tmp_path: Path) -> None:
    """Each takes as much CPU time as reading a small recording does."""
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    (tmp_path / "perf.data.old").write_bytes(simple_recording(3).file())
    script = (
        "import os, sys; from perfpy.cli import run; run(sys.argv[1:]); "
        "import numpy; print(len(os.listdir('/proc/self/task')), numpy.ndarray.__doc__)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | {"PYTHONPATH": str(CHECKOUT)}
    process = subprocess.run(
        [sys.executable, "-c", script, *line], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert process.stdout.splitlines()[-1] == "1 None"
