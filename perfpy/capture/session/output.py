"""The file or files of a recording: rotation of the old one, compression, the final names.

An existing perf.data becomes perf.data.old; with --switch-output the files are perf.data.TIMESTAMP. "-" is standard output.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import struct
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import ATTR_SIZE_VER7, CONTEXT_MAX, CONTEXT_USER, RecordType, SampleType, SoftwareId
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.sample_layout import words_before
from perfpy.capture import synthesis as metadata
from perfpy.capture.record_options import STANDARD_OUTPUT, SYNTH_CGROUP, SYNTH_MMAP, SYNTH_TASK
from perfpy.capture.synthesis import RecordedFeatures, Synthesis, id_layout
from perfpy.capture.targets import ANY
from perfpy.errors import OutputFailedError
from perfpy.kernel.loaded_bpf import loaded_programs, loaded_types
from perfpy.kernel.sysfs import module_text
from perfpy.perfdata.writer import FINISHED_ROUND, FileWriter, PipeWriter, WrittenEvent
from perfpy.untrusted.destinations import FileDestination, create_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.framing import HeaderBuildId
    from perfpy.capture.dso_hits import DsoHits
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.capture.session.inputs import Answers
    from perfpy.capture.session.moved_text_watch import MovedTextWatch
    from perfpy.capture.synthesis import GuestKernel
    from perfpy.kernel.procfs import ProcFs
    from perfpy.kernel.ring import Ring
    from perfpy.perfdata.writer import Packer, RecordWriter, Slice
    from perfpy.symbols.quality_notes import ChainEnds

    Held = Sequence[memoryview]


class RoundStarts:
    """Offsets of some rounds in a file; their number stays bounded however long the recording is."""

    def __init__(self, most: int = 128) -> None:
        self.offsets: list[int] = []
        self._most = most
        self._every = 1
        self._skipped = 0

    def add(self, offset: int) -> None:
        """Add a round."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.offsets.append(offset)
        if len(self.offsets) > self._most:
            del self.offsets[::2]
            self._every *= 2


_STDOUT_FD: Final = 1
_IN_FOLDER: Final = ("data", "kcore_dir")  # files of a folder recording, besides data.N


class OutputPart(NamedTuple):
    """A range of whole records in a file, from `begin` to `end`. starts are offsets of some rounds."""

    fd: int
    begin: int
    end: int
    starts: list[int]


class RecordOutput:
    """The destination of a recording. Open it before anything is measured, so that a bad path fails early. Raises OutputFailedError.

    packer compresses the records of the ring buffers.

    Attributes:
        others: the processes that help to write it.
        answers: the data from them.
        hits: the files that samples hit, if these processes have found them.
        left: at the end, the number of stacks that they did not unwind in time.
    """

    others: tuple[int, ...] = ()
    answers: Answers | None = None
    hits: bytes = b""
    left: int = 0

    def __init__(self, path: str, packer: Packer | None = None) -> None:
        self.path = path
        self.is_pipe = path == STANDARD_OUTPUT
        self._packer = packer
        self._old = ""
        self.destination: FileDestination | None = None  # of the path, in an open folder
        self.images: dict[str, bytes] = {}  # images of functions by file name, at the end
        self.writer = self._open()
        self.rounds = 0
        self.marks_rounds = True
        self.round_starts = RoundStarts()

    def names(self) -> dict[int, bytes]:
        """Return lines of perf maps by pid, from the processes that help to write it."""
        return {}

    def _open(self) -> RecordWriter:
        if self.is_pipe:
            return PipeWriter(_STDOUT_FD)
        self._old, fd = new_recording(self.find_destination())
        return FileWriter(self.path, fd)

    def find_destination(self) -> FileDestination:
        """Return the destination of the path; its folder is opened once, as others may exchange it. Raises OutputFailedError."""
        if self.destination is None:
            self.destination = find_destination(self.path)
        return self.destination

    @property
    def size(self) -> int:
        """Bytes written to the current file."""
        return self.writer.size

    @property
    def bytes_read(self) -> int:
        """Bytes read from the ring buffers: here as many as were written."""
        return self.writer.size

    def begin(self, events: Sequence[WrittenEvent], features: Mapping[int, bytes]) -> None:
        """Write the header of the current file."""
        self.writer.begin(events, features)

    def write(self, *slices: Slice) -> None:
        """Append records unchanged."""
        self.writer.write(*slices)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer."""
        if self._packer:
            self.writer.write(*self._packer.pack(*slices))
        else:
            self.writer.write(*slices)

    def parts(self) -> Iterator[OutputPart]:
        """Yield the ranges of records, if they can be read again."""
        if isinstance(self.writer, FileWriter):
            yield OutputPart(self.writer.fd, self.writer.data.offset, self.writer.size, self.round_starts.offsets)

    def start(self, signal_fd: int = -1) -> None:
        """Called after everything before the samples is written. signal_fd becomes readable with a signal."""

    def complete(self, signal_fd: int, hurried: Callable[[], bool]) -> None:
        """Write records still held after the last ones. signal_fd becomes readable with a signal; hurried returns whether not to wait."""

    def end_round(self) -> None:
        """Mark the end of a round, after all ring buffers were read: records before the previous mark can be sorted.

        There are no marks if mappings without a time follow the samples: a reader would deliver the samples before it knows any mapping.
        """
        self.rounds += 1
        if self.marks_rounds:
            self.writer.write(FINISHED_ROUND)
        self.writer.mark()
        self.round_starts.add(self.writer.size)

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the current file and close it."""
        try:
            self.writer.finish(features)
        finally:
            self.writer.close()

    def stamp(self) -> str:
        """Rename the finished file to a name with the time; return that name."""
        now = time.time()
        destination = self.find_destination()
        while True:
            moment = time.strftime("%Y%m%d%H%M%S", time.localtime(now))
            name = f"{destination.name}.{moment}{int(now % 1 * 100):02d}"
            if not destination.has(name):  # no existing file is replaced
                break
            now += 0.01
        destination.rename_entry(destination.name, name)
        return self.path + name.removeprefix(destination.name)

    def remove(self, path: str) -> None:
        """Remove a finished file that stamp() named."""
        with contextlib.suppress(OSError):
            self.find_destination().remove_entry(os.path.basename(path))

    def reopen(self) -> None:
        """Begin another file at the same path."""
        if self._packer:
            self._packer.restart()
        self.writer = self._open()
        self.round_starts = RoundStarts()

    def abandon(self) -> None:
        """Remove the file, and restore the old one: nothing was recorded."""
        self.writer.close()
        if self.is_pipe:
            return
        destination = self.find_destination()
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.stat(destination.name, dir_fd=destination.folder).st_mode):
                destination.remove_entry()
            if self._old:
                destination.rename_entry(self._old, destination.name)


def find_destination(path: str) -> FileDestination:
    """Return the destination of a recording, without following links at its end. Raises OutputFailedError."""
    try:
        return FileDestination(path, follow=False)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error), remedy="choose another file with -o") from None


def new_recording(destination: FileDestination) -> tuple[str, int]:
    """Rename an existing recording to NAME.old, and create a new one; return that name ("" if there was none) and the descriptor.

    Raises OutputFailedError.
    """
    if destination.inherited >= 0:
        return "", -1
    old = rotate(destination)
    try:
        return old, create_named(destination.name, destination.folder)
    except OSError as error:
        if old:
            with contextlib.suppress(OSError):
                destination.rename_entry(old, destination.name)
        raise OutputFailedError(destination.path, error.strerror or str(error), remedy="choose another file with -o") from None


def rotate(destination: FileDestination) -> str:
    """Rename an existing recording to NAME.old; return that name, "" if there was none. Raises OutputFailedError."""
    try:
        existing = os.stat(destination.name, dir_fd=destination.folder)
    except OSError:  # none, or a dangling link
        return ""
    is_folder = stat.S_ISDIR(existing.st_mode)
    if not (is_folder or (stat.S_ISREG(existing.st_mode) and existing.st_size)):
        return ""
    old = f"{destination.name}.old"
    try:
        if destination.has_folder(old):
            _remove_folder(destination, old)
        elif is_folder and destination.has(old):  # no folder replaces a file
            destination.remove_entry(old)
        destination.rename_entry(destination.name, old)
    except OSError as error:
        raise OutputFailedError(f"{destination.path}.old", os.strerror(error.errno or 0), remedy="choose another file with -o") from None
    return old


def _remove_folder(destination: FileDestination, name: str) -> None:
    """Remove a folder recording, unless it contains other files. Raises OSError."""
    import shutil  # rarely needed; it loads compressors

    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=destination.folder)
    try:
        names = os.listdir(folder)
        if any(name not in _IN_FOLDER and not name.startswith("data.") for name in names):
            raise OSError(errno.ENOTEMPTY, "")
        for one in names:
            if stat.S_ISDIR(os.stat(one, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(one, dir_fd=folder)
            else:
                os.unlink(one, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=destination.folder)


# One perf.data of a recording: the header and records before the samples, and the features after them. The features include the build-ids
# of the files that samples hit.

_MISC: Final = struct.Struct("=H")
_MISC_AT: Final = 4  # in a record's header
_CONFIG3_SINCE: Final = (6, 3)
_PIECE = 1 << 16  # bytes; synthesized records are written in pieces of about this size


class DataFile:
    """Begins and ends the files of a recording.

    Args:
        workload: the pid of the command, 0 without one.
        attrs: the events' attrs in the file, if they differ from the kernel's.

    Attributes:
        samples: the number of samples in the last file; None if unknown.
        hint: advice for the next recording, "" for none.
        attrs: the events' attrs, as the file has them.
        hit_files: the files that samples hit, as far as their build-ids were looked for.
        lost: the number of lost samples.
        lost_switches: the part of them that are context switches, from which waits are made.
        guests: the kernels of virtual machines whose maps it has.
    """

    def __init__(
        self,
        output: RecordOutput,
        counters: SampleCounters,
        options: RecordOptions,
        procfs: ProcFs,
        *,
        workload: int = 0,
        packer: Packer | None = None,
        attrs: Sequence[EventAttr] = (),
    ) -> None:
        self._output = output
        self.attrs = [truncate_attr(attr) for attr in attrs or [event.attr for event in counters.events]]
        self._counters = counters
        self._options = options
        self._workload = workload
        self._packer = packer
        self._features = RecordedFeatures(counters, options, self.attrs)
        self._layout = id_layout(counters.events[0].attr.sample_type)
        self._tail = options.side_band.tail_synthesize or options.buffers.overwrite
        output.marks_rounds = not self._tail
        self._procfs = procfs
        self._tracing = b""
        tracepoints = [event.event.tracepoint for event in counters.events if event.event.tracepoint]
        if tracepoints:
            from perfpy.kernel.sysfs import Tracefs  # only tracepoints need it

            self._tracing = metadata.tracing_data(Tracefs(), tracepoints).encode()
        # As in perf, separate threads are recorded without data of the whole machine.
        self._programs = loaded_programs() if options.side_band.bpf_events and not options.target.per_thread else []
        self._program_types = loaded_types(self._programs)
        self.samples: int | None = None
        self.hint = ""
        self.hit_files: list[str] = []
        self.lost = self.lost_switches = 0
        self.guests: Sequence[GuestKernel] = ()

    def begin(self, *, first: bool = True) -> None:
        """Write everything before the samples; first: the command has not started yet."""
        if self._counters.aux:
            self._counters.aux.index.clear()
        self._output.begin(self.written_events, self._collect() if self._output.is_pipe else {})
        if not self._tail:
            self._write(self._synthesized_records())
        if self._workload and first:  # the name before exec, because samples may come before the kernel's own COMM
            self._write(self._synthesis().comm(self._workload))
        elif self._workload:
            self._write(self._synthesis().threads((self._workload,)))
        if not self._tail:
            self._output.write(metadata.FINISHED_INIT)

    def resume(self, records: Iterable[bytes]) -> None:
        """Begin a file in the middle of a recording, with the records of the current state."""
        self._output.begin(self.written_events, self._collect() if self._output.is_pipe else {})
        self._write(records)

    @property
    def written_events(self) -> list[WrittenEvent]:
        """The events as they are in the file."""
        return [WrittenEvent(attr, self._counters.ids(event)) for event, attr in zip(self._counters.events, self.attrs, strict=True)]

    def _write(self, records: Iterable[bytes]) -> None:
        pending: list[bytes] = []
        size = 0
        for record in records:
            pending.append(record)
            size += len(record)
            if size >= _PIECE:
                self._output.write(b"".join(pending))
                pending, size = [], 0
        if pending:
            self._output.write(b"".join(pending))

    def _synthesized_records(self) -> Iterator[bytes]:
        counters, options = self._counters, self._options
        synthesis = self._synthesis()
        if counters.rings:
            yield from metadata.time_conversion(counters.rings[0])
        yield from metadata.id_index(counters)
        if counters.aux:
            yield counters.aux.info_record()
        if not all(event.attr.exclude_kernel for event in counters.events):
            yield from synthesis.kernel()
        for guest in self.guests:
            yield from synthesis.guest_kernel(guest)
        yield from metadata.event_updates(counters, pipe=self._output.is_pipe)
        yield metadata.thread_map(counters)
        yield metadata.cpu_map(counters)
        yield from synthesis.bpf_programs(self._programs, self._program_types)
        if options.side_band.all_cgroups and SYNTH_CGROUP in options.side_band.synth:
            from perfpy.capture.cgroups import mount_point  # rarely needed

            yield from synthesis.cgroups(mount_point())
        if SYNTH_TASK in options.side_band.synth:
            if ANY in counters.tids:
                yield from synthesis.processes()
            elif counters.tids != (self._workload,):
                yield from synthesis.threads(counters.tids)

    def _synthesis(self) -> Synthesis:
        options = self._options
        build_id = None
        if options.side_band.buildid_mmap:
            from perfpy.capture.dso_hits import own_build_id  # reads ELF files

            build_id = own_build_id
        return Synthesis(
            self._procfs,
            self._layout,
            namespaces=options.side_band.namespaces,
            mmaps=SYNTH_MMAP in options.side_band.synth,
            data_mmaps=any(event.attr.mmap_data for event in self._counters.events),
            build_id=build_id,
            module_text=module_text if os.uname().machine == "s390x" else None,  # the PLT comes before .text there
        )

    def end(self, *, last: bool = True) -> None:
        """Write everything after the samples, and close the file.

        last: the counters are no longer needed, so their losses can be read. Raises OutputFailedError if the disk is full; the records
        are complete then.
        """
        if last:
            for event, lost, record in metadata.lost_samples(self._counters, self._layout):
                self.lost += lost
                self.lost_switches += lost if event.attr.context_switch and event.attr.config == SoftwareId.BPF_OUTPUT else 0
                self._output.write(record)
        if self._tail:
            self._output.write(metadata.FINISHED_INIT)
            self._write(self._synthesized_records())
        features: dict[int, bytes] = {}
        if not self._output.is_pipe:
            hits = self._scan()
            build_ids = self._build_ids(hits) if hits and self._options.output.buildids else ()
            times = (hits.first_time, hits.last_time) if hits else (0, 0)
            features = self._collect(times=times, build_ids=build_ids) | self._room_for_names()
        self._output.finish(features)

    def early_features(self) -> dict[int, bytes]:
        """Return the features that are known before the first sample."""
        return self._collect() | self._room_for_names()

    def _room_for_names(self) -> dict[int, bytes]:
        """Return the entry for files that are added after the recording."""
        options = self._options
        if not (options.jit or options.python or options.rewritten or options.output.self_contained):
            return {}
        from perfpy.perfdata.header import KEPT_FILES  # rarely needed

        return {KEPT_FILES: b""}

    def _collect(self, *, times: tuple[int, int] = (0, 0), build_ids: Sequence[HeaderBuildId] = ()) -> dict[int, bytes]:
        return self._features.collect(
            tracing=self._tracing,
            times=times,
            build_ids=build_ids,
            programs=self._programs,
            program_types=self._program_types,
            packer=self._packer,
            mmap_len=max((ring.size for ring in self._counters.rings), default=0),
        )

    def _scan(self) -> DsoHits | None:
        """Scan the records for the features; None if no feature needs it."""
        options, writer = self._options, self._output.writer
        if self._output.hits and options.output.switch_output is None:  # the unwinding process has scanned it, for one file
            from perfpy.capture.dso_hits import DsoHits  # not needed while the measurement runs

            hits = DsoHits.from_bytes(self._output.hits)
            self.samples = hits.samples
            return hits
        if not isinstance(writer, FileWriter) or options.side_band.buildid_mmap:
            return None
        if not (options.output.buildids or options.output.timestamp_boundary) or not writer.data.size:
            return None
        from perfpy.capture.dso_hits import DsoHits  # not needed while the measurement runs

        hits = DsoHits(self.attrs)
        try:
            with ExitStack() as stack:
                parts = [(stack.enter_context(_map_part(part)), part) for part in self._output.parts() if part.end > part.begin]
                for data, part in parts:
                    scan_part(data, part, hits, packed=self._packer is not None)
                for data, part in parts if not self._packer else ():
                    self._judge_chains(data, hits, [start - part.begin for start in part.starts])
        except OSError:  # a device such as /dev/null
            return None
        if options.output.buildids and not (options.output.buildid_all or self._packer):  # as perf counts them
            self.samples = hits.samples
        return hits

    def _judge_chains(self, data: memoryview, hits: DsoHits, rounds: list[int]) -> None:
        """Write the hint for callchains that end early. Logs of CI get it, too: it is one line, and the recording is of little use."""
        if looks_at_chains(self._options, self.attrs) and has_walked_chains(self.attrs):
            self.hint = self.hint or chain_ends(data, rounds, self.attrs, hits).of_frame_pointers()

    def _build_ids(self, hits: DsoHits) -> tuple[HeaderBuildId, ...]:
        from perfpy.capture.dso_hits import keep, paths, replaced_line, same_name_line, table  # as above

        dsos = [*(hits.dsos.values() if self._options.output.buildid_all else hits.hit())]
        self.hit_files = [dso.name for dso in dsos if not dso.is_kernel]
        names, known = set(self.hit_files), set(dsos)
        dsos += (dso for dso in hits.dsos.values() if dso.name in names and dso not in known)  # they would get the hit file's build-id
        with ExitStack() as opened:
            files = table(dsos, paths(dsos, opened))
            if self._options.output.buildid_cache:
                keep(files, self._options.output.buildid_dir)
        if files.replaced and not self._options.quiet:
            print(replaced_line(files.replaced), file=sys.stderr)
        if not files.others:
            return files.entries
        self._write_into_mappings(files.other_build_ids)
        if not self._packer or self._output.hits:  # the unwinding process has written them already, but not into synthesized records
            return files.entries
        ambiguous = {dso.name for dso in files.others}  # a report would give the build-id of an entry to all of them
        others = sorted(ambiguous - {*files.replaced})  # one line for each file
        if others and not self._options.quiet:
            print(same_name_line(others), file=sys.stderr)
        return tuple(entry for entry in files.entries if entry.filename not in ambiguous)

    def _write_into_mappings(self, build_ids: Mapping[tuple[bytes, tuple[int, ...]], bytes]) -> None:
        """Write the build-ids of files that share their name with another one into the records of their mappings."""
        from perfpy.capture.dso_hits import build_ids_in_mappings  # rarely needed

        with suppress(OSError):  # a device such as /dev/null
            for part in self._output.parts():
                if part.end > part.begin:
                    with _map_part(part) as data:
                        for offset, piece in build_ids_in_mappings(data, build_ids):
                            os.pwrite(part.fd, piece, part.begin + offset)


def looks_at_chains(options: RecordOptions, attrs: Sequence[EventAttr]) -> bool:
    """Return whether callchains are checked: all events have some, the kernel walked them, and messages are printed."""
    return not (options.sampling.unwind or options.quiet) and all(attr.sample_type & SampleType.CALLCHAIN for attr in attrs)


def scan_part(data: memoryview, part: OutputPart, hits: DsoHits, *, packed: bool) -> None:
    """Scan a part of a finished file, and clear the build-id mark of mappings without a build-id, which perf would trust."""
    if packed:
        from perfpy.capture.dso_hits import unpack_records  # few recordings are compressed

        for piece in unpack_records(data):
            hits.scan(piece)
        return
    hits.scan(data)
    for offset, misc in hits.without_build_id:
        os.pwrite(part.fd, _MISC.pack(misc), part.begin + offset + _MISC_AT)
    hits.without_build_id.clear()


@contextmanager
def _map_part(part: OutputPart) -> Iterator[memoryview]:
    """Map the records of a part of the output. Raises OSError if that fails."""
    with mmap.mmap(part.fd, part.end, mmap.MAP_SHARED, mmap.PROT_READ) as mapped, memoryview(mapped) as view, view[part.begin :] as data:
        yield data


def truncate_attr(attr: EventAttr) -> EventAttr:
    """Truncate an attr to the size that this machine's perf can read.

    perf opens no file whose attrs are longer than its own, and it is usually as old as its kernel.
    """
    major, _, minor = os.uname().release.replace("-", ".").partition(".")
    minor = minor.partition(".")[0]
    if attr.config3 or not (major.isdecimal() and minor.isdecimal()) or (int(major), int(minor)) >= _CONFIG3_SINCE:
        return attr
    return attr.copy(size=min(attr.size, ATTR_SIZE_VER7))


# Copy the ring buffers to the output as slices, without decoding, and end each pass that found data with FINISHED_ROUND. A pass is
# bounded, whatever the kernel writes meanwhile: each ring buffer is read up to its head at the start of its turn, and `stop` is checked
# between two. The last pass, rest(), reads all heads first and goes no further, so that the end of a recording costs no more than the
# ring buffers' contents.


class Drain:
    """Reads the ring buffers of some counters.

    Args:
        flush: bytes that a ring buffer must have before it is written.
        stop: called between two ring buffers; True ends the pass (which rest() completes).
        move: called with the index of the next ring buffer.
        watch: finds text that processes move; None: it is not looked for.

    Attributes:
        inspect: called with the contents of each ring buffer, if set.
        tids: of the threads that do the work; none here.
        watch: as above.
    """

    tids: tuple[int, ...] = ()

    def __init__(
        self,
        counters: SampleCounters,
        output: RecordOutput,
        flush: int = 1,
        *,
        stop: Callable[[], bool] = lambda: False,
        move: Callable[[int], None] | None = None,
        watch: MovedTextWatch | None = None,
    ) -> None:
        self._counters = counters
        self._move = move
        self.watch = watch
        self._output = output
        self._flush = flush
        self._stop = stop
        self.inspect: Callable[[Held], None] | None = None
        self._aux = counters.aux
        rings = counters.rings
        self._forward = [ring for ring in rings if not ring.backward]
        self._backward = [ring for ring in rings if ring.backward]

    def forward(self) -> int:
        """Write the contents of the forward ring buffers that have enough. Return the bytes written."""
        total = 0
        for index, ring in enumerate(self._forward):
            if self._stop():  # the round ends when every ring buffer was read
                return total
            if self._move:
                self._move(index)
            total += self._take(ring, ring.pending(), self._flush)
            if self._aux and (aux_bytes := self._aux.take(ring, self._output)):
                self._aux.go_on(ring)
                total += aux_bytes
        return self._round(total)

    def rest(self) -> int:
        """Write the current contents of the forward ring buffers, however little. Return the bytes written."""
        held = [(ring, ring.pending()) for ring in self._forward]
        aux = sum(self._aux.take(ring, self._output) for ring in self._forward) if self._aux else 0
        return self._round(sum(self._take(ring, slices, 1) for ring, slices in held) + aux)

    def snapshot(self) -> int:
        """Write the latest data of a hardware tracer, which stops meanwhile. Return the bytes written."""
        if not self._aux:
            return 0
        self._aux.switch(False)
        try:
            self.rest()
            return self._round(self._aux.take_snapshot(self._output))
        finally:
            self._aux.switch(True)

    def backward(self) -> int:
        """Write a snapshot of the backward ring buffers, if there are any: the latest records. Return the bytes written."""
        if not self._backward:
            return 0
        self._counters.pause(True)
        try:
            return self._round(sum(self._take(ring, ring.pending(), 1) for ring in self._backward))
        finally:
            self._counters.pause(False)

    def close(self) -> None:
        """No-op: there are no threads."""

    def _take(self, ring: Ring, slices: Held, least: int) -> int:
        size = sum(map(len, slices))
        if size < least:
            return 0
        if self.inspect:
            self.inspect(slices)
        if self.watch:
            self.watch.look(slices)
        self._output.write_ring(slices)
        ring.consume()
        return size

    def _round(self, total: int) -> int:
        if total:
            if self.watch and (records := self.watch.take()):
                self._output.write_ring([memoryview(record) for record in records])
            self._output.end_round()
        return total


# A hint for `record -g` of programs without frame pointers: whether the callchains are complete enough. Some hundreds of samples from all
# parts of the file are read, without numpy, which takes a few milliseconds whatever the file's size. A chain ends with its first frame if
# the next address lies in no code: without frame pointers the kernel takes any value in that register for a frame.

_HEADER: Final = struct.Struct("=IHH")
_WORD: Final = struct.Struct("=Q")
_MOST: Final = 2000  # samples


def has_walked_chains(attrs: Sequence[EventAttr]) -> bool:
    """Whether the kernel walks user frames in all samples, and their callchains are at a known offset."""
    return all(
        attr.sample_type & SampleType.CALLCHAIN
        and not attr.sample_type & (SampleType.STACK_USER | SampleType.READ | SampleType.BRANCH_STACK)
        and not attr.exclude_callchain_user
        and not attr.exclude_user
        for attr in attrs
    )


def chain_ends(data: memoryview, starts: Sequence[int], attrs: Sequence[EventAttr], hits: DsoHits) -> ChainEnds:
    """Read samples from every part of the data. starts are offsets of rounds; hits has the mappings."""
    from perfpy.symbols.quality_notes import ChainEnds

    kind = attrs[0].sample_type
    chain_at = 8 * words_before(kind)
    pid_at = 8 * words_before(kind, SampleType.TID)
    chains, early = 0, dict[str, int]()
    each = max(_MOST // max(len(starts), 1), 1)
    for start in starts:
        for offset in _samples(data, start, each):
            pid = _HEADER.unpack_from(data, offset + pid_at)[0]
            frames = _user_frames(data, offset + chain_at)
            first = hits.file_of(pid, frames[0]) if frames else None
            if first is None:
                continue
            chains += 1
            if len(frames) < 2 or hits.file_of(pid, frames[1]) is None:
                early[first.name] = early.get(first.name, 0) + 1
    return ChainEnds(chains, early)


def _samples(data: memoryview, offset: int, most: int) -> Iterator[int]:
    """Yield the offsets of the next samples."""
    while offset + 8 <= len(data) and most > 0:
        kind, _, size = _HEADER.unpack_from(data, offset)
        if size < 8 or offset + size > len(data):
            return
        if kind == RecordType.SAMPLE:
            yield offset
            most -= 1
        offset += size


def _user_frames(data: memoryview, offset: int) -> list[int]:
    """Return the innermost two user addresses of a callchain."""
    (count,) = _WORD.unpack_from(data, offset)
    words = data[offset + 8 : offset + 8 + 8 * min(count, 512)].cast("Q").tolist()
    if CONTEXT_USER not in words:
        return []
    first = words.index(CONTEXT_USER) + 1
    return [word for word in words[first : first + 2] if word < CONTEXT_MAX]
