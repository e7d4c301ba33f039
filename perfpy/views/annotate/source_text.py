"""annotate --by-line: source files, line by line.

Each file has a heading, and its lines with samples, with some around them. The program's own files come before those of libraries and
runtimes, which nearly all calls pass through; code without lines comes last.
Source text is read if the files exist here. The output is the same for pipes and terminals.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.plurals import plural
from perfpy.untrusted.files import read_regular
from perfpy.untrusted.text import visible
from perfpy.views.report.share_colour import colour_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.annotation.source_files import SourceFile, SourceLine, SourceShares

#: relative paths are those of distributions' builds; <frozen runpy> and node:internal are built in
_OF_OTHERS: Final = re.compile(
    r"^(?:\.{1,2}/|<|node:|/usr/(?:src|include|lib|share)|/rustc/|/build/|/opt/hostedtoolcache/)"
    r"|/(?:lib/python[\d.]+t?|(?:site|dist)-packages|node_modules|\.cargo|go/pkg/mod|go[\d.-]*/src/(?:runtime|internal)|\.rustup)/"
)
_FILE_MOST: Final = 16 << 20
_TABS: Final = 4
_NAMED_MOST: Final = 5  # files without lines
_SEEN: Final = 0.005  # percent; printed numbers are rounded


class SourceStyle(NamedTuple):
    """The style of the listing.

    Attributes:
        limit: the least percent of a line, inlined code included.
        around: lines before and after each.
        colour: the beginning of escape sequences, "" for none.
    """

    limit: float = 0.5
    around: int = 2
    colour: str = ""


def source_lines(shares: SourceShares, style: SourceStyle) -> Iterator[str]:
    """Yield all lines of one event."""
    yield f"{shares.event}: {shares.samples:,} {plural(shares.samples, 'sample')}"
    for file in sorted(shares.files, key=lambda file: not is_own_source(file.path)):  # stable: by share among each kind
        lines = [line for line in file.lines if max(line.percent, line.with_inlined) >= style.limit]
        if lines:
            yield from _file(file, lines, style, with_calls=shares.with_calls)
    if shares.without_lines:
        yield ""
        yield _without_lines(shares.without_lines)


def is_own_source(path: str) -> bool:
    """Whether a source file seems to be the program's own: not of the C library, a runtime or an installed package.

    >>> [is_own_source(path) for path in ("/home/a/work.c", "app.py", "./nptl/pthread_create.c", "/usr/lib/python3.11/runpy.py")]
    [True, True, False, False]
    """
    return not _OF_OTHERS.search(path)


def _file(file: SourceFile, lines: list[SourceLine], style: SourceStyle, *, with_calls: bool) -> Iterator[str]:
    text = _read(file.path)
    here = "" if text else "  (file not found)"
    within = "calls" if with_calls else "inlined code"
    inlined = f", {file.with_inlined:.2f}% with {within}" if file.with_inlined > file.percent + _SEEN else ""
    yield from ("", f"{visible(file.path)}  {file.percent:.2f}%{inlined}{here}")
    yield "   self    total     line" if with_calls else "    own  +inlined    line"
    line_of = {line.line: line for line in file.lines}
    width = max(len(str(lines[-1].line)), 4)
    before = 0
    for number in _lines_around({line.line for line in lines}, len(text), style.around):
        if text and before and number > before + 1:
            yield f"{'':19} {'...':>{width}}"
        before = number
        source = visible(text[number - 1].expandtabs(_TABS)) if 0 < number <= len(text) else ""
        yield f"{_cells(line_of.get(number), style)}  {number or '?':>{width}}  {source}".rstrip()


def _lines_around(lines: set[int], length: int, around: int) -> list[int]:
    """Return the lines, and some lines of the file before and after each."""
    near = {number + step for number in lines if number for step in range(-around, around + 1)}
    return sorted(lines | {number for number in near if 1 <= number <= length})


def _cells(line: SourceLine | None, style: SourceStyle) -> str:
    if line is None:
        return " " * 18
    own = f"{line.percent:6.2f}%" if line.percent else " " * 7
    whole = f"{line.with_inlined:6.2f}%" if line.with_inlined > line.percent + _SEEN else " " * 7
    return f"{_cell(own, line.percent, style)} {_cell(whole, line.with_inlined, style)}   "


def _cell(text: str, percent: float, style: SourceStyle) -> str:
    return colour_share(percent, text, style.colour) if style.colour else text


def _without_lines(shares: dict[str, float]) -> str:
    names = ", ".join(f"{visible(name)} {share:.2f}%" for name, share in list(shares.items())[:_NAMED_MOST])
    more = f" and {len(shares) - _NAMED_MOST} more" if len(shares) > _NAMED_MOST else ""
    return f"{sum(shares.values()):.2f}% in code without line numbers: {names}{more}"


def _read(path: str) -> list[str]:
    """Return the lines of a source file; none if it is missing, no regular file, or has a relative path."""
    if not path.startswith("/"):
        return []
    try:
        return read_regular(path, limit=_FILE_MOST).decode("utf-8", "replace").split("\n")
    except (OSError, ValueError):
        return []
