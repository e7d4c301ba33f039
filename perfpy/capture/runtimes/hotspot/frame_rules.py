"""Unwind rules of HotSpot's code, in the form of call frame information.

HotSpot's compilers use %rbp as any register unless -XX:+PreserveFramePointer is set, but each blob has the size of its frames
(frame_x86.cpp): the return address is the last word, and the caller's %rbp the one before it. The interpreter has a frame
pointer; the end of its caller's stack, before the arguments were moved, is stored below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.unwind.rules import OFFSET, FrameRules

if TYPE_CHECKING:
    from perfpy.capture.runtimes.hotspot.compiled_code import CodeBlob
    from perfpy.capture.runtimes.hotspot.process_memory import ProcessMemory

_RBP, _RSP, _RETURN = 6, 7, 16  # of x86-64 in DWARF
_WORD: Final = 8
_LARGEST: Final = 1 << 16  # words
_PUSH, _POP, _RET = b"\x55", b"\x5d", b"\xc3"  # push %rbp; pop %rbp; ret
_POLL: Final = (b"\x49\x3b\x67", b"\x49\x3b\xa7")  # cmp N(%r15),%rsp: after the frame is removed; then ja to the safepoint handler
_MAKE: Final = (b"\x48\x83\xec", b"\x48\x81\xec")  # sub $N,%rsp
_ABOVE: Final = b"\x0f\x87"
_RETURNS: Final = (_RETURN, (OFFSET, -_WORD))
_SAVED: Final = (_RBP, (OFFSET, -2 * _WORD))
_INTERPRETER: Final = FrameRules((_RBP, 2 * _WORD), (_SAVED, (_RSP, (OFFSET, -3 * _WORD)), _RETURNS), _RETURN)
_BEFORE: Final = FrameRules((_RSP, _WORD), (_RETURNS,), _RETURN)
_PUSHED: Final = FrameRules((_RSP, 2 * _WORD), (_SAVED, _RETURNS), _RETURN)


def rules_at(blob: CodeBlob, address: int, memory: ProcessMemory) -> FrameRules | None:
    """Return the rules for an address in a blob; None if there is only a frame pointer."""
    if blob.is_interpreter:
        return _INTERPRETER
    if not 0 < blob.frame_size <= _LARGEST or blob.complete < 0:
        return None
    if address < blob.start + blob.complete:
        executed = memory.some(blob.start, address - blob.start)
        if not any(opcode in executed for opcode in _MAKE):  # after it, before the frame is complete, come barriers of garbage collectors
            return _PUSHED if _PUSH in executed else _BEFORE
    code = memory.some(address, 7)
    if code.startswith(_POP):
        return _PUSHED
    if code.startswith((_RET, *_POLL)) or (code.startswith(_ABOVE) and code.endswith(_RET)):
        return _BEFORE
    return FrameRules((_RSP, blob.frame_size * _WORD), (_SAVED, _RETURNS), _RETURN)
