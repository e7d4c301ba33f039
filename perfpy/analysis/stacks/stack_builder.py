"""Whole stacks of a recording: what flame graphs and exports are made of.

What enters: a recording's batches, its tasks and symbolizer. What leaves: one
Stacks for each event that has samples. Samples without a callchain are stacks
of one function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.analysis.aggregate.profile import LATENCY, Folded, Profile, Recipe
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.filters.sample_filter import frames_named
from perfpy.analysis.samples.locations import Locations
from perfpy.analysis.samples.parallelism import LATENCY_SCALE, Parallelism
from perfpy.analysis.samples.wait_events import has_off_cpu, is_off_cpu, is_time
from perfpy.analysis.samples.waits import state_name
from perfpy.analysis.stacks.stacks import Function, Stacks, TimedSamples
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

_UNKNOWN = "[unknown]"
_LOST_CALLER = "[unknown callers]"  # whatever called what lies upon it: copies of stacks may end early
_LAST_ADDRESS = np.uint64((1 << 64) - 1)  # where analysis.samples.callchains has them


def make_stacks(
    data: PerfData,
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    sample_filter: SampleFilter,
    *,
    timed: bool = False,
    latency: bool = False,
) -> list[Stacks]:
    """The stacks of all events that have samples.

    timed: with the single samples, in order of time; latency: weighted by
    their shares of the wall clock (perfpy.analysis.samples.parallelism).
    """
    builder = _Builder(data, timeline, symbolizer, sample_filter, timed=timed, latency=latency)
    chains = builder.expanded_chains(symbolizer)  # adds frames: before anybody looks at all of them
    return builder.stacks(Locations(symbolizer), *chains)


class _Builder:
    def __init__(
        self, data: PerfData, timeline: TaskTimeline, symbolizer: Symbolizer, sample_filter: SampleFilter, *, timed: bool, latency: bool
    ) -> None:
        self._events = data.events
        self._comms = timeline.comms
        self._sample_filter = sample_filter
        self._has_waits = has_off_cpu(data.events)
        dimensions = ("comm", "frame", "state") if self._has_waits else ("comm", "frame")
        recipe = Recipe(dimensions, sample_filter, (LATENCY,) if latency else (), chains=True, by_function=True)
        more = [Parallelism.of(data)] if latency or sample_filter.parallelism is not None else []
        scan = SampleScan(data, timeline, symbolizer, recipe, more=more)
        self._timed: list[tuple[NDArray[np.int64], ...]] | None = [] if timed else None
        self._profile = scan.profile() if self._timed is None else self._folded_and_timed(scan, recipe, self._timed)
        self._cut = scan.cut

    @staticmethod
    def _folded_and_timed(scan: SampleScan, recipe: Recipe, timed: list[tuple[NDArray[np.int64], ...]]) -> Profile:
        profile = Profile(recipe)
        for samples in scan.delivered({"time", "cpu"}):
            rows = profile.add(samples).astype(np.int64)
            columns = (samples.column(name).astype(np.int64) for name in ("pid", "tid", "time", "cpu"))
            timed.append((rows, *columns, samples.period().astype(np.int64)))
        timed[:] = [(profile.ranks(rows), *columns) for rows, *columns in timed]
        return profile

    def expanded_chains(self, symbolizer: Symbolizer) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The distinct chains with inlined calls: frames, and where each begins."""
        assert self._profile.chains is not None
        frames, offsets = self._profile.chains.chains()
        frames, lengths = symbolizer.expanded(frames, np.diff(offsets))
        return frames, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def stacks(self, locations: Locations, frames: NDArray[np.int32], offsets: NDArray[np.int64]) -> list[Stacks]:
        folded = self._profile.folded
        functions, function_of = _functions(locations)
        chains = _Chains(folded, function_of[frames], offsets, function_of)
        if self._has_waits:
            functions = chains.with_states(folded.dimensions["state"], functions)
        wanted = self._wanted(folded, locations)
        present = distinct(folded.event[wanted]).tolist()
        return [self._of_event(number, folded, wanted & (folded.event == number), functions, chains) for number in present]

    def _wanted(self, folded: Folded, locations: Locations) -> NDArray[np.bool_]:
        """Which rows the filters leave."""
        wanted, frame = ~folded.filtered, folded.dimensions["frame"]
        if self._sample_filter.by_location:
            wanted &= ~self._sample_filter.mark_frames(locations)[frame]
        part = self._sample_filter.symbol_part
        if part is not None:
            wanted &= frames_named(locations, lambda name: part in name)[frame]
        return wanted

    def _of_event(self, number: int, folded: Folded, wanted: NDArray[np.bool_], functions: Sequence[Function], chains: _Chains) -> Stacks:
        rows = np.flatnonzero(wanted)
        weight, name = folded.period[rows], self._events[number].name
        if LATENCY in folded.measures:
            weight, name = folded.measures[LATENCY][rows] // LATENCY_SCALE, f"{name} (wall clock)"
        return Stacks(
            name,
            functions,
            chains.frames,
            chains.offsets,
            self._comms,
            chains.of_row[rows].astype(np.int32),
            folded.dimensions["comm"][rows].astype(np.int32),
            weight.astype(np.uint64),
            folded.count[rows],
            self._timed_samples(wanted, folded, chains),
            self._cut,
            is_time(self._events[number]) and LATENCY not in folded.measures,
            is_off_cpu(self._events[number]),
        )

    def _timed_samples(self, wanted: NDArray[np.bool_], folded: Folded, chains: _Chains) -> TimedSamples | None:
        if self._timed is None:
            return None
        columns = [np.concatenate(parts) for parts in zip(*self._timed, strict=True)]
        kept = wanted[columns[0]]
        row, pid, tid, time, cpu, weight = (column[kept] for column in columns)
        return TimedSamples(
            chain=chains.of_row[row].astype(np.int32),
            comm=folded.dimensions["comm"][row].astype(np.int32),
            pid=pid.astype(np.int32),
            tid=tid.astype(np.int32),
            time=time.astype(np.uint64),
            cpu=cpu.astype(np.int32),
            weight=weight.astype(np.uint64),
        )


class _Chains:
    """The chain of every row: its callchain, or its one location; frames are function ids, innermost first."""

    def __init__(self, folded: Folded, frames: NDArray[np.int32], offsets: NDArray[np.int64], function_of: NDArray[np.int32]) -> None:
        lengths = np.diff(offsets)
        short = lengths[folded.chain] == 0
        singles, number = np.unique(function_of[folded.dimensions["frame"][short]], return_inverse=True)
        self.frames = np.concatenate([frames, singles.astype(np.int32)])
        self.offsets = np.concatenate([offsets, offsets[-1] + 1 + np.arange(len(singles))])
        self.of_row = folded.chain.copy()
        self.of_row[short] = len(lengths) + number.ravel()

    def with_states(self, states: NDArray[np.int64], functions: Sequence[Function]) -> list[Function]:
        """Put on top of the chain of each wait why it was one; returns the functions, and after them these reasons."""
        waits = np.flatnonzero(states)
        names, reason = np.unique(states[waits], return_inverse=True)
        pairs, number = np.unique(self.of_row[waits] * len(names) + reason.ravel(), return_inverse=True)
        below, top = pairs // max(len(names), 1), pairs % max(len(names), 1)
        index, offsets = slices_index(self.offsets[:-1][below], np.diff(self.offsets)[below])
        lengths = np.diff(offsets) + 1
        starts = np.cumsum(lengths) - lengths
        added = np.empty(int(lengths.sum()), np.int32)
        added[starts] = len(functions) + top
        rest = np.ones(len(added), bool)
        rest[starts] = False
        added[rest] = self.frames[index]
        self.of_row[waits] = len(self.offsets) - 1 + number.ravel()
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + np.cumsum(lengths)])
        self.frames = np.concatenate([self.frames, added])
        return [*functions, *(Function(f"[{state_name(state)}]", "") for state in names.tolist())]


def _functions(locations: Locations) -> tuple[list[Function], NDArray[np.int32]]:
    """The distinct functions, and the function of every frame; locations without a symbol are one function per file."""
    symbol, dso = locations.symbol.astype(np.int64), locations.dso.astype(np.int64)
    key = np.where(symbol >= 0, symbol << 1, (dso + 1) << 1 | 1)
    key[(dso < 0) & (locations.ip == _LAST_ADDRESS)] = -1  # no function's
    table = IdTable()
    ids, first = table.ids_and_new(key.view(np.uint64))
    return [_function(locations, frame) for frame in first.tolist()], ids


def _function(locations: Locations, frame: int) -> Function:
    number = int(locations.dso[frame])
    if number < 0:
        return Function(_LOST_CALLER if locations.ip[frame] == _LAST_ADDRESS else _UNKNOWN, "")
    dso = locations.dsos[number]
    name = locations.name(frame)
    shown = dso.short_name if dso.short_name.startswith("[") else f"[{dso.short_name}]"
    return Function(name or shown, dso.short_name, dso.kernel)
