"""List source lines and mark where a probe can be set, for `probe --line`."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.probing.neighbours import nearest
from perfpy.probing.problems import ProbeError, damage_refused
from perfpy.probing.sites.resolution import Resolver
from perfpy.probing.sites.site_search import SiteSearch
from perfpy.probing.sites.source_text import read_lines, source_path

if TYPE_CHECKING:
    from perfpy.probing.grammar.line_ranges import LineRange
    from perfpy.probing.sites.program import Program

_MORE: Final = 3  # lines shown after the last one with code


class LineListing(NamedTuple):
    """The lines of a range.

    Attributes:
        path: of the source file.
        lines: (number, text, whether it can be probed). Numbers of functions' lines are relative to the function.
    """

    path: str
    lines: list[tuple[int, str, bool]]


def list_lines(program: Program, requested: LineRange, source: str = "") -> LineListing:
    """Return the lines of a range. Raises ProbeError."""
    search = SiteSearch(program, source=source)
    with damage_refused(program.symbols):
        path, base, probed = _of_function(program, search, requested) if requested.function else _of_file(program, search, requested.source)
    first, last = base + requested.first, None if requested.last is None else base + requested.last
    inside = {line for line in probed if line >= first and (last is None or line <= last)}
    if not inside:
        raise ProbeError(f"no line of this range of {path} has code that can be probed", errno.ENOENT)
    file = source_path(path, source, program.root)
    lines = read_lines(file) if file else []
    if not lines:
        raise ProbeError(f"cannot read the source file {path}; --source names the folder of the sources", errno.ENOTDIR)
    end = min(max(inside) + _MORE if last is None else last, len(lines))
    first = max(first, 1)
    return LineListing(file, [(line - base, lines[line - 1], line in inside) for line in range(first, end + 1)])


def _of_function(program: Program, search: SiteSearch, requested: LineRange) -> tuple[str, int, set[int]]:
    """Return the path, the function's line and the lines that can be probed."""
    path, base, probed = "", 0, set[int]()
    for function in search.functions(requested.function, requested.source):
        own_path, own_base = search.declared_in(function.code, function.unit)
        if not base:
            path, base = own_path, own_base
        if (own_path, own_base) == (path, base):
            probed |= search.function_lines(function, search.files_of(function.unit, path))
    if not base:
        similar = nearest(requested.function, Resolver(program).names())
        hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        raise ProbeError(f"no function '{requested.function}' with lines in {program.path}{hint}", errno.ENOENT)
    return path, base, probed


def _of_file(program: Program, search: SiteSearch, source: str) -> tuple[str, int, set[int]]:
    path, probed = "", set[int]()
    for unit in program.all_units():
        files = search.files_of(unit, source)
        if files:
            path = path or program.statements(unit).path(min(files))
            probed |= search.probed_lines(unit, files)
    if not path:
        raise ProbeError(f"no code of {program.path} is from a source file {source}", errno.ENOENT)
    return path, 0, probed
