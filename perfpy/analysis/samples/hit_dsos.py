"""Which files a recording's samples fell into.

What enters: a recording, and a Symbolizer over it. What leaves: its Dsos with
at least one sample in them (perf does not count the entries of callchains).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.columns import distinct

if TYPE_CHECKING:
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.symbolizer import Symbolizer

_FIELDS = frozenset({"ip", "pid", "cpumode"})


def hit_dsos(data: PerfData, symbolizer: Symbolizer) -> list[Dso]:
    """The Dsos that samples hit, in the order in which they were first mapped. Loads no symbols."""
    for batch in data.batches(_FIELDS):
        columns = batch.columns
        if "ip" in columns and "pid" in columns:
            symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
    hit = distinct(symbolizer.frames.dso)
    return [symbolizer.dsos[number] for number in hit.tolist() if number >= 0]
