"""The BPF programs that copy strings in the arguments of system calls: names of files and the like.

One runs when a thread enters a call. The kernel cannot wait for a page there, so a string may be unreadable; then the other one reads it
when the call returns, because the kernel has read the page by then. Both change nothing in the thread.

The raw data of the tracepoints begin with 8 common bytes: raw_syscalls:sys_enter { s64 id; u64 args[6]; }, sys_exit { s64 id; s64 ret; }.
Layout of a record: HEAD, then the string with its final NUL. Layout of a pending call: { u64 mask; u64 id; u64 args[6]; }.
"""

from __future__ import annotations

import struct
from typing import Final

from perfpy.kernel.bpf_code import BpfCode

HEAD: Final = struct.Struct(
    "=QIIiHH"
)  #: time (CLOCK_MONOTONIC, ns), tid, pid, number of the call, index of the argument, whether at return
LONGEST_TEXT: Final = 4096  #: PATH_MAX
SCRATCH_SIZE: Final = 8192
PENDING_SIZE: Final = 64
MOST_ARGUMENTS: Final = 6

_LOOKUP, _UPDATE, _DELETE, _NOW, _CPU, _PID_TGID, _READ_TEXT, _OUTPUT = 1, 2, 3, 5, 8, 14, 114, 130  # enum bpf_func_id
_R0, _R1, _R2, _R3, _R4, _R5, _CONTEXT, _MASK, _SCRATCH, _CALL, _STACK = range(11)
_ID, _ARGUMENTS = 8, 16  # offsets in the raw data
_KEY, _PENDING = -8, -72  # offsets on the stack


def enter_program(wanted: int, pending: int, scratch: int, ring: int, own_pid: int) -> bytes:
    """Return the program for sys_enter.

    Args:
        wanted: descriptor of the array from numbers of calls to masks of arguments.
        pending: descriptor of the hash map from threads to calls whose strings were unreadable.
        scratch: descriptor of the array with SCRATCH_SIZE bytes for each CPU.
        ring: descriptor of the ring buffer.
        own_pid: the process whose calls are skipped.
    """
    program = BpfCode()
    program.move(_CONTEXT, _R1)
    program.load(_R2, _CONTEXT, _ID)
    program.store_half(_STACK, _KEY, _R2)
    _look_up(program, wanted)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_MASK, _R0, 0)
    program.jump_if_equal(_MASK, 0, "end")
    _fill_head(program, scratch, own_pid)
    program.load(_R1, _CONTEXT, _ID)
    program.store_half(_SCRATCH, 16, _R1)
    program.set(_R1, 0)
    program.store(_STACK, _PENDING, _R1)
    for index in range(MOST_ARGUMENTS):
        program.load(_R3, _CONTEXT, _ARGUMENTS + 8 * index)
        program.store(_STACK, _PENDING + 16 + 8 * index, _R3)
        _copy_text(program, index, ring, at_return=False)
    program.load(_R1, _STACK, _PENDING)
    program.jump_if_equal(_R1, 0, "end")
    program.load(_R1, _CONTEXT, _ID)
    program.store(_STACK, _PENDING + 8, _R1)
    program.load_map(_R1, pending)
    program.move(_R2, _STACK)
    program.add_number(_R2, _KEY)
    program.move(_R3, _STACK)
    program.add_number(_R3, _PENDING)
    program.set(_R4, 0)
    program.call(_UPDATE)
    _end(program)
    return program.bytes()


def exit_program(pending: int, scratch: int, ring: int, own_pid: int) -> bytes:
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
    program.load(_R1, _CALL, 8)
    program.store_half(_SCRATCH, 16, _R1)
    for index in range(MOST_ARGUMENTS):
        program.load(_R3, _CALL, 16 + 8 * index)
        _copy_text(program, index, ring, at_return=True)
    program.load_map(_R1, pending)
    program.move(_R2, _STACK)
    program.add_number(_R2, _KEY)
    program.call(_DELETE)
    _end(program)
    return program.bytes()


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


def _copy_text(program: BpfCode, index: int, ring: int, *, at_return: bool) -> None:
    """Copy the string at the address in register 3 to the ring, if the mask has the argument; note an unreadable one."""
    after, failed = f"after {index}", f"failed {index}"
    program.move(_R1, _MASK)
    program.emit(0x57, _R1, immediate=1 << index)  # &=
    program.jump_if_equal(_R1, 0, after)
    program.jump_if_equal(_R3, 0, after)
    program.set(_R1, index | (at_return << 16))
    program.store_half(_SCRATCH, 20, _R1)
    program.move(_R1, _SCRATCH)
    program.add_number(_R1, HEAD.size)
    program.set(_R2, LONGEST_TEXT)
    program.call(_READ_TEXT)
    program.jump_if_equal(_R0, 0, failed)
    program.jump_if_above(_R0, LONGEST_TEXT, failed)  # also negative error numbers
    program.move(_R3, _R0)
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


def _end(program: BpfCode) -> None:
    program.label("end")
    program.set(_R0, 1)  # the sample is written
    program.end()
