"""The output of record --threads: a folder with a file for each CPU's ring buffers.

The folder has `data`, and data.0, data.1 ..., which contain only records. Each file is written by one thread, so no locks are
needed. Threads notify the recorder through a pipe that it polls.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import threading
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.kernel_copy import copy_kernel
from perfpy.capture.session.closing import OwnSamples, patience
from perfpy.capture.session.inputs import FIRST_PATIENCE
from perfpy.capture.session.output import OutputPart, RecordOutput, RoundStarts, find_destination, rotate
from perfpy.capture.synthesis import FOLDER_VERSION
from perfpy.capture.targets import online_cpus
from perfpy.capture.thread_masks import thread_masks
from perfpy.errors import OutputFailedError
from perfpy.kernel.cpus import Topology
from perfpy.perfdata.header import Feature, encode_feature
from perfpy.perfdata.reader import KERNEL_FOLDER
from perfpy.perfdata.writer import FileWriter, Packer, RecordFile
from perfpy.untrusted.destinations import new_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.capture.session.moved_text_watch import MovedTextWatch
    from perfpy.capture.session.output import Held
    from perfpy.capture.thread_masks import ThreadMask
    from perfpy.kernel.ring import Ring
    from perfpy.perfdata.writer import RecordWriter, Slice
    from perfpy.untrusted.destinations import FileDestination


# Copy ring buffers to the files of their CPUs in threads (record --threads). Each thread waits for its own ring buffers, on the CPUs of
# its mask. The GIL is only held between system calls: copying and waiting, which take the time, run on all CPUs at once.

_WORTH_ANOTHER_PASS: Final = 1 << 16  # bytes
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class ThreadedDrain:
    """Reads the ring buffers of some counters, as a Drain does.

    Args:
        masks: one for each thread.
        flush: bytes that a ring buffer must have before it is written.
        patience: seconds after which a ring buffer is written however little it has; None for never.
        new_watch: makes the object that finds text that processes move, one for each thread.

    Attributes:
        tids: of the threads.
        watch: None, as each thread has its own.
        inspect: called with the contents of each ring buffer, if set.
    """

    def __init__(
        self,
        counters: SampleCounters,
        output: RingFilesOutput,
        masks: Sequence[ThreadMask],
        *,
        flush: int = 1,
        patience: float | None = None,
        new_watch: Callable[[], MovedTextWatch],
    ) -> None:
        self._counters = counters
        self._output = output
        self.inspect: Callable[[Held], None] | None = None
        self.watch: MovedTextWatch | None = None
        home = {one.ring: one.target.cpu for one in counters.opened}
        cpus = sorted(set(home.values()))
        output.open_files(len(cpus))
        files = dict(zip(cpus, output.files, strict=True))
        read = [(ring, home[index], fd) for index, (ring, fd) in enumerate(zip(counters.rings, counters.ring_fds(), strict=True))]
        # As in perf, CPUs without a thread are not recorded.
        shares = [[(ring, files[cpu], fd) for ring, cpu, fd in read if cpu in mask.rings] for mask in masks]
        self._rings = [(ring, file) for share in shares for ring, file, _ in share]
        self._stop, self._stopping = os.pipe2(os.O_CLOEXEC)
        self._threads = [
            _Thread(self, mask.runs_on, share, self._stop, flush, patience, new_watch()) for mask, share in zip(masks, shares, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        self.tids = tuple(thread.native_id for thread in self._threads if thread.native_id)

    def forward(self) -> int:
        """No-op: the threads do it."""
        return 0

    def take(self, rings: Iterable[tuple[Ring, Held, RingFile]], least: int, watch: MovedTextWatch | None = None) -> int:
        """Write the ring buffers that have at least this many bytes."""
        total = 0
        for ring, held, file in rings:
            size = sum(map(len, held))
            if size < least:
                continue
            if inspect := self.inspect:
                inspect(held)
            file.write(held)
            if watch:
                watch.look(held)
                file.write([memoryview(record) for record in watch.take()])
            file.end_round()
            ring.consume()
            total += size
        return total

    def snapshot(self) -> int:
        """No-op: --threads excludes AUX data."""
        return 0

    def fail(self, failure: OutputFailedError) -> None:
        """Report a failure; called by a thread."""
        self._output.notices.tell(failure)

    def pass_ended(self) -> None:
        """Report the end of a pass; called by a thread."""
        self._output.pass_ended()

    def rest(self) -> int:
        """End the threads, and write the current contents of the forward ring buffers, however little."""
        self.close()
        self._output.notices.take()
        return self.take([(ring, ring.pending(), file) for ring, file in self._rings if not ring.backward], 1)

    def backward(self) -> int:
        """Write a snapshot of the backward ring buffers, if there are any."""
        backward = [(ring, file) for ring, file in self._rings if ring.backward]
        if not backward:
            return 0
        self._counters.pause(True)
        try:
            return self.take([(ring, ring.pending(), file) for ring, file in backward], 1)
        finally:
            self._counters.pause(False)

    def close(self) -> None:
        """End the threads; calling it twice is harmless."""
        if self._stopping < 0:
            return
        os.close(self._stopping)
        self._stopping = -1
        for thread in self._threads:
            thread.join()
        os.close(self._stop)


class _Thread(threading.Thread):
    """A thread that reads its ring buffers until the other end of `stop` is closed."""

    def __init__(
        self,
        drain: ThreadedDrain,
        runs_on: frozenset[int],
        rings: Sequence[tuple[Ring, RingFile, int]],
        stop: int,
        flush: int,
        patience: float | None,
        watch: MovedTextWatch,
    ) -> None:
        super().__init__(name="perfpy-rings", daemon=True)
        self._drain = drain
        self._runs_on = runs_on
        self._rings = [(ring, file) for ring, file, _ in rings if not ring.backward]
        self._stop_fd = stop
        self._flush = flush
        self._patience = None if patience is None else patience * 1000
        self._wait = None if patience is None else FIRST_PATIENCE * 1000
        self._watch = watch
        self._poller = select.poll()
        for fd in (stop, *(fd for ring, _, fd in rings if not ring.backward)):
            self._poller.register(fd, select.POLLIN)

    def run(self) -> None:
        """Run until stopped or failed."""
        with contextlib.suppress(OSError):  # the CPU is offline or not permitted; the thread stays where it is
            os.sched_setaffinity(0, self._runs_on)
        try:
            size = 0
            while self._goes_on(wait=size < _WORTH_ANOTHER_PASS):
                size = self._drain.take(((ring, ring.pending(), file) for ring, file in self._rings), self._flush, self._watch)
                if size:
                    self._drain.pass_ended()
        except OutputFailedError as failure:
            self._drain.fail(failure)

    def _goes_on(self, *, wait: bool) -> bool:
        ready = self._poller.poll(self._wait if wait else 0)
        if self._wait and self._patience:
            self._wait = min(2 * self._wait, self._patience)
        for fd, events in ready:
            if fd == self._stop_fd:
                return False
            if events & _GONE:
                self._poller.unregister(fd)
        return True


# A recording as a folder: the file `data`, and further files of options. An existing folder is renamed to PATH.old.

MAIN_FILE: Final = "data"


class FolderOutput(RecordOutput):
    """A RecordOutput whose path is a folder."""

    def find_destination(self) -> FileDestination:
        """Return the destination of the folder."""
        if self.destination is None:
            self.destination = find_destination(self.path.rstrip("/") or "/")
        return self.destination

    def _open(self) -> RecordWriter:
        destination = self.find_destination()
        self._old = rotate(destination)
        try:
            with contextlib.suppress(FileNotFoundError):
                destination.remove_entry()  # an empty file, which is not kept as .old
            self.folder = new_folder(destination)
        except OSError as error:
            raise OutputFailedError(self.path, error.strerror or str(error), remedy="choose another folder with -o") from None
        return FileWriter(os.path.join(self.path, MAIN_FILE), self.create(MAIN_FILE))

    def create(self, name: str) -> int:
        """Create a file in the folder, through its descriptor: others may exchange the folder of that name."""
        try:
            return self.folder.create(name)
        except OSError as error:
            path = os.path.join(self.path, name)
            raise OutputFailedError(path, os.strerror(error.errno or 0), remedy="choose another folder with -o") from None

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the folder."""
        try:
            super().finish(features)
        finally:
            self.folder.close()

    def abandon(self) -> None:
        """Remove the folder, and restore the old one: nothing was recorded."""
        self.writer.close()
        destination = self.find_destination()
        if destination.is_now(os.fstat(self.folder.fd)):
            shutil.rmtree(destination.name, ignore_errors=True, dir_fd=destination.folder)
        self.folder.close()
        if self._old:
            with contextlib.suppress(OSError):
                destination.rename_entry(self._old, destination.name)


class RingFile:
    """The file of one CPU's ring buffers: path, its descriptor, the level of compression (0 for none)."""

    def __init__(self, path: str, fd: int, level: int) -> None:
        self.file = RecordFile(path, fd)
        self.starts = RoundStarts()
        self.packer = Packer(level) if level else None

    def write(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer."""
        self.file.write(*(self.packer.pack(*slices) if self.packer else slices))

    def end_round(self) -> None:
        """Mark the end of a pass over the ring buffers."""
        self.starts.add(self.file.size)


class ThreadNotices:
    """Notifications of the recorder by threads: a descriptor that becomes readable. Answers of Attention."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._failure: OutputFailedError | None = None

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._reading

    def tell(self, failure: OutputFailedError | None = None) -> None:
        """Notify the recorder, optionally of a failure; called by threads."""
        self._failure = self._failure or failure
        try:
            os.write(self._writing, b".")
        except BlockingIOError:  # the recorder has been notified already
            return

    def take(self) -> bool:
        """Consume the notifications in the recorder. Raises a thread's failure."""
        try:
            os.read(self._reading, 4096)
        except BlockingIOError:
            return True
        if self._failure:
            raise self._failure
        return True

    def close(self) -> None:
        """Close the pipe, after the threads have ended."""
        os.close(self._reading)
        os.close(self._writing)


class RingFilesOutput(FolderOutput):
    """A RecordOutput whose ring buffers' records go to the files of their CPUs.

    Args:
        level: of compression, 0 for none.
        most: total bytes at which to notify the recorder (--max-size), 0 for no limit.
    """

    def __init__(self, path: str, packer: Packer | None = None, level: int = 0, most: int = 0) -> None:
        self.files: list[RingFile] = []
        super().__init__(path, packer)
        self._level = level
        self._most = most
        self.notices = ThreadNotices()
        self.answers = self.notices

    def open_files(self, number: int) -> None:
        """Open one file for each CPU, in order."""
        names = [f"{MAIN_FILE}.{index}" for index in range(number)]
        self.files = [RingFile(os.path.join(self.path, name), self.create(name), self._level) for name in names]

    @property
    def size(self) -> int:
        """Bytes written."""
        return self.writer.size + sum(one.file.size for one in self.files)

    @property
    def bytes_read(self) -> int:
        """Bytes read from the ring buffers."""
        return self.size

    def start(self, signal_fd: int = -1) -> None:
        """Mark everything before the samples as complete: if the recorder is killed, any perf can read it and find the other files."""
        assert isinstance(self.writer, FileWriter)
        self.writer.mark_with({Feature.DIR_FORMAT: encode_feature(Feature.DIR_FORMAT, FOLDER_VERSION, NATIVE_ENDIAN)})

    def pass_ended(self) -> None:
        """Called by a thread after a pass over its ring buffers."""
        if 0 < self._most <= self.size:
            self.notices.tell()

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer to the main file; no recorded CPU has one."""
        self.write(*slices)

    def parts(self) -> Iterator[OutputPart]:
        """Yield the main file's records, then those of each CPU."""
        yield from super().parts()
        yield from (OutputPart(one.file.fd, 0, one.file.size, one.starts.offsets or [0]) for one in self.files)

    def complete(self, signal_fd: int, hurried: Callable[[], bool]) -> None:
        """Add the compression of the threads, which have ended, to the recorder's."""
        super().complete(signal_fd, hurried)
        for one in self.files:
            if self._packer and one.packer:
                self._packer.bytes_in += one.packer.bytes_in
                self._packer.bytes_out += one.packer.bytes_out

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the folder."""
        try:
            super().finish(features)
        finally:
            self._close_files()

    def abandon(self) -> None:
        """Remove the folder: nothing was recorded."""
        self._close_files()
        super().abandon()

    def _close_files(self) -> None:
        for one in self.files:
            one.file.close()
        self.notices.close()


# Recordings that are folders: their output, and the threads that read ring buffers (record --threads).


def open_folder(options: RecordOptions, packer: Packer | None) -> RecordOutput:
    """Create the folder, empty but for a copy of the kernel (--kcore). Raises UsageError for threads on missing CPUs."""
    output: FolderOutput
    if options.buffers.threads:
        cpus = online_cpus()
        thread_masks(options.buffers.threads, cpus, cpus, Topology())
        output = RingFilesOutput(options.output.path, packer, options.output.compression_level, options.output.max_size)
    else:
        output = FolderOutput(options.output.path, packer)
    if options.output.kcore:
        try:
            copy_kernel(output.folder, KERNEL_FOLDER)
        except BaseException:
            output.abandon()
            raise
    return output


def threaded_drain(
    counters: SampleCounters, output: RecordOutput, options: RecordOptions, new_watch: Callable[[], MovedTextWatch]
) -> ThreadedDrain:
    """Start the threads that read the ring buffers. With --exclude-perf they are not recorded, like the recorder."""
    assert isinstance(output, RingFilesOutput)
    recorded = {one.target.cpu for one in counters.opened}
    masks = thread_masks(options.buffers.threads, recorded, online_cpus(), Topology())
    drain = ThreadedDrain(
        counters,
        output,
        masks,
        flush=options.buffers.mmap_flush,
        patience=None if options.buffers.overwrite else patience(counters, options),
        new_watch=new_watch,
    )
    if options.target.exclude_perf:
        for event in OwnSamples(counters.events, drain.tids).leave_out():
            event.set_filter()
    return drain
