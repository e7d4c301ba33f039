"""Python frames copied by the kernel at the moment of each sample: the maps of the BPF program, and the reader's side of its ring.

BPF needs CAP_BPF and CAP_PERFMON. Without them the reader reads frames as soon as it hears of a sample.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from bisect import bisect_left
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perfpy_encodings import GilState
from perfpy.interpreters.frames import MOST_FRAMES
from perfpy.interpreters.layouts import NONE
from perfpy.kernel import bpf as bpf_loading
from perfpy.kernel.bpf import BpfCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.capture.counter import Counter
    from perfpy.capture.record_options import RecordOptions
    from perfpy.interpreters.frames import PythonFrame, ThreadFrames
    from perfpy.interpreters.process import PythonProcess


_THREADS: Final = 16384
_LARGEST_RING: Final = 8 << 20  # bytes; the kernel takes 3 ms to allocate them, and as long to map them
_SMALLEST_RING: Final = 1 << 20
_USUAL_COPY: Final = 4096  # bytes of the frames of one sample: 128 frames are more than most programs have
_TID: Final = struct.Struct("=I")
_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC  # PROC_PID_INIT_INO
_MOST_KEPT: Final = 1 << 12  # frames of a thread that wait for their samples
_MOST_THREADS: Final = 1 << 12
_MOST_SAMPLES: Final = 1 << 14  # of all threads
_NEAREST: Final = 500_000  # ns between a sample and its copy
_LONGEST_WAIT: Final = 2_000_000_000  # ns, of frames for the record of their sample
_TIME_OF: Final = attrgetter("time")
_LARGEST_FRAME: Final = 127


class FrameMaps(NamedTuple):
    """The descriptors that the recorder and the reader share, and the bytes of the ring."""

    threads: int
    scratch: int
    ring: int
    ring_size: int

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """The descriptors, without the size."""
        return self.threads, self.scratch, self.ring


class FrameCopier:
    """The program for samples of events, and its maps. Raises OSError if the kernel does not permit them.

    Args:
        ring_size: bytes for copied frames, a power of two.
    """

    def __init__(self, ring_size: int = _LARGEST_RING) -> None:
        with contextlib.ExitStack() as opened:

            def keep(descriptor: int) -> int:
                opened.callback(os.close, descriptor)
                return descriptor

            threads = keep(bpf_loading.create_map(bpf_loading.LRU_HASH, _TID.size, THREAD.size, _THREADS))
            scratch = keep(bpf_loading.create_map(bpf_loading.ARRAY, _TID.size, SCRATCH_SIZE, os.cpu_count() or 1))
            ring = keep(bpf_loading.create_map(bpf_loading.RINGBUF, 0, 0, ring_size))
            self.maps = FrameMaps(threads, scratch, ring, ring_size)
            self._program = keep(bpf_loading.load_program(bpf_loading.PERF_EVENT, self._program_of(is_sample=True)))
            self._opened = opened.pop_all()

    def _program_of(self, *, is_sample: bool) -> bytes:
        return frame_program(*self.maps.descriptors, is_sample=is_sample, may_goto=bpf_loading.has_may_goto())

    def attach(self, counters: Iterable[Counter], open_counter: Callable[[EventAttr], Counter]) -> Iterator[Counter]:
        """Run the program for all samples of the counters. Raises OSError or KernelRefusedError.

        The program of a tracepoint runs for all its counters. It has a counter of its own, because the kernel detaches it as soon as one
        inherited copy of its counter ends, with the first thread or process.

        Args:
            counters: the recording's counters.
            open_counter: opens a counter of this process.

        Yields:
            The programs' own counters; a program runs until its counter is closed.
        """
        tracepoints: set[int] = set()
        for counter in counters:
            if counter.attr.type != PerfType.TRACEPOINT:
                counter.set_bpf(self._program)
            elif counter.attr.config not in tracepoints:
                tracepoints.add(counter.attr.config)
                program = bpf_loading.load_program(bpf_loading.TRACEPOINT, self._program_of(is_sample=False))
                try:
                    own = open_counter(EventAttr(type=PerfType.TRACEPOINT, config=counter.attr.config, disabled=1))
                    yield own
                    own.set_bpf(program)
                finally:
                    os.close(program)

    def close(self) -> None:
        """Close the descriptors; counters keep the program and its maps."""
        self._opened.close()


def open_copier(options: RecordOptions, events: int) -> FrameCopier | None:
    """Return a copier; None without permission, in another pid namespace than the kernel's, and for samples with another clock.

    events: the number of sampled events, 0 for the default one.
    """
    try:
        is_usable = options.sampling.clockid == time.CLOCK_MONOTONIC and os.stat("/proc/self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE
        return FrameCopier(ring_size(options, max(events, 1) * (os.cpu_count() or 1))) if is_usable else None
    except OSError:
        return None


def ring_size(options: RecordOptions, counters: int) -> int:
    """Return the bytes of the ring: for the frames of a second if the rate of samples is known. counters: of events on CPUs."""
    rate = options.sampling.freq
    if rate is None or rate <= 0 or options.off_cpu.enabled:
        return _LARGEST_RING
    return min(max(1 << (rate * counters * _USUAL_COPY - 1).bit_length(), _SMALLEST_RING), _LARGEST_RING)


class CopiedFrames(NamedTuple):
    """The frames of one sample.

    Attributes:
        time: CLOCK_MONOTONIC, ns.
        native_id: the thread's number in its own pid namespace; 0 before Python 3.11.
        holder: the state of the GIL's last holder; 0 for builds without a GIL.
        holder_code: the code that the holder ran; 0 if it is unknown.
        is_locked: whether some thread holds the GIL.
        stack_pointer: the user's, or the kernel's if the kernel was sampled.
        words: the frames, FRAME each; None for a thread that was not in the map.
        is_whole: whether the outermost frame is among them.
    """

    time: int
    native_id: int
    holder: int
    holder_code: int
    is_locked: bool
    stack_pointer: int
    words: bytes | None
    is_whole: bool

    def frames(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield address, code, instruction and owner's word of each frame, innermost first."""
        yield from FRAME.iter_unpack(self.words or b"")


def decode(record: bytes) -> tuple[int, int, CopiedFrames]:
    """Return pid, tid and frames of a record."""
    moment, tid, pid, count, holder, is_locked, native_id, pointer, following, code = HEAD.unpack_from(record)
    words = None if count == UNKNOWN_THREAD else record[HEAD.size :]
    return pid, tid, CopiedFrames(moment, native_id, holder, code, is_locked & 0xFFFFFFFF == 1, pointer, words, not following)


class SampleInTime(NamedTuple):
    """The frames of a sample whose record has not arrived.

    Attributes:
        time: of the sample, as the program saw it: CLOCK_MONOTONIC, ns.
        frames: of its thread.
        lag: nanoseconds from the sample to the reading; 0 for frames that the kernel copied.
        is_exact: whether the kernel copied them.
        gil, turn_began: see FoundChain.
        awaiting: the frames that await the running task, the nearest first.
    """

    time: int
    frames: ThreadFrames
    lag: int
    is_exact: bool
    gil: tuple[int, int, int] = (GilState.UNKNOWN, 0, -1)
    turn_began: int = 0
    awaiting: Sequence[PythonFrame] = ()


class WaitingSamples:
    """Frames that wait for the records of their samples, by thread."""

    def __init__(self) -> None:
        self._of_thread: dict[int, deque[SampleInTime]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, tid: int, sample: SampleInTime) -> None:
        """Add the newest frames of a thread."""
        if self._count >= _MOST_SAMPLES or (tid not in self._of_thread and len(self._of_thread) >= _MOST_THREADS):
            self._of_thread.clear()  # samples were lost; later samples have newer frames
            self._count = 0
        waiting = self._of_thread.setdefault(tid, deque(maxlen=_MOST_KEPT))
        self._count += len(waiting) < _MOST_KEPT
        waiting.append(sample)

    def take(self, tid: int, moment: int) -> SampleInTime | None:
        """Return the frames nearest to a sample's time, None if none is near.

        Earlier ones stay for a while: records of other ring buffers may arrive after later ones.
        """
        waiting = self._of_thread.get(tid)
        while waiting and waiting[0].time < moment - _LONGEST_WAIT:
            waiting.popleft()
            self._count -= 1
        if not waiting:
            return None
        following = bisect_left(waiting, moment, key=_TIME_OF)
        index = min(range(max(following - 1, 0), min(following + 1, len(waiting))), key=lambda one: abs(waiting[one].time - moment))
        nearest = waiting[index]
        if abs(nearest.time - moment) >= _NEAREST:
            return None
        del waiting[index]
        self._count -= 1
        return nearest

    def forget(self, tid: int) -> None:
        """Drop the frames of a thread that has ended: their samples were lost."""
        self._count -= len(self._of_thread.pop(tid, ()))


class SampledFrames:
    """The reader's side: threads that the program knows, and copies that wait for their samples."""

    def __init__(self, maps: FrameMaps) -> None:
        self._threads = maps.threads
        self.descriptor = maps.ring
        self._ring = bpf_loading.BpfRing(maps.ring, maps.ring_size)
        self._tids: dict[int, set[int]] = {}

    def take(self) -> Iterator[tuple[int, int, CopiedFrames]]:
        """Take the new copies out of the ring, and yield each with its pid and tid."""
        yield from map(decode, self._ring.records())

    def know(self, pid: int, tid: int, entry: ThreadEntry) -> None:
        """Put a thread into the map."""
        with contextlib.suppress(OSError):
            bpf_loading.update(self._threads, _TID.pack(tid), entry.pack())
            self._tids.setdefault(pid, set()).add(tid)

    def be_quiet(self, pid: int, tid: int, seconds: float) -> None:
        """Let the program ignore a thread for some time."""
        self.know(pid, tid, ThreadEntry(quiet_until=time.monotonic_ns() + int(seconds * 1e9)))

    def forget(self, pid: int) -> None:
        """Remove the threads of a process."""
        for tid in self._tids.pop(pid, ()):
            self.forget_thread(tid)

    def forget_thread(self, tid: int) -> None:
        """Remove a thread."""
        with contextlib.suppress(OSError):
            bpf_loading.delete(self._threads, _TID.pack(tid))


def entry_of(python: PythonProcess, tid: int) -> ThreadEntry | None:
    """Return the map's value of a thread whose frames were read; None if the program cannot follow them. tid: as the process has it."""
    state, layout = python.state_address(tid), python.layout
    frame, thread = layout.frame, layout.thread
    gil_holder, gil_locked = python.states.gil_addresses()
    if not state or frame.size > _LARGEST_FRAME:
        return None
    is_indirect = thread.cframe != NONE
    return ThreadEntry(
        state=state,
        frame=state + (thread.cframe if is_indirect else thread.frame),
        is_indirect=int(is_indirect),
        frame_offset=thread.frame if is_indirect else 0,
        native_id=0 if thread.native_id == NONE else state + thread.native_id,
        size=frame.size,
        previous=frame.previous,
        code=frame.code,
        instruction=frame.instruction,
        owner=frame.owner & ~7 if frame.owner != NONE else 0,
        gil_holder=gil_holder,
        gil_locked=gil_locked,
    )


# The BPF program that copies a thread's Python frames at the moment of its sample. The kernel runs it in the sample's interrupt, while
# the thread stands still. It looks up the thread in a map that the reader fills, follows the frames from the innermost one outwards, and
# puts four words of each into a ring: its address, its code object, its instruction and the word with its owner. It changes nothing in
# the thread, cannot fault and ends after MOST_FRAMES frames; the kernel verifies that. Layout of a map value (THREAD): addresses and
# offsets, u64 each, in the order of ThreadEntry. Layout of a record: HEAD, then FRAME for each frame. A record of a thread that is not in
# the map is a head without frames; it wakes the reader.

#: time (CLOCK_MONOTONIC, ns), tid, pid, number of frames, holder of the GIL, whether it is locked, native id, stack pointer, next frame (0:
#: complete), code of the holder's innermost frame
HEAD: Final = struct.Struct("=QIIqQQQQQQ")
FRAME: Final = struct.Struct("=4Q")  #: address, code, instruction, owner's word
UNKNOWN_THREAD: Final = -1  #: in place of the number of frames
_TEMPORARY: Final = -128  # where a frame is read to, in front of the record
SCRATCH_SIZE: Final = -_TEMPORARY + HEAD.size + MOST_FRAMES * FRAME.size
_OFFSETS: Final = 0x78  # of 8-byte words in a frame's first 128 bytes

_LOOKUP, _NOW, _CPU, _PID_TGID, _READ_USER, _OUTPUT = 1, 5, 8, 14, 112, 130  # enum bpf_func_id
_NO_WAKEUP, _FORCE_WAKEUP = 1, 2  # of ring buffers
BETWEEN_WAKEUPS: Final = 20_000_000  #: ns: code objects are read before their process ends
_STACK_POINTER: Final = 152  # in struct pt_regs of x86-64


class ThreadEntry(NamedTuple):
    """The value of a thread in the map.

    Attributes:
        state: address of its PyThreadState; 0 for a thread without one.
        quiet_until: CLOCK_MONOTONIC, ns; a thread without state wakes the reader only later.
        frame: address of the pointer to the innermost frame; with is_indirect of a pointer to a structure that has it at `frame_offset`.
        native_id: address of the thread's number; 0 before 3.11.
        size: bytes of a frame, at most 127.
        previous, code, instruction, owner: offsets in a frame, multiples of 8.
        gil_holder, gil_locked: addresses; 0 for builds without a GIL.
        wake_at: CLOCK_MONOTONIC, ns; from then on a copy wakes the reader, and the program sets the next time.
        between_wakeups: ns.
    """

    state: int = 0
    quiet_until: int = 0
    frame: int = 0
    is_indirect: int = 0
    frame_offset: int = 0
    native_id: int = 0
    size: int = 0
    previous: int = 0
    code: int = 0
    instruction: int = 0
    owner: int = 0
    gil_holder: int = 0
    gil_locked: int = 0
    wake_at: int = 0
    between_wakeups: int = BETWEEN_WAKEUPS

    def pack(self) -> bytes:
        """Return the value's bytes."""
        return THREAD.pack(*self)


THREAD: Final = struct.Struct(f"={len(ThreadEntry._fields)}Q")
_ENTRY_OFFSETS: Final = {name: 8 * number for number, name in enumerate(ThreadEntry._fields)}
HEAD_OFFSETS: Final = {"time": 0, "ids": 8, "count": 16, "holder": 24, "locked": 32, "native_id": 40, "pointer": 48, "next": 56} | {
    "holder_code": 64
}

_R0, _R1, _R2, _R3, _R4, _R5, _COUNT, _SCRATCH, _FRAME, _ENTRY, _STACK = range(11)
RECORD: Final = _SCRATCH  #: the register with the record's address, after find_thread


def frame_program(threads: int, scratch: int, ring: int, *, is_sample: bool, may_goto: bool = False) -> bytes:
    """Return the instructions.

    Args:
        threads: descriptor of the hash map from tids to THREAD values.
        scratch: descriptor of an array with one value of SCRATCH_SIZE for each CPU.
        ring: descriptor of the ring buffer.
        is_sample: whether it runs for samples of events, not at a tracepoint. Threads that are not in the map wake the reader; at a
            tracepoint only those of processes whose first thread is in it.
        may_goto: as in copy_frames.
    """
    program = BpfCode()
    find_thread(program, threads, scratch, is_sample=is_sample)
    copy_head(program)
    copy_frames(program, may_goto=may_goto)
    _copy_gil(program)
    _send(program, ring)
    if not is_sample:
        _find_process(program, threads)
    program.label("unknown")
    _send_unknown(program, ring)
    program.label("end")
    program.set(_R0, 1)  # the sample is written
    program.emit(0x95)
    return program.bytes()


def find_thread(program: BpfCode, threads: int, scratch: int, *, is_sample: bool) -> None:
    """Look up the scratch memory and the thread; write time and ids.

    The program goes on at its labels "unknown" for a thread that is not in the map, and "end" without scratch memory.
    """
    if is_sample:
        program.load(_R3, _R1, _STACK_POINTER)
    else:
        program.set(_R3, 0)
    program.store(_STACK, -24, _R3)
    program.call(_CPU)
    program.emit(0x63, _STACK, _R0, -8)
    program.load_map(_R1, scratch)
    program.move(_R2, _STACK)
    program.add_number(_R2, -8)
    program.call(_LOOKUP)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_SCRATCH, _R0)
    program.add_number(_SCRATCH, -_TEMPORARY)
    program.load(_R3, _STACK, -24)
    program.store(_SCRATCH, HEAD_OFFSETS["pointer"], _R3)
    program.call(_NOW)
    program.store(_SCRATCH, HEAD_OFFSETS["time"], _R0)
    program.call(_PID_TGID)
    program.store(_SCRATCH, HEAD_OFFSETS["ids"], _R0)
    program.emit(0x63, _STACK, _R0, -8)
    program.load_map(_R1, threads)
    program.move(_R2, _STACK)
    program.add_number(_R2, -8)
    program.call(_LOOKUP)
    program.jump_if_equal(_R0, 0, "unknown" if is_sample else "process")
    program.move(_ENTRY, _R0)
    program.load(_R1, _ENTRY, _ENTRY_OFFSETS["state"])
    program.jump_if_other(_R1, 0, "known")
    program.load(_R1, _SCRATCH, HEAD_OFFSETS["time"])
    program.load(_R2, _ENTRY, _ENTRY_OFFSETS["quiet_until"])
    program.jump_if_below(_R1, _R2, "end")
    program.jump("unknown" if is_sample else "process")
    program.label("known")


def _find_process(program: BpfCode, threads: int) -> None:
    """End unless the process's first thread has Python frames: a tracepoint is hit by all tasks of the machine."""
    program.label("process")
    program.emit(0x61, _R1, _SCRATCH, HEAD_OFFSETS["ids"] + 4)
    program.emit(0x63, _STACK, _R1, -8)
    program.load_map(_R1, threads)
    program.move(_R2, _STACK)
    program.add_number(_R2, -8)
    program.call(_LOOKUP)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R1, _R0, _ENTRY_OFFSETS["state"])
    program.jump_if_equal(_R1, 0, "end")


def copy_head(program: BpfCode) -> None:
    """Read the thread's number, and the address of its innermost frame."""
    program.load(_R3, _ENTRY, _ENTRY_OFFSETS["native_id"])
    program.jump_if_equal(_R3, 0, "without number")
    _read_user_word(program, HEAD_OFFSETS["native_id"])
    program.jump_if_other(_R0, 0, "unknown")
    program.label("without number")
    program.load(_R3, _ENTRY, _ENTRY_OFFSETS["frame"])
    _read_innermost(program, "unknown", "has innermost")


def copy_frames(program: BpfCode, most: int = MOST_FRAMES, *, may_goto: bool = False) -> None:
    """Follow the frames, at most a number of them, and write them and their number.

    may_goto: use the instruction for which the verifier need not follow all rounds (20 ms); their number is then read from memory, so that
    every round looks alike to it.
    """
    program.set(_COUNT, 0)
    program.store(_SCRATCH, HEAD_OFFSETS["count"], _COUNT)
    program.label("frame")
    if may_goto:
        program.may_jump("frames end")
        program.load(_COUNT, _SCRATCH, HEAD_OFFSETS["count"])
    program.jump_if_equal(_FRAME, 0, "frames end")
    program.jump_if_at_least(_COUNT, most, "frames end")
    program.move(_R1, _SCRATCH)
    program.add_number(_R1, _TEMPORARY)
    program.load(_R2, _ENTRY, _ENTRY_OFFSETS["size"])
    program.emit(0x57, _R2, immediate=127)
    program.move(_R3, _FRAME)
    program.call(_READ_USER)
    program.jump_if_other(_R0, 0, "frames end")
    program.move(_R4, _COUNT)
    program.emit(0x67, _R4, immediate=FRAME.size.bit_length() - 1)
    program.move(_R5, _SCRATCH)
    program.add(_R5, _R4)
    program.store(_R5, HEAD.size, _FRAME)
    for number, name in enumerate(("code", "instruction", "owner", "previous"), 1):
        program.load(_R1, _ENTRY, _ENTRY_OFFSETS[name])
        program.emit(0x57, _R1, immediate=_OFFSETS)
        program.move(_R2, _SCRATCH)
        program.add_number(_R2, _TEMPORARY)
        program.add(_R2, _R1)
        program.load(_FRAME if name == "previous" else _R3, _R2, 0)
        if name != "previous":
            program.store(_R5, HEAD.size + 8 * number, _R3)
    program.add_number(_COUNT, 1)
    program.store(_SCRATCH, HEAD_OFFSETS["count"], _COUNT)
    program.jump("frame")
    program.label("frames end")
    program.store(_SCRATCH, HEAD_OFFSETS["next"], _FRAME)
    program.set(_FRAME, 0)
    program.set(_COUNT, 0)  # from here on the verifier has one state, not one for each number of frames


def _copy_gil(program: BpfCode) -> None:
    """Read the holder of the GIL, its innermost frame's code, and whether it is locked."""
    program.set(_R1, 0)
    program.store(_SCRATCH, HEAD_OFFSETS["holder_code"], _R1)
    for name, to in (("gil_holder", "holder"), ("gil_locked", "locked")):
        program.set(_R1, 0)
        program.store(_SCRATCH, HEAD_OFFSETS[to], _R1)
        program.load(_R3, _ENTRY, _ENTRY_OFFSETS[name])
        program.jump_if_equal(_R3, 0, f"without {name}")
        _read_user_word(program, HEAD_OFFSETS[to])
        program.label(f"without {name}")
    program.load(_R3, _SCRATCH, HEAD_OFFSETS["holder"])
    program.jump_if_equal(_R3, 0, "without holder")
    program.load(_R1, _ENTRY, _ENTRY_OFFSETS["frame"])
    program.add(_R3, _R1)
    program.load(_R1, _ENTRY, _ENTRY_OFFSETS["state"])
    program.subtract(_R3, _R1)
    _read_innermost(program, "without holder", "has holder's frame")
    program.load(_R3, _ENTRY, _ENTRY_OFFSETS["code"])
    program.add(_R3, _FRAME)
    _read_user_word(program, HEAD_OFFSETS["holder_code"])
    program.label("without holder")


def _read_innermost(program: BpfCode, without: str, end: str) -> None:
    """Read the address of a thread's innermost frame into the register _FRAME; r3 has the address of the pointer to it.

    Args:
        without: the label to continue at if it cannot be read.
        end: a label for the program's own use.
    """
    _read_user_word(program, _TEMPORARY)
    program.jump_if_other(_R0, 0, without)
    program.load(_FRAME, _SCRATCH, _TEMPORARY)
    program.load(_R1, _ENTRY, _ENTRY_OFFSETS["is_indirect"])
    program.jump_if_equal(_R1, 0, end)
    program.move(_R3, _FRAME)
    program.load(_R1, _ENTRY, _ENTRY_OFFSETS["frame_offset"])
    program.add(_R3, _R1)
    _read_user_word(program, _TEMPORARY)
    program.jump_if_other(_R0, 0, without)
    program.load(_FRAME, _SCRATCH, _TEMPORARY)
    program.label(end)


def _send(program: BpfCode, ring: int) -> None:
    """Put the record into the ring."""
    program.load(_R3, _SCRATCH, HEAD_OFFSETS["count"])
    program.jump_if_above(_R3, MOST_FRAMES, "end")
    program.emit(0x67, _R3, immediate=FRAME.size.bit_length() - 1)
    program.add_number(_R3, HEAD.size)
    program.load_map(_R1, ring)
    program.move(_R2, _SCRATCH)
    program.set(_R4, _NO_WAKEUP)
    program.load(_R5, _SCRATCH, HEAD_OFFSETS["time"])
    program.load(_R0, _ENTRY, _ENTRY_OFFSETS["wake_at"])
    program.jump_if_below(_R5, _R0, "output")
    program.load(_R0, _ENTRY, _ENTRY_OFFSETS["between_wakeups"])
    program.add(_R5, _R0)
    program.store(_ENTRY, _ENTRY_OFFSETS["wake_at"], _R5)
    program.set(_R4, _FORCE_WAKEUP)
    program.label("output")
    program.call(_OUTPUT)
    program.jump("end")


def _send_unknown(program: BpfCode, ring: int) -> None:
    """Put a head without frames into the ring, and wake the reader."""
    program.set(_R1, UNKNOWN_THREAD)
    program.store(_SCRATCH, HEAD_OFFSETS["count"], _R1)
    program.load_map(_R1, ring)
    program.move(_R2, _SCRATCH)
    program.set(_R3, HEAD.size)
    program.set(_R4, _FORCE_WAKEUP)
    program.call(_OUTPUT)


def _read_user_word(program: BpfCode, to: int) -> None:
    """Read the word at the address in r3 into the scratch memory; zero if it cannot be read, and r0 is not zero then."""
    program.move(_R1, _SCRATCH)
    program.add_number(_R1, to)
    program.set(_R2, 8)
    program.call(_READ_USER)
