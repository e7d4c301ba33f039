"""The functions in rows: their category as a style, their hottest caller, and their hottest source line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME
from perfpy.analysis.verdict.functions import sampled_functions
from perfpy.analysis.verdict.statements import Statements
from perfpy.untrusted.text import visible
from perfpy.views.report.screens.screen_table import NO_NOTES, RowNotes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.verdict.functions import SampledFunctions

#: styles that are legible on dark and on light terminals
_STYLES: Final = {OWN: "bold", LIBRARY: "", INTERPRETER: "dim", RUNTIME: "dim", KERNEL: "dim"}


def functions_of(report: Report, histogram: Histogram) -> SampledFunctions | None:
    """Return the functions of a table's samples; None for reports without functions, or of branches or memory accesses."""
    is_ordinary = report.options.columns.mode is Mode.NORMAL and "frame" in report.folded.dimensions
    return sampled_functions(report, histogram) if is_ordinary and "symbol" in histogram.keys else None


def row_notes(histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int], name: Callable[[str], str]) -> RowNotes:
    """Return the styles and the hottest callers of the functions in some rows."""
    if functions is None:
        return NO_NOTES
    callers = functions.hottest_callers()
    of_entries = _symbols(histogram, entries)
    styles = {entry: _STYLES.get(int(functions.category_of[symbol]), "") for entry, symbol in of_entries.items()}
    notes = {entry: visible(name(callers[symbol].name)) for entry, symbol in of_entries.items() if symbol in callers}
    return RowNotes(styles, notes)


def row_lines(
    report: Report, histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int]
) -> dict[int, tuple[str, int]]:
    """Return the path and the line at which the program's own functions in some rows have most samples, as far as lines are known."""
    if functions is None:
        return {}
    statements = Statements(report, histogram.leader.event.index)
    lines: dict[int, tuple[str, int]] = {}
    for entry, symbol in _symbols(histogram, entries).items():
        line = statements.line(symbol) if functions.category_of[symbol] == OWN else None
        if line is not None and not statements.is_inlined(symbol, line):
            lines[entry] = line
    return lines


def _symbols(histogram: Histogram, entries: Sequence[int]) -> dict[int, int]:
    """Return the numbers of the functions in some rows, without rows of unnamed code."""
    symbols = histogram.locations.symbol[histogram.entries.location[entries] >> ROLE_BITS].tolist()
    return {entry: symbol for entry, symbol in zip(entries, symbols, strict=True) if symbol >= 0}
