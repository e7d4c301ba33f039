"""Python frames copied by the kernel at the moment of each sample: the maps of the BPF program, and the reader's side of its ring.

BPF needs CAP_BPF and CAP_PERFMON. Without them the reader reads frames as soon as it hears of a sample.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType
from perfpy.abi.python_code import GilState
from perfpy.capture.python_frames.frame_program import FRAME, HEAD, SCRATCH_SIZE, THREAD, UNKNOWN_THREAD, ThreadEntry, frame_program
from perfpy.interpreters.cpython.layouts import NONE
from perfpy.kernel.bpf import loading as bpf_loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.capture.counter import Counter
    from perfpy.interpreters.cpython.frames import PythonFrame, ThreadFrames
    from perfpy.interpreters.cpython.process import PythonProcess

_THREADS: Final = 16384
_RING_SIZE: Final = 8 << 20
_TID: Final = struct.Struct("=I")
_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC  # PROC_PID_INIT_INO
_MOST_KEPT: Final = 1 << 12  # frames of a thread that wait for their samples
_MOST_THREADS: Final = 1 << 12
_MOST_SAMPLES: Final = 1 << 14  # of all threads
_NEAREST: Final = 500_000  # ns between a sample and its copy
_LARGEST_FRAME: Final = 127


class FrameMaps(NamedTuple):
    """The descriptors that the recorder and the reader share."""

    threads: int
    scratch: int
    ring: int


class FrameCopier:
    """The program for samples of events, and its maps. Raises OSError if the kernel does not permit them."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as opened:

            def keep(descriptor: int) -> int:
                opened.callback(os.close, descriptor)
                return descriptor

            threads = keep(bpf_loading.create_map(bpf_loading.LRU_HASH, _TID.size, THREAD.size, _THREADS))
            scratch = keep(bpf_loading.create_map(bpf_loading.ARRAY, _TID.size, SCRATCH_SIZE, os.cpu_count() or 1))
            ring = keep(bpf_loading.create_map(bpf_loading.RINGBUF, 0, 0, _RING_SIZE))
            self.maps = FrameMaps(threads, scratch, ring)
            self._program = keep(bpf_loading.load_program(bpf_loading.PERF_EVENT, frame_program(*self.maps, is_sample=True)))
            self._opened = opened.pop_all()

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
                program = bpf_loading.load_program(bpf_loading.TRACEPOINT, frame_program(*self.maps, is_sample=False))
                try:
                    own = open_counter(EventAttr(type=PerfType.TRACEPOINT, config=counter.attr.config, disabled=1))
                    yield own
                    own.set_bpf(program)
                finally:
                    os.close(program)

    def close(self) -> None:
        """Close the descriptors; counters keep the program and its maps."""
        self._opened.close()


def open_copier(clock: int | None) -> FrameCopier | None:
    """Return a copier; None without permission, in another pid namespace than the kernel's, and for samples with another clock."""
    try:
        is_usable = clock == time.CLOCK_MONOTONIC and os.stat("/proc/self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE
        return FrameCopier() if is_usable else None
    except OSError:
        return None


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
        """Return the frames nearest to a sample's time, and drop earlier ones; None if none is near."""
        waiting = self._of_thread.get(tid)
        if not waiting:
            return None
        before = len(waiting)
        while len(waiting) > 1 and abs(waiting[1].time - moment) <= abs(waiting[0].time - moment):
            waiting.popleft()
        nearest = waiting.popleft() if abs(waiting[0].time - moment) < _NEAREST else None
        self._count -= before - len(waiting)
        return nearest

    def forget(self, tid: int) -> None:
        """Drop the frames of a thread that has ended: their samples were lost."""
        self._count -= len(self._of_thread.pop(tid, ()))


class SampledFrames:
    """The reader's side: threads that the program knows, and copies that wait for their samples."""

    def __init__(self, maps: FrameMaps) -> None:
        self._threads = maps.threads
        self.descriptor = maps.ring
        self._ring = bpf_loading.BpfRing(maps.ring, _RING_SIZE)
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
