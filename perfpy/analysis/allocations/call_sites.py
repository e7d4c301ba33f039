"""The functions that asked for pages: the callers of the page allocator's own functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.samples.callchains import frames_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.symbols.symbolizer import Symbolizer

_ALLOCATOR: Final = re.compile(
    r"_{0,2}(?:"
    r"alloc_(?:pages?|frozen_pages|page_buffers|thread_stack_node)\w*|get_free_pages?\w*|get_zeroed_page\w*"
    r"|(?:filemap_|vma_)?alloc_folios?\w*|folio_(?:pre)?alloc\w*|(?:vma|filemap)_alloc_folio\w*|rmqueue\w*"
    r")(?:\.\w+)*\Z"
)
_DEPTH: Final = 16  # frames that are searched for a caller
_NONE: Final = -1
_KERNEL_LEVEL: Final = ord("k")


class CallSites(NamedTuple):
    """The call sites of allocations.

    Attributes:
        which: int64[n], index of each allocation's call site.
        addresses: of the call sites; 0: unknown.
        names: functions, "" if unknown.
    """

    which: NDArray[np.int64]
    addresses: list[int]
    names: list[str]


def is_allocator(name: str) -> bool:
    """Whether a function belongs to the page allocator.

    >>> is_allocator("__alloc_frozen_pages_noprof"), is_allocator("vma_alloc_folio_noprof"), is_allocator("anon_pipe_write")
    (True, True, False)
    """
    return _ALLOCATOR.match(name) is not None


def find_call_sites(chains: Ragged, key: NDArray[np.uint64], symbolizer: Symbolizer) -> CallSites:
    """Return the call site of each allocation.

    Args:
        chains: the callchain of each allocation.
        key: delivery keys.
        symbolizer: of the recording.
    """
    ids, counts = frames_of(chains, np.full(len(chains), _NONE, np.int32), key, symbolizer)
    symbolizer.resolve()
    starts = np.cumsum(counts) - counts
    matrix = np.full((len(counts), _DEPTH), _NONE, np.int32)
    for level in range(_DEPTH):
        rows = np.flatnonzero(counts > level)
        matrix[rows, level] = ids[starts[rows] + level]
    distinct, which = np.unique(matrix, axis=0, return_inverse=True)
    sites = [_site(row, symbolizer) for row in distinct.tolist()]
    return CallSites(which.ravel().astype(np.int64), [site[0] for site in sites], [site[1] for site in sites])


def _site(row: Sequence[int], symbolizer: Symbolizer) -> tuple[int, str]:
    """Return the first frame outside of the allocator: its address and function."""
    for frame in row:
        if frame == _NONE:
            break
        symbol = int(symbolizer.frames.symbol[frame])
        name = symbolizer.symbols.name(symbol) if symbol >= 0 and int(symbolizer.frames.level[frame]) == _KERNEL_LEVEL else ""
        if not is_allocator(name):
            return int(symbolizer.frames.ip[frame]), name
    return 0, ""
