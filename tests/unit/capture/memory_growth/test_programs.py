"""The BPF programs on allocating and freeing functions, on a machine made by hand."""

from __future__ import annotations

import random
import struct

import pytest

from perfpy.capture.memory_growth.programs import (
    INTERVAL,
    MOST_FRAMES,
    PENDING_SIZE,
    STATE_SIZE,
    VALUE_SIZE,
    AllocationMaps,
    Allocator,
    entry_program,
    free_program,
    return_program,
)
from perfpy.capture.python_frames.frame_program import SCRATCH_SIZE
from perfpy.capture.python_frames.sampled_frames import decode, entry_of
from perfpy.interpreters.cpython.process import PythonProcess
from tests.builders.bpf_machine import BpfMachine
from tests.builders.python_memory import memory_of

LIVE, PENDING, STATE, THREADS, SCRATCH = range(3, 8)
MAPS = AllocationMaps(LIVE, PENDING, STATE, THREADS, SCRATCH)
RDI, RSI, RDX, RCX, RAX = 112, 104, 96, 88, 80
MALLOC = Allocator("malloc", ("rdi",))
CALLOC = Allocator("calloc", ("rdi", "rsi"))
REALLOC = Allocator("realloc", ("rsi",), freed="rdi")
ALIGNED = Allocator("posix_memalign", ("rdx",), result_by_pointer=True)
MAPPING = Allocator("mmap", ("rsi",), is_mapping=True)
SMALL = Allocator("_PyObject_Malloc", ("rsi",), largest=512)
ADDRESS = 0x7F00_1234_5670


class Program:
    """A Python thread that allocates."""

    def __init__(self, depth: int = 2, *, is_known: bool = True) -> None:
        self.memory = memory = memory_of((3, 12))
        codes = [memory.code(f"function{number}") for number in range(depth)]
        memory.thread(77, memory.stack([[(code, 4) for code in codes]], chunk_size=1 << 16))
        self.python = PythonProcess(memory.heap, memory.runtime, (3, 12), lambda: 0.0)
        assert self.python.frames(77) is not None
        entry = entry_of(self.python, 77)
        assert entry is not None
        tables = {LIVE: (8, VALUE_SIZE), PENDING: (4, PENDING_SIZE), STATE: (4, STATE_SIZE)}
        threads = {77: entry.pack()} if is_known else {}
        self.machine = BpfMachine((THREADS, SCRATCH, 0), threads, SCRATCH_SIZE, memory.heap, tables)
        self.machine.values[STATE][bytes(4)] = bytearray(STATE_SIZE)
        self.machine.random = INTERVAL // 2

    def allocate(self, allocator: Allocator, registers: dict[int, int], address: int = ADDRESS) -> None:
        self.machine.run(entry_program(MAPS, allocator, INTERVAL), registers_at=registers)
        self.machine.run(return_program(MAPS, INTERVAL), registers_at={**registers, RAX: address})

    def free(self, address: int = ADDRESS) -> None:
        self.machine.run(free_program(MAPS, "rdi"), registers_at={RDI: address})

    @property
    def live(self) -> dict[int, int]:
        """The size of each allocation that is followed, by its address."""
        values = self.machine.values[LIVE]
        return {int.from_bytes(key, "little"): struct.unpack_from("=Q", value, 24)[0] for key, value in values.items()}

    @property
    def state(self) -> tuple[int, ...]:
        return struct.unpack("=qqQ", self.machine.values[STATE][bytes(4)])


@pytest.mark.parametrize(
    ("allocator", "registers", "size"),
    [
        (MALLOC, {RDI: 70_000}, 70_000),
        (CALLOC, {RDI: 1000, RSI: 70}, 70_000),
        (REALLOC, {RDI: 0, RSI: 70_000}, 70_000),
        (MAPPING, {RSI: 1 << 20, RDX: 3, RCX: 0x22}, 1 << 20),
    ],
)
def test_a_large_allocation_is_followed_with_its_frames(allocator: Allocator, registers: dict[int, int], size: int) -> None:
    program = Program()
    program.allocate(allocator, registers)
    assert program.live == {ADDRESS: size}
    assert program.state[1:] == (size, 0)
    copied = decode(bytes(program.machine.values[LIVE][ADDRESS.to_bytes(8, "little")]))[2]
    words = list(copied.frames())[:3]  # with the shim of the call from C
    frames = program.python.frames_of_words(words, is_whole=True).frames
    assert [frame.code.name for frame in frames] == ["function1", "function0"]


def test_freed_memory_is_no_longer_followed() -> None:
    program = Program()
    program.allocate(MALLOC, {RDI: 70_000})
    program.free(ADDRESS + 16)
    assert program.live
    program.free()
    assert program.live == {}


def test_realloc_frees_the_old_memory() -> None:
    program = Program()
    program.allocate(MALLOC, {RDI: 70_000})
    program.allocate(REALLOC, {RDI: ADDRESS, RSI: 90_000}, ADDRESS + 0x1000)
    assert program.live == {ADDRESS + 0x1000: 90_000}


def test_an_address_in_memory_is_read() -> None:
    program = Program()
    pointer = program.memory.heap.new(ADDRESS.to_bytes(8, "little"))
    program.allocate(ALIGNED, {RDI: pointer, RSI: 64, RDX: 70_000}, 0)
    assert program.live == {ADDRESS: 70_000}
    program.allocate(ALIGNED, {RDI: 8, RSI: 64, RDX: 70_000}, 0)  # memory that cannot be read
    assert program.live == {ADDRESS: 70_000}


@pytest.mark.parametrize("address", [0, (1 << 64) - 1, (1 << 64) - 12, (1 << 64) - 4095])
def test_failed_allocations_are_not_followed(address: int) -> None:
    program = Program()
    program.allocate(MALLOC, {RDI: 70_000}, address)
    assert program.live == {}
    assert program.state[1] == 0, "not allocated either"
    assert not program.machine.values[PENDING]


def test_a_failed_allocation_with_an_address_in_memory_is_not_followed() -> None:
    program = Program()
    pointer = program.memory.heap.new(ADDRESS.to_bytes(8, "little"))  # of an earlier one
    program.allocate(ALIGNED, {RDI: pointer, RSI: 64, RDX: 70_000}, 12)
    assert (program.live, program.state[1]) == ({}, 0)


def test_small_failed_allocations_are_not_counted() -> None:
    program, chance = Program(), random.Random(1)
    for _ in range(200):
        program.machine.random = chance.getrandbits(32)
        program.allocate(MALLOC, {RDI: 9000}, 0)
    assert program.state[1] == pytest.approx(0, abs=4 * INTERVAL)


@pytest.mark.parametrize("registers", [{RSI: 1 << 20, RDX: 3, RCX: 2}, {RSI: 1 << 26, RDX: 0, RCX: 0x22}, {RSI: 0, RDX: 3, RCX: 0x22}])
def test_files_reserved_ranges_and_nothing_are_no_allocations(registers: dict[int, int]) -> None:
    program = Program()
    program.allocate(MAPPING, registers)
    assert (program.live, program.state[1]) == ({}, 0)


def test_a_mapping_that_malloc_makes_is_part_of_its_allocation() -> None:
    program = Program()
    program.machine.run(entry_program(MAPS, MALLOC, INTERVAL), registers_at={RDI: 200_000})
    program.machine.run(entry_program(MAPS, MAPPING, INTERVAL), registers_at={RSI: 204_800, RDX: 3, RCX: 0x22})
    program.machine.run(return_program(MAPS, INTERVAL), registers_at={RAX: ADDRESS})
    assert program.live == {ADDRESS: 200_000}


def test_larger_objects_are_left_to_the_other_allocator() -> None:
    program = Program()
    for _ in range(20):
        program.allocate(SMALL, {RSI: 513})
    assert (program.live, program.state[1]) == ({}, 0)


def test_small_allocations_are_chosen_once_in_an_interval_of_bytes() -> None:
    program, chance = Program(), random.Random(1)
    total, chosen = 0, 0
    for number in range(700):
        size = chance.choice((16, 100, 600, 3000))
        program.machine.random = chance.getrandbits(32)
        program.allocate(MALLOC, {RDI: size}, ADDRESS + 4096 * number)
        total += size
        chosen = len(program.live)
    assert chosen * INTERVAL == pytest.approx(total, rel=0.05)
    assert program.state[1] == total


def test_allocations_without_room_in_the_map_are_counted() -> None:
    program = Program()
    program.machine.most = 1
    program.allocate(MALLOC, {RDI: 70_000})
    program.machine.values[PENDING].clear()
    program.machine.most = 10
    program.machine.run(entry_program(MAPS, MALLOC, INTERVAL), registers_at={RDI: 70_000})
    program.machine.most = 1
    program.machine.run(return_program(MAPS, INTERVAL), registers_at={RAX: ADDRESS + 64})
    assert len(program.live) == 1
    assert program.state[2] == 1


def test_threads_without_python_are_followed_without_frames() -> None:
    program = Program(is_known=False)
    program.allocate(MALLOC, {RDI: 70_000})
    copied = decode(bytes(program.machine.values[LIVE][ADDRESS.to_bytes(8, "little")]))[2]
    assert (program.live, copied.words) == ({ADDRESS: 70_000}, None)


def test_deep_stacks_keep_their_inner_frames() -> None:
    program = Program(depth=200)
    program.allocate(MALLOC, {RDI: 70_000})
    value = bytes(program.machine.values[LIVE][ADDRESS.to_bytes(8, "little")])
    assert struct.unpack_from("=q", value, 16) == (MOST_FRAMES,)
