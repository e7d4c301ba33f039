"""The passes over the records of a recording: the first pass, the side-band, the batches of samples.

Each pass works on a chunk at a time: RecordStream finds the records, DeliveryKeys orders those of all files.
"""

from __future__ import annotations

import struct
from collections import Counter
from functools import cached_property
from itertools import islice

import numpy as np

from perfpy.abi.columns import Columns, Ragged, slices_index
from perfpy.abi.flags import CONTEXT_USER_DEFERRED, PerfType, RecordType, SampleType, SoftwareId
from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.errors import plural
from perfpy.perfdata.records.batches import Batch, RecordIndex, RecordIndexer, SampleDecoder, StoredBatch, ordered_batches, stored_batches
from perfpy.perfdata.records.delivery import (
    DeliveryKeys,
    EqualTimes,
    EventTable,
    KeyedSamples,
    OrderedChunk,
    SideBand,
    Span,
    records_of_types,
    spans_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Change
    from perfpy.perfdata.records.delivery import RawRecord, RawRecords
    from perfpy.perfdata.records.stream import RecordStream


_FIRST_FOREIGN_TYPE: Final = 0x8000  # the first of simpleperf's own record types


class RecordScans:
    """The records of one recording.

    Attributes:
        streams: one per file, the main file's first, then those of recording threads.
        table: the events, and the layouts of samples and trailers.
        by_time: whether perf delivers the records by time; otherwise they come in the order of the file.
    """

    def __init__(
        self,
        streams: Sequence[RecordStream],
        events: Sequence[FileEvent],
        *,
        is_pipe: bool,
        warn: Callable[[str], None],
        as_stored: bool = False,
        are_decoded: Callable[[Iterable[RawRecord]], bool] = lambda _: False,
    ) -> None:
        """Set up the passes.

        Args:
            streams: one per file.
            events: of the recording.
            is_pipe: whether it was written to a pipe.
            warn: called with one line for each skipped part.
            as_stored: ignore times.
            are_decoded: whether a decoder exists for the AUX data that these AUXTRACE_INFO records announce.
        """
        self._are_decoded = are_decoded
        self.streams = streams
        self._warn = warn
        self.table = EventTable(events, streams[0].endian)
        if not self.table.has_event_ids:
            warn("the samples have no event id; all are counted for the first event")
        self.by_time = not as_stored and self.table.has_times and (is_pipe or bool(events[0].attr.sample_id_all))
        in_rounds = len(streams) == 1  # rounds of the main file say nothing about the other files
        self._keys = [DeliveryKeys(self.table, by_time=self.by_time, in_rounds=in_rounds) for _ in streams]
        self._indexer: RecordIndexer | None = None  # of a first pass that is under way
        self._side_band_so_far: RawRecords | None = None
        self._equal_times: tuple[RawRecords, EqualTimes] | None = None  # of a side-band

    @property
    def column_names(self) -> list[str]:
        """The columns that the samples of any event have, in layout order."""
        return list(dict.fromkeys(name for layout in self.table.layouts for name in layout.names))

    def no_samples(self) -> Columns:
        """Return every column, without rows."""
        empty = np.zeros(8, np.uint8), np.zeros(0, np.int64)
        return Columns.concat([Columns(0), *(layout.decode(*empty) for layout in self.table.layouts)])

    def chunks(self) -> list[Iterator[OrderedChunk]]:
        """Return the ordered chunks of each stream: all records in the order of the files."""
        return [self._chunks(number) for number in range(len(self.streams))]

    def _chunks(self, number: int) -> Iterator[OrderedChunk]:
        stream, keys = self.streams[number], self._keys[number]
        order = keys.before(0)
        for index, chunk in enumerate(stream.chunks()):
            ordered = keys.order_chunk(chunk, index, order)
            self._warn_of_damage(stream)
            yield ordered
        self._warn_of_damage(stream)

    def _samples(self, first: Mapping[int, int] | None = None) -> list[Iterator[KeyedSamples]]:
        """Return the samples of each stream, after the first pass. first: stream -> the chunk to begin with."""
        return [self._samples_of(number, first.get(number, 0) if first else 0) for number in range(len(self.streams))]

    def _samples_of(self, number: int, first: int) -> Iterator[KeyedSamples]:
        stream, keys = self.streams[number], self._keys[number]
        for index, chunk in enumerate(stream.chunks(first), first):
            samples = keys.samples_again(chunk, index)
            self._warn_of_damage(stream)
            yield samples
        self._warn_of_damage(stream)

    def _warn_of_damage(self, stream: RecordStream) -> None:
        if stream.damage:
            self._warn(f"at offset {stream.damage.offset:#x}: {stream.damage.reason}; read up to there")

    @property
    def is_damaged(self) -> bool:
        """Whether the last pass ended before the end of the records."""
        return any(stream.damage for stream in self.streams)

    @property
    def is_truncated(self) -> bool:
        """Whether the only damage of the last pass is a truncated last record."""
        damages = [stream.damage for stream in self.streams if stream.damage]
        return bool(damages) and all(damage.is_end for damage in damages)

    @property
    def is_indexed(self) -> bool:
        """Whether the first pass was made."""
        return "record_index" in self.__dict__

    @cached_property
    def record_index(self) -> RecordIndex:
        """The result of the first pass: counts, times, raw side-band."""
        indexer = RecordIndexer(len(self.streams))
        for number, chunks in enumerate(self.chunks()):
            for ordered in chunks:
                indexer.add(number, ordered)
        return self._index(indexer)

    def _index(self, indexer: RecordIndexer) -> RecordIndex:
        """Return the index after the first pass; warn of what is not read."""
        index = indexer.index(stream.unpacked for stream in self.streams)
        for kind, count in sorted(index.type_counts.items()):
            if kind >= _FIRST_FOREIGN_TYPE:
                self._warn(f"skipped {count} {plural(count, 'record')} of unknown type {kind}")
        traces = index.type_counts[RecordType.AUXTRACE]
        if traces and not self._are_decoded(index.raw.of_types([RecordType.AUXTRACE_INFO])):
            self._warn(f"hardware traces in {traces} AUXTRACE records are not decoded or shown")
        return index

    @property
    def known_side_band(self) -> RawRecords:
        """The side-band without bulk: all of it, or during a first pass what note_side_band() has noted."""
        return self.record_index.raw if self.is_indexed or self._side_band_so_far is None else self._side_band_so_far

    @property
    def side_band_so_far(self) -> RawRecords | None:
        """The noted side-band of a first pass that is under way; None without."""
        return None if self.is_indexed else self._side_band_so_far

    @property
    def side_band_count(self) -> int:
        """The number of records of the side-band that were read so far."""
        return len(self.record_index.raw) if self.is_indexed or self._indexer is None else self._indexer.side_band_count

    def note_side_band(self) -> None:
        """During a first pass, make what was read of the side-band known: all that is delivered before later samples, and more."""
        if self._indexer is not None and (self._side_band_so_far is None or len(self._side_band_so_far) < self._indexer.side_band_count):
            self._side_band_so_far = self._indexer.side_band()

    def take_side_band(self, side_band: RawRecords) -> None:
        """Take over the side-band that the first pass of another process has noted."""
        self._side_band_so_far = side_band

    @property
    def equal_times(self) -> EqualTimes:
        """The order of samples and the known side-band records of the same time."""
        raw = self.known_side_band
        if self._equal_times is None or self._equal_times[0] is not raw:
            self._equal_times = raw, EqualTimes(raw.rows["key"], raw.rows["time"], raw.rows["offset"])
        return self._equal_times[1]

    def side_band(self, types: Collection[int] | None) -> SideBand:
        """Return the known records other than samples, in order of delivery."""
        return SideBand(self.known_side_band, self._bulk, self.table, self._warn, types)

    def _bulk(self, types: Collection[int]) -> Iterator[RawRecord]:
        """Read the side-band records that the index does not keep."""
        present = [kind for kind in types if self.record_index.type_counts[kind]]
        return records_of_types(self.chunks(), self.record_index.bulk_reads, present) if present else iter(())

    @cached_property
    def _deferred_callchains(self) -> DeferredCallchains | None:
        """The user callchains stored apart from their samples, or None without."""
        if not self.record_index.type_counts[RecordType.CALLCHAIN_DEFERRED]:
            return None
        # loaded here because few recordings have them

        return DeferredCallchains(self._bulk([RecordType.CALLCHAIN_DEFERRED]), self.table.endian)

    @cached_property
    def _waits(self) -> EmbeddedWaits | None:
        """The decoder of waits in raw data, or None without."""
        if not any(event.name == OFF_CPU_EVENT for event in self.table.events):
            return None

        return EmbeddedWaits.of(self.table.events, self.table.endian)

    def _decoder(self, fields: Collection[str] | None, change: Change | None) -> SampleDecoder:
        """Return the decoder of samples. Deferred callchains and waits are added before `change`."""
        changes: list[Change] = []
        if self._waits is not None:
            fields = self._waits.fields_for(fields)
            changes.append(self._waits.replace_columns)
        if self._deferred_callchains is not None:
            changes.append(self._deferred_callchains.add_to)
        if change is not None:
            changes.append(change)
        return SampleDecoder(self.table, fields, self._warn, _compose(changes))

    def batches(self, fields: Collection[str] | None, change: Change | None = None) -> Iterator[Batch]:
        """Yield all samples in order of delivery. change: applied to those of each chunk first."""
        yield from ordered_batches(self._samples(), self.record_index.chunk_reads, self._decoder(fields, change))

    @cached_property
    def delivery_spans(self) -> list[Span]:
        """Parts whose samples are delivered one after the other; none if they cannot be read independently."""
        index = self.record_index
        apart = len(self.streams) == 1 and self.streams[0].is_known and self._deferred_callchains is None
        return spans_of([read.later for read in index.chunk_reads], index.highest[0]) if apart else []

    def batch_of(self, span: Span, fields: Collection[str] | None, change: Change | None = None) -> Batch | None:
        """Return the samples of one span, in order of delivery, or None if it is empty. change: as for batches()."""
        decoder = self._decoder(fields, change)
        chunks = islice(self._samples_of(0, span.first), span.end - span.first)
        parts = [decoder.decode(chosen) for chosen in map(span.select, chunks) if len(chosen.keys)]
        if not parts:
            return None
        samples = StoredBatch.concat(parts).sort()
        return Batch(samples.columns, samples.event, samples.key, samples.offset)

    def sample_chunks(self) -> Iterator[KeyedSamples]:
        """Yield all samples in the order of the file. Each chunk's buffer is valid until the next.

        If there was no first pass yet, both happen in one.
        """
        if len(self.streams) > 1 or self.is_indexed:
            streams = self._samples()
            for stream, _ in self.record_index.chunk_reads:
                if samples := next(streams[stream], None):  # None: the file was truncated since the first pass
                    yield samples
            return
        indexer = self._indexer = RecordIndexer(1)
        for ordered in self._chunks(0):
            indexer.add(0, ordered)
            yield ordered.keyed_samples
        self.record_index, self._indexer = self._index(indexer), None

    def decode(self, samples: KeyedSamples, fields: Collection[str] | None, change: Change | None = None) -> StoredBatch:
        """Decode samples; callchains, raw data and user stacks are Slices, valid as long as their buffer."""
        return self._decoder(fields, change).decode_in_buffer(samples)

    def stored_batches(
        self, fields: Collection[str] | None, parts: range | None = None, change: Change | None = None
    ) -> Iterator[StoredBatch]:
        """Yield all samples in the order of the file, or those of a range of the index's reads. change: as for batches()."""
        reads = self.record_index.chunk_reads
        parts = range(len(reads)) if parts is None else parts
        chunks_before = Counter(read.stream for read in reads[: parts.start])
        return stored_batches(self._samples(chunks_before), reads[parts.start : parts.stop], self._decoder(fields, change))


def _compose(changes: list[Change]) -> Change | None:
    """Compose the changes into one, or None for none."""
    if len(changes) < 2:
        return changes[0] if changes else None

    def change(samples: StoredBatch) -> StoredBatch:
        for one in changes:
            samples = one(samples)
        return samples

    return change


# Append user callchains that the kernel took later than their samples: on the return to user space, once per system call. A sample with a
# deferred user part ends with the marker PERF_CONTEXT_USER_DEFERRED and a cookie; the record of that part has the same cookie (struct
# perf_event_header's types in include/uapi/linux/perf_event.h):
#
#     CALLCHAIN_DEFERRED { u64 cookie, nr; u64 ips[nr]; }
#
# As in perf 7, the marker stays, and the frames replace the cookie. Cookies without a record, because the recording ended before, are
# dropped.

_MARKER: Final = np.uint64(CONTEXT_USER_DEFERRED)


class DeferredCallchains:
    """The deferred user callchains of a recording, by cookie."""

    def __init__(self, records: Iterable[RawRecord], endian: str) -> None:
        user_chains: dict[int, NDArray[np.uint64]] = {}
        for record in records:
            words = np.frombuffer(record.body[: len(record.body) & ~7], endian + "u8").astype(np.uint64)
            if len(words) >= 2:
                user_chains.setdefault(int(words[0]), words[2 : 2 + min(int(words[1]), len(words))])
        self._cookies = np.array(sorted(user_chains), np.uint64)
        chains = [user_chains[cookie] for cookie in self._cookies.tolist()]
        ends = np.cumsum([0, *(len(chain) for chain in chains)]).astype(np.int64)
        self._chains = Ragged(np.concatenate([np.zeros(0, np.uint64), *chains]), ends)

    def add_to(self, samples: StoredBatch) -> StoredBatch:
        """Return the samples with whole callchains."""
        chains = samples.columns.get("callchain")
        if chains is None:
            return samples
        columns = {**samples.columns, "callchain": self.join(chains.gather())}
        return samples._replace(columns=Columns(samples.columns.rows, columns, samples.columns.damaged))

    def join(self, chains: Ragged) -> Ragged:
        """Return the callchains with their deferred user parts."""
        rows = np.flatnonzero(chains.lengths >= 2)
        ends = chains.offsets[1:][rows]
        rows = rows[chains.values[ends - 2] == _MARKER]
        if not len(rows):
            return chains
        cookies = chains.values[chains.offsets[1:][rows] - 1]
        record = np.minimum(np.searchsorted(self._cookies, cookies), max(len(self._cookies) - 1, 0))
        has_record = self._cookies[record] == cookies if len(self._cookies) else np.zeros(len(rows), bool)
        own, added = chains.lengths.copy(), np.zeros(len(chains), np.int64)
        own[rows] -= 1
        added[rows[has_record]] = self._chains.lengths[record[has_record]]
        offsets = np.concatenate([[0], np.cumsum(own + added)]).astype(np.int64)
        values = np.empty(int(offsets[-1]), np.uint64)
        values[slices_index(offsets[:-1], own)[0]] = chains.values[slices_index(chains.offsets[:-1], own)[0]]
        appended = record[has_record]
        targets = slices_index((offsets[:-1] + own)[rows[has_record]], self._chains.lengths[appended])[0]
        values[targets] = self._chains.values[slices_index(self._chains.offsets[:-1][appended], self._chains.lengths[appended])[0]]
        return Ragged(values, offsets)


# Decode time off the CPU as perf 7 records it: a BPF program writes each wait into the raw data of a sample. Layout (off_cpu.bpf.c of
# tools/perf): { u32 pid, tid; u64 period, nr; u64 ips[nr]; u64 cgroup; } The sample around it is the BPF program's: its time and CPU are
# those of the end of the wait.

_HEAD: Final = "IIQQ"
_HEAD_SIZE: Final = 24
_WORD: Final = 8
RAW: Final = "raw"
#: the columns to replace
FIELDS: Final = frozenset(("pid", "tid", "period", "callchain", "ip", "cgroup"))


class EmbeddedWaits:
    """A decoder of waits in raw data. events: the indexes of the events with waits."""

    def __init__(self, events: Sequence[int], endian: str) -> None:
        self._events = np.array(events, np.int32)
        self._head = struct.Struct(endian + _HEAD)
        self._endian = endian

    @classmethod
    def of(cls, events: Sequence[FileEvent], endian: str) -> EmbeddedWaits | None:
        """Return the decoder for a recording, or None if no event has waits."""
        indexes = [event.index for event in events if _is_embedded(event)]
        return cls(indexes, endian) if indexes else None

    def fields_for(self, fields: Collection[str] | None) -> Collection[str] | None:
        """Return the columns to decode for these fields."""
        return fields if fields is None or not FIELDS.intersection(fields) else {*fields, RAW}

    def replace_columns(self, samples: StoredBatch) -> StoredBatch:
        """Return the samples with the columns of their waits; samples with truncated raw data stay as they are."""
        rows = np.flatnonzero(np.isin(samples.event, self._events))
        raw = samples.columns.get(RAW)
        if raw is None or not len(rows):
            return samples
        waits = [(row, *wait) for row in rows.tolist() if (wait := self._wait(raw.gather()[row].tobytes()))]
        if not waits:
            return samples
        names = ("row", "pid", "tid", "period", "ips", "cgroup")
        return _replace_values(samples, dict(zip(names, map(list, zip(*waits, strict=True)), strict=True)))

    def _wait(self, data: bytes) -> tuple[int, int, int, NDArray[np.uint64], int] | None:
        if len(data) < _HEAD_SIZE:
            return None
        pid, tid, period, count = self._head.unpack_from(data)
        if count > (len(data) - _HEAD_SIZE) // _WORD - 1:  # the cgroup follows the callchain
            return None
        words = np.frombuffer(data, self._endian + "u8", count + 1, _HEAD_SIZE).astype(np.uint64)
        return pid, tid, period, words[:-1], int(words[-1])


def _is_embedded(event: FileEvent) -> bool:
    attr = event.attr
    is_bpf_output = attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT
    return is_bpf_output and event.name == OFF_CPU_EVENT and bool(attr.sample_type & SampleType.RAW)


def _replace_values(samples: StoredBatch, waits: dict[str, list[Any]]) -> StoredBatch:
    """Return the samples with the values of the waits in their rows."""
    rows = np.array(waits["row"], np.int64)
    columns = dict(samples.columns)
    waits["ip"] = [int(ips[1]) if len(ips) > 1 else 0 for ips in waits["ips"]]  # after the marker of user space
    for name in ("pid", "tid", "period", "ip", "cgroup"):
        if name in columns:
            column = columns[name].copy()
            column[rows] = np.array(waits[name], np.uint64).astype(column.dtype)
            columns[name] = column
    if "callchain" in columns:
        chains = columns["callchain"].gather()
        replacements = waits["ips"]
        lengths = chains.lengths.copy()
        lengths[rows] = 0
        unchanged = lengths.copy()
        lengths[rows] = [len(chain) for chain in replacements]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values = np.empty(int(offsets[-1]), np.uint64)
        values[slices_index(offsets[:-1], unchanged)[0]] = chains.values[slices_index(chains.offsets[:-1], unchanged)[0]]
        values[slices_index(offsets[:-1][rows], lengths[rows])[0]] = np.concatenate(replacements)
        columns["callchain"] = Ragged(values, offsets)
    return samples._replace(columns=Columns(samples.columns.rows, columns, samples.columns.damaged))
