"""Branch records as entries of their own: a sample for each branch that a sample's branch stack holds.

What enters: a batch with a branch_stack column. What leaves: a batch with a
row for each branch, newest first, standing for one event each; its ends as
frames, found in the process's own mappings or the kernel's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.flags import MISC_GUEST_USER, MISC_KERNEL, MISC_USER
from perfpy.abi.sample_branches import BRANCH_DTYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.sources import SampleView
    from perfpy.symbols.symbolizer import Symbolizer


def branch_samples(samples: SampleView) -> SampleView:
    """A row for each branch, with the columns branch_from, branch_to (frame ids) and branch_flags."""
    stacks = samples.ragged("branch_stack", BRANCH_DTYPE)
    sample_of = np.repeat(np.arange(len(samples)), stacks.lengths)
    narrow = {name: column for name, column in samples.columns.items() if name not in ("branch_stack", "callchain")}
    expanded = samples.with_columns(narrow).take(sample_of)
    pid = expanded.column("pid")
    for name, end in (("branch_from", "from"), ("branch_to", "to")):
        address = np.ascontiguousarray(stacks.values[end])
        expanded.columns[name] = _frames(samples.symbolizer, pid, address, expanded.key)
    expanded.columns["branch_flags"] = np.ascontiguousarray(stacks.values["flags"])
    return expanded.counted_once()


def _frames(symbolizer: Symbolizer, pid: NDArray[Any], address: NDArray[np.uint64], key: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The frame of each address: in the process, else in the kernel, else nowhere."""

    def of(mode: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return symbolizer.frame_ids(pid[rows], address[rows], key[rows], np.full(len(rows), mode, np.uint8))

    found = of(MISC_USER, np.arange(len(address)))
    for mode in (MISC_KERNEL, MISC_GUEST_USER):
        unmapped = np.flatnonzero(symbolizer.frames.dso[found] < 0)
        found[unmapped] = of(mode, unmapped)
    return found
