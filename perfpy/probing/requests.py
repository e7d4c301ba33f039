"""Requests to definitions: point, arguments and names together."""

from __future__ import annotations

import errno
import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.probing.definitions import KERNEL_GROUP, Definition, Planned, as_event, describe, event_of, group_of
from perfpy.probing.fetching import Fetcher
from perfpy.probing.grammar import glob_test, is_glob, parse_argument
from perfpy.probing.problems import NoSuchPointError, NoVariableError, ProbeError, UnsupportedLocationError, damage_refused, nearest
from perfpy.probing.sites import Resolver
from perfpy.symbols.files.elf import EM_AARCH64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.probing.grammar import ProbeArgument, ProbeRequest
    from perfpy.probing.program import Program
    from perfpy.probing.sites import Site


def plan(
    program: Program, request: ProbeRequest, *, inlines: bool = True, source: str = "", most: int = 128, is_kernel: bool = False
) -> Planned:
    """Return the definitions of a request for a program or a kernel image. Raises UsageError, ProbeError."""
    with damage_refused(program.symbols):
        planned = _plan(program, request, Resolver(program, inlines=inlines, source=source, most=most), is_kernel=is_kernel)
    return planned if is_kernel else planned._replace(file=program.file)


def _plan(program: Program, request: ProbeRequest, resolver: Resolver, *, is_kernel: bool) -> Planned:
    arguments = [parse_argument(text) for text in request.arguments]
    needy = next((argument for argument in arguments if argument.needs_variables), None)
    if request.point.marker is not None:
        return plan_marker(program, request)
    if needy is not None and not program.has_debug_info:
        raise ProbeError(
            f"'{needy.text}' needs debug information, and {program.path} has none;"
            " install its debug package, set DEBUGINFOD_URLS, or read registers instead (%di)",
            errno.ENODATA,
        )
    sites = resolver.sites(request.point, with_variables=needy is not None, has_arguments=bool(arguments))
    texts, notes = _arguments(program, sites, arguments, is_kernel=is_kernel)
    definitions = []
    group = request.group or (KERNEL_GROUP if is_kernel else group_of(program.path))
    for site, fetched in zip(sites, texts, strict=True):
        is_linkage = site.linkage and request.point.function == site.linkage
        event = request.event or event_of(site.linkage if is_linkage else site.name, request.point)
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


# SDT markers (USDT): the probes that programs declare themselves, from the notes in .note.stapsdt. Layout:
# sourceware.org/systemtap/wiki/UserSpaceProbeImplementation: an ELF note of the owner "stapsdt" and the type 3 has the addresses of the
# marker, of .stapsdt.base at link time and of the semaphore, and three strings: provider, name, arguments ("-4@%edi 8@-16(%rbp)").

_TYPE: Final = 3
_OWNER: Final = b"stapsdt\0"
_NOTES_MOST: Final = 1 << 16
_ARGUMENT: Final = re.compile(r"(?P<size>-?[0-9]{1,2})f?@(?P<operand>\S+(?:,\s*\S+)*)\Z")
_REGISTER: Final = re.compile(r"%(\w+)\Z")
_MEMORY: Final = re.compile(r"(?P<offset>-?\w*(?:[+-]\d+)?)\(%(?P<register>\w+)\)\Z")
_OFFSET: Final = re.compile("-?[0-9]{1,20}")
_CONSTANT: Final = re.compile(r"\$(-?(?:0x[0-9a-fA-F]+|\d+))\Z")
_ARM_MEMORY: Final = re.compile(r"\[(?P<register>\w+)(?:,\s*(?P<offset>-?[0-9]{1,20}))?\]\Z")
_ARM_REGISTER: Final = re.compile(r"[wx](\d+)\Z|sp\Z")
_SIZES: Final = (1, 2, 4, 8)
#: registers of x86-64 by their other names
_NAMES: Final = {
    **{f"{prefix}{name}": name for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp") for prefix in ("r", "e", "")},
    **{f"{name}l": f"{name}x" for name in "abcd"},
    **{f"{name}l": name for name in ("si", "di", "bp", "sp")},
    **{f"r{number}{suffix}": f"r{number}" for number in range(8, 16) for suffix in ("", "d", "w", "b")},
}


class SdtMarker(NamedTuple):
    """One marker.

    Attributes:
        provider: the program's name for itself.
        name: the marker's name.
        address: link-time address.
        semaphore: link-time address of the counter of its users, 0 without one.
        arguments: the operands as text.
    """

    provider: str
    name: str
    address: int
    semaphore: int
    arguments: str


def markers_of(program: Program) -> Iterator[SdtMarker]:
    """Yield the markers of a program."""
    section = program.runtime.section(".note.stapsdt")
    if section is None:
        return
    base = program.runtime.section(".stapsdt.base")
    data, order = bytes(program.runtime.data(section)), program.runtime.endian
    word = program.runtime.bits // 8
    layout = struct.Struct(f"{order}{'QQQ' if word == 8 else 'III'}")
    offset = 0
    for _ in range(_NOTES_MOST):
        if offset + 12 > len(data):
            return
        name_size, size, kind = struct.unpack_from(f"{order}III", data, offset)
        start = offset + 12 + (name_size + 3) // 4 * 4
        owner, note = data[offset + 12 : offset + 12 + name_size], data[start : start + size]
        offset = start + (size + 3) // 4 * 4
        if kind != _TYPE or owner != _OWNER or len(note) < layout.size:
            continue
        address, linked_base, semaphore = layout.unpack_from(note)
        moved = base.addr - linked_base if base is not None and linked_base else 0  # prelink moves the section
        texts = note[layout.size :].split(b"\0")
        if len(texts) >= 3:
            provider, name, arguments = (text.decode("utf-8", "surrogateescape") for text in texts[:3])
            yield SdtMarker(provider, name, address + moved, semaphore + moved if semaphore else 0, arguments)


def plan_marker(program: Program, request: ProbeRequest) -> Planned:
    """Return the definitions of a marker. Raises ProbeError."""
    assert request.point.marker is not None
    provider, name = request.point.marker
    if request.arguments:
        raise ProbeError("a marker has its own arguments; drop those after it", errno.EINVAL)
    test = glob_test(name) if is_glob(name) else name.__eq__
    every = list(markers_of(program))
    chosen = [marker for marker in every if test(marker.name) and provider in ("", marker.provider)]
    if not chosen:
        names = sorted({f"%sdt_{marker.provider}:{marker.name}" for marker in every})
        hint = f"it has {', '.join(nearest(name, names) or names[:8])}" if names else "it has none"
        raise NoSuchPointError(f"no marker '{request.point.text}' in {program.path}; {hint}")
    notes: list[str] = []
    definitions = [_definition(program, request, marker, notes) for marker in chosen]
    return Planned(definitions, request.point.text, notes)


def _definition(program: Program, request: ProbeRequest, marker: SdtMarker, notes: list[str]) -> Definition:
    target = f"{program.path}:{program.file_offset(marker.address):#x}"
    if marker.semaphore:
        target += f"({program.file_offset(marker.semaphore):#x})"
    arguments = []
    for number, text in enumerate(marker.arguments.split(), 1):
        operand = fetch_operand(text)
        if operand:
            arguments.append(f"arg{number}={operand}")
        else:
            notes.append(f"argument {number} of {marker.provider}:{marker.name} ({text}) is left out: the kernel cannot read it")
    group = request.group or f"sdt_{as_event(marker.provider)}"
    return Definition(False, group, request.event or as_event(marker.name), target, tuple(arguments))


def fetch_operand(text: str) -> str:
    """Return the kernel's expression for an operand such as -4@%edi, "" if it has none."""
    match = _ARGUMENT.match(text)
    if match is None or abs(int(match["size"])) not in _SIZES:
        return ""
    size = int(match["size"])
    kind = f"{'s' if size < 0 else 'u'}{8 * abs(size)}"
    fetched = _operand_text(match["operand"])
    return f"{fetched}:{kind}" if fetched else ""


def _operand_text(operand: str) -> str:
    """Return a register, memory or a constant as the kernel writes it, "" if it cannot."""
    if match := _CONSTANT.match(operand):
        return f"\\{match[1]}"
    if match := _REGISTER.match(operand):
        return f"%{_NAMES[match[1]]}" if match[1] in _NAMES else ""
    if match := _MEMORY.match(operand):
        offset, register = match["offset"] or "0", _NAMES.get(match["register"])
        return f"{int(offset):+d}(%{register})" if register and _OFFSET.fullmatch(offset) else ""
    if match := _ARM_MEMORY.match(operand):
        return f"{int(match['offset'] or 0):+d}(%{match['register']})"
    if match := _ARM_REGISTER.match(operand):
        return f"%x{match[1]}" if match[1] else "%sp"
    return ""
