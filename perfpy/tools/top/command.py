"""`perfpy top`: what runs now, updated every two seconds."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.capture.session.inputs import Wakeups
from perfpy.cli.line.numpy_start import prepare_numpy
from perfpy.cli.line.option_parsing import PerfCommand, events_with_filters, fail
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.output.terminal import print_lines, wants_plain
from perfpy.live.priority import HigherPriority
from perfpy.tools.top.options import TopCommandOptions
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.analysis.report.report import Report
    from perfpy.live.rings import LiveRings
    from perfpy.tools.top.monitor import LiveMonitor, LiveUpdate
    from perfpy.tools.top.names import LiveJitNames
    from perfpy.tools.top.options import Rates, Subject
    from perfpy.tools.top.reading import RingRecords


def run(options: TopCommandOptions) -> int:
    """Show what runs now, updated until q or Ctrl-C."""
    if options.cgroups and not options.event:
        fail("--cgroup requires -e before it")
    if options.json and options.stdio:
        fail("--json excludes --stdio")
    if options.by and (options.sort or options.fields):
        fail("--by excludes --sort and --fields")
    for name, is_given in (("--children", options.children), ("--json", options.json)):
        if options.hierarchy and is_given:
            fail(f"--hierarchy excludes {name}")
    if options.freq is not None and options.period is not None:
        fail("-F excludes -c")
    if options.off_cpu:
        _check_waits(options)
    if options.prefix_strip and not options.prefix:
        fail("--prefix-strip requires --prefix")
    with Start(runs_programs=bool(options.sym_annotate)) as start:
        prepare_numpy()

        return TopRun(options, start).run()


def _check_waits(options: TopCommandOptions) -> None:
    for name, is_given in (("--python", options.python), ("--overwrite", options.overwrite)):
        if is_given:
            fail(f"--off-cpu excludes {name}")
    if options.by in ("cgroup", "container"):
        fail(f"--off-cpu excludes --by {options.by}, because samples of waits have no cgroup")
    if (options.call_graph or "").startswith("dwarf"):
        fail("--off-cpu reads callchains by frame pointers; drop --call-graph dwarf, or use perfpy record --off-cpu --call-graph dwarf")


command = PerfCommand(TopCommandOptions, run, takes_processes=True)


_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KILLED: Final = 128  # plus the signal's number: the exit status
_LONGEST_WAIT: Final = 1.0  # seconds
_COLUMNS, _ROWS = 80, 25  # perf's size without a terminal


class Output(Protocol):
    """The destination of intervals."""

    def show(self, update: LiveUpdate) -> None:
        """Show the state at the end of an interval."""


class TopRun:
    """One run of the command."""

    def __init__(self, options: TopCommandOptions, start: Start) -> None:
        from perfpy.tools.top.options import TopRequest

        self._options = options
        self._start = start
        self._request = TopRequest(options, load_config(), _tell)

    def run(self) -> int:
        """Show intervals until the end; return the exit status."""
        from perfpy.live.rings import LiveRings

        options = self._options
        events, filters = events_with_filters(options)
        with ExitStack() as stack:
            rings = LiveRings(events, filters, self._request.record_options(), _tell)
            stack.callback(rings.close)
            monitor = self._open_monitor(rings, stack)
            if options.dump_symtab:
                stack.callback(_print_symbols, monitor)
            for event in rings.counters.events if options.verbose else ():
                _tell(f"{event.name}: {len(rings.counters.ids(event))} counters, {event.attr!r}")
            if options.realtime:
                self._start.end()
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(options.realtime))
            signals = stack.enter_context(Wakeups((*_STOPPING, *((signal.SIGWINCH,) if self._is_screen else ()))))
            subject = self._request.subject(rings)
            output = None if self._is_screen else self._output(subject)
            monitor.begin()
            if output is None:
                from perfpy.tools.top.terminal import ScreenRun  # needs a terminal

                return ScreenRun(rings, monitor, subject, options, self._start.end).run(signals)
            return self._loop(rings, monitor, signals, output)

    def _open_monitor(self, rings: LiveRings, stack: ExitStack) -> LiveMonitor:
        """Return the monitor of the events; the stack closes it."""
        from perfpy.tools.top.monitor import LiveMonitor

        options = self._options
        report_options = self._request.report_options(of_tracepoints=rings.has_only_tracepoints, is_screen=self._is_screen)
        hidden = [mode for mode, is_hidden in ((MISC_KERNEL, options.hide_kernel), (MISC_USER, options.hide_user)) if is_hidden]
        monitor = LiveMonitor(
            rings,
            report_options,
            self._request.symbol_options(is_plain=not (self._is_screen or options.json)),
            shows_self=options.show_self,
            hidden=hidden,
            zero=options.zero,
            retain=options.keep if self._is_screen or options.sym_annotate else 0,
            jit=self._jit_names(stack),
            only_python=not options.callchains and options.call_graph is None,
            adapts_rate=options.python and options.freq is None and options.period is None,
        )
        stack.callback(monitor.close)
        for pid in monitor.children:
            self._start.include(pid)
        return monitor

    def _jit_names(self, stack: ExitStack) -> LiveJitNames | None:
        """Return the object that requests names; None without --jit. Warn of processes without names, now and at the end."""
        options = self._options
        if not options.jit:
            return None
        from perfpy.tools.top.names import LiveJitNames  # rarely needed

        jit = LiveJitNames([int(pid) for pid in options.pid.split(",") if pid.strip().isdecimal()])
        stack.callback(lambda: _warn_of_names(jit.failures()))
        stack.callback(jit.close)
        _warn_of_names(jit.begin(with_callers=options.callchains or options.call_graph is not None))
        return jit

    @property
    def _is_screen(self) -> bool:
        """Whether to show a screen with keys; it has no trees of rows."""
        options = self._options
        return not (options.json or options.hierarchy or wants_plain(stdio=options.stdio)) and sys.stdin.isatty()

    def _output(self, subject: Subject) -> Output:
        return JsonLines(subject, self._options.entries) if self._options.json else PlainText(subject, self._options)

    def _update(self, monitor: LiveMonitor, records: RingRecords) -> LiveUpdate:
        """Return the state at the end of an interval, in the other thread."""
        from perfpy.disassembly.function_code import NoCodeError
        from perfpy.tools.top.options import code_style

        update, function = monitor.update(records), self._options.sym_annotate
        if not function:
            return update
        try:
            return update._replace(code=monitor.annotate(function, "", code_style(self._options)))
        except NoCodeError as error:
            return update._replace(code=str(error))

    def _loop(self, rings: LiveRings, monitor: LiveMonitor, signals: Wakeups, output: Output) -> int:
        """Show an interval each `delay` seconds; return the exit status."""
        from perfpy.tools.top.options import first_wait
        from perfpy.tools.top.terminal import BackgroundThread

        rings.watch(signals.fileno())
        options = self._options
        is_counted = bool(options.updates or options.json)
        count, due = 0, time.monotonic() + (options.delay if is_counted else first_wait(options.delay))
        background: BackgroundThread[LiveUpdate] = BackgroundThread()
        with background:
            rings.watch(background.fileno())
            while True:
                while (left := due - time.monotonic()) > 0 and not signals.arrived and not rings.has_ended:
                    rings.wait(left)
                    monitor.reader.drain()
                is_last = rings.has_ended
                if not signals.arrived:
                    background.submit(partial(self._update, monitor, monitor.reader.take(last=is_last)))
                while background.is_busy and not signals.arrived:
                    rings.wait(_LONGEST_WAIT)
                    monitor.reader.drain()
                    for update in background.results():
                        monitor.reader.adapt(update.size, update.seconds, self._options.delay)
                        output.show(update)
                        self._start.end()
                if numbers := signals.read():
                    return 0 if signal.SIGINT in numbers else _KILLED + min(numbers)
                count += 1
                if is_last:
                    _tell("the target has ended")
                if is_last or count == self._options.updates:
                    return 0
                due = max(due + self._options.delay, time.monotonic())


class PlainText:
    """perf's text."""

    def __init__(self, subject: Subject, options: TopCommandOptions) -> None:
        columns, rows = _screen_size()
        limit, cell_widths = options.percent_limit, options.widths
        self._text = TopText(subject, columns=columns, rows=rows, entries=options.entries, percent_limit=limit, widths=cell_widths)

    def show(self, update: LiveUpdate) -> None:
        """Clear the screen, and print the interval."""
        from perfpy.untrusted.terminal import clear_screen

        clear_screen(sys.stdout)
        print()
        print_lines(self._text.lines(update.rates, update.report, update.code))
        sys.stdout.flush()


class JsonLines:
    """One object per interval, each on a line: its rates, its duration, and the form of `perfpy report --json`."""

    def __init__(self, subject: Subject, entries: int) -> None:
        self._subject = subject
        self._entries = entries

    def show(self, update: LiveUpdate) -> None:
        """Print the interval."""
        rates, report = update.rates, update.report
        values: dict[str, Any] = report.to_dict()
        tables = [table for table, histogram in zip(values["events"], report.histograms, strict=True) if histogram.leader.samples]
        for table in tables:
            if self._entries:
                del table["rows"][self._entries :]
        line = {
            "format": "perfpy-top",
            "version": 1,
            "time": time.time(),
            "seconds": rates.seconds,
            "samples": rates.samples,
            "kernel": rates.kernel,
            "exact": rates.exact,
            "lost": rates.lost,
            "dropped": rates.dropped,
            "events": tables,
            **({"code": _code_rows(update.code)} if update.code else {}),
        }
        print(json.dumps(line), flush=True)


def _print_symbols(monitor: LiveMonitor) -> None:
    """Print the symbol tables that were loaded."""
    for file, table in monitor.symbol_tables():
        _tell(one_line(file))
        for number in range(len(table)):
            _tell(one_line(f"  {int(table.symbols.start[number]):x}-{int(table.symbols.end[number]):x} {table.name(number)}"))


def _code_rows(code: AnnotatedFunction | str) -> dict[str, Any]:
    """Return the code of a function, or why there is none."""
    if isinstance(code, str):
        return {"error": code}
    rows = [{"address": row.address, "text": row.text, "percent": row.percent, "samples": row.samples} for row in code.rows()]
    return {"function": code.name, "dso": code.dso.short_name, "instructions": rows}


def _screen_size() -> tuple[int, int]:
    """Return the columns and rows of the screen: as LINES and COLUMNS say together, or the terminal, or perf's default."""
    lines, columns = (os.environ.get(name, "") for name in ("LINES", "COLUMNS"))
    if lines.isdecimal() and columns.isdecimal() and int(lines) and int(columns):
        return int(columns), int(lines)
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return _COLUMNS, _ROWS
    return (size.columns, size.lines) if size.columns and size.lines else (_COLUMNS, _ROWS)


def _warn_of_names(lines: Iterable[str]) -> None:
    for line in lines:
        _tell(f"warning: --jit: {one_line(line)}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


_NICER: Final = 10
_REALTIME: Final = 2.0  # seconds at most; imports and the first table take 0.5 seconds of CPU time


class Start:
    """A context in which the first table is due: with a higher priority, and without garbage collections, which find none in imports.

    Args:
        runs_programs: whether other programs run before the first table. They would be realtime processes, and stay so.
    """

    def __init__(self, *, runs_programs: bool = False) -> None:
        self._priority = HigherPriority(_NICER, 0 if runs_programs else _REALTIME)
        self._has_collections = gc.isenabled()

    def __enter__(self) -> Self:
        gc.disable()
        self._priority.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def include(self, pid: int) -> None:
        """Let the start of a child process end, too."""
        self._priority.include(pid)

    def end(self) -> None:
        """End the start: there is a table. Further calls do nothing."""
        self._priority.end()
        if self._has_collections and not gc.isenabled():
            gc.freeze()  # modules and classes stay for ever
            gc.enable()


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
        from perfpy.views.report.text import TextOptions

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
        from perfpy.analysis.annotation import AnnotatedFunction
        from perfpy.analysis.sample_view import is_dummy
        from perfpy.tools.top.options import header_lines
        from perfpy.views.annotate.text import AnnotateStyle, AnnotationText
        from perfpy.views.report.text import table_lines

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
