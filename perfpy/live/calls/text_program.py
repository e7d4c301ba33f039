"""The BPF programs that copy what arguments of system calls point to: names of files, other strings, and structures.

One runs when a thread enters a call. The kernel cannot wait for a page there, so a string may be unreadable; then the other one reads it
when the call returns, because the kernel has read the page by then. It also reads the structures that the call writes, if the call
succeeded. Both change nothing in the thread.

The raw data of the tracepoints begin with 8 common bytes: raw_syscalls:sys_enter { s64 id; u64 args[6]; }, sys_exit { s64 id; s64 ret; }.
Layout of a record: HEAD, then the string with its final NUL, or the structure.
Layout of a pending call: { u64 mask; u64 id; u64 args[6]; }.
Layout of a wanted call: WANTED. A mask has the arguments to copy at the entry, or unreadable then, in its bits 0 to 5, and those to copy
at the return in its bits 8 to 13. The scratch memory of a CPU has a record, and SLOTS with the numbers that can be counts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.system_calls.structures import ONE, RESULT
from perfpy.kernel.bpf.code import BpfCode

if TYPE_CHECKING:
    from perfpy.abi.system_calls.structures import PointedStructure

HEAD: Final = struct.Struct(
    "=QIIiHH"
)  #: time (CLOCK_MONOTONIC, ns), tid, pid, number of the call, index of the argument, whether at return
WANTED: Final = struct.Struct("=7Q")  #: mask, then a word for each argument: 0 for a string, or element_word()
LONGEST_TEXT: Final = 4096  #: PATH_MAX
LARGEST_STRUCTURE: Final = 1088  #: 16 messages, and one more for "..."
SCRATCH_SIZE: Final = 8192
PENDING_SIZE: Final = 64
MOST_ARGUMENTS: Final = 6
RETURN_SHIFT: Final = 8  #: of the bits for the return in a mask

_LOOKUP, _UPDATE, _DELETE, _NOW, _CPU, _PID_TGID = 1, 2, 3, 5, 8, 14  # enum bpf_func_id
_READ, _READ_TEXT, _OUTPUT = 112, 114, 130
_R0, _R1, _R2, _R3, _R4, _R5, _CONTEXT, _MASK, _SCRATCH, _CALL, _STACK = range(11)
_SIZE = _CONTEXT  # the register of the context is free once the arguments are in the slots
_ID, _ARGUMENTS, _RESULT = 8, 16, 16  # offsets in the raw data
_KEY, _PENDING, _WORD, _COUNT = -8, -72, -80, -88  # offsets on the stack
_SLOTS: Final = SCRATCH_SIZE - 64  # offset in the scratch memory: the arguments, the result, and 1
_COUNT_SHIFT, _ADDRESS_BIT, _BITS_BIT, _POINTER_BIT = 16, 1 << 23, 1 << 24, 1 << 25  # in the word of an argument
_MOST_ELEMENTS: Final = LARGEST_STRUCTURE


def element_word(pointed: PointedStructure) -> int:
    """Return the word of an argument that points to structures: size of an element, slot of the count, what the two mean."""
    flags = pointed.is_count_address * _ADDRESS_BIT | pointed.is_count_of_bits * _BITS_BIT | pointed.is_pointer * _POINTER_BIT
    return pointed.size | pointed.length_from << _COUNT_SHIFT | flags


def enter_program(wanted: int, pending: int, scratch: int, ring: int, own_pid: int, traced: int | None = None) -> bytes:
    """Return the program for sys_enter.

    Args:
        wanted: descriptor of the array from numbers of calls to WANTED.
        pending: descriptor of the hash map from threads to calls whose return is awaited.
        scratch: descriptor of the array with SCRATCH_SIZE bytes for each CPU.
        ring: descriptor of the ring buffer.
        own_pid: the process whose calls are skipped.
        traced: descriptor of the hash map of the processes whose calls are copied; None for all.
    """
    program = BpfCode()
    program.move(_CONTEXT, _R1)
    program.load(_R2, _CONTEXT, _ID)
    program.store_half(_STACK, _KEY, _R2)
    _look_up(program, wanted)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_CALL, _R0)
    program.load(_MASK, _CALL, 0)
    program.jump_if_equal(_MASK, 0, "end")
    if traced is not None:
        _look_up_process(program, traced)
    _fill_head(program, scratch, own_pid)
    _note_call(program)
    for index in range(MOST_ARGUMENTS):
        _copy(program, index, ring, at_return=False)
    program.load(_R1, _STACK, _PENDING)
    program.jump_if_equal(_R1, 0, "end")
    program.load_map(_R1, pending)
    program.move(_R2, _STACK)
    program.add_number(_R2, _KEY)
    program.move(_R3, _STACK)
    program.add_number(_R3, _PENDING)
    program.set(_R4, 0)
    program.call(_UPDATE)
    _end(program)
    return program.bytes()


def _note_call(program: BpfCode) -> None:
    """Write the call to the slots, and to the pending call on the stack with the arguments to copy at the return."""
    program.load(_R1, _CONTEXT, _ID)
    program.store_half(_SCRATCH, 16, _R1)
    program.store(_STACK, _PENDING + 8, _R1)
    for index in range(MOST_ARGUMENTS):
        program.load(_R3, _CONTEXT, _ARGUMENTS + 8 * index)
        program.store(_STACK, _PENDING + 16 + 8 * index, _R3)
        program.store(_SCRATCH, _SLOTS + 8 * index, _R3)
    program.set(_R1, 0)
    program.store(_SCRATCH, _SLOTS + 8 * RESULT, _R1)
    program.set(_R1, 1)
    program.store(_SCRATCH, _SLOTS + 8 * ONE, _R1)
    program.move(_R1, _MASK)
    program.emit(0x57, _R1, immediate=0x3F << RETURN_SHIFT)  # &=
    program.store(_STACK, _PENDING, _R1)


def exit_program(wanted: int, pending: int, scratch: int, ring: int, own_pid: int) -> bytes:
    """Return the program for sys_exit; see enter_program()."""
    program = BpfCode()
    program.move(_CONTEXT, _R1)
    program.call(_PID_TGID)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, pending)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_CALL, _R0)
    program.load(_MASK, _CALL, 0)
    _fill_head(program, scratch, own_pid)
    for index in range(MOST_ARGUMENTS):
        program.load(_R1, _CALL, 16 + 8 * index)
        program.store(_SCRATCH, _SLOTS + 8 * index, _R1)
    program.set(_R1, 1)
    program.store(_SCRATCH, _SLOTS + 8 * ONE, _R1)
    program.load(_R1, _CONTEXT, _RESULT)
    program.store(_SCRATCH, _SLOTS + 8 * RESULT, _R1)
    program.jump_if_negative(_R1, "failed call")
    program.move(_R1, _MASK)
    program.emit(0x77, _R1, immediate=RETURN_SHIFT)  # >>=
    program.emit(0x4F, _MASK, _R1)  # |=
    program.label("failed call")
    program.load(_R1, _CALL, 8)
    program.store_half(_SCRATCH, 16, _R1)
    program.store_half(_STACK, _WORD, _R1)
    program.load_map(_R1, pending)
    program.move(_R2, _STACK)
    program.add_number(_R2, _KEY)
    program.call(_DELETE)
    program.load_map(_R1, wanted)
    program.move(_R2, _STACK)
    program.add_number(_R2, _WORD)
    program.call(_LOOKUP)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_CALL, _R0)
    for index in range(MOST_ARGUMENTS):
        _copy(program, index, ring, at_return=True)
    _end(program)
    return program.bytes()


def fork_program(traced: int, child: int) -> bytes:
    """Return the program for sched:sched_process_fork: the child of a traced process is traced, before it runs.

    Args:
        traced: descriptor of the hash map of traced processes.
        child: offset of the child's pid in the raw data.
    """
    program = BpfCode()
    program.move(_CONTEXT, _R1)
    _look_up_process(program, traced)
    program.load_half(_R1, _CONTEXT, child)
    program.store_half(_STACK, _KEY, _R1)
    program.set(_R1, 1)
    program.store_half(_STACK, _WORD, _R1)
    program.load_map(_R1, traced)
    program.move(_R2, _STACK)
    program.add_number(_R2, _KEY)
    program.move(_R3, _STACK)
    program.add_number(_R3, _WORD)
    program.set(_R4, 0)
    program.call(_UPDATE)
    _end(program)
    return program.bytes()


def _look_up_process(program: BpfCode, traced: int) -> None:
    """Go to the end if this process is not traced."""
    program.call(_PID_TGID)
    program.emit(0x77, _R0, immediate=32)  # >>=
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, traced)
    program.jump_if_equal(_R0, 0, "end")


def _look_up(program: BpfCode, table: int) -> None:
    program.load_map(_R1, table)
    program.move(_R2, _STACK)
    program.add_number(_R2, _KEY)
    program.call(_LOOKUP)


def _fill_head(program: BpfCode, scratch: int, own_pid: int) -> None:
    """Find the scratch memory; write time and ids there, and the thread to the key on the stack."""
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, scratch)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_SCRATCH, _R0)
    program.call(_PID_TGID)
    program.store(_SCRATCH, 8, _R0)
    program.store_half(_STACK, _KEY, _R0)
    program.emit(0x77, _R0, immediate=32)  # >>=
    program.jump_if_equal(_R0, own_pid, "end")
    program.call(_NOW)
    program.store(_SCRATCH, 0, _R0)


def _copy(program: BpfCode, index: int, ring: int, *, at_return: bool) -> None:
    """Copy what an argument points to, if the mask has the argument; note what is unreadable at the entry."""
    after, failed, text, output = (f"{name} {index}" for name in ("after", "failed", "text", "output"))
    program.move(_R1, _MASK)
    program.emit(0x57, _R1, immediate=1 << index)  # &=
    program.jump_if_equal(_R1, 0, after)
    program.load(_R3, _SCRATCH, _SLOTS + 8 * index)
    program.jump_if_equal(_R3, 0, after)
    program.set(_R1, index | (at_return << 16))
    program.store_half(_SCRATCH, 20, _R1)
    program.load(_R2, _CALL, 8 + 8 * index)
    program.jump_if_equal(_R2, 0, text)
    _compute_size(program, index, failed)
    program.jump_if_equal(_SIZE, 0, after)
    _follow_pointer(program, index, after, failed)
    program.move(_R1, _SCRATCH)
    program.add_number(_R1, HEAD.size)
    program.move(_R2, _SIZE)
    program.load(_R3, _SCRATCH, _SLOTS + 8 * index)
    program.call(_READ)
    program.jump_if_other(_R0, 0, failed)
    program.jump(output)
    program.label(text)
    _read_text(program, failed)
    program.label(output)
    program.move(_R3, _SIZE)
    program.add_number(_R3, HEAD.size)
    program.load_map(_R1, ring)
    program.move(_R2, _SCRATCH)
    program.set(_R4, 1)  # BPF_RB_NO_WAKEUP
    program.call(_OUTPUT)
    program.jump(after)
    program.label(failed)
    if not at_return:
        program.load(_R1, _STACK, _PENDING)
        program.emit(0x47, _R1, immediate=1 << index)  # |=
        program.store(_STACK, _PENDING, _R1)
    program.label(after)


def _follow_pointer(program: BpfCode, index: int, after: str, failed: str) -> None:
    """Write the address of the structure to the slot of the argument, if that points to the address."""
    direct = f"direct {index}"
    program.load(_R1, _CALL, 8 + 8 * index)
    program.emit(0x57, _R1, immediate=_POINTER_BIT)  # &=
    program.jump_if_equal(_R1, 0, direct)
    program.move(_R1, _STACK)
    program.add_number(_R1, _COUNT)
    program.set(_R2, 8)
    program.load(_R3, _SCRATCH, _SLOTS + 8 * index)
    program.call(_READ)
    program.jump_if_other(_R0, 0, failed)
    program.load(_R3, _STACK, _COUNT)
    program.jump_if_equal(_R3, 0, after)
    program.store(_SCRATCH, _SLOTS + 8 * index, _R3)
    program.label(direct)


def _read_text(program: BpfCode, failed: str) -> None:
    """Copy the string at the address in register 3 to the scratch memory, and set the register of the size."""
    program.move(_R1, _SCRATCH)
    program.add_number(_R1, HEAD.size)
    program.set(_R2, LONGEST_TEXT)
    program.call(_READ_TEXT)
    program.jump_if_equal(_R0, 0, failed)
    program.jump_if_above(_R0, LONGEST_TEXT, failed)  # also negative error numbers
    program.move(_SIZE, _R0)


def _compute_size(program: BpfCode, index: int, failed: str) -> None:
    """Set the register of the size to the bytes of a structure or an array, up to the limit; register 2: the word of the argument."""
    sized, counted, few, fits = (f"{name} {index}" for name in ("sized", "counted", "few", "fits"))
    program.move(_R4, _R2)
    program.emit(0x77, _R4, immediate=_COUNT_SHIFT)  # >>=
    program.emit(0x57, _R4, immediate=7)  # &=
    program.emit(0x67, _R4, immediate=3)  # <<=
    program.add(_R4, _SCRATCH)
    program.load(_R4, _R4, _SLOTS)
    program.move(_R5, _R2)
    program.emit(0x57, _R5, immediate=_ADDRESS_BIT)  # &=
    program.jump_if_equal(_R5, 0, sized)
    program.store(_STACK, _WORD, _R2)
    program.set(_R1, 0)
    program.store(_STACK, _COUNT, _R1)
    program.move(_R1, _STACK)
    program.add_number(_R1, _COUNT)
    program.set(_R2, 4)
    program.move(_R3, _R4)
    program.call(_READ)
    program.jump_if_other(_R0, 0, failed)
    program.load_half(_R4, _STACK, _COUNT)
    program.load(_R2, _STACK, _WORD)
    program.label(sized)
    program.move(_R5, _R2)
    program.emit(0x57, _R5, immediate=_BITS_BIT)  # &=
    program.jump_if_equal(_R5, 0, counted)
    program.add_number(_R4, 63)
    program.emit(0x77, _R4, immediate=6)  # >>=
    program.label(counted)
    program.move(_SIZE, _R4)
    program.jump_if_below_number(_SIZE, _MOST_ELEMENTS, few)
    program.set(_SIZE, _MOST_ELEMENTS)
    program.label(few)
    program.emit(0x57, _R2, immediate=0xFFFF)  # &=
    program.emit(0x2F, _SIZE, _R2)  # *=
    program.jump_if_below_number(_SIZE, LARGEST_STRUCTURE, fits)
    program.set(_SIZE, LARGEST_STRUCTURE)
    program.label(fits)


def _end(program: BpfCode) -> None:
    program.label("end")
    program.set(_R0, 1)  # the sample is written
    program.end()
