"""Group the functions of a jitdump into few images, each of a region of memory, and the mappings that put them there.

An image is a shared object with all functions of a megabyte that never overlapped, at their distances in memory, with symbols, lines and
call frame information. perf creates an image per function: 10,000 files for a program of 10,000 functions, and as many tables for an
unwinder. All mappings of an image have the same distance from its beginning, so an unwinder sees one mapped file.

A function that overlaps an earlier one belongs to a new image and is mapped later. Adjacent functions are mapped together.
"""

from __future__ import annotations

import bisect
import re
import struct
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.records import code_mapping
from perfpy.symbols import jitdump
from perfpy.symbols.jitdump import CodeLine, CodeLoad, InlinedCall, InlinedCode, Section, debug_sections
from perfpy.untrusted import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.abi.records import Mmap2
    from perfpy.symbols.jitdump import JitDump, MapRecord


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

    def record(self, pid: int, image: str, identity: int) -> Mmap2:
        """Return the record of the mapping. pid: of the process in the recording; identity: of an event."""
        tid = self.tid if pid == self.pid else pid  # it has other ids in a container
        return code_mapping((pid, tid), (self.address, self.size, self.offset), image, self.time, identity)


class JitRegion(NamedTuple):
    """An image and its mappings."""

    image: bytes
    mappings: tuple[CodeMapping, ...]


def own_events(dump: JitDump, pid: int) -> JitDump:
    """Return a dump with the events of its own process alone: a program describes only its own code. pid: in the recording."""
    return dump._replace(events=[event for event in dump.events if event.pid in (pid, dump.pid)])


def regions(dump: JitDump) -> list[JitRegion]:
    """Return the images of a dump's functions."""
    layout = _Layout()
    loads: dict[int, CodeLoad] = {}
    for event in dump.events:
        if isinstance(event, CodeLoad):
            loads[event.code_index] = event
            layout.add(event)
        elif event.code_index in loads:
            load = loads[event.code_index]
            shift = event.address - load.address
            lines = tuple(line._replace(address=line.address + shift) for line in load.lines)
            inlined = tuple(code._replace(begin=code.begin + shift, end=code.end + shift) for code in load.inlined)
            layout.add(load._replace(time=event.time, tid=event.tid, address=event.address, lines=lines, inlined=inlined))
    finished_regions, remaining = [], _LARGEST_DUMP
    for draft in layout.drafts:
        remaining -= draft.extent
        if remaining < 0:  # the dump reuses the same memory; later functions get no name
            break
        finished_regions.append(draft.build(dump))
    return finished_regions


class MappedImages(NamedTuple):
    """Images by file name, and the records that map them with their times, sorted."""

    images: dict[str, bytes]
    mappings: list[tuple[int, Mmap2]]


def mapped_images(record: MapRecord, dump: JitDump, ids: Sequence[int]) -> MappedImages:
    """Return the images of a dump for readers that keep them in memory: files of these names do not exist. record: maps the dump."""
    images: dict[str, bytes] = {}
    mappings: list[tuple[int, Mmap2]] = []
    for number, region in enumerate(regions(own_events(dump, record.pid)), 1):
        name = files.below(files.below(files.build_id_cache(), "jit"), files.jit_image_name(record.pid, number))
        images[name] = region.image
        mappings += [(mapping.time, mapping.record(record.pid, name, ids[0] if ids else 0)) for mapping in region.mappings]
    return MappedImages(images, sorted(mappings, key=itemgetter(0)))


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


# Read V8's log of code (node --log-code --log-source-code): the source lines of compiled code, and the functions inlined there. V8's
# jitdump has lines with damaged file names and no inlined functions. The log has a line for each event, its fields between commas:
#
#     code-creation,JS,KIND,TIME,ADDRESS,SIZE,NAME FILE:LINE:COLUMN,FUNCTION,TIER
#     code-source-info,ADDRESS,SCRIPT,BEGIN,END,POSITIONS,INLININGS,FUNCTIONS
#     script-source,SCRIPT,URL,TEXT
#
# POSITIONS are C<offset in the code>O<offset in the script>[I<inlining>], INLININGS F<row of FUNCTIONS>O<offset of the
# call>[I<inlining>], and FUNCTIONS S<function>, addresses in hexadecimal. Offsets in scripts count UTF-16 units (V8's tools/profview
# reads them alike).

LARGEST: Final = 256 << 20  #: bytes of a log
_ESCAPE: Final = re.compile(r"\\(?:n|\\|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))")
_POSITION: Final = re.compile(r"C(\d{1,9})O(\d{1,9})(?:I(\d{1,6}))?")
_INLINING: Final = re.compile(r"F(\d{1,6})O(-?\d{1,9})(?:I(\d{1,6}))?")
_FUNCTION: Final = re.compile(r"S(0x[0-9a-f]{1,16})")
_LINE_END: Final = re.compile("\r\n?|\n|\u2028|\u2029")
_DEEPEST: Final = 32  # functions inlined into each other
_MOST_POSITIONS: Final = 1 << 16  # of a function


class _Script(NamedTuple):
    """The path of a script, and the offsets where its lines begin."""

    path: str
    beginnings: list[int]


class V8Code(NamedTuple):
    """The lines of compiled code, and what is inlined there; addresses as in the process."""

    lines: tuple[CodeLine, ...]
    inlined: tuple[InlinedCode, ...]


class V8Log:
    """The code of one log."""

    def __init__(self, text: str) -> None:
        self._scripts: dict[str, _Script] = {}
        self._script_of: dict[str, str] = {}  # function -> script
        self._names: dict[str, str] = {}  # function -> name
        self._infos: dict[tuple[int, int, str], list[list[str]]] = {}
        self._counts: dict[tuple[int, int, str], int] = {}
        self._taken: dict[tuple[int, int, str], int] = {}
        last: dict[str, tuple[tuple[int, int, str], str]] = {}
        for line in text.splitlines():
            kind, _, rest = line.partition(",")
            fields = rest.split(",")
            if kind == "code-creation" and len(fields) >= 8 and fields[0] in ("JS", "Function"):
                key = _key(fields)
                if key is not None:
                    last[fields[3]] = key, fields[-2]
                    self._counts[key] = self._counts.get(key, 0) + 1
                    self._names[fields[-2]] = key[2]
            elif kind == "code-source-info" and len(fields) >= 5 and fields[0] in last:
                key, function = last[fields[0]]
                self._infos.setdefault(key, []).append(fields)
                self._script_of[function] = fields[1]
            elif kind == "script-source" and len(fields) >= 3:
                self._scripts[fields[0]] = _Script(
                    _path(fields[1]), [0, *(match.end() for match in _LINE_END.finditer(_unescape(",".join(fields[2:]))))]
                )

    def take(self, address: int, size: int, name: str) -> V8Code | None:
        """Return the next code with an address, a size, and a name such as JS:*main /app.js:1:10, or None without positions."""
        key = (address, size, re.sub(r"^\w+:[*~^+]?'?", "", name))
        infos, number = self._infos.get(key, []), self._taken.get(key, 0)
        self._taken[key] = number + 1
        # Code without positions is logged without them: then which one they belong to is unknown.
        if len(infos) != self._counts.get(key) or number >= len(infos):
            return None
        info = infos[number]
        script, positions = info[1], _POSITION.findall(info[4])[:_MOST_POSITIONS]
        inlinings = _INLINING.findall(info[5]) if len(info) > 5 else []
        functions = _FUNCTION.findall(info[6]) if len(info) > 6 else []
        lines: list[CodeLine] = []
        inlined: list[InlinedCode] = []
        for row, (offset, position, inlining) in enumerate(positions):
            begin, end = int(offset), int(positions[row + 1][0]) if row + 1 < len(positions) else size
            chain = self._calls(script, inlining, inlinings, functions)
            source_line = None if chain is None else self._source_of(chain[-1][1] if chain else script, int(position))
            if chain is None or source_line is None or not 0 <= begin < end <= size:
                continue
            lines.append(CodeLine(address + begin, *source_line))
            if not chain:
                continue
            calls = tuple(call for call, _ in chain)
            if inlined and inlined[-1].end == address + begin and inlined[-1].calls == calls:
                inlined[-1] = inlined[-1]._replace(end=address + end)
            else:
                inlined.append(InlinedCode(address + begin, address + end, calls))
        return V8Code(tuple(lines), tuple(inlined)) if lines else None

    def _calls(
        self, script: str, inlining: str, inlinings: list[tuple[str, str, str]], functions: list[str]
    ) -> list[tuple[InlinedCall, str]] | None:
        """Return the inlined calls of a position, outermost first, each with the script of its function, or None if one is unknown."""
        rows: list[tuple[str, str, str]] = []
        while inlining:
            if int(inlining) >= len(inlinings) or len(rows) >= _DEEPEST:
                return None
            rows.append(inlinings[int(inlining)])
            inlining = rows[-1][2]
        calls: list[tuple[InlinedCall, str]] = []
        for number, offset, _ in reversed(rows):
            function = functions[int(number)] if int(number) < len(functions) else ""
            source_line = self._source_of(script, int(offset))
            if function not in self._script_of or source_line is None:
                return None
            script = self._script_of[function]
            calls.append((InlinedCall(f"JS:*{self._names[function]}", *source_line), script))
        return calls

    def _source_of(self, script: str, offset: int) -> tuple[str, int] | None:
        """Return the path and line of an offset in a script, or None for unknown scripts."""
        script_text = self._scripts.get(script)
        return (script_text.path, bisect_right(script_text.beginnings, offset)) if script_text and offset >= 0 else None


def _key(fields: list[str]) -> tuple[int, int, str] | None:
    try:
        return int(fields[3], 16), int(fields[4]), _unescape(",".join(fields[5:-2]))
    except ValueError:
        return None


def _unescape(text: str) -> str:
    """Undo V8's escapes. Characters above U+FFFF become two, as they are in V8's offsets."""

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else "\n" if match[0] == r"\n" else "\\"

    return _ESCAPE.sub(character, text)


def _path(url: str) -> str:
    """Return the path of a script's URL."""
    name = _unescape(url)
    if not name.startswith("file://"):
        return name
    from urllib.parse import unquote

    return unquote(name.removeprefix("file://"))
