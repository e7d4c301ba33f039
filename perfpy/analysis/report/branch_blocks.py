"""Blocks of code between two branches: their cycles (report --total-cycles), their instructions per cycle (report -s symbol_to), and how
often control enters and leaves them (annotate). The types of branches (report -b).

A block is the longest one up to a branch, with the cycles and counts of all blocks that end there, of all events. A table has the blocks
of the functions that the branches of its events enter.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import BRANCH_TYPES, MISC_KERNEL, MISC_USER, NEW_BRANCH_TYPE, NEW_BRANCH_TYPES, BranchSample
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.analysis.dimensions import CYCLES_MASK, CYCLES_SHIFT, branch_frames, branch_samples
from perfpy.analysis.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.sort_key import Ipc
from perfpy.disassembly.disassembler import CodeStyle, Disassembler
from perfpy.disassembly.function_code import NoCodeError
from perfpy.symbols.interning import number_values, sum_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.report.options import EventGroups
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
        counts, most: the sum and the largest number of each branch counter.
    """

    symbol: int
    start: int
    end: int
    first: int
    last: int
    cycles: int
    times: int
    counts: list[int]
    most: list[int]

    @property
    def mean(self) -> int:
        """The mean cycles of an execution."""
        return self.cycles // self.times

    @property
    def mean_counts(self) -> list[int]:
        """The mean numbers of the branch counters, rounded up as perf does."""
        return [-(-count // self.times) for count in self.counts]


class BlockTable(NamedTuple):
    """The blocks of an event or a group, sorted by cycles.

    Attributes:
        title: the event's name, or the group's with the names of its events.
        is_group: whether the events were recorded as a group.
        branches: their number.
        cycles: of all blocks.
        means: 100 % of the column of means.
    """

    title: str
    is_group: bool
    branches: int
    cycles: int
    means: int
    blocks: list[Block]


class _Ends:
    """The blocks that end at one branch: the longest one, and the cycles and counts of all."""

    __slots__ = ("counts", "cycles", "first", "last", "most", "start", "times")

    def __init__(self, counters: int) -> None:
        self.start, self.first, self.last, self.cycles, self.times = -1, -1, -1, 0, 0
        self.counts, self.most = [0] * counters, [0] * counters


class _TableSums:
    """The running sums of one table.

    Attributes:
        events: their indexes.
        rows: of perf's report: a block counts once for each row that goes into its function.
        branches: their number.
    """

    def __init__(self, events: Sequence[int]) -> None:
        self.events = events
        self.rows: set[tuple[int, ...]] = set()
        self.branches = 0


class BlockSums:
    """The running sums of the blocks of all events.

    Args:
        groups: the events of each table.
        counters: the number of branch counters, and the bits of each.
    """

    def __init__(
        self, events: Sequence[FileEvent], timeline: TaskTimeline, symbolizer: Symbolizer, groups: EventGroups, counters: tuple[int, int]
    ) -> None:
        self._events = events
        self._timeline = timeline
        self._symbolizer = symbolizer
        self._groups = groups
        self._counters, self._bits = counters
        self._ends: dict[tuple[int, int], _Ends] = {}
        self._entries: dict[int, int] = {}  # frame -> that of its function's first instruction
        leaders = dict.fromkeys(groups.leader)
        self._tables = {leader: _TableSums([i for i, of in enumerate(groups.leader) if of == leader]) for leader in leaders}
        self._cycles = 0

    def add(self, event: int, view: SampleView) -> None:
        """Add samples of one event."""
        table = self._tables[self._groups.leader[event]]
        kind = self._events[event].attr.branch_sample_type
        starts_known = not kind or bool(kind & BranchSample.ANY)
        lengths = view.ragged_column("branch_stack", BRANCH_DTYPE).lengths
        branches = branch_samples(view)
        table.branches += len(branches)
        if not len(branches):
            return
        source, target = (branch_frames(branches, f"branch_{name}") for name in ("from", "to"))
        frames = self._symbolizer.resolve()
        cycles = branches.column("branch_flags") >> CYCLES_SHIFT & CYCLES_MASK
        counted, before = _counted(lengths, cycles, target)
        self._cycles += int(cycles[counted].sum())
        table.rows.update(self._rows(branches, frames, source, target, cycles))
        rows = np.flatnonzero(counted & (cycles > 0) & (frames.symbol[source] >= 0))
        self._enter(branches, source[rows], rows)
        has_counts = self._counters and kind & BranchSample.COUNTERS
        words = view.ragged_column("branch_counters", np.dtype(np.uint64)).values[rows] if has_counts else np.zeros(len(rows), np.uint64)
        columns = (source[rows].tolist(), (before[rows] if starts_known else np.full(len(rows), -1)).tolist(), cycles[rows].tolist())
        for (end, start, took, word), times in Counter(zip(*columns, words.tolist(), strict=True)).items():
            self._account(end, start, took * times, times, word)

    def _rows(
        self, branches: SampleView, frames: Any, source: NDArray[Any], target: NDArray[Any], cycles: NDArray[Any]
    ) -> Iterator[tuple[int, ...]]:
        comm = self._timeline.comm_ids(branches.column("tid"), branches.key)
        has_symbol = frames.symbol[source] >= 0
        origin = np.where(has_symbol, frames.symbol[source].astype(np.int64), -2 - source.astype(np.int64))
        rows = np.flatnonzero(frames.symbol[target] >= 0)
        columns = (frames.symbol[target], comm, origin, cycles)
        return zip(*(column[rows].tolist() for column in columns), strict=True)

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

    def _account(self, last: int, first: int, cycles: int, times: int, counters: int) -> None:
        frames, symbols = self._symbolizer.frames, self._symbolizer.symbols
        symbol, address = int(frames.symbol[last]), int(frames.address[last])
        begin = symbols.start(symbol)
        block = self._ends.setdefault((symbol, address - begin), _Ends(self._counters))
        block.last = last
        block.first = block.first if block.first >= 0 else self._entries[last]
        block.cycles += cycles
        block.times += times
        for index in range(self._counters):
            count = counters >> index * self._bits & (1 << self._bits) - 1
            block.counts[index] += count * times
            block.most[index] = max(block.most[index], count)
        if first < 0 or int(frames.symbol[first]) != symbol or int(frames.address[first]) >= address:
            return
        start = int(frames.address[first]) - begin
        if block.start < 0 or start < block.start:
            block.start, block.first = start, first

    def tables(self) -> Iterator[BlockTable]:
        """Yield the tables, each with the blocks of functions that its branches enter."""
        for leader, table in self._tables.items():
            names = ", ".join(self._events[event].name for event in table.events)
            title = self._groups.titles.get(leader, "") if len(table.events) > 1 else ""
            is_group = self._groups.sizes.get(leader, len(table.events)) > 1
            yield self._table(table, f"{title} {{ {names} }}" if title else names, is_group)

    def _table(self, table: _TableSums, title: str, is_group: bool) -> BlockTable:
        rows = Counter(row[0] for row in table.rows)
        blocks = [
            Block(symbol, max(ends.start, 0), end, ends.first, ends.last, ends.cycles, ends.times, ends.counts, ends.most)
            for (symbol, end), ends in self._ends.items()
            if rows[symbol]
        ]
        means = sum(rows[block.symbol] * block.mean for block in blocks)
        blocks.sort(key=lambda block: (block.start, block.end))
        blocks.sort(key=lambda block: self._symbolizer.symbols.name(block.symbol), reverse=True)
        blocks.sort(key=lambda block: -block.cycles)
        return BlockTable(title, is_group, table.branches, self._cycles, means, blocks)


def _counted(lengths: NDArray[Any], cycles: NDArray[Any], target: NDArray[np.int32]) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Return which branches count, those of samples whose newest branch has cycles, and the target of the branch before each (-1: none)."""
    lengths = lengths[lengths > 0]
    first = np.cumsum(lengths) - lengths
    before = np.append(target[1:], np.int32(-1))  # the branch before is stored after it
    before[first + lengths - 1] = -1
    return np.repeat(cycles[first] > 0, lengths), before


class FunctionIpc:
    """The instructions per cycle of functions, from the cycles that branches record.

    Of the blocks that end at one branch, the longest one counts, with all its executions. Both of its ends must be beginnings of
    instructions. objdump: the program to disassemble with; "" for the one in PATH.
    """

    def __init__(self, symbolizer: Symbolizer, objdump: str = "") -> None:
        self._symbolizer = symbolizer
        self._disassembler = Disassembler(symbolizer, CodeStyle(source=False, program=objdump))
        self._blocks = np.empty((5, 0), np.int64)  # symbol, offsets of the end and the start, cycles, times; sorted, one block for each end
        self._known: dict[int, Ipc] = {}

    def add(self, view: SampleView) -> None:
        """Add samples."""
        lengths = view.ragged_column("branch_stack", BRANCH_DTYPE).lengths
        branches = branch_samples(view)
        if not len(branches):
            return
        source, target = (branch_frames(branches, f"branch_{name}") for name in ("from", "to"))
        frames = self._symbolizer.resolve()
        cycles = (branches.column("branch_flags") >> CYCLES_SHIFT & CYCLES_MASK).astype(np.int64)
        counted, before = _counted(lengths, cycles, target)
        rows = np.flatnonzero(counted & (cycles > 0) & (before >= 0))
        pairs, pair_of = number_values(source[rows].astype(np.int64) << 32 | before[rows])
        total, times = sum_by(pair_of, cycles[rows], len(pairs)), np.bincount(pair_of, minlength=len(pairs))
        end, start = pairs >> 32, pairs & 0xFFFFFFFF
        symbol = frames.symbol[end]
        offsets = frames.symbol_offset[end].astype(np.int64), frames.symbol_offset[start].astype(np.int64)
        is_block = (symbol >= 0) & (symbol == frames.symbol[start]) & (offsets[1] < offsets[0])
        columns = symbol, *offsets, total, times
        self._keep_longest(np.array([column[is_block] for column in columns], np.int64))

    def _keep_longest(self, added: NDArray[np.int64]) -> None:
        blocks = np.hstack([self._blocks, added])
        blocks = blocks[:, np.lexsort(blocks[2::-1])]
        is_first = np.append(True, (np.diff(blocks[:2]) != 0).any(axis=0))[: blocks.shape[1]]
        end_of = np.cumsum(is_first) - 1
        longest = blocks[:, is_first]
        same = blocks[2] == longest[2][end_of]
        for row in (3, 4):
            longest[row] = sum_by(end_of[same], blocks[row][same], longest.shape[1])
        self._blocks = longest

    def __call__(self, symbol: int) -> Ipc:
        """Return the IPC of a function; 0 without blocks or code, as perf does."""
        if symbol not in self._known:
            self._known[symbol] = self._ipc(symbol)
        return self._known[symbol]

    def _ipc(self, symbol: int) -> Ipc:
        low, high = np.searchsorted(self._blocks[0], (symbol, symbol + 1)).tolist()
        function = next(self._disassembler.functions([symbol])) if low < high else None
        if function is None or isinstance(function, NoCodeError):
            return Ipc(0.0, 0.0)
        code = np.array([line.offset for line in function.lines if line.is_code], np.int64)
        end, start, cycles, times = self._blocks[1:, low:high]
        covered = np.isin(end, code) & np.isin(start, code)
        instructions = np.searchsorted(code, end[covered]) - np.searchsorted(code, start[covered]) + 1
        coverage = 100.0 * len(instructions) / len(code) if len(code) and not code[0] else 0.0
        return Ipc(int((instructions * times[covered]).sum()) / max(int(cycles[covered].sum()), 1), coverage)


def function_ipc(
    batches: Iterable[Batch],
    events: Sequence[FileEvent],
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    chosen: SampleFilter,
    objdump: str = "",
) -> FunctionIpc:
    """Return the IPC of functions. As in perf, filters of rows (tasks, files, functions) do not apply to it."""
    ipc = FunctionIpc(symbolizer, objdump)
    if not any(event.attr.branch_sample_type & BranchSample.ANY for event in events):
        return ipc  # other branches lie between those of a sample
    chosen.begin()
    for view in _views(batches, events, timeline, symbolizer):
        ipc.add(view.take(chosen.passing_rows(view)))
    return ipc


def _views(batches: Iterable[Batch], events: Sequence[FileEvent], timeline: TaskTimeline, symbolizer: Symbolizer) -> Iterator[SampleView]:
    attrs = [event.attr for event in events]
    for batch in batches:
        yield SampleView(batch.columns, batch.event, DeliveryOrder(batch.key, batch.key, batch.offset), attrs, timeline, symbolizer)


_TYPE_SHIFT: Final = np.uint64(20)  # of a branch's flags: 4 bits
_NEW_TYPE_SHIFT: Final = np.uint64(26)  # 4 bits
_TYPE_MASK: Final = np.uint64(15)
_CONDITIONAL: Final = BRANCH_TYPES.index("COND")
_AREAS: Final = (("CROSS_2M", np.uint64(21)), ("CROSS_4K", np.uint64(12)))  # the larger one alone counts


def branch_kinds(
    batches: Iterable[Batch], events: Sequence[FileEvent], timeline: TaskTimeline, symbolizer: Symbolizer, chosen: SampleFilter
) -> dict[str, int]:
    """Return how many branches each type has, in perf's order, and how many go forward, backward or far.

    Branches without a type are left out. The types that Linux 6.1 added are not counted in the first ones.
    """
    counts: Counter[str] = Counter()
    for view in _views(batches, events, timeline, symbolizer):
        branches = branch_samples(view.take(chosen.passing_rows(view)))
        start, end, word = (branches.column(f"branch_{name}") for name in ("from", "to", "flags"))
        kind = word >> _TYPE_SHIFT & _TYPE_MASK
        rows = np.flatnonzero((kind > 0) & (start > 0))
        start, end, kind, new_kind = start[rows], end[rows], kind[rows], word[rows] >> _NEW_TYPE_SHIFT & _TYPE_MASK
        is_conditional, is_new = kind == _CONDITIONAL, kind == NEW_BRANCH_TYPE
        counts["COND_FWD"] += int((is_conditional & (end > start)).sum())
        counts["COND_BWD"] += int((is_conditional & (end <= start)).sum())
        is_near = np.ones(len(rows), bool)
        for name, shift in _AREAS:
            crosses = is_near & (start >> shift != end >> shift)
            counts[name] += int(crosses.sum())
            is_near &= ~crosses
        of_types: list[tuple[tuple[str, ...], NDArray[Any]]] = [(BRANCH_TYPES, kind[~is_new]), (NEW_BRANCH_TYPES, new_kind[is_new])]
        for types, numbers in of_types:
            for name, number in zip(types, np.bincount(numbers.astype(np.int64), minlength=len(types)).tolist(), strict=False):
                counts[name] += number
    names = ("COND_FWD", "COND_BWD", "CROSS_4K", "CROSS_2M", *BRANCH_TYPES, *NEW_BRANCH_TYPES)
    return {name: counts[name] for name in names if counts[name]}


class BranchShares(NamedTuple):
    """What branches do at an instruction, in percent.

    Attributes:
        joined: of the executions that reach the next branch, those that jump to this instruction.
        left: of the executions of this branch, those that take it.
        predicted: of these, those that the CPU predicted.
    """

    joined: float
    left: float
    predicted: float


class _BlockCounts:
    """The blocks of one file: how many begin and end at each address, and how many contain it."""

    def __init__(self, blocks: Iterable[tuple[int, ...]]) -> None:
        start, end, count, predicted = (np.array(column, np.int64) for column in zip(*blocks, strict=True))
        self.starts, index = np.unique(start, return_inverse=True)
        self.entered = sum_by(index, count, len(self.starts))
        self.ends, index = np.unique(end, return_inverse=True)
        self.taken, self.predicted = (sum_by(index, column, len(self.ends)) for column in (count, predicted))

    def shares(self, addresses: NDArray[np.int64]) -> Iterator[tuple[int, BranchShares]]:
        """Yield the row and the shares of the addresses where blocks begin or end."""
        entered, taken = np.append(0, np.cumsum(self.entered)), np.append(0, np.cumsum(self.taken))
        coverage = entered[np.searchsorted(self.starts, self.ends, "right")] - taken[:-1]  # of each end
        at_start = np.minimum(np.searchsorted(self.starts, addresses), len(self.starts) - 1)
        at_end = np.minimum(np.searchsorted(self.ends, addresses), len(self.ends) - 1)
        joined = np.where(self.starts[at_start] == addresses, 100.0 * self.entered[at_start] / coverage[at_end], 0.0)
        is_end = self.ends[at_end] == addresses
        left = np.where(is_end, 100.0 * self.taken[at_end] / coverage[at_end], 0.0)
        predicted = 100.0 * self.predicted[at_end] / self.taken[at_end]
        for row in np.flatnonzero((joined > 0) | is_end).tolist():
            yield row, BranchShares(float(joined[row]), float(left[row]), float(predicted[row]))


class BranchCoverage:
    """The blocks that ran between two branches of a sample, by file."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[tuple[int, int], list[int]]] = {}
        self._counts: dict[int, _BlockCounts] = {}

    def add(self, view: SampleView) -> None:
        """Add samples. A block goes from the target of a branch to the next branch, which precedes it in the sample."""
        lengths = view.ragged_column("branch_stack", BRANCH_DTYPE).lengths
        branches = branch_samples(view)
        if not len(branches):
            return
        first = (np.cumsum(lengths) - lengths)[lengths > 0]
        begin = np.delete(np.arange(len(branches)), first)
        start, end = branches.column("branch_to")[begin], branches.column("branch_from")[begin - 1]
        begin = begin[(start > 0) & (start <= end)]
        source, target = (branch_frames(branches, f"branch_{name}") for name in ("from", "to"))
        view.symbolizer.resolve()
        frames = view.symbolizer.frames
        begin = begin[(frames.dso[target[begin]] >= 0) & (frames.dso[target[begin]] == frames.dso[source[begin - 1]])]
        is_predicted = branches.column("branch_flags")[begin - 1] >> np.uint64(1) & np.uint64(1)
        columns = (frames.dso[target[begin]], frames.address[target[begin]], frames.address[source[begin - 1]], is_predicted)
        for (dso, low, high, predicted), count in Counter(zip(*(column.tolist() for column in columns), strict=True)).items():
            runs = self._blocks.setdefault(dso, {}).setdefault((low, high), [0, 0])
            runs[0] += count
            runs[1] += count * predicted

    def shares(self, dso: int, addresses: NDArray[np.int64]) -> Iterator[tuple[int, BranchShares]]:
        """Yield the row and the shares of those of a file's addresses where blocks begin or end."""
        if dso not in self._blocks:
            return
        if dso not in self._counts:
            self._counts[dso] = _BlockCounts((*ends, *runs) for ends, runs in self._blocks[dso].items())
        yield from self._counts[dso].shares(addresses)


def branch_coverage(
    batches: Iterable[Batch], events: Sequence[FileEvent], timeline: TaskTimeline, symbolizer: Symbolizer, chosen: SampleFilter
) -> BranchCoverage:
    """Return the blocks that the chosen samples ran."""
    coverage = BranchCoverage()
    for view in _views(batches, events, timeline, symbolizer):
        coverage.add(view if chosen.is_open else view.take(np.flatnonzero(chosen.passing_mask(view))))
    return coverage


def block_tables(
    batches: Iterable[Batch],
    events: Sequence[FileEvent],
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    chosen: SampleFilter,
    groups: EventGroups,
    counters: tuple[int, int],
) -> list[BlockTable]:
    """Return a table of each event or group. counters: see BlockSums."""
    running = BlockSums(events, timeline, symbolizer, groups, counters)
    for view in _views(batches, events, timeline, symbolizer):
        mask = np.ones(len(view), bool) if chosen.is_open else chosen.passing_mask(view)
        for number in np.flatnonzero(np.bincount(view.event[mask], minlength=len(events))).tolist():
            running.add(number, view.take(np.flatnonzero(mask & (view.event == number))))
    return list(running.tables())
