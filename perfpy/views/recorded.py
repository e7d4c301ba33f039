"""Recorded: what views read of a recording.

perfpy.recording.Recording has all of it. What shows a recording takes any
value that does, so that views know nothing of who opens files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from perfpy.analysis.filters.time_ranges import RecordedTimes
    from perfpy.auxtrace.recorded_pmcu import PmcuTrace
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.records.delivery_spans import Span
    from perfpy.perfdata.records.side_band import SideBand
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline


class Recorded(Protocol):
    """An open recording, as far as it is shown; perfpy.recording.Recording says what each member is."""

    data: PerfData

    @property
    def path(self) -> str:
        """The file, as messages name it."""

    @property
    def title(self) -> str:
        """What was recorded."""

    @property
    def environment(self) -> list[str]:
        """Where and how long, in short phrases."""

    @property
    def events(self) -> list[FileEvent]:
        """The events recorded."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The features of the file."""

    @property
    def timeline(self) -> TaskTimeline:
        """Commands and address spaces of all tasks over time."""

    def make_timeline(self, *, keep_exited: bool) -> TaskTimeline:
        """A new timeline."""

    def symbolizer(self, options: SymbolOptions | None = None) -> Symbolizer:
        """A new Symbolizer for the recording's addresses."""

    @property
    def pmcu(self) -> PmcuTrace | None:
        """What a PMCU counted."""

    def times(self) -> RecordedTimes:
        """When the first and the last sample were taken."""

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """The samples in order of delivery. more: makes further columns."""

    def batch_of(self, span: Span, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Batch | None:
        """The samples of one part, in order of delivery."""

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """The records that are no samples, in order of delivery."""
