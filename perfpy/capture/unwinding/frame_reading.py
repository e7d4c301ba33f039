"""The reader: samples that are new in the spool -> the Python frames of their threads, read at once.

What enters: extents of the spool, each as soon as it is written. What leaves: answers for the unwinding process. Of several samples
of a thread that come together one reading serves all. Which processes run CPython is looked for with their first sample, and again after
an exec, a fork or a new mapping of an interpreter; else ever more rarely.
"""

from __future__ import annotations

import os
import select
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.python_code import GilState
from perfpy.abi.samples import SampleLayout
from perfpy.capture.python_frames.answers import FoundChain, FoundCode, FoundProcess, ReadUpTo, Refused, packed
from perfpy.capture.python_frames.locating import RuntimeLocator
from perfpy.capture.python_frames.process_memory import InterpreterMemory
from perfpy.capture.python_frames.sampled_frames import SampledFrames, SampleInTime, WaitingSamples, entry_of
from perfpy.capture.unwinding import messages
from perfpy.capture.unwinding.spool_reading import SpoolReader
from perfpy.interpreters.cpython.memory import UnreadableMemoryError
from perfpy.interpreters.cpython.process import PythonProcess
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols.files import live_process

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.python_frames.answers import Answer
    from perfpy.capture.python_frames.locating import LocatedRuntime
    from perfpy.capture.python_frames.sampled_frames import CopiedFrames, FrameMaps
    from perfpy.interpreters.cpython.code_objects import CodeObject
    from perfpy.interpreters.cpython.frames import ThreadFrames

_READ: Final = 1 << 16
_FIRST_PAUSE: Final = 0.05  # seconds until a process is looked at again that runs no CPython, or none yet; twice as long each time
_LONGEST_PAUSE: Final = 60.0
_MOST_UNSENT: Final = 64 << 20  # bytes; what comes then is dropped
_MOST_AT_ONCE: Final = 256  # threads that are read for one request
_PROCESSES: Final = 512  # that are kept open
_HEADER: Final = struct.Struct("=IHH")
_IDS: Final = struct.Struct("=II")
_TIME: Final = struct.Struct("=Q")
_STACK_POINTER: Final = 7  # of x86-64's registers in samples (perf_regs.h)
_EXEC: Final = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC


class SampleHeads:
    """What is looked at in samples of an event: in bytes from the record's beginning where their pid and tid are, and their time.

    least: bytes of a sample with registers; those of wakeups (record --off-cpu) have none, and no frames.
    uses_monotonic: their times are of a clock that can be asked here.
    """

    def __init__(self, attr: EventAttr) -> None:
        self._layout = SampleLayout(attr, NATIVE_ENDIAN)
        self._stack_pointer = (attr.sample_regs_user & ((1 << _STACK_POINTER) - 1)).bit_count()
        self.ids = 8 * (self._layout.word_of("pid") or 0)
        self.time = 8 * (self._layout.word_of("time") or 0)
        self.least = max(self.ids, self.time) + 8 + 8 * attr.sample_regs_user.bit_count()
        self.uses_monotonic = bool(attr.use_clockid) and attr.clockid == time.CLOCK_MONOTONIC

    def stack_pointer(self, record: NDArray[np.uint8]) -> int:
        """Return the stack pointer of a sample; 0 where it has none."""
        registers = self._layout.decode(record, np.zeros(1, np.int64), ["user_regs"], late=True).get("user_regs")
        values = registers.gathered().values if registers is not None else ()
        return int(values[self._stack_pointer]) if len(values) > self._stack_pointer else 0


class _Retry(NamedTuple):
    until: float
    pause: float


class _KnownProcess:
    """A Python process that is read. names: numbers of threads as the process has them, by ours."""

    def __init__(self, pid: int, memory: InterpreterMemory, python: PythonProcess) -> None:
        self.pid = pid
        self.memory = memory
        self.python = python
        self.told: set[int] = set()
        self.inner_tids: dict[int, int] = {}

    def inner_tid(self, tid: int) -> int:
        """Return the number that a thread has in its own pid namespace."""
        if tid not in self.inner_tids:
            self.inner_tids[tid] = live_process.innermost_tid(self.pid, tid) or tid
        return self.inner_tids[tid]


class FrameReader:
    """Reads frames. Its answers are to be sent in their order."""

    def __init__(self, heads: SampleHeads, procfs: ProcFs | None = None, sampled: SampledFrames | None = None) -> None:
        self._heads = heads
        self._sampled = sampled
        self._samples = WaitingSamples()
        self._procfs = procfs or ProcFs()
        self._locator = RuntimeLocator(self._procfs)
        self._known: dict[int, _KnownProcess] = {}
        self._waiting: dict[int, _Retry] = {}
        self.answers: deque[Answer] = deque()

    def look(self, records: NDArray[np.uint8]) -> None:
        """Read the frames of all samples in some records."""
        data = records.data
        threads: dict[tuple[int, int], list[int]] = {}
        newest: dict[tuple[int, int], NDArray[np.uint8]] = {}
        position, latest = 0, 0
        heads = self._heads
        while position + 8 <= len(data):
            kind, misc, size = _HEADER.unpack_from(data, position)
            if size < 8 or position + size > len(data):
                break
            if kind == RecordType.SAMPLE and size >= heads.least:
                (moment,) = _TIME.unpack_from(data, position + heads.time)
                thread = _IDS.unpack_from(data, position + heads.ids)
                latest = max(latest, moment)
                if not self._answer_sample(thread[0], thread[1], moment):
                    threads.setdefault(thread, []).append(moment)
                    newest[thread] = records[position : position + size]
            elif kind != RecordType.SAMPLE:
                self._see(kind, misc, data[position + 8 : position + size])
            position += size
        for number, ((pid, tid), times) in enumerate(reversed(threads.items())):
            if number < _MOST_AT_ONCE:
                self._read(pid, tid, times, newest[pid, tid])
        if latest:
            self.answers.append(ReadUpTo(latest))

    def _see(self, kind: int, misc: int, body: memoryview) -> None:
        """Take over what a record says of processes: another program runs, or a new one does."""
        if len(body) < 8:
            return
        pid, second = _IDS.unpack_from(body)
        if (
            (kind == RecordType.COMM and misc & _EXEC)
            or (kind == RecordType.FORK and pid != second)
            or (kind == RecordType.EXIT and pid != second)
        ):
            self._forget(pid)
        elif kind == RecordType.EXIT and self._sampled:
            self._sampled.forget_thread(_IDS.unpack_from(body, 8)[0])
        elif kind in (RecordType.MMAP, RecordType.MMAP2) and pid not in self._known and b"python" in bytes(body[24:512]):
            self._waiting.pop(pid, None)
            if self._sampled:
                self._sampled.forget(pid)

    def _forget(self, pid: int) -> None:
        self._waiting.pop(pid, None)
        if self._sampled:
            self._sampled.forget(pid)
        known = self._known.pop(pid, None)
        if known is not None:
            known.memory.close()

    def take_copies(self) -> None:
        """Take the frames that the kernel copied, and read those of threads that it does not know yet."""
        assert self._sampled is not None
        first_reads: dict[int, ThreadFrames | None] = {}
        for pid, tid, copied in self._sampled.take():
            gil = (GilState.UNKNOWN, 0, -1)
            if copied.words is None:
                if tid not in first_reads:
                    first_reads[tid] = self._read_first(pid, tid, copied)
                frames, lag = first_reads[tid], time.monotonic_ns() - copied.time
            else:
                frames, lag = self._decode(pid, tid, copied), 0
                gil = self._gil_of(pid, tid, copied)
            if frames is not None:
                self._samples.put(tid, SampleInTime(copied.time, frames, lag, copied.words is not None, gil))

    def _decode(self, pid: int, tid: int, copied: CopiedFrames) -> ThreadFrames | None:
        """Return copied frames; None for memory of a thread's state that was used again."""
        process = self._known.get(pid)
        if process is None or (copied.native_id and copied.native_id != process.inner_tid(tid)):
            assert self._sampled is not None
            self._sampled.forget_thread(tid)
            return None
        return process.python.frames_of_words(copied.frames(), is_whole=copied.is_whole)

    def _gil_of(self, pid: int, tid: int, copied: CopiedFrames) -> tuple[GilState, int, int]:
        """Return whether a thread has the GIL, and who else has it and runs which code (FoundChain.gil)."""
        process = self._known.get(pid)
        if process is None or not copied.holder:
            return GilState.UNKNOWN, 0, -1
        python = process.python
        if not copied.is_locked:
            return GilState.RELEASED, 0, -1
        if copied.holder == python.state_address(process.inner_tid(tid)):
            return GilState.HOLDS, tid, -1
        code = python.codes.find(copied.holder_code & ~python.layout.tag_mask)
        if code is not None:
            self._tell_code(process, code)
        return GilState.RELEASED, python.thread_of_state(copied.holder), -1 if code is None else code.number

    def _tell_code(self, process: _KnownProcess, code: CodeObject) -> None:
        """Answer with a code object that the unwinding process does not know."""
        if code.number not in process.told:
            process.told.add(code.number)
            self.answers.append(FoundCode(process.pid, *code))

    def _read_first(self, pid: int, tid: int, copied: CopiedFrames) -> ThreadFrames | None:
        """Read the frames of a thread, and let the kernel copy its next ones."""
        assert self._sampled is not None
        process = self._known.get(pid) or self._found(pid)
        if process is None:
            waiting = self._waiting.get(pid)
            self._sampled.be_quiet(pid, tid, max(waiting.until - time.monotonic(), 0.0) if waiting else _FIRST_PAUSE)
            return None
        if process.python.needs_stack_pointer and pid != tid and not copied.stack_pointer:
            return None  # a sample on the CPU shows which thread this is
        inner = process.inner_tid(tid)
        try:
            frames = process.python.frames(inner, copied.stack_pointer, is_main=pid == tid)
            entry = entry_of(process.python, inner)
        except UnreadableMemoryError:
            frames = entry = None
        if entry is None:
            self._sampled.be_quiet(pid, tid, _FIRST_PAUSE)
        else:
            self._sampled.know(pid, tid, entry)
        return frames

    def _answer_sample(self, pid: int, tid: int, moment: int) -> bool:
        """Answer with the frames that wait for a sample; return False if there are none."""
        process = self._known.get(pid)
        sample = self._samples.take(tid, moment) if process else None
        if process is None or sample is None:
            return False
        self._answer(process, tid, [moment], sample.frames, sample.lag, is_exact=sample.is_exact, gil=sample.gil)
        return True

    def _read(self, pid: int, tid: int, times: list[int], record: NDArray[np.uint8]) -> None:
        process = self._known.get(pid) or self._found(pid)
        if process is None:
            return
        try:
            pointer = self._heads.stack_pointer(record) if process.python.needs_stack_pointer and pid != tid else 0
            found = process.python.frames(process.inner_tid(tid), pointer, is_main=pid == tid)
        except UnreadableMemoryError:  # its stack was unmapped meanwhile, or it has ended
            if self._procfs.status(pid) is None:
                self._forget(pid)
            return
        if found is None:
            return
        if self._sampled and (entry := entry_of(process.python, process.inner_tid(tid))):
            self._sampled.know(pid, tid, entry)
        lag = time.monotonic_ns() - max(times) if self._heads.uses_monotonic else 0
        self._answer(process, tid, times, found, lag, is_exact=False)

    def _answer(
        self,
        process: _KnownProcess,
        tid: int,
        times: list[int],
        found: ThreadFrames,
        lag: int,
        *,
        is_exact: bool,
        gil: tuple[int, int, int] = (GilState.UNKNOWN, 0, -1),
    ) -> None:
        for frame in (*found.frames, *found.left):
            self._tell_code(process, frame.code)
        frames, left = (
            [(frame.address, frame.code.number, frame.offset, frame.is_entry) for frame in some] for some in (found.frames, found.left)
        )
        state = (int(gil[0]), *gil[1:])  # marshal knows no enumerations
        self.answers.append(FoundChain(process.pid, tid, times, frames, left, found.is_whole, found.has_moved, lag, is_exact, state))

    def _found(self, pid: int) -> _KnownProcess | None:
        now = time.monotonic()
        waiting = self._waiting.get(pid, _Retry(0.0, _FIRST_PAUSE / 2))
        if now < waiting.until or not pid:
            return None
        located = self._locator.find(pid)
        longest = _LONGEST_PAUSE
        if located is not None:
            longest = 1.0
            try:
                return self._opened(pid, located)
            except PermissionError:
                self.answers.append(Refused(pid, "its memory may not be read (kernel.yama.ptrace_scope?)"))
                longest = _LONGEST_PAUSE
            except ValueError as error:
                self.answers.append(Refused(pid, str(error)))
                longest = _LONGEST_PAUSE
            except (OSError, UnreadableMemoryError):  # it has not begun, or has ended
                pass
        pause = min(2 * waiting.pause, longest)
        self._waiting[pid] = _Retry(now + pause, pause)
        return None

    def _opened(self, pid: int, located: LocatedRuntime) -> _KnownProcess:
        memory = InterpreterMemory(pid)
        try:
            python = PythonProcess(memory, located.runtime, located.version, time.monotonic)
            next(python.states.interpreters())  # there is one already
        except StopIteration:
            memory.close()
            raise UnreadableMemoryError from None
        except BaseException:
            memory.close()
            raise
        if len(self._known) >= _PROCESSES:
            self._forget(next(iter(self._known)))
        self.answers.append(FoundProcess(pid, python.layout.version, located.loops, python.states.gil_addresses()[0]))
        self._known[pid] = _KnownProcess(pid, memory, python)
        return self._known[pid]


def serve(requests: int, answers: int, stores: tuple[int, int, int], attr: EventAttr, maps: FrameMaps | None = None) -> None:
    """Read until the recorder closes its pipe. A slow receiver of the answers does not hold the reading up."""
    os.set_blocking(answers, False)
    sampled = SampledFrames(maps) if maps else None
    spool, reader, incoming = SpoolReader(stores), FrameReader(SampleHeads(attr), sampled=sampled), messages.Incoming()
    sender = _Sender(answers)
    inputs = [requests, *([sampled.descriptor] if sampled else [])]
    while True:
        readable = select.select(inputs, [answers] if sender else [], [])[0]
        data = os.read(requests, _READ) if requests in readable else None
        if sampled:
            reader.take_copies()  # after the request has arrived: the copies of its samples are older
        if data == b"":
            break
        if data:
            incoming.add(data)
            for _, extents in incoming.requests():
                reader.look(spool.bytes_of(extents))
        sender.send(reader.answers)
    os.set_blocking(answers, True)
    sender.send(())


class _Sender:
    """Sends answers as far as there is room in the pipe, and keeps the rest; false where there is none."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._unsent = bytearray()

    def __bool__(self) -> bool:
        return bool(self._unsent)

    def send(self, answers: deque[Answer] | tuple[()]) -> None:
        """Send answers, which are taken out of their queue."""
        while answers:
            answer = answers.popleft()
            if len(self._unsent) < _MOST_UNSENT or not isinstance(answer, FoundChain):
                self._unsent += packed(answer)
        while self._unsent:
            try:
                del self._unsent[: os.write(self._fd, self._unsent)]
            except BlockingIOError:
                return
