"""The order of all samples, collected chunk by chunk."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfpy.perfdata.records.chunk import Chunk
from perfpy.perfdata.records.delivery.keys import KeyedSamples
from perfpy.perfdata.records.delivery.order import delivery_order
from perfpy.perfdata.records.delivery.sample_order import OrderCollector


def collected(keys: list[list[int]], times: list[list[int]]) -> OrderCollector:
    collector = OrderCollector()
    for key, time in zip(keys, times, strict=True):
        chunk = Chunk(np.zeros(8, np.uint8), np.arange(len(key), dtype=np.int64) * 8, "<", 1000 * collector.count)
        numbers = (np.array(column, np.uint64) for column in (key, time))
        collector.add(KeyedSamples(chunk, np.zeros(len(key), np.int32), *numbers))
    return collector


TIMES = st.lists(st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=20), max_size=4)


@given(TIMES, st.booleans())
def test_samples_are_ordered_as_by_delivery_order(times, is_late):
    keys = [[max(time, 20) for time in part] for part in times] if is_late else times
    order = collected(keys, times).order(lambda batch: batch.key)
    key, time = (np.array([one for part in parts for one in part], np.uint64) for parts in (keys, times))
    expected = delivery_order(key, time)
    expected = np.arange(len(key)) if expected is None else expected
    arrival = np.arange(len(key)) if order.arrival is None else order.arrival
    assert arrival.tolist() == expected.tolist()
    assert order.key.tolist() == key[expected].tolist()
    assert order.time.view(np.uint64).tolist() == time[expected].tolist()


def test_settled_keys_do_not_change_the_order():
    offsets = []

    def settle(batch):
        offsets.append(batch.offset.tolist())
        return batch.key - np.uint64(1)

    order = collected([[7, 5], [6]], [[7, 5], [6]]).order(settle)
    assert order.arrival is not None
    assert order.arrival.tolist() == [1, 2, 0]
    assert order.key.tolist() == [4, 5, 6]
    assert order.time.tolist() == [5, 6, 7]
    assert offsets == [[0, 8], [2000]]
