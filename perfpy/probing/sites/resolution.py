"""Points to sites: the addresses of a function, of its inlined calls, of source lines, patterns and markers.

Debug information comes first; without it, symbols. The order of sites is that of perf: the order of the debug information.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.sections import damage_of
from perfpy.probing.grammar.name_filters import is_glob
from perfpy.probing.neighbours import nearest
from perfpy.probing.problems import NoSuchPointError, ProbeError
from perfpy.probing.sites.site_search import FoundFunction, Site, SiteSearch, name_test
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.debuginfo.units.unit import DebugUnit
    from perfpy.probing.grammar.points import ProbePoint
    from perfpy.probing.sites.program import Program

_LISTED_MOST: Final = 8  # functions that an ambiguity names
_OPTIMIZED_MARKS: Final = (" -O1", " -O2", " -O3", " -Os", " -Og", " -Oz", " -Ofast", " -O ")


class Resolver:
    """Finds the sites of points in one program.

    Args:
        program: the program.
        inlines: whether inlined calls count.
        source: the folder of sources, "" for the recorded one.
        most: the largest number of sites of a point.

    Attributes:
        notes: what a user should know about the sites.
    """

    def __init__(self, program: Program, *, inlines: bool = True, source: str = "", most: int = 128) -> None:
        self._program = program
        self._search = SiteSearch(program, inlines=inlines, source=source)
        self._most = most
        self.notes: list[str] = []

    @property
    def search(self) -> SiteSearch:
        """The search in the debug information."""
        return self._search

    def sites(self, point: ProbePoint, *, with_variables: bool = False) -> list[Site]:
        """Return the sites of a point, at least one.

        `with_variables`: the probe reads variables, so that functions without optimization are probed after their prologue.
        Raises ProbeError.
        """
        try:
            sites = self._limited(self._all(point, with_variables), point, with_variables)
        except DAMAGE as damage:
            self._program.symbols.flaw(damage_of(damage))
            raise ProbeError(f"the debug information of {self._program.path} is damaged: {damage}", errno.EINVAL) from None
        if not sites:
            raise self._missing(point)
        return sites

    def _limited(self, sites: Iterable[Site], point: ProbePoint, with_variables: bool) -> list[Site]:
        limited: list[Site] = []
        pairs = set()
        for site in sites:
            if (site.address, site.name) in pairs or not self._program.has_code(site.address):
                continue
            pairs.add((site.address, site.name))
            limited.append(site)
            if len(limited) > self._most:
                status = errno.ERANGE if with_variables or point.line is not None else errno.ENOENT
                raise ProbeError(
                    f"'{point.text}' has more than {self._most} sites; --max-probes raises the limit",
                    errno.E2BIG if is_glob(point.function) else status,
                )
        return limited

    def _all(self, point: ProbePoint, with_variables: bool) -> Iterator[Site]:
        if point.address is not None:
            yield self._at_address(point.address)
        elif not self._program.has_debug_info:
            yield from self._by_symbols(point)
        elif point.function:
            yield from self._by_functions(point, with_variables)
        else:
            yield from self._by_source(point)

    # -- without debug information

    def _by_symbols(self, point: ProbePoint) -> Iterator[Site]:
        if point.line is not None or point.pattern or not point.function or point.source:
            raise ProbeError(
                f"'{point.text}' needs debug information, and {self._program.path} has none;"
                " install its debug package, set DEBUGINFOD_URLS, or probe a function by name",
                errno.ENOENT,
            )
        for symbol in self._program.symbols_named(name_test(point.function)):
            if symbol.is_indirect:
                self.notes.append(f"{symbol.name} selects a function when the program starts; probe the selected function")
            if point.offset and symbol.size and point.offset >= symbol.size:
                raise ProbeError(f"{symbol.name} has {symbol.size} bytes; +{point.offset} is beyond its end", errno.ENOENT)
            yield Site(symbol.address + point.offset, None, None, symbol.name, symbol.name)

    # -- by debug information

    def _at_address(self, address: int) -> Site:
        self._program.file_offset(address)
        unit = self._program.unit_at(address)
        function = self._search.code_at(unit, address) if unit else None
        name = f"abs_{address:x}"
        return Site(address, function.code if function else None, unit, name)

    def _by_functions(self, point: ProbePoint, with_variables: bool) -> Iterator[Site]:
        is_found = False
        beyond: ProbeError | None = None
        sites = 0
        for function in self._search.functions(point.function, point.source):
            if point.is_return and function.code.is_inlined:
                continue
            is_found = True
            if point.offset and not self._holds_offset(function, point.offset):
                size = sum(end - start for start, end in function.code.ranges)
                beyond = beyond or ProbeError(f"{function.name.name} has {size} bytes; +{point.offset} is beyond its end", errno.ENOENT)
                continue
            for site in self._of_function(point, function, with_variables):
                sites += 1
                yield site
        if beyond is not None and not sites:
            raise beyond
        if not is_found and not point.source and point.line is None and not point.pattern:
            yield from self._by_symbols(point)

    def _of_function(self, point: ProbePoint, function: FoundFunction, with_variables: bool) -> Iterator[Site]:
        entry = function.code.entry
        if point.line is not None:
            yield from self._lines_of(point, function)
        elif point.pattern:
            path, _ = self._search.declared_in(function.code, function.unit)
            addresses = self._search.pattern_addresses(function.unit, path, point.pattern, function.code)
            yield from (self._site(function, address) for address in addresses)
        elif point.offset:
            yield self._site(function, entry + point.offset)
        elif with_variables and not function.code.is_inlined and not point.is_return:
            yield self._site(function, self._after_prologue(function))
        else:
            yield self._site(function, entry)

    def _holds_offset(self, function: FoundFunction, offset: int) -> bool:
        """Whether the code has an instruction at an offset; for inlined calls, whether the function that contains the call has."""
        target = function.code.entry + offset
        is_beyond = not function.code.is_inlined and target >= function.code.end
        return not is_beyond and function.code.function.holds(target)

    def _site(self, function: FoundFunction, address: int) -> Site:
        return Site(address, function.code, function.unit, function.name.name, function.name.linkage or function.name.name)

    def _after_prologue(self, function: FoundFunction) -> int:
        """Return the first address at which variables are where the debug information locates them.

        Code without optimization has them only after the prologue: at the second statement, as debuggers assume.
        """
        if _is_optimized(
            function.unit.text(dwarf.AT_PRODUCER) or (function.unit.skeleton.text(dwarf.AT_PRODUCER) if function.unit.skeleton else "")
        ):
            return function.code.entry
        statement = self._program.statements(function.unit).after(function.code.entry)
        if statement is None or not function.code.holds(statement.address):
            return function.code.entry
        self.notes.append(
            f"{function.name.name} is compiled without optimization; the probe is after its prologue, where variables have their places"
            f" (0x{function.code.entry:x} is the entry)"
        )
        return statement.address

    def _lines_of(self, point: ProbePoint, function: FoundFunction) -> Iterator[Site]:
        path, base = self._search.declared_in(function.code, function.unit)  # 0 for functions in assembly: lines count from the file
        files = self._search.files_of(function.unit, path)
        line = base + (point.line or 0)
        if not point.line:
            yield self._site(function, function.code.entry)
            return
        scope = None if function.code.is_inlined else function.code
        for address in self._search.line_sites(function.unit, files, line, scope, function.name.name, base):
            yield self._site(function, address)

    def _by_source(self, point: ProbePoint) -> Iterator[Site]:
        shared: ProbeError | None = None
        is_found = False
        for unit in self._program.all_units():
            files = self._search.files_of(unit, point.source)
            if not files:
                continue
            try:
                addresses = self._source_addresses(unit, files, point)
            except ProbeError as error:  # in this unit; a header's line is in many
                shared = shared or error
                continue
            for address in addresses:
                is_found = True
                yield self._in_unit(unit, address, files, point.line or 0)
        if shared is not None and not is_found:
            raise shared

    def _source_addresses(self, unit: DebugUnit, files: frozenset[int], point: ProbePoint) -> list[int]:
        if point.pattern:
            return self._search.pattern_addresses(unit, self._program.statements(unit).path(min(files)), point.pattern, None)
        return self._search.line_sites(unit, files, point.line or 0, None, point.source, 0)

    def _in_unit(self, unit: DebugUnit, address: int, files: frozenset[int], line: int) -> Site:
        """Return the site of an address: in the inlined call that contains it if its function can have the line, as perf names it."""
        function = self._search.code_at(unit, address)
        if function is None:
            return Site(address, None, unit, f"abs_{address:x}")
        return self._site(self._search.call_with_line(function, address, files, line), address)

    # -- errors

    def _missing(self, point: ProbePoint) -> ProbeError:
        if point.function and point.is_return and self._program.has_debug_info:
            inlined = next(self._search.functions(point.function, point.source), None)
            if inlined is not None:
                return ProbeError(f"{point.function} is inlined into its callers and never returns; probe its entry", errno.ENOENT)
        if point.function and not is_glob(point.function):
            similar = nearest(point.function, self.names())
            hint = f"did you mean {' or '.join(map(repr, similar))}?" if similar else "--funcs lists its functions"
            has_part = point.line is not None or point.source or point.pattern
            if has_part and next(self._search.functions(point.function), None) is not None:
                return NoSuchPointError(self._no_code(point))
            return NoSuchPointError(f"no function '{point.function}' in {self._program.path}; {hint}")
        if point.source:
            return NoSuchPointError(self._no_code(point))
        return NoSuchPointError(f"'{point.text}' fits no function of {self._program.path}; --funcs lists them")

    def _no_code(self, point: ProbePoint) -> str:
        return f"no code for '{point.text}' in {self._program.path}; --line shows the lines that have code"

    def names(self) -> Iterator[str]:
        """Yield the names of functions, for suggestions."""
        table = self._program.table
        for row in range(len(table)):
            raw = table.raw_name(row)
            name = table.name(row) if raw.startswith((b"_Z", b"_R")) else raw.decode("utf-8", "surrogateescape")
            yield name.split("(", 1)[0].rsplit("::", 1)[-1]

    def other_functions(self, sites: list[Site]) -> list[str]:
        """Return NAME at FILE:LINE of each distinct function of some sites, for points that several functions fit."""
        described = []
        for site in sites:
            if site.code is None or site.unit is None:
                continue
            path, line = self._search.declared_in(site.code, site.unit)
            text = f"{site.name} ({path}:{line})"
            if text not in described:
                described.append(text)
        return described[:_LISTED_MOST] if len(described) > 1 else []


def _is_optimized(producer: str) -> bool:
    """Whether the compiler optimized a unit, by its command line. Only gcc writes that."""
    return not producer.startswith("GNU ") or any(mark in f"{producer} " for mark in _OPTIMIZED_MARKS)
