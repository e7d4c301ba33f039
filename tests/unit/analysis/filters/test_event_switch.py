"""Samples that count between two events."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.analysis.filters.event_switch import EventSwitch
from perfpy.errors import UsageError

EVENTS = np.array([0, 1, 0, 2, 0, 1, 1, 0], np.int32)


def kept(switch: EventSwitch, among: list[int] | None = None) -> list[int]:
    present = None if among is None else np.isin(np.arange(len(EVENTS)), among)
    return np.flatnonzero(switch.mask(EVENTS, present)).tolist()


@pytest.mark.parametrize(
    ("on", "off", "show", "rows"),
    [
        (1, None, False, [2, 3, 4, 5, 6, 7]),
        (1, None, True, [1, 2, 3, 4, 5, 6, 7]),
        (None, 2, False, [0, 1, 2]),
        (None, 2, True, [0, 1, 2, 3]),
        (1, 2, False, [2, 6, 7]),
        (1, 2, True, [1, 2, 3, 5, 6, 7]),
        (1, 1, False, [2, 3, 4, 7]),
        (3, None, False, []),
    ],
)
def test_samples_between_the_events_count(on: int | None, off: int | None, show: bool, rows: list[int]) -> None:
    assert kept(EventSwitch(on, off, show=show)) == rows


def test_excluded_samples_do_not_switch() -> None:
    assert kept(EventSwitch(1, None, show=False), [0, 2, 5, 6, 7]) == [6, 7]


def test_the_state_lasts_from_batch_to_batch_until_the_next_pass() -> None:
    switch = EventSwitch(1, None, show=False)
    switch.mask(EVENTS)
    assert kept(switch) == list(range(len(EVENTS)))
    switch.restart()
    assert kept(switch) == [2, 3, 4, 5, 6, 7]


def test_names_are_looked_up() -> None:
    assert EventSwitch.between("", "", [], show=False) is None
    with pytest.raises(UsageError, match="no event 'nothing'"):
        EventSwitch.between("nothing", "", [], show=False)
