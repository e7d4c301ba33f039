"""Freed memory that stays in the process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
import numpy as np
from perfpy.workers.freed_memory import keep_freed_memory
keep_freed_memory()
def faults():
    np.ones(1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faults()
print(faults() - faults())
"""


def test_kept_memory_is_used_again_without_page_faults():
    """An array of 8 MB has 2,048 pages."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert abs(int(done.stdout)) < 500
