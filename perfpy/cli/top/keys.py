"""Changes of a running view that keys request: other rows, call trees, hidden functions, a file of what was seen.

They use the monitor, so they run in the thread that computes updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.errors import PerfError
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.annotation.annotated import AnnotatedFunction
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.disassembly.objdump import CodeStyle
    from perfpy.live.monitor import LiveMonitor
    from perfpy.views.top.screen import Request

_FILE: Final = "perf.data"
#: what the rows are, in the order of the key s
_ROWS: Final = (("dso,symbol", "functions"), ("comm", "commands"), ("tgid", "processes"), ("pid", "threads"), ("comm,dso,symbol", "all"))
_PYTHON_ROWS: Final = (("pyfunc", "Python functions"), ("pyline", "Python lines"))


class Changed(NamedTuple):
    """The result of a change.

    Attributes:
        message: for the user.
        report: of the same interval; None to leave the rows.
        begins_again: whether the rows so far do not have the new columns.
        zoomed: the process or thread that is shown alone, "" for all; None to leave it.
        code: of a function, to show in place of the rows.
    """

    message: str = ""
    report: Report | None = None
    begins_again: bool = False
    zoomed: str | None = None
    code: AnnotatedFunction | None = None


class ViewChanges:
    """Carries out the requests of keys.

    Args:
        monitor: of the view.
        style: returns that of code.
        of_python: whether rows may be Python functions.
    """

    def __init__(self, monitor: LiveMonitor, style: Callable[[], CodeStyle], *, of_python: bool = False) -> None:
        self._monitor = monitor
        self._style = style
        self._rows = (*_PYTHON_ROWS, *_ROWS) if of_python else _ROWS
        self._before_zoom: ReportOptions | None = None

    def carry_out(self, request: Request) -> Changed:
        """Carry out a request other than to quit; errors are messages."""
        try:
            if request.name == "write":
                return Changed(f"wrote the last {self._monitor.save(_FILE):.0f} s to {_FILE}; perfpy report")
            if request.name == "zero":
                self._monitor.zero = not self._monitor.zero
                return Changed("only the last interval" if self._monitor.zero else "with the fading last minute")
            if request.name in ("kernel", "user"):
                return self._hide(MISC_KERNEL if request.name == "kernel" else MISC_USER, request.name)
            if request.name == "callers":
                return self._turn_trees()
            if request.name == "code":
                return Changed(code=self._monitor.annotate(request.text, request.dso, self._style()))
            if request.name == "rows":
                return self._next_rows(request.text)
            return self._zoom(request.text)
        except PerfError as error:
            return Changed(one_line(str(error)))

    def _hide(self, mode: int, name: str) -> Changed:
        hidden = {*self._monitor.hidden} ^ {mode}
        return self._change(f"{name} functions {'hidden' if mode in hidden else 'shown'}", self._monitor.options, hidden)

    def _turn_trees(self) -> Changed:
        options = self._monitor.options
        graph = options.chains.call_graph
        if graph is None:
            return Changed("no callchains; start with -g")
        order = "callee" if graph.order == "caller" else "caller"
        message = "callers below their callees" if order == "callee" else "callees below their callers"
        return self._change(message, options._replace(chains=options.chains._replace(call_graph=graph._replace(order=order))))

    def _next_rows(self, wanted: str) -> Changed:
        """Show the next kind of rows; wanted: the sort keys of a certain kind."""
        options = self._monitor.options
        names = [keys for keys, _ in self._rows]
        now = options.columns.sort
        keys, name = self._rows[names.index(wanted) if wanted else (names.index(now) + 1) % len(names) if now in names else 0]
        return self._change(f"rows: {name}", options._replace(columns=options.columns._replace(sort=keys, fields=None)))

    def _zoom(self, process: str) -> Changed:
        """Show the functions of one process or thread, or leave it."""
        options = self._monitor.options
        if not process:
            return Changed() if self._before_zoom is None else self._change("", self._before_zoom)._replace(zoomed="")
        key, _, number = process.partition(" ")
        if not number.isdecimal():
            return Changed()
        chosen = (int(number),)
        self._before_zoom = self._before_zoom or options
        old = options.sample_filter
        marks = old._replace(pids=chosen) if key == "tgid" else old._replace(tids=chosen)
        rows = options.rows._replace(rows_filtered=False)
        columns = options.columns._replace(sort="dso,symbol", fields=None)
        changed = self._change("Esc returns", options._replace(columns=columns, sample_filter=marks, rows=rows))
        return changed._replace(zoomed=f"{'process' if key == 'tgid' else 'thread'} {number}")

    def _change(self, message: str, options: ReportOptions, hidden: set[int] | None = None) -> Changed:
        begins_again = self._monitor.change(options, hidden)
        return Changed(message, None if begins_again else self._monitor.report(), begins_again)
