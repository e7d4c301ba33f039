"""Callchains whose user part is in the branch records: `--call-graph lbr`.

What enters: the callchain and branch_stack columns of samples whose event
recorded call stacks (PERF_SAMPLE_BRANCH_CALL_STACK). What leaves: callchains
like any other: the kernel's part as sampled, after the user marker the target
of the newest call and the addresses that the calls came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, BranchSample, SampleType
from perfpy.abi.sample_branches import BRANCH_DTYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.samples.sample_view import SampleView

_LONGEST_CALL = np.uint64(16)  # bytes of an instruction: a return address, or the byte before it, is less far from where the call is


def has_callstacks(attr: EventAttr) -> bool:
    """Whether branch records hold the user part of the event's callchains."""
    return bool(attr.sample_type & SampleType.BRANCH_STACK and attr.branch_sample_type & BranchSample.CALL_STACK)


def with_callstacks(chains: Ragged, branches: Ragged, chosen: NDArray[np.bool_] | None = None) -> Ragged:
    """The callchains with their user part from the branch records; chains without a user marker, and samples without branches, stay.

    chosen: the rows whose branches are call stacks; all of them if None.
    """
    starts, calls = chains.offsets[:-1], branches.lengths
    kept = _to_user_marker(chains)
    changed = (kept > 0) & (calls > 0)
    if chosen is not None:
        changed &= chosen
    if not changed.any():
        return chains
    kept = np.where(changed, kept, chains.lengths)
    offsets = np.concatenate([[0], np.cumsum(kept + np.where(changed, calls + 1, 0))]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], kept)[0]] = chains.values[slices_index(starts, kept)[0]]
    newest, calls, after = branches.offsets[:-1][changed], calls[changed], (offsets[:-1] + kept)[changed]
    values[after] = branches.values["to"][newest]
    values[slices_index(after + 1, calls)[0]] = branches.values["from"][slices_index(newest, calls)[0]]
    return Ragged(values, offsets)


def with_callers_beyond(called: Ragged, branches: Ragged, whole: Ragged, chosen: NDArray[np.bool_]) -> Ragged:
    """Callchains of branch records, which hold some dozens of calls, and beyond these what a copy of the stack gives.

    called: the former; whole: of the same samples the latter; chosen: the rows that have both. Where the outermost call
    that was recorded is found in `whole`, its callers there follow.
    """
    calls = branches.lengths
    rows = np.flatnonzero(chosen & (calls > 0))
    if not len(rows):
        return called
    outermost = np.zeros(len(whole), np.uint64)
    outermost[rows] = branches.values["from"][branches.offsets[1:][rows] - 1]
    of_row = np.repeat(np.arange(len(whole)), whole.lengths)
    near = whole.values - outermost[of_row] < _LONGEST_CALL
    met = np.flatnonzero(near & (chosen & (calls > 0))[of_row] & (whole.values < np.uint64(CONTEXT_MAX)))
    first = np.full(len(whole), -1, np.int64)
    first[of_row[met][::-1]] = met[::-1]  # backwards: of several the innermost is kept
    more = np.where(first >= 0, whole.offsets[1:] - first - 1, 0)
    offsets = np.concatenate([[0], np.cumsum(called.lengths + more)]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], called.lengths)[0]] = called.values
    values[slices_index(offsets[:-1] + called.lengths, more)[0]] = whole.values[slices_index(first + 1, more)[0]]
    return Ragged(values, offsets)


def callchains_of_event(attr: EventAttr, chains: Ragged, branches: Ragged) -> Ragged:
    """The callchains of samples of one event whose branch records are call stacks."""
    called = with_callstacks(chains, branches)
    if not attr.sample_type & SampleType.STACK_USER:
        return called
    return with_callers_beyond(called, branches, chains, np.ones(len(chains), np.bool_))


def _to_user_marker(chains: Ragged) -> NDArray[np.int64]:
    """The length of each chain up to its first user marker and with it; 0 where there is none."""
    marks = np.flatnonzero(chains.values == np.uint64(CONTEXT_USER))
    rows = np.searchsorted(chains.offsets, marks, side="right") - 1
    lengths = np.zeros(len(chains), np.int64)
    lengths[rows[::-1]] = (marks - chains.offsets[rows] + 1)[::-1]  # backwards: of several the first is kept
    return lengths


class CallStacks:
    """Gives samples the callchains of their branch records (a MoreColumns of perfpy.analysis.aggregate.scan)."""

    #: the column that is read for it
    field = "branch_stack"

    def __init__(self, attrs: Sequence[EventAttr]) -> None:
        self._has = np.array([has_callstacks(attr) for attr in attrs], np.bool_)
        self._has_both = self._has & np.array([bool(attr.sample_type & SampleType.STACK_USER) for attr in attrs], np.bool_)

    def __bool__(self) -> bool:
        return bool(self._has.any())

    def add_to(self, samples: SampleView) -> SampleView:
        """The samples with whole callchains."""
        branches, chosen = samples.ragged(self.field, BRANCH_DTYPE), self._has[samples.event]
        whole = samples.chains().gathered()
        chains = with_callers_beyond(with_callstacks(whole, branches, chosen), branches, whole, self._has_both[samples.event])
        columns: dict[str, Any] = {**samples.columns, "callchain": chains}
        return samples.with_columns(columns)
