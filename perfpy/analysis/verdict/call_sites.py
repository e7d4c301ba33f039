"""Find where functions spend their time: the lines at which they run, call others, wait or start processes, and what their calls do.

The samples with the addresses of their callchains tell the lines; the time of a call of Python, or of an import, divides into functions.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.verdict.categories import KERNEL, OWN
from perfpy.analysis.verdict.functions import SampledFunctions, Share
from perfpy.analysis.verdict.processes import MOST, NEARLY_ALL, ProcessStart
from perfpy.analysis.verdict.wait_reasons import CHILD, INPUT, PIPE
from perfpy.analysis.verdict.waits import Waits
from perfpy.symbols.interning import sum_by

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.verdict.functions import FunctionFrames
    from perfpy.analysis.verdict.processes import SourceLine


#: functions that start processes: of the kernel, the C library, Python, Java, Node, Go and Rust
_STARTS: Final = re.compile(
    r"__(?:x64|arm64|ia32|riscv|s390x)_sys_v?fork|_*(?:libc_)?v?fork|posix_spawnp?|_*spawni\w*|(?:libc_)?system|popen|_posixsubprocess_fork_exec\w*"
    rf"|{PYTHON_MARK}(?:Popen\.)?(?:__init__|_execute_child|_posix_spawn):.*/subprocess\.py"
    r"|.*java\.lang\.Process(?:Builder|Impl)\.\w+\(.*|Java_java_lang_\w*Process\w*|node::(?:SyncProcessRunner|ProcessWrap)::.*|uv_spawn"
    r"|os/exec\.\(\*Cmd\)\.\w+|os\.StartProcess|syscall\.(?:forkExec|forkAndExecInChild1?|StartProcess)"
    r"|<?std::(?:sys::.*process.*|process::Command)\b.*"
)


class HotLine(NamedTuple):
    """The line at which a function has most of some samples.

    Attributes:
        path, line: where it is.
        period: of its samples.
        whole: the period of all of these samples of the function.
        lines: how many lines they have.
    """

    path: str
    line: int
    period: int
    whole: int
    lines: int

    @property
    def source_line(self) -> SourceLine:
        """The path and the line."""
        return self.path, self.line

    @property
    def is_alone(self) -> bool:
        """Whether nearly all of the samples are at this line, so that it stands for all of them."""
        return self.period >= NEARLY_ALL * self.whole


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

    def line(self, function: int, *, callee: str = "", in_kernel: bool = False, among: NDArray[np.bool_] | None = None) -> HotLine | None:
        """Return the line at which a function has most of the samples that are charged to it.

        Args:
            function: its number.
            callee: count only samples in this function that it calls.
            in_kernel: count only samples in the kernel.
            among: the samples that count; None for all.
        """
        functions = self.functions
        if functions is None:
            return None
        is_charged = functions.charged_functions == function
        rows = np.flatnonzero(is_charged if among is None else is_charged & among)
        leaf = functions.leaf[rows]
        if in_kernel:
            rows = rows[functions.category_of[leaf] == KERNEL]
        elif callee:
            entered = functions.entered[rows]
            callees = [number for number in np.unique(entered).tolist() if functions.name(number) == callee]
            rows = rows[np.isin(entered, callees)]
        return self._heaviest(function, functions.innermost_frames(function, rows))

    def own_line(self, function: int, among: NDArray[np.bool_]) -> HotLine | None:
        """Return the line at which a function has most of its own samples; without any, with what it calls. among: see line()."""
        functions = self.functions
        if functions is None:
            return None
        of_function = np.flatnonzero((functions.leaf == function) & among)
        rows = of_function if len(of_function) else np.flatnonzero(among)
        return self._heaviest(function, functions.innermost_frames(function, rows))

    def wait_line(self, function: int, reason: int, tid: int | None = None) -> HotLine | None:
        """Return the line at which a function waits longest for a reason; tid: in one thread."""
        if self.functions is None or self.waits is None:
            return None
        is_chosen = (self.functions.charged_functions == function) & (self.waits.reason == reason)
        rows = np.flatnonzero(is_chosen if tid is None else is_chosen & (self.waits.rows.dimensions["tid"] == tid))
        return self._heaviest(function, self.functions.innermost_frames(function, rows))

    def line_with_callees(self, function: int) -> HotLine | None:
        """Return the line at which a function has most samples, with all functions that it calls."""
        functions = self.functions
        return None if functions is None else self._heaviest(function, functions.innermost_frames(function, _all_rows(functions)))

    def find_start(self, pids: Collection[int]) -> ProcessStart | None:
        """Return the own function in which processes start others or wait for them, None if it is unknown or several do so."""
        functions = self.functions
        if functions is None or "pid" not in functions.rows.dimensions:
            return None
        rows = np.flatnonzero(np.isin(functions.rows.dimensions["pid"], list(pids)))
        is_start = np.zeros(len(functions.category_of), np.bool_)
        for number in functions.present.tolist():
            is_start[number] = _STARTS.fullmatch(functions.name(number).partition("@")[0]) is not None
        is_inside = np.zeros(len(functions.leaf), np.bool_)
        is_inside[rows] = is_start[functions.leaf[rows]]
        for reached, callers in functions.outwards(rows):
            is_inside[reached[is_start[callers]]] = True
        starts = is_inside.copy()
        if self.waits is not None and self._waits is not False:
            is_inside[rows] |= self.waits.reason[rows] == CHILD
        charged = functions.charged_functions
        rows = np.flatnonzero(is_inside & (charged >= 0))
        totals = sum_by(charged[rows], functions.rows.count[rows], len(functions.category_of))
        best = int(np.argmax(totals)) if len(rows) else 0
        if not len(rows) or totals[best] < MOST * totals.sum():
            return None
        rows = rows[(charged[rows] == best) & starts[rows]]  # waits for them have another line
        is_wait = not len(rows) and not functions.name(best).startswith(PYTHON_MARK)  # another function may start them
        if is_wait and self.waits is not None and self._waits is not False:  # they may also wait for the output of these processes
            of_pids = np.isin(functions.rows.dimensions["pid"], list(pids))
            waits = np.flatnonzero(of_pids & np.isin(self.waits.reason, (CHILD, PIPE, INPUT)) & (charged >= 0))
            totals = sum_by(charged[waits], functions.rows.period[waits], len(functions.category_of))
            best = int(np.argmax(totals))
            if totals[best] < MOST * totals.sum():
                return None
        line = self._heaviest(best, functions.innermost_frames(best, rows)) if len(rows) else None
        is_nearly_all = bool(totals[best] >= NEARLY_ALL * totals.sum())
        return ProcessStart(
            functions.name(best), line and line.source_line, is_nearly_all, is_wait=is_wait, vague=functions.vague_share(best)
        )

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

    def charged_lines(self, function: int) -> dict[SourceLine, float]:
        """Return the lines at which a function has the samples that are charged to it, and their shares of all of these."""
        if self.functions is None:
            return {}
        frames = self.functions.innermost_frames(function, np.flatnonzero(self.functions.charged_functions == function))
        whole = float(frames.period.sum())
        return {line: period / whole for line, period in self._periods_of_lines(frames).items() if period}

    def _periods_of_lines(self, frames: FunctionFrames) -> dict[SourceLine, float]:
        """Return the periods of some samples by line; samples without a line have none."""
        find_lines = self._report.find_lines
        if find_lines is None or not len(frames.frames):
            return {}
        states, number = np.unique(frames.frames << 1 | frames.are_callers, return_inverse=True)
        periods = np.bincount(number.ravel(), frames.period, len(states))
        totals: dict[SourceLine, float] = {}
        for line, period in zip(find_lines(states >> 1, (states & 1).astype(np.bool_)), periods.tolist(), strict=True):
            if line is not None and line[1]:
                totals[line] = totals.get(line, 0.0) + period
        return totals

    def _heaviest(self, function: int, frames: FunctionFrames) -> HotLine | None:
        """Return the line with most of some samples, if possible one within the function."""
        totals = self._periods_of_lines(frames)
        inside = {line: period for line, period in totals.items() if not self.is_inlined(function, line)} or totals
        if not inside:
            return None
        best = max(inside, key=lambda line: (inside[line], -line[1]))
        return HotLine(*best, int(inside[best]), int(frames.period.sum()), sum(period > 0 for period in totals.values()))


def _all_rows(functions: SampledFunctions) -> Int64:
    return np.arange(len(functions.leaf))


# What calls of Python, and imports, do.


_LEVELS: Final = 40  # of calls within a library's function
_MOST_ROWS: Final = 1 << 17  # whose calls are divided, 160 bytes each
_DIVIDED: Final = 0.5  # of the time of a call: larger parts are divided again
_ITS_OWN: Final = 0.5  # of a part, which is not divided then
_PART: Final = 0.05  # of the time of a call: the least part
_HAS_NAME: Final = re.compile(PYTHON_MARK + r"(?!\[)")  # not a mark, as [GIL held by FUNCTION]


def parts_of_call(functions: SampledFunctions, number: int, called: str) -> tuple[float, list[Share]]:
    """Return the share of samples in a function that a Python function calls itself, and the functions into which its time divides.

    The share includes own code that the called function calls. Parts are functions of Python, and C functions with names, the largest
    first; a part with most of the time is replaced by what it calls, unless most of that is its own.

    Args:
        functions: of the event.
        number: the calling function.
        called: the name of the called one.
    """
    size = len(functions.leaf)
    depth, frames, is_sought = np.full(size, -1, np.int32), np.zeros(size, np.int32), np.ones(size, np.bool_)
    for reached, callers in functions.outwards(np.arange(size), is_sought):
        hits = callers == number
        depth[reached[hits]] = frames[reached[hits]]
        is_sought[reached[hits]] = False
        frames[reached] += 1
    rows = np.flatnonzero(depth > 0)
    if not 0 < len(rows) <= _MOST_ROWS:
        return 0.0, []
    inwards, index = np.full((len(rows), _LEVELS), -1, np.int32), np.full(size, -1, np.int64)
    index[rows], frames[:] = np.arange(len(rows)), 0
    for reached, callees in functions.outwards(rows):
        level = depth[reached] - 1 - frames[reached]
        is_level = (level >= 0) & (level < _LEVELS)
        inwards[index[reached[is_level]], level[is_level]] = callees[is_level]
        frames[reached] += 1
    periods = functions.rows.period[rows]
    is_called = [one for one in distinct(inwards[:, 0].astype(np.int64)).tolist() if functions.name(one) == called]
    chosen = np.flatnonzero(np.isin(inwards[:, 0], is_called))
    whole = int(periods[chosen].sum())
    parts = sorted(_divide(functions, inwards, periods, chosen).items(), key=lambda part: -part[1])
    return functions.share(whole), [Share(name, functions.share(period)) for name, period in parts if period >= _PART * whole]


def _divide(functions: SampledFunctions, inwards: NDArray[np.int32], periods: Int64, chosen: Int64) -> dict[str, int]:
    """Return the functions into which the time of a call divides, with their periods; empty if it does not divide."""
    whole = int(periods[chosen].sum())
    undivided, parts = [(whole, 0, chosen)], Counter[str]()
    while undivided:
        period, level, rows = undivided.pop()
        inner = inwards[rows, level + 1].astype(np.int64) if level + 1 < _LEVELS else np.full(len(rows), -1, np.int64)
        callees = [one for one in distinct(inner[inner >= 0]).tolist() if _HAS_NAME.match(functions.name(one))]
        of_callees = [(int(periods[rows[inner == one]].sum()), level + 1, rows[inner == one]) for one in callees]
        if period < _DIVIDED * whole or sum(one for one, *_ in of_callees) < (1 - _ITS_OWN) * period:
            if level:
                parts[functions.name(int(inwards[rows[0], level]))] += period
        else:
            undivided += of_callees
    return parts


def time_in_imports(functions: SampledFunctions) -> tuple[float, list[Share]]:
    """Return the share of samples in imports of Python, and those of the modules that they run: own ones by the innermost module,
    those of libraries by the outermost that own code needs.
    """
    is_import, is_module, is_sure = functions.imports
    last, module = np.full(len(functions.leaf), -1, np.int64), np.full(len(functions.leaf), -1, np.int64)
    is_settled = np.zeros(len(functions.leaf), np.bool_)
    for reached, callers in functions.outwards(np.arange(len(functions.leaf)) if is_sure.any() else np.zeros(0, np.int64)):
        runs = ~is_settled[reached] & is_sure[callers] & is_module[last[reached]]
        module[reached[runs]] = last[reached[runs]]
        is_settled[reached] |= (module[reached] >= 0) & (functions.category_of[np.where(runs, module[reached], callers)] == OWN)
        last[reached] = np.where(is_import[callers] & is_module[last[reached]], last[reached], callers)
    rows = np.flatnonzero(module >= 0)
    totals = sum_by(module[rows], functions.rows.period[rows], len(functions.category_of))
    shares = [Share(functions.name(one), functions.share(int(totals[one]))) for one in np.argsort(-totals, kind="stable")[:4].tolist()]
    return functions.share(int(totals.sum())), [one for one in shares if one.share]
