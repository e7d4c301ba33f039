"""perf's own records (type 64 and above) as `report -D` prints them."""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import RecordType
from perfpy.abi.perf_records import auxtrace_records
from perfpy.abi.perf_records import user_records as own
from perfpy.abi.perf_records.newer_records import BpfMetadata, SchedstatCpu, SchedstatDomain
from perfpy.untrusted.text import one_line
from perfpy.views.dump.aux_data import info_text
from perfpy.views.records.record_text import alternate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_UNHANDLED: Final = ": unhandled!\n"
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


def _auxtrace_info(r: auxtrace_records.AuxtraceInfo) -> str:
    return f" type: {r.type}\n" + (coresight_text(r.priv) if r.type == CORESIGHT else info_text(r.type, r.priv))


def _auxtrace(r: auxtrace_records.Auxtrace) -> str:
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
    auxtrace_records.Auxtrace: _auxtrace,
    auxtrace_records.AuxtraceInfo: _auxtrace_info,
    own.FinishedRound: lambda _: "\n",
    SchedstatCpu: _schedstat,
    SchedstatDomain: _schedstat,
    BpfMetadata: _bpf_metadata,
}


CORESIGHT: Final = 3  # the type of the record

_HEADER: Final = ("Header version", "PMU type/num cpus", "Snapshot")
_UNIT: Final = ("Magic number", "CPU", "NR_TRC_PARAMS")
_ETMV4: Final = ("TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH", "TS_SOURCE")
#: magic of a trace unit -> names of its parameters
_PARAMETERS: Final[dict[int, Sequence[str]]] = {
    0x3030303030303030: ("ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR"),
    0x4040404040404040: _ETMV4,
    0x5050505050505050: _ETMV4,
}
_BLANKS: Final = ("TRCDEVARCH", "TS_SOURCE")  # perf pads the other labels with tabs
_MOST_PARAMETERS: Final = 1 << 13  # the most that fit into a record
_MOST_OF_VERSION_0: Final = 7
_TAB_STOP: Final = 8
_TABBED: Final = 24  # to this column


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
        yield from zip(names, tuple(islice(words, count)), strict=False)


def _line(label: str, value: int) -> str:
    if label in _BLANKS:
        label = label.ljust(_TABBED)
    else:
        label += "\t" * ((_TABBED - len(label) + _TAB_STOP - 1) // _TAB_STOP)
    return f"\t{label}       {value if label.strip() == 'CPU' else f'{value:x}'}\n"
