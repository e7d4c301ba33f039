"""Callchains of switches on one line: `schedule_timeout <- wait_for_completion`, as `sched timehist` prints them.

perf does not resolve frames of user space there, because it ignores their mappings; neither does this text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.callchains import whole_chains_of
from perfpy.untrusted.text import one_line_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.symbols.symbolizer import Symbolizer


#: functions of the scheduler at the top of each switch, which perf hides
HIDDEN: Final = frozenset((b"schedule", b"__schedule", b"preempt_schedule"))
_HIDDEN_MOST: Final = 2  # of them are read beyond the limit of frames
_NONE: Final = -1
_KERNEL_LEVEL: Final = ord("k")


def chain_texts(
    columns: Columns, pid: NDArray[np.int32], key: NDArray[np.uint64], symbolizer: Symbolizer, max_stack: int, *, is_switch: bool = True
) -> list[bytes]:
    """Return the text of each callchain, with the blanks before it.

    Args:
        columns: with the column callchain, and user_frames of unwound stacks.
        pid, key: of the samples.
        symbolizer: of the recording.
        max_stack: the most frames.
        is_switch: whether to hide the functions of the scheduler.
    """
    frames, counts = whole_chains_of(columns, pid, key, symbolizer)
    symbolizer.resolve()
    hidden = HIDDEN if is_switch else frozenset()
    width = max_stack + (_HIDDEN_MOST if is_switch else 0)
    starts = np.cumsum(counts) - counts
    matrix = np.full((len(counts), width), _NONE, np.int32)
    for level in range(width):
        rows = np.flatnonzero(counts > level)
        matrix[rows, level] = frames[starts[rows] + level]
    distinct, which = np.unique(matrix, axis=0, return_inverse=True)
    texts = [_text([_name(frame, symbolizer) for frame in row if frame != _NONE], hidden) for row in distinct.tolist()]
    return [texts[index] for index in which.ravel().tolist()]


def _text(names: list[bytes], hidden: frozenset[bytes]) -> bytes:
    return b"   " + b" <- ".join(name for name in names if name not in hidden)


def _name(frame: int, symbolizer: Symbolizer) -> bytes:
    symbol = int(symbolizer.frames.symbol[frame])
    is_kernel = int(symbolizer.frames.level[frame]) == _KERNEL_LEVEL
    name = symbolizer.symbols.name(symbol) if symbol >= 0 and is_kernel else "[unknown]"
    return one_line_bytes(name.encode("utf-8", "surrogateescape"))
