"""Tests of samples of system calls as columns."""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.tracing.events import NO_CALL, OTHER, CallColumns, call_events


def test_samples_without_a_thread_are_of_none() -> None:
    """Damaged attributes may leave an instruction's address alone."""
    columns = CallColumns({}, "<").extend(Columns(2, {"ip": np.array([1, 2], np.uint64)}), np.zeros(2, np.int32), np.zeros(2, np.uint64))
    events = call_events(columns, np.zeros(2, np.uint64))
    assert (events.tid.tolist(), events.pid.tolist(), events.cpu.tolist()) == ([-1, -1],) * 3
    assert (events.kind.tolist(), events.number.tolist()) == ([OTHER] * 2, [NO_CALL] * 2)
