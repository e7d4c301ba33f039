"""`perfpy c2c`: cache lines that CPUs take from each other. Options are perf c2c's (perf-c2c(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.cli.forwarded_actions import ForwardingAction
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Counted, Flag, StdioOptions, Value, fail, option, parse_unsigned
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import InputOptions, QuietOptions, SymbolFileOptions, VerboseOptions, symbol_options_of
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.cli.output.terminal import print_lines
from perfpy.errors import PerfError
from perfpy.tools.mem.command import LATENCY, LOADS, MEMORY_SAMPLES, STORES, AccessRecordOptions, record_accesses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.mem.accesses import Accesses, MemoryNodes
    from perfpy.tools.mem.c2c_tables import RowNames
    from perfpy.tools.mem.cache_lines import AccessRows, CacheLines


_LACKING: Final[Mapping[str, str]] = {
    "-g,--call-graph": "its rows have no callers; perfpy report --mem-mode -g shows those of accesses",
    "--stitch-lbr": "its rows have no callers",
}


class C2cOptions(VerboseOptions):
    """Options of all actions."""


class C2cReportOptions(C2cOptions, InputOptions, StdioOptions, SymbolFileOptions, QuietOptions, lacks=_LACKING):
    """Options of `perfpy c2c report`."""

    node_info: int = option("-N,--node-info", Counted(), "show shares of nodes; twice: their CPUs")
    show_all: bool = option("--show-all", Flag(), "also show lines that no other cache had modified")
    stats: bool = option("--stats", Flag(), "show only the statistics")
    full_symbols: bool = option("--full-symbols", Flag(), "do not shorten names of functions")
    no_source: bool = option("--no-source", Flag(), "show no source lines")
    display: str = option("-d,--display", Value(default=""), "sort lines by these loads: tot, lcl, rmt, peer", metavar="<display>")
    coalesce: str = option("-c,--coalesce", Value(default=""), "one row for each of pid, tid, iaddr, dso", metavar="<coalesce fields>")
    double_cl: bool = option("--double-cl", Flag(), "group pairs of cache lines, which some CPUs fetch together")


class C2cRecordOptions(C2cOptions, AccessRecordOptions):
    """Options of `perfpy c2c record`."""

    kernel_only: bool = option("-k,--all-kernel", Flag(), "sample only the kernel")
    user_only: bool = option("-u,--all-user", Flag(), "sample only user code")
    ldlat: int = option(
        "-l,--ldlat",
        Value(parse_unsigned, default=-1),
        f"sample loads of n or more cycles (default: {LATENCY}, AMD: all)",
        metavar="<n>",
    )


def _record(options: C2cRecordOptions, arguments: list[str]) -> int:
    return record_accesses("c2c", options, (LOADS, STORES), (), arguments)


def report(options: C2cReportOptions) -> int:
    """Show the cache lines that CPUs take from each other, and the code that uses them."""
    from perfpy.tools.mem.c2c_tables import DISPLAYS

    if options.display and options.display not in DISPLAYS:
        fail(f"-d {options.display}: unknown display; expected tot, lcl, rmt or peer")
    fields = _coalesced_fields(options.coalesce)
    with open_recording(
        options.input, force=options.force, quiet=options.quiet, verbose=options.verbose, itrace=MEMORY_SAMPLES
    ) as recording:
        if not recording.data.is_pipe and not recording.data.has(SampleType.DATA_SRC):
            raise PerfError(f"{recording.path}: no memory accesses; record with perfpy c2c record")
        print_lines(_C2cReport(recording, options, fields).lines())
    return 0


command = CommandWithActions(
    C2cOptions,
    {
        "record": ForwardingAction(
            C2cRecordOptions, _record, "record", "record accesses to data with their addresses; also takes the options of record"
        ),
        "report": Action(C2cReportOptions, report, "the cache lines that CPUs share, and the code that uses them"),
    },
    "Show cache lines that CPUs take from each other: false sharing, and data that many threads change.",
)


def _coalesced_fields(text: str) -> tuple[str, ...]:
    from perfpy.tools.mem.cache_lines import FIELDS

    fields = tuple(dict.fromkeys(word for word in text.split(",") if word)) or ("iaddr",)
    for field in fields:
        if field not in FIELDS:
            fail(f"-c {field}: unknown field; expected {', '.join(FIELDS)}")
    return fields


class _C2cReport:
    """The report of one recording."""

    def __init__(self, recording: Recording, options: C2cReportOptions, fields: Sequence[str]) -> None:
        from perfpy.tools.mem.accesses import memory_nodes, read_accesses
        from perfpy.tools.mem.cache_lines import LINE_SIZE, cache_lines

        self._recording = recording
        self._options = options
        self._fields = fields
        self._display = options.display or ("peer" if recording.header.get("arch") == "aarch64" else "tot")
        self._nodes: MemoryNodes = memory_nodes(recording.data)
        symbols = symbol_options_of(options, load_config(), recording, force=options.force)
        self._timeline = recording.make_timeline(keep_exited=True)
        self._symbolizer: Symbolizer = recording.new_symbolizer(self._timeline, symbols)
        self._accesses: Accesses = read_accesses(recording.data, self._timeline, self._symbolizer)
        size = 2 * LINE_SIZE if options.double_cl else LINE_SIZE
        self._lines: CacheLines = cache_lines(self._accesses, self._symbolizer, self._nodes, size)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        from perfpy.tools.mem.c2c_tables import cache_line_table, settings_lines, statistics_lines

        yield from statistics_lines(self._accesses, self._lines)
        yield from settings_lines([event.name for event in self._recording.events], self._display, self._fields)
        if self._options.stats:
            return
        chosen = self._lines.ranked(self._display, show_all=self._options.show_all)
        yield from cache_line_table(self._lines, chosen, self._display)
        yield from self._row_tables(chosen)

    def _row_tables(self, chosen: Sequence[int]) -> Iterator[str]:
        from perfpy.tools.mem.c2c_tables import RowStyle, row_tables
        from perfpy.tools.mem.cache_lines import line_rows

        rows = line_rows(self._accesses, self._lines, chosen, self._fields, self._display, self._symbolizer, self._nodes)
        style = RowStyle(self._display, self._fields, self._options.node_info, self._options.full_symbols)
        yield from row_tables(rows, self._lines, chosen, self._names(rows), self._nodes, style)

    def _names(self, rows: AccessRows) -> RowNames:
        """Return the names of the rows' code."""
        from perfpy.abi.columns import grouped
        from perfpy.analysis.location_sort_keys import dso, source_line, symbol
        from perfpy.analysis.locations import Locations, SourceTexts, sample_locations
        from perfpy.analysis.sort_key import KeyStyle, KeyTexts, TaskComms, TraceData
        from perfpy.tools.mem.c2c_tables import RowNames

        frames, number = grouped(rows.accesses.code[rows.first])
        sources = None if self._options.no_source or "iaddr" not in self._fields else SourceTexts(self._symbolizer, as_addr2line=True)
        verbose = self._options.verbose > 0
        locations = Locations(self._symbolizer, long_names=verbose)
        texts = KeyTexts(locations, sources, TaskComms((), str), TraceData(), style=KeyStyle(verbose=verbose))
        locations_of_code = sample_locations(frames)
        return RowNames(
            symbol(texts, locations_of_code),
            dso(texts, locations_of_code),
            source_line(texts, locations_of_code) if sources is not None else None,
            number.ravel(),
            locations.ip[frames[number.ravel()]],
            self._comm,
        )

    def _comm(self, tid: int) -> str:
        return self._timeline.last_comm(tid) if tid else "swapper"
