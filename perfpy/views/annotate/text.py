"""perf annotate --stdio, as perf 7.3 prints it.

A heading with a line of dashes, then the code, with the shares of each
event of the group before instructions and numbers before other lines; with -l, a table of source lines first.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.annotation.annotated import WORTH_A_LINE, ShareOf
from perfpy.views.report.share_colour import colour_share, in_colour

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
    """The style of the code.

    Attributes:
        shown: percent, samples or period.
        source_lines: add source lines (-l).
        full_paths: with folders.
        hits: list the addresses with samples (-v).
        colour: the beginning of escape sequences, "" for none.
    """

    unit: str = "percent"
    share_of: ShareOf = ShareOf()
    source_lines: bool = False
    full_paths: bool = False
    hits: bool = False
    skip_empty: bool = False
    colour: str = ""


class AnnotationText:
    """A printer of functions; title: the event's or the group's."""

    def __init__(self, title: str, members: Sequence[int], style: AnnotateStyle) -> None:
        self._title = title
        self._members = members
        self._style = style
        self._width = (_WIDE if style.unit == "period" else _NARROW) * len(members)
        self._source_before = ""

    def lines(self, function: AnnotatedFunction) -> Iterator[str]:
        """Yield all lines of a function."""
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
        column = self._style.unit.capitalize()[: self._width].ljust(self._width)
        samples = f"{function.hot.hits[0].total_samples} samples, percent: {self._style.share_of}"
        heading = f" {column}|\tSource code & Disassembly of {name} for {self._title} ({samples})"
        yield heading
        yield "-" * (len(heading.encode("utf-8", "surrogateescape")) + len("\n----"))

    def _hits(self, function: AnnotatedFunction) -> Iterator[str]:
        """Yield each sampled address with its number of samples, of the first event."""
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
        """Return the source of an instruction, if it differs from the last one printed."""
        if not source or source == self._source_before:
            return ""
        self._source_before = source
        return f" // {source}"

    def _cells(self, function: AnnotatedFunction, shares: Shares) -> Callable[[int], str]:
        """Return the function that formats the columns before an instruction, by its number."""
        style = self._style
        values = {"samples": function.samples, "period": function.period}.get(style.unit)
        columns = [values[member].tolist() for member in self._members] if values else [share.tolist() for share in shares]
        percents = [share.tolist() for share in shares]
        template = {"samples": " {:7d}", "period": " {:11d}"}.get(style.unit, " {:7.2f}")

        def cells(number: int) -> str:
            pairs = zip(columns, percents, strict=True)
            return "".join(_cell(template.format(column[number]), percent[number], style.colour) for column, percent in pairs)

        return cells

    def _sources(self, function: AnnotatedFunction, shares: Shares) -> dict[int, str]:
        """Return the sources of the instructions above the threshold."""
        most = np.max(shares, axis=0) if shares else np.zeros(0)
        sources = {}
        for number in np.flatnonzero(most > WORTH_A_LINE).tolist():
            line = function.sources[number]
            sources[number] = (
                self._text_of_line(line) if line else f"{function.dso.short_name}[{function.start + function.offsets[number]:x}]"
            )
        return sources

    def _text_of_line(self, source: tuple[str, int]) -> str:
        path, line = source
        return f"{path if self._style.full_paths else path.rpartition('/')[2]}:{line}"

    def _summary(self, function: AnnotatedFunction, shares: Shares, sources: dict[int, str]) -> Iterator[str]:
        """Yield the source lines, sorted by share; equal ones by name, descending, as in perf."""
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
    return colour_share(percent, text, escape) if escape else text


def _address_width(function: AnnotatedFunction) -> int:
    """Return the width of the last instruction's address."""
    return len(f"{function.start + int(function.offsets[-1]):x}") if len(function.offsets) else 0
