"""Locations in code as arrays over a symbolizer's frames, in perf's sort order.

A frame occurs in several roles: as the location of a sample, and as
an entry of a callchain. They differ without a symbol: perf shows the
address within the file for the one and the address in memory for the other;
and an unmapped entry is shown at the level of the mapped entry
before it, or of the sample. So a location is a frame id times four, plus its role.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.analysis.callchains import frames_of
from perfpy.symbols.demangling.demangle import without_tier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.symbolizer import Symbolizer

    Int64 = NDArray[np.int64]


NOWHERE = -1

ROLE_BITS = 2
ROLES = 1 << ROLE_BITS
OF_SAMPLE, OF_CHAIN, OF_CHAIN_IN_KERNEL, OF_CHAIN_IN_USER = range(ROLES)
_LEVELS = {OF_CHAIN_IN_KERNEL: "k", OF_CHAIN_IN_USER: "."}


def sample_locations(frames: NDArray[Any]) -> Int64:
    """Return frames as the locations of samples."""
    return frames.astype(np.int64) << ROLE_BITS


def chain_locations(frames: NDArray[Any], roles: NDArray[np.uint8] | np.uint8) -> Int64:
    """Return frames as entries of callchains, in one of their roles."""
    return frames.astype(np.int64) << ROLE_BITS | roles


def ranks(*columns: NDArray[Any]) -> Int64:
    """Return dense ranks (from 0) of rows by several columns, the most important first; equal rows share one."""
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    order = np.lexsort(columns[::-1])
    fresh = np.zeros(len(order), np.bool_)
    for column in columns:
        ordered = column[order]
        fresh[1:] |= ordered[1:] != ordered[:-1]
    result = np.empty(len(order), np.int64)
    result[order] = np.cumsum(fresh)
    return result


def name_ranks(names: Sequence[str]) -> Int64:
    """Return dense ranks of strings by their bytes, like strcmp."""
    keys = [name.encode(errors="surrogateescape") for name in names]
    rank = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], np.int64)


class Locations:
    """The frames of a symbolizer as arrays indexed by frame id.

    Attributes:
        ip: address in memory.
        address: perf's address of a sample, relative to the file.
        dso, symbol: ids, NOWHERE without one.
        level: 'k', '.' ...
        inlined: of symbols, the last entry for NOWHERE.

    Args:
        long_names: show dsos by their paths (perf report -v).
        listed: files of the recording's build-id table, which perf meets before all others.
        as_one: merge all code that a runtime compiled from one function (entries of a perf map, or files of a jitdump) under
            the symbol of the first.
    """

    def __init__(self, symbolizer: Symbolizer, *, long_names: bool = False, listed: Sequence[str] = (), as_one: bool = False) -> None:
        symbolizer.resolve()
        table = symbolizer.frames
        self.ip: NDArray[np.uint64] = table.ip
        self.address: NDArray[np.uint64] = table.address
        self.dso: NDArray[np.int32] = table.dso
        self.symbol: NDArray[np.int32] = table.symbol
        self.level: NDArray[np.uint8] = table.level
        self.map_start: NDArray[np.uint64] = table.map_start
        self.map_end: NDArray[np.uint64] = table.map_end
        self.dsos = symbolizer.dsos
        self.spaces_of = symbolizer.spaces_of
        self.origin = symbolizer.origin
        self.symbols = symbolizer.symbols
        self.dso_names = [dso.long_name if long_names else dso.short_name for dso in self.dsos]
        self._file_rank = name_ranks(self.dso_names)
        code_origins = [dso.made_code for dso in self.dsos] if as_one else []
        self.dso_names = (
            [family or name for family, name in zip(code_origins, self.dso_names, strict=True)] if any(code_origins) else self.dso_names
        )
        self._dso_rank = np.append(name_ranks(self.dso_names), len(self.dso_names))
        first = {name: number for number, name in enumerate(listed)}
        met = [first.get(dso.name, len(first) + number) for number, dso in enumerate(self.dsos)]
        self._dso_met = np.array([*met, NOWHERE], np.int64)
        count = len(self.symbols)
        self._symbol_start = np.array([self.symbols.start(number) for number in range(count)] + [0], np.uint64)
        self._symbol_end = np.array([self.symbols.end(number) for number in range(count)] + [0], np.uint64)
        self._symbol_dso = np.array([self.symbols.dso(number) for number in range(count)], np.int64)
        self.inlined = np.array([self.symbols.is_inlined(number) for number in range(count)] + [False], np.bool_)
        self._function = self.symbols.functions()
        if any(code_origins):
            self.symbol = self._first_of_function(code_origins)[self.symbol]

    def _first_of_function(self, code_origins: list[str]) -> NDArray[np.int32]:
        """Return symbol -> the first symbol of the same compiled function; NOWHERE, the last, stays.

        code_origins: the runtime of each dso.
        """
        first = np.append(np.arange(len(self.symbols), dtype=np.int32), np.int32(NOWHERE))
        first_symbol: dict[tuple[str, str], int] = {}
        for number in rows_where(np.array(list(map(bool, code_origins)))[self._symbol_dso]).tolist():
            function = code_origins[self._symbol_dso[number]], without_tier(self.symbols.name(number))
            first[number] = first_symbol.setdefault(function, number)
        return first

    def dso_ranks(self, locations: Int64) -> Int64:
        """Return ranks of the dsos by name, files without a name last."""
        rank: Int64 = self._dso_rank[self.dso[locations >> ROLE_BITS]]
        return rank

    def printed_address(self, locations: Int64) -> NDArray[np.uint64]:
        """Return perf's address of a location: relative to the file for samples, in memory for callchains."""
        frames = locations >> ROLE_BITS
        addresses: NDArray[np.uint64] = np.where(locations & (ROLES - 1) != OF_SAMPLE, self.ip[frames], self.address[frames])
        return addresses

    def symbol_ranks(self, locations: Int64, *, of_any_file: bool = False) -> Int64:
        """Return ranks that are equal for locations in one function: by dso name, symbol start, end and name, or the bare address.

        of_any_file: compare the start and end alone, so that functions of several files can have one rank.
        """
        symbol = self.symbol[locations >> ROLE_BITS]
        # functions come first, and are few: the rank of each is computed once
        same = slice(-1) if self._function is None else self._function
        bounds = self._symbol_start[same].view(np.int64), self._symbol_end[same]
        apart = () if self._function is None else (self._function,)
        if of_any_file:
            of_code = ranks(*bounds, self._inlined_ranks[:-1])
        else:
            of_code = self._by_name(ranks(self._file_rank[self._symbol_dso], *bounds, self._inlined_ranks[:-1], *apart))
        of_symbol = np.append(of_code, 0)
        symbol_rank: Int64 = of_symbol[symbol]
        unnamed = rows_where(symbol < 0)
        bare = self.printed_address(locations[unnamed]).view(np.int64)
        symbol_rank[unnamed] = len(of_symbol) + np.searchsorted(distinct(bare), bare)
        return symbol_rank

    @cached_property
    def functions(self) -> Int64:
        """The function of every symbol, as the number of one: calls that are inlined into several functions of a file are one function,
        and code that a runtime compiled several times for one function, if the report merges it.
        """
        functions = np.arange(len(self.inlined) - 1) if self._function is None else self._function[: len(self.inlined) - 1].astype(np.int64)
        first: dict[tuple[int, str], int] = {}
        for number in rows_where(self.inlined[:-1]).tolist():
            functions[number] = first.setdefault((self.symbols.dso(number), self.symbols.name(number)), number)
        return functions

    def _by_name(self, of_code: Int64) -> Int64:
        """Return ranks of symbols that distinguish names of equal rank: different files of one name have them at one address."""
        shared = rows_where(np.bincount(of_code)[of_code] > 1)
        if not len(shared):
            return of_code
        names = np.zeros(len(of_code), np.int64)
        names[shared] = name_ranks([self.symbols.name(number) for number in shared.tolist()])
        return ranks(of_code, names)

    @cached_property
    def _inlined_ranks(self) -> Int64:
        """For every symbol: 0, or for inlined functions the rank of their names among these, from 1 on."""
        ranks = np.zeros(len(self.inlined), np.int64)
        numbers = rows_where(self.inlined)
        ranks[numbers] = 1 + name_ranks([self.symbols.name(number) for number in numbers.tolist()])
        return ranks

    def symbol_name_ranks(self, locations: Int64) -> Int64:
        """Return ranks by symbol name, locations without one last (and equal)."""
        symbol = self.symbol[locations >> ROLE_BITS]
        present = np.zeros(len(self.symbols) + 1, np.bool_)
        present[symbol] = True
        numbers = rows_where(present[:-1])
        rank = np.full(len(present), len(numbers), np.int64)
        rank[numbers] = name_ranks([self.symbols.name(number) for number in numbers.tolist()])
        ranks: Int64 = rank[symbol]
        return ranks

    def chain_ranks(self, *, by_address: bool = False) -> Int64:
        """Return the class of every frame as an entry of a callchain.

        Frames of one function share a class (with by_address: frames of one
        address). Smaller numbers come first among equal siblings in a tree:
        perf's order there is that of its objects in memory, which follows
        the order in which dsos were met, and is shown backwards.
        """
        symbol = self.symbol
        by_symbol = (symbol >= 0) & (not by_address)
        # beside bare addresses, functions are sorted by their position in memory: with their file's first bias
        bias = np.zeros(len(self.dsos) + 1, np.uint64)
        bias[self.dso[::-1]] = (self.ip - self.address)[::-1]
        # a function of several builds of a file has its position in the first build
        function = symbol if self._function is None else np.append(self._function, NOWHERE)[symbol]
        dso = self.dso if self._function is None else np.where(by_symbol, np.append(self._symbol_dso, NOWHERE)[function], self.dso)
        start = np.where(by_symbol, self._symbol_start[function] + bias[dso], self.ip)
        # inlined functions are the same wherever they are inlined
        inlined = np.where(by_symbol, self._inlined_ranks[symbol], 0)
        met = np.where(inlined > 0, 0, -self._dso_met[dso])
        apart = () if self._function is None else (np.where(by_symbol & (inlined == 0), function, NOWHERE),)
        return ranks(met, -inlined, np.where(inlined > 0, np.uint64(0), ~start), ~by_symbol, *apart)

    def chain_name_ranks(self, classes: Int64) -> tuple[Int64, NDArray[np.bool_]]:
        """Return for every class of frames (`chain_ranks`) its rank by name, the last name first, and whether it was inlined."""
        size = int(classes.max()) + 1 if len(classes) else 0
        rank, inlined = np.zeros(size, np.int64), np.zeros(size, np.bool_)
        names = np.append(name_ranks([self.symbols.name(number) for number in range(len(self.symbols))]), NOWHERE)
        rank[classes] = -names[self.symbol]
        inlined[classes] = self.inlined[self.symbol]
        return rank, inlined

    def level_roles(self) -> NDArray[np.uint8]:
        """Return for every frame the role that its level gives to later entries; OF_CHAIN for other levels."""
        roles = np.full(256, OF_CHAIN, np.uint8)
        for role, letter in _LEVELS.items():
            roles[ord(letter)] = role
        level_roles: NDArray[np.uint8] = roles[self.level]
        return level_roles

    def level_of(self, location: int) -> str:
        """Return the letter of a location: k for the kernel, . for user code ..."""
        return _LEVELS.get(location & (ROLES - 1)) or chr(self.level[location >> ROLE_BITS])

    def levels_of(self, locations: Int64) -> NDArray[np.uint8]:
        """Return the character codes of level_of() for many locations."""
        roles = locations & (ROLES - 1)
        levels: NDArray[np.uint8] = self.level[locations >> ROLE_BITS]
        for role, letter in _LEVELS.items():
            levels[roles == role] = ord(letter)
        return levels

    def size(self, symbol: int) -> int:
        """Return the length of a symbol in bytes."""
        return int(self._symbol_end[symbol] - self._symbol_start[symbol])

    def symbol_bounds(self, symbols: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the first address and the end of symbols, relative to their files."""
        return self._symbol_start[symbols], self._symbol_end[symbols]

    def symbol_start(self, symbol: int) -> int:
        """Return the first address of a symbol, relative to its file."""
        return int(self._symbol_start[symbol])

    def name(self, frame: int) -> str:
        """Return the symbol's name, or "" without one."""
        symbol = int(self.symbol[frame])
        return self.symbols.name(symbol) if symbol >= 0 else ""

    def is_inlined(self, frame: int) -> bool:
        """Whether the frame's function was inlined into the next frame's."""
        return bool(self.inlined[self.symbol[frame]])

    def name_in_memory(self, frame: int) -> str:
        """Return the symbol's name; for data, which is accessed at many locations, with the offset."""
        symbol = int(self.symbol[frame])
        if symbol < 0 or not self.symbols.is_data(symbol):
            return self.name(frame)
        return f"{self.symbols.name(symbol)}+{int(self.address[frame] - self._symbol_start[symbol]):#x}"

    def dso_name(self, frame: int) -> str:
        """Return the name of the frame's dso as perf report prints it."""
        dso = int(self.dso[frame])
        return self.dso_names[dso] if dso >= 0 else "[unknown]"

    def dso_names_of(self, frames: NDArray[Any]) -> list[str]:
        """Return dso_name() for many frames."""
        names = [*self.dso_names, "[unknown]"]  # the last for NOWHERE
        return [names[number] for number in self.dso[frames].tolist()]

    def memory_address(self, location: int) -> int:
        """Return the address in memory of a location, as perf computes it from the address that it keeps."""
        frame = location >> ROLE_BITS
        bias = int(self.ip[frame]) - int(self.address[frame])
        return (int(self.printed_address(np.array([location]))[0]) + bias) % (1 << 64)


# Format the source lines of frames like perf: FILE:LINE, with the file's name or its path.
#
# Without a line the text is the function and the offset in it, or the file and the address.


#: perf's text without a mapping
UNKNOWN_LINE = "??:0"


class SourceTexts:
    """The texts of frames' source lines.

    full_paths: show files with their folders; as_addr2line: name them like binutils, which perf uses
    (perfpy.debuginfo.source_lines).
    """

    def __init__(self, symbolizer: Symbolizer, *, full_paths: bool = False, as_addr2line: bool = False) -> None:
        from perfpy.debuginfo.debug_info import lines_of
        from perfpy.debuginfo.source_lines import GeneratedLines

        self._generated = GeneratedLines()
        self._symbolizer = symbolizer
        self._infos = lines_of(symbolizer, as_addr2line=as_addr2line)
        self._full_paths = full_paths

    def lines(self, frames: NDArray[np.int64]) -> list[str]:
        """Return FILE:LINE, FUNCTION+OFFSET, DSO[ADDRESS] or ??:0 for each frame."""
        return [text or UNKNOWN_LINE for text in self._texts_of_frames(frames, self._in_function)]

    def files(self, frames: NDArray[np.int64]) -> list[str]:
        """Return the file for each frame, "" if unknown."""
        return [(text or "").partition(":")[0] for text in self._texts_of_frames(frames, lambda _frame, _address: "")]

    def in_files(self, frames: NDArray[np.int64], after: int = 0) -> list[str]:
        """Return FILE:LINE or DSO[ADDRESS] for each frame, "" without a mapping. after: the bytes from the frame to the code."""
        return [text or "" for text in self._texts_of_frames(frames, self._in_dso, after)]

    def calls(self, frames: NDArray[np.int64], *, offsets: bool) -> list[str | None]:
        """Return the texts after the functions of callchains: FILE:LINE, +OFFSET (without offsets ??:0), or None without a mapping."""
        return self._texts_of_frames(frames, self._offset if offsets else lambda _frame, _address: UNKNOWN_LINE)

    def code(self, frames: Sequence[int] | NDArray[np.int64], are_callers: NDArray[np.bool_] | None = None) -> list[tuple[str, int] | None]:
        """Return the path and the line for each frame, None if unknown; callers (default: none) have the address after the call."""
        back = None if are_callers is None else are_callers.astype(np.uint64)
        lines, paths = self._infos.code_lines(np.asarray(frames, np.int64), back), self._infos.paths
        pairs = zip(lines.file.tolist(), lines.line.tolist(), strict=True)
        return [self._generated.find(paths[file], line) if file >= 0 else None for file, line in pairs]

    def begins(self, symbols: Sequence[int]) -> dict[int, tuple[str, int]]:
        """Return the path and the line where functions begin, if known."""
        return {symbol: self._generated.find(*begin) for symbol, begin in self._infos.begins(symbols).items()}

    def _texts_of_frames(self, frames: NDArray[np.int64], otherwise: Callable[[int, int], str], after: int = 0) -> list[str | None]:
        """Return FILE:LINE for each frame; None without a mapping; otherwise(frame, address) if the file is unknown."""
        lines = self._infos.code_lines(frames, -np.full(len(frames), after, np.uint64) if after else None)
        names = [path if self._full_paths else path.rpartition("/")[2] for path in self._infos.paths]
        mapped = self._symbolizer.frames.dso[frames] >= 0
        columns = (frames, mapped, lines.file, lines.line, lines.address)
        return [
            f"{names[file]}:{line}" if file >= 0 else otherwise(frame, address) if there else None
            for frame, there, file, line, address in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _in_function(self, frame: int, address: int) -> str:
        symbol = int(self._symbolizer.frames.symbol[frame])
        return self._in_dso(frame, address) if symbol < 0 else self._symbolizer.symbols.name(symbol) + self._offset(frame, address)

    def _offset(self, frame: int, address: int) -> str:
        table = self._symbolizer.frames
        return f"+{table.symbol_offset[frame]}" if table.symbol[frame] >= 0 else self._in_dso(frame, address)

    def _in_dso(self, frame: int, address: int) -> str:
        return f"{self._symbolizer.dsos[int(self._symbolizer.frames.dso[frame])].short_name}[{address:x}]"


# The files that a recording's samples hit.
#
# With `chains`, frames of callchains count, too (as in `perf inject`; at the end of `perf record` they do not).


_FIELDS = frozenset({"ip", "pid", "cpumode"})


def hit_dsos(data: SampleSource, symbolizer: Symbolizer, *, chains: bool = False) -> list[Dso]:
    """Return the hit dsos, in the order of their first mapping. Loads no symbols."""
    for batch in data.batches(_FIELDS | {"callchain"} if chains else _FIELDS):
        columns = batch.columns
        if "ip" in columns and "pid" in columns:
            symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
        if chains and "callchain" in columns and "pid" in columns:
            frames_of(columns["callchain"], columns["pid"], batch.key, symbolizer)
    hit = distinct(symbolizer.frames.dso)
    return [symbolizer.dsos[number] for number in hit.tolist() if number >= 0]
