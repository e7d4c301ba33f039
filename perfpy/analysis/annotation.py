"""The code of functions, with the samples of every instruction.

Samples count for the instruction at or before their address.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.locations import ROLE_BITS
from perfpy.analysis.report.options import ColumnOptions
from perfpy.disassembly.disassembler import CodeStyle, Disassembler
from perfpy.disassembly.function_code import NoCodeError
from perfpy.symbols.interning import sum_by
from perfpy.untrusted.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.locations import Locations
    from perfpy.analysis.report.branch_blocks import BranchCoverage, BranchShares
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.disassembly.disassembler import AsmLine, Disassembly
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.symbolizer import Symbolizer


#: percent of a function from which on the source line of an instruction is looked up
WORTH_A_LINE: Final = 0.5


class ShareOf(NamedTuple):
    """The meaning of 100 %.

    Attributes:
        whole: the event instead of the function.
        hits: count samples instead of periods.
    """

    whole: bool = False
    hits: bool = False

    @classmethod
    def parse(cls, name: str) -> ShareOf:
        """Parse perf's name: local-period, hits-global ..."""
        words = name.split("-")
        return cls("global" in words, "hits" in words)

    def __str__(self) -> str:
        return f"{'global' if self.whole else 'local'} {'hits' if self.hits else 'period'}"


class CallAtLine(NamedTuple):
    """A function that is inlined at an instruction, and the place of the call; an empty path if unknown."""

    name: str
    path: str
    line: int


class CodeRow(NamedTuple):
    """An instruction.

    Attributes:
        percent: its share of the function.
        source: path and line, if known.
        calls: the functions that are inlined there, innermost first.
    """

    address: int
    text: str
    percent: float
    samples: int
    source: tuple[str, int] | None
    calls: tuple[CallAtLine, ...] = ()


class AnnotatedFunction:
    """The code of a function.

    Attributes:
        name: of the function.
        dso: its file.
        path: of the file, or of the memory that the code was read from.
        start: its address in the file.
        recorded_start: its start in perf's terms, from the file's beginning.
        lines: its code.
        offsets: of the lines that are instructions.
        bounds: offsets and the function's size.
        samples, period: of each event of the group, for each instruction.
    """

    def __init__(self, hot: HotFunction, function: Disassembly, symbolizer: Symbolizer, infos: Callable[[], DebugInfos]) -> None:
        self.hot = hot
        self.name = function.code.name
        self._dso_number = symbolizer.symbols.dso(hot.symbol)
        self.dso: Dso = symbolizer.dsos[self._dso_number]
        self.path = function.code.memory or self.dso.long_name
        self.start = function.code.start
        self.recorded_start = symbolizer.symbols.start(hot.symbol)
        self.lines: list[AsmLine] = function.lines
        self.offsets = np.array([line.offset for line in function.lines if line.is_code], np.int64)
        self.bounds = np.append(self.offsets, function.code.end - function.code.start)
        counted = [hits.between(self.bounds) for hits in hot.hits]
        self.samples = [samples for samples, _ in counted]
        self.period = [period for _, period in counted]
        self._infos = infos
        self._shown = symbolizer.shown_name

    def shares(self, share_of: ShareOf) -> list[NDArray[np.float64]]:
        """Return the shares in percent, for each event of the group."""
        shares = []
        for hits, samples, period in zip(self.hot.hits, self.samples, self.period, strict=True):
            local = hits.total_samples if share_of.hits else hits.total_period
            whole = hits.of_all_samples if share_of.hits else hits.of_all_periods
            total = whole if share_of.whole else local
            values = samples if share_of.hits else period
            shares.append(100.0 * values / total if total else np.zeros(len(values)))
        return shares

    def rows(self, share_of: ShareOf = ShareOf(), *, with_calls: bool = False) -> Iterator[CodeRow]:  # noqa: B008 - a value
        """Yield the instructions, with the first event's samples. with_calls: find inlined calls."""
        shares, samples = self.shares(share_of)[0].tolist(), self.samples[0].tolist()
        code = (line for line in self.lines if line.is_code)
        calls = self._calls() if with_calls else [()] * len(samples)
        for line, percent, count, source, inlined in zip(code, shares, samples, self.sources, calls, strict=True):
            yield CodeRow(self.start + line.offset, line.text.strip(), percent, count, source, inlined)

    def _calls(self) -> list[tuple[CallAtLine, ...]]:
        """Return the functions that are inlined at each instruction, innermost first."""
        from perfpy.debuginfo.inlined_calls import InlineFinder  # few ask for calls

        info = self._infos().of(self._dso_number)
        if info is None:
            return [()] * len(self.offsets)
        finder = InlineFinder(info.units)
        found = finder.find(info.addresses(self.offsets.astype(np.uint64) + np.uint64(self.recorded_start)))
        rows = found.rows()
        files = info.lines.files({(unit, file) for _, unit, file, *_ in rows})
        calls: list[tuple[CallAtLine, ...]] = []
        begin = 0
        for count in found.counts.tolist():
            inlined = rows[begin : begin + max(0, count - 1)]  # the outermost one is the function itself
            begin += count
            numbers = [(name, files[unit, file], line) for name, unit, file, line, *_ in inlined]
            calls.append(
                tuple(
                    CallAtLine(self._shown(finder.names[name]), info.lines.paths[file] if file >= 0 else "", line)
                    for name, file, line in numbers
                )
            )
        return calls

    def branches(self, coverage: BranchCoverage) -> dict[int, BranchShares]:
        """Return what branches do at instructions, by offset."""
        return {int(self.offsets[row]): shares for row, shares in coverage.shares(self._dso_number, self.recorded_start + self.offsets)}

    @cached_property
    def sources(self) -> list[tuple[str, int] | None]:
        """The path and source line of each instruction; None if unknown."""
        info = self._infos().of(self._dso_number)
        if info is None:
            return [None] * len(self.offsets)
        lines = info.lines.find(info.addresses(self.offsets.astype(np.uint64) + np.uint64(self.recorded_start)))
        pairs = zip(lines.file.tolist(), lines.line.tolist(), strict=True)
        return [(info.lines.paths[file], line) if file >= 0 else None for file, line in pairs]


def annotated(symbolizer: Symbolizer, hot: Iterable[HotFunction], style: CodeStyle) -> Iterator[AnnotatedFunction | NoCodeError]:
    """Yield the functions in order; NoCodeError for those whose code is not available."""
    requested = list(hot)

    @cache
    def infos() -> DebugInfos:
        from perfpy.debuginfo.debug_info import DebugInfos  # few ask for lines

        return DebugInfos(symbolizer)

    functions = Disassembler(symbolizer, style).functions(function.symbol for function in requested)
    for one, function in zip(requested, functions, strict=True):
        if isinstance(function, NoCodeError):
            yield function
        else:
            yield AnnotatedFunction(one, function, symbolizer, infos)


# The code of a recording's functions, table by table, read on demand.


class Annotation:
    """The samples within the functions of a recording.

    Attributes:
        report: the samples by function.
        without_code: reason -> functions whose code could not be read.

    Args:
        timeline: of the recording's tasks, for branch_coverage().
    """

    def __init__(self, report: Report, symbolizer: Symbolizer, timeline: TaskTimeline | None = None) -> None:
        self.report = report
        self._timeline = timeline
        self.without_code: dict[str, list[str]] = {}
        self._symbolizer = symbolizer

    def branch_coverage(self, data: SampleSource, chosen: SampleFilter) -> BranchCoverage | None:
        """Return how often the branches of the chosen samples enter and leave instructions; None without a timeline."""
        if self._timeline is None:
            return None
        from perfpy.analysis.report.branch_blocks import COLUMNS, branch_coverage  # few recordings have branches

        batches = data.batches(COLUMNS | chosen.all_fields())
        return branch_coverage(batches, data.events, self._timeline, self._symbolizer, chosen)

    def _first_table(self) -> Histogram | None:
        return next((one for one in self.report.histograms if one.leader.samples), None)

    def function(self, event: FileEvent | None = None, style: CodeStyle | None = None) -> AnnotatedFunction:
        """Return the hottest function of an event (default: the first with samples). Raises NoCodeError if its code is not available."""
        of_event = (one for one in self.report.histograms if event is not None and one.leader.event.index == event.index)
        hottest = next(self.functions(next(of_event, None), style), None)
        if hottest is None:
            reason, names = next(iter(self.without_code.items()), ("there are no samples", ["a function"]))
            raise NoCodeError(names[0], reason)
        return hottest

    def functions(
        self, histogram: Histogram | None = None, style: CodeStyle | None = None, *, percent_limit: float = 0.0
    ) -> Iterator[AnnotatedFunction]:
        """Yield the functions of a table (default: the first with samples) with their code, sorted by samples.

        percent_limit: the least share of the event.
        """
        table = histogram or self._first_table()
        if table is None:
            return
        for function in annotated(self._symbolizer, hot_functions(self.report, table, percent_limit), style or CodeStyle()):
            if isinstance(function, AnnotatedFunction):
                yield function
            else:
                names = self.without_code.setdefault(function.reason, [])
                if function.function not in names:
                    names.append(function.function)


# The functions of a report, with the addresses of their samples. The report must be folded by address (ReportOptions.by_address).


#: the sort keys of such a report
BY_FUNCTION = ColumnOptions(sort="dso,symbol")


class Hits(NamedTuple):
    """The samples of one event in one function.

    Attributes:
        offset: int64[n], from the function's start, ascending.
        samples, period: int64[n + 1], cumulative, before each offset and after the last.
        of_all_samples, of_all_periods: totals of the event, or of the functions selected by name
            (perf annotate reads nothing else then).
    """

    offset: NDArray[np.int64]
    samples: NDArray[np.int64]
    period: NDArray[np.int64]
    of_all_samples: int
    of_all_periods: int

    @property
    def total_samples(self) -> int:
        """The number of samples in the function."""
        return int(self.samples[-1])

    @property
    def total_period(self) -> int:
        """The period of the function."""
        return int(self.period[-1])

    def between(self, bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the samples and the period from each bound up to the next: one less than bounds."""
        rows = np.searchsorted(self.offset, bounds)
        return np.diff(self.samples[rows]), np.diff(self.period[rows])


class HotFunction(NamedTuple):
    """A row of a report that is a function.

    Attributes:
        symbol: its number.
        percent: its share of the event.
        hits: of each event of the group.
    """

    symbol: int
    percent: float
    hits: list[Hits]


def hot_functions(report: Report, histogram: Histogram, percent_limit: float = 0.0) -> Iterator[HotFunction]:
    """Yield the functions of a table after filters; rows without a function or below a share of the event are skipped."""
    location_table = histogram.locations
    entries = histogram.visible_entries()
    shares = histogram.percents("period", entries)
    is_hot = shares >= percent_limit
    entries, shares = entries[is_hot], shares[is_hot]
    symbols = location_table.symbol[histogram.entries.location[entries] >> ROLE_BITS]
    members = [_Samples.of(report, histogram, member) for member in range(len(histogram.events))]
    for symbol, share in zip(symbols.tolist(), shares.tolist(), strict=True):
        if symbol >= 0:
            yield HotFunction(symbol, share, [samples.within(symbol) for samples in members])


class _Samples:
    """The addresses of one event's samples, grouped by function."""

    def __init__(
        self,
        symbol: NDArray[np.int64],
        offset: NDArray[np.int64],
        samples: NDArray[np.int64],
        period: NDArray[np.int64],
        of_all: tuple[int, int],
    ) -> None:
        order = np.lexsort((offset, symbol))
        self._symbol, self._offset = symbol[order], offset[order]
        self._samples, self._period = samples[order], period[order]
        self._of_all = of_all

    @classmethod
    def of(cls, report: Report, histogram: Histogram, member: int) -> _Samples:
        """Return the addresses of one member of a table's group."""
        folded, location_table = report.folded, histogram.locations
        rows = np.flatnonzero((folded.event == histogram.events[member].event.index) & ~folded.filtered)
        frames = folded.dimensions["frame"][rows]
        symbol = location_table.symbol[frames].astype(np.int64)
        start = location_table.symbol_bounds(symbol)[0]
        offset = (location_table.address[frames] - start).astype(np.int64)
        samples, period = folded.count[rows], folded.period[rows]
        counted = _are_named(report.options.sample_filter.symbols, symbol, location_table)
        return cls(symbol, offset, samples, period, (int(samples[counted].sum()), int(period[counted].sum())))

    def within(self, symbol: int) -> Hits:
        """Return the samples in a function."""
        first, last = np.searchsorted(self._symbol, [symbol, symbol + 1]).tolist()
        offset, inverse = np.unique(self._offset[first:last], return_inverse=True)
        columns = (sum_by(inverse.ravel(), values[first:last], len(offset)) for values in (self._samples, self._period))
        samples, period = (np.concatenate([np.zeros(1, np.int64), np.cumsum(column)]) for column in columns)
        return Hits(offset, samples, period, *self._of_all)


def _are_named(names: Collection[str] | None, symbol: NDArray[np.int64], location_table: Locations) -> NDArray[np.bool_]:
    """Return a mask of the samples in functions of these names; None for all."""
    if names is None:
        return np.ones(len(symbol), np.bool_)
    symbols = [number for number in range(len(location_table.symbols)) if location_table.symbols.name(number) in names]
    return np.isin(symbol, symbols)


# Find the source lines of functions that runtimes name with their source files.
#
# The names are those of perf maps: py::QUALIFIED.NAME:/FILE of CPython, and KIND:NAME FILE:LINE:COLUMN of V8. A
# function without a name in the source gets the line of the one around it; the line is 0 if the file is missing or has changed.


_PYTHON: Final = re.compile(PYTHON_MARK + r"(?P<name>.+?):(?P<path>/.+)", re.DOTALL)
_V8: Final = re.compile(r"[A-Za-z]+:[*~^+]?\S* (?:file://)?(?P<path>/.+):(?P<line>\d{1,9}):\d+", re.DOTALL)
_BEGINNING: Final = re.compile(rb"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_FILE_MOST: Final = 16 << 20
_NAMES_MOST: Final = 1 << 16  # functions of a file


class NamedLines:
    """A lookup of names that reads each file once."""

    def __init__(self) -> None:
        self._beginnings: dict[str, dict[str, int]] = {}

    def of(self, name: str) -> tuple[str, int]:
        """Return the path and the line; "" for other names."""
        match = _PYTHON.fullmatch(name)
        if match:
            return match["path"], self._beginning(match["path"], match["name"])
        match = _V8.fullmatch(name)
        return (match["path"], int(match["line"])) if match else ("", 0)

    def _beginning(self, path: str, name: str) -> int:
        """Return the line where a function begins; for <lambda>, <genexpr> ... that of the function around it."""
        lines = self._lines(path)
        while name not in lines and name.endswith(">"):
            if not (name := name.rpartition(".<locals>.")[0]):
                return 0
        return lines.get(name, 0)

    def _lines(self, path: str) -> dict[str, int]:
        if path not in self._beginnings:
            try:
                self._beginnings[path] = beginnings(read_regular(path, limit=_FILE_MOST))
            except (OSError, ValueError):
                self._beginnings[path] = {}
        return self._beginnings[path]


def beginnings(source: bytes) -> dict[str, int]:
    """Map qualified names of Python's functions and classes to the lines where they begin; of equal names, the first."""
    lines: dict[str, int] = {}
    outer: list[tuple[int, str]] = []  # the indentation, and the prefix of names inside
    for number, line in enumerate(source.split(b"\n"), 1):
        match = _BEGINNING.match(line)
        if match is None:
            continue
        indent = len(match[1].expandtabs())
        while outer and outer[-1][0] >= indent:
            outer.pop()
        name = (outer[-1][1] if outer else "") + match[2].decode("utf-8", "replace")
        is_class = b"class" in line[: match.start(2)]
        outer.append((indent, f"{name}." if is_class else f"{name}.<locals>."))
        if len(lines) < _NAMES_MOST:
            lines.setdefault(name, number)
    return lines
