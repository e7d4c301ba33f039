"""`report -D` and `script -D`: every record as bytes and text, in perf's order of delivery."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from perfpy.abi import perf_records, records
from perfpy.abi import perf_records as own
from perfpy.abi.columns import Ragged
from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import CONTEXT_USER, NATIVE_ENDIAN, NO_DATA_SOURCE, BranchSample, ReadFormat, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.perf_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.abi.records import SampleId
from perfpy.abi.sample_layout import page_size_text, register_name, words_before
from perfpy.auxtrace.itrace import aux_pieces
from perfpy.perfdata.header import PIPE_HEADER_SIZE
from perfpy.symbols.address_spaces import guest_tasks
from perfpy.symbols.files.debug_files import GuestFiles, SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.untrusted.text import one_line
from perfpy.views.dump.aux_data import aux_texts, info_text
from perfpy.views.dump.coresight import trace_lines, trace_units, unit_lines
from perfpy.views.record_text import alternate, as_perf_reads, record_name, record_text, signed_number, swap_record
from perfpy.views.script.field_text import branch_counter_size, branch_parts, branch_type_text, has_column

if TYPE_CHECKING:
    from perfpy.auxtrace.itrace import AuxPiece, AuxPieces
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.delivery import OrderedChunk
    from perfpy.views.recorded import Recorded
    from perfpy.views.script.lines import DumpLines


_NEVER: Final = 0xFFFFFFFFFFFFFFFF
_NO_CPU: Final = 0xFFFFFFFF
_PRINTABLE: Final = bytes(byte if 32 <= byte < 127 else 0x2E for byte in range(256))
_NO_RECORDS: Final = frozenset(("TOTAL", "UNKNOWN", "INVALID"))
_FEATURES: Final = 32  # perf 6.12 knows features below this number; in a pipe it marks their end
_UNHANDLED: Final = ": unhandled!\n"
_SHOWN_BY_SCRIPT: Final = frozenset((RecordType.THREAD_MAP, RecordType.CPU_MAP))
_HANDLED_BY_SCRIPT: Final = _SHOWN_BY_SCRIPT | {
    RecordType.STAT_CONFIG, RecordType.STAT, RecordType.STAT_ROUND, RecordType.AUXTRACE_ERROR,
}  # fmt: skip
_EXIT: Final = "PERF_RECORD_EXIT"
_THROTTLES: Final = frozenset((RecordType.THROTTLE, RecordType.UNTHROTTLE))
CORESIGHT: Final = 3  # AuxtraceInfo.type
_OVERWRITES, _IS_RAW = 1 << 1, 1 << 8  # flags of AUX records: of snapshots; without the frames of a formatter
HOST_ONLY: Final = GuestFiles()
#: (cpu, time) -> the start of a line
Stamp = Callable[[int, int], str]


class _Record(NamedTuple):
    """A record with its sort key, time and number in the file; `event` is -1 for an unknown id."""

    key: int
    time: int
    number: int
    stream: int
    offset: int
    event: int
    data: bytes


def write_dump(
    recording: Recorded,
    out: BinaryIO,
    *,
    hint: str = "",
    lines: DumpLines | None = None,
    round_text: str = "\n",
    guests: GuestFiles = HOST_ONLY,
    features: Callable[[int], Iterator[str]] | None = None,
    is_warned: bool = False,
    counts_branches: bool = False,
    has_updates: bool = True,
) -> Counter[int]:
    """Write all records of a recording.

    Args:
        hint: lines before the first record, after perf's warning
        lines: script's lines, printed after their records
        round_text: the text after the name of a FINISHED_ROUND
        guests: which machines' tasks and files are named
        features: the lines of a feature of the header, printed after its record in a pipe
        is_warned: whether perf's warning has been printed before the header
        counts_branches: whether each branch is an entry, as in a report of branches
        has_updates: whether the command reads EVENT_UPDATE records

    Returns the number of histogram entries by event, for the statistics that report prints at the end.
    """
    warning = "" if is_warned else order_warning(recording)
    writer = _DumpWriter(recording, warning + hint, lines, round_text, guests)
    writer.features, writer.has_updates = features, has_updates
    writer.samples.counts_branches = counts_branches
    pieces: list[str] = []
    size = 0
    for text in writer.texts():
        pieces.append(text)
        size += len(text)
        if size > 1 << 20:
            out.write("".join(pieces).encode("utf-8", "surrogateescape"))
            pieces, size = [], 0
    out.write("".join(pieces).encode("utf-8", "surrogateescape"))
    return writer.entries


def order_warning(recording: Recorded) -> str:
    """Return perf's first line in the dump of a file whose side-band has no times; "" for other recordings."""
    data = recording.data
    if data.is_pipe or any(event.attr.sample_id_all for event in data.events[:1]):
        return ""
    return "WARNING: No sample_id_all support, falling back to unordered processing\n"


def is_read_to_the_end(recording: Recorded) -> bool:
    """Whether perf reaches the end of a dumped recording, so that it prints its statistics.

    A pipe may end inside a record if perf can use the records before it.
    """
    data = recording.data
    if not data.records.is_damaged:
        return True
    types = data.record_index.type_counts
    if not data.is_pipe or not data.records.is_truncated or any(record_name(kind) in _NO_RECORDS for kind in types):
        return False
    features = [side for side in recording.side_band([RecordType.HEADER_FEATURE]) if side.record.feat_id <= _FEATURES]
    return len(features) == types[RecordType.HEADER_FEATURE]


def hex_lines(data: bytes) -> str:
    """Return the bytes of a record, 16 on each line, with their characters."""
    numbers = data.hex(" ")
    printable = data.translate(_PRINTABLE).decode("ascii")
    offsets = range(0, len(data), 16)
    return "".join(
        [f".  {start:04x}:  {numbers[3 * start : 3 * start + 47]:<47}  {printable[start : start + 16]:<16}\n" for start in offsets]
    )


class _DumpWriter:
    """The formatter of records."""

    def __init__(self, recording: Recorded, hint: str, lines: DumpLines | None, round_text: str, guests: GuestFiles) -> None:
        data = recording.data
        self._recording = recording
        self._hint = hint
        self._round_text = round_text
        # script handles some records that report ignores
        self._handled = _HANDLED_BY_SCRIPT if lines is not None else frozenset[int]()
        self._data = data
        self._events = data.events
        self._endian = data.endian
        self._is_foreign = data.endian != NATIVE_ENDIAN
        self._paths = [stream.source.path for stream in data.records.streams]
        self.samples = SampleTexts(recording, lines, guests)
        self._lines = lines
        self.entries = self.samples.entries
        self.features: Callable[[int], Iterator[str]] | None = None
        self.has_updates = True
        self._combined = 0
        self._has_trailers = False
        self._event_count = 0
        if not data.is_pipe:
            for _ in data.events:
                self._see_event()

    def _see_event(self) -> None:
        """Count one more event: in a pipe, events are records."""
        if self._event_count < len(self._events):
            attr = self._events[self._event_count].attr
            self._combined |= attr.sample_type & 0x1FFFFFF
            self._has_trailers = self._has_trailers or (not self._event_count and bool(attr.sample_id_all))
            self._event_count += 1

    def texts(self) -> Iterator[str]:
        """Yield the text of each record, in order of delivery."""
        yield self._hint
        for record in _in_order(self._data.records.chunks(), by_time=self._data.records.by_time):
            yield self._text(record)
            if HEADER[self._endian].unpack_from(record.data)[0] == RecordType.AUXTRACE:
                yield from self._aux_texts(record.offset)

    def _text(self, record: _Record) -> str:
        kind, misc, size = HEADER[self._endian].unpack_from(record.data)
        raw = swap_record(kind, misc, record.data) if self._is_foreign else record.data
        # perf counts the offset in a pipe from the end of its header
        position = alternate(record.offset - (PIPE_HEADER_SIZE if self._data.is_pipe else 0))
        file = "pipe" if self._data.is_pipe else self._paths[record.stream]
        text = f"\n{position}@{file} [{size:#x}]: event: {kind}\n.\n. ... raw event: size {size} bytes\n{hex_lines(raw)}\n"
        if kind == RecordType.SAMPLE:
            return text + self.samples.text(record.offset, record.event, misc, f"{position} [{size:#x}]: PERF_RECORD_SAMPLE", self._stamp)
        body = record.data[8:]
        if kind >= RecordType.HEADER_ATTR:
            stamp = self._stamp(0, 0)
            if kind == RecordType.HEADER_ATTR:
                self._see_event()
            rest = self._user_text(kind, misc, body, record.offset)
            return f"{text}{stamp}{position} [{size:#x}]: PERF_RECORD_{record_name(kind)}{rest}"
        stamp, rest = self._kernel_record(kind, misc, body, record.event)
        line = self._line(kind, record.offset)
        if kind == RecordType.EXIT:  # perf prints the line of an EXIT before its text
            rest = rest.replace(_EXIT, _EXIT + line, 1)
        elif kind == RecordType.LOST and line:
            rest = f"PERF_RECORD_{record_name(kind)}{line}"
        else:
            rest += line
        return f"{text}{stamp}{position} [{size:#x}]: {rest}"

    def _aux_texts(self, offset: int) -> Iterator[str]:
        """Yield the text of the AUX data after an AUXTRACE record."""
        trace = self._recording.pmcu
        if trace is not None:
            from perfpy.views.dump.aux_data import piece_texts  # few recordings have any

            for piece in trace.pieces:
                if piece.at_record == offset:
                    yield from piece_texts(trace, piece)
            return
        pieces = self._aux_pieces
        for piece in pieces.pieces if pieces.infos else ():
            if piece.at_record == offset and pieces.infos[0].type == CORESIGHT:
                yield from self._coresight_texts(piece)
            elif piece.at_record == offset:
                yield from aux_texts(pieces.infos[0].type, pieces.read(piece.offset, piece.size), piece.offset)

    def _coresight_texts(self, piece: AuxPiece) -> Iterator[str]:
        """Yield the packets of the parts of a piece of CoreSight trace that AUX records tell, as perf divides it."""
        pieces, record = self._aux_pieces, piece.record
        units = trace_units(pieces.infos[0].priv)
        for cpu, tid, aux in self._aux_records:
            size = min(aux.aux_size, record.size)
            begin = aux.aux_offset + aux.aux_size - size if aux.flags & _OVERWRITES else aux.aux_offset
            if (record.tid != tid if record.cpu == _NO_CPU else record.cpu != cpu) or not size:
                continue
            if record.offset <= begin and begin + size <= record.offset + record.size:
                data = pieces.read(piece.offset + begin - record.offset, size)
                yield from trace_lines(data, begin, units, cpu=cpu if aux.flags & _IS_RAW else -1)

    @cached_property
    def _aux_records(self) -> list[tuple[int, int, records.Aux]]:
        """The AUX records with their CPU and thread."""
        found = [(side.record, side.record.sample_id or SampleId()) for side in self._data.side_band([RecordType.AUX])]
        return [(-1 if stamp.cpu is None else stamp.cpu, -1 if stamp.tid is None else stamp.tid, aux) for aux, stamp in found]

    @cached_property
    def _aux_pieces(self) -> AuxPieces:
        return aux_pieces(self._data)

    def _line(self, kind: int, offset: int) -> str:
        """Return script's line of a record other than a sample."""
        return "" if self._lines is None else self._lines.of_record(kind, offset).decode("utf-8", "surrogateescape")

    def _user_text(self, kind: int, misc: int, body: bytes, offset: int) -> str:
        if kind == RecordType.FINISHED_ROUND:
            return self._line(kind, offset) or self._round_text
        if kind in self._handled and kind not in _SHOWN_BY_SCRIPT:
            return self._line(kind, offset)
        if kind == RecordType.HEADER_FEATURE and self.features is not None and len(body) >= 8:
            return "".join(f"{line}\n" for line in self.features(struct.unpack_from(self._endian + "Q", body)[0]))
        text = user_record_text(kind, misc, body, self._endian, foreign=self._is_foreign)
        if kind == RecordType.EVENT_UPDATE and not self.has_updates:
            text += _UNHANDLED
        return text.removesuffix(_UNHANDLED) if kind in self._handled else text

    def _kernel_record(self, kind: int, misc: int, body: bytes, event: int) -> tuple[str, str]:
        """Return (time stamp, text) of a record other than a sample."""
        try:
            record = records.decode(kind, misc, body, self._data.records.table.trailer(event), self._endian)
        except ValueError:
            return self._stamp(0, 0), f"PERF_RECORD_{record_name(kind)}\n"
        if self._is_foreign:
            record = as_perf_reads(record)
        sample_id = record.sample_id or SampleId()
        stamp = self._stamp(
            _NO_CPU if sample_id.cpu is None else sample_id.cpu, _NEVER if sample_id.time is None else sample_id.time, is_side_band=True
        )
        name = f"PERF_RECORD_{record_name(kind)}"
        if isinstance(record, records.Lost):
            return stamp, f"{name}: id:{record.id}: lost:{record.lost}\n"
        if isinstance(record, records.LostSamples):
            return stamp, f"{name}: id:{_id_of(sample_id)}: lost samples :{record.lost}\n"
        if isinstance(record, records.Read):
            return stamp, name + self._read_text(record, event) + ("" if self._lines is None else _UNHANDLED)
        if kind in _THROTTLES:  # report has no text for them
            return stamp, name + (_UNHANDLED if self._lines is None else "")
        return stamp, record_text(record)

    def _read_text(self, record: records.Read, event: int) -> str:
        from perfpy.abi.attr import decode_read

        try:
            owner = self._events[max(event, 0)]
            reading = decode_read(record.values, owner.attr.read_format, self._endian)[0]
            owner = next((other for other in self._events if reading.id in other.ids), owner)
        except (ValueError, IndexError):  # too short for its event's format, or of an unknown event
            return "\n"
        text = f": {record.pid} {record.tid} {one_line(owner.name)} {reading.value}\n"
        further = {"time enabled": reading.enabled, "time running": reading.running, "id": reading.id, "lost": reading.lost}
        for label, value in further.items():
            if value is not None:
                text += f"... {label:<12} : {value}\n"
        return text

    def _stamp(self, cpu: int, time: int, *, is_side_band: bool = False) -> str:
        """Return the text before the offset: cpu and time if an event samples them."""
        if not self._has_trailers and (is_side_band or (cpu, time) == (0, 0)):
            return "-1 -1 "
        text = f"{cpu & _NO_CPU} " if self._combined & SampleType.CPU else ""
        return text + (f"{time} " if self._combined & SampleType.TIME else "")


def _id_of(sample_id: SampleId) -> int:
    ident = sample_id.identifier if sample_id.identifier is not None else sample_id.id
    return _NEVER if ident is None else ident


def _in_order(streams: list[Iterator[OrderedChunk]], *, by_time: bool) -> Iterator[_Record]:
    """Yield all records in perf's order of delivery: records without time when they are read, others when their round ends."""
    waiting: list[_Record] = []
    number = 0
    for position, stream in enumerate(streams):
        round_key = 0  # the key of the previous round, for records without time
        for ordered in stream:
            events = _events_of(ordered)
            types = ordered.chunk.types.tolist()
            for row, (kind, key, time) in enumerate(zip(types, ordered.keys.tolist(), ordered.times.tolist(), strict=True)):
                first = key
                if kind == RecordType.FINISHED_ROUND and by_time:  # it is delivered before the records that it releases
                    first, round_key = round_key, key
                offset = int(ordered.chunk.offsets[row])
                waiting.append(_Record(first, time, number, position, offset, events.get(row, 0), ordered.chunk.record(row)))
                number += 1
            if not by_time:
                yield from waiting
                waiting.clear()
            elif len(streams) == 1 and round_key:
                waiting.sort(key=_order)
                ready = next((i for i, record in enumerate(waiting) if record.key >= round_key), len(waiting))
                yield from waiting[:ready]
                del waiting[:ready]
    waiting.sort(key=_order)
    yield from waiting


def _order(record: _Record) -> tuple[int, int, int]:
    return record.key, record.time, record.number


def _events_of(ordered: OrderedChunk) -> dict[int, int]:
    """Return row -> event of the samples of a chunk."""
    return dict(zip(ordered.rows.tolist(), ordered.events.tolist(), strict=True))


# perf's own records (type 64 and above) as `report -D` prints them.


_SILENT: Final = (
    RecordType.HEADER_ATTR,
    RecordType.HEADER_EVENT_TYPE,
    RecordType.HEADER_TRACING_DATA,
    RecordType.HEADER_BUILD_ID,
    RecordType.HEADER_FEATURE,
)
_AGGREGATION: Final = 0
_INTERVAL: Final = 1
_SCALE: Final = 2


def user_record_text(kind: int, misc: int, body: bytes, endian: str, *, foreign: bool = False) -> str:
    """Return the text after "PERF_RECORD_NAME", with or without a line end, as in perf; "" for records without text.

    Args:
        foreign: whether the file has the other byte order than this machine
    """
    if kind in _SILENT:
        return ""
    try:
        record = own.decode(kind, misc, body, endian)
    except ValueError:
        return "\n"
    if foreign and isinstance(record, own.EventUpdate) and isinstance(record.value, float):
        # perf does not swap the scale
        record = record._replace(value=struct.unpack("<d", struct.pack(">d", record.value))[0])
    writer = _WRITERS.get(type(record))
    return writer(record) if writer else _UNHANDLED


def _id_index(r: own.IdIndex) -> str:
    lines = [f" nr: {len(r.entries)}\n"]
    for entry in r.entries:
        line = f" ... id: {entry.id}  idx: {entry.idx}  cpu: {_signed64(entry.cpu)}  tid: {_signed64(entry.tid)}"
        if entry.machine_pid is not None:
            line += f"  machine_pid: {_signed64(entry.machine_pid)}  vcpu: {_signed64(entry.vcpu or 0)}"
        lines.append(line + "\n")
    return "".join(lines)


def _signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _signed32(value: int) -> int:
    return value - (1 << 32) if value >> 31 & 1 else value


def _thread_map(r: own.ThreadMap) -> str:
    pids = ", ".join(str(_signed32(pid & 0xFFFFFFFF)) for pid, _ in r.threads)
    return f" nr: {len(r.threads)} thread{'s' if len(r.threads) > 1 else ''}: {pids}\n{_UNHANDLED}"


def _stat_config(r: own.StatConfig) -> str:
    terms = dict(r.terms)
    text = f"\n... aggr_mode {terms.get(_AGGREGATION, 0)}\n... scale     {terms.get(_SCALE, 0)}\n... interval  {terms.get(_INTERVAL, 0)}\n"
    return text + _UNHANDLED


def _stat(r: own.Stat) -> str:
    head = f"\n... id {r.id}, cpu {_signed32(r.cpu)}, thread {_signed32(r.thread)}\n"
    return f"{head}... value {r.value}, enabled {r.enabled}, running {r.running}\n{_UNHANDLED}"


def _stat_round(r: own.StatRound) -> str:
    return f"\n... time {r.time}, type {'FINAL' if r.type else 'INTERVAL'}\n{_UNHANDLED}"


def _event_update(r: own.EventUpdate) -> str:
    head = f"\n... id:    {r.id}\n"
    if isinstance(r.value, tuple):
        return f"{head}... {cpu_list_text(r.value)}\n"
    if r.type == own.EVENT_UPDATE_UNIT:
        return f"{head}... unit:  {r.value}\n"
    if isinstance(r.value, float):
        return f"{head}... scale: {r.value:f}\n"
    return f"{head}... name:  {r.value}\n"


def _time_conv(r: own.TimeConv) -> str:
    lines = [f"\n... Time Shift      {r.time_shift}", f"... Time Muliplier  {r.time_mult}", f"... Time Zero       {r.time_zero}"]
    if r.time_mask is not None:
        lines += [f"... Time Cycles     {r.time_cycles}", f"... Time Mask       {alternate(r.time_mask)}"]
        lines += [f"... Cap Time Zero   {r.cap_user_time_zero}", f"... Cap Time Short  {r.cap_user_time_short}"]
    return "\n".join(lines) + "\n" + _UNHANDLED


def _auxtrace_info(r: perf_records.AuxtraceInfo) -> str:
    return f" type: {r.type}\n" + (unit_lines(r.priv) if r.type == CORESIGHT else info_text(r.type, r.priv))


def _auxtrace(r: perf_records.Auxtrace) -> str:
    extent = f" size: {alternate(r.size)}  offset: {alternate(r.offset)}  ref: {alternate(r.reference)}"
    return f"{extent}  idx: {r.idx}  tid: {_signed32(r.tid)}  cpu: {_signed32(r.cpu)}\n"


def _schedstat(r: SchedstatCpu | SchedstatDomain) -> str:
    line = f"\ndomain{r.domain} " if isinstance(r, SchedstatDomain) else f"\ncpu{r.cpu} "
    if not r.counts:
        return f"{line}Unsupported /proc/schedstat version {r.version}.\n{_UNHANDLED}"
    return line + "".join(f"{count} " for count in r.counts) + _UNHANDLED


def _bpf_metadata(r: BpfMetadata) -> str:
    entries = [f"  entry {number}: {one_line(key):>20} = {one_line(value)}\n" for number, (key, value) in enumerate(r.entries)]
    return f" prog {one_line(r.program)}\n" + "".join(entries) + _UNHANDLED


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    own.IdIndex: _id_index,
    own.ThreadMap: _thread_map,
    own.CpuMap: lambda r: f": {cpu_list_text(r.cpus)}\n{_UNHANDLED}",
    own.StatConfig: _stat_config,
    own.Stat: _stat,
    own.StatRound: _stat_round,
    own.EventUpdate: _event_update,
    own.TimeConv: _time_conv,
    perf_records.Auxtrace: _auxtrace,
    perf_records.AuxtraceInfo: _auxtrace_info,
    own.FinishedRound: lambda _: "\n",
    SchedstatCpu: _schedstat,
    SchedstatDomain: _schedstat,
    BpfMetadata: _bpf_metadata,
}


# Samples: all their fields, and their owner.


_REGISTER_ABIS: Final = ("none", "32-bit", "64-bit")
_SPECS: Final = ("", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH")


class SampleTexts:
    """The texts of samples, in the order in which the records are printed."""

    def __init__(self, recording: Recorded, lines: DumpLines | None = None, guests: GuestFiles = HOST_ONLY) -> None:
        """Set the recording; `lines`: script's line of each delivery; `guests`: which machines' tasks and files are named."""
        self._names_guests = guests.machines.guests
        self._lines = lines
        self._recording = recording
        self._arch = recording.header.get("arch") or os.uname().machine
        # exited threads keep their names in perf's report, but not in its script
        self._timeline = recording.timeline if lines is not None else recording.make_timeline(keep_exited=True)
        self._symbolizer = Symbolizer(self._timeline, SymbolOptions(guests=guests))
        self._samples = self._rows()
        self._next = next(self._samples, None)
        self._last_read: dict[int, int] = {}
        self.counts_branches = False
        self.entries: Counter[int] = Counter()
        self._counter_sizes = tuple(branch_counter_size(recording.header, name) for name in ("width", "nr"))
        self._event_of = {ident: event.index for event in recording.events for ident in event.ids}

    def text(self, offset: int, event: int, misc: int, head: str, stamp: Stamp) -> str:
        """Return the text of the next sample; only `head` if it could not be read.

        Args:
            offset: of its record
            head: the text after the time stamp
        """
        if event < 0 or self._next is None or self._next[0] != offset:
            return stamp(0xFFFFFFFF, _NEVER) + head
        _, batch, row, positions = self._next
        self._next = next(self._samples, None)
        owner = self._recording.events[int(batch.event[row])]
        sample = _Sample(batch, row, owner)
        start = stamp(sample.number("cpu", 0xFFFFFFFF) & 0xFFFFFFFF, sample.number("time", _NEVER))
        deliveries = (self._delivery(positions) for _ in range(self._deliveries(sample)))
        return start + head + self._details(sample, misc) + "".join(deliveries)

    def _delivery(self, positions: str) -> str:
        """Return the sample's owner and script's line; nothing if script filters it early."""
        line = b"" if self._lines is None else self._lines.of_sample()
        return "" if line is None else positions + line.decode("utf-8", "surrogateescape")

    def _rows(self) -> Iterator[tuple[int, Batch, int, str]]:
        """Yield (offset, batch, row, owner) of every sample."""
        for batch in self._recording.batches():
            owners = self._owners(batch)
            for row, offset in enumerate(batch.offset.tolist()):
                yield offset, batch, row, owners[row]

    def _owners(self, batch: Batch) -> list[str]:
        """Return the lines with thread and dso of each sample."""
        rows = len(batch)
        columns = batch.columns
        pid, tid = (columns.get(name, np.full(rows, -1, np.int32)) for name in ("pid", "tid"))
        timeline = self._timeline
        tasks = guest_tasks(tid, columns["cpumode"]) if self._names_guests else tid
        comms = timeline.comm_ids(tasks, batch.key).tolist()
        ids = self._symbolizer.frame_ids(pid, columns.get("ip", np.zeros(rows, np.uint64)), batch.key, columns["cpumode"])
        frames, dsos = self._symbolizer.frames, self._symbolizer.dsos
        positions = zip(comms, tid.tolist(), frames.dso[ids].tolist(), frames.level[ids].tolist(), strict=True)
        return [
            f" ... thread: {one_line(timeline.comms[comm])}:{thread}\n ...... dso: {one_line(_location(dsos, dso, level))}\n"
            for comm, thread, dso, level in positions
        ]

    def _deliveries(self, sample: _Sample) -> int:
        """Return the number of deliveries of a sample: one, or one for each changed reading."""
        if not sample.event.attr.sample_type & SampleType.READ:
            branches = self.counts_branches and sample.event.attr.sample_type & SampleType.BRANCH_STACK
            self.entries[sample.event.index] += len(sample.ragged_field("branch_stack")) if branches else 1
            return 1
        times = 0
        for reading in sample.readings():
            ident, value = int(reading["id"]), int(reading["value"])
            if ident in self._event_of:
                moved = value != self._last_read.get(ident, 0)
                times += moved
                self.entries[self._event_of[ident]] += moved
                self._last_read[ident] = value
        return times

    def _details(self, sample: _Sample, misc: int) -> str:
        bits = sample.event.attr.sample_type & 0x1FFFFFF
        period = sample.number("period", sample.event.attr.sample_period)
        task = f"{signed_number(sample.number('pid', -1) & 0xFFFFFFFF)}/{signed_number(sample.number('tid', -1) & 0xFFFFFFFF)}"
        ip, addr = alternate(sample.number("ip", 0)), alternate(sample.number("addr", 0))
        parts = [f"(IP, {misc:#x}): {task}: {ip} period: {period} addr: {addr}\n"]
        parts += self._stacks(sample, bits)
        for bit, name, column in ((SampleType.REGS_USER, "user", "user_regs"), (SampleType.REGS_INTR, "intr", "intr_regs")):
            if bits & bit:
                parts.append(self._registers(sample, name, column))
        if bits & SampleType.STACK_USER:
            parts.append(f"... ustack: size {len(sample.ragged_field('user_stack'))}, offset {_stack_offset(sample):#x}\n")
        return "".join(parts) + _numbers(sample, bits) + _readings(sample, bits)

    def _stacks(self, sample: _Sample, bits: int) -> Iterator[str]:
        is_callstack = bool(sample.event.attr.branch_sample_type & BranchSample.CALL_STACK)
        if bits & SampleType.CALLCHAIN:
            chain = sample.ragged_field("callchain").tolist()
            if is_callstack:
                yield _lbr_chain(chain, sample.ragged_field("branch_stack"))
            yield f"... FP chain: nr:{len(chain)}\n" + _number_lines(chain)
        if bits & SampleType.BRANCH_STACK:
            yield _callstack(sample.ragged_field("branch_stack")) if is_callstack else _branches(sample.ragged_field("branch_stack"))
            if sample.event.attr.branch_sample_type & BranchSample.COUNTERS:
                counters = sample.ragged_field("branch_counters").tolist()
                width, number = self._counter_sizes
                yield f"... branch stack counters: nr:{len(counters)} (counter width: {width} max counter nr:{number})\n"
                yield _number_lines(counters)

    def _registers(self, sample: _Sample, name: str, column: str) -> str:
        values = sample.ragged_field(column).tolist()
        abi = sample.number(column + "_abi", 0)
        if not abi:
            return ""
        mask = sample.event.attr.sample_regs_user if name == "user" else sample.event.attr.sample_regs_intr
        kind = _REGISTER_ABIS[abi] if abi < len(_REGISTER_ABIS) else "unknown"
        bits = [bit for bit in range(64) if mask >> bit & 1]
        lines = [f".... {register_name(self._arch, bit):<5} 0x{value:016x}\n" for bit, value in zip(bits, values, strict=False)]
        return f"... {name} regs: mask 0x{mask:x} ABI {kind}\n" + "".join(lines)


class _Sample:
    """A row of a batch."""

    def __init__(self, batch: Batch, row: int, event: FileEvent) -> None:
        self.event = event
        self._columns = batch.columns
        self._row = row

    def number(self, name: str, default: int) -> int:
        """Return a field's value; `default` if the event's samples lack it."""
        column = self._columns.get(name)
        return int(column[self._row]) if column is not None and has_column(self.event, name) else default

    def ragged_field(self, name: str) -> Any:
        """Return a field of variable length; empty if samples lack it."""
        column = self._columns.get(name)
        if not isinstance(column, Ragged):
            return np.zeros(0, np.uint64)
        return column.values[column.offsets[self._row] : column.offsets[self._row + 1]]

    def readings(self) -> Any:
        """Return the counter readings."""
        return self.ragged_field("read")


def _location(dsos: Any, dso: int, level: int) -> str:
    if dso >= 0:
        name: str = dsos[dso].long_name
        return name
    return "[hypervisor]" if level == ord("H") else "<not found>"


def _number_lines(addresses: list[int], first: int = 0) -> str:
    return "".join(f"..... {first + i:2d}: {address:016x}\n" for i, address in enumerate(addresses))


def _lbr_chain(chain: list[int], branches: Any) -> str:
    """Return the callchain with its user part from the branch records."""
    if CONTEXT_USER not in chain or not len(branches):
        return ""
    kernel = chain[: chain.index(CONTEXT_USER) + 1]
    user = [int(branches["to"][0]), *branches["from"].tolist()]
    return f"... LBR call chain: nr:{len(kernel) + len(user)}\n" + _number_lines(kernel + user)


def _callstack(branches: Any) -> str:
    if not len(branches):
        return "... branch callstack: nr:1\n"
    addresses = [int(branches["to"][0]), *branches["from"].tolist()]
    return f"... branch callstack: nr:{len(addresses)}\n" + _number_lines(addresses)


def _branches(branches: Any) -> str:
    lines = [f"... branch stack: nr:{len(branches)}\n"]
    for i, (source, target, flags) in enumerate(branches.tolist()):
        parts, reserved = branch_parts(flags)
        marks = "".join(
            mark if parts[name] else " " for name, mark in (("mispred", "M"), ("predicted", "P"), ("abort", "A"), ("in_tx", "T"))
        )
        kind = branch_type_text(parts["type"], parts["new_type"])
        about = f"{parts['cycles']} cycles {marks} {reserved:x} {kind} {_SPECS[parts['spec']]}"
        lines.append(f"..... {i:2d}: {source:016x} -> {target:016x} {about}\n")
    return "".join(lines)


def _stack_offset(sample: _Sample) -> int:
    """Return the offset of the user stack's size in the record."""
    attr = sample.event.attr
    size = 8 * words_before(attr.sample_type)
    if attr.sample_type & SampleType.READ:
        size += _readings_size(attr.read_format, len(sample.readings()))
    if attr.sample_type & SampleType.CALLCHAIN:
        size += 8 + 8 * len(sample.ragged_field("callchain"))
    if attr.sample_type & SampleType.RAW:
        size += 4 + len(sample.ragged_field("raw"))
    if attr.sample_type & SampleType.BRANCH_STACK:
        size += 8 + 24 * len(sample.ragged_field("branch_stack")) + 8 * bool(attr.branch_sample_type & BranchSample.HW_INDEX)
        size += 8 * len(sample.ragged_field("branch_counters"))
    if attr.sample_type & SampleType.REGS_USER:
        size += 8 + 8 * len(sample.ragged_field("user_regs"))
    return size


def _readings_size(read_format: int, count: int) -> int:
    """Return the size of struct read_format in bytes."""
    each = 1 + sum(1 for bit in (ReadFormat.ID, ReadFormat.LOST) if read_format & bit)
    times = sum(1 for bit in (ReadFormat.TOTAL_TIME_ENABLED, ReadFormat.TOTAL_TIME_RUNNING) if read_format & bit)
    return 8 * (times + count * each + bool(read_format & ReadFormat.GROUP))


def _numbers(sample: _Sample, bits: int) -> str:
    parts = []
    if bits & (SampleType.WEIGHT | SampleType.WEIGHT_STRUCT):
        parts.append(f"... weight: {sample.number('weight', 0)}")
        if bits & SampleType.WEIGHT_STRUCT:
            parts.append(f",0x{sample.number('ins_lat', 0):x},0x{sample.number('retire_lat', 0):x}")
        parts.append("\n")
    if bits & SampleType.DATA_SRC:
        parts.append(f" . data_src: 0x{sample.number('data_src', NO_DATA_SOURCE):x}\n")
    if bits & SampleType.PHYS_ADDR:
        parts.append(f" .. phys_addr: 0x{sample.number('phys_addr', 0):x}\n")
    for bit, name, label in ((SampleType.DATA_PAGE_SIZE, "data_page_size", "data"), (SampleType.CODE_PAGE_SIZE, "code_page_size", "code")):
        if bits & bit:
            parts.append(f" .. {label} page size: {page_size_text(sample.number(name, 0))}\n")
    if bits & SampleType.TRANSACTION:
        parts.append(f"... transaction: {sample.number('transaction', 0):x}\n")
    return "".join(parts)


def _readings(sample: _Sample, bits: int) -> str:
    if not bits & SampleType.READ:
        return ""
    form = sample.event.attr.read_format
    readings = sample.readings()
    lines = ["... sample_read:\n"]
    for bit, name in ((ReadFormat.TOTAL_TIME_ENABLED, "enabled"), (ReadFormat.TOTAL_TIME_RUNNING, "running")):
        if form & bit:
            lines.append(f"...... time {name} {int(readings[name][0]) if len(readings) else 0:016x}\n")
    if form & ReadFormat.GROUP:
        lines.append(f".... group nr {len(readings)}\n")
    for reading in readings:
        lost = f", lost {int(reading['lost'])}" if form & ReadFormat.LOST else ""
        lines.append(f"..... id {int(reading['id']):016x}, value {int(reading['value']):016x}{lost}\n")
    return "".join(lines)
