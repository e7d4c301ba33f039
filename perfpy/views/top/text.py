"""perf top --stdio: the header line and the rows of the first event, once per interval."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from perfpy.analysis.annotation.annotated import AnnotatedFunction
from perfpy.analysis.samples.wait_events import is_dummy
from perfpy.untrusted.text import one_line
from perfpy.views.annotate.text import AnnotateStyle, AnnotationText
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.text import table_lines
from perfpy.views.top.rates import header_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.report.report import Report
    from perfpy.views.top.rates import Rates, Subject

#: rows of the screen that are not for the table
_OTHER_ROWS: Final = 5
_MARGIN: Final = 2


class TopText:
    """The text of intervals.

    Args:
        subject: what is measured.
        columns, rows: the size of the screen; perf assumes 80 and 25 without one.
        entries: the most entries of a table, 0 for those that fit on the screen.
        percent_limit: smaller rows are hidden.
        widths: -w.
    """

    def __init__(
        self, subject: Subject, *, columns: int, rows: int, entries: int = 0, percent_limit: float = 0.0, widths: tuple[int, ...] = ()
    ) -> None:
        self._subject = subject
        self._most = entries or max(rows - _OTHER_ROWS, 1)
        self._options = TextOptions(
            quiet=True,
            percent_limit=percent_limit,
            widths=widths,
            most_rows=self._most,
            most_columns=max(columns - _MARGIN, 1),
        )

    def lines(self, rates: Rates, report: Report, code: AnnotatedFunction | str = "") -> Iterator[str]:
        """Yield the lines of an interval, without the sequence that clears the screen.

        code: of the function that is shown instead of rows, or why there is none; "" to show rows.
        """
        yield from header_lines(rates, self._subject)
        if rates.warning:
            yield rates.warning
        if isinstance(code, AnnotatedFunction):
            title = next((table.leader.event.name for table in report.histograms if table.leader.samples), "")
            yield from AnnotationText(title, [0], AnnotateStyle()).lines(code)
            return
        if code:
            yield one_line(code)
            return
        first = next((table for table in report.histograms if not is_dummy(table.leader.event)), None)
        if first is not None and first.leader.samples:
            yield from islice(table_lines(first, self._options), self._most if first.options.rows.hierarchy else None)
