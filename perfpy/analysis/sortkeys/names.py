"""The sort keys and output fields of a report, by perf's names: one table each.

What enters: a name from -s or -F. What leaves: a `SortKey` (a column that
rows are grouped by) or a `OutputField` (a column of numbers).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from perfpy.analysis.sortkeys import branch_columns as branches
from perfpy.analysis.sortkeys import location_columns as locations
from perfpy.analysis.sortkeys import memory_columns as memory
from perfpy.analysis.sortkeys import payload_columns as payloads
from perfpy.analysis.sortkeys import task_columns as tasks
from perfpy.analysis.sortkeys.key_columns import Column, number, summed_number


class ColumnCell(Enum):
    """How the text of a column is set within the column's width."""

    LEFT = "left"  # cut and filled to the width
    RIGHT = "right"  # filled from the left
    CUT = "cut"  # cut to the width, not filled
    LOOSE = "loose"  # neither
    RIGHT_CUT = "right cut"  # cut to the width and filled from the left, as the header is
    THREAD = "thread"  # PID:COMM, the comm cut and filled


class Mode(Enum):
    """What a row stands for; decides which keys there are."""

    NORMAL = "normal"
    BRANCH = "branch"
    MEMORY = "memory"


class SortKey(NamedTuple):
    """A column that rows are grouped by.

    dimension: what it reads of each sample (perfpy.analysis.samples.dimensions), or "location"
    for where the sample was, in callchains too; least: the least width;
    by_comm: the column is as wide as the longest comm of a thread, plus this;
    late: perf makes
    the texts when it first compares two samples, and measures only what is made.
    event: the only event whose rows have it.
    """

    name: str
    header: str
    dimension: str
    column: Column
    cell: ColumnCell = ColumnCell.LEFT
    least: int = 0
    mode: Mode = Mode.NORMAL
    by_comm: int | None = None
    late: bool = False
    event: int | None = None

    @property
    def of_location(self) -> bool:
        """Whether it describes the location, so that callers have their own."""
        return self.dimension == "location"


class Unit(Enum):
    """What a metric's number is."""

    PERCENT = "percent"
    NUMBER = "number"
    AVERAGE = "average"


class OutputField(NamedTuple):
    """A column of numbers: which sum it shows, and how."""

    name: str
    header: str
    value: str
    unit: Unit
    width: int


_KEYS: Final = (
    SortKey("pid", "    Pid:Command", "tid", tasks.thread, ColumnCell.THREAD, by_comm=8),
    SortKey("comm", "Command", "comm", tasks.comm, by_comm=0),
    SortKey("dso", "Shared Object", "location", locations.dso),
    SortKey("symbol", "Symbol", "location", locations.symbol, ColumnCell.CUT),
    SortKey("parent", "Parent symbol", "parent", locations.parent),
    SortKey("cpu", "CPU", "cpu", tasks.cpu, ColumnCell.RIGHT, 3),
    SortKey("socket", "Socket", "cpu", tasks.socket, ColumnCell.RIGHT, 6),
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
    # newer than perf 6.12, whose words of one or two letters keep their meaning: the last
    SortKey("tgid", "   Tgid:Command", "pid", tasks.thread, ColumnCell.THREAD, by_comm=8),
    SortKey("comm_nodigit", "CommandNoDigit", "comm", tasks.comm_without_digits),
    SortKey("parallelism", "Parallelism", "parallelism", tasks.parallelism, ColumnCell.RIGHT),
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
)

_BRANCH_KEYS: Final = (
    SortKey("dso_from", "Source Shared Object", "branch_from", branches.dso, mode=Mode.BRANCH),
    SortKey("dso_to", "Target Shared Object", "branch_to", branches.dso, mode=Mode.BRANCH),
    SortKey("symbol_from", "Source Symbol", "branch_from", branches.symbol, ColumnCell.CUT, mode=Mode.BRANCH),
    SortKey("symbol_to", "Target Symbol", "branch_to", branches.symbol, ColumnCell.CUT, mode=Mode.BRANCH),
    SortKey("mispredict", "Branch Mispredicted", "branch_flags", branches.mispredict, mode=Mode.BRANCH),
    SortKey("abort", "Transaction abort", "branch_flags", branches.abort, mode=Mode.BRANCH),
    SortKey("in_tx", "Branch in transaction", "branch_flags", branches.in_transaction, mode=Mode.BRANCH),
    SortKey("cycles", "Basic Block Cycles", "branch_flags", branches.cycles, mode=Mode.BRANCH),
    SortKey("srcline_from", "From Source:Line", "branch_from", branches.source_line, mode=Mode.BRANCH),
    SortKey("srcline_to", "To Source:Line", "branch_to", branches.source_line, mode=Mode.BRANCH),
    SortKey("ipc_lbr", "IPC   [IPC Coverage]", "branch_to", branches.no_ipc, mode=Mode.BRANCH),
    SortKey("addr_from", "Source Address", "branch_from", branches.address, ColumnCell.LOOSE, mode=Mode.BRANCH),
    SortKey("addr_to", "Target Address", "branch_to", branches.address, ColumnCell.LOOSE, mode=Mode.BRANCH),
)

_MEMORY_KEYS: Final = (
    SortKey("symbol_daddr", "Data Symbol", "data", memory.data_symbol, ColumnCell.CUT, mode=Mode.MEMORY),
    SortKey("dso_daddr", "Data Object", "data", memory.dso, mode=Mode.MEMORY),
    SortKey("locked", "Locked", "data_src", memory.locked, ColumnCell.CUT, 6, Mode.MEMORY),
    SortKey("tlb", "TLB access", "data_src", memory.tlb, ColumnCell.LEFT, 22, Mode.MEMORY),
    SortKey("mem", "Memory access", "data_src", memory.level, ColumnCell.LEFT, 39, Mode.MEMORY),
    SortKey("snoop", "Snoop", "data_src", memory.snoop, ColumnCell.LEFT, 12, Mode.MEMORY),
    SortKey("dcacheline", "Data Cacheline", "data", memory.cache_line, ColumnCell.CUT, 22, Mode.MEMORY),
    SortKey("symbol_iaddr", "Code Symbol", "frame", memory.code_symbol, ColumnCell.CUT, mode=Mode.MEMORY),
    SortKey("phys_daddr", "Data Physical Address", "phys_addr", memory.physical, ColumnCell.LEFT, 22, Mode.MEMORY),
    SortKey("data_page_size", "Data Page Size", "data_page_size", payloads.page_size, ColumnCell.LEFT, 22, Mode.MEMORY),
    SortKey("blocked", "Blocked", "data_src", memory.blocked, ColumnCell.CUT, 10, Mode.MEMORY),
)

DEFAULT_ORDER: Final = {
    Mode.NORMAL: "comm,dso,symbol",
    Mode.BRANCH: "comm,dso_from,symbol_from,symbol_to,cycles",
    Mode.MEMORY: "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked,local_ins_lat,local_p_stage_cyc",
}
TRACEPOINT_ORDER: Final = "trace"


def key_named(token: str) -> SortKey | OutputField | None:
    """The first key or metric whose name begins with `token`, in perf's order of search; None if there is none."""
    wanted = token.lower()
    return next((entry for entry in (*_KEYS, *_METRICS, *_BRANCH_KEYS, *_MEMORY_KEYS) if entry.name.startswith(wanted)), None)


def sort_key(name: str) -> SortKey:
    """The key of exactly this name."""
    return next(key for key in _KEYS if key.name == name)


def output_field(name: str) -> OutputField:
    """The metric of exactly this name."""
    return next(entry for entry in _METRICS if entry.name == name)


def names() -> list[str]:
    """All names that -s and -F know, perf's order."""
    return [entry.name for entry in (*_METRICS, *_KEYS, *_BRANCH_KEYS, *_MEMORY_KEYS)]
