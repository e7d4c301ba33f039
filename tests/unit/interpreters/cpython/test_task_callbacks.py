"""The coroutines that await the running task before CPython 3.14, out of memory made by hand, and of memory that lies."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.interpreters.cpython.process import PythonProcess
from perfpy.interpreters.cpython.task_callbacks import _OFFSETS
from tests.builders.python_memory import BASE, SIZE, memory_of

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSIONS = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13)]
ASYNCIO = "/usr/lib/python3/asyncio"
TO_FRAME = 80
LIES = (0, 1, 8, (1 << 63) - 1, 10 << 30, BASE, BASE + SIZE - 8, BASE + SIZE, 0x7FFF_FFFF)


class Loop:
    """A thread whose event loop runs a task."""

    def __init__(self, version: tuple[int, int]) -> None:
        self.version, self.offsets = version, _OFFSETS[version]
        self.memory = memory = memory_of(version)
        self.types: dict[str, int] = {}
        self.object("object")
        running = self.coroutine(["child"])
        self.task = self.future("_asyncio.Task", running)
        turn = memory.code("BaseEventLoop._run_once", filename=f"{ASYNCIO}/base_events.py")
        run = memory.code("Handle._run", filename=f"{ASYNCIO}/events.py")
        outer, chunk, top = memory.stack([[(turn, 8), (run, 4)]])
        handle = self.object("Handle", 0, self.object("TaskStepMethWrapper", self.task))
        memory.heap.put(outer + memory.layout.frame.variables, handle)
        memory.heap.put(self.frame_of(running) + memory.layout.frame.previous, outer)
        memory.thread(77, (self.frame_of(running), chunk, top))
        self.process = PythonProcess(memory.heap, memory.runtime, version, lambda: 0.0)
        frames = self.process.frames(77, is_main=True)
        assert frames is not None
        self.frames = frames.frames
        assert [frame.code.name.rpartition(".")[2] for frame in self.frames] == ["child", "_run", "_run_once"]

    def type(self, name: str) -> int:
        """A type, by the name in its tp_name."""
        if name not in self.types:
            self.types[name] = self.memory.heap.new(300)
            self.memory.heap.put(self.types[name] + 24, self.memory.heap.new(name.encode() + bytes(32)))
        return self.types[name]

    def object(self, kind: str, *words: int) -> int:
        """An object whose fields begin at 16."""
        return self.memory.heap.new(struct.pack(f"<QQ{len(words)}Q", 1, self.type(kind), *words))

    def tuple(self, *items: int) -> int:
        return self.object("tuple", len(items), *items)

    def coroutine(self, names: Sequence[str]) -> int:
        """A coroutine, and the coroutines it awaits."""
        memory, frame = self.memory, self.memory.layout.frame
        awaited = self.coroutine(names[1:]) if names[1:] else self.object("FutureIter")
        address = memory.heap.new(1024)
        memory.heap.put(address + 8, self.type("coroutine"))
        if not memory.layout.has_data_stack:
            memory.heap.put(address + 16, memory.heap.new(512))
        place = self.frame_of(address)
        memory.frame(place, memory.code(names[0]), 6, 0, owner=1)
        stack = place + frame.variables
        memory.heap.put(stack, awaited)
        if frame.stack_pointer >= 0:
            memory.heap.put(place + frame.stack_pointer, stack + 8)
        else:
            memory.heap.put(place + frame.stack_depth, 1, 4)
            if frame.stack >= 0:
                memory.heap.put(place + frame.stack, stack)
        return address

    def frame_of(self, coroutine: int) -> int:
        if self.memory.layout.has_data_stack:
            return coroutine + TO_FRAME
        return int.from_bytes(self.memory.heap.read(coroutine + 16, 8), "little")

    def future(self, kind: str = "_asyncio.Future", coroutine: int = 0) -> int:
        future = self.object(kind, *[0] * 24)
        if coroutine:
            self.memory.heap.put(future + self.offsets.coroutine, coroutine)
        return future

    def handler(self, *names: str) -> int:
        """A task with coroutines."""
        return self.future("_asyncio.Task", self.coroutine(names))

    def wake_up(self, task: int, awaited: int) -> int:
        """The callback of an awaited future that wakes a task up."""
        self.memory.heap.put(task + self.offsets.waits_for, awaited)
        if self.version < (3, 10):
            return self.object("TaskWakeupMethWrapper", task)
        method = self.memory.heap.new(struct.pack("<Q", self.memory.heap.new(b"task_wakeup\0" + bytes(32))))
        return self.object("builtin_function_or_method", method, task)

    def function(self, name: str, file: str = "tasks.py", closure: int = 0) -> int:
        function = self.object("function", *[0] * 12)
        self.memory.heap.put(function + self.offsets.code, self.memory.code(name, filename=f"{ASYNCIO}/{file}"))
        self.memory.heap.put(function + self.offsets.closure, closure)
        return function

    def closure_function(self, name: str, **variables: int) -> int:
        """A function within another one, whose variables it uses."""
        memory = self.memory
        function = self.function(name, closure=self.tuple(*(self.object("cell", value) for value in variables.values())))
        code = int.from_bytes(memory.heap.read(function + self.offsets.code, 8), "little")
        own = ["own"] if memory.layout.has_data_stack else []
        field = memory.layout.code.variables if own else self.offsets.free_variables
        memory.heap.put(code + field, self.tuple(*map(memory.text, [*own, *variables])))
        return function

    def add_callbacks(self, future: int, *callbacks: int) -> None:
        self.memory.heap.put(future + 24, callbacks[0])
        if callbacks[1:]:
            items = self.memory.heap.new(struct.pack(f"<{len(callbacks) - 1}Q", *(self.tuple(one, 0) for one in callbacks[1:])))
            self.memory.heap.put(future + 40, self.object("list", len(callbacks) - 1, items))

    def awaiting(self) -> list[str]:
        return [frame.code.name for frame in self.process.awaiting_tasks.awaiting(self.frames, 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_coroutines_that_await_a_task_are_found_by_its_callbacks(version: tuple[int, int]) -> None:
    loop = Loop(version)
    handler, main = loop.handler("handler", "wait"), loop.handler("main")
    loop.add_callbacks(loop.task, loop.object("method", loop.function("done", "other.py"), 0), loop.wake_up(handler, loop.task))
    outer = loop.future("_GatheringFuture")
    loop.memory.heap.put(loop.type("_GatheringFuture") + 256, loop.type("_asyncio.Future"))
    loop.add_callbacks(handler, loop.closure_function("gather.<locals>._done_callback", children=0, outer=outer))
    loop.add_callbacks(outer, loop.wake_up(main, outer))
    assert loop.awaiting() == ["wait", "handler", "main"]


@pytest.mark.parametrize("name", ["_wait.<locals>._on_completion", "shield.<locals>._inner_done_callback", "_release_waiter"])
def test_futures_between_two_tasks_are_followed(name: str) -> None:
    loop = Loop((3, 8))
    between, main = loop.future(), loop.handler("main")
    loop.add_callbacks(between, loop.wake_up(main, between))
    if name == "_release_waiter":
        callback = loop.object("functools.partial", loop.function(name), loop.tuple(between))
    else:
        callback = loop.closure_function(name, **{"waiter" if "wait" in name else "outer": between})
    loop.add_callbacks(loop.task, callback)
    assert loop.awaiting() == ["main"]


def test_the_parent_of_a_task_group_awaits_its_tasks() -> None:
    loop = Loop((3, 12))
    heap = loop.memory.heap
    group = loop.memory.heap.new(128) + 64
    heap.put(group + 8, loop.type("TaskGroup"))
    keys = heap.new(struct.pack("<8xBBBx4x8xq8xQQ", 3, 3, 1, 1, loop.memory.text("_parent_task"), loop.handler("main")))
    heap.put(group - 24, heap.new(struct.pack("<32xQQ", keys, 0)))
    loop.add_callbacks(loop.task, loop.object("method", loop.function("TaskGroup._on_task_done", "taskgroups.py"), group))
    assert loop.awaiting() == ["main"]


def test_of_several_awaiting_tasks_none_is_chosen() -> None:
    loop = Loop((3, 12))
    loop.add_callbacks(loop.task, *(loop.wake_up(loop.handler(name), loop.task) for name in ("one", "two")))
    assert loop.awaiting() == []


def test_a_task_that_waits_for_another_future_does_not_await_the_task() -> None:
    loop = Loop((3, 12))
    handler = loop.handler("handler")
    loop.add_callbacks(loop.task, loop.wake_up(handler, loop.task))
    loop.memory.heap.put(handler + loop.offsets.waits_for, loop.future())
    assert loop.awaiting() == []


def test_functions_of_the_same_names_elsewhere_are_other_callbacks() -> None:
    loop = Loop((3, 12))
    callback = loop.closure_function("gather.<locals>._done_callback", outer=loop.handler("main"))
    code = int.from_bytes(loop.memory.heap.read(callback + loop.offsets.code, 8), "little")
    loop.memory.heap.put(code + loop.memory.layout.code.filename, loop.memory.text("/app/tasks.py"))
    loop.add_callbacks(loop.task, callback)
    assert loop.awaiting() == []


def test_reading_is_bounded_for_any_memory() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        loop = Loop(VERSIONS[seed % len(VERSIONS)])
        handler, between = loop.handler("one", "two"), loop.future()
        loop.add_callbacks(loop.task, *[loop.closure_function("_done_callback", outer=between)] * 8)
        loop.add_callbacks(between, loop.wake_up(handler, between))
        heap = loop.memory.heap
        for _ in range(chance.choice((1, 3, 30, 300))):
            where = BASE + chance.randrange(20_480, heap.end) & ~7
            heap.put(where, chance.choice(LIES) if chance.random() < 0.5 else BASE + chance.randrange(4096, heap.end) & ~7)
        heap.reads = 0
        assert len(loop.awaiting()) <= 16 * 64
        assert heap.reads < 16 * (64 * 16 + 9 * 64)
        assert heap.most_at_once <= 1 << 20
