"""Side-band records as lines among the samples: `perf script --show-task-events` and related options.

A line begins like that of a sample of the event that the record belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.abi import records
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.perf_records.auxtrace_records import AuxtraceError
from perfpy.abi.perf_records.user_records import FinishedRound
from perfpy.abi.sample_id import SampleId
from perfpy.symbols.tasks.task_states import TaskNames
from perfpy.views.records.record_text import KernelNamer, alternate, record_text, signed_number
from perfpy.views.records.swapped import as_perf_reads
from perfpy.views.script.fields import OutputFields, has_callchain, kind_of
from perfpy.views.script.side_line import SideLine
from perfpy.views.script.stat_rounds import StatRounds
from perfpy.views.script.texts.field_text import comm_form, cpu_form, misc_text, task_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.side_band import SideRecord

#: the record types of each --show option
SHOWN: Final = {
    "task": (RecordType.COMM, RecordType.FORK, RecordType.EXIT),
    "mmap": (RecordType.MMAP, RecordType.MMAP2),
    "switch": (RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE),
    "namespace": (RecordType.NAMESPACES,),
    "cgroup": (RecordType.CGROUP,),
    "lost": (RecordType.LOST,),
    "bpf": (RecordType.KSYMBOL, RecordType.BPF_EVENT),
    "text-poke": (RecordType.KSYMBOL, RecordType.TEXT_POKE),
    "round": (RecordType.FINISHED_ROUND,),
}
_ROUND_LINE: Final = b"PERF_RECORD_FINISHED_ROUND\n"
_ERROR_NAMES: Final = {1: "instruction trace"}  # by type
_NEVER: Final = 0xFFFFFFFFFFFFFFFF
_WITHOUT_EVENTS: Final = {"comm", "tid", "cpu", "time"}
#: records that name their task; others belong to the task in their sample_id
_OWN_TASK: Final = (records.Comm, records.Fork, records.Exit, records.Mmap, records.Mmap2, records.Namespaces)


class _Who(NamedTuple):
    pid: int
    tid: int
    cpu: int
    time: int


class SideBandLines:
    """The formatter of side-band records."""

    def __init__(
        self,
        events: Sequence[FileEvent],
        fields: OutputFields,
        types: frozenset[int],
        *,
        use_callchain: bool,
        clock: Callable[[int], bytes],
        name_kernel: KernelNamer | None = None,
        cpus: Collection[int] | None = None,
        endian: str = "<",
        latency: bool = False,
    ) -> None:
        """Set what to show.

        Args:
            types: record types
            clock: the time of day of a time stamp
            cpus: CPUs whose records are shown (None: all)
            endian: of the file
            latency: use the short form of -L
        """
        self._events = events
        self._fields = fields
        self._types = types
        self._use_callchain = use_callchain
        self._name_kernel = name_kernel
        self._clock = clock
        self._cpus = cpus
        self._latency = latency
        self._is_foreign = endian != NATIVE_ENDIAN
        self._event_of = {ident: event for event in events for ident in event.ids}

    def lines(self, side_band: Iterable[SideRecord]) -> Iterator[SideLine]:
        """Yield the lines, in order of delivery."""
        names = TaskNames()
        rounds = StatRounds(self._events)
        for side in side_band:
            record = side.record
            counts = rounds.lines(record)
            if counts:
                yield SideLine(side.key, side.offset, RecordType.STAT_ROUND, 0, b"", counts.encode("utf-8", "surrogateescape"), False)
            if isinstance(record, AuxtraceError):
                text = _trace_error(record).encode("utf-8", "surrogateescape")
                yield SideLine(side.key, side.offset, RecordType.AUXTRACE_ERROR, 0, b"", text, False)
            if isinstance(record, FinishedRound):
                yield SideLine(side.key, side.offset, RecordType.FINISHED_ROUND, 0, b"", _ROUND_LINE, False)
                continue
            is_exit = isinstance(record, records.Exit)
            if not is_exit:
                names.apply(record)
            if self._is_shown(record):
                line = self._line(side, names)
                if line is not None:
                    yield line
            if is_exit:
                names.apply(record)

    def _is_shown(self, record: Any) -> bool:
        return type(record).__module__ == records.__name__ and records.type_of(record) in self._types

    def _line(self, side: SideRecord, names: TaskNames) -> SideLine | None:
        record = as_perf_reads(side.record) if self._is_foreign else side.record
        kind = records.type_of(record)
        event = self._event(record)
        who = _who(record, event)
        if self._cpus is not None and who.cpu != -1 and who.cpu not in self._cpus:
            return None
        text = record_text(record, self._name_kernel).encode("utf-8", "surrogateescape")
        if event is None and self._events:
            return SideLine(side.key, side.offset, kind, who.time, b"", text, False)
        fields = _WITHOUT_EVENTS if event is None else self._fields.sets[kind_of(event)].fields
        tid = signed_number(record.tid) if isinstance(record, _OWN_TASK) else who.tid
        narrow = event is not None and "ip" in fields and has_callchain(event) and self._use_callchain
        form = comm_form(narrow=narrow, latency=self._latency)
        start = task_text(names.name(tid).encode("utf-8", "surrogateescape"), who.pid, who.tid, fields, form)
        if "cpu" in fields:
            start += cpu_form(latency=self._latency) % who.cpu
        if "misc" in fields:
            start += misc_text(record.misc, kind)
        if "tod" in fields:
            start += self._clock(who.time)
        return SideLine(side.key, side.offset, kind, who.time, start, text, "time" in fields)

    def _event(self, record: Any) -> FileEvent | None:
        """Return the event that a record belongs to; None for an unknown id."""
        first = self._events[0] if self._events else None
        sample_id = record.sample_id
        if first is None or len(self._events) == 1 or sample_id is None:
            return first
        ident = sample_id.identifier if sample_id.identifier is not None else sample_id.id
        if not ident:
            return first
        return self._event_of.get(ident) or (None if first.attr.sample_id_all else first)


def _who(record: Any, event: FileEvent | None) -> _Who:
    """Return task, cpu and time of a record: from its sample_id, otherwise from the record."""
    if event is None or not event.attr.sample_id_all:
        time = record.time if isinstance(record, (records.Fork, records.Exit)) else 0
        if isinstance(record, _OWN_TASK):
            return _Who(signed_number(record.pid), signed_number(record.tid), 0, time)
        return _Who(-1, -1, 0, time)
    sample_id = record.sample_id or SampleId()
    return _Who(
        -1 if sample_id.pid is None else signed_number(sample_id.pid),
        -1 if sample_id.tid is None else signed_number(sample_id.tid),
        -1 if sample_id.cpu is None else signed_number(sample_id.cpu),
        _NEVER if sample_id.time is None else sample_id.time,
    )


def _trace_error(record: AuxtraceError) -> str:
    """Return the text of a hardware trace error that perf inject recorded."""
    time = f"{record.time // 10**9}.{record.time % 10**9:09d}" if record.fmt and record.time else "0"
    guest = f" machine_pid {record.machine_pid} vcpu {record.vcpu}" if record.fmt >= 2 and record.machine_pid else ""
    task = f"cpu {signed_number(record.cpu)} pid {signed_number(record.pid)} tid {signed_number(record.tid)}"
    name = _ERROR_NAMES.get(record.type, "unknown AUX")
    return f" {name} error type {record.type} time {time}{guest} {task} ip {alternate(record.ip)} code {record.code}: {record.msg}\n"
