"""`perfpy top` on a terminal: keys and the screen in one thread, updates in another."""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from perfpy.cli.top.keys import Changed, ViewChanges
from perfpy.cli.top.request import code_style, first_wait
from perfpy.cli.top.terminal import KeyTerminal
from perfpy.live.background import BackgroundThread
from perfpy.views.top.screen import Request, TopScreen

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.output.wakeups import Wakeups
    from perfpy.cli.top.options import TopCommandOptions
    from perfpy.live.monitor import LiveMonitor, LiveUpdate
    from perfpy.live.rings import LiveRings
    from perfpy.views.top.rates import Subject

_KILLED: Final = 128  # plus the signal's number: the exit status
_FIRST: Final = 0.3  # seconds until the first update at the latest: few samples soon are better than an empty screen
_SECOND: Final = 0.5  # seconds from the first to the second update at the latest
_ENOUGH: Final = 8 << 10  # bytes of records, about 100 samples, for an earlier first update
_GLANCE: Final = 0.05  # seconds between two looks for these
_LONGEST_WAIT: Final = 1.0  # seconds


class ScreenRun:
    """One run on a terminal. at_first_update: called once there are rows."""

    def __init__(
        self,
        rings: LiveRings,
        monitor: LiveMonitor,
        subject: Subject,
        options: TopCommandOptions,
        at_first_update: Callable[[], None] = lambda: None,
    ) -> None:
        self._rings = rings
        self._at_first_update = at_first_update
        self._monitor = monitor
        self._delay = options.delay
        self._most = options.updates
        self._screen = TopScreen(subject, most_rows=options.entries, by_own=options.python and options.children is None)
        self._changes = ViewChanges(monitor, partial(code_style, options), of_python=options.python)
        self._background: BackgroundThread[LiveUpdate | Changed] = BackgroundThread()
        self._terminal = KeyTerminal()
        self._function = options.sym_annotate  # until its code is shown
        self._ends = False
        self._is_updating = False
        self._count = 0
        self._due = time.monotonic() + min(first_wait(self._delay), _FIRST)

    def run(self, signals: Wakeups) -> int:
        """Show updates until q; return the exit status."""
        rings, terminal, screen = self._rings, self._terminal, self._screen
        with self._background as background, terminal:
            for fd in (signals.fileno(), terminal.fileno(), background.fileno()):
                rings.watch(fd)
            if self._function:
                self._screen.message = f"waiting for samples in {self._function}"
            while terminal.is_open and not self._ends:
                terminal.draw(screen.lines(*terminal.size()))
                self._wait(signals)
                numbers = signals.read()
                if signal.SIGWINCH in numbers:
                    terminal.redraw()
                if stopping := numbers - {signal.SIGWINCH}:
                    return 0 if signal.SIGINT in stopping else _KILLED + min(stopping)
        return 0

    def _wait(self, signals: Wakeups) -> None:
        """Empty the ring buffers until the screen has changed: by a key, a signal, or a result of the other thread."""
        while not signals.arrived:
            left = max(self._due - time.monotonic(), 0)
            is_first = not self._count and not self._is_updating
            self._rings.wait(_LONGEST_WAIT if self._is_updating else min(left, _GLANCE) if is_first else left)
            self._monitor.reader.drain()
            if self._press() + self._take_results():
                return
            if is_first and self._monitor.reader.size >= _ENOUGH:
                self._due = time.monotonic()
            if not self._is_updating and time.monotonic() >= self._due:
                self._is_updating = True
                self._background.submit(partial(self._monitor.update, self._monitor.reader.take(last=self._rings.has_ended)))

    def _take_results(self) -> bool:
        """Show the results of the other thread; return whether there were any."""
        has_results = False
        for result in self._background.results():
            has_results = True
            if isinstance(result, Changed):
                self._show_change(result)
            else:
                self._show_update(result)
        return has_results

    def _show_update(self, update: LiveUpdate) -> None:
        screen = self._screen
        screen.update(update.rates, update.report)
        self._monitor.reader.adapt(update.size, update.seconds, self._delay)
        self._is_updating = False
        if not self._count:
            self._at_first_update()
        self._count += 1
        delay = self._delay if self._count > 1 else min(self._delay, _SECOND)
        self._due = max(self._due + delay, time.monotonic())
        if self._function:
            self._background.submit(partial(self._changes.carry_out, Request("code", self._function)))
        if self._rings.has_ended and not screen.message:
            screen.message = "the target has ended"
        self._ends = self._ends or self._count == self._most

    def _show_change(self, changed: Changed) -> None:
        screen = self._screen
        screen.message = changed.message or ("" if changed.code else screen.message)
        if changed.code is not None:
            self._function = ""
            screen.show_code(changed.code)
        if changed.zoomed is not None:
            screen.zoomed = changed.zoomed
        if changed.begins_again:
            screen.clear()
        elif changed.report is not None:
            screen.refresh(changed.report)

    def _press(self) -> bool:
        """Apply the keys that were pressed; return whether there were any, or the terminal is gone."""
        pressed = False
        for key in self._terminal.read_keys():
            pressed = True
            request = self._screen.press(key)
            if request is None:
                continue
            if request.name == "quit":
                self._ends = True
            else:
                self._background.submit(partial(self._changes.carry_out, request))
        return pressed or not self._terminal.is_open
