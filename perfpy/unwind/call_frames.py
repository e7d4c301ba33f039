"""The call frame information of one file: addresses -> rules.

What enters: the ELF file that ran, and the one with its symbols, which may have more. What leaves: FrameRules for
addresses within the file; only the entries that are asked for are read.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from perfpy.symbols.files.compressed_files import mini_debug_info
from perfpy.symbols.files.elf import DAMAGE, EM_ARM, reason_of
from perfpy.unwind.frame_index import NONE, index_of, section_of
from perfpy.unwind.frame_program import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.unwind.arm_tables import ArmTables
    from perfpy.unwind.frame_index import FrameIndex
    from perfpy.unwind.frame_program import FrameRows
    from perfpy.unwind.rules import FrameRules

# instructions that are run for one file: more than any library has, and a few seconds' worth
_COST_MOST: Final = 1 << 22
_STUBS: Final = (".plt", ".plt.sec", ".plt.got", ".iplt")


class CallFrames:
    """The call frame information of a file: .eh_frame first, then .debug_frame, which may be in a debug file."""

    def __init__(self, runtime: ElfFile, symbols: ElfFile | None = None) -> None:
        self._runtime = runtime
        self._symbols = symbols
        self._rows: dict[tuple[int, int], FrameRows | None] = {}
        self._cost = 0

    def addresses(self, offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Offsets in the file -> addresses, by which call frame information goes."""
        found = offsets.copy()
        for segment in self._runtime.segments[::-1]:
            start, size = np.uint64(segment["offset"]), np.uint64(segment["filesz"])
            inside = offsets - start < size
            found[inside] = offsets[inside] - start + np.uint64(segment["vaddr"])
        return found

    def find(self, offsets: NDArray[np.uint64]) -> list[FrameRules | None]:
        """The rules at offsets in the file; None where it says nothing of the code."""
        addresses = self.addresses(offsets)
        found: list[FrameRules | None] = [None] * len(addresses)
        missing = list(range(len(addresses)))
        for number in range(len(_SOURCES)):
            if not missing:
                break
            index = self._index(number)
            if index is None:
                continue
            entries = index.offsets_of(addresses[missing]).tolist()
            for row, entry in zip(missing, entries, strict=True):
                if entry != NONE:
                    rows = self._rows_of(number, index, entry)
                    found[row] = rows.find(int(addresses[row])) if rows else None
            missing = [row for row in missing if found[row] is None]
        if missing and self._arm:
            for row in missing:
                found[row] = self._arm.find(int(addresses[row]))
        return found

    def is_stub(self, offsets: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which offsets are in the procedure linkage table."""
        found = np.zeros(len(offsets), bool)
        for section in filter(None, map(self._runtime.section, _STUBS)):
            found |= offsets - np.uint64(section.offset) < np.uint64(section.size)
        return found

    def words(self, offsets: NDArray[np.uint64], word: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """The words at offsets in the file, and whether it has them."""
        content = self._runtime.content
        order: Literal["little", "big"] = "little" if self._runtime.endian == "<" else "big"
        known = offsets <= np.uint64(max(len(content) - word, 0))
        words = [int.from_bytes(content[offset : offset + word], order) for offset in np.where(known, offsets, 0).tolist()]
        return np.array(words, np.uint64), known

    def _index(self, number: int) -> FrameIndex | None:
        source: FrameIndex | None = getattr(self, _SOURCES[number])
        return source

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
        mini = mini_debug_info(self._runtime)
        return _index_of(mini, ".debug_frame") if mini else None

    @cached_property
    def _arm(self) -> ArmTables | None:
        if self._runtime.machine != EM_ARM:
            return None
        from perfpy.unwind.arm_tables import ArmTables  # of few recordings

        try:
            return ArmTables(self._runtime)
        except DAMAGE as damage:
            self._runtime.flaw(f"unwinding tables of Arm: {reason_of(damage)}")
            return None

    def _rows_of(self, number: int, index: FrameIndex, offset: int) -> FrameRows | None:
        """The rows of an entry; None where it is damaged."""
        key = (number, offset)
        if key not in self._rows:
            self._rows[key] = self._run(index, offset)
        return self._rows[key]

    def _run(self, index: FrameIndex, offset: int) -> FrameRows | None:
        section, file = index.section, self._runtime
        try:
            if self._cost > _COST_MOST:
                raise ValueError("more instructions than code can need; callchains end here")
            rows = rows_of(section.entry(offset), endian=file.endian, word=file.bits // 8)
        except DAMAGE as damage:
            file.flaw(f"call frame information: {reason_of(damage)}")
            self._cost += 1
            return None
        self._cost += rows.cost
        return rows


#: where an address is looked for, one after the other
_SOURCES: Final = ("_of_runtime", "_for_debuggers", "_of_symbols", "_mini")


def _index_of(file: ElfFile | None, name: str) -> FrameIndex | None:
    """The entries of a file's section; None where it has none."""
    if file is None:
        return None
    try:
        section = section_of(file, name)
        return index_of(file, section) if section else None
    except DAMAGE as damage:
        file.flaw(f"section {name!r}: {reason_of(damage)}")
        return None
