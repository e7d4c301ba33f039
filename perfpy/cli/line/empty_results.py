"""Explain why filters leave no samples of a recording: the filter that matches nothing, similar names, and the recorded values.

The recording is read again by the filter's sort key, only in this case.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.cli.line.input_recording import input_hint
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from perfpy.analysis.filters import SampleFilter
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

_SHOWN: Final = 5
_SECOND: Final = 1e9


class _Condition(NamedTuple):
    """A filter: its option, the noun for its values, its field, the sort key of the recorded values, and the conversion of a row's text."""

    option: str
    noun: str
    field: str
    key: str
    value: Callable[[str], Any]


def _name(text: str) -> str:
    return text.strip()


def _function(text: str) -> str:
    return text[text.find("]") + 1 :].strip()  # after [.] or [k]


def _number(text: str) -> int:
    return int(text.split(":", maxsplit=1)[0])


_CONDITIONS: Final = (
    _Condition("--comms", "command", "comms", "comm", _name),
    _Condition("--dsos", "file", "dsos", "dso", _name),
    _Condition("--symbols", "function", "symbols", "symbol", _function),
    _Condition("--pid", "process", "pids", "tgid", _number),
    _Condition("--tid", "thread", "tids", "pid", _number),
    _Condition("--cpu", "CPU", "cpus", "cpu", _number),
)


def explain_nothing_left(recording: Recording, chosen: SampleFilter, symbols: SymbolOptions | None = None) -> str:
    """Return the reason as one line."""
    if not recording.report(by="comm").samples:
        return f"{recording.path}: no samples in this recording; `perfpy evlist -v` shows its events"
    reasons = "; ".join(_reasons(recording, chosen, symbols)) or "no sample passes all of them"
    return f"{recording.path}: the filters leave no samples: {reasons}"


def print_nothing_left(recording: Recording, chosen: SampleFilter, symbols: SymbolOptions | None = None) -> None:
    """Print the reason on stderr, also if it is no terminal."""
    sys.stdout.flush()
    print(one_line(f"perfpy: {explain_nothing_left(recording, chosen, symbols)}"), file=sys.stderr)


def _reasons(recording: Recording, chosen: SampleFilter, symbols: SymbolOptions | None) -> Iterator[str]:
    for condition in _CONDITIONS:
        values = getattr(chosen, condition.field)
        if values is None or (condition.field == "symbols" and chosen.addresses):
            continue
        recorded = _recorded_values(recording, condition, symbols)
        if recorded and not set(values) & set(recorded):
            yield _describe_unmatched(condition, values, recorded)
    if chosen.symbol_part and not any(chosen.symbol_part in name for name in _recorded_values(recording, _CONDITIONS[2], symbols)):
        yield f"no function name contains '{chosen.symbol_part}'" + input_hint(chosen.symbol_part)
    if chosen.times is None:
        return
    times = recording.times()
    if not any(start <= times.last and (not end or end >= times.first) for start, end in chosen.times.ranges):
        yield f"--time is outside the recording, which runs from {times.first / _SECOND:.6f} to {times.last / _SECOND:.6f}"


def _recorded_values(recording: Recording, condition: _Condition, symbols: SymbolOptions | None) -> list[Any]:
    """Return the recorded values, the most frequent first."""
    report = recording.report(by=condition.key, symbols=symbols)
    rows = [row for histogram in report.histograms for row in histogram.top(len(histogram.order))]
    return list(dict.fromkeys(condition.value(row.texts[condition.key]) for row in sorted(rows, key=lambda row: -row.percent)))


def _describe_unmatched(condition: _Condition, values: Collection[Any], recorded: Sequence[Any]) -> str:
    names = ", ".join(map(str, values))
    if isinstance(recorded[0], str):
        from perfpy.events.machine import nearest

        similar = list(dict.fromkeys(name_ for name in values for name_ in nearest(name, recorded)))
        if similar:
            return f"{condition.option} {names}: no {condition.noun} of this name; did you mean {', '.join(similar[:_SHOWN])}?"
    others = f" and {len(recorded) - _SHOWN:,} more" if len(recorded) > _SHOWN else ""
    return (
        f"{condition.option} {names}: no such {condition.noun} in this recording; it has {', '.join(map(str, recorded[:_SHOWN]))}{others}"
    )
