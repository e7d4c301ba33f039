"""Shares of the lines of source files: each line's own, and with inlined code and calls.

Functions that a runtime names with their source file count for the
line that runs, or for the line where they begin if that is unknown,
including the runtime's work for them. Callchains tell the lines of
calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, row_blocks, slices_index, smallest_type
from perfpy.abi.flags import SampleType
from perfpy.analysis.aggregate.profile import FoldingPlan
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.annotation import NamedLines
from perfpy.analysis.locations import NOWHERE, Locations
from perfpy.debuginfo.debug_info import DebugInfos
from perfpy.symbols.dso import is_c_library, is_runtime
from perfpy.symbols.interning import sum_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import ChainSource, Folded
    from perfpy.analysis.filters import SampleFilter
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer

    Int64 = NDArray[np.int64]


_KERNEL: Final = ord("k")
_BLOCK: Final = 1 << 18  # callers that are looked at together


class SourceLine(NamedTuple):
    """A line; percent: its own share of the event; with_inlined: including what it calls, inlined code or not; samples: its own."""

    line: int
    percent: float
    with_inlined: float
    samples: int


class SourceFile(NamedTuple):
    """A file: the share of its own lines, the share with inlined code and calls, and its lines in order."""

    path: str
    percent: float
    with_inlined: float
    lines: list[SourceLine]


class FrameLines(NamedTuple):
    """The known lines of frames: those of inlined code, too.

    Attributes:
        paths: of files.
        frame: of each line, ascending.
        file: index into paths.
        is_own: whether the line is that of the innermost function.
    """

    paths: list[str]
    frame: Int64
    file: Int64
    line: Int64
    is_own: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[FrameLines]) -> FrameLines:
        """Return the lines of the frames of several events."""
        if len(parts) == 1:
            return parts[0]
        number_of: dict[str, int] = {}
        files = [np.array([number_of.setdefault(path, len(number_of)) for path in part.paths], np.int64)[part.file] for part in parts]
        none = np.zeros((4, 0), np.int64)
        columns = [np.stack([part.frame, file, part.line, part.is_own]) for part, file in zip(parts, files, strict=True)]
        frame, file, line, own = np.unique(np.concatenate([none, *columns], axis=1), axis=1)
        return cls(list(number_of), frame, file, line, own.astype(np.bool_))

    def of_file(self, path: str) -> tuple[Int64, Int64, NDArray[np.bool_]]:
        """Return frames, lines, and which lines are frames' own, in one file."""
        rows = np.flatnonzero(self.file == self.paths.index(path)) if path in self.paths else np.zeros(0, np.int64)
        return self.frame[rows], self.line[rows], self.is_own[rows]


class SourceShares(NamedTuple):
    """The files of one event's samples.

    Attributes:
        without_lines: files of code -> the share of samples there without known lines.
        with_calls: whether shares with inlined code also have calls of other functions: the event has callchains.
        frame_lines: the lines of frames.
    """

    event: str
    samples: int
    files: list[SourceFile]
    without_lines: dict[str, float]
    with_calls: bool = False
    frame_lines: FrameLines | None = None


class _Callers(NamedTuple):
    """The distinct callers in the callchains of consecutive rows.

    Attributes:
        begin, end: the rows.
        state: of each caller (_state).
        row: of each caller, ascending, counted from `begin`.
    """

    begin: int
    end: int
    state: NDArray[np.integer[Any]]
    row: NDArray[np.integer[Any]]


class _LineRows(NamedTuple):
    """Rows of equal samples: frame, percentage of the event and number of samples of each row.

    Attributes:
        callers: of all rows, some rows at a time; None without callchains.
    """

    frame: Int64
    percent: NDArray[np.float64]
    samples: Int64
    callers: list[_Callers] | None


def source_scan(data: SampleSource, timeline: TaskTimeline, symbolizer: Symbolizer, sample_filter: SampleFilter) -> SampleScan:
    """Return the scan that folds samples for source_shares()."""
    chains = any(event.attr.sample_type & SampleType.CALLCHAIN for event in data.events)
    return SampleScan(data, timeline, symbolizer, FoldingPlan(("frame",), sample_filter, chains=chains))


def source_shares(
    data: SampleSource, symbolizer: Symbolizer, sample_filter: SampleFilter, folded: Folded, table: ChainSource | None
) -> list[SourceShares]:
    """Return the shares of each event with samples.

    folded: samples of the filter by address; table: their callchains, if source_scan() has them.
    """
    locations = Locations(symbolizer)
    unfiltered = ~folded.filtered & ~sample_filter.mark_frames(locations)[folded.dimensions["frame"]]
    frames = line_frames(folded, table, locations)
    shares = []
    for event in data.events:
        of_event = folded.event == event.index
        if of_event.any():
            total = int(folded.period[of_event].sum()) or 1
            rows = np.flatnonzero(of_event & unfiltered)
            percent = (100.0 / total * folded.period[rows]).astype(np.float64)
            callers = None
            if table is not None and event.attr.sample_type & SampleType.CALLCHAIN:
                callers = _callers(folded.chain[rows], table, locations, unwound=data.has(SampleType.STACK_USER))
            shares.append(_shares(event.name, _LineRows(frames[rows], percent, folded.count[rows], callers), symbolizer))
    return shares


def _callers(chain: Int64, table: ChainSource, locations: Locations, *, unwound: bool) -> list[_Callers]:
    """Return the distinct states (_state) of the callers in each row's callchain. unwound: by copies of user stacks."""
    frames, offsets = table.chains()
    lengths = np.diff(offsets)[chain]
    is_runtime_code = np.array([bool(dso.made_code) for dso in locations.dsos] + [False], np.bool_)
    blocks, states = [], 2 * len(locations.level)
    for begin, end in row_blocks(np.append(0, np.cumsum(lengths)), _BLOCK):
        index, _ = slices_index(offsets[chain[begin:end]], lengths[begin:end])
        row = np.repeat(np.arange(end - begin), lengths[begin:end])
        index, row = index[frames[index] >= 0], row[frames[index] >= 0]
        callers = frames[index].astype(np.int64)
        # The first frame of user space and of the kernel is where they were interrupted; other addresses are those after a call.
        # Unwound callers have addresses within their calls, and those that a signal interrupted the address of their next instruction.
        levels = locations.level[callers]
        is_call = levels == _KERNEL if unwound else np.ones(len(row), np.bool_)
        for level in distinct(levels).tolist():
            of_level = np.flatnonzero(levels == level)
            is_call[of_level[np.diff(row[of_level], prepend=-1) > 0]] = False
        # a recursive function counts once
        row, state = _distinct_pairs(row, _state(callers, is_call & ~is_runtime_code[locations.dso[callers]]), states)
        blocks.append(_Callers(begin, end, state.astype(smallest_type(states)), row.astype(smallest_type(end - begin))))
    return blocks


def _distinct_pairs(first: NDArray[Any], second: NDArray[Any], most: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct pairs of numbers in ascending order; most: above every second number."""
    most = max(most, 1)
    pairs = first.astype(np.int64) * most + second
    if len(pairs) and int(first.max()) < (1 << 31) // most - 1:
        pairs = pairs.astype(np.int32)  # sorted in half the time
    pairs = distinct(pairs)
    return pairs // most, pairs % most


def _state(frames: Int64, is_call: NDArray[np.bool_] | bool) -> Int64:
    """Return frames' ids times two, plus 1 for callers, whose address is after the call."""
    states: Int64 = frames << 1 | is_call
    return states


def _shares(name: str, rows: _LineRows, symbolizer: Symbolizer) -> SourceShares:
    """Return the shares of some rows."""
    count, own = len(rows.frame), _state(rows.frame, False)
    callers = [_Callers(0, count, *np.zeros((2, 0), np.int32))] if rows.callers is None else rows.callers
    is_present = np.zeros(2 * len(symbolizer.frames), np.bool_)
    is_present[own] = True
    for block in callers:
        is_present[block.state] = True
    states = np.flatnonzero(is_present)
    position = np.cumsum(is_present) - 1  # of each state among those present
    which = position[own]
    percent = np.bincount(which, rows.percent, len(states)).astype(np.float64)
    lines = _Lines(symbolizer, states)
    blocks = (
        (
            np.concatenate([np.arange(block.end - block.begin), block.row]),
            np.concatenate([which[block.begin : block.end], position[block.state]]),
            rows.percent[block.begin : block.end],
        )
        for block in callers
    )
    files = lines.files(percent, sum_by(which, rows.samples, len(states)), blocks)
    return SourceShares(name, int(rows.samples.sum()), files, lines.without_lines(percent), rows.callers is not None, lines.of_frames())


def line_frames(folded: Folded, table: ChainSource | None, locations: Locations) -> Int64:
    """Return the frame that each row's source line counts for.

    With callchains, samples in a runtime, the C library or the kernel count for the function named by the runtime that they work for.
    """
    is_runtime_code = np.array([bool(dso.made_code) for dso in locations.dsos] + [False], np.bool_)
    if table is None or not is_runtime_code.any():
        return folded.dimensions["frame"]
    frames, offsets = table.chains()
    serves = np.array([is_runtime(dso) or dso.kernel or is_c_library(dso) for dso in locations.dsos] + [False])
    position = np.append(np.where(is_runtime_code[locations.dso[frames]], np.arange(len(frames)), len(frames)), len(frames))
    first = np.minimum.reduceat(position, np.minimum(offsets[:-1], len(frames))) if len(offsets) > 1 else np.zeros(0, np.int64)
    first = np.where(first < offsets[1:], first, len(frames))  # for empty chains, reduceat gives the next one's
    runtime_callers = np.append(frames, np.int32(NOWHERE))[first][folded.chain]
    own = folded.dimensions["frame"]
    callers: Int64 = np.where(serves[locations.dso[own]] & (runtime_callers >= 0), runtime_callers, own).astype(np.int64)
    return callers


class _Lines:
    """The lines of some frames, innermost first. states: of the frames, ascending."""

    def __init__(self, symbolizer: Symbolizer, states: Int64) -> None:
        self._symbolizer = symbolizer
        self._is_call = states & 1 != 0
        self._frames = (states >> 1).astype(np.int32)
        chains, counts = self._expanded()
        symbolizer.resolve()
        infos, lines = DebugInfos(symbolizer), NamedLines()
        back = np.repeat(self._is_call, counts) & (symbolizer.frames.dso[chains] >= 0)
        code_lines = infos.code_lines(chains.astype(np.int64), back.astype(np.uint64))
        self._paths = infos.paths
        file, line = code_lines.file.copy(), code_lines.line.copy()
        for position in np.flatnonzero(self._is_named(chains)).tolist():
            if line[position]:
                continue
            path, number = lines.of(symbolizer.symbols.name(int(symbolizer.frames.symbol[chains[position]])))
            if path:
                file[position], line[position] = self._number(path), number
        file[line == 0] = np.where(self._is_named(chains)[line == 0], file[line == 0], NOWHERE)
        self._chain = np.repeat(np.arange(len(states)), counts)
        self._first = np.cumsum(counts) - counts
        self._file, self._line = file, line

    def _expanded(self) -> tuple[NDArray[np.int32], Int64]:
        """Return each frame with those of the functions inlined there, and their number."""
        counts = np.ones(len(self._frames), np.int64)
        parts: list[NDArray[np.int32]] = []
        for calls in (False, True):
            rows = np.flatnonzero(self._is_call == calls)
            part, counts[rows] = self._symbolizer.expand(self._frames[rows], counts[rows], calls=calls)
            parts.append(part)
        chains = np.concatenate(parts)
        order = np.argsort(
            np.concatenate([np.repeat(rows, counts[rows]) for rows in map(np.flatnonzero, (~self._is_call, self._is_call))]), kind="stable"
        )
        return chains[order], counts

    def _is_named(self, chains: NDArray[np.int32]) -> NDArray[np.bool_]:
        table = self._symbolizer.frames
        is_runtime_code = np.array([dso.made_code for dso in self._symbolizer.dsos] + [False], np.bool_)
        is_runtime: NDArray[np.bool_] = is_runtime_code[table.dso[chains]] & (table.symbol[chains] >= 0)
        return is_runtime

    def _number(self, path: str) -> int:
        if path not in self._paths:
            self._paths.append(path)
        return self._paths.index(path)

    def files(
        self, percent: NDArray[np.float64], samples: Int64, within: Iterable[tuple[Int64, Int64, NDArray[np.float64]]]
    ) -> list[SourceFile]:
        """Return the files, sorted by share.

        Args:
            percent: percentage of each frame.
            samples: number of samples of each frame.
            within: for some rows at a time, the rows, the frames that contain each (its own first), and the percentage of each row.
        """
        rows = np.flatnonzero(self._file >= 0)
        key = self._file[rows] << 32 | self._line[rows]
        keys, number = np.unique(key, return_inverse=True)
        number = number.ravel()
        with_inlined, inlined_there = np.zeros(len(keys)), np.zeros(len(self._paths))
        for row, frame, percent_of_row in within:
            begin, end = (np.searchsorted(self._chain[rows], frame, side) for side in ("left", "right"))
            index, starts = slices_index(begin, end - begin)
            row_of_line = np.repeat(row, np.diff(starts))
            # a line that occurs twice in a row counts once
            for of_line, shares_within in ((number, with_inlined), (self._file[rows], inlined_there)):
                row_of_pair, which = _distinct_pairs(row_of_line, of_line[index], len(shares_within))
                np.add.at(shares_within, which, percent_of_row[row_of_pair])
        innermost = self._first[self._chain[rows]] == rows
        own = np.bincount(number[innermost], percent[self._chain[rows][innermost]], len(keys))
        counts = sum_by(number[innermost], samples[self._chain[rows][innermost]], len(keys))
        lines: dict[int, list[SourceLine]] = {}
        shares: dict[int, float] = {}
        for key_, one, all_, count in zip(keys.tolist(), own.tolist(), with_inlined.tolist(), counts.tolist(), strict=True):
            lines.setdefault(key_ >> 32, []).append(SourceLine(key_ & 0xFFFFFFFF, one, all_, count))
            shares[key_ >> 32] = shares.get(key_ >> 32, 0.0) + one
        files = [SourceFile(self._paths[file], shares[file], float(inlined_there[file]), its) for file, its in lines.items()]
        return sorted(files, key=lambda file: (-file.with_inlined, -file.percent, file.path))

    def of_frames(self) -> FrameLines:
        """Return the lines of all frames but callers."""
        rows = np.flatnonzero((self._file >= 0) & ~self._is_call[self._chain])
        frame, chain = self._frames.astype(np.int64), self._chain[rows]
        return FrameLines(self._paths, frame[chain], self._file[rows], self._line[rows], self._first[chain] == rows)

    def without_lines(self, percent: NDArray[np.float64]) -> dict[str, float]:
        """Return the files of code without known lines, sorted by share."""
        unknown = (self._file[self._first] < 0) & (percent > 0) if len(self._first) else np.zeros(0, np.bool_)
        numbers = self._symbolizer.frames.dso[self._frames[unknown]]
        names = [*(dso.short_name for dso in self._symbolizer.dsos), "[unknown]"]
        shares: dict[str, float] = {}
        for number, share in zip(numbers.tolist(), percent[unknown].tolist(), strict=True):
            shares[names[number]] = shares.get(names[number], 0.0) + share
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))
