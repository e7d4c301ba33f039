"""perf annotate --stdio, as perf 7.3 prints it.

A heading with a line of dashes, then the code, with the shares of each
event of the group before instructions and numbers before other lines; with -l, a table of source lines first.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.annotation import WORTH_A_LINE, ShareOf
from perfpy.errors import plural
from perfpy.untrusted.files import read_regular
from perfpy.untrusted.text import visible
from perfpy.views.pieces import colour_share, in_colour
from perfpy.views.readable import event_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.analysis.report.branch_blocks import BranchCoverage, BranchShares
    from perfpy.analysis.source_files import SourceFile, SourceLine, SourceShares
    from perfpy.disassembly.disassembler import AsmLine

    Shares = list[NDArray[np.float64]]


_NARROW: Final = 8  # columns of a share or a number of samples; of a period 12
_WIDE: Final = 12
_RARE: Final = 0.1  # percent
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
    """A printer of functions.

    Args:
        title: the event's or the group's.
        coverage: the branches of the samples; None if there are none.
    """

    def __init__(self, title: str, members: Sequence[int], style: AnnotateStyle, coverage: BranchCoverage | None = None) -> None:
        self._title = title
        self._coverage = coverage
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
        branches = {} if self._coverage is None else function.branches(self._coverage)
        number = 0
        blank = " " * (self._width + 1)
        for position, line in enumerate(function.lines):
            if line.is_code:
                branch = _branch_text(branches[line.offset]) if line.offset in branches else ""
                yield f"{cells(number)} : {self._instruction(function, line, width)}{branch}{self._source(sources.get(number, ''))}"
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


def _branch_text(shares: BranchShares) -> str:
    """Return perf's remark on the branches to and from an instruction; "" for rare ones."""
    texts = [f" +{shares.joined:.2f}%"] if shares.joined > _RARE else []
    texts += [f" -{shares.left:.2f}% (p:{shares.predicted:.2f}%)"] if shares.left > _RARE else []
    return "\t#" + "".join(texts) if texts else ""


def _cell(text: str, percent: float, escape: str) -> str:
    return colour_share(percent, text, escape) if escape else text


def _address_width(function: AnnotatedFunction) -> int:
    """Return the width of the last instruction's address."""
    return len(f"{function.start + int(function.offsets[-1]):x}") if len(function.offsets) else 0


# annotate --by-line: source files, line by line.
#
# Each file has a heading, and its lines with samples, with some around them. The program's own files come before those of libraries and
# runtimes, which nearly all calls pass through; code without lines comes last.
# Source text is read if the files exist here. The output is the same for pipes and terminals.


#: relative paths are those of distributions' builds; <frozen runpy> and node:internal are built in
_OF_OTHERS: Final = re.compile(
    r"^(?:\.{1,2}/|<|node:|/usr/(?:src|include|lib|share)|/rustc/|/build/|/opt/hostedtoolcache/)"
    r"|/(?:lib/python[\d.]+t?|(?:site|dist)-packages|node_modules|\.cargo|go/pkg/mod|go[\d.-]*/src/(?:runtime|internal)|\.rustup)/"
)
_FILE_MOST: Final = 16 << 20
_TABS: Final = 4
_NAMED_MOST: Final = 5  # files without lines
_SEEN: Final = 0.005  # percent; printed numbers are rounded


class SourceStyle(NamedTuple):
    """The style of the listing.

    Attributes:
        limit: the least percent of a line, inlined code included.
        around: lines before and after each.
        colour: the beginning of escape sequences, "" for none.
    """

    limit: float = 0.5
    around: int = 2
    colour: str = ""


def source_lines(shares: SourceShares, style: SourceStyle) -> Iterator[str]:
    """Yield all lines of one event."""
    yield f"{event_name(shares.event)}: {shares.samples:,} {plural(shares.samples, 'sample')}"
    for file in sorted(shares.files, key=lambda file: not is_own_source(file.path)):  # stable: by share among each kind
        lines = [line for line in file.lines if max(line.percent, line.with_inlined) >= style.limit]
        if lines:
            yield from _file(file, lines, style, with_calls=shares.with_calls)
    if shares.without_lines:
        yield ""
        yield _without_lines(shares.without_lines)


def is_own_source(path: str) -> bool:
    """Whether a source file seems to be the program's own: not of the C library, a runtime or an installed package.

    >>> [is_own_source(path) for path in ("/home/a/work.c", "app.py", "./nptl/pthread_create.c", "/usr/lib/python3.11/runpy.py")]
    [True, True, False, False]
    """
    return not _OF_OTHERS.search(path)


def _file(file: SourceFile, lines: list[SourceLine], style: SourceStyle, *, with_calls: bool) -> Iterator[str]:
    text = _read(file.path)
    here = "" if text else "  (file not found)"
    within = "calls" if with_calls else "inlined code"
    inlined = f", {file.with_inlined:.2f}% with {within}" if file.with_inlined > file.percent + _SEEN else ""
    yield from ("", f"{visible(file.path)}  {file.percent:.2f}%{inlined}{here}")
    yield "   self    total     line" if with_calls else "    own  +inlined    line"
    line_of = {line.line: line for line in file.lines}
    width = max(len(str(lines[-1].line)), 4)
    before = 0
    for number in _lines_around({line.line for line in lines}, len(text), style.around):
        if text and before and number > before + 1:
            yield f"{'':19} {'...':>{width}}"
        before = number
        source = visible(text[number - 1].expandtabs(_TABS)) if 0 < number <= len(text) else ""
        yield f"{_cells(line_of.get(number), style)}  {number or '?':>{width}}  {source}".rstrip()


def _lines_around(lines: set[int], length: int, around: int) -> list[int]:
    """Return the lines, and some lines of the file before and after each."""
    near = {number + step for number in lines if number for step in range(-around, around + 1)}
    return sorted(lines | {number for number in near if 1 <= number <= length})


def _cells(line: SourceLine | None, style: SourceStyle) -> str:
    if line is None:
        return " " * 18
    own = f"{line.percent:6.2f}%" if line.percent else " " * 7
    whole = f"{line.with_inlined:6.2f}%" if line.with_inlined > line.percent + _SEEN else " " * 7
    return f"{_source_cell(own, line.percent, style)} {_source_cell(whole, line.with_inlined, style)}   "


def _source_cell(text: str, percent: float, style: SourceStyle) -> str:
    return colour_share(percent, text, style.colour) if style.colour else text


def _without_lines(shares: dict[str, float]) -> str:
    names = ", ".join(f"{visible(name)} {share:.2f}%" for name, share in list(shares.items())[:_NAMED_MOST])
    more = f" and {len(shares) - _NAMED_MOST} more" if len(shares) > _NAMED_MOST else ""
    return f"{sum(shares.values()):.2f}% in code without line numbers: {names}{more}"


def _read(path: str) -> list[str]:
    """Return the lines of a source file; none if it is missing, no regular file, or has a relative path."""
    if not path.startswith("/"):
        return []
    try:
        return read_regular(path, limit=_FILE_MOST).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return []
