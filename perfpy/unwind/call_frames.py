"""The call frame information of one file: addresses to rules.

The ELF file that ran and the one with its symbols may both have entries. Only entries of requested addresses are read.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.files.debug_files import ColumnFiles, folder, key_of
from perfpy.symbols.files.elf import DAMAGE, EM_ARM, read_mini_debug_info, reason_of
from perfpy.unwind.frame_entries import DATA_RELATIVE, OMITTED, ByteReader, FrameSection, initial_state, rows_of
from perfpy.unwind.rules import OFFSET, REGISTER, SAME, UNDEFINED, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.unwind.arm_tables import ArmTables
    from perfpy.unwind.frame_entries import CommonEntry, FrameRows, InitialState
    from perfpy.unwind.rules import Rule


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

    def starts(self) -> NDArray[np.uint64]:
        """Return the addresses at which functions begin, or parts of them, ascending."""
        return np.zeros(0, np.uint64) if self._of_runtime is None else self._of_runtime.starts

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
        from perfpy.unwind.arm_tables import ArmTables  # few recordings need it

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
    """Return the entries of a file's section, or None without the section."""
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
    """The FDEs of one section. starts: addresses of their code, u64, sorted; offsets: of the FDEs in the section."""

    def __init__(self, section: FrameSection, starts: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        self.section = section
        if len(starts) and not bool((starts[1:] >= starts[:-1]).all()):
            order = np.argsort(starts, kind="stable")
            starts, offsets = starts[order], offsets[order]
        self.starts = starts
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self.starts)

    def offsets_of(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the offset of the last FDE that begins at or before each address (it may end before the address), or NONE."""
        if not len(self.starts):
            return np.full(len(addresses), NONE, np.int64)
        row = np.searchsorted(self.starts, addresses, side="right") - 1
        offsets: NDArray[np.int64] = np.where(row >= 0, self._offsets[np.maximum(row, 0)], NONE)
        return offsets


def section_of(file: ElfFile, name: str) -> FrameSection | None:
    """Return a file's .eh_frame or .debug_frame, or None if it is missing or empty."""
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
    """Read the linker's table, or None if it is unusable."""
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


# Cache the rules of one file between runs. A report on a large compiler looks up some ten thousand addresses; their instructions need not
# run again. Expressions and missing rules are not cached: both are rare and quickly found.

_LIMIT: Final = 64 << 20
_MOST: Final = 1 << 18  # addresses of one file
_WORTH_KEEPING: Final = 1 << 13  # instructions that ran: some milliseconds
_KINDS: Final = frozenset({SAME, UNDEFINED, OFFSET, VAL_OFFSET, REGISTER})
_CACHE_VERSION: Final = "frames1"  # of the interpretation of instructions, and of the columns

#: Instead of the row of an address's rules: no rules exist; not looked up yet.
SILENT: Final = -1
UNASKED: Final = -2


class KnownRules:
    """The rules at some addresses of a file. rules: the distinct ones, by row."""

    def __init__(self) -> None:
        self.rules: list[FrameRules] = []
        self._row: dict[FrameRules, int] = {}
        self._addresses = np.zeros(0, np.uint64)  # ascending
        self._which = np.zeros(0, np.int32)

    def find(self, addresses: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the row of the rules at each address, or SILENT, or UNASKED."""
        if not len(self._addresses):
            return np.full(len(addresses), UNASKED, np.int32)
        position = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        numbers: NDArray[np.int32] = np.where(self._addresses[position] == addresses, self._which[position], np.int32(UNASKED))
        return numbers

    def add(self, addresses: list[int], frame_rules: Sequence[FrameRules | None]) -> None:
        """Add the results for new addresses, which are ascending."""
        rows = [SILENT if rules is None else self._row.setdefault(rules, len(self._row)) for rules in frame_rules]
        self.rules += list(self._row)[len(self.rules) :]
        added = np.array(addresses, np.uint64)
        position = np.searchsorted(self._addresses, added)
        self._addresses, self._which = np.insert(self._addresses, position, added), np.insert(self._which, position, rows)

    def begin(self, rules: list[FrameRules], addresses: NDArray[np.uint64], which: NDArray[np.int32]) -> None:
        """Start with cached rules."""
        self.rules, self._row = rules, {one: row for row, one in enumerate(rules)}
        order = np.argsort(addresses)
        self._addresses, self._which = addresses[order], which[order]

    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Return the addresses with rules, and the row of the rules of each."""
        has_rule = self._which >= 0
        return self._addresses[has_rule], self._which[has_rule]


class KeptRules:
    """The cache file of one file's rules.

    Args:
        key: changes with the file.
        path: of the cache file ("": in the default folder).

    Attributes:
        cost: the instructions that ran for new rules.
    """

    def __init__(self, key: str, path: str = "") -> None:
        self._key = f"{_CACHE_VERSION} {key}"
        self._files = ColumnFiles(path or folder("unwinding"), ".frames", _LIMIT)
        self.cost = 0

    def load(self, known_rules: KnownRules) -> None:
        """Load cached rules, if there are any."""
        columns = self._files.columns(self._key)
        try:
            if columns:
                known_rules.begin(*_decode(columns))
        except (KeyError, ValueError, IndexError, TypeError):
            return

    def store(self, known_rules: KnownRules) -> None:
        """Write the rules, if enough instructions ran for them."""
        if self.cost < _WORTH_KEEPING:
            return
        addresses, which = known_rules.columns()
        plain = np.array([_is_plain(rules) for rules in known_rules.rules], bool)[which]
        if 0 < np.count_nonzero(plain) <= _MOST:
            self._files.keep(self._key, _encode(addresses[plain], which[plain], known_rules.rules))
        self.cost = 0


def _is_plain(rules: FrameRules) -> bool:
    """Whether rules consist of numbers that fit the columns; files may contain registers and offsets of 64 bits."""
    if isinstance(rules.cfa, bytes) or rules.reach is not None or not all(rule[0] in _KINDS for _, rule in rules.registers):
        return False
    return max(*rules.cfa, rules.return_column, *(register for register, _ in rules.registers)) < 1 << 63


def _encode(addresses: NDArray[np.uint64], which: NDArray[np.int32], rules: list[FrameRules]) -> dict[str, NDArray[Any]]:
    present, numbers = np.unique(which, return_inverse=True)
    encoded_rows = [rules[row] for row in present.tolist()]
    rows = [(*one.cfa, one.return_column, one.is_signal, len(one.registers)) for one in encoded_rows]
    saved = [(register, kind, value) for one in encoded_rows for register, (kind, value) in one.registers]
    return {
        "address": addresses,
        "number": numbers.astype(np.int32),
        "rules": np.array(rows, np.int64),
        "registers": np.array(saved, np.int64),
    }


def _decode(columns: dict[str, NDArray[Any]]) -> tuple[list[FrameRules], NDArray[np.uint64], NDArray[np.int32]]:
    """Decode the result of _encoded. Raises ValueError and other errors for other columns."""
    rows, saved = columns["rules"].reshape(-1, 5).tolist(), columns["registers"].reshape(-1, 3).tolist()
    rules, decoded = list[FrameRules](), 0
    for register, offset, column, is_signal, count in rows:
        mine = saved[decoded : decoded + count]
        if len(mine) != count or not _KINDS.issuperset(kind for _, kind, _ in mine):
            raise ValueError("rules of another version")
        registers: tuple[tuple[int, Rule], ...] = tuple((number, (kind, value)) for number, kind, value in mine)
        rules.append(FrameRules((register, offset), registers, column, bool(is_signal)))
        decoded += count
    addresses, which = columns["address"], columns["number"]
    is_ours = addresses.dtype == np.uint64 and which.dtype == np.int32 and addresses.shape == which.shape == (len(addresses),)
    if not is_ours or (len(which) and not 0 <= int(which.min()) <= int(which.max()) < len(rules)):
        raise ValueError("rows of another version")
    return rules, addresses, which
