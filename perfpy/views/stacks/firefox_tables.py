"""The tables that all threads of a Firefox profile share: strings, libraries, functions, frames, stacks.

Stacks are a tree: each has its parent and its frame. Calls inlined at an address are frames of that address, the outermost with depth 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.views.readable import readable, source_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.stacks.code_sites import FileMapping, Source
    from perfpy.analysis.stacks.stacks import Function, Stacks

#: categories of code, and their colours; grey is the viewer's default
CATEGORIES: Final = (
    ("Other", "grey"),
    ("Program", "yellow"),
    ("Libraries", "green"),
    ("Kernel", "orange"),
    ("Made at run time", "purple"),
    ("Off the CPU", "blue"),
)
_OTHER, _PROGRAM, _LIBRARY, _KERNEL, _MADE, _WAITING = range(len(CATEGORIES))
_NONE: Final = -1
_LIBRARY_RESOURCE: Final = 1


class FrameTables:
    """The tables; the first use of a value adds a row."""

    def __init__(self) -> None:
        self.libs: list[dict[str, Any]] = []
        self._strings: dict[str, int] = {}
        self._sources: dict[str, int] = {}
        self._resources: dict[tuple[str, int], int] = {}
        self._functions: dict[tuple[Any, ...], int] = {}
        self._symbols: dict[tuple[int, int, int, int], int] = {}
        self._frames: dict[tuple[Any, ...], int] = {}
        self._stacks: dict[tuple[int, int], int] = {}
        self._lib_numbers: dict[tuple[str, str], int] = {}

    def of(self, part: Stacks) -> StackRows:
        """Return a builder of rows for an event's stacks."""
        return StackRows(self, part)

    def string(self, text: str) -> int:
        """Return the index of a text."""
        return self._strings.setdefault(text, len(self._strings))

    def lib(self, path: str, build_id: str) -> int:
        """Return the index of a code file."""
        number = self._lib_numbers.setdefault((path, build_id), len(self.libs))
        if number == len(self.libs):
            name = path.rpartition("/")[2]
            self.libs.append(
                {
                    "arch": "",
                    "name": name,
                    "path": path,
                    "debugName": name,
                    "debugPath": path,
                    "breakpadId": _breakpad_id(build_id),
                    "codeId": build_id or None,
                }
            )
        return number

    def resource(self, name: str, lib: int) -> int:
        """Return the index of a group of functions: a code file."""
        return self._resources.setdefault((name, lib), len(self._resources)) if name else _NONE

    def function(self, function: Function, lib: int, begins: Source | None) -> int:
        """Return the index of a function."""
        path = source_file(function.name) or (begins.path if begins else "")
        source = self._sources.setdefault(path, len(self._sources)) if path else None
        name, resource = self.string(readable(function.name)), self.resource(function.dso, lib)
        line = begins.line or None if begins else None
        return self._functions.setdefault((name, resource, source, line), len(self._functions))

    def symbol(self, lib: int, address: int, name: str, size: int) -> int:
        """Return the index of a symbol of a file."""
        return self._symbols.setdefault((lib, address, self.string(name), size), len(self._symbols))

    def frame(self, function: int, category: int, address: int, depth: int, symbol: int | None, line: int | None) -> int:
        """Return the index of a frame."""
        return self._frames.setdefault((function, category, address, depth, symbol, line), len(self._frames))

    def stack(self, below: int, frame: int) -> int:
        """Return the index of a stack: a frame on the stack `below`, or on none (-1)."""
        return self._stacks.setdefault((below, frame), len(self._stacks))

    def content(self) -> dict[str, Any]:
        """Return all tables, column by column."""
        below, frame = _columns(self._stacks, 2)
        lib, address, symbol, size = _columns(self._symbols, 4)
        tables: dict[str, Any] = {
            "stackTable": {"frame": frame, "prefix": [one if one >= 0 else None for one in below]},
            "frameTable": self._frame_table(),
            "funcTable": self._function_table(),
            "resourceTable": self._resource_table(),
            "nativeSymbols": {"libIndex": lib, "address": address, "name": symbol, "functionSize": size},
            "sources": {"uuid": [None] * len(self._sources), "filename": [self.string(path) for path in self._sources]},
        }
        for table in tables.values():
            table["length"] = len(next(iter(table.values())))
        return {**tables, "stringArray": list(self._strings)}

    def _frame_table(self) -> dict[str, list[Any]]:
        function, category, address, depth, symbol, line = _columns(self._frames, 6)
        none = [None] * len(function)
        return {
            "address": address,
            "inlineDepth": depth,
            "category": category,
            "subcategory": [0] * len(function),
            "func": function,
            "nativeSymbol": symbol,
            "innerWindowID": none,
            "line": line,
            "column": none,
        }

    def _function_table(self) -> dict[str, list[Any]]:
        name, resource, source, begins = _columns(self._functions, 4)
        none, no = [None] * len(name), [False] * len(name)
        return {
            "isJS": no,
            "relevantForJS": no,
            "name": name,
            "resource": resource,
            "source": source,
            "lineNumber": begins,
            "columnNumber": none,
        }

    def _resource_table(self) -> dict[str, list[Any]]:
        name, lib = _columns(self._resources, 2)
        return {
            "lib": [one if one >= 0 else None for one in lib],
            "name": [self.string(one) for one in name],
            "host": [None] * len(name),
            "type": [_LIBRARY_RESOURCE] * len(name),
        }


def _columns(rows: dict[tuple[Any, ...], int], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


class StackRows:
    """A builder of the rows of one event's callchains."""

    def __init__(self, tables: FrameTables, part: Stacks) -> None:
        self._tables = tables
        self._part = part
        self._frames: dict[tuple[int, int, int, int], int] = {}

    def stack_of_chains(self, chains: NDArray[Any]) -> NDArray[np.int64]:
        """Return the stack of each callchain; -1 for empty ones."""
        distinct, which = np.unique(chains, return_inverse=True)
        stacks = np.array([self._stack(chain) for chain in distinct.tolist()], np.int64)
        return stacks[which.ravel()] if len(distinct) else np.zeros(0, np.int64)

    def _stack(self, chain: int) -> int:
        below = _NONE
        for frame in reversed(self._frames_of(chain)):
            below = self._tables.stack(below, frame)
        return below

    def _frames_of(self, chain: int) -> list[int]:
        """Return the frames of a callchain, innermost first."""
        functions, sites = self._part.chain_of(chain).tolist(), self._part.sites
        if sites is None:
            return [self._frame(function, _NONE, 0, function) for function in functions]
        numbers = self._part.sites_of(chain).tolist()
        frames: list[int] = []
        depth, outer = 0, _NONE
        for function, number in zip(reversed(functions), reversed(numbers), strict=True):
            depth = depth + 1 if sites.inlined[number] and frames else 0
            outer = outer if depth else function
            frames.append(self._frame(function, number, depth, outer))
        return frames[::-1]

    def _frame(self, number: int, site: int, depth: int, outer: int) -> int:
        index = self._frames.get((number, site, depth, outer))
        if index is None:
            index = self._frames[number, site, depth, outer] = self._new_frame(number, site, depth, outer)
        return index

    def _new_frame(self, number: int, site: int, depth: int, outer: int) -> int:
        function, sites, tables = self._part.functions[number], self._part.sites, self._tables
        if sites is None or site < 0 or sites.mapping[site] < 0:
            return tables.frame(tables.function(function, _NONE, None), self._category(function, None), _NONE, depth, None, None)
        mapping = sites.mappings[int(sites.mapping[site])]
        lib = tables.lib(mapping.path, mapping.build_id)
        begins = sites.begins[number] if number < len(sites.begins) else None
        source, in_file = sites.source_of(site), mapping.offset - mapping.start
        symbol, size = None, int(sites.function_size[site])
        if size:
            symbol = tables.symbol(lib, int(sites.function_address[site]) + in_file, readable(self._part.functions[outer].name), size)
        line = source.line or None if source else None
        address = max(int(sites.address[site]) + in_file, 0)
        return tables.frame(tables.function(function, lib, begins), self._category(function, mapping), address, depth, symbol, line)

    def _category(self, function: Function, mapping: FileMapping | None) -> int:
        if function.kernel:
            return _KERNEL
        if source_file(function.name) or (mapping and mapping.is_runtime_code):
            return _MADE
        if not function.dso:
            return _WAITING if self._part.off_cpu or (function.name.startswith("[") and function.name != "[unknown]") else _OTHER
        return _LIBRARY if ".so" in function.dso or function.dso.startswith("[") else _PROGRAM


def _breakpad_id(build_id: str) -> str:
    """Return a build-id as the viewer's symbol servers write it: the first 16 bytes as a GUID, its first three parts little-endian."""
    raw = build_id[:32].ljust(32, "0")
    parts = (raw[0:8], raw[8:12], raw[12:16])
    turned = ("".join(reversed([part[i : i + 2] for i in range(0, len(part), 2)])) for part in parts)
    return f"{''.join(turned)}{raw[16:]}0".upper() if build_id else ""
