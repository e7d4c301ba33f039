"""SampleSource: the protocol through which analysis reads samples.

perfpy.perfdata.reader.PerfData implements it for perf.data files, pipes and recordings exported to tables; any other class with these
members works, too. SourceHeader is the part that is known before samples are read, which merged profiles of many recordings also have.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.abi.sample_decoding import SampleLayout
    from perfpy.perfdata.event_format import Tracing
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch, FurtherColumns, RecordIndex, StoredBatch
    from perfpy.perfdata.records.delivery import KeyedSamples, SideBand
    from perfpy.perfdata.records.scans import RecordScans


class SourceHeader(Protocol):
    """The part of a source that is known before its samples are read."""

    @property
    def events(self) -> Sequence[FileEvent]:
        """The events; samples refer to them by index."""

    @property
    def features(self) -> Mapping[str, Any]:
        """The header's features of the machine and the recorder, by name (perfpy.perfdata.header)."""

    @property
    def tracing(self) -> Tracing | None:
        """The formats of the tracepoints, or None if the source has none."""

    @property
    def is_pipe(self) -> bool:
        """Whether the recording was written to a pipe."""

    @property
    def endian(self) -> str:
        """The byte order: "<" or ">"."""


class SampleSource(SourceHeader, Protocol):
    """Samples as columns, in batches, and the side-band records.

    The order of delivery is a key for each sample and each record: both are delivered by ascending keys.
    """

    @property
    def path(self) -> str:
        """The name of the source in messages."""

    @property
    def warnings(self) -> list[str]:
        """One line for each skipped part; grows while the source is read."""

    @property
    def sample_counts(self) -> Counter[int]:
        """The number of samples of each event, by index, or -1 for an unknown event."""

    @property
    def sample_times(self) -> tuple[int, int]:
        """The times of the first and the last sample, in nanoseconds, or 0 without samples."""

    @property
    def part_count(self) -> int:
        """The number of parts that `stored_batches` can read."""

    @property
    def column_names(self) -> list[str]:
        """The names of all columns that samples have."""

    def no_samples(self) -> Columns:
        """Return the columns of no samples, each of its type."""

    def has(self, field: int) -> bool:
        """Whether samples of any event have a field (perfpy.abi.flags.SampleType)."""

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """Return the records other than samples, in order of delivery; types: only records of these types."""

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield all samples in order of delivery, some thousands at a time.

        Args:
            fields: the columns to read; None for all.
            more: computes further columns.
        """

    def stored_batches(
        self, fields: Collection[str] | None = None, parts: range | None = None, more: FurtherColumns | None = None
    ) -> Iterator[StoredBatch]:
        """Yield all samples in the order of the source: like batches(), but cheaper.

        Args:
            fields: the columns to read; None for all.
            parts: indexes below `part_count`, one batch for each; None for all.
            more: computes further columns.
        """

    def sample_chunks(self) -> Iterator[KeyedSamples]:
        """Yield all samples in the order of the source, undecoded; valid until the next ones. Needs no pass before."""

    def decode_samples(self, samples: KeyedSamples, fields: Collection[str]) -> StoredBatch:
        """Return columns of samples of sample_chunks()."""

    @property
    def layouts(self) -> Sequence[SampleLayout]:
        """The layout of each event's samples."""

    def settled_keys(self, batch: Batch | StoredBatch) -> NDArray[np.uint64]:
        """Return the delivery keys of samples, ordered among side-band records of the same time."""

    def share_read(self, batch: Batch) -> float:
        """Return the share of the source that is read after a batch, from 0 to 1."""

    def join(self, event: FileEvent, into: FileEvent, rates: ThreadRates | None = None) -> None:
        """Count the samples of `event` for `into` from now on; rates: converts their periods to the unit of `into`."""


class FileSource(SampleSource, Protocol):
    """Samples of a file, which another process may read as well."""

    @property
    def size(self) -> int:
        """The file's size in bytes."""

    @property
    def records(self) -> RecordScans:
        """The passes over the records."""

    @property
    def is_indexed(self) -> bool:
        """Whether the first pass was made, so that `record_index` costs nothing."""

    @property
    def record_index(self) -> RecordIndex:
        """The result of the first pass."""

    def take_index(self, index: RecordIndex) -> None:
        """Take over the result of the first pass of another process."""


# Convert periods of an event to time on the CPU.
#
# The sum over a thread's samples is the time that the thread ran; its samples share it in proportion to their periods.


class ThreadRates:
    """Nanoseconds per unit of an event's period, by thread.

    Attributes:
        threads: the threads with a rate.

    Args:
        event: the event's index.
        rates: tid -> ns.
    """

    def __init__(self, event: int, rates: Mapping[int, float]) -> None:
        self._event = event
        self.threads = frozenset(rates)
        self._tids = np.array(sorted(rates), np.int64)
        self._rates = np.array([rates[tid] for tid in sorted(rates)], np.float64)

    def change(self, columns: Columns, events: NDArray[np.int32]) -> None:
        """Convert the event's periods in these columns to ns, in place."""
        if "period" not in columns or "tid" not in columns or not len(self._tids):
            return
        rows = np.flatnonzero(events == self._event)
        tids = columns["tid"][rows].astype(np.int64)
        position = np.minimum(np.searchsorted(self._tids, tids), len(self._tids) - 1)
        rate = np.where(self._tids[position] == tids, self._rates[position], 0.0)
        periods = columns["period"].copy()
        periods[rows] = np.rint(periods[rows] * rate).astype(np.uint64)
        columns["period"] = periods


def thread_rates(event: int, batches: Iterable[Any], running: Mapping[int, int]) -> ThreadRates:
    """Compute the rates of an event.

    A thread without a running time never left the CPU: it ran from its first sample to its last.

    Args:
        event: the event's index.
        batches: all samples, with tid, period and time.
        running: tid -> ns on the CPU.
    """
    periods: Counter[int] = Counter()
    ranges: dict[int, tuple[int, int]] = {}
    for batch in batches:
        rows = np.flatnonzero(batch.event == event)
        tids, position = np.unique(batch.columns["tid"][rows], return_inverse=True)
        totals = np.bincount(position.ravel(), batch.columns["period"][rows].astype(np.float64), len(tids))
        times = batch.columns["time"][rows]
        for index, tid in enumerate(tids.tolist()):
            periods[tid] += int(totals[index])
            if tid not in running:
                thread_times = times[position.ravel() == index]
                first, last = ranges.get(tid, (1 << 63, 0))
                ranges[tid] = min(first, int(thread_times.min())), max(last, int(thread_times.max()))
    running_times = {tid: last - first for tid, (first, last) in ranges.items()} | dict(running)
    return ThreadRates(event, {tid: running_times.get(tid, 0) / period for tid, period in periods.items() if period})
