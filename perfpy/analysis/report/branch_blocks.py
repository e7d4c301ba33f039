"""Blocks of code between two branches, and their cycles: report --total-cycles.

Each event has the longest block up to each branch, with the cycles of all blocks that end there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import MISC_KERNEL, MISC_USER, BranchSample
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.analysis.dimensions import CYCLES_MASK, CYCLES_SHIFT, branch_frames, branch_samples
from perfpy.analysis.sample_view import DeliveryOrder, SampleView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters import SampleFilter
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer

#: the sample columns to read
COLUMNS: Final = frozenset({"branch_stack", "ip", "pid", "tid", "time", "cpumode"})


class Block(NamedTuple):
    """A block of code.

    Attributes:
        symbol: the function.
        start, end: offsets in the function.
        first, last: the frames of its first instruction and of the branch at its end.
        cycles, times: of all executions.
    """

    symbol: int
    start: int
    end: int
    first: int
    last: int
    cycles: int
    times: int

    @property
    def mean(self) -> int:
        """The mean cycles of an execution."""
        return self.cycles // self.times


class BlockTable(NamedTuple):
    """The blocks of an event, sorted by cycles.

    Attributes:
        branches: their number.
        cycles: of all blocks.
        means: 100 % of the column of means.
    """

    event: FileEvent
    branches: int
    cycles: int
    means: int
    blocks: list[Block]


class _Ends:
    """The blocks that end at one branch: the longest one, and the cycles of all."""

    __slots__ = ("cycles", "first", "last", "start", "times")

    def __init__(self) -> None:
        self.start, self.first, self.last, self.cycles, self.times = -1, -1, -1, 0, 0


class BlockSums:
    """The running sums of one event's blocks."""

    def __init__(self, event: FileEvent, timeline: TaskTimeline, symbolizer: Symbolizer) -> None:
        self._event = event
        self._timeline = timeline
        self._symbolizer = symbolizer
        kind = event.attr.branch_sample_type
        self._starts_known = not kind or bool(kind & BranchSample.ANY)
        self._ends: dict[tuple[int, int], _Ends] = {}
        self._entries: dict[int, int] = {}  # frame -> that of its function's first instruction
        self._rows: set[tuple[int, ...]] = set()  # of perf's report: a block counts once for each row that goes into its function
        self.branches = self.cycles = 0

    def add(self, view: SampleView) -> None:
        """Add samples of the event."""
        lengths = view.ragged_column("branch_stack", BRANCH_DTYPE).lengths
        branches = branch_samples(view)
        self.branches += len(branches)
        if not len(branches):
            return
        source, target = (branch_frames(branches, f"branch_{name}") for name in ("from", "to"))
        frames = self._symbolizer.resolve()
        cycles = branches.column("branch_flags") >> CYCLES_SHIFT & CYCLES_MASK
        first = np.cumsum(lengths) - lengths
        counted = np.repeat(cycles[first[lengths > 0]] > 0, lengths[lengths > 0])
        self.cycles += int(cycles[counted].sum())
        self._note_rows(branches, frames, source, target, cycles)
        before = np.append(target[1:], np.int32(-1))  # the target of the branch before, which is stored after it
        before[(first + lengths - 1)[lengths > 0]] = -1
        rows = np.flatnonzero(counted & (cycles > 0) & (frames.symbol[source] >= 0))
        self._enter(branches, source[rows], rows)
        columns = (source[rows].tolist(), before[rows].tolist(), cycles[rows].tolist())
        for (end, start, took), times in Counter(zip(*columns, strict=True)).items():
            self._account(end, start, took * times, times)

    def _note_rows(self, branches: SampleView, frames: Any, source: NDArray[Any], target: NDArray[Any], cycles: NDArray[Any]) -> None:
        comm = self._timeline.comm_ids(branches.column("tid"), branches.key)
        has_symbol = frames.symbol[source] >= 0
        origin = np.where(has_symbol, frames.symbol[source].astype(np.int64), -2 - source.astype(np.int64))
        rows = np.flatnonzero(frames.symbol[target] >= 0)
        columns = (frames.symbol[target], comm, origin, cycles)
        self._rows.update(zip(*(column[rows].tolist() for column in columns), strict=True))

    def _enter(self, branches: SampleView, source: NDArray[Any], rows: NDArray[Any]) -> None:
        """Resolve the first instructions of the functions of some frames."""
        frames, symbolizer = self._symbolizer.frames, self._symbolizer
        own, index = np.unique(source, return_index=True)
        chosen = rows[index]
        modes = np.where(frames.level[own] == ord("k"), MISC_KERNEL, MISC_USER).astype(np.uint8)
        entries = symbolizer.frame_ids(
            branches.column("pid")[chosen], frames.ip[own] - frames.symbol_offset[own], branches.key[chosen], modes
        )
        self._entries.update(zip(own.tolist(), entries.tolist(), strict=True))
        symbolizer.resolve()

    def _account(self, last: int, first: int, cycles: int, times: int) -> None:
        frames, symbols = self._symbolizer.frames, self._symbolizer.symbols
        symbol, address = int(frames.symbol[last]), int(frames.address[last])
        begin = symbols.start(symbol)
        block = self._ends.setdefault((symbol, address - begin), _Ends())
        block.last = last
        block.first = block.first if block.first >= 0 else self._entries[last]
        block.cycles += cycles
        block.times += times
        if not self._starts_known or first < 0 or int(frames.symbol[first]) != symbol or int(frames.address[first]) >= address:
            return
        start = int(frames.address[first]) - begin
        if block.start < 0 or start < block.start:
            block.start, block.first = start, first

    def table(self) -> BlockTable:
        """Return the blocks of functions that branches enter."""
        rows = Counter(row[0] for row in self._rows)
        blocks = [
            Block(symbol, max(ends.start, 0), end, ends.first, ends.last, ends.cycles, ends.times)
            for (symbol, end), ends in self._ends.items()
            if rows[symbol]
        ]
        means = sum(rows[block.symbol] * block.mean for block in blocks)
        blocks.sort(key=lambda block: (block.start, block.end))
        blocks.sort(key=lambda block: self._symbolizer.symbols.name(block.symbol), reverse=True)
        blocks.sort(key=lambda block: -block.cycles)
        return BlockTable(self._event, self.branches, self.cycles, means, blocks)


def block_tables(
    batches: Iterable[Batch], events: Sequence[FileEvent], timeline: TaskTimeline, symbolizer: Symbolizer, chosen: SampleFilter
) -> list[BlockTable]:
    """Return the blocks of each event."""
    adders = [BlockSums(event, timeline, symbolizer) for event in events]
    attrs = [event.attr for event in events]
    for batch in batches:
        view = SampleView(batch.columns, batch.event, DeliveryOrder(batch.key, batch.key, batch.offset), attrs, timeline, symbolizer)
        mask = np.ones(len(batch), bool) if chosen.is_open else chosen.passing_mask(view)
        for number in np.flatnonzero(np.bincount(batch.event[mask], minlength=len(events))).tolist():
            adders[number].add(view.take(np.flatnonzero(mask & (batch.event == number))))
    return [one.table() for one in adders]
