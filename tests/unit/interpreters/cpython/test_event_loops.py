"""The beginning of an event loop's turn, out of the variables of its frame: all layouts, and memory that lies."""

from __future__ import annotations

import struct

import pytest

from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.process import PythonProcess
from tests.builders.python_memory import PythonMemory, memory_of

VERSIONS = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15)]
BEGAN = 1234.5  # seconds
MOMENT = 1_234_900_000_000  # ns
NAMES = ("self", "timeout", "end_time")


class Loop:
    """A thread whose event loop runs a callback."""

    def __init__(self, version: tuple[int, int], *, variables: tuple[str, ...] = NAMES, callback: str = "Handle._run") -> None:
        self.memory = memory = memory_of(version)
        turn = memory.code("BaseEventLoop._run_once", filename="/usr/lib/python3/asyncio/base_events.py")
        run = memory.code(callback, filename="/usr/lib/python3/asyncio/events.py")
        texts = [memory.text(name) for name in variables]
        items = memory.layout.tuple_items
        names = memory.heap.new(struct.pack("<QQQ", 1, 0, len(texts)) + bytes(items - 24) + struct.pack(f"<{len(texts)}Q", *texts))
        memory.heap.put(turn + memory.layout.code.variables, names)
        self.names = names
        calls = [(turn, 8), (run, 4), (memory.code("handler"), 4)]
        stack = memory.stack([calls] if memory.layout.has_data_stack else [[call] for call in calls])
        memory.thread(77, stack)
        self.process = PythonProcess(memory.heap, memory.runtime, memory.layout.version, lambda: 0.0)
        frames = self.process.frames(77, is_main=True)
        assert frames is not None
        self.frames = frames.frames
        self.variable = self.frames[-1].address + memory.layout.frame.variables + 8 * len(NAMES) - 8
        self.float_type = self._type(memory, b"float\0")
        self.value = memory.heap.new(struct.pack("<QQd", 1, self.float_type, BEGAN))
        memory.heap.put(self.variable, self.value)

    def _type(self, memory: PythonMemory, name: bytes) -> int:
        kind = memory.heap.new(64)
        memory.heap.put(kind + 24, memory.heap.new(name))
        return kind

    def began(self, moment: int = MOMENT) -> int:
        return self.process.event_loops.began(self.frames, moment)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_variable_of_the_turn_gives_the_begin_of_its_callbacks(version: tuple[int, int]) -> None:
    assert Loop(version).began() == 1_234_500_000_000


def test_references_with_tags_are_followed() -> None:
    loop = Loop((3, 14))
    loop.memory.heap.put(loop.variable, loop.value | 1)
    assert loop.began() == 1_234_500_000_000


def test_a_turn_that_began_after_the_sample_is_not_its_turn() -> None:
    assert Loop((3, 12)).began(1_234_400_000_000) == 0


def test_only_callbacks_count() -> None:
    """While the loop waits for events, the variable is that of the turn before."""
    assert Loop((3, 12), callback="select").began() == 0


def test_a_loop_without_the_variable_has_no_time() -> None:
    loop = Loop((3, 12), variables=("self", "timeout", "begin"))
    assert loop.began() == 0
    reads = loop.memory.heap.reads
    assert (loop.began(), loop.memory.heap.reads) == (0, reads), "the names are read once"


@pytest.mark.parametrize("value", [0, 8, 0xFFFF_FFFF_FFFF_FFFF, "int", "nan", "negative", "old", "unreadable"])
def test_values_that_make_no_sense_are_no_time(value: int | str) -> None:
    loop = Loop((3, 12))
    heap = loop.memory.heap
    if value == "int":
        heap.put(loop.value + 8, loop._type(loop.memory, b"int\0\0\0"))
    elif value == "unreadable":
        heap.put(loop.value + 8, 1 << 40)
    elif isinstance(value, str):
        seconds = {"nan": float("nan"), "negative": -5.0, "old": 1e-9}[value]
        heap.write(loop.value + 16, struct.pack("<d", seconds))
    else:
        heap.put(loop.variable, value)
    assert loop.began(MOMENT + 100_000 * 1_000_000_000) == 0


def test_a_variable_that_changes_while_it_is_read_has_no_time() -> None:
    loop = Loop((3, 12))
    heap = loop.memory.heap
    assert loop.began()
    read_memory = heap.read

    def read(address: int, size: int) -> bytes:
        data = read_memory(address, size)
        if address == loop.value:
            heap.put(loop.variable, loop.value + 64)
        return data

    heap.read = read  # type: ignore[method-assign]
    assert loop.began() == 0


@pytest.mark.parametrize("count", [1 << 11, 1 << 60, -1])
def test_names_of_impossible_numbers_are_not_read(count: int) -> None:
    loop = Loop((3, 12))
    loop.memory.heap.put(loop.names + 16, count)
    most = loop.memory.heap.most_at_once
    assert loop.began() == 0
    assert loop.memory.heap.most_at_once == most


def test_layouts_without_variables_have_no_time() -> None:
    loop = Loop((3, 12))
    layout = loop.process.layout
    loop.process.event_loops._layout = layout._replace(frame=layout.frame._replace(variables=NONE))
    assert loop.began() == 0
