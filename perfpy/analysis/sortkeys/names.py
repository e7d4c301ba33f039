"""The tables of sort keys and output fields, by perf's names for -s and -F.

The keys of branch records and of memory accesses have tables
beside their columns (branch_columns, memory_columns).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.sortkeys import location_columns as locations
from perfpy.analysis.sortkeys import payload_columns as payloads
from perfpy.analysis.sortkeys import task_columns as tasks
from perfpy.analysis.sortkeys.key_columns import number, summed_number
from perfpy.analysis.sortkeys.sort_key import ColumnCell, Mode, OutputField, SortKey, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYS: Final = (
    SortKey("pid", "    Pid:Command", "tid", tasks.thread, ColumnCell.THREAD, by_comm=8),
    SortKey("comm", "Command", "comm", tasks.comm, by_comm=0),
    SortKey("dso", "Shared Object", "location", locations.dso),
    SortKey("symbol", "Symbol", "location", locations.symbol, ColumnCell.CUT),
    SortKey("parent", "Parent symbol", "parent", locations.parent),
    SortKey("cpu", "CPU", "cpu", tasks.cpu, ColumnCell.RIGHT, 3),
    SortKey("socket", "Socket", "socket", tasks.socket, ColumnCell.RIGHT, 6),
    SortKey("srcline", "Source:Line", "location", locations.source_line, ColumnCell.CUT, late=True),
    SortKey("srcfile", "Source File", "location", locations.source_file, ColumnCell.CUT, late=True),
    SortKey("local_weight", "Local Weight", "weight", number, least=12),
    SortKey("weight", "Weight", "weight", summed_number, least=12),
    SortKey("transaction", "Transaction                ", "transaction", payloads.transaction),
    SortKey("trace", "Trace output", "raw", payloads.trace, ColumnCell.CUT, late=True),
    SortKey("symbol_size", "Symbol size", "location", locations.symbol_size, ColumnCell.RIGHT),
    SortKey("dso_size", "DSO size", "location", locations.dso_size, ColumnCell.RIGHT),
    SortKey("cgroup", "Cgroup", "cgroup", tasks.cgroup, ColumnCell.LOOSE, 6),
    SortKey("cgroup_id", "cgroup id (dev/inode)", "cgroup_id", tasks.cgroup_id, least=20),
    SortKey("ipc_null", "IPC   [IPC Coverage]", "location", locations.no_ipc),
    SortKey("time", "Time", "time", tasks.time, ColumnCell.CUT, 12),
    SortKey("code_page_size", "Code Page Size", "code_page_size", payloads.page_size, least=6),
    SortKey("local_ins_lat", "Local INSTR Latency", "ins_lat", number, least=13),
    SortKey("ins_lat", "INSTR Latency", "ins_lat", summed_number, least=13),
    SortKey("local_p_stage_cyc", "Local Retire Latency", "retire_lat", number, least=13),
    SortKey("p_stage_cyc", "Retire Latency", "retire_lat", summed_number, least=13),
    SortKey("addr", "Address", "location", locations.address, ColumnCell.LEFT, 18),
    SortKey("local_retire_lat", "Local Pipeline Stage Cycle", "retire_lat", number),
    SortKey("retire_lat", "Pipeline Stage Cycle", "retire_lat", summed_number),
    SortKey("simd", "Simd   ", "location", locations.simd, ColumnCell.LOOSE),
    SortKey("symoff", "Symbol Offset", "location", locations.symbol_offset, ColumnCell.LOOSE),
    # newer than perf 6.12, whose abbreviations keep their meaning: so they come last
    SortKey("tgid", "   Tgid:Command", "pid", tasks.thread, ColumnCell.THREAD, by_comm=8),
    SortKey("comm_nodigit", "CommandNoDigit", "comm", tasks.comm_without_digits),
    SortKey("parallelism", "Parallelism", "parallelism", tasks.parallelism, ColumnCell.RIGHT),
)

#: keys that perf does not have; perf's meaning of abbreviations comes first
_OURS: Final = (
    SortKey("state", "State", "state", tasks.state),
    SortKey("waker", "Waker", "waker", tasks.waker),
    SortKey("container", "Container", "cgroup", tasks.container),
    SortKey("gil", "GIL", "gil", tasks.gil),
    SortKey("host", "Host", "recording", tasks.host),
    SortKey("recording", "Recording", "recording", tasks.recording),
    SortKey("tod", "Time of day", "wall", tasks.time_of_day),
    SortKey("date", "Date", "wall", tasks.date),
    SortKey("build_id", "Build-id", "location", locations.build_id),
    SortKey("pyfunc", "Python function", "location", locations.python_function, ColumnCell.CUT),
    SortKey("pyline", "Python line", "location", locations.python_line, ColumnCell.CUT, late=True),
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


def key_named(token: str) -> SortKey | OutputField | None:
    """Return the first key or metric whose name begins with `token`, in perf's order of search; None if there is none."""
    prefix = token.lower()
    return next((entry for entry in _all_entries() if entry.name.startswith(prefix)), None)


def _all_entries() -> Iterator[SortKey | OutputField]:
    """Yield all keys and metrics in perf's order of search."""
    yield from _KEYS
    yield from _METRICS
    from perfpy.analysis.sortkeys.branch_columns import BRANCH_KEYS
    from perfpy.analysis.sortkeys.memory_columns import MEMORY_KEYS

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
