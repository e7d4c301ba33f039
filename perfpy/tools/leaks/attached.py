"""Watch a running Python process: which stacks allocate memory and do not free it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.capture.python_frames.kernel_frames import FRAME, HEAD, SCRATCH_SIZE, THREAD, decode, entry_of
from perfpy.errors import KernelRefusedError, PerfError
from perfpy.interpreters.objects import UnreadableMemoryError
from perfpy.kernel import bpf as bpf_loading
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso
from perfpy.tools.leaks.allocators import (
    INTERVAL,
    PENDING_SIZE,
    SHORT_INTERVAL,
    STATE_SIZE,
    VALUE_SIZE,
    AllocationMaps,
    find_allocators,
    probes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.capture.python_frames.current_stacks import ChildWork
    from perfpy.interpreters.frames import CurrentFrame
    from perfpy.interpreters.process import PythonProcess


_MOST_ALLOCATIONS: Final = 1 << 16  # in the map
_MOST_THREADS: Final = 1 << 13
_MOST_PENDING: Final = 1 << 13
_MOST_STACKS: Final = 1 << 14  # distinct ones, whose functions are known
_MOST_WATCHED: Final = 32  # processes
_BETWEEN_LOOKS: Final = 0.25  # seconds between two looks for new processes
_LONGEST_PREPARATION: Final = 60.0  # seconds for everything but the watch
_PAUSE: Final = 0.02  # seconds between two looks for new threads
_BETWEEN_READINGS: Final = 1.0  # seconds between two readings of the map: code objects may be freed
_WORD: Final = struct.Struct("=Q")
_TID: Final = struct.Struct("=I")
_STATE: Final = struct.Struct("=qqQ")
_SMALL_ARENA, _LARGE_ARENA = 256 << 10, 1 << 20  # bytes that CPython maps at once for small objects: up to 3.9, and later
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


def memory_growth(pid: int, seconds: float, *, small_objects: bool = False, descendants: bool = False) -> list[MemoryGrowth]:
    """Watch a process, each from a child process, because a page of a hostile program can block its reader for ever. Raises PerfError.

    Ctrl-C ends the watch early.

    Args:
        pid: the process.
        seconds: how long.
        small_objects: also probe CPython's allocator of small objects.
        descendants: also watch the Python processes that it has started, and those that it starts meanwhile.

    Returns:
        the process, then its descendants; without the process if only these run Python.
    """
    from perfpy.capture.python_frames.current_stacks import ChildWork

    parent, procfs = os.getpid(), ProcFs()
    end = time.monotonic() + seconds
    watches: dict[int, ChildWork] = {}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the children's
    try:
        while not watches or (descendants and time.monotonic() < end and not _have_answers(watches.values())):
            for one in (pid, *(sorted(procfs.descendants([pid])) if descendants else ())):
                remaining = end - time.monotonic() if watches else seconds
                if one not in watches and len(watches) < _MOST_WATCHED and remaining > 0:
                    watches[one] = ChildWork(partial(_answer, one, remaining, parent, small_objects=small_objects))
            if descendants:
                time.sleep(min(_BETWEEN_LOOKS, max(end - time.monotonic(), 0.0)))
        answers = {one: watch.result(max(end - time.monotonic(), 0.0) + _LONGEST_PREPARATION) for one, watch in watches.items()}
    finally:
        signal.signal(signal.SIGINT, before)
    known = [_growth(answer) for answer in answers.values() if answer and "error" not in answer]
    of_first = answers[pid]
    if not known or (of_first is None and not descendants):
        raise PerfError(str(of_first["error"]) if of_first else f"process {pid}: its memory could not be read in time")
    return known


def _have_answers(watches: Iterable[ChildWork]) -> bool:
    """Whether all watches have ended: those of processes that do not run Python end at once."""
    poller, count = select.poll(), 0
    for watch in watches:
        poller.register(watch.answer, select.POLLIN)
        count += 1
    return len(poller.poll(0)) == count


def _growth(answer: dict[str, Any]) -> MemoryGrowth:
    from perfpy.interpreters.frames import CurrentFrame

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
