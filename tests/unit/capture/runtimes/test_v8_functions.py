"""Functions of JavaScript are found by objects that lead to each other, and by nothing else."""

from __future__ import annotations

import struct
import time

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
    "of_code": 250, "inlining_positions": 3, "positions": 24,
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

    def array(self, data: bytes) -> int:
        words = struct.unpack(f"<{(len(data) + 7) // 8}Q", data.ljust((len(data) + 7) // 8 * 8, b"\0"))
        return self.put(self.map(OTHER), len(data) << 32, *words)

    def optimized(self, functions: list[int], calls: list[tuple[int, int]], positions: bytes, size: int = 0x400) -> int:
        """Return the address of machine code of a size with inlined functions. calls: the call around, from 1, and the function of each."""
        literals = self.put(self.map(OTHER), 0, *(one | 2 for one in functions))
        inlined = self.array(b"".join(struct.pack("<QiI", around << 31, function, 9) for around, function in calls))
        data = self.put(self.map(177), 4 << 32, 0, len(functions) << 32, literals, inlined)
        table = self.array(positions)
        code = self.put(self.map(CODE), 0, data, table, 0, 0, 0x4FFFF_0000_025D, size, 0, 0, 0, 0)
        self.data += b"\0" * (-(len(self.data) + 8) % 64)
        self.put(code)
        start = BASE + len(self.data)
        self.data[code - 1 - BASE + 40 : code - 1 - BASE + 48] = struct.pack("<Q", start)
        self.data += b"\x90" * size
        return start

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


def _table(*rows: tuple[int, int]) -> bytes:
    """Encode a table of source positions: offsets in machine code, ascending, and numbers of inlined calls."""
    data, before, position = b"", 0, 0
    for offset, call in rows:
        for value in (-(offset - before) - 1, (call << 31) - position):
            number = value << 1 if value >= 0 else (-value << 1) - 1
            while number >= 0x80:
                data, number = data + bytes([number & 0x7F | 0x80]), number >> 7
            data += bytes([number])
        before, position = offset, call << 31
    return data


RETURNS = 0x200


def _caller(heap: Heap, positions: bytes | None = None, calls: list[tuple[int, int]] | None = None) -> tuple[V8Process, int, list[int]]:
    """Return a process, the address of code that has inlined outer(), which has inlined inner(), and a stack that returns into the code."""
    script = heap.script("/srv/app.js")
    functions = [heap.function(name, script, position)[1] for name, position in (("outer", 3), ("inner", 7))]
    table = _table((0x10, 0), (0x80, 1), (RETURNS - 5, 2), (RETURNS + 0x20, 0)) if positions is None else positions
    start = heap.optimized(functions, [(0, 0), (1, 1)] if calls is None else calls, table)
    process = V8Process(heap, LAYOUT, is_published=True)
    stack = [0] * 8
    stack[2] = start + RETURNS
    process.look(np.array(stack, np.uint64), 0x7FFC_0000_0000)
    return process, start, stack


def test_functions_that_are_inlined_at_a_call_have_frames_of_their_own() -> None:
    process, start, stack = _caller(Heap())
    chain = [0x7F00_0000, start + RETURNS - 1, 0x50_1FFF]
    named = process.name_methods(chain, np.array(stack, np.uint64))
    names = {one.begin: one.name for one in process.new_methods()}
    assert [names.get(one, one) for one in named] == [chain[0], "JS:~inner /srv/app.js:1:8", "JS:~outer /srv/app.js:1:4", *chain[1:]]
    for offset, count in ((0x81, 1), (0x20, 0), (RETURNS + 0x40, 0), (0x500, 0)):
        named = process.name_methods([chain[0], start + offset, chain[2]], np.array(stack, np.uint64))
        assert len(named) == 3 + count
    assert process.name_methods([start + RETURNS - 1, chain[2]], np.array(stack, np.uint64)) == [start + RETURNS - 1, chain[2]]


def test_code_that_replaces_other_code_has_no_functions_of_it() -> None:
    heap = Heap()
    process, start, stack = _caller(heap)
    chain = [0x7F00_0000, start + RETURNS - 1, 0x50_1FFF]
    assert len(process.name_methods(chain, np.array(stack, np.uint64))) == 5
    heap.data[start - BASE - 8 : start - BASE] = struct.pack("<Q", BASE + 1)
    process.refresh()
    assert process.name_methods(chain, np.array(stack, np.uint64)) == chain


@pytest.mark.parametrize(
    "calls", [[(0, 9)], [(0, -1)], [(9, 0)], [(1, 0)], [(0, 0), (2, 1)], [(number, 0) for number in range(4096)], []], ids=str
)
def test_lies_about_inlined_calls_end_and_name_no_wrong_callers(calls: list[tuple[int, int]]) -> None:
    """Functions and calls that do not exist, calls around themselves, and 4,096 of them inside each other."""
    last = max(len(calls), 1)
    process, start, stack = _caller(Heap(), _table((0x10, last)), calls)
    chain = [0x7F00_0000, start + RETURNS - 1, 0x50_1FFF]
    assert process.name_methods(chain, np.array(stack, np.uint64)) == chain


@pytest.mark.parametrize("positions", [b"\xff" * 5000, b"\x80" * 40, b"\x01", b"", _table((0x10, 0xFFFF))], ids=len)
def test_damaged_tables_of_positions_name_nothing(positions: bytes) -> None:
    process, start, stack = _caller(Heap(), positions)
    chain = [0x7F00_0000, start + RETURNS - 1, 0x50_1FFF]
    assert process.name_methods(chain, np.array(stack, np.uint64)) == chain


@pytest.mark.parametrize("seed", range(60))
def test_a_heap_that_lies_is_read_in_bounded_time(seed: int) -> None:
    """Words of the heap are replaced by pointers to other objects, by huge numbers, by any bytes."""
    heap, rng = Heap(), np.random.default_rng(seed)
    process, start, stack = _caller(heap)
    process.refresh()
    for row in rng.integers(2, (start - BASE) // 8 - 1, 1 + seed % 12).tolist():
        values = [int(rng.integers(0, len(heap.data) // 8)) * 8 + BASE + 1, int(rng.integers(0, 1 << 31)) << 32, (1 << 63) - 1, 0]
        heap.data[8 * row : 8 * row + 8] = struct.pack("<Q", values[int(rng.integers(0, 4))])
    began = time.process_time()
    for _ in range(3):
        process = V8Process(heap, LAYOUT, is_published=True)
        process.look(np.array(stack, np.uint64), 0x7FFC_0000_0000)
        named = process.name_methods([0x7F00_0000, start + RETURNS - 1, 0x50_1FFF], np.array(stack, np.uint64))
        assert len(named) <= 3 + 32
    assert time.process_time() - began < 2
