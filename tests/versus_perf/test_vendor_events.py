"""Tests that events and metrics of Intel's CPUs are those of perf 6.12, in a /sys with the PMUs of such a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.pmu_sys import with_pmus

CHECKOUT = Path(__file__).resolve().parents[2]
UNITS = "uncore_arb uncore_cbox uncore_cha uncore_clock uncore_ha uncore_iio uncore_imc uncore_imc_free_running uncore_irp"
UNITS += " uncore_m2m uncore_m3upi uncore_pcu uncore_qpi uncore_r2pcie uncore_r3qpi uncore_sbox uncore_ubox uncore_upi"
CPUS = {
    "GenuineIntel-6-3D-4": "cpu",
    "GenuineIntel-6-3F-2": "cpu",
    "GenuineIntel-6-55-4": "cpu",
    "GenuineIntel-6-55-7": "cpu",
    "GenuineIntel-6-8F-8": "cpu",
    "GenuineIntel-6-97-2": "cpu_core cpu_atom",
    "GenuineIntel-6-9A-3": "cpu_core cpu_atom",
    "GenuineIntel-6-9E-D": "cpu",
    "GenuineIntel-6-A5-5": "cpu",
}
pytestmark = [pytest.mark.versus_perf, pytest.mark.particular]


def on(identity: str, *command: str) -> str:
    """Return the output of a command on such a CPU."""
    environment = os.environ | {"PERF_CPUID": identity, "HOME": "/nonexistent", "PYTHONPATH": str(CHECKOUT)}
    environment.pop("XDG_CACHE_HOME", None)
    inside = with_pmus(CPUS[identity], UNITS, *command)
    return subprocess.run(inside, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module", autouse=True)
def may_mount() -> None:
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False).returncode:
        pytest.skip("nobody may mount a file system here")


def told(text: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the vendor's events and metrics in a list in JSON."""
    results: dict[tuple[str, ...], tuple[str, ...]] = {}
    entries: list[dict[str, Any]] = json.loads(text)
    for entry in entries:
        if entry.get("EventType") == "Kernel PMU event":
            facts = ("ScaleUnit", "Topic", "Deprecated")
            unit, encoding = entry["Unit"].removesuffix("_0"), entry["Encoding"].replace("_0/", "/", 1)  # of PMUs that stand alone
            results["event", unit, entry["EventName"]] = (encoding, *(entry.get(fact, "") for fact in facts))
        elif "MetricName" in entry:
            facts = ("MetricExpr", "ScaleUnit", "MetricThreshold")
            results["metric", entry["MetricName"], entry.get("MetricGroup", "")] = tuple(entry.get(fact, "") for fact in facts)
    return results


@pytest.mark.parametrize("identity", CPUS)
def test_events_and_metrics_are_perfs(perf: str, identity: str) -> None:
    theirs = told(on(identity, perf, "list", "--json", "--deprecated"))
    ours = told(on(identity, sys.executable, "-m", "perfpy", "list", "--json", "--deprecated"))
    assert len(theirs) > 200
    assert {key: (ours.get(key), value) for key, value in theirs.items() if ours.get(key) != value} == {}
    assert set(ours) - set(theirs) == set()
