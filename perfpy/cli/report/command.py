"""`perfpy report`: where the time of a recording went.

What enters: perf report's options. What leaves: on a terminal a view for
people, else perf's plain text; or JSON, HTML and other formats, where asked.
"""

from __future__ import annotations

from perfpy.cli.line.decorators import (
    argument,
    choice,
    header_options,
    input_options,
    lacking_options,
    option,
    perf_command,
    quiet_option,
    stdio_option,
    symbol_options,
    verbose_option,
)
from perfpy.cli.line.kinds import unsigned
from perfpy.cli.line.options import fail

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final

#: -g without a value
_CALL_GRAPH: Final = "graph,0.5,caller,function,percent"

_LACKING: Final = {
    "--gtk": "it needs GTK",
    "--itrace": "it needs decoders of hardware traces",
    "--stitch-lbr": "it needs call stacks from last branch records",
    "--branch-history": "it needs branch records in callchains",
    "--total-cycles": "it needs block counts of last branch records",
    "--show-ref-call-graph": "every event shows its own callchains",
    "--samples": "perfpy script shows single samples",
    "--objdump": "there is no annotation of code yet",
    "--source": "there is no annotation of code yet",
    "--asm-raw": "there is no annotation of code yet",
    "-M,--disassembler-style": "there is no annotation of code yet",
    "--percent-type": "there is no annotation of code yet",
    "--prefix": "there is no annotation of code yet",
    "--prefix-strip": "there is no annotation of code yet",
    "--disable-order": "records are always shown in order of time",
    "--socket-filter": "use -C with the socket's CPUs",
    "--pretty": "with -T, values are always in columns",
    "--addr2line": "source lines are not read yet",
    "--full-source-path": "source lines are not read yet",
}


@perf_command(ordered=("call_graph", "percent_limit"))
@input_options
@option("-s", "--sort", default=None, metavar="<key[,key2...]>", help="sort by these keys: comm, dso, symbol, pid, cpu ...")
@option("-F", "--fields", default=None, metavar="<key[,keys...]>", help="columns; + adds to the usual ones")
@option("-n", "--show-nr-samples", is_flag=True, help="show a column with the number of samples")
@option("--show-total-period", is_flag=True, help="show a column with the sum of periods")
@option("--show-cpu-utilization", "--showcpuutilization", is_flag=True, help="show shares of kernel and user code")
@option("-T", "--threads", is_flag=True, help="show counts per thread (of recordings made with -s)")
@option("-g", "--call-graph", bare=_CALL_GRAPH, takes_word=True, negated="none", metavar="<print_type,...>", help="how to show callchains")
@option("--children", is_flag=True, default=None, help="add callers' overhead (default where there are callchains)")
@option("--latency", is_flag=True, help="sort by shares of the wall clock (of recordings with context switches)")
@option("-G", "--inverted", is_flag=True, help="call graphs from callers to callees")
@option("-H", "--hierarchy", is_flag=True, help="a level for each sort key")
@option("--max-stack", type=unsigned, default=127, metavar="<n>", help="look at this many frames of a callchain")
@option("--ignore-callees", default="", metavar="<regex>", help="forget what these functions call")
@option("-p", "--parent", default="", metavar="<regex>", help="what a parent is, for --sort parent")
@option("-x", "--exclude-other", is_flag=True, help="only samples that have a parent")
@option("-d", "--dsos", default="", metavar="<dso[,dso...]>", help="only these shared objects")
@option("-c", "--comms", default="", metavar="<comm[,comm...]>", help="only these commands")
@option("-S", "--symbols", default="", metavar="<symbol[,symbol...]>", help="only these functions")
@option("--symbol-filter", default="", metavar="<filter>", help="only functions whose name has this part")
@option("--pid", default="", metavar="<pid[,pid...]>", help="only these processes")
@option("--tid", default="", metavar="<tid[,tid...]>", help="only these threads")
@option("-C", "--cpu", default="", metavar="<cpu>", help="only these CPUs")
@option("--parallelism", default="", metavar="<n[,n-n...]>", help="only while so many threads ran (of recordings with context switches)")
@option("--time", default="", metavar="<str>", help="only this time: start,stop, 10%-20%, 10%/2")
@option("--switch-on", default="", metavar="<event>", help="only samples behind this event")
@option("--switch-off", default="", metavar="<event>", help="only samples before this event")
@option("--show-on-off-events", is_flag=True, help="count the events of --switch-on and --switch-off, too")
@option("--percent-limit", type=float, default=None, metavar="<percent>", help="leave out rows below it")
@option("--percentage", type=choice("relative", "absolute"), default=None, help="shares of what filters leave, or of all")
@option("-U", "--hide-unresolved", is_flag=True, help="leave out what has no symbol")
@option("--group", is_flag=True, default=None, help="show events of a group side by side (default)")
@option("--group-sort-idx", type=int, default=0, metavar="<n>", help="sort groups by this event")
@option("-t", "--field-separator", default=None, metavar="<separator>", help="columns with this separator")
@option("-w", "--column-widths", default="", metavar="<width[,width...]>", help="use these widths")
@option("-b", "--branch-stack", is_flag=True, default=None, help="a row for each branch (default for recordings of branches)")
@option("--mem-mode", is_flag=True, help="a row for each kind of memory access")
@option("--ns", is_flag=True, help="show times in nanoseconds")
@option("--time-quantum", default="100ms", metavar="<time>", help="grain of times in --sort time")
@option("--raw-trace", is_flag=True, help="show tracepoints' fields, not their formatted text")
@option("--skip-empty", is_flag=True, default=None, help="leave out events without samples (default)")
@stdio_option
@option("--tui", is_flag=True, help="browse the report (needs pip install perfpy[tui])")
@option(
    "--stdio-color",
    type=choice("always", "never", "auto"),
    bare="always",
    takes_word=True,
    default="auto",
    metavar="<mode>",
    help="colours in plain text: always, never or auto",
)
@option("--json", bare="-", takes_word=True, default=None, metavar="<file>", help="the report as JSON")
@option("--flamegraph", "--html", bare="", takes_word=True, default=None, metavar="<file>", help="a flame graph, one HTML file")
@option("--folded", bare="-", takes_word=True, default=None, metavar="<file>", help="stacks as lines for flamegraph.pl and others")
@option("--speedscope", bare="", takes_word=True, default=None, metavar="<file>", help="stacks for speedscope")
@option("--firefox", bare="", takes_word=True, default=None, metavar="<file>", help="samples for the Firefox Profiler")
@option("--pprof", bare="", takes_word=True, default=None, metavar="<file>", help="stacks for pprof")
@header_options
@option("-I", "--show-info", is_flag=True, help="show more of the header")
@option("--stats", is_flag=True, help="show how many records of each type there are")
@option("--tasks", is_flag=True, help="show the tasks recorded")
@option("--mmaps", is_flag=True, help="show the tasks recorded with their mappings")
@option("-D", "--dump-raw-trace", is_flag=True, help="print every record as bytes and as text")
@symbol_options
@option("-m", "--modules", is_flag=True, help="load symbols of modules (they are, always)")
@option("--ignore-vmlinux", is_flag=True, help="do not look for a vmlinux")
@verbose_option
@quiet_option
@option("--inline", is_flag=True, lacking="inlined calls are not read yet", undone=True)
@lacking_options(_LACKING)
@argument("part", metavar="[<symbol part>]")
def command(**values: Any) -> int:
    """Read a recording and show where its time went."""
    from perfpy.cli.line.opening import open_recording

    if values["stats"] and (values["tasks"] or values["mmaps"]):
        fail("--stats, and --tasks or --mmaps, are two things to show: choose one")
    if values["hierarchy"] and values["fields"]:
        fail("--hierarchy chooses its own columns: leave out --fields")
    if values["field_separator"] == ".":
        fail("-t .: the dot is in numbers, any other separator will do")
    with open_recording(values["input"], force=values["force"], quiet=values["quiet"]) as recording:
        if (values["header"] or values["header_only"]) and not values["dump_raw_trace"]:
            from perfpy.cli.line.header import print_header

            print_header(recording, full=values["show_info"])
            if values["header_only"]:
                return 0
        # all that follows needs numpy
        from perfpy.cli.report.run import ReportRun

        return ReportRun(recording, values).show()
