"""The code of a recording's functions, table by table, read on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.annotation.annotated import AnnotatedFunction, annotated
from perfpy.analysis.annotation.hot_functions import hot_functions
from perfpy.disassembly.function_code import NoCodeError
from perfpy.disassembly.objdump import CodeStyle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.symbols.symbolizer import Symbolizer


class Annotation:
    """The samples within the functions of a recording.

    Attributes:
        report: the samples by function.
        without_code: reason -> functions whose code could not be read.
    """

    def __init__(self, report: Report, symbolizer: Symbolizer) -> None:
        self.report = report
        self.without_code: dict[str, list[str]] = {}
        self._symbolizer = symbolizer

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
