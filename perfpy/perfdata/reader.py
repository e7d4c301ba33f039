"""PerfData: a perf.data file of any kind, read.

What enters: a path (of a file or of a `perf record --threads` folder), "-", a
file descriptor or a binary file. What leaves: the header, the events, the
features, the side-band records and the samples as batches of columns. Layout:
perfpy.perfdata.container.header and tools/perf/Documentation/perf.data-file-format.txt.

The file is passed over once for the side-band (on first need) and once for
each iteration over the samples, a chunk at a time.
"""

from __future__ import annotations

import os

from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.startup import cached_property
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.container.events import FileEvent, make_events
from perfpy.perfdata.container.features import Feature, key_of
from perfpy.perfdata.container.header import HEADER_SIZE, FileHeader, PipeHeader, decode_header
from perfpy.perfdata.container.source import ByteSource, Origin, open_source
from perfpy.perfdata.file_preamble import read_preamble
from perfpy.perfdata.recording_folder import MAIN_FILE, main_file

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable, Iterator
    from types import TracebackType
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.perfdata.container.kept_files import KeptFiles
    from perfpy.perfdata.records.batches import Batch, Change, FurtherColumns, StoredBatch
    from perfpy.perfdata.records.delivery_spans import Span
    from perfpy.perfdata.records.equal_times import EqualTimes
    from perfpy.perfdata.records.raw_records import RawRecord
    from perfpy.perfdata.records.scans import RecordScans
    from perfpy.perfdata.records.side_band import SideBand
    from perfpy.perfdata.records.survey import Survey
    from perfpy.perfdata.thread_rates import ThreadRates
    from perfpy.perfdata.tracepoints.tracing_data import Tracing

_THREAD_FILES = "data."  # and a number
KERNEL_FOLDER = "kcore_dir"  #: in the folder of a recording with --kcore


class PerfData:
    """A perf.data file.

    path: as it is named in messages; endian: "<" or ">"; header: FileHeader or
    PipeHeader; data: the Section of its records; events: FileEvent values in
    the file's order; features: name of the feature ("hostname", "build_id"
    ...) -> its value (perfdata.features); feature_sections: number -> Section,
    also of features that are not known here; attr_records: of a pipe, the
    record that announced each event, header and all; warnings: what was left out and
    why, in one line each; grows while the file is read; kernel_copy: the
    files with the kernel's symbols and its code (record --kcore), "" without.

    check_owner: refuse a file that belongs neither to this user nor to root.
    as_stored: deliver records as they stand in the file, not by time.
    Raises BadPerfDataError when there is nothing to read.
    """

    def __init__(self, origin: Origin, *, check_owner: bool = False, as_stored: bool = False) -> None:
        self.as_stored = as_stored
        self.warnings: list[str] = []
        self._sources: list[ByteSource] = []
        self.kernel_copy = ("", "")
        try:
            self._source = self._open(origin)
            self.path = self._source.path
            if check_owner:
                self._source.check_owner()
            self.header = self._decode_header()
            self.endian = self.header.endian
            preamble = read_preamble(self._source, self.header, self._warn)
            self.data = preamble.data
            self.features: dict[str, Any] = preamble.features
            self.feature_sections = preamble.feature_sections
            self.events: list[FileEvent] = make_events(preamble, self.tracing)
            self.attr_records = preamble.attr_records
            self._joined: dict[int, int] = {}  # index of an event -> of the one that its samples count for
            self._rates: ThreadRates | None = None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PerfData:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _open(self, origin: Origin) -> ByteSource:
        """The file itself; of a folder the main file, and beside it those of the recording threads."""
        folder = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) and os.path.isdir(origin) else ""
        if folder and not os.path.exists(main_file(folder)):
            raise BadPerfDataError(folder, f"a folder without a recording ({MAIN_FILE!r})", remedy="name the file itself with -i")
        numbers = [name.removeprefix(_THREAD_FILES) for name in os.listdir(folder) if name.startswith(_THREAD_FILES)] if folder else []
        names = [_THREAD_FILES + number for number in sorted((n for n in numbers if n.isdecimal() and n.isascii()), key=int)]
        if folder and os.path.isdir(copy := os.path.join(folder, KERNEL_FOLDER)):
            self.kernel_copy = os.path.join(copy, "kallsyms"), os.path.join(copy, "kcore")
        self._sources.append(open_source(main_file(folder) if folder else origin))
        self._sources += [open_source(os.path.join(folder, name)) for name in names]
        return self._sources[0]

    def close(self) -> None:
        """Close the file. Batches and records already handed out stay valid."""
        for source in self._sources:
            source.close()

    @property
    def is_pipe(self) -> bool:
        """Whether the recording was written to a pipe."""
        return isinstance(self.header, PipeHeader)

    def join(self, event: FileEvent, into: FileEvent, rates: ThreadRates | None = None) -> None:
        """From here on the samples of one event are another's: both measure the same, in the same unit.

        rates: what turns the periods of the other into that unit, where they have not got it.
        """
        self._joined[event.index] = into.index
        self._rates = rates
        into.name = f"{into.name} + {event.name}"

    def has(self, field: int) -> bool:
        """Whether samples of any event have a field."""
        return any(event.attr.sample_type & field for event in self.events)

    @property
    def has_branches(self) -> bool:
        """Whether the header says that branches were recorded for their own sake (record -b), not for callchains."""
        return Feature.BRANCH_STACK in self.feature_sections and not self.has(SampleType.STACK_USER)

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._source.size

    def watch_cuts(self) -> None:
        """From now on the process ends with a line if the file is cut while it is mapped into memory: for commands."""
        for source in self._sources:
            source.watches_cuts = True

    @property
    def modified(self) -> float:
        """When the file was last changed, in seconds since the epoch."""
        return self._source.modified()

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the file; fewer only at its end."""
        return self._source.read(offset, size)

    @property
    def has_pmcu(self) -> bool:
        """Whether the AUX data are of a HiSilicon PMCU."""
        return self._are_decoded(self.survey.raw.of_types([RecordType.AUXTRACE_INFO]))

    def _are_decoded(self, infos: Iterable[RawRecord]) -> bool:
        """Whether perfpy has a decoder for the AUX data that these AUXTRACE_INFO records announce."""
        records = list(infos)
        if not records:
            return False
        from perfpy.abi.auxtrace_records import is_pmcu  # few recordings have any

        names = {mapping.type: mapping.name for mapping in self.features.get(key_of(Feature.PMU_MAPPINGS), ())}
        return any(is_pmcu(raw.body, self.endian, names) for raw in records)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _decode_header(self) -> FileHeader | PipeHeader:
        try:
            return decode_header(self._source.read(0, HEADER_SIZE))
        except ValueError as error:
            raise BadPerfDataError(self.path, str(error)) from None

    @cached_property
    def tracing(self) -> Tracing | None:
        """What the file knows of its tracepoints; None when it says nothing."""
        section = self.features.get(key_of(Feature.TRACING_DATA))
        if section is None:
            return None
        # only recordings of tracepoints need it
        from perfpy.perfdata.tracepoints.tracing_data import Tracing, decode_tracing

        try:
            return Tracing(decode_tracing(section), self._warn)
        except ValueError as error:
            self._warn(f"feature TRACING_DATA: {error}; left out")
            return None

    @cached_property
    def kept_files(self) -> KeptFiles | None:
        """The files that were kept with the recording (record --jit); None where there are none."""
        # only symbols need it
        from perfpy.perfdata.container.kept_files import KEPT_FILES, KeptFiles

        section = self.feature_sections.get(KEPT_FILES)
        if section is None or not section.size or section.end > self._source.size:
            return None
        begin = section.offset
        try:
            return KeptFiles(lambda offset, size: self._source.read(begin + offset, size), section.size, self.endian, self._warn)
        except ValueError as error:
            self._warn(f"offset {begin:#x}: kept files: {error}; left out")
            return None

    def section(self, number: int) -> bytes:
        """The bytes of a feature's section, as they are in the file."""
        section = self.feature_sections[number]
        return self._source.read(section.offset, section.size)

    @cached_property
    def records(self) -> RecordScans:
        """The passes over the records, of which survey, side_band, batches and stored are the usual ones."""
        # numpy is loaded for the records, not for the header
        from perfpy.perfdata.records.scans import RecordScans
        from perfpy.perfdata.records.stream import CHUNK_SIZE, RecordStream, chunk_size

        packing = self.features.get(key_of(Feature.COMPRESSED))
        limit = packing.mmap_len if packing else None  # of the buffer that a record was packed from
        wanted = chunk_size(self.size, has_stacks=self.has(SampleType.STACK_USER))
        size = {} if wanted == CHUNK_SIZE else {"chunk_size": wanted}
        main = RecordStream(self._source, self.data.offset, self.data.end, self.endian, unpack_limit=limit, **size)
        threads = [RecordStream(source, 0, source.size, self.endian, unpack_limit=limit, **size) for source in self._sources[1:]]
        return RecordScans(
            [main, *threads], self.events, is_pipe=self.is_pipe, warn=self._warn, as_stored=self.as_stored, are_decoded=self._are_decoded
        )

    @property
    def survey(self) -> Survey:
        """What the first pass over the file found: counts, times, raw side-band."""
        return self.records.survey

    @property
    def sample_counts(self) -> Counter[int]:
        """The number of samples of each event, by index; -1: of no known event."""
        return self.survey.events

    @property
    def sample_times(self) -> tuple[int, int]:
        """The times of the first and the last sample as the header or else the samples say, in nanoseconds."""
        said = self.features.get(key_of(Feature.SAMPLE_TIME)) or self.survey
        return said.first, said.last

    @property
    def part_count(self) -> int:
        """In how many parts `stored` can be read."""
        return len(self.survey.turns)

    @property
    def column_names(self) -> list[str]:
        """The names of all columns that samples have."""
        return self.records.column_names

    def no_samples(self) -> Columns:
        """Return the columns of no samples, each of its type."""
        return self.records.no_samples()

    def settled_keys(self, batch: Batch | StoredBatch) -> NDArray[np.uint64]:
        """Return the keys of samples, in front of the records of the same time that they stand in front of."""
        return self.equal_times.settled(batch.key, batch.offset)

    def share_read(self, batch: Batch) -> float:
        """Return how much of the file is read after a batch, from 0 to 1."""
        return int(batch.offset[-1]) / max(self.size, 1)

    @cached_property
    def equal_times(self) -> EqualTimes:
        """Puts samples in front of the records of the same time that they stand in front of."""
        # numpy is loaded for the records, not for the header
        from perfpy.perfdata.records.equal_times import EqualTimes

        raw = self.survey.raw.rows
        return EqualTimes(raw["key"], raw["time"], raw["offset"])

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """The records that are no samples, in order of delivery: an iterable of SideRecord.

        types: only records of these types; by default all but FINISHED_ROUND.
        """
        return self.records.side_band(types)

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """All samples in order of delivery, some thousands at a time.

        fields: names of the columns wanted (perfpy.abi.samples; None: all). A
        column that only some events' samples have is zeros, or empty rows, for
        the others. Memory is bounded by the disorder of the file, not by its size.
        more: makes further columns of others, which need not be among the fields.
        """
        return self.records.batches(self._read(fields, more), self._change(fields, more))

    def batch_of(self, span: Span, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Batch | None:
        """The samples of one of `records.delivery_spans`, in order of delivery; None where there are none. fields, more: as for batches."""
        return self.records.batch_of(span, self._read(fields, more), self._change(fields, more))

    def stored(
        self, fields: Collection[str] | None = None, parts: range | None = None, more: FurtherColumns | None = None
    ) -> Iterator[StoredBatch]:
        """All samples as they stand in the file: as batches(), for those who need no order, and cheaper.

        parts: indexes below part_count: only these, a batch for each; what is before them in the file is not read
        again, unless it is compressed. Columns of callchains and user stacks are perfpy.abi.columns.Slices: valid until
        the next batch is asked for. more: as for batches.
        """
        return self.records.stored(self._read(fields, more), parts, self._change(fields, more))

    def _read(self, fields: Collection[str] | None, more: FurtherColumns | None) -> Collection[str] | None:
        """The fields that are read."""
        if fields is None:
            return None
        wanted = {*fields, *(more.fields if more else ())}
        return wanted | {"tid"} if self._rates and "period" in wanted else wanted

    def _change(self, fields: Collection[str] | None, more: FurtherColumns | None) -> Change | None:
        """What adds columns to decoded samples, and leaves out what was read for it alone; and joins events."""
        added = self._addition(fields, more)
        if not self._joined:
            return added
        import numpy as np  # this is about samples

        owners = np.array([self._joined.get(event.index, event.index) for event in self.events], np.int32)

        def change(samples: StoredBatch) -> StoredBatch:
            samples = added(samples) if added else samples
            if self._rates:
                self._rates.change(samples.columns, samples.event)
            return samples._replace(event=np.where(samples.event < 0, samples.event, owners[samples.event]))

        return change

    def _addition(self, fields: Collection[str] | None, more: FurtherColumns | None) -> Change | None:
        if more is None:
            return None
        spare = frozenset() if fields is None else frozenset(more.fields).difference(fields)

        def change(samples: StoredBatch) -> StoredBatch:
            key = self.equal_times.settled(samples.key, samples.offset)
            columns = more.extended(samples.columns, samples.event, key)
            for name in spare:
                columns.pop(name, None)
            return samples._replace(columns=columns)

        return change
