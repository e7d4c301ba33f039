"""CIEs and FDEs: the entries of .eh_frame and .debug_frame.

Input: a section's bytes. Output: FrameEntry values: a range of code and the instructions for it. Layout:
DWARF 5, section 6.4.1; the Linux Standard Base for .eh_frame, which differs in the ids and in augmentations:

    u32 length (0xffffffff: u64 follows); u32 id (of an FDE: where its CIE is)
    CIE: u8 version; char augmentation[]; [u8 address size, u8 segment selector size (4)]; uleb code_align; sleb data_align;
         return register (u8 in version 1, uleb); [uleb size; augmentation data]; instructions
    FDE: start, size of the code; [uleb size; augmentation data]; instructions
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.unwind.call_frame_info.encoded import OMITTED, ByteReader

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG: Final = 0xFFFFFFFF
_ABSOLUTE: Final = 0
_USUAL: Final = 0x1B  # relative to its own address, 4 bytes
_ENTRIES_MOST: Final = 1 << 18
_ALIGN_MOST: Final = 1 << 16
_CIES_KEPT: Final = 1 << 12


class CommonEntry(NamedTuple):
    """A CIE: the common part of FDEs. encoding: of their addresses; augmented: whether they have augmentation data."""

    code_align: int
    data_align: int
    return_column: int
    encoding: int
    augmented: bool
    is_signal: bool
    program: bytes


class FrameEntry(NamedTuple):
    """An FDE: the code in [start, end), and the instructions for it, which follow those of the CIE."""

    start: int
    end: int
    common: CommonEntry
    program: bytes


class _Header(NamedTuple):
    """The header of an entry. body: offset after the id; end: offset after the entry; common: offset of its CIE, -1 for a CIE."""

    body: int
    end: int
    common: int


class FrameSection:
    """The entries of one section. address: of the section in memory; is_eh: .eh_frame instead of .debug_frame."""

    def __init__(self, data: bytes, address: int, *, is_eh: bool, endian: str, word: int) -> None:
        self.data = data
        self.address = address
        self._is_eh = is_eh
        self._endian = endian
        self._word = word
        self._usual = Struct(endian + "iI")
        self._mask = (1 << 8 * word) - 1
        self._cies: dict[int, CommonEntry] = {}

    def entry(self, offset: int) -> FrameEntry:
        """Return the FDE at an offset. Raises ValueError if there is none."""
        header = self._header(offset)
        if header is None or header.common < 0:
            raise ValueError(f"no FDE at {offset:#x}")
        common = self._common(header.common)
        if common.encoding == _USUAL and common.augmented and header.end - header.body > 8 and self.data[header.body + 8] < 0x80:
            distance, size = self._usual.unpack_from(self.data, header.body)
            start = (self.address + header.body + distance) & self._mask
            return FrameEntry(start, start + size, common, self.data[header.body + 9 + self.data[header.body + 8] : header.end])
        reader = self._reader(header.body, header.end)
        start, end = self._range(reader, common)
        if common.augmented:
            reader.take(reader.uleb())
        return FrameEntry(start, end, common, self.data[reader.position : header.end])

    def starts(self) -> Iterator[tuple[int, int]]:
        """Yield (start of the code, offset) of every valid FDE in file order."""
        offset = 0
        for _ in range(_ENTRIES_MOST):
            try:
                header = self._header(offset)
            except ValueError:
                return
            if header is None:
                return
            if header.common >= 0:
                try:
                    start, end = self._range(self._reader(header.body, header.end), self._common(header.common))
                except ValueError:
                    start = end = 0
                if end > start:
                    yield start, offset
            offset = header.end

    def _reader(self, position: int, end: int | None = None) -> ByteReader:
        return ByteReader(self.data, self._endian, self._word, position, end)

    def _header(self, offset: int) -> _Header | None:
        """Read the header at an offset; None after the last entry."""
        if not 0 <= offset <= len(self.data) - 4:
            return None
        reader = self._reader(offset)
        length = reader.number(4)
        is_long = length == _LONG
        if is_long:
            length = reader.number(8)
        if not length:
            return None
        at_id, end = reader.position, reader.position + length
        if end > len(self.data):
            raise ValueError(f"the entry at {offset:#x} ends beyond the section")
        width = 8 if is_long and not self._is_eh else 4
        number = reader.number(width)
        if self._is_eh:
            return _Header(reader.position, end, at_id - number if number else -1)
        return _Header(reader.position, end, -1 if number == (1 << 8 * width) - 1 else number)

    def _range(self, reader: ByteReader, common: CommonEntry) -> tuple[int, int]:
        start = reader.pointer(common.encoding, self.address)
        return start, start + reader.raw_pointer(common.encoding & 0x0F & ~0x8)

    def _common(self, offset: int) -> CommonEntry:
        common = self._cies.get(offset)
        if common is None:
            if len(self._cies) >= _CIES_KEPT:
                self._cies.clear()
            common = self._cies[offset] = self._parse(offset)
        return common

    def _parse(self, offset: int) -> CommonEntry:
        header = self._header(offset)
        if header is None or header.common >= 0:
            raise ValueError(f"no CIE at {offset:#x}")
        reader = self._reader(header.body, header.end)
        version = reader.byte()
        augmentation = reader.text()
        if augmentation.startswith(b"eh"):  # of g++ 2: an unused pointer
            reader.take(self._word)
        if version >= 4:
            reader.take(2)
        code_align, data_align = reader.uleb(), reader.sleb()
        if max(code_align, abs(data_align)) > _ALIGN_MOST:
            raise ValueError(f"the CIE at {offset:#x} counts in units of {code_align} and {data_align}")
        return_column = reader.byte() if version == 1 else reader.uleb()
        augmented, encoding = augmentation.startswith(b"z"), _ABSOLUTE
        if augmented:
            size = reader.uleb()
            encoding = self._encoding(augmentation, reader.position, reader.position + size)
            reader.take(size)
        program = self.data[reader.position : header.end]
        return CommonEntry(code_align, data_align, return_column, encoding, augmented, b"S" in augmentation, program)

    def _encoding(self, augmentation: bytes, position: int, end: int) -> int:
        """Return the encoding of addresses from the augmentation data."""
        reader = self._reader(position, end)
        for letter in augmentation[1:]:
            if letter == ord("R"):
                return reader.byte()
            if letter == ord("P"):
                encoding = reader.byte()
                if encoding != OMITTED:
                    reader.raw_pointer(encoding)
            elif letter == ord("L"):
                reader.byte()
            elif letter not in b"SBG":
                break
        return _ABSOLUTE
