"""Summaries beside the rows: the hottest files, commands and functions, and the hottest path of calls."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.comms import cut_comm
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.untrusted.paths import PYTHON_IMAGE
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance, short_path, source_file
from perfpy.views.report.screens.call_lines import call_names
from perfpy.views.report.screens.fitting import fitted_path
from perfpy.views.report.screens.screen_table import file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from perfpy.analysis.call_trees.call_tree import CallNode
    from perfpy.analysis.call_trees.trees import Trees
    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.samples.locations import Int64

#: files of code generated while the program ran
_MADE: Final = re.compile(r"\[JIT\]|/perf-\d+\.map|jitted-\d+")
_ADDRESS: Final = re.compile("0x[0-9a-f]+|0")  # names of frames without a symbol
_UNKNOWN: Final = "[unknown]"
_MOST_MADE: Final = 100
_LEVEL: Final = len("[.] ")
#: functions of C, of the C++ and Rust standard libraries, of Go's runtime
_OF_LIBRARIES: Final = re.compile(r"_|(?:<&?|operator )?(?:std|core|alloc|hashbrown|__\w+)::|runtime[./]|operator (?:new|delete)")
_SCHEDULER: Final = ("__schedule", "schedule")  # functions of waiting threads
_OF_FUNCTION: Final = ("dso", "symbol")
_PYTHON_CODE: Final = ("Python", PYTHON_IMAGE)  # dsos of Python functions: their source files are shown instead
_SMALL_PROGRAM: Final = 5.0  # percent, with callees
_SMALL: Final = 0.1  # of the path's first share: smaller shares are not followed


class Stretch(NamedTuple):
    """Functions that call each other, and the share of the last of them."""

    names: tuple[str, ...]
    share: float
    arrow: str

    def text(self, width: int) -> str:
        """Return the functions, shortened to a number of columns."""
        return fitted_path(self.names, self.arrow, width)


class HottestPath(NamedTuple):
    """The callee with the largest share at each stretch, and a title."""

    title: str
    stretches: list[Stretch]

    def within(self, most: int) -> list[Stretch]:
        """Return at most `most` stretches: the first, the last, and those before the largest losses.

        The others are merged into the stretch after them.
        """
        inner = range(1, len(self.stretches) - 1)
        lost = sorted(inner, key=lambda index: self.stretches[index].share - self.stretches[index - 1].share)
        boundaries = {0, len(self.stretches) - 1, *lost[: max(most - 2, 0)]}
        stretches: list[Stretch] = []
        names: tuple[str, ...] = ()
        for index, stretch in enumerate(self.stretches):
            names += stretch.names
            if index in boundaries:
                stretches.append(stretch._replace(names=names))
                names = ()
        return stretches


def hottest_by(key: str, histogram: Histogram) -> list[tuple[float, str]]:
    """Return the share of each file (key dso), command (comm) ..., sorted by share; nothing for reports without the key."""
    if key not in histogram.keys:
        return []
    entries = histogram.visible_entries()
    values = histogram.keys[key]
    _, first, groups = np.unique(values.same[entries], return_index=True, return_inverse=True)
    periods = sum_by(groups, histogram.entries.measures["period"][entries, 0], len(first)).tolist()
    texts = histogram.texts(key, entries[first])
    shares = dict[str, float]()
    for number, (period, text) in enumerate(zip(periods, texts, strict=True)):
        is_python = key == "dso" and text.strip() in _PYTHON_CODE
        of_files = _source_files(histogram, entries[groups == number], text) if is_python else {file_name(text): period}
        for name, part in of_files.items():
            shares[name] = shares.get(name, 0.0) + histogram.share(part)
    return sorted(((share, name) for name, share in shares.items()), reverse=True)


def _source_files(histogram: Histogram, entries: Int64, image: str) -> dict[str, int]:
    """Return the source files of Python functions, and the period of each; image: the file in place of unknown ones."""
    periods = histogram.entries.measures["period"][entries, 0].tolist()
    names = histogram.texts("symbol", entries) if "symbol" in histogram.keys else [""] * len(periods)
    files: dict[str, int] = {}
    for text, period in zip(names, periods, strict=True):
        path = source_file(text[_LEVEL:].strip())
        name = visible(short_path(path)) if path else file_name(image)
        files[name] = files.get(name, 0) + period
    return files


class NamedShare(NamedTuple):
    """A function: its share in percent including callees, its name, and its own share."""

    share: float
    name: str
    own: float


def hottest_made(histogram: Histogram, name: Callable[[str], str]) -> list[NamedShare]:
    """Return functions of runtimes that generate code (Python, Node.js ...), including callees, sorted by share.

    Their own time is in the interpreter, so they are not among the hottest by own share. Nothing for reports without callers.
    """
    files = {number for number, text in _files(histogram).items() if _MADE.search(text)}
    return [function._replace(name=visible(name(function.name))) for function in _with_callees(histogram, files)]


def hottest_of_program(histogram: Histogram, name: Callable[[str], str]) -> tuple[str, list[NamedShare]]:
    """Return the program's file, named like its command, and its functions, including callees, sorted by share.

    Functions of the language's own library, which compilers put into the same file, are skipped. If there are several programs, the one
    with the largest share, unless that is small, as of a shell that only starts the program. Nothing for reports without callers, files
    or commands.
    """
    if "comm" not in histogram.keys:
        return "", []
    commands = {text.strip() for text in histogram.texts("comm", _first_of_each(histogram.keys["comm"].same, histogram.visible_entries()))}
    by_file = [
        (text, [hot for hot in _with_callees(histogram, {number}) if not _OF_LIBRARIES.match(at_a_glance(hot.name))])
        for number, text in _files(histogram).items()
        if cut_comm(text.strip().rpartition("/")[2]) in commands
    ]
    file, shares = max(by_file, key=lambda item: item[1][:1], default=("", []))
    if not shares or shares[0].share < _SMALL_PROGRAM:
        return "", []
    return file_name(file), [function._replace(name=visible(name(function.name))) for function in shares]


def _files(histogram: Histogram) -> dict[int, str]:
    """Return the files of the shown rows, by the number that their rows share; nothing for reports without files, functions or callers."""
    if "children" not in histogram.entries.measures or not {"dso", "symbol"} <= set(histogram.keys):
        return {}
    files = histogram.keys["dso"]
    entries = _first_of_each(files.same, histogram.visible_entries())
    return dict(zip(files.same[entries].tolist(), histogram.texts("dso", entries), strict=True))


def _with_callees(histogram: Histogram, files: Collection[int]) -> list[NamedShare]:
    """Return the functions of some files with the shares including callees; each once, even if it has several rows."""
    if not files:
        return []
    entries = histogram.visible_entries()
    entries = _rows_with_symbol(histogram, entries[np.isin(histogram.keys["dso"].same[entries], np.array([*files]))])
    if not len(entries):
        return []
    # rows of other keys divide the samples: their shares add up
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
    """Return one of the entries for each value."""
    return entries[np.unique(values[entries], return_index=True)[1]]


def hottest_path(histogram: Histogram, name: Callable[[str], str]) -> HottestPath | None:
    """Return the calls below the first row with a name outside the idle task; below the first row if none has; None without call trees.

    Functions that all threads call in the end, such as the kernel's scheduler, sort before the functions where threads begin: a row counts
    if chains begin with it, or if its share is mostly its own.

    Args:
        histogram: the table.
        name: converts a function's name to its display name.
    """
    trees, graph = histogram.trees, histogram.options.chains.call_graph
    rows = histogram.visible_entries()
    if trees is None or graph is None or not len(rows):
        return None
    entry, title = _start_row(histogram, rows)
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
    for period, frames in _drop_scheduler(trees, followed) if graph.order == "caller" else followed:
        callees = [_UNKNOWN if _ADDRESS.fullmatch(text) else text for text in call_names(trees, frames, name)]
        names = tuple(visible(text) for text, _ in groupby(callees))
        stretches.append(Stretch(names, histogram.share(period), arrow))
    return HottestPath(title if graph.order == "caller" else f"{title}, to its callers", stretches) if stretches else None


def _drop_scheduler(trees: Trees, followed: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
    """Return the stretches of a path without kernel functions that only lead to the scheduler."""
    if not followed or trees.frame_name(followed[-1][1][-1]) not in _SCHEDULER:
        return followed
    in_program = [(period, [frame for frame in frames if not trees.in_kernel(frame)]) for period, frames in followed]
    return [stretch for stretch in in_program if stretch[1]] or followed


def _start_row(histogram: Histogram, rows: Int64) -> tuple[int, str]:
    """Return the row whose calls are followed, and the title."""
    title = "hottest path"
    busy = rows[histogram.joined.tids[rows] != 0]
    if len(busy) and busy[0] != rows[0]:
        title += " outside the idle task"
    rows = busy if len(busy) else rows
    candidates = _rows_with_symbol(histogram, rows) if any(key.of_location for key in histogram.layout.keys) else rows
    if len(candidates) and candidates[0] != rows[0]:
        title += ", of functions with names"
    rows = candidates if len(candidates) else rows
    begins = rows[_have_whole_chains(histogram, rows)]
    return int(begins[0] if len(begins) else rows[0]), title


def _have_whole_chains(histogram: Histogram, rows: Int64) -> NDArray[np.bool_]:
    """Return which rows have whole chains below them."""
    measures, trees = histogram.entries.measures, histogram.trees
    if "children" not in measures or trees is None:
        return np.ones(len(rows), np.bool_)
    begins: NDArray[np.bool_] = trees.outermost(rows) | (2 * measures["period"][rows, 0] >= measures["children"][rows, 0])
    return begins


def _rows_with_symbol(histogram: Histogram, rows: Int64) -> Int64:
    """Return the rows in functions with known names."""
    named_rows: Int64 = rows[histogram.locations.symbol[histogram.entries.location[rows] >> ROLE_BITS] >= 0]
    return named_rows


def _period(node: CallNode) -> int:
    return node.period
