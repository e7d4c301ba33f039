"""The code of one function with the samples of the last minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.annotation.annotation import Annotation
from perfpy.analysis.annotation.hot_functions import BY_FUNCTION
from perfpy.analysis.entries.options import ReportOptions
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.report import make_report
from perfpy.disassembly.function_code import NoCodeError

if TYPE_CHECKING:
    from perfpy.analysis.annotation.annotated import AnnotatedFunction
    from perfpy.disassembly.objdump import CodeStyle
    from perfpy.live.symbolizing import LiveSymbols
    from perfpy.live.window import LiveWindow


def annotate(window: LiveWindow, symbols: LiveSymbols, function: str, dso: str, style: CodeStyle) -> AnnotatedFunction:
    """Return the code of a function with the samples of a window. Raises NoCodeError.

    dso: the short name of its file; "" for the hottest function with the name.
    """
    timeline, symbolizer = symbols.of_window(window.pids)
    options = ReportOptions(sample_filter=SampleFilter(symbols=(function,))).by_address(BY_FUNCTION)
    annotation = Annotation(make_report(window, timeline, symbolizer, options), symbolizer)
    tables = (table for table in annotation.report.histograms if table.leader.samples)
    functions = (one for table in tables for one in annotation.functions(table, style))
    found = next((one for one in functions if not dso or one.dso.short_name == dso), None)
    if found is None:
        raise NoCodeError(function, next(iter(annotation.without_code), "no samples in this function itself in the last minute"))
    return found
