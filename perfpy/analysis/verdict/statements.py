"""Find the source lines at which functions use CPUs, call other functions, or wait."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.verdict.categories import KERNEL
from perfpy.analysis.verdict.functions import SampledFunctions
from perfpy.analysis.verdict.waits import Waits

if TYPE_CHECKING:
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.verdict.functions import FunctionFrames

    SourceLine = tuple[str, int]


class Statements:
    """The lines of functions in the samples of one event.

    Args:
        report: with the samples, and the numbers of functions.
        event: its index.
        waits: only samples off the CPU, or only those on it; None for all.
    """

    def __init__(self, report: Report, event: int, *, waits: bool | None = None) -> None:
        self._report, self._event, self._waits = report, event, waits

    @cached_property
    def functions(self) -> SampledFunctions | None:
        """The samples with the addresses of their callchains; None if the report does not have them."""
        if self._report.fold_addresses is None or self._report.find_lines is None:
            return None
        return SampledFunctions(self._report.fold_addresses(), self._event, waits=self._waits)

    @cached_property
    def waits(self) -> Waits | None:
        """The same samples as waits, with their reasons."""
        return None if self.functions is None else Waits(self.functions)

    def line(self, function: int, *, callee: str = "", in_kernel: bool = False) -> SourceLine | None:
        """Return the path and the line at which a function has most of the samples that are charged to it.

        Args:
            function: its number.
            callee: count only samples in this function that it calls.
            in_kernel: count only samples in the kernel.
        """
        functions = self.functions
        if functions is None:
            return None
        rows = np.flatnonzero(functions.charged_functions == function)
        leaf = functions.leaf[rows]
        if in_kernel:
            rows = rows[functions.category_of[leaf] == KERNEL]
        elif callee:
            callees = [number for number in np.unique(leaf).tolist() if functions.name(number) == callee]
            rows = rows[np.isin(leaf, callees)]
        return self._heaviest(function, functions.innermost_frames(function, rows))

    def wait_line(self, function: int, reason: int) -> SourceLine | None:
        """Return the path and the line at which a function waits longest for a reason."""
        if self.functions is None or self.waits is None:
            return None
        rows = np.flatnonzero((self.functions.charged_functions == function) & (self.waits.reason == reason))
        return self._heaviest(function, self.functions.innermost_frames(function, rows))

    def line_with_callees(self, function: int) -> SourceLine | None:
        """Return the path and the line at which a function has most samples, with all functions that it calls."""
        functions = self.functions
        return None if functions is None else self._heaviest(function, functions.innermost_frames(function, _all_rows(functions)))

    def is_inlined(self, function: int, line: SourceLine) -> bool:
        """Whether a line of a function's samples is not in the function: then code was inlined there."""
        begin = self._begin(function)
        return begin is not None and (begin[0] != line[0] or line[1] < begin[1])

    def _begin(self, function: int) -> SourceLine | None:
        find = self._report.find_begins
        functions = self.functions
        if find is None or functions is None or functions.is_generated(function) or functions.is_inlined(function):
            return None
        return find([function]).get(function)

    def _heaviest(self, function: int, frames: FunctionFrames) -> SourceLine | None:
        """Return the line with most of some samples, if possible one within the function."""
        find_lines = self._report.find_lines
        if find_lines is None or not len(frames.frames):
            return None
        states, number = np.unique(frames.frames << 1 | frames.are_callers, return_inverse=True)
        periods = np.bincount(number.ravel(), frames.period, len(states))
        totals: dict[SourceLine, float] = {}
        for line, period in zip(find_lines(states >> 1, (states & 1).astype(np.bool_)), periods.tolist(), strict=True):
            if line is not None and line[1]:
                totals[line] = totals.get(line, 0.0) + period
        inside = {line: period for line, period in totals.items() if not self.is_inlined(function, line)} or totals
        return max(inside, key=lambda line: (inside[line], -line[1])) if inside else None


def _all_rows(functions: SampledFunctions) -> Int64:
    return np.arange(len(functions.leaf))
