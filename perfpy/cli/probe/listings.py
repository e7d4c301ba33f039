"""`perfpy probe -L`, `-V` and `-F`: source lines, variables and functions to probe, in perf's text."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from perfpy.cli.probe.targets import read_kallsyms, target_program
from perfpy.probing.grammar.line_ranges import parse_line_range
from perfpy.probing.grammar.name_filters import parse_filter
from perfpy.probing.grammar.points import parse_request
from perfpy.probing.plans import describe
from perfpy.probing.problems import NoSuchPointError, ProbeError, damage_refused
from perfpy.probing.sites.kernel_points import kernel_symbols
from perfpy.probing.sites.line_listing import list_lines
from perfpy.probing.sites.resolution import Resolver
from perfpy.probing.variables.variable_listing import list_variables
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.cli.probe.options import ProbeCommandOptions
    from perfpy.probing.sites.program import Program

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
            from perfpy.cli.line.options import fail

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
        names = _symbol_names(program)
    if program is not None and not names:
        raise ProbeError(f"{program.path} has no symbols; its debug package has them", 1)
    for name in names:
        if test(name):
            print(one_line(name))
    return 0


def _symbol_names(program: Program) -> list[str]:
    with damage_refused(program.symbols):
        table = program.all_symbols
        return sorted(table.name(row) for row in range(len(table)))


def _with_debug_info(options: ProbeCommandOptions) -> Program:
    program = target_program(options)
    if program is None:
        raise ProbeError("the kernel's lines and variables need its debug information; name a vmlinux that has it with -k", errno.ENOENT)
    if not program.has_debug_info:
        raise ProbeError(f"{program.path} has no debug information; compile with -g, or install its debug package", errno.ENOENT)
    return program
