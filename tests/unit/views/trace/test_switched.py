"""Only what happens between two events counts."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.errors import UsageError
from perfpy.perfdata.container.events import FileEvent
from perfpy.views.trace.switched import NO_SWITCHES, SwitchedSamples, SwitchOptions

EVENTS = [FileEvent(EventAttr(), (), name, index) for index, name in enumerate(("enter", "on", "off"))]


@pytest.mark.parametrize(
    ("options", "masks"),
    [
        (SwitchOptions("on", "off"), ([0, 0, 1], [1, 0, 0])),
        (SwitchOptions("on", "off", added=("on", "off")), ([0, 0, 1], [0, 0, 0])),
        (SwitchOptions("on", "off", is_shown=True, added=("on", "off")), ([0, 1, 1], [1, 1, 0])),
        (SwitchOptions(off="off"), ([1, 1, 1], [1, 0, 0])),
    ],
)
def test_samples_between_the_events_count(options, masks):
    """The state of the switch goes on from batch to batch; another switching-on sample is one like others, unless it was added."""
    switched = SwitchedSamples(options, EVENTS)

    for events, expected in zip(([0, 1, 0], [1, 2, 0]), masks, strict=True):
        mask = switched.mask(np.array(events, np.int32))
        assert mask is not None
        assert mask.astype(int).tolist() == expected


def test_without_switches_all_samples_count():
    assert SwitchedSamples(NO_SWITCHES, EVENTS).mask(np.zeros(3, np.int32)) is None


def test_an_unknown_event_is_an_error():
    with pytest.raises(UsageError, match="no event 'x'"):
        SwitchedSamples(SwitchOptions("x"), EVENTS)
