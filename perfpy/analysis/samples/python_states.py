"""The states of Python threads in samples, from the addresses in their callchains (perfpy.abi.python_code)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.python_code import FIRST_ADDRESS, MAPPED_SIZE, GilState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.columns import Slices


def gil_states(chains: Ragged | Slices) -> NDArray[np.int32]:
    """Return the GilState of each sample; only the innermost Python frame has one other than UNKNOWN."""
    gathered = chains if isinstance(chains, Ragged) else chains.gather()
    distances = gathered.values - np.uint64(FIRST_ADDRESS)  # of lower addresses: very large
    states = np.where(distances < len(GilState) * MAPPED_SIZE, distances // np.uint64(MAPPED_SIZE), 0).astype(np.int32)
    padded = np.append(states, np.int32(0))
    highest = np.maximum.reduceat(padded, gathered.offsets[:-1]) if len(gathered) else padded[:0]
    return np.where(gathered.lengths > 0, highest, 0).astype(np.int32)
