"""The call frame information of one file: addresses to rules.

The ELF file that ran and the one with its symbols may both have entries. Only entries of requested addresses are read.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.caches.elf_cache import key_of
from perfpy.symbols.files.compressed_files import read_mini_debug_info
from perfpy.symbols.files.elf import DAMAGE, EM_ARM, reason_of
from perfpy.unwind.call_frame_info.encoded import DATA_RELATIVE, OMITTED, ByteReader
from perfpy.unwind.call_frame_info.frame_entries import FrameSection
from perfpy.unwind.call_frame_info.frame_program import initial_state, rows_of
from perfpy.unwind.call_frame_info.kept_rules import UNASKED, KeptRules, KnownRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.unwind.call_frame_info.arm_tables import ArmTables
    from perfpy.unwind.call_frame_info.frame_entries import CommonEntry
    from perfpy.unwind.call_frame_info.frame_program import FrameRows, InitialState
    from perfpy.unwind.rules import FrameRules


# instructions to run for one file: some seconds
_COST_MOST: Final = 1 << 24
_COST_OF_DAMAGE: Final = 1 << 8
_ROWS_MOST: Final = 1 << 18  # of one file
_STUBS: Final = (".plt", ".plt.sec", ".plt.got", ".iplt")


class CallFrames:
    """The call frame information of a file: .eh_frame first, then .debug_frame, which may be in a debug file."""

    def __init__(self, runtime: ElfFile, symbols: ElfFile | None = None) -> None:
        self._runtime = runtime
        self._symbols = symbols
        self._known_rules = KnownRules()
        self._initial: dict[CommonEntry, InitialState] = {}
        self._rows: dict[tuple[FrameIndex, int], FrameRows] = {}
        self._rows_kept = 0
        self._cost = 0
        self._cached_rules: KeptRules | None = None

    def keep(self) -> None:
        """Load cached rules of these files, and cache new ones for later runs."""
        if self._cached_rules is None and (key := key_of("", self._runtime, self._symbols or self._runtime)):
            self._cached_rules = KeptRules(key)
            self._cached_rules.load(self._known_rules)
            weakref.finalize(self, self._cached_rules.store, self._known_rules)

    def addresses(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Convert offsets in the file to the addresses that call frame information uses."""
        addresses = offsets.copy()
        for segment in self._runtime.segments[::-1]:
            start, size = np.uint64(segment["offset"]), np.uint64(segment["filesz"])
            inside = offsets - start < size
            addresses[inside] = offsets[inside] - start + np.uint64(segment["vaddr"])
        return addresses

    @property
    def rules(self) -> list[FrameRules]:
        """All rules found so far, by row."""
        return self._known_rules.rules

    def find(self, offsets: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the rows of the rules at offsets in the file; negative for code without rules."""
        addresses = self.addresses(offsets)
        numbers = self._known_rules.find(addresses)
        unasked = numbers == UNASKED
        if not unasked.any():
            return numbers
        fresh = distinct(addresses[unasked]).tolist()
        rules = self._look_up(fresh)
        self._known_rules.add(fresh, [rules.get(address) for address in fresh])
        return self._known_rules.find(addresses)

    def _look_up(self, addresses: list[int]) -> dict[int, FrameRules | None]:
        """Look up the rules at addresses, which are ascending."""
        rules: dict[int, FrameRules | None] = {}
        for name in _SOURCES:
            index: FrameIndex | None = getattr(self, name) if addresses else None
            if index is None:
                continue
            entries = index.offsets_of(np.array(addresses, np.uint64)).tolist()
            begin = 0
            while begin < len(entries):
                end = begin + 1
                while end < len(entries) and entries[end] == entries[begin]:
                    end += 1
                if entries[begin] != NONE:
                    rows = self._run(index, entries[begin], addresses[begin:end])
                    rules.update(zip(addresses[begin:end], rows, strict=True))
                begin = end
            addresses = [address for address in addresses if rules.get(address) is None]
        tables = self._arm if addresses else None
        if tables is not None:
            rules.update((address, tables.find(address)) for address in addresses)
        return rules

    def is_stub(self, offsets: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which offsets are in the procedure linkage table."""
        mask = np.zeros(len(offsets), bool)
        for section in filter(None, map(self._runtime.section, _STUBS)):
            mask |= offsets - np.uint64(self._runtime.mapped_offset(section)) < np.uint64(section.size)
        return mask

    def words(self, offsets: NDArray[np.uint64], word: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Read the words at offsets in the file; also return which of them the file contains."""
        content = self._runtime.content
        order: Literal["little", "big"] = "little" if self._runtime.endian == "<" else "big"
        is_readable = offsets <= np.uint64(max(len(content) - word, 0))
        words = [int.from_bytes(content[offset : offset + word], order) for offset in np.where(is_readable, offsets, 0).tolist()]
        return np.array(words, np.uint64), is_readable

    @cached_property
    def _of_runtime(self) -> FrameIndex | None:
        return _index_of(self._runtime, ".eh_frame")

    @cached_property
    def _for_debuggers(self) -> FrameIndex | None:
        return _index_of(self._runtime, ".debug_frame")

    @cached_property
    def _of_symbols(self) -> FrameIndex | None:
        return _index_of(self._symbols, ".debug_frame") if self._symbols not in (None, self._runtime) else None

    @cached_property
    def _mini(self) -> FrameIndex | None:
        mini = read_mini_debug_info(self._runtime)
        return _index_of(mini, ".debug_frame") if mini else None

    @cached_property
    def _arm(self) -> ArmTables | None:
        if self._runtime.machine != EM_ARM:
            return None
        from perfpy.unwind.call_frame_info.arm_tables import ArmTables  # few recordings need it

        try:
            return ArmTables(self._runtime)
        except DAMAGE as damage:
            self._runtime.flaw(f"unwinding tables of Arm: {reason_of(damage)}")
            return None

    def _run(self, index: FrameIndex, offset: int, addresses: list[int]) -> Sequence[FrameRules | None]:
        """Return an entry's rules at addresses; none if the entry is damaged."""
        try:
            return (self._rows.get((index, offset)) or self._read(index, offset)).rules_at(addresses)
        except DAMAGE as damage:
            self._runtime.flaw(f"call frame information: {reason_of(damage)}")
            self._cost += _COST_OF_DAMAGE
            return [None] * len(addresses)

    def _read(self, index: FrameIndex, offset: int) -> FrameRows:
        """Return the rows of an entry. They are cached, because most code is looked up again."""
        if self._cost > _COST_MOST:
            raise ValueError("more instructions than code can need; callchains end here")
        endian, word = self._runtime.endian, self._runtime.bits // 8
        entry = index.section.entry(offset)
        initial = self._initial.get(entry.common)
        if initial is None:
            initial = self._initial[entry.common] = initial_state(entry.common, endian=endian, word=word)
        rows = rows_of(entry, initial, endian=endian, word=word)
        self._cost += rows.cost
        if self._cached_rules is not None:
            self._cached_rules.cost += rows.cost
        self._rows_kept += len(rows.starts)
        if self._rows_kept > _ROWS_MOST:
            self._rows.clear()
            self._rows_kept = len(rows.starts)
        self._rows[index, offset] = rows
        return rows


#: The sections to search for an address, in order.
_SOURCES: Final = ("_of_runtime", "_for_debuggers", "_of_symbols", "_mini")


def _index_of(file: ElfFile | None, name: str) -> FrameIndex | None:
    """Return the entries of a file's section; None without the section."""
    if file is None:
        return None
    try:
        section = section_of(file, name)
        return index_of(file, section) if section else None
    except DAMAGE as damage:
        file.flaw(f"section {name!r}: {reason_of(damage)}")
        return None


_VERSION: Final = 1
_CODES: Final = {0x3: "u4", 0x4: "u8", 0xB: "i4", 0xC: "i8"}
NONE: Final = -1


class FrameIndex:
    """The FDEs of one section. starts: u64, sorted; offsets: of the FDEs in the section."""

    def __init__(self, section: FrameSection, starts: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        self.section = section
        if len(starts) and not bool((starts[1:] >= starts[:-1]).all()):
            order = np.argsort(starts, kind="stable")
            starts, offsets = starts[order], offsets[order]
        self._starts = starts
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._starts)

    def offsets_of(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the offset of the last FDE that begins at or before each address (it may end before the address), or NONE."""
        if not len(self._starts):
            return np.full(len(addresses), NONE, np.int64)
        row = np.searchsorted(self._starts, addresses, side="right") - 1
        offsets: NDArray[np.int64] = np.where(row >= 0, self._offsets[np.maximum(row, 0)], NONE)
        return offsets


def section_of(file: ElfFile, name: str) -> FrameSection | None:
    """Return a file's .eh_frame or .debug_frame; None if it is missing or empty."""
    section = file.section(name)
    data = bytes(file.data(section)) if section else b""
    if section is None or not data:
        return None
    return FrameSection(data, section.addr, is_eh=name == ".eh_frame", endian=file.endian, word=file.bits // 8)


def index_of(file: ElfFile, section: FrameSection) -> FrameIndex:
    """Return the FDEs of a file's section."""
    header = file.section(".eh_frame_hdr") if file.section(".eh_frame") else None
    if header is not None and section.address == _address(file, ".eh_frame"):
        index = _from_header(bytes(file.data(header)), header.addr, file, section)
        if index is not None:
            return index
    return read_through(section)


def read_through(section: FrameSection) -> FrameIndex:
    """Read all FDEs of a section."""
    rows = np.array(list(section.starts()), np.uint64).reshape(-1, 2)
    return FrameIndex(section, rows[:, 0].copy(), rows[:, 1].astype(np.int64))


def _address(file: ElfFile, name: str) -> int:
    section = file.section(name)
    return section.addr if section else NONE


def _from_header(data: bytes, address: int, file: ElfFile, section: FrameSection) -> FrameIndex | None:
    """Read the linker's table; None if it is unusable."""
    try:
        reader = ByteReader(data, file.endian, file.bits // 8)
        version, pointer, count_encoding, table = reader.take(4)
        if version != _VERSION or OMITTED in (count_encoding, table) or table & 0xF0 != DATA_RELATIVE or table & 0xF not in _CODES:
            return None
        reader.pointer(pointer, address, address)
        count = reader.pointer(count_encoding, address, address)
    except ValueError:
        return None
    kind: np.dtype[Any] = np.dtype(file.endian + _CODES[table & 0xF])
    count = min(count, (len(data) - reader.position) // (2 * kind.itemsize))
    rows = np.frombuffer(data, kind, 2 * count, reader.position).reshape(-1, 2)
    rows = rows.astype(np.int64).view(np.uint64) + np.uint64(address)
    if file.bits == 32:
        rows &= np.uint64(0xFFFFFFFF)
    return FrameIndex(section, rows[:, 0].copy(), (rows[:, 1] - np.uint64(section.address)).astype(np.int64))
