"""Tests that dumps of hardware traces equal perf's packet by packet, for any bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders import traces
from tests.builders.perfdata import traced
from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

TRACERS = {"Intel PT": traces.INTEL_PT, "Intel BTS": traces.INTEL_BTS, "Arm SPE": traces.ARM_SPE, "HiSilicon PTT": traces.HISI_PTT}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tracer", TRACERS)
def test_a_dump_is_perfs(tracer: str, seed: int, perf: str, tmp_path: Path) -> None:
    kind = TRACERS[tracer]
    path = tmp_path / "perf.data"
    path.write_bytes(traced(kind, traces.WORDS[kind], traces.trace(kind, seed)).file())
    ours, theirs = (run([*command, "report", "-D", "-i", path], timeout=120) for command in (PERFPY, [perf]))
    assert ours.stdout.splitlines() == theirs.stdout.splitlines()
    assert b" data: size " in theirs.stdout
