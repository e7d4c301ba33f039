"""`perfpy top` on a terminal: keys, updates and the screen."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.cli.top.terminal import KeyTerminal
from perfpy.errors import PerfError
from perfpy.views.top.screen import TopScreen

if TYPE_CHECKING:
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.capture.output.wakeups import Wakeups
    from perfpy.cli.top.options import TopCommandOptions
    from perfpy.live.monitor import LiveMonitor
    from perfpy.live.rings import LiveRings
    from perfpy.views.top.rates import Subject
    from perfpy.views.top.screen import Request

_FILE: Final = "perf.data"
_KILLED: Final = 128  # plus the signal's number: the exit status
#: what the rows are, in the order of the key s
_ROWS: Final = (("dso,symbol", "functions"), ("comm", "commands"), ("tgid", "processes"), ("pid", "threads"), ("comm,dso,symbol", "all"))

_PYTHON_ROWS: Final = (("pyfunc", "Python functions"), ("pyline", "Python lines"))


class ScreenRun:
    """One run on a terminal."""

    def __init__(self, rings: LiveRings, monitor: LiveMonitor, subject: Subject, options: TopCommandOptions) -> None:
        self._rings = rings
        self._monitor = monitor
        self._delay = options.delay
        self._most = options.updates
        self._screen = TopScreen(subject, most_rows=options.entries, by_own=options.python and options.children is None)
        self._rows = (*_PYTHON_ROWS, *_ROWS) if options.python else _ROWS
        self._before_zoom: ReportOptions | None = None
        self._terminal = KeyTerminal()
        self._ends = False

    def run(self, signals: Wakeups) -> int:
        """Show updates until q; return the exit status."""
        rings, terminal, screen = self._rings, self._terminal, self._screen
        rings.watch(signals.fileno())
        rings.watch(terminal.fileno())
        count, due = 0, time.monotonic() + min(self._delay, 1.0)
        with terminal:
            while terminal.is_open and not self._ends:
                terminal.draw(screen.lines(*terminal.size()))
                pressed = self._wait(due, signals)
                numbers = signals.read()
                if signal.SIGWINCH in numbers:
                    terminal.redraw()
                if stopping := numbers - {signal.SIGWINCH}:
                    return 0 if signal.SIGINT in stopping else _KILLED + min(stopping)
                if time.monotonic() >= due and not pressed:
                    update = self._monitor.update(last=rings.has_ended)
                    screen.update(update.rates, update.report)
                    count += 1
                    due = max(due + self._delay, time.monotonic())
                    if rings.has_ended and not screen.message:
                        screen.message = "the target has ended"
                    if count == self._most:
                        break
        return 0

    def _wait(self, due: float, signals: Wakeups) -> bool:
        """Empty the ring buffers until a time, a signal or a key; return whether there was a key.

        Keys are read at least once, also if updates take longer than the delay.
        """
        while not signals.arrived:
            left = due - time.monotonic()
            self._rings.wait(max(left, 0))
            self._monitor.drain()
            if self._press():
                return True
            if left <= 0:
                break
        return False

    def _press(self) -> bool:
        """Apply the keys that were pressed; return whether there were any, or the terminal is gone."""
        pressed = False
        for key in self._terminal.read_keys():
            pressed = True
            request = self._screen.press(key)
            if request is not None:
                self._carry_out(request)
        return pressed or not self._terminal.is_open

    def _carry_out(self, request: Request) -> None:
        try:
            if request.name == "quit":
                self._ends = True
            elif request.name == "write":
                self._screen.message = f"wrote the last {self._monitor.save(_FILE):.0f} s to {_FILE}; perfpy report"
            elif request.name == "zero":
                self._monitor.zero = not self._monitor.zero
                self._screen.message = "only the last interval" if self._monitor.zero else "with the fading minute before"
            elif request.name in ("kernel", "user"):
                self._hide(MISC_KERNEL if request.name == "kernel" else MISC_USER, request.name)
            elif request.name == "callers":
                self._turn_trees()
            elif request.name == "rows":
                self._next_rows(request.text)
            elif request.name == "zoom":
                self._zoom(request.text)
        except PerfError as error:
            self._screen.message = str(error)

    def _hide(self, mode: int, name: str) -> None:
        hidden = {*self._monitor.hidden} ^ {mode}
        self._change(self._monitor.options, hidden)
        self._screen.message = f"{name} functions {'hidden' if mode in hidden else 'shown'}"

    def _turn_trees(self) -> None:
        options = self._monitor.options
        graph = options.chains.call_graph
        if graph is None:
            self._screen.message = "no callchains; start with -g"
            return
        order = "callee" if graph.order == "caller" else "caller"
        self._change(options._replace(chains=options.chains._replace(call_graph=graph._replace(order=order))))
        self._screen.message = "callers below their callees" if order == "callee" else "callees below their callers"

    def _next_rows(self, wanted: str) -> None:
        """Show the next kind of rows; wanted: the sort keys of a certain kind."""
        options = self._monitor.options
        names = [keys for keys, _ in self._rows]
        now = options.columns.sort
        keys, name = self._rows[names.index(wanted) if wanted else (names.index(now) + 1) % len(names) if now in names else 0]
        self._change(options._replace(columns=options.columns._replace(sort=keys, fields=None)))
        self._screen.message = f"rows: {name}"

    def _zoom(self, process: str) -> None:
        """Show the functions of one process or thread, or leave it."""
        options = self._monitor.options
        if not process:
            if self._before_zoom is not None:
                self._screen.zoomed = ""
                self._change(self._before_zoom)
            return
        key, _, number = process.partition(" ")
        if not number.isdecimal():
            return
        chosen = (int(number),)
        self._before_zoom = self._before_zoom or options
        old = options.sample_filter
        marks = old._replace(pids=chosen) if key == "tgid" else old._replace(tids=chosen)
        rows = options.rows._replace(rows_filtered=False)
        self._change(options._replace(columns=options.columns._replace(sort="dso,symbol", fields=None), sample_filter=marks, rows=rows))
        self._screen.zoomed = f"{'process' if key == 'tgid' else 'thread'} {number}"
        self._screen.message = "Esc returns"

    def _change(self, options: ReportOptions, hidden: set[int] | None = None) -> None:
        if self._monitor.change(options, hidden):
            self._screen.clear()
        elif (report := self._monitor.report()) is not None:
            self._screen.refresh(report)
