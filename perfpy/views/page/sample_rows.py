"""The samples of a page as columns, and levels of detail of very many of them.

A page of few samples has all of them at once. Above a limit it has an overview, evenly chosen samples that stand for their neighbours;
sums over the whole recording, which are exact; and chunks with all samples, which the scripts read when a short range is in view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.samples.row_hashes import combine_columns
from perfpy.symbols.interning import IdTable
from perfpy.views.page.packing import packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK: Final = 1 << 17  # samples
_BLOCK: Final = 1 << 16  # samples; most keys of a block are known from those before
_MOST_SUMS: Final = 1_000_000
_SPREAD: Final = 2654435761  # spreads consecutive numbers (Knuth's multiplicative hash)


class SampleRows(NamedTuple):
    """The samples of one event of one recording. All columns are of integers, as narrow as the recording's.

    Attributes:
        node, weight: of each.
        samples: how many samples each stands for.
        time: since the first, in ns or ticks; task, cpu: may be empty.
        site: number in code, may be empty.
    """

    node: NDArray[Any]
    weight: NDArray[Any]
    samples: NDArray[Any]
    time: NDArray[Any]
    task: NDArray[Any]
    cpu: NDArray[Any]
    site: NDArray[Any]

    def take(self, rows: NDArray[np.int64] | slice) -> SampleRows:
        """Select samples."""
        return SampleRows(*(column[rows] if len(column) else column for column in self))

    def in_ticks(self, tick: int) -> SampleRows:
        """Return the samples in order of time, with times in ticks, which must be below 1 << 31."""
        is_ordered = bool((self.time[1:] >= self.time[:-1]).all())
        rows = self if is_ordered else self.take(np.argsort(self.time, kind="stable"))
        ticks = np.empty(len(rows.time), np.int32)
        np.floor_divide(rows.time, tick, out=ticks, casting="unsafe")
        return rows._replace(time=ticks)

    def choose_evenly(self, each: int) -> tuple[SampleRows, NDArray[np.int64]]:
        """Return one of each `each` samples, with the weight of all of them, and its row.

        Which one depends on a hash: samples of several CPUs come in turns, and every n-th could always be of the same CPU.
        """
        begins = np.arange(0, len(self.node), each)
        sizes = np.minimum(each, len(self.node) - begins)
        spread = (np.arange(len(begins), dtype=np.uint64) * np.uint64(_SPREAD) & np.uint64(0xFFFFFFFF)) >> np.uint64(8)
        chosen = begins + (spread % sizes.astype(np.uint64)).astype(np.int64)
        weight, samples = (np.add.reduceat(column, begins, dtype=np.int64) for column in (self.weight, self.samples))
        return self.take(chosen)._replace(weight=weight, samples=samples), chosen

    def choose_longest(self, count: int) -> tuple[SampleRows, NDArray[np.int64]]:
        """Return the samples with most weight, and their rows: sums of neighbours would be waits that did not happen."""
        chosen = np.sort(np.argpartition(self.weight, -count)[-count:]) if count < len(self.node) else np.arange(len(self.node))
        return self.take(chosen), chosen

    def without_times(self) -> SampleRows | None:
        """Return the samples without times, equal ones added up; None if too many differ."""
        keys = [column for column in (self.task, self.cpu, self.node, self.site) if len(column)]
        table, blocks, first = IdTable(), [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for begin in range(0, len(self.node), _BLOCK):
            ids, new = table.ids_and_new(combine_columns([column[begin : begin + _BLOCK] for column in keys]))
            blocks.append(ids)
            first.append(new + begin)
            if len(table) > _MOST_SUMS:
                return None
        number = np.concatenate(blocks)
        weight, samples = (sum_by(number, column, len(table)) for column in (self.weight, self.samples))
        return self.take(np.concatenate(first))._replace(weight=weight, samples=samples, time=self.time[:0])


class Levels(NamedTuple):
    """Levels of detail of many samples.

    Attributes:
        overview: samples of the whole recording that stand for all.
        totals: all samples without times; None if too many differ.
        chunks: all samples, some at a time.
        bounds: the first row in the overview of each chunk, and the number of rows.
    """

    overview: SampleRows
    totals: SampleRows | None
    chunks: list[SampleRows]
    bounds: list[int]

    @classmethod
    def of(cls, rows: SampleRows, each: int, *, are_waits: bool) -> Levels:
        """Return the levels of samples in order of time; the overview has one of each `each`, of waits the longest."""
        size = each * max(1, _CHUNK // each)
        overview, chosen = rows.choose_longest(max(1, len(rows.node) // each)) if are_waits else rows.choose_evenly(each)
        begins = np.arange(0, len(rows.node), size)
        chunks = [rows.take(slice(begin, begin + size)) for begin in begins.tolist()]
        return cls(overview, rows.without_times(), chunks, [*np.searchsorted(chosen, begins).tolist(), len(chosen)])


def distinct_of_blocks(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values in ascending order, without a sorted copy of all of them."""
    blocks = [distinct(values[begin : begin + _BLOCK]) for begin in range(0, len(values), _BLOCK)]
    return distinct(np.concatenate([values[:0], *blocks]))


def _positions(known: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.int32]:
    """Return the position of each value among the known ones."""
    positions = np.empty(len(values), np.int32)
    for begin in range(0, len(values), _BLOCK):
        positions[begin : begin + _BLOCK] = np.searchsorted(known, values[begin : begin + _BLOCK])
    return positions


class TasksAndCpus(NamedTuple):
    """All tasks and CPUs of a page, sorted: samples have their numbers."""

    tasks: NDArray[np.int64]
    cpus: NDArray[np.int64]

    def packed(self, rows: SampleRows) -> dict[str, Any]:
        """Return the columns of some samples."""
        columns = {"node": packed(rows.node), "weight": packed(rows.weight), "count": packed(rows.samples)}
        if len(rows.task):
            columns["thread"] = packed(_positions(self.tasks, rows.task))
            columns["cpu"] = packed(_positions(self.cpus, rows.cpu))
        if len(rows.site):
            columns["site"] = packed(rows.site)
        if len(rows.time):
            columns["time"] = packed(rows.time, ascending=True)
        return columns

    def packed_levels(self, levels: Levels) -> dict[str, Any]:
        """Return the columns of the overview and the sums, and for each chunk its rows in the overview and its ticks."""
        rows = zip(levels.bounds, levels.bounds[1:], strict=False)
        chunks = [[*of_overview, int(chunk.time[0]), int(chunk.time[-1])] for of_overview, chunk in zip(rows, levels.chunks, strict=True)]
        totals = {"sums": self.packed(levels.totals)} if levels.totals is not None else {}
        return {**self.packed(levels.overview), **totals, "chunks": chunks}
