"""Kinds of code in a report on a terminal: their shares, the styles of functions, and the hottest callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, NAMES, OWN, RUNTIME
from perfpy.analysis.verdict.functions import sampled_functions
from perfpy.untrusted.text import visible
from perfpy.views.report.screen_table import NO_NOTES, RowNotes

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


def hottest_categories(functions: SampledFunctions) -> list[tuple[float, str]]:
    """Return the share of each kind of code in percent, sorted by share."""
    shares = zip(functions.by_category(), NAMES, strict=True)
    return sorted(((100 * share, name) for share, name in shares if share), reverse=True)


def row_notes(histogram: Histogram, functions: SampledFunctions | None, entries: Sequence[int], name: Callable[[str], str]) -> RowNotes:
    """Return the styles and the hottest callers of the functions in some rows."""
    if functions is None:
        return NO_NOTES
    symbols = histogram.locations.symbol[histogram.entries.location[entries] >> ROLE_BITS].tolist()
    callers = functions.hottest_callers()
    styles = {
        entry: _STYLES.get(int(functions.category_of[symbol]), "") for entry, symbol in zip(entries, symbols, strict=True) if symbol >= 0
    }
    notes = {entry: visible(name(callers[symbol].name)) for entry, symbol in zip(entries, symbols, strict=True) if symbol in callers}
    return RowNotes(styles, notes)
