"""The threads that sleep as a recording of waits begins, as records that the kernel would have written when they left their CPU.

A thread that waits for longer than the recording causes no event in it. What the kernel says of such a thread in /proc and the copy of its
stack become the same two records as of a switch: a sample of its stack, and a SWITCH record. Whatever becomes of switches then makes its
wait, from the beginning of the recording on. The threads are not stopped: one that ran during the reading is left out, because it causes
events of its own.

Only the stack pointer and the program counter of a sleeping thread can be read (proc_pid_syscall(5)), and the arguments of its system
call. The other registers are zero; the unwinder finds those that a function has saved.

Layouts: SAMPLE and SWITCH in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_KERNEL, MISC_SWITCH_OUT, RecordType, SampleType
from perfpy.abi.perfpy_encodings import DEAD, STATE_BITS
from perfpy.abi.sample_layout import REGISTERS
from perfpy.capture.process_memory import ProcessMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.off_cpu_events import RawField
    from perfpy.kernel.procfs import ProcFs


_MOST_STACKS: Final = 64 << 20  # bytes of all threads together
_HEADER: Final = struct.Struct("=IHH")
_TRAILER: Final = struct.Struct("=IIQIIQ")
_WORD: Final = struct.Struct("=Q")
_MOST: Final = 0xFFF8  # bytes of a record
_ROOM: Final = 4096  # of it for everything but the stack
_KERNEL_FRAME: Final = re.compile(rb"\] ([^\s+]+)\+0x([0-9a-f]+)/")
_CPU: Final = 36  # among the fields of stat after the comm
_BITS: Final = {letter: bit for bit, letter in STATE_BITS if ord(letter) not in DEAD}
#: registers that /proc/PID/syscall tells: of the number of the call, of its six arguments, of the stack, of the code
_KNOWN_REGISTERS: Final = {
    "x86_64": ("AX", "DI", "SI", "DX", "R10", "R8", "R9", "SP", "IP"),
    "aarch64": ("x8", "x0", "x1", "x2", "x3", "x4", "x5", "sp", "pc"),
}
_FRAME_POINTER: Final = "BP"
_SEARCHED: Final = 4096  # bytes of a stack in which the frame of the caller of the C library's function is looked for
_MOST_TRIES: Final = 64  # return addresses whose code is read
_FEW_TRIES: Final = 16  # of those whose caller has no frame, which are many
_PAGE: Final = 4096
_LARGEST_FUNCTION: Final = 1 << 16
_LONGEST_PROLOGUE: Final = 32  # bytes of code that are looked at
_CALL_SIZE: Final = 6  # bytes of the longer call; the last four are the distance from the code after it to the function, or its address
_DIRECT: Final = 0xE8
_BY_ADDRESS: Final = b"\xff\x15"  # call *distance(%rip), as rustc, and C compilers with -fno-plt, call functions of other libraries
_ENDBR: Final = b"\xf3\x0f\x1e\xfa"
_PUSH_RBP: Final = b"\x55"
_MOV_RSP_RBP: Final = b"\x48\x89\xe5"
_PROLOGUE: Final = _PUSH_RBP + _MOV_RSP_RBP
_BY_REGISTER: Final = (b"\xff\xd3", *(bytes((0x41, 0xFF, 0xD4 + number)) for number in range(4)))  # call *%rbx, *%r12 to *%r15
_SAVED: Final = 8  # words of saved registers
_END_OF_PROGRAM: Final = 1 << 47  # addresses of programs are below
_ABI_32: Final = 1
_ABI_64: Final = 2
_END_OF_32_BITS: Final = 1 << 32


class Sleeper(NamedTuple):
    """A thread that sleeps.

    Attributes:
        letter: of its state (proc_pid_stat(5)).
        cpu: where it ran last.
        words: what /proc/PID/syscall has: the call, its arguments, the stack pointer and the program counter; empty if not readable.
        kernel_frames: names and offsets of its kernel functions, innermost first; empty if not readable.
        stack: the memory from its stack pointer on.
        frame_pointer: the register of that name; 0: unknown.
    """

    pid: int
    tid: int
    letter: str
    cpu: int
    words: tuple[int, ...]
    kernel_frames: tuple[tuple[str, int], ...]
    stack: bytes
    frame_pointer: int = 0


def sleepers(tids: Collection[int], procfs: ProcFs, stack_size: int) -> Iterator[Sleeper]:
    """Yield those of the threads that sleep, with the first bytes of their stacks: fewer if there are many threads."""
    stack_size = min(stack_size, _MOST_STACKS // max(len(tids), 1))
    memories: dict[int, ProcessMemory | None] = {}
    try:
        for tid in tids:
            sleeper = _sleeper(tid, procfs, stack_size, memories)
            if sleeper is not None:
                yield sleeper
    finally:
        for memory in memories.values():
            if memory is not None:
                memory.close()


def _sleeper(tid: int, procfs: ProcFs, stack_size: int, memories: dict[int, ProcessMemory | None]) -> Sleeper | None:
    status = procfs.status(tid)
    if status is None:
        return None
    folder = f"{status.tgid}/task/{tid}"
    switches = procfs.read(f"{folder}/schedstat")
    fields = procfs.read(f"{folder}/stat").rpartition(b")")[2].split()
    letter = fields[0].decode("ascii", "replace") if len(fields) > _CPU else ""
    if letter not in _BITS:
        return None
    words = procfs.read(f"{folder}/syscall").split()
    values = tuple(int(word, 0) for word in words) if len(words) > 2 else ()
    frames = tuple(
        (name.decode("utf-8", "replace"), int(offset, 16)) for name, offset in _KERNEL_FRAME.findall(procfs.read(f"{folder}/stack"))
    )
    stack, frame_pointer = b"", 0
    if len(values) > 2 and stack_size:
        if status.tgid not in memories:
            try:
                memories[status.tgid] = ProcessMemory(status.tgid)
            except OSError:  # of another user
                memories[status.tgid] = None
        memory = memories[status.tgid]
        stack = memory.some(values[-2], stack_size) if memory else b""
        frame_pointer = find_frame_pointer(values[-2], values[-1], stack, memory.some) if memory else 0
    if procfs.read(f"{folder}/schedstat") != switches or procfs.read(f"{folder}/stat").rpartition(b")")[2].split()[:1] != fields[:1]:
        return None  # it ran meanwhile
    return Sleeper(status.tgid, tid, letter, int(fields[_CPU]), values, frames, stack[: len(stack) & ~7], frame_pointer)


def find_frame_pointer(stack_pointer: int, program_counter: int, stack: bytes, read: Callable[[int, int], bytes], machine: str = "") -> int:
    """Return the frame pointer of a sleeping thread on x86-64; 0 if it is not certain.

    The C library's functions for system calls do not use the register, so it is that of their caller, a function that begins with
    `push %rbp; mov %rsp,%rbp`. Its frame has the caller's frame pointer and, above it, the address to return to. That is certain if the
    code before this address calls a function that begins so, and contains an address to return to further down in the stack. The caller
    may use the register for anything; of frames whose caller has none, fewer are tried.

    Args:
        stack_pointer, program_counter: of the thread.
        stack: the memory from its stack pointer on.
        read: reads memory by address, at most a number of bytes.
        machine: as in uname; "": this one.
    """
    if (machine or os.uname().machine) != "x86_64":
        return 0
    words = struct.unpack(f"={min(len(stack), _SEARCHED) // 8}Q", stack[: min(len(stack), _SEARCHED) // 8 * 8])
    end = stack_pointer + len(stack)
    pairs = [(number, *pair) for number, pair in enumerate(itertools.pairwise(words)) if not stack_pointer + 8 * number & 15]
    pairs = [pair for pair in pairs if pair[2] >= _PAGE and not stack_pointer <= pair[2] < end and pair[2] < _END_OF_PROGRAM]
    by_caller: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    for pair in pairs:
        by_caller[not stack_pointer + 8 * pair[0] < pair[1] < end].append(pair)
    for number, _, return_address in sorted([*by_caller[0][:_MOST_TRIES], *by_caller[1][:_FEW_TRIES]]):
        callers = (program_counter, *words[:number])
        for function in _called_functions(return_address, read, words[max(number - _SAVED, 0) : number]):
            inside = [caller for caller in callers if 0 < caller - function < _LARGEST_FUNCTION]
            code = read(function, min(inside) - function) if function > 0 and inside else b""
            if _sets_frame_pointer(code) and code.find(_PROLOGUE, 8) < 0:  # otherwise another one begins before: it is of an earlier call
                return stack_pointer + 8 * number
    return 0


def _called_functions(return_address: int, read: Callable[[int, int], bytes], saved: Sequence[int]) -> Sequence[int]:
    """Return the addresses of the functions that the call before an address may call; none if there is no call.

    saved: the words below the frame, among them the registers that the called function has saved: one of them may be that of the call.
    """
    call = read(return_address - _CALL_SIZE, _CALL_SIZE)
    if len(call) < _CALL_SIZE:
        return ()
    there = return_address + int.from_bytes(call[2:], sys.byteorder, signed=True)
    if call[1] == _DIRECT:
        return (there,)
    if call.startswith(_BY_ADDRESS):
        address = read(there, _WORD.size)
        return (int.from_bytes(address, sys.byteorder),) if len(address) == _WORD.size else ()
    return saved if call.endswith(_BY_REGISTER) else ()


def _sets_frame_pointer(code: bytes) -> bool:
    """Whether code begins as a function with a frame pointer: `push %rbp`, and soon `mov %rsp,%rbp`."""
    return code.removeprefix(_ENDBR)[:1] == _PUSH_RBP and _MOV_RSP_RBP in code[:_LONGEST_PROLOGUE]


class DepartureRecords:
    """Encodes records of threads that leave their CPU.

    Args:
        attr: of the samples of stacks; None if the recording has none.
        ident: the id of that event.
        switch_ident: the id of the event of SWITCH records; 0: write none.
        state: the field of the thread's state in the raw data; None without one.
        machine: as in uname.
        task: the field of the thread in the raw data; None to leave it zero.
    """

    def __init__(
        self, attr: EventAttr | None, ident: int, switch_ident: int, state: RawField | None, machine: str = "", task: RawField | None = None
    ) -> None:
        self._attr = attr
        self._ident = ident
        self._switch_ident = switch_ident
        self._state, self._task = state, task
        names = REGISTERS.get(machine or os.uname().machine, ())
        known = _KNOWN_REGISTERS.get(machine or os.uname().machine, ())
        self._bits = [names.index(name) for name in known]
        self._frame_pointer_bit = names.index(_FRAME_POINTER) if _FRAME_POINTER in names else -1

    @property
    def stack_size(self) -> int:
        """The bytes of a stack that a record has room for; 0 without registers of this machine."""
        return min(self._attr.sample_stack_user, _MOST - _ROOM) if self._attr and self._bits else 0

    def of(self, sleeping: Collection[Sleeper], time: int, procfs: ProcFs) -> bytes:
        """Return the records of threads as if they left their CPU at this time."""
        names = (
            {name for one in sleeping for name, _ in one.kernel_frames} if self._attr and not self._attr.exclude_callchain_kernel else ()
        )
        addresses = procfs.kernel_symbols(names) if names else {}
        parts = [self._sample(one, time, addresses) for one in sleeping] if self._attr else []
        switching = sleeping if self._switch_ident else ()
        return b"".join([*parts, *(self.switch(one.pid, one.tid, one.cpu, time, MISC_SWITCH_OUT) for one in switching)])

    def switch(self, pid: int, tid: int, cpu: int, time: int, misc: int) -> bytes:
        """Return a SWITCH record."""
        size = _HEADER.size + _TRAILER.size
        return _HEADER.pack(RecordType.SWITCH, misc, size) + _TRAILER.pack(pid, tid, time, cpu, 0, self._switch_ident)

    def _sample(self, thread: Sleeper, time: int, addresses: Mapping[str, int]) -> bytes:
        assert self._attr is not None
        attr, kind = self._attr, self._attr.sample_type
        chain = [addresses[name] + offset for name, offset in thread.kernel_frames if name in addresses]
        ip = chain[0] if chain else 0
        chain = [CONTEXT_KERNEL, *chain] if chain else []
        if thread.words and not attr.exclude_callchain_user and not kind & SampleType.STACK_USER:
            chain += [CONTEXT_USER, thread.words[-1]]
        body = struct.pack("=QQIIQII", self._ident, ip, thread.pid, thread.tid, time, thread.cpu, 0)
        body += _WORD.pack(1) if kind & SampleType.PERIOD else b""
        body += struct.pack(f"={len(chain) + 1}Q", len(chain), *chain)
        if kind & SampleType.RAW:
            body += self._raw(thread)
        if kind & SampleType.REGS_USER:
            body += self._registers(thread.words, attr.sample_regs_user, thread.frame_pointer)
        if kind & SampleType.STACK_USER:
            stack = thread.stack
            body += _WORD.pack(len(stack)) + (stack + _WORD.pack(len(stack)) if stack else b"")
        return _HEADER.pack(RecordType.SAMPLE, MISC_KERNEL, _HEADER.size + len(body)) + body

    def _raw(self, thread: Sleeper) -> bytes:
        """Return the raw data: the size, and a tracepoint's fields that are zero but for the state and the thread."""
        assert self._state is not None
        state, task = self._state, self._task or self._state
        fields = bytearray((max(state.offset + state.size, task.offset + task.size) + 4 + 7 & ~7) - 4)
        if self._task is not None:
            fields[task.offset : task.offset + task.size] = thread.tid.to_bytes(task.size, sys.byteorder)
        fields[state.offset : state.offset + state.size] = _BITS[thread.letter].to_bytes(state.size, sys.byteorder)
        return struct.pack("=I", len(fields)) + fields

    def _registers(self, words: tuple[int, ...], mask: int, frame_pointer: int) -> bytes:
        """Return the ABI and the registers of a mask."""
        if len(words) < 3 or not self._bits:
            return _WORD.pack(0)
        known = dict(zip(self._bits[-2:], words[-2:], strict=True))
        if frame_pointer and self._frame_pointer_bit >= 0:
            known[self._frame_pointer_bit] = frame_pointer
        if len(words) == len(self._bits):
            known |= {bit: value & (1 << 64) - 1 for bit, value in zip(self._bits, words, strict=True)}
        abi = _ABI_32 if max(words[-2:]) < _END_OF_32_BITS else _ABI_64
        values = [known.get(bit, 0) for bit in range(mask.bit_length()) if mask >> bit & 1]
        return struct.pack(f"={len(values) + 1}Q", abi, *values)
