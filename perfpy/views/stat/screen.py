"""A tally of counts as a table for a terminal: perf's columns, without empty ones, as wide as the screen.

Intervals keep perf's fixed columns, because each is printed before the widths of the next are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.counts.aggregation import Aggregation
from perfpy.counts.spread import deviation, fences, mean, relative_error
from perfpy.untrusted.text import visible
from perfpy.views.stat.text import TextView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from perfpy.counts.aggregation import CountRow
    from perfpy.counts.ratios import Ratio
    from perfpy.counts.tally import Tally, TallyLine


_AGGREGATE, _CPUS, _COUNT, _UNIT, _EVENT, _CGROUP, _RATIO, _RATIO_UNIT, _SPREAD, _SHARE = range(10)
_HEADINGS: Final = ("", "cpus", "count", "unit", "event", "cgroup", "ratio", "", "spread", "counted")
_RIGHT: Final = (_CPUS, _COUNT, _RATIO, _SPREAD, _SHARE)
#: columns to omit on a narrow screen, in this order, and the shortest width of event names
_DISPENSABLE: Final = ((_RATIO, _RATIO_UNIT), (_CPUS,), (_CGROUP,), (_SPREAD,), (_SHARE,))
_SHORTEST_NAME: Final = 12

_DIM, _MAGENTA, _RED, _PLAIN = "2", "35", "31", "[0m"


class ScreenView(TextView):
    """A writer of the tallies of one measurement on a terminal.

    Args:
        width: columns of the terminal
        colour: the start of a colour's escape sequence; "" for no colours
    """

    def __init__(self, title: str, *, width: int, colour: str, separators: str = "", repeat_table: bool = False) -> None:
        super().__init__(title, separators=separators, repeat_table=repeat_table)
        self._width = max(width, 20)
        self._colour = colour

    def render(self, tally: Tally) -> Iterator[str]:
        """Yield the text of a tally, with notes below a result."""
        yield from super().render(tally)
        if tally.timestamp is None:
            for note in notes(tally):
                yield self._note(note)

    def _count_lines(self, tally: Tally) -> Iterator[str]:
        if tally.timestamp is not None:
            yield from super()._count_lines(tally)
            return
        lines = [(line, cells) for line in tally.lines() for cells in self._rows(line, tally)]
        columns = [column for column in range(len(_HEADINGS)) if any(cells[column] for _, cells in lines)]
        widths = _fit_widths(columns, [cells for _, cells in lines], self._width)
        yield self._paint(_join_cells(_HEADINGS, widths), _DIM) + "\n"
        for line, cells in lines:
            yield self._paint(_join_cells(cells, widths), _code(line.row)) + "\n"

    def _rows(self, line: TallyLine, tally: Tally) -> Iterator[list[str]]:
        """Yield the cells of a count with its first ratio, and a row for each further ratio."""
        row = line.row
        cells = [""] * len(_HEADINGS)
        cells[_AGGREGATE] = visible(_aggregate(row, tally.mode))
        cells[_CPUS] = str(row.cells) if tally.mode not in (Aggregation.GLOBAL, Aggregation.NONE, Aggregation.THREAD) else ""
        cells[_COUNT] = self._count_alone(row)
        cells[_UNIT], cells[_EVENT], cells[_CGROUP] = row.event.unit, visible(line.name), visible(row.event.cgroup or "")
        first, *more = line.ratios or (None,)
        cells[_RATIO], cells[_RATIO_UNIT] = _ratio(first)
        cells[_SPREAD] = f"+-{line.noise:.2f}%" if line.noise else ""
        cells[_SHARE] = f"{row.running / row.enabled:.0%}" if row.was_counted and row.running != row.enabled else ""
        yield cells
        for ratio in more:
            further = [""] * len(_HEADINGS)
            further[_RATIO], further[_RATIO_UNIT] = _ratio(ratio)
            yield further

    def _count_alone(self, row: CountRow) -> str:
        if not row.was_counted:
            return "not counted" if row.state.supported else "not supported"
        return self._number(row.amount, 0 if float(row.event.scale).is_integer() else 2)

    def _note(self, text: str) -> str:
        import textwrap

        lines = textwrap.wrap(text, self._width - 1, initial_indent=" ", subsequent_indent="   ", break_long_words=False)
        return "".join(self._paint(line, _DIM) + "\n" for line in lines)

    def _paint(self, text: str, code: str) -> str:
        return f"{self._colour}[{code}m{text}{self._colour}{_PLAIN}" if self._colour and code else text


def _aggregate(row: CountRow, mode: Aggregation) -> str:
    return "" if mode is Aggregation.GLOBAL else row.aggregate_id.label


def _code(row: CountRow) -> str:
    """Return red for an event without a count, magenta for an estimate."""
    if not row.was_counted:
        return _RED
    return _MAGENTA if row.running < TRUSTED_SHARE * row.enabled else ""


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    if ratio is None or ratio.value is None or ratio.unit is None:
        return "", ""
    return (ratio.format % ratio.value).strip(), ratio.unit.strip()


def _fit_widths(columns: Sequence[int], rows: Sequence[Sequence[str]], width: int) -> dict[int, int]:
    """Return column widths that fit the screen: omit columns first, then truncate names."""
    widths = {column: max(len(_HEADINGS[column]), *(len(cells[column]) for cells in rows)) for column in columns}
    for together in _DISPENSABLE:
        if _total(widths) > width:
            for column in together:
                widths.pop(column, None)
    excess = _total(widths) - width
    if excess > 0:
        widths[_EVENT] = max(widths[_EVENT] - excess, min(widths[_EVENT], _SHORTEST_NAME))
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + 2 * len(widths)


def _join_cells(cells: Sequence[str], widths: dict[int, int]) -> str:
    return " " + "  ".join(_cell(cells[column], size, column) for column, size in widths.items()).rstrip()


def _cell(text: str, size: int, column: int) -> str:
    if len(text) > size:
        text = text[: size - 1] + "…"
    return f"{text:>{size}}" if column in _RIGHT else f"{text:<{size}}"


#: A count is an estimate if its counter was on the PMU for less than this part of the time.
TRUSTED_SHARE: Final = 0.5
#: percent; a mean with a larger standard error says little
_USELESS_ERROR: Final = 10.0
_RUNS_FOR_FENCES: Final = 5


def notes(tally: Tally) -> list[str]:
    """Return a line for each problem of a tally; none if all counts are reliable."""
    return [*_missing(tally), *_note_multiplexing(tally), *_spread(tally)]


def _missing(tally: Tally) -> Iterator[str]:
    """Yield a line for each reason why events have no count."""
    reasons: dict[str, list[str]] = {}
    for event in tally.events:
        why_not = next((row.state.why_not for row in tally.rows[event]), None)
        if why_not is not None:
            cause = getattr(why_not, "cause", "") or str(why_not)
            remedy = getattr(why_not, "remedy", "")
            reasons.setdefault(f"{cause}; {remedy}" if remedy else cause, []).append(event.name)
    for reason, names in reasons.items():
        yield f"{', '.join(names)}: {reason}"


def _note_multiplexing(tally: Tally) -> Iterator[str]:
    shares = {}
    for event in tally.events:
        rows = tally.rows[event]
        enabled, running = sum(row.enabled for row in rows), sum(row.running for row in rows)
        if enabled and running < enabled:
            shares[event.name] = running / enabled
    if not shares:
        return
    worst = min(shares, key=shares.__getitem__)
    text = f"{len(shares)} events shared the PMU: their counts are estimates ({worst} was counted {shares[worst]:.0%} of the time)"
    yield text + ("; count fewer events at once to trust them" if shares[worst] < TRUSTED_SHARE else "")


def _spread(tally: Tally) -> Iterator[str]:
    elapsed = [float(run) for run in tally.times.elapsed] if tally.times else []
    if tally.runs < 2 or len(elapsed) < 2:
        return
    if relative_error(deviation(elapsed) / len(elapsed) ** 0.5, mean(elapsed)) > _USELESS_ERROR:
        yield "the elapsed times spread so much that their mean says little; use more runs, or a quieter machine"
    if len(elapsed) >= _RUNS_FOR_FENCES:
        outside = fences(elapsed).outside(elapsed)
        if outside:
            runs = ", ".join(str(run + 1) for run in outside)
            yield f"outliers: run {runs} of {len(elapsed)}; something else may have run then (--table shows each run)"
