"""The call trees of one table's entries: nodes, sums and names of frames, one entry at a time."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.analysis.call_trees.call_tree import ClassedFrames, Forests, Pruning, grow, minimum_period

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.call_trees.call_names import CallNames
    from perfpy.analysis.call_trees.call_tree import CallNode, SiblingNames
    from perfpy.analysis.entries.entries import EntryBuilder
    from perfpy.analysis.entries.options import CallGraph
    from perfpy.analysis.samples.locations import Int64, Locations


# chains per batch of trees; building takes ten times their memory
_WALKERS_AT_ONCE = 1 << 18


class Trees:
    """The call trees of one histogram's entries, built on first use."""

    def __init__(
        self,
        builder: EntryBuilder,
        entries: Int64,
        weights: Int64,
        total: int,
        graph: CallGraph,
        classes: NDArray[Any],
        frames: NDArray[np.int32],
        locations: Locations,
        names: SiblingNames | None = None,
        calls: CallNames | None = None,
        recursive: NDArray[np.bool_] | None = None,
    ) -> None:
        self._builder = builder
        self._entries = entries
        self._weights = weights
        self._minimum = minimum_period(total, graph.percent)
        self._graph = graph
        self._classes = classes  # of each frame
        self._frames = frames  # the frame at each position in the flat chains
        self._locations = locations
        self._names = names
        self._calls = calls  # texts after the names of functions
        self._recursive = recursive  # of each symbol
        self._alone: dict[int, list[CallNode]] = {}

    @cached_property
    def _root_of(self) -> Int64:
        roots = np.full(int(self._entries.max()) + 1 if len(self._entries) else 0, -1, np.int64)
        roots[self._entries] = np.arange(len(self._entries))
        return roots

    @cached_property
    def _forest(self) -> Forests:
        return self._grown(self._visible_entries, self._root_of, len(self._entries))

    @cached_property
    def _visible_entries(self) -> Int64:
        """The entries with visible trees: those above the threshold; fractal trees have their own threshold."""
        return self._entries if self._graph.relative else self._entries[self._weights >= self._minimum]

    def _grown(self, entries: Int64, root_of: Int64, roots: int) -> Forests:
        graph = self._graph
        is_selected = np.zeros(self._builder.size, np.bool_)
        is_selected[entries] = True
        padded = np.full(self._builder.size, -1, np.int64)
        padded[: len(root_of)] = root_of
        walkers = self._builder.walkers(is_selected, padded, roots)
        pruning = Pruning(relative=graph.percent / 100) if graph.relative else Pruning(self._minimum)
        by_period = graph.style in ("graph", "fractal")
        ranges = walkers.ranges(_WALKERS_AT_ONCE)
        flat = ClassedFrames(self._frames, self._classes)
        grown = [
            grow(flat, walkers.of(*limits), limits[1] - limits[0], pruning, by_period=by_period, names=self._names) for limits in ranges
        ]
        return Forests([begin for begin, _ in ranges], grown)

    def have_calls(self, entries: Int64) -> NDArray[np.bool_]:
        """Return a mask of the entries whose trees have nodes."""
        return self._forest.have_nodes(self._root_of[entries])

    def calls(self, entry: int) -> list[CallNode]:
        """Return the top nodes of an entry's tree."""
        return self._forest.children_of_root(int(self._root_of[entry]))

    def calls_alone(self, entry: int) -> list[CallNode]:
        """Return the top nodes of an entry's tree without building those of other entries."""
        if "_forest" in self.__dict__:
            return self.calls(entry)
        if entry not in self._alone:
            root_of = np.full(entry + 1, 0, np.int64)
            positions = self._visible_entries[self._visible_entries == entry]
            self._alone[entry] = self._grown(positions, root_of, 1).children_of_root(0) if len(positions) else []
        return self._alone[entry]

    def outermost(self, entries: Int64) -> NDArray[np.bool_]:
        """Return a mask of the entries of functions that chains begin with."""
        return self._builder.outermost()[entries]

    def frame_name(self, position: int) -> str:
        """Return the name of a frame in a call tree: its function, or its address."""
        frame = int(self._frames[position])
        name = self._locations.name(frame)
        source = self._calls.text(frame) if self._calls and name else None
        name = f"{name} {source}" if source is not None else name or _hex(int(self._locations.ip[frame]))
        return f"{name} (inlined)" if self._locations.is_inlined(frame) else name

    def in_kernel(self, position: int) -> bool:
        """Whether a frame of a call tree is in the kernel."""
        return int(self._locations.level[int(self._frames[position])]) == ord("k")

    def is_recursive(self, position: int) -> bool:
        """Whether the frame merges a function and its recursive calls."""
        return self._recursive is not None and bool(self._recursive[self._locations.symbol[int(self._frames[position])]])

    def under(self, entry: int) -> tuple[int, int]:
        """Return the period and the samples of all chains of an entry."""
        root = int(self._root_of[entry])
        return self._forest.child_period(root), self._forest.child_count(root)


def _hex(number: int) -> str:
    """Format a number like C's %#x: no prefix for 0."""
    return hex(number) if number else "0"
