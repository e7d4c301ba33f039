"""Decode a hardware trace: a recording becomes one with samples in place of AUX data, as `perf inject --itrace` writes it.

The samples of a trace are delivered among the other records of the recording in perf's order: before the first record whose time is
later. Reports, scripts and exports read the new recording like any other.
"""

from __future__ import annotations

import os
import tempfile
from heapq import merge
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import distinct, grouped
from perfpy.abi.flags import MISC_KERNEL, MISC_SWITCH_OUT, MISC_USER, NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.framing import with_header
from perfpy.abi.perf_records import ARM_SPE, INTEL_PT, NO_DETAILS, TimeConv
from perfpy.abi.records import IdLayout, Mmap, Mmap2, SwitchCpuWide
from perfpy.abi.records import encode as encode_record
from perfpy.abi.sample_encoding import encode_rows, written_attr
from perfpy.auxtrace.arm_spe import (
    L1_ACCESS,
    L1_MISS,
    LLC_ACCESS,
    LLC_MISS,
    MISPREDICTED,
    REMOTE,
    TLB_ACCESS,
    TLB_MISS,
    RecordShape,
    SpeRecords,
    data_sources,
    decode_records,
    sources_of_core,
)
from perfpy.auxtrace.itrace import DEFAULT_PERIOD, AuxPiece, AuxPieces, Itrace, OwnSample, aux_pieces, parse_itrace
from perfpy.auxtrace.pt_clock import TraceClock
from perfpy.errors import PerfError, plural
from perfpy.perfdata.header import KEPT_FILES, EventDesc, Feature, encode_feature
from perfpy.perfdata.kept_files import encode
from perfpy.perfdata.skeleton import NOT_IN_RECORDINGS, features_of
from perfpy.perfdata.writer import FileWriter, WrittenEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.auxtrace.pt_code import CodeOfDumps, CodeSources
    from perfpy.auxtrace.pt_samples import TakeCalls
    from perfpy.perfdata.reader import PerfData


#: AuxtraceInfo.type -> the tracer's name, of traces that are not decoded
_OTHERS: Final = {2: "Intel BTS", 3: "CoreSight", 5: "s390 CPU-measurement", 6: "HiSilicon PTT"}
_NO_ID: Final = -1


def needs_decoding(data: PerfData) -> bool:
    """Whether a recording has a hardware trace that perfpy decodes."""
    if not data.record_index.type_counts[RecordType.AUXTRACE_INFO]:
        return False
    infos = data.side_band([RecordType.AUXTRACE_INFO])
    return any(one.record.type in (ARM_SPE, INTEL_PT) for one in infos)


def refuse_other_traces(data: PerfData) -> None:
    """Raise PerfError if a recording has hardware traces, none of which perfpy decodes."""
    kinds = [one.record.type for one in data.side_band([RecordType.AUXTRACE_INFO])]
    names = [_OTHERS[kind] for kind in kinds if kind in _OTHERS]
    if names and not {ARM_SPE, INTEL_PT} & set(kinds):
        raise PerfError(f"{data.path}: perfpy does not decode {names[0]} traces; perf script --itrace does")


class _Kind(NamedTuple):
    """A kind of samples: its letter, its event's name, and the events of records that have one; 0: as the name says."""

    letter: str
    name: str
    bits: int


#: in the order of perf's samples of one record
_KINDS: Final = (
    _Kind("f", "l1d-miss", L1_MISS),
    _Kind("f", "l1d-access", L1_ACCESS),
    _Kind("m", "llc-miss", LLC_MISS),
    _Kind("m", "llc-access", LLC_ACCESS),
    _Kind("t", "tlb-miss", TLB_MISS),
    _Kind("t", "tlb-access", TLB_ACCESS),
    _Kind("b", "branch-miss", MISPREDICTED),
    _Kind("a", "remote-access", REMOTE),
    _Kind("M", "memory", 0),
    _Kind("i", "instructions", 0),
)
_ID_AFTER: Final = 1_000_000_000  # perf's ids of the new events begin as much above that of the tracer's event
_KEPT_FIELDS: Final = SampleType.TIME | SampleType.ID | SampleType.STREAM_ID | SampleType.CPU | SampleType.IDENTIFIER | SampleType.PHYS_ADDR
_OWN_FIELDS: Final = SampleType.IP | SampleType.TID | SampleType.PERIOD | SampleType.DATA_SRC | SampleType.WEIGHT | SampleType.ADDR
#: what the new events take over from the tracer's
_SAME: Final = ("exclude_user", "exclude_kernel", "exclude_hv", "exclude_host", "exclude_guest", "read_format")
_KERNEL_START: Final = np.uint64(1 << 63)
#: what a trace may become: a record of the hardware has an address and an end, 18 bytes, and at most 10 samples of 104 bytes
_SHORTEST, _MOST_EMPTY = 8, 1 << 20
_EXPANSION, _LEAST_ALLOWED = 32, 64 << 20
_AT_ONCE: Final = 1 << 13  # records encoded at once
_FEW_RECORDS: Final = 1 << 15  # of a queue, below which more are decoded
_NO_HORIZON: Final = 1 << 64  # later than all ticks
#: the fields of samples, in order
_FIELD_ORDER: Final = (
    *(SampleType.IDENTIFIER, SampleType.IP, SampleType.TID, SampleType.TIME, SampleType.ADDR, SampleType.ID, SampleType.STREAM_ID),
    *(SampleType.CPU, SampleType.PERIOD, SampleType.WEIGHT, SampleType.DATA_SRC, SampleType.PHYS_ADDR),
)
_STRIPPED: Final = frozenset((RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE, RecordType.ITRACE_START))
_MASK_64: Final = (1 << 64) - 1
_MAGIC: Final = 0x1010101010101010  # of a CPU in AUXTRACE_INFO


def decoded_recording(data: PerfData, itrace: Itrace, code: CodeSources) -> BinaryIO:
    """Return the recording with samples in place of its trace, as an open file without a name, in order of delivery.

    Warnings about the trace are added to the recording's. Raises PerfError if the trace cannot be decoded.
    code: finds the code that ran.
    """
    if data.endian != NATIVE_ENDIAN:
        raise PerfError(f"{data.path}: recorded on a machine of the other byte order; its hardware trace cannot be decoded here")
    aux = aux_pieces(data)
    if any(info.type == ARM_SPE for info in aux.infos):
        return _SpeRecording(data, aux, itrace).write()
    from perfpy.auxtrace.pt_code import CodeOfDumps  # recordings of Arm SPE need no code
    from perfpy.auxtrace.pt_samples import PtSamples

    words = PtSamples.clock_words(data, aux)
    samples = PtSamples(data, aux, itrace, TraceClock(*words), code)
    records = _with_compiled_code(data, CodeOfDumps(code.find_compiled, words), is_stripped=itrace.details.is_stripped)
    try:
        return _write_decoded(
            data, samples.events, samples.names, lambda writer: samples.write(records, writer), code.images, samples.own_attrs
        )
    finally:
        samples.close()


def follow_calls(data: PerfData, code: CodeSources, take: TakeCalls) -> None:
    """Decode the calls and returns of an Intel PT recording, in perf's order, until `take` refuses more. Raises PerfError without one."""
    if data.endian != NATIVE_ENDIAN or not needs_decoding(data) or not any(info.type == INTEL_PT for info in aux_pieces(data).infos):
        raise PerfError(f"{data.path}: no Intel PT trace that could be decoded; perfpy record -e intel_pt//u -- COMMAND records one")
    from perfpy.auxtrace.pt_code import CodeOfDumps
    from perfpy.auxtrace.pt_samples import PtSamples

    aux = aux_pieces(data)
    words = PtSamples.clock_words(data, aux)
    samples = PtSamples(data, aux, parse_itrace("cr"), TraceClock(*words), code, take)
    try:
        samples.follow(_with_compiled_code(data, CodeOfDumps(code.find_compiled, words)))
    finally:
        samples.close()


def _write_decoded(
    data: PerfData,
    new: list[WrittenEvent],
    names: list[str],
    fill: Callable[[FileWriter], None],
    images: Mapping[str, bytes] | None = None,
    own_attrs: list[EventAttr] | None = None,
) -> BinaryIO:
    """Write a recording with new events; return it as an open file without a name.

    fill: writes the records; images: files to keep; own_attrs: those of the recording's own samples.
    """
    attrs = own_attrs or [written_attr(event.attr) for event in data.events]
    events = [WrittenEvent(attr, tuple(event.ids)) for attr, event in zip(attrs, data.events, strict=True)] + new
    with tempfile.TemporaryFile() as file:
        writer = FileWriter(tempfile.gettempdir(), os.dup(file.fileno()))
        try:
            writer.begin(events, {})
            begin = writer.size
            fill(writer)
            if writer.size == begin:  # readers take a file without any record for unfinished
                writer.write(with_header(RecordType.FINISHED_INIT, 0, b"", NATIVE_ENDIAN))
            features = {number: section for number, section in features_of(data).items() if number != Feature.AUXTRACE}
            all_names = [event.name for event in data.events] + names
            described = [EventDesc(event.attr, name, event.ids) for event, name in zip(events, all_names, strict=True)]
            features[Feature.EVENT_DESC] = encode_feature(Feature.EVENT_DESC, described, data.endian)
            if images:
                kept = data.kept_files
                known = {name: kept.get(name) or b"" for name in kept} if kept is not None else {}
                features[KEPT_FILES] = encode({**known, **images}, data.endian)
            if any(event.attr.sample_type & SampleType.BRANCH_STACK for event in events):
                features[Feature.BRANCH_STACK] = b""
            writer.finish(features)
            return os.fdopen(os.dup(writer.fd), "rb")
        finally:
            writer.close()


def _own_records(data: PerfData, *, is_stripped: bool = False) -> Iterator[tuple[int, bytes, object]]:
    """Yield time, bytes and, but for samples, the value of the recording's own records, in order of delivery.

    is_stripped: give samples and context switches no bytes.
    """
    side_band = data.side_band()
    side = (
        (raw.key, 0, raw.time, with_header(raw.type, raw.misc, raw.body, NATIVE_ENDIAN), raw)
        for raw in side_band.raw()
        if raw.type not in NOT_IN_RECORDINGS
    )
    samples: Iterator[tuple[int, int, int, bytes, Any]] = _own_samples(data)
    for _, _, time, record, raw in merge(side, samples, key=lambda one: one[:2]):
        if isinstance(raw, OwnSample):
            yield time, b"" if is_stripped else record, raw
        else:
            yield time, b"" if is_stripped and raw.type in _STRIPPED else record, side_band.decode(raw)


def _with_compiled_code(data: PerfData, code: CodeOfDumps, *, is_stripped: bool = False) -> Iterator[tuple[int, bytes, object]]:
    """Yield the recording's own records with mappings of the code that processes compile among them."""
    layout = IdLayout.of(data.events[0].attr, data.endian)
    for time, raw, record in _own_records(data, is_stripped=is_stripped):
        for began, mapping in code.take(time):
            yield began, encode_record(mapping, layout, data.endian), mapping
        if isinstance(record, (Mmap, Mmap2)):
            code.see(record, time)
            if code.hides(record):
                continue
        yield time, raw, record
    for began, mapping in code.take(_MASK_64):
        yield began, encode_record(mapping, layout, data.endian), mapping


def _own_samples(data: PerfData) -> Iterator[tuple[int, int, int, bytes, OwnSample]]:
    """Yield key, 1, time, bytes and values of the samples that are in the recording itself."""
    attrs = [written_attr(event.attr) for event in data.events]
    for batch in data.batches():
        times = batch.columns.get("time", np.zeros(len(batch), np.uint64)).tolist()
        for row, (event, key) in enumerate(zip(batch.event.tolist(), data.settled_keys(batch).tolist(), strict=True)):
            values = batch.columns.take(slice(row, row + 1))
            encoded, _ = encode_rows(attrs[event], values, 1)
            yield key, 1, times[row], encoded.tobytes(), OwnSample(event, values)


class _SpeRecording:
    """The decoding of one recording."""

    def __init__(self, data: PerfData, aux: AuxPieces, itrace: Itrace) -> None:
        self._data = data
        self._aux, self._total, self._size = aux, 0, sum(piece.size for piece in aux.pieces)
        words = next(info.priv for info in aux.infos if info.type == ARM_SPE)
        self._midrs = dict(_midrs(words))
        kind = words[2] if self._midrs else words[0] if words else None
        self._tracers = [event for event in data.events if event.attr.type == kind]
        self._clock = next((_clock(one.record) for one in data.side_band([RecordType.TIME_CONV])), TraceClock())
        self._has_times = data.has(SampleType.TIME)
        letters = itrace.letters | ({"b"} if itrace.letters & {"c", "r"} else set())  # calls and returns are branches
        self._is_stripped = itrace.details.is_stripped
        if "i" in letters and itrace.unit != "i":
            if itrace._replace(is_default=False, details=NO_DETAILS) != Itrace():
                data.warnings.append(f"--itrace=i{itrace.period}{itrace.unit}: Arm SPE samples by instructions; write i1i for all samples")
            letters = letters - {"i"}
        self._period = itrace.period or DEFAULT_PERIOD
        self._kinds = [kind for kind in _KINDS if kind.letter in letters] if self._tracers else []
        self._queues = self._make_queues()
        self._threads = _Threads(data, self._clock)

    def _make_queues(self) -> list[_Queue]:
        pieces: dict[int, list[AuxPiece]] = {}
        for piece in self._aux.pieces:
            pieces.setdefault(piece.record.idx, []).append(piece)
        shapes: dict[int, RecordShape] = {}
        mine = [pieces[number] for number in sorted(pieces)]
        return [_Queue(_signed(one[0].record.cpu), _signed(one[0].record.tid), self._decode(one, shapes)) for one in mine]

    def _decode(self, pieces: list[AuxPiece], shapes: dict[int, RecordShape]) -> Iterator[tuple[SpeRecords, int]]:
        """Yield the records of one trace, some at a time, and the number of damaged bytes. Raises PerfError if there are too many."""
        for piece in pieces:
            for records, damaged in decode_records(self._aux.read, piece.offset, piece.size, shapes):
                self._total += len(records.ip)
                if self._total > _MOST_EMPTY + self._size // _SHORTEST:
                    raise PerfError(
                        f"{self._data.path}: the Arm SPE trace is damaged: {self._size:,} bytes have more than {self._total:,} records"
                    )
                yield records, damaged

    def write(self) -> BinaryIO:
        """Write the recording; return it as an open file without a name."""
        new, attr = self._new_events()
        names = [kind.name for kind in self._kinds]
        samples = self._samples(attr, [event.ids[0] for event in new])
        file = _write_decoded(self._data, new, names, lambda writer: _interleave(self._other_records(), samples, writer))
        if damaged := sum(queue.damaged for queue in self._queues):
            self._data.warnings.append(f"Arm SPE trace: {damaged} damaged {plural(damaged, 'byte')}; the records with them are left out")
        return file

    def _new_events(self) -> tuple[list[WrittenEvent], EventAttr]:
        """Return the events of the samples, and the attr that they share but for the event."""
        if not self._kinds:
            return [], EventAttr()
        tracer = self._tracers[0]
        given = tracer.attr
        fields = given.sample_type & int(_KEPT_FIELDS) & ~int(SampleType.TIME) | int(_OWN_FIELDS)
        fields |= int(SampleType.TIME) if self._has_times else 0
        same = {name: getattr(given, name) for name in _SAME}
        attr = EventAttr(type=0, config=0, sample_type=fields, sample_id_all=given.sample_id_all, **same)
        first = ((tracer.ids[0] if tracer.ids else 0) + _ID_AFTER) & _MASK_64 or 1
        changes = [{"config": 1, "sample_period": self._period} if kind.letter == "i" else {} for kind in self._kinds]
        return [WrittenEvent(attr.copy(**change), (first + number,)) for number, change in enumerate(changes)], attr

    def _other_records(self) -> Iterator[tuple[int, bytes]]:
        """Yield the ticks and the bytes of the recording's own records and samples, in order of delivery; ticks never go back."""
        latest = 0
        for time, record, _ in _own_records(self._data, is_stripped=self._is_stripped):
            latest = max(latest, self._clock.ticks(time) if time else 0)
            yield latest, record

    def _samples(self, attr: EventAttr, ids: Sequence[int]) -> Iterator[_TraceSamples]:
        """Yield the samples of the trace in order. Raises PerfError if there are too many of them."""
        left = most = _LEAST_ALLOWED + _EXPANSION * self._size
        for records, ticks, tasks, queue_of in self._records():
            chosen = self._chosen(records, tasks, queue_of)
            counts = np.append(np.int64(0), np.cumsum(chosen.sum(axis=1), dtype=np.int64))
            left -= int(counts[-1]) * 8 * (2 + attr.sample_type.bit_count())
            if left < 0:
                raise PerfError(
                    f"{self._data.path}: the samples of the trace would need more than {most:,} bytes; choose fewer kinds with --itrace"
                )
            yield _TraceSamples(ticks, self._words(attr, ids, records, tasks, chosen), counts)

    def _records(self) -> Iterator[tuple[SpeRecords, NDArray[np.uint64], _Tasks, NDArray[np.intp]]]:
        """Yield the records of all queues, some at a time, in order of delivery: by time, or queue after queue without times.

        Each comes with its time in ticks, which never goes back, with what ran, and with the position of its queue.
        """
        last = _NO_ID
        groups = [list(enumerate(self._queues))] if self._has_times else [[one] for one in enumerate(self._queues)]
        for queues in groups:
            while True:
                for _, queue in queues:
                    queue.fill()
                horizon = min((queue.latest for _, queue in queues if not queue.ended), default=_NO_HORIZON)
                taken = [(number, queue, *queue.take(horizon)) for number, queue in queues]
                counts = [len(ticks) for *_, ticks in taken]
                if not any(counts):
                    if horizon == _NO_HORIZON:
                        break
                    for _, queue in queues:
                        queue.fill(beyond=horizon)
                    continue
                ticks = np.concatenate([ticks for *_, ticks in taken])
                queue_of = np.repeat([number for number, *_ in taken], counts)
                records = SpeRecords.concat([records for _, _, records, _ in taken])
                if sum(map(bool, counts)) > 1:
                    order = _delivery_order(ticks, queue_of, last)
                    records, ticks, queue_of = records.take(order), ticks[order], queue_of[order]
                last = int(queue_of[-1])
                yield records, ticks, self._tasks(records, ticks, queue_of), queue_of

    def _tasks(self, records: SpeRecords, ticks: NDArray[np.uint64], queue_of: NDArray[np.intp]) -> _Tasks:
        """Return where and in which threads records were taken, and where their accesses went."""
        self._threads.see(records, ticks)
        cpu, tid, sources = np.empty(len(ticks), np.int32), np.empty(len(ticks), np.int32), np.empty(len(ticks), np.uint64)
        for number in distinct(queue_of).tolist():
            queue = self._queues[number]
            rows: Any = np.flatnonzero(queue_of == number) if len(self._queues) > 1 else slice(None)
            mine = records if len(self._queues) == 1 else records.take(rows)
            midr = self._midrs.get(queue.cpu, self._midrs.get(min(self._midrs), 0)) if self._midrs else _midr_of(self._data)
            cpu[rows], tid[rows] = queue.cpu, self._threads.of(queue, mine.context, ticks[rows])
            sources[rows] = data_sources(mine, sources_of_core(midr))
        return _Tasks(cpu, self._threads.processes(tid), tid, sources)

    def _chosen(self, records: SpeRecords, tasks: _Tasks, queue_of: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return bool[records, kinds]: the samples to make of records."""
        chosen = np.zeros((len(queue_of), len(self._kinds)), bool)
        for column, kind in enumerate(self._kinds):
            if kind.bits:
                chosen[:, column] = (records.events & kind.bits) != 0
            elif kind.letter == "M":
                chosen[:, column] = tasks.sources != 0
            else:
                for number in distinct(queue_of).tolist():
                    rows, queue = np.flatnonzero(queue_of == number), self._queues[number]
                    first = max(self._period, 1) - 1 - queue.since_sample
                    chosen[rows[first :: max(self._period, 1)], column] = True
                    queue.since_sample = (queue.since_sample + len(rows)) % max(self._period, 1)
        return chosen

    def _words(
        self, attr: EventAttr, ids: Sequence[int], records: SpeRecords, tasks: _Tasks, chosen: NDArray[np.bool_]
    ) -> Iterator[NDArray[np.uint64]]:
        """Yield blocks of samples as words, a row each. The samples of a record differ by their events only, but for those of branches."""
        periods = np.array([self._period if kind.letter == "i" else 1 for kind in self._kinds], np.uint64)
        identifiers = np.array(ids, np.uint64)
        is_branch = np.array([kind.letter == "b" for kind in self._kinds])
        fields = [field for field in _FIELD_ORDER if attr.sample_type & field]
        columns = {field: number for number, field in enumerate(fields, 1)}
        for first in range(0, len(chosen), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            ip = records.ip[part]
            values: dict[int, Any] = {
                SampleType.IP: ip,
                SampleType.TID: _pair(tasks.pid[part], tasks.tid[part]),
                SampleType.TIME: self._clock.nanoseconds(records.timestamp[part]),
                SampleType.ADDR: records.address[part],
                SampleType.CPU: _pair(tasks.cpu[part], np.zeros(len(ip), np.int32)),
                SampleType.WEIGHT: records.latency[part],
                SampleType.DATA_SRC: tasks.sources[part],
                SampleType.PHYS_ADDR: records.physical[part],
            }
            of_records = np.zeros((len(ip), 1 + len(fields)), np.uint64)
            mode = np.where(ip >= _KERNEL_START, np.uint64(MISC_KERNEL), np.uint64(MISC_USER))
            of_records[:, 0] = np.uint64(RecordType.SAMPLE | 8 * of_records.shape[1] << 48) | mode << np.uint64(32)
            for field, column in values.items():
                if field in columns:
                    of_records[:, columns[field]] = column
            rows, kinds = np.nonzero(chosen[part])
            words = of_records.take(rows, axis=0)
            for field in (SampleType.IDENTIFIER, SampleType.ID, SampleType.STREAM_ID):
                if field in columns:
                    words[:, columns[field]] = identifiers[kinds]
            if SampleType.PERIOD in columns:
                words[:, columns[SampleType.PERIOD]] = periods[kinds]
            if len(branches := np.flatnonzero(is_branch[kinds])):
                for field, column in (
                    (SampleType.ADDR, records.target[part][rows[branches]]),
                    (SampleType.DATA_SRC, 0),
                    (SampleType.PHYS_ADDR, 0),
                ):
                    if field in columns:
                        words[branches, columns[field]] = column
            yield words


class _TraceSamples(NamedTuple):
    """Samples of some records of the trace.

    Attributes:
        ticks: of each record.
        words: blocks of samples, a row of words each.
        before: the number of samples before each record, and of all.
    """

    ticks: NDArray[np.uint64]
    words: Iterator[NDArray[np.uint64]]
    before: NDArray[np.int64]


class _Tasks(NamedTuple):
    """The CPU, process, thread and data source of records."""

    cpu: NDArray[np.int32]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    sources: NDArray[np.uint64]


class _Queue:
    """The records of one trace, which are decoded as they are needed.

    Attributes:
        cpu, tid: of the trace.
        latest: the highest ticks so far.
        ended: whether all records are decoded.
        damaged: bytes that are no packets.
        context: the thread that the last context packet has told, -1 before the first one.
        since_sample: records since the last sample of instructions.
    """

    def __init__(self, cpu: int, tid: int, records: Iterator[tuple[SpeRecords, int]]) -> None:
        self.cpu, self.tid = cpu, tid
        self.latest = self.damaged = self.since_sample = 0
        self.context, self.ended = _NO_ID, False
        self._decoded = records
        self._records, self._ticks = SpeRecords.concat([]), np.zeros(0, np.uint64)

    def fill(self, beyond: int = _NO_ID) -> None:
        """Decode more records if few are left, or if none has later ticks than `beyond`."""
        if self.ended or (len(self._ticks) >= _FEW_RECORDS and self.latest > beyond):
            return
        parts, count, before = [self._records], len(self._ticks), self.latest
        while count < _FEW_RECORDS or self.latest <= beyond:
            records, damaged = next(self._decoded, (None, 0))
            self.damaged += damaged
            if records is None:
                self.ended = True
                break
            parts.append(records)
            count += len(records.timestamp)
            self.latest = max(self.latest, int(records.timestamp.max(initial=0)))
        records = SpeRecords.concat(parts)
        ticks = np.maximum(np.maximum.accumulate(records.timestamp[len(self._ticks) :]), np.uint64(before))
        self._records, self._ticks = records, np.concatenate([self._ticks, ticks])

    def take(self, horizon: int) -> tuple[SpeRecords, NDArray[np.uint64]]:
        """Return the records before some ticks, and their ticks, which never go back; forget them."""
        count = len(self._ticks) if horizon == _NO_HORIZON else int(np.searchsorted(self._ticks, np.uint64(horizon), "left"))
        records, ticks = self._records, self._ticks
        self._records, self._ticks = SpeRecords._make([column[count:] for column in records]), ticks[count:]
        return SpeRecords._make([column[:count] for column in records]), ticks[:count]


class _Threads:
    """The threads of records: by the recording's context switches up to the first context packet, as in perf, and then by these packets."""

    def __init__(self, data: PerfData, clock: TraceClock) -> None:
        self._first_context = _NO_HORIZON  # ticks of the first context packet
        switches: dict[int, list[tuple[int, int]]] = {}
        numbers = data.side_band().task_numbers()
        self._pid_of = dict(zip(numbers.tid.tolist(), numbers.pid.tolist(), strict=True))
        latest = 0
        for side in data.side_band([RecordType.SWITCH_CPU_WIDE]):
            record = side.record
            stamp = record.sample_id
            if isinstance(record, SwitchCpuWide) and record.misc & MISC_SWITCH_OUT and stamp is not None and stamp.cpu is not None:
                latest = max(latest, clock.ticks(stamp.time or 0))
                switches.setdefault(stamp.cpu, []).append((latest, _signed(record.next_prev_tid)))
                self._pid_of.setdefault(_signed(record.next_prev_tid), _signed(record.next_prev_pid))
        #: cpu -> ticks and threads
        self._switches = {
            cpu: (np.array([ticks for ticks, _ in mine], np.uint64), [tid for _, tid in mine]) for cpu, mine in switches.items()
        }

    def see(self, records: SpeRecords, ticks: NDArray[np.uint64]) -> None:
        """Note the first context packet among records in order of delivery."""
        if self._first_context == _NO_HORIZON and len(rows := np.flatnonzero(records.context >= 0)):
            self._first_context = int(ticks[rows[0]])

    def of(self, queue: _Queue, context: NDArray[np.int64], ticks: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the thread of each of the next records of a queue."""
        last = np.maximum.accumulate(np.where(context >= 0, np.arange(len(context)), _NO_ID))
        before = self._by_switches(queue, ticks) if queue.context < 0 else np.int32(queue.context)
        tids: NDArray[np.int32] = np.where(last >= 0, context[last], before).astype(np.int32)
        queue.context = int(context[last[-1]]) if len(last) and last[-1] >= 0 else queue.context
        return tids

    def _by_switches(self, queue: _Queue, ticks: NDArray[np.uint64]) -> NDArray[np.int32]:
        times, tids = self._switches.get(queue.cpu, (np.zeros(0, np.uint64), []))
        if self._first_context != _NO_HORIZON:
            ticks = np.minimum(ticks, np.uint64(self._first_context))
        return np.array([queue.tid, *tids], np.int32)[np.searchsorted(times, ticks, "right")]

    def processes(self, tids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the process of each thread, -1 if unknown."""
        different, position = grouped(tids)
        pids = np.array([self._pid_of.get(tid, tid if tid == 0 else _NO_ID) for tid in different.tolist()], np.int32)
        return pids[position] if len(pids) else tids


def _delivery_order(ticks: NDArray[np.uint64], queue_of: NDArray[np.intp], last: int) -> NDArray[np.intp]:
    """Return the order of records of all queues: by time, and at the same time first those of the queue that was read last.

    last: the queue of the record before them.
    """
    order = np.argsort(ticks, kind="stable")
    times, queues = ticks[order], queue_of[order]
    is_tied = np.flatnonzero((times[1:] == times[:-1]) & (queues[1:] != queues[:-1]))
    end = 0
    for tied in is_tied.tolist():
        if tied < end:
            continue
        begin, end = (int(np.searchsorted(times, times[tied], side)) for side in ("left", "right"))
        if begin or last >= 0:
            is_other = queues[begin:end] != (queues[begin - 1] if begin else last)
            resorted = np.argsort(is_other, kind="stable") + begin
            order[begin:end], queues[begin:end] = order[resorted], queues[resorted]
    return order


def _interleave(others: Iterator[tuple[int, bytes]], samples: Iterator[_TraceSamples], writer: FileWriter) -> None:
    """Write records and samples: the samples of trace records before the first other record with later ticks.

    others: ticks and bytes.
    """
    rows = _SampleRows(samples)
    for moment, record in others:
        rows.write(moment, writer)
        writer.write(record)
    rows.write(_NO_HORIZON, writer)


class _SampleRows:
    """The samples of a trace, which are written as far as they are due."""

    def __init__(self, samples: Iterator[_TraceSamples]) -> None:
        self._samples = samples
        self._ticks = np.zeros(0, np.uint64)
        self._before = np.zeros(1, np.int64)
        self._words: Iterator[NDArray[np.uint64]] = iter(())
        self._block, self._start, self._written = np.zeros((0, 0), np.uint64), 0, 0

    def write(self, moment: int, writer: FileWriter) -> None:
        """Write the samples of records with fewer ticks."""
        while True:
            ticks = self._ticks
            end = len(ticks) if moment == _NO_HORIZON else int(np.searchsorted(ticks, np.uint64(moment), "left"))
            self._write_to(int(self._before[end]), writer)
            if end < len(ticks):
                return
            following = next(self._samples, None)
            if following is None:
                return
            self._ticks, self._words, self._before = following
            self._block, self._start, self._written = np.zeros((0, 0), np.uint64), 0, 0

    def _write_to(self, end: int, writer: FileWriter) -> None:
        while self._written < end:
            if self._written >= self._start + len(self._block):
                self._start += len(self._block)
                self._block = next(self._words)
                continue
            rows = self._block[self._written - self._start : end - self._start]
            writer.write(rows.data.cast("B"))
            self._written += len(rows)


def _pair(first: NDArray[np.int32], second: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return words of two numbers each."""
    words = np.empty((len(first), 2), np.int32)
    words[:, 0], words[:, 1] = first, second
    return words.view(np.uint64).ravel()


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


def _clock(record: TimeConv) -> TraceClock:
    return TraceClock(
        record.time_shift,
        record.time_mult,
        record.time_zero,
        record.time_cycles or 0,
        record.time_mask or 0,
        bool(record.cap_user_time_short),
    )


def _midrs(words: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the MIDR_EL1 of each CPU that AUXTRACE_INFO describes: { magic; cpu; nr; midr; ... nr parameters } from perf 6.13 on."""
    position = 4
    while position + 3 < len(words) and words[position] == _MAGIC:
        yield words[position + 1], words[position + 3]
        position += 3 + max(words[position + 2], 1)


def _midr_of(data: PerfData) -> int:
    """Return the header's MIDR_EL1, 0 if there is none."""
    try:
        return int(str(data.features.get("cpuid", "0")).split(",")[0], 16)
    except ValueError:
        return 0
