"""Call trees as perf report --stdio draws them: graph, fractal, flat, folded.

The layout is perf's: a margin of twelve, eleven columns for each depth, the share of a node
between the bar and its first function.
"""

from __future__ import annotations

from functools import lru_cache

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.analysis.callchains import NO_BRANCHES
from perfpy.views.pieces import colour_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.analysis.report.call_trees import CallNode
    from perfpy.analysis.report.options import CallGraph
    from perfpy.analysis.report.tables import Histogram

_MARGIN = " " * 12
_BAR = "|          "
_GAP = "           "
_PAD = "          "
_FLAT_VALUE = " " * 11
_FLAT_NAME = " " * 16
_REST = "[...]"
_NAME_BYTES = 1023  # limit of one function
_MASK_BITS = 32  # width of perf's mask of open bars: deeper trees reuse its bits


class Stem(NamedTuple):
    """The root of a tree: the entry's weight, the total of its table, and period and samples of all its chains."""

    weight: int
    total: int
    child_period: int
    child_count: int


class ChainWriter:
    """Draws call trees.

    Args:
        graph: the style and its limits.
        name: returns the name of a frame by its position.
        separator: between the functions of a folded line.
        skip_first: skip the first function, which is in the row.
        colour: the beginning of escape sequences, "" for none.
    """

    def __init__(
        self, graph: CallGraph, name: Callable[[int], str], *, separator: str = ";", skip_first: bool = False, colour: str = ""
    ) -> None:
        self._graph = graph
        self._whole_name = name
        self._separator = separator
        self._skip_first = skip_first
        self._colour = colour

    def lines_of(self, histogram: Histogram, entry: int) -> Iterable[str]:
        """Return the lines of the tree of an entry, whose table has trees."""
        assert histogram.trees is not None
        stem = Stem(histogram.weight(entry), histogram.leader.period, *histogram.trees.under(entry))
        return self.lines(histogram.calls(entry), stem)

    def lines(self, nodes: list[CallNode], stem: Stem) -> Iterable[str]:
        """Return the lines of one tree."""
        if self._graph.style == "flat":
            return self._flat(nodes, stem)
        if self._graph.style == "folded":
            return self._folded_lines(nodes, stem)
        return self._tree(nodes, stem)

    def _name(self, index: int) -> str:
        """Return a name of at most the size of perf's buffer: C++ names may be longer."""
        name = self._whole_name(index)
        if len(name) <= _NAME_BYTES // 4:
            return name
        return name.encode(errors="surrogateescape")[:_NAME_BYTES].decode(errors="surrogateescape")

    def _names(self, node: CallNode) -> list[str]:
        """Return the names of a node's frames, with what their branch records say."""
        names = [*map(self._name, node.frames)]
        return [name + branch.text for name, branch in zip(names, node.branches, strict=True)] if node.branches else names

    def _value(self, period: int, count: int, total: int) -> str:
        if self._graph.value == "period":
            return str(period)
        if self._graph.value == "count":
            return str(count)
        percent = period * 100.0 / total if total else 0.0
        text = f"{percent:.2f}%"
        return colour_share(percent, text, self._colour) if self._colour else text

    def _tree(self, nodes: list[CallNode], stem: Stem) -> list[str]:
        lines: list[str] = []
        margin = _MARGIN
        parent_count = stem.child_count
        if len(nodes) == 1 and nodes[0].period == stem.weight:
            node = nodes[0]
            lines += self._trunk(node)
            margin += "   " if lines else ""
            nodes, parent_count = node.children, node.child_count
        total = stem.weight if self._graph.relative else stem.total
        lines += self._branches(nodes, total, parent_count, margin)
        return [*lines, ""] if lines else lines

    def _trunk(self, node: CallNode) -> Iterator[str]:
        """Yield the single path from an entry, drawn without a share."""
        names = self._names(node)[1:] if self._skip_first else self._names(node)
        if self._graph.limit:
            names = names[: self._graph.limit]
        if names:
            yield _MARGIN + "|"
            yield f"{_MARGIN}---{names[0]}"
        for name in names[1:]:
            yield f"{_MARGIN}   {name}"

    def _branches(self, nodes: list[CallNode], total: int, parent_count: int, margin: str) -> list[str]:
        """Return the lines of all levels below a node; iterative, because trees are as deep as stacks."""
        lines: list[str] = []
        relative, limit = self._graph.relative, self._graph.limit
        work: list[_OpenLevel] = [_OpenLevel(nodes, total, parent_count, 1, 1)]
        while work:
            level = work[-1]
            if level.index >= len(level.nodes) or level.index == limit > 0:
                lines += self._remainder(level, margin)
                work.pop()
                continue
            node = level.nodes[level.index]
            level.index += 1
            level.remaining -= node.period
            level.counted += node.count
            bit = _bit(level.depth - 1)
            head = margin + _bars(level.open_bars, level.depth - 1)
            lines.append(head + (_BAR if level.open_bars & bit else _GAP))
            if level.index == len(level.nodes) and not (relative and level.remaining):
                level.open_bars &= ~bit
                if level.depth > _MASK_BITS:
                    head = margin + _bars(level.open_bars, level.depth - 1)
            head += "|" if level.open_bars & bit else " "
            first, *others = self._names(node)
            lines.append(f"{head}--{self._value(node.period, node.count, level.total)}--{first}")
            if others:
                head += _PAD
                lines += [head + name for name in others]
            if node.children:
                below = node.child_period if relative else level.total
                work.append(_OpenLevel(node.children, below, node.child_count, level.depth + 1, level.open_bars | _bit(level.depth)))
        return lines

    def _remainder(self, level: _OpenLevel, margin: str) -> Iterator[str]:
        """Yield the remainder in a fractal tree: the share of the hidden nodes."""
        if not (self._graph.relative and level.remaining and level.remaining != level.total):
            return
        rest = level.parent_count - level.counted if level.nodes else 0
        if self._graph.value == "count" and level.nodes and rest <= 0:
            return
        bars = level.open_bars & ~_bit(level.depth - 1)
        value = self._value(level.remaining, rest, level.total)
        rest_name = _REST + (NO_BRANCHES if any(node.branches for node in level.nodes) else "")
        yield f"{margin}{_bars(bars, level.depth - 1)} --{value}--{rest_name}"

    def _flat(self, nodes: list[CallNode], stem: Stem) -> Iterator[str]:
        for node, frames in self._chains(nodes, stem):
            yield _FLAT_VALUE + self._value(node.period, node.count, stem.total)
            for frame in frames:
                yield _FLAT_NAME + self._name(frame)
            yield ""

    def _folded_lines(self, nodes: list[CallNode], stem: Stem) -> Iterator[str]:
        for node, frames in self._chains(nodes, stem):
            value = self._value(node.own_period, node.own_count, stem.total)
            yield f"{value} {self._separator.join(map(self._name, frames))}"

    def _chains(self, nodes: list[CallNode], stem: Stem) -> list[tuple[CallNode, list[int]]]:
        """Return every frame where chains end, with all functions up to it, sorted by share."""
        least = stem.total * (self._graph.percent / 100)
        chains: list[tuple[CallNode, list[int]]] = []
        stack: list[tuple[CallNode, list[int], bool]] = [(node, [], False) for node in reversed(nodes)]
        while stack:
            node, above, is_expanded = stack.pop()
            if not is_expanded:
                stack.append((node, above, True))
                frames = above + node.frames
                stack.extend((child, frames, False) for child in reversed(node.children))
            elif node.own_period and node.own_period >= int(least):
                chains.append((node, above + node.frames))
        chains.sort(key=lambda chain: -chain[0].own_period)
        return chains[: self._graph.limit] if self._graph.limit else chains


class _OpenLevel:
    """Siblings being drawn; open_bars has a bit for each depth with further siblings."""

    def __init__(self, nodes: list[CallNode], total: int, parent_count: int, depth: int, open_bars: int) -> None:
        self.nodes = nodes
        self.total = self.remaining = total
        self.parent_count = parent_count
        self.depth = depth
        self.open_bars = open_bars
        self.index = self.counted = 0


def _bit(depth: int) -> int:
    return 1 << depth % _MASK_BITS


def _bars(open_bars: int, depth: int) -> str:
    pattern = _all_bars(open_bars)
    repeats, levels = divmod(depth, _MASK_BITS)
    return pattern * repeats + pattern[: levels * len(_BAR)]


@lru_cache(maxsize=4096)
def _all_bars(open_bars: int) -> str:
    """Return the bars of the levels with a bit of their own; deeper levels repeat them."""
    return "".join(_BAR if open_bars & _bit(level) else _GAP for level in range(_MASK_BITS))
