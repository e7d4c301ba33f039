"""perf annotate --stdio, as perf 7.3 has it.

What enters: annotated functions. What leaves: lines of text: a heading with a line of dashes, then the code, with shares of each
event of the group in front of instructions and numbers in front of the rest; with -l, a table of source lines before it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.annotation.annotated import WORTH_A_LINE, ShareOf
from perfpy.views.report.share_colour import coloured, in_colour

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.annotation.annotated import AnnotatedFunction
    from perfpy.disassembly.code_lines import AsmLine

    Shares = list[NDArray[np.float64]]

_NARROW: Final = 8  # columns of a share or a number of samples; of a period 12
_WIDE: Final = 12
_ADDRESS_COLOUR: Final = "[35m"
_CODE_COLOUR: Final = "[34m"


class AnnotateStyle(NamedTuple):
    """How code is printed.

    shown: percent, samples or period; source_lines: whether source lines are named (-l); full_paths: files with their folders;
    hits: whether addresses that have samples are listed (-v); colour: what an escape sequence begins with.
    """

    shown: str = "percent"
    share_of: ShareOf = ShareOf()
    source_lines: bool = False
    full_paths: bool = False
    hits: bool = False
    skip_empty: bool = False
    colour: str = ""


class AnnotationText:
    """Prints functions one after the other; title: the event's or the group's."""

    def __init__(self, title: str, members: Sequence[int], style: AnnotateStyle) -> None:
        self._title = title
        self._members = members
        self._style = style
        self._width = (_WIDE if style.shown == "period" else _NARROW) * len(members)
        self._source_before = ""

    def lines(self, function: AnnotatedFunction) -> Iterator[str]:
        """All lines of one."""
        shares = [function.shares(self._style.share_of)[member] for member in self._members]
        sources = self._sources(function, shares) if self._style.source_lines else {}
        if self._style.source_lines:
            yield from self._summary(function, shares, sources)
        yield from self._heading(function)
        if self._style.hits:
            yield from self._hits(function)
        yield from self._code(function, shares, sources)

    def _heading(self, function: AnnotatedFunction) -> Iterator[str]:
        name = function.path if self._style.full_paths else function.path.rpartition("/")[2]
        column = self._style.shown.capitalize()[: self._width].ljust(self._width)
        samples = f"{function.hot.hits[0].total_samples} samples, percent: {self._style.share_of}"
        heading = f" {column}|\tSource code & Disassembly of {name} for {self._title} ({samples})"
        yield heading
        yield "-" * (len(heading.encode("utf-8", "surrogateescape")) + len("\n----"))

    def _hits(self, function: AnnotatedFunction) -> Iterator[str]:
        """Each address that was hit, and how often, of the first event."""
        hits = function.hot.hits[0]
        for offset, samples in zip(hits.offset.tolist(), np.diff(hits.samples).tolist(), strict=True):
            if samples:
                yield f"{function.recorded_start + offset:>32x}: {samples}"
        yield f"{'h->nr_samples':>32}: {hits.total_samples}"

    def _code(self, function: AnnotatedFunction, shares: Shares, sources: dict[int, str]) -> Iterator[str]:
        width = _address_width(function)
        cells = self._cells(function, shares)
        number = 0
        blank = " " * (self._width + 1)
        for position, line in enumerate(function.lines):
            if line.is_code:
                yield f"{cells(number)} : {self._instruction(function, line, width)}{self._source(sources.get(number, ''))}"
                number += 1
            else:
                yield f"{blank}: {position:<{width}} {line.text}" if line.text else f"{blank}:"

    def _instruction(self, function: AnnotatedFunction, line: AsmLine, width: int) -> str:
        address = f"  {function.start + line.offset:{width}x}:"
        escape = self._style.colour
        if not escape:
            return address + line.text
        return in_colour(_ADDRESS_COLOUR, address, escape) + in_colour(_CODE_COLOUR, line.text, escape)

    def _source(self, source: str) -> str:
        """Where an instruction is from, where that is another line than that of the last one that said so."""
        if not source or source == self._source_before:
            return ""
        self._source_before = source
        return f" // {source}"

    def _cells(self, function: AnnotatedFunction, shares: Shares) -> Callable[[int], str]:
        """What stands in front of an instruction, by its number."""
        style = self._style
        values = {"samples": function.samples, "period": function.period}.get(style.shown)
        columns = [values[member].tolist() for member in self._members] if values else [share.tolist() for share in shares]
        percents = [share.tolist() for share in shares]
        template = {"samples": " {:7d}", "period": " {:11d}"}.get(style.shown, " {:7.2f}")

        def cells(number: int) -> str:
            pairs = zip(columns, percents, strict=True)
            return "".join(_cell(template.format(column[number]), percent[number], style.colour) for column, percent in pairs)

        return cells

    def _sources(self, function: AnnotatedFunction, shares: Shares) -> dict[int, str]:
        """What is said of the source of those instructions that are worth it."""
        most = np.max(shares, axis=0) if shares else np.zeros(0)
        found = {}
        for number in np.flatnonzero(most > WORTH_A_LINE).tolist():
            source = function.sources[number]
            found[number] = self._worded(source) if source else f"{function.dso.short_name}[{function.start + function.offsets[number]:x}]"
        return found

    def _worded(self, source: tuple[str, int]) -> str:
        path, line = source
        return f"{path if self._style.full_paths else path.rpartition('/')[2]}:{line}"

    def _summary(self, function: AnnotatedFunction, shares: Shares, sources: dict[int, str]) -> Iterator[str]:
        """The source lines, those with most first; of equal ones the last name first, as perf has them."""
        yield from ("", f"Sorted summary for file {function.path}", "-" * 46, "")
        if not sources:
            yield f" Nothing higher than {WORTH_A_LINE:.1f}%"
            return
        by_name = sorted(sources, key=lambda number: sources[number].encode("utf-8", "surrogateescape"), reverse=True)
        rows = []
        for name, numbers in groupby(by_name, sources.__getitem__):
            of_line = sorted(numbers)
            rows.append((tuple(float(sum(share[of_line].tolist())) for share in shares), name))
        for percents, name in sorted(rows, key=lambda row: row[0], reverse=True):
            cells = "".join(_cell(f" {percent:7.2f}", percent, self._style.colour) for percent in percents)
            yield f"{cells} {_cell(name, max(percents), self._style.colour)}"


def _cell(text: str, percent: float, escape: str) -> str:
    return coloured(percent, text, escape) if escape else text


def _address_width(function: AnnotatedFunction) -> int:
    """That of the last instruction's address."""
    return len(f"{function.start + int(function.offsets[-1]):x}") if len(function.offsets) else 0
