"""The reader's work: new samples in the spool to the current Python frames of their threads.

If several samples of a thread arrive together, one reading serves all. Processes are checked for CPython at their first sample, after an
exec, a fork or a new mapping of an interpreter, and otherwise ever more rarely.
"""

from __future__ import annotations

import itertools
import os
import re
import select
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perfpy_encodings import GilState
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.capture.process_memory import InterpreterMemory
from perfpy.capture.python_frames.answers import (
    FoundCall,
    FoundChain,
    FoundCode,
    FoundName,
    FoundProcess,
    ReadUpTo,
    Refused,
    encode_message,
)
from perfpy.capture.python_frames.kernel_frames import SampledFrames, SampleInTime, WaitingSamples, entry_of
from perfpy.capture.python_frames.locating import RuntimeLocator, loaded_files
from perfpy.capture.python_frames.threads import ReadNames
from perfpy.capture.unwinding import process as messages
from perfpy.capture.unwinding.process import OWN_COMMS
from perfpy.capture.unwinding.serving import SpoolReader
from perfpy.interpreters.frames import MOST_CALLS
from perfpy.interpreters.objects import UnreadableMemoryError
from perfpy.interpreters.process import PythonProcess
from perfpy.kernel.procfs import ProcFs, read_wait
from perfpy.symbols import dso
from perfpy.symbols.files import elf
from perfpy.untrusted.process_files import shares_pid_namespace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.python_frames.answers import Answer
    from perfpy.capture.python_frames.kernel_frames import CopiedFrames, FrameMaps
    from perfpy.capture.python_frames.locating import LocatedRuntime
    from perfpy.capture.unwinding.process import SharedProcesses
    from perfpy.interpreters.frames import CodeObject, PythonFrame, ThreadFrames


_READ: Final = 1 << 16
_FIRST_PAUSE: Final = 0.05  # seconds until a process without CPython is checked again; doubled each time
_STARTING_PAUSE: Final = 0.004  # of a process whose interpreter is about to start
_LONGEST_PAUSE: Final = 60.0
_FOREVER: Final = 1e6
_UNCONCERNED: Final = 0.2  # seconds until a process that does not matter is looked at again: it may have woken one that does
_NEW: Final = 1.0  # seconds for which a process often runs code that this process has not read, at most
_SETTLED: Final = 0.15  # seconds without such code after which it does so no longer
_BETWEEN_WAKEUPS: Final = 50_000_000  # ns, of threads of other processes
_MOST_UNSENT: Final = 64 << 20  # bytes; further answers are dropped
_MOST_AT_ONCE: Final = 256  # threads to read for one request
_PROCESSES: Final = 512  # with open memory
_HEADER: Final = struct.Struct("=IHH")
_IDS: Final = struct.Struct("=II")
_TIME: Final = struct.Struct("=Q")
_ASLEEP: Final = ("S", "D")  # states of threads
_STACK_POINTER: Final = 7  # of x86-64's registers in samples (perf_regs.h)
_DAMAGE: Final = (ArithmeticError, LookupError, ValueError, struct.error)
_OWN_COMMS: Final = tuple(map(str.encode, OWN_COMMS))
_EXEC: Final = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC


class SampleHeads:
    """The positions of the fields that the reader needs in an event's samples, in bytes from the record's beginning.

    Attributes:
        ids: of pid and tid.
        time: of the time.
        least: bytes of a sample with registers. Wakeups (record --off-cpu) are shorter, and have no frames.
        uses_monotonic: whether the samples' clock is CLOCK_MONOTONIC, which this process can read, too.
    """

    def __init__(self, attr: EventAttr) -> None:
        self._layout = SampleLayout(attr, NATIVE_ENDIAN)
        self._stack_pointer = (attr.sample_regs_user & ((1 << _STACK_POINTER) - 1)).bit_count()
        self.ids = 8 * (self._layout.word_of("pid") or 0)
        self.time = 8 * (self._layout.word_of("time") or 0)
        self.least = max(self.ids, self.time) + 8 + 8 * attr.sample_regs_user.bit_count()
        self.uses_monotonic = bool(attr.use_clockid) and attr.clockid == time.CLOCK_MONOTONIC

    def stack_pointer(self, record: NDArray[np.uint8]) -> int:
        """Return the stack pointer of a sample; 0 if it has none."""
        registers = self._layout.decode(record, np.zeros(1, np.int64), ["user_regs"], late=True).get("user_regs")
        values = registers.gather().values if registers is not None else ()
        return int(values[self._stack_pointer]) if len(values) > self._stack_pointer else 0


class _Retry(NamedTuple):
    until: float
    pause: float


class _KnownProcess:
    """An open Python process.

    Attributes:
        sent_codes: numbers of the code objects that were sent.
        sent_calls: the instructions (code, offset) whose calls were sent.
        inner_tids: tid -> the thread's number in its own pid namespace.
        names: of its threads.
        paces: threads whose samples wake this process at another pace than at first, ns.
    """

    def __init__(self, pid: int, memory: InterpreterMemory, python: PythonProcess, procfs: ProcFs) -> None:
        self.pid = pid
        self.memory = memory
        self.python = python
        self.sent_codes: set[int] = set()
        self.sent_calls: set[tuple[int, int]] = set()
        self.inner_tids: dict[int, int] = {}
        self._has_own_numbers = not shares_pid_namespace(pid)
        self.names = ReadNames(pid, procfs)
        self.paces: dict[int, int] = {}
        self.is_new_until = time.monotonic_ns() + int(_NEW * 1e9)

    def runs_known_code(self, moment: int) -> bool:
        """Whether the code of most samples after a time (CLOCK_MONOTONIC, ns) has been read already."""
        return moment > min(self.is_new_until, int((self.python.codes.last_read + _SETTLED) * 1e9))

    def inner_tid(self, tid: int) -> int:
        """Return the number of a thread in its own pid namespace."""
        if not self._has_own_numbers:
            return tid
        if tid not in self.inner_tids:
            self.inner_tids[tid] = dso.innermost_tid(self.pid, tid) or tid
        return self.inner_tids[tid]


class FrameReader:
    """Reads frames. Its answers must be sent in order.

    Args:
        heads: of the samples.
        procfs: of the machine.
        sampled: the frames that the kernel copies.
        recorder: the process whose frames, and those of its helpers, are not read; 0: none.
        concerned: the processes whose frames are read; None for all.
    """

    def __init__(
        self,
        heads: SampleHeads,
        procfs: ProcFs | None = None,
        sampled: SampledFrames | None = None,
        recorder: int = 0,
        concerned: SharedProcesses | None = None,
    ) -> None:
        self._concerned = concerned
        self._heads = heads
        self._recorder = recorder
        self._sampled = sampled
        self._samples = WaitingSamples()
        self._ended: list[int] = []  # threads, until all records of the buffers of other CPUs were seen
        self._procfs = procfs or ProcFs()
        self._locator = RuntimeLocator(self._procfs)
        self._processes: dict[int, _KnownProcess] = {}
        self._retries: dict[int, _Retry] = {}
        self._numbers = itertools.count()  # of code objects, also of a process that is opened again
        self._full: set[int] = set()
        self.answers: deque[Answer] = deque()

    def look(self, records: NDArray[np.uint8]) -> None:
        """Read the frames of all samples among some records."""
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
                self._note_task(kind, misc, data[position + 8 : position + size])
            position += size
        for number, ((pid, tid), times) in enumerate(reversed(threads.items())):
            if number >= _MOST_AT_ONCE:
                break
            try:
                self._read(pid, tid, times, newest[pid, tid])
            except _DAMAGE as error:
                self._refuse(pid, error)
        if latest:
            self.answers.append(ReadUpTo(latest))
        self._forget_full()

    def _forget_full(self) -> None:
        """Forget threads that ended, and the processes whose code objects take too much memory, which the next sample opens again."""
        while self._full:
            self._forget(self._full.pop())
        while self._ended:
            self._samples.forget(self._ended.pop())

    def _note_task(self, kind: int, misc: int, body: memoryview) -> None:
        """Update the processes by a side-band record: exec, fork, exit, or a mapped interpreter."""
        if len(body) < 8:
            return
        pid, second = _IDS.unpack_from(body)
        if (
            (kind == RecordType.COMM and misc & _EXEC)
            or (kind == RecordType.FORK and pid != second)
            or (kind == RecordType.EXIT and pid != second)
        ):
            self._forget(pid)
        elif kind == RecordType.EXIT:
            tid = _IDS.unpack_from(body, 8)[0]
            self._ended.append(tid)
            if self._sampled:
                self._sampled.forget_thread(tid)
            if process := self._processes.get(pid):
                process.names.forget(tid)
                process.paces.pop(tid, None)
        elif kind in (RecordType.MMAP, RecordType.MMAP2) and pid not in self._processes and b"python" in bytes(body[24:512]):
            self._retries.pop(pid, None)
            if self._sampled:
                self._sampled.forget(pid)

    def _forget(self, pid: int) -> None:
        self._ended.append(pid)
        self._retries.pop(pid, None)
        if self._sampled:
            self._sampled.forget(pid)
        process = self._processes.pop(pid, None)
        if process is not None:
            process.memory.close()

    def take_copies(self) -> None:
        """Take the frames that the kernel copied, and read those of threads that its map does not contain yet.

        A thread that sleeps and was not sampled again until its frames were read still has those of its last sample, because each sleep
        begins with a sample.
        """
        assert self._sampled is not None
        copies = [*self._sampled.take()]
        while copies:
            # a thread may have been sampled a thousand times since the last look
            unknown = {tid: (pid, copied) for pid, tid, copied in copies if copied.words is None}
            looks = {tid: self._look_first(pid, tid, copied) for tid, (pid, copied) in unknown.items()}
            later = [*self._sampled.take()] if looks else []
            last = {tid: copied for _, tid, copied in (*copies, *later)}
            for pid, tid, copied in copies:
                try:
                    if copied.words is not None:
                        self._put(pid, tid, copied, self._decode(pid, tid, copied), 0, is_exact=True)
                    else:
                        read_at, frames, sleeps = looks[tid]
                        self._put(pid, tid, copied, frames, read_at - copied.time, is_exact=sleeps and copied is last[tid])
                except _DAMAGE as error:
                    self._refuse(pid, error)
            copies = later

    def _look_first(self, pid: int, tid: int, copied: CopiedFrames) -> tuple[int, ThreadFrames | None, bool]:
        """Return when the frames of a thread were read (ns), the frames, and whether it slept then."""
        read_at = time.monotonic_ns()
        try:
            frames = self._read_first(pid, tid, copied)
        except _DAMAGE as error:
            self._refuse(pid, error)
            frames = None
        sleeps = frames is not None and not frames.has_moved and read_wait(pid, tid)[0] in _ASLEEP
        return read_at, frames, sleeps

    def _put(self, pid: int, tid: int, copied: CopiedFrames, frames: ThreadFrames | None, lag: int, *, is_exact: bool) -> None:
        """Keep frames for the record of their sample. lag: nanoseconds from the sample to the reading."""
        process = self._processes.get(pid)
        if frames is None:
            return
        gil = (GilState.UNKNOWN, 0, -1) if copied.words is None else self._gil_of(pid, tid, copied)
        began, awaiting = _loop_of(process, tid, frames, copied.time, is_exact=is_exact) if process else (0, [])
        if process and began and process.python.awaiting_tasks.is_known:
            self._pace(process, tid, 0)  # its tasks are soon gone
        elif process and tid not in process.paces and process.runs_known_code(copied.time):
            self._pace(process, tid, _BETWEEN_WAKEUPS)
        self._samples.put(tid, SampleInTime(copied.time, frames, lag, is_exact, gil, began, awaiting))

    def _pace(self, process: _KnownProcess, tid: int, between: int) -> None:
        """Let samples of a thread wake this process again after another time (ns)."""
        assert self._sampled is not None
        entry = entry_of(process.python, process.inner_tid(tid)) if process.paces.get(tid) != between else None
        if entry is not None:
            process.paces[tid] = between
            self._sampled.know(process.pid, tid, entry._replace(between_wakeups=between))

    def _refuse(self, pid: int, error: Exception) -> None:
        """Read no more of a process whose memory misleads even the checks: other processes keep their frames."""
        self._forget(pid)
        self._retries[pid] = _Retry(time.monotonic() + _LONGEST_PAUSE, _LONGEST_PAUSE)
        self.answers.append(Refused(pid, f"its memory has unexpected content ({error})"))

    def _decode(self, pid: int, tid: int, copied: CopiedFrames) -> ThreadFrames | None:
        """Decode copied frames; return None if the memory of the thread's state has been reused."""
        process = self._processes.get(pid)
        if process is None or (copied.native_id and copied.native_id != process.inner_tid(tid)):
            assert self._sampled is not None
            self._sampled.forget_thread(tid)
            return None
        return process.python.frames_of_words(copied.frames(), is_whole=copied.is_whole)

    def _gil_of(self, pid: int, tid: int, copied: CopiedFrames) -> tuple[GilState, int, int]:
        """Return the thread's GilState, the thread that holds the GIL, and the number of its code (FoundChain.gil)."""
        process = self._processes.get(pid)
        if process is None or not copied.holder:
            return GilState.UNKNOWN, 0, -1
        python = process.python
        if not copied.is_locked:
            return GilState.RELEASED, 0, -1
        if copied.holder == python.state_address(process.inner_tid(tid)):
            return GilState.HOLDS, tid, -1
        code = python.codes.find(copied.holder_code & ~python.layout.tag_mask)
        if code is not None:
            self._send_code(process, code)
        return GilState.RELEASED, python.thread_of_state(copied.holder), -1 if code is None else code.number

    def _send_code(self, process: _KnownProcess, code: CodeObject) -> None:
        """Send a code object, once for each process."""
        if code.number not in process.sent_codes:
            process.sent_codes.add(code.number)
            self.answers.append(FoundCode(process.pid, *code))

    def _send_call(self, process: _KnownProcess, frame: PythonFrame) -> None:
        """Send the name of what a frame's instruction calls, once for each instruction."""
        key = (frame.code.number, frame.offset)
        if key not in process.sent_calls and len(process.sent_calls) < MOST_CALLS:
            process.sent_calls.add(key)
            if name := process.python.called_names.find(frame.code, frame.offset):
                self.answers.append(FoundCall(process.pid, *key, name))

    def _read_first(self, pid: int, tid: int, copied: CopiedFrames) -> ThreadFrames | None:
        """Read the frames of a thread, and let the kernel copy its next ones."""
        assert self._sampled is not None
        process = self._processes.get(pid) or self._find_process(pid)
        if process is None:
            waiting = self._retries.get(pid)
            self._sampled.be_quiet(pid, tid, max(waiting.until - time.monotonic(), 0.0) if waiting else _FIRST_PAUSE)
            return None
        if process.python.needs_stack_pointer and pid != tid and not copied.stack_pointer:
            return None  # a sample on the CPU will identify the thread
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
        process = self._processes.get(pid)
        sample = self._samples.take(tid, moment) if process else None
        if process is None or sample is None:
            return False
        self._answer(process, tid, [moment], sample)
        return True

    def _read(self, pid: int, tid: int, times: list[int], record: NDArray[np.uint8]) -> None:
        process = self._processes.get(pid) or self._find_process(pid)
        if process is None:
            return
        try:
            pointer = self._heads.stack_pointer(record) if process.python.needs_stack_pointer and pid != tid else 0
            thread_frames = process.python.frames(process.inner_tid(tid), pointer, is_main=pid == tid)
        except UnreadableMemoryError:  # the stack was unmapped, or the process has ended
            if self._procfs.status(pid) is None:
                self._forget(pid)
            return
        if thread_frames is None:
            return
        if self._sampled and (entry := entry_of(process.python, process.inner_tid(tid))):
            self._sampled.know(pid, tid, entry)
        newest, is_comparable = max(times), self._heads.uses_monotonic
        lag = time.monotonic_ns() - newest if is_comparable else 0
        began, _ = _loop_of(process, tid, thread_frames, newest, is_exact=False) if is_comparable else (0, [])
        self._answer(process, tid, times, SampleInTime(newest, thread_frames, lag, is_exact=False, turn_began=began))

    def _answer(self, process: _KnownProcess, tid: int, times: list[int], sample: SampleInTime) -> None:
        read = sample.frames
        name = process.names.new_name(tid, time.monotonic(), lambda: process.python.thread_name(process.inner_tid(tid)))
        if name:
            self.answers.append(FoundName(process.pid, tid, name))
        for frame in (*read.frames, *read.left, *sample.awaiting):
            self._send_code(process, frame.code)
        if read.frames:
            self._send_call(process, read.frames[0])
        if process.python.codes.is_full:
            self._full.add(process.pid)
        frames, rest = (
            [(frame.address, frame.code.number, frame.offset, frame.is_entry) for frame in some] for some in (read.frames, read.left)
        )
        state = (int(sample.gil[0]), *sample.gil[1:])  # marshal supports no enumerations
        awaiting = [(frame.code.number, frame.offset) for frame in sample.awaiting]
        frames_read = (frames, rest, read.is_whole, read.has_moved, sample.lag, sample.is_exact)
        self.answers.append(FoundChain(process.pid, tid, times, *frames_read, state, sample.turn_began, awaiting))

    def _find_process(self, pid: int) -> _KnownProcess | None:
        now = time.monotonic()
        waiting = self._retries.get(pid)
        if not pid or (waiting and now < waiting.until):
            return None
        if self._concerned is not None and pid not in self._concerned:
            self._retries[pid] = _Retry(now + _UNCONCERNED, _UNCONCERNED)
            return None
        if self._is_own(pid):
            self._retries[pid] = _Retry(now + _FOREVER, _FOREVER)
            return None
        located = self._locator.find(pid)
        longest = _LONGEST_PAUSE
        if located is not None:
            longest = 1.0
            waiting = waiting or _Retry(0.0, _STARTING_PAUSE / 2)
            try:
                return self._open_process(pid, located)
            except PermissionError:
                self.answers.append(Refused(pid, "its memory may not be read (kernel.yama.ptrace_scope?)"))
                longest = _LONGEST_PAUSE
            except ValueError as error:
                self.answers.append(Refused(pid, str(error)))
                longest = _LONGEST_PAUSE
            except (OSError, UnreadableMemoryError):  # the process has not started or has ended
                pass
        pause = min(2 * (waiting.pause if waiting else _FIRST_PAUSE / 2), longest)
        self._retries[pid] = _Retry(now + pause, pause)
        return None

    def _is_own(self, pid: int) -> bool:
        """Return whether a process belongs to the recorder. Reading its frames would cause the next samples of it."""
        if pid in (os.getpid(), self._recorder):
            return True
        if not self._recorder or self._procfs.read(f"{pid}/comm", 64).rstrip(b"\n") not in _OWN_COMMS:  # read in a third of the time
            return False
        status = self._procfs.status(pid)
        return status is not None and status.ppid == self._recorder and status.comm in OWN_COMMS

    def _open_process(self, pid: int, located: LocatedRuntime) -> _KnownProcess:
        memory = InterpreterMemory(pid)
        try:
            python = PythonProcess(memory, located.runtime, located.version, time.monotonic, self._numbers)
            python.awaiting_tasks.find_section = lambda: asyncio_section(self._procfs, pid)
            next(python.states.interpreters())  # raises StopIteration before the first interpreter exists
        except StopIteration:
            memory.close()
            raise UnreadableMemoryError from None
        except BaseException:
            memory.close()
            raise
        if len(self._processes) >= _PROCESSES:
            self._forget(next(iter(self._processes)))
        self.answers.append(FoundProcess(pid, python.layout.version, located.loops, python.states.gil_addresses()[0]))
        self._processes[pid] = _KnownProcess(pid, memory, python, self._procfs)
        return self._processes[pid]


def _loop_of(process: _KnownProcess, tid: int, frames: ThreadFrames, moment: int, *, is_exact: bool) -> tuple[int, list[PythonFrame]]:
    """Return when the callbacks of an event loop's turn began (EventLoops.began), and the frames that await the running task.

    Frames that were read after the sample may belong to another task of the same turn than the sample. Only exact ones have a task.
    """
    python = process.python
    state = python.state_address(process.inner_tid(tid))
    awaiting = python.awaiting_tasks.awaiting(frames.frames, state) if is_exact else []
    # A turn runs each task once, and new tasks run in the next one: as long as the turn goes on, equal addresses are the same task.
    began = python.event_loops.began(frames.frames, moment)
    return began, awaiting if began else []


def serve(
    requests: int,
    answers: int,
    stores: tuple[int, int, int],
    attr: EventAttr,
    maps: FrameMaps | None = None,
    concerned: SharedProcesses | None = None,
) -> None:
    """Read until the recorder closes its pipe. A slow receiver of the answers does not delay the reading. concerned: as in FrameReader."""
    os.set_blocking(answers, False)
    sampled = SampledFrames(maps) if maps else None
    spool, incoming = SpoolReader(stores), messages.Incoming()
    reader = FrameReader(SampleHeads(attr), sampled=sampled, recorder=os.getppid(), concerned=concerned)
    sender = _Sender(answers)
    inputs = [requests, *([sampled.descriptor] if sampled else [])]
    while True:
        readable = select.select(inputs, [answers] if sender else [], [])[0]
        data = os.read(requests, _READ) if requests in readable else None
        if sampled:
            reader.take_copies()  # after the request: the copies of its samples are older
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
    """Sends answers as far as the pipe has room, and queues the rest. It is false without queued answers."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._unsent = bytearray()

    def __bool__(self) -> bool:
        return bool(self._unsent)

    def send(self, answers: deque[Answer] | tuple[()]) -> None:
        """Remove answers from their queue, and send them."""
        while answers:
            answer = answers.popleft()
            if len(self._unsent) < _MOST_UNSENT or not isinstance(answer, FoundChain):
                self._unsent += encode_message(answer)
        while self._unsent:
            try:
                del self._unsent[: os.write(self._fd, self._unsent)]
            except BlockingIOError:
                return


# The section in which the module _asyncio of a process describes its tasks, since CPython 3.14.

_SECTION: Final = ".AsyncioDebug"
_MODULE: Final = re.compile(r"_asyncio\..*|(?:lib)?python3.*")  # or the interpreter, if the module is built in
_LARGEST: Final = 1 << 12  # bytes of the section that are read


def asyncio_section(procfs: ProcFs, pid: int) -> bytes:
    """Return the section's bytes; b"" if no loaded file has it."""
    try:
        mappings = loaded_files(procfs.maps(pid, data=True))
    except OSError:
        return b""
    for mapping in mappings:
        if _MODULE.fullmatch(os.path.basename(mapping.path)):
            try:
                file = elf.open_mapped(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
                section = file.section(_SECTION)
                if section is not None:
                    return bytes(file.data(section)[:_LARGEST])
            except (elf.BadElfError, OSError):
                continue
    return b""
