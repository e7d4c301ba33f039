"""Search a program's debug information for points: functions, their inlined calls, source lines and patterns."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.lines.statements import ends_with
from perfpy.debuginfo.units import dwarf
from perfpy.debuginfo.units.sections import damage_of
from perfpy.probing.grammar.name_filters import glob_test, is_glob
from perfpy.probing.grammar.words import without_parameters
from perfpy.probing.problems import ProbeError
from perfpy.probing.sites.source_text import matching_lines, read_lines, source_path
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.debuginfo.functions import CodeDie, FunctionName
    from perfpy.debuginfo.lines.statements import Statement, StatementTable
    from perfpy.debuginfo.units.unit import DebugUnit
    from perfpy.probing.sites.program import Program

_PARTS: Final = 3  # of a file's name, for suggestions


class Site(NamedTuple):
    """One address of a point.

    Attributes:
        address: link-time address.
        code: the function's code, or that of an inlined call; None without debug information.
        unit: the unit of `code`.
        name: the function's name.
        linkage: the symbol's name, "" if unknown.
    """

    address: int
    code: CodeDie | None
    unit: DebugUnit | None
    name: str
    linkage: str = ""


class FoundFunction(NamedTuple):
    """A function or an inlined call that a name fits."""

    unit: DebugUnit
    code: CodeDie
    name: FunctionName


class SiteSearch:
    """A search for points in one program.

    Args:
        program: the program.
        inlines: whether inlined calls count.
        source: the folder of sources, "" for the recorded one.
    """

    def __init__(self, program: Program, *, inlines: bool = True, source: str = "") -> None:
        self._program = program
        self._inlines = inlines
        self._source = source
        self._entries: dict[int, dict[int, int]] = {}

    # -- functions

    def functions(self, name: str, source: str = "") -> Iterator[FoundFunction]:
        """Yield the functions and inlined calls of a name or a glob pattern, in the order of the file."""
        test = name_test(name)
        needle = name.split("(", 1)[0].rsplit("::", 1)[-1]
        units = self._program.all_units() if is_glob(name) else self._program.units_mentioning(needle)
        for unit in units:
            functions = self._program.functions(unit)
            for code in functions.code if functions else ():
                assert functions is not None
                if code.is_inlined and (code.is_repeated or not self._inlines):
                    continue
                try:
                    names = functions.name_of(code)
                    if self._fits(names, test) and (not source or self._is_of(code, unit, source)):
                        yield FoundFunction(unit, code, names)
                except DAMAGE as damage:
                    self._program.symbols.flaw(damage_of(damage))

    def _fits(self, names: FunctionName, test: Callable[[str], bool]) -> bool:
        if test(names.name) or (names.linkage and test(names.linkage)):
            return True
        parts = without_parameters(names.qualified).split("::")
        if test(names.qualified) or any(test("::".join(parts[first:])) for first in range(len(parts))):
            return True
        return bool(names.linkage) and test(self._program.demangle(names.linkage.encode("utf-8", "surrogateescape")))

    def _is_of(self, code: CodeDie, unit: DebugUnit, source: str) -> bool:
        return ends_with(self.declared_in(code, unit)[0], source)

    def declared_in(self, code: CodeDie, unit: DebugUnit) -> tuple[str, int]:
        """Return the path and line of the declaration of a function; "" and 0 if unknown."""
        declaration = code.die.attribute(dwarf.AT_DECL_FILE)
        line = code.die.number(dwarf.AT_DECL_LINE) or 0
        if declaration is None or not isinstance(declaration[1].value, int):
            return self._program.statements(unit).path(0), line
        owner = declaration[0] if declaration[0].stmt_list is not None or declaration[0].skeleton else unit
        return self._program.statements(owner).path(declaration[1].value), line

    def code_at(self, unit: DebugUnit, address: int) -> FoundFunction | None:
        """Return the function whose own code contains an address."""
        functions = self._program.functions(unit)
        if functions is None:
            return None
        code = next((code for code in functions.code if not code.is_inlined and code.holds(address)), None)
        return FoundFunction(unit, code, functions.name_of(code)) if code else None

    def call_with_line(self, function: FoundFunction, address: int, files: frozenset[int], line: int) -> FoundFunction:
        """Return the innermost inlined call at an address if its function can have a line, otherwise the function itself, as perf.

        A function has the lines after its declaration. The line of a call is its caller's. Line 0 is in any function.
        """
        functions = self._program.functions(function.unit)
        if functions is None:
            return function
        own = (code for code in functions.code if code.function is function.code and code.ranges and not code.is_repeated)
        calls = [code for code in own if code.entry == address or code.holds(address)]
        code = calls[-1] if calls else function.code  # callers come first
        if code.caller is not None and code.call_line == line and code.call_file in files and _can_have(code, files, line):
            code = code.caller
        if code.is_inlined and line and not _can_have(code, files, line):
            code = function.code
        return FoundFunction(function.unit, code, functions.name_of(code))

    # -- lines

    def first_line(self, unit: DebugUnit, address: int) -> int | None:
        """Return the line that begins at an address; for a function's entry, the line of its declaration."""
        line = self._entry_lines(unit).get(address)
        if line:
            return line
        statement = self._program.statements(unit).first(address)
        return statement.line if statement else None

    def _entry_lines(self, unit: DebugUnit) -> dict[int, int]:
        """Return the lines of the unit's functions by their entries."""
        if id(unit) not in self._entries:
            functions = self._program.functions(unit)
            own = [code for code in functions.code if not code.is_inlined] if functions else []
            self._entries[id(unit)] = {code.entry: code.die.number(dwarf.AT_DECL_LINE) or 0 for code in own}
        return self._entries[id(unit)]

    def line_sites(self, unit: DebugUnit, files: frozenset[int], line: int, code: CodeDie | None, name: str, base: int) -> list[int]:
        """Return the addresses of a line, in a function or in the whole unit.

        Raises ProbeError if other lines of these files share one of them. `name` and `base` are the name and the line of the point's
        function, for the error.
        """
        addresses = []
        for address in filter(self._program.has_code, self._addresses_of(unit, files, line, code)):
            first = self._sharing_line(unit, files, address)
            if first is not None and first != line:
                raise ProbeError(
                    f"line {line - base} of {name} shares its address with line {first - base}; probe {name}:{first - base} instead",
                    errno.ENOENT,
                )
            if address not in addresses:
                addresses.append(address)
        return addresses

    def _sharing_line(self, unit: DebugUnit, files: frozenset[int], address: int) -> int | None:
        """Return the line of some files that begins at an address, as first_line; None for a line of another file."""
        statement = self._program.statements(unit).first(address)
        is_other = statement is not None and statement.file not in files
        return None if is_other and address not in self._entry_lines(unit) else self.first_line(unit, address)

    def _addresses_of(self, unit: DebugUnit, files: frozenset[int], line: int, code: CodeDie | None) -> Iterator[int]:
        functions = self._program.functions(unit)
        owned = functions.code if functions else []
        for statement in self._program.statements(unit).at_line(files, line):
            if code is None or code.holds(statement.address):
                yield statement.address
        for one in owned:  # a function's entry has the line of its declaration; an inlined call that of the call
            if code is not None and not code.holds(one.entry):
                continue
            if one.is_inlined:
                if one.call_line == line and one.call_file in files:
                    yield one.entry
            elif one.die.number(dwarf.AT_DECL_LINE) == line and one.die.number(dwarf.AT_DECL_FILE) in files:
                yield one.entry

    def probed_lines(self, unit: DebugUnit, files: frozenset[int]) -> set[int]:
        """Return the lines of a unit's files at which a probe can be."""
        lines = set()
        for statement in self._program.statements(unit).of_files(files):
            first = self._program.statements(unit).first(statement.address)
            if first is not None and first.file in files:
                lines.add(self.first_line(unit, statement.address) or first.line)
        return lines

    def function_lines(self, function: FoundFunction, files: frozenset[int]) -> set[int]:
        """Return the lines of a function at which a probe can be; not those of functions that are inlined into it."""
        unit, code = function.unit, function.code
        table, functions = self._program.statements(unit), self._program.functions(unit)
        inner = [one for one in functions.code if one.is_inlined and one is not code and code.holds(one.entry)] if functions else []
        lines = {one.call_line for one in [*inner, code] if one.call_line and self.first_line(unit, one.entry) == one.call_line}
        base = code.die.number(dwarf.AT_DECL_LINE) or 0
        if code.is_inlined:
            lines.add(base)
        for statement in (one for low, high in code.ranges for one in table.inside(low, high)):
            first = table.first(statement.address)
            if first is None or first.file not in files or (code.is_inlined and statement.address == code.entry):
                continue
            if not any(one.holds(statement.address) and statement.address != one.entry for one in inner):
                lines.add(self.first_line(unit, statement.address) or first.line)
        return lines

    def files_of(self, unit: DebugUnit, source: str) -> frozenset[int]:
        """Return the numbers of the unit's files that a path fits."""
        try:
            return self._program.statements(unit).files_named(source)
        except DAMAGE as damage:
            self._program.symbols.flaw(damage_of(damage))
            return frozenset()

    # -- patterns

    def pattern_addresses(self, unit: DebugUnit, source: str, pattern: str, code: CodeDie | None) -> list[int]:
        """Return the addresses of the statements whose source lines match a pattern."""
        path = source_path(source, self._source, self._program.root)
        if not path:
            raise ProbeError(f"no source file {source}; --source names the folder of the sources", errno.ENOENT)
        lines = set(matching_lines(read_lines(path), pattern))
        table: StatementTable = self._program.statements(unit)
        files = table.files_named(source)
        addresses: list[int] = []
        statements: list[Statement] = table.of_files(files)
        for statement in statements:
            if statement.line in lines and statement.address not in addresses and (code is None or code.holds(statement.address)):
                addresses.append(statement.address)
        functions = self._program.functions(unit)
        for call in functions.code if functions else ():
            is_inside = call.is_inlined and (code is None or code.holds(call.entry))
            if is_inside and call.call_line in lines and call.call_file in files and call.entry not in addresses:
                addresses.append(call.entry)
        return addresses


def _can_have(code: CodeDie, files: frozenset[int], line: int) -> bool:
    """Whether a function can have a line: it is declared before, in one of some files."""
    declared = code.die.number(dwarf.AT_DECL_LINE) or 0
    return declared < line and code.die.number(dwarf.AT_DECL_FILE) in files


def name_test(name: str) -> Callable[[str], bool]:
    """Return a test for a function's name: equal, or matching a glob pattern."""
    return glob_test(name) if is_glob(name) else name.__eq__
