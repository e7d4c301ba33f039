"""A comparison of two sets of runs as text, CSV or JSON, with a small picture for a terminal.

What enters: a `Comparison`. What leaves: pieces of text that end in newlines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.counts.spread import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.counts.comparison import ComparedCount, Comparison
    from perfpy.counts.significance import RelativeChange

_NAME_WIDTH: Final = 22
_PICTURE_WIDTH: Final = 32
_SMALLEST_P: Final = 0.001

CSV_FIELDS: Final = (
    "event", "unit", "a-runs", "a-mean", "a-stddev", "a-low", "a-high", "b-runs", "b-mean", "b-stddev", "b-low",
    "b-high", "change", "change-low", "change-high", "p", "verdict",
)  # fmt: skip


def render_text(comparison: Comparison, *, pictures: bool = False) -> Iterator[str]:
    """A line a counter: both means with their spread, the change with its interval, the verdict.

    pictures: a line with both distributions below each counter.
    """
    first = comparison.counts[0]
    percent = f"{comparison.confidence * 100:g}"
    yield f"\n A: {comparison.a_name}  ({first.a.runs} runs)\n B: {comparison.b_name}  ({first.b.runs} runs)\n\n"
    heading = f" {'':{_NAME_WIDTH}} {'A mean':>14} {'+- sd':>8} {'B mean':>14} {'+- sd':>8}"
    yield f"{heading}  {'B against A':>11}  {percent + '% interval':^21} {'p':>7}\n"
    for count in comparison.counts:
        yield _text_line(count)
        if pictures and max(*count.a_values, *count.b_values) > min(*count.a_values, *count.b_values):
            for side, picture in zip("AB", box_plots(count.a_values, count.b_values), strict=True):
                yield f" {'':{_NAME_WIDTH}} {side} {picture}\n"
    yield from _notes(comparison)


def _text_line(count: ComparedCount) -> str:
    name = f"{count.name} ({count.unit})" if count.unit else count.name
    change = count.change
    sides = f"{_amount(count.a.mean):>14} {_relative(count.a.deviation, count.a.mean):>8}"
    sides += f" {_amount(count.b.mean):>14} {_relative(count.b.deviation, count.b.mean):>8}"
    interval = f"[{_percent(change.low):>9}, {_percent(change.high):>9}]" if change.enough else " " * 22
    p = f"{change.p:7.3f}" if change.p >= _SMALLEST_P else f"<{_SMALLEST_P:.3f}".rjust(7)
    return f" {name:{_NAME_WIDTH}} {sides}  {_percent(change.estimate):>11}  {interval} {p}  {verdict(change)}\n"


def verdict(change: RelativeChange) -> str:
    """What the test says, in words."""
    if not change.enough:
        return "too few runs to tell"
    if not change.significant:
        return "no significant difference"
    return "B is higher" if (change.estimate or 0.0) > 0 or change.estimate is None else "B is lower"


def _notes(comparison: Comparison) -> Iterator[str]:
    percent = f"{comparison.confidence * 100:g}"
    yield (
        f"\n Significant: p < {1 - comparison.confidence:.2g} by the Mann-Whitney test on ranks, which skewed times and"
        f"\n outliers cannot mislead; the {percent}% interval (Hodges-Lehmann) belongs to the same test.\n"
    )
    for count in comparison.counts:
        for side, outliers in (("A", count.a_outliers), ("B", count.b_outliers)):
            if outliers:
                runs = ", ".join(str(run + 1) for run in outliers)
                yield f" Note: {count.name} of {side} has outliers: run {runs}; something else may have run then.\n"
    for name, why in comparison.uncounted.items():
        yield f" Note: {name} was not counted: {why}.\n"
    yield "\n"


def render_csv(comparison: Comparison, separator: str) -> Iterator[str]:
    """A heading, then a line a counter; changes are fractions of A."""
    yield separator.join(CSV_FIELDS) + "\n"
    for count in comparison.counts:
        yield separator.join(_field(value) for value in _values(count)) + "\n"


def render_json(comparison: Comparison) -> Iterator[str]:
    """An object a counter, a line each; with every run's value."""
    import json

    for count in comparison.counts:
        fields = dict(zip(CSV_FIELDS, _values(count), strict=True))
        fields["a-values"], fields["b-values"] = list(count.a_values), list(count.b_values)
        fields["a-outliers"], fields["b-outliers"] = list(count.a_outliers), list(count.b_outliers)
        yield json.dumps(fields) + "\n"


def _values(count: ComparedCount) -> list[object]:
    change = count.change
    interval = (change.low, change.high) if change.enough else (None, None)
    return [count.name, count.unit, *_side(count.a), *_side(count.b), change.estimate, *interval, change.p, verdict(change)]


def _side(spread: Sequence[float]) -> list[float]:
    runs, middle, deviation, low, high = spread
    return [int(runs), middle, deviation, low, high]


def _field(value: object) -> str:
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def _amount(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 or value == int(value) else f"{value:.4g}"


def _relative(part: float, whole: float) -> str:
    return f"{100 * part / abs(whole):.2f}%" if whole else ""


def _percent(value: float | None) -> str:
    return f"{100 * value:+.2f}%" if value is not None else "n/a"


def box_plots(*sides: Sequence[float], width: int = _PICTURE_WIDTH) -> list[str]:
    """Each side's range, quartiles and median on one common scale: |--[==#==]--|."""
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
