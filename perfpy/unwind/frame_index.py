"""Find the FDE of an address.

FrameIndex has the starts of all FDEs, sorted. They come from the linker's table in .eh_frame_hdr, or without it from reading all entries of
.eh_frame or .debug_frame. Layout of .eh_frame_hdr (Linux Standard Base):

u8 version (1), encoding of eh_frame_ptr, of fde_count, of the table; eh_frame_ptr; fde_count
{ start of the code; address of the FDE } [fde_count], sorted
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.unwind.encoded import DATA_RELATIVE, OMITTED, ByteReader
from perfpy.unwind.frame_entries import FrameSection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile

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
