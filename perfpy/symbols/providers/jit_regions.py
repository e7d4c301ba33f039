"""Group the functions of a jitdump into few images, each of a region of memory, and the mappings that put them there.

An image is a shared object with all functions of a megabyte that never overlapped, at their distances in memory, with symbols, lines and
call frame information. perf creates an image per function: 10,000 files for a program of 10,000 functions, and as many tables for an
unwinder. All mappings of an image have the same distance from its beginning, so an unwinder sees one mapped file.

A function that overlaps an earlier one belongs to a new image and is mapped later. Adjacent functions are mapped together.
"""

from __future__ import annotations

import bisect
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.symbols.providers import jitdump
from perfpy.symbols.providers.jit_lines import CodeLine, debug_sections
from perfpy.symbols.providers.jitdump import CodeLoad, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.symbols.providers.jitdump import CodeMove, JitDump

_PAGE: Final = 0x1000
_REGION_SHIFT: Final = 20
_NEAR: Final = 0x400  # bytes between functions that are mapped with them
_LARGEST_FUNCTION: Final = 64 << 20
_LARGEST_DUMP: Final = 256 << 20  # bytes of memory that all images together may span


class CodeMapping(NamedTuple):
    """A mapping by a thread: from `time` on, `size` bytes at `address` are those at `offset` in the image."""

    time: int
    pid: int
    tid: int
    address: int
    size: int
    offset: int


class JitRegion(NamedTuple):
    """An image and its mappings."""

    image: bytes
    mappings: tuple[CodeMapping, ...]


def regions(dump: JitDump) -> list[JitRegion]:
    """Return the images of a dump's functions."""
    layout = _Layout()
    loads: dict[int, CodeLoad] = {}
    for event in dump.events:
        if isinstance(event, CodeLoad):
            loads[event.code_index] = event
            layout.add(event)
        elif event.code_index in loads:
            layout.add(_moved_load(loads[event.code_index], event))
    finished_regions, remaining = [], _LARGEST_DUMP
    for draft in layout.drafts:
        remaining -= draft.extent
        if remaining < 0:  # the dump reuses the same memory; later functions get no name
            break
        finished_regions.append(draft.build(dump))
    return finished_regions


def _moved_load(load: CodeLoad, move: CodeMove) -> CodeLoad:
    shift = move.address - load.address
    lines = tuple(line._replace(address=line.address + shift) for line in load.lines)
    inlined = tuple(code._replace(begin=code.begin + shift, end=code.end + shift) for code in load.inlined)
    return load._replace(time=move.time, tid=move.tid, address=move.address, lines=lines, inlined=inlined)


class _Layout:
    """The assignment of functions to images."""

    def __init__(self) -> None:
        self.drafts: list[_RegionDraft] = []
        self._newest: dict[int, _RegionDraft] = {}  # megabyte -> the image for further functions

    def add(self, load: CodeLoad) -> None:
        if not 0 < len(load.code) <= _LARGEST_FUNCTION or load.address + len(load.code) >= 1 << 63:
            return
        number = load.address >> _REGION_SHIFT
        draft = self._newest.get(number)
        if draft is None or not draft.has_room(load):
            draft = self._newest[number] = _RegionDraft(over_others=draft is not None)
            self.drafts.append(draft)
        draft.add(load)


class _RegionDraft:
    """An unfinished image. `over_others`: it overlaps code of an earlier image."""

    def __init__(self, *, over_others: bool) -> None:
        self._over_others = over_others
        self._loads: list[CodeLoad] = []
        self._starts: list[int] = []  # sorted; the ends are in the same order
        self._ends: list[int] = []
        self._mappings: list[list[int]] = []  # time, pid, tid, address, end

    def has_room(self, load: CodeLoad) -> bool:
        """Whether a function overlaps no other one of this image."""
        where = bisect.bisect_right(self._starts, load.address)
        begins_later = where == len(self._starts) or self._starts[where] >= load.address + len(load.code)
        return begins_later and (not where or self._ends[where - 1] <= load.address)

    def add(self, load: CodeLoad) -> None:
        end = load.address + len(load.code)
        where = bisect.bisect_right(self._starts, load.address)
        self._starts.insert(where, load.address)
        self._ends.insert(where, end)
        self._loads.append(load)
        last = self._mappings[-1] if self._mappings else None
        if last and not self._over_others and last[-1] <= load.address <= last[-1] + _NEAR:
            last[-1] = end
        else:
            self._mappings.append([load.time, load.pid, load.tid, load.address, end])

    @property
    def extent(self) -> int:
        """The distance from the first function to the end of the last, in bytes."""
        return self._ends[-1] - self._starts[0]

    def build(self, dump: JitDump) -> JitRegion:
        """Build the image and its mappings."""
        shift = _PAGE - (self._starts[0] & -_PAGE)  # the distance from addresses in memory to those in the image
        loads = sorted(self._loads, key=lambda load: load.address)
        size = self._ends[-1] + shift - _PAGE
        text = bytearray(size)
        for load in loads:
            begin = load.address + shift - _PAGE
            text[begin : begin + len(load.code)] = load.code
        sections = [Section(b".text", 1, 6, bytes(text), align=16), *frame_sections(loads, shift, _PAGE + size, dump.endian)]
        sections += _line_sections(loads, shift, size, dump.endian)
        symbols = [(load.name, load.address + shift, len(load.code)) for load in loads]
        image = jitdump.shared_object(sections, symbols, dump.machine, dump.endian, text_offset=_PAGE)
        return JitRegion(
            image, tuple(CodeMapping(time, pid, tid, start, end - start, start + shift) for time, pid, tid, start, end in self._mappings)
        )


def _line_sections(loads: list[CodeLoad], shift: int, size: int, endian: str) -> Iterator[Section]:
    lines = [line._replace(address=line.address + shift) for load in loads for line in load.lines]
    begins = {line.address for line in lines}
    for load in loads:  # the last line of a function ends with it
        end = load.address + len(load.code) + shift
        if load.lines and end not in begins:
            lines.append(CodeLine(end, load.lines[-1].file, 0))
    inlined = [code._replace(begin=code.begin + shift, end=code.end + shift) for load in loads for code in load.inlined]
    if lines:
        for name, data in debug_sections(lines, _PAGE, size, endian, inlined).items():
            yield Section(name, 1, 0, data)


_PC_RELATIVE: Final = 0x10  # DW_EH_PE_pcrel
_FORMATS: Final = {0x1B: "i", 0x1C: "q", 0x10: "q", 0x13: "I"}  # sdata4, sdata8, absptr, udata4, all pcrel
_TABLE: Final = bytes((1, 0x1B, 0x03, 0x3B))  # version 1; pointer: pcrel sdata4; count: udata4; table: datarel sdata4


def frame_sections(loads: Sequence[CodeLoad], shift: int, end: int, endian: str) -> list[Section]:
    """Return the sections for the image, from `end` on. `shift` is the distance from addresses in memory to those in the image."""
    begin = end + -end % 8
    frames, table = bytearray(), []
    for load in loads:
        piece = _relocate(load, load.address + shift, begin + len(frames), endian) if load.eh_frame else None
        if piece:
            table += [(load.address + shift, begin + len(frames) + offset) for offset in piece[1]]
            frames += piece[0]
    if not table:
        return []
    header = begin + len(frames) + 4
    rows = b"".join(struct.pack(endian + "ii", address - header, entry - header) for address, entry in sorted(table))
    head = _TABLE + struct.pack(endian + "iI", begin - (header + 4), len(table)) + rows
    return [Section(b".eh_frame", 1, 2, bytes(frames) + bytes(4), align=8), Section(b".eh_frame_hdr", 1, 2, head, align=4)]


def _relocate(load: CodeLoad, address: int, new: int, endian: str) -> tuple[bytes, list[int]] | None:
    """Return a function's entries relocated to the address `new`, and the offsets of its FDEs. None if they cannot be parsed."""
    data = bytearray(load.eh_frame)
    distance = len(load.code) + -len(load.code) % 8  # the JIT compiler's distance from the function to its .eh_frame
    code, fde_offsets, position = "", [], 0
    while position + 8 <= len(data):
        length, pointer = struct.unpack_from(endian + "II", data, position)
        if not length or position + 4 + length > len(data):
            break
        if not pointer:
            code = _format_of(bytes(data[position + 8 : position + 4 + length]))
        elif not code or length < 4 + struct.calcsize(code):
            return None
        else:
            field = position + 8
            target = struct.unpack_from(endian + code, data, field)[0] + distance + field
            if target != 0:  # of another function, or of a part
                return None
            struct.pack_into(endian + code, data, field, address - (new + field))
            fde_offsets.append(position)
        position += 4 + length
    return (bytes(data[:position]), fde_offsets) if fde_offsets and not position % 4 else None


def _format_of(body: bytes) -> str:
    """Return the struct format of code addresses in FDEs of a CIE, "" if unknown. `body` starts at the CIE's version."""
    version, _, remaining = body[:1], *body[1:].partition(b"\0")[1:]
    augmentation = body[1:].partition(b"\0")[0]
    if version != b"\x01" or augmentation[:1] != b"z" or augmentation[1:] != b"R":
        return ""
    for _ in range(3):  # code and data alignment factors, return address register (a byte in version 1)
        remaining = _after_leb(remaining)
    remaining = _after_leb(remaining)  # the length of the augmentation data
    return _FORMATS.get(remaining[0], "") if remaining else ""


def _after_leb(data: bytes) -> bytes:
    index = next((index for index, byte in enumerate(data) if byte < 0x80), len(data))
    return data[index + 1 :]
