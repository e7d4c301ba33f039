"""Join folded rows to the entries of histograms, including entries of callers, and yield the walkers of call trees.

An entry is a combination of table (event, or event group), the sample's own
keys and the keys of its location. In a report with callers (perf's --children)
every function of a chain makes an entry, once per chain even if it
recurs: for its first occurrence, starting with the sample's own location.
"""

from __future__ import annotations

import re

import numpy as np

from perfpy.abi.columns import distinct, row_blocks, slices_index
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass
from perfpy.analysis.aggregate.overflow import Overflow
from perfpy.analysis.aggregate.profile import LATENCY
from perfpy.analysis.filters import frames_named
from perfpy.analysis.locations import NOWHERE, OF_CHAIN, OF_SAMPLE, ROLE_BITS, chain_locations, sample_locations
from perfpy.analysis.sort_key import Mode
from perfpy.symbols.files.debug_files import Inline
from perfpy.symbols.interning import GroupSums, IdTable, TupleTable, first_occurrences, sum_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples
    from perfpy.analysis.callchains import BranchHistory
    from perfpy.analysis.locations import Int64, Locations
    from perfpy.analysis.report.options import ReportOptions
    from perfpy.symbols.symbolizer import Symbolizer

    DrawnChains = tuple[NDArray[np.int32], Int64]


_HALF = np.uint64(32)
# so many that the lookup tables of repetitions stay in a CPU's cache
_FRAMES_AT_ONCE = 1 << 17


class Chains(NamedTuple):
    """Distinct callchains in the order in which trees are read.

    Attributes:
        frames: ids.
        offsets: of each chain, and the end of the last.
        roles: of each frame (perfpy.analysis.locations), OF_SAMPLE if the sample decides.
    """

    frames: NDArray[np.int32]
    offsets: Int64
    roles: NDArray[np.uint8]


class Tables(NamedTuple):
    """The table of each event, and its member number in the table's group; members: the size of the largest group."""

    table: Int64
    member: Int64
    members: int


class Walkers(NamedTuple):
    """Distinct chains under roots, for call trees.

    Attributes:
        root: number of the root.
        start, end: positions in the flat frames.
        period, samples: of the chain.
    """

    root: Int64
    start: Int64
    end: Int64
    period: Int64
    samples: Int64


class WalkersOfRoots:
    """All walkers, accessed by ranges of roots. Each chain has several, so each takes little memory."""

    def __init__(self, folded: Folded, chains: Chains | None, roots: int) -> None:
        """Begin without walkers; folded, chains: of the rows."""
        self._folded, self._chains = folded, chains
        # columns of each block, roots ascending: roots, rows, starts
        self._blocks: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]] = []
        self._overflow = Overflow()
        self._counts = np.zeros(roots, np.int64)
        self._start_type = np.uint32 if chains is None or int(chains.offsets[-1]) < 1 << 32 else np.int64

    def add(self, root: Int64, row: Int64, start: Int64) -> None:
        """Add a block of walkers."""
        order = np.argsort(root, kind="stable")
        columns = root.astype(np.int32)[order], row.astype(np.int32)[order], start.astype(self._start_type)[order]
        keep = self._overflow.keep
        self._blocks.append((keep(columns[0]), keep(columns[1]), keep(columns[2])))
        self._counts += np.bincount(root, minlength=len(self._counts))

    def ranges(self, most: int) -> list[tuple[int, int]]:
        """Return ranges of roots with at most this number of walkers, or of one root."""
        return list(row_blocks(np.concatenate([[0], np.cumsum(self._counts)]), most))

    def of(self, begin: int, end: int) -> Walkers:
        """Return the walkers of a range of roots, which are renumbered from 0."""
        parts: list[list[NDArray[Any]]] = [[np.zeros(0, np.int64)] for _ in range(3)]
        for columns in self._blocks:
            first, last = np.searchsorted(columns[0], [begin, end]).tolist()
            for part, column in zip(parts, columns, strict=True):
                part.append(column[first:last])
        root, row, start = (np.concatenate(part) for part in parts)
        assert self._chains is not None or not len(row)
        last_of = row if self._chains is None else self._chains.offsets[self._folded.chain[row] + 1]
        return Walkers(root - begin, start, last_of, self._folded.period[row], self._folded.count[row])


@dataclass(eq=False, repr=False)
class Entries:
    """All entries of all tables.

    Attributes:
        table: of each entry.
        row, location: of the first sample.
        measures: name -> int64[entries, members]: period, samples, children and further sums.
        depth: the longest chain below each entry (with callers; of a group's first member).
    """

    table: Int64
    row: Int64
    location: Int64
    measures: dict[str, Int64]
    depth: Int64 | None

    def __len__(self) -> int:
        return len(self.table)


class EntryBuilder:
    """The join of folded rows to entries.

    Args:
        folded: the rows.
        tables: of the events.
        locations: of each row's samples.
        sample_classes, location_class: class ids of the keys, per row and per location.
        chains: None without callchains.
        sample_roles: the role that each row's sample gives to unmapped frames.
        callers: add entries for callers.
    """

    def __init__(
        self,
        folded: Folded,
        tables: Tables,
        locations: Int64,
        sample_classes: list[Int64],
        location_class: NDArray[np.int32],
        chains: Chains | None,
        sample_roles: NDArray[np.uint8],
        *,
        callers: bool,
    ) -> None:
        self._tables = tables
        # the first member of a group makes entries first, because they show its texts
        order = np.argsort(tables.member[folded.event], kind="stable") if tables.members > 1 else None
        self._order, self._folded = order, folded if order is None else folded.take(order)
        self._locations = locations if order is None else locations[order]
        self._sample_roles = sample_roles if order is None else sample_roles[order]
        self._member = tables.member.astype(np.int32)[self._folded.event]
        self._table = tables.table.astype(np.int32)[self._folded.event]
        self._location_class = location_class
        classes = TupleTable([True] * (1 + len(sample_classes)))
        columns = sample_classes if order is None else [column[order] for column in sample_classes]
        self._sample_class = classes.ids_and_new([self._table, *columns])[0]
        self._chains = chains
        self._callers = callers and chains is not None
        self._ids = IdTable()
        self._first_row: list[Int64] = []
        self._first_location: list[Int64] = []

    def _entry_ids(self, rows: Int64, locations: Int64) -> NDArray[np.int32]:
        keys = self._sample_class[rows].astype(np.uint64) << _HALF | self._location_class[locations].astype(np.uint64)
        ids, new = self._ids.ids_and_new(keys)
        if len(new):
            self._first_row.append(rows[new])
            self._first_location.append(locations[new])
        return ids

    def build(self) -> Entries:
        """Create the entries and their measures."""
        folded, members = self._folded, self._tables.members
        passing = {"children": folded.period} | {
            f"{name}_children": folded.measures[name] for name in (LATENCY,) if name in folded.measures
        }
        children, deepest = {name: GroupSums() for name in passing}, np.zeros(0, np.int64)
        if self._callers:
            for visit in self._visits():
                passed = visit.entry.astype(np.int64) * members + self._member[visit.row]
                for name, values in passing.items():
                    children[name].add(passed, values[visit.row], len(self._ids) * members)
                deepest = np.append(deepest, np.zeros(len(self._ids) - len(deepest), np.int64))
                length = self._end(visit.row) - visit.start
                np.maximum.at(deepest, visit.entry, np.where(self._member[visit.row] == 0, length, 0) if members > 1 else length)
        self._own = own = self._entry_ids(np.arange(len(folded)), self._locations)
        size = len(self._ids) * members
        cells = own.astype(np.int64) * members + self._member
        measures = {"period": sum_by(cells, folded.period, size), "samples": sum_by(cells, folded.count, size)}
        for name, values in folded.measures.items():
            measures[name] = sum_by(cells, values, size)
        if self._callers:
            measures |= {name: group.totals(size) for name, group in children.items()}
        row = _concatenate(self._first_row)
        return Entries(
            self._table[row].astype(np.int64),
            row if self._order is None else self._order[row],
            _concatenate(self._first_location),
            {name: values.reshape(-1, members) for name, values in measures.items()},
            deepest if self._callers else None,
        )

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self._ids)

    def outermost(self) -> NDArray[np.bool_]:
        """Return a mask of the entries of functions that chains begin with, without callers; only with callers."""
        is_outermost = np.zeros(self.size, np.bool_)
        if self._callers:
            assert self._chains is not None
            first, end = self._chains.offsets[self._folded.chain], self._chains.offsets[self._folded.chain + 1]
            rows = np.flatnonzero(first < end)
            is_outermost[self._entry_ids(rows, self._frame_locations(rows, first[rows]))] = True
        return is_outermost

    def _end(self, rows: Int64) -> Int64:
        assert self._chains is not None
        return self._chains.offsets[self._folded.chain[rows] + 1]

    def walkers(self, chosen: NDArray[np.bool_], tree_of: Int64, roots: int) -> WalkersOfRoots:
        """Return the chains under some entries (of a group: the first member's). tree_of: entry -> root; roots: their number."""
        folded, chains = self._folded, self._chains
        walkers = WalkersOfRoots(folded, chains, roots)
        if chains is None:
            return walkers
        if self._callers:
            for visit in self._visits():
                selected = chosen[visit.entry] & (self._member[visit.row] == 0)
                walkers.add(tree_of[visit.entry[selected]], visit.row[selected], visit.start[selected])
        else:
            rows = np.flatnonzero(chosen[self._own] & (self._member == 0))
            walkers.add(tree_of[self._own[rows]], rows, chains.offsets[folded.chain[rows]])
        return walkers

    def _visits(self) -> Iterator[_Visits]:
        """Yield the entries of all rows' chains, each once per row, some thousand rows at a time."""
        assert self._chains is not None
        offsets = self._chains.offsets
        chain = self._folded.chain
        lengths = np.diff(offsets)[chain]
        reach = np.concatenate([[0], np.cumsum(lengths + 1)])
        for begin, end in row_blocks(reach, _FRAMES_AT_ONCE):
            yield self._visits_of(np.arange(begin, end), offsets[chain[begin:end]], lengths[begin:end])

    def _visits_of(self, rows: Int64, starts: Int64, lengths: Int64) -> _Visits:
        assert self._chains is not None
        # a row's visits: its own location, for the whole chain, then every frame, for the chain from there on
        index, bounds = slices_index(starts - 1, lengths + 1)
        row = np.repeat(rows, lengths + 1)
        own = bounds[:-1]
        index[own] = starts
        location = np.empty(len(index), np.int64)
        inner = np.ones(len(index), np.bool_)
        inner[own] = False
        location[inner] = self._frame_locations(row[inner], index[inner])
        location[own] = self._locations[rows]
        entry = self._entry_ids(row, location)
        first = first_occurrences((row - rows[0]).astype(np.uint64) << _HALF | entry.astype(np.uint64))
        return _Visits(entry[first], row[first], index[first])

    def _frame_locations(self, rows: Int64, positions: Int64) -> Int64:
        """Return the locations of frames at some positions of the flat chains, each in a row's chain."""
        assert self._chains is not None
        roles = self._chains.roles[positions]
        undecided = np.flatnonzero(roles == OF_SAMPLE)
        roles[undecided] = self._sample_roles[rows[undecided]]
        return chain_locations(self._chains.frames[positions], roles)


class _Visits(NamedTuple):
    """Entries that rows pass through; start: of the remaining chain."""

    entry: NDArray[np.int32]
    row: Int64
    start: Int64


def _concatenate(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


# The rows of tables: apply filters of locations, and prepare the callchains for trees.
#
# Each step returns a new `Rows`. perf looks for parents before it drops callees.


#: the dimensions of frames that --hide-unresolved looks at
_LOCATED = ("frame", "sampled", "branch_from")
_MOST_OF_KERNEL = 32  # frames of the kernel before a waiting thread's location
# frames processed together: the intermediate arrays are larger than they are
_ROW_FRAMES_AT_ONCE = 1 << 18


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
    if options.rows.hide_unresolved:
        has_name = np.ones(len(folded), np.bool_)
        for name in _LOCATED:  # perf skips samples without a symbol, and the branches of others if they lack one
            if name in folded.dimensions:
                has_name &= location_table.symbol[folded.dimensions[name]] >= 0
        folded = folded.take(np.flatnonzero(has_name))
    frame = folded.dimensions.get("frame")
    role = OF_CHAIN if options.columns.mode is Mode.BRANCH else OF_SAMPLE  # perf keeps the addresses of branches in memory
    location = chain_locations(frame, np.uint8(role)) if frame is not None else np.full(len(folded), role, np.int64)
    if options.sample_filter.by_location:  # of branches: that of the sample
        folded = folded.filtering(options.sample_filter.mark_frames(location_table)[folded.dimensions.get("sampled", frame)])
    chains = Chains(*drawn, _roles(*drawn, location_table)) if drawn is not None else None
    return Rows(folded, location, chains, np.full(len(folded), -1, np.int64))


def drawn_chains(
    profile: FoldedSamples, symbolizer: Symbolizer, options: ReportOptions, most_frames: int, history: BranchHistory | None = None
) -> tuple[DrawnChains | None, DrawnChains | None]:
    """Return the distinct chains (frames and offsets) in the order in which trees are read, truncated to `most_frames`, and whole.

    Trees that begin with callers lose the innermost frames, which tell where the time goes.

    Inlined calls do not count as depth. They are new frames of the symbolizer. history: of the folding, if chains are of its entries.
    """
    if profile.chains is None:
        return None, None
    frames, offsets = profile.chains.chains()
    if history is not None:
        frames = history.frames(frames, symbolizer)
    graph = options.chains.call_graph
    if options.rows.hide_unresolved:
        frames, offsets = _without(frames, offsets, symbolizer.resolve().symbol[frames] < 0)
    callers_first = graph is not None and graph.order == "caller"
    if callers_first:
        frames = _reverse_chains(frames, offsets)
    lengths = np.diff(offsets)

    def expanded(frames: NDArray[np.int32], lengths: Int64) -> DrawnChains:
        frames, lengths = symbolizer.expand(frames, lengths, callers_first=callers_first)
        return frames, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    whole = expanded(frames, lengths)
    if not len(lengths) or int(lengths.max()) <= most_frames:
        return whole, whole
    lengths = np.minimum(lengths, most_frames)
    return expanded(frames[slices_index(offsets[:-1], lengths)[0]], lengths), whole


def with_inlined_leaves(folded: Folded, drawn: DrawnChains | None, symbolizer: Symbolizer, *, callers_first: bool) -> Folded:
    """Return the rows with the innermost call that was inlined at their locations, which callchains show; perf counts the function
    that it is inlined into.
    """
    if drawn is None or symbolizer.inliner is None or symbolizer.inline is not Inline.ALL or "frame" not in folded.dimensions:
        return folded
    frames, offsets = drawn
    table, own = symbolizer.resolve(), folded.dimensions["frame"].copy()
    symbols = distinct(table.symbol).tolist()
    is_inlined = np.isin(table.symbol, [symbol for symbol in symbols if symbol >= 0 and symbolizer.symbols.is_inlined(symbol)])
    begins, dso = table.address - table.symbol_offset, table.dso
    rows = np.flatnonzero((folded.chain >= 0) & (table.symbol[own] >= 0))
    first, end = offsets[folded.chain[rows]], offsets[folded.chain[rows] + 1]
    step, position = (-1, end - 1) if callers_first else (1, first)
    for _ in range(_MOST_OF_KERNEL):
        is_inside = (position >= first) & (position < end)
        rows, position, first, end = rows[is_inside], position[is_inside], first[is_inside], end[is_inside]
        innermost = frames[position]
        is_same = (begins[innermost] == begins[own[rows]]) & (dso[innermost] == dso[own[rows]])
        chosen = is_same & is_inlined[innermost]
        own[rows[chosen]] = innermost[chosen]
        rows, position, first, end = rows[~is_same], position[~is_same] + step, first[~is_same], end[~is_same]
        if not len(rows):
            break
    return folded.with_dimensions({"frame": own})


def _without(frames: NDArray[np.int32], offsets: Int64, dropped: NDArray[np.bool_]) -> tuple[NDArray[np.int32], Int64]:
    before = np.concatenate([[0], np.cumsum(~dropped)]).astype(np.int64)
    return frames[~dropped], before[offsets]


def _reverse_chains(frames: NDArray[np.int32], offsets: Int64) -> NDArray[np.int32]:
    """Reverse every chain."""

    def parts() -> Iterator[NDArray[np.int32]]:
        for begin, end in row_blocks(offsets, _ROW_FRAMES_AT_ONCE):
            lengths = np.diff(offsets[begin : end + 1])
            mirror = np.repeat(offsets[begin:end] + offsets[begin + 1 : end + 1] - 1, lengths) - np.arange(offsets[begin], offsets[end])
            yield frames[mirror]

    return Overflow().store_joined(parts(), len(frames), np.int32)


def _roles(frames: NDArray[np.int32], offsets: Int64, location_table: Locations) -> NDArray[np.uint8]:
    """Return the role of every frame of all chains; OF_SAMPLE for unmapped frames without a mapped one before them."""
    is_mapped = location_table.dso >= 0
    if all(is_mapped[frames[begin : begin + _ROW_FRAMES_AT_ONCE]].all() for begin in range(0, len(frames), _ROW_FRAMES_AT_ONCE)):
        return np.broadcast_to(np.uint8(OF_CHAIN), len(frames))

    def parts() -> Iterator[NDArray[np.uint8]]:
        for begin, end in row_blocks(offsets, _ROW_FRAMES_AT_ONCE):
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
    if options.columns.mode is Mode.BRANCH:
        return rows  # whose locations are not those of their samples
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
