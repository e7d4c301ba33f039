"""Points to sites: the addresses of a function, of its inlined calls, of source lines, patterns and markers.

Debug information comes first; without it, symbols. The order of sites is that of perf: the order of the debug information.
"""

from __future__ import annotations

import errno
import os
import re
from fnmatch import translate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.sections import damage_of
from perfpy.debuginfo.source_lines import ends_with
from perfpy.probing.definitions import KERNEL_GROUP, Definition, Planned, describe, event_of
from perfpy.probing.grammar import glob_test, is_glob, parse_argument, without_parameters
from perfpy.probing.problems import NoSuchPointError, ProbeError, hint
from perfpy.symbols.files.elf import DAMAGE
from perfpy.symbols.symbol_table import STT_OBJECT
from perfpy.untrusted.files import UnsafeNameError, below, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.debuginfo.dies import CodeDie, FunctionName
    from perfpy.debuginfo.units import DebugUnit
    from perfpy.probing.grammar import ProbePoint, ProbeRequest
    from perfpy.probing.program import Program


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

    def sites(self, point: ProbePoint, *, with_variables: bool = False, has_arguments: bool = False) -> list[Site]:
        """Return the sites of a point, at least one.

        `with_variables`: the probe reads variables, so that functions without optimization are probed after their prologue.
        `has_arguments`: the probe reads something; decides the exit status if the point does not exist. Raises ProbeError.
        """
        try:
            sites = self._limited(self._all(point, with_variables), point, with_variables)
        except DAMAGE as damage:
            self._program.symbols.flaw(damage_of(damage))
            raise ProbeError(f"the debug information of {self._program.path} is damaged: {damage}", errno.EINVAL) from None
        if not sites:
            # perf searches the symbols in the end, unless debug information answers for a point without arguments.
            is_answered = self._program.has_debug_info and not has_arguments and not point.is_return
            raise self._missing(point, errno.ENODEV if is_answered else errno.ENOENT)
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
                errno.ENODATA,
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
        producer = function.unit.text(dwarf.AT_PRODUCER) or (function.unit.skeleton or function.unit).text(dwarf.AT_PRODUCER)
        if not producer.startswith("GNU ") or any(mark in f"{producer} " for mark in _OPTIMIZED_MARKS):  # only gcc writes its options
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
                if point.pattern:
                    path = self._program.statements(unit).path(min(files))
                    addresses = self._search.pattern_addresses(unit, path, point.pattern, None)
                else:
                    addresses = self._search.line_sites(unit, files, point.line or 0, None, point.source, 0)
            except ProbeError as error:  # in this unit; a header's line is in many
                shared = shared or error
                continue
            for address in addresses:
                is_found = True
                yield self._in_unit(unit, address, files, point.line or 0)
        if shared is not None and not is_found:
            raise shared

    def _in_unit(self, unit: DebugUnit, address: int, files: frozenset[int], line: int) -> Site:
        """Return the site of an address: in the inlined call that contains it if its function can have the line, as perf names it."""
        function = self._search.code_at(unit, address)
        if function is None:
            return Site(address, None, unit, f"abs_{address:x}")
        return self._site(self._search.call_with_line(function, address, files, line), address)

    # -- errors

    def _missing(self, point: ProbePoint, code: int) -> ProbeError:
        if point.function and point.is_return and self._program.has_debug_info:
            inlined = next(self._search.functions(point.function, point.source), None)
            if inlined is not None:
                return ProbeError(f"{point.function} is inlined into its callers and never returns; probe its entry", errno.ENOENT)
        if point.function and not is_glob(point.function):
            has_part = point.line is not None or point.source or point.pattern
            if has_part and next(self._search.functions(point.function), None) is not None:
                return NoSuchPointError(self._no_code(point), code)
            advice = hint(point.function, self.names(), "--funcs lists its functions")
            return NoSuchPointError(f"no function '{point.function}' in {self._program.path}{advice}", code)
        if point.source:
            return NoSuchPointError(self._no_code(point), code)
        return NoSuchPointError(f"'{point.text}' fits no function of {self._program.path}; --funcs lists them", code)

    def _no_code(self, point: ProbePoint) -> str:
        return f"no code for '{point.text}' in {self._program.path}; --line shows the lines that have code"

    def names(self) -> Iterator[str]:
        """Yield the names of functions, for suggestions."""
        table = self._program.table
        for row in np.flatnonzero(table.symbols.type != STT_OBJECT).tolist():
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


# Search a program's debug information for points: functions, their inlined calls, source lines and patterns.


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
                    if self._fits(names, test) and (not source or ends_with(self.declared_in(code, unit)[0], source)):
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
            statement = self._program.statements(unit).first(address)
            is_other = statement is not None and statement.file not in files
            first = None if is_other and address not in self._entry_lines(unit) else self.first_line(unit, address)
            if first is not None and first != line:
                raise ProbeError(
                    f"line {line - base} of {name} shares its address with line {first - base}; probe {name}:{first - base} instead",
                    errno.ENOENT,
                )
            if address not in addresses:
                addresses.append(address)
        return addresses

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
        table = self._program.statements(unit)
        files = table.files_named(source)
        addresses: list[int] = []
        for statement in table.of_files(files):
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


# Points in the running kernel, by the symbols of /proc/kallsyms. perf writes probes of the kernel relative to its first symbol, _text;
# returns, and functions of modules, relative to the function.

KALLSYMS: Final = "/proc/kallsyms"
_CODE: Final = "tTwW"
_FIRST: Final = "_text"


class KernelSymbol(NamedTuple):
    """A function of the kernel: name, address, module ("" for the kernel itself)."""

    name: str
    address: int
    module: str


def kernel_symbols(text: str) -> Iterator[KernelSymbol]:
    """Yield the functions of a copy of /proc/kallsyms."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] in _CODE:
            try:
                address = int(words[0], 16)
            except ValueError:
                continue
            yield KernelSymbol(words[2], address, words[3].strip("[]") if len(words) > 3 else "")


def plan_kernel(text: str, request: ProbeRequest, *, module: str = "", most: int = 128) -> Planned:
    """Return the definitions of a request for the running kernel.

    Args:
        text: /proc/kallsyms.
        request: the request.
        module: the module that has the function, "" for the kernel itself and all modules.
        most: the largest number of sites.

    Raises ProbeError.
    """
    arguments = [parse_argument(one) for one in request.arguments]
    point = request.point
    if not point.function or point.line is not None or point.pattern or point.source:
        raise ProbeError(f"'{point.text}' needs the kernel's debug information; name a vmlinux that has it with -k", errno.ENODATA)
    needy = next((argument for argument in arguments if argument.needs_variables), None)
    if needy is not None:
        raise ProbeError(
            f"'{needy.text}' needs the kernel's debug information; name a vmlinux that has it with -k, or read registers (%di)",
            errno.ENODATA,
        )
    symbols = list(kernel_symbols(text))
    first = next((symbol.address for symbol in symbols if symbol.name == _FIRST), 0)
    if symbols and not any(symbol.address for symbol in symbols):
        raise ProbeError("the kernel hides its addresses from this user (kernel.kptr_restrict); run as root", errno.EACCES)
    test = name_test(point.function)
    chosen = [symbol for symbol in symbols if test(symbol.name) and module in ("", symbol.module)]
    if not chosen:
        raise NoSuchPointError(_missing(point, symbols, module), errno.ENOENT)
    if len(chosen) > most:
        raise ProbeError(f"'{point.text}' has more than {most} sites; --max-probes raises the limit", errno.E2BIG)
    definitions = [_definition(request, symbol, first, tuple(argument.text for argument in arguments)) for symbol in chosen]
    return Planned(definitions, describe(request, arguments), [])


def _definition(request: ProbeRequest, symbol: KernelSymbol, first: int, arguments: tuple[str, ...]) -> Definition:
    point = request.point
    event = request.event or event_of(symbol.name, point)
    if point.is_return:
        event += "__return"
    target = f"{symbol.name}+{point.offset}"
    if symbol.module:
        target = f"{symbol.module}:{target}"
    elif first and not point.is_return:
        target = f"{_FIRST}+{symbol.address - first + point.offset}"
    return Definition(point.is_return, request.group or KERNEL_GROUP, event, target, arguments, is_kernel=True)


def _missing(point: ProbePoint, symbols: list[KernelSymbol], module: str) -> str:
    where = f"the module {module}" if module else "the kernel"
    if is_glob(point.function):
        return f"'{point.text}' fits no function of {where}"
    similar = hint(point.function, (symbol.name for symbol in symbols if module in ("", symbol.module)))
    return f"no function '{point.function}' in {where}{similar}"


# Addresses to points as `probe --list` prints them: FUNCTION[:LINE|+OFFSET][%return]@FILE.
def site_text(program: Program, address: int, *, is_return: bool = False) -> str:
    """Return the point of an address, "" if no symbol contains it."""
    try:
        text = _by_debug_info(program, address, is_return=is_return) if program.has_debug_info else ""
    except DAMAGE as damage:
        program.symbols.flaw(damage_of(damage))
        text = ""
    if text:
        return text
    symbol = program.symbol_at(address)
    if symbol is None:
        return ""
    distance = address - symbol.address
    return symbol.name + (f"+{distance}" if distance else "") + ("%return" if is_return else "")


def _by_debug_info(program: Program, address: int, *, is_return: bool) -> str:
    search = SiteSearch(program)
    unit = program.unit_at(address)
    function = search.code_at(unit, address) if unit is not None else None
    if unit is None or function is None:
        return ""
    path, base = search.declared_in(function.code, unit)
    name = function.name.linkage or function.name.name
    distance = address - function.code.entry
    if is_return:
        name += "%return"
    elif distance:
        statement = program.statements(unit).first(address)
        name += f":{statement.line - base}" if statement and base and statement.line >= base else f"+{distance}"
    return f"{name}@{path}" if path else name


# The source lines of a program: the file that its debug information names, read as data.

_FILE_MOST: Final = 64 << 20


def source_path(path: str, folder: str, root: str = "") -> str:
    """Return the path of a source file that exists, "" without one.

    Args:
        path: as the debug information names it.
        folder: the folder of sources (--source), "" for the recorded one.
        root: the folder that stands for /.
    """
    return next((candidate for candidate in _candidates(path, folder, root) if os.path.isfile(candidate)), "")


def _candidates(path: str, folder: str, root: str) -> Iterator[str]:
    """Yield the paths to try: the recorded one, and its last parts below the folder of sources, the longest first."""
    if not folder:
        try:
            yield below(root, path) if root else path
        except UnsafeNameError:
            return
        return
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for first in range(len(parts)):
        try:
            yield below(os.path.abspath(folder), "/".join(parts[first:]))
        except UnsafeNameError:
            continue


def read_lines(path: str) -> list[str]:
    """Return the lines of a source file without line ends; empty if it cannot be read."""
    try:
        text = read_regular(path, limit=_FILE_MOST).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return []
    lines = text.split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def matching_lines(lines: list[str], pattern: str) -> list[int]:
    """Return the numbers of the lines that match a glob pattern, counted from 1. Spaces do not count in either."""
    match = re.compile(translate(re.sub(r"\s", "", pattern))).match
    return [number for number, line in enumerate(lines, 1) if match(re.sub(r"\s", "", line))]
