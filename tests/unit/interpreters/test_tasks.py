"""The coroutines that await the running task, out of memory made by hand, and of memory that lies."""

from __future__ import annotations

import itertools
import random
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.interpreters.layouts import NONE
from perfpy.interpreters.process import PythonProcess
from perfpy.interpreters.tasks import _OFFSETS, decode_task_offsets
from tests.builders.python_memory import BASE, SIZE, PythonMemory, memory_of

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


# The coroutines that await the running task before CPython 3.14, out of memory made by hand, and of memory that lies.


CALLBACK_VERSIONS = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13)]
ASYNCIO = "/usr/lib/python3/asyncio"
CALLBACK_TO_FRAME = 80


class CallbackLoop:
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
            return coroutine + CALLBACK_TO_FRAME
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


@pytest.mark.parametrize("version", CALLBACK_VERSIONS)
def test_coroutines_that_await_a_task_are_found_by_its_callbacks(version: tuple[int, int]) -> None:
    loop = CallbackLoop(version)
    handler, main = loop.handler("handler", "wait"), loop.handler("main")
    loop.add_callbacks(loop.task, loop.object("method", loop.function("done", "other.py"), 0), loop.wake_up(handler, loop.task))
    outer = loop.future("_GatheringFuture")
    loop.memory.heap.put(loop.type("_GatheringFuture") + 256, loop.type("_asyncio.Future"))
    loop.add_callbacks(handler, loop.closure_function("gather.<locals>._done_callback", children=0, outer=outer))
    loop.add_callbacks(outer, loop.wake_up(main, outer))
    assert loop.awaiting() == ["wait", "handler", "main"]


@pytest.mark.parametrize("name", ["_wait.<locals>._on_completion", "shield.<locals>._inner_done_callback", "_release_waiter"])
def test_futures_between_two_tasks_are_followed(name: str) -> None:
    loop = CallbackLoop((3, 8))
    between, main = loop.future(), loop.handler("main")
    loop.add_callbacks(between, loop.wake_up(main, between))
    if name == "_release_waiter":
        callback = loop.object("functools.partial", loop.function(name), loop.tuple(between))
    else:
        callback = loop.closure_function(name, **{"waiter" if "wait" in name else "outer": between})
    loop.add_callbacks(loop.task, callback)
    assert loop.awaiting() == ["main"]


def test_the_parent_of_a_task_group_awaits_its_tasks() -> None:
    loop = CallbackLoop((3, 12))
    heap = loop.memory.heap
    group = loop.memory.heap.new(128) + 64
    heap.put(group + 8, loop.type("TaskGroup"))
    keys = heap.new(struct.pack("<8xBBBx4x8xq8xQQ", 3, 3, 1, 1, loop.memory.text("_parent_task"), loop.handler("main")))
    heap.put(group - 24, heap.new(struct.pack("<32xQQ", keys, 0)))
    loop.add_callbacks(loop.task, loop.object("method", loop.function("TaskGroup._on_task_done", "taskgroups.py"), group))
    assert loop.awaiting() == ["main"]


def test_of_several_awaiting_tasks_none_is_chosen_of_task_callbacks() -> None:
    loop = CallbackLoop((3, 12))
    loop.add_callbacks(loop.task, *(loop.wake_up(loop.handler(name), loop.task) for name in ("one", "two")))
    assert loop.awaiting() == []


def test_a_task_that_waits_for_another_future_does_not_await_the_task() -> None:
    loop = CallbackLoop((3, 12))
    handler = loop.handler("handler")
    loop.add_callbacks(loop.task, loop.wake_up(handler, loop.task))
    loop.memory.heap.put(handler + loop.offsets.waits_for, loop.future())
    assert loop.awaiting() == []


def test_functions_of_the_same_names_elsewhere_are_other_callbacks() -> None:
    loop = CallbackLoop((3, 12))
    callback = loop.closure_function("gather.<locals>._done_callback", outer=loop.handler("main"))
    code = int.from_bytes(loop.memory.heap.read(callback + loop.offsets.code, 8), "little")
    loop.memory.heap.put(code + loop.memory.layout.code.filename, loop.memory.text("/app/tasks.py"))
    loop.add_callbacks(loop.task, callback)
    assert loop.awaiting() == []


def test_reading_is_bounded_for_any_memory_of_task_callbacks() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        loop = CallbackLoop(CALLBACK_VERSIONS[seed % len(CALLBACK_VERSIONS)])
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


# The beginning of an event loop's turn, out of the variables of its frame: all layouts, and memory that lies.


LOOP_VERSIONS = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15)]
BEGAN = 1234.5  # seconds
MOMENT = 1_234_900_000_000  # ns
NAMES = ("self", "timeout", "end_time")


class BlockedLoop:
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


@pytest.mark.parametrize("version", LOOP_VERSIONS)
def test_the_variable_of_the_turn_gives_the_begin_of_its_callbacks(version: tuple[int, int]) -> None:
    assert BlockedLoop(version).began() == 1_234_500_000_000


def test_references_with_tags_are_followed() -> None:
    loop = BlockedLoop((3, 14))
    loop.memory.heap.put(loop.variable, loop.value | 1)
    assert loop.began() == 1_234_500_000_000


def test_a_turn_that_began_after_the_sample_is_not_its_turn() -> None:
    assert BlockedLoop((3, 12)).began(1_234_400_000_000) == 0


def test_only_callbacks_count() -> None:
    """While the loop waits for events, the variable is that of the turn before."""
    assert BlockedLoop((3, 12), callback="select").began() == 0


def test_a_loop_without_the_variable_has_no_time() -> None:
    loop = BlockedLoop((3, 12), variables=("self", "timeout", "begin"))
    assert loop.began() == 0
    reads = loop.memory.heap.reads
    assert (loop.began(), loop.memory.heap.reads) == (0, reads), "the names are read once"


@pytest.mark.parametrize("value", [0, 8, 0xFFFF_FFFF_FFFF_FFFF, "int", "nan", "negative", "old", "unreadable"])
def test_values_that_make_no_sense_are_no_time(value: int | str) -> None:
    loop = BlockedLoop((3, 12))
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
    loop = BlockedLoop((3, 12))
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
    loop = BlockedLoop((3, 12))
    loop.memory.heap.put(loop.names + 16, count)
    most = loop.memory.heap.most_at_once
    assert loop.began() == 0
    assert loop.memory.heap.most_at_once == most


def test_layouts_without_variables_have_no_time() -> None:
    loop = BlockedLoop((3, 12))
    layout = loop.process.layout
    loop.process.event_loops._layout = layout._replace(frame=layout.frame._replace(variables=NONE))
    assert loop.began() == 0
