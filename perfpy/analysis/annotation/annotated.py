"""The code of functions, with the samples of every instruction.

Samples count for the instruction at or before their address.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.disassembly.disassembler import Disassembler
from perfpy.disassembly.function_code import NoCodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.annotation.hot_functions import HotFunction
    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.disassembly.code_lines import AsmLine
    from perfpy.disassembly.disassembler import Disassembly
    from perfpy.disassembly.objdump import CodeStyle
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
        """Parse perf's name: local-period, global-hits ..."""
        where, _, measure = name.partition("-")
        return cls(where == "global", measure == "hits")

    def __str__(self) -> str:
        return f"{'global' if self.whole else 'local'} {'hits' if self.hits else 'period'}"


class CodeRow(NamedTuple):
    """An instruction; percent: its share of the function; source: path and line, if known."""

    address: int
    text: str
    percent: float
    samples: int
    source: tuple[str, int] | None


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

    def rows(self, share_of: ShareOf = ShareOf()) -> Iterator[CodeRow]:  # noqa: B008 - a value
        """Yield the instructions, with the first event's samples."""
        shares, samples = self.shares(share_of)[0].tolist(), self.samples[0].tolist()
        code = (line for line in self.lines if line.is_code)
        for line, percent, count, source in zip(code, shares, samples, self.sources, strict=True):
            yield CodeRow(self.start + line.offset, line.text.strip(), percent, count, source)

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
