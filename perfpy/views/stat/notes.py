"""Notes below the table of counts on a terminal: why counts are missing, and which are unreliable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.counts.spread import deviation, fences, mean, relative_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.counts.tally import Tally

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
