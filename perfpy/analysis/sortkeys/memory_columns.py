"""Sort keys of memory accesses: the data, and the memory that served them.

See perfpy.analysis.sortkeys.key_columns; the numbers are frame ids of the data's address,
or the data_src word (union perf_mem_data_src in perf_event.h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_HYPERVISOR, MISC_KERNEL
from perfpy.analysis.samples.dimensions import PHYSICAL_BITS
from perfpy.analysis.samples.locations import ranks, sample_locations
from perfpy.analysis.sortkeys.key_columns import KeyColumn, byte_width
from perfpy.analysis.sortkeys.location_columns import UNNAMED_WIDTH, symbol_text
from perfpy.analysis.sortkeys.payload_columns import page_size
from perfpy.analysis.sortkeys.sort_key import ColumnCell, Mode, SortKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts, MemoryWords

_LEVEL_WIDTH = len("[k] ")
_ADDRESS_WIDTH = 18
_LEVELS = {MISC_KERNEL: "k", MISC_HYPERVISOR: "H", MISC_GUEST_KERNEL: "g", MISC_GUEST_USER: "u"}
_LONGEST = 62  # characters of perf's texts of data_src
_LINE = 64  # bytes of a cache line


def data_symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of accessed data."""
    return _by_address(texts, frames, lambda frame: int(texts.locations.ip[frame]))


def code_symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of accessing instructions."""
    return _by_address(texts, frames, lambda frame: int(texts.locations.ip[frame]))


def cache_line(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of accessed cache lines; unmapped ones have level X."""
    location_table = texts.locations
    column = _by_address(texts, frames, lambda frame: int(location_table.address[frame]) & -_LINE)

    def text(i: int) -> str:
        label = column.text(i)
        return label if location_table.dso[frames[i]] >= 0 else f"[X]{label[3:]}"

    dso_of = location_table.dso[frames].astype(np.int64)  # files have lines at equal offsets
    is_anonymous = np.array([file.is_anonymous for file in location_table.dsos] + [False], bool)[dso_of]
    owner = np.where(is_anonymous, location_table.spaces_of(frames.astype(np.int32)), 0)
    is_user = location_table.level[frames] != ord("k")
    rank = ranks(is_user, dso_of < 0, dso_of, owner, column.same)
    return column._replace(same=rank, order=rank, text=text, wide=lambda i: column.wide(i) + int(location_table.symbol[frames[i]] >= 0))


def _by_address(texts: KeyTexts, frames: Int64, address_of: Callable[[int], int]) -> KeyColumn:
    location_table = texts.locations
    locations = sample_locations(frames)
    addresses = np.array([address_of(frame) for frame in frames.tolist()], np.uint64)
    rank = ranks(addresses.view(np.int64))

    def wide(i: int) -> int:
        if location_table.symbol[frames[i]] < 0:
            return UNNAMED_WIDTH
        return byte_width(location_table.name(int(frames[i]))) + _LEVEL_WIDTH + _ADDRESS_WIDTH

    unnamed = location_table.symbol[frames] < 0
    return KeyColumn(rank, rank, lambda i: symbol_text(location_table, int(locations[i]), int(addresses[i])), wide, unnamed=unnamed)


def dso(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of files with the data; names descend, as in perf."""
    location_table = texts.locations
    rank = ranks(-location_table.dso_ranks(sample_locations(frames)))

    def wide(i: int) -> int:
        return byte_width(location_table.dso_name(int(frames[i]))) if location_table.dso[frames[i]] >= 0 else texts.style.unnamed_dso_width

    return KeyColumn(rank, rank, lambda i: location_table.dso_name(int(frames[i])), wide)


def physical(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of physical addresses, with the level of the code that first used each."""
    numbers = values.view(np.uint64)
    addresses = numbers & np.uint64((1 << PHYSICAL_BITS) - 1)
    rank = ranks(addresses.view(np.int64))

    def text(i: int) -> str:
        address = int(addresses[i])
        level = _LEVELS.get(int(numbers[i]) >> PHYSICAL_BITS, ".")
        return f"[{level}] {'0x' if address else ''}{address:016x}"

    return KeyColumn(rank, rank, text)


def _part(shift: int, bits: int, word: Callable[[MemoryWords, int], str]) -> Callable[[KeyTexts, Int64], KeyColumn]:
    """Return a key over one part of data_src: compared as a number, formatted like perf."""

    def column(texts: KeyTexts, values: Int64) -> KeyColumn:
        rank = ranks(values >> shift & (1 << bits) - 1)

        def text(i: int) -> str:
            return word(texts.memory, int(values.view(np.uint64)[i]))[:_LONGEST] if texts.memory else "N/A"

        return KeyColumn(rank, rank, text)

    return column


level = _part(5, 14, lambda memory, data_src: memory.level_text(data_src))
snoop = _part(19, 5, lambda memory, data_src: memory.snoop_text(data_src))
locked = _part(24, 2, lambda memory, data_src: memory.lock_text(data_src))
tlb = _part(26, 7, lambda memory, data_src: memory.tlb_text(data_src))
blocked = _part(40, 3, lambda memory, data_src: memory.block_text(data_src))


#: the sort keys of memory accesses, in perf's order of search
MEMORY_KEYS: Final = (
    SortKey("symbol_daddr", "Data Symbol", "data", data_symbol, ColumnCell.CUT, mode=Mode.MEMORY),
    SortKey("dso_daddr", "Data Object", "data", dso, mode=Mode.MEMORY),
    SortKey("locked", "Locked", "data_src", locked, ColumnCell.CUT, 6, Mode.MEMORY),
    SortKey("tlb", "TLB access", "data_src", tlb, ColumnCell.PADDED, 22, Mode.MEMORY),
    SortKey("mem", "Memory access", "data_src", level, ColumnCell.PADDED, 39, Mode.MEMORY),
    SortKey("snoop", "Snoop", "data_src", snoop, ColumnCell.PADDED, 12, Mode.MEMORY),
    SortKey("dcacheline", "Data Cacheline", "data", cache_line, ColumnCell.CUT, 22, Mode.MEMORY),
    SortKey("symbol_iaddr", "Code Symbol", "frame", code_symbol, ColumnCell.CUT, mode=Mode.MEMORY),
    SortKey("phys_daddr", "Data Physical Address", "physical", physical, ColumnCell.PADDED, 22, Mode.MEMORY),
    SortKey("data_page_size", "Data Page Size", "data_page_size", page_size, ColumnCell.LEFT, 22, Mode.MEMORY),
    SortKey("blocked", "Blocked", "data_src", blocked, ColumnCell.CUT, 10, Mode.MEMORY),
)
