"""The actions of `perfpy probe`: add, list and delete probes; show definitions, lines, variables and functions.

All definitions of a line are planned before the first one is written, and a refused one removes those before it. The messages about added
events go to stderr, as perf's.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.line.examples import program
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.output.terminal import print_notes
from perfpy.cli.temporary_probes import EndingSignals, remove_orphans
from perfpy.debuginfo import dwarf
from perfpy.debuginfo.sections import damage_of
from perfpy.errors import KernelRefusedError, PerfError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from perfpy.probing.definitions import describe, parse_shown, unused_name
from perfpy.probing.grammar import glob_test, parse_filter, parse_line_range, parse_request
from perfpy.probing.problems import NoSuchPointError, ProbeError, UnreadableRegisterError, UnsupportedLocationError, damage_refused, hint
from perfpy.probing.program import open_program
from perfpy.probing.requests import plan
from perfpy.probing.sites import KALLSYMS, Resolver, SiteSearch, kernel_symbols, plan_kernel, read_lines, site_text, source_path
from perfpy.probing.variables import LocationReader, global_variables, local_variables, type_text
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.elf import DAMAGE
from perfpy.untrusted.files import is_file, read_regular
from perfpy.untrusted.pinned_files import pin
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from perfpy.debuginfo.dies import CodeDie
    from perfpy.probing.definitions import Definition, Planned, ShownProbe
    from perfpy.probing.grammar import LineRange
    from perfpy.probing.program import Program
    from perfpy.probing.sites import Site
    from perfpy.probing.variables import ScopedVariable
    from perfpy.symbols.files import debuginfod
    from perfpy.tools.probe.options import ProbeCommandOptions
    from perfpy.untrusted.pinned_files import PinnedFile


def print_definitions(options: ProbeCommandOptions, texts: Iterable[str]) -> int:
    """Print the definitions of some requests."""
    for planned in _plan_all(options, texts):
        for definition in planned.definitions:
            print(one_line(definition.text))
    return 0


def add(options: ProbeCommandOptions, texts: Iterable[str]) -> int:
    """Add probes, and print their names."""
    plans = _plan_all(options, texts)
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    named_definitions = _with_names(plans, events, force=options.force)
    if not options.dry_run:
        remove_orphans(events)
        files = [planned.file for planned in plans]
        probes = [(one, file) for definitions, file in zip(named_definitions, files, strict=True) for one in definitions]
        _write_all(probes, events)
    if not options.quiet:
        _print_added(plans, named_definitions)
    return 0


def _plan_all(options: ProbeCommandOptions, texts: Iterable[str]) -> list[Planned]:
    requests = [parse_request(text) for text in texts]
    target = target_program(options)
    kallsyms = "" if target else read_kallsyms()
    plans = []
    for request in requests:
        if target is None:
            planned = plan_kernel(kallsyms, request, module=options.module, most=options.max_probes)
        else:
            planned = plan(
                target,
                request,
                inlines=not options.no_inlines,
                source=options.source,
                most=options.max_probes,
                is_kernel=is_kernel(options),
            )
        plans.append(planned)
        print_notes([f"note: {note}" for note in planned.notes], quiet=options.quiet, verbose=options.verbose)
    return plans


def _with_names(plans: list[Planned], events: ProbeEvents, *, force: bool) -> list[list[Definition]]:
    """Return the definitions with event names that no other probe has. The sites of one request share a name."""
    names_in_use = existing_names(events)
    results = []
    for planned in plans:
        chosen: dict[tuple[str, str], str] = {}
        definitions = []
        for definition in planned.definitions:
            key = definition.group, definition.event
            if key not in chosen:
                chosen[key] = unused_name(
                    definition.event, definition.group, names_in_use.setdefault(definition.group, set()), may_number=force
                )
            definitions.append(definition._replace(event=chosen[key]))
        for definition in definitions:
            names_in_use[definition.group].add(definition.event)
        results.append(definitions)
    return results


def existing_names(events: ProbeEvents) -> dict[str, set[str]]:
    """Return the names of all dynamic events by group."""
    names: dict[str, set[str]] = {}
    for probe in _probes(events):
        names.setdefault(probe.group, set()).add(probe.event)
    return names


def _write_all(probes: list[tuple[Definition, PinnedFile | None]], events: ProbeEvents) -> None:
    """Write definitions, all or none: if the kernel refuses one, or a signal arrives, remove those before it."""
    written: list[tuple[str, str, bool]] = []

    def undo() -> None:
        while written:
            group, event, kernel_side = written.pop()
            with suppress(KernelRefusedError):  # an event of several definitions is removed by the first
                events.remove(group, event, is_kernel=kernel_side)

    with EndingSignals(lambda _ends: undo()) as signals:
        try:
            for definition, file in probes:
                with signals.hold():
                    events.add(definition.text, file)
                    written.append((definition.group, definition.event, definition.is_kernel))
            written.clear()
        except BaseException:
            with signals.hold():
                undo()
            raise


def _print_added(plans: list[Planned], definitions_of_plans: list[list[Definition]]) -> None:
    count = sum(len(definitions) for definitions in definitions_of_plans)
    print(f"Added new event{'s' if count > 1 else ''}:", file=sys.stderr)
    last = ""
    for planned, definitions in zip(plans, definitions_of_plans, strict=True):
        for definition in definitions:
            target = definition.target.rpartition(":")[0]
            where = f" in {target}" if target else ""
            point, *arguments = planned.described.split(" with ", 1)
            rest = f" with {arguments[0]}" if arguments else ""
            print(one_line(f"  {definition.name:<20} (on {point}{where}{rest})"), file=sys.stderr)
            last = definition.name
    print(f"\nYou can now use it in all perf tools, such as:\n\n\t{program()} record -e {last} -aR sleep 1\n", file=sys.stderr)


_KALLSYMS_MOST: Final = 256 << 20


def target_program(options: ProbeCommandOptions) -> Program | None:
    """Return the program, module file or kernel image to probe; None for the running kernel without debug information."""
    if options.exec_path:
        return _user_program(options)
    path = options.module if options.module.endswith((".ko", ".debug")) or "/" in options.module else options.vmlinux
    if not path:
        return None
    if not is_file(path):
        raise ProbeError(f"no file {path}", errno.ENOENT)
    return open_program(path, _symbol_options(options), client=_client(), demangles=options.demangle_kernel)


def is_kernel(options: ProbeCommandOptions) -> bool:
    """Whether the target is the kernel or a module."""
    return not options.exec_path


def _user_program(options: ProbeCommandOptions) -> Program:
    """Open a program. With --target-ns, its links stay in that process's root, and nothing is read that its user may not read."""
    path = options.exec_path
    where = f" in the root of process {options.target_ns}" if options.target_ns else ""
    try:
        file = pin(path, options.target_ns)
    except ProcessLookupError:
        raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
    except FileNotFoundError:
        if options.target_ns and not os.path.exists(f"/proc/{options.target_ns}"):
            raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
        fail(f"-x {path}: no such file{where}")
    except OSError as error:
        fail(f"-x {path}: {error.strerror}{where}")
    return open_program(file, _symbol_options(options), client=_client(), demangles=options.demangle)


def _symbol_options(options: ProbeCommandOptions) -> SymbolOptions:
    folder = "" if options.symfs else load_config().build_id_folder
    return SymbolOptions(symfs=options.symfs, buildid_dir=folder)


def _client() -> debuginfod.Client | None:
    if not os.environ.get("DEBUGINFOD_URLS"):
        return None
    from perfpy.symbols.files import debuginfod  # few users have servers

    return debuginfod.Client()


def read_kallsyms() -> str:
    """Return the running kernel's symbols. Raises ProbeError."""
    try:
        return read_regular(KALLSYMS, limit=_KALLSYMS_MOST, of_kernel=True).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ProbeError(f"cannot read {KALLSYMS}: {error.strerror}; -k names a vmlinux", errno.ENOENT) from None


# `perfpy probe -L`, `-V` and `-F`: source lines, variables and functions to probe, in perf's text.


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
            raise ProbeError(str(error), errno.EOPNOTSUPP if request.point.source else errno.ENOENT) from None
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
    missing_code = errno.EOPNOTSUPP if requested.source else errno.ENOENT  # perf's
    search = SiteSearch(program, source=source)
    with damage_refused(program.symbols):
        path, base, probed = _of_function(program, search, requested) if requested.function else _of_file(program, search, requested.source)
    first, last = base + requested.first, None if requested.last is None else base + requested.last
    inside = {line for line in probed if line >= first and (last is None or line <= last)}
    if not inside:
        raise ProbeError(f"no line of this range of {path} has code that can be probed", missing_code)
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
        similar = hint(requested.function, Resolver(program).names())
        code = errno.EOPNOTSUPP if requested.source else errno.ENOENT
        raise ProbeError(f"no function '{requested.function}' with lines in {program.path}{similar}", code)
    return path, base, probed


def _of_file(program: Program, search: SiteSearch, source: str) -> tuple[str, int, set[int]]:
    path, probed = "", set[int]()
    for unit in program.all_units():
        files = search.files_of(unit, source)
        if files:
            path = path or program.statements(unit).path(min(files))
            probed |= search.probed_lines(unit, files)
    if not path:
        raise ProbeError(f"no code of {program.path} is from a source file {source}", errno.EOPNOTSUPP)
    return path, 0, probed


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
        for variable in global_variables(unit) if externs else ():
            if test(variable.name) and (variable.is_declared_only or _is_plain(variable.expression_at(site.address))):
                lines.add(f"[EXT]\t{_text(variable)}" if ranges else _text(variable))
    except DAMAGE as damage:
        program.symbols.flaw(damage_of(damage))
    return VariableListing(f"{name}+{site.address - code.function.entry}", sorted(lines))


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
    mark = "[VAL]" if is_available else "[INV]"
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
        ranges = [(one.start, one.end)] if one.end is not None else variable.scope or function.ranges
        extents += [f"{start - function.entry}-{end - function.entry}" for start, end in ranges]
    return extents


# Existing probes.


def print_probes(pattern: str, options: ProbeCommandOptions) -> int:
    """Print the probes whose name fits a pattern, with the point of each."""
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    test = _name_test(pattern)
    programs = cache(lambda path: _program(path, options))
    probes = [probe for probe in _probes(events) if test(probe.group, probe.event)]
    lines = [(f"{probe.group}:{probe.event}", _describe(probe, programs)) for probe in probes]
    for name, text in sorted(lines, key=lambda line: line[0]):
        print(one_line(f"  {name:<20} (on {text})"))
    return 0


def _probes(events: ProbeEvents) -> list[ShownProbe]:
    probes = [parse_shown(line, is_kernel=kernel_side) for kernel_side in (True, False) for line in events.lines(is_kernel=kernel_side)]
    return [probe for probe in probes if probe is not None]


def _describe(probe: ShownProbe, programs: Callable[[str], Program | None]) -> str:
    if probe.symbol:
        text = probe.symbol.removesuffix("+0")
        return text + ("%return" if probe.is_return else "") + _with(probe)
    program = programs(probe.path)
    point = f"{probe.offset:#x}{'%return' if probe.is_return else ''}"
    if program is not None:
        point = site_text(program, program.address(probe.offset), is_return=probe.is_return) or point
    return f"{point} in {probe.path}{_with(probe)}"


def _with(probe: ShownProbe) -> str:
    return f" with {' '.join(probe.arguments)}" if probe.arguments else ""


def _program(path: str, options: ProbeCommandOptions) -> Program | None:
    """Return a probed program; None if it is missing or damaged."""
    if not os.path.isabs(path) or path.startswith("/proc/") or not is_file(path):
        return None
    try:
        return open_program(path, SymbolOptions(symfs=options.symfs))
    except (OSError, PerfError):
        return None


def _name_test(pattern: str) -> Callable[[str, str], bool]:
    """Return a test for a group and an event. A pattern without a group fits all groups."""
    group, colon, event = pattern.partition(":")
    group_fits, event_fits = glob_test(group if colon else "*"), glob_test(event if colon else group)
    return lambda one, other: group_fits(one) and event_fits(other)


def delete(patterns: Iterable[str], *, dry_run: bool, quiet: bool) -> int:
    """Delete the probes whose names fit. Raises ProbeError for a pattern that fits none, after the others are deleted."""
    events = ProbeEvents(Tracefs(mount=mount_as_root))
    missing = ""
    for pattern in patterns:
        test = _name_test(pattern)
        kernel_side = {(probe.group, probe.event): bool(probe.symbol) for probe in _probes(events)}
        names = [name for name in sorted(kernel_side) if test(*name)]
        if not names:
            missing = missing or pattern
        for group, event in names:
            if not dry_run:
                events.remove(group, event, is_kernel=kernel_side[group, event])
            if not quiet:
                print(one_line(f"Removed event: {group}:{event}"), file=sys.stderr)
    if missing:
        event_names = [f"{group}:{event}" for group, names in existing_names(events).items() for event in names]
        advice = hint(missing, [*event_names, *(name.partition(":")[2] for name in event_names)], "-l lists the probes")
        raise ProbeError(f"no probe is named '{missing}'{advice}", errno.ENOENT)
    return 0
