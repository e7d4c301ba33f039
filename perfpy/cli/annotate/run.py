"""One run of `perfpy annotate` over an open recording."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.analysis.annotation.annotated import ShareOf
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.options import NameOptions, ReportOptions, RowOptions
from perfpy.cli.line.notes import tell
from perfpy.cli.line.options import fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.progress import progress_line
from perfpy.cli.line.symbol_values import symbol_options_of
from perfpy.cli.line.terminal import colour_start, print_lines, wants_plain
from perfpy.cli.report import option_values as texts
from perfpy.disassembly.objdump import CodeStyle
from perfpy.errors import PerfError
from perfpy.symbols.files.debug_files import Inline
from perfpy.untrusted.text import one_line
from perfpy.views.annotate.text import AnnotateStyle, AnnotationText
from perfpy.views.report.text import event_title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.annotation.annotation import Annotation
    from perfpy.cli.annotate.options import AnnotateCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


#: The smallest share of an event, in percent, of a function shown on a terminal.
_LEAST: Final = 2.0


class AnnotateRun:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, asked: AnnotateCommandOptions) -> None:
        self._recording = recording
        self._asked = asked
        self._config = load()

    def show(self) -> int:
        """Carry out the options; return the exit status."""
        asked = self._asked
        if asked.dump_raw_trace:
            return self._dump()
        if asked.by_line:
            return self._show_source()
        with progress_line("reading samples") as progress:
            annotation = self._recording.annotate(options=self._options(), symbols=self._symbols(), progress=progress)
        if not annotation.report.samples or not any(len(table.shown()) for table in annotation.report.histograms):
            return self._explain()
        if not wants_plain(stdio=asked.stdio or self._needs_plain):
            return self._show_screen(annotation)
        print_lines(self._lines(annotation))
        return 0

    def _dump(self) -> int:
        from perfpy.views.dump.recording import write_dump

        sys.stdout.flush()
        write_dump(self._recording, sys.stdout.buffer)
        return 0

    def _explain(self) -> int:
        """Print why no function is left."""
        if self._asked.quiet:
            return 0
        from perfpy.cli.line.nothing_left import say_why_nothing

        say_why_nothing(self._recording, self._filter(), self._symbols())
        return 0

    @property
    def _needs_plain(self) -> bool:
        """Whether an option selects output that only perf's text has."""
        asked = self._asked
        return bool(asked.print_line or asked.verbose or asked.shown != "percent" or asked.percent_type != "local-period")

    def _show_screen(self, annotation: Annotation) -> int:
        """Show the hottest functions on a terminal."""
        from perfpy.cli.line.terminal import console
        from perfpy.views.annotate.screen import show_functions

        asked, screen = self._asked, console()
        limit = (0.0 if asked.function else _LEAST) if asked.percent_limit is None else asked.percent_limit
        for table in annotation.report.histograms:
            if table.leader.samples:
                functions = annotation.functions(table, self._code_style(), percent_limit=limit)
                show_functions(functions, event_title(table, skip_empty=True), screen)
        self._say_what_is_missing(annotation)
        if limit and not asked.quiet:
            screen.print(f"functions below {limit:g}% are hidden; --percent-limit 0 shows all, --stdio prints whole functions", style="dim")
        return 0

    def _show_source(self) -> int:
        """Print source files, of each event with samples."""
        from perfpy.views.annotate.source_text import SourceStyle, source_lines

        limit = self._asked.percent_limit
        style = SourceStyle(colour=colour_start(self._asked.stdio_color))
        style = style if limit is None else style._replace(limit=limit)
        with progress_line("reading samples"):
            found = self._recording.source_files(sample_filter=self._filter(), symbols=self._symbols())
        if not any(shares.samples for shares in found):
            return self._explain()
        for number, shares in enumerate(found):
            print_lines([""] * bool(number))
            print_lines(source_lines(shares, style))
        if self._folds_by_default:
            tell(["note: lines of Python include the C code that they ran; to see it: --no-fold-interpreters"], quiet=self._asked.quiet)
        return 0

    def _lines(self, annotation: Annotation) -> Iterator[str]:
        """Yield perf's text of all events."""
        style = self._style()
        for table in annotation.report.histograms:
            if not any(member.samples for member in table.events):
                continue
            members = [number for number, member in enumerate(table.events) if member.samples or not self._asked.skip_empty]
            text = AnnotationText(event_title(table, skip_empty=self._asked.skip_empty), members, style)
            for function in annotation.functions(table, self._code_style(), percent_limit=self._percent_limit):
                yield from text.lines(function)
        self._say_what_is_missing(annotation)

    def _say_what_is_missing(self, annotation: Annotation) -> None:
        """Print the functions without code on stderr: for each reason the first, and the number of others."""
        if not self._asked.skip_missing and not self._asked.quiet:
            sys.stdout.flush()
            for reason, functions in annotation.without_code.items():
                more = f" and {len(functions) - 1} more" if len(functions) > 1 else ""
                print(one_line(f"perfpy: annotate: no code for {functions[0]}{more}: {reason}"), file=sys.stderr)

    @property
    def _percent_limit(self) -> float:
        asked = self._asked.percent_limit
        return self._config.number("annotate.percent_limit", 0.0) if asked is None else asked

    def _style(self) -> AnnotateStyle:
        asked = self._asked
        return AnnotateStyle(
            shown=asked.shown,
            share_of=ShareOf.named(asked.percent_type),
            source_lines=asked.print_line,
            full_paths=asked.full_paths,
            hits=asked.verbose > 0 and not asked.quiet,
            colour=colour_start(asked.stdio_color),
        )

    def _code_style(self) -> CodeStyle:
        asked, config = self._asked, self._config
        return CodeStyle(
            source=asked.source and not config.flag("annotate.hide_src_code", False),
            raw=asked.asm_raw,
            syntax=asked.disassembler_style or config.get("annotate.disassembler_style", ""),
            prefix=asked.prefix,
            prefix_strip=asked.prefix_strip,
            demangle=asked.demangle,
            program=asked.objdump or config.get("annotate.objdump", ""),
        )

    def _options(self) -> ReportOptions:
        asked, data = self._asked, self._recording.data
        if asked.cpu and not data.is_pipe and not data.has(SampleType.CPU):
            raise PerfError(f"{self._recording.path}: the samples have no CPU field; drop -C, or record with --sample-cpu")
        if asked.prefix_strip and not asked.prefix:
            fail("--prefix-strip requires --prefix")
        return ReportOptions(rows=RowOptions(group=asked.group), names=NameOptions(verbose=asked.verbose > 0), sample_filter=self._filter())

    def _filter(self) -> SampleFilter:
        asked = self._asked
        return SampleFilter(
            symbols=(asked.function,) if asked.function else None,
            dsos=texts.words(asked.dsos),
            cpus=texts.ranges(asked.cpu, "--cpu"),
        )

    def _symbols(self) -> SymbolOptions:
        asked, inline = self._asked, Inline.ALL if self._asked.by_line else Inline.NONE
        found = symbol_options_of(
            asked, self._config, self._recording, force=asked.force, ignore_vmlinux=asked.ignore_vmlinux, inline=inline
        )
        return found._replace(fold_interpreters=True) if self._folds_by_default else found

    @property
    def _folds_by_default(self) -> bool:
        """Whether lines of Python have the time of the C code that they ran, though nobody asked for that."""
        from perfpy.symbols.interpreters import has_python_image  # for source lines alone

        return self._asked.by_line and self._asked.fold_interpreters is None and has_python_image(self._recording.data.kept_files)
