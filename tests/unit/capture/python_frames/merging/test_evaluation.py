"""What evaluation loops say of themselves: registers, stack words, and the word that a build keeps its instruction in."""

from __future__ import annotations

import pytest

from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.merging.evaluation import NO_FRAME, CodeRanges, Evaluated, evaluate, note_slots
from perfpy.capture.python_frames.merging.home_slots import HomeSlots
from perfpy.capture.python_frames.merging.registers import FrameState

STACK = 0x7F00_0000_0000
CODE = 0x7F10_0000_0000
OBJECTS = 0x7F20_0000_0000
SIZE = 0xA0


def code(number: int) -> FoundCode:
    begin = CODE + number * 0x1000
    return FoundCode(1, number, OBJECTS + number * 0x100, begin, begin + 100, f"f{number}", "f.py", 1, b"", SIZE)


@pytest.fixture
def ranges() -> CodeRanges:
    code_ranges = CodeRanges()
    for number in range(6):
        code_ranges.add(code(number))
    return code_ranges


def said(of: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots | None = None) -> Evaluated | None:
    """What a loop says, less the pointers."""
    result = evaluate(of, ranges, frames, slots or HomeSlots())
    return None if result is None else result._replace(pointers=())


def state(words=(), **registers: int) -> FrameState:
    return FrameState({int(name[1:]): value for name, value in registers.items()}, list(words))


def test_the_instruction_is_the_one_before_the_pointer(ranges):
    result = said(state(r14=CODE + 0x2000 + 22, r6=STACK), ranges, {STACK: 2})
    assert result == Evaluated(2, 20, frozenset((STACK,)))


def test_registers_count_before_the_stack(ranges):
    words = [CODE + 0x1000 + 50, CODE + 0x2000 + 60]
    assert said(state(words, r12=CODE + 0x2000 + 22), ranges, {}) == Evaluated(2, 20, frozenset())
    assert said(state(words[1:]), ranges, {}) == Evaluated(2, 58, frozenset())


def test_pointers_into_several_functions_need_a_frame_to_decide(ranges):
    words = [CODE + 0x1000 + 50, CODE + 0x2000 + 60]
    assert said(state(words), ranges, {}) is None
    assert said(state([*words, STACK]), ranges, {STACK: 1}) == Evaluated(1, 48, frozenset((STACK,)))


def test_ends_of_frames_count_where_no_frame_is_met(ranges):
    frames = {STACK: 1, STACK + SIZE: NO_FRAME}
    assert said(state(r14=CODE + 2, r6=STACK + SIZE), ranges, frames) == Evaluated(0, 0, frozenset((STACK + SIZE,)))
    assert said(state(r14=CODE + 2, r6=STACK + SIZE, r3=STACK), ranges, frames) == Evaluated(0, 0, frozenset((STACK,)))


def test_other_values_are_no_instructions(ranges):
    assert said(state([0, CODE, CODE + 101, CODE + 7, (1 << 64) - 1], r14=CODE - 2), ranges, {}) is None


def test_the_newest_code_at_an_address_counts(ranges):
    ranges.add(code(2)._replace(number=9, name="newer"))
    assert said(state(r14=CODE + 0x2000 + 22), ranges, {}) == Evaluated(9, 20, frozenset())


def test_functions_that_share_their_instructions_are_distinguished_by_frame_or_object(ranges):
    """As 3.10 has it where their code is equal."""
    ranges.add(code(2)._replace(number=9, name="equal", address=OBJECTS + 0x900))
    assert said(state(r14=CODE + 0x2000 + 22), ranges, {}) is None
    assert said(state(r14=CODE + 0x2000 + 22, r3=OBJECTS + 0x200), ranges, {}) == Evaluated(2, 20, frozenset())
    assert said(state([OBJECTS + 0x900], r14=CODE + 0x2000 + 22), ranges, {}) == Evaluated(9, 20, frozenset())
    assert said(state(r14=CODE + 0x2000 + 22, r3=STACK), ranges, {STACK: 2}) == Evaluated(2, 20, frozenset((STACK,)))


def test_pointers_come_from_registers_and_then_from_words(ranges):
    result = evaluate(state([5], r14=CODE + 2, r7=9), ranges, {}, HomeSlots())
    assert result is not None
    assert result.pointers == (CODE + 2, 5)


# the word that is the pointer's home


def taught(ranges: CodeRanges, words: list[list[int]], number: int) -> HomeSlots:
    """A loop whose frame was read each time with the code of that number."""
    slots = HomeSlots()
    for row in words:
        note_slots(state([*row, STACK]), ranges, {STACK: number}, slots)
    return slots


#: word 1 goes on, word 0 stays at what it was
GOES_ON = [[CODE + 0x1000 + 60, CODE + 0x2000 + 2 * step] for step in range(1, 20)]


def test_the_home_is_the_word_that_changes_and_agrees_with_frames(ranges):
    slots = taught(ranges, GOES_ON, 2)
    assert slots.home() == 1
    assert said(state([CODE + 0x1000 + 60, CODE + 0x2000 + 8]), ranges, {}, slots) == Evaluated(2, 6, frozenset())


def test_without_a_code_at_home_other_words_say_nothing(ranges):
    assert said(state([CODE + 0x1000 + 60, 0x1234]), ranges, {}, taught(ranges, GOES_ON, 2)) is None


def test_words_of_one_function_are_distinguished_by_how_they_change(ranges):
    same = [[CODE + 0x2000 + 60, CODE + 0x2000 + 2 * step] for step in range(1, 20)]
    slots = taught(ranges, same, 2)
    assert said(state([CODE + 0x2000 + 60, CODE + 0x2000 + 8]), ranges, {}, slots) == Evaluated(2, 6, frozenset())


def test_no_word_is_a_home_that_does_not_stand_out(ranges):
    assert taught(ranges, [[row[1], row[1]] for row in GOES_ON], 2).home() is None
    assert taught(ranges, GOES_ON[:2], 2).home() is None
    assert taught(ranges, GOES_ON, 5).home() is None
    assert HomeSlots().home() is None
