"""The samples of a report with the addresses of their callchains, which reports of functions merge.

A verdict looks up the source lines of the few functions that it names. So samples are folded again, of long recordings an excerpt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import SampleType
from perfpy.analysis.aggregate.profile import FoldingPlan
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.entries.rows import drawn_chains
from perfpy.analysis.samples.locations import Locations

if TYPE_CHECKING:
    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.entries.plan import ReportPlan
    from perfpy.analysis.entries.rows import DrawnChains

_MOST: Final = 100_000  # samples that are folded again
_MOST_STACKS: Final = 20_000  # if their stacks have to be unwound


class ReportSamples(NamedTuple):
    """Folded samples.

    Attributes:
        folded: their rows.
        chains: frames and offsets of the distinct callchains, None without.
        locations: of the frames; functions have the same numbers as in the report.
        are_callers_first: whether callchains begin with the outermost frame.
        is_unwound: whether user callchains come from copies of stacks, with addresses within calls.
    """

    folded: Folded
    chains: DrawnChains | None
    locations: Locations
    are_callers_first: bool
    is_unwound: bool = False


def fold_addresses(plan: ReportPlan, scan: SampleScan) -> ReportSamples:
    """Fold the samples of a report's scan again, by address."""
    options, old = plan.options, scan.folding
    waits = ("state", "waker") if scan.data.has(SampleType.WEIGHT_STRUCT) else ()
    folding = FoldingPlan(("frame", "pid", "tid", *waits), old.sample_filter, chains=old.chains)
    again = SampleScan(
        scan.data, scan.timeline, scan.symbolizer, folding, scan.mode, scan.more, scan.grain, None, scan.max_stack, scan.callers_first
    )
    again.by_python = scan.by_python
    profile = again.excerpt(_MOST if again.unwinding is None else _MOST_STACKS)
    drawn = drawn_chains(profile, scan.symbolizer, options, plan.most_frames)  # adds frames, so it comes first
    locations = Locations(scan.symbolizer, as_one=options.names.tiers_as_one)
    graph = options.chains.call_graph
    are_callers_first = graph is not None and graph.order == "caller"
    return ReportSamples(profile.folded, drawn, locations, are_callers_first, again.unwinding is not None)
