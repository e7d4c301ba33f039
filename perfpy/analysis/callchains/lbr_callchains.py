"""Build callchains whose user part is in the branch records: `--call-graph lbr`.

The branch stack holds calls (PERF_SAMPLE_BRANCH_CALL_STACK). The result is a callchain
like any other: the kernel part as sampled, after the user marker the target
of the newest call and the addresses of the calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, BranchSample, SampleType
from perfpy.abi.samples.branches import BRANCH_DTYPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.samples.sample_view import SampleView

_LONGEST_CALL = np.uint64(16)  # bytes: a return address, or the byte before it, is closer to its call


def has_callstacks(attr: EventAttr) -> bool:
    """Whether branch records hold the user part of the event's callchains."""
    return bool(attr.sample_type & SampleType.BRANCH_STACK and attr.branch_sample_type & BranchSample.CALL_STACK)


def with_callstacks(chains: Ragged, branches: Ragged, chosen: NDArray[np.bool_] | None = None) -> Ragged:
    """Replace the user part of callchains by their branch records; chains without a user marker, and samples without branches, stay.

    chosen: the rows whose branches are call stacks; None for all.
    """
    starts, calls = chains.offsets[:-1], branches.lengths
    lengths = _to_user_marker(chains)
    changed = (lengths > 0) & (calls > 0)
    if chosen is not None:
        changed &= chosen
    if not changed.any():
        return chains
    lengths = np.where(changed, lengths, chains.lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths + np.where(changed, calls + 1, 0))]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], lengths)[0]] = chains.values[slices_index(starts, lengths)[0]]
    newest, calls, after = branches.offsets[:-1][changed], calls[changed], (offsets[:-1] + lengths)[changed]
    values[after] = branches.values["to"][newest]
    values[slices_index(after + 1, calls)[0]] = branches.values["from"][slices_index(newest, calls)[0]]
    return Ragged(values, offsets)


def with_callers_beyond(chains: Ragged, branches: Ragged, whole: Ragged, chosen: NDArray[np.bool_]) -> Ragged:
    """Extend the callchains of branch records, which hold some dozens of calls, by callers from stack copies.

    The callers follow if the outermost recorded call is found in `whole`.

    Args:
        chains: the callchains from branch records.
        branches: the records.
        whole: the callchains from stack copies.
        chosen: the rows that have both.
    """
    calls = branches.lengths
    rows = np.flatnonzero(chosen & (calls > 0))
    if not len(rows):
        return chains
    outermost = np.zeros(len(whole), np.uint64)
    outermost[rows] = branches.values["from"][branches.offsets[1:][rows] - 1]
    of_row = np.repeat(np.arange(len(whole)), whole.lengths)
    near = whole.values - outermost[of_row] < _LONGEST_CALL
    met = np.flatnonzero(near & (chosen & (calls > 0))[of_row] & (whole.values < np.uint64(CONTEXT_MAX)))
    first = np.full(len(whole), -1, np.int64)
    first[of_row[met][::-1]] = met[::-1]  # backwards, so that the innermost of several is kept
    added = np.where(first >= 0, whole.offsets[1:] - first - 1, 0)
    offsets = np.concatenate([[0], np.cumsum(chains.lengths + added)]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], chains.lengths)[0]] = chains.values
    values[slices_index(offsets[:-1] + chains.lengths, added)[0]] = whole.values[slices_index(first + 1, added)[0]]
    return Ragged(values, offsets)


def callchains_of_event(attr: EventAttr, chains: Ragged, branches: Ragged) -> Ragged:
    """Return the callchains of one event's samples whose branch records are call stacks."""
    callstacks = with_callstacks(chains, branches)
    if not attr.sample_type & SampleType.STACK_USER:
        return callstacks
    return with_callers_beyond(callstacks, branches, chains, np.ones(len(chains), np.bool_))


def _to_user_marker(chains: Ragged) -> NDArray[np.int64]:
    """Return the length of each chain up to and including its first user marker; 0 without one."""
    marks = np.flatnonzero(chains.values == np.uint64(CONTEXT_USER))
    rows = np.searchsorted(chains.offsets, marks, side="right") - 1
    lengths = np.zeros(len(chains), np.int64)
    lengths[rows[::-1]] = (marks - chains.offsets[rows] + 1)[::-1]  # backwards, so that the first of several is kept
    return lengths


class CallStacks:
    """A source of callchains from branch records (a MoreColumns of perfpy.analysis.aggregate.scan)."""

    #: the column that it reads
    field = "branch_stack"

    def __init__(self, attrs: Sequence[EventAttr]) -> None:
        self._has = np.array([has_callstacks(attr) for attr in attrs], np.bool_)
        self._has_both = self._has & np.array([bool(attr.sample_type & SampleType.STACK_USER) for attr in attrs], np.bool_)

    def __bool__(self) -> bool:
        return bool(self._has.any())

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with whole callchains."""
        branches, chosen = samples.ragged_column(self.field, BRANCH_DTYPE), self._has[samples.event]
        whole = samples.chains().gather()
        chains = with_callers_beyond(with_callstacks(whole, branches, chosen), branches, whole, self._has_both[samples.event])
        columns: dict[str, Any] = {**samples.columns, "callchain": chains}
        return samples.with_columns(columns)
