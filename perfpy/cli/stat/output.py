"""Format and destination of the counts of `perfpy stat`: text, CSV, JSON; stderr, a file, a descriptor.

Each printing is flushed at once, so that the reader of a pipe sees each interval.
"""

from __future__ import annotations

import os
import sys
import time

from perfpy.abi.startup import NamedTuple
from perfpy.errors import OutputFailedError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import IO, Protocol

    from perfpy.cli.stat.options import StatCommandOptions
    from perfpy.counts.tally import Tally

    class View(Protocol):
        """Renders tallies."""

        def render(self, tally: Tally) -> Iterator[str]:
            """Yield the text of one printing."""


_CLEAR = ("[H", "[2J")  # after an ESC each
_WIDTH = 80  # for a terminal that does not report its width


class OutputForm(NamedTuple):
    """The destination of the counts (path or descriptor), and their format; see perf-stat(1)."""

    path: str = ""
    append: bool = False
    log_fd: int = 0
    quiet: bool = False
    json: bool = False
    separator: str | None = None
    big_num: bool | None = None
    metric_only: bool = False
    mark_summary: bool = True
    repeat_table: bool = False
    interval_clear: bool = False


def form_of(options: StatCommandOptions) -> OutputForm:
    """Return the form of the options."""
    return OutputForm(
        path=options.output,
        append=options.append,
        log_fd=options.log_fd,
        quiet=options.quiet,
        json=options.json,
        separator=options.separator,
        big_num=options.big_num,
        metric_only=options.metric_only,
        mark_summary=not _leaves_mark_out(options),
        repeat_table=options.table,
        interval_clear=options.interval_clear,
    )


def _leaves_mark_out(options: StatCommandOptions) -> bool:
    """Whether the lines of a summary have no mark, by the option, else by stat.no-csv-summary if there are summary lines."""
    if options.no_csv_summary is not None or options.separator is None or not options.summary:
        return bool(options.no_csv_summary)
    from perfpy.cli.line.perfconfig import load  # rarely needed

    return load().flag("stat.no-csv-summary", False)


class StatOutput:
    """The stream and the view; a context manager."""

    def __init__(self, form: OutputForm) -> None:
        self.form = form
        self._name = form.path
        self.stream = self._open()
        self.title = ""
        self._view: View | None = None

    def _open(self) -> IO[str]:
        mode = "a" if self.form.append else "w"
        if self.form.quiet:
            return open(os.devnull, "w")
        try:
            if self.form.log_fd:
                return _guard(os.fdopen(self.form.log_fd, mode, closefd=False))
            if not self._name or self._name == "-":
                return sys.stderr
            from perfpy.untrusted.destinations import opener  # few counts go to a file

            file = open(self._name, mode, encoding="utf-8", errors="surrogateescape", opener=opener)  # noqa: SIM115  # closed by __exit__
            stream = _guard(file)
        except OSError as error:
            where = self._name or f"descriptor {self.form.log_fd}"
            raise OutputFailedError(where, error.strerror or str(error)) from None
        if not self.form.json:
            stream.write(f"# started on {time.ctime()}\n\n")
        return stream

    def show(self, tally: Tally) -> None:
        """Write one printing."""
        if self._view is None:
            self._view = self._choose_view()
        text = "".join(self._view.render(tally))
        if self.form.interval_clear and tally.timestamp is not None:
            text = "".join(self._escape() + sequence for sequence in _CLEAR) + text
        self.write(text)

    @property
    def _for_a_person(self) -> bool:
        """Whether the counts are text on a terminal."""
        as_text = not self.form.json and self.form.separator is None
        if not as_text or not self.stream.isatty():
            return False  # the usual case, which saves the import
        from perfpy.cli.output.terminal import is_screen

        return is_screen(self.stream)

    def _screen(self) -> View:
        from perfpy.views.stat.screen import ScreenView

        try:
            width = int(os.environ.get("COLUMNS", "")) or _WIDTH
        except ValueError:
            width = os.get_terminal_size(self.stream.fileno()).columns or _WIDTH
        return ScreenView(
            self.title,
            width=width,
            colour="" if os.environ.get("NO_COLOR") else self._escape(),
            separators=self._separators() or ("" if self.form.big_num is False else ","),
            repeat_table=self.form.repeat_table,
        )

    def _escape(self) -> str:
        from perfpy.untrusted.terminal import escape_of

        return escape_of(self.stream)

    def _separators(self) -> str:
        return "" if self.form.big_num is False else _thousands_separator()

    def write(self, text: str) -> None:
        """Write text unchanged. Raises OutputFailedError."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailedError(self._name or "the counts", os.strerror(error.errno or 0)) from None

    def _choose_view(self) -> View:
        form = self.form
        if form.json:
            from perfpy.views.stat.json_text import JsonView

            return JsonView(metric_only=form.metric_only)
        if form.separator is not None:
            from perfpy.views.stat.csv_text import CsvView

            separator = form.separator.replace("\\t", "\t")
            return CsvView(separator, metric_only=form.metric_only, mark_summary=form.mark_summary)
        if self._for_a_person and not form.metric_only:
            return self._screen()
        from perfpy.views.stat.text import TextView

        return TextView(
            self.title,
            separators=self._separators(),
            repeat_table=form.repeat_table,
            metric_only=form.metric_only,
        )

    def __enter__(self) -> StatOutput:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.stream is not sys.stderr:
            try:
                self.stream.close()
            except OSError as failure:
                raise OutputFailedError(self._name or "the counts", os.strerror(failure.errno or 0)) from None


def _guard(stream: IO[str]) -> IO[str]:
    from perfpy.untrusted.terminal import guard_terminal

    return guard_terminal(stream)


def _thousands_separator() -> str:
    """Return the locale's separator of thousands; "" in the C locale, the usual one in scripts."""
    for name in ("LC_ALL", "LC_NUMERIC", "LANG"):
        value = os.environ.get(name)
        if value:
            break
    else:
        return ""
    if value.split(".")[0] in ("C", "POSIX"):
        return ""
    import locale

    try:
        locale.setlocale(locale.LC_NUMERIC, "")
    except locale.Error:
        return ""
    separator = str(locale.localeconv()["thousands_sep"])
    locale.setlocale(locale.LC_NUMERIC, "C")
    return separator
