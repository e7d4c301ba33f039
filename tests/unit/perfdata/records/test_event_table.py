"""The event of each record, by its id."""

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.perfdata.container.events import FileEvent
from perfpy.perfdata.records.event_table import UNKNOWN_EVENT, EventTable

ATTR = EventAttr(sample_type=SampleType.IDENTIFIER | SampleType.IP)


def table(*ids: tuple[int, ...]) -> EventTable:
    """Return a table of events with these ids."""
    return EventTable([FileEvent(ATTR, tuple(own), f"e{index}", index) for index, own in enumerate(ids)], "<")


@pytest.mark.parametrize("far", [0, 1 << 40], ids=["near each other", "far apart"])
def test_ids_are_found_near_and_far_apart(far: int) -> None:
    events = table((7, 9), (8,), (10 + far, 8))
    ids = np.array([7, 8, 9, 10 + far, 0, 6, 11 + far, (1 << 64) - 1], np.uint64)
    index = events.index_of(ids)
    assert index.tolist() == [0, 1, 0, 2, 0, UNKNOWN_EVENT, UNKNOWN_EVENT, UNKNOWN_EVENT]
    assert events.index_of(ids[:4]).tolist() == index[:4].tolist()  # all ids known


def test_the_first_event_may_have_the_id_0() -> None:
    assert table((4,), (0, 5)).index_of(np.array([0, 4, 5], np.uint64)).tolist() == [0, 0, 1]
