"""What `perfpy report` takes: perf report's options, by topic."""

from __future__ import annotations

from perfpy.cli.line.kinds import Attached, Choice, Flag, Value, unsigned
from perfpy.cli.line.options import CommandOptions, option, word
from perfpy.cli.line.shared import HeaderOptions, InputOptions, JobOptions, QuietOptions, StdioOptions, SymbolFileOptions, VerboseOptions

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

#: -g without a value
_CALL_GRAPH: Final = "graph,0.5,caller,function,percent"
#: what is written where an export names no file
_DEFAULT_FILES: Final = {
    "flamegraph": "flamegraph.html",
    "folded": "-",
    "speedscope": "perf.speedscope.json",
    "firefox": "perf.firefox.json",
    "pprof": "perf.pb.gz",
}

#: of what the shares of a line of code are
_PERCENT_TYPES: Final = ("local-period", "global-period", "local-hits", "global-hits")

_LACKING: Final = {
    "--gtk": "it needs GTK",
    "--itrace": "it needs decoders of hardware traces",
    "--stitch-lbr": "it needs call stacks from last branch records",
    "--branch-history": "it mixes branches into callchains; script -F brstackinsn shows the way to each sample",
    "--disable-order": "records are always shown in order of time",
}


def _styles(*known: str) -> Callable[[str], str]:
    """The type of a list of some words."""

    def checked(text: str) -> str:
        if set(text.split(",")) - set(known):
            raise ValueError(" or ".join(known))
        return text

    return checked


class ReportColumnOptions(CommandOptions):
    """What the columns show."""

    sort: str | None = option(
        "-s,--sort", Value(), "sort by these keys: comm, dso, symbol, pid, cpu, host, tod ...", metavar="<key[,key2...]>"
    )
    fields: str | None = option("-F,--fields", Value(), "columns; + adds to the usual ones", metavar="<key[,keys...]>")
    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "show a column with the number of samples")
    show_total_period: bool = option("--show-total-period", Flag(), "show a column with the sum of periods")
    show_cpu_utilization: bool = option("--show-cpu-utilization,--showcpuutilization", Flag(), "show shares of kernel and user code")
    threads: bool = option("-T,--threads", Flag(), "show counts per thread (of recordings made with -s)")


class ReportCallchainOptions(CommandOptions):
    """What is made of callchains, and which rows come of them."""

    call_graph: str | None = option(
        "-g,--call-graph", Attached(_CALL_GRAPH, takes_word=True, negated="none"), "how to show callchains", metavar="<print_type,...>"
    )
    children: bool | None = option("--children", Flag(default=None), "add callers' overhead (default where there are callchains)")
    latency: bool = option("--latency", Flag(), "sort by shares of the wall clock (of recordings with context switches)")
    inverted: bool = option("-G,--inverted", Flag(), "call graphs from callers to callees")
    hierarchy: bool = option("-H,--hierarchy", Flag(), "a level for each sort key")
    max_stack: int = option("--max-stack", Value(unsigned, default=127), "look at this many frames of a callchain", metavar="<n>")
    ignore_callees: str = option("--ignore-callees", Value(default=""), "forget what these functions call", metavar="<regex>")
    parent: str = option("-p,--parent", Value(default=""), "what a parent is, for --sort parent", metavar="<regex>")
    exclude_other: bool = option("-x,--exclude-other", Flag(), "only samples that have a parent")


class ReportFilterOptions(CommandOptions):
    """Which samples and rows count."""

    dsos: str = option("-d,--dsos", Value(default=""), "only these shared objects", metavar="<dso[,dso...]>")
    comms: str = option("-c,--comms", Value(default=""), "only these commands", metavar="<comm[,comm...]>")
    symbols: str = option("-S,--symbols", Value(default=""), "only these functions", metavar="<symbol[,symbol...]>")
    symbol_filter: str = option("--symbol-filter", Value(default=""), "only functions whose name has this part", metavar="<filter>")
    pid: str = option("--pid", Value(default=""), "only these processes", metavar="<pid[,pid...]>")
    tid: str = option("--tid", Value(default=""), "only these threads", metavar="<tid[,tid...]>")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    socket_filter: int = option("--socket-filter", Value(int, default=-1), "only the CPUs of this socket", metavar="<n>")
    parallelism: str = option(
        "--parallelism", Value(default=""), "only while so many threads ran (of recordings with context switches)", metavar="<n[,n-n...]>"
    )
    event: str = option("--event", Value(default=""), "only samples of this event", metavar="<event>")
    time: str = option("--time", Value(default=""), "only this time: start,stop, 10%-20%, 10%/2", metavar="<str>")
    switch_on: str = option("--switch-on", Value(default=""), "only samples after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "only samples before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "count the events of --switch-on and --switch-off, too")
    percent_limit: float | None = option("--percent-limit", Value(float), "leave out rows below it", metavar="<percent>")
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")), "shares of what filters leave, or of all")
    hide_unresolved: bool = option("-U,--hide-unresolved", Flag(), "leave out what has no symbol")


class ReportTableOptions(CommandOptions):
    """What a table holds, and how it is set."""

    group: bool | None = option("--group", Flag(default=None), "show events of a group side by side (default)")
    group_sort_idx: int = option("--group-sort-idx", Value(int, default=0), "sort groups by this event", metavar="<n>")
    field_separator: str | None = option("-t,--field-separator", Value(), "columns with this separator", metavar="<separator>")
    column_widths: str = option("-w,--column-widths", Value(default=""), "use these widths", metavar="<width[,width...]>")
    total_cycles: bool = option("--total-cycles", Flag(), "of recordings of branches: the blocks between them, most cycles first")
    branch_stack: bool | None = option(
        "-b,--branch-stack", Flag(default=None), "a row for each branch (default for recordings of branches)"
    )
    mem_mode: bool = option("--mem-mode", Flag(), "a row for each kind of memory access")
    with_off_cpu: bool = option("--with-off-cpu", Flag(), "time on and off the CPU as one, in seconds (of record --off-cpu)")
    ns: bool = option("--ns", Flag(), "show times in nanoseconds")
    time_quantum: str = option(
        "--time-quantum", Value(default="100ms"), "grain of times in --sort time and tod (tod: an hour)", metavar="<time>"
    )
    raw_trace: bool = option("--raw-trace", Flag(), "show tracepoints' fields, not their formatted text")
    full_source_path: bool = option("--full-source-path", Flag(), "name source files with their folders")
    skip_empty: bool | None = option("--skip-empty", Flag(default=None), "leave out events without samples (default)")


class ReportOutputOptions(CommandOptions):
    """In which form the report is shown or written."""

    tui: bool = option("--tui", Flag(), "browse the report (needs pip install perfpy[tui])")
    stdio_color: str = option(
        "--stdio-color",
        Attached("always", Choice("always", "never", "auto"), default="auto", takes_word=True),
        "colours in plain text: always, never or auto",
        metavar="<mode>",
    )
    whole_names: bool = option("--whole-names", Flag(), "on screens, names of functions with all their arguments")
    json: str | None = option("--json", Attached("-", takes_word=True), "the report as JSON", metavar="<file>")
    flamegraph: str | None = option(
        "--flamegraph,--html",
        Attached("", takes_word=True),
        "a page: flame graph, time line, tables, code; one HTML file",
        metavar="<file>",
    )
    source: bool = option("--source", Flag(default=True), "the code of hot functions in a page (default)")
    folded: str | None = option(
        "--folded", Attached("-", takes_word=True), "stacks as lines for flamegraph.pl and others", metavar="<file>"
    )
    speedscope: str | None = option("--speedscope", Attached("", takes_word=True), "stacks for speedscope", metavar="<file>")
    firefox: str | None = option("--firefox", Attached("", takes_word=True), "samples for the Firefox Profiler", metavar="<file>")
    pprof: str | None = option("--pprof", Attached("", takes_word=True), "stacks for pprof", metavar="<file>")


class UnneededOptions(CommandOptions):
    """What perf has for programs that it calls, for the annotated code and for single samples in its browser, and for tables to be
    set otherwise: its text and ours are the same with them and without.
    """

    addr2line: str = option("--addr2line", Value(default=""), "taken as perf takes it: lines are read without a program", hidden=True)
    addr2line_style: str = option(
        "--addr2line-style", Value(_styles("libdw", "llvm", "libbfd", "addr2line"), default=""), "as --addr2line", hidden=True
    )
    unwind_style: str = option(
        "--unwind-style", Value(_styles("libdw", "libunwind"), default=""), "stacks are unwound without", hidden=True
    )
    objdump: str = option("--objdump", Value(default=""), "for annotated code, which this report has not", hidden=True)
    asm_raw: bool = option("--asm-raw", Flag(), "for annotated code", hidden=True)
    disassembler_style: str = option("-M,--disassembler-style", Value(default=""), "for annotated code", hidden=True)
    percent_type: str = option("--percent-type", Value(Choice(*_PERCENT_TYPES), default=""), "for annotated code", hidden=True)
    prefix: str = option("--prefix", Value(default=""), "for annotated code", hidden=True)
    prefix_strip: str = option("--prefix-strip", Value(default=""), "for annotated code", hidden=True)
    samples: int = option("--samples", Value(int, default=0), "single samples, in a browser", hidden=True)
    show_ref_call_graph: bool = option("--show-ref-call-graph", Flag(), "of events that have no chains of their own", hidden=True)
    pretty: str = option("--pretty", Value(Choice("normal"), default=""), "with -T: values in columns (they are)", hidden=True)


class ReportMetadataOptions(CommandOptions):
    """What is shown in place of samples, or with them."""

    show_info: bool = option("-I,--show-info", Flag(), "show more of the header")
    stats: bool = option("--stats", Flag(), "show how many records of each type there are")
    tasks: bool = option("--tasks", Flag(), "show the tasks recorded")
    mmaps: bool = option("--mmaps", Flag(), "show the tasks recorded with their mappings")
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and as text")


class ReportManyOptions(CommandOptions):
    """Of several recordings."""

    weights: str = option(
        "--weights",
        Value(Choice("time", "samples", "equal"), default="time"),
        "several recordings count by their events (time, the default), by their samples, or all the same (equal)",
        metavar="<time|samples|equal>",
    )
    cluster: str = option(
        "--cluster",
        Value(default=""),
        "let the workers of this Dask scheduler read the recordings (default: $PERFPY_CLUSTER; needs pip install perfpy[cluster])",
        metavar="<tcp://host:port>",
    )


class ReportModuleOptions(CommandOptions):
    """Which of the kernel's files have its symbols."""

    modules: bool = option("-m,--modules", Flag(), "load symbols of modules (they are, always)")
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
    """What the command takes."""

    inline: bool | None = option("--inline", Flag(default=None), "show inlined calls (default; in plain text: of unwound stacks)")
    part: str | None = word("[<symbol part>]")

    @property
    def symbol_part(self) -> str | None:
        """What must be in a function's name."""
        return self.symbol_filter or self.part or None

    @property
    def exports(self) -> dict[str, str]:
        """The formats of whole stacks that are asked for, with their files."""
        asked = {name: getattr(self, name) for name in _DEFAULT_FILES}
        return {name: path or _DEFAULT_FILES[name] for name, path in asked.items() if path is not None}

    @property
    def needs_plain(self) -> bool:
        """Whether something is asked for that only the plain text has."""
        layout = self.hierarchy or self.field_separator or self.column_widths or self.threads
        return bool(self.stdio or self.header or layout or self.verbose or self.quiet)

    @property
    def gives_row_limit_last(self) -> bool:
        """Whether --percent-limit comes after --call-graph, which has a limit, too."""
        given = self.in_order("call_graph", "percent_limit")
        return bool(given) and given[-1].name == "percent_limit"
