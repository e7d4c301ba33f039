"""`perfpy probe -L`, `-V` and `-F`: source lines, variables and functions to probe, in perf's text."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.line.options import fail
from perfpy.debuginfo import dwarf
from perfpy.debuginfo.sections import damage_of
from perfpy.probing.definitions import describe
from perfpy.probing.grammar import parse_filter, parse_line_range, parse_request
from perfpy.probing.problems import NoSuchPointError, ProbeError, UnreadableRegisterError, UnsupportedLocationError, damage_refused, nearest
from perfpy.probing.sites import Resolver, SiteSearch, kernel_symbols, read_lines, source_path
from perfpy.probing.variables import LocationReader, global_variables, local_variables, type_text
from perfpy.symbols.files.elf import DAMAGE
from perfpy.tools.probe.adding import read_kallsyms, target_program
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.debuginfo.dies import CodeDie
    from perfpy.debuginfo.units import DebugUnit
    from perfpy.probing.grammar import LineRange
    from perfpy.probing.program import Program
    from perfpy.probing.sites import Site
    from perfpy.probing.variables import ScopedVariable
    from perfpy.tools.probe.adding import ProbeCommandOptions


_FUNCTIONS: Final = "!_* & !*@plt"
_VARIABLES: Final = "!__k???tab_* & !__crc_*"


def print_lines(options: ProbeCommandOptions, text: str) -> int:
    """Print source lines. Lines that can be probed have numbers."""
    requested = parse_line_range(text)
    program = _with_debug_info(options)
    result = list_lines(program, requested, source=options.source)
    head = f"{requested.function}@{result.path}" if requested.function else result.path
    print(one_line(f"<{head}:{requested.first}>"))
    for number, line, has_code in result.lines:
        print(f"{number:7d}  {one_line(line)}" if has_code else f"{'':9}{one_line(line)}")
    return 0


def print_variables(options: ProbeCommandOptions, points: Iterable[str]) -> int:
    """Print the variables at points."""
    test = parse_filter(options.filter or _VARIABLES)
    for text in points:
        request = parse_request(text)
        if request.arguments or request.event:
            fail(f"-V takes a point without arguments and names, not '{text}'")
        program = _with_debug_info(options)
        resolver = Resolver(program, inlines=not options.no_inlines, source=options.source, most=options.max_probes)
        try:
            sites = resolver.sites(request.point)
        except NoSuchPointError as error:
            raise ProbeError(str(error), errno.ENOENT) from None
        if all(site.code is None for site in sites):
            raise ProbeError(f"the debug information has no function at '{text}'", errno.ENOENT)
        print(one_line(f"Available variables at {describe(request, [])}"))
        for site in sites:
            result = list_variables(program, site, externs=options.externs, ranges=options.show_range, test=test)
            print(one_line(f"\t@<{result.point}>"))
            for line in result.lines or ["(No matched variables)"]:
                print("\t\t" + "\t".join(one_line(part) for part in line.split("\t")))
    return 0


def print_functions(options: ProbeCommandOptions, pattern: str) -> int:
    """Print the names of symbols, sorted."""
    test = parse_filter(pattern or options.filter or _FUNCTIONS)
    program = target_program(options)
    if program is None:
        names = sorted(symbol.name for symbol in kernel_symbols(read_kallsyms()) if options.module in ("", symbol.module))
    else:
        with damage_refused(program.symbols):
            table = program.all_symbols
            names = sorted(table.name(row) for row in range(len(table)))
    if program is not None and not names:
        raise ProbeError(f"{program.path} has no symbols; its debug package has them", 1)
    for name in names:
        if test(name):
            print(one_line(name))
    return 0


def _with_debug_info(options: ProbeCommandOptions) -> Program:
    program = target_program(options)
    if program is None:
        raise ProbeError("the kernel's lines and variables need its debug information; name a vmlinux that has it with -k", errno.ENOENT)
    if not program.has_debug_info:
        raise ProbeError(f"{program.path} has no debug information; compile with -g, or install its debug package", errno.ENOENT)
    return program


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


_VALID, _INVALID, _GLOBAL = "[VAL]", "[INV]", "[EXT]"
_THREAD_OPERATIONS: Final = (dwarf.OP_FORM_TLS_ADDRESS, dwarf.OP_GNU_PUSH_TLS_ADDRESS)


class VariableListing(NamedTuple):
    """The variables of one site.

    Attributes:
        point: FUNCTION+OFFSET.
        lines: TYPE, tab, NAME; with ranges, a mark before and the ranges after.
    """

    point: str
    lines: list[str]


def list_variables(program: Program, site: Site, *, externs: bool, ranges: bool, test: Callable[[str], bool]) -> VariableListing:
    """Return the variables of a site whose names pass a test, sorted as perf sorts them."""
    code, unit = site.code, site.unit
    if code is None or unit is None:
        return VariableListing(f"{site.address:#x}", [])
    lines, name = set(), site.name
    try:
        functions = program.functions(unit)
        name = functions.name_of(code.function).name if functions else name
        reader = LocationReader(program, unit, code.function, site.address)
        for variable in local_variables(code, site.address):
            line = _line(variable, reader, site.address, code.function, name, ranges=ranges)
            if line and test(variable.name):
                lines.add(line)
        for variable in _globals(unit, site.address) if externs else ():
            if test(variable.name):
                lines.add(f"{_GLOBAL}\t{_text(variable)}" if ranges else _text(variable))
    except DAMAGE as damage:
        program.symbols.flaw(damage_of(damage))
    return VariableListing(f"{name}+{site.address - code.function.entry}", sorted(lines))


def _globals(unit: DebugUnit, address: int) -> Iterator[ScopedVariable]:
    return (one for one in global_variables(unit) if one.is_declared_only or _is_plain(one.expression_at(address)))


def _text(variable: ScopedVariable) -> str:
    return f"{type_text(variable.die.type)}\t{variable.name}"


def _is_plain(expression: bytes) -> bool:
    """Whether a global variable has one location for all threads."""
    return bool(expression) and expression[-1] not in _THREAD_OPERATIONS


def _line(variable: ScopedVariable, reader: LocationReader, address: int, function: CodeDie, name: str, *, ranges: bool) -> str:
    """Return a variable's line, "" if it has no value here or, with ranges, anywhere that a probe can read."""
    is_available = variable.is_available(address)
    if not _is_readable(variable, reader, address) or not (is_available or ranges):
        return ""
    if not ranges:
        return _text(variable)
    extents = _ranges(variable, function)
    mark = _VALID if is_available else _INVALID
    return f"{mark}\t{_text(variable)}\t@<{name}+[{','.join(extents)}]>" if extents else ""


def _is_readable(variable: ScopedVariable, reader: LocationReader, address: int) -> bool:
    """Whether a probe can read a variable: at an address, or at its first place if it has none there.

    Variables in any register count, as in perf.
    """
    expression = variable.expression_at(address) or next((one.expression for one in variable.locations()), b"")
    location = variable.die.attribute(dwarf.AT_LOCATION)
    if not expression or location is None:
        return variable.constant is not None
    try:
        reader.read(expression, location[0])
    except UnsupportedLocationError as error:
        return isinstance(error, UnreadableRegisterError)
    return True


def _ranges(variable: ScopedVariable, function: CodeDie) -> list[str]:
    """Return the ranges where a variable has a value, relative to its function."""
    extents = []
    for one in variable.locations():
        if not one.expression or one.start == one.end:
            continue
        ranges = [(one.start, one.end)] if one.end is not None else _scope(variable, function)
        extents += [f"{start - function.entry}-{end - function.entry}" for start, end in ranges]
    return extents


def _scope(variable: ScopedVariable, function: CodeDie) -> list[tuple[int, int]]:
    """Return the code in which a variable with one location is in scope."""
    return variable.scope or function.ranges
