"""Registers of callers, by where call frame information says that callees saved them."""

from __future__ import annotations

import numpy as np

from perfpy.capture.python_frames.merging.registers import STACK_POINTER, FrameState, StackCopy, frame_states
from perfpy.unwind.rules import OFFSET, FrameRules

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
