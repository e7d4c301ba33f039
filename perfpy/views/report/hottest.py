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
from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.call_lines import call_names
from perfpy.views.report.fitting import fitted_path
from perfpy.views.report.screen_table import file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from perfpy.analysis.report.call_tree import CallNode
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.trees import Trees
    from perfpy.analysis.samples.locations import Int64

#: files of code that was made while the program ran
_MADE: Final = re.compile(r"\[JIT\]|/perf-\d+\.map|jitted-\d+")
_ADDRESS: Final = re.compile("0x[0-9a-f]+|0")  # what frames without a symbol are called
_UNKNOWN: Final = "[unknown]"
_MOST_MADE: Final = 100
_LEVEL: Final = len("[.] ")
#: functions of C, of the standard libraries of C++ and Rust, of Go's runtime
_OF_LIBRARIES: Final = re.compile(r"_|(?:<&?|operator )?(?:std|core|alloc|hashbrown|__\w+)::|runtime[./]|operator (?:new|delete)")
_SCHEDULER: Final = ("__schedule", "schedule")  # what a thread that waits is in
_OF_FUNCTION: Final = ("dso", "symbol")
_COMM: Final = 15  # characters of a command that the kernel keeps
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


class NamedShare(NamedTuple):
    """A function: its share in percent with what it calls, its name, and the share that is its own."""

    share: float
    name: str
    own: float


def hottest_made(histogram: Histogram, name: Callable[[str], str]) -> list[NamedShare]:
    """Functions of runtimes that made their code while the program ran (Python, Node.js ...), with what they call, the largest share first.

    The time is in the interpreter, so they are not among the hottest by what is their own. Nothing in reports without callers.
    """
    files = {number for number, text in _files(histogram).items() if _MADE.search(text)}
    return [function._replace(name=visible(name(function.name))) for function in _with_callees(histogram, files)]


def hottest_of_program(histogram: Histogram, name: Callable[[str], str]) -> tuple[str, list[NamedShare]]:
    """The program's file, which is called as its command is, and its functions, with what they call, the largest share first.

    Without those of the language's own library, which compilers put into the same file. Of several programs the one with the
    largest share. Nothing in reports without callers, files or commands.
    """
    if "comm" not in histogram.keys:
        return "", []
    commands = {text.strip() for text in histogram.texts("comm", _first_of_each(histogram.keys["comm"].same, histogram.shown()))}
    found = [
        (text, [hot for hot in _with_callees(histogram, {number}) if not _OF_LIBRARIES.match(at_a_glance(hot.name))])
        for number, text in _files(histogram).items()
        if text.strip().rpartition("/")[2][:_COMM] in commands
    ]
    file, shares = max(found, key=lambda item: item[1][:1], default=("", []))
    return file_name(file), [function._replace(name=visible(name(function.name))) for function in shares]


def _files(histogram: Histogram) -> dict[int, str]:
    """The files of the rows that are shown, by what is the same in their rows; nothing in reports without files, functions or callers."""
    if "children" not in histogram.entries.measures or not {"dso", "symbol"} <= set(histogram.keys):
        return {}
    files = histogram.keys["dso"]
    entries = _first_of_each(files.same, histogram.shown())
    return dict(zip(files.same[entries].tolist(), histogram.texts("dso", entries), strict=True))


def _with_callees(histogram: Histogram, files: Collection[int]) -> list[NamedShare]:
    """The functions of some files with the shares of what they call, too: each once, in however many rows it stands."""
    if not files:
        return []
    entries = histogram.shown()
    entries = _named(histogram, entries[np.isin(histogram.keys["dso"].same[entries], np.array([*files]))])
    if not len(entries):
        return []
    # what is told apart by other things than where it was is a part of the samples each: the parts add up
    by_place = any(key.of_location and key.name not in _OF_FUNCTION for key in histogram.layout.keys)
    rows = np.arange(len(entries)) if by_place else histogram.keys["symbol"].same[entries]
    _, first, groups = np.unique(rows, return_index=True, return_inverse=True)
    measures = histogram.entries.measures
    periods, own = (sum_by(groups, measures[name][entries, 0], len(first)) for name in ("children", "period"))
    order = np.lexsort((first, -periods))[:_MOST_MADE]
    texts = histogram.texts("symbol", entries[first[order]])
    shares, own_shares = ([histogram.share(period) for period in column[order].tolist()] for column in (periods, own))
    return [NamedShare(share, text[_LEVEL:], alone) for share, text, alone in zip(shares, texts, own_shares, strict=True)]


def _first_of_each(values: Int64, entries: Int64) -> Int64:
    """One of the entries for each value."""
    return entries[np.unique(values[entries], return_index=True)[1]]


def hottest_path(histogram: Histogram, name: Callable[[str], str]) -> HottestPath | None:
    """The calls under the first row, outside the idle task, that has a name; under the first where none is so. None without call trees.

    What all threads call in the end (the kernel's scheduler, say) comes before where they began: a row counts if chains begin with it, or
    if it is mostly its own.

    name: a function's name -> what is shown of it.
    """
    trees, graph = histogram.trees, histogram.options.chains.call_graph
    rows = histogram.shown()
    if trees is None or graph is None or not len(rows):
        return None
    entry, title = _beginning(histogram, rows)
    arrow = " → " if graph.order == "caller" else " ← "
    followed, nodes = [], histogram.calls(entry, alone=True)
    least = _SMALL * histogram.weight(entry)
    while nodes:
        node = max(nodes, key=_period)
        if node.period < least:
            break
        followed.append((node.period, node.frames))
        nodes = node.children
    stretches = []
    for period, frames in _to_the_wait(trees, followed) if graph.order == "caller" else followed:
        called = [_UNKNOWN if _ADDRESS.fullmatch(text) else text for text in call_names(trees, frames, name)]
        names = tuple(visible(text) for text, _ in groupby(called))
        stretches.append(Stretch(names, histogram.share(period), arrow))
    return HottestPath(title if graph.order == "caller" else f"{title}, to its callers", stretches) if stretches else None


def _to_the_wait(trees: Trees, followed: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """The stretches of a path without the kernel's functions below the program's, where they only lead to the scheduler."""
    if not followed or trees.frame_name(followed[-1][1][-1]) not in _SCHEDULER:
        return followed
    kept = [(period, [frame for frame in frames if not trees.in_kernel(frame)]) for period, frames in followed]
    return [stretch for stretch in kept if stretch[1]] or followed


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
    rows = named if len(named) else rows
    begins = rows[_begin(histogram, rows)]
    return int(begins[0] if len(begins) else rows[0]), title


def _begin(histogram: Histogram, rows: Int64) -> NDArray[np.bool_]:
    """Which rows have whole chains below them."""
    measures, trees = histogram.entries.measures, histogram.trees
    if "children" not in measures or trees is None:
        return np.ones(len(rows), np.bool_)
    begins: NDArray[np.bool_] = trees.outermost(rows) | (2 * measures["period"][rows, 0] >= measures["children"][rows, 0])
    return begins


def _named(histogram: Histogram, rows: Int64) -> Int64:
    """The rows in functions whose names are known."""
    named: Int64 = rows[histogram.locations.symbol[histogram.entries.location[rows] >> ROLE_BITS] >= 0]
    return named


def _period(node: CallNode) -> int:
    return node.period
