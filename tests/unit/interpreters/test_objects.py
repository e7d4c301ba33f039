"""Objects and frames of CPython in memory."""

from __future__ import annotations

import dis
import random
import sys

import pytest

from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.merging import CodeRanges, FrameState, HomeSlots, evaluate
from perfpy.capture.python_frames.recorded_frames import PythonFunctions
from perfpy.interpreters import frames
from perfpy.interpreters.frames import decode_lines
from perfpy.interpreters.objects import LONGEST_TEXT, UnreadableMemoryError
from perfpy.interpreters.process import PythonProcess
from tests.builders import python_memory
from tests.builders.python_memory import BASE, SIZE, PythonMemory

# Memory that a hostile process made: any words anywhere. Reading ends soon, keeps little, and fails by its own errors alone.


VERSIONS = [(3, 8), (3, 10), (3, 11), (3, 12)]
ROUNDS = 150
#: what a list of threads, the chain of frames, and the parts of all code objects take at most
MOST_READS = 3 * (2 * 8192 + 8 * frames.MOST_FRAMES)
#: sizes and pointers that lie
LIES = (0, 1, 8, (1 << 64) - 1, 1 << 63, 10 << 30, BASE, BASE + SIZE - 8, BASE + SIZE, BASE + 4096, 0x7FFF_FFFF)


def memory_of(version: tuple[int, ...]) -> PythonMemory:
    memory = python_memory.memory_of(version)
    codes = [memory.code(f"function{number}", lines=bytes(range(1, 40))) for number in range(6)]
    for thread in range(3):
        calls = [[(codes[number], 2 * number)] for number in range(5)]
        memory.thread(77 + thread, memory.stack(calls), thread_id=0x7000_0000_0000 + thread * 0x80_0000)
    return memory


def damage(memory: PythonMemory, chance: random.Random) -> None:
    """Overwrite some words: by lies, or by other words of the same memory."""
    end = memory.heap.end
    for _ in range(chance.choice((1, 3, 30, 300))):
        where = BASE + chance.randrange(4096, end) & ~7
        value = chance.choice(LIES) if chance.random() < 0.5 else BASE + chance.randrange(4096, end) & ~7
        memory.heap.write(where, value.to_bytes(8, "little"))


@pytest.mark.parametrize("version", [*VERSIONS, (3, 13, 1), (3, 14, 1)], ids=lambda version: ".".join(map(str, version)))
def test_reading_is_bounded_for_any_memory(version: tuple[int, ...]):
    for seed in range(ROUNDS):
        chance, memory = random.Random(seed), memory_of(version)
        damage(memory, chance)
        if version in python_memory.DESCRIPTIONS:
            memory.heap.write(memory.runtime, python_memory.described(version))
        try:
            process = PythonProcess(memory.heap, memory.runtime, memory.layout.version, lambda: 0.0)
            results = [process.frames(77 + thread, 0x7000_0000_0000 - 5000, is_main=not thread) for thread in range(3)]
            for frame in (frame for result in results[:1] if result for frame in result.frames[:4]):
                assert all(len(value) < 500 for _, value in process.variables(frame))
        except UnreadableMemoryError:
            continue
        assert memory.heap.reads < MOST_READS, seed
        assert memory.heap.most_at_once <= 4 << 20, seed
        for thread in filter(None, results):
            assert len(thread.frames) <= frames.MOST_FRAMES
            for frame in (*thread.frames, *thread.left):
                code = frame.code
                assert len(code.name) <= LONGEST_TEXT >= len(code.filename)
                assert -2 <= frame.offset < code.end - code.begin
                assert all(line >= 0 for _, line in decode_lines(code.lines, code.first_line, memory.layout.version))


def test_functions_with_random_content_become_an_image():
    chance = random.Random(1)
    functions = PythonFunctions()
    for number in range(300):
        begin = chance.randrange(1 << 56)
        size = chance.choice((2, 100, 1 << 20, 8 << 20))
        name = "".join(chr(chance.randrange(0xD800)) for _ in range(chance.choice((0, 5, LONGEST_TEXT))))
        lines = bytes(chance.randrange(256) for _ in range(chance.choice((0, 3, 500))))
        code = FoundCode(7, number, begin, begin, begin + size, name, name[::-1], chance.randrange(1 << 31), lines, 0)
        functions.addresses_of(code, chance.choice(VERSIONS))
    assert len(functions.image()) < 512 << 20


def test_random_registers_and_stacks_are_evaluated_or_none():
    chance = random.Random(2)
    ranges, slots = CodeRanges(), HomeSlots()
    for number in range(50):
        begin = BASE + chance.randrange(1 << 16) * 2
        ranges.add(FoundCode(7, number, begin - 200, begin, begin + 2 * chance.randrange(1, 500), "f", "f.py", 1, b"", 80))
    for _ in range(2000):
        words = [chance.choice((BASE + chance.randrange(1 << 17), chance.choice(LIES))) for _ in range(chance.randrange(60))]
        result = evaluate(FrameState({number: chance.choice([1, *words]) for number in range(16)}, words), ranges, {}, slots)
        assert result is None or 0 <= result.offset < 1000


# Lines of instructions, by the tables of all versions.


def lines_of(code) -> list[tuple[int, int]]:
    """What this interpreter says of its own code: where each run of a line begins."""
    results: list[tuple[int, int]] = []
    for begin, _, line in code.co_lines():
        if not results or results[-1][1] != (line or 0):
            results.append((begin, line or 0))
    return results


def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)


def test_tables_of_this_interpreter_agree_with_its_own_decoder():
    with open(dis.__file__, encoding="utf-8") as file:
        module = compile(file.read(), dis.__file__, "exec")
    compared = 0
    for code in codes(module):
        assert decode_lines(code.co_linetable, code.co_firstlineno, sys.version_info[:2]) == lines_of(code)
        compared += 1
    assert compared > 30


@pytest.mark.parametrize("version", [(3, 8), (3, 9)])
def test_increments_of_old_versions(version):
    # 6 bytes on line 10, 4 on line 12, then back to line 11
    assert decode_lines(bytes((6, 2, 4, 255)), 10, version) == [(0, 10), (6, 12), (10, 11)]


def test_increments_of_more_than_a_byte():
    assert decode_lines(bytes((255, 0, 45, 127, 0, 73)), 1, (3, 8)) == [(0, 1), (300, 201)]


def test_ranges_of_3_10():
    # 8 bytes on line 10, 2 without a line, 4 on line 13; a step without bytes
    assert decode_lines(bytes((8, 0, 2, 128, 0, 1, 4, 2)), 10, (3, 10)) == [(0, 10), (8, 0), (10, 13)]


def test_no_columns_and_long_forms_and_none():
    table = bytes((0x80 | 13 << 3 | 1, 2 << 1)) + bytes((0x80 | 15 << 3 | 0,)) + bytes((0x80 | 14 << 3, 1 << 1 | 1, 0, 0, 0))
    assert decode_lines(table, 5, (3, 12)) == [(0, 7), (4, 0), (6, 6)]


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 11), (3, 13)])
def test_damaged_tables_end(version):
    for length in range(1, 40):
        for byte in (0, 0x7F, 0x80, 0xF0, 0xFF):
            lines = decode_lines(bytes([byte]) * length, 1 << 30, version)
            assert all(0 <= line < 1 << 31 for _, line in lines)
            assert [offset for offset, _ in lines] == sorted({offset for offset, _ in lines})
