"""Durations are printed with units; hostile names stay data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from perfpy.analysis.latencies import CallSamples, pair_calls
from perfpy.tools.latency import latency_json
from perfpy.views.latency_text import SlowCall, duration_text, latency_lines


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(0, "0 ns"), (7, "7.000 ns"), (1234, "1.234 us"), (12_340_000, "12.34 ms"), (123_400_000_000, "123.4 s")]
)
def test_a_duration_has_four_digits(nanoseconds: int, text: str) -> None:
    assert duration_text(nanoseconds) == text


def test_the_text_has_percentiles_a_histogram_and_the_slowest_calls() -> None:
    tid, pointer = np.ones(3, np.int64), np.full(3, 100, np.uint64)
    calls = pair_calls(
        CallSamples(tid, np.array([0, 100, 200]), pointer), CallSamples(tid, np.array([10, 120, 260]), pointer + np.uint64(8))
    )
    slow = SlowCall(200, 1, "shop", 60, 15, ("n=3",), ("main",))
    lines = list(latency_lines("cost in /a/shop", calls, [slow]))
    assert lines[0] == "cost in /a/shop: 3 calls by 1 thread"
    assert lines[3].split()[:4] == ["10.00", "ns", "20.00", "ns"]
    assert sum(int(line.split("|")[0].split()[-1]) for line in lines if "|" in line) == 3
    assert "cost < main" in lines[-1]
    whole = json.loads(latency_json("cost", "/a/shop", calls, [slow]))
    assert (whole["calls"], whole["p50"], whole["max"], whole["slowest"][0]["values"]) == (3, 20, 60, ["n=3"])


def test_no_calls_are_one_line() -> None:
    nothing = CallSamples(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint64))
    assert list(latency_lines("cost in /a", pair_calls(nothing, nothing), [])) == ["cost in /a: 0 calls by 0 threads"]
