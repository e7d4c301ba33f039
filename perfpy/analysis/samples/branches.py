"""Expand branch stacks: a row for each branch record, newest first, with a weight of one event.

The frames of its ends are in the process's own mappings or the kernel's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.flags import MISC_GUEST_USER, MISC_KERNEL, MISC_USER
from perfpy.abi.samples.branches import BRANCH_DTYPE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView


def branch_samples(samples: SampleView) -> SampleView:
    """Return a row for each branch, with the columns branch_from, branch_to (addresses) and branch_flags."""
    stacks = samples.ragged_column("branch_stack", BRANCH_DTYPE)
    sample_of = np.repeat(np.arange(len(samples)), stacks.lengths)
    narrow = {name: column for name, column in samples.columns.items() if name not in ("branch_stack", "callchain")}
    expanded = samples.with_columns(narrow).take(sample_of)
    ends = {f"branch_{field}": np.ascontiguousarray(stacks.values[field]) for field in ("from", "to", "flags")}
    return expanded.with_columns({**expanded.columns, **ends}).counted_once()


def branch_frames(samples: SampleView, name: str) -> NDArray[np.int32]:
    """Return the frame of each address of a column: in the process, else in the kernel, else nowhere."""
    pid, address, key, symbolizer = samples.column("pid"), samples.column(name), samples.key, samples.symbolizer

    def of(mode: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        return symbolizer.frame_ids(pid[rows], address[rows], key[rows], np.full(len(rows), mode, np.uint8))

    frames = of(MISC_USER, np.arange(len(address)))
    for mode in (MISC_KERNEL, MISC_GUEST_USER):
        unmapped = np.flatnonzero(symbolizer.frames.dso[frames] < 0)
        frames[unmapped] = of(mode, unmapped)
    return frames
