"""The parts of a branch entry's flag word. Layout: struct perf_branch_entry in include/uapi/linux/perf_event.h."""

from __future__ import annotations

from typing import Final

#: name and width of the parts, from the lowest bit (from the highest on big-endian machines)
BRANCH_FLAGS: Final = (
    ("mispred", 1),
    ("predicted", 1),
    ("in_tx", 1),
    ("abort", 1),
    ("cycles", 16),
    ("type", 4),
    ("spec", 2),
    ("new_type", 4),
    ("priv", 3),
)
