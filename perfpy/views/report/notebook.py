"""A report, and the profile of a cell, as text and HTML at Python's prompt and in notebooks.

Names in HTML are escaped.
"""

from __future__ import annotations

import re
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.stacks import StackOptions
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME, UNKNOWN
from perfpy.errors import plural
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance, event_name, short_path, source_file
from perfpy.views.verdict.profile import verdicts_of_parts
from perfpy.views.verdict.sentence import function_text, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.analysis.source_files import SourceShares
    from perfpy.analysis.stacks import Stacks
    from perfpy.views.recorded import Recorded
    from perfpy.views.verdict.sentence import Sentence


_ROWS: Final = 20
_NAME: Final = 60
_CELL: Final = "padding:0 .6em;white-space:pre"


def report_text(report: Report) -> str:
    """Return the title and the first rows as text."""
    tables = [histogram for histogram in report.histograms if histogram.leader.samples]
    lines = [
        f"<Report of {report.samples} {plural(report.samples, 'sample')}: {_count(sum(len(table.visible_entries()) for table in tables))}>"
    ]
    for table in tables:
        lines.append(f"{_title(table)}: {table.leader.samples} {plural(table.leader.samples, 'sample')}")
        for percents, names in _cells(table):
            lines.append("  ".join([*(f"{percent:6.2f}%" for percent in percents), *names]).rstrip())
        lines += _rest(table)
    return "\n".join(lines)


def report_html(report: Report) -> str:
    """Return an HTML table for each event, to embed in a page."""
    return "".join(_html(table) for table in report.histograms if table.leader.samples)


def _html(table: Histogram) -> str:
    heads = [*_shares(table), *table.keys]
    rows = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL};text-align:right">{percent:.2f}%</td>' for percent in percents)
        + "".join(f'<td style="{_CELL};text-align:left">{escape(name)}</td>' for name in names)
        + "</tr>"
        for percents, names in _cells(table)
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    caption = f"{_title(table)}: {table.leader.samples} {plural(table.leader.samples, 'sample')}"
    rest = "".join(f"<p>{escape(line)}</p>" for line in _rest(table))
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def _cells(table: Histogram) -> Iterator[tuple[list[float], list[str]]]:
    """Yield the first rows: shares, and names of one line each."""
    shares = _shares(table)
    for row in islice(table.rows(), _ROWS):
        names = [visible(text.strip()) for text in row.texts.values()]
        yield [table.percent(metric, row.entry) for metric in shares.values()], [_shorten(name) for name in names]


def _shares(table: Histogram) -> dict[str, str]:
    """Return the headers of shares, and their measures."""
    with_callers = {"children": "children"} if "children" in table.entries.measures else {}
    return {**with_callers, ("self" if with_callers else "overhead"): "period"}


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME // 2]}…{name[-_NAME // 2 + 1 :]}"


def _title(table: Histogram) -> str:
    return visible(table.group.title or event_name(table.leader.event.name))


def _rest(table: Histogram) -> list[str]:
    more = len(table.visible_entries()) - _ROWS
    return [f"... and {_count(more)} more"] if more > 0 else []


def _count(rows: int) -> str:
    return f"{rows} {plural(rows, 'row')}"


# A notebook's cell: its source with the time of each line, and its calls as a picture.
#
# Pictures are nested elements with inline styles, because notebooks remove scripts and style sheets. Backgrounds are half transparent and
# text keeps the notebook's colour: both themes are readable.


_MOST_LINES: Final = 400
_OTHER_FILES: Final = 3  # that are shown below the cell
_AROUND: Final = 1
_SMALL: Final = 1.0  # percent of the CPU time; other lines have no colour
_MATTERS: Final = 5.0  # percent of the CPU time, for lines of other files
_OF_NOTEBOOK: Final = "blocked loop"  # the cell runs in the event loop of the notebook's kernel
_IS_PROFILER: Final = re.compile(rf"{PYTHON_MARK}profile_cell:.*/perfpy/profiling\.py").fullmatch
_NARROWEST: Final = 0.01  # of the picture's width
_DEEPEST: Final = 24
_SHORTEST_WAIT: Final = 0.001  # seconds
_HEAT: Final = "240,160,40"  # --heat in page.css
#: red, green and blue of categories, as in pages (categories.js)
_COLOURS: Final = {
    OWN: "242,165,24",
    LIBRARY: "53,160,253",
    INTERPRETER: "96,154,98",
    RUNTIME: "229,177,246",
    KERNEL: "226,75,29",
    UNKNOWN: "132,134,139",
}
_MONO: Final = "font-family:ui-monospace,monospace;font-size:12px;line-height:1.5;text-align:left"


class CellSource(NamedTuple):
    """The source of a cell as it ran.

    Attributes:
        path: the name of the cell's code; "" if it is unknown.
        lines_of: returns the source lines of a file or of another cell.
        cell_of: returns the notebook's name of the cell with such code, as In[2]; "" for files.
    """

    path: str
    lines_of: Callable[[str], Sequence[str]]
    cell_of: Callable[[str], str] = lambda _path: ""

    def title(self, path: str) -> str:
        """Return the name of a file or cell."""
        return visible("cell" if path and path == self.path else self.cell_of(path) or short_path(path))

    def function(self, name: str) -> str:
        """Return the name of a function on screens, with its cell in place of the name of the cell's code."""
        path = source_file(name)
        return visible(at_a_glance(name)).replace(f"({visible(short_path(path))})", f"({self.title(path)})")


class CellMemory(NamedTuple):
    """Bytes of the process's memory (RSS): what the cell added, and the peak above the beginning."""

    added: int
    peak: int


class _Line(NamedTuple):
    """A line: its share of the CPU time in percent, itself and with the calls in it; seconds that it waited, calls included."""

    own: float = 0.0
    whole: float = 0.0
    waits: float = 0.0


class _Call(NamedTuple):
    """A function of the picture, the nanoseconds in it, its calls and its category."""

    name: str
    weight: int
    calls: Sequence[_Call]
    category: int = OWN


class CellProfile:
    """The profile of a notebook's cell, which the notebook shows.

    Attributes:
        report: its functions.
        shares: of the lines of source files.
    """

    def __init__(self, recording: Recorded, report: Report, shares: Sequence[SourceShares], source: CellSource, memory: CellMemory) -> None:
        self.shares = shares
        self.report = report
        self._source = source
        self._memory = memory
        stacks = recording.stacks(options=StackOptions(timed=True))  # with the categories of functions
        spent = {part.event: int(part.weight.sum()) / 1e9 for part in stacks}
        waits = {part.event for part in stacks if part.off_cpu}
        self._files = _lines_of_files(shares, {event: spent[event] for event in waits})
        self._cpu = sum(spent[event] for event in spent.keys() - waits)
        self._calls = _call_tree([part for part in stacks if not part.off_cpu], source)
        (sentences,) = verdicts_of_parts(recording, [recording.sample_filter or SampleFilter()])
        files = {*self._files, *(source_file(function.name) for part in stacks for function in part.functions), source.path} - {""}
        cells = {visible(short_path(path)): source.title(path) for path in files if path == source.path or source.cell_of(path)}
        named = re.compile(r"(?<![\w./])(" + "|".join(map(re.escape, cells)) + r")(?!\w)" if cells else r"(?!)")
        texts = [visible(_without_callers(one, source.path)) for one in sentences if one.rule != _OF_NOTEBOOK]
        self._said = [named.sub(lambda match: cells[match[1]], text) for text in texts]
        waiting = _stacks_of_cell([part for part in stacks if part.off_cpu], source.path)
        # also those of the cell's threads, as on its lines; the profiler's own are of profile_cell(), which calls the cell
        self._waits = sum(weight for is_below, called, weight in waiting if is_below or not any(map(_IS_PROFILER, called))) / 1e9

    def __repr__(self) -> str:
        """Return the text for IPython in a terminal: the sentences, and the lines with their times."""
        lines = [*self._said, self._summary()]
        for title, rows in self._sources():
            lines += ["", "".join(f"{head:>{width}}" for head, width in zip(_HEADS, _WIDTHS, strict=True)) + f"  {title}"]
            for number, text, line in rows:
                cells = zip((*_times(line), str(number)), _WIDTHS, strict=True)
                lines.append(("".join(f"{cell:>{width}}" for cell, width in cells) + f"  {text[:_TERMINAL]}").rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks."""
        said = "".join(f"<div>{escape(text)}</div>" for text in self._said)
        tables = "".join(_source_html(title, rows) for title, rows in self._sources())
        return f'<div style="max-width:100%">{said}<div style="opacity:.75">{escape(self._summary())}</div>{tables}{self._picture()}</div>'

    def _summary(self) -> str:
        """Return the times and the memory of the cell."""
        parts = [f"CPU {seconds(self._cpu)}"]
        parts += [f"waits {seconds(self._waits)}"] if self._waits >= _SHORTEST_WAIT else []
        return ", ".join([*parts, f"memory {self._memory.added / 1e6:+,.0f} MB", f"peak {self._memory.peak / 1e6:+,.0f} MB"])

    def _sources(self) -> Iterator[tuple[str, list[tuple[int, str, _Line]]]]:
        """Yield a title and the shown lines: the whole cell, then hot lines of the other files whose source is known."""
        own = self._source.path
        texts = self._source.lines_of(own)[:_MOST_LINES] if own else ()
        if texts:
            known = self._files.get(own, {})
            yield (
                "cell",
                [(number, visible(text.rstrip("\n").expandtabs(4)), known.get(number, _Line())) for number, text in enumerate(texts, 1)],
            )
        others = {path: max(line.own for line in lines.values()) for path, lines in self._files.items() if path != own}
        for path in sorted((path for path, most in others.items() if most >= _MATTERS), key=lambda path: -others[path])[:_OTHER_FILES]:
            known, texts = self._files[path], self._source.lines_of(path)
            hot = [number for number, line in known.items() if line.own >= _MATTERS and 0 < number <= len(texts)]
            near = sorted({other for number in hot for other in range(max(1, number - _AROUND), min(len(texts), number + _AROUND) + 1)})
            if near:
                rows = [(number, visible(texts[number - 1].rstrip("\n").expandtabs(4)), known.get(number, _Line())) for number in near]
                yield self._source.title(path), rows[:_MOST_LINES]

    def _picture(self) -> str:
        """Return the calls as a flame graph, callers above."""
        if not self._calls.weight:
            return ""
        return f'<div style="{_MONO};margin-top:8px">{_call_html(self._calls, self._calls.weight, 0)}</div>'


def _without_callers(sentence: Sentence, path: str) -> str:
    """Return a sentence without what called the cell: the profiler, the notebook or the program that has it."""
    text, names = sentence.text, sentence.names
    for key, name in names.items():
        caller = names.get(key.replace("function", "caller"), "") if key.startswith("function") else ""
        if caller and name == f"{PYTHON_MARK}<module>:{path}":
            text = re.sub(rf", called (?:from|by [^,]+? in) {re.escape(function_text(caller))}(?: \([\d.]+ %\))?", "", text, count=1)
    return text


_TERMINAL: Final = 80
_HEADS: Final = ("Self", "Total", "Waits", "Line")
_WIDTHS: Final = (7, 8, 9, 6)
_SIDES: Final = ("right", "right", "right", "right", "left")


def _times(line: _Line) -> tuple[str, str, str]:
    """Return the shares of the CPU time, itself and with calls, and the waits of a line, as in the columns."""
    own, whole = (f"{share:.2f}%" if share >= 0.005 else "" for share in (line.own, line.whole))
    return own, whole, seconds(line.waits) if line.waits >= _SHORTEST_WAIT else ""


def _source_html(title: str, rows: Sequence[tuple[int, str, _Line]]) -> str:
    """Return source lines with their times; backgrounds show the share of the CPU time, with calls."""
    head = "".join(
        f'<th style="{_CELL};text-align:{side}">{text}</th>' for side, text in zip(_SIDES, (*_HEADS, escape(title)), strict=True)
    )
    body = []
    for number, text, line in rows:
        heat = f"rgba({_HEAT},{min(line.whole / 100, 1.0) * 0.6:.3f})" if line.whole >= _SMALL else "transparent"
        values = zip(_SIDES, (*_times(line), str(number), text), strict=True)
        cells = "".join(f'<td style="{_CELL};text-align:{side}">{escape(value)}</td>' for side, value in values)
        body.append(f'<tr style="background-color:{heat}">{cells}</tr>')
    style = f"{_MONO};border-collapse:collapse;margin-top:8px;margin-left:0"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table>'


def _call_html(call: _Call, whole: int, depth: int) -> str:
    """Return a function above its calls. whole: the weight of all of the picture."""
    name, share = escape(call.name), 100 * call.weight / whole
    title = f"{name}: {share:.2f}%, {escape(seconds(call.weight / 1e9))}"
    alpha = 0.25 + 0.25 * (depth % 2)
    weight = "font-weight:bold;" if call.category == OWN else ""
    bar = (
        f'<div title="{title}" style="background-color:rgba({_COLOURS[call.category]},{alpha});{weight}border-radius:2px;'
        'margin:0 1px 1px 0;padding:0 4px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis">'
        f"{name} {share:.2f}%</div>"
    )
    shown = [one for one in call.calls if one.weight >= _NARROWEST * whole] if depth < _DEEPEST else []
    columns = "".join(
        f'<div style="width:{100 * one.weight / call.weight:.3f}%;overflow:hidden;flex:none">{_call_html(one, whole, depth + 1)}</div>'
        for one in shown
    )
    return f'{bar}<div style="display:flex">{columns}</div>' if columns else bar


def _lines_of_files(shares: Sequence[SourceShares], waited: Mapping[str, float]) -> dict[str, dict[int, _Line]]:
    """Return the times of lines by file. waited: the seconds of each event of waits."""
    files: dict[str, dict[int, _Line]] = {}
    for event in shares:
        for file in event.files:
            lines = files.setdefault(file.path, {})
            for line in file.lines:
                before = lines.get(line.line, _Line())
                if event.event in waited:
                    lines[line.line] = before._replace(waits=before.waits + waited[event.event] * line.with_inlined / 100)
                else:
                    lines[line.line] = before._replace(own=before.own + line.percent, whole=before.whole + line.with_inlined)
    return files


def _stacks_of_cell(parts: Sequence[Stacks], path: str) -> Iterator[tuple[bool, list[str], int]]:
    """Yield for each stack whether the cell is in it, its functions below the cell from the outermost in, and its weight.

    Stacks of other threads have their Python functions. path: of the cell's code.
    """
    begin = f"{PYTHON_MARK}<module>:{path}"
    for part in parts:
        names = [function.name for function in part.functions]
        for chain, weight in zip(part.chain.tolist(), part.weight.tolist(), strict=True):
            called = [names[function] for function in part.chain_of(chain)[::-1].tolist()]
            is_below = begin in called
            yield is_below, called[called.index(begin) + 1 :] if is_below else [name for name in called if PYTHON_MARK in name], weight


def _call_tree(parts: Sequence[Stacks], source: CellSource) -> _Call:
    """Return the calls below the cell, without the frames of the notebook that called it."""
    weights: dict[tuple[str, ...], int] = {}
    for _, called, weight in _stacks_of_cell(parts, source.path):
        key = tuple(called[:_DEEPEST])
        weights[key] = weights.get(key, 0) + weight
    categories = {function.name: kind for part in parts for function, kind in zip(part.functions, part.categories, strict=True)}
    return _Call("cell", sum(weights.values()), _calls(weights, categories, source))


def _calls(weights: Mapping[tuple[str, ...], int], categories: Mapping[str, int], source: CellSource) -> list[_Call]:
    """Return the outermost functions of some stacks with what they called, the heaviest first."""
    groups: dict[str, dict[tuple[str, ...], int]] = {}
    for stack, weight in weights.items():
        if stack:
            inner = groups.setdefault(stack[0], {})
            inner[stack[1:]] = inner.get(stack[1:], 0) + weight
    found = [
        _Call(source.function(name), sum(inner.values()), _calls(inner, categories, source), categories[name])
        for name, inner in groups.items()
    ]
    return sorted(found, key=lambda call: -call.weight)
