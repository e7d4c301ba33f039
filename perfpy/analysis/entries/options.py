"""The options of a report, except its columns: callchains, rows, names and times."""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.sortkeys.key_texts import HOUR


class CallGraph(NamedTuple):
    """Options of callchains: perf's --call-graph.

    Attributes:
        style: graph, fractal, flat, folded or none.
        percent: smaller nodes are hidden.
        limit: the most entries per tree (0: all).
        order: caller or callee.
        key: what identifies frames: function, address or srcline.
        value: percent, period or count.
    """

    style: str = "graph"
    percent: float = 0.5
    limit: int = 0
    order: str = "callee"
    key: str = "function"
    value: str = "percent"

    @property
    def relative(self) -> bool:
        """Whether shares are relative to the parent node."""
        return self.style == "fractal"

    @property
    def within_functions(self) -> bool:
        """Whether addresses within a function are distinguished, and shown."""
        return self.key in ("address", "srcline")


#: the default of -p: the parents for --sort parent
DEFAULT_PARENT = "^sys_|^do_page_fault"


class ChainOptions(NamedTuple):
    """Options for the use of callchains in a report.

    Attributes:
        call_graph: None for a report without callchains
        children: whether callers are rows, too
        max_stack: frames of a callchain that count
        ignore_callees: a regular expression for functions whose callees are dropped
        recursion_as_one: whether a function that calls itself is one line of a call tree
    """

    call_graph: CallGraph | None = None
    children: bool = False
    max_stack: int = 127
    ignore_callees: str = ""
    recursion_as_one: bool = False


class RowOptions(NamedTuple):
    """Which rows a report has, and what 100 % is.

    Attributes:
        hierarchy: whether each sort key has a level of its own
        group: whether events of a group share a table; True: all events, if none are grouped
        sort_member: the event of a group by which the table is sorted
        parent: a regular expression, for --sort parent
        exclude_other: whether to omit samples without a parent
        hide_unresolved: whether to omit rows without a symbol
        rows_filtered: whether filters hide rows as in perf, each by its first sample, instead of selecting samples
        by_address: whether Report.folded keeps the addresses within a function
        by_thread: whether Report.folded keeps the threads, and the states of waits
    """

    hierarchy: bool = False
    group: bool | None = None
    sort_member: int = 0
    parent: str = DEFAULT_PARENT
    exclude_other: bool = False
    hide_unresolved: bool = False
    relative_percentages: bool = False
    rows_filtered: bool = False
    by_address: bool = False
    by_thread: bool = False


class NameOptions(NamedTuple):
    """Options for the names of rows.

    Attributes:
        tiers_as_one: whether all code that a runtime compiled for one function is that function
        keep_exited: whether threads keep their names when they exit; otherwise later samples show their number only
        full_source_path: whether source files are shown with their folders
        as_addr2line: whether source files have the names that addr2line prints (see perfpy.debuginfo.lines.line_table)
        unnamed_dso_width: digits of the number of a dso without a name
    """

    verbose: bool = False
    tiers_as_one: bool = False
    keep_exited: bool = True
    full_source_path: bool = False
    as_addr2line: bool = False
    unnamed_dso_width: int = 16


class TimeOptions(NamedTuple):
    """The resolution of times, in ns: `time_quantum` of --sort time, `clock_quantum` of --sort tod; and whether ns are printed."""

    nanoseconds: bool = False
    time_quantum: int = 100_000_000
    clock_quantum: int = HOUR


class ReportOptions(NamedTuple):
    """The options that decide which rows a report has."""

    columns: ColumnOptions = ColumnOptions()
    sample_filter: SampleFilter = SampleFilter()
    chains: ChainOptions = ChainOptions()
    rows: RowOptions = RowOptions()
    names: NameOptions = NameOptions()
    times: TimeOptions = TimeOptions()

    def by_address(self, columns: ColumnOptions) -> ReportOptions:
        """Return options for a report without callchains that keeps the addresses within functions."""
        rows, chains = self.rows._replace(by_address=True), self.chains._replace(call_graph=None, children=False)
        return self._replace(columns=columns, rows=rows, chains=chains)
