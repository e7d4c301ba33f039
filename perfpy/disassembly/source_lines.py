"""Insert source lines into the text of objdump -l, as objdump -S prints them.

objdump -S opens the source files that a program's debug information names, also FIFOs and devices. These names are read here instead, like
all names that others chose. objdump prints five more lines before a line, but no line twice in a row of instructions (binutils,
objdump.c, show_line()).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FILE_MOST: Final = 64 << 20
_FILES_MOST: Final = 1 << 10
_LINES_BEFORE: Final = 5
#: instructions, labels, headings
_KEPT: Final = re.compile(rb"\s*[0-9a-f]+:\t|[0-9a-f]{8,16} <|Disassembly of section ")
_LINE: Final = re.compile(rb"(.+):([1-9][0-9]{0,8})(?: \(discriminator [0-9]+\))?")
_LINE_END: Final = re.compile(rb"\n\r?|\r\n?")
_UNKNOWN: Final = b"???"
_NOWHERE: Final = b"/dev/null"  # objdump's --prefix if it must not find source files


class _Source:
    """The lines of a source file, and how far they are printed."""

    def __init__(self, name: bytes) -> None:
        try:
            text = read_regular(name.decode("utf-8", "surrogateescape"), limit=_FILE_MOST)
        except (OSError, ValueError):  # ValueError: a name with a NUL
            text = b""
        self._lines = _LINE_END.split(text)[:-1]  # objdump counts complete lines only
        self._last = self._largest = 0

    def until(self, number: int) -> list[bytes]:
        """Return the lines to print before an instruction of a line."""
        if number == self._last:
            return []
        first = number - _LINES_BEFORE if number >= _LINES_BEFORE else 1
        if self._largest >= first:
            first = self._largest + 1 if self._largest < number else number
        self._last, self._largest = number, max(self._largest, number)
        return self._lines[max(first - 1, 0) : number]


def with_source(lines: Iterable[bytes], *, is_read: bool = True) -> Iterator[bytes]:
    """Yield the lines of objdump -l with source lines in place of line numbers and names of functions.

    is_read: whether source files are read; without, the lines are only removed.
    """
    sources: dict[bytes, _Source] = {}
    for line in lines:
        if _KEPT.match(line):
            yield line
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            if not line.endswith(b":"):  # the name of a function
                yield line
            continue
        name = match[1].removeprefix(_NOWHERE)
        if is_read and name != _UNKNOWN and (name in sources or len(sources) < _FILES_MOST):
            source = sources.get(name) or sources.setdefault(name, _Source(name))
            yield from source.until(int(match[2]))
