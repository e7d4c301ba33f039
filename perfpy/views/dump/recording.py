"""`report -D` and `script -D`: every record as bytes and text, in perf's order of delivery."""

from __future__ import annotations

import struct
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

from perfpy.abi import perf_records, records
from perfpy.abi import perf_records as own
from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.newer_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.abi.records import SampleId
from perfpy.auxtrace.itrace import aux_pieces
from perfpy.perfdata.header import PIPE_HEADER_SIZE
from perfpy.untrusted.text import one_line
from perfpy.views.dump.aux_data import aux_texts, info_text
from perfpy.views.dump.samples import HOST_ONLY, SampleTexts
from perfpy.views.record_text import alternate, as_perf_reads, record_name, record_text, swap_record

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.auxtrace.itrace import AuxPieces
    from perfpy.perfdata.records.delivery import OrderedChunk
    from perfpy.symbols.files.debug_files import GuestFiles
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
) -> Counter[int]:
    """Write all records of a recording.

    Args:
        hint: lines before the first record, after perf's warning
        lines: script's lines, printed after their records
        round_text: the text after the name of a FINISHED_ROUND
        guests: which machines' tasks and files are named

    Returns the number of histogram entries by event, for the statistics that report prints at the end.
    """
    writer = _DumpWriter(recording, hint, lines, round_text, guests)
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
        self._samples = SampleTexts(recording, lines, guests)
        self._lines = lines
        self.entries = self._samples.entries
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
        if not self._data.is_pipe and not self._has_trailers:
            yield "WARNING: No sample_id_all support, falling back to unordered processing\n"
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
            return text + self._samples.text(record.offset, record.event, misc, f"{position} [{size:#x}]: PERF_RECORD_SAMPLE", self._stamp)
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
            if piece.at_record == offset:
                yield from aux_texts(pieces.infos[0].type, pieces.read(piece.offset, piece.size), piece.offset)

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
        text = user_record_text(kind, misc, body, self._endian, foreign=self._is_foreign)
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
    return f" type: {r.type}\n" + (coresight_text(r.priv) if r.type == CORESIGHT else info_text(r.type, r.priv))


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


CORESIGHT: Final = 3  # the type of the record

_HEADER: Final = ("Header version", "PMU type/num cpus", "Snapshot")
_UNIT: Final = ("Magic number", "CPU", "NR_TRC_PARAMS")
_TRACE_IDS: Final = ("TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS")
_SOURCE: Final = "TS_SOURCE"  # of times, a decimal number
_TABBED: Final = 24  # the column of numbers
#: magic of a trace unit -> names of its parameters
_PARAMETERS: Final[dict[int, Sequence[str]]] = {
    0x3030303030303030: ("ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR"),
    0x4040404040404040: (*_TRACE_IDS, _SOURCE),
    0x5050505050505050: (*_TRACE_IDS, "TRCDEVARCH".ljust(_TABBED), _SOURCE.ljust(_TABBED)),  # perf pads the other labels with tabs
}
_MOST_PARAMETERS: Final = 1 << 13  # the most that fit into a record
_MOST_OF_VERSION_0: Final = 7
_TAB_STOP: Final = 8


def coresight_text(words: Sequence[int]) -> str:
    """Return the lines of a record, up to the first unknown trace unit."""
    return "".join(_line(label, value) for label, value in _labelled_values(iter(words)))


def _labelled_values(words: Iterator[int]) -> Iterator[tuple[str, int]]:
    head = tuple(islice(words, len(_HEADER)))
    yield from zip(_HEADER, head, strict=False)
    labels = _UNIT if head[:1] != (0,) else _UNIT[:-1]
    while len(unit := tuple(islice(words, len(labels)))) == len(labels):
        names = _PARAMETERS.get(unit[0])
        if names is None:
            return
        count = min(unit[2], _MOST_PARAMETERS) if len(unit) == len(_UNIT) else min(len(names), _MOST_OF_VERSION_0)
        yield from zip(labels, unit, strict=True)
        for number, value in enumerate(islice(words, count)):
            yield names[number] if number < len(names) else f"Unknown parameter [{len(labels) + number}]", value


def _line(label: str, value: int) -> str:
    tabs = "\t" * ((_TABBED - len(label) + _TAB_STOP - 1) // _TAB_STOP)
    return f"\t{label}{tabs}       {value if label.rstrip() in ('CPU', _SOURCE) else f'{value:x}'}\n"
