"""Sort keys of locations in code: file, function, address, parent.

See perfpy.analysis.sort_key; the numbers are locations (perfpy.analysis.locations).
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from perfpy.abi.columns import distinct, first_of_each
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.abi.sample_layout import page_size_text
from perfpy.analysis.locations import ROLE_BITS, Locations, name_ranks, ranks
from perfpy.analysis.sort_key import KeyColumn, TreeComparison, by_number, by_text, no_width
from perfpy.symbols.dso import DsoKind
from perfpy.untrusted.text import byte_width

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.sort_key import KeyTexts


def dso(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of files."""
    location_table, frames = texts.locations, locations >> ROLE_BITS
    rank = location_table.dso_ranks(locations)

    def widest(numbers: Int64) -> int:
        chosen = frames[numbers]
        kinds = first_of_each(location_table.dso[chosen].astype(np.int64) << 1 | (location_table.symbol[chosen] >= 0))
        return max((dso_width(texts, int(frame)) for frame in chosen[kinds]), default=0)

    return KeyColumn(
        rank,
        rank,
        lambda i: location_table.dso_name(int(frames[i])),
        lambda i: dso_width(texts, int(frames[i])),
        texts=lambda numbers: location_table.dso_names_of(frames[numbers]),
        widest=widest,
    )


def build_id(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of build-ids."""
    location_table = texts.locations
    names = [*(file.build_id or "[unknown]" for file in location_table.dsos), "[unknown]"]  # the last for no file
    return by_text([names[number] for number in location_table.dso[locations >> ROLE_BITS].tolist()])


def dso_width(texts: KeyTexts, frame: int) -> int:
    """Return the width of a dso column for a frame: its name, and space for an address without symbol."""
    location_table = texts.locations
    name = byte_width(location_table.dso_name(frame)) if location_table.dso[frame] >= 0 else 0
    return name if location_table.symbol[frame] >= 0 else max(name, texts.style.unnamed_dso_width)


#: the key of code that is not in a Python function
NO_PYTHON: Final = "[no Python function]"
_PYTHON: Final = PYTHON_MARK + r"(?P<name>[^:]+):(?P<path>[^:].*)"
_ADDRESS_DIGITS = 16
_LEVEL_WIDTH = len("[k] ")
_NO_IPC: Final = f"{'-':<5s} {'-':>2s}".ljust(len("IPC   [IPC Coverage]"))  # padded also where the function has no name
UNNAMED_WIDTH = _LEVEL_WIDTH + len("0x") + _ADDRESS_DIGITS
VERBOSE_WIDTH = _ADDRESS_DIGITS + len("0x") + len(" y ")


def symbol(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of functions, or addresses without one."""
    location_table = texts.locations
    frames, addresses = locations >> ROLE_BITS, location_table.printed_address(locations)

    @cache
    def module_width(number: int) -> int:
        """Return the width of what perf takes for a part of the name: the rest of a line of kallsyms, which names the module."""
        dso = location_table.dsos[number]
        return 1 + byte_width(dso.short_name) if dso.kind is DsoKind.MODULE and location_table.origin(number) in "kG" else 0

    def text(i: int) -> str:
        if texts.style.unnamed_as_one and location_table.symbol[frames[i]] < 0:
            file = location_table.dso_name(int(frames[i]))
            return f"[{location_table.level_of(int(locations[i]))}] code of {file} without symbols"
        return verbose_prefix(texts, int(frames[i]), int(addresses[i])) + symbol_text(location_table, int(locations[i]), int(addresses[i]))

    def many(numbers: Int64) -> list[str]:
        return (
            list(map(text, numbers.tolist()))
            if texts.style.verbose
            else symbol_texts(location_table, locations[numbers], addresses[numbers])
        )

    def wide(i: int) -> int:
        if location_table.symbol[frames[i]] < 0:
            return UNNAMED_WIDTH
        width = byte_width(location_table.name(int(frames[i]))) + module_width(int(location_table.dso[frames[i]])) + _LEVEL_WIDTH
        return width + (VERBOSE_WIDTH if texts.style.verbose else 0)

    def widest(numbers: Int64) -> int:
        kinds = first_of_each(location_table.symbol[frames[numbers]])
        return max(map(wide, numbers[kinds].tolist()), default=0)

    same = location_table.symbol_ranks(locations)
    unnamed = location_table.symbol[frames] < 0
    if texts.style.unnamed_as_one:
        of_files, order = location_table.dso_ranks(locations) + 1, location_table.symbol_name_ranks(locations)
        same = np.where(unnamed, int(same.max(initial=0)) + of_files, same)
        return KeyColumn(same, np.where(unnamed, int(order.max(initial=0)) + of_files, order), text)
    compare = _comparison(same, location_table.dso_ranks(locations), unnamed, addresses)

    def beside_dso() -> TreeComparison:
        of_any_file = location_table.symbol_ranks(locations, of_any_file=True)
        return TreeComparison(of_any_file, _comparison(of_any_file, np.zeros_like(of_any_file), unnamed, addresses))

    order = location_table.symbol_name_ranks(locations)
    return KeyColumn(same, order, text, wide, None, compare, unnamed, beside_dso, many, widest)


def _comparison(same: Int64, dso_rank: Int64, unnamed: NDArray[np.bool_], addresses: NDArray[np.uint64]) -> Callable[[int, int], int]:
    """Return perf's comparison of locations: without symbols by the signed difference of their addresses."""

    def compare(i: int, j: int) -> int:
        if unnamed[i] and unnamed[j]:
            distance = (int(addresses[j]) - int(addresses[i])) % (1 << 64)
            return 0 if not distance else -1 if distance < 1 << 63 else 1
        if dso_rank[i] != dso_rank[j]:
            return -1 if dso_rank[i] < dso_rank[j] else 1
        return int(same[i] > same[j]) - int(same[i] < same[j])

    return compare


def verbose_prefix(texts: KeyTexts, frame: int, address: int) -> str:
    """Return what -v shows before a symbol: the address, and a letter for the origin of the file's symbols; "" without -v."""
    if not texts.style.verbose:
        return ""
    number = int(texts.locations.dso[frame])
    origin = texts.locations.origin(number) if number >= 0 else "!"
    return f"{hex(address) if address else '0':<{_ADDRESS_DIGITS + 2}} {origin} "


def symbol_text(location_table: Locations, location: int, address: int) -> str:
    """Format a location with its level: the name of the function or of the data, or the address."""
    frame = location >> ROLE_BITS
    name = location_table.name_in_memory(frame) if location_table.symbol[frame] >= 0 else f"{'0x' if address else ''}{address:016x}"
    return f"[{location_table.level_of(location)}] {name}{' (inlined)' if location_table.is_inlined(frame) else ''}"


def symbol_texts(location_table: Locations, locations: Int64, addresses: NDArray[np.uint64]) -> list[str]:
    """Format many locations, most of which have no symbol."""
    symbols, levels = location_table.symbol[locations >> ROLE_BITS], location_table.levels_of(locations)
    unnamed = {level: f"[{chr(level)}] 0x%016x" for level in distinct(levels).tolist()}
    formatted = [unnamed[level] % address for level, address in zip(levels.tolist(), addresses.tolist(), strict=True)]
    for index in np.flatnonzero((symbols >= 0) | (addresses == 0)).tolist():
        formatted[index] = symbol_text(location_table, int(locations[index]), int(addresses[index]))
    return formatted


def symbol_offset(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of functions with offsets."""
    table = texts.locations
    printed = table.printed_address(locations)
    frames, addresses = (locations >> ROLE_BITS).tolist(), printed.tolist()
    # perf takes the difference as signed: the kernel's addresses come after all others
    larger_first = -printed.view(np.int64)
    symbol_ranks = table.symbol_ranks(locations)
    same, order = ranks(symbol_ranks, larger_first), ranks(table.symbol_name_ranks(locations), larger_first)

    def text(i: int) -> str:
        symbol = int(table.symbol[frames[i]])
        if symbol >= 0:
            return f"[{table.level_of(int(locations[i]))}] {table.name(frames[i])}+{hex(addresses[i] - table.symbol_start(symbol))}"
        # perf gives the address the digits that the header's width leaves
        return f"[{table.level_of(int(locations[i]))}] {'0x' if addresses[i] else ''}{addresses[i]:0{_OFFSET_DIGITS}x}"

    unnamed = table.symbol[locations >> ROLE_BITS] < 0

    def by_offset(by_symbol: Callable[[int, int], int]) -> Callable[[int, int], int]:
        return lambda i, j: by_symbol(i, j) or (addresses[i] < addresses[j]) - (addresses[i] > addresses[j])

    def beside_dso() -> TreeComparison:
        of_any_file = table.symbol_ranks(locations, of_any_file=True)
        by_symbol = _comparison(of_any_file, np.zeros_like(of_any_file), unnamed, printed)
        return TreeComparison(ranks(of_any_file, larger_first), by_offset(by_symbol))

    compare = by_offset(_comparison(symbol_ranks, table.dso_ranks(locations), unnamed, printed))
    return KeyColumn(same, order, text, compare=compare, unnamed=unnamed, beside_dso=beside_dso)


_OFFSET_DIGITS = len("Symbol Offset") - _LEVEL_WIDTH


def address(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of addresses in memory."""
    addresses = [texts.locations.memory_address(location) for location in locations.tolist()]
    return by_number(np.array(addresses, np.uint64).view(np.int64), lambda i: hex(addresses[i]) if addresses[i] else "0")


def symbol_size(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of functions' sizes."""
    location_table = texts.locations
    symbols = location_table.symbol[locations >> ROLE_BITS].tolist()
    sizes = [location_table.size(number) if number >= 0 else 0 for number in symbols]
    return by_number(np.array(sizes, np.int64), lambda i: str(sizes[i]) if symbols[i] >= 0 else "unknown", falling=False)


def dso_size(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of mappings' sizes."""
    location_table = texts.locations
    frames = locations >> ROLE_BITS
    sizes = (location_table.map_end[frames] - location_table.map_start[frames]).astype(np.int64)
    mapped = (location_table.dso[frames] >= 0).tolist()
    return by_number(sizes, lambda i: str(int(sizes[i])) if mapped[i] else "unknown")


def source_line(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of source lines."""
    return by_text(texts.source_texts.lines(locations >> ROLE_BITS))


def source_file(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the column of source files."""
    return by_text(texts.source_texts.files(locations >> ROLE_BITS))


def python_function(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the Python function and its file."""
    return by_text([" ".join(names) if names else NO_PYTHON for names in _python_names(texts, locations)])


def python_line(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return the Python function, its file and the line; without the line if it is unknown."""
    code = texts.source_texts.code((locations >> ROLE_BITS).tolist())
    words = [
        NO_PYTHON if names is None else f"{names[0]} {line[0]}:{line[1]}" if line and line[1] else " ".join(names)
        for names, line in zip(_python_names(texts, locations), code, strict=True)
    ]
    return by_text(words)


def _python_names(texts: KeyTexts, locations: Int64) -> list[tuple[str, str] | None]:
    """Return the name and the file of each Python function."""
    matches = map(re.compile(_PYTHON, re.DOTALL).fullmatch, map(texts.locations.name, (locations >> ROLE_BITS).tolist()))
    return [(match["name"], match["path"]) if match else None for match in matches]


def parent(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of parents: -1 for none, else an index into texts.parents."""
    names = [texts.parents[number] if number >= 0 else "[other]" for number in values.tolist()]
    has_parent = values >= 0
    rank = ranks(~has_parent, name_ranks(names))
    return KeyColumn(rank, rank, lambda i: names[i], lambda i: byte_width(names[i]) if has_parent[i] else 0)


def no_ipc(texts: KeyTexts, locations: Int64) -> KeyColumn:
    """Return perf's column of instructions per cycle for recordings without branches: one row for each function."""
    functions = symbol(texts, locations)
    return functions._replace(order=functions.same, text=lambda _i: _NO_IPC, wide=no_width, texts=None, widest=None)


def simd(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return an empty column of vector instructions: no machine that perfpy knows records them."""
    rank = np.zeros(len(values), np.int64)
    return KeyColumn(rank, rank, lambda _i: "")


# Sort keys of tracepoint data, transactions and page sizes. See perfpy.analysis.sort_key.


def trace(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of tracepoints' texts; empty for other events."""
    data, numbers = texts.trace, values.tolist()
    has = [bool(data.payloads[number]) for number in numbers]
    worded = iter(_trace_texts(texts, [number for number, there in zip(numbers, has, strict=True) if there]))
    payload_texts = [next(worded) if there else "N/A" for there in has]
    rank = name_ranks(payload_texts)
    return KeyColumn(rank, rank, lambda i: payload_texts[i], lambda i: byte_width(payload_texts[i]) if has[i] else 0)


def _trace_texts(texts: KeyTexts, numbers: list[int]) -> list[str]:
    data = texts.trace
    if data.words is None:
        return ["N/A"] * len(numbers)
    return [data.words.raw_text(data.payloads[number]) for number in numbers] if texts.style.raw_trace else data.texts(numbers)


def page_size(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of page sizes."""
    return by_number(values, lambda i: page_size_text(int(values[i])))


_TRANSACTION_BITS = (
    (1 << 0, "EL "),
    (1 << 1, "TX "),
    (1 << 2, "SYNC "),
    (1 << 3, "ASYNC "),
    (1 << 4, "RETRY "),
    (1 << 5, "CON "),
    (1 << 6, "CAP-WRITE "),
    (1 << 7, "CAP-READ "),
)
_TRANSACTION_EITHER = 1 << 2 | 1 << 3
_ABORT_SHIFT = 32
_TRANSACTION_WIDTH = 32  # of perf's column if any sample was in a transaction


def transaction(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of transaction flags."""

    def text(i: int) -> str:
        bits = int(values.view(np.uint64)[i])
        label = "".join(name for bit, name in _TRANSACTION_BITS if bits & bit)
        if bits and not bits & _TRANSACTION_EITHER:
            label += "NEITHER "
        return label + (f":{bits >> _ABORT_SHIFT:x}" if bits >> _ABORT_SHIFT else "")

    # all flags together, or less if no sample was in a transaction
    return by_number(values, text, falling=True)._replace(wide=lambda i: _TRANSACTION_WIDTH if values[i] else 0, widest=None)
