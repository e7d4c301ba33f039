"""The files that a recording's samples hit.

With `chains`, frames of callchains count, too (as in `perf inject`; at the end of `perf record` they do not).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.columns import distinct
from perfpy.analysis.samples.callchains import frames_of

if TYPE_CHECKING:
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.symbolizer import Symbolizer

_FIELDS = frozenset({"ip", "pid", "cpumode"})


def hit_dsos(data: SampleSource, symbolizer: Symbolizer, *, chains: bool = False) -> list[Dso]:
    """Return the hit dsos, in the order of their first mapping. Loads no symbols."""
    for batch in data.batches(_FIELDS | {"callchain"} if chains else _FIELDS):
        columns = batch.columns
        if "ip" in columns and "pid" in columns:
            symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
        if chains and "callchain" in columns and "pid" in columns:
            frames_of(columns["callchain"], columns["pid"], batch.key, symbolizer)
    hit = distinct(symbolizer.frames.dso)
    return [symbolizer.dsos[number] for number in hit.tolist() if number >= 0]
