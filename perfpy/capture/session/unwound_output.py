"""The output of a recording whose records another process rewrites while it runs.

Records with a stack copy become plain callchains; they are written as the unwinding process returns them. A round in the file
is one or more rounds of the ring buffers. If that process ends early, everything that it has not returned, and all later
records, go to a file of raw stacks; with --keep-stacks everything does.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.perf_records import HeaderAttr, encode
from perfpy.capture.counter import Counter
from perfpy.capture.record_options import STANDARD_OUTPUT
from perfpy.capture.session.output import DataFile, RecordOutput
from perfpy.capture.unwinding import process
from perfpy.capture.unwinding.process import (
    READER_COMM,
    Extent,
    SharedProcesses,
    Spool,
    UnwindingProcess,
    has_stacks,
    nameless_file,
    plain_attr,
    run_child,
)
from perfpy.errors import KernelRefusedError, OutputFailedError, UsageError
from perfpy.perfdata.writer import FileWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.off_cpu_events import WaitPlan
    from perfpy.capture.python_frames.kernel_frames import FrameCopier, FrameMaps
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.events.event import Event
    from perfpy.kernel.procfs import ProcFs
    from perfpy.perfdata.writer import Packer, Slice

    Serve = Callable[..., None]


_PIECE: Final = 48 << 20  # bytes; smaller pieces cost more for each sample
_FIRST_MOMENT: Final = 0.1  # seconds after which less is a piece, too: programs start then, and with them mappings
_MOMENT: Final = 1.0  # the same, later on
_AT_ONCE: Final = 4  # parts of finished records
_PATIENCE: Final = 60.0  # seconds for its start: with cold disks and busy or emulated CPUs, numpy alone takes ten
_LOWEST_PRIORITY: Final = 19  # nice value
_HIGHER: Final = 10  # how much lower the nice value of a process becomes that reads runtimes' memory
_LATE: Final = 3.0  # seconds after which the user is informed
MOST_WAIT: Final = 4.0  #: seconds at the end after which the remaining stacks are left, in a recording for the sake of some processes
_SLOW: Final = 1.0  # seconds at the end after which the user is informed
_DEFAULT_NAME: Final = "perf.data"
_STACKS: Final = ".stacks"


class UnwoundOutput(RecordOutput):
    """A RecordOutput whose stacks another process unwinds.

    Args:
        serve: the function of that process.
        tell: called with each line for the user.
        keep_stacks: also write the raw stacks beside it.
        new_reader: starts the process that reads Python frames (record --python).
        concerned: the processes whose stacks are unwound; those of their stacks that take too long at the end are left; None for all.

    Attributes:
        piece: bytes that are rewritten at once.
        most: bytes of the file above which records are dropped (--max-size).
        unwinds_late: unwind at the lowest priority during the recording (--unwind-late).
        after_round: called after all ring buffers were read.
        stack_file: creates the file of raw stacks; set before the first record.
        frame_copier: copies Python frames, until it is attached.
        frame_counters: its own counters, closed with the last file.
        images: at the end, images of functions by file name.
        hits: at the end, the files that samples hit, in the format of DsoHits.to_bytes().
    """

    def __init__(
        self,
        path: str,
        packer: Packer | None,
        serve: Serve,
        *,
        tell: Callable[[str], None],
        keep_stacks: bool = False,
        new_reader: Callable[[Spool], ReaderProcess] | None = None,
        concerned: SharedProcesses | None = None,
    ) -> None:
        super().__init__(path, packer)
        self.tell = tell
        self.piece = _PIECE
        self.most, self.unwinds_late = 0, False
        self.after_round: Callable[[], None] | None = None
        self._keep_stacks = keep_stacks
        self._spool = Spool(os.path.dirname(os.path.abspath(path)) if path != STANDARD_OUTPUT else os.getcwd())
        self._reader = new_reader(self._spool) if new_reader else None
        if self._reader is None:
            self._process = UnwindingProcess(self._spool, serve)
        else:
            self._process = UnwindingProcess(self._spool, partial(serve, python=self._reader.answers), also=self._reader.answers)
            self._reader.close_answers()
        self._stacks: StackFile | None = None
        self.stack_file: Callable[[], StackFile] | None = None
        self.frame_copier: FrameCopier | None = None
        self.frame_counters: list[Counter] = []
        self.hits = b""
        self._concerned = concerned
        self._lines: dict[int, bytearray] = {}
        self._side_band = SideBandLog(self._spool.folder)
        self._knows = True  # whether written records are also for the other process
        self._begun = 0.0  # start of the open piece
        self._moment = _FIRST_MOMENT
        self._ready = self._finished = self._is_over = self._has_rounds = False
        self._unwinds = True  # False after it was given up
        self._taken_bytes = 0
        self._parts: list[bytes] = []  # of the incoming piece
        self._finished_parts: list[bytes | None] = []  # None: the end of a round
        self.others = (self._process.pid, *((self._reader.pid,) if self._reader else ()))
        self.answers = self

    @property
    def bytes_read(self) -> int:
        """Bytes read from the ring buffers."""
        return self._taken_bytes

    def names(self) -> dict[int, bytes]:
        """Return lines of perf maps from the other process, by pid."""
        return {pid: bytes(lines) for pid, lines in self._lines.items()}

    @property
    def stacks_path(self) -> str:
        """The path of the raw stacks."""
        return (_DEFAULT_NAME if self.is_pipe else self.path) + _STACKS

    # before the recording

    def expect(self, events: Iterable[tuple[EventAttr, tuple[int, ...]]], features: Mapping[int, bytes] | None = None) -> None:
        """Send the attrs and ids of the events to the other process.

        features are the file's, for the case that that process has to complete it.
        """
        self._spool.write([encode(HeaderAttr(0, attr, ids), NATIVE_ENDIAN) for attr, ids in events])
        self._process.ask(process.EVENTS, self._spool.close_piece())
        if features:
            self._spool.write([process.encode_features(features)])
            self._process.ask(process.FEATURES, self._spool.close_piece())

    def write(self, *slices: Slice) -> None:
        """Append records unchanged; synthesized records also go to the other process."""
        super().write(*slices)
        if not self._knows:  # at the start of a further file
            self.writer.mark()
        else:
            self._spool.write(slices)
            self._side_band.append(b"".join(slices))

    def start(self, signal_fd: int = -1) -> None:
        """Start the recording: wait until the other process is ready, or a signal requests the end."""
        self._process.ask(process.KNOWN, self._spool.close_piece())
        self._knows = False
        self.writer.mark()
        begun, is_reported = time.monotonic(), False
        while self._process.alive and not self._ready and (passed := time.monotonic() - begun) < _PATIENCE and not _is_readable(signal_fd):
            if passed >= _LATE and not is_reported:
                self.tell("[ perf record: waiting for the unwinding process to start ]")
                is_reported = True
            self._process.wait((_PATIENCE if is_reported else _LATE) - passed, signal_fd)
            self.take()
        if self._keep_stacks:
            self._open_stacks(all_of_it=True)
        if not self._ready:
            self._give_up("unwinding did not start")
        elif self.unwinds_late:  # not before: the recorder waits for the start
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _LOWEST_PRIORITY)

    # during the recording

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Take records of a ring buffer."""
        self._taken_bytes += sum(map(len, slices))
        if self._stacks:
            self._stacks.write_ring(slices)
        if self._unwinds:
            if not self._spool.size:
                self._begun = time.monotonic()
            extents = self._spool.write(slices)
            if self._reader:
                self._reader.look(extents)

    def end_round(self) -> None:
        """Called after all ring buffers were read."""
        if self._stacks:
            self._stacks.end_round()
        if self.after_round:
            self.after_round()
        self.take()
        if self._spool.size >= self.piece or time.monotonic() - self._begun >= self._moment:
            self._send_piece()
            self._moment = min(2 * self._moment, _MOMENT)

    def _send_piece(self) -> None:
        if self._unwinds and self._spool.size:
            self._process.ask(process.PIECE, self._spool.close_piece())

    def fileno(self) -> int:
        """Return the descriptor to poll for answers."""
        return self._process.answers

    def take(self) -> bool:
        """Write records from the other process; return False at the end."""
        for kind, data in self._process.take():
            if kind == process.READY:
                self._ready = True
                while len(self._spool):  # nothing was sent after the state that it is ready with
                    self._spool.release_first()
            elif kind == process.SIDE_BAND:
                self._side_band.append(data)
            elif kind == process.RECORDS:
                self._parts.append(data)
            elif kind == process.PIECE_DONE:  # partial pieces are not written: the process may end in the middle
                self._finished_parts += [*self._parts, None]
                self._parts.clear()
                self._spool.release_first()
            else:
                self._learn(kind, data)
        self._write_parts(_AT_ONCE)
        if self._unwinds and self._ready and not (self._process.alive or self._finished):
            self._give_up("the unwinding process has ended")
        return self._process.alive

    def _learn(self, kind: int, data: bytes) -> None:
        """Take an answer other than records."""
        if kind == process.NAMES:
            pid, lines = process.decode_names(data)
            self._lines.setdefault(pid, bytearray()).extend(lines)
        elif kind == process.IMAGE:
            name, _, image = data.partition(b"\0")
            self.images[os.fsdecode(name)] = image
        elif kind == process.HITS:
            self.hits = data
        elif kind == process.LEFT:
            self.left = int.from_bytes(data, sys.byteorder)
        elif kind == process.NOTE:
            self.tell(data.decode("utf-8", "replace"))
        elif kind == process.FINISHED:
            self._finished = True

    def _write_parts(self, most: int | None = None) -> None:
        """Write finished records, a few at a time, because the ring buffers fill meanwhile."""
        parts, self._finished_parts = self._finished_parts[:most], self._finished_parts[most:] if most else []
        for part in parts:
            if self._is_full:
                return
            if part is None:
                super().end_round()
                self._has_rounds = True
                if isinstance(self.writer, FileWriter):
                    self._process.ask(process.WRITTEN, [Extent(os.fstat(self.writer.fd).st_ino, 0, self.writer.size)])
            else:
                super().write_ring([part])

    @property
    def _is_full(self) -> bool:
        """Whether the file has the requested size and a round: the synthesized records may be as large."""
        return self._has_rounds and 0 < self.most <= self.size

    # the end

    def complete(self, signal_fd: int, hurried: Callable[[], bool]) -> None:
        """Wait for the remaining records. signal_fd becomes readable with a signal; hurried returns whether not to wait."""
        try:
            if not self._is_full:
                self._send_piece()
            if self._reader:
                self._reader.finish()
            self._process.ask(process.END)
            with suppress(OSError):  # unwinding no longer disturbs the measured program (record --unwind-late)
                os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0))
            self.take()
            if self._unwinds and not self._finished:
                self._wait_for_rest(signal_fd, hurried)
            self._write_parts()
        finally:
            self._is_over = True
            if not self._finished:
                self._process.kill()
            self._process.close()
            self._close_reader()
            self._spool.close()
            self._side_band.close()

    def _close_reader(self) -> None:
        if self._reader:
            self._reader.close()

    def _wait_for_rest(self, signal_fd: int, hurried: Callable[[], bool]) -> None:
        end, latest = (time.monotonic() + limit for limit in (_SLOW, MOST_WAIT))
        while self._unwinds and not self._finished:
            self._process.wait(max(end - time.monotonic(), 0.0) if end else _SLOW, signal_fd)
            self.take()
            if self._concerned and time.monotonic() >= latest:
                self._concerned.end_unwinding()
            if hurried():
                self._process.kill()
                self._give_up("unwinding was interrupted")
            elif end and time.monotonic() >= end and not self._finished:
                end = 0.0
                self.tell("note: unwinding the remaining stacks; Ctrl-C stores them as they are")

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the current file; with the last one also that of the raw stacks, if there is one."""
        try:
            super().finish(features)
        finally:
            for counter in self.frame_counters if self._is_over else ():
                counter.close()
            if self._stacks and self._is_over:
                self._stacks.end()

    def abandon(self) -> None:
        """End the process, and remove the file: nothing was recorded."""
        self._process.kill()
        self._process.close()
        self._close_reader()
        self._spool.close()
        self._side_band.close()
        super().abandon()

    def _open_stacks(self, *, all_of_it: bool) -> None:
        assert self.stack_file is not None
        self._stacks = self.stack_file()
        self._stacks.begin(None if all_of_it else self._side_band.pieces())

    def _give_up(self, why: str) -> None:
        """Store stacks unchanged from here on."""
        self._unwinds = False
        if self._is_full:
            return
        waiting = self._spool.take_all() if self._ready else []  # before that, it is not from the ring buffers
        has_all = self._stacks is not None
        if not has_all:
            self._open_stacks(all_of_it=False)
            assert self._stacks is not None
            self._stacks.write_ring(waiting)
            self._stacks.end_round()
        samples = "all samples" if has_all else "the samples that were not unwound"
        self.tell(f"warning: {why}; {samples} are stored with their stacks in {self.stacks_path}")


def _is_readable(fd: int) -> bool:
    poller = select.poll()
    if fd >= 0:
        poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))


# The file of raw stacks beside a recording with --unwind, as `--call-graph dwarf` would write it. With --keep-stacks it begins with the
# recording. If unwinding fails it begins in the middle, with the tasks and mappings known by then before the first sample.


class StackFile:
    """One file. output is its destination; data_file writes its start and end, with the kernel's attrs."""

    def __init__(self, output: RecordOutput, data_file: DataFile) -> None:
        self._output = output
        self._data_file = data_file

    def begin(self, side_band: Iterable[bytes] | None) -> None:
        """Write everything before the samples. known has the records of tasks and mappings; None: nothing was recorded yet."""
        if side_band is None:
            self._data_file.begin()
        else:
            self._data_file.resume(side_band)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer."""
        self._output.write_ring(slices)

    def end_round(self) -> None:
        """Mark the end of a round."""
        self._output.end_round()

    def end(self) -> None:
        """Complete the file."""
        self._data_file.end()


# A copy of all side-band records, for a second file that begins in the middle of the recording. It is a nameless file, because a
# recording may be long.

_LOG_PIECE: Final = 1 << 20


class SideBandLog:
    """The log of one recording. folder is where its file is created."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd = nameless_file(folder)
        self._size = 0

    def append(self, records: bytes) -> None:
        """Append records."""
        written = 0
        try:
            while written < len(records):
                written += os.pwrite(self._fd, records[written:], self._size + written)
        except OSError as error:
            raise OutputFailedError(self._folder, os.strerror(error.errno or 0), remedy="free some space") from None
        self._size += written

    def pieces(self) -> Iterator[bytes]:
        """Yield the records in pieces, which may end inside records."""
        for offset in range(0, self._size, _LOG_PIECE):
            yield os.pread(self._fd, min(_LOG_PIECE, self._size - offset), offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


# record --unwind and --off-cpu: the parts of a recording whose records another process rewrites while it runs.


_PIECE_OF_WAITS: Final = 8 << 20  # bytes; small pieces cost no more
_MOST_OF_CHOSEN: Final = 4000  # stacks of switches a second
_MOST_OF_ALL: Final = 1000  # the same, on each CPU
_THREADS_OF_NUMPY: Final = "OPENBLAS_NUM_THREADS"


def open_output(
    options: RecordOptions,
    packer: Packer | None,
    events: Sequence[Event],
    tell: Callable[[str], None],
    plan: WaitPlan | None = None,
    copier: FrameCopier | None = None,
) -> UnwoundOutput:
    """Open the output, and start the process that unwinds. Raises UsageError if there is nothing to unwind.

    Args:
        plan: how switches become waits, if any.
        copier: copies Python frames, if the kernel permits it.
    """
    if options.sampling.unwind and not any(has_stacks(event.attr) for event in events):
        raise UsageError("--unwind: no event has callchains of DWARF stacks")
    only = None if options.sampling.unwind or plan is None else (plan.switches,)
    if options.python:
        _load_shared_modules()
    around = options.sampling.unwind_around
    concerned = SharedProcesses(around) if around is not None else None
    new_reader = partial(_new_reader, events[0].attr, copier.maps if copier else None, concerned) if options.python else None
    serve = partial(_serve, plan, only, options, concerned)
    keeps = options.sampling.keep_stacks
    output = UnwoundOutput(options.output.path, packer, serve, tell=tell, keep_stacks=keeps, new_reader=new_reader, concerned=concerned)
    output.unwinds_late = options.sampling.unwind_late
    output.frame_copier = copier
    output.most = options.output.max_size
    if not options.sampling.unwind:
        output.piece = _PIECE_OF_WAITS
    return output


def _load_shared_modules() -> None:
    """Load numpy and what both processes need before they are forked, as this one needs numpy at the end, too.

    Loaded three times, it took half of the processor time of a recording of seconds. numpy's linear algebra must not start threads: a fork
    copies none.
    """
    thread_count = os.environ.get(_THREADS_OF_NUMPY)
    os.environ[_THREADS_OF_NUMPY] = "1"
    try:
        import perfpy.capture.runtimes.rewriting
        import perfpy.capture.unwinding.python_reader
        import perfpy.capture.unwinding.serving  # noqa: F401
    finally:  # the workload inherits the environment
        if thread_count is None:
            del os.environ[_THREADS_OF_NUMPY]
        else:
            os.environ[_THREADS_OF_NUMPY] = thread_count
    gc.freeze()  # collections would copy the pages that the processes share


def _new_reader(attr: EventAttr, maps: FrameMaps | None, concerned: SharedProcesses | None, spool: Spool) -> ReaderProcess:

    return ReaderProcess(spool, attr, maps, concerned=concerned)


def _attach(output: UnwoundOutput, counters: SampleCounters) -> None:
    """Let the kernel copy Python frames with each sample, if it permits that."""
    copier, output.frame_copier = output.frame_copier, None
    if copier is not None:
        with suppress(OSError, KernelRefusedError):
            output.frame_counters.extend(copier.attach((one.counter for one in counters.opened if has_stacks(one.event.attr)), Counter))
        copier.close()


def _serve(
    plan: WaitPlan | None,
    only: Collection[int] | None,
    options: RecordOptions,
    concerned: SharedProcesses | None,
    requests: int,
    answers: int,
    stores: tuple[int, int, int],
    *,
    python: int = -1,
) -> None:
    """Run the other process, which imports numpy."""
    os.environ.setdefault(_THREADS_OF_NUMPY, "1")
    from perfpy.capture.unwinding.serving import Rescue, serve

    if options.jit and not options.sampling.unwind_late:
        with suppress(OSError):  # what the memory of a JVM tells about stacks is gone when its program has ended; root may ask for that
            os.nice(-_HIGHER)
    rescue = None if options.output.path == STANDARD_OUTPUT else Rescue(options.output.path)
    cache = options.output.buildid_dir if options.output.buildid_cache else None
    # A pipe, further files and a limited size need the records soon.
    joins = rescue is not None and options.output.switch_output is None and not options.output.max_size
    frames = (python, cache) if python >= 0 else None
    around = options.sampling.unwind_around
    serve(
        requests, answers, stores, plan=plan, only=only, jit=options.jit, python=frames, joins=joins, around=around, concerned=concerned,
        rescue=rescue,
    )  # fmt: skip


def open_file(
    output: RecordOutput,
    counters: SampleCounters,
    options: RecordOptions,
    procfs: ProcFs,
    workload: int,
    packer: Packer | None,
    plan: WaitPlan | None = None,
) -> DataFile:
    """Return the file of callchains and waits; it creates a file of the kernel's records beside it if needed."""
    assert isinstance(output, UnwoundOutput)

    def stack_file() -> StackFile:
        beside = RecordOutput(output.stacks_path)
        return StackFile(beside, DataFile(beside, counters, options, procfs, workload=workload))

    output.stack_file = stack_file
    _attach(output, counters)
    attrs, file_counters = _in_file(counters, options, plan)
    file = DataFile(output, file_counters, options, procfs, workload=workload, packer=packer, attrs=attrs)
    output.expect(((event.attr, counters.ids(event)) for event in counters.events), file.early_features())
    if plan is not None:
        from perfpy.capture.off_cpu_events import switch_limit  # rarely needed

        output.after_round = switch_limit(counters, plan, options.off_cpu.limit, output.tell).check
    elif any(event.event.of_chosen for event in counters.events):
        output.after_round = _limit_stacks(counters)
    return file


def _limit_stacks(counters: SampleCounters) -> Callable[[], None]:
    """Return a function that limits the stacks of switches: of the chosen tasks, and of all."""
    from perfpy.capture.off_cpu_events import SwitchLimit  # rarely needed
    from perfpy.capture.sample_attrs import SWITCH

    copying = [event for event in counters.events if has_stacks(event.attr) and event.event.tracepoint]
    of_chosen = [event for event in copying if event.event.of_chosen]
    switches = next((event for event in of_chosen if event.event.tracepoint == SWITCH), None)
    limits = [SwitchLimit(counters, switches, of_chosen, _MOST_OF_CHOSEN)]
    # the kernel limits those with a frequency
    limits += [
        SwitchLimit(counters, one, [one], _MOST_OF_ALL * len(counters.cpus))
        for one in copying
        if not (one.event.of_chosen or one.attr.freq)
    ]

    def check() -> None:
        for limit in limits:
            limit.check()

    return check


def _in_file(counters: SampleCounters, options: RecordOptions, plan: WaitPlan | None) -> tuple[list[EventAttr], SampleCounters]:
    """Return the attrs of the file's events, and the counters restricted to them."""
    attrs = [plain_attr(event.attr) if options.sampling.unwind else event.attr for event in counters.events]
    if plan is None:
        return attrs, counters
    from perfpy.capture.off_cpu_events import TIME_ATTR  # rarely needed

    kernel_has = attrs[plan.time]
    attrs[plan.time] = TIME_ATTR.copy(disabled=kernel_has.disabled, inherit=kernel_has.inherit, enable_on_exec=kernel_has.enable_on_exec)
    indexes = [number for number in range(len(attrs)) if number not in plan.hidden]
    # Readers do not need the recorder's wakeup settings.
    attrs = [attr.copy(watermark=0, wakeup_events=0) if attr.watermark else attr for attr in attrs]
    return [attrs[number] for number in indexes], counters.restricted_to([counters.events[number] for number in indexes])


# The reader of Python frames, as the recorder sees it: start it, send it new records, end it.
#
# The reader's answers go to the unwinding process. The recorder never waits: records for which the pipe has no room are not read.


LOOK: Final = 21  #: the kind of its requests (perfpy.capture.unwinding.process)


class ReaderProcess:
    """The other process.

    Attributes:
        answers: the descriptor for the unwinding process, which is forked later.

    Args:
        spool: of the records.
        attr: of the samples.
        maps: of frames that the kernel copies; None without permission.
        change: how much lower its nice value becomes, if the user may have it.
        concerned: the processes whose frames are read; None for all.
    """

    def __init__(
        self,
        spool: Spool,
        attr: EventAttr,
        maps: FrameMaps | None = None,
        change: int = _HIGHER,
        concerned: SharedProcesses | None = None,
    ) -> None:
        request_end, self._requests = os.pipe2(os.O_CLOEXEC)
        self.answers, answer_end = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            stores = (spool.memory, spool.disk, spool.open_piece)
            fds = {request_end, answer_end, *stores, *(maps.descriptors if maps else ())}
            run_child(fds, READER_COMM, lambda: _serve_reader(request_end, answer_end, stores, attr, maps, change, concerned))
        os.close(request_end)
        os.close(answer_end)
        os.set_blocking(self._requests, False)

    def close_answers(self) -> None:
        """Close the answers, which the unwinding process has inherited."""
        os.close(self.answers)

    def look(self, extents: Sequence[Extent]) -> None:
        """Request a reading for records that were just written."""
        if extents and self._requests >= 0:
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(self._requests, process.request(LOOK, extents))

    def finish(self) -> None:
        """Close the requests; the process ends after the last one."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def close(self) -> None:
        """Kill the process, unless it has ended."""
        self.finish()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)


def _serve_reader(
    requests: int,
    answers: int,
    stores: tuple[int, int, int],
    attr: EventAttr,
    maps: FrameMaps | None,
    change: int,
    concerned: SharedProcesses | None,
) -> None:
    """Run the other process, which needs numpy."""
    from perfpy.capture.unwinding.python_reader import serve

    with contextlib.suppress(OSError):  # the sooner frames are read, the more often they match their samples
        os.nice(-change)
    serve(requests, answers, stores, attr, maps, concerned)
