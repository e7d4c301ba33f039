"""`perfpy c2c report`: the cache lines that CPUs share, in perf c2c's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.line.perfconfig import load
from perfpy.cli.line.symbol_values import symbol_options_of
from perfpy.cli.output.terminal import print_lines
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.memory.accesses import Accesses, MemoryNodes
    from perfpy.analysis.memory.cache_lines import CacheLines
    from perfpy.analysis.memory.line_rows import AccessRows
    from perfpy.cli.c2c.options import C2cReportOptions
    from perfpy.recording import Recording
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.memory.line_row_tables import RowNames


def report(options: C2cReportOptions) -> int:
    """Show the cache lines that CPUs share."""
    from perfpy.abi.flags import SampleType
    from perfpy.views.memory.c2c_statistics import DISPLAYS

    if options.display and options.display not in DISPLAYS:
        fail(f"-d {options.display}: unknown display; expected tot, lcl, rmt or peer")
    fields = _coalesced_fields(options.coalesce)
    with open_recording(options.input, force=options.force, quiet=options.quiet, verbose=options.verbose) as recording:
        if not recording.data.is_pipe and not recording.data.has(SampleType.DATA_SRC):
            raise PerfError(f"{recording.path}: no memory accesses; record with perfpy c2c record")
        print_lines(_C2cReport(recording, options, fields).lines())
    return 0


def _coalesced_fields(text: str) -> tuple[str, ...]:
    from perfpy.analysis.memory.line_rows import FIELDS

    fields = tuple(dict.fromkeys(word for word in text.split(",") if word)) or ("iaddr",)
    for field in fields:
        if field not in FIELDS:
            fail(f"-c {field}: unknown field; expected {', '.join(FIELDS)}")
    return fields


class _C2cReport:
    """The report of one recording."""

    def __init__(self, recording: Recording, options: C2cReportOptions, fields: Sequence[str]) -> None:
        from perfpy.analysis.memory.accesses import memory_nodes, read_accesses
        from perfpy.analysis.memory.cache_lines import LINE_SIZE, cache_lines

        self._recording = recording
        self._options = options
        self._fields = fields
        self._display = options.display or ("peer" if recording.header.get("arch") == "aarch64" else "tot")
        self._nodes: MemoryNodes = memory_nodes(recording.data)
        symbols = symbol_options_of(options, load(), recording, force=options.force)
        self._timeline = recording.make_timeline(keep_exited=True)
        self._symbolizer: Symbolizer = recording.new_symbolizer(self._timeline, symbols)
        self._accesses: Accesses = read_accesses(recording.data, self._timeline, self._symbolizer)
        size = 2 * LINE_SIZE if options.double_cl else LINE_SIZE
        self._lines: CacheLines = cache_lines(self._accesses, self._symbolizer, self._nodes, size)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        from perfpy.views.memory.c2c_statistics import settings_lines, statistics_lines
        from perfpy.views.memory.cache_line_table import cache_line_table

        yield from statistics_lines(self._accesses, self._lines)
        yield from settings_lines([event.name for event in self._recording.events], self._display, self._fields)
        if self._options.stats:
            return
        chosen = self._lines.ranked(self._display, show_all=self._options.show_all)
        yield from cache_line_table(self._lines, chosen, self._display)
        yield from self._row_tables(chosen)

    def _row_tables(self, chosen: Sequence[int]) -> Iterator[str]:
        from perfpy.analysis.memory.line_rows import line_rows
        from perfpy.views.memory.line_row_tables import RowStyle, row_tables

        rows = line_rows(self._accesses, self._lines, chosen, self._fields, self._display, self._symbolizer, self._nodes)
        style = RowStyle(self._display, self._fields, self._options.node_info, self._options.full_symbols)
        yield from row_tables(rows, self._lines, chosen, self._names(rows), self._nodes, style)

    def _names(self, rows: AccessRows) -> RowNames:
        """Return the names of the rows' code."""
        import numpy as np

        from perfpy.analysis.samples.locations import Locations, sample_locations
        from perfpy.analysis.samples.source_texts import SourceTexts
        from perfpy.analysis.sortkeys.key_texts import KeyTexts, TaskComms, TraceData
        from perfpy.analysis.sortkeys.location_columns import dso, source_line, symbol
        from perfpy.views.memory.line_row_tables import RowNames

        frames, number = np.unique(rows.accesses.code[rows.first], return_inverse=True)
        sources = None if self._options.no_source or "iaddr" not in self._fields else SourceTexts(self._symbolizer, as_addr2line=True)
        locations = Locations(self._symbolizer)
        texts = KeyTexts(locations, sources, TaskComms((), str), TraceData())
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
