"""The functions that waited for locks: of each callchain, the first one below the lock's own functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.samples.callchains import frames_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.symbols.symbolizer import Symbolizer

UNKNOWN: Final = "Unknown"
_NONE: Final = -1
_KERNEL_LEVEL: Final = ord("k")
_MIX: Final = 0x61C8864680B583EB  # odd, so that different addresses stay different
_WORD: Final = (1 << 64) - 1


class LockText(NamedTuple):
    """The kernel's address ranges of lock and scheduler functions, which never count as callers."""

    ranges: tuple[tuple[int, int], ...] = ()

    def has(self, address: int) -> bool:
        """Whether an address is in one of the ranges."""
        return any(start <= address < end for start, end in self.ranges)


class Callers(NamedTuple):
    """The callers of waits.

    Attributes:
        which: int64[n], index of each wait's caller.
        names: of the callers: function+0xOFFSET.
        keys: numbers that are equal for equal callchains below the caller.
        frames: the (address, function) of each callchain.
    """

    which: NDArray[np.int64]
    names: list[str]
    keys: list[int]
    frames: list[list[tuple[int, str]]]


def find_callers(
    chains: Ragged,
    pid: NDArray[np.int64],
    key: NDArray[np.uint64],
    symbolizer: Symbolizer,
    lock_text: LockText,
    *,
    max_stack: int,
    skip: int,
) -> Callers:
    """Return the caller of each wait.

    Args:
        chains, pid, key: of the waits.
        symbolizer: of the recording.
        lock_text: functions that are no callers.
        max_stack: the most frames of a callchain.
        skip: frames at the top that are no callers.
    """
    ids, counts = frames_of(chains, pid.astype(np.int32), key, symbolizer)
    symbolizer.resolve()
    starts = np.cumsum(counts) - counts
    width = min(max_stack, int(counts.max(initial=0)))
    matrix = np.full((len(counts), max(width, 1)), _NONE, np.int32)
    for level in range(width):
        rows = np.flatnonzero(counts > level)
        matrix[rows, level] = ids[starts[rows] + level]
    distinct, which = np.unique(matrix, axis=0, return_inverse=True)
    callers = [_caller(row, symbolizer, lock_text, skip) for row in distinct.tolist()]
    return Callers(which.ravel().astype(np.int64), [one[0] for one in callers], [one[1] for one in callers], [one[2] for one in callers])


def _caller(row: Sequence[int], symbolizer: Symbolizer, lock_text: LockText, skip: int) -> tuple[str, int, list[tuple[int, str]]]:
    name, key, frames = "", 0, []
    for level, frame in enumerate(row):
        if frame == _NONE:
            break
        address, symbol = int(symbolizer.frames.ip[frame]), int(symbolizer.frames.symbol[frame])
        function = symbolizer.symbols.name(symbol) if symbol >= 0 else ""
        offset = int(symbolizer.frames.symbol_offset[frame])
        frames.append((address, f"{function}+0x{offset:x}" if function else ""))
        if level < skip or (function and lock_text.has(address)):
            continue
        key ^= address * _MIX & _WORD
        if not name and function and int(symbolizer.frames.level[frame]) == _KERNEL_LEVEL:
            name = f"{function}+0x{offset:x}"
    return name or UNKNOWN, key, frames
