"""The calls of threads over time stay within bounds, and none is lost when short ones are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.tools.trace import lanes as module
from perfpy.tools.trace.lanes import LaneCalls, Lanes

if TYPE_CHECKING:
    import pytest


def add(lanes: Lanes, begin: list[int], took: list[int], texts: list[bytes]) -> None:
    """Add calls of thread 7."""
    zeros = np.zeros(len(begin), np.int64)
    text = np.array([lanes.text(one) for one in texts], np.int64)
    lane = zeros + lanes.lane(7, 7, "app")
    lanes.add(LaneCalls(np.array(begin), np.array(took), lane, zeros, zeros.astype(np.bool_), text))


def test_beyond_the_limit_the_shorter_calls_are_merged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_CALLS", 3)
    lanes, interval = Lanes(), module._FIRST_INTERVAL
    for part in range(4):
        add(lanes, [part * interval + at for at in (0, 100, 200)], [10, 50 + part, 10], [b"short", b"long %d" % part, b"short"])

    calls, merged, texts = lanes.finish()

    assert [texts[index] for index in calls.text.tolist()] == [b"long 1", b"long 2", b"long 3"]
    assert calls.took.tolist() == [51, 52, 53]
    assert merged.calls.tolist() == [3, 2, 2, 2]
    assert merged.total.tolist() == [70, 20, 20, 20]
    assert merged.end.tolist() == [part * interval + 210 for part in range(4)]


def test_intervals_grow_with_the_trace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_CALLS", 1)
    monkeypatch.setattr(module, "_MOST_MERGED", 2)
    lanes = Lanes()
    for part in range(50):
        add(lanes, [part * module._FIRST_INTERVAL + 7], [1], [b"read"])

    calls, merged, _ = lanes.finish()

    assert len(calls.begin) == 1
    assert len(merged.calls) <= 2
    assert merged.calls.sum() == 49


def test_the_longest_calls_keep_their_texts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_TEXT", 8)
    lanes = Lanes()
    add(lanes, [0, 10, 20, 30], [1, 5, 3, 4], [b"aaaa", b"bbbb", b"cccc", b"bbbb"])

    calls, _, texts = lanes.finish()

    assert [texts[index] if index >= 0 else b"" for index in calls.text.tolist()] == [b"", b"bbbb", b"cccc", b"bbbb"]


def test_threads_beyond_the_limit_share_a_lane(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_LANES", 2)
    lanes = Lanes()

    assert [lanes.lane(1, tid, f"t{tid}") for tid in (1, 2, 3, 4, 1)] == [0, 1, 2, 2, 0]
    assert lanes.threads[2] == (-1, -1, "other threads")
