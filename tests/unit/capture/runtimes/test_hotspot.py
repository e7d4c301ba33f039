"""Interpreted and inlined methods are read from a JVM's memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Columns
from perfpy.capture.runtimes import hotspot
from perfpy.capture.runtimes.hotspot import JavaProcess, external_name
from perfpy.capture.runtimes.hotspot_code import numbers
from perfpy.perfdata.events import FileEvent
from perfpy.unwind.rules import OFFSET, FrameRules
from tests.builders.hotspot import HEAP, Jvm

STACK = 0x7FFE00001000


@pytest.fixture(params=[False, True], ids=["17", "25"])
def jvm(request: pytest.FixtureRequest) -> Jvm:
    return Jvm(is_recent=request.param)


def names(process: JavaProcess, addresses: list[int]) -> list[str]:
    methods = process.new_methods()
    results = [[one.name for one in methods if one.begin <= address < one.end] for address in addresses]
    return [each[0] if each else hex(addresses[number]) for number, each in enumerate(results)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("Main", "main", "([Ljava/lang/String;)V"), "void Main.main(java.lang.String[])"),
        (("a/B$C", "<init>", "(IJ[[D)V"), "void a.B$C.<init>(int, long, double[][])"),
        (("A$$Lambda$14+0x00007f", "run", "()Lx/Y;"), "x.Y A$$Lambda$14/0x00007f.run()"),
        (("A", "m\nffff 10 forged", "(Lbroken"), " A.m\\nffff 10 forged(broken)"),
    ],
)
def test_methods_are_named_as_the_jvm_names_them(parts: tuple[str, str, str], expected: str):
    name = external_name(*parts)
    assert "\n" not in name
    assert name.replace("^J", "\\n") == expected


def test_numbers_of_scopes():
    assert numbers(bytes((0, 191, 192, 0, 255, 1)), 0, 4, 0) == [0, 191, 192, 255 + 64]
    assert numbers(bytes((1, 191, 192, 1, 255, 2)), 0, 4, 1) == [0, 190, 191, 254 + 64]
    assert numbers(bytes((1, 1, 0)), 0, 3, 1) == [0, 0]  # no byte is 0 there
    assert numbers(b"\xff", 0, 1, 0) == []  # truncated


def test_inlined_methods_have_frames(jvm: Jvm):
    leaf, middle, outer = (jvm.method("App", name, "()V") for name in ("leaf", "middle", "outer"))
    start = jvm.compiled(outer, [(8, [(outer, 300)]), (32, [(leaf, 1), (middle, 20), (outer, 250)])])
    process = JavaProcess(jvm.memory, jvm.exported)
    nothing = np.zeros(0, np.uint64)
    # a call is known by its return address, an interrupted instruction by what is described next
    frames = process.name_methods([start + 20, start + 31], nothing)
    expected = [jvm.code_of(leaf) + 1, jvm.code_of(middle) + 20, jvm.code_of(outer)]
    assert frames == [*expected, *expected]  # of `outer` there are 100 bytecodes only
    assert process.name_methods([start + 4], nothing) == [jvm.code_of(outer)]
    assert names(process, expected) == ["void App.leaf()", "void App.middle()", "void App.outer()"]
    assert process.new_methods() == []


def test_code_without_methods_stays(jvm: Jvm):
    stub = jvm.blob("StubRoutines (1)")
    process = JavaProcess(jvm.memory, jvm.exported)
    chain = [stub + 8, HEAP - 16, HEAP + 0xFF00, 0x1234]
    assert process.name_methods(chain, np.zeros(0, np.uint64)) == chain


def frame(jvm: Jvm, method: int, bytecode: int, caller: int, returns: int) -> list[int]:
    """The words of an interpreter's frame, lowest first: eight below where the frame pointer points."""
    return [bytecode, 0, 0, 0, 0, method, 0, 0, caller, returns]


def test_interpreted_methods_have_frames(jvm: Jvm):
    first, second, native = (jvm.method("App", name, "()I", size) for name, size in (("first", 50), ("second", 60), ("native", 0)))
    interpreter = jvm.blob("Interpreter")
    words = [
        *[interpreter + 21] * 2,  # left over from an earlier call, no frame
        *frame(jvm, native, 0, 0, interpreter + 21),
        *frame(jvm, first, jvm.code_of(first) + 7, 0, interpreter + 21),
        *frame(jvm, second, jvm.code_of(second) + 9, 0, interpreter + 21),
        *frame(jvm, second, jvm.code_of(first) + 9, 0, 0x5001),  # a bytecode of another method: not believed
    ]
    process = JavaProcess(jvm.memory, jvm.exported)
    inside = interpreter + 20
    frames = process.name_methods([interpreter + 5, inside, inside, inside, 0x5000], np.array(words, np.uint64))
    assert frames == [jvm.code_of(native), jvm.code_of(first) + 7, jvm.code_of(second) + 9, inside, 0x5000]


def test_an_ended_process_keeps_the_methods_read_so_far(jvm: Jvm):
    interpreted, compiled, missed = (jvm.method("App", name, "()V") for name in ("interpreted", "compiled", "missed"))
    interpreter = jvm.blob("Interpreter")
    start, other = (jvm.compiled(one, [(16, [(one, 5)])]) for one in (compiled, missed))
    words = np.array([start + 16, *frame(jvm, interpreted, jvm.code_of(interpreted) + 3, 0, 0x5001)], np.uint64)
    # its callee's return address, and before that the frame pointer that it saved
    stack = np.concatenate([np.array([STACK + 8 * (2 + 9), interpreter + 33], np.uint64), words])
    process = JavaProcess(jvm.memory, jvm.exported)
    process.look(stack, STACK)
    expected = [jvm.code_of(compiled) + 5, jvm.code_of(interpreted) + 3, 0x5000, other + 15]
    jvm.memory.pieces.clear()
    process.refresh()
    assert process.name_methods([start + 15, interpreter + 32, 0x5000, other + 15], stack) == expected


def test_code_in_the_place_of_other_code_is_read_anew(jvm: Jvm):
    before, after = (jvm.method("App", name, "()V") for name in ("before", "after"))
    start = jvm.compiled(before, [(16, [(before, 5)])])
    process = JavaProcess(jvm.memory, jvm.exported)
    nothing = np.zeros(0, np.uint64)
    assert process.name_methods([start + 15], nothing) == [jvm.code_of(before) + 5]
    jvm._block = 0
    assert jvm.compiled(after, [(16, [(after, 7)])]) == start
    process.refresh()
    assert process.name_methods([start + 15], nothing) == [jvm.code_of(after) + 7]


def test_a_jvm_that_has_not_begun_is_refused(jvm: Jvm):
    with pytest.raises((OSError, LookupError)):
        JavaProcess(jvm.memory, {})
    jvm.memory.pieces.clear()
    with pytest.raises((OSError, LookupError)):
        JavaProcess(jvm.memory, jvm.exported)


@pytest.mark.parametrize("seed", range(40))
def test_memory_that_holds_anything_ends_nothing(jvm: Jvm, seed: int):
    """What is in the memory of a process is its own affair."""
    chance = random.Random(seed)
    one, other = (jvm.method("App", name, "()V") for name in ("one", "other"))
    start, interpreter = jvm.compiled(one, [(16, [(other, 5), (one, 3)])]), jvm.blob("Interpreter")
    whole = JavaProcess(jvm.memory, jvm.exported) if seed % 2 else None
    for data in jvm.memory.pieces.values():
        for _ in range(max(1, len(data) // 24) if len(data) < 4096 else 40):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
    near = (start, interpreter, one, other, chance.getrandbits(64))
    words = [chance.choice(near) + chance.randrange(64) & (1 << 64) - 1 for _ in range(64)]
    stack = np.array(words, np.uint64)
    try:
        process = whole or JavaProcess(jvm.memory, jvm.exported)
    except (OSError, LookupError, ValueError):
        return
    process.refresh()
    process.look(stack, STACK)
    chain = [start + 15, interpreter + 20, start + 3, *words[:20]]
    assert len(process.name_methods(chain, stack)) >= len(chain)
    assert all("\n" not in method.name for method in process.new_methods())


def test_memory_that_may_not_be_read_is_reported(monkeypatch: pytest.MonkeyPatch):
    def refused(_pid: int, _library: object) -> JavaProcess:
        raise PermissionError

    monkeypatch.setattr(hotspot, "library_of", lambda _pid, _procfs: (0, "/libjvm.so"))
    monkeypatch.setattr(JavaProcess, "of", refused)
    frames = hotspot.JavaFrames(FileEvent(EventAttr(), (), "", 0))
    frames.look(Columns(2, {"pid": np.array([7, 9], np.int32)}), EventAttr())
    (note,) = frames.notes()
    assert "cannot read the memory of Java process 7, 9 (check kernel.yama.ptrace_scope)" in note


# Callers of frames in HotSpot's code without frame pointers.


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
