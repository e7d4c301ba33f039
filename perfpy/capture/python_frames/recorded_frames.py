"""Add Python frames to the callchains of samples during a recording, and write what reports need for them.

Each code object has a range of addresses, from FIRST_ADDRESS on, the same in all processes. An address in it is the current instruction:
the range's start plus the instruction's offset in bytes, plus two; the start alone means that the line is unknown. Callchains contain these
addresses after the frame of the evaluation loop that ran the function. An MMAP2 record maps the ranges into each process. Its file,
jitted-0-1.so in a new folder below the build-id cache, is an ELF image without code: it has symbols `py::QUALNAME:FILE` as in CPython's own
perf maps, and .debug_line. The recording also stores the image (kept_files), so that reports on other machines, and perf on this one, have
names and lines. The samples are counted by quality.
"""

from __future__ import annotations

import os
import select
import time
from bisect import bisect_right
from collections import Counter, deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import records
from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import CONTEXT_USER, NATIVE_ENDIAN
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perfpy_encodings import BUILT_IN, BUILT_IN_BY_CALL, FIRST_ADDRESS, MAPPED_SIZE, PYTHON_MARK, GilState, mapping_of
from perfpy.abi.records import IdLayout, code_mapping
from perfpy.abi.sample_decoding import stack_words
from perfpy.capture.python_frames import merging
from perfpy.capture.python_frames.answers import (
    FoundCall,
    FoundChain,
    FoundCode,
    FoundName,
    FoundProcess,
    IncomingAnswers,
    ReadUpTo,
)
from perfpy.capture.python_frames.locating import CalledFunctions
from perfpy.capture.python_frames.merging import (
    EXACT,
    FROM_PERF,
    NO_FRAME,
    OPEN_LINES,
    PARTIAL,
    SEEN,
    STACK_POINTER,
    UNKNOWN,
    UNPROVEN,
    CodeRanges,
    HomeSlots,
    KnownCalls,
    SeenCallers,
    StackCopy,
    evaluate,
    frame_states,
    note_slots,
)
from perfpy.capture.python_frames.threads import AWAITED, MARK, BlockedLoops, PendingNames
from perfpy.capture.runtimes.rewriting import write_image
from perfpy.errors import plural
from perfpy.interpreters.frames import Lines, decode_lines
from perfpy.interpreters.tasks import is_callback
from perfpy.symbols import jitdump
from perfpy.symbols.jitdump import CodeLine, Section, debug_sections, new_folder
from perfpy.untrusted import files
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.capture.python_frames.merging import FrameState
    from perfpy.perfdata.events import FileEvent
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.unwind.rules import FrameRules


_PATIENCE: Final = 0.5  # seconds to wait for the reader to reach the samples
_READ: Final = 1 << 18
_MOST_WAITING: Final = 1 << 20  # frames that wait for their samples
_MOST_CODE: Final = 512 << 20  # bytes of the code objects of all processes
_MOST_LIVE_CODE: Final = 48 << 20  # the same in a live view
_MOST_LIVE_FUNCTIONS: Final = 16 << 20  # bytes of the functions of one image in a live view: some 15,000 functions
_MOST_REFUSED: Final = 1024  # processes
_WORTH_SWEEPING: Final = 4096  # samples whose frames wait
_MOST_THREADS: Final = 256  # of a process whose callers are kept
_SIZE_OF_GIL: Final = 256  # bytes of struct _gil_runtime_state from the holder on, at most
_MOST_LAGS: Final = 1 << 16  # the last ones, for the median; live views run for days
_MOST_LOOPS: Final = 512  # of a chain that are evaluated
_LATEST: Final = 1_000_000_000  # ns that a sample may be older than one that was unwound before

_MANY_UNKNOWN, _WORTH_A_NOTE = 0.25, 20  # share and number of samples without functions
_FIRST_ARGUMENT: Final = 5  # rdi, by DWARF's numbers


class _Process:
    """A Python process: its code objects, and the addresses of its functions by the code objects' numbers."""

    def __init__(self, python_process: FoundProcess, slots: HomeSlots, found_at: int) -> None:
        self.found_at = found_at  # the time of the samples that the reader had seen
        self.version = python_process.version
        self.gil = python_process.gil
        self.slots = slots
        self._borders = _borders(python_process.loops)
        self.ranges = CodeRanges()
        self.callers: dict[int, SeenCallers] = {}
        self.calls = KnownCalls()
        self.is_mapped = False
        self.is_over = False  # whether its end was recorded before the last piece
        self.placed: dict[int, PlacedFunction | None] = {}
        self.called_names: dict[tuple[int, int], str] = {}  # code and offset of an instruction -> what it calls

    def are_loops(self, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which addresses are in the evaluation loop."""
        in_loops: NDArray[np.bool_] = np.searchsorted(np.array(self._borders, np.uint64), addresses, "right") & 1 == 1
        return in_loops

    def loops_among(self, addresses: list[int]) -> list[int]:
        """Return the positions of the addresses that are in the evaluation loop."""
        borders = self._borders
        return [position for position, address in enumerate(addresses) if bisect_right(borders, address) & 1]


def _borders(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the beginning and the end of each range, in order of the addresses. Overlapping ranges are joined."""
    borders: list[int] = []
    for begin, end in sorted(ranges):
        if borders and begin <= borders[-1]:
            borders[-1] = max(borders[-1], end)
        elif begin < end:
            borders += (begin, end)
    return borders


class _Loops(NamedTuple):
    """The evaluation loops of one sample.

    Attributes:
        owner: the process.
        chain: the frames that the reader found for the sample.
        native: the user's native addresses.
        rows: which rows of `native` are evaluation loops.
        states: the native frame of each loop; None if it is unknown.
        frames: possible addresses of Python frames (see evaluate).
        callers: of the thread.
        before: the thread's previous reading (see SeenCallers).
        is_cut: the native chain may lack outer frames.
    """

    owner: _Process
    chain: FoundChain | None
    native: list[int]
    rows: list[int]
    states: list[FrameState | None]
    frames: dict[int, int]
    callers: SeenCallers
    before: dict[tuple[int, int], int]
    is_cut: bool


def _has_all_callers(loops: _Loops, merged: merging.MergedFrames) -> bool:
    """Whether a truncated native chain has Python frames up to the thread's first one."""
    chain = loops.chain
    if chain is None or not chain.is_whole or not chain.frames or not merged.loops:
        return False
    if chain.is_exact:
        return sum(is_entry for *_, is_entry in chain.frames) > len(merged.loops)
    return loops.is_cut and merged.loops[-1][-1:] == [chain.frames[-1][1:3]]


_NO_CALLERS: Final = SeenCallers()  # of samples whose frames are exact


class PythonFrames:
    """The Python processes of a recording and their frames.

    Args:
        event: the first event of the recording.
        answers: the descriptor of the reader's pipe.
        cache: the build-id cache ("": perf's default); None: write no image, because a live view has it in memory. A live view runs
            for days, so it drops ended processes, and all functions if they become too many.

    Attributes:
        counts: samples by grade (see merging).
        blocked_loops: the turns of event loops that lasted long.
        completed: size of stack copies -> samples with all Python frames although the copy does not hold all native ones.
    """

    def __init__(self, event: FileEvent, answers: int, cache: str | None) -> None:
        self._layout = IdLayout.of(event.attr, NATIVE_ENDIAN)
        self._identity = event.ids[0] if event.ids else 0
        self._answers = answers
        self._incoming = IncomingAnswers()
        self._is_open = True
        self._processes: dict[int, _Process] = {}
        self._chains: dict[tuple[int, int], tuple[_Process, FoundChain]] = {}
        self._waiting = 0  # frames in them
        self._swept_at = _WORTH_SWEEPING  # samples with waiting frames
        self._most_code = _MOST_LIVE_CODE if cache is None else _MOST_CODE
        self._done_up_to = 0  # time of the latest samples that have their frames
        self._none_before = 0  # no frames of an earlier time wait
        self._code_memory = 0
        self._slots: dict[tuple[object, ...], HomeSlots] = {}  # by build
        self._read_up_to = 0
        self._batch = 0
        self._refused: dict[int, str] = {}
        self._functions = PythonFunctions()
        self._called = CalledFunctions()
        self._first: dict[int, int] = {}
        self._names = PendingNames()
        self._comms = b""
        self._cache = cache
        self._path = ""
        self._image_number = 0
        self._forgotten_functions = 0
        self._last_image: tuple[str, bytes] | None = None  # an image whose functions were forgotten, until it is taken
        self.counts = [0] * (merging.UNKNOWN + 1)
        self.completed: Counter[int] = Counter()
        self.blocked_loops = BlockedLoops()
        self._lags: deque[int] = deque(maxlen=_MOST_LAGS)
        self._copied = 0  # samples whose frames the kernel copied

    # Messages of the reader.

    def receive(self) -> None:
        """Receive the messages in the pipe."""
        while self._is_open and select.select([self._answers], [], [], 0)[0]:
            data = os.read(self._answers, _READ)
            self._is_open = bool(data)
            self._incoming.add(data)
        for answer in self._incoming.answers():
            if isinstance(answer, FoundChain):
                self._add_chain(answer)
            elif isinstance(answer, FoundCode):
                self._add_code(answer)
            elif isinstance(answer, FoundCall):
                if process := self._processes.get(answer.pid):
                    process.called_names[answer.code, answer.offset] = answer.name
            elif isinstance(answer, FoundName):
                self._names.add(*answer)
            elif isinstance(answer, ReadUpTo):
                self._read_up_to = max(self._read_up_to, answer.time)
            elif isinstance(answer, FoundProcess):
                self._drop_process(answer.pid)
                build = (answer.version, *(end - begin for begin, end in answer.loops))
                self._processes[answer.pid] = _Process(answer, self._slots.setdefault(build, HomeSlots()), self._read_up_to)
            elif len(self._refused) < _MOST_REFUSED:
                self._refused[answer.pid] = answer.reason

    def wait(self, moment: int) -> None:
        """Wait until the reader has reached the samples of a time (ns), or the patience ends."""
        end = time.monotonic() + _PATIENCE
        self.receive()
        while self._is_open and self._read_up_to < moment and (remaining := end - time.monotonic()) > 0:
            select.select([self._answers], [], [], remaining)
            self.receive()

    def _process_of(self, pid: int) -> _Process | None:
        """Return a process, which is then the last used one; None if it was dropped."""
        process = self._processes.pop(pid, None)
        if process is not None:
            self._processes[pid] = process
        return process

    def _drop_process(self, pid: int) -> None:
        process = self._processes.pop(pid, None)
        self._code_memory -= process.ranges.memory if process else 0

    def _add_code(self, code: FoundCode) -> None:
        """Add a code object. If they take too much memory, drop the processes that were unused for the longest time."""
        process = self._process_of(code.pid)
        if process is None:
            return
        process.ranges.add(code)
        self._code_memory += code.memory
        while self._code_memory > self._most_code and len(self._processes) > 1:
            self._drop_process(next(iter(self._processes)))

    def _add_chain(self, chain: FoundChain) -> None:
        """Add the frames of samples, unless too many wait: samples are unwound in order, so earlier ones are needed first."""
        process = self._process_of(chain.pid)
        if not chain.is_exact:
            self._lags.append(chain.lag)
        size = 1 + len(chain.frames) + len(chain.left)
        if process is None:
            return
        if self._waiting + size > _MOST_WAITING:
            self._drop_lost()
        if self._waiting + size > _MOST_WAITING:
            return
        for moment in chain.times:
            self._chains[chain.tid, moment] = (process, chain)
            self._waiting += size

    def _drop_lost(self) -> None:
        """Drop the frames of samples that were lost, which would already have been unwound."""
        lost_before = self._done_up_to - _LATEST
        if lost_before > self._none_before:
            self._none_before = lost_before
            for key in [key for key in self._chains if key[1] < lost_before]:
                self._take_chain(key)

    def pids(self) -> NDArray[np.uint32]:
        """Return the processes with Python frames."""
        return np.array(list(self._processes), np.uint32)

    def finish(self, latest: int, ends: Iterable[tuple[int, int]]) -> None:
        """Forget what belongs to samples that were lost, and in a live view to ended processes, after a piece of samples.

        Args:
            latest: the time of the last sample.
            ends: process and time of each EXIT that came with the next piece, whose samples may be from before it.
        """
        self._done_up_to = max(self._done_up_to, latest)
        if len(self._chains) >= self._swept_at:
            self._drop_lost()
            self._swept_at = max(2 * len(self._chains), _WORTH_SWEEPING)
        if self._cache is not None:
            return
        for pid in [pid for pid, process in self._processes.items() if process.is_over]:
            self._drop_process(pid)
        for pid, moment in ends:
            process = self._processes.get(pid)
            if process is not None and process.found_at <= moment:  # otherwise the pid was reused
                process.is_over = True
        if self._functions.memory > _MOST_LIVE_FUNCTIONS:
            self._begin_image()

    def _begin_image(self) -> None:
        """Forget all functions. Those of the next samples get addresses in another image."""
        self._last_image = self.image_path, self._functions.image()
        self._forgotten_functions += len(self._functions)
        self._functions, self._image_number = PythonFunctions(), self._image_number + 1
        self._path = ""
        for process in self._processes.values():
            process.placed.clear()
            process.is_mapped = False

    def _take_chain(self, key: tuple[int, int]) -> None:
        _, chain = self._chains.pop(key, (None, None))
        if chain is not None:
            self._waiting -= 1 + len(chain.frames) + len(chain.left)

    # Callchains.

    def add_frames(self, columns: Columns, attr: EventAttr, chains: Ragged, keys: NDArray[np.uint64], unwinder: UserCallchains) -> Ragged:
        """Return the callchains with Python frames. keys: the samples' positions in delivery order."""
        latest = int(columns["time"].max(initial=0))
        self.wait(latest)
        changed: dict[int, list[int]] = {}
        self._batch += 1
        rows = self._rows_with_loops(columns["pid"], chains)
        if len(rows):  # all processes together: many have few samples
            batch = _Batch(columns.take(rows), attr, chains.take(rows), keys[rows], unwinder)
            pids, moments = batch.pids, keys[rows].tolist()
            loops = [self._loops(self._processes[pid], batch, number) for number, pid in enumerate(pids)]
            for number, row in enumerate(rows.tolist()):
                values = self._chain(batch, number, loops[number])
                if values is not None:
                    changed[row] = values
                    self._first[pids[number]] = min(self._first.get(pids[number], moments[number]), moments[number])
        samples = list(zip(columns["pid"].tolist(), columns["tid"].tolist(), columns["time"].tolist(), strict=True))
        self._comms += b"".join(records.encode(comm, self._layout, NATIVE_ENDIAN) for comm in self._names.take(samples, self._identity))
        for _, *key in samples:
            self._take_chain((key[0], key[1]))
        self._done_up_to = max(self._done_up_to, latest)
        return chains if not changed else chains.with_rows(changed)

    def _rows_with_loops(self, pids: NDArray[np.int32], chains: Ragged) -> NDArray[np.intp]:
        """Return the samples of Python processes whose callchains have a frame of an evaluation loop."""
        chosen = [np.zeros(0, np.intp)]
        for pid in distinct(pids).tolist():
            process = self._processes.get(pid)
            if process is not None:
                rows = np.flatnonzero((pids == pid) & (chains.lengths > 0))
                of_process = chains.take(rows)
                if len(rows):
                    chosen.append(rows[np.logical_or.reduceat(process.are_loops(of_process.values), of_process.offsets[:-1])])
        return np.sort(np.concatenate(chosen))

    def _loops(self, process: _Process, batch: _Batch, row: int) -> _Loops:
        """Find the evaluation loops of a sample, and learn from their frames."""
        owner, chain = self._chains.get(batch.key(row), (process, None))
        if chain and chain.is_exact:
            native = batch.user_addresses(row)
            return _Loops(owner, chain, native, owner.loops_among(native), [], {}, _NO_CALLERS, {}, False)
        read, rest = (chain.frames, chain.left) if chain else ([], [])
        codes = owner.ranges.codes
        frames = {address + codes[code].frame_size: NO_FRAME for address, code, _, _ in (*rest, *read)}
        frames |= {address: code for address, code, _, _ in (*rest, *read)}
        native, rules, is_cut = batch.user_frames(row)
        rows = owner.loops_among(native)[:_MOST_LOOPS]
        states = dict(zip(range(rows[-1] + 1), frame_states(*batch.registers_and_stack(row), rules), strict=False))
        states_of_loops = [states.get(number) for number in rows]
        tid = batch.key(row)[0]
        if tid not in owner.callers:
            if len(owner.callers) >= _MOST_THREADS:
                owner.callers.clear()
            owner.callers[tid] = SeenCallers(owner.calls)
        callers = owner.callers[tid]
        if chain:
            callers.add(self._batch, read, is_whole=chain.is_whole)
        for state in states_of_loops:
            if state:
                note_slots(state, owner.ranges, frames, owner.slots)
        return _Loops(owner, chain, native, rows, states_of_loops, frames, callers, callers.before, is_cut)

    def _chain(self, batch: _Batch, row: int, loops: _Loops) -> list[int] | None:
        """Return the callchain of a sample; None without Python frames."""
        owner, chain = loops.owner, loops.chain
        read, rest = (chain.frames, chain.left) if chain else ([], [])
        if chain and chain.is_exact:
            self._copied += 1
            return self._with_frames(batch, row, loops, merging.of_copied_frames(len(loops.rows), read))
        evaluated = [evaluate(state, owner.ranges, loops.frames, owner.slots) if state else None for state in loops.states]
        if owner.version < (3, 11):
            merged = merging.of_old_versions(evaluated, read, is_cut=loops.is_cut)
        else:
            callers, before, is_cut, whole = loops.callers, loops.before, loops.is_cut, chain is not None and chain.is_whole
            merged = merging.merge(
                evaluated, read, owner.ranges.codes, ended_frames=rest, seen_callers=callers, before=before, is_cut=is_cut, is_whole=whole
            )
        return self._with_frames(batch, row, loops, merged)

    def _with_frames(self, batch: _Batch, row: int, loops: _Loops, merged: merging.MergedFrames) -> list[int] | None:
        """Return the chain with the Python frames of each loop; None if there are none."""
        owner = loops.owner
        self.counts[merged.grade] += 1
        self.completed[batch.copy_size] += _has_all_callers(loops, merged)
        frames = dict(zip(loops.rows, merged.loops, strict=True))
        if not any(frames.values()):
            return None
        all_frames = [frame for number in loops.rows for frame in frames.get(number) or ()]
        blocked, awaited = self._blocked_loop(batch, row, loops, all_frames), self._awaited(loops, all_frames)
        values = batch.kernel_part(row)
        state = self._gil_state(batch, row, loops)
        after = 0  # the first native frame within the loop
        for number, value in enumerate(loops.native):
            python_frames = frames.get(number)
            holder = self._lock_holder(owner, loops.chain) if python_frames and state == GilState.WAITS and loops.chain else []
            called = self._called_function(batch, row, range(after, number), owner, python_frames[0]) if python_frames else []
            if called:
                values += [*holder, *called]
                holder = []
            values.append(value)
            after = number + 1 if number in frames else after
            if python_frames:
                addresses = self._addresses(owner, python_frames)
                if 0 <= blocked < len(python_frames) == len(addresses):
                    addresses = [*addresses[:blocked], *self._function(owner, MARK), *addresses[blocked:]]
                if 0 <= awaited < len(python_frames) <= len(addresses) and loops.chain:  # within the turn: the mark is behind it
                    awaiting = [*self._function(owner, AWAITED), *self._addresses(owner, loops.chain.awaiting)]
                    addresses = [*addresses[:awaited], *awaiting, *addresses[awaited:]]
                blocked, awaited = blocked - len(python_frames), awaited - len(python_frames)
                addresses = [*holder, *addresses]
                if addresses:  # the innermost frame of all has the state
                    addresses[0] += mapping_of(state) - FIRST_ADDRESS
                    state = GilState.UNKNOWN
                values += addresses
        return values

    def _called_function(self, batch: _Batch, row: int, inside: range, process: _Process, frame: merging.Frame) -> list[int]:
        """Return the address of the C function that a loop called for its innermost Python frame; empty without one.

        Args:
            batch, row: the sample.
            inside: the positions of the native frames within the loop, innermost first.
            process: of the sample.
            frame: the Python frame.
        """
        if not inside:
            return []
        code, offset = frame
        name_of_call = process.called_names.get((code, offset or 0), "") if not inside.start else ""
        name, is_in_table = self._called.find(*batch.native_frames(row, inside), name_of_call)
        return self._functions.address_of_call(name, (process.ranges.codes[code], offset), process.version, is_in_table) if name else []

    def _gil_state(self, batch: _Batch, row: int, loops: _Loops) -> GilState:
        """Return whether the thread had the GIL; a thread that waits for it does so on a futex in the lock."""
        state = GilState(loops.chain.gil[0]) if loops.chain else GilState.UNKNOWN
        gil = loops.owner.gil
        is_waiting = state != GilState.HOLDS and gil and gil <= batch.first_argument(row) < gil + _SIZE_OF_GIL
        return GilState.WAITS if is_waiting else state

    def _blocked_loop(self, batch: _Batch, row: int, loops: _Loops, frames: list[merging.Frame]) -> int:
        """Return the position of an event loop's turn among all Python frames if it has blocked the loop for long; -1 otherwise."""
        if loops.chain is None or not loops.chain.turn_began:
            return -1
        codes, (tid, moment) = loops.owner.ranges.codes, batch.key(row)
        return self.blocked_loops.find([codes[number] for number, _ in frames], tid, loops.chain.turn_began, moment)

    def _awaited(self, loops: _Loops, frames: list[merging.Frame]) -> int:
        """Return the position of the event loop's call of a task among all Python frames if coroutines await that task; -1 otherwise."""
        if loops.chain is None or not loops.chain.awaiting:
            return -1
        codes = [loops.owner.ranges.codes[number] for number, _ in frames]
        return next((row for row, code in enumerate(codes) if row and is_callback(code.name, code.filename)), -1)

    def _lock_holder(self, process: _Process, chain: FoundChain) -> list[int]:
        """Return the address of a function that stands for the thread that holds the GIL."""
        _, tid, code = chain.gil
        return self._function(process, lock_holder(tid, process.ranges.codes.get(code)))

    def _function(self, process: _Process, code: FoundCode) -> list[int]:
        """Return the address of a function that stands for something else; empty if no addresses are left."""
        function = self._functions.addresses_of(code, process.version)
        return [] if function is None else [function.address(None)]

    def _addresses(self, process: _Process, frames: Iterable[merging.Frame]) -> list[int]:
        addresses = []
        for number, offset in frames:
            if number not in process.placed:
                process.placed[number] = self._functions.addresses_of(process.ranges.codes[number], process.version)
            function = process.placed[number]
            if function is not None:
                addresses.append(function.address(offset))
        return addresses

    # What reports need.

    def take_side_band(self) -> bytes:
        """Return records that name threads anew, and records that map functions into processes without them."""
        first, self._first = self._first, {}
        mappings, self._comms = self._comms, b""
        for pid, moment in first.items():
            process = self._processes.get(pid)
            if process is None or not process.is_mapped:
                if process is not None:
                    process.is_mapped = True
                for state in GilState:
                    code = (mapping_of(state), MAPPED_SIZE, IMAGE_OFFSET)
                    record = code_mapping((pid, pid), code, self.image_path, moment, self._identity)
                    mappings += records.encode(record, self._layout, NATIVE_ENDIAN)
        return mappings

    @property
    def image_path(self) -> str:
        """The path of the image, in a new folder."""
        if not self._path:
            cache = self._cache or files.build_id_cache()
            jit = f"jit/{self._image_number}" if self._image_number else "jit"
            folder = files.below(cache, jit) if self._cache is None else new_folder(cache)
            self._path = files.below(folder, files.PYTHON_IMAGE)
        return self._path

    @property
    def function_count(self) -> int:
        """The number of functions so far."""
        return self._forgotten_functions + len(self._functions)

    def write_images(self) -> Iterator[tuple[str, bytes]]:
        """Write the image, and yield its path and bytes; nothing without functions. An image with forgotten functions comes first."""
        if self._last_image is not None:
            yield self._last_image
            self._last_image = None
        if not len(self._functions):
            return
        image = self._functions.image()
        if self._functions.missing:
            self._refused[0] = self._functions.missing
        if self._cache is not None:
            try:
                write_image(self.image_path, image)
            except OSError as error:
                self._refused[0] = f"{self.image_path}: {error.strerror}; perf has no names of Python functions"
        yield self.image_path, image

    def notes(self) -> list[str]:
        """Return the lines of the final note."""
        return notes(self.summary())

    def summary(self) -> PythonSummary:
        """Summarize all samples."""
        lags = sorted(self._lags)
        middle = lags[len(lags) // 2] if lags else 0
        return PythonSummary(tuple(self.counts), len(self._functions), middle, self._refused, self._copied, self.blocked_loops)


class _Batch:
    """The samples of Python processes that are in evaluation loops. Their rules are looked up together."""

    def __init__(self, columns: Columns, attr: EventAttr, chains: Ragged, keys: NDArray[np.uint64], unwinder: UserCallchains) -> None:
        self._columns = columns
        self._chains = chains
        self.copy_size = attr.sample_stack_user
        self.pids: list[int] = columns["pid"].tolist()
        self._tids: list[int] = columns["tid"].tolist()
        self._times: list[int] = columns["time"].tolist()
        after_markers = np.where(chains.values == np.uint64(CONTEXT_USER), np.arange(1, len(chains.values) + 1), 0)
        first = chains.offsets[:-1]
        self._begins: list[int] = np.maximum(np.maximum.reduceat(after_markers, first), first).tolist()  # of the user's addresses
        self._offsets: list[int] = chains.offsets.tolist()
        self._registers = columns["user_regs"].gather()
        self._numbers = [FROM_PERF.get(bit, -1) for bit in range(attr.sample_regs_user.bit_length()) if attr.sample_regs_user >> bit & 1]
        self._keys = keys
        self._unwinder = unwinder
        self._frames: tuple[Symbolizer, NDArray[np.int32]] | None = None
        self._rules: list[FrameRules] | None = None
        self._ends: NDArray[np.bool_] = np.zeros(0, bool)

    def _load_rules(self) -> list[FrameRules]:
        """Return the rules of all frames, loaded at the first use: copied frames need none."""
        if self._rules is None:
            columns, chains = self._columns, self._chains
            repeated = np.repeat(np.arange(len(chains)), chains.lengths)
            abi = int(columns["user_regs_abi"][0]) if columns.rows else 0
            rules = self._unwinder.frame_rules(abi, columns["pid"][repeated], self._keys[repeated], chains.values) if columns.rows else None
            self._rules, self._ends = rules or ([], self._ends)
        return self._rules

    def first_argument(self, row: int) -> int:
        """Return the register rdi; of a thread in futex(2) it has the futex's address."""
        return int(self._registers[row][self._numbers.index(_FIRST_ARGUMENT)]) if _FIRST_ARGUMENT in self._numbers else 0

    def key(self, row: int) -> tuple[int, int]:
        """Return the thread and the time of a sample."""
        return self._tids[row], self._times[row]

    def kernel_part(self, row: int) -> list[int]:
        """Return the addresses before the user's, with the marker between them."""
        addresses: list[int] = self._chains.values[self._offsets[row] : self._begins[row]].tolist()
        return addresses

    def user_addresses(self, row: int) -> list[int]:
        """Return the user addresses of a chain."""
        addresses: list[int] = self._chains.values[self._begins[row] : self._offsets[row + 1]].tolist()
        return addresses

    def native_frames(self, row: int, positions: range) -> tuple[Symbolizer, NDArray[np.int32]]:
        """Return the frames at some positions of the user part, as callers except the first of all, and the symbolizer that has them."""
        if self._frames is None:
            chains = self._chains
            repeated = np.repeat(np.arange(len(chains)), chains.lengths)
            self._frames = self._unwinder.frames_at(self._columns["pid"][repeated], self._keys[repeated], chains.values)
        begin = self._begins[row]
        return self._frames[0], self._frames[1][begin + positions.start : begin + positions.stop]

    def user_frames(self, row: int) -> tuple[list[int], list[FrameRules], bool]:
        """Return the user addresses, their rules, and whether outer frames may be missing."""
        rules = self._load_rules()
        begin, end = self._begins[row], self._offsets[row + 1]
        return self.user_addresses(row), rules[begin:end], not (end > begin and len(self._ends) and self._ends[end - 1])

    def registers_and_stack(self, row: int) -> tuple[dict[int, int], StackCopy]:
        values = self._registers[row].tolist()
        registers = {number: value for number, value in zip(self._numbers, values, strict=False) if number >= 0}
        return registers, StackCopy(stack_words(self._columns, row), registers.get(STACK_POINTER, 0))


# Python functions as code at addresses, and the ELF image with their symbols and lines. A function that several processes run has one
# range of addresses (see perfpy.capture.python_frames). The image contains no code: its .text has only zeros.

IMAGE_OFFSET: Final = 0x1000  #: the file offset of FIRST_ADDRESS in the image
_ALIGNMENT: Final = 16
_BEFORE: Final = 2  # bytes before a function's first instruction; addresses there mean an unknown line
_LARGEST_IMAGE: Final = 64 << 20  # bytes of code; of 100,000 functions
_MOST_MEMORY: Final = 256 << 20  # bytes of the code objects of all functions
_MOST_LINES: Final = 1 << 19
_MOST_SITES: Final = 1 << 9  # addresses of a C function: two for each line that calls it, after two for all others
_MOST_CALLED: Final = 1 << 13  # C functions
_MOST_TABLES: Final = 1 << 12  # decoded tables of lines
_MACHINE: Final = 62  # EM_X86_64


class PlacedFunction(NamedTuple):
    """A function and its addresses. size: in bytes, including the two before its instructions."""

    begin: int
    size: int
    code: FoundCode
    version: tuple[int, int]

    def address(self, offset: int | None) -> int:
        """Return the address of an instruction; for None, the address of a function with an unknown line."""
        if offset is None or offset < 0:
            return self.begin if offset is None else self.begin + _BEFORE
        return min(self.begin + _BEFORE + offset, self.begin + self.size - 1)


class _CalledFunction:
    """A C function and the addresses that stand for its calls. lines: file and line of each call, after an address without a line."""

    def __init__(self, begin: int, name: str, path: str) -> None:
        self.begin = begin
        self.path = path
        self.symbol = f"{PYTHON_MARK}{name}:{path}"
        self.lines: dict[tuple[str, int], int] = {}

    def address(self, file: str, line: int) -> int:
        """Return the address of a call."""
        if (file, line) not in self.lines and line and len(self.lines) < _MOST_SITES // 2 - 1:
            self.lines[file, line] = self.begin + 2 * (1 + len(self.lines))
        begin = self.lines.get((file, line))
        return self.begin if begin is None else begin + 1  # reports look up callers at the address before theirs


class PythonFunctions:
    """All functions of a recording.

    Attributes:
        memory: the bytes of the code objects.
        missing: what is not in the image, "" for nothing.
    """

    def __init__(self) -> None:
        self._functions: dict[tuple[object, ...], PlacedFunction] = {}
        self._called: dict[tuple[str, str], _CalledFunction] = {}
        self._lines: dict[int, tuple[bytes, Lines]] = {}
        self._end = FIRST_ADDRESS
        self.memory = 0
        self.missing = ""

    def __len__(self) -> int:
        return len(self._functions)

    def addresses_of(self, code: FoundCode, version: tuple[int, int]) -> PlacedFunction | None:
        """Return a function's addresses, and allocate them for a new function; None if no addresses are left."""
        key = (code.filename, code.name, code.first_line, code.end - code.begin, code.lines, version)
        function = self._functions.get(key)
        if function is None:
            size = code.end - code.begin + _BEFORE
            if self._end + size > FIRST_ADDRESS + MAPPED_SIZE or self.memory + code.memory > _MOST_MEMORY:
                self.missing = f"more than {len(self._functions)} functions; the later ones have no names"
                return None
            self.memory += code.memory
            function = self._functions[key] = PlacedFunction(self._end, size, code, version)
            self._end += (size + _ALIGNMENT - 1) & -_ALIGNMENT
        return function

    def address_of_call(self, name: str, frame: tuple[FoundCode, int | None], version: tuple[int, int], is_in_table: bool) -> list[int]:
        """Return the address of a C function, called by a frame (its code and offset); empty if no addresses are left.

        is_in_table: whether a method table has the name; otherwise it is that of the call.
        """
        path = BUILT_IN if is_in_table else BUILT_IN_BY_CALL
        function = self._called.get((name, path))
        if function is None:
            if self._end + _MOST_SITES > FIRST_ADDRESS + MAPPED_SIZE or len(self._called) >= _MOST_CALLED:
                return []
            function = self._called[name, path] = _CalledFunction(self._end, name, path)
            self._end += _MOST_SITES
        code, offset = frame
        return [function.address(_one_line(code.filename), self._line(code, offset, version))]

    def _line(self, code: FoundCode, offset: int | None, version: tuple[int, int]) -> int:
        """Return the line of an instruction, 0 if it is unknown."""
        if offset is None:
            return 0
        table, lines = self._lines.get(code.number, (b"", []))
        if table != code.lines:
            if len(self._lines) >= _MOST_TABLES:
                self._lines.clear()
            lines = decode_lines(code.lines, code.first_line, version)
            self._lines[code.number] = code.lines, lines
        row = bisect_right(lines, offset, key=lambda one: one[0]) - 1
        return lines[row][1] if row >= 0 else 0

    def image(self) -> bytes:
        """Build the ELF file of all functions."""
        shift = IMAGE_OFFSET - FIRST_ADDRESS
        functions = list(self._functions.values())
        size = min(self._end - FIRST_ADDRESS, _LARGEST_IMAGE)
        if size == _LARGEST_IMAGE:
            functions = [one for one in functions if one.begin + one.size <= FIRST_ADDRESS + size]
            self.missing = f"more than {_LARGEST_IMAGE >> 20} MB of code; the later functions have no names"
        symbols = [
            (f"{PYTHON_MARK}{_one_line(one.code.name)}:{_one_line(one.code.filename)}", one.begin + shift, one.size) for one in functions
        ]
        called = [one for one in self._called.values() if one.begin + _MOST_SITES <= FIRST_ADDRESS + size]
        symbols += [(one.symbol, one.begin + shift, _MOST_SITES) for one in called]
        lines = self._all_lines(functions, shift)
        for one in called:
            lines.append(CodeLine(one.begin + shift, one.path, 0))
            lines += [CodeLine(address + shift, *line) for line, address in one.lines.items()]
        sections = [Section(b".text", 1, 6, bytes(size), align=16)]
        sections += [Section(name, 1, 0, data) for name, data in debug_sections(lines, IMAGE_OFFSET, size).items()]
        return jitdump.shared_object(sections, symbols, _MACHINE, text_offset=IMAGE_OFFSET)

    def _all_lines(self, functions: Iterable[PlacedFunction], shift: int) -> list[CodeLine]:
        """Return the lines of all functions. If they are too many, those with the longest tables have only the first one."""
        lines: list[CodeLine] = []
        for one in sorted(functions, key=lambda one: len(one.code.lines)):
            room = _MOST_LINES - len(lines)
            lines += islice(_lines(one, shift), max(room, 1))
            if room <= 1:
                self.missing = self.missing or f"more than {_MOST_LINES} source lines; the longest functions have only their first one"
        return lines


def lock_holder(tid: int, code: FoundCode | None) -> FoundCode:
    """Return a function that stands for the thread for whose lock others wait.

    Args:
        tid: the thread's number; 0 if it is unknown.
        code: the function that it runs.
    """
    thread = f"thread {tid}" if tid else "another thread"
    name = f"[GIL held by {code.name}, {thread}]" if code else f"[GIL held by {thread}]"
    return FoundCode(0, -1, 0, 0, 2, name, code.filename if code else "<GIL>", code.first_line if code else 0, b"", 0)


def _one_line(text: str) -> str:
    if text and text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text) or "?"


def _lines(function: PlacedFunction, shift: int) -> Iterable[CodeLine]:
    code = function.code
    file, begin = _one_line(code.filename), function.begin + shift
    yield CodeLine(begin, file, code.first_line)
    for offset, line in decode_lines(code.lines, code.first_line, function.version):
        if 0 <= offset < code.end - code.begin:
            yield CodeLine(begin + _BEFORE + offset, file, line or code.first_line)


# The final note of a recording with Python frames: their number and quality.


class PythonSummary(NamedTuple):
    """The quality of a recording's Python frames.

    Attributes:
        counts: samples by grade (see merging).
        functions: the number of functions.
        lag: median time from a sample to its reading, ns.
        refused: pid -> why its memory was not read; pid 0: another problem.
        copied: samples whose frames the kernel copied.
        blocked_loops: the turns of event loops that lasted long.
    """

    counts: tuple[int, ...]
    functions: int
    lag: int
    refused: dict[int, str]
    copied: int = 0
    blocked_loops: BlockedLoops | None = None


def notes(summary: PythonSummary) -> list[str]:
    """Return the lines of the note."""
    total = sum(summary.counts)
    lines = []
    if total:
        known_count = total - summary.counts[UNKNOWN]
        lines.append(
            f"[ perf record: --python: {summary.functions} functions in {known_count} of {total} samples of Python code"
            f"{_describe_doubts(summary.counts)}; {_describe_lag(summary, known_count)} ]"
        )
    if (unknown := summary.counts[UNKNOWN]) >= max(_MANY_UNKNOWN * total, _WORTH_A_NOTE) and not summary.refused:
        lines.append(
            f"note: --python: {unknown} of {total} samples of Python code have no functions; their threads end too soon to be read"
        )
    if summary.blocked_loops is not None and summary.blocked_loops.count:
        lines.append(_describe_blocked_loops(summary.blocked_loops))
    for pid, reason in sorted(summary.refused.items())[:3]:
        lines.append(f"warning: --python: {f'process {pid}: ' if pid else ''}{reason}")
    if not total and not summary.refused:
        lines.append("note: --python: no sample was taken in CPython's evaluation loop; perfpy stacks -p PID shows where a program waits")
    return lines


def _describe_blocked_loops(blocked: BlockedLoops) -> str:
    """Return how often event loops were blocked, for how long, and by what at most."""
    times = f"{blocked.count:,} {plural(blocked.count, 'time')}"
    code = blocked.callback
    name = f" by {visible(code.name)} ({visible(code.filename.rpartition('/')[2])}:{code.first_line})" if code else ""
    return f"note: --python: callbacks blocked the event loop for over 100 ms {times}, for {blocked.longest / 1e6:,.0f} ms or longer{name}"


def _describe_lag(summary: PythonSummary, sample_count: int) -> str:
    """Return when the frames were read."""
    late = f"read {summary.lag / 1e6:.2f} ms after their samples"
    if not summary.copied:
        return f"frames were {late}"
    others = sample_count - summary.copied
    return f"the kernel copied frames with their samples{f'; frames of {others} samples were {late}' if others > 0 else ''}"


def _describe_doubts(counts: tuple[int, ...]) -> str:
    """Count the samples that are less than exact."""
    doubts = [
        (counts[SEEN], "with callers as at other moments"),
        (counts[OPEN_LINES], "without the line of a caller"),
        (counts[UNPROVEN], "by the number of calls alone"),
        (counts[PARTIAL], "without Python callers"),
    ]
    text = ", ".join(f"{count} {words}" for count, words in doubts if count)
    return f" ({counts[EXACT]} exact, {text})" if text else ""
