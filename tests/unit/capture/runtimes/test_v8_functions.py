"""Functions of JavaScript are found by objects that lead to each other, and by nothing else."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from perfpy.capture.process_memory import ProcessMemory
from perfpy.capture.runtimes.v8_functions import V8Heap, V8Process

LAYOUT = {
    "function": -16, "context": -8, "map": 0, "type": 12, "shared": 24, "name_or_scope": 16, "script": 32, "script_name": 16, "source": 8,
    "line_ends": 56, "string_length": 12, "one_byte": 16, "two_byte": 16, "first": 16, "second": 24, "resource": 16, "parent": 16,
    "offset": 24, "actual": 16, "array_length": 8, "array_data": 16, "of_shared": 262, "of_script": 167, "of_scope": 261, "of_array": 177,
    "local_count": 2, "first_local": 3, "no_string": 128, "representation": 7, "cons": 1, "external": 2, "sliced": 3, "thin": 5,
    "encoding": 8, "narrow": 8, "small_integer": 31, "feedback_cell": 40, "deoptimization": 16, "inlined_count": 1, "literals": 2,
    "of_code": 250,
}  # fmt: skip
CODE, OTHER = 250, 300
BASE = 0x2000_0000_0000


class Heap(ProcessMemory):
    """Memory with objects, one after the other."""

    def __init__(self) -> None:  # opens nothing
        self.data = bytearray(b"\0" * 16)
        self.maps: dict[int, int] = {}

    def put(self, *words: int) -> int:
        """Add words; return a tagged pointer to the first."""
        address = BASE + len(self.data)
        self.data += struct.pack(f"<{len(words)}Q", *(word & (1 << 64) - 1 for word in words))
        return address + 1

    def map(self, kind: int) -> int:
        if kind not in self.maps:
            self.maps[kind] = self.put(0, kind << 32)
        return self.maps[kind]

    def string(self, text: str) -> int:
        data = text.encode("latin-1")
        words = struct.unpack(f"<{(len(data) + 7) // 8}Q", data.ljust((len(data) + 7) // 8 * 8, b"\0"))
        return self.put(self.map(8), len(data) << 32, *words)

    def function(self, name: str, script: int, position: int, code: int = 1, locals_of: int = 2) -> tuple[int, int]:
        """Return a function, and what it shares with others of the same code."""
        variables = [self.string("a")] * locals_of + [0] * locals_of
        named = [self.string(name)] if name else []
        scope = self.put(
            self.map(261), 0, 0, locals_of << 32, *variables, *named, position << 32, (position + 9) << 32, self.string("outer"), 0, 0, 0
        )
        shared = self.put(self.map(262), 0, scope, 0, script)
        return self.put(self.map(OTHER), 0, 0, shared, 0, 0, code), shared

    def script(self, name: str, source: str = "") -> int:
        return self.put(self.map(167), self.string(source), self.string(name), 0, 0, 0, 0, self.put(self.map(OTHER)))

    def some(self, address: int, most: int) -> bytes:
        begin = address - BASE
        return bytes(self.data[begin : begin + most]) if begin >= 0 else b""

    def read(self, address: int, size: int) -> bytes:
        data = self.some(address, size)
        if len(data) < size:
            raise OSError
        return data

    def number(self, address: int, size: int = 8, *, signed: bool = False) -> int:
        return int.from_bytes(self.read(address, size), "little", signed=signed)


def test_a_function_has_its_name_script_line_and_column() -> None:
    heap = Heap()
    script = heap.script("/srv/app.js", "let x;\nfunction handle() {}\n")
    assert V8Heap(heap, LAYOUT).function_name(heap.function("handle", script, 22)[0]) == "JS:~handle /srv/app.js:2:16"
    assert V8Heap(heap, LAYOUT).function_name(heap.function("", script, 0)[0]) == "JS:~ /srv/app.js:1:1"


def test_built_in_functions_have_no_name() -> None:
    heap = Heap()
    assert V8Heap(heap, LAYOUT).function_name(heap.function("map", heap.string("no script"), 3)[0]) == ""


@pytest.mark.parametrize("inlined", [["tick"], ["", "tick"], []])
def test_code_of_node_has_the_name_of_the_first_function_of_the_program_in_it(inlined: list[str]) -> None:
    heap = Heap()
    of_node, of_program = heap.script("node:internal/timers"), heap.script("/srv/app.js")
    shared = [heap.function(name or "emit", of_program if name else of_node, 5)[1] for name in inlined]
    literals = heap.put(heap.map(OTHER), 0, *(one | 2 for one in shared))  # weak pointers
    data = heap.put(heap.map(177), 3 << 32, 1, len(shared) << 32, literals)
    code = heap.put(heap.map(CODE), 0, data)
    name = V8Heap(heap, LAYOUT).function_name(heap.function("run", of_node, 0, code)[0])
    assert name == ("JS:~tick /srv/app.js:1:6" if inlined else "JS:~run node:internal/timers:1:1")


def test_other_memory_is_no_function() -> None:
    heap = Heap()
    function, _ = heap.function("handle", heap.script("/srv/app.js"), 1)
    for begin in range(1, len(heap.data), 8):
        if begin != function - BASE:
            with pytest.raises((OSError, ValueError)):
                V8Heap(heap, LAYOUT).function_name(BASE + begin)
    heap.data[:] = b"\xff" * len(heap.data)
    with pytest.raises((OSError, ValueError)):
        V8Heap(heap, LAYOUT).function_name(function)


def test_a_scope_with_an_impossible_number_of_variables_is_refused() -> None:
    heap = Heap()
    scope = heap.put(heap.map(261), 0, 0, (1 << 31) - 1 << 32)
    shared = heap.put(heap.map(262), 0, scope, 0, heap.script("/srv/app.js"))
    with pytest.raises((OSError, ValueError)):
        V8Heap(heap, LAYOUT).function_name(heap.put(0, 0, 0, shared))


def test_a_script_that_contains_itself_ends() -> None:
    heap = Heap()
    script = heap.script("/srv/app.js")
    loop = heap.put(heap.map(8 | 5), 5 << 32, 0)
    heap.data[loop - 1 - BASE + 16 : loop - 1 - BASE + 24] = struct.pack("<Q", loop)
    heap.data[script - 1 - BASE + 16 : script - 1 - BASE + 24] = struct.pack("<Q", loop)
    with pytest.raises(ValueError, match="flat"):
        V8Heap(heap, LAYOUT).function_name(heap.function("f", script, 0)[0])


def test_frames_of_a_stack_are_named_and_others_stay() -> None:
    """Frames: one of native code, one of JavaScript, the frame that called it."""
    heap = Heap()
    function, _ = heap.function("handle", heap.script("/srv/app.js"), 1)
    process = V8Process(heap, LAYOUT)
    pointer, context = 0x7FFC_0000_0000, function
    stack = np.zeros(16, np.uint64)
    stack[1] = 0x40_1000  # returns from native code into JavaScript's
    stack[4:8] = [function, context, pointer + 8 * 12, 0x50_2000]
    process.look(stack, pointer)
    chain = [0x7F00_0000, 0x40_0FFF, 0x50_1FFF]
    named = process.name_methods(chain, stack)
    (found,) = process.new_methods()
    assert named == [chain[0], found.begin, chain[2]]
    assert found.name == "JS:~handle /srv/app.js:1:2"
    assert process.new_methods() == []
    process.look(stack, (1 << 64) - 1)  # registers are data of others
    process.look(np.zeros(0, np.uint64), pointer)
