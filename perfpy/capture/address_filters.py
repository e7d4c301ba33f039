"""Filters of a hardware tracer: `--filter 'filter main @ ./prog'`, with the names of functions as addresses for the kernel.

Grammar: perf-record(1). A filter is an action (filter, start, stop, tracestop), an address or a function, after a `/` the size or the last
function, and after an `@` the file. A function may be followed by `#n`, the n-th one of that name, or `#g`, the global one; `*` means all
of the file or the kernel. Without a file, addresses and functions are the kernel's. Addresses of a file are offsets in it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import TraceOptionsError
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.symbols.symbol_table import Symbols


_ACTIONS: Final = {"filter": "filter", "start": "start", "stop": "stop", "tracestop": "stop"}
_RANGES: Final = ("filter", "tracestop")  # actions on a range of addresses also without a size
_NUMBER: Final = r"0[xX][0-9a-fA-F]+|\d+"
_ADDRESS: Final = rf"(?:(?P<{{0}}>{_NUMBER})|(?P<{{0}}_name>[^ /@#]\S*)(?: *#(?P<{{0}}_index>[gG]|\d+))?)"
_FILTER: Final = re.compile(
    rf" *(?P<action>\S+) +{_ADDRESS.format('start')} *(?:/ *{_ADDRESS.format('end')} *)?(?:@ *(?P<file>[^ ,]+))?(?:[ ,]+|$)"
)
_EXPECTED: Final = "expected filter|start|stop|tracestop ADDRESS-OR-FUNCTION [/ SIZE-OR-FUNCTION] [@ FILE], separated by commas"
_KALLSYMS: Final = "/proc/kallsyms"
_LARGEST_KALLSYMS: Final = 1 << 28  # bytes
_GLOBAL: Final = 0
_ANY: Final = -1
_FUNCTION: Final = 2  # STT_FUNC
_INDIRECT: Final = 10  # STT_GNU_IFUNC
_STB_GLOBAL: Final = 1


class _FunctionName(NamedTuple):
    """A function of a file or the kernel."""

    name: str
    number: int  # _ANY, _GLOBAL, or the number among those of the name, from 1 on


def kernel_filter(text: str, most: int, *, functions: Callable[[str], Symbols] | None = None) -> str:
    """Return a filter in the kernel's form, with addresses and absolute paths.

    Args:
        most: the number of filters that the PMU has.
        functions: returns the functions of a file, or of the kernel (""), sorted by address.

    Raises TraceOptionsError.
    """
    parts = []
    offset = 0
    while offset < len(text):
        match = _FILTER.match(text, offset)
        if not match or match["action"] not in _ACTIONS or match.end() == offset:
            raise TraceOptionsError(f"--filter '{text}': {_EXPECTED}")
        offset = match.end()
        parts.append(match)
    if len(parts) > most:
        raise TraceOptionsError(f"--filter '{text}': {len(parts)} filters, and this CPU has {most}")
    return ",".join(_resolve(match, text, functions or _functions) for match in parts)


def _resolve(match: re.Match[str], text: str, functions: Callable[[str], Symbols]) -> str:
    """Return one filter in the kernel's form."""
    path = os.path.realpath(match["file"]) if match["file"] else ""
    if path and not os.path.exists(path):
        raise TraceOptionsError(f"--filter '{text}': {match['file']}: no such file")
    is_range = match["action"] in _RANGES or bool(match["end"] or match["end_name"])
    start, size = int(match["start"] or "0", 0), int(match["end"] or "0", 0)
    if match["start_name"] == "*":
        start, size = _everything(path, functions)
    elif match["start_name"] or match["end_name"]:
        lookup = _Lookup(functions(path), match["file"] or "the kernel", text)
        if match["start_name"]:
            start, end = lookup.range_of(_function(match, "start"))
            size = size or (end - start if is_range and not match["end_name"] else 0)
        if match["end_name"]:
            _, end = lookup.range_of(_function(match, "end"))
            if end < start:
                raise TraceOptionsError(f"--filter '{text}': function '{match['end_name']}' comes before {start:#x}")
            size = end - start
    addresses = f"{start:#x}/{size:#x}" if is_range else f"{start:#x}"
    return f"{_ACTIONS[match['action']]} {addresses}" + (f"@{path}" if path else "")


def _function(match: re.Match[str], end: str) -> _FunctionName:
    index = match[f"{end}_index"]
    return _FunctionName(match[f"{end}_name"], _ANY if index is None else _GLOBAL if index in "gG" else int(index))


def _everything(path: str, functions: Callable[[str], Symbols]) -> tuple[int, int]:
    """Return the range of a file, or of the kernel's functions and the page after the last one."""
    if path:
        return 0, os.path.getsize(path)
    symbols = functions("")
    start, last = int(symbols.start[0]), int(symbols.start[-1])
    return start, -(-last // PAGE_SIZE) * PAGE_SIZE + PAGE_SIZE - start


class _Lookup:
    """Finds functions by name. where: the file, for messages."""

    def __init__(self, symbols: Symbols, where: str, text: str) -> None:
        self._symbols = symbols
        self._where = where
        self._text = text

    def range_of(self, function: _FunctionName) -> tuple[int, int]:
        """Return the start and end of a function. Raises TraceOptionsError if there is none, or several."""
        rows = list(self._rows(function.name))
        if function.number == _GLOBAL:
            rows = [row for row in rows if self._symbols.binding[row] == _STB_GLOBAL]
        elif function.number > 0:
            rows = rows[function.number - 1 : function.number]
        ranges = dict.fromkeys((int(self._symbols.start[row]), int(self._symbols.end[row])) for row in rows)
        if not ranges:
            raise TraceOptionsError(f"--filter '{self._text}': {self._where} has no such function '{function.name}'")
        if len(ranges) > 1:
            choices = ", ".join(f"#{number} at {start:#x}" for number, (start, _) in enumerate(ranges, 1))
            raise TraceOptionsError(
                f"--filter '{self._text}': {self._where} has several '{function.name}'; choose one: {choices}; or #g, the global one"
            )
        return next(iter(ranges))

    def _rows(self, name: str) -> Iterator[int]:
        """Yield the symbols of a name, in the order of their addresses."""
        symbols, wanted = self._symbols, name.encode("utf-8", "surrogateescape") + b"\0"
        starts: set[tuple[int, int]] = set()
        for number, source in enumerate(symbols.sources):
            data = bytes(source)
            offset = data.find(wanted)
            while offset >= 0:
                starts.add((number, offset))
                offset = data.find(wanted, offset + 1)
        for row in range(len(symbols)) if starts else ():
            if (int(symbols.source[row]), int(symbols.name[row])) in starts:
                yield row


def _functions(path: str) -> Symbols:
    """Return the functions of a file, as offsets in it, or ("") of the kernel. Raises TraceOptionsError."""
    if path:
        from perfpy.symbols.dso import Dso  # needs numpy
        from perfpy.symbols.files import debug_files, elf_symbols
        from perfpy.symbols.files.elf import ElfFile

        runtime = ElfFile(path)
        found = debug_files.find(Dso(path, build_id=runtime.build_id), debug_files.SymbolOptions())
        symbols = elf_symbols.collect(found.symbols or runtime, runtime)
    else:
        from perfpy.symbols.kernel_symbols import parse  # as above
        from perfpy.untrusted.files import read_named

        table = parse(read_named(_KALLSYMS, limit=_LARGEST_KALLSYMS))
        if table.is_restricted:
            remedy = "run as root, or set sysctl kernel.kptr_restrict=0"
            raise TraceOptionsError(f"--filter: the kernel hides the addresses of its functions; {remedy}")
        symbols = table.symbols
    return symbols.pick((symbols.type == _FUNCTION) | (symbols.type == _INDIRECT))
