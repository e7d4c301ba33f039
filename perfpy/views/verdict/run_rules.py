"""Sentences about programs that were run in turns: stat --compare. They need no samples, and no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.counts.comparison import HIGHER, LOWER, TOO_FEW, TOO_SMALL
from perfpy.counts.significance import runs_to_see
from perfpy.views.verdict.sentence import Sentence, beginning, join_names, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.counts.comparison import ComparedCount, Comparison

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
