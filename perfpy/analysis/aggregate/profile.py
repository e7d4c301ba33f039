"""Fold samples to distinct combinations of the report's dimensions, with their totals.

`Folded` has one row for each distinct combination of event, dimensions,
filter mark and callchain, in the order of first delivery.
Memory grows with the distinct rows, not with the number of samples.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from perfpy.abi.columns import Growing, rows_where
from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL, MISC_USER
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol, dataclass, replace
from perfpy.analysis.callchains import ChainTable, Functions, frames_of
from perfpy.analysis.dimensions import DIMENSIONS, PayloadTable, kind_numbers
from perfpy.analysis.sample_view import DeliveryOrder
from perfpy.symbols.interning import GroupSums, IdTable, TupleTable, sum_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.overflow import FoldedRuns
    from perfpy.analysis.callchains import BranchHistory
    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.sample_view import SampleView
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import FrameOrigins, Symbolizer


_MODES = {
    "period_sys": MISC_KERNEL,
    "period_us": MISC_USER,
    "period_guest_sys": MISC_GUEST_KERNEL,
    "period_guest_us": MISC_GUEST_USER,
}
#: the sum of samples' shares of the wall clock (perfpy.analysis.dimensions)
LATENCY = "latency"
_WEIGHTS = {"weight1": "weight", "weight2": "ins_lat", "weight3": "retire_lat"}


@dataclass(eq=False, repr=False)
class Folded:
    """Rows of distinct combinations.

    Attributes:
        event: indexes of events.
        filtered: whether a filter marks the row.
        chain: indexes of callchains; -1 without.
        tid: of the row's first sample.
        period, count: totals.
        dimensions: name -> the row's number.
        measures: further totals by name.
    """

    event: NDArray[np.int64]
    filtered: NDArray[np.bool_]
    chain: NDArray[np.int64]
    tid: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int64]
    dimensions: dict[str, NDArray[np.int64]]
    measures: dict[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.event)

    def take(self, rows: NDArray[Any]) -> Folded:
        """Select rows."""
        return Folded(
            self.event[rows],
            self.filtered[rows],
            self.chain[rows],
            self.tid[rows],
            self.period[rows],
            self.count[rows],
            {name: values[rows] for name, values in self.dimensions.items()},
            {name: values[rows] for name, values in self.measures.items()},
        )

    def where(self, mask: NDArray[np.bool_]) -> Folded:
        """Select rows by a mask; all of them are not copied."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def with_periods(self, period: NDArray[np.int64]) -> Folded:
        """Return the same rows with other periods."""
        return replace(self, period=period)

    def with_chains(self, chain: NDArray[np.int64]) -> Folded:
        """Return the same rows with other chain numbers."""
        return replace(self, chain=chain)

    def with_dimensions(self, dimensions: dict[str, NDArray[Any]]) -> Folded:
        """Return the same rows with other numbers for some dimensions."""
        return replace(self, dimensions={**self.dimensions, **dimensions})

    def filtering(self, rows: NDArray[np.bool_]) -> Folded:
        """Return all rows, with these marked as filtered, too."""
        return replace(self, filtered=self.filtered | rows)


class ChainSource(Protocol):
    """A source of distinct callchains."""

    def chains(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return all frame ids, and the offset of each chain, with one more entry than chains."""


class FoldedSamples(Protocol):
    """Folded samples, of one recording or of many."""

    @property
    def folded(self) -> Folded:
        """The rows."""

    @property
    def chains(self) -> ChainSource | None:
        """The distinct callchains."""

    @property
    def raw(self) -> PayloadTable:
        """The distinct raw data."""

    def samples_of_frames(self) -> NDArray[np.int64]:
        """Return the number of samples, after filters, on each frame id; empty without the dimension of frames."""


class FoldingPlan(NamedTuple):
    """The dimensions and measures that samples are folded by.

    Attributes:
        dimensions: names of DIMENSIONS, or "raw".
        measures: names of further totals (period_sys ..., weight1 ..., latency).
        chains: whether callchains are kept.
        sample_filter: marks samples.
        by_function: whether locations in one function are the same.
        history: puts branch records before callchains; None without.
    """

    dimensions: tuple[str, ...]
    sample_filter: SampleFilter
    measures: tuple[str, ...] = ()
    chains: bool = False
    by_function: bool = False
    history: BranchHistory | None = None

    @property
    def fields(self) -> set[str]:
        """The sample columns that folding needs."""
        needed = {"tid", "period"} | self.sample_filter.fields()
        for name in self.dimensions:
            needed |= {"raw"} if name == "raw" else {*DIMENSIONS[name].fields}
        if self.chains:
            needed |= {"callchain", "pid", "cpumode"} | ({self.history.field} if self.history else set())
        return needed | {_WEIGHTS.get(name, "cpumode") for name in self.measures if name != LATENCY}

    @property
    def fingerprints(self) -> list[str]:
        """The columns that distinguish samples (perfpy.analysis.dimensions)."""
        names = self.sample_filter.mark_fingerprints
        for name in self.dimensions:
            names += ["raw"] if name == "raw" else DIMENSIONS[name].fingerprints
        if self.chains:
            names = [name for name in names if name != "mode_space"] + ["space", "callchain"]
        return list(dict.fromkeys(names))


class GroupTotals(NamedTuple):
    """The sums of groups of samples, one entry each: of periods, numbers of samples, and further measures."""

    period: NDArray[Any]
    samples: NDArray[Any]
    measures: dict[str, NDArray[Any]]


def summand(name: str, samples: SampleView, period: NDArray[np.uint64]) -> NDArray[Any]:
    """Return the value of each sample that a measure adds up. period: of the samples."""
    if name in _WEIGHTS:
        return samples.column(_WEIGHTS[name])
    if name == LATENCY:
        return samples.column(name)
    values: NDArray[np.uint64] = np.where(samples.columns["cpumode"] == _MODES[name], period, 0)
    return values


class Profile:
    """A folding in progress.

    Samples are grouped by their fingerprints first; comms, frames and chains
    are looked up once for each group.

    Attributes:
        raw: the distinct payloads.
        chains: the distinct callchains, or None.
    """

    def __init__(self, folding: FoldingPlan, memory: int | None = None, *, is_delivered: bool = False) -> None:
        """Begin without samples.

        Args:
            folding: dimensions and measures.
            memory: limit in bytes, beyond which rows are written to a file; None for no limit.
            is_delivered: whether samples come in order of delivery, and so do their rows.
        """
        self.raw = PayloadTable()
        self._recipe, self._memory, self._is_delivered = folding, memory, is_delivered
        self._functions = Functions() if folding.by_function else None
        self._runs: FoldedRuns | None = None
        self._begin()

    def _begin(self) -> None:
        """Start with no rows and no chains."""
        folding = self._recipe
        self._chains = ChainTable(is_narrow=True) if folding.chains else None
        self._kinds, self._row_of_kind = IdTable(), np.zeros(0, np.int32)
        dense = [True, True, *(name == "raw" or DIMENSIONS[name].dense for name in folding.dimensions), *([True] if folding.chains else [])]
        self._rows = TupleTable(dense)
        self._first = FirstThreads() if self._is_delivered else FirstDelivery()
        self._period, self._count = GroupSums(), GroupSums()
        self._measures = {name: GroupSums() for name in folding.measures}

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes, without raw data."""
        tables = (self._rows, self._first, self._period, self._count, *self._measures.values(), self._chains)
        return sum(table.nbytes for table in tables if table is not None)

    def _make_room(self) -> None:
        """Write the rows to a file if they exceed the limit."""
        if self._memory is not None and self.nbytes > self._memory:
            if self._runs is None:
                from perfpy.analysis.aggregate.overflow import FoldedRuns  # few recordings are so large

                self._runs = FoldedRuns()
            self._to_file(self._runs)

    def _to_file(self, runs: FoldedRuns) -> None:
        assert isinstance(self._first, FirstDelivery)
        columns = self._rows.columns()
        chain = columns.pop() if self._chains is not None else None
        runs.add_rows(columns, chain, self._chains, self._totals_of_rows(), *self._first.first_samples(len(self._rows)))
        self._begin()

    def add(self, samples: SampleView) -> NDArray[np.int32]:
        """Fold one batch; return the row of each sample, for `ranks`."""
        rows = self._rows_of(samples)
        size = len(self._rows)
        period = samples.period()
        self._first.add(rows, size, samples)
        self._count.add(rows, None, size)
        self._period.add(rows, period, size)
        for name, measures in self._measures.items():
            measures.add(rows, summand(name, samples, period), size)
        self._make_room()
        return rows

    def _rows_of(self, samples: SampleView) -> NDArray[np.int32]:
        if len(self._kinds) > _KINDS_KEPT:
            self._kinds, self._row_of_kind = IdTable(), np.zeros(0, np.int32)
        kinds, new = self._kinds.ids_and_new(kind_numbers(samples, self._recipe.fingerprints))
        if len(new):
            row_ids = [self.rows_of(samples.take(part)) for part in parts_of_chains(new, samples.chains().lengths)]
            self._row_of_kind = np.concatenate([self._row_of_kind, *row_ids])
        rows: NDArray[np.int32] = self._row_of_kind.take(kinds)
        return rows

    def rows_of(self, samples: SampleView) -> NDArray[np.int32]:
        """Return the row of each sample, without adding the samples to its totals."""
        return self._rows.ids_and_new(self._numbers(samples))[0]

    def _numbers(self, samples: SampleView) -> list[NDArray[Any]]:
        """Return the columns that identify the rows of samples."""
        marked = self._recipe.sample_filter.mark(samples)
        mark = np.zeros(len(samples), np.int32) if marked is None else marked.astype(np.int32)
        numbers = [samples.event, mark, *(self._dimension(name, samples) for name in self._recipe.dimensions)]
        if self._chains is not None:
            numbers.append(self._chain_ids(samples, self._chains))
        return numbers

    def _chain_ids(self, samples: SampleView, chains: ChainTable) -> NDArray[np.int32]:
        if self._recipe.history is not None:
            return chains.add(*self._recipe.history.entry_ids(samples))
        frames, counts = frames_of(samples.chains().gather(), samples.column("pid"), samples.key, samples.symbolizer)
        return chains.add(self._merged_by_function(frames, samples.symbolizer), counts)

    def _dimension(self, name: str, samples: SampleView) -> NDArray[Any]:
        if name == "raw":
            return self.raw.ids(samples.payloads())
        numbers = DIMENSIONS[name].read(samples)
        return self._merged_by_function(numbers, samples.symbolizer) if name == "frame" else numbers

    def _merged_by_function(self, frames: NDArray[np.int32], symbolizer: Symbolizer) -> NDArray[np.int32]:
        return frames if self._functions is None else self._functions.first_frames(frames, symbolizer)

    def partial(self, names: LearntNames, warnings: list[str]) -> PartialProfile:
        """Return the rows for another process. names: added meanwhile; warnings: of this part."""
        size = len(self._rows)
        frames, offsets = self._chains.chains() if self._chains is not None else (np.zeros(0, np.int32), np.zeros(1, np.int64))
        when, tid = self._first.first_samples(size)
        measures = {name: measures.totals(size) for name, measures in self._measures.items()}
        totals = self._period.totals(size), self._count.totals(size), measures
        return PartialProfile(self._rows.columns(), frames, np.diff(offsets), self.raw.payloads, names, when, tid, *totals, warnings)

    def merge(self, part: PartialProfile, maps: NameMaps, symbolizer: Symbolizer) -> None:
        """Merge the rows of the samples that come next in the file. maps: its numbers -> this profile's."""
        rows = self._rows.ids_and_new(self._columns_here(part, maps, symbolizer))[0]
        self.add_totals(rows, part.when, part.tid, GroupTotals(part.period, part.samples, part.measures))
        self._make_room()

    def with_chains(self, chains: ChainTable, number_of: NDArray[np.int32]) -> NDArray[np.int32]:
        """Replace the callchains, so that rows may become equal; return the new number of each row.

        number_of: the number of each chain among the new ones.
        """
        size, columns = len(self._rows), self._rows.columns(is_narrow=True)
        when, tid = self._first.first_samples(size)
        measures = {name: one.totals(size) for name, one in self._measures.items()}
        totals = GroupTotals(self._period.totals(size), self._count.totals(size), measures)
        self._begin()
        columns[-1] = number_of[columns[-1]]
        parts = (slice(begin, begin + _ROWS_AT_ONCE) for begin in range(0, size, _ROWS_AT_ONCE))
        rows = np.concatenate([np.zeros(0, np.int32), *(self._rows.ids_and_new([column[part] for column in columns])[0] for part in parts)])
        self._chains = chains
        self.add_totals(rows, when, tid, totals)
        return rows

    def samples_of_chains(self) -> NDArray[np.int64]:
        """Return the number of samples of each callchain so far."""
        assert self._chains is not None
        size = len(self._rows)
        return sum_by(self._rows.columns(is_narrow=True)[-1], self._count.totals(size), len(self._chains))

    def add_totals(self, rows: NDArray[Any], when: DeliveryOrder, tid: NDArray[Any], totals: GroupTotals) -> None:
        """Add groups of samples. rows: of each; when, tid: of each group's first sample."""
        size = len(self._rows)
        period, count, of_measures = totals
        self._first.add_moments(rows, size, when, tid)
        self._count.add(rows, count, size)
        self._period.add(rows, period, size)
        for name, measures in self._measures.items():
            measures.add(rows, of_measures[name], size)

    def _columns_here(self, part: PartialProfile, maps: NameMaps, symbolizer: Symbolizer) -> list[NDArray[Any]]:
        """Return the columns that identify a part's rows, in numbers of this profile."""
        event, mark, *rest = part.columns
        chains = [] if self._chains is None else [self._chains_here(part, maps, symbolizer)[rest.pop()]]
        columns: list[NDArray[Any]] = [event, mark]
        for name, numbers in zip(self._recipe.dimensions, rest, strict=True):
            if name == "raw":
                columns.append(self.raw.ids_of(part.payloads)[numbers])
            elif name == "frame":
                columns.append(self._merged_by_function(maps.frame[numbers], symbolizer))
            else:
                columns.append(maps.translate(name, numbers))
        return columns + chains

    def _chains_here(self, part: PartialProfile, maps: NameMaps, symbolizer: Symbolizer) -> NDArray[np.int32]:
        """Return this profile's number of each chain of a part."""
        assert self._chains is not None
        lengths, pieces = part.chain_lengths, [np.zeros(0, np.int32)]
        ends = np.cumsum(lengths)
        for rows in parts_of_chains(np.arange(len(lengths)), lengths):
            begin, end = int(ends[rows[0]] - lengths[rows[0]]), int(ends[rows[-1]])
            frames = self._merged_by_function(maps.frame[part.chain_frames[begin:end]], symbolizer)
            pieces.append(self._chains.add(frames, lengths[rows]))
        return np.concatenate(pieces)

    @property
    def chains(self) -> ChainSource | None:
        """The distinct callchains, or None."""
        return self._chains if self._runs is None else self._merged_rows[1]

    @property
    def folded(self) -> Folded:
        """The rows, in the order of first delivery."""
        return self._here if self._runs is None else self._merged_rows[0]

    @cached_property
    def _here(self) -> Folded:
        """The rows, all of them in memory."""
        size, columns = len(self._rows), self._rows.columns(is_narrow=self._is_delivered)
        chain = columns.pop() if self._chains is not None else np.full(size, -1, np.int32)
        when, tid = self._first.first_samples(size)
        rows = self._folded_of(columns, chain, tid, self._totals_of_rows())
        rows = rows if self._is_delivered else rows.take(when.order())
        chains = self._chains  # nothing is added any more: release the lookup tables, which are as large as the rows
        self._begin()
        self._chains = chains
        if chains is not None:
            chains.forget()
        return rows

    def _totals_of_rows(self) -> list[NDArray[np.int64]]:
        return [values.totals(len(self._rows)) for values in (self._period, self._count, *self._measures.values())]

    def _folded_of(self, keys: list[NDArray[Any]], chain: NDArray[Any], tid: NDArray[Any], totals: list[NDArray[np.int64]]) -> Folded:
        event, mark, *dimensions = keys
        period, count, *measures = totals
        by_name = (dict(zip(*pair, strict=True)) for pair in ((self._recipe.dimensions, dimensions), (self._recipe.measures, measures)))
        return Folded(event, mark.astype(np.bool_), chain, tid, period, count, *by_name)

    @cached_property
    def _merged_rows(self) -> tuple[Folded, ChainSource | None]:
        """The rows and chains, most of them from the file."""
        assert self._runs is not None
        if len(self._rows):
            self._to_file(self._runs)
        keys, totals, chain, tid, chains = self._runs.merge()
        return self._folded_of(keys, chain, tid, totals), chains

    def samples_of_frames(self) -> NDArray[np.int64]:
        """Return the number of samples, after filters, on each frame id; empty without the dimension of frames."""
        return samples_of_frames(self.folded)


def samples_of_frames(folded: Folded) -> NDArray[np.int64]:
    """Return the number of samples, after filters, on each frame id; empty without the dimension of frames."""
    frames = folded.dimensions.get("frame")
    if frames is None or not len(frames):
        return np.zeros(0, np.int64)
    return sum_by(frames, np.where(folded.filtered, 0, folded.count), int(frames.max()) + 1)


# groups of samples to remember, so that memory does not grow with the file
_KINDS_KEPT = 1 << 18
_ROWS_AT_ONCE: Final = 1 << 18  # numbered together: the intermediate arrays are larger than they are


# Find the first delivered sample of each row, from batches in the order of the file.
#
# So rows can be sorted into the order in which perf creates them, although the samples are never sorted.


_NEVER: Final = ~np.uint64(0)


class FirstDelivery:
    """The first sample of each row: its delivery order and its thread."""

    def __init__(self) -> None:
        self._rows_with_sample = 0  # all rows below have had a sample
        self._latest = np.uint64(0)  # the highest key of all samples
        self._size = 0  # rows; there is room for more
        self._key, self._time = (np.zeros(0, np.uint64) for _ in range(2))
        self._ordinal, self._tid = (np.zeros(0, np.int64) for _ in range(2))

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._key.nbytes + self._time.nbytes + self._ordinal.nbytes + self._tid.nbytes

    def add(self, ids: NDArray[np.int32], size: int, samples: SampleView) -> None:
        """Add a batch: the row of each sample, `size` rows so far. Its ordinals follow those of earlier batches."""
        self.add_moments(ids, size, samples.delivery, samples.task_numbers[1])

    def add_moments(self, ids: NDArray[np.int32], size: int, when: DeliveryOrder, tid: NDArray[Any]) -> None:
        """Add a batch by its delivery order and the thread of each sample."""
        if size > self._size:
            self._grow(size)
        key, time, ordinal = when
        rows = rows_where(ids >= self._rows_with_sample) if self._follow(key) else rows_where(key <= self._key[ids])
        rows = rows[(key[rows] < self._key[ids[rows]]) | (time[rows] < self._time[ids[rows]])]
        if not len(rows):
            return
        rows = rows[np.lexsort((time[rows], key[rows]))[::-1]]  # backwards, so that the first one is written last
        updated = ids[rows]
        self._key[updated], self._time[updated], self._ordinal[updated] = key[rows], time[rows], ordinal[rows]
        self._tid[updated] = tid[rows]
        without = rows_where(self._key[self._rows_with_sample : size] == _NEVER)
        self._rows_with_sample = self._rows_with_sample + int(without[0]) if len(without) else size

    def _follow(self, key: NDArray[np.uint64]) -> bool:
        """Whether these samples follow all others, in order: then only samples of new rows can be first ones."""
        if not len(key):
            return False
        before, self._latest = self._latest, max(self._latest, key.max())
        return bool(key[0] > before) and bool((key[1:] > key[:-1]).all())

    def _grow(self, size: int) -> None:
        """Extend the arrays to `size` rows."""
        if size > len(self._key):
            room, old = max(size, 2 * len(self._key)), slice(self._size)
            self._key, self._time, self._ordinal, self._tid = (
                _enlarge(values[old], room) for values in (self._key, self._time, self._ordinal, self._tid)
            )
        added = slice(self._size, size)
        self._key[added], self._time[added], self._ordinal[added], self._tid[added] = _NEVER, _NEVER, 0, 0
        self._size = size

    def first_samples(self, size: int) -> tuple[DeliveryOrder, NDArray[Any]]:
        """Return the delivery order and the thread of the first `size` rows."""
        return DeliveryOrder(self._key[:size], self._time[:size], self._ordinal[:size]), self._tid[:size]


class FirstThreads(FirstDelivery):
    """The thread of the first sample of each row, for samples that come in order of delivery."""

    def __init__(self) -> None:
        super().__init__()
        self._tids = Growing(np.int32)

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return int(self._tids.values.nbytes)

    def add_moments(self, ids: NDArray[np.int32], size: int, when: DeliveryOrder, tid: NDArray[Any]) -> None:
        """Add a batch by the thread of each sample."""
        first_new = len(self._tids.values)
        rows = rows_where(ids >= first_new)[::-1]  # backwards, so that the first one is written last
        threads = np.zeros(size - first_new, np.int32)
        threads[ids[rows] - first_new] = tid[rows]
        self._tids.append(threads)

    def first_samples(self, size: int) -> tuple[DeliveryOrder, NDArray[Any]]:
        """Return the order of the rows, which is that of their numbers, and the threads."""
        none = np.zeros(size, np.uint64)
        return DeliveryOrder(none, none, np.arange(size)), self._tids.values


def _enlarge(values: NDArray[Any], room: int) -> NDArray[Any]:
    """Copy the values into a larger array, whose unused pages take no memory."""
    grown = np.empty(room, values.dtype)
    grown[: len(values)] = values
    return grown


# frames of callchains to look up together
_FRAMES_AT_ONCE: Final = 1 << 17


def parts_of_chains(rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Split the rows into parts of a limited number of frames; lengths: of the chains of all rows."""
    if not len(rows):
        return
    reach = np.cumsum(lengths[rows])
    begin, total = 0, int(reach[-1])
    while begin < len(rows):
        frames_before = int(reach[begin - 1]) if begin else 0
        end = (
            len(rows)
            if total - frames_before <= _FRAMES_AT_ONCE
            else max(begin + 1, int(np.searchsorted(reach, frames_before + _FRAMES_AT_ONCE)))
        )
        yield rows[begin:end]
        begin = end


# Rows that another process folded, in numbers that any process with the same recording can interpret.
#
# Merged into the Profile of the samples before, they leave it as if it had folded all samples itself: same rows, same numbers, same
# order.


class PartialProfile(NamedTuple):
    """The folded rows of a part of a recording.

    Attributes:
        columns: the rows' identity, in the order of the Profile.
        chain_frames, chain_lengths: the distinct callchains.
        payloads: the distinct raw data.
        names: frames and comms beyond those of the recording's side-band.
        when, tid: of the first sample of each row.
        period, samples, measures: sums.
        warnings: one line for each skipped part.
    """

    columns: list[NDArray[np.int64]]
    chain_frames: NDArray[np.int32]
    chain_lengths: NDArray[np.int64]
    payloads: list[bytes]
    names: LearntNames
    when: DeliveryOrder
    tid: NDArray[np.int64]
    period: NDArray[np.int64]
    samples: NDArray[np.int64]
    measures: dict[str, NDArray[np.int64]]
    warnings: list[str] = []  # noqa: RUF012  # never changed


class LearntNames(NamedTuple):
    """The frames and comms that a process added to the frames_known and comms_known that existed when it began."""

    frames_known: int
    frames: FrameOrigins
    comms_known: int
    comms: list[str]


class NameMaps(NamedTuple):
    """Maps from the numbers of frames and comms of another process to those of this one."""

    frame: NDArray[np.int32]
    comm: NDArray[np.int32]

    def translate(self, dimension: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Translate the numbers of a dimension."""
        table = DIMENSIONS[dimension].table
        return numbers if not table else (self.frame if table == "frame" else self.comm)[numbers]


class KnownNames:
    """The number of frames and comms before a part is folded."""

    def __init__(self, symbolizer: Symbolizer, timeline: TaskTimeline) -> None:
        self._symbolizer, self._timeline = symbolizer, timeline
        self._frames, self._comms = len(symbolizer.frames), len(timeline.comms)

    def none(self) -> LearntNames:
        """Return no new names; a later call returns them all."""
        return LearntNames(self._frames, self._symbolizer.origins_since(len(self._symbolizer.frames)), self._comms, [])

    def learnt(self) -> LearntNames:
        """Return the frames and comms added since."""
        comms = self._timeline.comms[self._comms :]
        return LearntNames(self._frames, self._symbolizer.origins_since(self._frames), self._comms, comms)


def name_maps(names: LearntNames, symbolizer: Symbolizer, timeline: TaskTimeline) -> NameMaps:
    """Add the frames and comms of another process to this one's, in the same order."""
    frames = symbolizer.intern(names.frames)
    comm_numbers = [timeline.comm_number(comm) for comm in names.comms]
    return NameMaps(
        np.concatenate([np.arange(names.frames_known, dtype=np.int32), frames]),
        np.array([*range(names.comms_known), *comm_numbers], np.int32),
    )
