"""Recorded: the part of a recording that views need.

perfpy.recording.Recording implements it; any other class may, so that views are independent of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from perfpy.analysis.filters import RecordedTimes
    from perfpy.auxtrace.pmcu import PmcuTrace
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.delivery import Span
    from perfpy.perfdata.records.side_band import SideBand
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer


class Recorded(Protocol):
    """An open recording, as far as views need it; perfpy.recording.Recording describes each member."""

    data: PerfData

    @property
    def path(self) -> str:
        """The file, as messages name it."""

    @property
    def title(self) -> str:
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
