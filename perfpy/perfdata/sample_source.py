"""SampleSource: where samples come from, for everything that makes numbers of them.

A perf.data file, a pipe, and a recording that was exported to tables are sources (perfpy.perfdata.reader.PerfData); so is whatever
else has these members: nothing in perfpy.analysis asks for more. What the folded samples of many recordings know before samples are
read is a SourceHeader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch, FurtherColumns, StoredBatch
    from perfpy.perfdata.records.side_band import SideBand
    from perfpy.perfdata.thread_rates import ThreadRates
    from perfpy.perfdata.tracepoints.tracing_data import Tracing


class SourceHeader(Protocol):
    """What is known of a source before its samples are read."""

    @property
    def events(self) -> Sequence[FileEvent]:
        """The events; samples refer to them by index."""

    @property
    def features(self) -> Mapping[str, Any]:
        """What the recorder wrote about the machine and itself, by name (perfpy.perfdata.container.features)."""

    @property
    def tracing(self) -> Tracing | None:
        """The formats of the tracepoints; None if the source has none."""

    @property
    def is_pipe(self) -> bool:
        """Whether the recording was written to a pipe."""

    @property
    def endian(self) -> str:
        """The byte order: "<" or ">"."""


class SampleSource(SourceHeader, Protocol):
    """Samples as columns, in batches, and the records beside them.

    The order of delivery is a number for each sample and each record, its key: both are delivered by ascending keys.
    """

    @property
    def path(self) -> str:
        """The name of the source in messages."""

    @property
    def warnings(self) -> list[str]:
        """What was left out and why, in one line each; grows while the source is read."""

    @property
    def sample_counts(self) -> Counter[int]:
        """The number of samples of each event, by index; -1: of no known event."""

    @property
    def sample_times(self) -> tuple[int, int]:
        """The times of the first and the last sample, in nanoseconds; 0 without samples."""

    @property
    def part_count(self) -> int:
        """In how many parts `stored` can be read."""

    @property
    def column_names(self) -> list[str]:
        """The names of all columns that samples have."""

    def no_samples(self) -> Columns:
        """Return the columns of no samples, each of its type."""

    def has(self, field: int) -> bool:
        """Tell whether samples of any event have a field (perfpy.abi.flags.SampleType)."""

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """Return the records that are no samples, in order of delivery; types: those of these types only."""

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield all samples in order of delivery, some thousands at a time.

        Args:
            fields: the columns wanted; None: all.
            more: makes further columns.
        """

    def stored(
        self, fields: Collection[str] | None = None, parts: range | None = None, more: FurtherColumns | None = None
    ) -> Iterator[StoredBatch]:
        """Yield all samples in the order of the source: as `batches`, but cheaper.

        Args:
            fields: the columns wanted; None: all.
            parts: indexes of parts, of which there are `part_count`; one batch for each. None: all.
            more: makes further columns.
        """

    def settled_keys(self, batch: Batch | StoredBatch) -> NDArray[np.uint64]:
        """Return the keys of samples among those of side-band records of the same time."""

    def share_read(self, batch: Batch) -> float:
        """Return how much of the source is read after a batch, from 0 to 1."""

    def join(self, event: FileEvent, into: FileEvent, rates: ThreadRates | None = None) -> None:
        """Count the samples of one event for another one from now on; rates: their unit in that of the other."""
