"""Read a perf.data file of any kind: header, events, features, side-band records and samples.

Layout: perfpy.perfdata.header and tools/perf/Documentation/perf.data-file-format.txt.
The file is read once for the side-band (on first need) and once for
each iteration over the samples, a chunk at a time.
"""

from __future__ import annotations

import os
import time

from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.framing import as_number
from perfpy.abi.light_types import cached_property
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.events import FileEvent, Preamble, make_events
from perfpy.perfdata.header import (
    FEATURE_NAMES,
    HEADER_SIZE,
    KEPT_FILES,
    SECTION_SIZE,
    Feature,
    FileHeader,
    FileSection,
    PipeHeader,
    decode_attr_table,
    decode_header,
    key_of,
)
from perfpy.perfdata.source import ByteSource, Origin, open_source

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Any, Final

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.abi.records import KernelRecord
    from perfpy.abi.sample_decoding import SampleLayout
    from perfpy.perfdata.event_format import Tracing
    from perfpy.perfdata.kept_files import KeptFiles
    from perfpy.perfdata.records.batches import Batch, Change, FurtherColumns, RecordIndex, StoredBatch
    from perfpy.perfdata.records.delivery import KeyedSamples, RawRecord, SideBand, Span
    from perfpy.perfdata.records.scans import RecordScans
    from perfpy.perfdata.sample_source import ThreadRates
    from perfpy.perfdata.source import ByteSource

    Warn = Callable[[str], None]

_THREAD_FILES = "data."  # followed by a number
KERNEL_FOLDER = "kcore_dir"  #: in the folder of a recording with --kcore


class PerfData:
    """A perf.data file, opened for reading.

    Attributes:
        path: its name in messages.
        endian: "<" or ">".
        header: FileHeader or PipeHeader.
        data: the section of its records.
        events: in the file's order.
        features: name of the feature ("hostname", "build_id" ...) -> value (perfpy.perfdata.header).
        feature_sections: number -> section, unknown features included.
        attr_records: of a pipe, the HEADER_ATTR record of each event, header included.
        warnings: one line for each skipped part; grows while the file is read.
        decodes_traces: whether the caller makes samples of the hardware traces (perfpy.auxtrace.decoded).
        has_branch_flags: whether weights of samples are flags of branches and depths of calls (TraceDetails).
        has_ipc: whether transactions and stream ids of samples are instructions and cycles (same).
        keeps_exited: whether threads keep their names and mappings when they exit, as in perf's recordings of hardware traces.
        kernel_copy: the files of the kernel's symbols and code (record --kcore), "" without.

    Args:
        origin: a path (of a file or of a `perf record --threads` folder), "-", a descriptor or a binary file.
        check_owner: reject a file that belongs neither to this user nor to root.
        as_stored: deliver records in the order of the file, not by time.

    Raises BadPerfDataError if there is nothing to read.
    """

    def __init__(self, origin: Origin, *, check_owner: bool = False, as_stored: bool = False) -> None:
        self.as_stored = as_stored
        self.decodes_traces = self.has_branch_flags = self.has_ipc = False
        self.warnings: list[str] = []
        self._sources: list[ByteSource] = []
        self.kernel_copy = ("", "")
        try:
            self._source = self._open(origin)
            self.path = self._source.path
            for source in self._sources if check_owner else ():
                source.check_owner()
            self.header = self._decode_header()
            self.endian = self.header.endian
            preamble = read_preamble(self._source, self.header, self._warn)
            self.data = preamble.data
            self.features: dict[str, Any] = preamble.features
            self.feature_sections = preamble.feature_sections
            self.keeps_exited = Feature.AUXTRACE in self.feature_sections
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

    @cached_property
    def ended_here(self) -> float:
        """When this machine ended the recording, in seconds since 1970: the file's time. 0 if another machine made it.

        Only on the machine that ran them do device and inode identify files.
        """
        here = os.uname()
        recorded_on = tuple(self.features.get(name) for name in ("hostname", "osrelease", "arch"))
        if recorded_on != (here.nodename, here.release, here.machine):
            return 0.0
        try:
            return os.stat(self.path).st_mtime
        except (OSError, ValueError):  # a pipe or memory: it has just ended
            return time.time()

    def _open(self, origin: Origin) -> ByteSource:
        """Open the file; of a folder the main file and those of the recording threads."""
        folder = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) and os.path.isdir(origin) else ""
        if folder and not os.path.exists(main_file(folder)):
            raise BadPerfDataError(folder, f"folder without a recording ({MAIN_FILE!r})", remedy="name the file itself with -i")
        numbers = [name.removeprefix(_THREAD_FILES) for name in os.listdir(folder) if name.startswith(_THREAD_FILES)] if folder else []
        names = [_THREAD_FILES + number for number in sorted((n for n in numbers if n.isdecimal() and n.isascii()), key=int)]
        if folder and os.path.isdir(copy := os.path.join(folder, KERNEL_FOLDER)):
            self.kernel_copy = os.path.join(copy, "kallsyms"), os.path.join(copy, "kcore")
        self._sources.append(open_source(main_file(folder) if folder else origin))
        self._sources += [open_source(os.path.join(folder, name)) for name in names]
        return self._sources[0]

    def close(self) -> None:
        """Close the file. Batches and records already returned stay valid."""
        for source in self._sources:
            source.close()

    def is_file(self, fd: int) -> bool:
        """Whether a descriptor is of the recording's main file."""
        return self._source.is_file(fd)

    @property
    def is_pipe(self) -> bool:
        """Whether the recording was written to a pipe."""
        return isinstance(self.header, PipeHeader)

    def join(self, event: FileEvent, into: FileEvent, rates: ThreadRates | None = None) -> None:
        """Count the samples of `event` for `into` from now on: both measure the same, in the same unit.

        rates: converts the periods of `event` to that unit, if they differ.
        """
        self._joined[event.index] = into.index
        self._rates = rates
        into.name = f"{into.name} + {event.name}"

    def has(self, field: int) -> bool:
        """Whether samples of any event have a field."""
        return any(event.attr.sample_type & field for event in self.events)

    @property
    def has_branches(self) -> bool:
        """Whether branches were recorded for their own sake (record -b), not for callchains."""
        return Feature.BRANCH_STACK in self.feature_sections and not self.has(SampleType.STACK_USER)

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._source.size

    def watch_cuts(self) -> None:
        """End the process with a message if the file is truncated while it is mapped, for commands."""
        for source in self._sources:
            source.watches_cuts = True

    @property
    def modification_time(self) -> float:
        """The file's modification time, in seconds since the epoch."""
        return self._source.modification_time()

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file; fewer only at its end."""
        return self._source.read(offset, size)

    @property
    def has_pmcu(self) -> bool:
        """Whether the AUX data come from a HiSilicon PMCU."""
        return self._are_decoded(self.record_index.raw.of_types([RecordType.AUXTRACE_INFO]))

    def _are_decoded(self, infos: Iterable[RawRecord]) -> bool:
        """Whether the AUX data that these AUXTRACE_INFO records announce are shown beside the samples."""
        records = list(infos)
        if not records:
            return False
        from perfpy.abi.perf_records import is_pmcu  # few recordings have any

        names = {mapping.type: mapping.name for mapping in self.features.get(key_of(Feature.PMU_MAPPINGS), ())}
        return any(is_pmcu(raw.body, self.endian, names) for raw in records)

    def _are_read(self, infos: Iterable[RawRecord]) -> bool:
        """Whether the AUX data that these AUXTRACE_INFO records announce are shown, or become samples."""
        from perfpy.abi.perf_records import is_decoded

        records = list(infos)
        return self._are_decoded(records) or (self.decodes_traces and any(is_decoded(raw.body, self.endian) for raw in records))

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
        """The formats of the recording's tracepoints, or None if it has none."""
        section = self.features.get(key_of(Feature.TRACING_DATA))
        if section is None:
            return None
        # loaded here because only recordings of tracepoints need it
        from perfpy.perfdata.event_format import Tracing, decode_tracing

        try:
            return Tracing(decode_tracing(section), self._warn)
        except ValueError as error:
            self._warn(f"feature TRACING_DATA: {error}; skipped")
            return None

    @cached_property
    def kept_files(self) -> KeptFiles | None:
        """The files kept in the recording (record --jit), or None if there are none."""
        section = self.feature_sections.get(KEPT_FILES)
        if section is None or not section.size or section.end > self._source.size:
            return None
        from perfpy.perfdata.kept_files import KeptFiles  # few recordings have files

        begin = section.offset
        try:
            return KeptFiles(lambda offset, size: self._source.read(begin + offset, size), section.size, self.endian, self._warn)
        except ValueError as error:
            self._warn(f"at offset {begin:#x}: kept files: {error}; skipped")
            return None

    def section(self, number: int) -> bytes:
        """Return the bytes of a feature's section."""
        section = self.feature_sections[number]
        return self._source.read(section.offset, section.size)

    @cached_property
    def records(self) -> RecordScans:
        """The passes over the records, loaded on first use."""
        # loaded here because headers need no numpy
        from perfpy.perfdata.records.scans import RecordScans
        from perfpy.perfdata.records.stream import CHUNK_SIZE, RecordStream, chunk_size

        packing = self.features.get(key_of(Feature.COMPRESSED))
        limit = packing.mmap_len if packing else None  # of the buffer that a record was packed from
        chunk = chunk_size(self.size, has_stacks=self.has(SampleType.STACK_USER))
        size = {} if chunk == CHUNK_SIZE else {"chunk_size": chunk}
        main = RecordStream(self._source, self.data.offset, self.data.end, self.endian, unpack_limit=limit, **size)
        threads = [RecordStream(source, 0, source.size, self.endian, unpack_limit=limit, **size) for source in self._sources[1:]]
        return RecordScans(
            [main, *threads], self.events, is_pipe=self.is_pipe, warn=self._warn, as_stored=self.as_stored, are_decoded=self._are_read
        )

    @property
    def is_indexed(self) -> bool:
        """Whether the first pass was made, so that `record_index` costs nothing."""
        return "records" in self.__dict__ and self.records.is_indexed

    @property
    def record_index(self) -> RecordIndex:
        """The result of the first pass: counts, times, raw side-band."""
        return self.records.record_index

    def take_index(self, index: RecordIndex) -> None:
        """Take over the result of the first pass of another process."""
        self.records.record_index = index

    @property
    def sample_counts(self) -> Counter[int]:
        """The number of samples of each event, by index, or -1 for an unknown event."""
        return self.record_index.sample_counts

    @property
    def sample_times(self) -> tuple[int, int]:
        """The times of the first and the last sample from the header, or else from the samples, in nanoseconds."""
        header_times = self.features.get(key_of(Feature.SAMPLE_TIME))
        times = header_times if header_times and header_times.last else self.record_index  # the header of a pipe has zeros
        return times.first, times.last

    @property
    def part_count(self) -> int:
        """The number of parts that `stored_batches` can read."""
        return len(self.record_index.chunk_reads)

    @property
    def column_names(self) -> list[str]:
        """The names of all columns that samples have."""
        return self.records.column_names

    def no_samples(self) -> Columns:
        """Return the columns of no samples, each of its type."""
        return self.records.no_samples()

    def settled_keys(self, batch: Batch | StoredBatch) -> NDArray[np.uint64]:
        """Return the delivery keys of samples, adjusted to come before records of the same time that follow them in the file."""
        return self.records.equal_times.settle(batch.key, batch.offset)

    def share_read(self, batch: Batch) -> float:
        """Return the share of the file that is read after a batch, from 0 to 1."""
        return int(batch.offset[-1]) / max(self.size, 1)

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """Return the records other than samples, in order of delivery.

        types: only records of these types; by default all but FINISHED_ROUND.
        """
        return self.records.side_band(types)

    def few_records(self, types: Collection[int]) -> Iterable[KernelRecord] | None:
        """Return the kernel's records of these types in order of delivery, without numpy; None unless the recording is small and usual."""
        if self.is_pipe or self.as_stored or len(self._sources) > 1 or self.data.size > _MOST_BYTES:
            return None
        data = self._source.read(self.data.offset, self.data.size)
        return few_records(data, self.events, self.endian, types) if len(data) == self.data.size else None

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield all samples in order of delivery, some thousands at a time.

        A column that only some events' samples have is zeros, or empty rows, for
        the others. Memory is bounded by the disorder of the file, not by its size.

        Args:
            fields: names of columns (perfpy.abi.sample_decoding); None for all.
            more: computes further columns, from fields that need not be among `fields`.
        """
        return self.records.batches(self._read(fields, more), self._change(fields, more))

    def batch_of(self, span: Span, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Batch | None:
        """Return the samples of one of `records.delivery_spans`, in order of delivery, or None if it is empty. Arguments: as batches()."""
        return self.records.batch_of(span, self._read(fields, more), self._change(fields, more))

    def stored_batches(
        self, fields: Collection[str] | None = None, parts: range | None = None, more: FurtherColumns | None = None
    ) -> Iterator[StoredBatch]:
        """Yield all samples in the order of the file: like batches(), but cheaper.

        Columns of callchains, raw data and user stacks are perfpy.abi.columns.Slices, valid until the next batch.

        Args:
            fields: as for batches().
            parts: indexes below part_count, one batch for each; None for all. Earlier parts of the file are not read
                again, unless it is compressed.
            more: as for batches().
        """
        return self.records.stored_batches(self._read(fields, more), parts, self._change(fields, more))

    def sample_chunks(self) -> Iterator[KeyedSamples]:
        """Yield all samples in the order of the file, undecoded: like stored_batches(), but without a pass of its own before.

        The keys are not settled (settled_keys). Each chunk's buffer is valid until the next. Deferred callchains can be decoded only
        after a first pass.
        """
        return self.records.sample_chunks()

    def decode_samples(self, samples: KeyedSamples, fields: Collection[str]) -> StoredBatch:
        """Return columns of samples of sample_chunks(), as stored_batches() does."""
        return self.records.decode(samples, self._read(fields, None), self._change(fields, None))

    @property
    def layouts(self) -> Sequence[SampleLayout]:
        """The layout of each event's samples."""
        return self.records.table.layouts

    def _read(self, fields: Collection[str] | None, more: FurtherColumns | None) -> Collection[str] | None:
        """Return the fields to decode."""
        if fields is None:
            return None
        needed = {*fields, *(more.fields if more else ())}
        return needed | {"tid"} if self._rates and "period" in needed else needed

    def _change(self, fields: Collection[str] | None, more: FurtherColumns | None) -> Change | None:
        """Return a function that adds columns to decoded samples, drops those needed only for that, and joins events."""
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
            key = self.records.equal_times.settle(samples.key, samples.offset)
            columns = more.extend(samples.columns, samples.event, key)
            for name in spare:
                columns.pop(name, None)
            return samples._replace(columns=columns)

        return change


# Read the events and features of a recording, before its records. A file has them in tables and sections around its data
# (perfpy.perfdata.header), a pipe in records among the others (perfpy.abi.perf_records).


def read_preamble(source: ByteSource, header: FileHeader | PipeHeader, warn: Warn) -> Preamble:
    """Read the events and features of a file, or of a pipe up to its first sample.

    Raises BadPerfDataError if the records cannot be decoded without the damaged parts.
    """
    if isinstance(header, PipeHeader):
        # loaded here because headers of files need no numpy
        from perfpy.perfdata.records.pipe_preamble import PipePreamble

        return PipePreamble(source, header, warn).read()
    return _FilePreamble(source, header, warn).read()


class _FilePreamble:
    """A reader of the tables and sections of a file."""

    def __init__(self, source: ByteSource, header: FileHeader, warn: Warn) -> None:
        self._source = source
        self._header = header
        self._warn = warn

    def read(self) -> Preamble:
        preamble = Preamble(self._data_section())
        section = self._header.attrs
        if section.end > self._source.size:
            raise self._fail("the file ends within its table of events", section.offset)
        try:
            entries = decode_attr_table(self._source.read(*section), self._header.attr_size, self._header.endian)
        except ValueError as error:
            raise self._fail(str(error), section.offset) from None
        if not entries:
            raise self._fail("no events", section.offset)
        # Sections do not overlap: together they are no longer than the file.
        if sum(entry.ids.size for entry in entries) > self._source.size:
            raise self._fail("event ids longer than the file", section.offset)
        preamble.events = [(entry.attr, self._read_ids(entry.ids)) for entry in entries]
        if self._header.data.size:
            self._read_features(preamble)
        return preamble

    def _fail(self, reason: str, offset: int) -> BadPerfDataError:
        return BadPerfDataError(self._source.path, reason, offset=offset)

    def _data_section(self) -> FileSection:
        """Return the section of the records. The header of a killed recording has size 0, or that of the last mark without features.

        A table of events after the data is written when all data is there (`perf inject` of a pipe).
        """
        data, size = self._header.data, self._source.size
        if data.offset > size:
            raise self._fail(f"the data begins here, beyond the file's {size} bytes", data.offset)
        if data.size and (self._header.features or data.end >= size or self._header.attrs.offset >= data.end):
            return data
        self._warn(f"data size {data.size}: the recording was not finished; read up to its last whole record")
        return FileSection(data.offset, size - data.offset)

    def _read_ids(self, section: FileSection) -> tuple[int, ...]:
        if section.end > self._source.size or section.size % 8:
            raise self._fail(f"event ids of {section.size} bytes in a file of {self._source.size}", section.offset)
        data = self._source.read(*section)
        return tuple(as_number(data[i : i + 8], self._header.endian) for i in range(0, len(data), 8))

    def _read_features(self, preamble: Preamble) -> None:
        header = self._header
        table = self._source.read(header.data.end, SECTION_SIZE * len(header.features))
        bytes_left = self._source.size  # sections do not overlap: together they are no longer than the file
        for index, number in enumerate(header.features):
            entry = table[index * SECTION_SIZE : (index + 1) * SECTION_SIZE]
            if len(entry) < SECTION_SIZE:
                self._warn(f"at offset {header.data.end:#x}: the feature table is truncated")
                return
            section = FileSection(as_number(entry[:8], header.endian), as_number(entry[8:], header.endian))
            preamble.feature_sections[number] = section
            bytes_left -= section.size
            if section.end > self._source.size or bytes_left < 0:
                self._warn(f"at offset {section.offset:#x}: feature {number} of {section.size} bytes extends beyond the file; skipped")
            elif number in FEATURE_NAMES:
                preamble.add_feature(number, self._source.read(*section), header.endian, self._warn)


# The records of a small recording, one by one: numpy's import takes longer. Whatever RecordScans would warn of is left to it.

_MOST_BYTES: Final = 1 << 19
_LEADING_FIELDS: Final = (  # of samples and trailers: they decide where times and ids are
    SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.ADDR | SampleType.ID | SampleType.STREAM_ID
    | SampleType.CPU
)  # fmt: skip
_IDS: Final = SampleType.IDENTIFIER | SampleType.ID
_UNUSUAL: Final = frozenset((RecordType.HEADER_TRACING_DATA, RecordType.AUXTRACE, RecordType.COMPRESSED, RecordType.COMPRESSED2))
_FIRST_FOREIGN_TYPE: Final = 0x8000
_NO_TIME: Final = (1 << 64) - 1


def few_records(data: bytes, events: Sequence[FileEvent], endian: str, types: Collection[int]) -> list[KernelRecord] | None:
    """Return the kernel's records of these types in order of delivery (perfpy.perfdata.records.delivery has the rule).

    Return None if they are damaged, or of unusual types, or if times and ids stand elsewhere in another event's.

    Args:
        data: all records of the recording.
        events: of the recording.
        endian: "<" or ">".
        types: below HEADER_ATTR, SAMPLE excluded.
    """
    from struct import Struct

    from perfpy.abi import records  # headers need neither
    from perfpy.abi.framing import HEADER
    from perfpy.abi.sample_layout import words_before

    attr = events[0].attr
    if len({(event.attr.sample_type & _LEADING_FIELDS, event.attr.sample_id_all) for event in events}) > 1:
        return None
    if len(events) > 1 and not attr.sample_type & _IDS:
        return None
    trailer = records.IdLayout.of(attr, endian)
    by_time = bool(attr.sample_type & SampleType.TIME) and bool(attr.sample_id_all)
    in_sample = 8 * words_before(attr.sample_type, SampleType.TIME)
    from_end = trailer.size - 8 * bool(attr.sample_type & SampleType.TID)
    header, number = HEADER[endian].unpack_from, Struct(endian + "Q").unpack_from
    chosen: list[tuple[int, int, KernelRecord]] = []  # with their keys and times
    begin = floor = limit = latest = 0
    while begin < len(data):
        kind, misc, size = header(data, begin) if begin + 8 <= len(data) else (0, 0, 0)
        if size < 8 or size & 7 or begin + size > len(data) or kind in _UNUSUAL or kind >= _FIRST_FOREIGN_TYPE:
            return None
        time = 0
        if kind == RecordType.FINISHED_ROUND:
            floor, limit = max(floor, limit), latest
        elif by_time and kind < RecordType.HEADER_ATTR:
            position = in_sample if kind == RecordType.SAMPLE else size - from_end
            if 8 <= position <= size - 8:
                (time,) = number(data, begin + position)
                time = 0 if time == _NO_TIME else time
                latest = max(latest, time)
        if kind in types:
            try:
                record = records.decode(kind, misc, data[begin + 8 : begin + size], trailer, endian)
            except ValueError:
                return None
            chosen.append((max(time, floor + 1 if floor else 0), time, record))
        begin += size
    if by_time:
        chosen.sort(key=lambda entry: entry[:2])
    return [record for _, _, record in chosen]


# Recordings that are folders (perf record --threads): a main file, and one file for each recording thread. Layout:
# perf.data-directory-format.txt in the documentation of perf.

MAIN_FILE: Final = "data"


def main_file(folder: str) -> str:
    """Return the path of the main file of a recording in a folder."""
    return os.path.join(folder, MAIN_FILE)


# Recognize folders of tables (perfpy export --parquet), and list the recordings in them.

MARKER: Final = "perfpy.json"
VERSION: Final = 1
RECORDINGS: Final = "recordings"
SUFFIX: Final = ".parquet"


def recordings_in(origin: Any) -> list[str]:
    """Return the paths of the recordings in a folder of tables, or of the one recording that `origin` names; [] for anything else."""
    if not isinstance(origin, (str, os.PathLike)):
        return []
    path = os.fspath(origin)
    if path.endswith(SUFFIX):
        folder, name = os.path.split(os.path.abspath(path))
        is_recording = os.path.basename(folder) == RECORDINGS and os.path.isfile(os.path.join(os.path.dirname(folder), MARKER))
        return [os.path.join(folder, name)] if is_recording else []
    folder = os.path.join(path, RECORDINGS)
    if not (os.path.isdir(folder) and os.path.isfile(os.path.join(path, MARKER))):
        return []
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX))
