"""Shares of the functions of one event: their own samples, and those of the libraries and kernel code that they call.

A sample is charged to the innermost function of own code in its callchain. Library and kernel functions in the samples of a function show
what it spends its time on.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.perfpy_encodings import PYTHON_MARK, is_called_c_function
from perfpy.analysis.report.report import ReportSamples
from perfpy.analysis.verdict.categories import (
    ALLOCATOR,
    BEGINS,
    BUILTIN_OF_V8,
    CHARGED,
    COLLECTOR,
    COLLECTOR_OF_PYTHON,
    COLLECTOR_THREAD,
    COMPILER,
    COMPILER_THREAD,
    CONSTRUCTOR,
    FAULT_HANDLER,
    IDLE_FUNCTION,
    IMPORT_OF_PYTHON,
    INTERPRETER,
    JAVASCRIPT,
    JSON_OF_V8,
    KERNEL,
    KERNEL_ENTRY,
    LAMBDA,
    LIBRARY,
    OWN,
    RUNTIME,
    SHARED_FILE,
    STARTING_SCRIPT,
    SYSTEM_CALL,
    UNKNOWN,
    WHOLE_HEAP,
    category,
    charge_kind,
)
from perfpy.symbols.interning import GroupSums, sum_by

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.locations import Int64, Locations
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram


_DEPTH: Final = 512  # frames of a callchain that are searched
_DEPTH_OF_IMPORTS: Final = 2048  # the same if Python imports modules, which takes some ten calls for each level
_NONE: Final = -1
_DEVIATIONS: Final = 2.576  # of a normal distribution: 99 % lie within
_IDLE: Final = 0  # the thread of idle CPUs
_BLOCK: Final = 1 << 18  # frames
_ROWS: Final = 1 << 14  # whose callchains are searched together, so that their columns stay in the processor's caches
ONE_CALL: Final = 0.95  # of the time in system calls and faults: the only one that matters
#: kinds of kernel work that are no system call
PAGE_FAULTS: Final = "page faults"
_OF_SCRIPT: Final = 0.01  # of the different stacks, in the top level of a script that starts a package


class Share(NamedTuple):
    """A function, or a kind of kernel work, and the share of all samples, from 0 to 1."""

    name: str
    share: float


class Interval(NamedTuple):
    """The lowest and the highest share, from 0 to 1, that agree with the samples."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """Half of the distance between both."""
        return (self.high - self.low) / 2


def interval(share: float, samples: float) -> Interval:
    """Return the 99 % interval of Wilson (1927) of a share in independent samples.

    >>> interval(0.5, 100)
    Interval(low=0.3752..., high=0.6247...)
    """
    if samples <= 0:
        return Interval(0.0, 1.0)
    square = _DEVIATIONS**2 / samples
    centre = (share + square / 2) / (1 + square)
    reach = _DEVIATIONS / (1 + square) * math.sqrt(share * (1 - share) / samples + square / (4 * samples))
    return Interval(max(centre - reach, 0.0), min(centre + reach, 1.0))


class ChargedFunction(NamedTuple):
    """A function of own code, or one without a caller of own code.

    Attributes:
        number: of the function.
        name: as recorded.
        file: short name of its file.
        category: of the function.
        own: share of its own samples.
        charged: share of its own samples, and those of library and kernel code that it calls.
        is_recursive: whether half of its samples are of a call within a call.
        caller: the own function with most calls, and the share of the samples; None without one.
        called: share of the samples with a known caller.
        callees: library and kernel functions with the samples charged to it, by share.
        kernel_work: system calls and page faults with these samples, by share.
        entries: the functions that it calls itself, with all that they call in turn, by share; for Python, and those of V8 for JavaScript.
        entries_of_caller: the same of the caller, in the samples that it calls the function by way of libraries.
        vague: share of the samples with a function of another file that the function may not call itself: see `is_vague`.
        vague_caller: the same for the caller.
    """

    number: int
    name: str
    file: str
    category: int
    own: float
    charged: float
    is_recursive: bool = False
    caller: Share | None = None
    callees: tuple[Share, ...] = ()
    kernel_work: tuple[Share, ...] = ()
    called: float = 0.0
    entries: tuple[Share, ...] = ()
    entries_of_caller: tuple[Share, ...] = ()
    vague: float = 0.0
    vague_caller: float = 0.0


class LibraryFunction(NamedTuple):
    """A function of a library that own code calls.

    Attributes:
        number: of the function.
        name: as recorded.
        own: share of its own samples.
        callers: own functions with these samples, by share.
        recursive: share of its own samples that are of a call within a call.
        vague: share of its own samples that callers may not call themselves.
    """

    number: int
    name: str
    own: float
    callers: tuple[Share, ...]
    recursive: float
    vague: float = 0.0


class FunctionFrames(NamedTuple):
    """The frames of a function.

    Attributes:
        frames: numbers.
        are_callers: whether their addresses are those after a call.
        period: of the samples of each.
    """

    frames: Int64
    are_callers: NDArray[np.bool_]
    period: Int64


def _named(pattern: re.Pattern[str]) -> Callable[[int, str], bool]:
    """Return what tells whether a function's name is of a pattern."""
    return lambda _, name: pattern.fullmatch(name) is not None


class SampledFunctions:
    """The functions of one event's samples, except those of idle CPUs.

    Functions are numbered by symbol; unnamed code by file, after all symbols.

    Attributes:
        samples: the number of samples.
        period: their sum of periods.
        idle, idle_samples: the period and the samples of idle CPUs.
        effective: the number of samples of equal period with the same statistical error.
    """

    def __init__(self, samples: ReportSamples, event: int, *, waits: bool | None = None) -> None:
        """Select the rows of an event; waits: only those off the CPU, or only those on it."""
        self._locations: Locations = samples.locations
        folded = samples.folded.where((samples.folded.event == event) & ~samples.folded.filtered)
        if waits is not None and "state" in folded.dimensions:
            folded = folded.where((folded.dimensions["state"] != 0) == waits)
        is_idle = self._is_idle(folded)
        self.idle, self.idle_samples = int(folded.period[is_idle].sum()), int(folded.count[is_idle].sum())
        self.rows = folded = folded.where(~is_idle)
        self.samples, self.period = int(folded.count.sum()), int(folded.period.sum())
        squares = float((folded.period.astype(np.float64) ** 2 / np.maximum(folded.count, 1)).sum())
        self.effective = float(self.period) ** 2 / squares if squares else 0.0
        self._chains = samples.chains
        self._step = -1 if samples.are_callers_first else 1
        self._is_unwound, self._is_walked = samples.is_unwound, samples.is_walked
        self.leaf = self._function_of[folded.dimensions["frame"]]

    def _is_idle(self, folded: Folded) -> NDArray[np.bool_]:
        """Return which rows are idle CPUs: thread 0 in one of the kernel's idle functions.

        Thread 0 alone is not idle: it also stands for threads of other pid namespaces, and for ended ones.
        """
        is_idle: NDArray[np.bool_] = folded.tid == _IDLE
        rows = np.flatnonzero(is_idle)
        functions = self._function_of[folded.dimensions["frame"][rows]]
        idle = [number for number in distinct(functions).tolist() if IDLE_FUNCTION.fullmatch(self.name(number))]
        is_idle[rows] = np.isin(functions, idle) & (self._locations.level[folded.dimensions["frame"][rows]] == ord("k"))
        return is_idle

    @cached_property
    def _function_of(self) -> Int64:
        """The function of each frame."""
        locations = self._locations
        symbol = locations.symbol.astype(np.int64)
        named = locations.functions[symbol] if len(locations.functions) else symbol
        return np.where(symbol >= 0, named, len(locations.symbols) + 1 + locations.dso)

    @cached_property
    def present(self) -> Int64:
        """The functions of all samples and callchains."""
        is_present = np.zeros(len(self._locations.symbol), np.bool_)
        for frames in (self.rows.dimensions["frame"], *(() if self._chains is None else self._chains[:1])):
            for begin in range(0, len(frames), _BLOCK):  # an index of 64 bits for each frame of all callchains would be large
                is_present[frames[begin : begin + _BLOCK]] = True
        return distinct(self._function_of[is_present])

    @cached_property
    def category_of(self) -> NDArray[np.int8]:
        """The category of each function; those that no sample has stay UNKNOWN."""
        locations = self._locations
        categories = np.full(len(locations.symbols) + 1 + len(locations.dsos), UNKNOWN, np.int8)
        for number in self.present.tolist():
            dso = self._dso_number(number)
            categories[number] = category(locations.dsos[dso] if dso >= 0 else None, self.name(number))
        scripts = self._starting_scripts(np.flatnonzero(categories == OWN).tolist())
        categories[scripts] = LIBRARY
        return categories

    def _starting_scripts(self, own: list[int]) -> list[int]:
        """Return the top levels of scripts that only start a package (gunicorn, celery, pytest): they are in a bin folder, never run long,
        and other files have own code.
        """
        scripts = [number for number in own if STARTING_SCRIPT.fullmatch(self.name(number))]
        files = {self.name(number).partition(":/")[2] for number in scripts}
        others = any(self.name(number).partition(":/")[2] not in files for number in own) if scripts else False
        return [one for one in scripts if np.count_nonzero(self.leaf == one) <= _OF_SCRIPT * len(self.leaf)] if others else []

    def _dso_number(self, function: int) -> int:
        symbols = self._locations.symbols
        return symbols.dso(function) if function < len(symbols) else function - len(symbols) - 1

    def name(self, function: int) -> str:
        """Return the recorded name of a function, "" for unnamed code."""
        symbols = self._locations.symbols
        return symbols.name(function) if function < len(symbols) else ""

    def file(self, function: int) -> str:
        """Return the short name of a function's file, "" for none."""
        dso = self._dso_number(function)
        return self._locations.dso_names[dso] if dso >= 0 else ""

    def is_generated(self, function: int) -> bool:
        """Whether a runtime generated the function's code."""
        dso = self._dso_number(function)
        return dso >= 0 and bool(self._locations.dsos[dso].made_code)

    def is_inlined(self, function: int) -> bool:
        """Whether the function is an inlined call, whose code is within another function's."""
        return function < len(self._locations.symbols) and self._locations.symbols.is_inlined(function)

    def samples_of(self, function: int) -> int:
        """Return the number of samples that are charged to a function."""
        return int(self.rows.count[self.charged_functions == function].sum())

    def share(self, period: int) -> float:
        """Return a period as a share of all samples that are not idle."""
        return period / self.period if self.period else 0.0

    @property
    def busy(self) -> float:
        """The share of samples that are not of idle CPUs."""
        return self.period / (self.period + self.idle) if self.idle else 1.0

    def by_category(self) -> list[float]:
        """Return the share of the samples of each category."""
        totals = sum_by(self.category_of[self.leaf].astype(np.int64), self.rows.period, UNKNOWN + 1)
        return [self.share(period) for period in totals.tolist()]

    def in_libraries_of_programs(self) -> float:
        """Return the share of the samples in libraries that are compiled into programs: C++ templates, Rust's and Go's packages."""
        is_compiled = np.zeros(len(self.category_of), np.bool_)
        for number in np.flatnonzero(self.category_of == LIBRARY).tolist():
            dso = self._dso_number(number)
            is_compiled[number] = dso >= 0 and not (self._locations.dsos[dso].made_code or SHARED_FILE.search(self.file(number)))
        return self.share(int(self.rows.period[is_compiled[self.leaf]].sum()))

    def in_garbage_collection(self, threads: Callable[[int], str]) -> tuple[float, Share | None]:
        """Return the share of samples in garbage collectors, and the own function that calls these most, and with what share of theirs.

        threads: returns the name of a thread.
        """

        def collects(function: int, name: str) -> bool:
            is_python = self.category_of[function] == INTERPRETER and "python" in self.file(function)
            return (COLLECTOR_OF_PYTHON if is_python else COLLECTOR).fullmatch(name) is not None

        is_inside = self._within(collects, self._of_threads(threads, COLLECTOR_THREAD))
        callers, periods = self.charged_functions[is_inside], self.rows.period[is_inside]
        total, callers, of_callers = int(periods.sum()), callers[callers >= 0], periods[callers >= 0]
        if not len(callers):
            return self.share(total), None
        by_caller = sum_by(callers, of_callers, len(self.category_of))
        most = int(np.argmax(by_caller))
        return self.share(total), Share(self.name(most), int(by_caller[most]) / max(total, 1))

    def in_whole_heap(self) -> float:
        """Return the share of samples in which V8 collects garbage of its whole heap."""
        return self.share_with(WHOLE_HEAP)

    def in_compilers(self, threads: Callable[[int], str]) -> float:
        """Return the share of samples in the compilers of runtimes; threads: returns the name of a thread."""
        is_inside = self._within(_named(COMPILER), self._of_threads(threads, COMPILER_THREAD))
        return self.share(int(self.rows.period[is_inside].sum()))

    def json_of_v8(self) -> tuple[list[Share], Share | None]:
        """Return the shares of samples in JSON.parse() and JSON.stringify() of V8, the larger one first, and their most frequent caller."""
        is_either, shares = np.zeros(len(self.leaf), np.bool_), []
        for text, pattern in JSON_OF_V8.items():
            is_inside = self._within(_named(pattern))
            is_either |= is_inside
            shares.append(Share(text, self.share(int(self.rows.period[is_inside].sum()))))
        is_script = np.zeros(len(self.category_of), np.bool_)
        for number in self.present.tolist() if is_either.any() else ():
            is_script[number] = JAVASCRIPT.match(self.name(number)) is not None
        rows = np.flatnonzero(is_either)
        callers = self._largest_shares(self._innermost(is_script, rows)[rows], self.rows.period[rows])
        return sorted((one for one in shares if one.share), key=lambda one: -one.share), next(iter(callers), None)

    def allocations(self) -> dict[str, tuple[int, int]]:
        """Return the samples and the period in allocations of memory that is collected, by the name of the own function that allocates.

        Constructors count for the function that calls them.
        """
        is_own = self.are_own_and_named.copy()
        for function in self.present.tolist():
            is_own[function] &= not CONSTRUCTOR.search(self.name(function).partition("@")[0])
        owner = self._innermost(is_own, np.flatnonzero(self._within(_named(ALLOCATOR))))
        amounts: dict[str, tuple[int, int]] = {}
        for number in distinct(owner[owner >= 0]).tolist():
            rows = np.flatnonzero(owner == number)
            amounts[self.name(number)] = int(self.rows.count[rows].sum()), int(self.rows.period[rows].sum())
        return amounts

    def share_with(self, pattern: re.Pattern[str]) -> float:
        """Return the share of samples in functions with names of a pattern, and in all that they call."""
        return self.share(int(self.rows.period[self._within(_named(pattern))].sum()))

    def _of_threads(self, threads: Callable[[int], str], names: re.Pattern[str]) -> NDArray[np.bool_]:
        """Return which rows are in threads of some names; threads: returns the name of a thread."""
        tids, number = np.unique(self.rows.tid, return_inverse=True)
        is_chosen = np.array([names.fullmatch(threads(tid)) is not None for tid in tids.tolist()], np.bool_)
        is_inside: NDArray[np.bool_] = is_chosen[number.ravel()] if len(tids) else np.zeros(0, np.bool_)
        return is_inside

    def _within(self, is_entry: Callable[[int, str], bool], known: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Return which rows are in some functions and all that they call, or known already. is_entry: takes a function and its name."""
        enters = np.zeros(len(self.category_of), np.bool_)
        for function in self.present.tolist():
            enters[function] = is_entry(function, self.name(function).partition("@")[0])
        is_inside: NDArray[np.bool_] = enters[self.leaf] if known is None else enters[self.leaf] | known
        if enters.any():
            for reached, functions in self.outwards(np.flatnonzero(~is_inside)):
                is_inside[reached[enters[functions]]] = True
        return is_inside

    def outwards(self, rows: Int64, is_sought: NDArray[np.bool_] | None = None) -> Iterator[tuple[Int64, Int64]]:
        """Yield, frame by frame outwards, the rows whose callchains reach so far, and the function of each row's frame.

        Many rows come in blocks: after the outermost frames of one, the innermost ones of the next. is_sought: rows (by their number) that
        go on; whoever has found what a row was searched for clears it.
        """
        for reached, frames in self._frames_outwards(rows, is_sought):
            yield reached, self._function_of[frames]

    def _frames_outwards(self, rows: Int64, is_sought: NDArray[np.bool_] | None = None) -> Iterator[tuple[Int64, NDArray[np.int32]]]:
        """Yield the same with each row's frame.

        A forked worker's callchain ends where its own work began: its outer frames are those of the process that created it.
        """
        if self._chains is None:
            return
        frames, offsets = self._chains
        begins = self._begin_processes
        for block in blocks_of(rows):
            reached = block[self.rows.chain[block] >= 0]
            chain = self.rows.chain[reached]
            most = _DEPTH_OF_IMPORTS if self.imports[2].any() else _DEPTH
            position, left = offsets[chain], np.minimum(offsets[chain + 1] - offsets[chain], most)
            if self._step < 0:
                position = offsets[chain + 1] - 1
            while len(reached):
                goes_on = left > 0 if is_sought is None else (left > 0) & is_sought[reached]
                if not goes_on.all():
                    reached, position, left = reached[goes_on], position[goes_on], left[goes_on]
                if len(reached):
                    yield reached, frames[position]
                    left -= 1
                    if begins is not None:
                        left[begins[self._function_of[frames[position]]]] = 0
                    position += self._step

    def rows_of_functions(self, is_counted: NDArray[np.bool_]) -> Iterator[tuple[Int64, Int64]]:
        """Yield, block by block, rows and the counted functions that they have: each pair once, also if the function is recursive."""
        size = len(is_counted)
        for block in blocks_of(np.arange(len(self.leaf))):
            own = block[is_counted[self.leaf[block]]]
            pairs = [own * size + self.leaf[own]]
            for reached, functions in self.outwards(block):
                chosen = is_counted[functions]
                pairs.append(reached[chosen] * size + functions[chosen])
            yield divmod(distinct(np.concatenate(pairs)), size)

    @cached_property
    def _begin_processes(self) -> NDArray[np.bool_] | None:
        """Whether each function is the first one of forked workers, whose callchains go on with their parent's frames; None without one."""
        begins = np.zeros(len(self._locations.symbols) + 1 + len(self._locations.dsos), np.bool_)
        for number in self.present.tolist():
            begins[number] = charge_kind(UNKNOWN, self.name(number)) == BEGINS
        return begins if begins.any() else None

    def innermost_frames(self, function: int, rows: Int64) -> FunctionFrames:
        """Return the innermost frame of a function in each of some rows that have it."""
        frame_of = np.full(len(self.leaf), _NONE, np.int64)
        is_caller, is_sought = np.zeros(len(self.leaf), np.bool_), np.ones(len(self.leaf), np.bool_)
        has_level = {ord("k"): np.zeros(len(self.leaf), np.bool_), ord("."): np.zeros(len(self.leaf), np.bool_)}
        for reached, frames in self._frames_outwards(rows, is_sought):
            hits = self._function_of[frames] == function
            levels = self._locations.level[frames]
            frame_of[reached[hits]] = frames[hits]
            for level, has_before in has_level.items():
                of_level = levels == level
                is_caller[reached[hits & of_level]] = has_before[reached[hits & of_level]]
                has_before[reached[of_level]] = True
            is_sought[reached[hits]] = False
        without = rows[(frame_of[rows] < 0) & (self.leaf[rows] == function)]
        frame_of[without] = self.rows.dimensions["frame"][without]
        rows = rows[frame_of[rows] >= 0]
        is_runtime_code = np.array([bool(dso.made_code) for dso in self._locations.dsos] + [False], np.bool_)
        innermost = frame_of[rows]
        is_caller = is_caller[rows] & ~is_runtime_code[self._locations.dso[innermost]]
        if self._is_unwound:
            is_caller &= self._locations.level[innermost] == ord("k")
        return FunctionFrames(innermost, is_caller, self.rows.period[rows])

    @cached_property
    def are_own_and_named(self) -> NDArray[np.bool_]:
        """Whether each function is own code with a name. Unnamed code is one function for each file, which nobody calls by that name."""
        is_own: NDArray[np.bool_] = self.category_of == OWN
        is_own[len(self._locations.symbols) :] = False
        return is_own

    @cached_property
    def charged_functions(self) -> Int64:
        """The named function of own code that each row is charged to, -1 for none.

        It is the innermost one, also if it was inlined. Lambdas count for the function that they stand in, if that is in the callchain.
        """
        is_own = self.are_own_and_named
        is_lambda = np.zeros_like(is_own)
        for number in self.present[is_own[self.present]].tolist():
            is_lambda[number] = charge_kind(OWN, self.name(number)) == LAMBDA
        charged = self._innermost(is_own & ~is_lambda, np.arange(len(self.leaf)))
        if is_lambda.any():
            rest = np.flatnonzero(charged < 0)
            charged[rest] = self._innermost(is_lambda, rest)[rest]
        return charged

    @cached_property
    def _is_in_charged_function(self) -> NDArray[np.bool_]:
        """Whether the code of each row's sample is that of the function it is charged to, or inlined into it, and not called by it."""
        charged = self.charged_functions
        is_inside: NDArray[np.bool_] = charged == self.leaf
        is_inlined = np.zeros(len(self.category_of), np.bool_)
        is_inlined[[number for number in self.present.tolist() if self.is_inlined(number)]] = True
        is_sought = ~is_inside & (charged >= 0) & is_inlined[self.leaf]
        for rows, functions in self.outwards(np.flatnonzero(is_sought), is_sought):
            is_inside[rows] = functions == charged[rows]
            is_sought[rows] = ~is_inside[rows] & is_inlined[functions]
        return is_inside

    @cached_property
    def is_vague(self) -> NDArray[np.bool_]:
        """Whether between each row's function and the one that it is charged to others may be missing, which the kernel did not see.

        By frame pointers it misses the caller of each function that does not set one up, as those of most libraries.
        """
        vague, is_sought = np.zeros(len(self.leaf), np.bool_), self.charged_functions >= 0
        last = np.full(len(self.leaf), _NONE, np.int64)
        for rows, functions in self.outwards(np.flatnonzero(is_sought) if self._is_walked else np.zeros(0, np.int64), is_sought):
            hits = functions == self.charged_functions[rows]
            vague[rows[hits]] = self._may_skip(last[rows[hits]], functions[hits])
            is_sought[rows[hits]] = False
            last[rows] = functions
        return vague

    def vague_share(self, function: int) -> float:
        """Return the share of the samples charged to a function that are vague."""
        of_function = self.charged_functions == function
        total = int(self.rows.period[of_function].sum())
        return int(self.rows.period[of_function & self.is_vague].sum()) / total if total else 0.0

    def _may_skip(self, inner: Int64, outer: Int64) -> NDArray[np.bool_]:
        """Whether a frame may be missing between each function of the program and the next one inwards, -1 for none."""
        dsos, keeps_frames = self._files_of_frames
        may_skip: NDArray[np.bool_] = (inner >= 0) & (dsos[inner] != dsos[outer]) & ~keeps_frames[inner] & ~self._is_python[outer]
        return may_skip & self._is_walked

    @cached_property
    def _files_of_frames(self) -> tuple[Int64, NDArray[np.bool_]]:
        """The file of each function, a C library's own number also within a program; whether the function is known to have a frame."""
        dsos, keeps = np.full(len(self.category_of), _NONE, np.int64), np.zeros(len(self.category_of), np.bool_)
        for number in self.present.tolist():
            name, kind = self.name(number), self.category_of[number]
            is_linked = kind == RUNTIME and not name.startswith("runtime.")  # Go's runtime keeps frame pointers
            dsos[number] = -2 if is_linked else self._dso_number(number)
            keeps[number] = kind == KERNEL or self.is_generated(number) or name.startswith("Builtins_")  # V8's have frames
        return dsos, keeps

    @cached_property
    def _is_python(self) -> NDArray[np.bool_]:
        """Whether each function is one of Python, whose callers the interpreter tells."""
        is_python = np.zeros(len(self.category_of), np.bool_)
        is_python[[number for number in self.present.tolist() if self.name(number).startswith(PYTHON_MARK)]] = True
        return is_python

    @cached_property
    def entered(self) -> Int64:
        """The function of each row's sample; if it is in a library, the function by which other files called the library.

        Callers know this one: sin(), not __sin_fma() or what that calls.
        """
        dso_of = np.full(len(self.category_of), _NONE, np.int64)
        for number in self.present.tolist():
            if self.category_of[number] in (LIBRARY, RUNTIME) and SHARED_FILE.search(self.file(number)) and not self.is_generated(number):
                dso_of[number] = self._dso_number(number)
        entered: Int64 = self.leaf.copy()
        is_sought = dso_of[self.leaf] >= 0
        for rows, functions in self.outwards(np.flatnonzero(is_sought), is_sought):
            is_sought[rows] = dso_of[functions] == dso_of[self.leaf[rows]]
            inside = is_sought[rows]
            entered[rows[inside]] = functions[inside]
        return entered

    def _innermost(self, is_chosen: NDArray[np.bool_], rows: Int64) -> Int64:
        """Return the innermost of some functions in each of these rows, -1 for none and for all other rows."""
        innermost = np.full(len(self.leaf), _NONE, np.int64)
        is_sought = np.ones(len(self.leaf), np.bool_)
        for reached, functions in self.outwards(rows, is_sought):
            hits = is_chosen[functions]
            innermost[reached[hits]] = functions[hits]
            is_sought[reached[hits]] = False
        without = rows[(innermost[rows] < 0) & is_chosen[self.leaf[rows]]]
        innermost[without] = self.leaf[without]
        return innermost

    def charged_amounts(self) -> dict[str, tuple[int, int]]:
        """Return the samples and the period of each function of own code, with all that is charged to it, by name."""
        rows = np.flatnonzero(self.charged_functions >= 0)
        functions = self.charged_functions[rows]
        size = len(self.category_of)
        samples, periods = sum_by(functions, self.rows.count[rows], size), sum_by(functions, self.rows.period[rows], size)
        amounts: dict[str, tuple[int, int]] = {}
        for number in distinct(functions).tolist():
            before = amounts.get(self.name(number), (0, 0))
            amounts[self.name(number)] = before[0] + int(samples[number]), before[1] + int(periods[number])
        return amounts

    def hottest_tree(self, least: float, most: float) -> tuple[int, float] | None:
        """Return the own function with the largest share of samples including callees, and that share; None without one.

        Only shares between `least` and `most` count, so that main() does not; of functions that call each other the innermost one is
        returned. Lambdas and inlined functions count for the function that they stand in.
        """
        size = len(self.category_of)
        counts = np.zeros(size, np.bool_)
        for number in self.present.tolist():
            counts[number] = self._begins_tree(number)
        periods = GroupSums()
        for rows, functions in self.rows_of_functions(counts):
            periods.add(functions, self.rows.period[rows], size)
        totals = periods.totals(size)
        counts &= (totals >= least * self.period) & (totals <= most * self.period)
        if not counts.any():
            return None
        innermost = np.where(counts[self.leaf], self.leaf, _NONE)
        is_sought = innermost < 0
        for rows, functions in self.outwards(np.flatnonzero(is_sought), is_sought):
            hits = counts[functions]
            innermost[rows[hits]] = functions[hits]
            is_sought[rows[hits]] = False
        inside = innermost >= 0
        best = int(np.argmax(sum_by(innermost[inside], self.rows.period[inside], size)))
        return best, self.share(int(totals[best]))

    def _begins_tree(self, number: int) -> bool:
        name = self.name(number)
        return bool(name) and not self.is_inlined(number) and charge_kind(int(self.category_of[number]), name) == CHARGED

    def hottest(self, most: int = 3) -> list[ChargedFunction]:
        """Return the functions of own code with most charged samples, and functions without a caller of own code."""
        accounted = np.where(self.charged_functions >= 0, self.charged_functions, self.leaf)
        periods = self._periods(accounted)
        order = np.argsort(-periods, kind="stable")[:most]
        own = self._periods(self.leaf)
        inside = np.flatnonzero(self._is_in_charged_function)
        in_charged = sum_by(self.charged_functions[inside], self.rows.period[inside], len(own))
        own = np.where(self.are_own_and_named, in_charged, own)
        shown = np.where(self.are_own_and_named, periods, own)  # those of others that own code calls count for other code, too
        return [self._hot(number, accounted, int(shown[number]), int(own[number])) for number in order.tolist() if periods[number]]

    def hottest_library(self) -> LibraryFunction | None:
        """Return the function of a library with most samples of its own, if own code calls it; None without one."""
        periods = np.where(self.category_of == LIBRARY, self._periods(self.leaf), 0)
        number = int(np.argmax(periods)) if len(periods) else 0
        if not len(periods) or not periods[number] or not self.name(number):
            return None
        rows = np.flatnonzero((self.leaf == number) & (self.charged_functions >= 0))
        callers = self._largest_shares(self.charged_functions[rows], self.rows.period[rows])
        recursive = int(self.rows.period[self._rows_beneath(rows, number)].sum())
        vague = self.share(int(self.rows.period[rows[self.is_vague[rows]]].sum()))
        return LibraryFunction(number, self.name(number), self.share(int(periods[number])), tuple(callers), self.share(recursive), vague)

    def share_beneath(self, callee: int, caller: int) -> float:
        """Return the share of the samples that are charged to a function, and whose callchains have another function further outwards."""
        rows = self._rows_beneath(np.flatnonzero(self.charged_functions == callee), caller)
        return self.share(int(self.rows.period[rows].sum()))

    def _rows_beneath(self, rows: Int64, caller: int) -> Int64:
        """Return those of some rows whose callchains have a function, further outwards than the frame of the sample itself."""
        is_beneath = np.zeros(len(self.leaf), np.bool_)
        is_first = np.ones(len(self.leaf), np.bool_)  # callchains begin with the sampled frame
        for reached, functions in self.outwards(rows):
            is_beneath[reached[(functions == caller) & ~is_first[reached]]] = True
            is_first[reached] = False
        found: Int64 = np.flatnonzero(is_beneath)
        return found

    def charged_by(self, groups: Int64) -> dict[tuple[int, int], int]:
        """Return the period that is charged to each function of own code, by function and group; groups: of each row."""
        rows, span = np.flatnonzero(self.charged_functions >= 0), int(groups.max(initial=0)) + 1
        pairs, number = np.unique(self.charged_functions[rows] * span + groups[rows], return_inverse=True)
        totals = sum_by(number.ravel(), self.rows.period[rows], len(pairs))
        return {divmod(pair, span): total for pair, total in zip(pairs.tolist(), totals.tolist(), strict=True)}

    @cached_property
    def has_own_callers(self) -> bool:
        """Whether callers are functions of own code only: recordings without any own code have the direct callers."""
        return bool((self.charged_functions >= 0).any())

    def hottest_callers(self) -> dict[int, Share]:
        """Return for each function with samples the function that calls it in most of them, and the share of the function's samples.

        Callers are own code: for functions of libraries and of the kernel the one that their samples are charged to, because they call
        each other in ways that nobody can change. Recordings without any own code have the direct callers.
        """
        return {leaf: share for (leaf, _), share in self.hottest_callers_by(np.zeros(len(self.leaf), np.int64)).items()}

    def hottest_callers_by(self, groups: Int64) -> dict[tuple[int, int], Share]:
        """Return the same by function and group; groups: of each row."""
        size, span = len(self.category_of), int(groups.max(initial=0)) + 1
        is_own = self.are_own_and_named
        has_own = self.has_own_callers
        callers = np.where(is_own[self.leaf], _NONE, self.charged_functions)
        is_sought = callers < 0
        rows = np.flatnonzero(is_own[self.leaf] if has_own else np.ones(len(self.leaf), np.bool_))
        is_outside = np.zeros(len(self.leaf), np.bool_)
        for reached, functions in self.outwards(rows, is_sought):
            # a callchain can begin with callees: the kernel's frames of a wait, inlined calls
            is_leaf = functions == self.leaf[reached]
            is_outside[reached[is_leaf]] = True
            hits = is_outside[reached] & ~is_leaf & (is_own[functions] if has_own else True)
            callers[reached[hits]] = functions[hits]
            is_sought[reached[hits]] = False
        with_caller = np.flatnonzero(callers >= 0)
        leafs, leaf_of = np.unique(self.leaf * span + groups, return_inverse=True)
        leaf_of = leaf_of.ravel()
        of_leaf = sum_by(leaf_of, self.rows.period, len(leafs))
        pairs, number = np.unique(leaf_of[with_caller] * size + callers[with_caller], return_inverse=True)
        totals = sum_by(number.ravel(), self.rows.period[with_caller], len(pairs))
        shares: dict[tuple[int, int], Share] = {}
        for row in np.argsort(totals, kind="stable").tolist():  # the largest last
            leaf, caller = divmod(int(pairs[row]), size)
            share = int(totals[row]) / int(of_leaf[leaf]) if of_leaf[leaf] else 0.0
            shares[divmod(int(leafs[leaf]), span)] = Share(self.name(caller), share)
        return shares

    def _periods(self, functions: Int64) -> Int64:
        return sum_by(functions, self.rows.period, len(self.category_of))

    def _hot(self, number: int, accounted: Int64, charged: int, own: int) -> ChargedFunction:
        rows = np.flatnonzero(accounted == number)
        caller, called, is_recursive, through, vague = self._caller(number, rows)
        leafs = rows[(self.leaf[rows] != number) & ~self._is_in_charged_function[rows]]
        totals = sum_by(self.entered[leafs], self.rows.period[leafs], len(self.category_of))
        callees = [Share(self.name(one), self.share(int(totals[one]))) for one in np.argsort(-totals)[:4].tolist() if totals[one]]
        return ChargedFunction(
            number, self.name(number), self.file(number), int(self.category_of[number]), self.share(own), self.share(charged),
            is_recursive, caller, tuple(callees), tuple(self._kernel_work(rows)), called, tuple(self._entries(number, rows)), through,
            self.share(int(self.rows.period[rows[self.is_vague[rows]]].sum())), vague,
        )  # fmt: skip

    def tree(self, number: int, share: float) -> ChargedFunction:
        """Return a function with all that it calls, which has this share of the samples, and its caller."""
        caller, called, is_recursive, through, vague = self._caller(number, np.arange(len(self.leaf)))
        return ChargedFunction(
            number, self.name(number), self.file(number), int(self.category_of[number]), self.share(0), share, is_recursive, caller,
            called=called, entries_of_caller=through, vague_caller=vague,
        )  # fmt: skip

    def calls_of(self, number: int) -> list[Share]:
        """Return what _entries() returns of the samples that are charged to a function, as shares of these samples."""
        rows = np.flatnonzero(self.charged_functions == number)
        charged = self.share(int(self.rows.period[rows].sum()))
        return [Share(one.name, one.share / charged) for one in self._entries(number, rows)] if charged else []

    def _entries(self, number: int, rows: Int64) -> list[Share]:
        """Return what a Python function calls, with all that this calls, imports as their modules; for JavaScript, V8's functions."""
        if JAVASCRIPT.match(self.name(number)):
            return self._builtins_of(number, rows)
        if not self.name(number).startswith(PYTHON_MARK):
            return []
        is_import, is_module, _ = self.imports
        last, entries = np.full(len(self.leaf), _NONE, np.int64), np.full(len(self.leaf), _NONE, np.int64)
        is_outside = np.zeros(len(self.leaf), np.bool_)
        for reached, functions in self.outwards(rows):
            hits = ~is_outside[reached] & (functions == number)
            entries[reached[hits]], is_outside[reached[hits]] = last[reached[hits]], True
            last[reached] = np.where(is_import[functions] & is_module[last[reached]], last[reached], functions)
        return self._largest_shares(entries[rows], self.rows.period[rows])

    def _builtins_of(self, number: int, rows: Int64) -> list[Share]:
        """Return the functions of V8's library that a JavaScript function calls itself, with all that they call."""
        is_builtin = np.zeros(len(self.category_of), np.bool_)
        for function in self.present.tolist():
            is_builtin[function] = BUILTIN_OF_V8.fullmatch(self.name(function)) is not None
        last, builtins = np.where(is_builtin[self.leaf], self.leaf, _NONE), np.full(len(self.leaf), _NONE, np.int64)
        is_outside = np.zeros(len(self.leaf), np.bool_)
        for reached, functions in self.outwards(rows):
            hits = ~is_outside[reached] & (functions == number)
            builtins[reached[hits]], is_outside[reached[hits]] = last[reached[hits]], True
            last[reached] = np.where(is_builtin[functions], functions, last[reached])
        return self._largest_shares(builtins[rows], self.rows.period[rows])

    def _largest_shares(self, functions: Int64, periods: Int64) -> list[Share]:
        """Return the functions with most of these periods, -1 for none."""
        is_known = functions >= 0
        totals = sum_by(functions[is_known], periods[is_known], len(self.category_of))
        return [Share(self.name(one), self.share(int(totals[one]))) for one in np.argsort(-totals)[:4].tolist() if totals[one]]

    @cached_property
    def imports(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether Python runs modules by each function, whether it is a module, and whether it surely imports (exec() runs programs)."""
        is_import, is_module, is_sure = (np.zeros(len(self.category_of) + 1, np.bool_) for _ in range(3))
        for number in self.present.tolist():
            is_import[number], is_module[number] = IMPORT_OF_PYTHON.fullmatch(self.name(number)) is not None, self._is_top_level(number)
            is_sure[number] = is_import[number] and not is_called_c_function(self.name(number))
        return is_import, is_module, is_sure  # index -1: none of them

    def _caller(self, number: int, rows: Int64) -> tuple[Share | None, float, bool, tuple[Share, ...], float]:
        """Return the own function that calls a function in most of these rows, the share of rows with a known caller, whether the
        function mostly calls itself, the functions of libraries by way of which the caller calls it, and the share of vague rows.
        """
        periods = self.rows.period
        callers, last, entries = (np.full(len(self.leaf), _NONE, np.int64) for _ in range(3))
        occurrences, is_vague = np.zeros(len(self.leaf), np.int64), np.zeros(len(self.leaf), np.bool_)
        for reached, functions in self.outwards(rows):
            is_same = functions == number
            occurrences[reached[is_same]] += 1
            outer = (occurrences[reached] > 0) & ~is_same & (callers[reached] < 0) & (self.category_of[functions] == OWN)
            callers[reached[outer]], entries[reached[outer]] = functions[outer], last[reached[outer]]
            inner = np.where(last[reached] >= 0, last[reached], number)
            is_vague[reached[outer]] = self._may_skip(inner[outer], functions[outer])
            last[reached] = np.where(is_same, _NONE, functions)
        callers, weights = callers[rows], periods[rows]
        is_recursive = 2 * int(weights[occurrences[rows] > 1].sum()) >= int(weights.sum()) > 0 and not self._is_top_level(number)
        has_caller = callers >= 0
        if not has_caller.any():
            return None, 0.0, is_recursive, (), 0.0
        totals = sum_by(callers[has_caller], weights[has_caller], len(self.category_of))
        best = int(np.argmax(totals))
        caller = Share(self.name(best), self.share(int(totals[best])))
        through: tuple[Share, ...] = ()
        if caller.name.startswith(PYTHON_MARK):
            through = tuple(self._largest_shares(np.where(callers == best, entries[rows], _NONE), weights))
        vague = self.share(int(weights[is_vague[rows] & (callers == best)].sum()))
        return caller, self.share(int(totals.sum())), is_recursive, through, vague

    def _is_top_level(self, number: int) -> bool:
        """Whether a function is the top level of a Python file: of texts that are executed, several have one name."""
        return self.name(number).startswith(f"{PYTHON_MARK}<module>:")

    @cached_property
    def _work_of(self) -> tuple[list[str], NDArray[np.int32]]:
        """The kinds of kernel work, and that of each function, -1 for none."""
        kinds: dict[str, int] = {}
        work = np.full(len(self.category_of), _NONE, np.int32)
        for number in np.flatnonzero(self.category_of == KERNEL).tolist():
            name = self.name(number)
            call = SYSTEM_CALL.match(name)
            kind = PAGE_FAULTS if FAULT_HANDLER.fullmatch(name) else next(filter(None, call.groups()), "") if call else ""
            if kind:
                work[number] = kinds.setdefault(kind, len(kinds))
        return list(kinds), work

    @cached_property
    def _are_entries(self) -> NDArray[np.bool_]:
        """Whether each function is one by which system calls enter or leave the kernel."""
        are_entries = np.zeros(len(self.category_of), np.bool_)
        for number in np.flatnonzero(self.category_of == KERNEL).tolist():
            are_entries[number] = KERNEL_ENTRY.fullmatch(self.name(number)) is not None
        return are_entries

    def kernel_work(self) -> list[Share]:
        """Return the system calls and page faults of all samples, by share."""
        return self._kernel_work(np.arange(len(self.leaf)))

    def _kernel_work(self, rows: Int64) -> list[Share]:
        kinds, work = self._work_of
        is_entry = self._are_entries
        rows = rows[self.category_of[self.leaf[rows]] == KERNEL]
        outermost = np.full(len(self.leaf), _NONE, np.int64)
        outermost[rows] = work[self.leaf[rows]]
        in_kernel = np.zeros(len(self.leaf), np.bool_)
        in_kernel[rows] = True
        is_entered = is_entry[self.leaf]
        for reached, functions in self.outwards(rows, in_kernel):
            in_kernel[reached] = self.category_of[functions] == KERNEL
            is_entered[reached] |= is_entry[functions]
            hits = in_kernel[reached] & (work[functions] >= 0)
            outermost[reached[hits]] = work[functions[hits]]
        named_rows = rows[outermost[rows] >= 0]
        totals = sum_by(outermost[named_rows], self.rows.period[named_rows], len(kinds))
        largest = int(np.argmax(totals)) if len(kinds) else 0
        if len(kinds) and kinds[largest] != PAGE_FAULTS and totals[largest] >= ONE_CALL * totals.sum() > 0:
            entering = rows[(outermost[rows] < 0) & is_entered[rows]]  # the kernel's way to the call and back belongs to it
            totals[largest] += int(self.rows.period[entering].sum())
        return [Share(kinds[kind], self.share(int(totals[kind]))) for kind in np.argsort(-totals, kind="stable").tolist() if totals[kind]]


def blocks_of(rows: Int64) -> Iterator[Int64]:
    """Yield the rows in the blocks that are searched together."""
    for begin in range(0, len(rows), _ROWS):
        yield rows[begin : begin + _ROWS]


_sampled: WeakKeyDictionary[Histogram, SampledFunctions] = WeakKeyDictionary()


def sampled_functions(report: Report, histogram: Histogram, *, waits: bool | None = None) -> SampledFunctions:
    """Return the functions of a histogram's samples; the verdict and the screen share them. waits: as for SampledFunctions."""
    if waits is None and histogram in _sampled:
        return _sampled[histogram]
    graph = report.options.chains.call_graph
    are_callers_first = graph is not None and graph.order == "caller"
    samples = ReportSamples(report.folded, report.chains, histogram.locations, are_callers_first, is_walked=report.is_walked)
    functions = SampledFunctions(samples, histogram.leader.event.index, waits=waits)
    if waits is None:
        _sampled[histogram] = functions
    return functions
