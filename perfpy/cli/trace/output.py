"""Where the lines go: standard error, as perf's do, or the file of -o."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Self, TextIO

from perfpy.errors import OutputFailedError
from perfpy.untrusted.destinations import opener
from perfpy.untrusted.text import lines as one_line_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from perfpy.views.script.pieces import Flat


_LINES_AT_ONCE: Final = 4096


class TraceOutput:
    """The destination of lines. path: of -o; "" for standard error, "-" for standard output."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        if self._path not in ("", "-"):
            try:
                self._file = open(self._path, "w", encoding="utf-8", errors="surrogateescape", opener=opener)
            except OSError as error:
                raise OutputFailedError(self._path, error.strerror or str(error)) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            if isinstance(error, OutputFailedError):  # closing would try to write the rest
                with suppress(OSError):
                    self._file.close()
            else:
                self._named(self._file.close)

    def _named(self, write: Callable[[], object]) -> None:
        """Write, and name the file if that fails."""
        try:
            write()
        except OSError as failure:
            if self._file is None:  # standard output and standard error: the command line reports them
                raise
            raise OutputFailedError(self._path, failure.strerror or str(failure)) from None

    @property
    def stream(self) -> TextIO:
        """The open stream."""
        return self._file or (sys.stdout if self._path == "-" else sys.stderr)

    def write(self, lines: Iterable[str]) -> None:
        """Write lines. Line breaks in names of files and threads do not begin new ones."""
        texts = one_line_each(lines)
        while part := "".join(islice(texts, _LINES_AT_ONCE)):  # standard error is flushed at each line's end
            self._named(partial(self.stream.write, part))
        self._named(self.stream.flush)

    def write_lines(self, lines: Flat, most: int | None = None) -> None:
        """Write lines that are bytes with their line feeds; most: how many, None for all."""
        data = b"".join(lines.parts if most is None else lines.slice(0, most))
        self._named(self.stream.flush)
        self._named(lambda: self.stream.buffer.write(data))
        self._named(self.stream.buffer.flush)
