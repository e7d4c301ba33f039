"""Where most of the time went, beside the rows: which files and commands, and along which calls.

What enters: a Histogram. What leaves: files and commands with their shares; a path of
functions, each stretch of it with the share that goes on through it.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.samples.locations import ROLE_BITS, Int64
from perfpy.untrusted.text import visible
from perfpy.views.report.call_lines import call_names
from perfpy.views.report.fitting import fitted_path
from perfpy.views.report.screen_table import file_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.analysis.report.call_tree import CallNode
    from perfpy.analysis.report.histogram import Histogram

#: files of code that was made while the program ran
_MADE: Final = re.compile(r"\[JIT\]|/perf-\d+\.map|jitted-\d+")
_ADDRESS: Final = re.compile("0x[0-9a-f]+|0")  # what frames without a symbol are called
_UNKNOWN: Final = "[unknown]"
_MOST_MADE: Final = 100
_LEVEL: Final = len("[.] ")
_SMALL: Final = 0.1  # of the path's first share: what is below is not followed


class Stretch(NamedTuple):
    """Functions that follow each other, and what share goes on to the last of them."""

    names: tuple[str, ...]
    share: float
    arrow: str

    def text(self, width: int) -> str:
        """The functions, within so many columns."""
        return fitted_path(self.names, self.arrow, width)


class HottestPath(NamedTuple):
    """Where most goes on to at each stretch, and what to call it."""

    title: str
    stretches: list[Stretch]

    def within(self, most: int) -> list[Stretch]:
        """At most so many stretches: the first, the last, and those before which most is lost; the others join the stretch after them."""
        inner = range(1, len(self.stretches) - 1)
        lost = sorted(inner, key=lambda index: self.stretches[index].share - self.stretches[index - 1].share)
        kept = {0, len(self.stretches) - 1, *lost[: max(most - 2, 0)]}
        shown: list[Stretch] = []
        names: tuple[str, ...] = ()
        for index, stretch in enumerate(self.stretches):
            names += stretch.names
            if index in kept:
                shown.append(stretch._replace(names=names))
                names = ()
        return shown


def hottest_by(key: str, histogram: Histogram) -> list[tuple[float, str]]:
    """The share of each file (key dso), command (comm) ..., the largest first; nothing in reports that do not look at it."""
    if key not in histogram.keys:
        return []
    entries = histogram.shown()
    values = histogram.keys[key]
    _, first, groups = np.unique(values.same[entries], return_index=True, return_inverse=True)
    periods = sum_by(groups, histogram.entries.measures["period"][entries, 0], len(first)).tolist()
    texts = histogram.texts(key, entries[first])
    return sorted(((histogram.share(period), file_name(text)) for period, text in zip(periods, texts, strict=True)), reverse=True)


def hottest_made(histogram: Histogram, name: Callable[[str], str]) -> list[tuple[float, str]]:
    """Functions of runtimes that made their code while the program ran (Python, Node.js ...), with what they call, the largest share first.

    The time is in the interpreter, so they are not among the hottest by what is their own. Nothing in reports without callers.
    """
    if "children" not in histogram.entries.measures or not {"dso", "symbol"} <= set(histogram.keys):
        return []
    entries = histogram.shown()
    numbers = histogram.keys["dso"].number[entries]
    files = np.unique(numbers)
    made = files[[bool(_MADE.search(text)) for text in histogram.keys["dso"].column.texts_of(files)]]
    entries = _named(histogram, entries[np.isin(numbers, made)])
    entries = entries[np.argsort(-histogram.entries.measures["children"][entries, 0], kind="stable")][:_MOST_MADE]
    shares = histogram.percents("children", entries).tolist()
    return [(share, visible(name(text[_LEVEL:]))) for share, text in zip(shares, histogram.texts("symbol", entries), strict=True)]


def hottest_path(histogram: Histogram, name: Callable[[str], str]) -> HottestPath | None:
    """The calls under the first row, outside the idle task, that has a name; under the first where none is so. None without call trees.

    name: a function's name -> what is shown of it.
    """
    trees, graph = histogram.trees, histogram.options.call_graph
    rows = histogram.shown()
    if trees is None or graph is None or not len(rows):
        return None
    entry, title = _beginning(histogram, rows)
    arrow = " → " if graph.order == "caller" else " ← "
    stretches, nodes = [], histogram.calls(entry, alone=True)
    least = _SMALL * histogram.weight(entry)
    while nodes:
        node = max(nodes, key=_period)
        if node.period < least:
            break
        called = [_UNKNOWN if _ADDRESS.fullmatch(text) else text for text in call_names(trees, node.frames, name)]
        names = tuple(visible(text) for text, _ in groupby(called))
        stretches.append(Stretch(names, histogram.share(node.period), arrow))
        nodes = node.children
    return HottestPath(title if graph.order == "caller" else f"{title}, to its callers", stretches) if stretches else None


def _beginning(histogram: Histogram, rows: Int64) -> tuple[int, str]:
    """The row whose calls are followed, and what to call them."""
    title = "hottest path"
    busy = rows[histogram.tids[rows] != 0]
    if len(busy) and busy[0] != rows[0]:
        title += " outside the idle task"
    rows = busy if len(busy) else rows
    named = _named(histogram, rows) if any(key.of_location for key in histogram.layout.keys) else rows
    if len(named) and named[0] != rows[0]:
        title += ", of functions with names"
    return int(named[0] if len(named) else rows[0]), title


def _named(histogram: Histogram, rows: Int64) -> Int64:
    """The rows in functions whose names are known."""
    named: Int64 = rows[histogram.locations.symbol[histogram.entries.location[rows] >> ROLE_BITS] >= 0]
    return named


def _period(node: CallNode) -> int:
    return node.period
