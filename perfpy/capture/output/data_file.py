"""One perf.data of a recording: the header and records before the samples, and the features after them.

The features include the build-ids of the files that samples hit.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import ATTR_SIZE_VER7, SampleType
from perfpy.capture.metadata import event_records
from perfpy.capture.metadata.recorded_features import RecordedFeatures
from perfpy.capture.metadata.synthesis import Synthesis, id_layout
from perfpy.capture.record_options import SYNTH_CGROUP, SYNTH_MMAP, SYNTH_TASK
from perfpy.capture.targets import ANY
from perfpy.kernel.bpf.loaded_programs import loaded_programs, loaded_types
from perfpy.kernel.sysfs import module_text
from perfpy.perfdata.container.writer import FileWriter, WrittenEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.perf_records.build_id_record import HeaderBuildId
    from perfpy.capture.dso_hits import DsoHits
    from perfpy.capture.output.output import OutputPart, RecordOutput
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.kernel.procfs import ProcFs
    from perfpy.perfdata.container.compression import Packer

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
        hit_files: the files that samples hit, as far as their build-ids were looked for.
        lost: the number of lost samples.
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
        self._attrs = [truncate_attr(attr) for attr in attrs or [event.attr for event in counters.events]]
        self._counters = counters
        self._options = options
        self._workload = workload
        self._packer = packer
        self._features = RecordedFeatures(counters, options, self._attrs)
        self._layout = id_layout(counters.events[0].attr.sample_type)
        self._tail = options.side_band.tail_synthesize or options.buffers.overwrite
        self._procfs = procfs
        self._tracing = self._tracing_data()
        # As in perf, separate threads are recorded without data of the whole machine.
        self._programs = loaded_programs() if options.side_band.bpf_events and not options.target.per_thread else []
        self._program_types = loaded_types(self._programs)
        self.samples: int | None = None
        self.hint = ""
        self.hit_files: list[str] = []
        self.lost = 0

    def _tracing_data(self) -> bytes:
        tracepoints = [event.event.tracepoint for event in self._counters.events if event.event.tracepoint]
        if not tracepoints:
            return b""
        # Only tracepoints need tracefs.
        from perfpy.capture.metadata.tracing_data import tracing_data
        from perfpy.kernel.tracefs import Tracefs

        return tracing_data(Tracefs(), tracepoints).encode()

    def begin(self, *, first: bool = True) -> None:
        """Write everything before the samples; first: the command has not started yet."""
        self._begin_head()
        if not self._tail:
            self._write(self._synthesized_records())
        if self._workload and first:  # the name before exec, because samples may come before the kernel's own COMM
            self._write(self._synthesis().comm(self._workload))
        elif self._workload:
            self._write(self._synthesis().threads((self._workload,)))
        if not self._tail:
            self._output.write(event_records.FINISHED_INIT)

    def resume(self, records: Iterable[bytes]) -> None:
        """Begin a file in the middle of a recording, with the records of the current state."""
        self._begin_head()
        self._write(records)

    @property
    def attrs(self) -> list[EventAttr]:
        """The attrs of the events, as the file has them."""
        return self._attrs

    @property
    def written_events(self) -> list[WrittenEvent]:
        """The events as they are in the file."""
        return [WrittenEvent(attr, self._counters.ids(event)) for event, attr in zip(self._counters.events, self._attrs, strict=True)]

    def _begin_head(self) -> None:
        features = self._collect() if self._output.is_pipe else {}
        self._output.begin(self.written_events, features)

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
            yield from event_records.time_conversion(counters.rings[0])
        yield from event_records.id_index(counters)
        if counters.aux:
            from perfpy.capture.rings.aux_area import info_record  # few machines have one

            yield info_record(counters.aux.kind)
        if not all(event.attr.exclude_kernel for event in counters.events):
            yield from synthesis.kernel()
        yield from event_records.event_updates(counters, pipe=self._output.is_pipe)
        yield event_records.thread_map(counters)
        yield event_records.cpu_map(counters)
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
            from perfpy.capture.metadata.build_id_table import own_build_id  # reads ELF files

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
            for lost, record in event_records.lost_samples(self._counters, self._layout):
                self.lost += lost
                self._output.write(record)
        if self._tail:
            self._output.write(event_records.FINISHED_INIT)
            self._write(self._synthesized_records())
        self._output.finish(self._final_features())

    def early_features(self) -> dict[int, bytes]:
        """Return the features that are known before the first sample."""
        return self._collect() | self._room_for_names()

    def _final_features(self) -> dict[int, bytes]:
        if self._output.is_pipe:
            return {}
        hits = self._scan()
        build_ids = self._build_ids(hits) if hits and self._options.output.buildids else ()
        features = self._collect(times=(hits.first_time, hits.last_time) if hits else (0, 0), build_ids=build_ids)
        return features | self._room_for_names()

    def _room_for_names(self) -> dict[int, bytes]:
        """Return the entry for files that are added after the recording."""
        if not (self._options.jit or self._options.python or self._options.output.self_contained):
            return {}
        from perfpy.perfdata.container.kept_files import KEPT_FILES  # rarely needed

        return {KEPT_FILES: b""}

    def _collect(self, *, times: tuple[int, int] = (0, 0), build_ids: Sequence[HeaderBuildId] = ()) -> dict[int, bytes]:
        return self._features.collect(
            tracing=self._tracing,
            times=times,
            build_ids=build_ids,
            programs=self._programs,
            program_types=self._program_types,
            packer=self._packer,
            mmap_len=self._longest_piece(),
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

        hits = DsoHits(self._attrs)
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
        if not looks_at_chains(self._options, self._attrs):
            return
        from perfpy.capture.metadata.frame_pointer_hint import chain_ends, has_walked_chains  # not needed while the measurement runs

        if has_walked_chains(self._attrs):
            self.hint = self.hint or chain_ends(data, rounds, self._attrs, hits).of_frame_pointers()

    def _build_ids(self, hits: DsoHits) -> tuple[HeaderBuildId, ...]:
        from perfpy.capture.metadata.build_id_table import keep, paths, replaced_line, table  # as above

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
        if files.others:
            self._tell_apart(files.other_build_ids)
        return files.entries

    def _tell_apart(self, others: Mapping[tuple[bytes, tuple[int, ...]], bytes]) -> None:
        """Write the build-ids of files that share their name with another one into the records of their mappings."""
        if self._packer and not self._output.hits:  # the unwinding process has written them already, but not into synthesized records
            names = ", ".join(sorted({os.fsdecode(name) for name, _ in others})[:3])
            print(f"warning: containers have other files named {names}; record without -z to have their symbols", file=sys.stderr)
        from perfpy.capture.metadata.build_id_table import build_ids_in_mappings  # rarely needed

        with suppress(OSError):  # a device such as /dev/null
            for part in self._output.parts():
                if part.end > part.begin:
                    with _map_part(part) as data:
                        for offset, piece in build_ids_in_mappings(data, others):
                            os.pwrite(part.fd, piece, part.begin + offset)

    def _longest_piece(self) -> int:
        return max((ring.size for ring in self._counters.rings), default=0)


def looks_at_chains(options: RecordOptions, attrs: Sequence[EventAttr]) -> bool:
    """Return whether callchains are checked: all events have some, the kernel walked them, and messages are printed."""
    return not (options.sampling.unwind or options.quiet) and all(attr.sample_type & SampleType.CALLCHAIN for attr in attrs)


def scan_part(data: memoryview, part: OutputPart, hits: DsoHits, *, packed: bool) -> None:
    """Scan a part of a finished file, and clear the build-id mark of mappings without a build-id, which perf would trust."""
    if packed:
        from perfpy.capture.metadata.unpacked import unpack_records  # few recordings are compressed

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
