"""`perfpy report`: where the time of a recording went.

What enters: perf report's options. What leaves: on a terminal a view for
people, else perf's plain text; or JSON, HTML and other formats, where asked.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from perfpy.cli.options import (
    argument,
    choice,
    fail,
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
from perfpy.cli.report_options import CALL_GRAPH_DEFAULT

if TYPE_CHECKING:
    from perfpy.analysis.options import ReportOptions
    from perfpy.analysis.reporting import Report
    from perfpy.analysis.sortkeys import Mode
    from perfpy.cli.perfconfig import Config
    from perfpy.recording import Recording
    from perfpy.symbols.debugfiles import SymbolOptions
    from perfpy.views.report_text import TextOptions

_LACKING: Final = {
    "--gtk": "it needs GTK",
    "--itrace": "it needs decoders of hardware traces",
    "--stitch-lbr": "it needs call stacks from last branch records",
    "--branch-history": "it needs branch records in callchains",
    "--total-cycles": "it needs block counts of last branch records",
}


@perf_command()
@input_options
@option("-s", "--sort", default=None, metavar="<key[,key2...]>", help="sort by these keys: comm, dso, symbol, pid, cpu ...")
@option("-F", "--fields", default=None, metavar="<key[,keys...]>", help="columns; + adds to the usual ones")
@option("-n", "--show-nr-samples", is_flag=True, help="show a column with the number of samples")
@option("--show-total-period", is_flag=True, help="show a column with the sum of periods")
@option("--show-cpu-utilization", "--showcpuutilization", is_flag=True, help="show shares of kernel and user code")
@option("-g", "--call-graph", bare=CALL_GRAPH_DEFAULT, negated="none", default=None, metavar="<print_type,...>", help="how to show callchains")
@option("--children", is_flag=True, default=None, help="add callers' overhead (default where there are callchains)")
@option("-G", "--inverted", is_flag=True, help="call graphs from callers to callees")
@option("--max-stack", type=int, default=127, metavar="<n>", help="look at this many frames of a callchain")
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
@option("--time", default="", metavar="<str>", help="only this time: start,stop, 10%-20%, 10%/2")
@option("--percent-limit", type=float, default=None, metavar="<percent>", help="leave out rows below it")
@option("--percentage", type=choice("relative", "absolute"), default=None, help="shares of what filters leave, or of all")
@option("-U", "--hide-unresolved", is_flag=True, help="leave out what has no symbol")
@option("--group", is_flag=True, default=None, help="show events of a group side by side (default)")
@option("--group-sort-idx", type=int, default=0, metavar="<n>", help="sort groups by this event")
@option("-t", "--field-separator", default=None, metavar="<separator>", help="columns with this separator")
@option("-w", "--column-widths", default="", metavar="<width[,width...]>", help="use these widths")
@option("-D", "--dump-raw-trace", is_flag=True, help="print every record as bytes and as text")
@option("-b", "--branch-stack", is_flag=True, default=None, help="a row for each branch (default for recordings of branches)")
@option("--mem-mode", is_flag=True, help="a row for each kind of memory access")
@option("--ns", is_flag=True, help="show times in nanoseconds")
@option("--time-quantum", default="100ms", metavar="<time>", help="grain of times in --sort time")
@option("--raw-trace", is_flag=True, help="show tracepoints' fields, not their formatted text")
@option("--skip-empty", is_flag=True, default=None, help="leave out events without samples (default)")
@stdio_option
@header_options
@option("-I", "--show-info", is_flag=True, help="show more of the header")
@symbol_options
@option("-m", "--modules", is_flag=True, help="load symbols of modules (they are, always)")
@option("--ignore-vmlinux", is_flag=True, help="do not look for a vmlinux")
@verbose_option
@quiet_option
@lacking_options(_LACKING)
@argument("part", metavar="[<symbol part>]")
def command(**values: Any) -> int:
    """Read a recording and show where its time went."""
    from perfpy.recording import Recording

    with Recording(values["input"] or _default_input()) as recording:
        return _Run(recording, values).show()


def _default_input() -> str:
    """perf.data, or a pipe on standard input."""
    import os
    import stat

    return "-" if stat.S_ISFIFO(os.fstat(0).st_mode) else "perf.data"


class _Run:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, values: dict[str, Any]) -> None:
        from perfpy.cli.perfconfig import load

        self._recording = recording
        self._values = values
        self._config = load()

    def show(self) -> int:
        if self._values["dump_raw_trace"]:
            self._dump()
            return 0
        report = self._recording.report(self._options(), self._symbol_options())
        for line in self._opening(report):
            print(line)
        if not report.samples:
            print(f"Error:\nThe {self._recording.path} data has no samples!", file=sys.stderr)
            return 0
        self._print_text(report)
        return 0

    def _dump(self) -> None:
        from perfpy.views.dump import write_dump
        from perfpy.views.record_counts import record_count_lines
        from perfpy.views.report_text import HEADER_HINT

        sys.stdout.flush()  # the dump goes past the text layer
        write_dump(self._recording, sys.stdout.buffer, hint="" if self._values["quiet"] else HEADER_HINT + "\n")
        sys.stdout.writelines(f"{line}\n" for line in record_count_lines(self._recording))

    def _opening(self, report: Report) -> list[str]:
        from perfpy.views.report_text import HEADER_HINT

        return [] if self._values["quiet"] else [HEADER_HINT]

    def _print_text(self, report: Report) -> None:
        from perfpy.views.report_text import report_lines

        lines = report_lines(report, self._text_options(report))
        sys.stdout.writelines(f"{line}\n" for line in lines)

    def _options(self) -> ReportOptions:
        from perfpy.analysis.options import ReportOptions
        from perfpy.cli import report_options as texts

        values, config = self._values, self._config
        children = config.flag("report.children", True) if values["children"] is None else values["children"]
        graph = texts.call_graph(values["call_graph"], children=children, inverted=values["inverted"], config=config)
        if values["part"]:
            values["symbol_filter"] = values["symbol_filter"] or values["part"]
        return ReportOptions(
            wanted=texts.wanted(values, children=children, config=config, mode=self._mode()),
            selection=texts.selection(values, None),
            call_graph=graph,
            children=children,
            max_stack=values["max_stack"],
            ignore_callees=values["ignore_callees"],
            hide_unresolved=values["hide_unresolved"],
            group=config.flag("report.group", True) if values["group"] is None else values["group"],
            sort_member=values["group_sort_idx"],
            relative_percentages=values["percentage"] == "relative",
            verbose=values["verbose"] > 0,
            nanoseconds=values["ns"],
        )

    def _mode(self) -> Mode:
        """What a row stands for."""
        from perfpy.analysis.sortkeys import Mode

        if self._values["mem_mode"]:
            return Mode.MEMORY
        asked = self._values["branch_stack"]
        branches = self._recording.data.has_branches if asked is None else asked
        return Mode.BRANCH if branches else Mode.NORMAL

    def _memory_order(self) -> str:
        """The sort keys, which perf prints for reports of memory accesses."""
        from perfpy.analysis.sortkeys import DEFAULT_ORDER, Mode

        return (self._values["sort"] or DEFAULT_ORDER[Mode.MEMORY]) if self._values["mem_mode"] else ""

    def _symbol_options(self) -> SymbolOptions:
        from perfpy.symbols.debugfiles import SymbolOptions

        values = self._values
        names = ("symfs", "kallsyms", "vmlinux", "ignore_vmlinux", "demangle", "demangle_kernel")
        return SymbolOptions(**{name: values[name] for name in names})

    def _text_options(self, report: Report) -> TextOptions:
        from perfpy.views.report_text import TextOptions

        values, config = self._values, self._config
        limit = values["percent_limit"]
        skip = values["skip_empty"]
        return TextOptions(
            separator=values["field_separator"],
            widths=_widths(values["column_widths"]),
            quiet=values["quiet"],
            percent_limit=config.number("report.percent-limit", 0.0) if limit is None else limit,
            times=values["time"],
            skip_empty=config.flag("report.skip-empty", True) if skip is None else skip,
            memory_order=self._memory_order(),
        )


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(width) for width in text.split(",") if width)
    except ValueError:
        fail(f"-w {text!r}: a list of widths is needed, such as 10,20")
