"""Time for which callbacks blocked an event loop of asyncio: on the CPU for over 100 ms of a turn, or waiting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.python_code import BLOCKED_LOOP, PYTHON_MARK
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.verdict.categories import OWN

if TYPE_CHECKING:
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.verdict.functions import SampledFunctions

#: what stands in callchains below callbacks of long turns; and what runs every callback
_LONG_TURN: Final = re.compile(re.escape(f"{PYTHON_MARK}{BLOCKED_LOOP}:") + ".*", re.DOTALL)
_CALLBACK: Final = re.compile(PYTHON_MARK + r"(?:Handle\.)?_run:.*/asyncio/events\.py", re.DOTALL)
_LONG_WAIT: Final = 100_000_000  # ns
_NONE: Final = -1
MOST: Final = 0.8  #: of the time, in the function that is named


class BlockedTime(NamedTuple):
    """Time in the callbacks of an event loop.

    Attributes:
        period: its sum.
        function: the innermost function of own code with most of it, -1 for none.
        in_function: the part in that function and its callees.
    """

    period: int
    function: int = _NONE
    in_function: int = 0


def long_turns(functions: SampledFunctions) -> BlockedTime:
    """Return the CPU time of turns that lasted over 100 ms, from then on."""
    return _beneath(functions, _LONG_TURN, np.arange(len(functions.leaf)))


def long_waits(functions: SampledFunctions) -> BlockedTime:
    """Return the waits in callbacks of 100 ms and more; equal waits count by their mean."""
    rows = functions.rows
    return _beneath(functions, _CALLBACK, np.flatnonzero(rows.period >= _LONG_WAIT * np.maximum(rows.count, 1)))


def _beneath(functions: SampledFunctions, pattern: re.Pattern[str], rows: Int64) -> BlockedTime:
    """Return the time of rows whose callchains contain a function of this pattern."""
    size = len(functions.category_of)
    matches = np.zeros(size, np.bool_)
    for number in functions.present.tolist():
        matches[number] = pattern.fullmatch(functions.name(number)) is not None
    if not matches.any():
        return BlockedTime(0)
    is_inside = np.zeros(len(functions.leaf), np.bool_)
    depths: list[tuple[Int64, Int64, int]] = []  # own functions within callbacks: rows, numbers, frames from the leaf
    for depth, (reached, callers) in enumerate(functions.outwards(rows)):
        own = ~is_inside[reached] & (functions.category_of[callers] == OWN)
        depths.append((reached[own], callers[own], depth))
        is_inside[reached[matches[callers]]] = True
        if is_inside[reached].all():
            break
    periods = np.where(is_inside, functions.rows.period, 0)
    return _in_one_function(periods, depths, size)


def _in_one_function(periods: Int64, depths: list[tuple[Int64, Int64, int]], size: int) -> BlockedTime:
    """Return the time of rows, and the innermost function that has most of it; periods: of each row, 0 outside of callbacks."""
    total = int(periods.sum())
    if not total:
        return BlockedTime(0)
    columns = [(rows, numbers, np.full(len(rows), depth)) for rows, numbers, depth in depths]
    row, function, depth = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in zip(*columns, strict=True))
    # a function that calls itself counts once for a row
    _, first = np.unique(row * size + function, return_index=True)
    row, function, depth = row[first], function[first], depth[first]
    totals = sum_by(function, periods[row], size)
    most = np.flatnonzero(totals > MOST * total)
    if not len(most):
        return BlockedTime(total)
    mean_depth = sum_by(function, periods[row] // 1000 * depth, size)[most] / totals[most]
    best = int(most[np.argmin(mean_depth)])
    return BlockedTime(total, best, int(totals[best]))
