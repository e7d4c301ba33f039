"""The grammar of ranges of source lines: FUNCTION[@SOURCE][:FIRST[+COUNT|-LAST]] or SOURCE[:FIRST[+COUNT|-LAST]].

Syntax: perf-probe(1). The lines of functions count from the function's.
"""

from __future__ import annotations

import re
from typing import Final

from perfpy.abi.startup import NamedTuple
from perfpy.errors import UsageError
from perfpy.probing.grammar.words import find_special, unescaped

_RANGE: Final = re.compile(r"(?P<first>\d+)(?:\+(?P<count>\d+)|-(?P<last>\d+))?\Z", re.ASCII)
_LARGEST: Final = (1 << 31) - 1


class LineRange(NamedTuple):
    """A range of source lines.

    Attributes:
        function: a function's name, "" for a file.
        source: a source file.
        first: the first line.
        last: the last line, None: as far as there is code.
    """

    function: str
    source: str
    first: int
    last: int | None


def parse_line_range(text: str) -> LineRange:
    """Parse a range. Raises UsageError."""
    colon = _colon(text)
    head, lines = (text[:colon], text[colon + 1 :]) if colon >= 0 else (text, "")
    if colon >= 0:
        between = find_special(lines, "@")
        if between >= 0:  # FUNCTION:LINES@SOURCE
            head, lines = head + lines[between:], lines[:between]
    first, last = _parse_lines(lines, text) if colon >= 0 else (0, None)
    split = find_special(head, "@")
    if split >= 0:
        return LineRange(unescaped(head[:split]), unescaped(head[split + 1 :]), first, last)
    name = unescaped(head)
    if not name:
        raise UsageError(f"'{text}': a range of lines needs a function or a source file")
    return LineRange("", name, first, last) if "." in name or "/" in name else LineRange(name, "", first, last)


def _colon(text: str) -> int:
    """Return the index of the colon before the lines, -1 without one."""
    index = find_special(text, ":")
    while index >= 0 and text.startswith("::", index):
        index = find_special(text, ":", index + 2)
    return index


def _parse_lines(lines: str, text: str) -> tuple[int, int | None]:
    match = _RANGE.match(lines)
    if match is None:
        raise UsageError(f"'{text}': '{lines}' is not a range of lines; the forms are FIRST, FIRST+COUNT and FIRST-LAST")
    first = int(match["first"])
    last = first + int(match["count"]) - 1 if match["count"] else int(match["last"]) if match["last"] else None
    if first > _LARGEST or (last is not None and (last > _LARGEST or last < first)):
        raise UsageError(f"'{text}': the range of lines {lines} ends before it begins")
    return first, last
