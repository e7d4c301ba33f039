"""Match the stacks of two recordings: equal functions get equal names.

The command and the program's file get one name (perfpy.analysis.counterparts), instances of one
template become one function, and recursive calls are merged:
their depth differs from run to run, and would split everything above.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.counterparts import Counterparts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.stacks.stacks import Function, Stacks


def match_names(
    before: Sequence[Stacks], after: Sequence[Stacks], *, ignore_comm: bool | None = None, name: Callable[[str], str] = str
) -> tuple[list[Stacks], list[Stacks]]:
    """Return both with matched names. ignore_comm: see Counterparts; name: returns the name by which a function is compared."""
    parts = Counterparts.of(_commands(before), _commands(after), ignore=ignore_comm)
    first, second = ([_rename(one, index, parts, name) for one in stacks] for index, stacks in enumerate((before, after)))
    return first, second


def _commands(parts: Sequence[Stacks]) -> dict[str, int]:
    """Return the weight of each command, of the first event."""
    if not parts:
        return {}
    weights = np.bincount(parts[0].comm, weights=parts[0].weight.astype(np.float64), minlength=len(parts[0].comms))
    weights_of: dict[str, int] = {}
    for comm, weight in zip(parts[0].comms, weights.tolist(), strict=True):
        weights_of[comm] = weights_of.get(comm, 0) + int(weight)
    return weights_of


def _rename(stacks: Stacks, index: int, parts: Counterparts, name: Callable[[str], str]) -> Stacks:
    functions = [_function(function, index, parts, name) for function in stacks.functions]
    numbers: dict[Function, int] = {}
    alike = np.array([numbers.setdefault(function, len(numbers)) for function in functions], np.int32)
    frames, offsets = _without_recursion(stacks.frames, stacks.offsets, alike)
    comms = [parts.command(index, comm) for comm in stacks.comms]
    return replace(stacks, functions=functions, comms=comms, frames=frames, offsets=offsets)


def _function(function: Function, index: int, parts: Counterparts, name: Callable[[str], str]) -> Function:
    return function._replace(name=name(function.name), dso=parts.file(index, function.dso))


def _without_recursion(
    frames: NDArray[np.int32], offsets: NDArray[np.int64], alike: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Drop all but the innermost of adjacent frames of one function; alike: function -> equal numbers for equal ones."""
    if not len(frames):
        return frames, offsets
    mask = np.diff(alike[frames], prepend=-1) != 0
    starts = offsets[:-1]
    mask[starts[starts < len(frames)]] = True
    before = np.concatenate([[0], np.cumsum(mask)])
    return frames[mask], before[offsets].astype(np.int64)
