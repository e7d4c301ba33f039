"""`perfpy annotate`: show the code of functions, or source files, with shares of samples.

On a terminal it shows the hottest functions, else perf's plain text.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Attached, Choice, CommandOptions, Flag, PerfCommand, StdioOptions, Value, fail, option, word
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import (
    PERCENT_TYPES,
    HardwareTraceOptions,
    InputOptions,
    QuietOptions,
    SymbolFileOptions,
    VerboseOptions,
    parse_names,
    parse_ranges,
    symbol_options_of,
)
from perfpy.cli.output.terminal import TaskProgress, colour_start, console, print_lines, print_notes, wants_plain
from perfpy.errors import PerfError
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.annotation import Annotation
    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.analysis.source_files import SourceShares
    from perfpy.disassembly.disassembler import CodeStyle
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.annotate.text import AnnotateStyle


_TYPES: Final = "it needs the types of what instructions read and write"
_LACKING: Final = {
    "--data-type": _TYPES,
    "--type-stat": _TYPES,
    "--insn-stat": _TYPES,
    "--code-with-type": _TYPES,
    "--stdio2": "--stdio has the same instructions, with their addresses",
    "--tui": "perfpy report --tui opens the code of a function with Enter, or a",
    "--gtk": "it needs GTK",
}


class AnnotateCodeOptions(CommandOptions):
    """Options for reading and showing code."""

    source: bool = option("--source", Flag(default=True), "show source lines among the instructions (default)")
    asm_raw: bool = option("--asm-raw", Flag(), "show the bytes of each instruction")
    disassembler_style: str = option(
        "-M,--disassembler-style", Value(default=""), "set the disassembler style, such as intel", metavar="<style>"
    )
    print_line: bool = option("-l,--print-line", Flag(), "print source lines of hot instructions, and a summary")
    full_paths: bool = option("-P,--full-paths", Flag(), "show full paths of files")
    objdump: str = option("--objdump", Value(default=""), "run this objdump", metavar="<path>")
    prefix: str = option("--prefix", Value(default=""), "add this prefix to the paths of source files", metavar="<prefix>")
    prefix_strip: str = option("--prefix-strip", Value(default=""), "strip n leading folders from the paths of source files", metavar="<n>")


class AnnotateFilterOptions(CommandOptions):
    """Which samples and functions are included."""

    symbol: str = option("-s,--symbol", Value(default=""), "only this function", metavar="<symbol>")
    dsos: tuple[str, ...] | None = option("-d,--dsos", Value(parse_names), "only these shared objects", metavar="<dso[,dso...]>")
    cpus: tuple[int, ...] | None = option("-C,--cpu", Value(parse_ranges), "only these CPUs", metavar="<cpu>")
    percent_limit: float | None = option("--percent-limit", Value(float), "hide functions below this share", metavar="<percent>")
    skip_missing: bool = option("--skip-missing", Flag(), "skip functions whose code is missing")
    group: bool | None = option("--group", Flag(default=None), "show the events of a group side by side (default)")
    skip_empty: bool = option("--skip-empty", Flag(), "hide columns of events without samples")


class AnnotateColumnOptions(CommandOptions):
    """The columns before instructions, and the output's format."""

    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "show numbers of samples instead of shares")
    show_total_period: bool = option("--show-total-period", Flag(), "show sums of periods instead of shares")
    percent_type: str = option(
        "--percent-type",
        Value(Choice(*PERCENT_TYPES), default=PERCENT_TYPES[0]),
        "shares of the function or (global) of the event",
        metavar="<type>",
    )
    stdio_color: str = option(
        "--stdio-color",
        Attached("always", Choice("always", "never", "auto"), default="auto", takes_word=True),
        "colour plain text: always, never or auto",
        metavar="<mode>",
    )
    by_line: bool = option("--by-line", Flag(), "show source files by line, inlined calls included")
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text")


class AnnotateModuleOptions(CommandOptions):
    """Which kernel files provide symbols."""

    modules: bool = option("-m,--modules", Flag(), "ignored: symbols of modules are always loaded")
    ignore_vmlinux: bool = option("--ignore-vmlinux", Flag(), "do not look for a vmlinux")
    addr2line: str = option("--addr2line", Value(default=""), "taken as perf takes it: lines are read without a program", hidden=True)


class AnnotateCommandOptions(
    InputOptions,
    AnnotateFilterOptions,
    AnnotateCodeOptions,
    AnnotateColumnOptions,
    StdioOptions,
    SymbolFileOptions,
    HardwareTraceOptions,
    AnnotateModuleOptions,
    VerboseOptions,
    QuietOptions,
    lacks=_LACKING,
):
    """Options of `perfpy annotate`."""

    word: str | None = word("[<symbol>]")

    @property
    def function(self) -> str:
        """The only function to show, "" for all."""
        return self.symbol or self.word or ""

    @property
    def unit(self) -> str:
        """The unit before instructions: "percent", "samples" or "period"."""
        return "period" if self.show_total_period else "samples" if self.show_nr_samples else "percent"


def run(options: AnnotateCommandOptions) -> int:
    """Read a recording and show the code of its hot functions; `annotate PID` makes the recording."""
    if options.show_nr_samples and options.show_total_period:
        fail("-n and --show-total-period exclude each other")
    if pids := _processes_of(options):
        from perfpy.cli.record_and_report import record_processes

        record_processes(pids)
        print("perfpy annotate", file=sys.stderr, flush=True)
        options = options.replace(word=None)
    with open_recording(
        options.input, force=options.force, quiet=options.quiet, itrace=options.decoding, code=options.code_files()
    ) as recording:
        return AnnotateRun(recording, options).show()


def _processes_of(options: AnnotateCommandOptions) -> list[int]:
    """Return the running processes that the only word names by numbers, as no function can be called."""
    word = options.word or ""
    if not word.replace(",", "").isdecimal() or options.given("input", "symbol"):
        return []
    from perfpy.cli.record_and_report import processes_of

    return processes_of([word])


command = PerfCommand(AnnotateCommandOptions, run)


#: The smallest share of an event, in percent, of a function shown on a terminal.
_LEAST: Final = 2.0
_NAMED: Final = 5  # functions that a message lists


class AnnotateRun:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, options: AnnotateCommandOptions) -> None:
        self._recording = recording
        self._options = options
        self._config = load_config()
        self._function = options.function
        self._is_plain = wants_plain(stdio=options.stdio or self._needs_plain)

    def show(self) -> int:
        """Carry out the options; return the exit status."""
        options = self._options
        if options.dump_raw_trace:
            return self._dump()
        if options.by_line:
            return self._show_source()
        annotation = self._annotation()
        if _is_empty(annotation) and self._finds_function():
            annotation = self._annotation()
        if _is_empty(annotation):
            return self._explain()
        if not self._is_plain:
            return self._show_screen(annotation)
        print_lines(self._lines(annotation))
        return 0

    def _annotation(self) -> Annotation:
        with TaskProgress("reading samples") as progress:
            return self._recording.annotate(options=self._report_options(), symbols=self._symbols(), progress=progress)

    def _finds_function(self) -> bool:
        """Take the one function with the given name in front of its parameters. Raises PerfError for several of them."""
        name = self._function
        if not name:
            return False

        functions = functions_named(self._recording, name, self._symbols(), self._filter()._replace(symbols=None))
        if len(functions) > 1:
            others = f" and {len(functions) - _NAMED} more" if len(functions) > _NAMED else ""
            names = ", ".join(map(repr, functions[:_NAMED]))
            cause = f"{len(functions)} functions are called {name}: {names}{others}"
            raise PerfError(f"{self._recording.path}: {cause}; name one with its parameters")
        self._function = functions[0] if functions else name
        return bool(functions)

    def _dump(self) -> int:
        from perfpy.views.dump.recording import write_dump
        from perfpy.views.recording_summary import record_count_lines

        part = self._recording.narrowed(self._report_options().sample_filter, self._symbols())
        sys.stdout.flush()
        write_dump(self._recording, sys.stdout.buffer, has_updates=False)
        sys.stdout.buffer.flush()
        samples: Counter[int] = Counter()
        for batch in part.batches(["ip"]):
            samples.update(batch.event.tolist())
        print_lines(record_count_lines(self._recording, samples, skip_empty=bool(self._options.skip_empty)))
        return 0

    def _explain(self) -> int:
        """Print why no function is left."""
        if self._options.quiet:
            return 0
        from perfpy.cli.line.empty_results import print_nothing_left

        print_nothing_left(self._recording, self._filter(), self._symbols())
        return 0

    @property
    def _needs_plain(self) -> bool:
        """Whether an option selects output that only perf's text has."""
        options = self._options
        return bool(
            options.print_line or options.verbose or options.unit != "percent" or {*options.percent_type.split("-")} != {"local", "period"}
        )

    def _show_screen(self, annotation: Annotation) -> int:
        """Show the hottest functions on a terminal."""
        from perfpy.views.annotate.screen import show_functions
        from perfpy.views.report.text import event_title

        options, screen = self._options, console()
        limit = (0.0 if options.function else _LEAST) if options.percent_limit is None else options.percent_limit
        for table in annotation.report.histograms:
            if table.leader.samples:
                functions = annotation.functions(table, self._code_style(), percent_limit=limit)
                show_functions(functions, event_title(table, skip_empty=True), screen)
        self._print_missing_code(annotation)
        if limit and not options.quiet:
            screen.print(f"functions below {limit:g}% are hidden; all: --percent-limit 0, whole code: --stdio", style="dim")
        return 0

    def _show_source(self) -> int:
        """Print source files, of each event with samples."""
        from perfpy.views.annotate.text import SourceStyle, source_lines

        limit = self._options.percent_limit
        style = SourceStyle(colour=colour_start(self._options.stdio_color))
        style = style if limit is None else style._replace(limit=limit)
        files = self._source_files()
        if not any(shares.samples for shares in files) and self._finds_function():
            files = self._source_files()
        if not any(shares.samples for shares in files):
            return self._explain()
        for number, shares in enumerate(files):
            print_lines([""] * bool(number))
            print_lines(source_lines(shares, style))
        if self._folds_by_default:
            print_notes(["note: Python lines include the C code that they ran; --no-fold-interpreters shows it"], quiet=self._options.quiet)
        return 0

    def _source_files(self) -> list[SourceShares]:
        with TaskProgress("reading samples"):
            return self._recording.source_files(sample_filter=self._filter(), symbols=self._symbols())

    def _lines(self, annotation: Annotation) -> Iterator[str]:
        """Yield perf's text of all events."""
        from perfpy.views.annotate.text import AnnotationText
        from perfpy.views.report.text import event_title

        style, data = self._style(), self._recording.data
        coverage = annotation.branch_coverage(data, self._recording.within(self._filter())) if data.has_branches else None
        for table in annotation.report.histograms:
            if not any(member.samples for member in table.events):
                continue
            members = [number for number, member in enumerate(table.events) if member.samples or not self._options.skip_empty]
            text = AnnotationText(event_title(table, skip_empty=self._options.skip_empty), members, style, coverage)
            for function in annotation.functions(table, self._code_style(), percent_limit=self._percent_limit):
                yield from text.lines(function)
        self._print_missing_code(annotation)

    def _print_missing_code(self, annotation: Annotation) -> None:
        """Print the functions without code on stderr: for each reason the first, and the number of others."""
        if not self._options.skip_missing and not self._options.quiet:
            sys.stdout.flush()
            for reason, functions in annotation.without_code.items():
                others = f" and {len(functions) - 1} more" if len(functions) > 1 else ""
                print(one_line(f"perfpy: annotate: no code for {functions[0]}{others}: {reason}"), file=sys.stderr)

    @property
    def _percent_limit(self) -> float:
        options = self._options.percent_limit
        return self._config.number("annotate.percent_limit", 0.0) if options is None else options

    def _style(self) -> AnnotateStyle:
        from perfpy.analysis.annotation import ShareOf
        from perfpy.views.annotate.text import AnnotateStyle

        options = self._options
        return AnnotateStyle(
            unit=options.unit,
            share_of=ShareOf.parse(options.percent_type),
            source_lines=options.print_line,
            full_paths=options.full_paths,
            hits=options.verbose > 0 and not options.quiet,
            colour=colour_start(options.stdio_color),
        )

    def _code_style(self) -> CodeStyle:
        from perfpy.disassembly.disassembler import CodeStyle

        options, config = self._options, self._config
        return CodeStyle(
            source=options.source and not config.flag("annotate.hide_src_code", False),
            raw=options.asm_raw,
            syntax=options.disassembler_style or config.get("annotate.disassembler_style", ""),
            prefix=options.prefix,
            prefix_strip=options.prefix_strip,
            demangle=options.demangle,
            program=options.objdump or config.get("annotate.objdump", ""),
        )

    def _report_options(self) -> ReportOptions:
        from perfpy.analysis.filters import check_cpus
        from perfpy.analysis.report.options import NameOptions, ReportOptions, RowOptions

        options, data = self._options, self._recording.data
        if options.cpus and not data.is_pipe and not data.has(SampleType.CPU):
            raise PerfError(f"{self._recording.path}: the samples have no CPU field; drop -C, or record with --sample-cpu")
        check_cpus(options.cpus, data)
        if options.prefix_strip and not options.prefix:
            fail("--prefix-strip requires --prefix")
        return ReportOptions(
            rows=RowOptions(group=options.group, splits_memory_loads=False, relative_percentages=self._is_plain),
            names=NameOptions(verbose=options.verbose > 0),
            sample_filter=self._filter(),
        )

    def _filter(self) -> SampleFilter:
        from perfpy.analysis.filters import SampleFilter

        return self._options.fill(SampleFilter, symbols=(self._function,) if self._function else None)

    def _symbols(self) -> SymbolOptions:
        from perfpy.symbols.files.debug_files import Inline

        options, inline = self._options, Inline.ALL if self._options.by_line else Inline.NONE
        symbols = symbol_options_of(
            options, self._config, self._recording, force=options.force, ignore_vmlinux=options.ignore_vmlinux, inline=inline
        )
        return symbols._replace(fold_interpreters=True) if self._folds_by_default else symbols

    @property
    def _folds_by_default(self) -> bool:
        """Whether lines of Python include the time of their C code by default."""
        from perfpy.symbols.dso import has_python_image  # only for source lines

        return self._options.by_line and self._options.fold_interpreters is None and has_python_image(self._recording.data.kept_files)


def _is_empty(annotation: Annotation) -> bool:
    return not annotation.report.samples or not any(len(table.visible_entries()) for table in annotation.report.histograms)


_LEVEL: Final = re.compile(r"^\[.\] ")
_CLONES: Final = re.compile(r"(?: \[clone [^\]]*\])+$")
_QUALIFIERS: Final = re.compile(r"\)(?: (?:const|volatile|noexcept))*(?: ?&&?)?$")


def functions_named(recording: Recording, name: str, symbols: SymbolOptions, others: SampleFilter) -> list[str]:
    """Return the sampled functions with this name in front of their parameters, the hottest first.

    others: the filters but that for the function.
    """
    from perfpy.analysis.report.options import ColumnOptions, ReportOptions

    options = ReportOptions(columns=ColumnOptions(sort="symbol"), sample_filter=others)
    report = recording.report(options=options, symbols=symbols)
    rows = [row for histogram in report.histograms for row in histogram.top(len(histogram.order))]
    names = (_LEVEL.sub("", row.texts["symbol"].strip()) for row in sorted(rows, key=lambda row: -row.percent))
    return [full for full in dict.fromkeys(names) if full != name and without_parameters(full) == name]


def without_parameters(name: str) -> str:
    """Return a demangled name up to its parameters; a name without parameters as it is.

    >>> without_parameters("checksum(unsigned char const*, int)"), without_parameters("main")
    ('checksum', 'main')
    >>> without_parameters("Table<int (*)(char)>::operator()(int) const [clone .cold]")
    'Table<int (*)(char)>::operator()'
    """
    text = _CLONES.sub("", name)
    end = _QUALIFIERS.search(text)
    if end is None:
        return name
    depth = 0
    for position in range(end.start(), -1, -1):
        depth += (text[position] == ")") - (text[position] == "(")
        if not depth:
            return text[:position] or name
    return name
