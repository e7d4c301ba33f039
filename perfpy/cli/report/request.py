"""The request of one `perfpy report`: its command line, completed by the configuration and the recording."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import SampleType
from perfpy.analysis.filters import EventSwitch, SampleFilter, events_named, ranges_of
from perfpy.analysis.report.options import (
    DEFAULT_PARENT,
    CallGraph,
    ChainOptions,
    ColumnOptions,
    NameOptions,
    ReportOptions,
    RowOptions,
    TimeOptions,
)
from perfpy.analysis.report.report import cpus_of_socket
from perfpy.analysis.sample_view import has_off_cpu, says_why_it_waited
from perfpy.analysis.sort_key import HOUR, Mode
from perfpy.analysis.sort_keys import DEFAULT_ORDER
from perfpy.cli.line.option_groups import inline_of, symbol_options_of
from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import colour_start
from perfpy.errors import PerfError
from perfpy.views.report.text import TextOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.filters import TimeRanges
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


class ReportRequest:
    """The options of one report, for the library."""

    def __init__(self, recording: Recording, options: ReportCommandOptions, config: Config) -> None:
        self._recording = recording
        self._options = options
        self._config = config

    def report_options(self, *, plain: bool = False) -> ReportOptions:
        """Return the options for rows. Raises PerfError for data that were not recorded, UsageError for an invalid option.

        plain: for perf's text.
        """
        options, config = self._options, self._config
        children = config.flag("report.children", True) if options.children is None else options.children
        graph = call_graph(options, children=children, config=config)
        self._refuse_missing_data()
        self._refuse_sorting_without_groups()
        percentage = options.percentage or configured_percentage(config)
        children = children and not options.hierarchy
        sample_filter = self.sample_filter()
        return ReportOptions(
            columns=self._requested_columns(sample_filter, children=children, plain=plain),
            sample_filter=sample_filter,
            chains=options.fill(
                ChainOptions,
                call_graph=graph,
                children=children,
                recursion_as_one=not plain and options.json is None and not graph.within_functions,
            ),
            rows=self._row_options(plain=plain, relative_percentages=percentage == "relative"),
            names=options.fill(
                NameOptions,
                verbose=options.verbose > 0,
                tiers_as_one=not plain and options.json is None and not sample_filter.by_location,
                as_addr2line=plain,
                unnamed_dso_width=0 if options.widths or options.separator or options.dsos else 16,
            ),
            times=options.fill(TimeOptions, clock_quantum=options.time_quantum if options.in_order("time_quantum") else HOUR),
        )

    def _row_options(self, *, plain: bool, relative_percentages: bool) -> RowOptions:
        options, config = self._options, self._config
        return options.fill(
            RowOptions,
            group=options.group if options.group is not None or config.flag("report.group", True) else False,
            parent=options.parent or DEFAULT_PARENT,
            relative_percentages=relative_percentages,
            rows_filtered=plain,
        )

    def _requested_columns(self, sample_filter: SampleFilter, *, children: bool, plain: bool) -> ColumnOptions:
        """Return the columns. Off-CPU recordings get a column of seconds, except perf's text, which has it with --with-off-cpu only."""
        options = self._options
        columns = requested_columns(options, sample_filter, children=children, config=self._config, mode=self._mode())
        is_default = sort_order(options, self._config, Mode.NORMAL) is None and columns.fields is None and not sample_filter.comms
        if is_default and not plain and options.json is None:
            columns = columns._replace(of_processes=True)  # threads with names of their own would split the rows of a function
        says_why = says_why_it_waited(self._recording.events)
        if options.with_off_cpu and says_why and columns.sort is None and columns.fields is None:
            columns = columns._replace(sort=f"state,{DEFAULT_ORDER[Mode.NORMAL]}")
        timed = options.with_off_cpu or (not plain and has_off_cpu(self._recording.events))
        return columns._replace(metrics=(*columns.metrics, "seconds")) if timed else columns

    def sample_filter(self) -> SampleFilter:
        """Return the filters."""
        options = self._options
        chosen = options.fill(SampleFilter, symbol_part=options.symbol_part, times=self._times(), switch=self._switch())
        if options.event:
            chosen = chosen._replace(events=events_named(options.event, self._recording.events))
        if options.socket_filter < 0:
            return chosen
        cpus = cpus_of_socket(self._recording.data, options.socket_filter)
        if not cpus:
            raise PerfError(f"--socket-filter {options.socket_filter}: {self._recording.path} has no CPU in this socket")
        return chosen._replace(cpus=tuple(sorted(cpus if chosen.cpus is None else cpus.intersection(chosen.cpus))))

    def symbol_options(self, *, plain: bool = False, screen: bool = False) -> SymbolOptions:
        """Return the symbol options. plain: for perf's text; screen: for a terminal."""
        options, recording = self._options, self._recording
        inline = inline_of(options.inline, recording, plain=plain)
        symbols = symbol_options_of(
            options, self._config, recording, force=options.force, ignore_vmlinux=options.ignore_vmlinux, inline=inline
        )
        return symbols._replace(fold_interpreters=self.folds_interpreters(screen=screen))

    def folds_interpreters(self, *, screen: bool) -> bool:
        """Whether samples count for the functions that interpreters ran: as the option says, by default on screens of Python recordings."""
        if self._options.fold_interpreters is not None or not screen:
            return bool(self._options.fold_interpreters)
        from perfpy.symbols.interpreters import has_python_image  # not needed for plain reports

        return has_python_image(self._recording.data.kept_files)

    def text_options(self) -> TextOptions:
        """Return the layout of the text."""
        options, config = self._options, self._config
        limit = options.percent_limit
        return options.fill(
            TextOptions,
            percent_limit=config.number("report.percent-limit", 0.0) if limit is None else limit,
            times=options.time,
            skip_empty=self.skips_empty(),
            memory_order=self._memory_order(),
            socket=options.socket_filter,
            colour=colour_start(options.stdio_color),
        )

    def skips_empty(self) -> bool:
        """Whether to hide events without samples, and zero counts."""
        options = self._options.skip_empty
        return self._config.flag("report.skip-empty", True) if options is None else options

    def _times(self) -> TimeRanges | None:
        if not self._options.time:
            return None
        return ranges_of(self._options.time, self._recording.times())

    def _switch(self) -> EventSwitch | None:
        options = self._options
        if not (options.switch_on or options.switch_off):
            return None
        return EventSwitch.between(options.switch_on, options.switch_off, self._recording.events, show=options.show_on_off_events)

    def _mode(self) -> Mode:
        """Return the kind of thing that a row represents."""
        if self._options.mem_mode:
            return Mode.MEMORY
        options = self._options.branch_stack
        branches = self._recording.data.has_branches if options is None else options
        return Mode.BRANCH if branches else Mode.NORMAL

    @property
    def shows_blocks(self) -> bool:
        """Whether to show blocks between branches. Without branch records perf shows its usual table."""
        return self._options.total_cycles and self._mode() is Mode.BRANCH

    def _memory_order(self) -> str:
        """Return the sort keys, which perf prints for reports of memory accesses."""
        mode = Mode.MEMORY
        return (sort_order(self._options, self._config, mode) or DEFAULT_ORDER[mode]) if self._options.mem_mode else ""

    def _refuse_missing_data(self) -> None:
        """Raise PerfError if the recording lacks data that an option needs. The data of pipes are unknown before they are read."""
        data = self._recording.data
        missing = () if data.is_pipe else (remedy for field, remedy in self._needs() if not data.has(field))
        for remedy in missing:
            raise PerfError(f"{self._recording.path}: {remedy}")

    def _needs(self) -> Iterator[tuple[int, str]]:
        """Yield the sample fields that the options need, with a remedy if they are missing."""
        options = self._options
        if options.parent or "parent" in (options.sort or ""):
            yield SampleType.CALLCHAIN, "no callchains for --sort parent; record with -g"
        if options.call_graph is not None and not options.call_graph.startswith("none"):
            yield SampleType.CALLCHAIN, "no callchains for -g; record with -g"
        if options.cpus:
            yield SampleType.CPU, "the samples have no CPU field; drop -C, or record with --sample-cpu"
        if options.branch_stack:
            yield SampleType.BRANCH_STACK, "no branch records for -b; record with -b"
        if options.mem_mode:
            yield SampleType.DATA_SRC, "no memory accesses for --mem-mode; record with -d"

    def _refuse_sorting_without_groups(self) -> None:
        options, data = self._options, self._recording.data
        has_groups = data.is_pipe or data.features.get("group_desc", ()) or (options.group and len(data.events) > 1)
        if options.sort_member and not has_groups:
            fail("--group-sort-idx: this recording has no group of events; --group forms one if it has several events")


_ENOUGH: Final = 1_000_000  # more than any percentage or useful number of callers
# Every word of --call-graph, in perf's search order: an abbreviation means the first word that begins with it.
_WORDS: Final = (
    ("none", "style"),
    ("graph", "style"),
    ("flat", "style"),
    ("fractal", "style"),
    ("folded", "style"),
    ("caller", "order"),
    ("callee", "order"),
    ("function", "key"),
    ("address", "key"),
    ("srcline", "key"),
    ("branch", "branches"),
    ("percent", "value"),
    ("period", "value"),
    ("count", "value"),
)
_CONFIGURED: Final = (("print-type", "style"), ("order", "order"), ("sort-key", "key"))


def call_graph_words() -> list[str]:
    """Return every word of --call-graph. The syntax of --call-graph is that of perf-report(1)."""
    return [word for word, _ in _WORDS]


def call_graph(options: ReportCommandOptions, *, children: bool, config: Config) -> CallGraph:
    """Return how callchains are shown, by --call-graph, the configuration, -G, --children, and the limit for rows.

    The limit for rows also applies to callchains; the last one of it and a limit in --call-graph wins.
    """
    limit = options.percent_limit
    chosen = _read_configuration(config) | call_graph_parts(options.call_graph or "")
    if limit is None:
        # As in perf, the configured limit of rows takes precedence.
        chosen.setdefault("percent", config.number("report.percent-limit", config.number("call-graph.threshold", CallGraph().percent)))
    elif "percent" not in chosen or options.gives_row_limit_last:
        chosen["percent"] = limit
    chosen.pop("branches", "")  # Counts of branches within callchains are not supported; perf shows none without branch records.
    if options.inverted or (children and "order" not in chosen):
        chosen["order"] = "caller"
    return CallGraph(**chosen)


def check(text: str) -> None:
    """Raise UsageError for an invalid value of -g."""
    call_graph_parts(text)


def _read_configuration(config: Config) -> dict[str, Any]:
    """Return the parts of a CallGraph from the configuration, without the limit of callers."""
    parts: dict[str, Any] = {"limit": int(config.number("call-graph.print-limit", 0))}
    for name, part in _CONFIGURED:
        if f"call-graph.{name}" in config:
            parts[part] = _word(config[f"call-graph.{name}"], part)
    return parts


def call_graph_parts(text: str) -> dict[str, Any]:
    """Return the parts of a CallGraph from --call-graph: words in any order, a percentage, then a number of callers."""
    parts: dict[str, Any] = {}
    numbers = iter((("percent", float), ("limit", int)))
    for token in filter(None, text.split(",")):
        word, part = next((entry for entry in _WORDS if entry[0].startswith(token)), ("", ""))
        if word:
            parts[part] = word
        else:
            part, kind = next(numbers, ("limit", int))
            parts[part] = min(_number(token, kind), _ENOUGH)
        if word == "none":
            break
    return parts


def _word(text: str, part: str) -> str:
    match = next((word for word, kind in _WORDS if kind == part and word.startswith(text)), None)
    if match is None:
        fail(f"configuration: unknown {part} {text!r} of call graphs")
    return match


def _number(token: str, kind: type[int] | type[float]) -> float:
    digits = re.match(r"\s*[0-9]*\.?[0-9]+", token)
    if not digits:
        fail(f"--call-graph: {token!r} is neither a known word nor a number")
    return kind(float(digits[0]))


_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{1,16}")


def configured_percentage(config: Config) -> str:
    """Return the configured base of percentages: "absolute" or "relative"."""
    text = config.get("hist.percentage", "absolute")
    if text not in ("absolute", "relative"):
        fail(f"configuration: hist.percentage = {text!r}: expected absolute or relative")
    return text


def hidden_keys(chosen: SampleFilter) -> tuple[tuple[str, str, str], ...]:
    """Return the keys that a filter restricts to one value: (key, perf's name of the filter, the value)."""
    names = [name for name in chosen.symbols or () if not _ADDRESS.fullmatch(name)]  # perf handles addresses separately
    lists = (("dso", "dso", chosen.dsos), ("comm", "comm", chosen.comms), ("symbol", "symbol", names))
    return tuple((key, name, next(iter(values))) for key, name, values in lists if values and len(values) == 1)


def sort_order(options: ReportCommandOptions, config: Config, mode: Mode) -> str | None:
    """Return the sort keys of the command line, or else of the configuration; None for the default."""
    sort = config.get("report.sort_order") if options.sort is None else options.sort
    if sort and "symbol" in sort:
        # perf adds this column itself: instructions per cycle, dashes without branch records.
        sort += ",ipc_lbr" if mode is Mode.BRANCH else ",ipc_null"
    return sort


def requested_columns(options: ReportCommandOptions, chosen: SampleFilter, *, children: bool, config: Config, mode: Mode) -> ColumnOptions:
    """Return the columns of a command line."""
    if options.fields and not options.fields.replace(",", ""):
        fail(f"--fields {options.fields!r}: no field")
    return options.fill(
        ColumnOptions,
        sort=sort_order(options, config, mode),
        children=children,
        mode=mode,
        metrics=tuple(_metrics(options)),
        parent=bool(options.parent),
        hidden=() if options.hierarchy else tuple(key for key, _, _ in hidden_keys(chosen)),
    )


def _metrics(options: ReportCommandOptions) -> Iterator[str]:
    if options.show_cpu_utilization:
        yield from ("overhead_sys", "overhead_us")
    if options.show_nr_samples:
        yield "sample"
    if options.show_total_period:
        yield "period"
