"""The parts of a recording whose records another process rewrites."""

from __future__ import annotations

import os
import subprocess
import sys

_LOAD = """
import os, sys
from perfpy.capture.session import unwound_recording
unwound_recording._load_shared_modules()
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"), "numpy" in sys.modules)
"""


def test_modules_of_both_processes_are_loaded_once_and_without_threads() -> None:
    """A fork copies one thread only. The workload gets the environment as it was."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    process = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert process.stdout.split() == ["1", "None", "True"]
