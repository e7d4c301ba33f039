"""Sentences about two recordings: the change of the total, and the rows that changed most.

Changes are compared with sampling noise alone (perfpy.analysis.differences); how much runs differ by themselves is unknown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.analysis.differences import (
    LEVEL,
    Amount,
    amount_chance,
    baseline_share,
    changed_rows,
    correct_for_many_tests,
    has_grown_or_shrunk,
    totals,
)
from perfpy.counts.comparison import HIGHER, LOWER, TOO_FEW, TOO_SMALL, runs_to_see
from perfpy.views.verdict.sentence import Sentence, beginning, function_text, join_names, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.analysis.differences import ChangedRow, Difference
    from perfpy.counts.comparison import ComparedCount, Comparison


LEAST_CHANGE: Final = 0.005  # of the total before: smaller changes are none, even if they are certain
_DEVIATIONS: Final = 1.96  # of a normal distribution: 95 % lie within
_MOST: Final = 2  # rows that are named
_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_MOST_OF_CHANGE: Final = 0.5  # of the changes in the same direction: the one function that is named
_FEW: Final = 10  # samples on a side, with which nothing is told


def change_verdict(difference: Difference, charged: Sequence[Mapping[str, tuple[int, int]]] = ()) -> list[Sentence]:
    """Return one or two sentences on the changes of one event; none if a recording does not have it.

    `charged` has the samples and the period of each function of own code in each recording, with all that is charged to it.
    """
    if any(histogram is None for histogram in difference.histograms[:2]):
        return []
    before, after = totals(difference)
    if not before.period or not before.samples:
        return []
    return [_total(difference, before, after), *([*_own_function(difference, charged)] or [*_rows(difference, before)])]


def _total(difference: Difference, before: Amount, after: Amount) -> Sentence:
    """Return the sentence about the totals."""
    noun = _noun(difference)
    change = after.period / before.period - 1
    numbers = {"change": change, "before": float(before.period), "after": float(after.period)}
    if min(before.samples, after.samples) < _FEW:
        counts = f"{before.samples} and {after.samples} samples"
        return Sentence("few samples", f"{beginning(noun)}: cannot tell, {counts} are too few.", numbers)
    if not has_grown_or_shrunk(before, after):
        text = f"{beginning(noun)}: cannot tell; a change of {percent(abs(change))} is within sampling noise."
        return Sentence("total within noise", text, numbers)
    if abs(change) < LEAST_CHANGE:
        return Sentence("total unchanged", f"Both use the same {noun}: the change is {percent(abs(change))}.", numbers)
    low, high = _interval(change, before.samples, after.samples)
    less = change < 0
    sides = sorted((abs(low), abs(high)))
    numbers |= {"low": low, "high": high}
    bounds = f"{percent(sides[0])} to {percent(sides[1])} by sampling, with 95 % confidence"
    return Sentence("total", f"After uses {percent(abs(change))} {'less' if less else 'more'} {noun} than before ({bounds}).", numbers)


def _own_function(difference: Difference, charged: Sequence[Mapping[str, tuple[int, int]]]) -> Iterator[Sentence]:
    """Yield the sentence about the function of own code whose cost, with all that it calls, explains most of the change.

    Libraries' functions that change have a caller that changed; only that can be edited.
    """
    if len(charged) != 2 or "symbol" not in {key.name for one in difference.histograms[:1] if one for key in one.layout.keys}:
        return
    old, new = charged
    before, after = totals(difference)
    amounts = {name: (Amount(*old.get(name, (0, 0))), Amount(*new.get(name, (0, 0)))) for name in {**old, **new}}
    chances = [amount_chance(*(one.samples for one in pair), baseline_share(before, after)) for pair in amounts.values()]
    certain = [name for name, is_certain in zip(amounts, (p < LEVEL for p in correct_for_many_tests(chances)), strict=True) if is_certain]
    changes = {name: amounts[name][1].period - amounts[name][0].period for name in certain}
    if not changes:
        return
    first = max(changes, key=lambda name: abs(changes[name]))
    same_way = [name for name in changes if (changes[name] > 0) == (changes[first] > 0)]
    share = abs(changes[first]) / sum(abs(changes[name]) for name in same_way)
    if abs(changes[first]) < LEAST_CHANGE * before.period or share < _MOST_OF_CHANGE:
        return
    sides = [percent(amount.period / before.period) for amount in amounts[first]]
    where = f"{function_text(first)} and the code it calls"
    text = f"Most of what costs {'more' if changes[first] > 0 else 'less'} is in {where}: from {sides[0]} to {sides[1]} of the total before"
    numbers = {"change": changes[first] / before.period, "of the changes": share}
    yield Sentence("own function", f"{text}.", numbers, {"function": first})


def _interval(change: float, before: int, after: int) -> tuple[float, float]:
    """Return the 95 % interval of a change, from the numbers of samples."""
    reach = math.exp(_DEVIATIONS * math.sqrt(1 / before + 1 / after))
    ratio = 1 + change
    return ratio / reach - 1, ratio * reach - 1


def _rows(difference: Difference, before: Amount) -> Iterator[Sentence]:
    """Yield the sentence about the rows that changed most, beyond noise."""
    rows = [row for row in changed_rows(difference) if row.by_amount and abs(row.change) >= LEAST_CHANGE * before.period]
    if not rows:
        yield Sentence("no row changed", "No function changed beyond sampling noise.", {})
        return
    rows = sorted(rows, key=lambda row: -abs(row.change))
    largest = [row for row in rows if (row.change > 0) == (rows[0].change > 0)][:_MOST]
    parts = [f"{_name(difference, row)} ({row.change / before.period:+.1%} of the total before)".replace("%", " %") for row in largest]
    numbers = {f"row {number}": row.change / before.period for number, row in enumerate(largest)}
    names = {f"row {number}": " ".join(name or "" for name in row.names) for number, row in enumerate(largest)}
    direction = "more" if rows[0].change > 0 else "less"
    yield Sentence(
        "rows", f"The largest change is in {join_names(parts)}, which {'cost' if len(parts) > 1 else 'costs'} {direction}.", numbers, names
    )


def _name(difference: Difference, row: ChangedRow) -> str:
    """Return the function of a row, or its last name."""
    base = difference.histograms[0]
    keys = [key.name for key in base.layout.keys] if base is not None else []
    names = dict(zip(keys, row.names, strict=True))
    symbol = names.get("symbol") or ""
    text = symbol[len("[.] ") :] if symbol.startswith("[") else symbol
    return function_text(text) if text and not text.startswith("0x") else " ".join(name for name in row.names if name) or "unnamed code"


def _noun(difference: Difference) -> str:
    base = difference.histograms[0]
    assert base is not None
    attr = base.leader.event.attr
    is_clock = attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS
    return "CPU time" if is_clock else "CPU cycles" if base.leader.event.name.partition(":")[0] in ("cycles", "cpu-cycles") else "events"


# Sentences about programs that were run in turns: stat --compare. They need no samples, and no numpy.


WANTED_CHANGE: Final = 0.05  # the change for which the number of runs is given
#: counters that are told, the most important first, with their names
_NAMES: Final = {
    "elapsed": "elapsed time",
    "task-clock": "CPU time",
    "cpu-clock": "CPU time",
    "user_time": "user time",
    "instructions": "instructions",
}


def comparison_verdict(comparison: Comparison, letter: str = "B") -> list[Sentence]:
    """Return the sentence about one program compared with the first: the differences, and the undecided counts."""
    counts = [count for name in _NAMES for count in comparison.counts if count.name.partition(":")[0] == name]
    count_of = {_NAMES[count.name.partition(":")[0]]: count for count in reversed(counts)}
    ordered = [*count_of.items()][::-1][:2]
    certain = [(noun, count) for noun, count in ordered if count.verdict in (HIGHER, LOWER)]
    same = [(noun, count) for noun, count in ordered if count.verdict == TOO_SMALL]
    unclear = [(noun, count) for noun, count in ordered if count.verdict not in (HIGHER, LOWER, TOO_SMALL)]
    differences = [_difference(noun, count, letter if not number else "") for number, (noun, count) in enumerate(certain)]
    confidence = f", with {comparison.confidence * 100:g} % confidence"
    parts = [f"{' and '.join(differences)}{confidence}"] if differences else []
    start = f"{letter} differs from A by less than {percent(comparison.least_change)} in " if not parts else "the same "
    parts += [f"{start}{join_names([noun for noun, _ in same])}"] if same else []
    parts += [_cannot_tell(comparison, [noun for noun, _ in unclear], unclear[0][1], is_first=not parts)] if unclear else []
    numbers = {noun: count.change.estimate or 0.0 for noun, count in certain}
    return [Sentence("comparison", f"{'; '.join(parts)}.", numbers)] if parts else []


def _difference(noun: str, count: ComparedCount, letter: str) -> str:
    """Return the difference in one counter; letter: of the program, "" if it was named before."""
    change = count.change
    verb, more = (("takes", "longer") if count.verdict == HIGHER else ("takes", "less time")) if noun == "elapsed time" else (
        "uses", f"{'more' if count.verdict == HIGHER else 'less'} {noun}"
    )  # fmt: skip
    begin, end = (f"{letter} {verb}", " than A") if letter else (verb, "")
    if change.estimate is None or change.low is None or change.high is None:
        return f"{begin} {more}{end}"
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{begin} {percent(abs(change.estimate))} {more}{end} ({percent(low)} to {percent(high)})"


def _cannot_tell(comparison: Comparison, nouns: Sequence[str], count: ComparedCount, *, is_first: bool) -> str:
    subject = join_names(nouns)
    text = f"{beginning(subject) if is_first else subject}: cannot tell"
    if count.verdict == TOO_FEW:
        return f"{text} from {count.a.runs} and {count.b.runs} runs"
    runs = runs_to_see(WANTED_CHANGE, count.a_values, count.b_values, comparison.confidence, of=len(comparison.counts))
    return f"{text} ({runs:,} runs would, for a change of {percent(WANTED_CHANGE)})" if runs else text
