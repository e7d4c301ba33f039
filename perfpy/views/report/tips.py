"""A line of advice at the end of a report, another one each time."""

from __future__ import annotations

import time
from typing import Final

_TIPS: Final = (
    "Tip: see where callers spend their time: perfpy report -g caller",
    "Tip: a flame graph in one HTML file: perfpy report --flamegraph",
    "Tip: hide small rows: perfpy report --percent-limit 1",
    "Tip: one line per thread: perfpy report --sort pid,comm",
    "Tip: what changed between two recordings: perfpy diff perf.data.old perf.data",
    "Tip: samples as lines of text: perfpy script",
    "Tip: the same report as data: perfpy report --json",
    "Tip: record callchains with -g, and see who calls the hot functions",
    "Tip: only one command of a system-wide recording: perfpy report --comms NAME",
    "Tip: only a part of the time: perfpy report --time 10%-20%",
)


def tip() -> str:
    """Return one of the tips."""
    return _TIPS[time.monotonic_ns() % len(_TIPS)]  # importing random would take a millisecond
