"""Ctrl-C ends a command that reads at once and in silence, whatever it is importing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.perfdata import simple_recording

CHECKOUT = Path(__file__).resolve().parents[3]
# as an extension module that is interrupted while it is loaded: it knows only that something went wrong
INTERRUPTED = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    raise ImportError("this installation is broken") from None
"""


@pytest.mark.parametrize("command", ["report --stdio", "script", "diff --json"])
def test_ctrl_c_while_libraries_are_loaded(command, tmp_path):
    (tmp_path / "numpy.py").write_text(INTERRUPTED)
    for name in ("perf.data", "perf.data.old"):
        (tmp_path / name).write_bytes(simple_recording().file())
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{CHECKOUT}"}
    started = f"import sys; sys.argv[1:] = {command.split()}; from perfpy.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", started], env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert (run.returncode, run.stderr) == (-signal.SIGINT, b"")
