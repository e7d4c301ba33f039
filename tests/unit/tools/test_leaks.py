"""The text of perfpy leaks."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfpy.capture.python_frames.kernel_frames import SCRATCH_SIZE, decode, entry_of
from perfpy.interpreters.frames import CurrentFrame
from perfpy.interpreters.process import PythonProcess
from perfpy.tools.leaks import attached
from perfpy.tools.leaks import text as leaks_text
from perfpy.tools.leaks.allocators import (
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
from perfpy.tools.leaks.attached import KeptMemory, MemoryGrowth
from tests.builders.bpf_machine import BpfMachine
from tests.builders.python_memory import memory_of

KEEP, OTHER = CurrentFrame("keep", "app.py", 5), CurrentFrame("other\x1b[31m", "app.py", 0)
MAIN, TEST = CurrentFrame("main", "app.py", 20), CurrentFrame("test", "test.py", 3)
GROWTH = MemoryGrowth(7, "python app.py", "3.12", 10.0, 2_000_000_000, 0, 0, 0, 0, 0, [])


def text(growth: MemoryGrowth) -> list[str]:
    return list(leaks_text.growth_lines(growth))


def test_lines_add_up_their_stacks_and_name_the_callers_of_the_largest() -> None:
    retained = [KeptMemory((OTHER,), 5000, 9, 0), KeptMemory((KEEP, MAIN), 4000, 2, 2000), KeptMemory((KEEP, TEST), 3000, 1, 1000)]
    lines = text(GROWTH._replace(retained=[*retained, KeptMemory((), 10, 1, 0)]))
    assert lines[1] == "It allocated 2.00 GB in 10.0 s, and kept 12.01 kB."
    assert lines[4].split() == ["7.00", "kB", "58.3%", "3.00", "kB", "3", "keep", "(app.py:5)"]
    assert lines[5].strip() == "called from main (app.py:20)"
    assert lines[6].split()[-2:] == ["other^[[31m", "(app.py:?)"]
    assert lines[7].endswith("[threads without Python functions]")


def test_the_processes_of_a_service_are_listed_and_their_lines_added() -> None:
    first = GROWTH._replace(retained=[KeptMemory((KEEP, MAIN), 1000, 1, 0)], young=10)
    second = GROWTH._replace(pid=8, retained=[KeptMemory((KEEP, MAIN), 3000, 2, 0), KeptMemory((OTHER,), 500, 1, 0)], young=20)
    lines = list(leaks_text.service_lines([first, second], {8: "app.py: worker 1\x1b[31m"}))
    assert lines[0] == "2 processes, in 10.0 s: kept 4.50 kB"
    assert lines[3].split() == ["3.50", "kB", "2.00", "GB", "8", "app.py:", "worker", "1^[[31m"]
    assert lines[4].split()[-3:] == ["7", "python", "app.py"]  # without a name
    assert lines[7].split() == ["4.00", "kB", "88.9%", "0", "B", "3", "keep", "(app.py:5)"]
    assert lines[-1].startswith("30 B of the last 1.0 s")


def test_uncounted_memory_is_reported() -> None:
    lines = text(GROWTH._replace(young=500, arenas=3 << 20, lost=1200))
    assert lines[1].endswith("and CPython reserved 3.15 MB for objects of up to 512 bytes; larger ones kept 0 B.")
    assert lines[3].startswith("500 B of the last 1.0 s are not counted")
    kept = text(GROWTH._replace(arenas=1000, retained=[KeptMemory((KEEP,), 5000, 9, 0)]))
    assert kept[1].endswith("and kept 5.00 kB; CPython reserved 1.00 kB for objects of up to 512 bytes.")
    assert "--small-objects" in lines[4]
    assert lines[5].startswith("1,200 further allocations were not followed")


@pytest.mark.parametrize(
    ("kept", "grown", "more", "is_reported"),
    [
        (0, 900_000, {}, True),
        (0, 100_000, {}, False),  # a program that does nothing uses some pages
        (5_000_000, 6_000_000, {}, False),  # the kept memory is an estimate
        (5_000_000, 8_000_000, {}, True),
        (0, 900_000, {"young": 890_000}, False),
        (0, 900_000, {"lost": 9}, False),  # that is the reason
        (0, 900_000, {"arenas": 1 << 20}, False),  # a better reason
    ],
)
def test_memory_that_grew_without_kept_allocations_is_reported(kept: int, grown: int, more: dict[str, Any], is_reported: bool) -> None:
    lines = text(GROWTH._replace(grown=grown, retained=[KeptMemory((KEEP,), kept, 9, 0)], **more))
    hint = "The program's memory grew by 900.00 kB, so it may keep objects of up to 512 bytes, too. --small-objects shows"
    assert any(line.startswith(hint.replace("900.00 kB", leaks_text._size(grown))) for line in lines) == is_reported, lines


def test_memory_of_too_many_stacks_is_reported() -> None:
    (line,) = text(GROWTH._replace(unnamed=5000))[3:]
    assert line.startswith("5.00 kB of [threads without Python functions] is memory of further stacks")


# The kept memory that the reader computes from the followed allocations.


KEEPING_STACK = (CurrentFrame("keep", "app.py", 5),)


def test_stacks_beyond_the_limit_are_kept_without_functions() -> None:
    python = SimpleNamespace(layout=SimpleNamespace(version=(3, 12)))
    procfs = SimpleNamespace(command_line=lambda _pid: "python app.py")
    watched = attached._WatchedProgram(cast("Any", procfs), 7, cast("Any", python), AllocationMaps(3, 4, 5, 6, 7))
    watched._stacks = {b"named": KEEPING_STACK, b"of C": ()}
    watched._allocations = [(1, 100_000, b"named"), (2, 70_000, b"of C"), (3, 10, b"beyond"), (4, 50_000, b"further")]
    result = watched.growth(0, 1000, INTERVAL)
    assert result.unnamed == INTERVAL + 50_000
    assert {one.frames: one.bytes for one in result.retained} == {KEEPING_STACK: 100_000, (): 70_000 + INTERVAL + 50_000}


# The BPF programs on allocating and freeing functions, on a machine made by hand.


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
