"""Calls of scripts for records other than samples: throttling, context switches, counts of perf stat record, lost hardware traces.

The functions are throttle, unthrottle, context_switch, auxtrace_error, stat__EVENT and stat__interval, with perf's arguments. Scripts that
fill tables get rows for context switches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi import records
from perfpy.abi.flags import RecordType
from perfpy.abi.perf_records import user_records
from perfpy.abi.perf_records.auxtrace_records import AuxtraceError
from perfpy.views.script.stat_rounds import StatRounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.side_band import SideRecord
    from perfpy.views.recorded import Recorded
    from perfpy.views.scripting.program import ScriptProgram
    from perfpy.views.scripting.tables import TableRows

_SWITCH_OUT: Final = 1 << 13
_PREEMPTED: Final = 1 << 14
_NOBODY: Final = -1
#: the record types of each function
_TYPES: Final = {
    "throttle": (RecordType.THROTTLE,), "unthrottle": (RecordType.UNTHROTTLE,),
    "context_switch": (RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE), "auxtrace_error": (RecordType.AUXTRACE_ERROR,),
}  # fmt: skip
_TASK_TYPES: Final = (RecordType.COMM, RecordType.FORK, RecordType.EXIT)
_STAT_TYPES: Final = (RecordType.THREAD_MAP, RecordType.CPU_MAP, RecordType.STAT, RecordType.STAT_ROUND)


class OtherRecords:
    """The records of a recording other than samples."""

    def __init__(self, recording: Recorded, program: ScriptProgram, tables: TableRows | None) -> None:
        self._program = program
        self._tables = tables
        self._rounds = StatRounds(recording.events)
        types = {kind for name, kinds in _TYPES.items() if program.function(name) for kind in kinds}
        if tables is not None:
            types.update((*_TASK_TYPES, *_TYPES["context_switch"]))
        if recording.data.record_index.type_counts[RecordType.STAT_ROUND]:
            types.update(_STAT_TYPES)
        self._side: Iterator[SideRecord] = iter(recording.side_band(types) if types else ())
        self._next = next(self._side, None)

    def before(self, batch: Batch) -> list[tuple[int, Callable[[], None]]]:
        """Return (row, action) of each record before the batch's last sample; it precedes the sample in this row."""
        calls: list[tuple[int, Callable[[], None]]] = []
        while self._next is not None and len(batch) and (self._next.key, self._next.offset) < (int(batch.key[-1]), int(batch.offset[-1])):
            side, self._next = self._next, next(self._side, None)
            row = int(batch.key.searchsorted(side.key, side="right"))
            while row and int(batch.key[row - 1]) == side.key and int(batch.offset[row - 1]) > side.offset:
                row -= 1
            calls.append((row, partial(self.tell, side)))
        return calls

    def rest(self) -> Iterator[SideRecord]:
        """Return all remaining records."""
        while self._next is not None:
            yield self._next
            self._next = next(self._side, None)

    def tell(self, side: SideRecord) -> None:
        """Call the script's function for a record. Raises ScriptFailedError."""
        record: Any = side.record
        call = self._program.call_if_there
        if isinstance(record, (records.Throttle, records.Unthrottle)):
            sample_id = record.sample_id
            cpu, pid, tid = (sample_id.cpu, sample_id.pid, sample_id.tid) if sample_id else (None,) * 3
            name = "throttle" if isinstance(record, records.Throttle) else "unthrottle"
            call(name, record.time, _or_minus_one(cpu), _or_minus_one(pid), _or_minus_one(tid))
        elif isinstance(record, (records.Switch, records.SwitchCpuWide)):
            if self._tables is not None:
                _fill_switch(self._tables, record)
            else:
                call("context_switch", *_switch_arguments(record))
        elif isinstance(record, (records.Comm, records.Fork, records.Exit)):
            if self._tables is not None:
                self._tables.tasks.see(record)
        elif isinstance(record, AuxtraceError):
            numbers = (record.type, record.code, record.cpu, record.pid, record.tid, record.ip, record.time)
            call("auxtrace_error", *numbers, record.msg, 0, record.machine_pid, record.vcpu)
        else:
            for event, cpu, thread, counts in self._rounds.counts(record):
                call(f"stat__{event.name.replace(':', '_')}", cpu, thread, record.time, *counts)
            if isinstance(record, user_records.StatRound):
                call("stat__interval", record.time)


def _switch_arguments(record: Any) -> tuple[Any, ...]:
    sample_id = record.sample_id
    head = (sample_id.time, sample_id.cpu, sample_id.pid, sample_id.tid) if sample_id else (None,) * 4
    others = (record.next_prev_pid, record.next_prev_tid) if isinstance(record, records.SwitchCpuWide) else (_NOBODY, _NOBODY)
    out = bool(record.misc & _SWITCH_OUT)
    return (*map(_or_minus_one, head), *others, _NOBODY, out, out and bool(record.misc & _PREEMPTED), 0, _NOBODY)


def _fill_switch(tables: TableRows, record: records.Switch | records.SwitchCpuWide) -> None:
    time, cpu, pid, tid, next_pid, next_tid, _, out, preempted, *_ = _switch_arguments(record)
    other = (next_pid, next_tid) if isinstance(record, records.SwitchCpuWide) else None
    tables.switch(time, cpu, (pid, tid), other, out=out, preempted=preempted)


def _or_minus_one(number: int | None) -> int:
    return _NOBODY if number is None else number
