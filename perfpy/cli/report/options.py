"""Options of `perfpy report`: perf report's, by topic."""

from __future__ import annotations

from perfpy.cli.line.option_parsing import (
    UNWIND_STYLES,
    Attached,
    Choice,
    CommandOptions,
    Flag,
    StdioOptions,
    Value,
    WordList,
    option,
    parse_unsigned,
    word,
)
from perfpy.cli.line.shared_options import (
    PERCENT_TYPES,
    HardwareTraceOptions,
    HeaderOptions,
    InputOptions,
    JobOptions,
    QuietOptions,
    SampleFilterOptions,
    SymbolFileOptions,
    VerboseOptions,
    parse_names,
    parse_pattern,
    parse_quantum,
    parse_ranges,
    parse_separator,
    parse_widths,
)

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

#: -g without a value.
_CALL_GRAPH: Final = "graph,0.5,caller,function,percent"
#: Output files of exports without a file name.
_DEFAULT_FILES: Final = {
    "flamegraph": "flamegraph.html",
    "folded": "-",
    "speedscope": "perf.speedscope.json",
    "firefox": "perf.firefox.json",
    "pprof": "perf.pb.gz",
}

#: Bases of a source line's share.

_LACKING: Final = {
    "--gtk": "it needs GTK",
    "--disable-order": "records are always sorted by time",
}


class ReportColumnOptions(CommandOptions):
    """The columns."""

    sort: str | None = option("-s,--sort", Value(), "sort by these keys: comm, dso, symbol, pid, cpu, host, tod", metavar="<key[,key2...]>")
    fields: str | None = option(
        "-F,--fields", Value(), "choose the columns; a leading + adds to the default ones", metavar="<key[,keys...]>"
    )
    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "show a column with the number of samples")
    show_total_period: bool = option("--show-total-period", Flag(), "show a column with the sum of periods")
    show_cpu_utilization: bool = option("--show-cpu-utilization,--showcpuutilization", Flag(), "show shares of kernel and user code")
    threads: bool = option("-T,--threads", Flag(), "show counts per thread (needs record -s)")


class ReportCallchainOptions(CommandOptions):
    """Callchains: which rows they add, and how they are shown."""

    call_graph: str | None = option(
        "-g,--call-graph",
        Attached(_CALL_GRAPH, takes_word=True, negated="none"),
        "choose how to show callchains",
        metavar="<print_type,...>",
    )
    children: bool | None = option("--children", Flag(default=None), "add callers' overhead (default with callchains)")
    latency: bool = option("--latency", Flag(), "sort by share of wall-clock time (needs context switches)")
    inverted: bool = option("-G,--inverted", Flag(), "show call graphs from callers to callees")
    hierarchy: bool = option("-H,--hierarchy", Flag(), "nest the rows, one level for each sort key")
    max_stack: int | None = option("--max-stack", Value(parse_unsigned), "use at most n frames of a callchain", metavar="<n>")
    branch_history: bool = option("--branch-history", Flag(), "begin callchains with the recorded branches (needs record -b)")
    stitch_lbr: bool = option("--stitch-lbr", Flag(), "no effect without call stacks of branch records")
    ignore_callees: str = option(
        "--ignore-callees", Value(parse_pattern, default=""), "drop callees of these functions from callchains", metavar="<regex>"
    )
    parent: str = option(
        "-p,--parent", Value(parse_pattern, default=""), "regex that identifies the parent, for --sort parent", metavar="<regex>"
    )
    exclude_other: bool = option("-x,--exclude-other", Flag(), "only samples with a parent")


class ReportFilterOptions(SampleFilterOptions):
    """Which samples and rows are included."""

    dsos: tuple[str, ...] | None = option("-d,--dsos", Value(parse_names), "only these shared objects", metavar="<dso[,dso...]>")
    symbols: tuple[str, ...] | None = option("-S,--symbols", Value(parse_names), "only these functions", metavar="<symbol[,symbol...]>")
    symbol_filter: str = option("--symbol-filter", Value(default=""), "only functions with this part in their name", metavar="<filter>")
    socket_filter: int = option("--socket-filter", Value(int, default=-1), "only the CPUs of this socket", metavar="<n>")
    parallelism: tuple[int, ...] | None = option(
        "--parallelism", Value(parse_ranges), "only samples at this parallelism (needs context switches)", metavar="<n[,n-n...]>"
    )
    event: str = option("--event", Value(default=""), "only samples of this event", metavar="<event>")
    time: str = option("--time", Value(default=""), "only this time: start,stop, 10%-20%, 10%/2", metavar="<str>")
    switch_on: str = option("--switch-on", Value(default=""), "only samples after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "only samples before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "include the events of --switch-on and --switch-off")
    percent_limit: float | None = option("--percent-limit", Value(float), "hide rows below this share", metavar="<percent>")
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")), "percentages of the filtered or of all samples")
    hide_unresolved: bool = option("-U,--hide-unresolved", Flag(), "hide entries without a symbol")


class ReportTableOptions(CommandOptions):
    """The rows of a table, and its layout."""

    group: bool | None = option("--group", Flag(default=None), "show the events of a group side by side (default)")
    sort_member: int = option("--group-sort-idx", Value(int, default=0), "sort groups by this event", metavar="<n>")
    separator: str | None = option(
        "-t,--field-separator", Value(parse_separator), "separate columns with this string", metavar="<separator>"
    )
    widths: tuple[int, ...] = option(
        "-w,--column-widths", Value(parse_widths, default=()), "set the column widths", metavar="<width[,width...]>"
    )
    total_cycles: bool = option("--total-cycles", Flag(), "show blocks between branches, most cycles first")
    branch_stack: bool | None = option("-b,--branch-stack", Flag(default=None), "show one row for each branch (default with branches)")
    mem_mode: bool = option("--mem-mode", Flag(), "show one row for each kind of memory access")
    with_off_cpu: bool = option("--with-off-cpu", Flag(), "merge on-CPU and off-CPU time (needs record --off-cpu)")
    nanoseconds: bool = option("--ns", Flag(), "show times in nanoseconds")
    time_quantum: int = option(
        "--time-quantum", Value(parse_quantum, default=100_000_000), "quantum of --sort time and tod (tod: one hour)", metavar="<time>"
    )
    raw_trace: bool = option("--raw-trace", Flag(), "show raw fields of tracepoints")
    full_source_path: bool = option("--full-source-path", Flag(), "show full paths of source files")
    skip_empty: bool | None = option("--skip-empty", Flag(default=None), "hide events without samples (default)")


class ReportOutputOptions(CommandOptions):
    """The output's format."""

    verdict: bool = option("--verdict", Flag(), "print only the sentences that screens begin with")
    tui: bool = option("--tui", Flag(), "browse the report (needs pip install perfpy[tui])")
    stdio_color: str = option(
        "--stdio-color",
        Attached("always", Choice("always", "never", "auto"), default="auto", takes_word=True),
        "colour plain text: always, never or auto",
        metavar="<mode>",
    )
    full_names: bool = option("--full-names", Flag(), "show full function names on screens")
    json: str | None = option("--json", Attached("-", takes_word=True), "write the report as JSON", metavar="<file>")
    flamegraph: str | None = option(
        "--flamegraph,--html", Attached("", takes_word=True), "write one HTML page: flame graph, time line, tables, code", metavar="<file>"
    )
    source: bool = option("--source", Flag(default=True), "include the code of hot functions in a page (default)")
    folded: str | None = option("--folded", Attached("-", takes_word=True), "write folded stacks, as for flamegraph.pl", metavar="<file>")
    speedscope: str | None = option("--speedscope", Attached("", takes_word=True), "write stacks for speedscope", metavar="<file>")
    firefox: str | None = option("--firefox", Attached("", takes_word=True), "write samples for the Firefox Profiler", metavar="<file>")
    pprof: str | None = option("--pprof", Attached("", takes_word=True), "write stacks for pprof", metavar="<file>")


class UnneededOptions(CommandOptions):
    """perf's options for external programs, for annotated code and single samples in its browser, and for other table layouts. They do
    not change perfpy's output, except for --objdump, which the column of IPC uses.
    """

    addr2line: str = option("--addr2line", Value(default=""), "taken as perf takes it: lines are read without a program", hidden=True)
    addr2line_style: str = option(
        "--addr2line-style", Value(WordList("libdw", "llvm", "libbfd", "addr2line"), default=""), "as --addr2line", hidden=True
    )
    unwind_style: str = option("--unwind-style", Value(UNWIND_STYLES, default=""), "stacks are unwound without", hidden=True)
    objdump: str = option("--objdump", Value(default=""), "run this objdump to count instructions (IPC)", hidden=True)
    asm_raw: bool = option("--asm-raw", Flag(), "for annotated code", hidden=True)
    disassembler_style: str = option("-M,--disassembler-style", Value(default=""), "for annotated code", hidden=True)
    percent_type: str = option("--percent-type", Value(Choice(*PERCENT_TYPES), default=""), "for annotated code", hidden=True)
    prefix: str = option("--prefix", Value(default=""), "for annotated code", hidden=True)
    prefix_strip: str = option("--prefix-strip", Value(default=""), "for annotated code", hidden=True)
    samples: int = option("--samples", Value(int, default=0), "single samples, in a browser", hidden=True)
    show_ref_call_graph: bool = option("--show-ref-call-graph", Flag(), "of events that have no chains of their own", hidden=True)
    pretty: str = option("--pretty", Value(default=""), "with -T: values in columns (they are)", hidden=True)


class ReportMetadataOptions(CommandOptions):
    """Output about the recording's metadata."""

    show_info: bool = option("-I,--show-info", Flag(), "show the extended header")
    stats: bool = option("--stats", Flag(), "show the number of records by type")
    tasks: bool = option("--tasks", Flag(), "show the recorded tasks")
    mmaps: bool = option("--mmaps", Flag(), "show the recorded tasks with their mappings")
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text")


class ReportManyOptions(CommandOptions):
    """Options for several recordings."""

    weights: str = option(
        "--weights",
        Value(Choice("time", "samples", "equal"), default="time"),
        "weigh recordings by time (default), samples or equally",
        metavar="<time|samples|equal>",
    )
    cluster: str = option(
        "--cluster",
        Value(default=""),
        "read the recordings with this Dask cluster",
        metavar="<tcp://host:port>",
    )


class ReportModuleOptions(CommandOptions):
    """Which kernel files provide symbols."""

    modules: bool = option("-m,--modules", Flag(), "ignored: symbols of modules are always loaded")
    ignore_vmlinux: bool = option("--ignore-vmlinux", Flag(), "do not look for a vmlinux")


class ReportCommandOptions(
    InputOptions,
    ReportColumnOptions,
    ReportCallchainOptions,
    ReportFilterOptions,
    ReportTableOptions,
    StdioOptions,
    ReportOutputOptions,
    UnneededOptions,
    HardwareTraceOptions,
    HeaderOptions,
    ReportMetadataOptions,
    SymbolFileOptions,
    ReportModuleOptions,
    JobOptions,
    ReportManyOptions,
    VerboseOptions,
    QuietOptions,
    lacks=_LACKING,
):
    """Options of `perfpy report`."""

    inline: bool | None = option("--inline", Flag(default=None), "show inlined calls (default; plain text: unwound stacks)")
    part: str | None = word("[<symbol part>]")

    @property
    def symbol_part(self) -> str | None:
        """A substring of functions' names to filter by, or None."""
        return self.symbol_filter or self.part or None

    @property
    def exports(self) -> dict[str, str]:
        """The selected formats of whole stacks, with their files."""
        paths = {name: getattr(self, name) for name in _DEFAULT_FILES}
        return {name: path or _DEFAULT_FILES[name] for name, path in paths.items() if path is not None}

    @property
    def needs_plain(self) -> bool:
        """Whether an option selects output that only the plain text has; -v means details of the screen, -vv the addresses of the text."""
        layout = self.hierarchy or self.branch_history or self.separator or self.widths or self.threads
        return bool(self.stdio or self.header or layout or self.verbose > 1 or self.quiet)

    @property
    def is_summary(self) -> bool:
        """Whether counts or the tree of tasks are shown in place of a report."""
        return self.stats or self.tasks or self.mmaps

    @property
    def gives_row_limit_last(self) -> bool:
        """Whether --percent-limit comes after --call-graph, whose value may have a limit, too."""
        occurrences = self.in_order("call_graph", "percent_limit")
        return bool(occurrences) and occurrences[-1].name == "percent_limit"
