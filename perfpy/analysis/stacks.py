"""Whole stacks with their weights, for flame graphs and exports: Stacks, and StackTree, the prefix tree of one or two of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Growing, distinct, grouped, slices_index, smallest_type
from perfpy.abi.flags import PerfType, SampleType
from perfpy.analysis.aggregate.profile import LATENCY, FoldingPlan
from perfpy.analysis.aggregate.scan import SampleScan
from perfpy.analysis.aggregate.shared_pass import Fold, fold_together
from perfpy.analysis.dimensions import LATENCY_SCALE, Parallelism
from perfpy.analysis.filters import SampleFilter, frames_named
from perfpy.analysis.locations import Locations
from perfpy.analysis.sample_view import combine_columns, has_off_cpu, is_off_cpu, is_time, state_name
from perfpy.analysis.verdict.categories import WAITING, category
from perfpy.symbols.interning import IdTable, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.integer[Any]]

    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples
    from perfpy.analysis.aggregate.shared_pass import FineRows
    from perfpy.analysis.code_sites import CodeSites, SiteFinder
    from perfpy.analysis.sample_view import SampleView
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.symbols.symbolizer import Symbolizer


#: the name in place of frames that a tree leaves out
LEFT_OUT: Final = "[frames of rare stacks left out]"
_CAPS: Final = (6, 4, 3, 2)  # outer names that rare stacks keep: as many as there is room for
_MIXED: Final = 0x9E3779B97F4A7C1  # an odd number, to mix names into keys
_SHARE_OF_LEVEL: Final = 8  # a level of a tree may have this part of the nodes that are left
#: events whose periods are nanoseconds
_CLOCKS = ("cpu-clock", "task-clock")


class Function(NamedTuple):
    """A function as a stack shows it: name, short name of its file ("" if unknown), and whether it is in the kernel."""

    name: str
    dso: str
    kernel: bool = False


@dataclass(frozen=True, slots=True)
class TimedSamples:
    """Single samples, in order of time, for formats with a time line. All arrays have one entry a sample.

    Attributes:
        chain: index into the chains.
        comm: index into comms.
        pid, tid: of the thread.
        time: nanoseconds.
        cpu: -1 if unknown.
        weight: the period.
        payload: index into Stacks.payloads, if requested.
        waits: marks time off the CPU, if an event has both.
        count: the number of merged samples, if any are merged.
        site: the row in another fold of the same samples, if requested; otherwise 0.
    """

    chain: NDArray[np.int32]
    comm: NDArray[np.int32]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    time: NDArray[np.uint64]
    cpu: NDArray[np.int32]
    weight: NDArray[np.uint64]
    payload: NDArray[np.int32] | None = None
    waits: NDArray[np.bool_] | None = None
    count: NDArray[np.int32] | None = None
    site: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class Stacks:
    """The stacks of one event. A row is a chain that occurred `count` times in `comm`, with the sum of periods `weight`.

    Attributes:
        event: its name.
        functions: the distinct functions.
        frames, offsets: chain i is frames[offsets[i]:offsets[i + 1]], function ids from the innermost out: frames in the smallest type that
            has room for them, as deep stacks have many.
        comms: the distinct comms.
        chain, comm, weight, count: of each row.
        timed: the single samples, if requested.
        truncated: stack copies that were too short.
        in_seconds: weights are ns of time.
        in_bytes: weights are bytes of memory.
        off_cpu: waits, which end at their samples' times.
        sites, site: the sites in code, and the site of each of `frames`, if requested; chains of different sites are separate.
        tracepoint: whether the event is one.
        payloads: raw data, if requested.
        tasks: pid and tid of each row, if requested: int32[rows] each.
        cgroup: id of each row's cgroup (0: unknown) if rows have tasks and samples have cgroups.
        categories: the category of each function (perfpy.analysis.verdict.categories, or WAITING), with single samples only.
        inlined: whether each function is code that is inlined into the next one of its stacks, with single samples only.
    """

    event: str
    functions: Sequence[Function]
    frames: Numbers
    offsets: NDArray[np.int64]
    comms: Sequence[str]
    chain: NDArray[np.int32]
    comm: NDArray[np.int32]
    weight: NDArray[np.uint64]
    count: NDArray[np.int64]
    timed: TimedSamples | None = None
    truncated: Sequence[TruncatedStacks] = ()
    in_seconds: bool = False
    off_cpu: bool = False
    sites: CodeSites | None = None
    site: NDArray[np.int32] | None = None
    tracepoint: bool = False
    payloads: Sequence[bytes] = ()
    categories: Sequence[int] = ()
    inlined: Sequence[bool] = ()
    tasks: tuple[NDArray[np.int32], ...] = ()
    cgroup: NDArray[np.int64] | None = None
    in_bytes: bool = False

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return int(self.weight.sum())

    @property
    def in_nanoseconds(self) -> bool:
        """Whether weights are time, on the CPU or off it."""
        return self.in_seconds or self.event.startswith(_CLOCKS)

    def chain_of(self, index: int) -> Numbers:
        """Return the function ids of one chain, innermost first."""
        return self.frames[self.offsets[index] : self.offsets[index + 1]]

    def sites_of(self, index: int) -> NDArray[np.int32]:
        """Return the sites of one chain, innermost first; only if requested."""
        assert self.site is not None
        return self.site[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True, slots=True)
class StackTree:
    """A prefix tree of stacks, outermost function at the root, as columns in depth-first order; siblings are sorted by name.

    Attributes:
        names: distinct (name, dso, kernel) of nodes, including commands with dso "".
        name: index into names.
        depth: 0 for commands.
        own: one weight column for each of the Stacks, of stacks that end at the node.
        totals: the sum of each column.
        leaf: the node at which each row of the Stacks ends, part after part.
        rare: marks rows without the frames between the outer ones and the innermost function, left out to keep the tree small.
    """

    names: Sequence[Function]
    name: NDArray[np.int32]
    depth: NDArray[np.int32]
    own: tuple[NDArray[np.float64], ...]
    totals: tuple[float, ...]
    leaf: NDArray[np.int32]
    rare: NDArray[np.bool_]

    @classmethod
    def build(cls, *parts: Stacks, weighed: bool = True, most: int = 0) -> StackTree:
        """Return the tree of one Stacks, or of several merged.

        Args:
            parts: the stacks.
            weighed: with their weights.
            most: of about how many nodes (0: all); lighter rows lose frames (`rare`), and nothing else.
        """
        names, ranks = _ranked_names(parts)
        paths, weights = _NamePaths.of(parts, ranks), _row_weights(parts)
        kept = _kept_depths(len(names), paths, weights.sum(axis=0), most) if most else np.zeros(len(paths.comm), np.int64)
        if kept.any():
            names.append(Function(LEFT_OUT, ""))
            paths = paths.shortened(paths.capped(kept, most), len(names) - 1)
        return _tree(names, paths, weights if weighed else weights[:0], kept > 0)


def _ranked_names(parts: Sequence[Stacks]) -> tuple[list[Function], dict[Function, int]]:
    """Return all names of commands and functions, sorted, and each one's index."""
    every = {Function(comm, "") for part in parts for comm in part.comms}
    for part in parts:
        every.update(part.functions)
    names = sorted(every)
    return names, {name: rank for rank, name in enumerate(names)}


class _NamePaths(NamedTuple):
    """Every row as a path of name ranks: the command, the outermost function, and so on.

    Attributes:
        comm: the rank of each row's command.
        frames: ranks of functions; a path's are frames[outermost - depth + 1] for each depth from 1 on.
        outermost: the place of each row's outermost function.
        lengths: of paths, with the command.
    """

    comm: NDArray[np.int32]
    frames: Numbers
    outermost: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, parts: Sequence[Stacks], ranks: dict[Function, int]) -> _NamePaths:
        """Return the paths of rows, part after part. Parts of one recording share their frames."""
        comm, outermost, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        frames: list[Numbers] = []
        starts: dict[tuple[int, int], int] = {}
        size, rank_type = 0, smallest_type(len(ranks))  # with room for LEFT_OUT
        for part in parts:
            key = id(part.frames), id(part.functions)
            if key not in starts:
                starts[key] = size
                frames.append(np.array([ranks[f] for f in part.functions], rank_type)[part.frames])
                size += len(part.frames)
            comm.append(np.array([ranks[Function(c, "")] for c in part.comms], np.int32)[part.comm])
            outermost.append(starts[key] + part.offsets[part.chain + 1] - 1)
            lengths.append(np.diff(part.offsets)[part.chain] + 1)
        joined = frames[0] if len(frames) == 1 else np.concatenate([np.zeros(0, rank_type), *frames])
        return cls(np.concatenate(comm), joined, np.concatenate(outermost), np.concatenate(lengths))

    def names_at(self, depth: int, rows: NDArray[np.int64]) -> Numbers:
        """Return the names of some paths at a depth."""
        return self.frames[self.outermost[rows] - depth + 1] if depth else self.comm[rows]

    def capped(self, kept: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return how many outer names shortened paths keep, so few that their last two nodes are not more than `most`."""
        rows = np.flatnonzero(kept)
        if 2 * len(rows) <= most:
            return kept
        for most_names in _CAPS:
            key = self.frames[self.outermost[rows] - self.lengths[rows] + 2].astype(np.int64)
            for depth in range(most_names):
                reaches = kept[rows] > depth
                name = np.zeros(len(rows), np.int64)
                name[reaches] = self.names_at(depth, rows[reaches]).astype(np.int64) + 1
                key = (key ^ name) * _MIXED
            if 2 * len(distinct(key)) <= most:
                return np.minimum(kept, most_names)
        return np.minimum(kept, 1)

    def shortened(self, kept: NDArray[np.int64], left_out: int) -> _NamePaths:
        """Return the paths, some with only their outer names, a name for frames that are left out, and the innermost function.

        Args:
            kept: how many outer names these keep; 0 for the others.
            left_out: the rank of the name.
        """
        rows = np.flatnonzero(kept)
        last, size = self.outermost[rows], kept[rows] - 1  # the command is not among the frames
        index, _ = slices_index(last - size + 1, size)
        ends = np.cumsum(size + 2)
        added = np.empty(int(ends[-1]), self.frames.dtype)
        is_outer = np.ones(len(added), np.bool_)
        begins = ends - size - 2
        is_outer[begins] = is_outer[begins + 1] = False
        added[begins], added[begins + 1], added[is_outer] = self.frames[last - self.lengths[rows] + 2], left_out, self.frames[index]
        outermost, lengths = self.outermost.copy(), self.lengths.copy()
        outermost[rows], lengths[rows] = len(self.frames) + ends - 1, size + 3
        return _NamePaths(self.comm, np.concatenate([self.frames, added]), outermost, lengths)


def _row_weights(parts: Sequence[Stacks]) -> NDArray[np.float64]:
    """Return a weight column for each part (shape: parts, rows)."""
    weights = np.zeros((len(parts), sum(len(part.weight) for part in parts)))
    first = 0
    for i, part in enumerate(parts):
        weights[i, first : first + len(part.weight)] = part.weight
        first += len(part.weight)
    return weights


def _has_few_nodes(width: int, paths: _NamePaths, most: int) -> bool:
    """Whether the whole tree has at most `most` nodes."""
    alive, count, depth = np.arange(len(paths.lengths)), 0, 0
    node = np.zeros(len(alive), np.int64)
    while len(alive) and count <= most:
        keys, node = grouped(node * width + paths.names_at(depth, alive))
        count += len(keys)
        depth += 1
        goes_on = paths.lengths[alive] > depth
        alive, node = alive[goes_on], node[goes_on]
    return count <= most


def _kept_depths(width: int, paths: _NamePaths, weight: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return how many outer names rows keep that go through nodes too light for a tree of about `most` nodes; 0: all names.

    Each level may have a part of the nodes that are left.
    """
    kept = np.zeros(len(paths.lengths), np.int64)
    if int(paths.lengths.sum()) <= most or _has_few_nodes(width, paths, most):
        return kept
    alive, room, depth = np.arange(len(kept)), most, 0
    node = np.zeros(len(alive), np.int64)
    while len(alive):
        keys, node = grouped(node * width + paths.names_at(depth, alive))
        largest = max(room // _SHARE_OF_LEVEL, 1)
        if depth and len(keys) > largest:
            order = np.argsort(-np.bincount(node, weight[alive], len(keys)), kind="stable")
            is_light = np.ones(len(keys), np.bool_)
            is_light[order[:largest]] = False
            kept[alive[is_light[node]]] = depth
            alive, node = alive[~is_light[node]], node[~is_light[node]]
        room -= min(len(keys), largest)
        depth += 1
        goes_on = paths.lengths[alive] > depth
        alive, node = alive[goes_on], node[goes_on]
    return kept


class _StackLevel(NamedTuple):
    """All nodes of one depth, ordered by parent, then name; ending: the paths that end there; last: their nodes."""

    parent: NDArray[np.int64]
    name: NDArray[np.int64]
    own: NDArray[np.float64]
    ending: NDArray[np.int64]
    last: NDArray[np.int64]


def _tree(names: list[Function], paths: _NamePaths, weights: NDArray[np.float64], rare: NDArray[np.bool_]) -> StackTree:
    levels = _levels(len(names), paths, weights)
    sizes = _subtree_sizes(levels)
    count = int(sizes[0].sum()) if levels else 0
    name, depth = np.empty(count, np.int32), np.empty(count, np.int32)
    own = np.zeros((len(weights), count))
    leaf = np.empty(len(paths.lengths), np.int32)
    above = np.array([-1], np.int64)
    for level, (nodes, size) in enumerate(zip(levels, sizes, strict=True)):
        before = np.cumsum(size) - size
        first_sibling = np.searchsorted(nodes.parent, nodes.parent)  # nodes are sorted by parent
        position = above[nodes.parent] + 1 + before - before[first_sibling]
        name[position], depth[position] = nodes.name, level
        own[:, position] = nodes.own
        leaf[nodes.ending] = position[nodes.last]
        above = position
    return StackTree(names, name, depth, tuple(own), tuple(float(w.sum()) for w in weights), leaf, rare)


def _levels(width: int, paths: _NamePaths, weights: NDArray[np.float64]) -> list[_StackLevel]:
    """Return the tree level by level; each path walks down one node a step."""
    alive = np.arange(len(paths.lengths))
    node = np.zeros(len(alive), np.int64)
    levels: list[_StackLevel] = []
    while len(alive):
        depth = len(levels)
        keys, node = grouped(node * width + paths.names_at(depth, alive))
        ends = paths.lengths[alive] == depth + 1
        weight = [np.bincount(node[ends], column[alive[ends]], len(keys)).astype(np.float64) for column in weights]
        own = np.array(weight).reshape(len(weights), len(keys))
        levels.append(_StackLevel(keys // width, keys % width, own, alive[ends], node[ends]))
        alive, node = alive[~ends], node[~ends]
    return levels


def _subtree_sizes(levels: list[_StackLevel]) -> list[NDArray[np.int64]]:
    """Return for each level the number of nodes in each node's subtree, itself included."""
    sizes: list[NDArray[np.int64]] = []
    for depth in range(len(levels) - 1, -1, -1):
        size = np.ones(len(levels[depth].name), np.int64)
        if sizes:
            size += np.bincount(levels[depth + 1].parent, sizes[0], len(size)).astype(np.int64)
        sizes.insert(0, size)
    return sizes


# Fold a recording to whole stacks, for flame graphs and exports: one Stacks for each event with samples.
#
# Samples without a callchain are stacks of one function.


_UNKNOWN = "[unknown]"
_LOST_CALLER = "[unknown callers]"  # the caller of the frame above it is unknown: copies of stacks may be truncated
_LAST_ADDRESS = np.uint64((1 << 64) - 1)  # the address of unknown callers in analysis.samples.callchains


class StackOptions(NamedTuple):
    """The options of whole stacks.

    Attributes:
        sample_filter: the samples that count.
        timed: keep the single samples, in order of time.
        latency: weight by shares of the wall clock (perfpy.analysis.dimensions).
        sites: separate stacks by addresses, with these and their lines.
        threads: separate rows by process and thread, and by cgroup if samples have it.
        payloads: keep the data of tracepoints for single samples.
        most_samples: merge single samples that differ only in time above this number (0: never).
        most_chains: shorten rare callchains above this number of distinct ones, of timed stacks (0: never).
        jobs: number of processes (0: one per CPU), unless timed.
    """

    sample_filter: SampleFilter = SampleFilter()
    timed: bool = False
    latency: bool = False
    sites: bool = False
    threads: bool = False
    payloads: bool = False
    most_samples: int = 0
    most_chains: int = 0
    jobs: int = 1


def make_stacks(data: SampleSource, timeline: TaskTimeline, symbolizer: Symbolizer, options: StackOptions) -> list[Stacks]:
    """Return the stacks of all events with samples."""
    planned = plan_stacks(data, timeline, symbolizer, options)
    if not options.timed:
        return planned.stacks(planned.scan.profile())
    fold_together([planned.fold], options.most_chains)
    return planned.stacks(planned.fold.profile)


def plan_stacks(data: SampleSource, timeline: TaskTimeline, symbolizer: Symbolizer, options: StackOptions) -> PlannedStacks:
    """Return stacks before their samples are folded."""
    sample_filter, latency = options.sample_filter, options.latency
    raw = options.payloads and options.timed and any(event.attr.sample_type & SampleType.RAW for event in data.events)
    states, payload = ("state",) if has_off_cpu(data.events) else (), ("raw",) if raw else ()
    cgroup = ("cgroup",) if any(event.attr.sample_type & SampleType.CGROUP for event in data.events) else ()
    dimensions = ("comm", "frame", *states, *payload, *(("pid", "tid", *cgroup) if options.threads else ()))
    folding = FoldingPlan(dimensions, sample_filter, (LATENCY,) if latency else (), chains=True, by_function=not options.sites)
    more = [Parallelism.of(data)] if latency or sample_filter.parallelism is not None else []
    scan = SampleScan(data, timeline, symbolizer, folding, more=more, jobs=options.jobs)
    return PlannedStacks(scan, _TimedFold(scan, options.most_samples) if options.timed else Fold(scan), options.sites)


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

    def stacks(self, profile: FoldedSamples) -> list[Stacks]:
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
    """Return the stacks of folded samples with the dimensions comm and frame, perhaps state, and callchains. sites: as in StackOptions."""
    builder = _Builder(events, comms, sample_filter, profile, [], None, sites=sites)
    return builder.stacks(symbolizer, Locations(symbolizer), *builder.expanded_chains(symbolizer))


class _TimedFold(Fold):
    """A profile with its single samples; most: the number from which on samples that differ only in time are merged (0: never).

    Attributes:
        sites: another fold of the same samples, earlier in the pass: samples keep their rows there.
    """

    sites: Fold | None = None

    def __init__(self, scan: SampleScan, most: int) -> None:
        super().__init__(scan, ("time", "cpu", "pid", "tid"), ("pid", "tid"))
        self._most = most
        self._timed = SingleSamples(most)

    def begin(self, fine: FineRows) -> None:
        super().begin(fine)
        self._timed = SingleSamples(self._most)

    @property
    def _other_sites(self) -> Fold | None:
        """The fold for sites if its rows do not derive from those of this fold."""
        return self.sites if self.sites is not None and self.sites.fine is not self.fine else None

    def add(self, samples: SampleView) -> None:
        weight = samples.column(LATENCY) // LATENCY_SCALE if LATENCY in self.scan.folding.measures else samples.period()
        self._timed.add(self.kinds, samples, weight, None if self._other_sites is None else self._other_sites.kinds)

    def settle(self) -> None:
        self._timed.settle(self.row_of_kind, None if self._other_sites is None else self._other_sites.row_of_kind)

    def renumber(self, fine: FineRows, rows: NDArray[np.int32]) -> None:
        other = self._other_sites
        self._timed.renumber(rows if fine is self.fine else None, rows if other is not None and fine is other.fine else None)

    def columns(self) -> SampleColumns:
        """Return the samples, with rows of the folded profile, and forget them."""
        columns, self._timed = self._timed.columns(), SingleSamples()
        assert self.fine is not None
        tasks, fine = self.fine.profile.folded.dimensions, columns.row
        sites = None
        if self.sites is not None:
            sites = self.sites.profile.row_of[fine if self._other_sites is None else columns.site]
        pid, tid = (tasks[name].astype(np.int32)[fine] for name in ("pid", "tid"))
        return columns._replace(row=self.profile.row_of[fine], site=sites, pid=pid, tid=tid)


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

    def expanded_chains(self, symbolizer: Symbolizer) -> tuple[Numbers, NDArray[np.int64], NDArray[np.int64]]:
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
        self, symbolizer: Symbolizer, locations: Locations, frames: Numbers, offsets: NDArray[np.int64], of_row: NDArray[np.int64]
    ) -> list[Stacks]:
        folded = self._profile.folded
        functions, function_of, first_frames = _functions(locations)
        states = folded.dimensions["state"] if self._has_waits else np.zeros(0, np.int64)
        node_of: Numbers = function_of.astype(smallest_type(len(functions) + len(distinct(states))))  # deep callchains have many frames
        nodes, node_of = self._site_nodes(locations, frames, np.diff(offsets)) if self._by_site else (node_of[frames], node_of)
        chains = _Chains(nodes, offsets, of_row, node_of[folded.dimensions["frame"]])
        if len(outside := self._rows_outside_chains(folded, locations, frames, offsets, of_row)):
            chains.put_on_top(outside, node_of[folded.dimensions["frame"][outside]])
        first_reason = 2 * len(function_of) if self._by_site else len(functions)
        reasons = chains.with_states(states, first_reason) if self._has_waits else []
        sites, site = None, None
        if self._by_site:
            from perfpy.analysis.code_sites import SiteFinder

            sites, site = chains.to_functions(SiteFinder(symbolizer, locations), function_of, first_reason, len(functions))
        categories = [] if self._timed is None else [*(_category(locations, frame) for frame in first_frames), *(WAITING for _ in reasons)]
        inlined = [] if self._timed is None else [*locations.inlined[locations.symbol[first_frames]].tolist(), *(False for _ in reasons)]
        functions = [*functions, *reasons]
        is_selected = self._passing_rows(folded, locations)
        present = distinct(folded.event[is_selected]).tolist()
        results = [self._of_event(number, folded, is_selected & (folded.event == number), functions, chains) for number in present]
        return [replace(one, sites=sites, site=site, categories=categories, inlined=inlined) for one in results]

    def _rows_outside_chains(
        self, folded: Folded, locations: Locations, frames: Numbers, offsets: NDArray[np.int64], of_row: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Return the rows that were sampled in the kernel, with callchains of user space only (record --user-callchains)."""
        without_kernel, level = [event.index for event in self._events if event.attr.exclude_callchain_kernel], locations.level
        rows = np.flatnonzero(np.isin(folded.event, without_kernel) & (np.append(np.diff(offsets), 0)[of_row] > 0))  # -1: none
        in_kernel = level[folded.dimensions["frame"][rows]] == ord("k")
        return rows[np.flatnonzero(in_kernel & (level[frames[offsets[of_row[rows]]]] != ord("k")))]

    def _site_nodes(self, locations: Locations, frames: Numbers, lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return site numbers (twice the frame, plus one for callers) of the chains' frames, and of all frames as innermost ones."""
        from perfpy.analysis.code_sites import are_callers  # few want lines

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
            chains.frames,
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
        assert timed.pid is not None
        assert timed.tid is not None
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
            count=timed.samples if timed.samples is not None and bool((timed.samples > 1).any()) else None,
            site=timed.site,
        )


class _Chains:
    """The chain of every row: its callchain, or its one location. frames are node numbers (functions, or sites), innermost first."""

    def __init__(self, nodes: Numbers, offsets: NDArray[np.int64], of_row: NDArray[np.int64], own: Numbers) -> None:
        lengths = np.diff(offsets)
        short = lengths[of_row] == 0
        singles, number = np.unique(own[short], return_inverse=True)
        self.frames = np.concatenate([nodes, singles]) if len(singles) else nodes
        self.offsets = np.concatenate([offsets, offsets[-1] + 1 + np.arange(len(singles))])
        self.of_row = of_row.copy()
        self.of_row[short] = len(lengths) + number.ravel()

    def with_states(self, states: NDArray[np.int64], first: int) -> list[Function]:
        """Put the reason of each wait on top of its chain, as nodes from `first` on; return the reasons."""
        waits = np.flatnonzero(states)
        names, reason = np.unique(states[waits], return_inverse=True)
        if len(waits):
            self.put_on_top(waits, first + reason.ravel())
        return [Function(f"[{state_name(state)}]", "") for state in names.tolist()]

    def put_on_top(self, rows: NDArray[np.intp], nodes: Numbers) -> None:
        """Put a node on top of the chain of each of some rows."""
        tops, top_of = np.unique(nodes, return_inverse=True)
        pairs, number = np.unique(self.of_row[rows] * len(tops) + top_of.ravel(), return_inverse=True)
        below, top = pairs // len(tops), tops[pairs % len(tops)]
        index, offsets = slices_index(self.offsets[:-1][below], np.diff(self.offsets)[below])
        lengths = np.diff(offsets) + 1
        starts = np.cumsum(lengths) - lengths
        added = np.empty(int(lengths.sum()), self.frames.dtype)
        added[starts] = top
        rest = np.ones(len(added), bool)
        rest[starts] = False
        added[rest] = self.frames[index]
        self.of_row[rows] = len(self.offsets) - 1 + number.ravel()
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + np.cumsum(lengths)])
        self.frames = np.concatenate([self.frames, added])

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


# Single samples as columns, for recordings of any length: above a limit, samples that differ only in time are merged.
#
# They are merged within ticks whose length grows, so that memory does not grow with the recording.


_FINEST: Final = 1000  # ns
_COARSER: Final = 2
_WIDE: Final = ("time", "weight")


class SampleColumns(NamedTuple):
    """Samples, one entry each, or one for several merged ones.

    Attributes:
        row: of folded samples.
        time, cpu: of each.
        weight, samples: the sum and the number of merged ones; samples is None if none are.
        site: the row in another fold, if requested.
        pid, tid: if known; otherwise rows distinguish them.
    """

    row: NDArray[np.int32]
    time: NDArray[np.int64]
    cpu: NDArray[np.int32]
    weight: NDArray[np.int64]
    samples: NDArray[np.int32] | None = None
    site: NDArray[np.int32] | None = None
    pid: NDArray[np.int32] | None = None
    tid: NDArray[np.int32] | None = None

    def take(self, rows: NDArray[Any]) -> SampleColumns:
        """Select samples."""
        columns: list[Any] = [None if column is None else column[rows] for column in self]
        return SampleColumns(*columns)

    def within(self, tick: int, begin: int) -> SampleColumns:
        """Merge equal samples within each tick, at its begin; ticks are counted from `begin`."""
        ticks = (self.time - begin) // tick
        sites = [] if self.site is None else [self.site]
        ids, first = IdTable().ids_and_new(combine_columns([self.row, *sites, self.cpu, ticks]))
        samples = np.bincount(ids) if self.samples is None else sum_by(ids, self.samples, len(first))
        merged, weight = self.take(first), sum_by(ids, self.weight, len(first))
        return merged._replace(time=begin + ticks[first] * tick, weight=weight, samples=samples.astype(np.int32))


class SingleSamples:
    """A collection of single samples."""

    def __init__(self, most: int = 0) -> None:
        """Begin; most: the number of samples from which on they are merged; 0: never."""
        self._most, self._limit = most, 2 * most
        self._begin()
        self._tick = _FINEST

    def _begin(self) -> None:
        self._columns = {name: Growing(np.int64 if name in _WIDE else np.int32) for name in ("row", "time", "cpu", "weight")}
        self._samples: Growing | None = None  # before any are merged, each is one
        self._sites: Growing | None = None
        self._settled = 0  # samples with rows; those after them have groups of samples instead

    def add(self, kinds: NDArray[np.int32], samples: SampleView, weight: NDArray[Any], sites: NDArray[np.int32] | None = None) -> None:
        """Add a batch. kinds, sites: groups of samples of two folds, which get their rows by settle()."""
        columns = {"row": kinds, "time": samples.column("time"), "cpu": samples.column("cpu"), "weight": weight}
        for name, column in self._columns.items():
            column.append(columns[name])
        if self._samples is not None:
            self._samples.append(np.ones(len(kinds), np.int32))
        if sites is not None:
            self._sites = self._sites or Growing(np.int32)
            self._sites.append(sites)

    def settle(self, row_of_kind: NDArray[np.int32], site_of_kind: NDArray[np.int32] | None = None) -> None:
        """Replace the groups of the last batches by rows. site_of_kind: of the fold for sites."""
        for column, rows in ((self._columns["row"], row_of_kind), (self._sites, site_of_kind)):
            if column is not None and rows is not None:
                groups = column.values[self._settled :]
                groups[:] = rows[groups]
        self._settled = len(self._columns["row"].values)
        if 0 < self._limit < self._settled:
            self._merge()

    def renumber(self, rows: NDArray[np.int32] | None, sites: NDArray[np.int32] | None) -> None:
        """Replace the rows of samples that have them. rows, sites: the new number of each row; None if these stay."""
        for column, number_of in ((self._columns["row"], rows), (self._sites, sites)):
            if column is not None and number_of is not None:
                settled = column.values[: self._settled]
                settled[:] = number_of[settled]

    def _merge(self) -> None:
        """Merge samples until they are few, or nothing distinguishes them in time."""
        merged = self.columns()
        begin, last = int(merged.time.min()), int(merged.time.max())
        spacing = (last - begin) // self._most  # shorter ticks would have one sample each
        self._tick = max(self._tick, _FINEST << (spacing // _FINEST).bit_length())
        while len(merged.row) > self._most and self._tick <= last - begin:
            merged = merged.within(self._tick, begin)
            self._tick *= _COARSER
        self._begin()
        for name, column in self._columns.items():
            column.append(getattr(merged, name))
        self._samples, self._sites = (None if one is None else Growing(np.int32, one) for one in (merged.samples, merged.site))
        self._settled = len(merged.row)
        self._limit = 2 * max(self._most, self._settled)

    def columns(self) -> SampleColumns:
        """Return all samples, in order of time."""
        more = (None if column is None else column.values for column in (self._samples, self._sites))
        return SampleColumns(*(column.values for column in self._columns.values()), *more)
