"""perf inject: add data to a recording that it was made without.

It adds an ELF file for each function of jitdump files (with MMAP2 records that map them), or build-ids of the hit files, in a
table or in the mappings. The new recording has the same events and features. FINISHED_ROUND records are dropped, because added
records are older than those around them: a reader must sort all records by time.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, MISC_USER, NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.perf_records import TimeConv, encode
from perfpy.abi.records import MAP_PRIVATE, NO_ID, PROT_EXEC, PROT_READ_EXEC, IdLayout, code_mapping
from perfpy.capture.record_options import STANDARD_OUTPUT
from perfpy.capture.unwinding.process import plain_attr
from perfpy.capture.unwinding.unwinder import Rewriting, parts_of, recordable
from perfpy.errors import OutputFailedError, PerfError
from perfpy.perfdata.header import AuxtraceIndexEntry, Feature, encode_feature, key_of
from perfpy.perfdata.skeleton import NOT_IN_RECORDINGS, features_of
from perfpy.perfdata.writer import FileWriter, PipeWriter, WrittenEvent
from perfpy.symbols import jitdump
from perfpy.symbols.dso import KERNEL_NAME
from perfpy.symbols.files.build_ids import BuildIdCache
from perfpy.symbols.jitdump import RecordedClock, is_dump, new_folder, on_clock, read_dump
from perfpy.symbols.tasks import is_anonymous, is_user_map, shown_name
from perfpy.untrusted import files
from perfpy.untrusted.destinations import create_new
from perfpy.unwind.callchains import has_user_stacks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.framing import HeaderBuildId
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.delivery import OrderedChunk, SideRecord
    from perfpy.perfdata.writer import RecordWriter
    from perfpy.symbols.jitdump import MapRecord
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.unwind.callchains import UserCallchains


_MAPPING: Final = (records.Mmap, records.Mmap2)
_STDOUT_FD: Final = 1
_TRACES: Final = (RecordType.AUXTRACE_INFO, RecordType.AUXTRACE)
#: records that the writer makes itself: a pipe has its events and features in records
_NOT_COPIED: Final = NOT_IN_RECORDINGS.difference(_TRACES, (RecordType.CALLCHAIN_DEFERRED,))
_PIECE: Final = 1 << 20  # bytes of trace that are copied at once


class _Mapped(NamedTuple):
    """The image of a function."""

    path: str
    size: int


class JitInjector:
    """Writes images of the functions in the dumps that a recording's processes mapped, and records that map the images.

    Args:
        cache: the build-id cache ("": perf's default); the images go to a new folder of jit/ in it.
        force: accept dumps of any owner.
    """

    def __init__(self, data: PerfData, cache: str = "", *, force: bool = False) -> None:
        self._data = data
        self._cache = cache or BuildIdCache().folder
        self._force = force
        event = _first_event(data)
        self._layout = IdLayout.of(event.attr, data.endian)
        self._identity = event.ids[0] if event.ids else 0
        self.dumps: dict[int, str] = {}  # pid -> its dump
        self.functions = 0
        self.folder = ""  # of the images, once it exists

    def records(self, side_band: Iterable[SideRecord]) -> list[bytes]:
        """Return the records to add; read the dumps mapped in the side-band, and write their images."""
        added: list[bytes] = []
        clock = RecordedClock.of(_first_event(self._data).attr)
        for side in side_band:
            record = side.record
            if isinstance(record, TimeConv):
                clock = clock._replace(shift=record.time_shift, mult=record.time_mult, zero=record.time_zero)
            elif isinstance(record, _MAPPING) and is_dump(record.filename) and record.pid not in self.dumps:
                require_times(self._data)
                self.dumps[record.pid] = record.filename
                added += self._inject(record, clock)
        return added

    def is_unwanted(self, record: object) -> bool:
        """Whether a record would hide added ones: the mapping of a dump, and memory that its process allocated for code."""
        if not isinstance(record, _MAPPING):
            return False
        return record.pid in self.dumps and (is_anonymous(record.filename) or is_dump(record.filename))

    def _inject(self, record: MapRecord, clock: RecordedClock) -> list[bytes]:
        dump = on_clock(read_dump(record, force=self._force), record.filename, clock)
        images: dict[int, _Mapped] = {}
        added = []
        for event in dump.events:
            if event.pid not in (record.pid, dump.pid):
                continue  # a program describes only its own code
            # The process has other ids in a container.
            own_event = event if event.pid == record.pid else event._replace(pid=record.pid, tid=record.pid)
            if isinstance(own_event, jitdump.CodeLoad):
                images[own_event.code_index] = self._write_image(own_event, dump)
            image = images.get(own_event.code_index)
            if image:
                added.append(self._mapping(own_event, image))
        return added

    def _write_image(self, load: jitdump.CodeLoad, dump: jitdump.JitDump) -> _Mapped:
        self.functions += 1
        data = jitdump.image(load, dump.machine, dump.endian)
        try:
            self.folder = self.folder or new_folder(self._cache)
            path = files.below(self.folder, files.jit_image_name(load.pid, load.code_index))
            if os.path.lexists(path):  # a repeated index; the mapped image stays
                path = files.below(self.folder, f"{self.functions}-{files.jit_image_name(load.pid, load.code_index)}")
            with open(create_new(path), "wb") as file:
                file.write(data)
        except OSError as error:
            raise OutputFailedError(error.filename or self._cache, error.strerror or str(error)) from None
        return _Mapped(path, len(load.code))

    def _mapping(self, event: jitdump.CodeLoad | jitdump.CodeMove, image: _Mapped) -> bytes:
        state = os.stat(image.path)
        file = (os.major(state.st_dev), os.minor(state.st_dev), state.st_ino)
        code = (event.address, image.size, jitdump.TEXT_OFFSET)
        record = code_mapping((event.pid, event.tid), code, image.path, event.time, self._identity, file)
        return records.encode(record, self._layout, self._data.endian)


def _first_event(data: PerfData) -> FileEvent:
    if not data.events:
        raise PerfError(f"{data.path}: no events in this recording; nothing can be added")
    return data.events[0]


def _decode_or_none(record: bytes, kind: int, misc: int, layout: IdLayout, endian: str) -> Any:
    """Return the decoded record, None if it is damaged."""
    try:
        return records.decode(kind, misc, record[8:], layout, endian)
    except (ValueError, struct.error):
        return None


class BuildIdMapper:
    """Puts build-ids into mappings.

    Args:
        build_ids: file name -> build-id, b"" if unknown.
        only_these: drop mappings of other files.
    """

    def __init__(self, data: PerfData, build_ids: Mapping[str, bytes], *, only_these: bool) -> None:
        self._layout = IdLayout.of(_first_event(data).attr, data.endian)
        self._endian = data.endian
        self._build_ids = build_ids
        self._only_these = only_these

    def map_record(self, kind: int, misc: int, record: bytes) -> bytes:
        """Return the new record of a mapping, b"" to drop it; damaged records are dropped, as readers do."""
        mapping = _decode_or_none(record, kind, misc, self._layout, self._endian)
        if not isinstance(mapping, _MAPPING):
            return b""
        prot, flags = (mapping.prot, mapping.flags) if isinstance(mapping, records.Mmap2) else (PROT_READ_EXEC, MAP_PRIVATE)
        build_id = self._build_ids.get(_dso_name(mapping, flags, executable=bool(prot & PROT_EXEC)))
        if build_id is None and self._only_these:
            return b""
        if not build_id or misc & MISC_MMAP_BUILD_ID:
            return record
        new_record = records.Mmap2(
            misc | MISC_MMAP_BUILD_ID,
            *(mapping.pid, mapping.tid, mapping.addr, mapping.len, mapping.pgoff, 0, 0, 0, 0, prot, flags, mapping.filename),
            build_id=build_id,
            sample_id=mapping.sample_id,
        )
        return records.encode(new_record, self._layout, self._endian)


def _dso_name(mapping: records.Mmap | records.Mmap2, flags: int, *, executable: bool) -> str:
    """Return the name under which a report knows the mapping's dso: code without a file has the name of its process's perf map."""
    if mapping.filename.startswith(KERNEL_NAME):
        return KERNEL_NAME
    if is_user_map(mapping.misc):
        return shown_name(mapping.filename, mapping.pid, flags, executable=executable)
    return mapping.filename


def require_times(data: PerfData) -> None:
    """Raise PerfError unless the records have times."""
    attr = _first_event(data).attr
    if not attr.sample_type & SampleType.TIME or not attr.sample_id_all:
        raise PerfError(f"{data.path}: the records have no times; record with -k mono")


def _require_possible(data: PerfData, path: str) -> None:
    """Raise PerfError or OutputFailedError before anything is written. path: of the file to create, "-" for none."""
    if data.endian != NATIVE_ENDIAN:
        raise PerfError(f"{data.path}: recorded in the other byte order; run inject on a machine with that byte order")
    if path != STANDARD_OUTPUT and os.path.exists(path) and os.path.exists(data.path) and os.path.samefile(data.path, path):
        raise OutputFailedError(path, "the output is also the input")
    _first_event(data)


def inject(
    data: PerfData,
    path: str,
    fd: int = -1,
    *,
    jit: JitInjector | None = None,
    build_ids: Collection[HeaderBuildId] | None = None,
    mapper: BuildIdMapper | None = None,
    converter: CallchainConverter | None = None,
) -> None:
    """Write a copy of a recording with added data. Raises PerfError and OutputFailedError.

    Args:
        path: "-" for standard output.
        fd: the open file at the path, which is closed; -1 to create it.
        jit: adds JIT-compiled code.
        build_ids: replaces the BUILD_ID feature; in a pipe, written as records before all others, where readers expect them.
        mapper: puts build-ids into mappings.
        converter: converts stacks to callchains (alone or with build_ids).
    """
    _require_possible(data, path if fd < 0 else STANDARD_OUTPUT)
    added = jit.records(data.side_band()) if jit else []
    writer: RecordWriter = PipeWriter(_STDOUT_FD) if path == STANDARD_OUTPUT else FileWriter(path, fd)
    features = features_of(data, build_ids) | _changed_events(data, converter)
    try:
        attrs = [event.attr if converter is None else converter.attr(event.attr) for event in data.events]
        writer.begin([WrittenEvent(attr, tuple(event.ids)) for attr, event in zip(attrs, data.events, strict=True)], features)
        build_id_entries = build_ids if build_ids is not None else data.features.get(key_of(Feature.BUILD_ID), ())
        for entry in build_id_entries if build_ids is not None or path == STANDARD_OUTPUT else ():
            writer.write(encode(entry, data.endian))
        for record in added:
            writer.write(record)
        if converter is None:
            if index := _copy_records(data, writer, jit, mapper):
                features[Feature.AUXTRACE] = encode_feature(Feature.AUXTRACE, tuple(index), data.endian)
        else:
            for stream in data.records.chunks():
                for ordered in stream:
                    for part in converter.convert(ordered):
                        writer.write(part)
        writer.finish(features)
    finally:
        writer.close()


def _copy_records(data: PerfData, writer: RecordWriter, jit: JitInjector | None, mapper: BuildIdMapper | None) -> list[AuxtraceIndexEntry]:
    """Copy all records that are no part of the header, with changed mappings; return the positions of AUXTRACE records."""
    traces = iter(sorted((side.offset, side.record.size) for side in data.side_band([RecordType.AUXTRACE])))
    index: list[AuxtraceIndexEntry] = []
    for stream in data.records.chunks():
        for ordered in stream:
            chunk = ordered.chunk
            for row, kind in enumerate(chunk.types.tolist()):
                record = chunk.record(row)
                if kind in (RecordType.MMAP, RecordType.MMAP2):
                    _, misc, _ = HEADER[data.endian].unpack_from(record)
                    if jit and jit.is_unwanted(_decode_or_none(record, kind, misc, NO_ID, data.endian)):
                        continue
                    record = mapper.map_record(kind, misc, record) if mapper else record
                if kind == RecordType.AUXTRACE:
                    index.append(AuxtraceIndexEntry(writer.size, len(record)))
                if record and kind not in _NOT_COPIED:
                    writer.write(record)
                if kind == RecordType.AUXTRACE:
                    offset, size = next(traces)
                    _copy_trace(data, writer, offset + len(record), size)
    return index


def _copy_trace(data: PerfData, writer: RecordWriter, offset: int, size: int) -> None:
    """Copy the trace that follows an AUXTRACE record. Raises PerfError if the file ends before it."""
    while size > 0:
        part = data.read(offset, min(size, _PIECE))
        if not part:
            raise PerfError(f"{data.path}: truncated within a hardware trace, {size} bytes before its end")
        writer.write(part)
        offset, size = offset + len(part), size - len(part)


def _changed_events(data: PerfData, converter: CallchainConverter | None) -> dict[int, bytes]:
    """Return the feature that describes events, if their attrs change."""
    described = data.features.get(key_of(Feature.EVENT_DESC))
    if converter is None or not described:
        return {}
    changed = tuple(one._replace(attr=converter.attr(one.attr)) for one in described)
    return {Feature.EVENT_DESC: encode_feature(Feature.EVENT_DESC, changed, data.endian)}


# perf inject --convert-callchain: replace the stack copies in a recording by callchains. The samples become as if the kernel had walked
# the user's frames; nothing else changes. The binaries must be on this machine.


class CallchainConverter:
    """Converts the chunks of one recording. callchains unwinds its stacks."""

    def __init__(self, data: PerfData, callchains: UserCallchains) -> None:
        self._callchains = callchains
        self._data = data
        self._unwound = [event.index for event in data.events if has_user_stacks(event.attr)]

    @property
    def truncated_stacks(self) -> list[TruncatedStacks]:
        """Truncated stacks, so far."""
        return self._callchains.truncated_stacks

    def attr(self, attr: EventAttr) -> EventAttr:
        """Return an event's attr in the new recording."""
        return plain_attr(attr) if has_user_stacks(attr) else attr

    def convert(self, ordered: OrderedChunk) -> list[bytes]:
        """Return the records of a chunk in order, without FINISHED_ROUND."""
        rewriting = Rewriting(ordered.chunk)
        left_out = (*_NOT_COPIED, *_TRACES)  # the traces themselves are not in chunks
        rewriting.kept_records[np.isin(ordered.chunk.types, left_out)] = False
        for number in self._unwound:
            indexes = np.flatnonzero(ordered.events == number)
            if len(indexes):
                event, samples, rows = self._data.events[number], ordered.samples.rows(indexes), ordered.rows[indexes]
                fields = {*self._callchains.fields, "ip", "cpumode"}
                columns = self._data.records.table.layouts[number].decode(samples.data, samples.starts, fields, late=True)
                extended = self._callchains.extend(columns, np.full(len(indexes), number, np.int32), ordered.keys[rows])
                chains = recordable(extended["callchain"].gather(), columns["ip"], columns["cpumode"] == MISC_USER)
                rewriting.replace(rows, parts_of(event.attr, samples), chains)
        return rewriting.written()
