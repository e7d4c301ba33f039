"""Tests that kvm stat report prints what perf prints, on built recordings."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.guest_exits import AMD, INTEL, random_exits

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf


@pytest.fixture(scope="module", params=[INTEL, AMD], ids=["intel", "amd"])
def recording(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exits") / "perf.data"
    path.write_bytes(random_exits(5, 300, request.param))
    return path


@pytest.mark.parametrize("options", ["", "--event mmio -k time", "--event ioport -k max_t", "-p 200 -k mean_t"])
def test_the_table_is_perfs(options, recording, perf):
    tables = []
    for program in ([perf], [sys.executable, "-m", "perfpy"]):
        words = [*program, "kvm", "-i", str(recording), "stat", "report", *options.split()]
        process = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert process.returncode == 0
        tables.append(process.stderr.splitlines())
    assert tables[1] == tables[0]
