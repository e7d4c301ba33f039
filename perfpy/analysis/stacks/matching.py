"""Stacks of two recordings made comparable: what is the same is called the same in both.

What enters: the stacks of two recordings, an event each. What leaves: the same, where the command and
the program's file have one name (perfpy.analysis.counterparts), instances of one
template are one function, and a function that calls itself is there once:
how deep it went differs from run to run, and would part everything above.
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


def matched(
    before: Sequence[Stacks], after: Sequence[Stacks], *, ignore_comm: bool | None = None, name: Callable[[str], str] = str
) -> tuple[list[Stacks], list[Stacks]]:
    """Both with equal names. ignore_comm: see Counterparts; name: of a function, by what it is compared."""
    parts = Counterparts.of(_commands(before), _commands(after), ignore=ignore_comm)
    first, second = ([_renamed(one, index, parts, name) for one in stacks] for index, stacks in enumerate((before, after)))
    return first, second


def _commands(parts: Sequence[Stacks]) -> dict[str, int]:
    """What each command has, of the first event."""
    if not parts:
        return {}
    weights = np.bincount(parts[0].comm, weights=parts[0].weight.astype(np.float64), minlength=len(parts[0].comms))
    found: dict[str, int] = {}
    for comm, weight in zip(parts[0].comms, weights.tolist(), strict=True):
        found[comm] = found.get(comm, 0) + int(weight)
    return found


def _renamed(stacks: Stacks, index: int, parts: Counterparts, name: Callable[[str], str]) -> Stacks:
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
    """Of frames in a row that are one function only the innermost; alike: function -> the same number for equal ones."""
    if not len(frames):
        return frames, offsets
    kept = np.diff(alike[frames], prepend=-1) != 0
    starts = offsets[:-1]
    kept[starts[starts < len(frames)]] = True
    before = np.concatenate([[0], np.cumsum(kept)])
    return frames[kept], before[offsets].astype(np.int64)
