"""A tally of counts as a table for a terminal: perf's columns, without empty ones, as wide as the screen.

Intervals keep perf's fixed columns, because each is printed before the widths of the next are known.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from perfpy.counts.aggregation import Aggregation, deviation, fences, mean, quantile, relative_error, shares_of_cores
from perfpy.counts.comparison import FEW_EVENTS, HIGHER, LOWER, TOO_FEW, TOO_SMALL, UNCLEAR, runs_to_see
from perfpy.counts.named_counts import never_on
from perfpy.errors import plural
from perfpy.untrusted.text import visible
from perfpy.views.stat_text import TextView
from perfpy.views.verdict.comparisons import comparison_verdict
from perfpy.views.verdict.counts import counts_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.counts.aggregation import CountRow, Ratio
    from perfpy.counts.comparison import ComparedCount, Comparison, Spread
    from perfpy.counts.tally import Tally, TallyLine


_AGGREGATE, _CPUS, _COUNT, _UNIT, _EVENT, _CGROUP, _RATIO, _RATIO_UNIT, _SPREAD, _SHARE = range(10)
_HEADINGS: Final = ("", "cpus", "count", "unit", "event", "cgroup", "ratio", "", "spread", "counted")
_RIGHT: Final = (_CPUS, _COUNT, _RATIO, _SPREAD, _SHARE)
#: columns to omit on a narrow screen, in this order, and the shortest width of event names
_DISPENSABLE: Final = ((_RATIO, _RATIO_UNIT), (_CPUS,), (_CGROUP,), (_SPREAD,), (_SHARE,))
_SHORTEST_NAME: Final = 12

_DIM, _MAGENTA, _RED, _GREEN, _PLAIN = "2", "35", "31", "32", "[0m"


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
            for sentence in counts_verdict(tally):
                yield from (f"{line}\n" for line in _wrapped(sentence.text, self._width))
            for note in notes(tally):
                yield self._note(note)

    def _count_lines(self, tally: Tally) -> Iterator[str]:
        if tally.timestamp is not None:
            yield from super()._count_lines(tally)
            return
        self._last_group = ""
        lines = [(_code(line.row, ratio), cells) for line in tally.lines() for cells, ratio in self._rows(line, tally)]
        columns = [column for column in range(len(_HEADINGS)) if any(cells[column] for _, cells in lines)]
        widths = _fit_widths(columns, [cells for _, cells in lines], self._width, keeps_ratios=bool(tally.metrics))
        yield self._paint(_join_cells(_HEADINGS, widths), _DIM) + "\n"
        for code, cells in lines:
            if any(cells[column] for column in widths):
                yield self._paint(_join_cells(cells, widths), code) + "\n"

    def _rows(self, line: TallyLine, tally: Tally) -> Iterator[tuple[list[str], Ratio | None]]:
        """Yield the cells of a count with its first ratio, and a row for each further ratio; default metrics begin with their group."""
        row = line.row
        cells = [""] * len(_HEADINGS)
        cells[_AGGREGATE] = visible(_aggregate(row, tally.mode))
        cells[_CPUS] = str(row.cells) if tally.mode not in (Aggregation.GLOBAL, Aggregation.NONE, Aggregation.THREAD) else ""
        if not line.hides_count:
            cells[_COUNT] = self._count_alone(row)
            cells[_UNIT], cells[_EVENT] = row.event.unit, visible(line.name)
        cells[_CGROUP] = visible(row.event.cgroup or "")
        cells[_SPREAD] = f"+-{line.noise:.2f}%" if line.noise else ""
        cells[_SHARE] = f"{row.running / row.enabled:.0%}" if row.was_counted and row.running != row.enabled else ""
        for ratio in line.ratios or (None,):
            heading = f"{row.aggregate_id.label} {ratio.group}" if line.hides_count and ratio is not None else ""
            if ratio is not None and heading not in ("", self._last_group):
                self._last_group = heading
                cells[_EVENT] = ratio.group
            cells[_RATIO], cells[_RATIO_UNIT] = _ratio(ratio)
            yield cells, ratio
            cells = [""] * len(_HEADINGS)

    def _count_alone(self, row: CountRow) -> str:
        if not row.was_counted:
            return "not counted" if row.state.supported else "not supported"
        return self._number(row.amount, 0 if float(row.event.scale).is_integer() else 2)

    def _note(self, text: str) -> str:
        return "".join(self._paint(line, _DIM) + "\n" for line in _wrapped(text, self._width))

    def _paint(self, text: str, code: str) -> str:
        return f"{self._colour}[{code}m{text}{self._colour}{_PLAIN}" if self._colour and code else text


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width - 1, initial_indent=" ", subsequent_indent="   ", break_long_words=False)


def _aggregate(row: CountRow, mode: Aggregation) -> str:
    return "" if mode is Aggregation.GLOBAL else row.aggregate_id.label


def _code(row: CountRow, ratio: Ratio | None) -> str:
    """Return red for an event without a count and a metric above its threshold, green for one below, magenta for an estimate."""
    if not row.was_counted:
        return _RED
    if ratio is not None and ratio.exceeds is not None:
        return _RED if ratio.exceeds else _GREEN
    return _MAGENTA if row.running < TRUSTED_SHARE * row.enabled else ""


def _ratio(ratio: Ratio | None) -> tuple[str, str]:
    if ratio is None or ratio.value is None or ratio.unit is None:
        return "", ""
    return (ratio.format % ratio.value).strip(), ratio.unit.strip()


def _fit_widths(columns: Sequence[int], rows: Sequence[Sequence[str]], width: int, *, keeps_ratios: bool) -> dict[int, int]:
    """Return column widths that fit the screen: omit columns first, then truncate names. `keeps_ratios`: metrics were requested."""
    widths = {column: max(len(_HEADINGS[column]), *(len(cells[column]) for cells in rows)) for column in columns}
    for together in _DISPENSABLE[keeps_ratios:]:
        if _total(widths) > width:
            for column in together:
                widths.pop(column, None)
    for column in (_EVENT, _RATIO_UNIT):
        excess = _total(widths) - width
        if excess > 0 and column in widths:
            widths[column] = max(widths[column] - excess, min(widths[column], _SHORTEST_NAME))
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
_ALWAYS: Final = 0.99  # of the time on a kind of core: the kernel's clocks of its PMUs differ a little


def notes(tally: Tally) -> list[str]:
    """Return a line for each problem of a tally; none if all counts are reliable."""
    return [*_missing(tally), *_note_multiplexing(tally), *_spread(tally)]


def _missing(tally: Tally) -> Iterator[str]:
    """Yield a line for each reason why events have no count."""
    reasons: dict[str, list[str]] = {}
    for event in tally.events:
        rows = tally.rows[event]
        why_not = next((row.state.why_not for row in rows), None)
        if why_not is not None:
            cause = getattr(why_not, "cause", "") or str(why_not)
            remedy = getattr(why_not, "remedy", "")
            reasons.setdefault(f"{cause}; {remedy}" if remedy else cause, []).append(event.name)
        elif any(row.cells for row in rows) and not any(row.was_counted for row in rows):
            reasons.setdefault(never_on(event), []).append(event.name)
    for reason, names in reasons.items():
        yield f"{', '.join(names)}: {reason}"


def _note_multiplexing(tally: Tally) -> Iterator[str]:
    times = {event: (sum(row.running for row in rows), sum(row.enabled for row in rows)) for event, rows in tally.rows.items()}
    kinds = shares_of_cores(row for rows in tally.rows.values() for row in rows if row.was_counted) if tally.counts_tasks else {}
    if kinds and any(0 < running < enabled for running, enabled in times.values()):
        shares = [f"{visible(pmu)} {share:.0%}" for pmu, share in kinds.items()]
        yield f"counts of each kind of core are scaled up to the whole time, as if the program had run there only ({', '.join(shares)})"
    shares_on_pmu = {
        event.name: running / enabled / kinds.get(event.pmu, 1.0) for event, (running, enabled) in times.items() if 0 < running < enabled
    }
    shares_on_pmu = {name: share for name, share in shares_on_pmu.items() if share < _ALWAYS}
    if not shares_on_pmu:
        return
    worst = min(shares_on_pmu, key=shares_on_pmu.__getitem__)
    estimates = "their counts are estimates" if len(shares_on_pmu) > 1 else "its count is an estimate"
    text = f"{len(shares_on_pmu)} {plural(len(shares_on_pmu), 'event')} shared the PMU: {estimates}"
    advice = "; count fewer events at once to trust them" if shares_on_pmu[worst] < TRUSTED_SHARE else ""
    yield f"{text} ({worst} was counted {shares_on_pmu[worst]:.0%} of the time){advice}"


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


# Comparisons of sets of runs with the first one, as text, CSV or JSON, with box plots for terminals.
#
# All comparisons have the same A. Functions yield pieces of text that end in newlines.


_NAME_WIDTH: Final = 19
_PICTURE_WIDTH: Final = 32
_LINE_WIDTH: Final = 78
_WANTED_CHANGE: Final = 0.05
_TIMES: Final = ("elapsed", "task-clock", "cpu-clock", "user_time")  # times that a change of the program affects alike

CSV_FIELDS: Final = (
    "event", "unit", "a-runs", "a-mean", "a-stddev", "a-low", "a-high", "a-median",
    "b-runs", "b-mean", "b-stddev", "b-low", "b-high", "b-median",
    "change", "change-low", "change-high", "p", "verdict", "a", "b",
)  # fmt: skip
_SHORT_VERDICTS: Final = {HIGHER: "higher", LOWER: "lower", TOO_SMALL: "small", UNCLEAR: "unclear", TOO_FEW: "few runs"}


def render_text(comparisons: Sequence[Comparison], *, pictures: bool = False) -> Iterator[str]:
    """Yield a line of at most 80 columns for each counter: both medians, the change with its interval, the verdict.

    Args:
        pictures: draw both distributions below each counter
    """
    first = comparisons[0]
    verdicts = zip(_letters(comparisons), comparisons, strict=True)
    sentences = [sentence.text for letter, comparison in verdicts for sentence in comparison_verdict(comparison, letter)]
    yield "\n" if sentences else ""
    for sentence in sentences:
        yield from _wrap(sentence)
    yield f"\n A: {first.a_name}  ({first.counts[0].a.runs} {plural(first.counts[0].a.runs, 'run')})\n"
    for letter, comparison in zip(_letters(comparisons), comparisons, strict=True):
        yield f" {letter}: {comparison.b_name}  ({comparison.counts[0].b.runs} {plural(comparison.counts[0].b.runs, 'run')})\n"
    for letter, comparison in zip(_letters(comparisons), comparisons, strict=True):
        yield from _table(comparison, letter, pictures=pictures)
    yield from _legend(first)
    yield from _list_outliers(comparisons)
    yield from _list_uncounted(comparisons)
    yield "\n"


def _letters(comparisons: Sequence[Comparison]) -> list[str]:
    return [chr(ord("B") + number) for number in range(len(comparisons))]


def _table(comparison: Comparison, letter: str, *, pictures: bool) -> Iterator[str]:
    percent = f"{comparison.confidence * 100:g}% interval"
    yield f"\n {'':{_NAME_WIDTH}} {'A median':>10} {letter + ' median':>10} {letter + ' vs A':>8}  {percent:^17}\n"
    for count in comparison.counts:
        yield _text_line(count)
        if pictures and max(*count.a_values, *count.b_values) > min(*count.a_values, *count.b_values):
            for side, picture in zip("A" + letter, box_plots(count.a_values, count.b_values), strict=True):
                yield f" {'':{_NAME_WIDTH}} {side} {picture}\n"


def _text_line(count: ComparedCount) -> str:
    name = f"{count.name} ({count.unit})" if count.unit else count.name
    if len(name) > _NAME_WIDTH:
        name = f"{name}\n {'':{_NAME_WIDTH}}"
    change = count.change
    interval = f"[{_percent(change.low):>7}, {_percent(change.high):>7}]" if change.enough else " " * 18
    sides = f"{_amount(count.a.median):>10} {_amount(count.b.median):>10}"
    median_change = count.b.median / count.a.median - 1 if count.a.median else None  # the displayed medians' change
    return f" {name:{_NAME_WIDTH}} {sides} {_percent(median_change):>8} {interval}  {_SHORT_VERDICTS[count.verdict]}\n"


def _legend(comparison: Comparison) -> Iterator[str]:
    together = "all intervals hold together" if len(comparison.counts) > 1 else "the interval holds"
    yield (
        f"\n Mann-Whitney test on ranks, which skewed times and outliers cannot mislead;\n"
        f" {together} with {comparison.confidence * 100:g} % (Hodges-Lehmann, Bonferroni).\n"
    )
    verdicts = {count.verdict for count in comparison.counts}
    if TOO_SMALL in verdicts:
        yield from _wrap(f"small: less than {comparison.least_change * 100:g} % (--min-change), or not more than {FEW_EVENTS} events.")
    if comparison.counts[0].verdict in (UNCLEAR, TOO_FEW):
        yield from _wrap(_runs_needed(comparison))


def _runs_needed(comparison: Comparison) -> str:
    """Name the number of runs for the elapsed time, and for the counter that needs the fewest, if that is at most half."""
    many = len(comparison.counts)
    needed = [
        (runs_to_see(_WANTED_CHANGE, count.a_values, count.b_values, comparison.confidence, of=many), count.name)
        for count in comparison.counts
        if count.name in _TIMES
    ]
    runs, name = needed[0]
    enough = f"some {runs} runs (-r {runs})" if runs else "more runs (-r)"
    text = f"To find a change of {_WANTED_CHANGE * 100:g} % in {name} in four of five cases takes {enough}"
    fewest, other = min(((runs, name) for runs, name in needed if runs), default=(0, ""))
    return f"{text}, in {other} {fewest}." if runs and fewest * 2 <= runs else f"{text}."


def _list_outliers(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield a line for each side with outliers: the runs far from the others."""
    sides = [("A", [(count.name, count.a_outliers) for count in comparisons[0].counts])]
    for letter, comparison in zip(_letters(comparisons), comparisons, strict=True):
        sides.append((letter, [(count.name, count.b_outliers) for count in comparison.counts]))
    for side, counters in sides:
        listed = "; ".join(f"{name} {', '.join(str(run + 1) for run in runs)}" for name, runs in counters if runs)
        if listed:
            yield from _wrap(f"Runs of {side} far from the others (something else may have run then): {listed}.")


def _list_uncounted(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield a line for each reason why events were not counted."""
    by_reason: dict[str, dict[str, None]] = {}
    for comparison in comparisons:
        for name, why in comparison.uncounted.items():
            by_reason.setdefault(why, {})[name] = None
    for why, names in by_reason.items():
        yield from _wrap(f"Not counted: {', '.join(names)}: {why}.")


def _wrap(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _LINE_WIDTH, break_long_words=False, subsequent_indent="  "):
        yield f" {line}\n"


def render_csv(comparisons: Sequence[Comparison], separator: str) -> Iterator[str]:
    """Yield a heading, then a line for each counter of each comparison. Changes are fractions of A."""
    yield separator.join(CSV_FIELDS) + "\n"
    for comparison in comparisons:
        for count in comparison.counts:
            yield separator.join(_field(value) for value in _values(comparison, count)) + "\n"


def render_json(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield a JSON object on a line for each counter, with the values of all runs."""
    import json

    for comparison in comparisons:
        for count in comparison.counts:
            fields = dict(zip(CSV_FIELDS, _values(comparison, count), strict=True))
            fields["a-values"], fields["b-values"] = list(count.a_values), list(count.b_values)
            fields["a-outliers"], fields["b-outliers"] = list(count.a_outliers), list(count.b_outliers)
            yield json.dumps(fields) + "\n"


def _values(comparison: Comparison, count: ComparedCount) -> list[object]:
    change = count.change
    interval = (change.low, change.high) if change.enough else (None, None)
    sides = [*_side(count.a), *_side(count.b)]
    return [count.name, count.unit, *sides, change.estimate, *interval, change.p, count.verdict, comparison.a_name, comparison.b_name]


def _side(spread: Spread) -> list[float]:
    return [*spread]


def _field(value: object) -> str:
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 or value == int(value) else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return f"{100 * value:+.1f}%" if value is not None else "n/a"


def box_plots(*sides: Sequence[float], width: int = _PICTURE_WIDTH) -> list[str]:
    """Draw each side's range, quartiles and median on one scale: |--[==#==]--|."""
    low, high = min(min(side) for side in sides), max(max(side) for side in sides)
    scale = (width - 1) / (high - low) if high > low else 0.0
    return [_box_plot(sorted(side), low, scale, width) for side in sides]


def _box_plot(ordered: Sequence[float], low: float, scale: float, width: int) -> str:
    first, q1, middle, q3, last = (
        round((value - low) * scale) for value in (ordered[0], *(quantile(ordered, q) for q in (0.25, 0.5, 0.75)), ordered[-1])
    )
    picture = [" "] * width
    picture[first : last + 1] = "-" * (last - first + 1)
    picture[q1 : q3 + 1] = "=" * (q3 - q1 + 1)
    picture[first], picture[last] = "|", "|"
    picture[q1], picture[q3] = "[", "]"
    picture[middle] = "#"
    return "".join(picture).rstrip()
