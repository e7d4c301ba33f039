"""Recorded: the part of a recording that views need.

perfpy.recording.Recording implements it; any other class may, so that views are independent of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AbstractContextManager

    from perfpy.analysis.filters import RecordedTimes, SampleFilter
    from perfpy.analysis.stacks import StackOptions, Stacks
    from perfpy.auxtrace.pmcu import PmcuTrace
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.delivery import SideBand, Span
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.tracepoints.event_text import PayloadTexts


class Recorded(Protocol):
    """An open recording, as far as views need it; perfpy.recording.Recording describes each member."""

    data: PerfData
    symbol_options: SymbolOptions | None
    sample_filter: SampleFilter | None

    @property
    def path(self) -> str:
        """The file, as messages name it."""

    @property
    def title(self) -> str:
        """The recorder's command line without the folder of its program, or the path."""

    @property
    def command_line(self) -> str:
        """The recorder's command line, or the path."""

    @property
    def environment(self) -> list[str]:
        """Host, kernel, architecture and duration, as short phrases."""

    @property
    def events(self) -> list[FileEvent]:
        """The recorded events."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The features of the file."""

    @property
    def timeline(self) -> TaskTimeline:
        """The commands and address spaces of all tasks over time."""

    def make_timeline(self, *, keep_exited: bool) -> TaskTimeline:
        """Return a new timeline."""

    def symbolizer(self, options: SymbolOptions | None = None) -> Symbolizer:
        """Return a new Symbolizer for the recording's addresses."""

    @property
    def shared_symbols(self) -> AbstractContextManager[object]:
        """A context in which equal requests get one timeline and symbolizer."""

    def naming(self, symbols: SymbolOptions | None = None, *, keep_exited: bool = True) -> tuple[TaskTimeline, Symbolizer]:
        """Return a timeline and a symbolizer for a pass over the samples."""

    def within(self, sample_filter: SampleFilter) -> SampleFilter:
        """Combine a filter with that of the recording."""

    def payloads(self, symbolizer: Symbolizer) -> PayloadTexts | None:
        """Return the texts of tracepoint data."""

    def stacks(self, symbols: SymbolOptions | None = None, options: StackOptions | None = None) -> list[Stacks]:
        """Return the whole stacks of each event."""

    @property
    def pmcu(self) -> PmcuTrace | None:
        """The counts of a PMCU."""

    def times(self) -> RecordedTimes:
        """Return the times of the first and the last sample."""

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield the samples in order of delivery. more: computes further columns."""

    def batch_of(self, span: Span, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Batch | None:
        """Return the samples of one span, in order of delivery."""

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """Return the records other than samples, in order of delivery."""
