"""The samples of one interval of running events as a SampleSource."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Columns, rows_where, slices_index
from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL, NATIVE_ENDIAN, RecordType
from perfpy.perfdata.records.batches import Batch, StoredBatch, decode_chunk
from perfpy.perfdata.records.delivery import EventTable, KeyedSamples, OrderedChunk, RawRecords, SideBand
from perfpy.perfdata.records.stream import Chunk, walk
from perfpy.symbols.dso import DsoTable
from perfpy.symbols.dso_symbols import SymbolLoader
from perfpy.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.sample_decoding import SampleLayout
    from perfpy.perfdata.event_format import Tracing
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.perfdata.sample_source import ThreadRates
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.live_tasks import LiveTasks
    from perfpy.symbols.symbol_table import SymbolTable


_EXACT: Final = 1 << 14  # PERF_RECORD_MISC_EXACT_IP
#: records that a report of a window asks for
_OF_WINDOW: Final = (RecordType.LOST, RecordType.LOST_SAMPLES)
#: records that later windows refer to, too
_LASTING: Final = (RecordType.CGROUP, RecordType.NAMESPACES)
_WORTH_FORGETTING: Final = 4096  # records of cgroups and namespaces
_MOST_LASTING: Final = 1 << 16


class WindowCounts:
    """The numbers of an interval.

    Attributes:
        samples: of all events.
        kernel: samples in the kernel.
        guest_kernel, guest_user: samples in virtual machines.
        exact: samples with the exact address.
        lost: samples and records that did not fit in the ring buffers.
    """

    def __init__(self) -> None:
        self.samples = self.kernel = self.guest_kernel = self.guest_user = self.exact = self.lost = 0


class LiveWindow:
    """The samples between two updates; a SampleSource whose samples change.

    Args:
        events: the events of the samples.
        features: as in a file's header.
        tracing: the formats of tracepoints.
        own: the process whose samples are dropped, -1 for none.
        hidden: cpumodes whose samples are counted, but not delivered; may be changed between windows.
        dropped: events whose samples are dropped.
    """

    is_pipe = False
    endian = NATIVE_ENDIAN
    path = "live"
    part_count = 1

    def __init__(
        self,
        events: list[FileEvent],
        features: dict[str, Any],
        tracing: Tracing | None = None,
        *,
        own: int = -1,
        hidden: Collection[int] = (),
        dropped: Collection[int] = (),
    ) -> None:
        self.events = events
        self.features = features
        self.tracing = tracing
        self.warnings: list[str] = []
        self.table = EventTable(events, NATIVE_ENDIAN)
        self._own = own
        self.hidden = sorted(hidden)
        self._dropped = sorted(dropped)
        self._late = b""  # samples that are newer than the last read
        self._others = RawRecords.concat([])
        self._forgotten_at = _WORTH_FORGETTING
        self.counts = WindowCounts()
        self.samples = self._no_samples()

    def _no_samples(self) -> KeyedSamples:
        nothing = np.zeros(0, np.int64)
        chunk = Chunk(np.zeros(8, np.uint8), nothing, NATIVE_ENDIAN, 0)
        return KeyedSamples(chunk, nothing.astype(np.int32), nothing.astype(np.uint64), nothing.astype(np.uint64))

    def begin(self, data: bytes, until: int = 0) -> OrderedChunk:
        """Take the records of the next interval, and return them for the side-band.

        until: samples after this time wait for the next interval, because side-band records before them may not have been read;
            0 for no limit.
        """
        ordered = self.order_records(np.frombuffer(self._late + data, np.uint8))
        samples, self._late = self._without_own(ordered.keyed_samples), b""
        late = rows_where(samples.times > np.uint64(until)) if until else rows_where(np.zeros(0))
        if len(late):
            self._late = b"".join(samples.chunk.record(row) for row in late.tolist())
            samples = samples.rows(rows_where(samples.times <= np.uint64(until)))
        self._count(samples, ordered)
        if self.hidden:
            samples = samples.rows(rows_where(~np.isin(samples.chunk.miscs & MISC_CPUMODE_MASK, self.hidden)))
        self.samples = samples
        self._keep_others(ordered)
        return ordered

    def order_records(self, data: NDArray[np.uint8]) -> OrderedChunk:
        """Return records with their events, times and keys."""
        table = self.table
        chunk = Chunk(data, walk(data, NATIVE_ENDIAN).starts, NATIVE_ENDIAN, 0)
        rows, others = rows_where(chunk.types == RecordType.SAMPLE), chunk.others
        samples, side_band = chunk.rows(rows), chunk.rows(others)
        events, other_events = table.of_samples(samples), table.of_side_band(side_band)
        times = np.zeros(len(chunk), np.uint64)
        times[rows] = table.sample_times(samples, events)
        times[others] = table.side_band_times(side_band, other_events)
        return OrderedChunk(chunk, times, times, rows, samples, events, other_events)

    def _without_own(self, samples: KeyedSamples) -> KeyedSamples:
        """Drop perfpy's own samples, and samples of unknown events or of events that reports omit."""
        chosen = samples.events >= 0
        if self._dropped:
            chosen &= ~np.isin(samples.events, self._dropped)
        word = self.table.layouts[0].word_of("pid")
        if self._own >= 0 and word is not None and len(chosen):
            chosen &= samples.chunk.column("u4", 8 * word) != self._own
        return samples if chosen.all() else samples.rows(rows_where(chosen))

    def _count(self, samples: KeyedSamples, ordered: OrderedChunk) -> None:
        counts = self.counts = WindowCounts()
        counts.samples = len(samples.keys)
        misc = samples.chunk.miscs
        modes = np.bincount(misc & MISC_CPUMODE_MASK, minlength=MISC_CPUMODE_MASK + 1).tolist()
        counts.kernel, counts.guest_kernel, counts.guest_user = modes[MISC_KERNEL], modes[MISC_GUEST_KERNEL], modes[MISC_GUEST_USER]
        counts.exact = int(np.count_nonzero(misc & _EXACT))
        lost = self._raw(ordered, _OF_WINDOW)
        counts.lost = sum(side.record.lost for side in SideBand(lost, lambda _types: iter(()), self.table, self._warn, None))

    def _raw(self, ordered: OrderedChunk, types: Collection[int]) -> RawRecords:
        chunk = ordered.chunk
        return RawRecords.of_chunk(ordered, np.isin(chunk.types[chunk.others], list(types)))

    def _keep_others(self, ordered: OrderedChunk) -> None:
        lasting = self._others.of_types(_LASTING)
        self._others = RawRecords.concat([lasting.compact(), self._raw(ordered, (*_OF_WINDOW, *_LASTING))])
        if len(self._others) > self._forgotten_at:
            self._others = without_repetitions(self._others)
            self._forgotten_at = max(_WORTH_FORGETTING, 2 * len(self._others))

    @property
    def lasting(self) -> RawRecords:
        """The records of cgroups and namespaces of all windows."""
        return self._others.of_types(_LASTING)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    @property
    def sample_counts(self) -> Counter[int]:
        """The number of samples of each event."""
        return Counter(self.samples.events.tolist())

    @property
    def sample_times(self) -> tuple[int, int]:
        """The times of the first and the last sample."""
        times = self.samples.times
        return (int(times.min()), int(times.max())) if len(times) else (0, 0)

    @property
    def pids(self) -> NDArray[np.uint32]:
        """The process of each sample."""
        word = self.table.layouts[0].word_of("pid")
        assert word is not None
        return self.samples.chunk.column("u4", 8 * word).astype(np.uint32, copy=False)

    def sample_bytes(self) -> bytes:
        """Return the records of the samples."""
        chunk = self.samples.chunk
        words = chunk.sizes.astype(np.int64) >> 3
        data = chunk.data[: len(chunk.data) & ~7].view(np.uint64)
        return data[slices_index(chunk.starts >> 3, words)[0]].tobytes()

    @property
    def column_names(self) -> list[str]:
        """The names of all columns that samples have."""
        return list(dict.fromkeys(name for layout in self.table.layouts for name in layout.names))

    def no_samples(self) -> Columns:
        """Return the columns of no samples."""
        empty = np.zeros(8, np.uint8), np.zeros(0, np.int64)
        return Columns.concat([Columns(0), *(layout.decode(*empty) for layout in self.table.layouts)])

    def has(self, field: int) -> bool:
        """Whether samples of any event have a field."""
        return any(event.attr.sample_type & field for event in self.events)

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """Return the side-band of this window, and records of cgroups and namespaces of all windows."""
        return SideBand(self._others, lambda _types: iter(()), self.table, self._warn, types)

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield the samples by time."""
        for stored in self.stored_batches(fields, None, more):
            ordered = stored._replace(columns=stored.columns.gather()).sort()
            yield Batch(ordered.columns, ordered.event, ordered.key, ordered.offset)

    def stored_batches(
        self, fields: Collection[str] | None = None, parts: range | None = None, more: FurtherColumns | None = None
    ) -> Iterator[StoredBatch]:
        """Yield the samples in the order of the ring buffers."""
        del parts  # there is one
        if not len(self.samples.keys):
            return
        needed = None if fields is None else {*fields, *(more.fields if more else ())}
        batch = decode_chunk(self.samples, self.table, needed, self._warn, late=True)
        if more is not None:
            columns = more.extend(batch.columns, batch.event, batch.key)
            for name in () if fields is None else set(more.fields).difference(fields):
                columns.pop(name, None)
            batch = batch._replace(columns=columns)
        yield batch

    def sample_chunks(self) -> Iterator[KeyedSamples]:
        """Yield the samples, undecoded."""
        if len(self.samples.keys):
            yield self.samples

    def decode_samples(self, samples: KeyedSamples, fields: Collection[str]) -> StoredBatch:
        """Return columns of samples."""
        return decode_chunk(samples, self.table, fields, self._warn, late=True)

    @property
    def layouts(self) -> Sequence[SampleLayout]:
        """The layout of each event's samples."""
        return self.table.layouts

    def settled_keys(self, batch: Batch | StoredBatch) -> NDArray[np.uint64]:
        """Return the delivery keys of samples: their times."""
        return batch.key

    def share_read(self, batch: Batch) -> float:
        """Return 1: a window is one batch."""
        del batch
        return 1.0

    def join(self, event: FileEvent, into: FileEvent, rates: ThreadRates | None = None) -> None:
        """Raise NotImplementedError: live events stay separate."""
        raise NotImplementedError


def without_repetitions(others: RawRecords) -> RawRecords:
    """Return records with the last one of each cgroup and each process's namespaces, the newest ones if there are very many."""
    kinds = others.rows["type"]
    words = np.frombuffer(others.bodies, np.uint64, len(others.bodies) >> 3)
    first = words.take(others.rows["start"] >> 3, mode="clip")  # of a cgroup its id, of namespaces pid and tid
    last = {key: number for number, key in enumerate(zip(kinds.tolist(), first.tolist(), strict=True))}
    lasting = np.isin(kinds, _LASTING)
    chosen = np.zeros(len(others), np.bool_)
    chosen[sorted(last.values())[-_MOST_LASTING:]] = True
    return RawRecords(others.rows[chosen | ~lasting], others.bodies).compact()


# Symbols across windows: each window has its own timeline of tasks, all share the dsos and their symbols.
_KERNEL: Final = "[kernel]"  # perf top's name of the running kernel
_MOST_DSOS: Final = 10_000
_MOST_SYMBOLS: Final = 48 << 20  # bytes of tables of programs and libraries
_MOST_IMAGES: Final = 2
_LONGEST: Final = 300.0  # seconds until files are searched again: they may have been replaced, and tables of old ones take memory


class LiveSymbols:
    """The symbols of a live view. options: where to look for them.

    Attributes:
        images: files that are in memory only, by name.
    """

    def __init__(self, tasks: LiveTasks, options: SymbolOptions) -> None:
        self._tasks = tasks
        self._options = options._replace(live=True)
        self._dso_table = DsoTable(by_identity=True)
        self._loader: SymbolLoader | None = None
        self.images: dict[str, bytes] = {}
        self._since = time.monotonic()

    def add_images(self, images: dict[str, bytes]) -> None:
        """Add files, by name, or replace them. Only the last ones stay: samples of the last minute may refer to the one before."""
        self.images.update(images)
        for name in list(self.images)[:-_MOST_IMAGES]:
            del self.images[name]
        if self._loader is not None and images:
            self._loader.forget(images)

    def forget(self, names: set[str]) -> None:
        """Read the symbols of files again, by name, because they have changed."""
        if self._loader is not None:
            self._loader.forget(names)

    def of_window(self, pids: NDArray[np.uint32]) -> tuple[TaskTimeline, Symbolizer]:
        """Return the tasks and the symbols for the samples of some processes."""
        if len(self._dso_table.dsos) > _MOST_DSOS or time.monotonic() - self._since > _LONGEST:
            self._dso_table, self._loader, self._since = DsoTable(by_identity=True), None, time.monotonic()
        timeline = self._tasks.timeline(pids, self._dso_table)
        if timeline.kernel_dso >= 0:
            self._dso_table.dsos[timeline.kernel_dso].short_name = _KERNEL
        if self._loader is None:
            self._loader = SymbolLoader(timeline, self._options, self.images)
        self._loader.follow(timeline)
        self._loader.trim(_MOST_SYMBOLS)
        return timeline, Symbolizer(timeline, self._options, self._loader)

    def tables(self) -> Iterator[tuple[str, SymbolTable]]:
        """Yield the names of files and their symbols, as far as they were loaded."""
        dsos = self._dso_table.dsos
        loaded = self._loader.loaded_tables() if self._loader is not None else {}
        return ((dsos[number].long_name, table) for number, table in loaded.items() if len(table))
