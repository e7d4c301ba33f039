"""The tables of sort keys and output fields, by perf's names for -s and -F.

The keys of branch records and of memory accesses have tables
beside their columns (event_sort_keys, location_sort_keys).
"""

from __future__ import annotations

import re
from time import localtime, strftime

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.abi.perfpy_encodings import WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD, GilState
from perfpy.analysis import location_sort_keys as locations
from perfpy.analysis.locations import ranks
from perfpy.analysis.sample_view import NOTE_SHIFT, UNKNOWN, state_name
from perfpy.analysis.sort_key import (
    ColumnCell,
    KeyColumn,
    Mode,
    OutputField,
    SortKey,
    Unit,
    by_number,
    by_text,
    number,
    summed_number,
)
from perfpy.symbols.address_spaces import without_mark
from perfpy.symbols.tasks import number_of
from perfpy.untrusted.text import byte_width

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.sort_key import KeyTexts


# Sort keys of tasks: thread, comm, CPU, time, cgroup, and of waits: state, waker. See perfpy.analysis.sort_key.


def comm(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of comms at the samples' times."""
    return by_text([texts.tasks.comms[number] for number in values.tolist()], wide=False)


_GIL_STATES = {GilState.HOLDS: "holds", GilState.RELEASED: "released", GilState.WAITS: "waits"}
_DIGITS = "[0-9]+"


def comm_without_digits(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of comms with <N> for each number: kworker/0:1 and kworker/1:2 share a row."""
    return by_text([re.sub(_DIGITS, "<N>", texts.tasks.comms[number]) for number in values.tolist()])


def thread(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of threads with their last comms."""
    tasks = values.tolist()
    return by_number(without_mark(values), lambda i: f"{_tid(tasks[i]):7d}:{texts.tasks.last_comm(tasks[i])}")


def _tid(task: int) -> int:
    """Return a thread's id, without the mark of virtual machines and the ordinal that separates recordings."""
    return number_of((task + (1 << 31)) % (1 << 32) - (1 << 31))


def cpu(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of CPUs."""
    cpus = values.tolist()
    return by_number(values, lambda i: _pad(cpus[i], 3))


def _pad(number: int, digits: int) -> str:
    return f"-{-number:0{digits}d}" if number < 0 else f"{number:0{digits}d}"


def socket(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of the CPUs' sockets."""
    sockets = np.array([texts.machine.socket_of(number) for number in values.tolist()], np.int64)
    return by_number(sockets, lambda i: _pad(int(sockets[i]), 3))


def time(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of times, rounded down to the quantum."""
    raw = values.view(np.uint64)
    grain = np.uint64(texts.style.quantum or 1)
    rounded = raw // grain * grain

    def text(i: int) -> str:
        seconds, rest = divmod(int(rounded[i]), 1_000_000_000)
        return f"{seconds}.{rest:09d}" if texts.style.nanoseconds else f"{seconds}.{rest // 1000:06d}"

    column = by_number(rounded.view(np.int64), text)
    return column._replace(wide=lambda _i: _NANOSECOND_WIDTH) if texts.style.nanoseconds else column


_NANOSECOND_WIDTH = 16


def cgroup(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of cgroups, by path."""
    names = ["N/A" if not number else texts.machine.cgroup_name(number) or "unknown" for number in values.tolist()]
    rank = ranks(values)
    return KeyColumn(rank, rank, lambda i: names[i], lambda i: byte_width(names[i]) if values[i] else 0)


def container(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of containers, by runtime and name; "host" outside of containers."""
    paths = [texts.machine.cgroup_name(number) if number else None for number in values.tolist()]
    return by_text([_UNKNOWN if path is None else texts.machine.container_name(path) for path in paths])


_UNKNOWN = "unknown"


def cgroup_id(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of cgroup namespaces, by device and inode."""
    namespaces = [texts.machine.cgroup_namespaces[number] for number in values.tolist()]
    rank = ranks(*np.array(namespaces, np.int64).reshape(-1, 2).T)
    return KeyColumn(rank, rank, lambda i: f"{namespaces[i][0]}/{namespaces[i][1]:#x}")


def host(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of hosts."""
    return by_text([texts.machine.recordings[number].host for number in values.tolist()])


def recording(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of recordings, by path."""
    return by_text([texts.machine.recordings[number].path for number in values.tolist()])


_DAY = 86400
_SECOND = 1_000_000_000


def time_of_day(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of times of day in the local time zone, rounded down to the quantum, of any day."""
    quantum = max(texts.style.clock_quantum, 1)
    within = [_since_midnight(value) // quantum * quantum if value != UNKNOWN else _DAY * _SECOND for value in values.tolist()]
    clock_texts = [_clock_text(ns, quantum) if value != UNKNOWN else _NOT_SAID for ns, value in zip(within, values.tolist(), strict=True)]
    return by_number(np.array(within, np.int64), lambda i: clock_texts[i])._replace(wide=lambda i: len(clock_texts[i]))


def date(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of days in the local time zone."""
    numbers = values.tolist()
    return by_text([_NOT_SAID if value == UNKNOWN else strftime("%Y-%m-%d", localtime(value // _SECOND)) for value in numbers])


_NOT_SAID = "[unknown]"


def _since_midnight(wall: int) -> int:
    """Return the ns since local midnight."""
    seconds, rest = divmod(wall, _SECOND)
    local = localtime(seconds)
    return ((local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec) * _SECOND + rest


def _clock_text(within: int, quantum: int) -> str:
    """Format a time of day with the precision of the quantum: 14:00, 14:00:05, 14:00:05.250000."""
    seconds, rest = divmod(within, _SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if quantum % (60 * _SECOND):
        text += f":{seconds % 60:02d}"
    digits = len(f"{quantum % _SECOND:09d}".rstrip("0"))
    return f"{text}.{rest:09d}"[: len(text) + 1 + digits] if digits else text


def parallelism(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of the number of running threads."""
    return by_number(values, lambda i: str(int(values[i])))


def state(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of wait states, or "on CPU"."""
    return by_text([state_name(number) for number in values.tolist()])


def gil(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of the states of the GIL."""
    return by_text([_GIL_STATES.get(number, "-") for number in values.tolist()])


def waker(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of wakers."""
    return by_text([_waker(texts, number) for number in values.tolist()])


def _waker(texts: KeyTexts, number: int) -> str:
    note, thread = number >> NOTE_SHIFT, number & (1 << NOTE_SHIFT) - 1
    if note == WOKEN_BY_INTERRUPT:
        return "[interrupt]"
    return f"{texts.tasks.last_comm(thread)}:{thread}" if note == WOKEN_BY_THREAD else "-"


STAGE_HEADER: Final = "Local Pipeline Stage Cycle"

_KEYS: Final = (
    SortKey("pid", "    Pid:Command", "tid", thread, ColumnCell.THREAD, by_comm=8),
    SortKey("comm", "Command", "comm", comm, by_comm=0),
    SortKey("dso", "Shared Object", "location", locations.dso),
    SortKey("symbol", "Symbol", "location", locations.symbol, ColumnCell.CUT),
    SortKey("parent", "Parent symbol", "parent", locations.parent),
    SortKey("cpu", "CPU", "cpu", cpu, ColumnCell.DIGITS, 3),
    SortKey("socket", "Socket", "socket", socket, ColumnCell.SPACED_DIGITS, 6),
    SortKey("srcline", "Source:Line", "location", locations.source_line, ColumnCell.CUT),
    SortKey("srcfile", "Source File", "location", locations.source_file, ColumnCell.CUT, late=True),
    SortKey("local_weight", "Local Weight", "weight", number, ColumnCell.PADDED, 12),
    SortKey("weight", "Weight", "weight", summed_number, ColumnCell.PADDED, 12),
    SortKey("transaction", "Transaction                ", "transaction", locations.transaction),
    SortKey("trace", "Trace output", "raw", locations.trace, ColumnCell.CUT, late=True),
    SortKey("symbol_size", "Symbol size", "location", locations.symbol_size, ColumnCell.RIGHT),
    SortKey("dso_size", "DSO size", "location", locations.dso_size, ColumnCell.RIGHT),
    SortKey("cgroup", "Cgroup", "cgroup", cgroup, ColumnCell.LOOSE, 6),
    SortKey("cgroup_id", "cgroup id (dev/inode)", "cgroup_id", cgroup_id, ColumnCell.LOOSE, 20),
    SortKey("ipc_null", "IPC   [IPC Coverage]", "location", locations.no_ipc),
    SortKey("time", "Time", "time", time, ColumnCell.CUT, 12),
    SortKey("code_page_size", "Code Page Size", "code_page_size", locations.page_size, ColumnCell.PADDED, 6),
    SortKey("local_ins_lat", "Local INSTR Latency", "ins_lat", number, ColumnCell.PADDED, 13),
    SortKey("ins_lat", "INSTR Latency", "ins_lat", summed_number, ColumnCell.PADDED, 13),
    SortKey("local_p_stage_cyc", "Local Retire Latency", "retire_lat", number, ColumnCell.PADDED, 13),
    SortKey("p_stage_cyc", "Retire Latency", "retire_lat", summed_number, ColumnCell.PADDED, 13),
    SortKey("addr", "Address", "location", locations.address, ColumnCell.LEFT, 18),
    SortKey("local_retire_lat", STAGE_HEADER, "retire_lat", number, ColumnCell.PADDED),
    SortKey("retire_lat", "Pipeline Stage Cycle", "retire_lat", summed_number, ColumnCell.PADDED),
    SortKey("simd", "Simd   ", "location", locations.simd, ColumnCell.LOOSE),
    SortKey("symoff", "Symbol Offset", "location", locations.symbol_offset, ColumnCell.OFFSET),
    # newer than perf 6.12, whose abbreviations keep their meaning: so they come last
    SortKey("tgid", "   Tgid:Command", "pid", thread, ColumnCell.THREAD, by_comm=8),
    SortKey("comm_nodigit", "CommandNoDigit", "comm", comm_without_digits),
    SortKey("parallelism", "Parallelism", "parallelism", parallelism, ColumnCell.RIGHT),
)

#: keys that perf does not have; perf's meaning of abbreviations comes first
_OURS: Final = (
    SortKey("state", "State", "state", state),
    SortKey("waker", "Waker", "waker", waker),
    SortKey("container", "Container", "cgroup", container),
    SortKey("gil", "GIL", "gil", gil),
    SortKey("host", "Host", "recording", host),
    SortKey("recording", "Recording", "recording", recording),
    SortKey("tod", "Time of day", "wall", time_of_day),
    SortKey("date", "Date", "wall", date),
    SortKey("build_id", "Build-id", "location", locations.build_id),
    SortKey("pyfunc", "Python function", "location", locations.python_function, ColumnCell.CUT),
    SortKey("pyline", "Python line", "location", locations.python_line, ColumnCell.CUT),
)

_METRICS: Final = (
    OutputField("overhead", "Overhead", "period", Unit.PERCENT, 8),
    OutputField("overhead_sys", "sys", "period_sys", Unit.PERCENT, 8),
    OutputField("overhead_us", "usr", "period_us", Unit.PERCENT, 8),
    OutputField("overhead_guest_sys", "guest sys", "period_guest_sys", Unit.PERCENT, 9),
    OutputField("overhead_guest_us", "guest usr", "period_guest_us", Unit.PERCENT, 9),
    OutputField("overhead_children", "Children", "children", Unit.PERCENT, 8),
    OutputField("sample", "Samples", "samples", Unit.NUMBER, 12),
    OutputField("period", "Period", "period", Unit.NUMBER, 12),
    OutputField("weight1", "Weight1", "weight1", Unit.AVERAGE, 8),
    OutputField("weight2", "Weight2", "weight2", Unit.AVERAGE, 8),
    OutputField("weight3", "Weight3", "weight3", Unit.AVERAGE, 8),
    OutputField("latency", "Latency", "latency", Unit.PERCENT, 8),
    OutputField("latency_children", "Latency", "latency_children", Unit.PERCENT, 8),
    OutputField("seconds", "Seconds", "period", Unit.SECONDS, 12),
)

DEFAULT_ORDER: Final = {
    Mode.NORMAL: "comm,dso,symbol",
    Mode.BRANCH: "comm,dso_from,symbol_from,symbol_to,cycles",
    Mode.MEMORY: "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked,local_ins_lat,local_p_stage_cyc",
}
TRACEPOINT_ORDER: Final = "trace"


#: other names that the parts of struct perf_sample_weight have in -F, where -s has keys of these names
_WEIGHTS: Final = (
    OutputField("ins_lat", "Weight2", "weight2", Unit.AVERAGE, 8),
    OutputField("retire_lat", "Weight3", "weight3", Unit.AVERAGE, 8),
    OutputField("p_stage_cyc", "Weight3", "weight3", Unit.AVERAGE, 8),
)


def key_named(token: str) -> SortKey | OutputField | None:
    """Return the first key or metric whose name begins with `token`, in perf's order of search for -s; None if there is none."""
    prefix = token.lower()
    return next((entry for entry in _all_entries() if entry.name.startswith(prefix)), None)


def field_named(token: str) -> SortKey | OutputField | None:
    """Return the first metric, else the first key, whose name begins with `token`, as perf searches for -F; None if there is none."""
    prefix = token.lower()
    return next((entry for entry in (*_METRICS, *_WEIGHTS) if entry.name.startswith(prefix)), None) or key_named(token)


def _all_entries() -> Iterator[SortKey | OutputField]:
    """Yield all keys and metrics in perf's order of search."""
    yield from _KEYS
    yield from _METRICS
    from perfpy.analysis.event_sort_keys import BRANCH_KEYS, MEMORY_KEYS

    yield from BRANCH_KEYS
    yield from MEMORY_KEYS
    yield from _OURS


def sort_key(name: str) -> SortKey:
    """Return the key of exactly this name."""
    return next(key for key in (*_KEYS, *_OURS) if key.name == name)


def output_field(name: str) -> OutputField:
    """Return the metric of exactly this name."""
    return next(entry for entry in _METRICS if entry.name == name)


def names() -> list[str]:
    """Return all names for -s and -F: perf's order, in which metrics come first."""
    return [entry.name for entry in sorted(_all_entries(), key=lambda entry: isinstance(entry, SortKey))]
