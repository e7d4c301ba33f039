"""The coroutines that await the running task, out of memory made by hand, and of memory that lies."""

from __future__ import annotations

import itertools
import random
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.interpreters.cpython.process import PythonProcess
from perfpy.interpreters.cpython.published_tasks import decode_task_offsets
from tests.builders.python_memory import BASE, SIZE, memory_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: what _asyncio of CPython 3.14.10 on x86-64 says of itself
SECTION = struct.pack("<13Q", 168, 136, 96, 108, 109, 128, 152, 225_864, 10_880, 936, 864, 872, 880)
AWAITED_BY, IS_TASK, IS_SET, COROUTINE, RUNNING = 96, 108, 109, 128, 872
TO_FRAME = 72
VERSIONS = [(3, 14), (3, 15)]
LIES = (0, 1, 8, (1 << 63) - 1, 10 << 30, BASE, BASE + SIZE - 8, BASE + SIZE, 0x7FFF_FFFF)


class Loop:
    """A thread whose event loop runs a task that others await."""

    def __init__(self, version: tuple[int, int] = (3, 14)) -> None:
        self.memory = memory = memory_of(version)
        self.has_index = version >= (3, 15)
        turn = memory.code("BaseEventLoop._run_once", filename="/usr/lib/python3/asyncio/base_events.py")
        run = memory.code("Handle._run", filename="/usr/lib/python3/asyncio/events.py")
        self.coroutine_type = memory.heap.new(64)
        (outer,) = memory.stack([[(turn, 8), (run, 4)]])[:1]
        running = self.coroutine(["child"], previous=outer)
        chunk, top = memory.stack([[]])[1:]
        self.state = memory.thread(77, (running + TO_FRAME, chunk, top))
        self.task = self.future(running)
        memory.heap.put(self.state + RUNNING, self.task)
        self.process = PythonProcess(memory.heap, memory.runtime, version, lambda: 0.0)
        self.process.awaiting_tasks.find_section = lambda: SECTION
        frames = self.process.frames(77)
        assert frames is not None
        self.frames = frames.frames
        assert [frame.code.name for frame in self.frames] == ["child", "Handle._run", "BaseEventLoop._run_once"]

    def coroutine(self, names: Sequence[str], *, previous: int = 0) -> int:
        """A coroutine, and the coroutines it awaits."""
        memory, top = self.memory, 0
        awaited = self.coroutine(names[1:]) if names[1:] else 0
        address = memory.heap.new(512)
        memory.heap.put(address + 8, self.coroutine_type)
        memory.frame(address + TO_FRAME, memory.code(names[0]), 6, previous, owner=1)
        words = [awaited, 3] if self.has_index else [0, awaited | 1]  # since 3.14 references have tag bits
        top = memory.heap.new(struct.pack("<QQ", *words)) + 16
        memory.heap.put(address + TO_FRAME + memory.layout.frame.stack_pointer, top)
        return address

    def future(self, coroutine: int = 0) -> int:
        """A task with a coroutine, a future without."""
        future = self.memory.heap.new(168)
        self.memory.heap.put(future + COROUTINE, coroutine)
        self.memory.heap.put(future + IS_TASK, bool(coroutine), 1)
        return future

    def let_await(self, awaiting: Sequence[int], future: int) -> None:
        """Let futures await one."""
        heap = self.memory.heap
        address = awaiting[0]
        if len(awaiting) > 1:
            table = heap.new(b"".join(struct.pack("<Qq", one, 99) for one in awaiting) + bytes(16 * (8 - len(awaiting))))
            address = heap.new(struct.pack("<24xqqQ", len(awaiting), 7, table))
            heap.put(future + IS_SET, 1, 1)
        heap.put(future + AWAITED_BY, address)

    def awaiting(self) -> list[str]:
        frames = self.process.awaiting_tasks.awaiting(self.frames, self.state)
        return [frame.code.name for frame in frames]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_frames_of_awaiting_coroutines_are_found_through_tasks_and_futures(version: tuple[int, int]) -> None:
    loop = Loop(version)
    handler, gathering, main = loop.future(loop.coroutine(["handler", "wait"])), loop.future(), loop.future(loop.coroutine(["main"]))
    for awaiting, future in ((handler, loop.task), (gathering, handler), (main, gathering)):
        loop.let_await([awaiting], future)
    assert loop.awaiting() == ["wait", "handler", "main"]


def test_a_task_that_nobody_awaits_has_none() -> None:
    assert Loop().awaiting() == []


def test_a_set_of_one_awaiting_task_is_followed() -> None:
    loop = Loop()
    main = loop.future(loop.coroutine(["main"]))
    loop.let_await([main, main], loop.task)
    address = int.from_bytes(loop.memory.heap.read(loop.task + AWAITED_BY, 8), "little")
    table = int.from_bytes(loop.memory.heap.read(address + 40, 8), "little")
    loop.memory.heap.put(address + 24, 1)
    loop.memory.heap.write(table, struct.pack("<Qq", main, -1))  # a deleted entry
    assert loop.awaiting() == ["main"]


def test_of_several_awaiting_tasks_none_is_chosen() -> None:
    loop = Loop()
    loop.let_await([loop.future(loop.coroutine([name])) for name in ("one", "two")], loop.task)
    assert loop.awaiting() == []


def test_another_running_task_than_that_of_the_frames_is_not_followed() -> None:
    loop = Loop()
    other = loop.future(loop.coroutine(["other"]))
    loop.let_await([loop.future(loop.coroutine(["main"]))], other)
    loop.memory.heap.put(loop.state + RUNNING, other)
    assert loop.awaiting() == []


def test_tasks_that_await_each_other_end() -> None:
    loop = Loop()
    first, second = loop.future(loop.coroutine(["first"])), loop.future(loop.coroutine(["second"]))
    loop.let_await([first], loop.task)
    loop.let_await([second], first)
    loop.let_await([first], second)
    assert len(loop.awaiting()) <= 16


def test_frames_outside_of_callbacks_have_none() -> None:
    loop = Loop()
    loop.let_await([loop.future(loop.coroutine(["main"]))], loop.task)
    assert loop.process.awaiting_tasks.awaiting(loop.frames[1:], loop.state) == []


@pytest.mark.parametrize("section", [b"", SECTION[:-16], struct.pack("<13Q", *[1 << 40] * 13)])
def test_sections_that_make_no_sense_are_none(section: bytes) -> None:
    assert decode_task_offsets(section) is None
    loop = Loop()
    loop.let_await([loop.future(loop.coroutine(["main"]))], loop.task)
    loop.process.awaiting_tasks.find_section = lambda: section
    assert loop.awaiting() == []


def test_reading_is_bounded_for_any_memory() -> None:
    for seed in range(100):
        chance, loop = random.Random(seed), Loop((3, 15) if seed % 2 else (3, 14))
        tasks = [loop.task, *(loop.future(loop.coroutine(["one", "two"])) for _ in range(3))]
        for future, awaiting in itertools.pairwise(tasks):
            loop.let_await([awaiting], future)
        heap = loop.memory.heap
        for _ in range(chance.choice((1, 3, 30, 300))):
            where = BASE + chance.randrange(20_480, heap.end) & ~7
            heap.put(where, chance.choice(LIES) if chance.random() < 0.5 else BASE + chance.randrange(4096, heap.end) & ~7)
        heap.reads = 0
        assert len(loop.awaiting()) <= 16 * 64
        assert heap.reads < 16 * 64 * 16
        assert heap.most_at_once <= 1 << 20
