"""The memory of a CPython process, made by hand: thread states, frames and code objects of any layout.

A Heap gives out addresses and holds what is written there; it is a perfpy.interpreters.objects.Memory.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from perfpy.interpreters.layouts import COOKIE, LAYOUTS, NONE, decode
from perfpy.interpreters.layouts import SIZE as DESCRIPTION_SIZE
from perfpy.interpreters.objects import UnreadableMemoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.interpreters.layouts import PythonLayout

#: what CPython 3.13.0 on x86-64 says of itself
OF_3_13 = (
    *(0x030D00F0, 0, 459_944, 600, 632),
    *(390_000, 7272, 7264, 7344, 7544, 8312, 8360, 8368, 16, 262_000, 0, 262_016, 262_008),
    *(304, 0, 8, 16, 72, 152, 160, 232, 32),
    *(80, 8, 0, 56, 72, 70),
    *(208, 112, 120, 128, 136, 68, 52, 96, 104, 200),
)
#: what CPython 3.13.15 on x86-64, built without a GIL, says of itself
OF_3_13T = (
    *(0x030D0FF0, 1, 328_384, 608, 632),
    *(215_616, 7272, 7264, 7344, 7400, 7664, 7648, 7656, 16, 7760, 0, 7784, 7776),
    *(312, 0, 8, 16, 72, 152, 160, 232, 32),
    *(80, 8, 0, 56, 72, 70),
    *(224, 128, 136, 144, 152, 84, 68, 112, 120, 216),
)
#: what CPython 3.14.8 on x86-64 says of itself
OF_3_14 = (
    *(0x030E08F0, 0, 316_616, 784, 808),
    *(225_864, 7280, 7272, 7344, 7360, 7408, 7688, 7672, 7680, 16, 7784, 0, 7800, 7792, 7992, 0),
    *(832, 0, 8, 16, 72, 152, 160, 232, 32),
    *(88, 8, 0, 56, 80, 74, 64, 0),
    *(216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0),
)
#: what CPython 3.15.2 on x86-64 says of itself
OF_3_15 = (
    *(0x030F02F0, 0, 346_568, 912, 936),
    *(226_240, 7272, 7264, 7336, 7352, 7400, 7592, 7576, 7584, 16, 7736, 0, 7752, 7744, 7944, 0),
    *(888, 0, 8, 16, 72, 80, 88, 96, 176, 184, 256, 32, 36, 40, 136, 288),
    *(0,),
    *(88, 8, 0, 56, 80, 74, 64, 0),
    *(216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0),
)
#: a build of 3.14 without a GIL: its objects are as in 3.13, and its code objects have copies of their instructions
OF_3_14T = (OF_3_14[0], 1, *OF_3_14[2:-11], 232, 128, 136, 144, 152, 84, 68, 112, 120, 224, 216)
DESCRIPTIONS = {(3, 13): OF_3_13, (3, 14): OF_3_14, (3, 15): OF_3_15, (3, 13, 1): OF_3_13T, (3, 14, 1): OF_3_14T}  # 1: without a GIL
BASE = 0x7F00_0000_0000
SIZE = 1 << 22


class Heap:
    """Four megabytes of a process's memory. reads: how often it was read; most_at_once: bytes that were asked for at once."""

    def __init__(self) -> None:
        self._bytes = bytearray(SIZE)
        self._end = 4096
        self.reads = self.most_at_once = 0

    @property
    def end(self) -> int:
        """How many bytes are in use."""
        return self._end

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        self.most_at_once = max(self.most_at_once, size)
        start = address - BASE
        if start < 0 or size < 0 or start + size > SIZE:
            raise UnreadableMemoryError
        return bytes(self._bytes[start : start + size])

    def new(self, data: bytes | int) -> int:
        """Put bytes, or so many zeros, at a new address."""
        data = bytes(data)
        address = BASE + self._end
        self._end += (len(data) + 63) & -16
        self.write(address, data)
        return address

    def write(self, address: int, data: bytes) -> None:
        self._bytes[address - BASE : address - BASE + len(data)] = data

    def put(self, address: int, value: int, size: int = 8) -> None:
        self.write(address, value.to_bytes(size, "little", signed=value < 0))


class PythonMemory:
    """One interpreter with threads. runtime: the address of _PyRuntime."""

    def __init__(self, version: tuple[int, int], layout: PythonLayout | None = None) -> None:
        self.heap = Heap()
        self.layout = layout or LAYOUTS[version]
        self.runtime = self.heap.new(8192)
        self.interpreter = self.heap.new(8192)
        self.heap.put(self.runtime + self.layout.runtime.interpreters, self.interpreter)
        self.code_type = self.heap.new(64)
        self.shift = self.layout.shift
        self.heap.put(self.code_type + self.shift + 24, self.heap.new(b"code\0"))

    def text(self, value: str) -> int:
        """A str object."""
        is_ascii = value.isascii()
        data = value.encode() if is_ascii else value.encode("utf-16-le")
        kind = 1 if is_ascii else 2
        begin = self.layout.ascii_text if is_ascii else self.layout.other_text
        address = self.heap.new(begin + len(data))
        self.heap.put(address + self.shift + 16, len(value))
        self.heap.put(address + self.shift + 32, kind << 2 | 1 << 5 | is_ascii << 6, 4)
        self.heap.write(address + begin, data)
        return address

    def bytes_object(self, value: bytes) -> int:
        """A bytes object."""
        return self.heap.new(bytes(self.shift) + struct.pack("<QQQQ", 1, 0, len(value), 0) + value)

    def code(self, name: str, *, units: int = 50, lines: bytes = b"", filename: str = "/app/main.py", frame_words: int = 20) -> int:
        """A code object; returns its address."""
        layout = self.layout.code
        address = self.heap.new(layout.size + 2 * units)
        self.heap.put(address + self.shift + 8, self.code_type)
        self.heap.put(address + self.shift + 16, units)
        self.heap.put(address + layout.filename, self.text(filename))
        self.heap.put(address + layout.name, self.text(name.rpartition(".")[2]))
        if layout.qualname != NONE:
            self.heap.put(address + layout.qualname, self.text(name))
        self.heap.put(address + layout.lines, self.bytes_object(lines))
        self.heap.put(address + layout.first_line, 10, 4)
        if not layout.is_inline:
            self.heap.put(address + layout.code, self.bytes_object(bytes(2 * units)))
        for field in layout.frame_sizes[:1]:
            self.heap.put(address + field, frame_words - layout.frame_extra, 4)
        return address

    def instructions(self, code: int) -> int:
        """Where the instructions of a code object begin."""
        layout = self.layout.code
        return code + layout.code if layout.is_inline else int.from_bytes(self.heap.read(code + layout.code, 8), "little") + 32

    def frame(self, address: int, code: int, offset: int, previous: int, *, owner: int = 0, is_entry: bool = False) -> None:
        """Write a frame; offset: of its instruction, in bytes."""
        layout = self.layout.frame
        self.heap.put(address + layout.code, code)
        self.heap.put(address + layout.previous, previous)
        if self.layout.has_data_stack:
            self.heap.put(address + layout.instruction, self.instructions(code) + offset if code else 0)
            self.heap.put(address + layout.owner, owner, 1)
        else:
            unit = 2 if self.layout.version == (3, 10) else 1
            self.heap.put(address + layout.instruction, offset // unit, 4)
        if layout.is_entry != NONE:
            self.heap.put(address + layout.is_entry, is_entry, 1)

    def stack(self, calls: Sequence[Sequence[tuple[int, int]]], chunk_size: int = 8192) -> tuple[int, int, int]:
        """The frames of a thread: (code, offset) of each call from C, outermost first; the innermost frame, the chunk, its top."""
        chunk = self.heap.new(chunk_size)
        self.heap.put(chunk + 8, chunk_size)
        top, previous = chunk + 24, 0
        for call in calls:
            if self.layout.frame.shims < 8:
                shim = self.heap.new(128)
                self.frame(shim, 0, 0, previous, owner=self.layout.frame.shims)
                previous = shim
            for number, (code, offset) in enumerate(call):
                address = top if self.layout.has_data_stack else self.heap.new(512)
                self.frame(address, code, offset, previous, is_entry=number == 0)
                previous = address
                top += 8 * 20
        return previous, chunk, top

    def thread(self, native_id: int, frames: tuple[int, int, int], thread_id: int = 0) -> int:
        """A thread state in front of those that were made before; returns its address."""
        layout = self.layout.thread
        innermost, chunk, top = frames
        state = self.heap.new(layout.size + 64)
        head = self.interpreter + self.layout.runtime.threads
        self.heap.write(state + layout.next, self.heap.read(head, 8))
        self.heap.put(head, state)
        self.heap.put(state + layout.thread_id, thread_id)
        if layout.native_id != NONE:
            self.heap.put(state + layout.native_id, native_id)
        if layout.chunk != NONE:
            self.heap.write(state + layout.chunk, struct.pack("<QQ", chunk, top))
        if layout.cframe != NONE:
            cframe = self.heap.new(32)
            self.heap.put(cframe + layout.frame, innermost)
            self.heap.put(state + layout.cframe, cframe)
        else:
            self.heap.put(state + layout.frame, innermost)
        return state


def described(version: tuple[int, ...]) -> bytes:
    """Return the description at the beginning of a runtime."""
    data = COOKIE + struct.pack(f"<{len(DESCRIPTIONS[version])}Q", *DESCRIPTIONS[version])
    return data + bytes(DESCRIPTION_SIZE - len(data))


def memory_of(version: tuple[int, ...]) -> PythonMemory:
    """Return a process of a version; from 3.13 on, one that describes itself."""
    number = version[0], version[1]
    if number in LAYOUTS:
        return PythonMemory(number)
    memory = PythonMemory(number, decode(described(version)))
    memory.heap.write(memory.runtime, described(version))
    memory.heap.put(memory.runtime + memory.layout.runtime.interpreters, memory.interpreter)
    return memory
