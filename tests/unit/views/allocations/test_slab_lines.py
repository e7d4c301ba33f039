"""The table of the slab allocator's objects."""

from __future__ import annotations

from perfpy.analysis.allocations.slab import SlabRow
from perfpy.views.allocations.slab_lines import slab_lines


def test_large_numbers_widen_their_column():
    """As in perf 6.12: a blank stays before each bar."""
    row = SlabRow(key=1, site=1, requested=131632, allocated=262144, hits=2, ping_pongs=0)
    line = list(slab_lines([row], "Callsite", lambda _: "site", has_more=False))[3]
    assert line == " site" + " " * 30 + " |    262144/131072 |    131632/65816 |        2 |         0 | 49.786%"
