"""The terminal of `perfpy top`: keys in, lines out. Lines that have not changed are not written, so nothing flickers."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections import deque
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.cli.output.terminal import wants_colour
from perfpy.errors import PerfError
from perfpy.tools.top.names import RunningProcesses
from perfpy.tools.top.options import code_style, first_wait
from perfpy.tools.top.screen import Request, TopScreen
from perfpy.untrusted.terminal import control
from perfpy.untrusted.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.capture.session.inputs import Wakeups
    from perfpy.disassembly.disassembler import CodeStyle
    from perfpy.live.rings import LiveRings
    from perfpy.tools.top.monitor import LiveMonitor, LiveUpdate
    from perfpy.tools.top.options import Subject, TopCommandOptions
    from perfpy.tools.top.screen import Line


_ESCAPE_WAIT: Final = 0.03  # seconds in which the rest of a key's sequence arrives
_UNKNOWN_SIZE: Final = (80, 24)
_REVERSED: Final = "7"
_SEQUENCES: Final = {
    "[A": "up",
    "OA": "up",
    "[B": "down",
    "OB": "down",
    "[C": "right",
    "OC": "right",
    "[D": "left",
    "OD": "left",
    "[H": "home",
    "OH": "home",
    "[1~": "home",
    "[F": "end",
    "OF": "end",
    "[4~": "end",
    "[5~": "pageup",
    "[6~": "pagedown",
    "OP": "f1",
}
_NAMES: Final = {"\n": "enter", "\r": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x03": "ctrl+c", "\x04": "q"}
_SUSPEND: Final = "\x1a"


class KeyTerminal:
    """A terminal in which keys arrive at once; a context manager that restores it.

    Attributes:
        is_open: whether the terminal still exists.
    """

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._old: list[Any] | None = None
        self._lines: list[str] = []
        self._coloured = wants_colour()
        self.is_open = True

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def _begin(self) -> None:
        self._old = termios.tcgetattr(self._fd)
        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
        control(sys.stdout, "\x1b[?1049h\x1b[?25l\x1b[2J")
        sys.stdout.flush()
        self._lines = []

    def _end(self) -> None:
        try:
            control(sys.stdout, "\x1b[0m\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()
            if self._old is not None:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._old)
        except (OSError, termios.error):  # the terminal is gone
            self.is_open = False

    def fileno(self) -> int:
        """Return the descriptor that is readable when a key was pressed."""
        return self._fd

    def size(self) -> tuple[int, int]:
        """Return the columns and rows."""
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return _UNKNOWN_SIZE
        return (size.columns, size.lines) if size.columns and size.lines else _UNKNOWN_SIZE

    def read_keys(self) -> Iterator[str]:
        """Yield the names of the keys pressed since the last call."""
        while self.is_open and select.select([self._fd], [], [], 0)[0]:
            try:
                text = os.read(self._fd, 1024).decode(errors="replace")
            except OSError:
                text = ""
            if not text:
                self.is_open = False
                return
            if text.endswith(_ESC) and select.select([self._fd], [], [], _ESCAPE_WAIT)[0]:
                text += os.read(self._fd, 1024).decode(errors="replace")
            for name in split_keys(text):
                if name == _SUSPEND:
                    self._suspend()
                else:
                    yield name

    def _suspend(self) -> None:
        """Stop this process until the shell continues it."""
        self._end()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._begin()

    def redraw(self) -> None:
        """Write all lines with the next draw(): the size has changed."""
        self._lines = []
        control(sys.stdout, "\x1b[2J")

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines."""
        pieces = []
        texts = [self._paint(line) for line in lines]
        for number, text in enumerate(texts):
            if number >= len(self._lines) or self._lines[number] != text:
                pieces.append(f"{_ESC}[{number + 1};1H{text}{_ESC}[K")
        pieces += [f"{_ESC}[{number + 1};1H{_ESC}[K" for number in range(len(texts), len(self._lines))]
        if not pieces:
            return
        self._lines = texts
        try:
            control(sys.stdout, "".join(pieces))
            sys.stdout.flush()
        except OSError:
            self.is_open = False

    def _paint(self, line: Line) -> str:
        return "".join(
            f"{_ESC}[{style}m{visible(text)}{_ESC}[0m" if style and (self._coloured or style == _REVERSED) else visible(text)
            for text, style in line
        )


_ESC: Final = chr(27)


def split_keys(text: str) -> Iterator[str]:
    """Yield the names of the keys whose bytes arrived together.

    >>> list(split_keys("a" + chr(27) + "[A" + chr(27)))
    ['a', 'up', 'escape']
    """
    while text:
        if text[0] == _ESC:
            key = next((sequence for sequence in _SEQUENCES if text.startswith(sequence, 1)), "")
            if key:
                yield _SEQUENCES[key]
                text = text[1 + len(key) :]
            elif text[1:2] in ("[", "O"):  # an unknown key: skip its sequence
                end = next((index for index, letter in enumerate(text[2:], 2) if letter.isalpha() or letter == "~"), len(text) - 1)
                text = text[end + 1 :]
            else:
                yield "escape"
                text = text[1:]
            continue
        yield _NAMES.get(text[0], text[0])
        text = text[1:]


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
        by_own, names = options.python and options.children is None, RunningProcesses()
        self._screen = TopScreen(subject, most_rows=options.entries, by_own=by_own, name_processes=names.of)
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

    They use the monitor, so they run in the thread that computes updates.

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


_LAST_WAIT: Final = 0.2  # seconds that close() waits for the call that runs
T = TypeVar("T")


class BackgroundThread(Generic[T]):
    """Runs calls in the order in which they were submitted. A context manager that does not wait for long calls.

    What a call uses belongs to this thread until its result was taken: results() is the only way back.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._results: deque[tuple[T | None, BaseException | None]] = deque()
        self._ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()  # of the descriptor
        self._is_open = True
        self._pending = 0
        self._thread = threading.Thread(target=self._run, name="perfpy updates", daemon=True)

    def __enter__(self) -> BackgroundThread[T]:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._is_open = False
            os.close(self._ready)
        self._calls.put(None)
        self._thread.join(_LAST_WAIT)

    def fileno(self) -> int:
        """Return the descriptor that is readable when there are results."""
        return self._ready

    @property
    def is_busy(self) -> bool:
        """Whether there are calls whose results were not taken."""
        return self._pending > 0

    def submit(self, call: Callable[[], T]) -> None:
        """Run a call after those submitted before."""
        self._pending += 1
        self._calls.put(call)

    def results(self) -> Iterator[T]:
        """Yield the results so far, in the order of the calls. Raises the error of a call."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._ready)
        while self._results:
            result, error = self._results.popleft()
            self._pending -= 1
            if error is not None:
                raise error
            yield result  # type: ignore[misc]  # without an error it is a T

    def _run(self) -> None:
        while self._is_open and (call := self._calls.get()) is not None:
            try:
                self._hand_over(call(), None)
            except BaseException as error:  # noqa: BLE001  # the other thread raises it
                self._hand_over(None, error)

    def _hand_over(self, result: T | None, error: BaseException | None) -> None:
        with self._lock:
            if self._is_open:
                self._results.append((result, error))
                os.eventfd_write(self._ready, 1)
