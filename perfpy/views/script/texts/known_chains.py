"""A cache of the lines of callchains, by callchain and address space.

The cache lasts over batches, up to a size limit, because callchains repeat in long recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.samples.row_hashes import combine_columns, row_fingerprints
from perfpy.analysis.samples.task_dimensions import TaskStates
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.symbols.tasks.address_space import TaskTimeline

_MOST_BYTES: Final = 1 << 25


class KnownChains:
    """The cache."""

    def __init__(self, timeline: TaskTimeline) -> None:
        self._timeline = timeline
        self._forget()

    def _forget(self) -> None:
        self._table, self._lines, self._size = IdTable(), list[bytes](), 0

    def lines(
        self, chains: Ragged, pid: NDArray[np.int32], key: NDArray[np.uint64], make: Callable[[NDArray[Any]], list[bytes]]
    ) -> list[bytes]:
        """Return the lines of each sample's callchain; `make` formats those of the samples with the given rows."""
        space = TaskStates(self._timeline, pid, pid, key).space()
        ids, new = self._table.ids_and_new(combine_columns([space, row_fingerprints(chains)]))
        if len(new):
            new_lines = make(new)
            self._lines += new_lines
            self._size += sum(map(len, new_lines))
        lines = list(map(self._lines.__getitem__, ids.tolist()))
        if self._size > _MOST_BYTES:
            self._forget()
        return lines
