"""The code of hot functions and files, as values for the page's scripts (code.js).

For each of the hottest functions of each event a dict:

    name, module, event; share: of the event, 0 to 1
    instructions  [number, share of the function, address, text, "file:line"] ...
    sources    {path, share, lines: [number, share, text] ...} ...
    spots  [instruction, index into sources or -1, line, site] ...

and for each of the hottest source files:

    name, event; share, own: of the event, with and without inlined code; calls: whether inlined code includes calls
    lines  [number, own share of the event, text, share with inlined code] ...
    spots  [line, site, whether the line is the site's own] ...

Sites are numbers that samples have (page_sites): the scripts add up the selected samples of each. Functions and files include code with
samples and some lines around it; gaps in the numbers are skipped lines. Source files are read if they exist here and have names of
source files: pages are given to others, and untrusted debug information names the files.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from perfpy.disassembly.disassembler import CodeStyle
from perfpy.untrusted.files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.analysis.annotation import AnnotatedFunction, Annotation, CodeRow
    from perfpy.analysis.source_files import SourceFile, SourceShares
    from perfpy.views.page.profile_data import PageSites

_FUNCTIONS: Final = 10  # of an event
_CODE_ONLY: Final = CodeStyle(code_only=True)  # the page finds source lines itself
_FILES: Final = 8
_MATTERS: Final = 1.0  # percent of the event
_HOT: Final = 0.2  # percent of the function
_HOT_LINE: Final = 0.1  # percent of the event
_INSTRUCTIONS_AROUND: Final = 6
_LINES_AROUND: Final = 3
_MOST_ROWS: Final = 400
_FILE_MOST: Final = 16 << 20
_TABS: Final = 4
_SOURCE: Final = re.compile(
    r"/.*[^/]\.(adb|asm|c|c\+\+|cc|cpp|cppm|cs|cu|cxx|d|f|f90|fs|go|h|h\+\+|hh|hpp|hs|hxx|inc|inl|ipp|java|js|kt|l|m|mjs|ml|mm|nim"
    r"|pas|php|pl|py|pyx|rb|rs|s|scala|swift|tcc|ts|v|y|zig)",
    re.IGNORECASE,
)


def code_data(annotation: Annotation, sites: PageSites | None = None) -> list[dict[str, Any]]:
    """Return the functions, those of the first event first."""
    texts = _SourceTexts()
    values = []
    for table in annotation.report.histograms:
        if table.leader.samples:
            functions = annotation.functions(table, _CODE_ONLY, percent_limit=_MATTERS)
            values += [_function(one, table.leader.event.name, texts, sites) for one in islice(functions, _FUNCTIONS)]
    return values


def file_data(events: Iterable[SourceShares], sites: PageSites | None = None) -> list[dict[str, Any]]:
    """Return the source files, those of the first event first, and for each event existing files first."""
    texts = _SourceTexts()
    values = []
    for shares in events:
        files = [file for file in shares.files if file.with_inlined >= _MATTERS]
        files.sort(key=lambda file: not texts.of(file.path))
        for file in files[:_FILES]:
            value = _file(file, shares.event, texts.of(file.path))
            spots = sites.in_file(file.path, {line[0] for line in value["lines"]}) if sites is not None else []
            values.append({**value, "calls": int(shares.with_calls), "spots": spots})
    return values


def _file(file: SourceFile, event: str, text: list[str]) -> dict[str, Any]:
    line_of = {line.line: line for line in file.lines}
    hot = sorted(
        (line.line for line in file.lines if line.line and max(line.percent, line.with_inlined) >= _HOT_LINE),
        key=lambda number: -line_of[number].with_inlined,
    )
    numbers = _near(hot, _LINES_AROUND, 1, len(text) + 1) if text else sorted(hot[:_MOST_ROWS])
    shares = {number: (line_of[number].percent, line_of[number].with_inlined) if number in line_of else (0.0, 0.0) for number in numbers}
    lines = [[number, own / 100, text[number - 1] if number <= len(text) else "", whole / 100] for number, (own, whole) in shares.items()]
    return {"name": file.path, "event": event, "share": file.with_inlined / 100, "own": file.percent / 100, "lines": lines}


def _function(one: AnnotatedFunction, event: str, texts: _SourceTexts, sites: PageSites | None) -> dict[str, Any]:
    rows = list(one.rows())
    sources = _sources(rows, texts)
    return {
        "name": one.name,
        "module": one.dso.short_name,
        "event": event,
        "share": one.hot.percent / 100,
        "instructions": _instructions(rows),
        "sources": sources,
        "spots": [] if sites is None else _spots(rows, sources, sites.in_function(one.hot.symbol, one.bounds)),
    }


def _spots(rows: list[CodeRow], sources: list[dict[str, Any]], sites: Iterable[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Return the places of sites in a function. sites: instruction and number of each."""
    source_of = {source["path"]: index for index, source in enumerate(sources)}
    lines = ((instruction, number, rows[instruction].source or ("", 0)) for instruction, number in sites)
    return [(instruction, source_of.get(path, -1), line, number) for instruction, number, (path, line) in lines]


def _near(hot: Iterable[int], around: int, first: int, end: int) -> list[int]:
    """Return the hot numbers and those around them."""
    numbers: set[int] = set()
    for number in hot:
        if len(numbers) >= _MOST_ROWS:
            break
        numbers.update(range(max(first, number - around), min(end, number + around + 1)))
    return sorted(numbers)


def _instructions(rows: list[CodeRow]) -> list[list[Any]]:
    by_share = sorted((number for number, row in enumerate(rows) if row.percent >= _HOT), key=lambda number: -rows[number].percent)
    return [
        [number, row.percent / 100, f"{row.address:x}", row.text, _where(row)]
        for number in _near(by_share, _INSTRUCTIONS_AROUND, 0, len(rows))
        for row in (rows[number],)
    ]


def _where(row: CodeRow) -> str:
    return f"{row.source[0].rpartition('/')[2]}:{row.source[1]}" if row.source else ""


def _sources(rows: list[CodeRow], texts: _SourceTexts) -> list[dict[str, Any]]:
    """Return the files with their lines, sorted by share; only files that can be read."""
    shares: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.source and row.percent:
            lines = shares.setdefault(row.source[0], {})
            lines[row.source[1]] = lines.get(row.source[1], 0.0) + row.percent / 100
    sources = []
    for path, lines in sorted(shares.items(), key=lambda pair: -sum(pair[1].values())):
        text = texts.of(path)
        if text:
            hot = sorted((line for line in lines if line), key=lambda line: -lines[line])
            lines_of_file = [[number, lines.get(number, 0.0), text[number - 1]] for number in _near(hot, _LINES_AROUND, 1, len(text) + 1)]
            sources.append({"path": path, "share": sum(lines.values()), "lines": lines_of_file})
    return sources


class _SourceTexts:
    """The lines of source files, each file read once; empty for missing files."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def of(self, path: str) -> list[str]:
        """Return the lines of a file."""
        if path not in self._lines:
            try:
                text = read_regular(path, limit=_FILE_MOST).decode("utf-8", "replace") if _SOURCE.fullmatch(path) else ""
            except (OSError, ValueError):
                text = ""
            self._lines[path] = [line.expandtabs(_TABS) for line in text.splitlines()]
        return self._lines[path]
