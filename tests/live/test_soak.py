"""Counters for a while: a twentieth of tests/bench/soak.py, which says what it does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

SOAK = Path(__file__).parents[1] / "bench" / "soak.py"


def test_nothing_leaks_is_lost_or_waits_forever() -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", SOAK, "--scale", "0.05"], capture_output=True, text=True, timeout=400, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    assert [int(match[0]) for line in lines if (match := re.match(r"\d+", line))][::2] == [500, 10]
    assert "each told once" in lines[1]
