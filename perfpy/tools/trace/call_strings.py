"""The strings and structures of system calls' arguments: load the BPF programs, and read what they copy."""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import rows_where
from perfpy.abi.flags import PerfType
from perfpy.abi.system_calls import ONE, RESULT, arguments_of, names_by_number, structures_of
from perfpy.errors import KernelRefusedError
from perfpy.kernel import bpf as bpf_loading
from perfpy.kernel.bpf import BpfCode, record_bounds
from perfpy.tools.trace.argument_text import structure_text
from perfpy.tools.trace.calls import ENTER, GroupedValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfpy.abi.columns import Index
    from perfpy.abi.system_calls import PointedStructure
    from perfpy.capture.counter import Counter
    from perfpy.tools.trace.calls import CallEvents


_KEY: Final = struct.Struct("=I")
_CALLS: Final = 1024  # numbers of calls
_PENDING: Final = 16384  # threads
_PROCESSES: Final = 1 << 16  # beyond it, the processes whose last call is oldest are dropped
_RING_SIZE: Final = 1 << 24
_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC


class TracedProcesses(NamedTuple):
    """The processes whose calls are traced, so that the strings of others are not copied.

    Attributes:
        pids: processes.
        fork_tracepoint: id of sched:sched_process_fork; their children are traced, too. None: their children are not.
        child_offset: of the child's pid in its raw data.
    """

    pids: tuple[int, ...]
    fork_tracepoint: int | None
    child_offset: int = 0


class CallStrings:
    """The programs and their maps. Raises OSError or KernelRefusedError if the kernel does not permit them.

    The kernel removes the programs with the descriptors of this process, also if it is killed.

    Args:
        tracepoints: ids of raw_syscalls:sys_enter and sys_exit.
        machine: as uname(2) has it.
        open_counter: opens a counter of this process.
        processes: whose calls are traced; None for all.
        numbers: of the calls whose strings are read; None for all.
    """

    def __init__(
        self,
        tracepoints: tuple[int, int],
        machine: str,
        open_counter: Callable[[EventAttr], Counter],
        processes: TracedProcesses | None = None,
        numbers: frozenset[int] | None = None,
    ) -> None:
        with contextlib.ExitStack() as opened:
            wanted = _create_map(opened, bpf_loading.ARRAY, WANTED.size, _CALLS)
            pending = _create_map(opened, bpf_loading.LRU_HASH, PENDING_SIZE, _PENDING)
            scratch = _create_map(opened, bpf_loading.ARRAY, SCRATCH_SIZE, os.cpu_count() or 1)
            ring = bpf_loading.create_map(bpf_loading.RINGBUF, 0, 0, _RING_SIZE)
            opened.callback(os.close, ring)
            for number, words in wanted_calls(machine, numbers).items():
                bpf_loading.update(wanted, _KEY.pack(number), WANTED.pack(*words))
            traced = _traced_map(opened, processes) if processes is not None else None
            maps = wanted, pending, scratch, ring
            codes = {
                tracepoints[0]: enter_program(*maps, os.getpid(), traced),
                tracepoints[1]: exit_program(*maps, os.getpid()),
            }
            if processes is not None and traced is not None and processes.fork_tracepoint is not None:
                codes[processes.fork_tracepoint] = fork_program(traced, processes.child_offset)
            for tracepoint, code in codes.items():
                _attach(opened, tracepoint, code, open_counter)
            self._ring = bpf_loading.BpfRing(ring, _RING_SIZE)
            opened.callback(self._ring.close)
            self._opened = opened.pop_all()
        self._texts = WaitingTexts(machine)

    def close(self) -> None:
        """Detach the programs."""
        self._opened.close()

    def take(self) -> bytes:
        """Take what the programs copied out of the ring, in any thread."""
        return self._ring.take()

    def add(self, data: bytes) -> None:
        """Add what take() returned."""
        self._texts.add(data)

    def texts_of(self, events: CallEvents) -> dict[int, dict[int, str]]:
        """Return row of an entry -> index of the argument -> its string; later strings wait for later batches."""
        return self._texts.of(events)


def _create_map(opened: contextlib.ExitStack, kind: int, value_size: int, entries: int) -> int:
    """Create a map with numbers as keys, which the stack closes."""
    descriptor = bpf_loading.create_map(kind, _KEY.size, value_size, entries)
    opened.callback(os.close, descriptor)
    return descriptor


def _traced_map(opened: contextlib.ExitStack, processes: TracedProcesses) -> int:
    """Create the map of the traced processes."""
    traced = _create_map(opened, bpf_loading.LRU_HASH, _KEY.size, _PROCESSES)
    for pid in processes.pids:
        bpf_loading.update(traced, _KEY.pack(pid), _KEY.pack(1))
    return traced


def _attach(opened: contextlib.ExitStack, tracepoint: int, code: bytes, open_counter: Callable[[EventAttr], Counter]) -> None:
    """Load a program, and let a tracepoint run it as long as a counter is open, which the stack closes."""
    program = bpf_loading.load_program(bpf_loading.TRACEPOINT, code)
    try:
        counter = open_counter(EventAttr(type=PerfType.TRACEPOINT, config=tracepoint, disabled=1))
        opened.callback(counter.close)
        counter.set_bpf(program)
    finally:
        os.close(program)


def wanted_calls(machine: str, numbers: frozenset[int] | None = None) -> dict[int, list[int]]:
    """Return number of a call -> the words of WANTED. numbers: of the calls that count; None for all."""
    wanted = {}
    for number, name in names_by_number(machine).items():
        if numbers is not None and number not in numbers:
            continue
        words = [0] * (1 + MOST_ARGUMENTS)
        words[0] = sum(1 << index for index, argument in enumerate(arguments_of(name) or ()) if argument.kind == "text")
        for pointed in structures_of(name, machine):
            moments = pointed.at_entry | pointed.at_return << RETURN_SHIFT
            words[0] |= moments << pointed.argument
            words[1 + pointed.argument] = element_word(pointed)
        if words[0] and number < _CALLS:
            wanted[number] = words
    return wanted


def open_strings(
    tracepoints: tuple[int, int],
    machine: str,
    open_counter: Callable[[EventAttr], Counter],
    processes: TracedProcesses | None = None,
    numbers: frozenset[int] | None = None,
) -> CallStrings | str:
    """Return the strings' source, or the reason why there is none; see CallStrings."""
    try:
        if os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NAMESPACE:
            return "in a container, BPF programs see the pids of the host"
        return CallStrings(tracepoints, machine, open_counter, processes, numbers)
    except KernelRefusedError as error:
        return str(error)
    except OSError as error:
        return f"BPF programs are refused ({error.strerror}); run as root"


_NO_ROW: Final = -1
_MOST_BYTES: Final = 1 << 26  # of waiting texts: four times the ring buffer


class CopiedTexts(NamedTuple):
    """Strings and structures, in the order of the ring buffer.

    Attributes:
        data: the bytes of the ring buffer.
        start, end: int64[n], of the bytes of each text.
        time: uint64[n], CLOCK_MONOTONIC, ns.
        tid: int32[n].
        number: int32[n], of the call.
        argument: uint16[n], its index.
        at_return: uint16[n], whether it was read when the call returned.
    """

    data: bytes
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    time: NDArray[np.uint64]
    tid: NDArray[np.int32]
    number: NDArray[np.int32]
    argument: NDArray[np.uint16]
    at_return: NDArray[np.uint16]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the texts of the records of a ring buffer (perfpy.kernel.bpf.BpfRing.take)."""
        bounds = np.array(record_bounds(data), np.int64).reshape(-1, 2)
        bounds = bounds[bounds[:, 1] >= HEAD.size]
        start, size = bounds[:, 0], bounds[:, 1]
        halves, words, longs = (np.frombuffer(data, dtype) for dtype in (np.uint16, np.int32, np.uint64))
        columns = words[(start >> 2) + 2], words[(start >> 2) + 4], halves[(start >> 1) + 10], halves[(start >> 1) + 11]
        return cls(data, start + HEAD.size, start + size, longs[start >> 3], *columns)

    @property
    def size(self) -> int:
        """The number of texts."""
        return len(self.time)

    def take(self, rows: Index) -> Self:
        """Select texts."""
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[1:]})

    def pieces(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield number of the call, index of the argument, and bytes of each text."""
        data = self.data
        columns = (column.tolist() for column in (self.start, self.end, self.number, self.argument))
        for start, end, number, argument in zip(*columns, strict=True):
            yield number, argument, data[start:end]


class ThreadEntries:
    """The entries of a batch by thread and time."""

    def __init__(self, events: CallEvents) -> None:
        entries = rows_where(events.kind == ENTER)
        self._grouped = GroupedValues(events.tid[entries].astype(np.int64), events.time[entries])
        self._rows = entries[self._grouped.order]
        self._numbers = events.number[self._rows]

    def rows_of(self, texts: CopiedTexts) -> NDArray[np.int64]:
        """Return the row of the entry of each text; -1 for none.

        The program for entries runs just before the entry's sample, so a text belongs to the next entry of its call, and one that was
        read at the return to the last entry before it.
        """
        tids, times = texts.tid.astype(np.int64), texts.time.astype(np.int64)
        after, until = (self._grouped.find(tids, times, side) for side in ("left", "right"))
        position = np.where(texts.at_return != 0, until.position - 1, after.position)
        rows = np.full(texts.size, _NO_ROW, np.int64)
        inside = rows_where((position >= after.begin) & (position < after.end))
        inside = inside[self._numbers[position[inside]] == texts.number[inside]]
        rows[inside] = self._rows[position[inside]]
        return rows


class WaitingTexts:
    """Texts whose calls have not been seen; bounded, because tasks that are not traced make them without end.

    Most texts of a busy machine are never printed, so they become text when their calls are.

    Args:
        machine: as uname(2) has it.
    """

    def __init__(self, machine: str) -> None:
        self._structures = structure_texts(machine)
        self._waiting: list[CopiedTexts] = []

    def add(self, data: bytes) -> None:
        """Add the records of a ring buffer, and drop the oldest if they are too many."""
        if data:
            self._waiting.append(CopiedTexts.decode(data))
        size = sum(len(texts.data) for texts in self._waiting)
        while size > _MOST_BYTES and len(self._waiting) > 1:
            size -= len(self._waiting.pop(0).data)

    def of(self, events: CallEvents) -> dict[int, dict[int, str]]:
        """Return row of an entry -> index of the argument -> its text; texts after the last event wait for the next ones."""
        found: dict[int, dict[int, str]] = {}
        if not self._waiting or not events.size:
            return found
        last, entries = events.time[-1].astype(np.uint64), ThreadEntries(events)
        waiting, self._waiting = self._waiting, []
        for texts in waiting:
            is_ready = texts.time <= last
            if not is_ready.all():
                self._waiting.append(texts.take(~is_ready))
            ready = texts.take(is_ready)
            self._add_texts(ready, entries.rows_of(ready), found)
        return found

    def _add_texts(self, texts: CopiedTexts, rows: NDArray[np.int64], found: dict[int, dict[int, str]]) -> None:
        """Make the texts of calls."""
        chosen = rows_where(rows != _NO_ROW)
        structures = self._structures
        for row, (number, argument, data) in zip(rows[chosen].tolist(), texts.take(chosen).pieces(), strict=True):
            text = structures.get((number, argument), _string)(data)
            if row in found:
                found[row][argument] = text
            else:
                found[row] = {argument: text}


def _string(data: bytes) -> str:
    """Return a string that ends with a NUL."""
    return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def structure_texts(machine: str) -> dict[tuple[int, int], Callable[[bytes], str]]:
    """Return (number of a call, index of an argument) -> the function from the bytes of its structure to text."""
    return {
        (number, pointed.argument): structure_text(pointed.structure, machine)
        for number, name in names_by_number(machine).items()
        for pointed in structures_of(name, machine)
    }


# The BPF programs that copy what arguments of system calls point to: names of files, other strings, and structures.
# One runs when a thread enters a call. The kernel cannot wait for a page there, so a string may be unreadable; then the other one reads it
# when the call returns, because the kernel has read the page by then. It also reads the structures that the call writes, if the call
# succeeded. Both change nothing in the thread.
#
# The raw data of the tracepoints begin with 8 common bytes: raw_syscalls:sys_enter { s64 id; u64 args[6]; }, sys_exit { s64 id; s64 ret; }.
# Layout of a record: HEAD, then the string with its final NUL, or the structure.
# Layout of a pending call: { u64 mask; u64 id; u64 args[6]; }.
# Layout of a wanted call: WANTED. A mask has the arguments to copy at the entry, or unreadable then, in its bits 0 to 5, and those to copy
# at the return in its bits 8 to 13. The scratch memory of a CPU has a record, and SLOTS with the numbers that can be counts.
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
_PROGRAM_KEY, _PENDING_SIZE, _WORD, _COUNT = -8, -72, -80, -88  # offsets on the stack
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
    program.store_half(_STACK, _PROGRAM_KEY, _R2)
    _call_on_key(program, wanted, _LOOKUP)
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
    program.load(_R1, _STACK, _PENDING_SIZE)
    program.jump_if_equal(_R1, 0, "end")
    _update(program, pending, _PENDING_SIZE)
    return _ended(program)


def _note_call(program: BpfCode) -> None:
    """Write the call to the slots, and to the pending call on the stack with the arguments to copy at the return."""
    program.load(_R1, _CONTEXT, _ID)
    program.store_half(_SCRATCH, 16, _R1)
    program.store(_STACK, _PENDING_SIZE + 8, _R1)
    for index in range(MOST_ARGUMENTS):
        program.load(_R3, _CONTEXT, _ARGUMENTS + 8 * index)
        program.store(_STACK, _PENDING_SIZE + 16 + 8 * index, _R3)
        program.store(_SCRATCH, _SLOTS + 8 * index, _R3)
    program.set(_R1, 0)
    program.store(_SCRATCH, _SLOTS + 8 * RESULT, _R1)
    program.set(_R1, 1)
    program.store(_SCRATCH, _SLOTS + 8 * ONE, _R1)
    program.move(_R1, _MASK)
    program.emit(0x57, _R1, immediate=0x3F << RETURN_SHIFT)  # &=
    program.store(_STACK, _PENDING_SIZE, _R1)


def exit_program(wanted: int, pending: int, scratch: int, ring: int, own_pid: int) -> bytes:
    """Return the program for sys_exit; see enter_program()."""
    program = BpfCode()
    program.move(_CONTEXT, _R1)
    program.call(_PID_TGID)
    program.store_half(_STACK, _PROGRAM_KEY, _R0)
    _call_on_key(program, pending, _LOOKUP)
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
    _call_on_key(program, pending, _DELETE)
    _call_on_key(program, wanted, _LOOKUP, key=_WORD)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_CALL, _R0)
    for index in range(MOST_ARGUMENTS):
        _copy(program, index, ring, at_return=True)
    return _ended(program)


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
    program.store_half(_STACK, _PROGRAM_KEY, _R1)
    program.set(_R1, 1)
    program.store_half(_STACK, _WORD, _R1)
    _update(program, traced, _WORD)
    return _ended(program)


def _look_up_process(program: BpfCode, traced: int) -> None:
    """Go to the end if this process is not traced."""
    program.call(_PID_TGID)
    program.emit(0x77, _R0, immediate=32)  # >>=
    program.store_half(_STACK, _PROGRAM_KEY, _R0)
    _call_on_key(program, traced, _LOOKUP)
    program.jump_if_equal(_R0, 0, "end")


def _call_on_key(program: BpfCode, table: int, function: int, *, key: int = _PROGRAM_KEY) -> None:
    """Call a function on a map with a key on the stack."""
    program.load_map(_R1, table)
    program.move(_R2, _STACK)
    program.add_number(_R2, key)
    program.call(function)


def _update(program: BpfCode, table: int, value: int) -> None:
    """Set the value of the key; both are on the stack."""
    program.move(_R3, _STACK)
    program.add_number(_R3, value)
    program.set(_R4, 0)
    _call_on_key(program, table, _UPDATE)


def _fill_head(program: BpfCode, scratch: int, own_pid: int) -> None:
    """Find the scratch memory; write time and ids there, and the thread to the key on the stack."""
    program.call(_CPU)
    program.store_half(_STACK, _PROGRAM_KEY, _R0)
    _call_on_key(program, scratch, _LOOKUP)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_SCRATCH, _R0)
    program.call(_PID_TGID)
    program.store(_SCRATCH, 8, _R0)
    program.store_half(_STACK, _PROGRAM_KEY, _R0)
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
        program.load(_R1, _STACK, _PENDING_SIZE)
        program.emit(0x47, _R1, immediate=1 << index)  # |=
        program.store(_STACK, _PENDING_SIZE, _R1)
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


def _ended(program: BpfCode) -> bytes:
    program.label("end")
    program.set(_R0, 1)  # the sample is written
    program.end()
    return program.bytes()
