"""A call tree in few columns for a terminal: shares in front, thin lines for the depth."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.analysis.call_trees.call_tree import CallNode
    from perfpy.analysis.call_trees.trees import Trees
    from perfpy.analysis.report.histogram import Histogram

#: appended to the name of a recursive function
RECURSIVE: Final = " (recursive)"
_NO_SHARE: Final = " " * len("100.00%")


def call_lines(histogram: Histogram, entry: int, name: Callable[[str], str] = str) -> list[str]:
    """Return a line for each function; functions with a single callee have no share of their own.

    Args:
        histogram: the table.
        entry: the entry whose tree is drawn.
        name: converts a function's name to its display name.
    """
    trees = histogram.trees
    assert trees is not None  # the report has call trees
    lines: list[str] = []
    # nodes to write, with their prefix and the prefix of the nodes below
    work: list[tuple[CallNode, str, str]] = _siblings(histogram.calls(entry, alone=True), "")
    while work:
        node, before, below = work.pop()
        share = f"{histogram.share(node.period):6.2f}%"
        for number, text in enumerate(fold_repetitions(call_names(trees, node.frames, name))):
            lines.append(f"{_NO_SHARE if number else share}  {below if number else before}{visible(text)}")
        work += _siblings(node.children, below)
    return lines


def call_names(trees: Trees, frames: list[int], name: Callable[[str], str]) -> list[str]:
    """Return the names of frames of a call tree."""
    return [name(trees.frame_name(frame)) + RECURSIVE * trees.is_recursive(frame) for frame in frames]


def fold_repetitions(names: list[str]) -> Iterator[str]:
    """Yield each name, once for consecutive repetitions, with their number."""
    for name, group in groupby(names):
        times = len(list(group))
        yield f"{name}  ({times} times)" if times > 1 else name


def _siblings(nodes: list[CallNode], stem: str) -> list[tuple[CallNode, str, str]]:
    """Return nodes of one parent, last first; a single node is not indented."""
    if len(nodes) == 1:
        return [(nodes[0], stem, stem)]
    last = len(nodes) - 1
    drawn = [(node, stem + ("└ " if index == last else "├ "), stem + ("  " if index == last else "│ ")) for index, node in enumerate(nodes)]
    return drawn[::-1]
