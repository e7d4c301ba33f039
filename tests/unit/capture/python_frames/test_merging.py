"""Python frames in native chains: what a sample says itself, what was read after it, and what fits together."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.merging import (
    EXACT,
    NO_FRAME,
    OPEN_LINES,
    PARTIAL,
    SEEN,
    STACK_POINTER,
    UNKNOWN,
    UNPROVEN,
    CodeRanges,
    Evaluated,
    FrameState,
    HomeSlots,
    KnownCalls,
    SeenCallers,
    StackCopy,
    evaluate,
    frame_states,
    merge,
    note_slots,
    of_copied_frames,
    of_old_versions,
)
from perfpy.interpreters.frames import MOST_FRAMES
from perfpy.unwind.rules import OFFSET, FrameRules

STACK = 0x7F00_0000_0000
CODE = 0x7F10_0000_0000
OBJECTS = 0x7F20_0000_0000
SIZE = 0xA0


def code(number: int) -> FoundCode:
    begin = CODE + number * 0x1000
    return FoundCode(1, number, OBJECTS + number * 0x100, begin, begin + 100, f"f{number}", "f.py", 1, b"", SIZE)


CODES = {number: code(number) for number in range(6)}


def frame(level: int, number: int, offset: int = 10, *, is_entry: bool = False) -> tuple[int, int, int, bool]:
    return STACK + level * SIZE, number, offset, is_entry


def loop(level: int | None, number: int, offset: int = 20) -> Evaluated:
    return Evaluated(number, offset, frozenset() if level is None else frozenset((STACK + level * SIZE,)))


#: three calls within one loop: 0 called 1, which called 2
ONE_LOOP = [frame(2, 2), frame(1, 1), frame(0, 0, is_entry=True)]


def test_calls_within_a_loop_that_has_another_frame_now_have_ended():
    """Coroutines that call the same function: its frame has the address again, but another caller."""
    read = [frame(9, 3), frame(0, 4, is_entry=True), frame(1, 5, is_entry=True), frame(2, 0, is_entry=True)]
    assert merge([loop(9, 3), loop(1, 1), loop(2, 0)], read, CODES, is_cut=False) == ([[(3, 20)], [(1, 20)], [(0, 20)]], PARTIAL)
    assert merge([loop(9, 3), loop(1, 5), loop(2, 0)], read, CODES, is_cut=False) == ([[(3, 20), (4, 10)], [(5, 20)], [(0, 20)]], EXACT)


def test_the_stack_that_a_greenlet_was_started_on_is_not_its_callers():
    read = [frame(9, 3), frame(8, 4, is_entry=True)]
    loops = [loop(9, 3), loop(2, 0)]
    assert merge(loops, read, CODES, is_cut=False, is_whole=True) == ([[(3, 20), (4, 10)], []], EXACT)
    assert merge(loops, read, CODES, is_cut=False)[0] == [[(3, 20), (4, 10)], [(0, 20)]]  # further frames may exist


def test_recursion_in_old_versions_does_not_repeat_or_lose_calls():
    """Frames of earlier calls are taken again, each by another call: only functions that are not recursive tell which loop has which."""
    read = [frame(7, 2), *(frame(level, 1) for level in (3, 4, 5, 6, 2)), frame(0, 0)]
    rotated = [loop(7, 2), loop(4, 1), loop(5, 1), loop(6, 1)]
    assert of_old_versions(rotated, read, is_cut=True)[0] == [[(2, 20)], [(1, 20)], [(1, 20)], [(1, 20)]]
    same = [loop(7, 2), loop(3, 1), loop(4, 1)]
    assert of_old_versions(same, read, is_cut=True)[0][-1] == [(1, 20), *[(1, 10)] * 3, (0, 10)]
    assert of_old_versions([loop(8, 3), *same], read, is_cut=True)[0][-1] == [(1, 20), *[(1, 10)] * 3, (0, 10)]  # f3 has ended
    assert of_old_versions([loop(7, 2), loop(4, 3)], read, is_cut=True)[0] == [[(2, 20)], [(3, 20)]]  # another function called f2
    assert of_old_versions([loop(4, 1), loop(5, 1)], read, is_cut=True)[0] == [[(1, 20)], [(1, 20)]]


def test_a_truncated_chain_has_the_callers_of_its_outermost_loop_although_an_inner_one_has_ended():
    read = [frame(2, 2, is_entry=True), frame(1, 1, is_entry=True), frame(0, 0, is_entry=True)]
    merged = merge([loop(5, 3), loop(1, 1)], read, CODES, is_cut=True)
    assert merged == ([[(3, 20)], [(1, 20), (0, 10)]], PARTIAL)
    assert merge([loop(5, 3), loop(4, 1)], read, CODES, is_cut=True) == ([[(3, 20)], [(1, 20)]], PARTIAL)
    assert merge([loop(5, 3), None], read, CODES, is_cut=True)[0] == [[(3, 20)], []]


def test_the_samples_own_instruction_counts_and_not_the_later_one():
    merged = merge([loop(2, 2, 44)], ONE_LOOP, CODES, is_cut=False)
    assert merged == ([[(2, 44), (1, 10), (0, 10)]], EXACT)


def test_frames_that_were_called_after_the_sample_are_omitted():
    merged = merge([loop(1, 1, 44)], ONE_LOOP, CODES, is_cut=False)
    assert merged == ([[(1, 44), (0, 10)]], EXACT)


def test_another_function_in_the_same_frame_leaves_its_callers_line_open():
    merged = merge([loop(2, 3, 44)], ONE_LOOP, CODES, is_cut=False)
    assert merged == ([[(3, 44), (1, None), (0, 10)]], OPEN_LINES)


def test_a_function_that_has_returned_meanwhile_keeps_its_caller():
    merged = merge([loop(3, 3, 44)], ONE_LOOP, CODES, is_cut=False)
    # frames[2] ends where the sample's frame begins: its end is what the loop's registers show
    assert merged == ([[(3, 44), (2, None), (1, 10), (0, 10)]], OPEN_LINES)


def test_frames_that_fit_nowhere_are_alone():
    assert merge([loop(5, 3)], ONE_LOOP, CODES, is_cut=False) == ([[(3, 20)]], PARTIAL)
    assert merge([loop(5, 3)], [], CODES, is_cut=False) == ([[(3, 20)]], PARTIAL)


def test_each_loop_gets_the_frames_that_it_runs():
    read = [frame(3, 3), frame(2, 2, is_entry=True), frame(1, 1), frame(0, 0, is_entry=True)]
    merged = merge([loop(3, 3), loop(1, 1)], read, CODES, is_cut=False)
    assert merged == ([[(3, 20), (2, 10)], [(1, 20), (0, 10)]], EXACT)


def test_loops_that_were_entered_after_the_sample_are_omitted():
    read = [frame(3, 3), frame(2, 2, is_entry=True), frame(1, 1), frame(0, 0, is_entry=True)]
    assert merge([loop(1, 1)], read, CODES, is_cut=False) == ([[(1, 20), (0, 10)]], EXACT)


def test_loops_that_have_ended_before_the_reading_keep_their_own_frame():
    read = [frame(1, 1), frame(0, 0, is_entry=True)]
    merged = merge([loop(2, 2), loop(1, 1)], read, CODES, is_cut=False)
    assert merged == ([[(2, 20)], [(1, 20), (0, 10)]], PARTIAL)


def test_callers_beyond_the_copy_of_the_stack_follow():
    read = [frame(2, 2, is_entry=True), frame(1, 1, is_entry=True), frame(0, 0, is_entry=True)]
    assert merge([loop(2, 2)], read, CODES, is_cut=True) == ([[(2, 20), (1, 10), (0, 10)]], EXACT)
    assert merge([loop(0, 0)], read, CODES, is_cut=True) == ([[(0, 20)]], EXACT)


def test_loops_that_say_nothing_go_by_the_number_of_calls():
    assert merge([None], ONE_LOOP, CODES, is_cut=False) == ([[(2, 10), (1, 10), (0, 10)]], UNPROVEN)
    assert merge([None, None], ONE_LOOP, CODES, is_cut=False)[1] == UNKNOWN
    assert merge([None], [], CODES, is_cut=False) == ([[]], UNKNOWN)


def test_frames_that_were_left_before_the_reading_are_callers_without_lines():
    ended_frames, read = [frame(3, 3), frame(2, 2)], [frame(1, 1), frame(0, 0, is_entry=True)]
    merged = merge([loop(3, 3, 44)], read, CODES, ended_frames=ended_frames, is_cut=False)
    assert merged == ([[(3, 44), (2, None), (1, None), (0, 10)]], OPEN_LINES)


def test_frames_that_were_left_do_not_disturb():
    ended_frames, read = [frame(3, 3, is_entry=True), frame(2, 2)], [frame(1, 1), frame(0, 0, is_entry=True)]
    assert merge([loop(1, 1)], read, CODES, ended_frames=ended_frames, is_cut=False) == ([[(1, 20), (0, 10)]], EXACT)
    assert merge([None], read, CODES, ended_frames=ended_frames, is_cut=False) == ([[(1, 10), (0, 10)]], UNPROVEN)
    assert merge([loop(3, 3), loop(1, 1)], read, CODES, ended_frames=ended_frames, is_cut=False)[0] == [[(3, 20)], [(1, 20), (0, 10)]]


def test_loops_of_old_versions_name_their_frames_themselves():
    assert of_old_versions([loop(None, 2), loop(None, 1)], [], is_cut=False) == ([[(2, 20)], [(1, 20)]], EXACT)
    read = [frame(9, 2, 30, is_entry=True), frame(8, 1, 40, is_entry=True)]
    assert of_old_versions([None, loop(8, 1)], read, is_cut=False) == ([[(2, 30)], [(1, 20)]], UNPROVEN)
    assert of_old_versions([None, loop(8, 1)], read[1:], is_cut=False) == ([[], [(1, 20)]], PARTIAL)
    assert of_old_versions([loop(9, 2)], read, is_cut=True) == ([[(2, 20), (1, 40)]], EXACT)
    assert of_old_versions([None], [], is_cut=False) == ([[]], UNKNOWN)


# who called a frame at other moments

CALLED_OTHERWISE = [frame(1, 4), frame(0, 0, is_entry=True)]


def seen(*chains: list[tuple[int, int, int, bool]]) -> SeenCallers:
    seen_callers = SeenCallers()
    for chain in chains:
        seen_callers.add(1, chain)
    return seen_callers


def at(level: int, number: int) -> Evaluated:
    """A loop whose registers point to a frame that was not read with its sample."""
    return Evaluated(number, 20, frozenset(), (7, STACK + level * SIZE))


def test_callers_that_were_seen_at_other_moments_are_trusted_until_one_was_read():
    merged = merge([at(2, 2)], CALLED_OTHERWISE, CODES, seen_callers=seen(ONE_LOOP), is_cut=False)
    assert merged == ([[(2, 20), (1, 10), (0, 10)]], SEEN)
    merged = merge([at(2, 2)], [frame(0, 5, is_entry=True)], CODES, seen_callers=seen(ONE_LOOP), is_cut=False)
    assert merged == ([[(2, 20), (1, 10), (0, 10)]], SEEN)


def test_frames_of_another_greenlet_are_no_callers():
    """The thread has switched between the sample and the reading: the frames are those of another stack."""
    callers = seen([frame(13, 3), frame(12, 2, is_entry=True)])
    other = [frame(9, 5, is_entry=True), frame(1, 1), frame(0, 0, is_entry=True)]
    loops = [loop(None, 3)._replace(pointers=(frame(13, 3)[0],))]
    merged = merge(loops, other, CODES, ended_frames=[frame(2, 5, is_entry=True)], seen_callers=callers, is_cut=True)
    assert merged == ([[(3, 20), (2, 10)]], PARTIAL)


def test_the_first_frame_of_a_greenlet_that_was_seen_before_has_no_callers():
    """The thread runs another greenlet at the reading, and the outer loop is that of the greenlet that started this one."""
    callers = SeenCallers()
    for _ in range(3):
        callers.add(1, [frame(13, 3), frame(12, 2, is_entry=True)], is_whole=True)
    other = [frame(9, 5), frame(1, 1), frame(0, 0, is_entry=True)]
    loops = [loop(None, 3)._replace(pointers=(frame(13, 3)[0],)), loop(1, 1)]
    merged = merge(loops, other, CODES, seen_callers=callers, is_cut=False, is_whole=True)
    assert merged == ([[(3, 20), (2, 10)], []], SEEN)
    called = seen([frame(13, 3), frame(12, 2, is_entry=True)])  # by C, as a key of sorted() in the outer loop
    assert merge(loops, other, CODES, seen_callers=called, is_cut=False, is_whole=True).loops == [[(3, 20), (2, 10)], [(1, 20), (0, 10)]]


def test_loops_that_say_nothing_get_no_frames_of_another_greenlet():
    read = [frame(9, 5, is_entry=True), frame(1, 1), frame(0, 0, is_entry=True)]
    before = {(address, number): offset for address, number, offset, _ in read}
    merged = merge([None, loop(None, 3)], read, CODES, before=before, is_cut=False)
    assert merged == ([[], [(3, 20)]], PARTIAL)
    merged = merge([None, loop(1, 1)], read, CODES, before=before, is_cut=False)
    assert merged.loops == [[(5, 10)], [(1, 20), (0, 10)]]


def test_callers_at_several_lines_have_none():
    other = [frame(2, 2), frame(1, 1, 30), frame(0, 0, is_entry=True)]
    merged = merge([at(2, 2)], CALLED_OTHERWISE, CODES, seen_callers=seen(ONE_LOOP, other), is_cut=False)
    assert merged == ([[(2, 20), (1, None), (0, 10)]], OPEN_LINES)


def test_lines_of_callers_that_have_gone_on_belong_to_other_moments():
    later = [frame(2, 3), frame(1, 1, 30), frame(0, 0, is_entry=True)]
    before = [frame(2, 2), frame(1, 1, 14), frame(0, 0, is_entry=True)]
    variant = loop(2, 2)._replace(pointers=(STACK + 2 * SIZE,))
    assert merge([variant], later, CODES, seen_callers=seen(before), is_cut=False) == ([[(2, 20), (1, 14), (0, 10)]], SEEN)
    assert merge([variant], later, CODES, seen_callers=seen(before, ONE_LOOP), is_cut=False) == (
        [[(2, 20), (1, None), (0, 10)]],
        OPEN_LINES,
    )


def test_frames_that_never_call_a_function_are_not_its_callers():
    """Another function's frame of the same size may be where the caller's was."""
    merged = merge([loop(3, 3, 44)], ONE_LOOP, CODES, seen_callers=seen(ONE_LOOP), is_cut=False)
    assert merged == ([[(3, 44)]], PARTIAL)
    calls = [frame(7, 3), frame(6, 2), frame(0, 0, is_entry=True)]
    merged = merge([loop(3, 3, 44)], ONE_LOOP, CODES, seen_callers=seen(ONE_LOOP, calls), is_cut=False)
    assert merged == ([[(3, 44), (2, None), (1, 10), (0, 10)]], OPEN_LINES)


def test_calls_that_were_seen_once_in_a_while_are_errors():
    calls = KnownCalls()
    for _ in range(99):
        calls.add(1, 2)
    calls.add(3, 2)
    assert calls.has(1, 2)
    assert not calls.has(3, 2)
    assert not calls.has(2, 1)


def test_ambiguous_callers_are_dropped():
    other = [frame(2, 2), frame(1, 3), frame(0, 0, is_entry=True)]
    merged = merge([at(2, 2)], CALLED_OTHERWISE, CODES, seen_callers=seen(ONE_LOOP, other), is_cut=False)
    assert merged == ([[(2, 20)]], PARTIAL)
    merged = merge([at(2, 2)], CALLED_OTHERWISE, CODES, seen_callers=seen(*[ONE_LOOP] * 19, other), is_cut=False)
    assert merged == ([[(2, 20), (1, 10), (0, 10)]], SEEN)


def test_callers_are_forgotten_after_two_batches():
    callers = seen(ONE_LOOP)
    callers.add(2, CALLED_OTHERWISE)
    assert callers.caller(STACK + 2 * SIZE, 2) is not None
    callers.add(3, CALLED_OTHERWISE)
    assert callers.caller(STACK + 2 * SIZE, 2) is None


def test_chains_that_call_themselves_end():
    callers = SeenCallers()
    callers.add(1, [frame(1, 1), frame(1, 1)])
    (result,), grade = merge([at(1, 1)], [], CODES, seen_callers=callers, is_cut=False)
    assert len(result) == MOST_FRAMES
    assert grade == PARTIAL


def test_loops_that_say_nothing_have_the_frames_that_were_there_before():
    before = {(STACK, 0): 10, (STACK + SIZE, 1): 16, (STACK + 2 * SIZE, 3): 10}
    assert merge([None], ONE_LOOP, CODES, before=before, is_cut=False) == ([[(1, None), (0, 10)]], UNPROVEN)
    assert merge([None], ONE_LOOP, CODES, before={}, is_cut=False) == ([[]], UNKNOWN)


# frames that were copied at the moment of the sample

CALLS = [frame(2, 2, 4), frame(1, 1, 8, is_entry=True), frame(0, 0, 12, is_entry=True)]


def test_copied_frames_belong_to_their_loops():
    assert of_copied_frames(2, CALLS) == ([[(2, 4), (1, 8)], [(0, 12)]], EXACT)


def test_a_loop_that_begins_has_no_copied_frame():
    assert of_copied_frames(3, CALLS) == ([[], [(2, 4), (1, 8)], [(0, 12)]], EXACT)


def test_callers_beyond_a_truncated_stack_follow_its_last_loop():
    assert of_copied_frames(1, CALLS) == ([[(2, 4), (1, 8), (0, 12)]], EXACT)


def test_nothing_copied_is_unknown():
    assert of_copied_frames(2, []) == ([[], []], UNKNOWN)


# What evaluation loops say of themselves: registers, stack words, and the word that a build keeps its instruction in.


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


# Registers of callers, by where call frame information says that callees saved them.


RBX, RBP, R14 = 3, 6, 14
BEGIN = 0x7FFF_0000_0000


def rules(size: int, **saved: int) -> FrameRules:
    registers = [(16, (OFFSET, -8)), *((int(name[1:]), (OFFSET, offset)) for name, offset in saved.items())]
    return FrameRules((STACK_POINTER, size), tuple(sorted(registers)), 16)


def stack(count: int = 64) -> StackCopy:
    return StackCopy(np.arange(1000, 1000 + count, dtype=np.uint64), BEGIN)


def states(registers: dict[int, int], copy: StackCopy, of_frames: list[FrameRules | None]) -> list[FrameState]:
    return [state for state in frame_states(registers, copy, of_frames) if state is not None]


def test_saved_registers_are_restored_and_others_stay():
    sampled = {STACK_POINTER: BEGIN, RBX: 1, R14: 2, 0: 3}
    # the first frame has 32 bytes: word 3 is the return address, word 2 the saved rbx
    first, second = states(sampled, stack(), [rules(32, r3=-16), rules(64)])
    assert first.registers == sampled
    assert first.words == [1000, 1001, 1002]
    assert second.registers == {STACK_POINTER: BEGIN + 32, RBX: 1002, R14: 2}  # rax is lost in a call
    assert second.words == [1004, 1005, 1006, 1007, 1008, 1009, 1010]


def test_registers_saved_beyond_the_copy_are_unknown():
    _, second = states({STACK_POINTER: BEGIN, RBX: 1}, stack(4), [rules(64, r3=-16), rules(64)])
    assert RBX not in second.registers


def test_registers_end_at_a_frame_without_rules():
    sampled = {STACK_POINTER: BEGIN}
    by_frame_pointer = FrameRules((RBP, 16), (), 16)
    assert list(frame_states(sampled, stack(), [FrameRules(b"\x77\x08", (), 16)])) == []
    assert list(frame_states(sampled, stack(), [by_frame_pointer])) == []
    assert list(frame_states({**sampled, RBP: BEGIN - 64}, stack(), [by_frame_pointer])) == []
    assert list(frame_states({**sampled, RBP: BEGIN + (1 << 40)}, stack(), [by_frame_pointer])) == []
    assert list(frame_states({}, stack(), [rules(64)])) == []
