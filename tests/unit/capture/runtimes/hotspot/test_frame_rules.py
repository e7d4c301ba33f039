"""Callers of frames in HotSpot's code without frame pointers."""

from __future__ import annotations

import pytest

from perfpy.capture.runtimes.hotspot.java_process import JavaProcess
from perfpy.unwind.rules import OFFSET, FrameRules
from tests.builders.hotspot import Jvm

RBP, RSP, RETURN = 6, 7, 16
# mov %eax,-0x14000(%rsp); push %rbp; sub $0x20,%rsp; cmpl $1,0x20(%r15); (from 15 on the frame is complete) nop;
# add $0x20,%rsp; pop %rbp; cmp 0x28(%r15),%rsp; ja ...; ret
CODE = bytes.fromhex("89842400c0feff 55 4883ec20 41817f20 90 4883c420 5d 493b6728 0f8700000000 c3")
FULL = FrameRules((RSP, 48), ((RBP, (OFFSET, -16)), (RETURN, (OFFSET, -8))), RETURN)
PUSHED = FULL._replace(cfa=(RSP, 16))
BEFORE = FrameRules((RSP, 8), ((RETURN, (OFFSET, -8)),), RETURN)


@pytest.mark.parametrize("is_recent", [False, True])
def test_frames_of_compiled_code(is_recent: bool):
    jvm = Jvm(is_recent=is_recent)
    method = jvm.method("App", "fib", "(I)I")
    start = jvm.compiled(method, [(16, [(method, 5)])], frame_size=6, complete=16, code=CODE)
    rules = JavaProcess(jvm.memory, jvm.exported).rules([start + offset for offset in (0, 7, 8, 12, 16, 17, 21, 22, 26, 32)])
    assert rules == [BEFORE, BEFORE, PUSHED, FULL, FULL, FULL, PUSHED, BEFORE, BEFORE, BEFORE]


def test_frames_of_the_interpreter_have_the_end_of_their_callers_stack():
    jvm = Jvm(is_recent=True)
    interpreter, stub = jvm.blob("Interpreter"), jvm.blob("StubRoutines (1)")
    rules = JavaProcess(jvm.memory, jvm.exported).rules([interpreter + 4, stub, 0x1000])
    saved = ((RBP, (OFFSET, -16)), (RSP, (OFFSET, -24)), (RETURN, (OFFSET, -8)))
    assert rules == [FrameRules((RBP, 16), saved, RETURN), None, None]  # a stub has a frame pointer
