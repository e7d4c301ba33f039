"""Requests to definitions: point, arguments and names together."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from perfpy.probing.definitions import Definition
from perfpy.probing.grammar.arguments import parse_argument
from perfpy.probing.naming import KERNEL_GROUP, event_of, group_of
from perfpy.probing.plans import Planned, describe
from perfpy.probing.problems import NoVariableError, ProbeError, UnsupportedLocationError, damage_refused
from perfpy.probing.sites.resolution import Resolver
from perfpy.probing.variables.fetching import Fetcher
from perfpy.symbols.files.elf import EM_AARCH64

if TYPE_CHECKING:
    from perfpy.probing.grammar.arguments import ProbeArgument
    from perfpy.probing.grammar.points import ProbeRequest
    from perfpy.probing.sites.program import Program
    from perfpy.probing.sites.site_search import Site


def plan(
    program: Program, request: ProbeRequest, *, inlines: bool = True, source: str = "", most: int = 128, is_kernel: bool = False
) -> Planned:
    """Return the definitions of a request for a program or a kernel image. Raises UsageError, ProbeError."""
    with damage_refused(program.symbols):
        planned = _plan(program, request, Resolver(program, inlines=inlines, source=source, most=most), is_kernel=is_kernel)
    return planned if is_kernel else planned._replace(file=program.file)


def _plan(program: Program, request: ProbeRequest, resolver: Resolver, *, is_kernel: bool) -> Planned:
    arguments = [parse_argument(text) for text in request.arguments]
    needs = any(argument.needs_variables for argument in arguments)
    if request.point.marker is not None:
        from perfpy.probing.sites.markers import plan_marker  # few probes are markers

        return plan_marker(program, request)
    sites = resolver.sites(request.point, with_variables=needs)
    texts, notes = _arguments(program, sites, arguments, is_kernel=is_kernel)
    definitions = []
    group = request.group or (KERNEL_GROUP if is_kernel else group_of(program.path))
    for site, fetched in zip(sites, texts, strict=True):
        event = request.event or event_of(_event_base(request, site), request.point)
        if request.point.is_return:
            event += "__return"
        target = _kernel_target(program, site, request.point.is_return) if is_kernel else _target(program, site)
        definitions.append(Definition(request.point.is_return, group, event, target, tuple(fetched), is_kernel))
    several = resolver.other_functions(sites)
    if several:
        notes.append(f"several functions fit: {', '.join(several)}")
    return Planned(definitions, describe(request, arguments), resolver.notes + notes)


def _target(program: Program, site: Site) -> str:
    if any(character.isspace() for character in program.path):
        raise ProbeError(f"the kernel accepts no path with spaces ('{program.path}'); probe a hard link without them", errno.EINVAL)
    return f"{program.path}:{program.file_offset(site.address):#x}"


def _kernel_target(program: Program, site: Site, is_return: bool) -> str:
    """Return SYMBOL+OFFSET in the kernel, as perf: of the function for returns and on arm64, otherwise of the kernel's first symbol."""
    symbol = program.symbol_at(site.address)
    if is_return and symbol is not None:
        return f"{symbol.name}+0"  # code may begin after space for patches, which the symbol includes
    first = next((one for one in program.symbols_named("_text".__eq__)), None)
    if first is not None and not (symbol is not None and program.runtime.machine == EM_AARCH64):
        return f"_text+{site.address - first.address}"
    if symbol is None:
        raise ProbeError(f"no symbol contains {site.address:#x}", errno.ENOENT)
    return f"{symbol.name}+{site.address - symbol.address}"


def _event_base(request: ProbeRequest, site: Site) -> str:
    """Return the name for an event: the linkage name if the request has that, otherwise the function's."""
    return site.linkage if site.linkage and request.point.function == site.linkage else site.name


def _arguments(
    program: Program, sites: list[Site], arguments: list[ProbeArgument], *, is_kernel: bool
) -> tuple[list[list[str]], list[str]]:
    """Return the fetch expressions for each site, and notes. A variable must have a value at one site at least."""
    texts: list[list[str]] = [[] for _ in sites]
    notes: list[str] = []
    for argument in arguments:
        if argument.raw:
            for row in texts:
                row.append(argument.text)
            continue
        lost: ProbeError | None = None
        kinds: list[str] = []
        lost_rows: list[tuple[Fetcher, list[str]]] = []
        for site, row in zip(sites, texts, strict=True):
            if site.unit is None:
                raise NoVariableError(
                    f"'{argument.text}' needs debug information for {site.name}, which {program.path} lacks; read registers instead (%di)"
                )
            fetcher = Fetcher(program, site, is_kernel=is_kernel)
            try:
                fetched = fetcher.fetch(argument)
            except (NoVariableError, UnsupportedLocationError) as error:
                lost = lost or error
                lost_rows.append((fetcher, row))
                continue
            kinds += [one.text.rpartition(":")[2] if ":" in one.text else "" for one in fetched[:1]]
            row += [one.text for one in fetched if one.text]
            notes += [one.note for one in fetched if one.note and one.note not in notes]
        if lost is not None and len(lost_rows) == len(sites):
            raise lost
        for fetcher, row in lost_rows:
            row.append(fetcher.lost(argument, kinds[0] if kinds else ""))
    return texts, notes
