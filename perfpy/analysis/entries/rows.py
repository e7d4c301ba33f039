"""The rows of tables: apply filters of locations, and prepare the callchains for trees.

Each step returns a new `Rows`. perf looks for parents before it drops callees.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import row_blocks, slices_index
from perfpy.abi.startup import NamedTuple
from perfpy.analysis.aggregate.overflow import Overflow
from perfpy.analysis.entries.entries import Chains
from perfpy.analysis.filters.sample_filter import frames_named
from perfpy.analysis.samples.locations import NOWHERE, OF_CHAIN, OF_SAMPLE, ROLE_BITS, sample_locations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.samples.locations import Int64, Locations
    from perfpy.symbols.symbolizer import Symbolizer

    DrawnChains = tuple[NDArray[np.int32], Int64]


# frames processed together: the intermediate arrays are larger than they are
_FRAMES_AT_ONCE = 1 << 18


class Rows(NamedTuple):
    """Folded rows as a report shows them.

    Attributes:
        location: of each row's samples.
        chains: the distinct callchains in the order in which trees are read.
        parent: of each row, an index into parents; -1: none.
        recursive: symbol -> whether a chain had it twice in a row.
    """

    folded: Folded
    location: Int64
    chains: Chains | None
    parent: Int64
    parents: tuple[str, ...] = ()
    recursive: NDArray[np.bool_] | None = None

    def sample_roles(self, location_table: Locations) -> NDArray[np.uint8]:
        """Return the role that each row's sample gives to unmapped frames of its chain."""
        if "frame" not in self.folded.dimensions:
            return np.full(len(self.folded), OF_CHAIN, np.uint8)
        roles: NDArray[np.uint8] = location_table.level_roles()[self.location >> ROLE_BITS]
        return roles


def shown_rows(folded: Folded, drawn: DrawnChains | None, location_table: Locations, options: ReportOptions) -> Rows:
    """Return the rows of a profile; filters of locations mark or remove them."""
    frame = folded.dimensions.get("frame")
    location = sample_locations(frame) if frame is not None else np.full(len(folded), OF_SAMPLE, np.int64)
    if options.rows.hide_unresolved:
        named_rows = np.flatnonzero(location_table.symbol[location >> ROLE_BITS] >= 0)
        folded, location = folded.take(named_rows), location[named_rows]
    if options.sample_filter.by_location:
        folded = folded.filtering(options.sample_filter.mark_frames(location_table)[location >> ROLE_BITS])
    chains = Chains(*drawn, _roles(*drawn, location_table)) if drawn is not None else None
    return Rows(folded, location, chains, np.full(len(folded), -1, np.int64))


def drawn_chains(profile: FoldedSamples, symbolizer: Symbolizer, options: ReportOptions, most_frames: int) -> DrawnChains | None:
    """Return the distinct chains (frames and offsets) in the order in which trees are read, truncated to `most_frames`.

    Inlined calls do not count as depth. They are new frames of the symbolizer.
    """
    if profile.chains is None:
        return None
    frames, offsets = profile.chains.chains()
    graph = options.chains.call_graph
    if options.rows.hide_unresolved:
        frames, offsets = _without(frames, offsets, symbolizer.resolve().symbol[frames] < 0)
    callers_first = graph is not None and graph.order == "caller"
    if callers_first:
        frames = _reverse_chains(frames, offsets)
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.max()) > most_frames:
        lengths = np.minimum(lengths, most_frames)
        frames = frames[slices_index(offsets[:-1], lengths)[0]]
    frames, lengths = symbolizer.expand(frames, lengths, callers_first=callers_first)
    return frames, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _without(frames: NDArray[np.int32], offsets: Int64, dropped: NDArray[np.bool_]) -> tuple[NDArray[np.int32], Int64]:
    before = np.concatenate([[0], np.cumsum(~dropped)]).astype(np.int64)
    return frames[~dropped], before[offsets]


def _reverse_chains(frames: NDArray[np.int32], offsets: Int64) -> NDArray[np.int32]:
    """Reverse every chain."""

    def parts() -> Iterator[NDArray[np.int32]]:
        for begin, end in row_blocks(offsets, _FRAMES_AT_ONCE):
            lengths = np.diff(offsets[begin : end + 1])
            mirror = np.repeat(offsets[begin:end] + offsets[begin + 1 : end + 1] - 1, lengths) - np.arange(offsets[begin], offsets[end])
            yield frames[mirror]

    return Overflow().store_joined(parts(), len(frames), np.int32)


def _roles(frames: NDArray[np.int32], offsets: Int64, location_table: Locations) -> NDArray[np.uint8]:
    """Return the role of every frame of all chains; OF_SAMPLE for unmapped frames without a mapped one before them."""

    def parts() -> Iterator[NDArray[np.uint8]]:
        for begin, end in row_blocks(offsets, _FRAMES_AT_ONCE):
            yield _roles_of(frames[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin], location_table)

    return Overflow().store_joined(parts(), len(frames), np.uint8)


def _roles_of(frames: NDArray[np.int32], offsets: Int64, location_table: Locations) -> NDArray[np.uint8]:
    """Return the roles of some chains' frames."""
    roles = np.full(len(frames), OF_CHAIN, np.uint8)
    mapped = location_table.dso[frames] >= 0
    if mapped.all():
        return roles
    last = np.maximum.accumulate(np.where(mapped, np.arange(len(frames)), -1))
    inherits = last >= np.repeat(offsets[:-1], np.diff(offsets))
    role = np.where(inherits, location_table.level_roles()[frames[last]], OF_SAMPLE)
    roles[~mapped] = role[~mapped]
    return roles


def with_parents(rows: Rows, location_table: Locations, options: ReportOptions) -> Rows:
    """Set the parent of each row: the first matching function of its chain; mark rows without one if they are excluded."""
    folded, chains = rows.folded, rows.chains
    if chains is not None:
        hits = np.flatnonzero(_matching(location_table, options.rows.parent)[chains.frames])
        first = np.full(len(chains.offsets) - 1, -1, np.int64)
        first[np.searchsorted(chains.offsets, hits[::-1], side="right") - 1] = location_table.symbol[chains.frames[hits[::-1]]]
        parent = first[folded.chain]
        symbols, number = np.unique(parent[parent >= 0], return_inverse=True)
        parent[parent >= 0] = number.ravel()
        rows = rows._replace(parent=parent, parents=tuple(location_table.symbols.name(symbol) for symbol in symbols.tolist()))
    if options.rows.exclude_other:
        rows = rows._replace(folded=folded.filtering(rows.parent < 0))
    return rows


def without_callees(rows: Rows, location_table: Locations, options: ReportOptions) -> Rows:
    """Drop callees of ignored functions: the last of these in reading order becomes the location of the sample."""
    if not options.chains.ignore_callees or rows.chains is None or not len(rows.chains.frames):
        return rows
    frames, offsets, roles = rows.chains
    chain_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    hits = np.flatnonzero(_matching(location_table, options.chains.ignore_callees)[frames])
    last = np.full(len(offsets) - 1, -1, np.int64)
    last[chain_of[hits]] = hits
    cut = last >= 0
    starts = np.where(cut, last, offsets[:-1])
    index, shorter = slices_index(starts, offsets[1:] - starts)
    of_row = rows.folded.chain
    location = np.where(cut[of_row], sample_locations(frames[last[of_row]]), rows.location)
    return rows._replace(location=location, chains=Chains(frames[index], shorter, roles[index]))


def without_recursion(rows: Rows, location_table: Locations, options: ReportOptions) -> Rows:
    """Keep the first frame, in reading order, of a function that calls itself."""
    if not options.chains.recursion_as_one or rows.chains is None or not len(rows.chains.frames):
        return rows
    frames, offsets, roles = rows.chains
    symbol = location_table.symbol[frames]
    again = (np.diff(symbol, prepend=NOWHERE) == 0) & (symbol >= 0)
    begins = offsets[:-1]
    again[begins[begins < len(frames)]] = False
    recursive = np.zeros(len(location_table.symbols) + 1, np.bool_)
    recursive[symbol[again]] = True
    return rows._replace(chains=Chains(*_without(frames, offsets, again), roles[~again]), recursive=recursive)


def _matching(location_table: Locations, pattern: str) -> NDArray[np.bool_]:
    """Return a mask of the frames whose symbol matches a regular expression."""
    search = re.compile(pattern).search
    return frames_named(location_table, lambda name: search(name) is not None)
