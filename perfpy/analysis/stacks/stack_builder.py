"""Fold a recording to whole stacks, for flame graphs and exports: one Stacks for each event with samples.

Samples without a callchain are stacks of one function.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.abi.flags import PerfType, SampleType
from perfpy.analysis.aggregate.profile import LATENCY, FoldingPlan
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.aggregate.shared_pass import Fold, fold_together
from perfpy.analysis.filters.sample_filter import frames_named
from perfpy.analysis.samples.locations import Locations
from perfpy.analysis.samples.parallelism import LATENCY_SCALE, Parallelism
from perfpy.analysis.samples.wait_events import has_off_cpu, is_off_cpu, is_time
from perfpy.analysis.samples.wait_reasons import state_name
from perfpy.analysis.stacks.single_samples import SingleSamples
from perfpy.analysis.stacks.stacks import Function, Stacks, TimedSamples
from perfpy.analysis.verdict.categories import WAITING, category
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.chain_numbers import ChainNumbers
    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples, Profile
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.analysis.stacks.code_sites import CodeSites, SiteFinder
    from perfpy.analysis.stacks.single_samples import SampleColumns
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.unwind.truncated_stacks import TruncatedStacks

_UNKNOWN = "[unknown]"
_LOST_CALLER = "[unknown callers]"  # the caller of the frame above it is unknown: copies of stacks may be truncated
_LAST_ADDRESS = np.uint64((1 << 64) - 1)  # the address of unknown callers in analysis.samples.callchains


def make_stacks(
    data: SampleSource,
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    sample_filter: SampleFilter,
    *,
    timed: bool = False,
    latency: bool = False,
    sites: bool = False,
    threads: bool = False,
    payloads: bool = False,
    most_samples: int = 0,
    jobs: int = 1,
) -> list[Stacks]:
    """Return the stacks of all events with samples.

    Args:
        timed: keep the single samples, in order of time.
        latency: weight by shares of the wall clock (perfpy.analysis.samples.parallelism).
        sites: separate stacks by addresses, with these and their lines.
        threads: separate rows by process and thread, and by cgroup if samples have it.
        payloads: keep the data of tracepoints for single samples.
        most_samples: merge single samples that differ only in time above this number (0: never).
        jobs: number of processes (0: one per CPU), unless timed.
    """
    planned = plan_stacks(data, timeline, symbolizer, sample_filter, timed=timed, latency=latency, sites=sites, threads=threads,
                          payloads=payloads, most_samples=most_samples, jobs=jobs)  # fmt: skip
    if not timed:
        return planned.stacks(planned.scan.profile())
    fold_together([planned.fold])
    return planned.stacks(planned.fold.profile)


def plan_stacks(
    data: SampleSource,
    timeline: TaskTimeline,
    symbolizer: Symbolizer,
    sample_filter: SampleFilter,
    *,
    timed: bool = False,
    latency: bool = False,
    sites: bool = False,
    threads: bool = False,
    payloads: bool = False,
    most_samples: int = 0,
    jobs: int = 1,
) -> PlannedStacks:
    """Return stacks before their samples are folded. The arguments are those of make_stacks()."""
    raw = payloads and timed and any(event.attr.sample_type & SampleType.RAW for event in data.events)
    states, payload = ("state",) if has_off_cpu(data.events) else (), ("raw",) if raw else ()
    cgroup = ("cgroup",) if any(event.attr.sample_type & SampleType.CGROUP for event in data.events) else ()
    dimensions = ("comm", "frame", *states, *payload, *(("pid", "tid", *cgroup) if threads else ()))
    folding = FoldingPlan(dimensions, sample_filter, (LATENCY,) if latency else (), chains=True, by_function=not sites)
    more = [Parallelism.of(data)] if latency or sample_filter.parallelism is not None else []
    scan = SampleScan(data, timeline, symbolizer, folding, more=more, jobs=jobs)
    return PlannedStacks(scan, _TimedFold(scan, most_samples) if timed else Fold(scan), sites)


class PlannedStacks(NamedTuple):
    """Stacks before their samples are folded.

    Attributes:
        scan: folds the samples.
        fold: the profile of a pass in order of delivery, with single samples if these are requested.
        by_site: whether addresses separate stacks.
    """

    scan: SampleScan
    fold: Fold
    by_site: bool

    def keep_sites(self, sites: Fold) -> None:
        """Let single samples keep their rows in another fold (TimedSamples.site), which comes before this one in the pass."""
        assert isinstance(self.fold, _TimedFold)
        self.fold.sites = sites

    def stacks(self, profile: Profile) -> list[Stacks]:
        """Return the stacks of the folded samples."""
        scan, symbolizer = self.scan, self.scan.symbolizer
        samples = self.fold.columns() if isinstance(self.fold, _TimedFold) else None
        comms, sample_filter = scan.timeline.comms, scan.folding.sample_filter
        builder = _Builder(scan.data.events, comms, sample_filter, profile, scan.truncated_stacks, samples, sites=self.by_site)
        chains = builder.expanded_chains(symbolizer)  # adds frames, and so comes before any access to all of them
        return builder.stacks(symbolizer, Locations(symbolizer), *chains)


def stacks_of(
    events: Sequence[FileEvent],
    comms: Sequence[str],
    sample_filter: SampleFilter,
    profile: FoldedSamples,
    symbolizer: Symbolizer,
    *,
    sites: bool = False,
) -> list[Stacks]:
    """Return the stacks of folded samples with the dimensions comm and frame, perhaps state, and callchains. sites: as make_stacks()."""
    builder = _Builder(events, comms, sample_filter, profile, [], None, sites=sites)
    return builder.stacks(symbolizer, Locations(symbolizer), *builder.expanded_chains(symbolizer))


class _TimedFold(Fold):
    """A profile with its single samples; most: the number from which on samples that differ only in time are merged (0: never).

    Attributes:
        sites: another fold of the same samples, ranked and earlier in the pass: samples keep their rows there.
    """

    sites: Fold | None = None

    def __init__(self, scan: SampleScan, most: int) -> None:
        super().__init__(scan, ("time", "cpu"))
        self._most = most
        self._timed = SingleSamples(most)

    def begin(self, chain_numbers: ChainNumbers | None = None) -> None:
        super().begin(chain_numbers)
        self._timed = SingleSamples(self._most)

    def add(self, samples: SampleView) -> None:
        weight = samples.column(LATENCY) // LATENCY_SCALE if LATENCY in self.scan.folding.measures else samples.period()
        self._timed.add(self.kinds, samples, weight, None if self.sites is None else self.sites.kinds)

    def settle(self) -> None:
        self._timed.settle(self.row_of_kind, None if self.sites is None else self.sites.row_of_kind)

    def columns(self) -> SampleColumns:
        """Return the samples, with rows of the folded profile, and forget them. Comes before any access to `profile.folded`."""
        columns, self._timed = self._timed.columns(), SingleSamples()
        site = columns.site if self.sites is None else self.sites.profile.ranks(columns.site)
        return columns._replace(row=self.profile.ranks(columns.row), site=site)


class _KnownChains(NamedTuple):
    frames: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def chains(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        return self.frames, self.offsets


class WithSingleFrames:
    """Folded samples in which those without a callchain get a chain of their one frame, for inlined calls there."""

    def __init__(self, profile: FoldedSamples) -> None:
        assert profile.chains is not None
        frames, offsets = profile.chains.chains()
        lengths, of_row = np.diff(offsets), profile.folded.chain.copy()
        short = np.append(lengths, 0)[of_row] == 0  # -1: none
        singles, number = np.unique(profile.folded.dimensions["frame"][short], return_inverse=True)
        of_row[short] = len(lengths) + number.ravel()
        ends = offsets[-1] + 1 + np.arange(len(singles))
        self.chains = _KnownChains(np.concatenate([frames, singles.astype(np.int32)]), np.concatenate([offsets, ends]))
        self.folded: Folded = profile.folded.with_chains(of_row)
        self.raw = profile.raw
        self.samples_of_frames = profile.samples_of_frames


class _Builder:
    def __init__(
        self,
        events: Sequence[FileEvent],
        comms: Sequence[str],
        sample_filter: SampleFilter,
        profile: FoldedSamples,
        truncated: Sequence[TruncatedStacks],
        timed: SampleColumns | None,
        *,
        sites: bool,
    ) -> None:
        self._events = events
        self._comms = comms
        self._sample_filter = sample_filter
        self._has_waits = "state" in profile.folded.dimensions
        self._by_site = sites
        self._unwound = any(event.attr.sample_type & SampleType.STACK_USER for event in events)
        self._profile = profile
        self._timed = timed
        self._truncated = truncated

    def expanded_chains(self, symbolizer: Symbolizer) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct chains with inlined calls: frames, offsets, and the chain of every row.

        By sites, samples without a callchain are chains of one frame, for inlined calls there; otherwise these are empty.
        """
        profile: FoldedSamples = WithSingleFrames(self._profile) if self._by_site else self._profile
        assert profile.chains is not None
        frames, offsets = profile.chains.chains()
        of_row, lengths = profile.folded.chain, np.diff(offsets)
        frames, lengths = symbolizer.expand(frames, lengths)
        return frames, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), of_row

    def stacks(
        self, symbolizer: Symbolizer, locations: Locations, frames: NDArray[np.int32], offsets: NDArray[np.int64], of_row: NDArray[np.int64]
    ) -> list[Stacks]:
        folded = self._profile.folded
        functions, function_of, first_frames = _functions(locations)
        nodes, node_of = function_of[frames].astype(np.int64), function_of.astype(np.int64)
        if self._by_site:
            nodes, node_of = self._site_nodes(locations, frames, np.diff(offsets))
        chains = _Chains(nodes, offsets, of_row, node_of[folded.dimensions["frame"]])
        first_reason = 2 * len(function_of) if self._by_site else len(functions)
        reasons = chains.with_states(folded.dimensions["state"], first_reason) if self._has_waits else []
        sites, site = None, None
        if self._by_site:
            from perfpy.analysis.stacks.code_sites import SiteFinder

            sites, site = chains.to_functions(SiteFinder(symbolizer, locations), function_of, first_reason, len(functions))
        categories = [] if self._timed is None else [*(_category(locations, frame) for frame in first_frames), *(WAITING for _ in reasons)]
        functions = [*functions, *reasons]
        is_selected = self._passing_rows(folded, locations)
        present = distinct(folded.event[is_selected]).tolist()
        results = [self._of_event(number, folded, is_selected & (folded.event == number), functions, chains) for number in present]
        return [replace(one, sites=sites, site=site, categories=categories) for one in results]

    def _site_nodes(
        self, locations: Locations, frames: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return site numbers (twice the frame, plus one for callers) of the chains' frames, and of all frames as innermost ones."""
        from perfpy.analysis.stacks.code_sites import are_callers  # few want lines

        callers = are_callers(frames, lengths, locations)
        if self._unwound:  # addresses of unwound callers are within their calls
            callers &= locations.level[frames] == ord("k")
        return frames.astype(np.int64) << 1 | callers, np.arange(len(locations.ip)) << 1

    def _passing_rows(self, folded: Folded, locations: Locations) -> NDArray[np.bool_]:
        """Return a mask of the rows that pass the filters."""
        is_selected, frame = ~folded.filtered, folded.dimensions["frame"]
        if self._sample_filter.by_location:
            is_selected &= ~self._sample_filter.mark_frames(locations)[frame]
        part = self._sample_filter.symbol_part
        if part is not None:
            is_selected &= frames_named(locations, lambda name: part in name)[frame]
        return is_selected

    def _of_event(
        self, number: int, folded: Folded, is_of_event: NDArray[np.bool_], functions: Sequence[Function], chains: _Chains
    ) -> Stacks:
        rows = np.flatnonzero(is_of_event)
        weight, name = folded.period[rows], self._events[number].name
        if LATENCY in folded.measures:
            weight, name = folded.measures[LATENCY][rows] // LATENCY_SCALE, f"{name} (wall clock)"
        return Stacks(
            name,
            functions,
            chains.frames.astype(np.int32),
            chains.offsets,
            self._comms,
            chains.of_row[rows].astype(np.int32),
            folded.dimensions["comm"][rows].astype(np.int32),
            weight.astype(np.uint64),
            folded.count[rows],
            self._timed_samples(is_of_event, folded, chains),
            self._truncated,
            is_time(self._events[number]) and LATENCY not in folded.measures,
            is_off_cpu(self._events[number]),
            tracepoint=self._events[number].attr.type == PerfType.TRACEPOINT,
            payloads=self._profile.raw.payloads,
            tasks=tuple(folded.dimensions[name][rows].astype(np.int32) for name in ("pid", "tid")) if "tid" in folded.dimensions else (),
            cgroup=folded.dimensions["cgroup"][rows] if "cgroup" in folded.dimensions else None,
        )

    def _timed_samples(self, is_of_event: NDArray[np.bool_], folded: Folded, chains: _Chains) -> TimedSamples | None:
        if self._timed is None:
            return None
        is_selected = is_of_event[self._timed.row]
        timed = self._timed if is_selected.all() else self._timed.take(is_selected)
        return TimedSamples(
            chain=chains.of_row[timed.row].astype(np.int32),
            comm=folded.dimensions["comm"][timed.row].astype(np.int32),
            pid=timed.pid,
            tid=timed.tid,
            time=timed.time.view(np.uint64),
            cpu=timed.cpu,
            weight=timed.weight.view(np.uint64),
            payload=folded.dimensions["raw"][timed.row].astype(np.int32) if "raw" in folded.dimensions else None,
            waits=folded.dimensions["state"][timed.row] != 0 if self._has_waits else None,
            count=timed.samples if bool((timed.samples > 1).any()) else None,
            site=timed.site,
        )


class _Chains:
    """The chain of every row: its callchain, or its one location. frames are node numbers (functions, or sites), innermost first."""

    def __init__(self, nodes: NDArray[np.int64], offsets: NDArray[np.int64], of_row: NDArray[np.int64], own: NDArray[np.int64]) -> None:
        lengths = np.diff(offsets)
        short = lengths[of_row] == 0
        singles, number = np.unique(own[short], return_inverse=True)
        self.frames = np.concatenate([nodes, singles])
        self.offsets = np.concatenate([offsets, offsets[-1] + 1 + np.arange(len(singles))])
        self.of_row = of_row.copy()
        self.of_row[short] = len(lengths) + number.ravel()

    def with_states(self, states: NDArray[np.int64], first: int) -> list[Function]:
        """Put the reason of each wait on top of its chain, as nodes from `first` on; return the reasons."""
        waits = np.flatnonzero(states)
        names, reason = np.unique(states[waits], return_inverse=True)
        pairs, number = np.unique(self.of_row[waits] * len(names) + reason.ravel(), return_inverse=True)
        below, top = pairs // max(len(names), 1), pairs % max(len(names), 1)
        index, offsets = slices_index(self.offsets[:-1][below], np.diff(self.offsets)[below])
        lengths = np.diff(offsets) + 1
        starts = np.cumsum(lengths) - lengths
        added = np.empty(int(lengths.sum()), np.int64)
        added[starts] = first + top
        rest = np.ones(len(added), bool)
        rest[starts] = False
        added[rest] = self.frames[index]
        self.of_row[waits] = len(self.offsets) - 1 + number.ravel()
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + np.cumsum(lengths)])
        self.frames = np.concatenate([self.frames, added])
        return [Function(f"[{state_name(state)}]", "") for state in names.tolist()]

    def to_functions(
        self, finder: SiteFinder, function_of: NDArray[np.int32], first_reason: int, functions: int
    ) -> tuple[CodeSites, NDArray[np.int32]]:
        """Convert sites to functions; return the sites, and each chain frame's site. functions: their number."""
        nodes, site = np.unique(self.frames, return_inverse=True)
        is_code = nodes < first_reason
        frame = np.where(is_code, nodes >> 1, -1)
        function = np.where(is_code, function_of[frame], nodes - first_reason + functions).astype(np.int64)
        self.frames = function[site.ravel()]
        count = int(function.max(initial=-1)) + 1
        return finder.find(frame, (nodes & 1 != 0) & is_code, function, max(count, functions)), site.ravel().astype(np.int32)


def _functions(locations: Locations) -> tuple[list[Function], NDArray[np.int32], list[int]]:
    """Return the distinct functions, the function of every frame, and a frame of each function.

    Locations without a symbol are one function per file.
    """
    symbol, dso = locations.symbol.astype(np.int64), locations.dso.astype(np.int64)
    key = np.where(symbol >= 0, symbol << 1, (dso + 1) << 1 | 1)
    key[(dso < 0) & (locations.ip == _LAST_ADDRESS)] = -1  # of no function
    table = IdTable()
    ids, first = table.ids_and_new(key.view(np.uint64))
    return [_function(locations, frame) for frame in first.tolist()], ids, first.tolist()


def _category(locations: Locations, frame: int) -> int:
    number = int(locations.dso[frame])
    return category(locations.dsos[number] if number >= 0 else None, locations.name(frame))


def _function(locations: Locations, frame: int) -> Function:
    number = int(locations.dso[frame])
    if number < 0:
        return Function(_LOST_CALLER if locations.ip[frame] == _LAST_ADDRESS else _UNKNOWN, "")
    dso = locations.dsos[number]
    name = locations.name(frame)
    bracketed = dso.short_name if dso.short_name.startswith("[") else f"[{dso.short_name}]"
    return Function(name or bracketed, dso.short_name, dso.kernel)
