"""What a report is asked for, apart from its columns: callchains, filters, how rows are joined."""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.layout import Wanted
from perfpy.analysis.sortkeys.key_texts import HOUR


class CallGraph(NamedTuple):
    """How callchains are shown: perf's --call-graph.

    style: graph, fractal, flat, folded or none; percent: nodes below it are
    left out; limit: the most entries per tree (0: all); order: caller or
    callee; key: what makes frames the same: function, address or srcline;
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
        """Whether shares are of the parent node's."""
        return self.style == "fractal"

    @property
    def within_functions(self) -> bool:
        """Whether addresses within a function are told apart, and named."""
        return self.key in ("address", "srcline")


#: what is a parent for --sort parent where no -p says otherwise
DEFAULT_PARENT = "^sys_|^do_page_fault"


class ReportOptions(NamedTuple):
    """Everything that decides which rows a report has.

    call_graph: None for a report without callchains. children: whether
    callers are rows, too. max_stack: frames of a chain that are looked at.
    hierarchy: whether each sort key is shown on a level of its own.
    ignore_callees, parent: regular expressions; exclude_other: only samples that
    have a parent are shown. group: whether events of a
    group share a table (True: all events, where none are grouped); sort_member: by which member it is sorted.
    keep_exited: whether threads keep their names when they exit; samples that
    come after that have only their number otherwise. full_source_path: whether
    source files are named with their folders; rows_filtered: whether filters show or hide rows as perf does, each by its
    first sample, in place of samples; tiers_as_one: all code that a runtime made of one function is that
    function; recursion_as_one: a function that calls itself is one line of a call tree, however deep it goes;
    as_addr2line: as perf names them (perfpy.debuginfo.line_table); by_address: whether Report.folded tells the
    addresses within a function apart. time_quantum, clock_quantum: the grain of times, and of times of day, in ns.
    """

    wanted: Wanted = Wanted()
    sample_filter: SampleFilter = SampleFilter()
    rows_filtered: bool = False
    tiers_as_one: bool = False
    recursion_as_one: bool = False
    call_graph: CallGraph | None = None
    children: bool = False
    max_stack: int = 127
    ignore_callees: str = ""
    parent: str = DEFAULT_PARENT
    exclude_other: bool = False
    hide_unresolved: bool = False
    hierarchy: bool = False
    group: bool | None = None
    sort_member: int = 0
    relative_percentages: bool = False
    verbose: bool = False
    nanoseconds: bool = False
    time_quantum: int = 100_000_000
    clock_quantum: int = HOUR
    unnamed_dso_width: int = 16
    keep_exited: bool = True
    full_source_path: bool = False
    as_addr2line: bool = False
    by_address: bool = False
