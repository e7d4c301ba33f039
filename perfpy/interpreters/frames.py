"""Read the current frames of one thread.

Since 3.11 frames are on the thread's data stack, which is copied in one go, so that all frames date from within a few microseconds; frames
of generators are in their objects. `is_entry` means that C code called the evaluation loop for a frame; before 3.11 every frame is one. The
thread state is read again at the end: `has_moved` means that the thread ran in between.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_left
from functools import cache, lru_cache
from itertools import count
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple
from perfpy.interpreters.layouts import NONE
from perfpy.interpreters.objects import WORD, UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.interpreters.layouts import PythonLayout
    from perfpy.interpreters.objects import Memory, Objects


MOST_FRAMES: Final = 1024  #: of a thread; further callers are dropped
_MOST_COPIES: Final = 1024  # of a code object's instructions
_CHUNK_HEAD: Final = 24  # _PyStackChunk: previous, size, top
_LARGEST_CHUNK: Final = 256 << 10  # bytes of a chunk that are copied
_MOST_CHUNKS: Final = 16
_SMALLEST_CHUNK: Final = 4096  # chunks are whole pages
_MARGIN: Final = 512  # the least number of copied bytes after the last frame
_OWNED_BY_GENERATOR: Final = 1
_MOST_LEFT: Final = 32
_UNITS_OF_3_10: Final = 2


class PythonFrame(NamedTuple):
    """One frame. offset: of its current instruction, in bytes from the beginning of its code; -2 before the first one."""

    address: int
    code: CodeObject
    offset: int
    is_entry: bool


class CurrentFrame(NamedTuple):
    """A function that runs, and its current line; line 0: unknown."""

    function: str
    file: str
    line: int


class ThreadFrames(NamedTuple):
    """The frames of a thread.

    Attributes:
        frames: innermost first.
        is_whole: whether all callers are included.
        has_moved: whether the thread ran during the reading.
        left: frames above them on the data stack that have ended, but whose memory is still unchanged.
    """

    frames: list[PythonFrame]
    is_whole: bool
    has_moved: bool
    left: list[PythonFrame]


class FrameWalker:
    """Reads the frames of one process's threads."""

    def __init__(self, memory: Memory, layout: PythonLayout, codes: Codes) -> None:
        self._memory = memory
        self._layout = layout
        self._codes = codes
        self._unit = _UNITS_OF_3_10 if layout.version == (3, 10) else 1

    def frames(self, state: bytes, address: int) -> ThreadFrames:
        """Return the frames of a thread state, whose bytes were just read. Raises UnreadableMemoryError."""
        innermost = self._innermost(state)
        if not self._layout.has_data_stack:
            frames, is_whole = self._walk_objects(innermost)
            after = self._memory.read(address, self._layout.thread.size)
            return ThreadFrames(frames, is_whole, self._innermost(after) != innermost, [])
        chunks = _Chunks(self._memory, state, self._layout.thread.chunk)
        after = self._memory.read(address, self._layout.thread.size)
        frames, is_whole = self._walk_data_stack(innermost, chunks)
        frames = frames[self._first_alive(frames, state, after) :]
        ended_frames = self._find_ended(chunks, frames[0].address if frames else 0)
        return ThreadFrames(frames, is_whole, self._innermost(after) != innermost, ended_frames)

    def frames_of_words(self, words: Iterable[tuple[int, int, int, int]], *, is_whole: bool) -> ThreadFrames:
        """Return frames that were copied while their thread stood still.

        Args:
            words: address, code, instruction and the aligned word with the owner of each frame, innermost first.
            is_whole: whether all callers are among them.
        """
        layout = self._layout.frame
        frames: list[PythonFrame] = []
        has_data_stack = self._layout.has_data_stack
        shift, entry_shift = 8 * (layout.owner & 7), 8 * (layout.is_entry & 7)
        shims, has_entries, untagged = layout.shims, layout.is_entry != NONE, ~self._layout.tag_mask
        find, offset_of, new = self._codes.find, self._offset_of, PythonFrame._make
        for address, code_address, instruction, owner in words:
            if has_data_stack and owner >> shift & 0xFF >= shims:
                if frames:
                    frames[-1] = PythonFrame(*frames[-1][:3], True)
                continue
            code = find(code_address & untagged)
            offset = 0 if code is None else offset_of(code, instruction)
            if code is None or not -2 <= offset < code.end - code.begin:
                return ThreadFrames(frames, False, False, [])
            frames.append(new((address, code, offset, not has_data_stack or (has_entries and bool(owner >> entry_shift & 0xFF)))))
        if frames and is_whole:
            frames[-1] = PythonFrame(*frames[-1][:3], True)
        return ThreadFrames(frames, is_whole, False, [])

    def _offset_of(self, code: CodeObject, instruction: int) -> int:
        """Return the offset of an instruction in its code, from a frame's word: a pointer, or before 3.11 a number of units."""
        if self._layout.has_data_stack:
            return self._offset_in_copy(code, instruction)
        last = struct.unpack("<i", struct.pack("<I", instruction & 0xFFFFFFFF))[0]
        return int(last) * self._unit if last >= 0 else -2

    def _offset_in_copy(self, code: CodeObject, instruction: int) -> int:
        """Return the offset of an instruction in its code, or in its thread's copy of it; one beyond the code if it is in none."""
        offset, size = instruction - code.begin, code.end - code.begin
        copies = self._layout.code.copies
        if copies == NONE or -2 <= offset < size:
            return offset
        try:
            array = read_word(self._memory, code.address + copies)
            count = read_word(self._memory, array) if is_pointer(array) else 0
            words = self._memory.read(array + WORD.size, WORD.size * min(count, _MOST_COPIES))
        except UnreadableMemoryError:
            return size
        return next((instruction - copy for (copy,) in WORD.iter_unpack(words) if copy and -2 <= instruction - copy < size), size)

    def _first_alive(self, frames: list[PythonFrame], state: bytes, after: bytes) -> int:
        """Return the row of the first frame that had not ended after the copy; earlier ones may be inconsistent."""
        (chunk,) = WORD.unpack_from(state, self._layout.thread.chunk)
        chunk_after, top = struct.unpack_from("<QQ", after, self._layout.thread.chunk)
        if chunk != chunk_after:
            return 0
        # Frames of generators are elsewhere.
        return next((row for row in range(len(frames), 0, -1) if top <= frames[row - 1].address < chunk + _LARGEST_CHUNK), 0)

    def _innermost(self, state: bytes) -> int:
        thread = self._layout.thread
        if thread.cframe == NONE:
            return int(WORD.unpack_from(state, thread.frame)[0])
        (cframe,) = WORD.unpack_from(state, thread.cframe)
        return read_word(self._memory, cframe + thread.frame) if is_pointer(cframe) else 0

    def _walk_data_stack(self, address: int, chunks: _Chunks) -> tuple[list[PythonFrame], bool]:
        """Read frames on the data stack and in generators, since 3.11."""
        layout = self._layout.frame
        frames: list[PythonFrame] = []
        for _ in range(4 * MOST_FRAMES):  # shims are not frames
            if not address or len(frames) >= MOST_FRAMES:
                break
            if not is_pointer(address):
                return frames, False
            data, start = chunks.bytes_at(address, layout.size)
            if data[start + layout.owner] >= layout.shims:
                if frames:
                    frames[-1] = PythonFrame(*frames[-1][:3], True)
            else:
                frame = self._frame(address, data, start)
                if frame is None:
                    return frames, False
                frames.append(frame)
            (address,) = WORD.unpack_from(data, start + layout.previous)
        if frames and not address:
            frames[-1] = PythonFrame(*frames[-1][:3], True)
        return frames, not address

    def frame_of(self, address: int, data: bytes) -> PythonFrame | None:
        """Return the frame at an address, whose bytes were just read, or None without valid code and instruction."""
        return self._frame(address, data, 0) if self._layout.has_data_stack else self._frame_object(address, data)

    def _frame(self, address: int, data: bytes, start: int) -> PythonFrame | None:
        """Return the frame whose bytes begin at `start`, or None without valid code and instruction."""
        layout = self._layout.frame
        code = self._codes.find(WORD.unpack_from(data, start + layout.code)[0] & ~self._layout.tag_mask)
        if code is None:
            return None
        offset = self._offset_in_copy(code, WORD.unpack_from(data, start + layout.instruction)[0])
        if not -2 <= offset < code.end - code.begin:
            return None
        return PythonFrame(address, code, offset, layout.is_entry != NONE and bool(data[start + layout.is_entry]))

    def _find_ended(self, chunks: _Chunks, below: int) -> list[PythonFrame]:
        """Return the frames after the last one, each of which begins where the one before it ends. below: the last one's address."""
        layout = self._layout.frame
        data, start, address = chunks.rest
        frames: list[PythonFrame] = []
        while start + layout.size <= len(data) and len(frames) < _MOST_LEFT:
            frame = self._frame(address, data, start)
            if frame is None or data[start + layout.owner] >= layout.shims or frame.code.frame_size < layout.size:
                break
            (previous,) = WORD.unpack_from(data, start + layout.previous)
            generator = self._generator(previous) if previous != below else None
            if generator is not None:  # its caller is unknown
                frames.append(generator._replace(is_entry=True))
            frames.append(frame._replace(is_entry=frame.is_entry or (previous != below and generator is None)))
            below, address, start = address, address + frame.code.frame_size, start + frame.code.frame_size
        return frames[::-1]

    def _generator(self, address: int) -> PythonFrame | None:
        """Return the frame inside a generator or coroutine, or None if there is none."""
        layout = self._layout.frame
        if not is_pointer(address):
            return None
        try:
            data = self._memory.read(address, layout.size)
        except UnreadableMemoryError:
            return None
        return self._frame(address, data, 0) if data[layout.owner] == _OWNED_BY_GENERATOR else None

    def _walk_objects(self, address: int) -> tuple[list[PythonFrame], bool]:
        """Read frame objects, before 3.11."""
        layout = self._layout.frame
        frames: list[PythonFrame] = []
        while address and len(frames) < MOST_FRAMES:
            if not is_pointer(address):
                return frames, False
            data = self._memory.read(address, layout.size)
            frame = self._frame_object(address, data)
            if frame is None:
                return frames, False
            frames.append(frame)
            (address,) = WORD.unpack_from(data, layout.previous)
        return frames, not address

    def _frame_object(self, address: int, data: bytes) -> PythonFrame | None:
        """Return the frame of a frame object's bytes, before 3.11, or None without valid code and instruction."""
        layout = self._layout.frame
        code = self._codes.find(WORD.unpack_from(data, layout.code)[0])
        (last,) = struct.unpack_from("<i", data, layout.instruction)
        if code is None or not -1 <= last < (code.end - code.begin) // self._unit:
            return None
        return PythonFrame(address, code, last * self._unit if last >= 0 else -2, is_entry=True)


class _Chunks:
    """Copies of the chunks of a thread's data stack, made when the first frame in one is read.

    Attributes:
        rest: after the last frame: a copy of the bytes, the position in it, and its address.
    """

    def __init__(self, memory: Memory, state: bytes, offset: int) -> None:
        self._memory = memory
        chunk, top = struct.unpack_from("<QQ", state, offset)
        self.rest = (b"", 0, 0)
        self._copies: list[tuple[int, bytes]] = []
        if is_pointer(chunk) and chunk < top <= chunk + _LARGEST_CHUNK:
            data = self._copy(chunk, top - chunk)
            self._copies.append((chunk, data))
            self.rest = (data, top - chunk, top)

    def _copy(self, chunk: int, used: int) -> bytes:
        """Copy the newest chunk and some bytes after its last frame, if they are readable."""
        try:
            return self._memory.read(chunk, (used + _MARGIN + _SMALLEST_CHUNK - 1) & -_SMALLEST_CHUNK)
        except UnreadableMemoryError:
            return self._memory.read(chunk, used)

    def bytes_at(self, address: int, size: int) -> tuple[bytes, int]:
        """Return bytes that contain a frame, and its position in them."""
        for begin, data in self._copies:
            if begin <= address and address + size <= begin + len(data):
                return data, address - begin
        if len(self._copies) and len(self._copies) < _MOST_CHUNKS:
            self._copy_previous()
            begin, data = self._copies[-1]
            if begin <= address and address + size <= begin + len(data):
                return data, address - begin
        return self._memory.read(address, size), 0

    def _copy_previous(self) -> None:
        """Copy the used part of the chunk before the last copied one."""
        (previous,) = WORD.unpack_from(self._copies[-1][1], 0)
        if not is_pointer(previous):
            return
        try:
            _, size, top = struct.unpack("<QQQ", self._memory.read(previous, _CHUNK_HEAD))
            used = _CHUNK_HEAD + 8 * top  # top counts the words of the data
            if _CHUNK_HEAD < used <= min(size, _LARGEST_CHUNK):
                self._copies.append((previous, self._memory.read(previous, used)))
        except UnreadableMemoryError:
            return


# Read code objects: name, file, lines and the range of instructions. Each is read once and cached by its address. Because memory is
# reused, some words of a cached one are compared from time to time.

_LONGEST_TABLE: Final = 1 << 20  # bytes of a line table
_MOST_UNITS: Final = 1 << 22  # instructions of a code object
_MOST_CODES: Final = 1 << 17  # cached for a process
_MOST_BYTES: Final = 64 << 20  # of the code objects that were read of a process
_MOST_VARIABLES: Final = 1 << 10  # whose names are read
_OBJECT_SIZE: Final = 600  # bytes of a CodeObject without the contents of its names and line table
_FRESH: Final = 0.25  # seconds for which a cached code object is used without a comparison, at most
_FREED: Final = "<"  # the code of modules, cells of a notebook and their comprehensions is freed after it has run
_FRESH_AT_FIRST: Final = 0.01  # young code objects are often freed, and their addresses used again, as modules' are after an import
_TYPE: Final = 8  # PyObject.ob_type
_SIZE: Final = 16  # PyVarObject.ob_size
_TYPE_NAME: Final = 24  # PyTypeObject.tp_name
_BYTES: Final = 32  # PyBytesObject.ob_sval
_CODE_TYPE: Final = b"code\0"


class CodeObject(NamedTuple):
    """A function's code.

    Attributes:
        number: identifies it.
        begin, end: addresses of its instructions.
        frame_size: bytes of its frames on the data stack, 0 before 3.11.
    """

    number: int
    address: int
    begin: int
    end: int
    name: str
    filename: str
    first_line: int
    lines: bytes
    frame_size: int


class Codes:
    """The code objects of one process.

    Args:
        memory: of the process.
        layout: of its objects.
        objects: its objects.
        clock: returns seconds, monotonic.
        numbers: yields the numbers of code objects.

    Attributes:
        last_read: when a new code object was read last.
    """

    def __init__(
        self, memory: Memory, layout: PythonLayout, objects: Objects, clock: Callable[[], float], numbers: Iterator[int] | None = None
    ) -> None:
        self._memory = memory
        self._objects = objects
        self._layout = layout
        self._shift = layout.shift
        self._clock = clock
        self._cached: dict[int, tuple[CodeObject | None, bytes, float, float]] = {}
        self._numbers = count() if numbers is None else numbers
        self._bytes = 0
        self._type = 0
        self.last_read = 0.0

    @property
    def is_full(self) -> bool:
        """Whether no further code objects are read."""
        return self._bytes > _MOST_BYTES

    def find(self, address: int) -> CodeObject | None:
        """Return the code object at an address, or None if there is none."""
        now = self._clock()
        cached = self._cached.get(address)
        if cached is not None and now - cached[2] < cached[3]:
            return cached[0]
        if not is_pointer(address):
            return None
        try:
            head = self._memory.read(address, self._layout.code.size)
        except UnreadableMemoryError:
            return None
        layout = self._layout.code
        fields = (layout.filename, layout.name, layout.lines, layout.code if not layout.is_inline else layout.name)
        words = (head[field : field + 8] for field in fields)
        identity = b"".join((head[self._shift + _TYPE : self._shift + _SIZE + 8], *words, head[layout.first_line : layout.first_line + 4]))
        if cached is not None and cached[1] == identity:
            code, fresh = cached[0], min(2 * cached[3], _FRESH)
            if code is not None and code.name.startswith(_FREED):
                fresh = _FRESH_AT_FIRST
        else:
            code, fresh = self._read(address, head), _FRESH_AT_FIRST
            self.last_read = now
        if len(self._cached) >= _MOST_CODES:
            self._cached.clear()
        self._cached[address] = (code, identity, now, fresh)
        return code

    def variable_names(self, code: CodeObject) -> list[str]:
        """Return the names of a function's local variables, in the order in which its frames have them; empty if they cannot be read."""
        try:
            return self.names_in(read_word(self._memory, code.address + self._layout.code.variables))
        except UnreadableMemoryError:
            return []

    def names_in(self, names: int, most: int = _MOST_VARIABLES) -> list[str]:
        """Return the last items of a tuple of names; empty if they cannot be read."""
        try:
            count = read_word(self._memory, names + self._shift + _SIZE)
            if not is_pointer(names) or count > _MOST_VARIABLES:
                return []
            first = max(count - most, 0)
            items = self._memory.read(names + self._layout.tuple_items + 8 * first, 8 * (count - first))
            return [self._objects.text(address) for (address,) in WORD.iter_unpack(items)]
        except (UnreadableMemoryError, ValueError):
            return []

    def _read(self, address: int, head: bytes) -> CodeObject | None:
        layout = self._layout.code
        if self.is_full or not self._is_code(head):
            return None
        try:
            if layout.is_inline:
                begin, (units,) = address + layout.code, struct.unpack_from("<q", head, self._shift + _SIZE)
                size = 2 * units
            else:
                text = _word(head, layout.code)
                begin, size = text + _BYTES, read_word(self._memory, text + _SIZE)
            if not 0 < size <= 2 * _MOST_UNITS:
                return None
            name = self._objects.text(_word(head, layout.qualname if layout.qualname >= 0 else layout.name))
            filename = self._objects.text(_word(head, layout.filename))
            lines = self._table(_word(head, layout.lines))
        except (UnreadableMemoryError, ValueError):
            return None
        self._bytes += _OBJECT_SIZE + len(name) + len(filename) + len(lines)
        (first_line,) = struct.unpack_from("<i", head, layout.first_line)
        frame_size = 8 * (sum(struct.unpack_from("<i", head, one)[0] for one in layout.frame_sizes) + layout.frame_extra)
        return CodeObject(next(self._numbers), address, begin, begin + size, name, filename, max(first_line, 0), lines, frame_size)

    def _is_code(self, head: bytes) -> bool:
        """Whether the name of an object's type is "code"."""
        kind = _word(head, self._shift + _TYPE)
        if not self._type and is_pointer(kind):
            try:
                name = self._memory.read(read_word(self._memory, kind + self._shift + _TYPE_NAME), len(_CODE_TYPE))
            except UnreadableMemoryError:
                return False
            self._type = kind if name == _CODE_TYPE else 0
        return kind == self._type != 0

    def _table(self, address: int) -> bytes:
        size = read_word(self._memory, address + self._shift + _SIZE)
        if size > _LONGEST_TABLE:
            raise ValueError("no line table")
        return self._memory.read(address + self._shift + _BYTES, size)


def _word(data: bytes, offset: int) -> int:
    (value,) = WORD.unpack_from(data, offset)
    return int(value)


# Decode the line tables of code objects. Lines are (offset in bytes, line) pairs, ascending: a line holds from its offset to the next
# one; line 0 means none. Tables are co_lnotab (3.8, 3.9) or co_linetable (later). Layouts: Objects/lnotab_notes.txt, and since 3.11
# Objects/locations.md (InternalDocs/code_objects.md).

Lines = list[tuple[int, int]]

NO_LINE: Final = 0
_MOST_LINES: Final = 1 << 31
_UNIT: Final = 2  # bytes of an instruction
_NO_LINE_DELTA: Final = -128
_SHORT_FORMS: Final = 10  # codes below have a column byte and stay on their line
_ONE_LINE: Final = range(10, 13)
_NO_COLUMNS: Final = 13
_LONG: Final = 14
_LONGEST_VARINT: Final = 7  # groups of six bits


def decode_lines(table: bytes, first_line: int, version: tuple[int, int]) -> Lines:
    """Return the lines of a code object; of a damaged table, those before the damage."""
    if version >= (3, 11):
        return _locations(table, first_line)
    pairs = _ranges(table, first_line) if version == (3, 10) else _increments(table, first_line)
    lines: Lines = []
    for offset, line in pairs:
        valid_line = line if 0 < line < _MOST_LINES else NO_LINE
        if lines and lines[-1][0] == offset:
            lines[-1] = (offset, valid_line)
        elif not lines or lines[-1][1] != valid_line:
            lines.append((offset, valid_line))
    return lines


def _increments(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Decode co_lnotab: pairs of an unsigned step in bytes and a signed step in lines."""
    offset = 0
    yield offset, line
    for index in range(0, len(table) - 1, 2):
        offset += table[index]
        line += _signed_byte(table[index + 1])
        yield offset, line


def _ranges(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Decode 3.10's co_linetable: a signed step in lines, then the length of its range in bytes."""
    offset = 0
    for index in range(0, len(table) - 1, 2):
        step = _signed_byte(table[index + 1])
        if step == _NO_LINE_DELTA:
            yield offset, NO_LINE
        else:
            line += step
            if table[index]:
                yield offset, line
        offset += table[index]


#: an entry of the table: only its first byte has bit 7
_ENTRY: Final = re.compile(rb"[\x80-\xff][\x00-\x7f]*")


def _locations(table: bytes, line: int) -> Lines:
    """Decode the location table of 3.11 and later, of which modules have thousands of entries."""
    lines: Lines = []
    offset, last = 0, -1
    for entry in _ENTRY.findall(table):
        head = entry[0]
        code = head >> 3 & 15
        current = line
        if code >= _SHORT_FORMS:
            if code in _ONE_LINE:
                current = line = line + code - _ONE_LINE[0]
            elif code in (_NO_COLUMNS, _LONG):
                step, _ = _varint(entry, 1)
                current = line = line + (-(step >> 1) if step & 1 else step >> 1)
            else:
                current = NO_LINE
        if current != last:
            last = current
            valid_line = current if 0 < current < _MOST_LINES else NO_LINE
            if not lines or lines[-1][1] != valid_line:
                lines.append((offset, valid_line))
        offset += ((head & 7) + 1) * _UNIT
    return lines


def _varint(table: bytes, position: int) -> tuple[int, int]:
    value = 0
    for group in range(_LONGEST_VARINT):
        byte = table[position] if position < len(table) else 0
        position += 1
        value |= (byte & 63) << 6 * group
        if not byte & 64:
            break
    return value, position


def _signed_byte(value: int) -> int:
    return value - 256 if value > 127 else value


# Read the name of what an instruction calls: the name that was loaded for the call, by the code object's own instructions.
#
# opcodes.tsv has the instructions of each version (facts of Lib/opcode.py and of dis.stack_effect): versions, name, numbers (the first is
# the instruction's, the others are those of its specialized forms), 16-bit units of inline caches, and the effect on the depth of the
# stack: a number, and what is added for each unit of the argument, or "low" for its lowest bit, "bits" for each bit, "fmt" for that of a
# format. Of jumps it has instead whether the argument is the distance ("forward") or the target. Other instructions without an effect do
# not occur within expressions.

_TABLE: Final = os.path.join(os.path.dirname(__file__), "opcodes.tsv")
_LARGEST_CODE: Final = 1 << 16  # bytes of instructions that are decoded
_SMALL_CODE: Final = 1 << 12  # bytes whose instructions are kept
_MOST_STEPS: Final = 256  # instructions between the load and the call
MOST_CALLS: Final = 1 << 14  #: instructions of a process whose calls are named
_LONGEST_NAME: Final = 80
_EXTENDED_ARGUMENT: Final = "EXTENDED_ARG"
#: an instruction that calls -> the values above those of its argument
_CALLS: Final = {"CALL": 0, "PRECALL": 0, "CALL_FUNCTION": 0, "CALL_METHOD": 0, "CALL_KW": 1, "CALL_FUNCTION_KW": 1, "CALL_FUNCTION_EX": 1}
_LOADS_OF_NAMES: Final = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
_LOADS_OF_VARIABLES: Final = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF")
_FORMAT_IS_GIVEN: Final = 4
_FORWARD, _ABSOLUTE = "forward", "absolute"


class Instruction(NamedTuple):
    """An instruction.

    effect: the change of the stack's depth; None if that is not known; target: of a forward jump, -1 for other instructions.
    """

    offset: int
    name: str
    argument: int
    effect: int | None
    target: int = -1


class _Opcode(NamedTuple):
    name: str
    caches: int
    effect: int | None
    per_argument: str

    def effect_of(self, argument: int) -> int | None:
        """Return the effect on the depth of the stack."""
        if self.effect is None:
            return None
        kinds = {
            "low": argument & 1,
            "-low": -(argument & 1),
            "bits": -argument.bit_count(),
            "fmt": -bool(argument & _FORMAT_IS_GIVEN),
        }
        change = kinds.get(self.per_argument)
        return self.effect + (int(self.per_argument) * argument if change is None else change)


@cache
def _opcodes(version: tuple[int, int]) -> dict[int, _Opcode]:
    """Return the instructions of a version by number; none for other versions than those of the table."""
    own, opcodes = "{}.{}".format(*version), dict[int, _Opcode]()
    with open(_TABLE, encoding="utf-8") as file:
        for line in file:
            versions, name, numbers, caches, effect, per_argument = line.rstrip("\n").split("\t")
            if own in versions.split(","):
                opcode = _Opcode(name, int(caches), None if effect == "-" else int(effect), per_argument)
                opcodes.update((int(number), opcode) for number in numbers.split(","))
    return opcodes


def decode_instructions(data: bytes, version: tuple[int, int]) -> tuple[Instruction, ...]:
    """Return the instructions of a code object's bytes."""
    opcodes, instructions = _opcodes(version), list[Instruction]()
    position = extension = 0
    while position + _UNIT <= len(data):
        opcode, argument = opcodes.get(data[position]), data[position + 1] | extension
        if opcode is not None and opcode.name == _EXTENDED_ARGUMENT:
            extension = argument << 8 & 0xFFFFFFFF
            position += _UNIT
            continue
        extension = 0
        after = position + _UNIT * (1 + (0 if opcode is None else opcode.caches))
        if opcode is None:
            instructions.append(Instruction(position, "", argument, None))
        elif opcode.per_argument in (_FORWARD, _ABSOLUTE):
            distance = argument * (_UNIT if version >= (3, 10) else 1)
            target = distance + (after if opcode.per_argument == _FORWARD else 0)
            instructions.append(Instruction(position, opcode.name, argument, None, target))
        else:
            instructions.append(Instruction(position, opcode.name, argument, opcode.effect_of(argument)))
        position = after
    return tuple(instructions)


#: of small code objects; the processes of a program run the same ones
_decode_known = lru_cache(256)(decode_instructions)


def find_load_of_callee(instructions: Sequence[Instruction], offset: int) -> Instruction | None:
    """Return the instruction that loaded what the one at an offset calls; None if it calls nothing, or if that is not sure."""
    row = bisect_left(instructions, offset, key=lambda one: one.offset)
    if row == len(instructions) or instructions[row].offset != offset or instructions[row].name not in _CALLS:
        return None
    call = instructions[row]
    depth = _CALLS[call.name] + (call.argument & 1 if call.name == "CALL_FUNCTION_EX" else call.argument)
    row -= 2 if call.name == "CALL" and row and instructions[row - 1].name == "PRECALL" else 1
    above, first = 0, row - _MOST_STEPS
    while above != depth:
        effect = instructions[row].effect if row > max(first, 0) else None
        if effect is None:
            return None
        above += effect
        row -= 1
    if row > 0 and instructions[row].name == "PUSH_NULL":
        row -= 1
    # what jumps into the expression has loaded something else, as in (f if x else g)(1)
    is_joined = any(instructions[row].offset < one.target <= offset for one in instructions)
    return None if row < 0 or is_joined else instructions[row]


class CalledNames:
    """The names of what the instructions of one process's code objects call."""

    def __init__(self, memory: Memory, layout: PythonLayout, objects: Objects) -> None:
        self._memory = memory
        self._layout = layout
        self._objects = objects

    def find(self, code: CodeObject, offset: int) -> str:
        """Return the name that was loaded for the call by the instruction at an offset, "" without one."""
        try:
            return self._read(code, offset)
        except (UnreadableMemoryError, ValueError):
            return ""

    def _read(self, code: CodeObject, offset: int) -> str:
        version = self._layout.version
        if offset < 0 or code.end - code.begin > _LARGEST_CODE or not _opcodes(version):
            return ""
        data = self._memory.read(code.begin, code.end - code.begin)
        load = find_load_of_callee((_decode_known if len(data) <= _SMALL_CODE else decode_instructions)(data, version), offset)
        if load is None:
            return ""
        if load.name in _LOADS_OF_VARIABLES and (version >= (3, 11) or load.name != "LOAD_DEREF"):
            names, row = self._layout.code.variables, load.argument
        elif load.name in _LOADS_OF_NAMES:
            has_flag = (load.name == "LOAD_GLOBAL" and version >= (3, 11)) or (load.name == "LOAD_ATTR" and version >= (3, 12))
            names, row = self._layout.code_names, load.argument >> (2 if load.name == "LOAD_SUPER_ATTR" else int(has_flag))
        else:
            return ""
        table = read_word(self._memory, code.address + names)
        if not is_pointer(table) or row >= read_word(self._memory, table + self._layout.shift + _SIZE):
            return ""
        name = self._objects.text(read_word(self._memory, table + self._layout.tuple_items + 8 * row))
        return name if name.isidentifier() and len(name) <= _LONGEST_NAME else ""
