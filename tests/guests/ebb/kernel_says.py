"""Each rule broken once: whether the kernel refuses what perfpy refuses. Prints a line a rule."""

from __future__ import annotations

import perfpy
from perfpy.abi.attr import EventAttr
from perfpy.errors import PerfError, UsageError
from perfpy.kernel import this_kernel

GOOD = EventAttr(type=4, config=1 << 63 | 0x1001E, pinned=1, exclusive=1, disabled=1, exclude_kernel=1, exclude_hv=1)
BROKEN = {
    "good": (GOOD, 0, -1),
    "not pinned": (GOOD.copy(pinned=0), 0, -1),
    "not exclusive": (GOOD.copy(exclusive=0), 0, -1),
    "inherit": (GOOD.copy(inherit=1), 0, -1),
    "sample_period": (GOOD.copy(sample_period=1000), 0, -1),
    "sample_freq": (GOOD.copy(sample_freq=1000, freq=1), 0, -1),
    "enable_on_exec": (GOOD.copy(enable_on_exec=1), 0, -1),
    "sample_type": (GOOD.copy(sample_type=1 << 16), 0, -1),
    "cpu": (GOOD, -1, 0),
    "no PMC": (GOOD.copy(config=1 << 63 | 0x1E), 0, -1),
}


def says(attr: EventAttr, pid: int, cpu: int) -> tuple[str, str]:
    """What the kernel says, and what perfpy says before it is asked."""
    try:
        this_kernel().close(this_kernel().perf_event_open(attr, pid, cpu, -1, 0))
        kernel = "opens"
    except PerfError:
        kernel = "refuses"
    try:
        perfpy.Counter(attr, pid, cpu).close()
        ours = "opens"
    except UsageError as error:
        ours = str(error).rpartition("code): ")[2]
    return kernel, ours


for name, request in BROKEN.items():
    print(f"{name}: {' / '.join(says(*request))}")
member = GOOD.copy(config=1 << 63 | 0x20002, pinned=0, exclusive=0, disabled=0)
with perfpy.CounterGroup([GOOD, member]) as group:
    print("group:", len(group))
