"""The order of delivery: keys made for all records of a chunk at once are those of perf's rule, followed record by record."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfpy.perfdata.records.delivery_order import Rounds

LATEST = (1 << 64) - 1
#: a time, 0 for a record without, None for a FINISHED_ROUND
RECORDS = st.lists(st.one_of(st.none(), st.integers(0, 20), st.sampled_from([LATEST - 1, LATEST])), max_size=30)


def keys_one_by_one(records: list[int | None]) -> list[int]:
    floor = limit = latest = 0
    keys = []
    for time in records:
        if time is None:
            floor, limit = max(floor, limit), latest
        lowest = min(floor, LATEST - 1) + 1 if floor else 0
        keys.append(max(time or 0, lowest))
        latest = max(latest, time or 0)
    return keys


@given(st.lists(RECORDS, max_size=4))
def test_keys_follow_the_rounds_across_chunks(chunks: list[list[int | None]]):
    rounds = Rounds()
    found: list[int] = []
    for chunk in chunks:
        ends = [place for place, time in enumerate(chunk) if time is None]
        times = np.array([time or 0 for time in chunk], np.uint64)
        found += rounds.keys(times, np.array(ends, np.int64)).tolist()
    assert found == keys_one_by_one([time for chunk in chunks for time in chunk])
