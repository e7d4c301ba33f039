"""Callchains whose user part is in the branch records: `--call-graph lbr`.

What enters: the callchain and branch_stack columns of samples whose event
recorded call stacks (PERF_SAMPLE_BRANCH_CALL_STACK). What leaves: callchains
like any other: the kernel's part as sampled, behind the user marker the target
of the newest call and the places that the calls came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, BranchSample, SampleType

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr


def has_callstacks(attr: EventAttr) -> bool:
    """Whether branch records hold the user part of the event's callchains."""
    return bool(attr.sample_type & SampleType.BRANCH_STACK and attr.branch_sample_type & BranchSample.CALL_STACK)


def with_callstacks(chains: Ragged, branches: Ragged) -> Ragged:
    """The callchains with their user part from the branch records; chains without a user marker, and samples without branches, stay."""
    marker = np.uint64(CONTEXT_USER)
    parts = []
    counts = np.zeros(len(chains.offsets), np.int64)
    bounds = zip(
        chains.offsets.tolist(), chains.offsets[1:].tolist(), branches.offsets.tolist(), branches.offsets[1:].tolist(), strict=False
    )
    for row, (begin, end, first, last) in enumerate(bounds):
        chain = chains.values[begin:end]
        user = np.flatnonzero(chain == marker)
        if len(user) and last > first:
            calls = branches.values[first:last]
            chain = np.concatenate([chain[: user[0] + 1], calls["to"][:1], calls["from"]])
        parts.append(chain)
        counts[row + 1] = len(chain)
    values = np.concatenate(parts) if parts else np.zeros(0, np.uint64)
    return Ragged(values.astype(np.uint64, copy=False), np.cumsum(counts))
