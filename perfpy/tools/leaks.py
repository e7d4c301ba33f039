"""`perfpy leaks -p PID`: show which lines of a Python program allocate memory that it keeps."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.abi.attr import EventAttr
from perfpy.capture.counter import Counter
from perfpy.capture.python_frames.kernel_frames import (
    FRAME,
    HEAD,
    HEAD_OFFSETS,
    RECORD,
    SCRATCH_SIZE,
    THREAD,
    UNKNOWN_THREAD,
    copy_frames,
    copy_head,
    decode,
    entry_of,
    find_thread,
)
from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, Value, fail, option
from perfpy.errors import KernelRefusedError, PerfError
from perfpy.interpreters.objects import UnreadableMemoryError
from perfpy.kernel import bpf as bpf_loading
from perfpy.kernel.bpf import BpfCode
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.sysfs import Sysfs
from perfpy.symbols import dso
from perfpy.untrusted.pinned_files import PinnedFile
from perfpy.untrusted.process_files import open_identified
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.capture.python_frames.current_stacks import CurrentFrame
    from perfpy.interpreters.process import PythonProcess
    from perfpy.symbols.files import elf


_MOST_PID: Final = 1 << 31
_LONGEST: Final = 86_400.0  # seconds
_MOST_ROWS: Final = 10
_MOST_CALLERS: Final = 3
_YOUNG: Final = 10  # the last tenth of the time
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_OUTSIDE: Final = "[threads without Python functions]"


class LeaksCommandOptions(CommandOptions):
    """Options of `perfpy leaks`."""

    pid: str = option("-p,--pid", Value(default=""), "watch this process", metavar="<pid>")
    duration: float = option("-d,--duration", Value(float, default=10.0), "seconds to watch (default: 10)", metavar="<seconds>")
    small_objects: bool = option("--small-objects", Flag(), "include objects of up to 512 bytes; slows the program down")
    json: bool = option("--json", Flag(), "print one JSON object")


class _KeepingLine(NamedTuple):
    """The kept memory of one line. callers: of the stack that keeps most, innermost first."""

    frame: CurrentFrame | None
    bytes: int
    objects: int
    early_bytes: int
    callers: tuple[CurrentFrame, ...]


def run(options: LeaksCommandOptions) -> None:
    """Show the Python lines that allocate memory and do not free it before the end of the watch (Ctrl-C ends it early)."""
    if not options.pid.isdecimal() or not 0 < int(options.pid) < _MOST_PID:
        fail(f"-p {visible(options.pid)}: expected a process id" if options.pid else "no process given; use -p PID")
    if not 0 < options.duration <= _LONGEST:
        fail(f"-d {options.duration:g}: expected seconds, more than 0 and at most a day")

    growth = memory_growth(int(options.pid), options.duration, small_objects=options.small_objects)
    if options.json:
        import json  # rarely needed

        stacks = [{**one._asdict(), "frames": [frame._asdict() for frame in one.frames]} for one in growth.retained]
        print(json.dumps({"format": "perfpy-leaks", "version": 1, **growth._asdict(), "retained": stacks}))
        return
    from perfpy.cli.output.terminal import wrap_lines

    for line in wrap_lines(_text(growth)):
        print(line)


def _text(growth: MemoryGrowth) -> Iterator[str]:
    kept = sum(one.bytes for one in growth.retained)
    yield f"Process {growth.pid}: {visible(growth.command)}  (Python {growth.python})"
    yield f"It allocated {_size(growth.allocated)} in {growth.seconds:.1f} s, and kept {_size(kept)}."
    if kept:
        yield ""
        yield f"{'Kept':>10}  {'Share':>6}  {'First half':>10}  {'Objects':>9}  Function and line"
        for line in _lines(growth)[:_MOST_ROWS]:
            share = f"{100 * line.bytes / kept:.1f}%"
            yield f"{_size(line.bytes):>10}  {share:>6}  {_size(line.early_bytes):>10}  {line.objects:>9,}  {_named(line.frame)}"
            if line.callers:
                yield f"{'':44}called from {', '.join(map(_named, line.callers))}"
    notes = list(_notes(growth))
    if notes:
        yield ""
        yield from notes


def _notes(growth: MemoryGrowth) -> Iterator[str]:
    if growth.young:
        yield f"{_size(growth.young)} of the last {growth.seconds / _YOUNG:.1f} s are not counted: they may be freed soon."
    if growth.arenas or _has_grown_beyond(growth):
        reason = (
            f"CPython reserved {_size(growth.arenas)} for new objects of up to 512 bytes."
            if growth.arenas
            else f"The program's memory grew by {_size(growth.grown)}, so it may keep objects of up to 512 bytes, too."
        )
        yield f"{reason} --small-objects shows the lines that keep them; it makes the program much slower while it watches."
    if growth.unnamed:
        yield f"{_size(growth.unnamed)} of {_OUTSIDE} is memory of further stacks: the program has too many distinct ones to name."
    if growth.lost:
        yield f"{growth.lost:,} further allocations were not followed: there were too many at a time. Watch for a shorter time."


def _has_grown_beyond(growth: MemoryGrowth) -> bool:
    """Return whether the memory of the process grew by much more than the allocations that it kept, which are estimates."""
    others = growth.grown - growth.young - sum(one.bytes for one in growth.retained)
    return not growth.lost and others > max(_LEAST_GROWTH, growth.grown // 3)


def _lines(growth: MemoryGrowth) -> list[_KeepingLine]:
    """Return the lines, the one that keeps most first."""
    lines: dict[CurrentFrame | None, _KeepingLine] = {}
    for one in growth.retained:  # the largest stack of a line comes first
        frame, callers = (one.frames[0], one.frames[1 : 1 + _MOST_CALLERS]) if one.frames else (None, ())
        before = lines.get(frame, _KeepingLine(frame, 0, 0, 0, callers))
        numbers = (before.bytes + one.bytes, before.objects + one.objects, before.early_bytes + one.early_bytes)
        lines[frame] = _KeepingLine(frame, *numbers, before.callers)
    return sorted(lines.values(), key=lambda line: -line.bytes)


def _named(frame: CurrentFrame | None) -> str:
    return _OUTSIDE if frame is None else f"{visible(frame.function)} ({visible(frame.file)}:{frame.line or '?'})"


def _size(size: int) -> str:
    return next((f"{size / unit:.2f} {name}" for unit, name in _UNITS if size >= unit), f"{size} B")


command = PerfCommand(LeaksCommandOptions, run)


_MOST_ALLOCATIONS: Final = 1 << 16  # in the map
_MOST_THREADS: Final = 1 << 13
_MOST_PENDING: Final = 1 << 13
_MOST_STACKS: Final = 1 << 14  # distinct ones, whose functions are known
_LONGEST_PREPARATION: Final = 60.0  # seconds for everything but the watch
_PAUSE: Final = 0.02  # seconds between two looks for new threads
_BETWEEN_READINGS: Final = 1.0  # seconds between two readings of the map: code objects may be freed
_WORD: Final = struct.Struct("=Q")
_TID: Final = struct.Struct("=I")
_STATE: Final = struct.Struct("=qqQ")
_SMALL_ARENA, _LARGE_ARENA = 256 << 10, 1 << 20  # bytes that CPython maps at once for small objects: up to 3.9, and later
_LEAST_GROWTH: Final = 128 << 10  # bytes: a new arena may be some seconds away, but its pages are used one after the other
_YOUNG_SHARE: Final = 0.1  # share of the time: allocations that live shorter may be about to be freed


class KeptMemory(NamedTuple):
    """Allocations of one stack that were not freed.

    Attributes:
        frames: innermost first; empty if the thread had no Python frames.
        bytes, objects: of the allocations; estimates where they are small.
        early_bytes: those of the first half of the time.
    """

    frames: tuple[CurrentFrame, ...]
    bytes: int
    objects: int
    early_bytes: int


class MemoryGrowth(NamedTuple):
    """The memory that a process allocated and kept.

    Attributes:
        seconds: for which it was watched.
        allocated: bytes that it allocated.
        young: bytes of allocations that are too young to count as kept.
        arenas: bytes that CPython mapped for objects of up to 512 bytes; which of them remain, only their allocator tells.
        grown: bytes by which its memory grew, of files excepted; 0 if it shrank, or its small objects are followed.
        lost: allocations for which the map had no room.
        unnamed: kept bytes of stacks beyond the limit, whose functions are unknown; they are in `retained` without frames.
        retained: by stack, the largest first.
    """

    pid: int
    command: str
    python: str
    seconds: float
    allocated: int
    young: int
    arenas: int
    grown: int
    lost: int
    unnamed: int
    retained: list[KeptMemory]


def memory_growth(pid: int, seconds: float, *, small_objects: bool = False) -> MemoryGrowth:
    """Watch a process from a child process, because a page of a hostile program can block its reader for ever. Raises PerfError.

    Ctrl-C ends the watch early.

    Args:
        pid: the process.
        seconds: how long.
        small_objects: also probe CPython's allocator of small objects.
    """
    from perfpy.capture.python_frames.current_stacks import CurrentFrame, in_child

    parent = os.getpid()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the child's
    try:
        answer = in_child(lambda: _answer(pid, seconds, parent, small_objects=small_objects), seconds + _LONGEST_PREPARATION)
    finally:
        signal.signal(signal.SIGINT, before)
    if answer is None:
        raise PerfError(f"process {pid}: its memory could not be read in time")
    if "error" in answer:
        raise PerfError(str(answer["error"]))
    retained = [KeptMemory(tuple(CurrentFrame(*frame) for frame in frames), *numbers) for frames, *numbers in answer["retained"]]
    return MemoryGrowth(**{**answer, "retained": retained})


def _answer(pid: int, seconds: float, parent: int, *, small_objects: bool) -> dict[str, Any]:
    """Return the fields of MemoryGrowth, or the error."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _watch_growth(pid, seconds, parent, small_objects=small_objects)._asdict()
    except PerfError as error:
        return {"error": str(error)}


def _watch_growth(pid: int, seconds: float, parent: int, *, small_objects: bool) -> MemoryGrowth:
    """Watch a process in this one, until the time is over, SIGINT arrives, or the parent process is gone. Raises PerfError."""
    from perfpy.capture.python_frames.current_stacks import open_python

    procfs = ProcFs()
    memory, python = open_python(procfs, pid)
    with contextlib.ExitStack() as opened:
        opened.callback(memory.close)
        try:
            maps = _open_maps(opened)
            interval = SHORT_INTERVAL if small_objects else INTERVAL
            watched = _WatchedProgram(procfs, pid, python, maps)
            watched.look_for_threads()
            with probes(find_allocators(procfs, pid, small_objects=small_objects), pid, maps, interval):
                began, before = time.monotonic_ns(), procfs.anonymous_memory(pid)
                with contextlib.suppress(KeyboardInterrupt):
                    _watch(watched, began + int(seconds * 1e9), parent)
                grown = 0 if small_objects else max(procfs.anonymous_memory(pid) - before, 0)
                watched.read()
                ended = time.monotonic_ns()
        except OSError as error:
            raise PerfError(f"process {pid}: probes on its memory are not possible ({error.strerror}); they need root") from None
        except KernelRefusedError as error:
            raise PerfError(f"process {pid}: probes on its memory are not possible: {error}") from None
        return watched.growth(began, ended, interval)._replace(grown=grown)


def _open_maps(opened: contextlib.ExitStack) -> AllocationMaps:
    def create(kind: int, key: int, value: int, entries: int, flags: int = 0) -> int:
        descriptor = bpf_loading.create_map(kind, key, value, entries, flags)
        opened.callback(os.close, descriptor)
        return descriptor

    cpus = os.cpu_count() or 1
    return AllocationMaps(
        create(bpf_loading.HASH, _WORD.size, VALUE_SIZE, _MOST_ALLOCATIONS, bpf_loading.NO_PREALLOC),
        create(bpf_loading.LRU_HASH, _TID.size, PENDING_SIZE, _MOST_PENDING),
        create(bpf_loading.ARRAY, _TID.size, STATE_SIZE, cpus),
        create(bpf_loading.LRU_HASH, _TID.size, THREAD.size, _MOST_THREADS),
        create(bpf_loading.ARRAY, _TID.size, SCRATCH_SIZE, cpus),
    )


def _watch(watched: _WatchedProgram, end: int, parent: int) -> None:
    """Follow the program's threads until the time is over, or the process that waits for the answer is gone."""
    next_reading = time.monotonic() + _BETWEEN_READINGS
    while (remaining := (end - time.monotonic_ns()) / 1e9) > 0:
        time.sleep(min(remaining, _PAUSE))
        if os.getppid() != parent:
            return
        watched.look_for_threads()
        if not watched.is_alive:
            raise PerfError(f"process {watched.pid} has ended: its memory is free")
        if time.monotonic() > next_reading:
            watched.read()
            next_reading = time.monotonic() + _BETWEEN_READINGS


class _WatchedProgram:
    """The process: its threads, and the last reading of the map."""

    def __init__(self, procfs: ProcFs, pid: int, python: PythonProcess, maps: AllocationMaps) -> None:
        self.pid = pid
        self.is_alive = True
        self._procfs = procfs
        self._python = python
        self._maps = maps
        self._known: set[int] = set()
        self._stacks: dict[bytes, tuple[CurrentFrame, ...]] = {}
        self._allocations: list[tuple[int, int, bytes]] = []  # time, size, frames
        self._allocated = self._lost = 0
        self._command = procfs.command_line(pid)

    def look_for_threads(self) -> None:
        """Let the programs know the threads' states."""
        tids = self._procfs.threads(self.pid)
        self.is_alive = bool(tids)
        for tid in self._known.difference(tids):
            self._known.discard(tid)
            with contextlib.suppress(OSError):
                bpf_loading.delete(self._maps.threads, _TID.pack(tid))
        for tid in tids:
            if tid not in self._known:
                self._look_at_thread(tid)

    def _look_at_thread(self, tid: int) -> None:
        from perfpy.capture.python_frames.current_stacks import stack_pointer

        python = self._python
        inner = dso.innermost_tid(self.pid, tid) or tid
        pointer = stack_pointer(self._procfs, self.pid, tid) if python.needs_stack_pointer and tid != self.pid else 0
        if python.needs_stack_pointer and tid != self.pid and not pointer:
            return
        try:
            entry = entry_of(python, inner) if python.frames(inner, pointer, is_main=tid == self.pid) else None
            if entry is not None:
                bpf_loading.update(self._maps.threads, _TID.pack(tid), entry.pack())
                self._known.add(tid)
        except (UnreadableMemoryError, OSError):
            return

    def read(self) -> None:
        """Read the allocations that are there now, and the functions of new stacks."""
        self._allocations = []
        states = [_STATE.unpack(bpf_loading.lookup(self._maps.state, _TID.pack(cpu), STATE_SIZE)) for cpu in range(os.cpu_count() or 1)]
        self._allocated, self._lost = max(sum(state[1] for state in states), 0), sum(state[2] for state in states)
        for _, value in bpf_loading.entries(self._maps.live, _WORD.size, VALUE_SIZE, _MOST_ALLOCATIONS):
            moment, _, _, count, size = HEAD.unpack_from(value)[:5]
            words = value[HEAD.size : HEAD.size + FRAME.size * max(count, 0)]
            stack = _code_and_instructions(words)
            if stack not in self._stacks and len(self._stacks) < _MOST_STACKS:
                self._stacks[stack] = self._frames(value[: HEAD.size] + words)
            self._allocations.append((moment, size, stack))

    def _frames(self, record: bytes) -> tuple[CurrentFrame, ...]:
        from perfpy.capture.python_frames.current_stacks import current_frame

        copied = decode(record)[2]
        frames = self._python.frames_of_words(copied.frames(), is_whole=copied.is_whole).frames
        return tuple(current_frame(frame, self._python.layout.version) for frame in frames)

    def growth(self, began: int, ended: int, interval: int) -> MemoryGrowth:
        """Return the kept memory, from the last reading. interval: bytes that a chosen small allocation stands for."""
        young_from, middle = ended - int(_YOUNG_SHARE * (ended - began)), (began + ended) // 2
        young = arenas = unnamed = 0
        version = self._python.layout.version
        arena = _LARGE_ARENA if version >= (3, 10) else _SMALL_ARENA
        totals: dict[tuple[CurrentFrame, ...], list[int]] = {}
        for moment, size, stack in self._allocations:
            weight = max(size, interval)
            if size == arena:
                arenas += size
                continue
            if moment > young_from:
                young += weight
                continue
            frames = self._stacks.get(stack)
            unnamed += weight if frames is None else 0
            total = totals.setdefault(frames or (), [0, 0, 0])
            total[0] += weight
            total[1] += max(1, interval // size)
            total[2] += weight if moment < middle else 0
        retained = [KeptMemory(frames, *total) for frames, total in totals.items()]
        retained.sort(key=lambda one: -one.bytes)
        seconds = (ended - began) / 1e9
        return MemoryGrowth(
            self.pid, self._command, "{}.{}".format(*version), seconds, self._allocated, young, arenas, 0, self._lost, unnamed, retained
        )


def _code_and_instructions(words: bytes) -> bytes:
    """Return the words of frames that decide their functions and lines: the same ones for equal stacks at other addresses."""
    return b"".join(frame[8:24] for frame in (words[start : start + FRAME.size] for start in range(0, len(words), FRAME.size)))


INTERVAL: Final = 1 << 14  #: bytes of small allocations for each chosen one; a power of two
SHORT_INTERVAL: Final = 1 << 10  #: the same with CPython's small objects
MOST_FRAMES: Final = 24  #: of an allocation, innermost first
VALUE_SIZE: Final = HEAD.size + MOST_FRAMES * FRAME.size
STATE_SIZE: Final = 24  #: bytes of a CPU's state: { s64 bytes until the next choice, allocated bytes; u64 lost allocations }
PENDING_SIZE: Final = 16  #: { u64 size, address of the result }

_LOOKUP, _UPDATE, _DELETE, _RANDOM, _CPU, _PID_TGID, _READ_USER = 1, 2, 3, 7, 8, 14, 112  # enum bpf_func_id
_R0, _R1, _R2, _R3, _R4, _R6, _R7, _R8, _STACK = 0, 1, 2, 3, 4, 6, 7, 8, 10
_REGISTERS: Final = {"rdi": 112, "rsi": 104, "rdx": 96, "rcx": 88}  # in struct pt_regs of x86-64: the arguments
_RESULT: Final = 80  # rax
_KEY, _RESULT_AT, _SIZE, _ADDRESS, _SIZE_KEPT, _WORD_SIZE = -8, -24, -32, -40, -48, -56  # on the program's stack
_ANONYMOUS: Final = 0x20  # MAP_ANONYMOUS
_NO_ADDRESS: Final = 4095  # errors of mmap are above -4096


class Allocator(NamedTuple):
    """A function that allocates memory.

    Attributes:
        sizes: the registers whose product is the size.
        freed: the register with memory that it frees first; "" if it frees none.
        result_by_pointer: it stores the address at its first argument, and returns something else.
        is_mapping: it maps memory; its arguments are those of mmap(2).
        largest: bytes; it leaves more to another allocator. 0: no limit.
    """

    name: str
    sizes: tuple[str, ...]
    freed: str = ""
    result_by_pointer: bool = False
    is_mapping: bool = False
    largest: int = 0


class AllocationMaps(NamedTuple):
    """The descriptors of the maps.

    At its entry, an allocation is chosen or not. At its return, its address and the Python frames of its thread enter a map. Freeing
    removes the address. Layout of a map's value: HEAD and the frames, as in frame_program, with the size in place of the GIL's holder.

    Attributes:
        live: address -> allocation.
        pending: tid -> a chosen allocation between entry and return.
        state: CPU -> see STATE_SIZE.
        threads, scratch: see frame_program.
    """

    live: int
    pending: int
    state: int
    threads: int
    scratch: int


def entry_program(maps: AllocationMaps, allocator: Allocator, interval: int) -> bytes:
    """Return the program at the entry of a function that allocates. interval: see INTERVAL."""
    program = BpfCode()
    program.move(_R6, _R1)
    if allocator.is_mapping:
        _skip_other_mappings(program, maps)
    if allocator.freed:
        _free(program, maps.live, allocator.freed)
    program.load(_R7, _R6, _REGISTERS[allocator.sizes[0]])
    for factor in allocator.sizes[1:]:
        program.load(_R1, _R6, _REGISTERS[factor])
        program.multiply(_R7, _R1)
    program.jump_if_equal(_R7, 0, "end")
    if allocator.largest:
        program.jump_if_above(_R7, allocator.largest, "end")
    _choose(program, maps.state, interval)
    _put_thread(program)
    program.store(_STACK, _SIZE, _R7)
    if allocator.result_by_pointer:
        program.load(_R1, _R6, _REGISTERS["rdi"])
    else:
        program.set(_R1, 0)
    program.store(_STACK, _RESULT_AT, _R1)
    _update(program, maps.pending, _KEY, _SIZE)
    return _ended(program)


def _skip_other_mappings(program: BpfCode, maps: AllocationMaps) -> None:
    """End for mappings of files, for reserved address space, and for mappings that another allocating function makes."""
    program.load(_R1, _R6, _REGISTERS["rcx"])
    program.mask(_R1, _ANONYMOUS)
    program.jump_if_equal(_R1, 0, "end")
    program.load(_R1, _R6, _REGISTERS["rdx"])
    program.emit(0x67, _R1, immediate=32)  # PROT_* is an int
    program.jump_if_equal(_R1, 0, "end")
    _put_thread(program)
    _look_up(program, maps.pending, _KEY)
    program.jump_if_other(_R0, 0, "end")


def _choose(program: BpfCode, state: int, interval: int) -> None:
    """Count the bytes in r7, and end unless the allocation is chosen."""
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, state, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_R8, _R0)
    program.load(_R1, _R8, 8)
    program.add(_R1, _R7)
    program.store(_R8, 8, _R1)
    program.jump_if_at_least(_R7, interval, "chosen")
    program.load(_R1, _R8, 0)
    program.subtract(_R1, _R7)
    program.store(_R8, 0, _R1)
    program.jump_if_positive(_R1, "end")
    program.call(_RANDOM)  # from half an interval to one and a half: no rhythm of the program hits the same allocation always
    program.mask(_R0, interval - 1)
    program.load(_R1, _R8, 0)
    program.add(_R1, _R0)
    program.add_number(_R1, interval // 2)
    program.store(_R8, 0, _R1)
    program.label("chosen")


def return_program(maps: AllocationMaps, interval: int) -> bytes:
    """Return the program at the return of a function that allocates. interval: see INTERVAL."""
    program = BpfCode()
    program.move(_R6, _R1)
    _put_thread(program)
    _look_up(program, maps.pending, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R7, _R0, 0)
    program.store(_STACK, _SIZE_KEPT, _R7)
    program.load(_R8, _R0, 8)
    _on_key(program, maps.pending, _KEY, _DELETE)
    _find_address(program)
    program.move(_R1, _R6)
    find_thread(program, maps.threads, maps.scratch, is_sample=True)
    copy_head(program)
    copy_frames(program, MOST_FRAMES)
    program.jump("put")
    program.label("unknown")
    program.set(_R1, UNKNOWN_THREAD)
    program.store(RECORD, HEAD_OFFSETS["count"], _R1)
    program.label("put")
    _put(program, maps)
    program.jump("end")
    program.label("failed")
    _take_back(program, maps.state, interval)
    return _ended(program)


def _find_address(program: BpfCode) -> None:
    """Put the allocation's address on the stack: the result, or the word at the address in r8. Jump to "failed" if there is none."""
    program.load(_R1, _R6, _RESULT)
    program.jump_if_equal(_R8, 0, "has address")
    program.jump_if_other(_R1, 0, "failed")  # the result is an error
    program.set(_R1, 0)
    program.store(_STACK, _WORD_SIZE, _R1)
    program.move(_R1, _STACK)
    program.add_number(_R1, _WORD_SIZE)
    program.set(_R2, 8)
    program.move(_R3, _R8)
    program.call(_READ_USER)
    program.load(_R1, _STACK, _WORD_SIZE)
    program.label("has address")
    program.store(_STACK, _ADDRESS, _R1)
    program.add_number(_R1, _NO_ADDRESS)  # NULL and the errors of mmap become at most this
    program.jump_if_below_number(_R1, _NO_ADDRESS + 1, "failed")


def _take_back(program: BpfCode, state: int, interval: int) -> None:
    """Subtract a failed allocation from the allocated bytes: what its entry added, for a small one the whole interval."""
    program.jump_if_at_least(_R7, interval, "large")
    program.set(_R7, interval)
    program.label("large")
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, state, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R1, _R0, 8)
    program.subtract(_R1, _R7)
    program.store(_R0, 8, _R1)


def _put(program: BpfCode, maps: AllocationMaps) -> None:
    """Put the allocation into the map of live ones, or count it as lost."""
    program.load(_R1, _STACK, _SIZE_KEPT)
    program.store(RECORD, HEAD_OFFSETS["holder"], _R1)
    program.load_map(_R1, maps.live)
    program.move(_R2, _STACK)
    program.add_number(_R2, _ADDRESS)
    program.move(_R3, RECORD)
    program.set(_R4, 0)
    program.call(_UPDATE)
    program.jump_if_equal(_R0, 0, "end")
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, maps.state, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R1, _R0, 16)
    program.add_number(_R1, 1)
    program.store(_R0, 16, _R1)


def free_program(maps: AllocationMaps, register: str) -> bytes:
    """Return the program at the entry of a function that frees the memory in a register."""
    program = BpfCode()
    program.move(_R6, _R1)
    _free(program, maps.live, register)
    return _ended(program)


def _free(program: BpfCode, live: int, register: str) -> None:
    """Remove the allocation at the address in an argument."""
    program.load(_R1, _R6, _REGISTERS[register])
    program.store(_STACK, _ADDRESS, _R1)
    _on_key(program, live, _ADDRESS, _DELETE)


def _put_thread(program: BpfCode) -> None:
    program.call(_PID_TGID)
    program.store_half(_STACK, _KEY, _R0)


def _look_up(program: BpfCode, descriptor: int, key: int) -> None:
    _on_key(program, descriptor, key, _LOOKUP)


def _update(program: BpfCode, descriptor: int, key: int, value: int) -> None:
    """Set the value of a key; both are on the stack."""
    program.move(_R3, _STACK)
    program.add_number(_R3, value)
    program.set(_R4, 0)
    _on_key(program, descriptor, key, _UPDATE)


def _on_key(program: BpfCode, descriptor: int, key: int, function: int) -> None:
    program.load_map(_R1, descriptor)
    program.move(_R2, _STACK)
    program.add_number(_R2, key)
    program.call(function)


def _ended(program: BpfCode) -> bytes:
    program.label("end")
    program.set(_R0, 0)  # no sample
    program.end()
    return program.bytes()


_OF_C: Final = (
    Allocator("malloc", ("rdi",)),
    Allocator("calloc", ("rdi", "rsi")),
    Allocator("realloc", ("rsi",), freed="rdi"),
    Allocator("aligned_alloc", ("rsi",)),
    Allocator("memalign", ("rsi",)),
    Allocator("posix_memalign", ("rdx",), result_by_pointer=True),
)
_MAPPING: Final = Allocator("mmap", ("rsi",), is_mapping=True)
LARGEST_SMALL: Final = 512  #: bytes of the objects for which CPython has its own allocator
_OF_PYTHON: Final = (
    Allocator("_PyObject_Malloc", ("rsi",), largest=LARGEST_SMALL),
    Allocator("_PyObject_Calloc", ("rsi", "rdx"), largest=LARGEST_SMALL),
    Allocator("_PyObject_Realloc", ("rdx",), freed="rsi", largest=LARGEST_SMALL),
)
_FREEING: Final = {"free": "rdi", "munmap": "rdi", "_PyObject_Free": "rsi"}  # the register with the memory
_MOST_FILES: Final = 4
_RETURN: Final = 1  # the uprobe PMU's term retprobe


class AllocatorFile(NamedTuple):
    """A file with allocating functions: the open file, the functions, and the offsets of all in it."""

    pinned: PinnedFile
    allocators: tuple[Allocator, ...]
    offsets: dict[str, int]


def find_allocators(procfs: ProcFs, pid: int, *, small_objects: bool) -> list[AllocatorFile]:
    """Return the loaded files that define malloc, and CPython's allocator of small objects. Raises PerfError if they are not to be found.

    Args:
        procfs: the proc file system.
        pid: the process.
        small_objects: whether CPython's allocator is included. The memory that it maps for its objects is left out then.
    """
    from perfpy.capture.python_frames.locating import loaded_files
    from perfpy.symbols.files import elf

    allocators = [*_OF_C, *([] if small_objects else [_MAPPING])]
    files: list[AllocatorFile] = []
    has_python = False
    for mapping in loaded_files(procfs.maps(pid, data=True)):
        try:
            opened = open_identified(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
            if opened is None:
                continue
            pinned = PinnedFile(*opened)
            file = elf.ElfFile(pinned.path, fd=pinned.duplicate())
        except (elf.BadElfError, OSError):
            continue
        allocator_file = _functions(pinned, file, ".dynsym", elf.SHT_DYNSYM, allocators)
        if {"malloc", "free"} <= allocator_file.offsets.keys() and len(files) < _MOST_FILES:
            files.append(allocator_file)
        of_python = _functions(pinned, file, ".symtab", elf.SHT_SYMTAB, _OF_PYTHON) if small_objects and not has_python else None
        if of_python and {one.name for one in _OF_PYTHON} | {"_PyObject_Free"} <= of_python.offsets.keys():
            files.append(of_python)
            has_python = True
    if not files:
        raise PerfError(f"process {pid}: no loaded file defines malloc")
    if small_objects and not has_python:
        raise PerfError(
            f"process {pid}: its interpreter has no symbols of its allocator; "
            "start the program with PYTHONMALLOC=malloc in its environment, and drop --small-objects"
        )
    return files


def _functions(pinned: PinnedFile, file: elf.ElfFile, table: str, kind: int, allocators: Sequence[Allocator]) -> AllocatorFile:
    """Return the allocating functions that a file defines, and the freeing ones, one for each address."""
    import numpy as np

    section = file.section(table, kind)
    if file.bits != 64 or section is None:
        return AllocatorFile(pinned, (), {})
    symbols, strings = file.symbols(section), bytes(file.strings(section))
    function_names = (*(one.name for one in allocators), *_FREEING)
    names = {start: name for name in function_names for start in _starts(strings, name.encode() + b"\0")}
    is_named = np.isin(symbols["name"], np.array(list(names), np.int64))
    offsets: dict[str, int] = {}
    for symbol in symbols[is_named & (symbols["value"] != 0) & (symbols["shndx"] != 0)]:
        offset = _file_offset(file, int(symbol["value"]))
        if offset and offset not in offsets.values():
            offsets[names[int(symbol["name"])]] = offset
    return AllocatorFile(pinned, tuple(one for one in allocators if one.name in offsets), offsets)


def _starts(strings: bytes, text: bytes) -> Iterator[int]:
    """Yield where a text is in a table of strings: names may be the ends of longer ones."""
    start = strings.find(text)
    while start >= 0:
        yield start
        start = strings.find(text, start + 1)


def _file_offset(file: elf.ElfFile, address: int) -> int:
    for segment in file.segments:
        position = address - int(segment["vaddr"])
        if 0 <= position < int(segment["filesz"]):
            return int(segment["offset"]) + position
    return 0


@contextlib.contextmanager
def probes(files: list[AllocatorFile], pid: int, maps: AllocationMaps, interval: int) -> Iterator[None]:
    """Run the programs at the functions of a process, and of its threads. Raises OSError and KernelRefusedError.

    Args:
        files: with the functions.
        pid: the process.
        maps: of the programs.
        interval: bytes of small allocations for each chosen one.
    """
    pmu = Sysfs().pmu("uprobe")
    kind = pmu.type if pmu else None
    if kind is None:
        raise PerfError("this kernel has no probes in programs (uprobes)")
    with contextlib.ExitStack() as opened:
        for file in files:  # freeing first: no allocation in the map can be freed without a probe
            for name, register in _FREEING.items():
                if name in file.offsets:
                    opened.enter_context(_probe(kind, file, name, 0, pid, free_program(maps, register)))
        for config in (_RETURN, 0):
            for file in files:
                for allocator in file.allocators:
                    program = return_program(maps, interval) if config else entry_program(maps, allocator, interval)
                    opened.enter_context(_probe(kind, file, allocator.name, config, pid, program))
        yield


@contextlib.contextmanager
def _probe(kind: int, file: AllocatorFile, name: str, config: int, pid: int, instructions: bytes) -> Iterator[None]:
    # The kernel opens the path again. Nothing shows it, so it may be that of the descriptor, which no other user can exchange.
    path = ctypes.create_string_buffer(b"/proc/self/fd/%d" % file.pinned.fd)
    attr = EventAttr(type=kind, config=config, config1=ctypes.addressof(path), config2=file.offsets[name])
    with Counter(attr, pid, event=f"uprobe on {name}") as counter:
        program = bpf_loading.load_program(bpf_loading.KPROBE, instructions)
        try:
            counter.set_bpf(program)
            yield
        finally:
            os.close(program)
