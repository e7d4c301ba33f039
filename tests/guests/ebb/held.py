"""A pinned event of somebody else's holds the PMU for this task: enabling an event-based branch says so."""

from __future__ import annotations

import perfpy
from perfpy.abi.attr import EventAttr
from perfpy.errors import NotScheduledError

PINNED = EventAttr(type=0, config=0, pinned=1, exclusive=1, read_format=3)

with perfpy.Counter(PINNED) as holder:
    holder.read()
    with perfpy.Counter.open("r1001e:u", ebb=True, disabled=1) as counter:
        try:
            counter.enable()
            print("enabled")
        except NotScheduledError as reason:
            print(reason)
