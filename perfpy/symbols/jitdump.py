"""Read jitdump files: the code of a JIT compiler with names and times; and write an ELF file for each function.

A JitDump has a CodeLoad for each function and a CodeMove for each moved one. Dumps that are truncated, or still being written, yield their
complete records. Layout: tools/perf/Documentation/jitdump-specification.txt.
"""

from __future__ import annotations

import os
import re
import struct
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from perfpy.abi import records
from perfpy.abi.light_types import NamedTuple
from perfpy.errors import PerfError
from perfpy.symbols import dso
from perfpy.untrusted import destinations, process_files
from perfpy.untrusted import files as paths
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.abi.attr import EventAttr

_MAGIC: Final = 0x4A695444  # "JiTD" in the byte order of the writer
_CODE_LOAD, _CODE_MOVE, _DEBUG_INFO, _CLOSE, _UNWINDING = range(5)
_FLAG_ARCH_TIMESTAMP: Final = 1
_HEADER: Final = "IIIIIIQQ"  # magic, version, total_size, elf_mach, pad1, pid, timestamp, flags
_PREFIX: Final = "IIQ"  # id, total_size, timestamp
_LOAD: Final = "IIQQQQ"  # pid, tid, vma, code_addr, code_size, code_index
_MOVE: Final = "IIQQQQQ"  # pid, tid, vma, old_code_addr, new_code_addr, code_size, code_index
_UNWIND: Final = "QQQ"  # unwinding_size, eh_frame_hdr_size, mapped_size
_DEBUG: Final = "QQ"  # code_addr, nr_entry; then addr, line, discriminator, name for each entry
_DEBUG_ENTRY: Final = "QII"
_BODIES: Final = {_CODE_LOAD: _LOAD, _CODE_MOVE: _MOVE, _DEBUG_INFO: _DEBUG, _UNWINDING: _UNWIND}
_LEAST: Final = {kind: struct.calcsize("=" + _PREFIX + layout) for kind, layout in _BODIES.items()}  # minimum bytes of a record
_SAME_FILE: Final = b"\xff"  # as a name: the same as in the previous entry
_V8_SHIFT: Final = 0x40  # V8's line addresses include the ELF header of the file that perf once made

LARGEST: Final = 512 << 20  # bytes of a dump: a million functions of Node.js take a third of it
_MASK_64: Final = (1 << 64) - 1
_MACHINES: Final = 0xFFFF  # the width of an ELF header's field; perf keeps as much

TEXT_OFFSET: Final = 128  # offset of the code in an image: after ELF header and program header, aligned to 16


class CodeLoad(NamedTuple):
    """A compiled function.

    Attributes:
        time: of the JIT's clock (perf record -k mono).
        eh_frame: call frame information, or b"".
        lines: source lines, by addresses in the JIT's process.
        inlined: functions that were inlined, by the same addresses.
    """

    time: int
    pid: int
    tid: int
    address: int
    code_index: int
    name: str
    code: bytes
    eh_frame: bytes = b""
    eh_frame_hdr: bytes = b""
    lines: tuple[CodeLine, ...] = ()
    inlined: tuple[InlinedCode, ...] = ()


class CodeMove(NamedTuple):
    """The move of a function to another address."""

    time: int
    pid: int
    tid: int
    address: int
    code_index: int
    size: int


class JitDump(NamedTuple):
    """The contents of a jitdump.

    Attributes:
        machine: e_machine of the ELF header.
        arch_clock: whether times are the processor's instead of CLOCK_MONOTONIC's.
    """

    pid: int
    machine: int
    endian: str
    arch_clock: bool
    events: list[CodeLoad | CodeMove]


def parse(data: bytes, path: str = "jitdump") -> JitDump:
    """Parse a dump. Raises PerfError if it is not one."""
    endian = next((order for order in "<>" if data[:4] == struct.pack(order + "I", _MAGIC)), "")
    if not endian or len(data) < struct.calcsize("=" + _HEADER):
        raise PerfError(f"{path}: not a jitdump file")
    _, _, size, machine, _, pid, _, flags = struct.unpack_from(endian + _HEADER, data)
    events: list[CodeLoad | CodeMove] = []
    unwinding, lines = (b"", b""), dict[int, tuple[CodeLine, ...]]()
    offset = size
    while offset + 16 <= len(data):
        kind, size, time = struct.unpack_from(endian + _PREFIX, data, offset)
        body, offset = data[offset + 16 : offset + size], offset + size
        if size < _LEAST.get(kind, 16) or offset > len(data) or kind == _CLOSE:
            break
        if kind == _CODE_LOAD:
            load = _code_load(time, body, endian)
            events.append(load._replace(eh_frame=unwinding[0], eh_frame_hdr=unwinding[1], lines=lines.pop(load.address, ())))
            unwinding = (b"", b"")
        elif kind == _CODE_MOVE:
            owner, tid, _, _, address, length, index = struct.unpack_from(endian + _MOVE, body)
            events.append(CodeMove(time, owner, tid, address, index, length))
        elif kind == _UNWINDING:
            unwinding = _unwinding(body, endian)
        elif kind == _DEBUG_INFO:
            lines.update([_debug_info(body, endian)])  # debug information precedes its function
    return JitDump(pid, machine & _MACHINES, endian, bool(flags & _FLAG_ARCH_TIMESTAMP), _with_lines_shifted(events))


def _code_load(time: int, body: bytes, endian: str) -> CodeLoad:
    pid, tid, _, address, size, index = struct.unpack_from(endian + _LOAD, body)
    name, _, remaining = body[struct.calcsize("=" + _LOAD) :].partition(b"\0")  # code that exceeds its record is truncated
    return CodeLoad(time, pid, tid, address, index, name.decode("utf-8", "surrogateescape"), remaining[:size])


def _with_lines_shifted(events: list[CodeLoad | CodeMove]) -> list[CodeLoad | CodeMove]:
    """Undo V8's shift, and drop lines outside of their function."""
    first_offsets = {event.lines[0].address - event.address for event in events if isinstance(event, CodeLoad) and event.lines}
    shift = _V8_SHIFT if min(first_offsets, default=0) == _V8_SHIFT else 0

    def shifted(load: CodeLoad) -> CodeLoad:
        moved = (line._replace(address=line.address - shift) for line in load.lines)
        return load._replace(lines=tuple(line for line in moved if 0 <= line.address - load.address < len(load.code)))

    return [shifted(event) if isinstance(event, CodeLoad) and event.lines else event for event in events]


def _unwinding(body: bytes, endian: str) -> tuple[bytes, bytes]:
    size, header_size, _ = struct.unpack_from(endian + _UNWIND, body)
    data = body[struct.calcsize("=" + _UNWIND) :][:size]
    return data[: len(data) - header_size], data[len(data) - header_size :]


def _debug_info(body: bytes, endian: str) -> tuple[int, tuple[CodeLine, ...]]:
    """Parse the address of a function and its lines."""
    owner, count = struct.unpack_from(endian + _DEBUG, body)
    lines: list[CodeLine] = []
    offset, size = struct.calcsize("=" + _DEBUG), struct.calcsize("=" + _DEBUG_ENTRY)
    name = b""
    while len(lines) < count and offset + size <= len(body):
        address, line, _ = struct.unpack_from(endian + _DEBUG_ENTRY, body, offset)
        end = body.find(b"\0", offset + size)
        text = body[offset + size : end if end >= 0 else len(body)]
        offset += size + len(text) + 1
        name = name if text == _SAME_FILE else text
        lines.append(CodeLine(address, name.decode("utf-8", "surrogateescape"), line))
    return owner, tuple(lines)


class Section(NamedTuple):
    """A section for shared_object, which assigns its position."""

    name: bytes
    type: int
    flags: int
    data: bytes
    link: int = 0
    entsize: int = 0
    align: int = 1


def image(load: CodeLoad, machine: int, endian: str = "<") -> bytes:
    """Return a 64-bit shared object with the code at TEXT_OFFSET and one function symbol for all of it.

    Its build-id depends on the code and the name, so that the image can go to a build-id cache.
    """
    sections = [Section(b".text", 1, 6, load.code, align=16)]
    if load.eh_frame:
        sections += [Section(b".eh_frame", 1, 2, load.eh_frame, align=8), Section(b".eh_frame_hdr", 1, 2, load.eh_frame_hdr, align=4)]
    if load.lines:
        lines = [line._replace(address=line.address - load.address + TEXT_OFFSET) for line in load.lines]
        shift = TEXT_OFFSET - load.address
        inlined = [code._replace(begin=code.begin + shift, end=code.end + shift) for code in load.inlined]
        debug = debug_sections(lines, TEXT_OFFSET, len(load.code), endian, inlined)
        sections += [Section(section, 1, 0, data) for section, data in debug.items()]
    return shared_object(sections, [(load.name, TEXT_OFFSET, len(load.code))], machine, endian)


def shared_object(
    sections: list[Section], symbols: Sequence[tuple[str, int, int]], machine: int, endian: str = "<", *, text_offset: int = TEXT_OFFSET
) -> bytes:
    """Return a shared object of these sections, the first of which is the code. `symbols`: (name, address, size) of functions."""
    names, table = bytearray(b"\0"), bytearray(24)
    for text, address, size in symbols:
        table += struct.pack(endian + "IBBHQQ", len(names), 2, 0, 1, address, size)  # STB_LOCAL, STT_FUNC, .text
        names += text.encode("utf-8", "surrogateescape") + b"\0"
    try:
        from _sha1 import sha1  # type: ignore[import-not-found]  # private, but hashlib loads all of OpenSSL
    except ImportError:
        from hashlib import sha1

    identity = sha1(sections[0].data + names[:-1], usedforsecurity=False).digest()
    note = struct.pack(endian + "III", 4, len(identity), 3) + b"GNU\0" + identity
    sections = [
        *sections,
        Section(b".note.gnu.build-id", 7, 2, note, align=4),
        Section(b".symtab", 2, 0, bytes(table), link=len(sections) + 3, entsize=24, align=8),
        Section(b".strtab", 3, 0, bytes(names)),
    ]
    return _assemble(sections, machine, endian, text_offset)


def _assemble(sections: list[Section], machine: int, endian: str, text_offset: int) -> bytes:
    names = b"\0" + b"".join(section.name + b"\0" for section in sections) + b".shstrtab\0"
    sections = [*sections, Section(b".shstrtab", 3, 0, names)]
    body, headers = bytearray(text_offset), [bytes(64)]
    loaded = text_offset + len(sections[0].data)
    for section in sections:
        offset = text_offset if len(body) == text_offset else len(body) + -len(body) % section.align
        body += bytes(offset - len(body)) + section.data
        address = offset if section.flags & 2 else 0
        loaded = len(body) if address else loaded
        row = (names.index(section.name + b"\0"), section.type, section.flags, address, offset, len(section.data), section.link)
        headers.append(struct.pack(endian + "IIQQQQIIQQ", *row, 0, section.align, section.entsize))
    body += bytes(-len(body) % 8)
    ident = b"\x7fELF\x02" + (b"\x01" if endian == "<" else b"\x02") + b"\x01" + bytes(9)
    head = struct.pack(
        endian + "HHIQQQIHHHHHH", 3, machine, 1, text_offset, 64, len(body), 0, 64, 56, 1, 64, len(headers), len(headers) - 1
    )
    # Unwinders take the first segment for the lowest mapping, which starts at a page boundary.
    segment = struct.pack(endian + "IIQQQQQQ", 1, 5, 0, 0, 0, loaded, loaded, 0x1000)
    body[:120] = ident + head + segment
    return bytes(body) + b"".join(headers)


# Find the jitdump of a recorded mapping, and create a folder for images of its code. A dump is where its program wrote it, often in a
# folder to which others may write. It is used if it belongs to the process's owner, to root or to us, or if the recording proves that the
# process mapped this file. Images go to a new folder of our own.

MapRecord: TypeAlias = "records.Mmap | records.Mmap2"

_NAME: Final = re.compile(r"/jit-\d+\.dump\Z")


def is_dump(name: str) -> bool:
    """Whether a mapping's file has the name of a jitdump."""
    return _NAME.search(name) is not None


def read_dump(record: MapRecord, *, force: bool = False) -> JitDump:
    """Read the dump that a record maps. `force` skips the owner check. Raises PerfError if it is missing, foreign or malformed."""
    path = record.filename
    try:
        reader = 0 if force else record.pid
        with open_regular(dso.seen_by(record.pid, path), limit=LARGEST, follow=force, reader=reader) as file:
            state = os.fstat(file.fileno())
            if not (force or state.st_uid in process_files.trusted_owners(record.pid) or is_mapped_by(record, state)):
                raise PerfError(f"{path}: belongs to user {state.st_uid}, not to its process; give -f if you trust it")
            data = file.read(LARGEST)
    except OSError as error:
        raise PerfError(f"{path}: {error.strerror}; inject where the program ran, before its dump is removed") from None
    if not data:
        raise PerfError(f"{path}: empty: its process ended before it was written")
    return parse(data, path)


class RecordedClock(NamedTuple):
    """The clock of a recording.

    Attributes:
        is_monotonic: whether it is CLOCK_MONOTONIC.
        shift, mult, zero: convert ticks of the processor's clock to its times, as TIME_CONV has them; mult is 0 if they are unknown.
    """

    is_monotonic: bool
    shift: int = 0
    mult: int = 0
    zero: int = 0

    @classmethod
    def of(cls, attr: EventAttr, conversion: tuple[int, int, int] = (0, 0, 0)) -> RecordedClock:
        """Return the clock of a recording with this event."""
        return cls(bool(attr.use_clockid) and attr.clockid == time.CLOCK_MONOTONIC, *conversion)

    def nanoseconds(self, ticks: int) -> int:
        """Return the time of ticks."""
        shift = self.shift & 63
        return (self.zero + (ticks >> shift) * self.mult + ((ticks & (1 << shift) - 1) * self.mult >> shift)) & _MASK_64


def on_clock(dump: JitDump, path: str, clock: RecordedClock, mapped: int | None = None) -> JitDump:
    """Return a dump with times of the recording's clock. Raises PerfError if they are unknown.

    mapped: when the dump was mapped; times of another clock than the recording's are moved so that the first function follows it.
    """
    if dump.arch_clock and clock.mult and not clock.is_monotonic:
        return dump._replace(events=[event._replace(time=clock.nanoseconds(event.time)) for event in dump.events])
    if dump.arch_clock:
        raise PerfError(f"{path}: its times are those of the processor's clock, which this recording cannot convert; record without -k")
    if clock.is_monotonic:
        return dump
    if mapped is None:
        raise PerfError(f"{path}: its times are those of CLOCK_MONOTONIC, and the recording's are not; record with -k mono")
    moved = mapped - min((event.time for event in dump.events), default=0)
    return dump._replace(events=[event._replace(time=max(event.time + moved, 0)) for event in dump.events])


def is_mapped_by(record: MapRecord, state: os.stat_result) -> bool:
    """Whether a file is the very one that was mapped. Then the process chose it, whoever owns it."""
    if not isinstance(record, records.Mmap2) or not record.ino:
        return False
    return (record.maj, record.min, record.ino) == (os.major(state.st_dev), os.minor(state.st_dev), state.st_ino)


def new_folder(cache: str) -> str:
    """Create a folder that only this user can write to, where perf puts images of JIT-compiled code."""
    folder = paths.below(cache, "jit")
    destinations.require_own(cache)
    destinations.require_own(folder)
    path = paths.below(os.path.abspath(folder), f"perfpy-{os.urandom(6).hex()}")
    os.mkdir(path, 0o700)
    return path


# Write source lines and inlined calls of JIT-compiled code as DWARF sections: .debug_line, .debug_info and .debug_abbrev of one unit.
# Layout: DWARF version 4, sections 6.2 and 7.5.

_VERSION: Final = 4
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = b"\x01", b"\x02", b"\x03", b"\x04"
_END_SEQUENCE: Final = b"\x00\x01\x01"
_SET_ADDRESS: Final = b"\x00\x09\x02"
# operand counts of the twelve standard operations
_OPERANDS: Final = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
_UNIT, _FUNCTION, _INLINED, _ABSTRACT = 1, 2, 3, 4  # abbreviations
_NO_CHILDREN = b"\0"  # the end of a list of children
# DW_AT_stmt_list sec_offset, low_pc addr, high_pc data8, name string
_OF_UNIT: Final = bytes((0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0))
_ABBREVIATIONS: Final = bytes((_UNIT, 0x11, 0)) + _OF_UNIT + b"\0"
_WITH_INLINED: Final = b"".join(
    (
        bytes((_UNIT, 0x11, 1)) + _OF_UNIT,
        bytes((_FUNCTION, 0x2E, 1, 0x11, 0x01, 0x12, 0x07, 0, 0)),  # DW_TAG_subprogram: low_pc, high_pc
        # DW_TAG_inlined_subroutine: abstract_origin ref4, low_pc, high_pc, call_file udata, call_line udata
        bytes((_INLINED, 0x1D, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0x58, 0x0F, 0x59, 0x0F, 0, 0)),
        bytes((_ABSTRACT, 0x2E, 0, 0x03, 0x08, 0x20, 0x0B, 0, 0)),  # DW_TAG_subprogram: name string, inline data1
        b"\0",
    )
)


class CodeLine(NamedTuple):
    """A row of the line table: from `address` on, code is from this line of this file; line 0: from an unknown one."""

    address: int
    file: str
    line: int


class InlinedCall(NamedTuple):
    """A call that was inlined: the name of the callee, and the file and line of the call."""

    name: str
    file: str
    line: int


class InlinedCode(NamedTuple):
    """Code from `begin` to `end` of functions that were inlined into each other, the outermost call first."""

    begin: int
    end: int
    calls: tuple[InlinedCall, ...]


def debug_sections(
    lines: Sequence[CodeLine], start: int, size: int, endian: str = "<", inlined: Sequence[InlinedCode] = ()
) -> dict[bytes, bytes]:
    """Return the sections by name for code of `size` bytes at `start`. Addresses of lines count from the same origin as `start`."""
    lines = sorted(lines)
    name = _bytes(lines[0].file if lines else "")
    names = [*(line.file for line in lines), *(call.file for code in inlined for call in code.calls)]
    files = {file: number for number, file in enumerate(dict.fromkeys(names), 1)}
    unit = struct.pack(endian + "HIBBIQQ", _VERSION, 0, 8, _UNIT, 0, start, size) + name + b"\0"
    if inlined:
        unit += _inlined_calls(inlined, files, endian, 4 + len(unit)) + _NO_CHILDREN
    # minimum_instruction_length, maximum_operations, default_is_stmt, line_base and line_range (unused), opcode_base, operand counts
    head = struct.pack("BBBbBB", 1, 1, 1, -5, 14, len(_OPERANDS) + 1) + _OPERANDS
    head += b"\0" + b"".join(_bytes(file) + b"\0\0\0\0" for file in files) + b"\0"
    line_table = struct.pack(endian + "H", _VERSION) + _with_length(head, endian) + _program(lines, files, start + size, endian)
    return {
        b".debug_line": _with_length(line_table, endian),
        b".debug_info": _with_length(unit, endian),
        b".debug_abbrev": _WITH_INLINED if inlined else _ABBREVIATIONS,
    }


def _inlined_calls(inlined: Sequence[InlinedCode], files: dict[str, int], endian: str, offset: int) -> bytes:
    """Return entries for inlined functions, and for their calls. offset: of the first entry from the beginning of the unit."""
    result = bytearray()
    origins: dict[str, int] = {}
    for name in dict.fromkeys(call.name for code in inlined for call in code.calls):
        origins[name] = offset + len(result)
        result += bytes((_ABSTRACT,)) + _bytes(name) + b"\0\1"
    for code in inlined:
        bounds = struct.pack(endian + "QQ", code.begin, code.end - code.begin)
        result += bytes((_FUNCTION,)) + bounds
        for call in code.calls:
            origin = struct.pack(endian + "I", origins[call.name])
            result += bytes((_INLINED,)) + origin + bounds + _encode_unsigned(files[call.file]) + _encode_unsigned(call.line)
        result += _NO_CHILDREN * (len(code.calls) + 1)
    return bytes(result)


def _program(lines: Sequence[CodeLine], files: dict[str, int], end: int, endian: str) -> bytes:
    address, number, file, is_open = end, 1, 1, False
    code = bytearray()  # bytes would be copied for each line
    for line in lines:
        if not is_open:
            address, number, file, is_open = line.address, 1, 1, True
            code += _SET_ADDRESS + struct.pack(endian + "Q", address)
        if files[line.file] != file:
            file = files[line.file]
            code += _SET_FILE + _encode_unsigned(file)
        code += _ADVANCE_PC + _encode_unsigned(line.address - address)
        address = line.address
        if line.line:
            code += _ADVANCE_LINE + _encode_signed(line.line - number) + _COPY
            number = line.line
        else:
            code, is_open = code + _END_SEQUENCE, False
    if is_open or not lines:
        code += b"" if lines else _SET_ADDRESS + struct.pack(endian + "Q", address)
        code += _ADVANCE_PC + _encode_unsigned(max(end - address, 0)) + _END_SEQUENCE
    return bytes(code)


def _with_length(data: bytes, endian: str) -> bytes:
    return struct.pack(endian + "I", len(data)) + data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _encode_unsigned(value: int) -> bytes:
    """Encode an unsigned LEB128 number."""
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])


def _encode_signed(value: int) -> bytes:
    """Encode a signed LEB128 number."""
    result = bytearray()
    while not -0x40 <= value < 0x40:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value & 0x7F])
