"""Names of threads out of memory: all layouts of dictionaries and instances, and memory that lies."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import TYPE_CHECKING

import pytest

from perfpy.interpreters.objects import UnreadableMemoryError
from perfpy.interpreters.process import PythonProcess
from tests.builders.python_memory import BASE, SIZE, memory_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


VERSIONS = [(3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 13), (3, 14), (3, 15)]
IDENTITY = 0x7F12_3456_7700
SLOTS = 128  # of a table of keys
#: with equal lower bits: they collide
IDENTITIES = [IDENTITY, IDENTITY + 0x10_0000, IDENTITY + 0x80_0000]
LIES = (0, 1, 8, (1 << 64) - 1, 1 << 63, 10 << 30, BASE, BASE + SIZE - 8, BASE + SIZE, 0x7FFF_FFFF)
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
