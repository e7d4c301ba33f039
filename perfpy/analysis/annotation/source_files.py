"""Shares of the lines of source files: each line's own, and with what was inlined there.

What enters: a Report whose samples are folded by address, and its symbolizer. What leaves: SourceShares for an event: files, those
with most first, and the files of code that say nothing of lines. Where a runtime named its functions with the file they are in,
samples count for the line where the function begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.annotation.named_lines import NamedLines
from perfpy.debuginfo.debug_info import DebugInfos
from perfpy.symbols.dso import DsoKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.symbols.symbolizer import Symbolizer

    Int64 = NDArray[np.int64]

_NOWHERE = -1


class SourceLine(NamedTuple):
    """A line. percent: its own share of the event; with_inlined: and what was inlined there; samples: its own."""

    line: int
    percent: float
    with_inlined: float
    samples: int


class SourceFile(NamedTuple):
    """A file: the share of its own lines, and with what was inlined into them; its lines in their order."""

    path: str
    percent: float
    with_inlined: float
    lines: list[SourceLine]


class SourceShares(NamedTuple):
    """The files of one event's samples; without_lines: files of code -> the share of samples there whose lines are not known."""

    event: str
    samples: int
    files: list[SourceFile]
    without_lines: dict[str, float]


def source_shares(report: Report, symbolizer: Symbolizer, histogram: Histogram) -> SourceShares:
    """The lines of one table's first event."""
    folded, event = report.folded, histogram.leader.event
    rows = np.flatnonzero((folded.event == event.index) & ~folded.filtered & _wanted(report, histogram)[folded.dimensions["frame"]])
    frames, which = np.unique(folded.dimensions["frame"][rows], return_inverse=True)
    period = sum_by(which.ravel(), folded.period[rows], len(frames))
    samples = sum_by(which.ravel(), folded.count[rows], len(frames))
    found = _Lines(symbolizer, frames.astype(np.int32))
    total = histogram.leader.period or 1
    files = found.files(100.0 * period / total, samples)
    return SourceShares(event.name, int(samples.sum()), files, found.without_lines(100.0 * period / total))


def _wanted(report: Report, histogram: Histogram) -> NDArray[np.bool_]:
    """Which frames the filters by location leave."""
    return ~report.options.sample_filter.mark_frames(histogram.locations)


class _Lines:
    """The lines at some frames: of each the innermost one first."""

    def __init__(self, symbolizer: Symbolizer, frames: NDArray[np.int32]) -> None:
        self._symbolizer = symbolizer
        self._frames = frames
        chains, counts = symbolizer.expanded(frames, np.ones(len(frames), np.int64))
        symbolizer.resolve()
        infos, named = DebugInfos(symbolizer), NamedLines()
        found = infos.code_lines(chains.astype(np.int64))
        self._paths = infos.paths
        file, line = found.file.copy(), found.line.copy()
        for position in np.flatnonzero(self._is_named(chains)).tolist():
            path, number = named.of(symbolizer.symbols.name(int(symbolizer.frames.symbol[chains[position]])))
            if path:
                file[position], line[position] = self._number(path), number
        file[line == 0] = np.where(self._is_named(chains)[line == 0], file[line == 0], _NOWHERE)
        self._chain = np.repeat(np.arange(len(frames)), counts)
        self._first = np.cumsum(counts) - counts
        self._file, self._line = file, line

    def _is_named(self, chains: NDArray[np.int32]) -> NDArray[np.bool_]:
        table = self._symbolizer.frames
        made = np.array([dso.kind is DsoKind.JIT for dso in self._symbolizer.dsos] + [False], np.bool_)
        named: NDArray[np.bool_] = made[table.dso[chains]] & (table.symbol[chains] >= 0)
        return named

    def _number(self, path: str) -> int:
        if path not in self._paths:
            self._paths.append(path)
        return self._paths.index(path)

    def files(self, percent: NDArray[np.float64], samples: Int64) -> list[SourceFile]:
        """The files, those with most first."""
        known = np.flatnonzero(self._file >= 0)
        key = self._file[known] << 32 | self._line[known]
        keys, number = np.unique(key, return_inverse=True)
        number = number.ravel()
        # a line that is met twice at one address counts once
        pairs = np.unique(self._chain[known] * len(keys) + number)
        whole = np.bincount(pairs % max(len(keys), 1), percent[pairs // max(len(keys), 1)], len(keys))
        innermost = self._first[self._chain[known]] == known
        own = np.bincount(number[innermost], percent[self._chain[known][innermost]], len(keys))
        counts = sum_by(number[innermost], samples[self._chain[known][innermost]], len(keys))
        of_file = np.unique(self._chain[known] << 32 | self._file[known])
        inlined_there = np.bincount(of_file & 0xFFFFFFFF, percent[of_file >> 32], len(self._paths)).tolist()
        lines: dict[int, list[SourceLine]] = {}
        shares: dict[int, float] = {}
        for key_, one, all_, count in zip(keys.tolist(), own.tolist(), whole.tolist(), counts.tolist(), strict=True):
            lines.setdefault(key_ >> 32, []).append(SourceLine(key_ & 0xFFFFFFFF, one, all_, count))
            shares[key_ >> 32] = shares.get(key_ >> 32, 0.0) + one
        found = [SourceFile(self._paths[file], shares[file], inlined_there[file], its) for file, its in lines.items()]
        return sorted(found, key=lambda file: (-file.with_inlined, -file.percent, file.path))

    def without_lines(self, percent: NDArray[np.float64]) -> dict[str, float]:
        """The files of code whose lines are not known, those with most samples first."""
        lost = self._file[self._first] < 0 if len(self._first) else np.zeros(0, np.bool_)
        numbers = self._symbolizer.frames.dso[self._frames[lost]]
        names = [*(dso.short_name for dso in self._symbolizer.dsos), "[unknown]"]
        found: dict[str, float] = {}
        for number, share in zip(numbers.tolist(), percent[lost].tolist(), strict=True):
            found[names[number]] = found.get(names[number], 0.0) + share
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))
