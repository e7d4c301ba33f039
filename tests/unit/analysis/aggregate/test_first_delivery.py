"""The first delivered sample of each row."""

import random
from itertools import pairwise

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Columns
from perfpy.abi.flags import SampleType
from perfpy.analysis.aggregate.first_delivery import FirstDelivery
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView

ATTRS = [EventAttr(sample_type=SampleType.TID)]
Sample = tuple[int, int, int, int]


def view(samples: list[Sample], place: int) -> SampleView:
    """Return samples of (row, tid, key, time), in the order of a file with `place` samples before them."""
    _, tid, key, time = (np.array(column, np.uint64) for column in zip(*samples, strict=True))
    moments = DeliveryOrder(key, time, np.arange(place, place + len(samples)))
    columns = Columns(len(samples), {"tid": tid.astype(np.int32)})
    return SampleView(columns, np.zeros(len(samples), np.int32), moments, ATTRS, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(30))
def test_rows_keep_their_first_sample_in_any_order(seed: int) -> None:
    """Keys and times have many ties; some keys are later than their times, like those of late samples."""
    generator = random.Random(seed)
    times = [generator.randrange(8) for _ in range(60)]
    samples = [(generator.randrange(9), generator.randrange(4), max(time, generator.randrange(8)), time) for time in times]
    firsts, size = FirstDelivery(), 0
    cuts = [0, *sorted(generator.sample(range(1, 60), 3)), 60]
    for begin, end in pairwise(cuts):
        rows = np.array([row for row, *_ in samples[begin:end]], np.int32)
        size = max(size, int(rows.max()) + 1)
        firsts.add(rows, size, view(samples[begin:end], begin))
    expected: dict[int, tuple[int, ...]] = {}
    for place in sorted(range(60), key=lambda place: (samples[place][2:], place)):
        row, tid, key, time = samples[place]
        expected.setdefault(row, (key, time, place, tid))
    moments, tids = firsts.first_samples(size)
    results = {row: (*(int(column[row]) for column in moments), int(tids[row])) for row in expected}
    assert results == expected
    assert [row for row in moments.order().tolist() if row in expected] == list(expected)


def test_after_batches_in_order_new_rows_and_late_samples_count() -> None:
    firsts = FirstDelivery()
    batches: list[list[Sample]] = [
        [(2, 5, 10, 10), (0, 6, 11, 11), (2, 7, 12, 12)],  # no sample of row 1 yet
        [(2, 8, 20, 20), (1, 9, 21, 21), (1, 4, 22, 22), (3, 3, 23, 23)],
        [(0, 1, 5, 5), (3, 2, 24, 24)],  # the first one is late
        [(3, 1, 23, 22)],  # as early as the first one, with an earlier time
    ]
    place = 0
    for batch in batches:
        firsts.add(np.array([row for row, *_ in batch], np.int32), 4, view(batch, place))
        place += len(batch)
    moments, tids = firsts.first_samples(4)
    assert moments.key.tolist() == [5, 21, 10, 23]
    assert tids.tolist() == [1, 9, 5, 1]
