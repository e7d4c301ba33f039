"""Frames of threads out of memory: all layouts, and memory that lies."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.python_frames.kernel_frames import THREAD, entry_of
from perfpy.interpreters import frames
from perfpy.interpreters import frames as code_objects
from perfpy.interpreters.layouts import COOKIE, NONE, SIZE, decode
from perfpy.interpreters.objects import LONGEST_TEXT, Objects, UnreadableMemoryError
from perfpy.interpreters.process import PythonProcess
from tests.builders.python_memory import BASE, DESCRIPTIONS, OF_3_13, PythonMemory, memory_of
from tests.builders.python_memory import SIZE as MEMORY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfpy.interpreters.frames import ThreadFrames


OLD = [(3, 8), (3, 9), (3, 10)]
NEW = [(3, 11), (3, 12)]


def process_of(memory: PythonMemory, clock=lambda: 0.0) -> PythonProcess:
    return PythonProcess(memory.heap, memory.runtime, memory.layout.version, clock)


@pytest.fixture(params=[*OLD, *NEW, *DESCRIPTIONS], ids=lambda version: ".".join(map(str, version)))
def memory(request) -> PythonMemory:
    return memory_of(request.param)


def frames_of(process: PythonProcess, tid: int = 77, stack_pointer: int = 0) -> ThreadFrames:
    frames = process.frames(tid, stack_pointer, is_main=not stack_pointer)
    assert frames is not None
    return frames


def names(found) -> list[tuple[str, int, bool]]:
    return [(frame.code.name, frame.offset, frame.is_entry) for frame in found.frames]


def test_frames_of_a_thread_innermost_first(memory):
    outer, inner, actual_calls = memory.code("main"), memory.code("Class.method"), memory.code("<lambda>")
    calls = (
        [[(outer, 8), (inner, 20)], [(actual_calls, 4)]]
        if memory.layout.has_data_stack
        else [[(outer, 8)], [(inner, 20)], [(actual_calls, 4)]]
    )
    memory.thread(77, memory.stack(calls))
    frames = frames_of(process_of(memory))
    last = "Class.method" if memory.layout.code.qualname != NONE else "method"
    is_entry = not memory.layout.has_data_stack
    assert names(frames) == [("<lambda>", 4, True), (last, 20, is_entry), ("main", 8, True)]
    assert frames.is_whole
    assert not frames.has_moved
    assert frames.frames[0].code.filename == "/app/main.py"
    assert frames.frames[0].code.first_line == 10


def test_threads_without_a_gil_run_their_own_copies_of_instructions():
    """Since 3.14: the first copy is the code object's own, later ones belong to other threads; addresses outside of all are refused."""
    memory = memory_of((3, 14, 1))
    heap, code = memory.heap, memory.code("main", units=50)
    begin, copy = memory.instructions(code), heap.new(100)
    heap.put(code + memory.layout.code.copies, heap.new(struct.pack("<4Q", 3, begin, 0, copy)))
    innermost, chunk, top = memory.stack([[(code, 8)]])
    memory.thread(77, (innermost, chunk, top))
    for instruction, expected in ((begin + 8, [8]), (copy + 20, [20]), (copy + 98, [98]), (copy + 100, []), (copy - 4, []), (0, [])):
        heap.put(innermost + memory.layout.frame.instruction, instruction)
        assert [frame.offset for frame in frames_of(process_of(memory)).frames] == expected
        words = [(innermost, code, instruction, 0)]
        assert [frame.offset for frame in process_of(memory).frames_of_words(words, is_whole=True).frames] == expected
    heap.put(code + memory.layout.code.copies, heap.new(struct.pack("<2Q", (1 << 64) - 1, copy)))  # more copies than memory has
    assert frames_of(process_of(memory)).frames == []


def test_frames_have_their_sizes_on_the_data_stack(memory):
    code = memory.code("main", frame_words=20)
    memory.thread(77, memory.stack([[(code, 0)]]))
    assert frames_of(process_of(memory)).frames[0].code.frame_size == (160 if memory.layout.has_data_stack else 0)


def test_names_beyond_ascii(memory):
    memory.thread(77, memory.stack([[(memory.code("größe"), 0)]]))
    assert frames_of(process_of(memory)).frames[0].code.name == "größe"


def test_each_thread_has_its_own_frames(memory):
    stacks = [memory.stack([[(memory.code(name), 0)]]) for name in ("first", "second", "third")]
    for number, stack in enumerate(stacks):
        memory.thread(100 + number, stack, thread_id=0x7000_0000_0000 + number * 0x80_0000)
    process = process_of(memory)
    by_stack = [0, 0x7000_0080_0000 - 5000, 0x7000_0100_0000 - 5000]
    results = [frames_of(process, 100 + number, by_stack[number]) for number in range(3)]
    assert [one.frames[0].code.name for one in results] == ["first", "second", "third"]


def test_threads_without_a_state_have_no_frames(memory):
    memory.thread(77, memory.stack([[(memory.code("main"), 0)]]), thread_id=0x7000_0000_0000)
    assert process_of(memory).frames(78, 0x7100_0000_0000) is None


def test_reused_thread_states_are_searched_again():
    memory = PythonMemory((3, 12))
    time = [0.0]
    state = memory.thread(77, memory.stack([[(memory.code("old"), 0)]]))
    process = process_of(memory, lambda: time[0])
    assert process.frames(77) is not None
    memory.heap.put(state + memory.layout.thread.native_id, 78)
    time[0] = 1.0
    assert process.frames(77) is None
    time[0] = 2.0
    assert frames_of(process, 78).frames[0].code.name == "old"


def test_threads_that_start_right_after_a_list_have_their_frames():
    """A list of all states is not repeated at once, but new states are at its beginning."""
    memory = PythonMemory((3, 12))
    memory.thread(77, memory.stack([[(memory.code("main"), 0)]]))
    process = process_of(memory, lambda: 1.0)
    assert process.frames(78) is None
    memory.thread(78, memory.stack([[(memory.code("second"), 0)]]))
    memory.thread(79, memory.stack([[(memory.code("third"), 0)]]))
    memory.thread(77, memory.stack([[(memory.code("starting"), 0)]]))  # it still has the number of the thread that started it
    names = [frames_of(process, tid).frames[0].code.name for tid in (78, 79, 77)]
    assert names == ["second", "third", "main"]


def test_code_objects_are_read_once():
    memory = PythonMemory((3, 12))
    memory.thread(77, memory.stack([[(memory.code("main"), 0)]]))
    process = process_of(memory)
    process.frames(77)
    memory.heap.reads = 0
    process.frames(77)
    assert memory.heap.reads <= 6


def test_code_objects_of_a_process_are_bounded_also_without_names(monkeypatch: pytest.MonkeyPatch):
    """A process can make code objects without end; each takes memory, whatever its names are."""
    monkeypatch.setattr(code_objects, "_MOST_BYTES", 3000)
    memory = memory_of((3, 12))
    addresses = [memory.code("", filename="") for _ in range(20)]
    codes = code_objects.Codes(memory.heap, memory.layout, Objects(memory.heap, memory.layout), lambda: 0.0)
    assert sum(codes.find(address) is not None for address in addresses) == 6


def test_another_code_object_at_the_same_address_is_noticed():
    memory, time = PythonMemory((3, 12)), [0.0]
    first, second = memory.code("first"), memory.code("second")
    memory.thread(77, memory.stack([[(first, 0)]]))
    process = process_of(memory, lambda: time[0])
    assert frames_of(process).frames[0].code.name == "first"
    memory.heap.write(first, memory.heap.read(second, memory.layout.code.size))
    time[0] = 1.0
    assert frames_of(process).frames[0].code.name == "second"


def test_young_code_objects_are_compared_soon_and_old_ones_rarely():
    """A module's code is freed after its import; a function of the program may be at its address 20 ms later."""
    memory, time = PythonMemory((3, 12)), [0.0]
    first, second = memory.code("first"), memory.code("second")
    codes = code_objects.Codes(memory.heap, memory.layout, Objects(memory.heap, memory.layout), lambda: time[0])
    assert getattr(codes.find(first), "name", "") == "first"
    memory.heap.write(first, memory.heap.read(second, memory.layout.code.size))
    time[0] = 0.02
    assert getattr(codes.find(first), "name", "") == "second"
    comparisons = 0
    for tick in range(100, 500):  # one look a hundredth of a second
        time[0], memory.heap.reads = tick / 100, 0
        codes.find(first)
        comparisons += bool(memory.heap.reads)
    assert 14 <= comparisons <= 22


def test_code_of_modules_is_compared_soon_for_ever():
    """Each statement of a notebook's cell is a module: the code of the next one's comprehension is where its code was."""
    memory, time = PythonMemory((3, 12)), [0.0]
    module, comprehension = memory.code("<module>"), memory.code("<dictcomp>")
    codes = code_objects.Codes(memory.heap, memory.layout, Objects(memory.heap, memory.layout), lambda: time[0])
    for tick in range(500):
        time[0] = tick / 100
        assert getattr(codes.find(module), "name", "") == "<module>"
    memory.heap.write(module, memory.heap.read(comprehension, memory.layout.code.size))
    time[0] += 0.011
    assert getattr(codes.find(module), "name", "") == "<dictcomp>"


def test_frames_in_older_chunks_of_the_data_stack():
    memory = PythonMemory((3, 12))
    code = memory.code("deep")
    outer, old, top = memory.stack([[(code, 2 * number) for number in range(40)]])
    memory.heap.put(old + 16, (top - old - 24) // 8)
    new = memory.heap.new(4096)
    memory.heap.put(new, old)
    memory.frame(new + 24, code, 60, outer)
    memory.thread(77, (new + 24, new, new + 24 + 160))
    frames = frames_of(process_of(memory))
    assert [frame.offset for frame in frames.frames] == [60, *range(78, -2, -2)]


def left_behind(memory: PythonMemory, code: int, previous: Callable[[int], int]) -> ThreadFrames:
    """One frame, and above it the rest of one that the thread has left; previous: whom that one was called by."""
    innermost, chunk, top = memory.stack([[(memory.code("main"), 0)]])
    memory.frame(top, code, 12, previous(innermost))
    memory.thread(77, (innermost, chunk, top))
    return frames_of(process_of(memory))


def test_ended_frames_are_returned():
    memory = PythonMemory((3, 12))
    leftovers = left_behind(memory, memory.code("called"), lambda innermost: innermost)
    assert [(frame.code.name, frame.offset, frame.is_entry) for frame in leftovers.left] == [("called", 12, False)]
    assert [frame.code.name for frame in leftovers.frames] == ["main"]


def test_ended_frames_of_a_generator_have_it_as_caller():
    """A generator's frame lies in its object; what resumed it is not known any more."""
    memory = PythonMemory((3, 12))
    generator = memory.heap.new(256)
    memory.frame(generator, memory.code("numbers"), 30, 0, owner=1)
    leftovers = left_behind(memory, memory.code("called"), lambda _: generator)
    assert [(frame.code.name, frame.offset, frame.is_entry) for frame in leftovers.left] == [("called", 12, False), ("numbers", 30, True)]


@pytest.mark.parametrize("caller", ["thread", "nowhere", "misaligned"])
def test_ended_frames_with_an_unknown_caller_are_entries(caller: str):
    memory = PythonMemory((3, 12))
    other = memory.heap.new(256)
    memory.frame(other, memory.code("other"), 30, 0, owner=0)
    address = {"thread": other, "nowhere": BASE + (1 << 40), "misaligned": 9}[caller]
    leftovers = left_behind(memory, memory.code("called"), lambda _: address)
    assert [(frame.code.name, frame.is_entry) for frame in leftovers.left] == [("called", True)]


@pytest.mark.parametrize(("wrong", "is_whole"), [(1, True), (2, True), (3, False)])
def test_broken_chains_are_read_again(wrong: int, *, is_whole: bool):
    """As a thread changes them while they are read."""
    memory = PythonMemory((3, 12))
    outer, inner = memory.code("outer"), memory.code("inner")
    innermost, chunk, top = memory.stack([[(outer, 0), (inner, 0)]])
    memory.thread(77, (innermost, chunk, top))
    right = memory.heap.read(innermost + memory.layout.frame.previous, 8)
    process = process_of(memory)
    copies = []

    def read(address: int, size: int) -> bytes:
        if address == chunk:
            copies.append(address)
            memory.heap.write(innermost + memory.layout.frame.previous, right if len(copies) > wrong else struct.pack("<Q", 1))
        return memory_read(address, size)

    memory_read = memory.heap.read
    memory.heap.read = read  # type: ignore[method-assign]
    frames = frames_of(process)
    assert frames.is_whole == is_whole
    assert [frame.code.name for frame in frames.frames] == (["inner", "outer"] if is_whole else ["inner"])
    assert len(copies) <= 3


def test_frames_that_ended_during_the_copy_are_dropped():
    """Their callers may be of another moment."""
    memory = PythonMemory((3, 12))
    code = memory.code("main")
    innermost, chunk, top = memory.stack([[(code, 0), (memory.code("left"), 0), (memory.code("leaf"), 0)]])
    state = memory.thread(77, (innermost, chunk, top))
    process, memory_read = process_of(memory), memory.heap.read
    process.frames(77)

    def read(address: int, size: int) -> bytes:
        result = memory_read(address, size)
        if address == chunk:
            memory.heap.put(state + memory.layout.thread.chunk + 8, innermost - 160)
        return result

    memory.heap.read = read  # type: ignore[method-assign]
    assert [frame.code.name for frame in frames_of(process).frames] == ["main"]


@pytest.mark.parametrize("version", [(3, 11), (3, 12)])
def test_addresses_of_the_gil(version):
    memory = PythonMemory(version)
    memory.thread(77, memory.stack([[(memory.code("main"), 0)]]))
    runtime = memory.layout.runtime
    gil = memory.runtime
    if runtime.gil:
        gil = memory.heap.new(64)
        memory.heap.put(memory.interpreter + runtime.gil, gil)
    assert process_of(memory).states.gil_addresses() == (gil + runtime.gil_holder, gil + runtime.gil_locked)


# memory that lies


def test_endless_chains_of_frames_end(memory):
    code = memory.code("main")
    innermost, chunk, top = memory.stack([[(code, 0), (code, 2)]])
    outermost = (
        innermost - 160
        if memory.layout.has_data_stack
        else int.from_bytes(memory.heap.read(innermost + memory.layout.frame.previous, 8), "little")
    )
    memory.heap.put(outermost + memory.layout.frame.previous, innermost)
    memory.thread(77, (innermost, chunk, top))
    actual_frames = frames_of(process_of(memory))
    assert len(actual_frames.frames) == frames.MOST_FRAMES
    assert not actual_frames.is_whole
    assert memory.heap.reads < 2 * frames.MOST_FRAMES  # once, not at each attempt


@pytest.mark.parametrize("pointer", [1, 0xFFFF_FFFF_FFFF_FFFF, BASE + 4097, 0x1234_5678_9ABC_DEF0])
def test_invalid_pointers_end_a_chain(memory, pointer):
    innermost, chunk, top = memory.stack([[(memory.code("main"), 0)]])
    memory.heap.write(innermost + memory.layout.frame.previous, struct.pack("<Q", pointer))
    memory.thread(77, (innermost, chunk, top))
    frames = frames_of(process_of(memory))
    assert not frames.is_whole
    assert len(frames.frames) <= 1


@pytest.mark.parametrize("offset", [-4, 100, 1 << 30])
def test_instructions_outside_their_code_end_a_chain(memory, offset):
    memory.thread(77, memory.stack([[(memory.code("main", units=50), offset)]]))
    frames = frames_of(process_of(memory))
    assert not frames.frames
    assert not frames.is_whole


def test_endless_lists_of_threads_end(memory):
    state = memory.thread(77, memory.stack([[(memory.code("main"), 0)]]))
    memory.heap.put(state + memory.layout.thread.next, state)
    assert process_of(memory).frames(78, 0x7100_0000_0000) is None


def test_names_of_any_length_are_truncated():
    memory = PythonMemory((3, 12))
    text = memory.text("x" * 5000)
    memory.heap.put(text + 16, 10 << 30)
    code = memory.code("main")
    memory.heap.put(code + memory.layout.code.qualname, text)
    memory.thread(77, memory.stack([[(code, 0)]]))
    assert frames_of(process_of(memory)).frames[0].code.name == "x" * LONGEST_TEXT


@pytest.mark.parametrize("field", ["filename", "name", "lines"])
def test_code_objects_whose_parts_cannot_be_read_are_none(memory, field):
    code = memory.code("main")
    memory.heap.put(code + getattr(memory.layout.code, field), 8)
    if field == "name" and memory.layout.code.qualname != NONE:
        memory.heap.put(code + memory.layout.code.qualname, 8)
    memory.thread(77, memory.stack([[(code, 0)]]))
    assert not frames_of(process_of(memory)).frames


def test_objects_of_another_type_are_no_code(memory):
    code = memory.code("main")
    memory.heap.put(code + memory.shift + 8, memory.text("no type"))
    memory.thread(77, memory.stack([[(code, 0)]]))
    assert not frames_of(process_of(memory)).frames


@pytest.mark.parametrize("size", [0, -1, 1 << 40])
def test_code_objects_of_impossible_sizes_are_none(size):
    memory = PythonMemory((3, 12))
    code = memory.code("main")
    memory.heap.put(code + 16, size)
    memory.thread(77, memory.stack([[(code, 0)]]))
    assert not frames_of(process_of(memory)).frames


def test_chunks_of_impossible_sizes_are_not_copied():
    memory = PythonMemory((3, 12))
    innermost, chunk, _ = memory.stack([[(memory.code("main"), 0)]])
    memory.thread(77, (innermost, chunk, chunk + (1 << 40)))
    assert len(frames_of(process_of(memory)).frames) == 1


def test_descriptions_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="not known"):
        decode(COOKIE + struct.pack("<Q", 0x03630000) + bytes(SIZE))
    numbers = [*OF_3_13]
    numbers[10] = 1 << 50
    with pytest.raises(ValueError, match="unexpected values"):
        decode(COOKIE + struct.pack(f"<{len(numbers)}Q", *numbers) + bytes(SIZE))
    with pytest.raises(ValueError, match="no description"):
        decode(bytes(SIZE))


@pytest.mark.parametrize("version", DESCRIPTIONS)
def test_a_description_with_any_number_changed_is_refused_or_read(version: tuple[int, int]):
    """Fields outside of their structures, structures without size, a lock at a negative offset."""
    for row in range(2, len(DESCRIPTIONS[version])):
        for value in (0, 1, 7, 200, (1 << 20) - 1, 1 << 20):
            memory = memory_of(version)
            memory.thread(77, memory.stack([[(memory.code("main"), 0)]]))
            memory.heap.put(memory.runtime + 8 + 8 * row, value)
            try:
                process = process_of(memory)
            except (ValueError, UnreadableMemoryError):
                continue
            with contextlib.suppress(UnreadableMemoryError):
                process.frames(77)
                if (entry := entry_of(process, 77)) is not None:
                    entry.pack()


def test_a_lock_outside_of_memory_is_none():
    """What the process says of it goes to the kernel as numbers of 64 bits."""
    memory = memory_of((3, 12))
    memory.thread(77, memory.stack([[(memory.code("main"), 0)]]))
    memory.heap.put(memory.interpreter + memory.layout.runtime.gil, (1 << 64) - 8)
    process = process_of(memory)
    process.frames(77)
    entry = entry_of(process, 77)
    assert entry is not None
    assert (entry.gil_holder, len(entry.pack())) == (0, THREAD.size)


def test_versions_that_are_unknown_are_refused():
    memory = PythonMemory((3, 12))
    with pytest.raises(ValueError, match="is not known here"):
        PythonProcess(memory.heap, memory.runtime, (3, 7), lambda: 0.0)
    with pytest.raises(UnreadableMemoryError):
        PythonProcess(memory.heap, 8, (3, 12), lambda: 0.0)


def test_a_thread_that_is_just_starting_does_not_get_the_state_of_the_thread_above():
    """Before 3.11 its state still has the identity of the thread that started it."""
    memory = memory_of((3, 8))
    above = 0x7000_0100_0000
    for number, identity in enumerate((0x7100_0000_0000, above, 0x7100_0000_0000)):
        memory.thread(100 + number, memory.stack([[(memory.code(f"thread{number}"), 0)]]), thread_id=identity)
    process = process_of(memory)
    assert process.frames(102, above - 0x80_1000 - 5000) is None
    assert frames_of(process, 101, above - 5000).frames[0].code.name == "thread1"


# Names of threads out of memory: all layouts of dictionaries and instances, and memory that lies.


VERSIONS = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15)]
IDENTITY = 0x7F12_3456_7700
SLOTS = 128  # of a table of keys
#: with equal lower bits: they collide
IDENTITIES = [IDENTITY, IDENTITY + 0x10_0000, IDENTITY + 0x80_0000]
LIES = (0, 1, 8, (1 << 64) - 1, 1 << 63, 10 << 30, BASE, BASE + MEMORY_SIZE - 8, BASE + MEMORY_SIZE, 0x7FFF_FFFF)
MOST_READS = 40_000


class Process:
    """A process with the module threading and threads that have names."""

    def __init__(self, version: tuple[int, int], names: Sequence[str] = ("worker-1",), *, own_dictionary: bool = False) -> None:
        self.memory = memory = memory_of(version)
        self.is_new = version >= (3, 11)
        kind = self._thread_class()
        threads = [self._instance(kind, name, own_dictionary=own_dictionary) for name in names]
        self.active = self._dictionary(dict(zip(IDENTITIES, threads, strict=False)))
        contents = self._dictionary({memory.text("Lock"): 0, memory.text("_active"): self.active})
        module = memory.heap.new(struct.pack("<QQQ", 1, 0, contents))
        modules = {memory.text(f"module{number}"): module + 64 for number in range(20)} | {memory.text("threading"): module}
        memory.heap.put(memory.interpreter + memory.layout.runtime.modules, self._dictionary(modules))
        code = memory.code("main")
        for number in range(len(names)):
            memory.thread(100 + number, memory.stack([[(code, 4)]]), thread_id=IDENTITIES[number])
        self.time = 0.0
        self.process = PythonProcess(memory.heap, memory.runtime, memory.layout.version, lambda: self.time)

    def name(self, number: int = 0) -> str:
        assert self.process.frames(100 + number, IDENTITIES[number] - 5000) is not None
        return self.process.thread_name(100 + number)

    def _keys(self, entries: Sequence[tuple[int, int, int]], *, is_shared: bool = False) -> int:
        """A table of keys: hash, key and value of each."""
        slots = [0xFF] * SLOTS
        for row, (key_hash, _, _) in enumerate(entries):
            position, perturb = key_hash & SLOTS - 1, key_hash
            while slots[position] != 0xFF:
                perturb >>= 5
                position = position * 5 + perturb + 1 & SLOTS - 1
            slots[position] = row
        words = [entry[1:] if is_shared and self.is_new else entry for entry in entries]
        table = b"".join(struct.pack(f"<{len(entry)}Q", *entry) for entry in words)
        head = struct.pack("<qBBBxIqq", 1, 7, 7, 2 if is_shared else 0, 0, 0, len(entries)) if self.is_new else b""
        return self.memory.heap.new((head or struct.pack("<qqQqq", 1, SLOTS, 0, 0, len(entries))) + bytes(slots) + table)

    def _dictionary(self, items: Mapping[int, int], keys: int = 0, values: int = 0) -> int:
        keys = keys or self._keys([(key, key, value) for key, value in items.items()])
        return self.memory.heap.new(struct.pack("<QQQQQQ", 1, 0, len(items), 0, keys, values))

    def _thread_class(self) -> int:
        kind = self.memory.heap.new(1024)
        self.memory.heap.put(kind + 32, 48)  # tp_basicsize
        self.memory.heap.put(kind + 288, 16)  # tp_dictoffset
        names = [self.memory.text(name) for name in ("_target", "_name", "_daemonic")]
        self.shared = self._keys([(name, name, 0) for name in names], is_shared=True)
        self.memory.heap.put(kind + self.memory.layout.shared_keys, self.shared)
        return kind

    def _instance(self, kind: int, name: str, *, own_dictionary: bool) -> int:
        """A thread: its attributes beside it, or in a dictionary of its own."""
        heap, version = self.memory.heap, self.memory.layout.version
        text = self.memory.text(name)
        instance = heap.new(256) + 64
        heap.put(instance + 8, kind)
        values = struct.pack("<QQQ", 0, text, 0)
        if own_dictionary:
            dictionary = self._dictionary({self.memory.text("_name"): text})
        elif version < (3, 11):
            dictionary = self._dictionary({}, self.shared, heap.new(values))
        else:
            dictionary = 0
            if version == (3, 11):
                heap.put(instance - 32, heap.new(values))
            elif version == (3, 12):
                heap.put(instance - 24, heap.new(values) - 1)
            else:
                heap.write(instance + 48, bytes(8) + values)
        if dictionary:
            heap.put(instance + 16 if version < (3, 11) else instance - 24, dictionary)
        return instance


@pytest.mark.parametrize("own_dictionary", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_each_thread_has_its_name(version: tuple[int, int], own_dictionary: bool) -> None:
    process = Process(version, ("worker-1", "pool", "größe"), own_dictionary=own_dictionary)
    assert [process.name(number) for number in range(3)] == ["worker-1", "pool", "größe"]


def test_a_new_name_is_read() -> None:
    process = Process((3, 12), own_dictionary=True)
    assert process.name() == "worker-1"
    thread = process.process._names._objects.find_number(process.active, IDENTITY)
    process.memory.heap.put(thread - 24, process._dictionary({process.memory.text("_name"): process.memory.text("changed")}))
    assert process.name() == "changed"


def test_threads_that_python_did_not_start_have_no_name() -> None:
    process = Process((3, 12))
    process.memory.thread(107, process.memory.stack([[(process.memory.code("main"), 4)]]), thread_id=IDENTITY + 4096)
    assert process.process.frames(107) is not None
    assert process.process.thread_name(107) == ""
    assert process.process.thread_name(1) == ""


def test_programs_without_the_module_are_searched_rarely() -> None:
    process = Process((3, 12))
    memory = process.memory
    memory.heap.put(memory.interpreter + memory.layout.runtime.modules, 0)
    assert process.name() == ""
    reads = memory.heap.reads
    for _ in range(10):
        process.process.thread_name(100)
    assert memory.heap.reads <= reads + 10


@pytest.mark.parametrize("version", [(3, 8), (3, 11), (3, 12), (3, 13)])
def test_reading_is_bounded_for_any_memory(version: tuple[int, int]) -> None:
    for seed in range(60):
        chance, process = random.Random(seed), Process(version, ("worker-1", "pool"))
        heap = process.memory.heap
        for _ in range(chance.choice((1, 3, 30, 300))):
            where = BASE + chance.randrange(20_480, heap.end) & ~7  # beyond the runtime and the interpreter
            heap.put(where, chance.choice(LIES) & (1 << 63) - 1 if chance.random() < 0.5 else BASE + chance.randrange(4096, heap.end) & ~7)
        heap.reads = 0
        for number in range(2):
            assert len(process.process.thread_name(100 + number)) <= 1024
            with contextlib.suppress(UnreadableMemoryError):
                process.process.frames(100 + number, IDENTITIES[number] - 5000)
                assert len(process.process.thread_name(100 + number)) <= 1024
        assert heap.reads < MOST_READS, seed
        assert heap.most_at_once <= 4 << 20, seed


@pytest.mark.parametrize("count", [-1, SLOTS + 1, 1 << 62])
def test_tables_with_more_entries_than_slots_are_none(count: int) -> None:
    process = Process((3, 12))
    (keys,) = struct.unpack("<Q", process.memory.heap.read(process.active + 32, 8))
    process.memory.heap.put(keys + 24, count)
    assert process.name() == ""


def test_a_table_full_of_others_ends() -> None:
    process = Process((3, 12))
    (keys,) = struct.unpack("<Q", process.memory.heap.read(process.active + 32, 8))
    process.memory.heap.write(keys + 32, bytes([0xFE]) * SLOTS)  # deleted keys only
    assert process.name() == ""
