"""Frames of addresses other than a sample's ip: data and branch addresses. Their mode may differ from the sample's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.flags import MISC_KERNEL, MISC_USER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer


def frames_of(
    symbolizer: Symbolizer,
    pid: NDArray[Any],
    addresses: NDArray[np.uint64],
    key: NDArray[np.uint64],
    cpumode: NDArray[np.uint8],
    kernel_start: int | None,
) -> NDArray[np.int32]:
    """Return the frame of each address: in the sample's mode, or, if nothing is mapped there, in the address's own mode.

    Args:
        kernel_start: the start of kernel addresses; None if kernel and processes share addresses, so that only the sample's mode counts
    """
    ids = symbolizer.frame_ids(pid, addresses, key, cpumode)
    if kernel_start is None:
        return ids
    own = np.where(addresses >= np.uint64(kernel_start), MISC_KERNEL, MISC_USER).astype(np.uint8)
    other = np.flatnonzero((own != cpumode) & ((cpumode == MISC_KERNEL) | (cpumode == MISC_USER)))
    if not len(other):
        return ids
    lost = other[symbolizer.resolve().dso[ids[other]] < 0]
    if len(lost):
        ids = ids.copy()
        ids[lost] = symbolizer.frame_ids(pid[lost], addresses[lost], key[lost], own[lost])
    return ids
